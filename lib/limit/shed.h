// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Proportional shedding: of a demand D above the limit L, the fraction p = L / D is admitted, evenly spread.
/// No block, no closed window: whatever the overload, what passes stays at L, and every client sees the same
/// odds.
///
/// Which requests pass is decided by error diffusion, not by chance: a credit rises by p with every request,
/// and a request that brings it to one half is admitted and costs 1 (rounding to the nearest, with the error
/// carried on). So over any run of requests what was admitted is p times what was offered, give or take half
/// a request.
///
/// Weights need care. One credit for all, counted in weight, would starve the heavy: light requests would
/// spend what is saved before it is ever enough for a heavy one. So each class of weights (a power of two and
/// what lies below the next) has a credit of its own, counted in requests: the odds are p for each, whatever
/// the others do.
///
/// Used alone, the demand is estimated here: per span, what was offered, halved into the estimate of the
/// spans before (one span's noise counts half, old demand is soon forgotten). While a span offers more than
/// was estimated, what it has offered so far is the estimate: a sudden overload, also the very first one,
/// admits no more than q (1 + ln(D/q)) in its first span, where q = L/N is the span's part of the limit. Of a
/// limit below N there are only so many spans: or else a single request would be more than its span's part.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "limit/arithmetic.h"
#include "limit/shared_state.h"
#include "weir/limiter.h"
#include "weir/time.h"

namespace weir {

/// A fraction numerator / denominator; at least 1 means all.
struct ShedFraction {
  std::uint64_t numerator = 1;
  unsigned __int128 denominator = 1;
  constexpr bool all() const noexcept { return denominator <= numerator; }
};

/// Which requests a fraction admits. A pure transition on a State.
class ErrorDiffusion {
 public:
  /// The credit, in 2^-32 of a request.
  using State = std::int64_t;

  static constexpr bool admits(State& credit, ShedFraction fraction) noexcept {
    // Nothing is owed to anybody while all pass.
    if (fraction.all()) {
      credit = 0;
      return true;
    }
    const auto part = static_cast<__int128>((static_cast<unsigned __int128>(fraction.numerator) << 32) /
                                            fraction.denominator);
    const __int128 raised = static_cast<__int128>(credit) + part;
    const bool admitted = raised >= one / 2;
    credit = fitted(admitted ? raised - one : raised);
    return admitted;
  }

  /// The greatest denominator with which a fraction of this numerator admits the next request.
  static constexpr unsigned __int128 greatest_denominator(State credit, std::uint64_t numerator) noexcept {
    const __int128 missing = one / 2 - credit;
    if (missing <= 0) return std::numeric_limits<std::uint64_t>::max();
    return std::max<unsigned __int128>(numerator, (static_cast<unsigned __int128>(numerator) << 32) /
                                                      static_cast<unsigned __int128>(missing));
  }

  /// Requests that were admitted and have not been needed (negative: others may pass in their place), or that
  /// have passed besides.
  static constexpr void correct(State& credit, std::int64_t by) noexcept {
    credit = fitted(static_cast<__int128>(credit) - static_cast<__int128>(by) * one);
  }

 private:
  static constexpr __int128 one = __int128{1} << 32;

  static constexpr State fitted(__int128 credit) noexcept {
    return static_cast<State>(
        std::clamp<__int128>(credit, std::numeric_limits<State>::min(), std::numeric_limits<State>::max()));
  }
};

/// Sheds by its own estimate of the demand. Lock-free; any thread, any time. Time that jumps back finds the
/// latest span still running.
///
/// Several threads: the running span with its estimate is one 16-byte word; what was offered, and each
/// class's credit, are words of their own. When a span ends, whoever moves the first one takes what it has
/// seen off the offered weight; what others offered in between counts in the new span. No request is lost
/// from the figures; but where that thread stops for a whole span between the two, what was offered before
/// counts in two, and some of what came since in none.
class Shed {
 public:
  /// @param limit     weight per interval, 1 … 2^63 − 1
  /// @param interval  of all spans together, ≥ 1 ns per span
  /// @param spans     ≥ 1
  Shed(std::uint64_t limit, Duration interval, std::uint32_t spans) noexcept
      : limit_(limit),
        interval_(interval.count()),
        spans_(static_cast<std::uint32_t>(std::min<std::uint64_t>(spans, limit))),
        part_(limit_ / spans_),
        width_(interval_ % spans_ == 0 ? interval_ / spans_ : 0) {}

