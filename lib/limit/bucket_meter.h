// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What token and leaky bucket have in common: the level of bucket.h, and the moment up to which it is known.
///
/// bucket.h's level alone is one word, and wraps around. Kept together with the latest moment at which it was
/// changed it needs no one to look at it in time: a bucket untouched for longer than it takes to fill is
/// full, whatever its word says. The same moment makes time that jumps back stand still: what has been
/// generated up to there stays, and nothing more is until the clock has passed it.
///
/// A debt (a reservation ahead of time, a cost charged afterwards) is a level ahead of what has been
/// generated. It is cut where level and fullness are 2^62 units apart, which is no less than once more what
/// the widest bucket holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "limit/arithmetic.h"
#include "limit/bucket.h"
#include "weir/limiter.h"
#include "weir/time.h"

namespace weir {

/// Immutable; pure transitions on a State.
class BucketMeter {
 public:
  /// 16 bytes; the second word never goes back. As constructed: an unused bucket.
  struct State {
    std::uint64_t level = 0;
    std::int64_t latest = unused;  ///< nanoseconds of monotonic time
    bool operator==(const State&) const = default;
  };

  constexpr explicit BucketMeter(const BucketTerms& terms) noexcept : terms_(terms) {}

  constexpr Acquisition try_acquire(State& state, Instant now, std::uint64_t weight) const noexcept {
    View view = look(state, now);
    const std::uint64_t asked = std::max<std::uint64_t>(weight, 1);
    const bool fits =
        asked <= terms_.burst() && terms_.cost(asked) <= terms_.available(view.level, view.generated);
    Acquisition answer{.admitted = fits};
    if (!fits) answer.retry_after = wait(view, now, asked);
    if (fits && weight > 0) {
      view.level += terms_.cost(weight);
      state = {view.level, view.at};
    }
    answer.remaining = terms_.tokens(terms_.available(view.level, view.generated));
    answer.reset_after = after(view, now, view.level - terms_.full(view.generated));
    return answer;
  }

  /// Claims the future: the bucket goes into debt, and the wait is until the debt is paid.
  constexpr Reservation reserve(State& state, Instant now, std::uint64_t weight) const noexcept {
    View view = look(state, now);
    if (weight == 0) return {wait(view, now, 1), false};
    const Duration until = wait(view, now, weight);
    const std::uint64_t missing = view.level - terms_.full(view.generated);
    if (until == forever || terms_.cost(weight) > max_missing - missing) return {forever, false};
    state = {view.level + terms_.cost(weight), view.at};
    return {until, true};
  }

  constexpr void correct(State& state, Instant now, std::int64_t by) const noexcept {
    if (by == 0) return;
    const View view = look(state, now);
    const std::uint64_t missing = view.level - terms_.full(view.generated);
    const std::uint64_t units = terms_.cost(magnitude(by));
    state = {
        by > 0 ? view.level + std::min(units, max_missing - missing) : view.level - std::min(units, missing),
        view.at};
  }

  /// What has been taken and not yet been generated again, in whole tokens, rounded up: the water in a leaky
  /// bucket.
  constexpr std::uint64_t taken(const State& state, Instant now) const noexcept {
    const View view = look(state, now);
    const std::uint64_t missing = view.level - terms_.full(view.generated);
    const std::uint64_t whole = terms_.tokens(missing);
    return whole + (terms_.cost(whole) < missing);
  }

 private:
  static constexpr std::int64_t unused = std::numeric_limits<std::int64_t>::min();
  static constexpr std::uint64_t max_missing = std::uint64_t{1} << 62;

  struct View {
    std::uint64_t level;
    std::uint64_t generated;
    std::int64_t at;
  };

  constexpr View look(const State& state, Instant now) const noexcept {
    const std::int64_t at = std::max(now.monotonic.time_since_epoch().count(), state.latest);
    const std::uint64_t generated = generated_by(at);
    if (state.latest == unused) return {terms_.full(generated), generated, at};
    const std::uint64_t missing = state.level - terms_.full(generated_by(state.latest));
    // Before any difference of levels is trusted: so long ago that the numbers may have wrapped is full.
    if (elapsed_ns(state.latest, at) >= static_cast<std::uint64_t>(terms_.time_for(missing).count()))
      return {terms_.full(generated), generated, at};
    return {terms_.caught_up(state.level, generated), generated, at};
  }

  constexpr std::uint64_t generated_by(std::int64_t at) const noexcept {
    return terms_.generated(MonotonicTime(Duration(at)));
  }

  /// From `now` until `units` have been generated after the view's moment, which may be later than `now`.
  constexpr Duration after(const View& view, Instant now, std::uint64_t units) const noexcept {
    if (units == 0) return Duration{};
    const std::uint64_t behind = elapsed_ns(now.monotonic.time_since_epoch().count(), view.at);
    return duration_of(static_cast<__int128>(terms_.time_for(units).count()) + behind);
  }

  constexpr Duration wait(const View& view, Instant now, std::uint64_t weight) const noexcept {
    if (weight > terms_.burst()) return forever;
    const auto short_of = static_cast<std::int64_t>(view.level + terms_.cost(weight) - view.generated);
    return short_of <= 0 ? Duration{} : after(view, now, static_cast<std::uint64_t>(short_of));
  }

  BucketTerms terms_;
};
static_assert(sizeof(BucketMeter::State) == 16);

}  // namespace weir
