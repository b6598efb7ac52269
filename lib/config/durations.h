// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Durations as the configuration writes them: "500ms", "1.5s", "5m", "1h", "2d", "100us", "250ns".
#pragma once

#include <string>
#include <string_view>

#include "weir/time.h"

namespace weir {

/// A duration, or why there is none.
struct DurationResult {
  Duration value{};
  std::string error;  ///< empty: `value` is good; else it completes "<key> …"

  explicit operator bool() const noexcept { return error.empty(); }
};

/// Reads a whole or decimal number with a unit. Exact: finer than a nanosecond, or beyond the range of
/// Duration, is refused, not rounded. Never negative.
DurationResult parse_duration(std::string_view text);

/// The shortest form that parse_duration reads back as the same value, e.g. "90s", "1m".
std::string format_duration(Duration duration);

}  // namespace weir
