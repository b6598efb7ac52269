// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a node makes of its rules at set-up: windows and their pools, buckets, logs, and the terms that
/// workers read.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "control/window_pools.h"
#include "dataplane/rule_terms.h"
#include "limit/bucket.h"
#include "shared/log_pool.h"
#include "weir/config.h"

namespace weir {

/// Immutable but for the pools, which are the controller's, and the logs, which are shared. Neither copied
/// nor moved: its parts point to each other.
struct RulePlan {
  /// @pre `config` has passed check_config()
  RulePlan(const Config& config, unsigned workers);
  RulePlan(const RulePlan&) = delete;
  RulePlan& operator=(const RulePlan&) = delete;

  const std::vector<std::unique_ptr<LogPool>> logs;  ///< by rule; of those without a sliding log nullptr
  const std::vector<BucketTerms> buckets;            ///< by rule; of other algorithms without meaning
  std::vector<WindowPools> pools;                    ///< one per distinct kind of window
  const std::vector<std::uint16_t> window_of_rule;   ///< index into `pools`
  const std::vector<RuleTerms> terms;                ///< by rule
};

}  // namespace weir
