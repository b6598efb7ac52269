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
  /// Adds to a counter, creating it with `time_to_live` from `now` if it does not live; a delta of 0 only
  /// reads and creates nothing. Values stop at 2^64−1.
  /// @param returned  taken off what lives, but not below 0
  /// @return the counter's value afterwards
  std::uint64_t add(std::string_view name, Ordinal ordinal, std::uint64_t delta, Duration time_to_live,
                    MonotonicTime now, std::uint64_t returned = 0);

  /// The value of a counter at `now`; 0 where there is none.
  std::uint64_t read(std::string_view name, Ordinal ordinal, MonotonicTime now);

  /// Counters that live at `now`.
  std::size_t size(MonotonicTime now);

 private:
  struct Counter {
    std::uint64_t value = 0;
    MonotonicTime dies{};
  };
  using Death = std::pair<MonotonicTime, std::string>;

  void bury(MonotonicTime now);

  std::mutex mutex_;
  std::unordered_map<std::string, Counter> counters_;  // by "name:ordinal"
  std::priority_queue<Death, std::vector<Death>, std::greater<>> deaths_;
};

/// A store over `counters`. Every write is applied within submit() and its reply waits for collect(); the
/// wake function is called by submit(), in the caller's thread, without a lock held.
/// @pre counters != nullptr
std::unique_ptr<Store> make_memory_store(std::shared_ptr<MemoryCounters> counters);

}  // namespace weir
