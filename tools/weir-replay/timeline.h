// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// When the controller has something to do while a capture's time passes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weir/rule.h"
#include "weir/time.h"

namespace weir::replay {

/// The span ends of a configuration's rules. A capture may pause for years, in which a rule has billions of
/// spans, but of a pause only its edges can matter: counts are flushed, keys forgotten and sums read within a
/// few spans and intervals of its beginning, and the last boundaries before its end leave everything as if
/// none had been left out.
class Timeline {
 public:
  /// Spans of one rule in one step beyond which the middle of a pause is left out.
  static constexpr std::int64_t default_longest_walk = 256;

  explicit Timeline(std::span<const Rule> rules, std::int64_t longest_walk = default_longest_walk);

  /// The moments in (from, to] to drive the controller at, ascending. A view that the next call ends.
  /// @pre from <= to
  std::span<const WallTime> due(WallTime from, WallTime to);

 private:
  struct Beat {
    std::int64_t interval;  ///< ns
    std::int64_t spans;
  };
  void add_spans(const Beat& beat, WallTime from, WallTime to);

  std::vector<Beat> beats_;
  std::vector<WallTime> due_;
  std::int64_t longest_walk_;
  WallTime next_ =
      WallTime::min();  ///< nothing is due before; only valid for `from` not earlier than the last `to`
  WallTime last_to_ = WallTime::min();
};

}  // namespace weir::replay
