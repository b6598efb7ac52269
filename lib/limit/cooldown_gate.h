// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The base algorithm for one process alone: at most the limit in each aligned interval, and the first
/// request that is refused for want of allowance closes the gate for the cooldown. Traffic neither shortens
/// nor extends that.
///
/// With a store, a node learns of exceeding from the global count. Alone, its own count is the global one,
/// and it stops at the limit: so being asked for more is the exceeding. Reaching the limit exactly is not. A
/// request that could never pass (heavier than the limit) exceeds it too.
///
/// Several threads: the window and the block are two words. A request that passed the block just before
/// another thread began it may still be admitted, as if it had come before; the window's count decides, and
/// it never exceeds the limit.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "limit/arithmetic.h"
#include "limit/cooldown.h"
#include "limit/fixed_window.h"
#include "limit/shared_state.h"
#include "weir/limiter.h"
#include "weir/time.h"

namespace weir {

/// Lock-free; any thread, any time.
class CooldownGate {
 public:
  /// @param limit     weight per interval, ≥ 1
  /// @param interval  > 0
  /// @param cooldown  > 0
  CooldownGate(std::uint64_t limit, Duration interval, Duration cooldown) noexcept
      : window_(FixedWindow(limit, interval)), cooldown_(cooldown) {}

  /// `retry_after` is until the gate is open and the window has room: who comes back earlier than that may
  /// find the gate open, is refused again, and closes it again.
  Acquisition try_acquire(Instant now, std::uint64_t weight) noexcept {
    if (weight == 0) return peek(now);
    if (blocked(now)) return refused(now, weight);
    const Acquisition answer = window_.try_acquire(now, weight);
    if (answer.admitted) return answer;
    // Relaxed: the block is one word and publishes nothing else.
    Block seen = block_.load(std::memory_order_relaxed);
    for (Block next = seen; !seen.active(now.monotonic); next = seen) {
      next.begin(now.monotonic, cooldown_);
      if (block_.compare_exchange_weak(seen, next, std::memory_order_relaxed)) break;
    }
    return refused(now, weight);
  }

  Acquisition peek(Instant now) const noexcept { return blocked(now) ? refused(now, 1) : window_.peek(now); }

  /// Asking when to go exceeds nothing: no block begins. Claims a window unless the gate is closed.
  Reservation reserve(Instant now, std::uint64_t weight) noexcept {
    if (blocked(now)) return {refused(now, std::max<std::uint64_t>(weight, 1)).retry_after, false};
    return window_.reserve(now, weight);
  }

  /// Settles the interval's count. A block that has begun stays.
  void correct(Instant now, std::int64_t by) noexcept { window_.correct(now, by); }
  void give_back(Instant now, std::uint64_t weight) noexcept { window_.give_back(now, weight); }

  bool blocked(Instant now) const noexcept {
    return block_.load(std::memory_order_relaxed).active(now.monotonic);
  }

 private:
  Acquisition refused(Instant now, std::uint64_t weight) const noexcept {
    const MonotonicTime until = block_.load(std::memory_order_relaxed).until();
    const Duration closed = duration_of(static_cast<__int128>(until.time_since_epoch().count()) -
                                        now.monotonic.time_since_epoch().count());
    Acquisition answer;
    answer.retry_after = std::max({closed, window_.terms().wait(window_.state(), now, weight), Duration{1}});
    answer.reset_after = std::max(closed, window_.peek(now).reset_after);
    return answer;
  }

  SharedLimit<FixedWindow> window_;
  Duration cooldown_;
  /// Written by the first refused request after a block has ended; read by all.
  std::atomic<Block> block_{Block{}};
  static_assert(std::atomic<Block>::is_always_lock_free);
};

}  // namespace weir
