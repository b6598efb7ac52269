// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The rule that most tests of whole nodes are about.
#pragma once

#include <cstdint>

#include "weir/rule.h"

namespace weir::testing {

/// A limit for each user and second, in ten spans. What else a test is about it says itself.
inline Rule user_rule(std::uint64_t limit, Algorithm algorithm) {
  Rule rule;
  rule.name = "user";
  rule.key = {{.kind = Dimension::Kind::header, .name = "user"}};
  rule.limit = limit;
  rule.interval = std::chrono::seconds{1};
  rule.spans = 10;
  rule.cooldown = std::chrono::seconds{1};
  rule.algorithm = algorithm;
  rule.action = Action::drop;
  return rule;
}

}  // namespace weir::testing
