// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// How many keys that are new to it a node meets in a span, so that its spans end in time whoever makes keys
/// up.
///
/// The problem: a key that is met for the first time costs the controller some twenty times what a known one
/// costs it: a name, a slot, memory that nobody has touched. Clients choose how many there are, and the
/// tables of a node made for millions of keys take in more of them in one span than it can meet in ten. In
/// such a span no block begins, no window turns, and workers have nothing to go on but what they were told
/// before.
///
/// So each worker may tell of a limited number of new keys in a span; what comes beyond is counted as keys
/// are that find no room (it draws from a cell all the same), and may be met in a later span. The limit is
/// found as TCP finds how much a path bears: twice as much after each span that ended in time though half of
/// it was used, until one ends late; then so much as could have been met in half a span, and from there on a
/// quarter more at a time. A controller that is late for another reason has not met many: that limits nobody.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "weir/time.h"

namespace weir {

/// Not thread-safe: the controller's.
class NewKeyLimit {
 public:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  /// What is met in some milliseconds anywhere: no less than so many in a span.
  static constexpr std::uint64_t least = 32'768;
  /// For a node of which nothing is known yet: met in a second or less, once.
  static constexpr std::uint64_t at_first = std::uint64_t{1} << 20;

  /// @param keys     that the node is made for: more need not be limited
  /// @param workers  among which they are divided, ≥ 1
  NewKeyLimit(std::uint32_t keys, unsigned workers) noexcept
      : most_(std::max<std::uint64_t>(keys, 2 * least)),
        workers_(workers),
        limit_(std::min(at_first, most_)) {}

  /// A span has ended.
  /// @param planned  how long it was to last
  /// @param late     how much longer it has lasted
  /// @param met      new keys met in it, by all workers
  void span_ended(Duration planned, Duration late, std::uint64_t met) noexcept {
    if (planned <= Duration{}) return;
    if (late <= planned / 2) {
      if (met >= limit_ / 2) limit_ = std::min(limit_ + (was_late_ ? limit_ / 4 : limit_), most_);
    } else if (met > least) {
      was_late_ = true;
      const double part =
          static_cast<double>(planned.count()) / (2 * static_cast<double>((planned + late).count()));
      limit_ = std::clamp(static_cast<std::uint64_t>(static_cast<double>(met) * part), least, most_);
    }
  }

  /// What each worker may tell of in a span; `none`: of all.
  std::uint32_t of_each_worker() const noexcept {
    return limit_ >= most_ ? none : static_cast<std::uint32_t>(std::max<std::uint64_t>(limit_ / workers_, 1));
  }

 private:
  std::uint64_t most_;
  std::uint64_t workers_;
  std::uint64_t limit_;
  bool was_late_ = false;
};

}  // namespace weir
