// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Commands in Redis' protocol, word by word, for those that are too long to be put together first.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weir/time.h"

namespace weir {

/// The longest text of a 64-bit number with a sign, and one more.
using NumberText = std::array<char, 24>;

inline std::string_view to_text(NumberText& text, std::int64_t value) noexcept {
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// Appends "*4" or "$17" and the end of its line.
inline void append_header(std::string& output, char mark, std::size_t value) {
  NumberText text;
  output += mark;
  output += to_text(text, static_cast<std::int64_t>(value));
  output += "\r\n";
}

inline void append_word(std::string& output, std::string_view word) {
  append_header(output, '$', word.size());
  output += word;
  output += "\r\n";
}

inline void append_word(std::string& output, std::int64_t value) {
  NumberText text;
  append_word(output, to_text(text, value));
}

/// A word of two parts.
inline void append_word(std::string& output, std::string_view first, std::string_view second) {
  append_header(output, '$', first.size() + second.size());
  output += first;
  output += second;
  output += "\r\n";
}

/// Rounded up, and at least 1: what Redis takes for the length of a life.
inline std::int64_t whole_milliseconds(Duration duration) noexcept {
  return std::max<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(duration).count(), 1);
}

}  // namespace weir
