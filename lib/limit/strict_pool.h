// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What one node holds of a strict limit: quota leased from the store ahead of need, handed to cores in
/// chunks.
///
/// All nodes' leases of one period together never exceed the limit, because the store grants no more. So a
/// node that admits only what it holds cannot be wrong, whatever clocks, partitions and crashes do. Three
/// rules follow:
/// No lease, no admission.
/// Quota belongs to its period: what is left when the next one begins, or when the lease ends by the node's
/// own clock, is worth nothing here.
/// Quota is in one place at a time: in the pool, in one chunk, or handed back to the store. A chunk not used
/// comes back, as does what a request turned out not to need, but only into the period it came from.
///
/// Threads: one thread (the controller) fills and drains; any thread draws and puts back. The pool's word
/// (period and quota) is exchanged whole, so quota of one period never turns into the next one's.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

#include "limit/arithmetic.h"
#include "limit/shared_state.h"
#include "weir/limiter.h"
#include "weir/time.h"

namespace weir {

/// A grant by the store.
struct StrictLease {
  std::uint64_t period = 0;  ///< of the limit, e.g. the interval's number; only grows; ≥ 1
  std::uint64_t grant = 0;   ///< the store's sequence number of the grant; only grows; ≥ 1
  std::uint64_t quota = 0;   ///< weight
  MonotonicTime until{};     ///< by the node's clock: nothing is admitted from it at or after this moment
};

/// Quota in one core's hands. Its owner alone uses it.
struct StrictChunk {
  std::uint64_t period = 0;
  std::uint64_t left = 0;  ///< weight
  MonotonicTime until = never;

  /// Spends it on a request; all or nothing.
  constexpr bool try_spend(MonotonicTime now, std::uint64_t weight) noexcept {
    if (now >= until || weight > left) return false;
    left -= weight;
    return true;
  }
};

class StrictPool {
 public:
  /// Adds a lease. A later period ends the earlier one; an earlier period's lease adds nothing, nor does a
  /// grant that has been added already. One thread.
  /// @return the quota that has been added
  std::uint64_t fill(const StrictLease& lease) noexcept {
    Held seen = held_.read();
    if (lease.period < seen.period || lease.grant <= last_grant_) return 0;
    last_grant_ = lease.grant;
    if (lease.period > seen.period) {
      while (!held_.exchange(seen, {0, lease.period})) {
      }
      seen = {0, lease.period};
      until_.store(count(lease.until), std::memory_order_relaxed);
    } else if (count(lease.until) > until_.load(std::memory_order_relaxed)) {
      until_.store(count(lease.until), std::memory_order_relaxed);
    }
    // The exchange releases: who finds quota of this period finds its end as well.
    for (;;) {
      const std::uint64_t sum = saturated_sum(seen.quota, lease.quota);
      const std::uint64_t added = sum - seen.quota;
      if (held_.exchange(seen, {sum, lease.period})) return added;
    }
  }

  /// Takes what is left, to be returned to the store: chunks put back afterwards stay in the pool until the
  /// next time. One thread.
  std::uint64_t drain() noexcept {
    Held seen = held_.read();
    while (!held_.exchange(seen, {0, seen.period})) {
    }
    return seen.quota;
  }

  /// Takes `need`, and as much more as makes a chunk: half of an even part of what is left, so that chunks
  /// shrink and no core strands much. Any thread.
  /// @param cores  that share the pool, ≥ 1
  /// @return at least `need`; or an empty chunk
  StrictChunk draw(MonotonicTime now, std::uint64_t need, unsigned cores) noexcept {
    Held seen = held_.read();
    for (;;) {
      // After the read of the word, which acquires: the end of that period or, if a later one has begun, the
      // later one's, and then the exchange fails.
      const std::int64_t until = until_.load(std::memory_order_relaxed);
      if (need == 0 || count(now) >= until || seen.quota < need) return {};
      const std::uint64_t take = std::max(need, seen.quota / (2 * std::uint64_t{cores}));
      const std::uint64_t period = seen.period;
      if (held_.exchange(seen, {seen.quota - take, period}))
        return {period, take, MonotonicTime(Duration(until))};
    }
  }

  /// Puts back what a core does not need; the chunk is empty afterwards. Any thread.
  /// @return what has come back: 0 when its period is over
  std::uint64_t put_back(StrictChunk& chunk) noexcept {
    const std::uint64_t back = chunk.left;
    chunk.left = 0;
    Held seen = held_.read();
    while (back > 0 && seen.period == chunk.period) {
      if (held_.exchange(seen, {saturated_sum(seen.quota, back), seen.period})) return back;
    }
    return 0;
  }

  /// A request straight from the pool. `retry_after` is until the lease ends, when another may have come;
  /// `forever` where there is no lease to tell. Any thread.
  Acquisition try_acquire(Instant now, std::uint64_t weight) noexcept {
    Held seen = held_.read();
    for (;;) {
      const std::int64_t until = until_.load(std::memory_order_relaxed);
      const std::uint64_t quota = count(now.monotonic) < until ? seen.quota : 0;
      const Duration left = duration_of(static_cast<__int128>(until) - count(now.monotonic));
      const std::uint64_t asked = std::max<std::uint64_t>(weight, 1);
      if (quota < asked) return {false, quota, left > Duration{} ? left : forever, left};
      if (weight == 0) return {true, quota, Duration{}, left};
      const Held next{quota - weight, seen.period};
      if (held_.exchange(seen, next)) return {true, next.quota, Duration{}, left};
    }
  }

  /// Claims nothing unless the request may go at once: what the store will grant is not known.
  Reservation reserve(Instant now, std::uint64_t weight) noexcept {
    const Acquisition got = try_acquire(now, weight);
    return {got.retry_after, got.admitted && weight > 0};
  }

  /// Settles a cost known afterwards. Hands back (negative) what was admitted in `period`, unless that is
  /// over; or charges the running period as far as there is quota: a strict limit knows no debt.
  /// @return what could not be charged, for the caller to charge to a later lease
  std::uint64_t correct(Instant now, std::uint64_t period, std::int64_t by) noexcept {
    Held seen = held_.read();
    for (;;) {
      const bool over = count(now.monotonic) >= until_.load(std::memory_order_relaxed);
      const std::uint64_t charge = by > 0 && !over ? std::min(magnitude(by), seen.quota) : 0;
      const std::uint64_t back = by < 0 && seen.period == period ? magnitude(by) : 0;
      if (held_.exchange(seen, {saturated_sum(seen.quota - charge, back), seen.period}))
        return by > 0 ? magnitude(by) - charge : 0;
    }
  }
  void give_back(Instant now, std::uint64_t period, std::uint64_t weight) noexcept {
    correct(now, period, handed_back(weight));
  }

  std::uint64_t quota() const noexcept { return held_.read().quota; }
  std::uint64_t period() const noexcept { return held_.read().period; }

 private:
  static constexpr std::int64_t count(MonotonicTime at) noexcept { return at.time_since_epoch().count(); }

  /// Any thread; `period` by the filling one alone.
  struct Held {
    std::uint64_t quota = 0;
    std::uint64_t period = 0;  // only grows
  };
  SharedValue<Held> held_;
  /// End of the lease. Written by the filling thread before quota of its period is there.
  std::atomic<std::int64_t> until_{never.time_since_epoch().count()};
  std::uint64_t last_grant_ = 0;  // the filling thread's
};

}  // namespace weir
