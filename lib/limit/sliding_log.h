// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Sliding log: never more than the limit in any half-open window (t − T, t]. Exact; a request exactly T
/// after the oldest is admitted. Memory for every admission of an interval: limits are small
/// (max_sliding_log_limit).
///
/// Admissions are numbered 0, 1, 2 …, and the k-th one stands in slot k mod L of a ring. It displaces the one
/// numbered k − L, so it may be made exactly if that one is T or more ago: then fewer than L are left in the
/// window. No search, no truncation: the check reads one slot. A request of weight w takes w numbers; times
/// never decrease from one number to the next, so the last of the displaced ones decides for all.
///
/// Several threads. The head (how many there have been, and the latest time) is exchanged as one word of 16
/// bytes: that claims the numbers. Then the slots are written. A slot carries the number of its admission
/// beside its time, so a claimed slot that has not been written yet still shows the number it had before, and
/// is never taken for the old one that will be T ago: the request is refused. Who has read a slot and then
/// claims its successor's number knows that nobody claimed it in between, so what was read still held.
///
/// Clocks of several threads differ, and one clock may jump back. Let r be the time a request comes with and
/// e = max(r, latest) the time recorded. The check compares e of number k − L with r of number k. So among
/// any L + 1 admissions the first and the last in number are T or more apart, both by the times they came
/// with and by the recorded ones: e_first + T ≤ r_last ≤ e_last, and r_first ≤ e_first. No window holds both,
/// whichever clock draws it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "limit/arithmetic.h"
#include "limit/shared_state.h"
#include "weir/limiter.h"
#include "weir/time.h"

namespace weir {

/// One admission. Zeroed memory: never used.
struct SlidingLogEntry {
  std::uint64_t time = 0;    ///< nanoseconds of monotonic time, biased()
  std::uint64_t number = 0;  ///< of the admission, plus 1; only ever grows
};
/// Written by the thread that claimed its number; by any that hands back.
using SlidingLogSlot = SharedValue<SlidingLogEntry>;

/// How far the log has come. Zeroed memory: unused.
struct SlidingLogMark {
  std::uint64_t latest = 0;  ///< the latest time of an admission, biased(); only grows
  std::uint64_t count = 0;   ///< admissions so far; only grows
};
/// Written by any thread.
using SlidingLogHead = SharedValue<SlidingLogMark>;

/// The terms of a sliding log. Immutable; works on a head and slots that somebody else owns, any thread, any
/// time, lock-free. `slots` are always the same, at least as many as the limit; the first so many are used.
class SlidingLog {
 public:
  /// @param limit     weight per window, ≥ 1
  /// @param interval  > 0
  constexpr SlidingLog(std::uint64_t limit, Duration interval) noexcept
      : limit_(limit), interval_(static_cast<std::uint64_t>(interval.count())) {}

  constexpr std::uint64_t limit() const noexcept { return limit_; }

  /// Forgets everything. The owner alone, while nobody uses the log.
  void reset(SlidingLogHead& head, std::span<SlidingLogSlot> slots) const noexcept {
    set(head, SlidingLogMark{});
    for (SlidingLogSlot& slot : slots.first(limit_)) set(slot, SlidingLogEntry{});
  }

  /// The decision alone, for who needs no figures: one slot read, and 1 + weight words written if admitted.
  /// @pre weight >= 1
  bool admit(SlidingLogHead& head, std::span<SlidingLogSlot> slots, MonotonicTime now,
             std::uint64_t weight) const noexcept {
    if (weight > limit_) return false;
    const std::uint64_t at = time(now);
    SlidingLogMark seen = head.read();
    while (passes(slots, seen.count + weight, at)) {
      const SlidingLogMark next{std::max(seen.latest, at), seen.count + weight};
      if (!head.exchange(seen, next)) continue;
      write(slots, seen.count, next);
      return true;
    }
    return false;
  }

