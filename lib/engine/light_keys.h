// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Keys under sliding windows that use little of their limits.
///
/// The problem: what a key may be admitted changes with each span that leaves its window. So each key would
/// have to be kept by the span, looked at in every span, and named in every publication; of a million keys,
/// most of which never come near their limits, that is a third of a second. So a key that has used no more
/// than a 128th of its limit in this interval, and no more in the one before (where there are several nodes,
/// a part of that), is kept like any other, by its slot alone, and taken for one that has used a 64th of it:
/// a window reaches no farther back. It has the rest; publications tell of it by a filter. Keys that have
/// used nothing have all of their limits. Whoever uses more is known by the span from then on, exactly but
/// for what he had used before.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/key_filter.h"
#include "base/span_clock.h"

namespace weir {

/// The light keys of rules with the same windows: those counted in one of two intervals. Not thread-safe.
class LightKeys {
 public:
  /// What a key may use in an interval, and be light. All nodes together let it use no more than one would.
  static constexpr std::uint64_t most(std::uint64_t limit, std::uint32_t nodes) noexcept {
    return limit / (2 * part) / nodes;
  }
  /// What it may be admitted, of what those may that have used nothing.
  static constexpr std::uint64_t allowance(std::uint64_t usual) noexcept { return usual - usual / part; }

  /// Whether so many have been added that it holds too many others.
  bool crowded() const noexcept { return added_ >= room_; }
  /// Forgets all. @param likely  how many will be added
  void empty(std::size_t likely) {
    likely = std::max(likely, least_likely);
    for (Interval& interval : intervals_) interval.keys.empty(likely);
    room_ = 2 * likely;
    added_ = 0;
  }
  /// Has what add() writes on its way.
  void prefetch(std::uint64_t key, Ordinal ordinal) const noexcept {
    intervals_[static_cast<std::uint64_t>(ordinal) % 2].keys.prefetch(key);
  }
  /// A key that has used something in an interval: the running one, or the one before.
  void add(std::uint64_t key, Ordinal ordinal) {
    Interval& interval = intervals_[static_cast<std::uint64_t>(ordinal) % 2];
    if (interval.ordinal != ordinal) {
      const Ordinal other = intervals_[static_cast<std::uint64_t>(ordinal + 1) % 2].ordinal;
      interval.ordinal = ordinal;
      interval.keys.empty(room_ / 2);
      if (ordinal > other) added_ = 0;
    }
    interval.keys.add(key);
    ++added_;
  }
  /// All that a window may reach in an interval.
  void copy_to(KeyFilter& keys, Ordinal running) const {
    keys.empty(room_ / 2);
    for (const Interval& interval : intervals_)
      if (interval.ordinal >= running - 1) keys.add_all(interval.keys);
  }

 private:
  static constexpr std::uint64_t part = 64;
  static constexpr std::size_t least_likely = 1024;

  struct Interval {
    Ordinal ordinal = -2;
    KeyFilter keys;
  };
  std::array<Interval, 2> intervals_;
  std::size_t room_ = 0;
  std::size_t added_ = 0;  // since the latest interval began, or all were forgotten
};

}  // namespace weir
