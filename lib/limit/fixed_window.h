// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Fixed window: at most the limit in each interval aligned to the Unix epoch, then closed until it ends.
///
/// One number per window would do, but for what reaches beyond it: a debt is taken off the windows that
/// follow, and a reservation may claim one. So `used` is counted from the current window's begin over all
/// that follow: used / limit windows are spoken for, used mod limit is taken of the next one, and each window
/// that begins takes one limit off. A reservation that must wait closes the windows before its own: nobody
/// overtakes it.
///
/// Between two windows twice the limit may pass in a short time (the border burst); the sliding window and
/// the sliding log are for who minds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/span_clock.h"
#include "limit/arithmetic.h"
#include "weir/limiter.h"
#include "weir/time.h"

namespace weir {

/// Immutable; pure transitions on a State.
class FixedWindow {
 public:
  /// 16 bytes; the second word never goes back: a wall clock that jumps back finds the later window still
  /// open.
  struct State {
    std::uint64_t used = 0;
    Ordinal ordinal = std::numeric_limits<Ordinal>::min();
    bool operator==(const State&) const = default;
  };

  /// @param limit     weight per window, ≥ 1
  /// @param interval  > 0
  constexpr FixedWindow(std::uint64_t limit, Duration interval) noexcept
      : limit_(limit), clock_(interval, 1) {}

  constexpr std::uint64_t limit() const noexcept { return limit_; }

  constexpr Acquisition try_acquire(State& state, Instant now, std::uint64_t weight) const noexcept {
    State current = look(state, now);
    const std::uint64_t asked = std::max<std::uint64_t>(weight, 1);
    Acquisition answer{.admitted = current.used <= limit_ && asked <= limit_ - current.used};
    if (answer.admitted && weight > 0) {
      current.used += weight;
      state = current;
    }
    if (!answer.admitted) answer.retry_after = wait_from(current, now, asked);
    answer.remaining = limit_ - std::min(limit_, current.used);
    answer.reset_after = until_window(current, now, current.used / limit_ + (current.used % limit_ != 0));
    return answer;
  }

  /// Claims the first window that has room.
  constexpr Reservation reserve(State& state, Instant now, std::uint64_t weight) const noexcept {
    State current = look(state, now);
    const Duration until = wait_from(current, now, std::max<std::uint64_t>(weight, 1));
    if (weight == 0) return {until, false};
    const Place place = find_place(current.used, weight);
    if (until == forever || place.used > std::numeric_limits<std::uint64_t>::max()) return {forever, false};
    current.used = static_cast<std::uint64_t>(place.used);
    state = current;
    return {until, true};
  }

  /// A charge is always one of the window that runs, or of those after it.
  /// @param now  handing back: the time the request, or the later charge, came with. What is of a window
  ///             before frees nothing, also not of the debt that it left
  constexpr void correct(State& state, Instant now, std::int64_t by) const noexcept {
    if (by == 0 || (by < 0 && clock_.ordinal(now.wall) < state.ordinal)) return;
    State current = look(state, now);
    current.used = by > 0 ? saturated_sum(current.used, magnitude(by))
                          : current.used - std::min(current.used, magnitude(by));
    state = current;
  }

  /// Until a request of this weight would find room.
  constexpr Duration wait(const State& state, Instant now, std::uint64_t weight) const noexcept {
    const State current = look(state, now);
    return wait_from(current, now, weight);
  }

  /// Used weight counted from the begin of the window at `now`.
  constexpr std::uint64_t used(const State& state, Instant now) const noexcept {
    return look(state, now).used;
  }

 private:
  constexpr State look(const State& state, Instant now) const noexcept {
    const Ordinal ordinal = std::max(clock_.ordinal(now.wall), state.ordinal);
    const std::uint64_t begun = elapsed_ns(state.ordinal, ordinal);
    const unsigned __int128 freed = static_cast<unsigned __int128>(begun) * limit_;
    return {state.used <= freed ? 0 : state.used - static_cast<std::uint64_t>(freed), ordinal};
  }

  struct Place {
    std::uint64_t window;  // counted from the current one
    unsigned __int128 used;
  };
  /// @pre weight <= limit
  constexpr Place find_place(std::uint64_t used, std::uint64_t weight) const noexcept {
    const std::uint64_t window = used / limit_;
    if (weight <= limit_ - used % limit_) return {window, static_cast<unsigned __int128>(used) + weight};
    return {window + 1, (static_cast<unsigned __int128>(window) + 1) * limit_ + weight};
  }

  constexpr Duration wait_from(const State& current, Instant now, std::uint64_t weight) const noexcept {
    if (weight > limit_) return forever;
    return until_window(current, now, find_place(current.used, weight).window);
  }

  constexpr Duration until_window(const State& current, Instant now, std::uint64_t window) const noexcept {
    if (window == 0) return Duration{};
    const __int128 ordinal = static_cast<__int128>(current.ordinal) + window;
    const __int128 interval = clock_.interval().count();
    // Whatever is so far away does not fit a duration either.
    if (ordinal > std::numeric_limits<std::int64_t>::max()) return forever;
    return duration_of(ordinal * interval - now.wall.time_since_epoch().count());
  }

  std::uint64_t limit_;
  SpanClock clock_;
};
static_assert(sizeof(FixedWindow::State) == 16);

}  // namespace weir
