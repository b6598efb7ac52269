// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Puts a list of requests to one rule of one node, in the list's own time, through the same objects that
/// decide in production.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "timeline.h"
#include "weir/throttle.h"

namespace weir::replay {

class RuleReplay {
 public:
  /// @param throttle      its first rule is asked
  /// @param longest_walk  see Timeline
  explicit RuleReplay(std::unique_ptr<Throttle> throttle,
                      std::int64_t longest_walk = Timeline::default_longest_walk);
  ~RuleReplay();
  RuleReplay(const RuleReplay&) = delete;
  RuleReplay& operator=(const RuleReplay&) = delete;

  /// The rule's answer. A time earlier than the one before sets the node's wall clock back, while its
  /// monotonic clock stands still: counting begins anew in the interval of that time, blocks and buckets
  /// stay as they are.
  /// @pre all steps forward together are within what a monotonic clock can tell, as CsvFile sees to
  Decision decide(WallTime time, std::string_view key, std::uint32_t weight);

  /// Requests that found no room for their keys: what they were answered may be wrong.
  std::uint64_t overflowed() const { return throttle_->figures().overflowed; }

  /// What the rule says of itself.
  const Rule& rule() const noexcept { return throttle_->config().rules[0]; }

 private:
  void move_to(WallTime time);
  void drive(WallTime at);

  std::unique_ptr<Throttle> throttle_;
  Timeline timeline_;
  Worker* worker_ = nullptr;
  Instant now_{};
};

}  // namespace weir::replay
