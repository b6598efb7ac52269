// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The figures of one run under one rule, and their names: what the text, the JSON and the gates speak of.
#pragma once

#include <limits>
#include <span>
#include <string_view>

namespace weir::sim {

inline constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

/// Aligned intervals are those of true time, unless said otherwise. A figure that has no meaning in a run is
/// not_measured.
struct Summary {
  double offered = 0;                         ///< units of weight, whole run
  double admitted = 0;                        ///< likewise
  double admission_error_pct = not_measured;  ///< signed, against Σ min(limit, demand); steady state
  double overshoot_max_pct = 0;               ///< worst aligned interval over the limit
  double overshoot_steady_max_pct = 0;        ///< likewise, steady state
  double overshoot_sliding_max_pct = 0;       ///< worst window of one interval at any offset
  double overshoot_ordinal_max_pct = 0;       ///< worst ordinal, as the nodes' clocks number them
  double node_overshoot_max_pct = 0;          ///< worst ordinal of one node alone
  double utilization_pct = not_measured;      ///< admitted / limit; steady state
  double false_block_intervals_pct = 0;       ///< of interval × key with demand; steady state
  double reaction_ms_p50 = not_measured;      ///< from what exceeded the limit to the last admission
  double reaction_ms_p99 = not_measured;      ///< likewise
  double block_spread_ms_p99 = not_measured;  ///< from the first node's refusal to the last admission
  double cooldown_bound_pct = not_measured;   ///< the published bound, over the limit
  double cooldown_margin_pct = not_measured;  ///< the bound minus overshoot_ordinal_max_pct
  double store_ops_per_s = 0;                 ///< counters written or read
  double store_rounds_per_s = 0;              ///< round trips
  double store_saving_factor = not_measured;  ///< requests per operation of the store
  double lost_counts = 0;                     ///< counted by workers, never by the store
  double duplicated_counts = 0;               ///< counted by the store, never by workers
  double crashed_counts = 0;                  ///< died with a node before they were sent
  double expired_counts = 0;                  ///< given up: their counter would have expired
  double stranded_counts = 0;                 ///< strict: leased, neither used nor returned
};

struct Metric {
  std::string_view name;
  double Summary::*value;
  int decimals;
};

/// All of them, in the order they are shown.
std::span<const Metric> metrics() noexcept;

}  // namespace weir::sim
