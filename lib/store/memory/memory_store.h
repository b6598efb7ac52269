// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The store without a network: counters in this process's memory, for one node alone ("memory://") or for
/// several nodes in one process (tests, simulation, a gateway with many throttles).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/keyed_hash.h"
#include "store/store.h"

namespace weir {

/// Counters with a time to live, shared by any number of stores. Thread-safe (a mutex: control plane only).
class MemoryCounters {
 public:
  MemoryCounters();

  /// Which counter: the same ordinal of another length of interval is another one.
  struct Id {
    std::string_view name;
    Duration interval{};
    Ordinal ordinal = 0;
  };

  /// Adds to a counter, creating it with `time_to_live` from `now` if it does not live; a delta of 0 only
  /// reads and creates nothing. Values stop at 2^64−1.
  /// @param returned  taken off what lives, but not below 0
  /// @return the counter's value afterwards
  std::uint64_t add(const Id& id, std::uint64_t delta, Duration time_to_live, MonotonicTime now,
                    std::uint64_t returned = 0);

  /// Raises a counter to at least `to`, creating it likewise. @return its value afterwards
  std::uint64_t raise(const Id& id, std::uint64_t to, Duration time_to_live, MonotonicTime now);

  /// The value of a counter at `now`; 0 where there is none.
  std::uint64_t read(const Id& id, MonotonicTime now);

  /// Counters that live at `now`.
  std::size_t size(MonotonicTime now);

 private:
  struct Counter {
    Digest128 name;  // of nobody: free
    std::uint64_t value = 0;
    MonotonicTime dies = MonotonicTime::min();
  };
  /// The counters of one interval: open addressing, at most half full. They die together, or nearly so, and
  /// are forgotten together.
  class Interval {
   public:
    explicit Interval(std::size_t places) : counters_(places) {}
    /// The name's counter, living or dead; nullptr where there never was one.
    Counter* find(const Digest128& name) noexcept;
    /// The same, made where there is none.
    Counter& make(const Digest128& name);
    std::size_t living(MonotonicTime now) const noexcept;
    /// Places for an interval with as many counters as this one.
    std::size_t fitting_places() const noexcept { return std::bit_ceil(2 * used_ + 1); }
    MonotonicTime last_dies = MonotonicTime::min();

   private:
    Counter& place(const Digest128& name) noexcept;
    std::vector<Counter> counters_;  // a power of two of them
    std::size_t used_ = 0;
  };
  using IntervalId = std::pair<Duration, Ordinal>;

  Counter* find(const Id& id, MonotonicTime now);
  Counter& living(const Id& id, Duration time_to_live, MonotonicTime now);
  void bury(MonotonicTime now);

  const HashKey hash_key_;  // names are partly chosen by clients
  std::mutex mutex_;
  std::map<IntervalId, Interval> intervals_;
  MonotonicTime next_burial_ = MonotonicTime::max();
};

/// A store over `counters`. Every write is applied within submit() and its reply waits for collect(); the
/// wake function is called by submit(), in the caller's thread, without a lock held.
/// @param clock  what the store's own clock says; asked with every submit(), in the caller's thread. Empty:
/// it
///               has none, and each node goes by its own
/// @pre counters != nullptr
std::unique_ptr<Store> make_memory_store(std::shared_ptr<MemoryCounters> counters,
                                         std::function<WallTime()> clock = {});

}  // namespace weir
