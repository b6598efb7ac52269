// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which of a line's eight lanes hold a tag: the search that every decision begins with.
///
/// The problem: lines of both tables begin with eight tags of 32 bits, one key's in at most one of them, and
/// go on with a word of 32 bits for each lane. To go through them one by one is a branch for each that nobody
/// can foresee; and compilers make branches of whatever is written so. So all are compared at once, and the
/// answer leads to the lane's word without being taken apart: in bits, two to a lane.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weir {

/// A set of a line's lanes. A value.
class Lanes {
 public:
  static constexpr std::size_t per_line = 8;

  /// Those whose tag it is. Without branches. Reads the first half of a line that nobody else writes.
  /// @param tags  of a line, which is aligned as cache lines are: eight words of 32 bits
  static Lanes with(const void* tags, std::uint32_t tag) noexcept {
#if defined(__SSE2__)
    const auto* const fours = static_cast<const __m128i*>(tags);
    const __m128i wanted = _mm_set1_epi32(static_cast<int>(tag));
    const __m128i low = _mm_cmpeq_epi32(_mm_load_si128(fours), wanted);
    const __m128i high = _mm_cmpeq_epi32(_mm_load_si128(fours + 1), wanted);
    return Lanes(static_cast<unsigned>(_mm_movemask_epi8(_mm_packs_epi32(low, high))));
#else
    std::array<std::uint32_t, per_line> words;
    std::memcpy(&words, tags, sizeof words);
    unsigned bits = 0;
    for (std::size_t lane = 0; lane < per_line; ++lane)
      bits |= static_cast<unsigned>(words[lane] == tag) * 3 << 2 * lane;
    return Lanes(bits);
#endif
  }

  bool none() const noexcept { return bits_ == 0; }
  /// Those among the first seven.
  Lanes of_seven() const noexcept { return Lanes(bits_ & 0x3fff); }
  /// Whether there is none among the first seven.
  bool none_of_seven() const noexcept { return (bits_ & 0x3fff) == 0; }
  /// @pre !none()
  std::size_t first() const noexcept { return static_cast<unsigned>(__builtin_ctz(bits_)) / 2; }
  /// The first lane's word. @pre !none()
  /// @param words  one for each lane
  template <typename Word>
  Word& first_of(Word* words) const noexcept {
    static_assert(sizeof(Word) == 4);
    return *reinterpret_cast<Word*>(reinterpret_cast<std::byte*>(words) +
                                    2 * static_cast<std::size_t>(__builtin_ctz(bits_)));
  }

 private:
  explicit Lanes(unsigned bits) noexcept : bits_(bits) {}
  unsigned bits_;
};

}  // namespace weir
