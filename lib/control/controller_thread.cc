// SPDX-License-Identifier: BSD-3-Clause
#include "control/controller_thread.h"

#include <pthread.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <utility>

#include "base/signals_blocked.h"

namespace weir {

ControllerThread::ControllerThread(std::function<MonotonicTime()> advance, std::function<MonotonicTime()> now,
                                   bool busy, std::function<void(std::string_view)> log)
    : advance_(std::move(advance)), now_(std::move(now)), busy_(busy), log_(std::move(log)) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "weir-control");
}

ControllerThread::~ControllerThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ControllerThread::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

// Thrown on, as it ends the process wherever it comes from.
void ControllerThread::run() {
  try {
    drive();
  } catch (const std::exception& error) {
    tell_the_end(error.what());
    throw;
  }
}

// Without an allocation: as a rule it is memory that there is none of.
void ControllerThread::tell_the_end(const char* why) const {
  if (!log_) return;
  std::array<char, 256> line;
  std::snprintf(line.data(), line.size(), "the controller cannot go on, and ends the process: %s", why);
  log_(line.data());
}

void ControllerThread::drive() {
  for (;;) {
    const MonotonicTime due = advance_();
    std::unique_lock lock(mutex_);
    if (!busy_ && !woken_ && !stopping_) {
      const Duration left = due - now_();
      if (left > Duration::zero())
        changed_.wait_until(lock, std::chrono::steady_clock::now() + left,
                            [this] { return woken_ || stopping_; });
    }
    if (stopping_) return;
    woken_ = false;
  }
}

}  // namespace weir
