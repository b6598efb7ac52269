// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which ordinal and which span a moment falls into. Intervals are aligned to the Unix epoch; the i-th span
/// of an interval begins at ordinal × T + ceil(i × T / N), so spans tile the interval exactly also where N
/// does not divide T.
#pragma once

#include <cstdint>

#include "weir/time.h"

namespace weir {

using Ordinal = std::int64_t;

/// A span of one rule: the index-th of its interval.
struct SpanId {
  Ordinal ordinal = 0;
  std::uint32_t index = 0;
  auto operator<=>(const SpanId&) const = default;
};

/// The span arithmetic of one rule. Pure.
class SpanClock {
 public:
  /// @pre interval > 0, spans >= 1
  constexpr SpanClock(Duration interval, std::uint32_t spans) noexcept
      : interval_(interval.count()), spans_(spans) {}

  constexpr Duration interval() const noexcept { return Duration(interval_); }

  constexpr Ordinal ordinal(WallTime at) const noexcept {
    const std::int64_t t = at.time_since_epoch().count();
    return t / interval_ - (t % interval_ < 0 ? 1 : 0);
  }

  constexpr SpanId span(WallTime at) const noexcept {
    const Ordinal k = ordinal(at);
    const __int128 into =
        static_cast<__int128>(at.time_since_epoch().count()) - static_cast<__int128>(k) * interval_;
    return {k, static_cast<std::uint32_t>(quotient(into * spans_, interval_))};
  }

  constexpr WallTime begin(SpanId id) const noexcept {
    const std::int64_t offset = quotient(static_cast<__int128>(id.index) * interval_ + spans_ - 1, spans_);
    return WallTime(
        Duration(static_cast<std::int64_t>(static_cast<__int128>(id.ordinal) * interval_ + offset)));
  }

  /// The first moment after `at` at which a span begins.
  constexpr WallTime next_begin(WallTime at) const noexcept {
    SpanId id = span(at);
    if (++id.index == spans_) id = {id.ordinal + 1, 0};
    return begin(id);
  }

  /// The first moment after `at` at which an interval begins.
  constexpr WallTime next_interval(WallTime at) const noexcept { return begin({ordinal(at) + 1, 0}); }

 private:
  /// Nearly always of what fits into 64 bits: to divide more is a call, and takes several times as long.
  /// @pre dividend >= 0, divisor > 0, and what comes out fits
  static constexpr std::int64_t quotient(__int128 dividend, std::int64_t divisor) noexcept {
    if (const auto low = static_cast<std::uint64_t>(dividend); low == dividend)
      return static_cast<std::int64_t>(low / static_cast<std::uint64_t>(divisor));
    return static_cast<std::int64_t>(dividend / divisor);
  }

  std::int64_t interval_;
  std::uint32_t spans_;
};

}  // namespace weir
