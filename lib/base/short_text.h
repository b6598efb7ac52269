// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Texts of a few bytes as words, zeros behind them. No byte beyond the text is read, and none goes through
/// memory on the way: what is stored in pieces and loaded as a whole, a processor has to wait for.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weir {

/// How the words below tell the order of bytes; elsewhere texts are copied.
inline constexpr bool little_endian = std::endian::native == std::endian::little;

/// As if the text had been copied to the beginning of a word of zeros. @pre size < 8
[[gnu::always_inline]] inline std::uint64_t word_of_short_text(const char* text, std::size_t size) noexcept {
  if constexpr (!little_endian) {
    std::array<char, sizeof(std::uint64_t)> bytes{};
    for (std::size_t i = 0; i < size; ++i) bytes[i] = text[i];
    return std::bit_cast<std::uint64_t>(bytes);
  }
  // Where two pieces overlap they are equal.
  if (size >= 4) {
    std::uint32_t first;
    std::uint32_t last;
    std::memcpy(&first, text, sizeof first);
    std::memcpy(&last, text + size - sizeof last, sizeof last);
    return first | std::uint64_t{last} << 8 * (size - sizeof last);
  }
  if (size == 0) return 0;
  const auto byte_at = [text](std::size_t at) {
    return std::uint64_t{static_cast<std::uint8_t>(text[at])} << 8 * at;
  };
  return byte_at(0) | byte_at(size / 2) | byte_at(size - 1);
}

/// What of a text lies behind a multiple of eight bytes, which are fewer than eight.
/// @pre size >= 8
[[gnu::always_inline]] inline std::uint64_t word_of_text_rest(const char* text, std::size_t size) noexcept {
  constexpr std::size_t word = sizeof(std::uint64_t);
  if constexpr (!little_endian) return word_of_short_text(text + size / word * word, size % word);
  std::uint64_t last;
  std::memcpy(&last, text + size - word, word);
  // What lies before the rest moves out, in two steps: all eight bytes may.
  const std::size_t half_of_bits = 4 * (word - size % word);
  return last >> half_of_bits >> half_of_bits;
}

}  // namespace weir