  /// A weight above the limit is never admitted. `remaining` is what this span may still admit before
  /// anything is shed; 0 while something is.
  Acquisition try_acquire(Instant now, std::uint64_t weight) noexcept {
    if (weight == 0) return peek(now);
    const Round round = advance(biased(number(now)));
    // What could never pass is no demand that others would have to make room for.
    if (weight > limit_) {
      Acquisition refused = answer(now, round, offered_.load(std::memory_order_relaxed));
      refused.retry_after = forever;
      return refused;
    }
    const std::uint64_t offered = offer(weight);
    const ShedFraction fraction = fraction_of(round, offered);
    SharedValue<ErrorDiffusion::State>& credit = credits_[class_of(weight)];
    ErrorDiffusion::State seen = credit.read();
    for (;;) {
      ErrorDiffusion::State next = seen;
      const bool admitted = ErrorDiffusion::admits(next, fraction);
      if (next != seen && !credit.exchange(seen, next)) continue;
      return admitted ? admission(now, round, offered) : refusal(now, round, offered, next, weight);
    }
  }

  Acquisition peek(Instant now) const noexcept {
    Round round = round_.read();
    std::uint64_t offered = offered_.load(std::memory_order_relaxed);
    const std::uint64_t span = biased(number(now));
    if (round.span < span) {
      round = next_round(round, offered, span);
      offered = 0;
    }
    const ErrorDiffusion::State credit = credits_[0].read();
    ErrorDiffusion::State next = credit;
    if (ErrorDiffusion::admits(next, fraction_of(round, saturated_sum(offered, 1))))
      return admission(now, round, offered);
    return refusal(now, round, offered, credit, 1);
  }

  /// Claims nothing unless the request may go at once: nobody knows the next span's demand.
  Reservation reserve(Instant now, std::uint64_t weight) noexcept {
    const Acquisition got = try_acquire(now, weight);
    return {got.retry_after, got.admitted && weight > 0};
  }

  /// Lets one more (negative) or one less request of this weight's class pass; what was offered stays. While
  /// nothing is shed, nothing is owed, and it has no effect.
  void correct(Instant, std::int64_t by) noexcept {
    if (by == 0) return;
    SharedValue<ErrorDiffusion::State>& credit = credits_[class_of(magnitude(by))];
    ErrorDiffusion::State seen = credit.read();
    for (;;) {
      ErrorDiffusion::State next = seen;
      ErrorDiffusion::correct(next, by < 0 ? -1 : 1);
      if (credit.exchange(seen, next)) return;
    }
  }
  void give_back(Instant now, std::uint64_t weight) noexcept { correct(now, handed_back(weight)); }

  /// Demand per span, as estimated from the spans that have ended.
  std::uint64_t estimate() const noexcept { return round_.read().estimate; }

 private:
  /// Any thread; by the span's first request.
  struct Round {
    std::uint64_t estimate = 0;  ///< demand per span
    std::uint64_t span = 0;      ///< the running one, biased(); 0: none yet
  };
  static constexpr std::size_t class_of(std::uint64_t weight) noexcept {
    return static_cast<std::size_t>(std::bit_width(weight) - 1);
  }

  /// Adds to what the running span has been offered; returns the sum.
  std::uint64_t offer(std::uint64_t weight) noexcept {
    // Relaxed: the number is all there is to agree on.
    std::uint64_t seen = offered_.load(std::memory_order_relaxed);
    while (!offered_.compare_exchange_weak(seen, saturated_sum(seen, weight), std::memory_order_relaxed)) {
    }
    return saturated_sum(seen, weight);
  }

  /// Takes as much off again, as far as it is there.
  void take_off(std::uint64_t weight) noexcept {
    // Relaxed: as above.
    std::uint64_t seen = offered_.load(std::memory_order_relaxed);
    while (!offered_.compare_exchange_weak(seen, seen - std::min(seen, weight), std::memory_order_relaxed)) {
    }
  }

