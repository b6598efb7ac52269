// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A mutex that is had in the order in which it was asked for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace weir {

/// The problem: a thread that unlocks a std::mutex and locks it again at once has it before one that waits
/// for it has been woken, every time. Where it always has work, the others wait for ever. Here it waits until
/// those who asked before have had their turn: also where they come back at once. Who waits must not be
/// cancelled (pthread_cancel): his turn would never end.
class FairMutex {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    const std::uint64_t turn = next_++;
    changed_.wait(lock, [&] { return turn == serving_; });
  }
  void unlock() {
    {
      const std::lock_guard lock(mutex_);
      ++serving_;
    }
    changed_.notify_all();
  }
  /// Threads that have it or have asked for it.
  std::uint64_t asking() const {
    const std::lock_guard lock(mutex_);
    return next_ - serving_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ = 0;     // under mutex_: the turn of who asks next
  std::uint64_t serving_ = 0;  // under mutex_: whose turn it is, or will be
};

}  // namespace weir
