// SPDX-License-Identifier: BSD-3-Clause
#include "classify/head_scan.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// From here on, and not by a flag for the whole file: what the headers above define stays code for every
// machine.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,lzcnt,popcnt")
#endif

#include "classify/head_kernel.h"
#include "classify/head_kernel_bits.h"
#include "classify/text_hash_kernel.h"

namespace weir {
namespace {

/// One byte, 32 times, loaded: or else GCC builds it anew for each use, in three instructions.
inline __m256i all_of(char byte) noexcept {
  return _mm256_set1_epi32(static_cast<int>(byte_four_times[static_cast<unsigned char>(byte)]));
}

/// The same, kept in a register for a loop.
class Byte {
 public:
  explicit Byte(char byte) noexcept : bytes_(all_of(byte)) {
    asm("" : "+x"(bytes_));  // what it holds is from here on not to be made again
  }
  __m256i bytes() const noexcept { return bytes_; }

 private:
  __m256i bytes_;
};

/// 32 bytes.
class Half {
 public:
  explicit Half(const char* data) noexcept
      : bytes_(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(data))) {}
  static Half of_16(const char* data) noexcept {
    return Half(_mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data))));
  }
  static Half of_word(std::uint64_t word) noexcept {
    return Half(_mm256_zextsi128_si256(_mm_cvtsi64_si128(static_cast<long long>(word))));
  }

  /// @param count  0 to 8; the other words are zero and not read
  static Half of_words(const char* data, std::size_t count) noexcept {
    const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i wanted = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), number);
    return Half(_mm256_maskload_epi32(reinterpret_cast<const int*>(data), wanted));
  }

  std::uint64_t equal(char byte) const noexcept { return mask(_mm256_cmpeq_epi8(bytes_, all_of(byte))); }
  std::uint64_t equal(Byte byte) const noexcept { return mask(_mm256_cmpeq_epi8(bytes_, byte.bytes())); }
  std::uint64_t either(char a, char b) const noexcept {
    return mask(_mm256_or_si256(_mm256_cmpeq_epi8(bytes_, all_of(a)), _mm256_cmpeq_epi8(bytes_, all_of(b))));
  }
  std::uint64_t any(char a, char b, char c) const noexcept {
    return mask(_mm256_or_si256(
        _mm256_cmpeq_epi8(bytes_, all_of(c)),
        _mm256_or_si256(_mm256_cmpeq_epi8(bytes_, all_of(a)), _mm256_cmpeq_epi8(bytes_, all_of(b)))));
  }
  std::uint64_t not_of_target() const noexcept {
    return mask(_mm256_or_si256(at_most(bytes_, 0x20), _mm256_cmpeq_epi8(bytes_, all_of(0x7f))));
  }
  std::uint64_t capitals() const noexcept {
    return mask(at_most(_mm256_sub_epi8(bytes_, all_of('A')), 'Z' - 'A'));
  }
  std::uint64_t not_of_host() const noexcept {
    // '@', 'A' to 'Z' and '[' stand side by side.
    return mask(at_most(_mm256_sub_epi8(bytes_, all_of('@')), '[' - '@'));
  }
  /// @param word  replaces the last four bytes
  Half with_last(std::uint32_t word) const noexcept {
    return Half(_mm256_blend_epi32(bytes_, _mm256_set1_epi32(static_cast<int>(word)), 0x80));
  }

 private:
  explicit Half(__m256i bytes) noexcept : bytes_(bytes) {}
  static __m256i at_most(__m256i bytes, char most) noexcept {
    return _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, all_of(most)), bytes);
  }
  static std::uint64_t mask(__m256i bytes) noexcept {
    return static_cast<std::uint32_t>(_mm256_movemask_epi8(bytes));
  }

  __m256i bytes_;
};

