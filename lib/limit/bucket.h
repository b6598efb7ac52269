// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The arithmetic of token and leaky buckets (ITU-T I.371's generic cell rate algorithm, turned round): a
/// bucket is one number, how much has been taken of all that has been generated since the clock began.
///
/// Let `generated(now)` be all tokens there have ever been. A bucket's level V starts as generated − capacity
/// (full); time alone never touches it; taking c raises it by c; what overflowed is caught up when it is next
/// looked at: V is at least generated − capacity. So generated − V is what is there to be taken, and one
/// compare-exchange of one 64-bit word takes it: no timestamp is stored beside it, and no division is done.
///
/// Exactness. A token is worth T / gcd(L, T) units and a nanosecond generates L / gcd(L, T) units, T in
/// nanoseconds: whole numbers, so that a bucket of one token per 100 ms has its next token after 100 ms and
/// not a nanosecond later. Where capacity would then need more than 2^59 units, units are coarser (2^-59 of
/// the capacity), and rates are rounded down by some 2^-60 of themselves. Numbers wrap around at 2^64;
/// differences are right as long as a bucket is looked at before 5 × 2^61 of a level's units have passed,
/// which is no less than five times the time that fills it. For who keeps buckets for longer, units are so
/// coarser also where that many would pass in the time that he names, or, as long as a token is some ten
/// thousand of them, in a hundred times that; rates beyond 5 × 2^59 tokens in the time that he names are cut
/// to it. What seems further ahead than a bucket in debt does to a clock that is behind by that time and ten
/// seconds more is full: so are nearly all levels that are older than he named. (Not where there are more
/// than 2^40 tokens or so in that time: what is older than it may look like a debt.)
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>

#include "weir/time.h"

namespace weir {

/// Rate and capacity of a bucket. Immutable; pure functions; any thread.
class BucketTerms {
 public:
  /// Units are counted from here: the two low bits of a level stay free for its owner's marks.
  static constexpr std::uint64_t unit = 4;
  /// Tokens that fit into the widest bucket; larger ones are cut to it.
  static constexpr std::uint64_t max_burst = std::uint64_t{1} << 59;

  constexpr BucketTerms() noexcept : BucketTerms(1, std::chrono::seconds{1}, 1) {}

  /// @param limit     tokens per interval, ≥ 1
  /// @param interval  > 0
  /// @param burst     capacity in tokens, ≥ 1
  /// @param kept      for how long levels are right without a look, if that is more than five fillings
  constexpr BucketTerms(std::uint64_t limit, Duration interval, std::uint64_t burst,
                        Duration kept = {}) noexcept
      : burst_(std::min(burst, max_burst)) {
    const auto period = static_cast<std::uint64_t>(interval.count());
    const auto longest = static_cast<unsigned __int128>(kept.count());
    // More than units of a token each can count: only limits of nearly 2^60 in an interval, and bursts of
    // nearly 2^59, are so large, as whoever wants none may write.
    if (limit * longest > most_generated * period)
      limit = std::max(static_cast<std::uint64_t>(most_generated * period / longest), std::uint64_t{1});
    const std::uint64_t divisor = std::gcd(limit, period);
    token_ = period / divisor;
    rate_ = limit / divisor;
    // Exact where it fits; a nanosecond must not generate so much that the numbers wrap within the bucket.
    const auto apart = longest + static_cast<std::uint64_t>(longest > 0 ? clocks_apart.count() : 0);
    exact_ = static_cast<unsigned __int128>(burst_) * token_ <= max_burst && rate_ <= max_burst &&
             (token_ == 1 || rate_ * apart <= most_generated / times_apart);
    if (!exact_) {
      // units per token: a power of two; units per nanosecond: rate_ / 2^shift_.
      int fraction = 59 - static_cast<int>(std::bit_width(burst_ - (burst_ > 1 ? 1 : 0)));
      while (fraction > 0 && limit * longest / period + 1 > most_generated >> fraction) --fraction;
      const unsigned __int128 tokens = (limit * apart / period + 1) * times_apart;
      while (longest > 0 && fraction > fine && tokens > most_generated >> fraction) --fraction;
      token_ = std::uint64_t{1} << std::max(fraction, 0);
      unsigned __int128 numerator = static_cast<unsigned __int128>(limit) * token_;
      // As many bits of the quotient as a word holds.
      shift_ = 0;
      while (shift_ < 62 && (numerator >> 126) == 0 && (numerator << 1) / period <= max_word) {
        numerator <<= 1;
        ++shift_;
      }
      const unsigned __int128 quotient = numerator / period;
      rate_ = quotient > max_word ? max_word : static_cast<std::uint64_t>(quotient);
    }
    capacity_ = burst_ * token_ * unit;
    const unsigned __int128 meanwhile = (apart * rate_ >> (exact_ ? 0 : shift_)) * unit;
    if (longest > 0 && 2 * capacity_ + meanwhile < most_ahead_)
      most_ahead_ = 2 * capacity_ + static_cast<std::uint64_t>(meanwhile);
  }