  Acquisition try_acquire(SlidingLogHead& head, std::span<SlidingLogSlot> slots, Instant now,
                          std::uint64_t weight) const noexcept {
    if (weight == 0) return peek(head, slots, now);
    const bool admitted = admit(head, slots, now.monotonic, weight);
    Acquisition answer = peek(head, slots, now);
    answer.admitted = admitted;
    answer.retry_after = Duration{};
    if (!admitted) {
      const Duration until = wait(slots, head.read().count, now.monotonic, weight);
      // Another thread's admissions may have come of age since: then at once, but not in the past.
      answer.retry_after = std::max(until, Duration{1});
    }
    return answer;
  }

  Acquisition peek(const SlidingLogHead& head, std::span<SlidingLogSlot> slots, Instant now) const noexcept {
    const SlidingLogMark seen = head.read();
    const std::uint64_t at = time(now.monotonic);
    Acquisition answer;
    answer.remaining = free(slots, seen.count, at);
    answer.admitted = answer.remaining > 0;
    if (!answer.admitted)
      answer.retry_after = std::max(wait(slots, seen.count, now.monotonic, 1), Duration{1});
    // The latest time there has been: what is handed back are older ones.
    if (answer.remaining < limit_) answer.reset_after = left(seen.latest, at);
    return answer;
  }

  /// Whether nothing that has been admitted counts any more.
  bool is_empty(const SlidingLogHead& head, MonotonicTime now) const noexcept {
    return has_left(head.read().latest, time(now));
  }

  /// Claims the moment: the admission is recorded with the time at which it may go. Nobody overtakes it.
  Reservation reserve(SlidingLogHead& head, std::span<SlidingLogSlot> slots, Instant now,
                      std::uint64_t weight) const noexcept {
    SlidingLogMark seen = head.read();
    if (weight == 0) return {wait(slots, seen.count, now.monotonic, 1), false};
    if (weight > limit_) return {forever, false};
    for (;;) {
      std::uint64_t goes = time(now.monotonic);
      if (seen.count + weight > limit_) {
        const std::uint64_t displaced = seen.count + weight - limit_;
        const SlidingLogEntry entry = slot(slots, displaced - 1).read();
        // Claimed by a thread that has not written it yet: nobody can say when it will be T ago.
        if (entry.number < displaced) return {Duration{1}, false};
        if (entry.number == displaced) {
          if (entry.time > std::numeric_limits<std::uint64_t>::max() - interval_) return {forever, false};
          goes = std::max(goes, entry.time + interval_);
        }
      }
      const SlidingLogMark next{std::max(seen.latest, goes), seen.count + weight};
      if (!head.exchange(seen, next)) continue;
      write(slots, seen.count, next);
      return {duration_of(static_cast<__int128>(goes) - time(now.monotonic)), true};
    }
  }

  /// Handing back ages the oldest admissions of the window by as much as makes them leave it now, instead of
  /// forgetting the latest: the same room now, and never more later. Where another thread is just writing or
  /// displacing one of them, less comes back. A charge is admitted whatever the window holds; of a charge
  /// over the limit the window remembers the limit.
  /// @param now  handing back: the time the request came with. What has left the window since frees nothing;
  /// a
  ///             later time would free what others hold.
  void correct(SlidingLogHead& head, std::span<SlidingLogSlot> slots, Instant now,
               std::int64_t by) const noexcept {
    const std::uint64_t at = time(now.monotonic);
    if (by > 0) {
      SlidingLogMark seen = head.read();
      for (;;) {
        const SlidingLogMark next{std::max(seen.latest, at), seen.count + std::min(magnitude(by), limit_)};
        if (!head.exchange(seen, next)) continue;
        return write(slots, seen.count, next);
      }
    }
    const SlidingLogMark seen = head.read();
    if (seen.latest > at && seen.latest - at >= interval_) return;
    std::uint64_t left_over = std::min(magnitude(by), limit_);
    for (std::uint64_t number = seen.count - std::min(seen.count, limit_);
         number < seen.count && left_over > 0; ++number) {
      SlidingLogSlot& own = slot(slots, number);
      SlidingLogEntry entry = own.read();
      // What is aged must stay the oldest, because a heavy request looks at the last of those it displaces
      // alone; and it must be no later than what is handed back. So no further where a slot has not been
      // written yet, nor where it has been taken by a later admission: then the ring has moved on.
      if (entry.number != number + 1) return;
      if (has_left(entry.time, at)) continue;
      // Just left, and not more: to a clock that is behind it must not have left.
      const std::uint64_t aged = at > interval_ ? at - interval_ : 0;
      if (own.exchange(entry, {aged, entry.number})) {
        --left_over;
      } else {
        --number;  // look again: aged by another thread, or displaced
      }
    }
  }

