// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "weir/time.h"

namespace weir {

/// The thread that drives a controller: sleeps until something is due or wake() is called. Blocks all
/// signals: they are the embedding program's.
class ControllerThread {
 public:
  /// @param advance  does what is due and says when, on the monotonic clock of `now`, to come back
  /// @param now      reads the clock that `advance` speaks of, which must be CLOCK_MONOTONIC
  /// @param busy     poll instead of sleep
  ControllerThread(std::function<MonotonicTime()> advance, std::function<MonotonicTime()> now, bool busy);
  /// Ends and joins the thread.
  ~ControllerThread();

  /// Makes the thread look again at once. Any thread.
  void wake();

 private:
  void run();

  std::function<MonotonicTime()> advance_;
  std::function<MonotonicTime()> now_;
  const bool busy_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;     // under mutex_
  bool stopping_ = false;  // under mutex_
  std::thread thread_;
};

}  // namespace weir