  /// What the numbers of levels mean: two rules' buckets may be taken for each other's only where it is the
  /// same.
  struct Pace {
    std::uint64_t units;  ///< in 2^shift nanoseconds
    int shift;

    bool operator==(const Pace&) const = default;
  };
  constexpr Pace pace() const noexcept { return {rate_, exact_ ? 0 : shift_}; }

  constexpr std::uint64_t burst() const noexcept { return burst_; }
  /// Of the full bucket, as levels count.
  constexpr std::uint64_t capacity() const noexcept { return capacity_; }

  /// All that has been generated by `now`, modulo 2^64.
  constexpr std::uint64_t generated(MonotonicTime now) const noexcept {
    const std::int64_t at = now.time_since_epoch().count();
    if (exact_) return static_cast<std::uint64_t>(at) * rate_ * unit;
    const __int128 product = static_cast<__int128>(at) * static_cast<__int128>(rate_);
    return static_cast<std::uint64_t>(product >> shift_) * unit;
  }

  /// What `tokens` are worth; more than any bucket holds where they exceed 2^59 units.
  constexpr std::uint64_t cost(std::uint64_t tokens) const noexcept {
    const unsigned __int128 units = static_cast<unsigned __int128>(tokens) * token_;
    return (units > max_burst ? max_burst + 1 : static_cast<std::uint64_t>(units)) * unit;
  }

  /// Whole tokens in what can be taken.
  constexpr std::uint64_t tokens(std::uint64_t available) const noexcept { return available / unit / token_; }

  /// Brings a level forward: what has overflowed by now is gone.
  constexpr std::uint64_t caught_up(std::uint64_t level, std::uint64_t generated) const noexcept {
    const std::uint64_t full = generated - capacity_;
    return level - full <= most_ahead_ ? level : full;
  }
  /// The level of a full bucket.
  constexpr std::uint64_t full(std::uint64_t generated) const noexcept { return generated - capacity_; }

  /// What can be taken at a level that has been caught up; 0 also in debt.
  constexpr std::uint64_t available(std::uint64_t level, std::uint64_t generated) const noexcept {
    const std::uint64_t left = generated - level;
    return static_cast<std::int64_t>(left) > 0 ? left : 0;
  }

  /// What a level that has been caught up lacks to be a full bucket's: in debt more than that holds.
  constexpr std::uint64_t missing(std::uint64_t level, std::uint64_t generated) const noexcept {
    return level - full(generated);
  }

  /// How long until `units` more have been generated, rounded up; the longest duration where that is never.
  constexpr Duration time_for(std::uint64_t units) const noexcept {
    const unsigned __int128 whole = (units + unit - 1) / unit;
    const unsigned __int128 scaled = exact_ ? whole : whole << shift_;
    const unsigned __int128 nanoseconds = rate_ == 0 ? max_duration + 1 : (scaled + rate_ - 1) / rate_;
    return Duration(static_cast<std::int64_t>(std::min(nanoseconds, max_duration)));
  }

  /// How long an empty bucket takes to be full.
  constexpr Duration fills_in() const noexcept { return time_for(capacity_); }

 private:
  /// Who has read his clock and is late to use it: a controller that answers for a million keys, a worker
  /// that lost its processor in the middle of a burst.
  static constexpr Duration clocks_apart = std::chrono::seconds{10};
  /// Of that and the time for which levels are kept: the numbers of levels begin anew as seldom as costs
  /// nothing, which is as long as a token is 2^fine units.
  static constexpr unsigned times_apart = 128;
  static constexpr int fine = 14;
  /// In units, from when a bucket was looked at until it is again: the numbers of levels that remain.
  static constexpr unsigned __int128 most_generated = (std::uint64_t{5} << 61) / unit;
  static constexpr unsigned __int128 max_word = std::numeric_limits<std::uint64_t>::max();
  static constexpr unsigned __int128 max_duration = std::numeric_limits<std::int64_t>::max();

  std::uint64_t burst_;
  std::uint64_t token_ = 1;  // units per token
  std::uint64_t rate_ = 1;   // units per 2^shift_ nanoseconds
  std::uint64_t capacity_ = 0;
  // No level is further from a full one, also in debt, and where another one's clock is ahead: what seems to
  // be has been full for long.
  std::uint64_t most_ahead_ = std::uint64_t{3} << 61;
  int shift_ = 0;
  bool exact_ = true;
};

}  // namespace weir