  std::int64_t number(Instant now) const noexcept {
    const std::int64_t wall = now.wall.time_since_epoch().count();
    if (width_ > 0) return wall / width_ - (wall % width_ < 0 ? 1 : 0);
    const __int128 product = static_cast<__int128>(wall) * spans_;
    return static_cast<std::int64_t>(product / interval_ - (product % interval_ < 0 ? 1 : 0));
  }
  __int128 begin_of(__int128 span) const noexcept {
    if (width_ > 0) return span * width_;
    const __int128 product = span * interval_;
    return product / spans_ + (product % spans_ > 0 ? 1 : 0);
  }

  ShedFraction fraction_of(const Round& round, std::uint64_t offered) const noexcept {
    // (L / N) / D
    return {limit_, static_cast<unsigned __int128>(std::max(round.estimate, offered)) * spans_};
  }

  static Round next_round(const Round& round, std::uint64_t offered, std::uint64_t span) noexcept {
    if (round.span == 0) return {0, span};
    // The first span there is has no estimate to be halved into.
    const std::uint64_t estimate =
        round.estimate == 0 ? offered : round.estimate / 2 + offered / 2 + (round.estimate & offered & 1);
    const std::uint64_t empty = span - round.span - 1;
    return {empty > 63 ? 0 : estimate >> empty, span};
  }

  Round advance(std::uint64_t span) noexcept {
    Round seen = round_.read();
    while (seen.span < span) {
      const std::uint64_t offered = offered_.load(std::memory_order_relaxed);
      const Round next = next_round(seen, offered, span);
      if (!round_.exchange(seen, next)) continue;
      // Whoever is late to it may find that the thread of the next span has taken it off, too.
      take_off(offered);
      return next;
    }
    return seen;
  }

  /// Until a span whose estimate is so much at most, if nothing more is offered: each halves it.
  Duration until_estimate(Instant now, const Round& round, std::uint64_t offered,
                          std::uint64_t most) const noexcept {
    const std::uint64_t estimate = next_round(round, offered, round.span + 1).estimate;
    int spans =
        std::max(static_cast<int>(std::bit_width(estimate)) - static_cast<int>(std::bit_width(most)), 0);
    spans += estimate >> spans > most;
    const __int128 span = static_cast<__int128>(unbiased(round.span)) + 1 + spans;
    return duration_of(begin_of(span) - now.wall.time_since_epoch().count());
  }

  /// But for the verdict.
  Acquisition answer(Instant now, const Round& round, std::uint64_t offered) const noexcept {
    Acquisition answer;
    const bool sheds = round.estimate > part_;
    if (!sheds) answer.remaining = part_ - std::min(part_, offered);
    if (sheds || offered > 0) answer.reset_after = until_estimate(now, round, offered, part_);
    return answer;
  }
  Acquisition admission(Instant now, const Round& round, std::uint64_t offered) const noexcept {
    Acquisition admitted = answer(now, round, offered);
    admitted.admitted = true;
    return admitted;
  }
  /// Before the next span the odds stay what they are. Who weighs more than a span's part of the limit may
  /// have to ask more than once at the best odds there are.
  Acquisition refusal(Instant now, const Round& round, std::uint64_t offered, ErrorDiffusion::State credit,
                      std::uint64_t weight) const noexcept {
    Acquisition refused = answer(now, round, offered);
    const unsigned __int128 demand = ErrorDiffusion::greatest_denominator(credit, limit_) / spans_;
    const auto most = static_cast<std::uint64_t>(
        std::clamp<unsigned __int128>(demand, weight, std::numeric_limits<std::uint64_t>::max()));
    const Duration wait = until_estimate(now, round, offered, most);
    refused.retry_after = std::max(wait, Duration{1});
    return refused;
  }

  std::uint64_t limit_;
  std::int64_t interval_;
  std::uint32_t spans_;
  std::uint64_t part_;  // a span's of the limit
  std::int64_t width_;  // of a span, where all are equally long, as they mostly are; else 0
  alignas(64) SharedValue<Round> round_;
  /// Weight in the running span. Any thread.
  std::atomic<std::uint64_t> offered_{0};
  /// One per class of weights. Any thread.
  std::array<SharedValue<ErrorDiffusion::State>, 64> credits_;
};

}  // namespace weir