/// 1 to 63 bytes without a branch on how many, as that is what a predictor cannot learn: as many words of 32
/// bits as fit, by loads that leave out the others, and the last four bytes once more.
class Words {
 public:
  Words(const char* data, std::size_t size) noexcept
      : words_(size / word * word),
        last_at_(size >= word ? size - word : 0),
        low_(Half::of_words(data, words_ / word)),
        high_(Half::of_words(data + (size > half ? half : 0), size > half ? (words_ - half) / word : 0)),
        last_(Half::of_word(size >= word ? last_word(data + last_at_) : short_word(data, size))) {}

  std::uint64_t equal(char byte) const noexcept {
    return join(low_.equal(byte), high_.equal(byte), last_.equal(byte));
  }
  std::uint64_t either(char a, char b) const noexcept {
    return join(low_.either(a, b), high_.either(a, b), last_.either(a, b));
  }
  std::uint64_t any(char a, char b, char c) const noexcept {
    return join(low_.any(a, b, c), high_.any(a, b, c), last_.any(a, b, c));
  }
  std::uint64_t not_of_target() const noexcept {
    return join(low_.not_of_target(), high_.not_of_target(), last_.not_of_target());
  }
  std::uint64_t capitals() const noexcept {
    return join(low_.capitals(), high_.capitals(), last_.capitals());
  }
  std::uint64_t not_of_host() const noexcept {
    return join(low_.not_of_host(), high_.not_of_host(), last_.not_of_host());
  }

 private:
  static constexpr std::size_t word = 4;
  static constexpr std::size_t half = 32;

  static std::uint64_t last_word(const char* data) noexcept {
    std::uint32_t bytes;
    __builtin_memcpy(&bytes, data, sizeof bytes);
    return bytes;
  }
  std::uint64_t join(std::uint64_t low, std::uint64_t high, std::uint64_t last) const noexcept {
    return ((low | high << half) & bits_below(words_)) | last << last_at_;
  }

  std::size_t words_;  // bytes that are in whole words
  std::size_t last_at_;
  Half low_;
  Half high_;
  Half last_;
};

/// The same of 4 to 31 bytes, in one vector: seven words at most, and the last four bytes in the eighth.
class ShortWords {
 public:
  static constexpr std::size_t least = 4;
  static constexpr std::size_t most = 31;

  ShortWords(const char* data, std::size_t size) noexcept
      : size_(size), bytes_(Half::of_words(data, size / word).with_last(last_word(data + size - word))) {}

  std::uint64_t equal(char byte) const noexcept { return join(bytes_.equal(byte)); }
  std::uint64_t not_of_host() const noexcept { return join(bytes_.not_of_host()); }

 private:
  static constexpr std::size_t word = 4;

  std::uint64_t join(std::uint64_t mask) const noexcept {
    return (mask & bits_below(size_ / word * word)) | mask >> 28 << (size_ - word);
  }
  static std::uint32_t last_word(const char* data) noexcept {
    std::uint32_t bytes;
    __builtin_memcpy(&bytes, data, sizeof bytes);
    return bytes;
  }

  std::size_t size_;
  Half bytes_;
};

/// See scan_set.h.
class EmptyLines {
 public:
  EmptyLines() noexcept {}
  [[gnu::always_inline]] bool between(const char* data, const char* last_window) const noexcept {
    __m256i found = in_window(last_window);
    for (; data < last_window; data += window_size) found = _mm256_or_si256(found, in_window(data));
    return _mm256_testz_si256(found, found) == 0;
  }

 private:
  [[gnu::always_inline]] __m256i in_window(const char* data) const noexcept {
    return _mm256_or_si256(in_half(data), in_half(data + 32));
  }
  [[gnu::always_inline]] __m256i in_half(const char* data) const noexcept {
    const __m256i ends = _mm256_cmpeq_epi8(newline_.bytes(), load(data));
    return _mm256_and_si256(ends, _mm256_cmpgt_epi8(behind_return_.bytes(), load(data + 1)));
  }
  static __m256i load(const char* data) noexcept {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
  }

