// SPDX-License-Identifier: BSD-3-Clause
#include "meter.h"

#include <algorithm>
#include <cmath>

namespace weir::sim {
namespace {

/// Whether a rule of this algorithm counts in aligned intervals, so that a refusal must come from one of
/// them.
bool is_aligned(Algorithm algorithm) noexcept {
  return algorithm == Algorithm::cooldown || algorithm == Algorithm::fixed_window ||
         algorithm == Algorithm::strict;
}

double milliseconds(Duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

double excess_pct(std::uint64_t value, std::uint64_t limit) {
  return value <= limit ? 0 : 100 * static_cast<double>(value - limit) / static_cast<double>(limit);
}

/// The value below which `part` of all lie (the nearest rank).
double quantile(std::vector<double>& values, double part) {
  if (values.empty()) return not_measured;
  std::ranges::sort(values);
  const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(values.size())));
  return values[std::max<std::size_t>(rank, 1) - 1];
}

}  // namespace

Meter::Meter(const Rule& rule, std::size_t keys, Duration duration, Duration blind, Duration bucket)
    : rule_(rule),
      duration_(duration),
      blind_(blind),
      closed_for_(rule.algorithm == Algorithm::cooldown ? rule.cooldown : rule.interval),
      closed_at_most_(rule.algorithm == Algorithm::cooldown ? rule.cooldown + rule.dephase : rule.interval),
      intervals_(static_cast<std::size_t>((duration + rule.interval - Duration{1}) / rule.interval)) {
  keys_.reserve(keys);
  for (std::size_t i = 0; i < keys; ++i)
    keys_.push_back({.records = {},
                     .offered = SlidingSum(rule.interval),
                     .admitted = SlidingSum(rule.interval),
                     .blind = {},
                     .counted = {}});
  for (Key& key : keys_) key.records.resize(intervals_);
  curve_.bucket = bucket;
  const auto buckets = static_cast<std::size_t>((duration + bucket - Duration{1}) / bucket);
  curve_.offered.resize(buckets);
  curve_.admitted.resize(buckets);
}

std::uint64_t Meter::counted_units(const Sample& sample) const noexcept {
  return sample.admitted || rule_.penalize ? sample.units : 0;
}

void Meter::add(const Sample& sample) {
  Key& key = keys_[sample.key];
  IntervalRecord& record = key.records[static_cast<std::size_t>(sample.at / rule_.interval)];
  if (record.offered == 0)
    record.fresh = key.last_refused == Duration::min() || key.last_refused + closed_at_most_ < sample.at;
  record.offered += sample.units;
  key.offered.add(sample.at, sample.units);
  if (key.offered.sum() > rule_.limit) key.last_crowded = sample.at;
  if (rule_.algorithm == Algorithm::cooldown) {
    if (key.blind.size() <= sample.node) key.blind.resize(sample.node + 1, SlidingSum(blind_));
    key.blind[sample.node].add(sample.at, sample.units);
  }
  if (const std::uint64_t units = counted_units(sample); units > 0)
    key.counted[sample.ordinal] += static_cast<std::int64_t>(units);
  if (sample.key == 0) {
    const auto bucket = static_cast<std::size_t>(sample.at / curve_.bucket);
    curve_.offered[bucket] += sample.units;
    if (sample.admitted) curve_.admitted[bucket] += sample.units;
  }

  if (sample.admitted || sample.refused_here) record.eligible += sample.units;
  if (sample.admitted) {
    record.admitted += sample.units;
    key.admitted.add(sample.at, sample.units);
    if (record.admitted > rule_.limit) {
      record.exceeded = std::min(record.exceeded, sample.at);
      if (sample.at < record.exceeded + closed_for_) record.last_excess = sample.at;
    }
    if (record.first_refused != Duration::max() && sample.at < record.first_refused + closed_for_)
      record.last_leak = sample.at;
  } else if (sample.refused_here) {
    record.first_refused = std::min(record.first_refused, sample.at);
    key.last_refused = sample.at;
    if (key.last_crowded == Duration::min() ||
        key.last_crowded + rule_.interval + closed_at_most_ < sample.at)
      record.refused_in_calm = true;
  }
}

