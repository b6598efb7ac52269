// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace weir {

/// The number that a text is, in decimal digits and nothing else: no space, no '+', and a '-' only where
/// `Number` has one. Nothing when it is none, or one that `Number` does not hold.
template <std::integral Number>
std::optional<Number> whole_number(std::string_view text) noexcept {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace weir
