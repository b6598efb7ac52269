// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// When a polling thread may rest: `[node] idle_sleep`, for machines that have other things to do.
#pragma once

#include <thread>

#include "weir/time.h"

namespace weir::filter {

/// Counts polls that found nothing. One thread.
class Idle {
 public:
  /// Empty polls before a rest: a few microseconds, so that a busy link is never slept on.
  static constexpr unsigned patience = 64;

  /// @param rest  0: never rest
  explicit Idle(Duration rest) noexcept : rest_(rest) {}

  /// Takes note of a poll. @return true when it is time to rest.
  bool due(bool found_something) noexcept {
    if (found_something || rest_ == Duration::zero()) {
      empty_polls_ = 0;
      return false;
    }
    return ++empty_polls_ > patience;
  }
  /// Sleeps. A worker must be offline meanwhile.
  void rest() const { std::this_thread::sleep_for(rest_); }

 private:
  Duration rest_;
  unsigned empty_polls_ = 0;
};

}  // namespace weir::filter
