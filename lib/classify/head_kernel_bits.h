// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What the sets with AVX2, BMI and POPCNT have in common beside head_kernel.h, and included as that is: by
/// the head_scan_*.cc alone, in the region where such a set is in force.
#pragma once

#include <immintrin.h>

#include "base/key_hash.h"
#include "classify/head_scan.h"

namespace weir {
namespace {

struct InBits {
  [[gnu::always_inline]] static std::uint32_t* append(std::uint32_t* to, std::uint32_t at,
                                                      std::uint64_t mask) noexcept {
    const auto count = static_cast<unsigned>(_mm_popcnt_u64(mask));
    const auto put = [&](unsigned i) __attribute__((always_inline)) {
      to[i] = at + static_cast<std::uint32_t>(_tzcnt_u64(mask));  // 64 where there is none
      mask = _blsr_u64(mask);
    };
    // A window seldom has more than three lines; as many are written always, without a branch on how many.
    put(0);
    put(1);
    put(2);
    if (count > 3) [[unlikely]]
      for (unsigned i = 3; i < count; ++i) put(i);
    return to + count;
  }

  static constexpr std::size_t names_at_once = 4;
  template <bool few>
  class Names {
   public:
    explicit Names(const SoughtFields& sought) noexcept
        : sought_(sought),
          want_(load(sought.want, 0)),
          fold_(load(sought.fold, 0)),
          care_(load(sought.care, 0)) {}

    std::uint32_t beginning_with(std::uint64_t word) const noexcept {
      const __m256i words = _mm256_set1_epi64x(static_cast<long long>(word));
      std::uint32_t fields = equal(words, want_, fold_, care_);
      if constexpr (!few) {
        for (std::size_t i = names_at_once; i < sought_.field_count; i += names_at_once)
          fields |= equal(words, load(sought_.want, i), load(sought_.fold, i), load(sought_.care, i)) << i;
      }
      return fields;
    }

   private:
    static __m256i load(const std::array<std::uint64_t, SoughtFields::max_fields>& words,
                        std::size_t at) noexcept {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(&words[at]));
    }
    static std::uint32_t equal(__m256i words, __m256i want, __m256i fold, __m256i care) noexcept {
      const __m256i folded = _mm256_and_si256(_mm256_or_si256(words, fold), care);
      return static_cast<std::uint32_t>(
          _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(folded, want))));
    }

    const SoughtFields& sought_;
    __m256i want_;
    __m256i fold_;
    __m256i care_;
  };
};

/// The sums of KeyHash over pieces of 32 bytes: those of the words at bytes 0, 8, 16 and 24 side by side.
/// @tparam Part  has part(data, size, readable): the first `size` of 32 bytes, zeros behind them; of what is
/// there
///               `readable` bytes may be read
template <typename Part>
class WideSums : public Part {
 public:
  // Declared, since what the compiler makes by itself is for the baseline.
  WideSums() noexcept : x_(_mm256_setzero_si256()), y_(_mm256_setzero_si256()) {}

  static __m256i whole(const char* data) noexcept {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
  }
  [[gnu::always_inline]] void add(__m256i words, const char* key) noexcept {
    x_ = _mm256_add_epi64(x_, products(words, key));
    y_ = _mm256_add_epi64(y_, products(words, key + KeyHash::Words::shift));
  }
  [[gnu::always_inline]] void get(std::uint64_t& x, std::uint64_t& y) const noexcept {
    const __m256i pairs = _mm256_add_epi64(_mm256_unpacklo_epi64(x_, y_), _mm256_unpackhi_epi64(x_, y_));
    const __m128i both = _mm_add_epi64(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    x = static_cast<std::uint64_t>(_mm_cvtsi128_si64(both));
    y = static_cast<std::uint64_t>(_mm_extract_epi64(both, 1));
  }

 private:
  [[gnu::always_inline]] static __m256i products(__m256i words, const char* key) noexcept {
    const __m256i sums = _mm256_add_epi32(words, whole(key));
    return _mm256_mul_epu32(sums, _mm256_srli_epi64(sums, 32));
  }

  __m256i x_;
  __m256i y_;
};

}  // namespace
}  // namespace weir
