// SPDX-License-Identifier: BSD-3-Clause
#include "engine/rule_state.h"

namespace weir {
namespace {

/// What a strict limit's counter outlives its interval by: nodes whose clocks differ by less claim from the
/// same one. (A node that comes to a counter which is gone would find a whole limit unclaimed.)
constexpr Duration lease_skew = std::chrono::seconds{10};

}  // namespace

RuleState::RuleState(const Rule& rule)
    : clock(rule.interval, rule.spans),
      name(rule.name),
      overflow_name(rule.name + "|~"),
      limit(rule.limit),
      burst(rule.burst != 0 ? rule.burst : rule.limit),
      spans(rule.spans),
      block{rule.cooldown, rule.dephase},
      // The counter must outlive the read one span after its interval, and a carry-over of about another
      // interval.
      time_to_live(2 * rule.interval + 2 * (rule.interval / rule.spans) + std::chrono::milliseconds{1} +
                   (rule.algorithm == Algorithm::strict ? lease_skew : Duration{})),
      algorithm(rule.algorithm),
      early_block(rule.early_block),
      on_store_failure(rule.on_store_failure),
      local_rule(rule.local_rule),
      warmup(rule.warmup),
      penalize(rule.penalize),
      debt(rule.debt) {}

}  // namespace weir
