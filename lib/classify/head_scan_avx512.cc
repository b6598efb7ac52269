// SPDX-License-Identifier: BSD-3-Clause
#include "classify/head_scan.h"

#if defined(__x86_64__)

// GCC 12 takes the vectors that its own header leaves undefined, for results that replace them whole, for a
// mistake (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <cstddef>
#include <cstdint>

// From here on, and not by a flag for the whole file: what the headers above define stays code for every
// machine.
#if defined(__clang__)
#pragma clang attribute push(                                                                           \
    __attribute__((                                                                                     \
        target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi2,avx2,bmi,bmi2,lzcnt,popcnt"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi2,avx2,bmi,bmi2,lzcnt,popcnt")
#endif

#include "classify/fields_kernel.h"
#include "classify/head_kernel.h"
#include "classify/head_kernel_bits.h"
#include "classify/request_line_kernel.h"
#include "classify/text_hash_kernel.h"

namespace weir {
namespace {

/// 64 bytes. What is not there is not read, and zero.
class Bytes {
 public:
  static constexpr std::size_t least = 1;
  static constexpr std::size_t most = 63;
  static bool holds(std::size_t size, std::size_t) noexcept { return size <= most; }

  explicit Bytes(const char* data) noexcept : bytes_(_mm512_loadu_si512(data)) {}
  /// @pre size < 64
  Bytes(const char* data, std::size_t size) noexcept
      : bytes_(_mm512_maskz_loadu_epi8(bits_below(size), data)) {}

  std::uint64_t equal(char byte) const noexcept { return equal_in(byte); }
  std::uint64_t either(char a, char b) const noexcept { return equal_in(a) | equal_in(b); }
  std::uint64_t any(char a, char b, char c) const noexcept {
    return _kor_mask64(_kor_mask64(equal_in(a), equal_in(b)), equal_in(c));
  }
  std::uint64_t not_of_target() const noexcept {
    return _kor_mask64(_mm512_cmple_epu8_mask(bytes_, all_of(0x20)), equal_in(0x7f));
  }
  std::uint64_t capitals() const noexcept {
    return _mm512_cmple_epu8_mask(_mm512_sub_epi8(bytes_, _mm512_set1_epi8('A')),
                                  _mm512_set1_epi8('Z' - 'A'));
  }
  std::uint64_t not_of_host() const noexcept {
    // '@', 'A' to 'Z' and '[' stand side by side.
    return _mm512_cmple_epu8_mask(_mm512_sub_epi8(bytes_, _mm512_set1_epi8('@')),
                                  _mm512_set1_epi8('[' - '@'));
  }

 private:
  // Loaded, and only four bytes of it: or else GCC builds it anew for each use, in two instructions.
  static __m512i all_of(char byte) noexcept {
    return _mm512_set1_epi32(static_cast<int>(byte_four_times[static_cast<unsigned char>(byte)]));
  }
  __mmask64 equal_in(char byte) const noexcept { return _mm512_cmpeq_epi8_mask(bytes_, all_of(byte)); }

  __m512i bytes_;
};

/// See scan_set.h.
class EmptyLines {
 public:
  EmptyLines() noexcept : newline_(_mm512_set1_epi8('\n')), return_(_mm512_set1_epi8('\r')) {
    asm("" : "+v"(newline_), "+v"(return_));  // what they hold is from here on not to be made again
  }
  [[gnu::always_inline]] bool between(const char* data, const char* last_window) const noexcept {
    __mmask64 found = in_window(last_window);
    for (; data < last_window; data += window_size) found = _kor_mask64(found, in_window(data));
    return found != 0;
  }

 private:
  [[gnu::always_inline]] __mmask64 in_window(const char* data) const noexcept {
    const __mmask64 ends = _mm512_cmpeq_epi8_mask(newline_, _mm512_loadu_si512(data));
    return _mm512_mask_cmpge_epu8_mask(ends, return_, _mm512_loadu_si512(data + 1));
  }

  __m512i newline_;
  __m512i return_;
};

/// See text_hash_kernel.h.
class TextHash {
 public:
  /// Masks of the bytes that are there.
  static __m256i pieces_of(__m256i sizes) noexcept {
    const __m256i ones = _mm256_set1_epi32(-1);
    return _mm256_xor_si256(_mm256_sllv_epi32(ones, sizes), ones);
  }

  [[gnu::always_inline]] static __m256i part(const char* data, std::size_t size, std::size_t) noexcept {
    return _mm256_maskz_loadu_epi8(_bzhi_u32(~0U, static_cast<unsigned>(size)), data);
  }

  [[gnu::always_inline]] static void add_first(const TextPlaces& places, std::size_t at, std::size_t count,
                                               const KeyHash::Words& words, TextBlock& block) noexcept {
    static_assert(TextKeys::most == 8);
    const char* const* const payloads = places.payloads + at;
    switch (count) {
      case 1:
        return add_texts<1>(payloads, words, block);
      case 2:
        return add_texts<2>(payloads, words, block);
      case 3:
        return add_texts<3>(payloads, words, block);
      case 4:
        return add_texts<4>(payloads, words, block);
      case 5:
        return add_texts<5>(payloads, words, block);
      case 6:
        return add_texts<6>(payloads, words, block);
      case 7:
        return add_texts<7>(payloads, words, block);
      default:
        return add_texts<8>(payloads, words, block);
    }
  }

  /// The multilinear step, of eight requests at once.
  class Finish {
   public:
    Finish(const KeyHash::Words& words, std::uint64_t tweak) noexcept : words_(words) {
      // The rule's part of z is the same for all.
      __extension__ using Uint128 = unsigned __int128;
      const auto whole = [](const KeyHash::Words::Wide& wide) {
        return static_cast<Uint128>(wide.high) << 64 | wide.low;
      };
      start_ = whole(words.start) + whole(words.of_z) * (tweak << 16);
    }

    [[gnu::always_inline]] void all_of(const TextBlock& block, std::size_t count,
                                       std::uint64_t* hashes) const noexcept {
      Sum sum{all_of(static_cast<std::uint64_t>(start_)), all_of(static_cast<std::uint64_t>(start_ >> 64))};
      sum.add(_mm512_load_si512(block.x), words_.of_x);
      sum.add(_mm512_load_si512(block.y), words_.of_y);
      sum.add_short(wide(block.key_sizes), words_.of_z);
      if (count > 2)
        sum.add(wide(block.shapes[0]), wide(block.shapes[1]), words_.of_shape_low);
      else
        sum.add_short(wide(block.shapes[0]), words_.of_shape_low);
      if (count > 4) sum.add(wide(block.shapes[2]), wide(block.shapes[3]), words_.of_shape_high);
      __m512i value = sum.high;
      value = _mm512_xor_si512(value, _mm512_srli_epi64(value, 32));
      value = _mm512_mullo_epi64(value, all_of(words_.last));
      value = _mm512_xor_si512(value, _mm512_srli_epi64(value, 32));
      _mm512_storeu_si512(hashes, value);
    }

   private:
    static __m512i all_of(std::uint64_t word) noexcept {
      return _mm512_set1_epi64(static_cast<long long>(word));
    }
    static __m512i wide(const std::uint32_t* words) noexcept {
      return _mm512_cvtepu32_epi64(load_vector(words));
    }

    /// Modulo 2^128, of which the upper half is wanted: all products' upper halves, and what the lower ones
    /// carry.
    struct Sum {
      __m512i low;
      __m512i high;

      [[gnu::always_inline]] void add(__m512i word, const KeyHash::Words::Wide& key) noexcept {
        add_halves(word, _mm512_srli_epi64(word, 32), word, key);
      }
      /// The halves of each word by themselves.
      [[gnu::always_inline]] void add(__m512i lower, __m512i upper,
                                      const KeyHash::Words::Wide& key) noexcept {
        add_halves(lower, upper, _mm512_or_si512(lower, _mm512_slli_epi64(upper, 32)), key);
      }
      /// Words of 32 bits.
      [[gnu::always_inline]] void add_short(__m512i word, const KeyHash::Words::Wide& key) noexcept {
        const __m512i first = _mm512_srli_epi64(_mm512_mul_epu32(word, all_of(key.low)), 32);
        const __m512i second = _mm512_mul_epu32(word, all_of(key.low >> 32));
        add_product(_mm512_srli_epi64(_mm512_add_epi64(first, second), 32), word, key);
      }

     private:
      [[gnu::always_inline]] void add_halves(__m512i lower, __m512i upper, __m512i word,
                                             const KeyHash::Words::Wide& key) noexcept {
        const __m512i key_lower = all_of(key.low);
        const __m512i key_upper = all_of(key.low >> 32);
        // None of these sums reaches 2^64.
        const __m512i first = _mm512_add_epi64(_mm512_mul_epu32(upper, key_lower),
                                               _mm512_srli_epi64(_mm512_mul_epu32(lower, key_lower), 32));
        const __m512i second =
            _mm512_add_epi64(_mm512_mul_epu32(lower, key_upper), _mm512_and_si512(first, all_of(0xffffffff)));
        add_product(
            _mm512_add_epi64(_mm512_mul_epu32(upper, key_upper),
                             _mm512_add_epi64(_mm512_srli_epi64(first, 32), _mm512_srli_epi64(second, 32))),
            word, key);
      }
      /// @param upper  half of the product of the word and the key's lower half
      [[gnu::always_inline]] void add_product(__m512i upper, __m512i word,
                                              const KeyHash::Words::Wide& key) noexcept {
        const __m512i lower = _mm512_mullo_epi64(word, all_of(key.low));
        low = _mm512_add_epi64(low, lower);
        const __mmask8 carried = _mm512_cmplt_epu64_mask(low, lower);
        upper = _mm512_add_epi64(upper, _mm512_mullo_epi64(word, all_of(key.high)));
        high = _mm512_add_epi64(high, upper);
        high = _mm512_mask_sub_epi64(high, carried, high, _mm512_set1_epi64(-1));
      }
    };

    const KeyHash::Words& words_;
    __extension__ unsigned __int128 start_;
  };

 private:
  static constexpr std::size_t piece = KeyHash::Words::piece;

  [[gnu::always_inline]] static __m512i products(__m512i words, __m512i key) noexcept {
    const __m512i sums = _mm512_add_epi32(words, key);
    return _mm512_mul_epu32(sums, _mm512_srli_epi64(sums, 32));
  }
  [[gnu::always_inline]] static __m256i first_piece(const char* payload, const TextBlock& block,
                                                    std::size_t text, std::size_t request) noexcept {
    return _mm256_maskz_loadu_epi8(block.pieces[text][request], payload + block.begins[text][request]);
  }

  /// Two texts of a request side by side, and the key's words of both; where there is one more text, zeros
  /// beside it.
  template <std::size_t count>
  [[gnu::noinline]] static void add_texts(const char* const* payloads, const KeyHash::Words& words,
                                          TextBlock& block) noexcept {
    constexpr std::size_t pairs = (count + 1) / 2;
    constexpr __mmask8 lower_half = 0x0f;
    __m512i keys_of_x[pairs];
    __m512i keys_of_y[pairs];
    for (std::size_t i = 0; i < pairs; ++i) {
      const __mmask8 there = 2 * i + 1 < count ? 0xff : lower_half;
      const char* const key = words.inner + 2 * i * piece;
      keys_of_x[i] = _mm512_maskz_loadu_epi64(there, key);
      keys_of_y[i] = _mm512_maskz_loadu_epi64(there, key + KeyHash::Words::shift);
    }
    // Of each request the sums of words two apart: x, y, x, y and so on.
    const auto sum_of = [&](std::size_t k) __attribute__((always_inline)) {
      const char* const payload = payloads[k];
      __m512i x;
      __m512i y;
#pragma GCC unroll 4
      for (std::size_t i = 0; i < pairs; ++i) {
        __m512i texts = _mm512_zextsi256_si512(first_piece(payload, block, 2 * i, k));
        if (2 * i + 1 < count)
          texts = _mm512_inserti64x4(texts, first_piece(payload, block, 2 * i + 1, k), 1);
        const __m512i of_x = products(texts, keys_of_x[i]);
        const __m512i of_y = products(texts, keys_of_y[i]);
        x = i == 0 ? of_x : _mm512_add_epi64(x, of_x);
        y = i == 0 ? of_y : _mm512_add_epi64(y, of_y);
      }
      return pairs_of(x, y);
    };
    // Of two requests: the sums' halves, one request's beside the other's.
    __m512i two[TextBlock::requests / 2];
    if (block.count != TextBlock::requests) {
      __m512i sums[TextBlock::requests];
      for (std::size_t k = 0; k < block.count; ++k) sums[k] = sum_of(k);
      for (std::size_t i = 0; i < TextBlock::requests / 2; ++i) two[i] = halves(sums[2 * i], sums[2 * i + 1]);
    } else if constexpr (count == 1) {
      // Their only texts side by side.
      const __m512i key_of_x = _mm512_broadcast_i64x4(_mm512_castsi512_si256(keys_of_x[0]));
      const __m512i key_of_y = _mm512_broadcast_i64x4(_mm512_castsi512_si256(keys_of_y[0]));
#pragma GCC unroll 4
      for (std::size_t i = 0; i < TextBlock::requests / 2; ++i) {
        const __m512i texts =
            _mm512_inserti64x4(_mm512_zextsi256_si512(first_piece(payloads[2 * i], block, 0, 2 * i)),
                               first_piece(payloads[2 * i + 1], block, 0, 2 * i + 1), 1);
        two[i] = pairs_of(products(texts, key_of_x), products(texts, key_of_y));
      }
    } else {
#pragma GCC unroll 4
      for (std::size_t i = 0; i < TextBlock::requests / 2; ++i)
        two[i] = halves(sum_of(2 * i), sum_of(2 * i + 1));
    }
    // The rest of each sum, of four requests in one vector, then of all.
    __m512i four[2];
    for (std::size_t i = 0; i < 2; ++i)
      four[i] = _mm512_add_epi64(_mm512_shuffle_i64x2(two[2 * i], two[2 * i + 1], 0x88),
                                 _mm512_shuffle_i64x2(two[2 * i], two[2 * i + 1], 0xdd));
    const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    const __m512i odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    _mm512_store_si512(block.x, _mm512_permutex2var_epi64(four[0], even, four[1]));
    _mm512_store_si512(block.y, _mm512_permutex2var_epi64(four[0], odd, four[1]));
  }
  /// Of each 128 bits the sum of x and the sum of y.
  [[gnu::always_inline]] static __m512i pairs_of(__m512i x, __m512i y) noexcept {
    return _mm512_add_epi64(_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y));
  }
  /// Of each the sum of its halves, side by side.
  [[gnu::always_inline]] static __m512i halves(__m512i a, __m512i b) noexcept {
    return _mm512_add_epi64(_mm512_shuffle_i64x2(a, b, 0x44), _mm512_shuffle_i64x2(a, b, 0xee));
  }
};

/// See scan_set.h. Where line ends are words of 16 bits, all of a window by one instruction.
struct Append {
  template <typename Position>
  [[gnu::always_inline]] static Position* append(Position* to, std::uint32_t at,
                                                 std::uint64_t mask) noexcept {
    if constexpr (sizeof(Position) != sizeof(std::uint16_t)) {
      return InBits::append(to, at, mask);
    } else {
      constexpr int most = 16;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                          _mm256_add_epi16(numbers_of_bits(mask), _mm256_set1_epi16(static_cast<short>(at))));
      const auto count = static_cast<int>(_mm_popcnt_u64(mask));
      if (count > most) [[unlikely]]
        InBits::append(to + most, at, mask & ~_pdep_u64(bits_below(most), mask));
      return to + count;
    }
  }
};

struct Avx512 : InBits, TextHash {
  template <typename Position>
  [[gnu::always_inline]] static Position* append(Position* to, std::uint32_t at,
                                                 std::uint64_t mask) noexcept {
    return Append::append(to, at, mask);
  }
  // Compilers do this by themselves, but GCC 12 forgets it where a function it calls leaves registers alone;
  // the next instruction of the old encoding then waits a hundred cycles.
  static void leave() noexcept { _mm256_zeroupper(); }
  using Whole = Bytes;
  using Part = Bytes;
  using Short = Bytes;
  using Front = Bytes;
  using Byte = char;
  using EmptyLines = weir::EmptyLines;
  using Fields = weir::Fields;
  using RequestLines = weir::RequestLines;
};

}  // namespace

constinit const Scans scans_avx512 = scans_with<Avx512>(Entry<Avx512, hash_texts<Avx512>>::call);

}  // namespace weir

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
