// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Measures one rule from outside: it sees every request with its true time and verdict, and nothing of how
/// the nodes came to it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "metrics.h"
#include "ordinal_counts.h"
#include "sliding_sum.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir::sim {

/// One key in one aligned interval of true time. Units of weight.
struct IntervalRecord {
  std::uint64_t offered = 0;
  std::uint64_t eligible = 0;  ///< offered, and not refused by another rule
  std::uint64_t admitted = 0;
  Duration first_refused = Duration::max();  ///< by this rule
  Duration exceeded = Duration::max();       ///< when `admitted` went over the limit
  Duration last_excess = Duration::min();    ///< last admission from then on, within a cooldown
  Duration last_leak = Duration::min();      ///< last admission after first_refused, within a cooldown
  bool fresh = false;            ///< no block from before could still run when its first request came
  bool refused_in_calm = false;  ///< refused, though no window of one interval had more than the limit
};

/// Demand and admissions of one key over time, in parts of equal length: what a plot shows.
struct Curve {
  Duration bucket{};
  std::vector<std::uint64_t> offered;
  std::vector<std::uint64_t> admitted;
};

/// One request, as a rule's meter sees it.
struct Sample {
  Duration at{};
  std::size_t key = 0;
  std::size_t node = 0;
  std::uint64_t units = 0;
  bool admitted = false;
  bool refused_here = false;  ///< by this rule
  Ordinal ordinal = 0;        ///< by which the node counts it
};

class Meter {
 public:
  /// @param blind   length of the windows for largest_blind_demand()
  /// @param bucket  of the curve, which is that of the first key
  Meter(const Rule& rule, std::size_t keys, Duration duration, Duration blind, Duration bucket);

  void add(const Sample& sample);

  const Rule& rule() const noexcept { return rule_; }
  std::size_t keys() const noexcept { return keys_.size(); }
  std::size_t intervals() const noexcept { return intervals_; }
  const IntervalRecord& record(std::size_t key, std::size_t interval) const noexcept {
    return keys_[key].records[interval];
  }
  const OrdinalCounts& counted(std::size_t key) const noexcept { return keys_[key].counted; }
  const Curve& curve() const noexcept { return curve_; }

  /// The largest sum over all nodes of the most offered there to one key in one blind window.
  std::uint64_t largest_blind_demand() const noexcept;

  /// Fills in what this meter can tell; the rest belongs to the simulation.
  /// @param settle  intervals that begin earlier are not part of the steady state
  void summarise(Duration settle, Summary& summary) const;

 private:
  struct Key {
    std::vector<IntervalRecord> records;
    SlidingSum offered;
    SlidingSum admitted;
    std::vector<SlidingSum> blind;  // by node
    OrdinalCounts counted;
    Duration last_refused = Duration::min();  // by this rule
    Duration last_crowded = Duration::min();  // when a window last had more than the limit offered
  };

  std::uint64_t counted_units(const Sample& sample) const noexcept;
  bool steady(std::size_t interval, Duration settle) const noexcept;
  bool falsely_blocked(const Key& key, std::size_t interval) const noexcept;
  void summarise_steady_state(Duration settle, Summary& summary) const;
  void summarise_reactions(Summary& summary) const;

  Rule rule_;
  Duration duration_;
  Duration blind_;
  Duration closed_for_;      // the shortest block: what is admitted later is no part of a reaction
  Duration closed_at_most_;  // how long a refusal may go on for one exceeding
  std::size_t intervals_;    // the last one may be cut short
  std::vector<Key> keys_;
  Curve curve_;
};

}  // namespace weir::sim
