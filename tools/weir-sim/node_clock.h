// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A node's idea of the time: an offset, a drift, and jumps of its wall clock.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "weir/time.h"

namespace weir::sim {

/// True time to a node's two clocks and back. The monotonic clock drifts as well, as real ones do, but never
/// jumps.
class NodeClock {
 public:
  struct Jump {
    Duration at{};
    Duration by{};
  };

  /// @param epoch      what a right wall clock reads at true time 0
  /// @param drift_ppb  how much too fast both clocks run, in parts per 10^9; below 0: too slow
  NodeClock(WallTime epoch, Duration offset, std::int64_t drift_ppb, std::vector<Jump> jumps)
      : epoch_(epoch), offset_(offset), drift_ppb_(drift_ppb), jumps_(std::move(jumps)) {}

  Instant at(Duration true_time) const noexcept {
    const Duration run = local(true_time);
    Duration jumped = offset_;
    for (const Jump& jump : jumps_)
      if (jump.at <= true_time) jumped += jump.by;
    return {epoch_ + run + jumped, MonotonicTime(start + run)};
  }

  MonotonicTime monotonic(Duration true_time) const noexcept {
    return MonotonicTime(start + local(true_time));
  }

  /// The first moment of true time at which the monotonic clock reads `moment` or later.
  Duration when(MonotonicTime moment) const noexcept {
    const Duration wanted = moment.time_since_epoch() - start;
    if (drift_ppb_ == 0) return wanted;
    auto guess = Duration(
        static_cast<std::int64_t>(static_cast<__int128>(wanted.count()) * billion / (billion + drift_ppb_)));
    while (local(guess) >= wanted) guess -= Duration{1};
    while (local(guess) < wanted) guess += Duration{1};
    return guess;
  }

 private:
  static constexpr std::int64_t billion = 1'000'000'000;
  /// Some time after the machine's start, so that nothing gets by with a clock near 0.
  static constexpr Duration start = std::chrono::seconds{1000};

  Duration local(Duration true_time) const noexcept {
    if (drift_ppb_ == 0) return true_time;
    return true_time + Duration(static_cast<std::int64_t>(static_cast<__int128>(true_time.count()) *
                                                          drift_ppb_ / billion));
  }

  WallTime epoch_;
  Duration offset_;
  std::int64_t drift_ppb_;
  std::vector<Jump> jumps_;
};

}  // namespace weir::sim
