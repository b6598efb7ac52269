// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Token bucket: tokens come at limit / interval and are saved up to `burst`; a request takes its weight in
/// tokens or is refused. With a warm-up, what has been idle starts slowly.
///
/// The warm-up protects what lies behind the limit and is slow when cold (caches to fill, connections to
/// open). It follows the idea of the smooth warming-up limiter of the Guava library, cold factor 3: a token's
/// price is a time, and the price depends on how long there was nothing to do.
///
/// Let s = interval / limit be the price of a token when warm. Time that passes while the bucket is full
/// makes it colder: coldness x, a time too, grows by it up to W, the warm-up. Taking w tokens uses up w·s of
/// coldness. The price of a token at coldness x is s up to x = W/2 and rises in a straight line from there to
/// 3s at x = W:
///
///     price(x) = s · (4x/W − 1)   for x ≥ W/2
///
/// What w tokens cost beyond w·s is the area between the line and s, from x down to x − w·s. With z = x −
/// W/2, or 0 where that is negative:
///
///     extra = ∫ (4z/W) dz = 2 (z_before² − z_after²) / W
///
/// From x = W down to W/2 that is W/2 on top of W/2: leaving the cold end takes W at full demand, as its name
/// says, and half the tokens of that time are admitted. No square root and no floating point: all times are
/// counted in 1/256 ns, divisions rounded up, so that a token is never cheaper than it should be and at most
/// 1/128 ns dearer.
///
/// As in Guava one pays afterwards: a request passes when the bucket holds its tokens at the warm price, and
/// what it costs more is a debt that the next one waits for. With a burst of 1 this is Guava's limiter
/// exactly; a larger burst lets so many requests come in one moment (a caller that reads its clock once per
/// packet burst needs that).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "limit/arithmetic.h"
#include "limit/bucket_meter.h"
#include "weir/limiter.h"
#include "weir/time.h"

namespace weir {

/// Without a warm-up. Immutable; pure transitions on a State.
class TokenBucket : public BucketMeter {
 public:
  /// @param limit     tokens per interval, ≥ 1
  /// @param interval  > 0
  /// @param burst     capacity, ≥ 1; cut to BucketTerms::max_burst
  constexpr TokenBucket(std::uint64_t limit, Duration interval, std::uint64_t burst) noexcept
      : BucketMeter(BucketTerms(limit, interval, burst)) {}
};

/// With a warm-up. Immutable; pure transitions on a State.
///
/// Time that jumps back: the bucket holds that much less until the clock has caught up, so nothing is granted
/// twice. Coldness stays.
class WarmingTokenBucket {
 public:
  /// The longest warm-up: what 56 bits of 1/256 ns hold, rounded down.
  static constexpr Duration max_warmup = std::chrono::hours{72};

  /// 16 bytes. The moment since which tokens have been saved, in 1/256 ns: `since` whole nanoseconds and the
  /// low byte of `rest`; in the future while there is a debt. The other bytes of `rest` are the coldness in
  /// 1/256 ns. As constructed: an unused bucket, full and cold. `since` goes back only when weight is handed
  /// back.
  struct State {
    std::uint64_t rest = 0;
    std::int64_t since = unused;
    bool operator==(const State&) const = default;
  };

  /// @param limit     tokens per interval, ≥ 1
  /// @param interval  > 0
  /// @param burst     what may come in one moment, ≥ 1; cut to what comes in 292 years
  /// @param warmup    from cold to the full rate, > 0; cut to max_warmup
  constexpr WarmingTokenBucket(std::uint64_t limit, Duration interval, std::uint64_t burst,
                               Duration warmup) noexcept
      : limit_(limit),
        interval_(static_cast<std::uint64_t>(interval.count())),
        warmup_(static_cast<std::int64_t>(std::min(warmup, max_warmup).count()) * fraction) {
    burst_ = std::max<std::uint64_t>(1, std::min(burst, tokens_for(max_saved)));
    saved_max_ = std::max(price(burst_), price(1));
  }

  constexpr std::uint64_t burst() const noexcept { return burst_; }

  constexpr Acquisition try_acquire(State& state, Instant now, std::uint64_t weight) const noexcept {
    View view = look(state, now);
    const std::uint64_t asked = std::max<std::uint64_t>(weight, 1);
    Acquisition answer{.admitted = asked <= burst_ && price(asked) <= view.saved};
    if (!answer.admitted) answer.retry_after = wait(view, asked);
    if (answer.admitted && weight > 0) {
      view = charged(view, weight);
      state = kept(view, now);
    }
    answer.remaining = remaining(view);
    answer.reset_after = rounded_up(saved_max_ - view.saved);
    return answer;
  }

  constexpr Reservation reserve(State& state, Instant now, std::uint64_t weight) const noexcept {
    const View view = look(state, now);
    if (weight == 0) return {wait(view, 1), false};
    const Duration until = wait(view, weight);
    if (until == forever) return {forever, false};
    const View next = charged(view, weight);
    if (next.saved < -max_debt) return {forever, false};
    state = kept(next, now);
    return {until, true};
  }

