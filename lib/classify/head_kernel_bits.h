// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What the sets with AVX2, BMI and POPCNT have in common beside head_kernel.h, and included as that is: by
/// the head_scan_*.cc alone, in the region where such a set is in force.
#pragma once

#include <immintrin.h>

#include "base/key_hash.h"
#include "classify/head_kernel.h"
#include "classify/head_scan.h"

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

/// The texts of one request's key, the last one of the key first.
struct KeyTexts {
  KeyTexts() noexcept {}
  /// @param values  a PlainHead's
  void set(const PlainHead::Value* values, const TextKeys& keys) noexcept {
    static_assert(sizeof(PlainHead::Value) == 4 && sizeof(__m256i) == 4 * TextKeys::most);
    const __m256i picked = _mm256_permutevar8x32_epi32(_mm256_loadu_si256(vector(values)),
                                                       _mm256_loadu_si256(vector(keys.values.data())));
    const __m256i first = _mm256_and_si256(picked, _mm256_set1_epi32(0xffff));
    const __m256i last = _mm256_srli_epi32(picked, 16);
    const __m256i there = _mm256_andnot_si256(_mm256_cmpeq_epi32(last, _mm256_setzero_si256()),
                                              _mm256_loadu_si256(vector(keys.wanted.data())));
    const __m256i sizes = _mm256_and_si256(_mm256_sub_epi32(last, first), there);
    const __m256i tags = _mm256_and_si256(_mm256_set1_epi32(key_form::text), there);
    const __m256i both = _mm256_or_si256(_mm256_slli_epi32(sizes, 8), tags);
    _mm256_store_si256(reinterpret_cast<__m256i*>(begins), first);
    _mm256_store_si256(reinterpret_cast<__m256i*>(shapes), both);
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    shape_low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(words));
    shape_high = static_cast<std::uint64_t>(_mm_extract_epi64(words, 1));
    // Of a text that is there, its size and two more; of all others a byte. The tag is one of them.
    static_assert(key_form::text == 1);
    const __m128i sums = _mm_sad_epu8(words, _mm_setzero_si128());
    key_size = keys.count + static_cast<std::size_t>(_mm_cvtsi128_si64(sums) + _mm_extract_epi64(sums, 1));
    static_assert((max_value_bytes & (max_value_bytes - 1)) == 0);
    constexpr int beyond = -static_cast<int>(max_value_bytes);
    too_long = _mm256_testz_si256(sizes, _mm256_set1_epi32(beyond)) == 0;
  }

  alignas(32) std::uint32_t begins[TextKeys::most];
  alignas(32) std::uint32_t shapes[TextKeys::most];  ///< size and tag, as KeyHash has them; 0: absent
  std::uint64_t shape_low;
  std::uint64_t shape_high;
  std::size_t key_size;
  /// A text is longer than the longest that is kept as it is, or as long: then the rest means nothing.
  bool too_long;

 private:
  static const __m256i* vector(const void* words) noexcept { return static_cast<const __m256i*>(words); }
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