std::uint64_t Meter::largest_blind_demand() const noexcept {
  std::uint64_t largest = 0;
  for (const Key& key : keys_) {
    std::uint64_t sum = 0;
    for (const SlidingSum& node : key.blind) sum += node.largest();
    largest = std::max(largest, sum);
  }
  return largest;
}

bool Meter::steady(std::size_t interval, Duration settle) const noexcept {
  const Duration begin = static_cast<std::int64_t>(interval) * rule_.interval;
  return begin >= settle && begin + rule_.interval <= duration_;
}

// Refused, though neither this interval nor any whose block could still be running had more than the limit.
bool Meter::falsely_blocked(const Key& key, std::size_t interval) const noexcept {
  if (key.records[interval].first_refused == Duration::max()) return false;
  if (!is_aligned(rule_.algorithm)) return key.records[interval].refused_in_calm;
  const auto back =
      static_cast<std::size_t>((closed_at_most_ + 2 * rule_.interval - Duration{1}) / rule_.interval);
  for (std::size_t i = interval - std::min(interval, back); i <= interval; ++i)
    if (key.records[i].eligible > rule_.limit) return false;
  return true;
}

void Meter::summarise_steady_state(Duration settle, Summary& summary) const {
  double due = 0;
  double admitted = 0;
  double capacity = 0;
  std::uint64_t looked_at = 0;
  std::uint64_t falsely = 0;
  for (const Key& key : keys_) {
    for (std::size_t i = 0; i < intervals_; ++i) {
      const IntervalRecord& record = key.records[i];
      if (!steady(i, settle)) continue;
      due += static_cast<double>(std::min(rule_.limit, record.eligible));
      admitted += static_cast<double>(record.admitted);
      capacity += static_cast<double>(rule_.limit);
      summary.overshoot_steady_max_pct =
          std::max(summary.overshoot_steady_max_pct, excess_pct(record.admitted, rule_.limit));
      if (record.offered == 0) continue;
      ++looked_at;
      if (falsely_blocked(key, i)) ++falsely;
    }
  }
  if (due > 0) summary.admission_error_pct = 100 * (admitted - due) / due;
  if (capacity > 0) summary.utilization_pct = 100 * admitted / capacity;
  if (looked_at > 0)
    summary.false_block_intervals_pct = 100 * static_cast<double>(falsely) / static_cast<double>(looked_at);
}

// Intervals that begin within a block say nothing about how soon one comes.
void Meter::summarise_reactions(Summary& summary) const {
  std::vector<double> reactions;
  std::vector<double> spreads;
  for (const Key& key : keys_) {
    for (const IntervalRecord& record : key.records) {
      if (record.eligible <= rule_.limit || !record.fresh) continue;
      reactions.push_back(
          record.exceeded == Duration::max() ? 0 : milliseconds(record.last_excess - record.exceeded));
      if (record.first_refused != Duration::max())
        spreads.push_back(std::max(
            0.0, milliseconds(std::max(record.last_leak, record.first_refused) - record.first_refused)));
    }
  }
  summary.reaction_ms_p50 = quantile(reactions, 0.5);
  summary.reaction_ms_p99 = quantile(reactions, 0.99);
  summary.block_spread_ms_p99 = quantile(spreads, 0.99);
}

void Meter::summarise(Duration settle, Summary& summary) const {
  for (const Key& key : keys_) {
    for (const IntervalRecord& record : key.records) {
      summary.offered += static_cast<double>(record.offered);
      summary.admitted += static_cast<double>(record.admitted);
      summary.overshoot_max_pct =
          std::max(summary.overshoot_max_pct, excess_pct(record.admitted, rule_.limit));
    }
    summary.overshoot_sliding_max_pct =
        std::max(summary.overshoot_sliding_max_pct, excess_pct(key.admitted.largest(), rule_.limit));
    if (rule_.penalize) continue;
    for (const OrdinalCounts::Count& count : key.counted)
      summary.overshoot_ordinal_max_pct =
          std::max(summary.overshoot_ordinal_max_pct,
                   excess_pct(static_cast<std::uint64_t>(count.value), rule_.limit));
  }
  summarise_steady_state(settle, summary);
  summarise_reactions(summary);
}

}  // namespace weir::sim
