// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>

#include "weir/time.h"

namespace weir {

/// The thread that drives a controller: sleeps until something is due or wake() is called. Blocks all
/// signals: they are the embedding program's. What `advance` throws ends the process (std::terminate): half
/// of a span's end is done by then, and nobody could go on with it.
class ControllerThread {
 public:
  /// @param advance  does what is due and says when, on the monotonic clock of `now`, to come back
  /// @param now      reads the clock that `advance` speaks of, which must be CLOCK_MONOTONIC
  /// @param busy     poll instead of sleep
  /// @param log      told why the process ends, where it does; may be empty
  ControllerThread(std::function<MonotonicTime()> advance, std::function<MonotonicTime()> now, bool busy,
                   std::function<void(std::string_view)> log);
  /// Ends and joins the thread.
  ~ControllerThread();

  /// Makes the thread look again at once. Any thread.
  void wake();

 private:
  void run();
  void drive();
  void tell_the_end(const char* why) const;

  std::function<MonotonicTime()> advance_;
  std::function<MonotonicTime()> now_;
  const bool busy_;
  std::function<void(std::string_view)> log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;     // under mutex_
  bool stopping_ = false;  // under mutex_
  std::thread thread_;
};

}  // namespace weir
