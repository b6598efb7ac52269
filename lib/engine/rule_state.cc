// SPDX-License-Identifier: BSD-3-Clause
#include "engine/rule_state.h"

namespace weir {

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
      time_to_live(2 * rule.interval + 2 * (rule.interval / rule.spans) + std::chrono::milliseconds{1}),
      algorithm(rule.algorithm),
      early_block(rule.early_block),
      on_store_failure(rule.on_store_failure),
      local_rule(rule.local_rule),
      warmup(rule.warmup),
      penalize(rule.penalize),
      debt(rule.debt) {}

}  // namespace weir