  /// How long until a request of this weight would be admitted; 0: it is so now; `forever`: never.
  Duration retry_after(const SlidingLogHead& head, std::span<SlidingLogSlot> slots, MonotonicTime now,
                       std::uint64_t weight) const noexcept {
    return wait(slots, head.read().count, now, weight);
  }

 private:
  static constexpr std::uint64_t time(MonotonicTime now) noexcept {
    // 0 is long ago at any time.
    return std::max<std::uint64_t>(biased(now.time_since_epoch().count()), 1);
  }
  bool has_left(std::uint64_t entry, std::uint64_t at) const noexcept {
    return entry == 0 || (at >= entry && at - entry >= interval_);
  }
  Duration left(std::uint64_t entry, std::uint64_t at) const noexcept {
    return duration_of(static_cast<__int128>(entry) + interval_ - at);
  }
  SlidingLogSlot& slot(std::span<SlidingLogSlot> slots, std::uint64_t number) const noexcept {
    return slots[number % limit_];
  }

  /// Whether there may be so many admissions in all.
  bool passes(std::span<SlidingLogSlot> slots, std::uint64_t count, std::uint64_t at) const noexcept {
    if (count <= limit_) return true;
    const SlidingLogEntry entry = slot(slots, count - limit_ - 1).read();
    // Below: not yet written. Above: the caller's count is stale, and its exchange will fail.
    return entry.number >= count - limit_ && (entry.number > count - limit_ || has_left(entry.time, at));
  }

  /// How many more may be admitted: the numbers from count − limit on that have left the window come first.
  std::uint64_t free(std::span<SlidingLogSlot> slots, std::uint64_t count, std::uint64_t at) const noexcept {
    std::uint64_t least = 0;
    std::uint64_t most = limit_;
    while (least < most) {
      const std::uint64_t middle = most - (most - least) / 2;
      if (passes(slots, count + middle, at)) {
        least = middle;
      } else {
        most = middle - 1;
      }
    }
    return least;
  }

  Duration wait(std::span<SlidingLogSlot> slots, std::uint64_t count, MonotonicTime now,
                std::uint64_t weight) const noexcept {
    if (weight > limit_) return forever;
    if (count + weight <= limit_) return Duration{};
    const SlidingLogEntry entry = slot(slots, count + weight - limit_ - 1).read();
    if (entry.number < count + weight - limit_) return Duration{1};
    return has_left(entry.time, time(now)) ? Duration{} : left(entry.time, time(now));
  }

  /// Writes the claimed numbers from `first` on.
  void write(std::span<SlidingLogSlot> slots, std::uint64_t first,
             const SlidingLogMark& mark) const noexcept {
    for (std::uint64_t number = first; number < mark.count; ++number) {
      SlidingLogSlot& own = slot(slots, number);
      SlidingLogEntry entry = own.read();
      // A charge does not ask whether a slot has been written: the later number stays.
      while (entry.number < number + 1 && !own.exchange(entry, {mark.latest, number + 1})) {
      }
    }
  }

  template <typename Shared, typename Value>
  static void set(Shared& shared, const Value& value) noexcept {
    Value seen = shared.read();
    while (!shared.exchange(seen, value)) {
    }
  }

  std::uint64_t limit_;
  std::uint64_t interval_;
};

}  // namespace weir
