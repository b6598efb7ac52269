// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Sliding window: at most the limit in the last N sub-windows (spans of interval / N, the running one among
/// them).
///
/// Each span's count has a cell of its own in a ring; what the whole window holds is one number beside the
/// number of the running span. When a span begins, the cells that have left the window give their counts back
/// to it. The border burst of the fixed window is gone. What is left of it has the width of one span: any
/// stretch of time of length T touches N + 1 spans, of which the last N together hold at most the limit; what
/// the first of them held comes on top. More spans, less of that, more memory.
///
/// Several threads. The head (number of the running span, weight in the window) is one 16-byte word, each
/// cell (number of its span, its weight) is another. The order of steps makes every moment in between err to
/// the side of refusing.
/// A request is added to the head first, which decides, and to its cell afterwards.
/// A cell is emptied first and taken off the head afterwards, and only when the head has already moved to a
/// span that no longer sees it; whoever still decides for an earlier span fails to exchange the head.
/// So the head is never less than what was admitted in the window. A thread that stalls between two steps
/// leaves the head too high for so long, not too low; no thread waits for it. If it comes back when its span
/// has left the ring, it takes its weight off the head again; if its cell has been emptied, the next span's
/// begin takes it off.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <span>

#include "limit/arithmetic.h"
#include "limit/shared_state.h"
#include "weir/limiter.h"
#include "weir/time.h"

namespace weir {

/// One span's weight. Zeroed memory: never used. Written by any thread.
struct SlidingWindowCount {
  std::uint64_t weight = 0;
  std::uint64_t number = 0;  ///< of the span, biased(); only ever grows
};
using SlidingWindowCell = SharedValue<SlidingWindowCount>;

/// A sliding window over cells that somebody else owns. Lock-free; any thread, any time. Time that jumps back
/// finds the latest span still running.
class SlidingWindow {
 public:
  /// @param limit     weight in the last spans together, ≥ 1
  /// @param interval  of all spans together, ≥ 1 ns per span
  /// @param cells     one per span: 1 … 2^20; zeroed; they outlive this object
  SlidingWindow(std::uint64_t limit, Duration interval, std::span<SlidingWindowCell> cells) noexcept
      : limit_(limit), interval_(interval.count()), spans_(cells.size()), cells_(cells) {}

  Acquisition try_acquire(Instant now, std::uint64_t weight) noexcept {
    if (weight == 0) return peek(now);
    for (;;) {
      Head seen = advance(biased(number(now)));
      if (weight > limit_ || seen.weight > limit_ - weight)
        return refusal(now, seen.number, seen.weight, weight);
      const std::uint64_t total = seen.weight + weight;
      const std::uint64_t span = seen.number;
      if (!head_.exchange(seen, {total, span})) continue;
      record(span, weight);
      return {true, limit_ - total, Duration{}, until(now, leaves(span))};
    }
  }

  Acquisition peek(Instant now) const noexcept {
    const Head seen = head_.read();
    const std::uint64_t span = std::max(biased(number(now)), seen.number);
    const std::uint64_t weight = seen.weight - std::min(seen.weight, left_by(span));
    if (weight >= limit_) return refusal(now, span, weight, 1);
    return {true, limit_ - weight, Duration{}, reset(now, span, weight)};
  }

  /// Claims nothing unless the request may go at once: what a later span will hold is not known yet.
  Reservation reserve(Instant now, std::uint64_t weight) noexcept {
    const Acquisition answer = try_acquire(now, weight);
    return {answer.retry_after, answer.admitted && weight > 0};
  }

  /// Hands back what the request's span holds, then what is older; a charge counts in the running span, over
  /// the limit if need be.
  /// @param now  handing back: the time the request came with. What has left the window since frees nothing
  void correct(Instant now, std::int64_t by) noexcept {
    if (by == 0) return;
    if (by > 0) {
      charge(now, magnitude(by));
    } else {
      take_back(now, magnitude(by));
    }
  }
  void give_back(Instant now, std::uint64_t weight) noexcept { correct(now, handed_back(weight)); }

 private:
  /// Any thread. `number` only grows; `weight` is at least the sum over the window's cells.
  struct Head {
    std::uint64_t weight = 0;
    std::uint64_t number = 0;
  };

  /// Counted from the Unix epoch: floor(t × N / T), so that spans tile the interval also where N does not
  /// divide T.
  std::int64_t number(Instant now) const noexcept {
    const __int128 product = static_cast<__int128>(now.wall.time_since_epoch().count()) * spans_;
    const __int128 quotient = product / interval_;
    return static_cast<std::int64_t>(quotient - (product % interval_ < 0 ? 1 : 0));
  }
  /// The first span that no longer sees this one, unbiased.
  __int128 leaves(std::uint64_t span) const noexcept {
    return static_cast<__int128>(unbiased(span)) + spans_;
  }
  Duration until(Instant now, __int128 span) const noexcept {
    // Beyond what a clock can show.
    if (span > std::numeric_limits<std::int64_t>::max()) return forever;
    const __int128 product = span * interval_;
    const __int128 begin = product / spans_ + (product % spans_ > 0 ? 1 : 0);
    return duration_of(begin - now.wall.time_since_epoch().count());
  }
  bool has_left(std::uint64_t cell, std::uint64_t span) const noexcept {
    return span >= cell && span - cell >= static_cast<std::uint64_t>(spans_);
  }
  SlidingWindowCell& cell(std::uint64_t span) const noexcept {
    return cells_[span % static_cast<std::uint64_t>(spans_)];
  }

