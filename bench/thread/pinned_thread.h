// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A thread on one processor, and what it has had of it: on a machine that others use too, a thread's own
/// time tells what the clock on the wall does not.
#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "weir/time.h"

namespace weir::bench {

/// The processors this process may use, ascending.
std::vector<int> processors();
/// Binds the calling thread to one processor. Threads it creates later inherit that.
void pin(int processor);
/// Keeps the calling thread, and threads it creates later, off a processor, unless it is the only one.
void keep_off(int processor);

/// Processor time the calling thread has had. A system call.
Duration thread_time();

/// Runs a function on a thread of its own, bound to a processor. One thread at a time owns this object.
class PinnedThread {
 public:
  PinnedThread(int processor, std::function<void()> work);
  ~PinnedThread();
  PinnedThread(const PinnedThread&) = delete;
  PinnedThread& operator=(const PinnedThread&) = delete;

  /// Processor time the thread has had. @pre not joined
  Duration cpu();
  /// Throws what the function has thrown.
  void join();
  /// Times the processor was taken away while the function ran. @pre joined
  long involuntary_switches() const noexcept { return switches_; }

 private:
  // Written by the thread before its end, read after join().
  long switches_ = 0;
  std::exception_ptr thrown_;
  std::thread thread_;
};

}  // namespace weir::bench
