// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A key that the caller made, hashed once and used for many requests.
#pragma once

#include <cstdint>
#include <string_view>

#include "weir/rule.h"

namespace weir {

/// What Worker::key() made of a rule and a value: for pipelines that keep it with a flow or a session, so
/// that a request costs no hashing. Plain data: may be copied and used by all workers of the Throttle that
/// made it, and of no other.
class Key {
 public:
  /// The value. Views what the caller gave: must stay as it is while the key is used, since it is read again
  /// where a worker meets the key for the first time.
  std::string_view value;
  /// Multiplies the rule's weight. 0: only looks, as with admit_key(): nothing is charged or counted.
  std::uint32_t weight = 1;

  /// A key of no rule: not to be decided upon.
  Key() noexcept = default;
  RuleIndex rule() const noexcept { return rule_; }

 private:
  friend class WorkerCore;
  RuleIndex rule_ = no_rule;
  std::uint16_t dense_ = 0;  // 1: the one key of a rule without dimensions. So wide that there is no padding
  std::uint64_t hash_ = 0;
};

}  // namespace weir
