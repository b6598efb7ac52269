// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The store without a network: counters in this process's memory, for one node alone ("memory://") or for
/// several nodes in one process (tests, simulation, a gateway with many throttles).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "store/store.h"

namespace weir {

/// Counters with a time to live, shared by any number of stores. Thread-safe (a mutex: control plane only).
class MemoryCounters {
 public:
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
    std::uint64_t value = 0;
    MonotonicTime dies{};
  };
  using Death = std::pair<MonotonicTime, std::string>;

  void bury(MonotonicTime now);
  Counter& living(const Id& id, Duration time_to_live, MonotonicTime now);

  std::mutex mutex_;
  std::unordered_map<std::string, Counter> counters_;  // by "name:interval:ordinal"
  std::priority_queue<Death, std::vector<Death>, std::greater<>> deaths_;
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
