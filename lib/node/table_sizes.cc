// SPDX-License-Identifier: BSD-3-Clause
#include "node/table_sizes.h"

#include <algorithm>

#include "shared/grant_table.h"

namespace weir {
namespace {

// Of so many keys each may need all there is.
constexpr std::uint32_t few = 16384;

/// Whether a worker's grants are enough for a request of the rule.
bool is_granted(const Rule& rule, unsigned workers) {
  return may_be_granted(rule) && standing_grant(rule.limit, workers) >= rule.weight;
}

bool all_granted(const Config& config, unsigned workers) {
  return std::all_of(config.rules.begin(), config.rules.end(),
                     [&](const Rule& rule) { return rule.key.empty() || is_granted(rule, workers); });
}

std::uint32_t part_of(const Config& config, unsigned workers, std::uint32_t divisor) {
  const std::uint32_t keys = config.node.keys;
  return all_granted(config, workers) ? std::min(keys, std::max(few, keys / divisor)) : keys;
}

}  // namespace

std::uint32_t granted_keys(const Config& config, unsigned workers) {
  return std::any_of(config.rules.begin(), config.rules.end(),
                     [&](const Rule& rule) { return is_granted(rule, workers); })
             ? config.node.keys
             : 0;
}

std::uint32_t counted_keys(const Config& config, unsigned workers) { return part_of(config, workers, 16); }

std::uint32_t drawn_keys(const Config& config, unsigned workers) { return part_of(config, workers, 2); }

}  // namespace weir
