// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The few sums that every algorithm of this room needs and that must not overflow. All pure; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "weir/limiter.h"
#include "weir/time.h"

namespace weir {

/// Nanoseconds as a duration: nothing below zero, `forever` where it does not fit.
constexpr Duration duration_of(__int128 nanoseconds) noexcept {
  if (nanoseconds <= 0) return Duration{};
  return nanoseconds >= forever.count() ? forever : Duration(static_cast<std::int64_t>(nanoseconds));
}

/// later − earlier in nanoseconds, exact also where the difference needs 64 bits; 0 where it is negative.
constexpr std::uint64_t elapsed_ns(std::int64_t earlier, std::int64_t later) noexcept {
  return later <= earlier ? 0 : static_cast<std::uint64_t>(later) - static_cast<std::uint64_t>(earlier);
}

/// The absolute value, also of the lowest number.
constexpr std::uint64_t magnitude(std::int64_t value) noexcept {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

constexpr std::uint64_t saturated_sum(std::uint64_t a, std::uint64_t b) noexcept {
  return a > std::numeric_limits<std::uint64_t>::max() - b ? std::numeric_limits<std::uint64_t>::max()
                                                           : a + b;
}

/// The weight as a correction that hands it back.
constexpr std::int64_t handed_back(std::uint64_t weight) noexcept {
  return -static_cast<std::int64_t>(
      std::min<std::uint64_t>(weight, std::numeric_limits<std::int64_t>::max()));
}

/// Moves signed numbers so that they keep their order and zeroed memory holds the lowest of them: "never".
constexpr std::uint64_t biased(std::int64_t value) noexcept {
  return static_cast<std::uint64_t>(value) ^ (std::uint64_t{1} << 63);
}
constexpr std::int64_t unbiased(std::uint64_t value) noexcept {
  return static_cast<std::int64_t>(value ^ (std::uint64_t{1} << 63));
}

}  // namespace weir