  /// Moves the head to `span` unless it is there or beyond, takes off what has left, returns the head.
  Head advance(std::uint64_t span) noexcept {
    Head seen = head_.read();
    while (seen.number < span) {
      if (head_.exchange(seen, {seen.weight, span})) seen.number = span;
    }
    // Relaxed: says that the work is done, which the head itself shows; read too early, it is done twice.
    std::uint64_t swept = swept_.load(std::memory_order_relaxed);
    if (swept >= seen.number) return seen;
    // Not only by the thread that moved the head: were it to stall here, all others would go on refusing.
    const std::uint64_t target = seen.number;
    for (SlidingWindowCell& each : cells_) {
      SlidingWindowCount count = each.read();
      while (count.weight > 0 && has_left(count.number, target)) {
        if (!each.exchange(count, {0, count.number})) continue;
        take_off(count.weight);
        break;
      }
    }
    while (swept < target && !swept_.compare_exchange_weak(swept, target, std::memory_order_relaxed)) {
    }
    return head_.read();
  }

  void take_off(std::uint64_t weight) noexcept {
    Head seen = head_.read();
    while (!head_.exchange(seen, {seen.weight - weight, seen.number})) {
    }
  }

  /// Puts weight that the head already counts into its span's cell.
  void record(std::uint64_t span, std::uint64_t weight) noexcept {
    SlidingWindowCell& own = cell(span);
    SlidingWindowCount count = own.read();
    for (;;) {
      if (count.number > span) return take_off(weight);
      if (count.number == span) {
        if (own.exchange(count, {count.weight + weight, span})) return;
      } else {
        const std::uint64_t left_over = count.weight;
        if (own.exchange(count, {weight, span})) {
          if (left_over > 0) take_off(left_over);
          return;
        }
      }
    }
  }

  void charge(Instant now, std::uint64_t weight) noexcept {
    Head seen = advance(biased(number(now)));
    for (;;) {
      const std::uint64_t span = seen.number;
      const std::uint64_t fits = std::min(weight, std::numeric_limits<std::uint64_t>::max() - seen.weight);
      if (head_.exchange(seen, {seen.weight + fits, span})) return record(span, fits);
    }
  }

  void take_back(Instant now, std::uint64_t weight) noexcept {
    const std::uint64_t span = biased(number(now));
    // What has left the window is in no cell any more.
    advance(span);
    for (std::uint64_t back = 0; back < cells_.size() && back <= span && weight > 0; ++back) {
      SlidingWindowCell& own = cell(span - back);
      SlidingWindowCount count = own.read();
      while (count.number == span - back && count.weight > 0) {
        const std::uint64_t part = std::min(weight, count.weight);
        if (!own.exchange(count, {count.weight - part, count.number})) continue;
        take_off(part);
        weight -= part;
        break;
      }
    }
  }

  /// What the head still counts although it has left the window at `span`.
  std::uint64_t left_by(std::uint64_t span) const noexcept {
    std::uint64_t sum = 0;
    for (const SlidingWindowCell& each : cells_) {
      const SlidingWindowCount count = each.read();
      if (has_left(count.number, span)) sum = saturated_sum(sum, count.weight);
    }
    return sum;
  }

  Acquisition refusal(Instant now, std::uint64_t span, std::uint64_t total,
                      std::uint64_t weight) const noexcept {
    Acquisition answer;
    answer.remaining = limit_ - std::min(limit_, total);
    answer.reset_after = reset(now, span, total);
    if (weight > limit_) {
      answer.retry_after = forever;
      return answer;
    }
    // Oldest span first, until enough has left.
    unsigned __int128 freed = 0;
    const unsigned __int128 needed = static_cast<unsigned __int128>(total) + weight - limit_;
    const auto width = static_cast<std::uint64_t>(spans_);
    for (std::uint64_t number = span - std::min(span, width - 1); number <= span; ++number) {
      const SlidingWindowCount count = cell(number).read();
      if (count.number == number) freed += count.weight;
      if (freed >= needed) {
        answer.retry_after = until(now, leaves(number));
        return answer;
      }
    }
    // Another thread has added to the head and not yet to its cell.
    answer.retry_after = until(now, leaves(span));
    return answer;
  }

  /// Until the last weight in the window at `span` has left it.
  Duration reset(Instant now, std::uint64_t span, std::uint64_t total) const noexcept {
    if (total == 0) return Duration{};
    std::uint64_t newest = 0;
    for (const SlidingWindowCell& each : cells_) {
      const SlidingWindowCount count = each.read();
      if (count.weight > 0 && !has_left(count.number, span)) newest = std::max(newest, count.number);
    }
    return until(now, leaves(newest > 0 ? newest : span));
  }

  std::uint64_t limit_;
  std::int64_t interval_;
  std::int64_t spans_;
  std::span<SlidingWindowCell> cells_;
  alignas(64) SharedValue<Head> head_;
  /// The latest span whose predecessors have been taken off. Any thread; only grows.
  std::atomic<std::uint64_t> swept_{0};
};

}  // namespace weir
