// SPDX-License-Identifier: BSD-3-Clause
#include "metrics.h"

#include <array>

namespace weir::sim {

std::span<const Metric> metrics() noexcept {
  static constexpr std::array all{
      Metric{"offered", &Summary::offered, 0},
      Metric{"admitted", &Summary::admitted, 0},
      Metric{"admission_error_pct", &Summary::admission_error_pct, 2},
      Metric{"overshoot_max_pct", &Summary::overshoot_max_pct, 2},
      Metric{"overshoot_steady_max_pct", &Summary::overshoot_steady_max_pct, 2},
      Metric{"overshoot_sliding_max_pct", &Summary::overshoot_sliding_max_pct, 2},
      Metric{"overshoot_ordinal_max_pct", &Summary::overshoot_ordinal_max_pct, 2},
      Metric{"node_overshoot_max_pct", &Summary::node_overshoot_max_pct, 2},
      Metric{"utilization_pct", &Summary::utilization_pct, 2},
      Metric{"false_block_intervals_pct", &Summary::false_block_intervals_pct, 3},
      Metric{"reaction_ms_p50", &Summary::reaction_ms_p50, 3},
      Metric{"reaction_ms_p99", &Summary::reaction_ms_p99, 3},
      Metric{"block_spread_ms_p99", &Summary::block_spread_ms_p99, 3},
      Metric{"cooldown_bound_pct", &Summary::cooldown_bound_pct, 2},
      Metric{"cooldown_margin_pct", &Summary::cooldown_margin_pct, 2},
      Metric{"store_ops_per_s", &Summary::store_ops_per_s, 2},
      Metric{"store_rounds_per_s", &Summary::store_rounds_per_s, 2},
      Metric{"store_saving_factor", &Summary::store_saving_factor, 1},
      Metric{"lost_counts", &Summary::lost_counts, 0},
      Metric{"duplicated_counts", &Summary::duplicated_counts, 0},
      Metric{"crashed_counts", &Summary::crashed_counts, 0},
      Metric{"expired_counts", &Summary::expired_counts, 0},
      Metric{"stranded_counts", &Summary::stranded_counts, 0},
  };
  return all;
}

}  // namespace weir::sim
