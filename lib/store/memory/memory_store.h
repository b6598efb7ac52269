// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The store without a network: counters in this process's memory, for one node alone ("memory://") or for
/// several nodes in one process (tests, simulation, a gateway with many throttles).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/huge_array.h"
#include "base/keyed_hash.h"
#include "base/prefetch.h"
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

  /// Applies writes one after the other, as add() and raise() do, but many together in less time.
  /// @param totals  one for each write: its counter's value afterwards
  void apply(std::span<const CounterWrite* const> writes, std::span<std::uint64_t> totals, MonotonicTime now);

  /// The value of a counter at `now`; 0 where there is none.
  std::uint64_t read(const Id& id, MonotonicTime now);

  /// Counters that live at `now`.
  std::size_t size(MonotonicTime now);

 private:
  /// When a counter dies, so that zeroed memory holds none that ever lived.
  class Death {
   public:
    Death() noexcept = default;
    explicit Death(MonotonicTime at) noexcept
        : since_ever_(static_cast<std::uint64_t>(at.time_since_epoch().count()) ^ half) {}
    auto operator<=>(const Death&) const noexcept = default;

   private:
    static constexpr std::uint64_t half = std::uint64_t{1} << 63;
    std::uint64_t since_ever_ = 0;  // since the earliest time there is
  };
  struct Counter {
    Digest128 name;
    std::uint64_t value = 0;
    Death dies;
  };
  /// Memory of an interval that is over. Its counters have all died: whoever takes it need not clear it.
  struct Ground {
    HugeArray<Counter> counters;
    Death all_dead;
  };
  /// The counters of one interval: open addressing, two thirds full at most. They die together, or nearly so,
  /// and are forgotten together.
  class Interval {
   public:
    explicit Interval(Ground ground) : counters_(std::move(ground.counters)), all_dead_(ground.all_dead) {}
    /// The name's counter, living or dead; nullptr where there never was one.
    Counter* find(const Digest128& name) noexcept;
    /// The same, made where there is none.
    Counter& make(const Digest128& name);
    void prefetch(const Digest128& name) const noexcept { prefetch_to_write(&counters_[home(name)]); }
    std::size_t living(Death now) const noexcept;
    /// Places for an interval with as many counters as this one.
    std::size_t fitting_places() const noexcept { return used_ + used_ / 2 + used_ / 8 + 1; }
    std::size_t places() const noexcept { return counters_.size(); }
    /// Its memory, for another one. @pre last_dies is over
    Ground leave() noexcept { return {std::move(counters_), last_dies}; }
    Death last_dies;

   private:
    std::size_t home(const Digest128& name) const noexcept {
      return static_cast<std::size_t>(static_cast<unsigned __int128>(name.low) * counters_.size() >> 64);
    }
    /// What died before this interval began is nobody's here.
    bool is_free(const Counter& counter) const noexcept { return counter.dies <= all_dead_; }
    Counter& place(const Digest128& name) noexcept;
    HugeArray<Counter> counters_;
    Death all_dead_;
    std::size_t used_ = 0;
  };
  using IntervalId = std::pair<Duration, Ordinal>;

  Digest128 digest(std::string_view name) const noexcept;
  Interval* find(const IntervalId& id) noexcept;
  Interval& make(const IntervalId& id);
  Counter& living(Interval& interval, const Digest128& name, Duration time_to_live, MonotonicTime now);
  std::uint64_t apply(const CounterWrite& write, MonotonicTime now);
  void bury(Death now);

  const HashKey hash_key_;  // names are partly chosen by clients
  std::mutex mutex_;
  std::map<IntervalId, Interval> intervals_;
  std::vector<Ground> left_;  // by intervals that have been forgotten
  Death next_burial_{MonotonicTime::max()};
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
