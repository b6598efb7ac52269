// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A key that the caller made, hashed once and used for many requests.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "weir/rule.h"

namespace weir {

/// Where Worker::key() lays the bytes of a request's key.
using KeyRoom = std::array<char, 480>;

/// What Worker::key() made of a rule and a value, or a request: for pipelines that keep it with a flow or a
/// session, so that a request costs no hashing. Plain data: may be copied and used by all workers of the
/// Throttle that made it, and of no other.
class Key {
 public:
  /// The value, or a request's key in weir's own form. Views what the caller gave: must stay as it is while
  /// the key is used, since it is read again where a worker meets the key for the first time. May be set to a
  /// copy of the same bytes, so that no more is kept with a flow than its key takes.
  std::string_view value;
  /// Multiplies the rule's weight. 0: only looks, as with admit_key(): nothing is charged or counted.
  std::uint32_t weight = 1;

  /// A key of no rule: not to be decided upon.
  Key() noexcept = default;
  RuleIndex rule() const noexcept { return rule_; }

 private:
  friend class WorkerCore;
  // What the value is. So wide that there is no padding.
  enum class Form : std::uint16_t {
    text,     // what the caller gave
    of_rule,  // nothing: the one key of a rule without dimensions
    fields,   // a key's bytes, as requests have them
  };
  bool is_of_rule() const noexcept { return form_ == Form::of_rule; }
  RuleIndex rule_ = no_rule;
  Form form_ = Form::text;
  std::uint64_t hash_ = 0;
};

}  // namespace weir
