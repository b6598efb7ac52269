// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Time as weir sees it: always injected, never read. The two clocks below have no `now()`, so that nothing
/// in the library can read a clock behind the caller's back; the node's adapter in the outermost room does.
#pragma once

#include <chrono>
#include <cstdint>

namespace weir {

/// All durations are nanoseconds; the range is about ±292 years.
using Duration = std::chrono::nanoseconds;

/// Unix time on the node's own clock (or the capture's): names the ordinals. It may jump.
struct WallClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<WallClock>;
  static constexpr bool is_steady = false;
};

/// Time that never goes back: measures cooldowns and deadlines. Its origin is arbitrary.
struct MonotonicClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonotonicClock>;
  static constexpr bool is_steady = true;
};

using WallTime = WallClock::time_point;
using MonotonicTime = MonotonicClock::time_point;

/// One moment, read from both clocks.
struct Instant {
  WallTime wall;
  MonotonicTime monotonic;

  /// The same moment, `by` later on both clocks.
  constexpr Instant operator+(Duration by) const noexcept { return {wall + by, monotonic + by}; }
};

/// "Never happened" for points in monotonic time; no real moment compares equal to it.
inline constexpr MonotonicTime never{Duration::min()};

/// A wait that does not end: a request asks for more than can ever be admitted. Not to be added to anything.
inline constexpr Duration forever = Duration::max();

}  // namespace weir
