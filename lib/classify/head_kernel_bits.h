// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What the sets with AVX2, BMI and POPCNT have in common beside head_kernel.h, and included as that is: by
/// the head_scan_*.cc alone, in the region where such a set is in force.
#pragma once

#include <immintrin.h>

#include "classify/head_scan.h"
#include "classify/scan_set.h"

namespace weir {
namespace {

struct InBits {
  template <typename Position>
  [[gnu::always_inline]] static Position* append(Position* to, std::uint32_t at,
                                                 std::uint64_t mask) noexcept {
    const auto count = static_cast<unsigned>(_mm_popcnt_u64(mask));
    const auto next = [&mask]() __attribute__((always_inline)) {
      const std::uint64_t position = _tzcnt_u64(mask);  // 64 where there is none
      mask = _blsr_u64(mask);
      return position;
    };
    // A window seldom has more than three lines; as many are written always, without a branch on how many.
    if constexpr (sizeof(Position) == 2) {
      // In one word: what one of them hands on to the next is of a number that means nothing, as is the next.
      std::uint64_t first = at * 0x0001'0001'0001U;
      first += next();
      first += next() << 16;
      first += next() << 32;
      __builtin_memcpy(to, &first, sizeof first);
    } else {
      for (unsigned i = 0; i < 3; ++i) to[i] = static_cast<Position>(at + next());
    }
    if (count > 3) [[unlikely]]
      for (unsigned i = 3; i < count; ++i) to[i] = static_cast<Position>(at + next());
    return to + count;
  }

  class Lines {
   public:
    static constexpr std::size_t count = 4;
    Lines(const char* data, const std::uint16_t* ends) noexcept
        : words_(_mm256_setr_epi64x(word(data, ends[0]), word(data, ends[1]), word(data, ends[2]),
                                    word(data, ends[3]))) {}
    std::uint32_t beginning_with(std::uint64_t want, std::uint64_t fold, std::uint64_t care) const noexcept {
      const __m256i folded =
          _mm256_and_si256(_mm256_or_si256(words_, _mm256_set1_epi64x(static_cast<long long>(fold))),
                           _mm256_set1_epi64x(static_cast<long long>(care)));
      const __m256i equal = _mm256_cmpeq_epi64(folded, _mm256_set1_epi64x(static_cast<long long>(want)));
      return static_cast<std::uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(equal)));
    }

   private:
    static long long word(const char* data, std::size_t end) noexcept {
      return static_cast<long long>(word_at(data + end + 1));
    }

    __m256i words_;
  };

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

}  // namespace
}  // namespace weir