  /// At the warm price: what has been served is settled, not warmed up for.
  constexpr void correct(State& state, Instant now, std::int64_t by) const noexcept {
    if (by == 0) return;
    View view = look(state, now);
    const Time sum = price(magnitude(by));
    view.saved = by > 0 ? std::max(view.saved - sum, std::min(view.saved, -max_debt))
                        : std::min(view.saved + sum, saved_max_);
    state = kept(view, now);
  }

  /// How cold, as a time: 0 … warmup.
  constexpr Duration coldness(const State& state, Instant now) const noexcept {
    return duration_of(look(state, now).cold / fraction);
  }

 private:
  using Time = __int128;  // in 1/256 ns

  static constexpr std::int64_t unused = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t fraction = 256;
  static constexpr Time max_saved = static_cast<Time>(forever.count()) * fraction;
  static constexpr Time max_debt = max_saved;

  struct View {
    Time saved;  // worth of the tokens there are; negative: debt
    Time cold;
  };

  static constexpr Time moment(Instant now) noexcept {
    return static_cast<Time>(now.monotonic.time_since_epoch().count()) * fraction;
  }

  /// What tokens cost when warm, rounded up.
  constexpr Time price(std::uint64_t tokens) const noexcept {
    const unsigned __int128 whole = static_cast<unsigned __int128>(tokens) * interval_;
    // Two steps, as × 256 might not fit: what is left of the division is less than 2^64.
    const unsigned __int128 quotient = whole / limit_;
    const unsigned __int128 rest = whole % limit_;
    if (quotient >= static_cast<unsigned __int128>(forever.count())) return max_saved;
    return static_cast<Time>(quotient * fraction + (rest * fraction + limit_ - 1) / limit_);
  }

  /// How many tokens have at most this price.
  constexpr std::uint64_t tokens_for(Time saved) const noexcept {
    const unsigned __int128 nanoseconds = static_cast<unsigned __int128>(saved) / fraction;
    if (nanoseconds > std::numeric_limits<unsigned __int128>::max() / limit_)
      return std::numeric_limits<std::uint64_t>::max();
    return static_cast<std::uint64_t>(std::min<unsigned __int128>(nanoseconds * limit_ / interval_,
                                                                  std::numeric_limits<std::uint64_t>::max()));
  }

  constexpr View look(const State& state, Instant now) const noexcept {
    if (state.since == unused) return {saved_max_, warmup_};
    const Time since = static_cast<Time>(state.since) * fraction + static_cast<Time>(state.rest % fraction);
    const auto cold = static_cast<Time>(state.rest / fraction);
    const Time saved = moment(now) - since;
    if (saved <= saved_max_) return {saved, cold};
    return {saved_max_, std::min(warmup_, cold + (saved - saved_max_))};
  }

  static constexpr State kept(const View& view, Instant now) noexcept {
    constexpr Time lowest = static_cast<Time>(unused) + 1;
    constexpr Time highest = std::numeric_limits<std::int64_t>::max();
    const Time since = moment(now) - view.saved;
    // Arithmetic shift: rounds down, and the low byte is what is left.
    const Time whole = std::clamp(since >> 8, lowest, highest);
    return {
        static_cast<std::uint64_t>(view.cold) * fraction + static_cast<std::uint64_t>(since & (fraction - 1)),
        static_cast<std::int64_t>(whole)};
  }

  constexpr View charged(const View& view, std::uint64_t weight) const noexcept {
    const Time warm = price(weight);
    const Time cold = std::max<Time>(0, view.cold - warm);
    // Below 2^56 each: their squares fit. An odd half is rounded up in both.
    const Time half = (warmup_ + 1) / 2;
    const Time before = std::max<Time>(0, view.cold - half);
    const Time after = std::max<Time>(0, cold - half);
    const Time extra = (2 * (before * before - after * after) + warmup_ - 1) / warmup_;
    return {view.saved - warm - extra, cold};
  }

  static constexpr Duration rounded_up(Time time) noexcept {
    return duration_of((time + fraction - 1) / fraction);
  }

  constexpr Duration wait(const View& view, std::uint64_t weight) const noexcept {
    return weight > burst_ ? forever : rounded_up(price(weight) - view.saved);
  }

  /// Requests of weight 1 that would pass now. Each costs at least its warm price and at most three times
  /// that (but for rounding): a short search between the two.
  constexpr std::uint64_t remaining(const View& view) const noexcept {
    if (view.saved < price(1)) return 0;
    std::uint64_t most = static_cast<std::uint64_t>(std::min<Time>(burst_, view.saved / price(1)));
    if (view.cold * 2 <= warmup_) return most;
    // The n-th passes if what the n − 1 before it cost leaves the price of one.
    std::uint64_t least = 1;
    while (least < most) {
      const std::uint64_t middle = most - (most - least) / 2;
      if (charged(view, middle - 1).saved >= price(1)) {
        least = middle;
      } else {
        most = middle - 1;
      }
    }
    return least;
  }

  std::uint64_t limit_;
  std::uint64_t interval_;
  Time warmup_;
  std::uint64_t burst_ = 1;
  Time saved_max_ = 0;
};
static_assert(sizeof(WarmingTokenBucket::State) == 16);

}  // namespace weir