  Byte newline_{'\n'};
  Byte behind_return_{'\r' + 1};
};

/// See text_hash_kernel.h.
class TextHash {
 public:
  /// Where the mask stands that leaves so much of a piece.
  static __m256i pieces_of(__m256i sizes) noexcept {
    const __m256i whole = _mm256_set1_epi32(piece);
    return _mm256_sub_epi32(whole, _mm256_min_epi32(sizes, whole));
  }

  [[gnu::always_inline]] static __m256i part(const char* data, std::size_t size,
                                             std::size_t readable) noexcept {
    char copied[piece];
    if (readable < piece) [[unlikely]] {
      copy(data, size, copied);
      data = copied;
    }
    return masked(data, piece - size);
  }

  [[gnu::always_inline]] static void add_first(const TextPlaces& places, std::size_t at, std::size_t count,
                                               const KeyHash::Words& words, TextBlock& block) noexcept {
    if (!block.near_end) [[likely]]
      add_pieces<false>(places, at, count, words, block);
    else
      add_pieces<true>(places, at, count, words, block);
  }

  class Finish {
   public:
    Finish(const KeyHash::Words& words, std::uint64_t tweak) noexcept : words_(words), tweak_(tweak << 16) {}
    [[gnu::always_inline]] void all_of(const TextBlock& block, std::size_t count,
                                       std::uint64_t* hashes) const noexcept {
      const auto shape = [&](std::size_t at, std::size_t i) {
        return block.shapes[at][i] | std::uint64_t{block.shapes[at + 1][i]} << 32;
      };
      for (std::size_t i = 0; i < block.count; ++i)
        hashes[i] = words_.finish(block.x[i], block.y[i], tweak_ | block.key_sizes[i], shape(0, i),
                                  count > 4 ? shape(2, i) : 0);
    }

   private:
    const KeyHash::Words& words_;
    std::uint64_t tweak_;
  };

 private:
  static constexpr std::size_t piece = KeyHash::Words::piece;

  [[gnu::always_inline]] static __m256i masked(const char* data, std::size_t mask_at) noexcept {
    return _mm256_and_si256(load_vector(data), load_vector(&key_hash_masks[mask_at]));
  }
  template <bool near_end>
  [[gnu::noinline]] static void add_pieces(const TextPlaces& places, std::size_t at, std::size_t count,
                                           const KeyHash::Words& words, TextBlock& block) noexcept {
    for (std::size_t k = 0; k < block.count; ++k) {
      const char* const payload = places.payloads[at + k];
      WideSums sums;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t begin = block.begins[i][k];
        const std::size_t mask_at = block.pieces[i][k];
        const char* const key = words.inner + i * piece;
        if constexpr (near_end)
          sums.add(part(payload + begin, piece - mask_at, places.payload_sizes[at + k] - begin), key);
        else
          sums.add(masked(payload + begin, mask_at), key);
      }
      sums.get(block.x[k], block.y[k]);
    }
  }
  [[gnu::noinline]] static void copy(const char* data, std::size_t size, char* to) noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_setzero_si256());
    for (std::size_t i = 0; i < size; ++i) to[i] = data[i];
  }
};

struct Avx2 : InBits, TextHash {
  // Compilers do this by themselves, but GCC 12 forgets it where a function it calls leaves registers alone;
  // the next instruction of the old encoding then waits a hundred cycles.
  static void leave() noexcept { _mm256_zeroupper(); }
  using Whole = InHalves<Half>::Whole;
  using Part = Words;
  using Short = ShortWords;
  using Front = InHalves<Half>::Front;
  using Byte = weir::Byte;
  using EmptyLines = weir::EmptyLines;
};

}  // namespace

constinit const Scans scans_avx2 = scans_with<Avx2>(Entry<Avx2, hash_texts<Avx2>>::call);

}  // namespace weir

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
