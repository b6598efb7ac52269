// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Words in messages: what the operator wrote, shown safely, and what was probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weir {

/// `text` in double quotes, cut after 64 bytes, control characters and broken UTF-8 shown as "\x1b", and with
/// "***" for what could be a user and a password.
std::string in_quotes(std::string_view text);

/// The word of `known` that is closest to `word`, if it is close enough to be a slip of the finger; else
/// empty.
std::string_view closest(std::string_view word, std::span<const std::string_view> known);

/// "a, b, c"
std::string listed(std::span<const std::string_view> words);

/// "; did you mean "x"?" where a known word is close, else "; <label>: a, b, c".
std::string suggestion(std::string_view word, std::span<const std::string_view> known,
                       std::string_view label);

}  // namespace weir
