// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Hands writes from the controller to the thread that talks to the store, for the price of a copy: merging
/// them is that thread's work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "store/backlog.h"
#include "store/store.h"

namespace weir {

/// Writes with names of their own. One thread at a time.
class Arrivals {
 public:
  void add(const CounterWrite& write, MonotonicTime now) {
    writes_.push_back(write);
    names_.append(write.name);
    time_ = now;
  }
  /// Valid until the next add() or clear().
  std::span<const CounterWrite> writes() noexcept {
    std::size_t at = 0;
    for (CounterWrite& write : writes_) {
      write.name = std::string_view(names_).substr(at, write.name.size());
      at += write.name.size();
    }
    return writes_;
  }
  /// When the last of them came.
  MonotonicTime time() const noexcept { return time_; }
  void clear() noexcept {
    writes_.clear();
    names_.clear();
  }
  void swap(Arrivals& other) noexcept {
    writes_.swap(other.writes_);
    names_.swap(other.names_);
    std::swap(time_, other.time_);
  }

 private:
  std::vector<CounterWrite> writes_;  // names are views of what is gone; only their lengths are looked at
  std::string names_;
  MonotonicTime time_{};
};

/// Where writes wait to be taken. Not thread-safe: its owner locks.
class Inbox {
 public:
  /// @param most  writes that wait at most, fewer where names are long (store/backlog.h: a write takes little
  ///              more than the counter it is for will); what comes beyond is given up, as expired
  explicit Inbox(std::size_t most) noexcept : backlog_(most) {}

  void submit(std::span<const CounterWrite> writes, MonotonicTime now) {
    for (const CounterWrite& write : writes) {
      const std::uint64_t weight = write.weightless ? 0 : write.delta;
      submitted_ += weight;
      if (backlog_.has_room_for(write.name.size())) {
        waiting_.add(write, now);
        backlog_.add(write.name.size());
        changes_ += write.returned != 0 || write.raised_to != 0;
      } else {
        expired_ += weight;
      }
    }
  }
  /// Exchanges what waits for `empty`.
  void swap(Arrivals& empty) noexcept {
    waiting_.swap(empty);
    backlog_.clear();
    changes_ = 0;
  }
  /// Writes that wait and return or raise something.
  std::size_t changes() const noexcept { return changes_; }

  /// Weight, ever.
  std::uint64_t submitted() const noexcept { return submitted_; }
  std::uint64_t expired() const noexcept { return expired_; }

 private:
  Backlog backlog_;
  Arrivals waiting_;
  std::size_t changes_ = 0;
  std::uint64_t submitted_ = 0;
  std::uint64_t expired_ = 0;
};

}  // namespace weir
