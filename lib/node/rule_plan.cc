// SPDX-License-Identifier: BSD-3-Clause
#include "node/rule_plan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <vector>

#include "limit/bucket_rule.h"
#include "shared/grant_table.h"
#include "shared/span_table.h"

namespace weir {
namespace {

/// Of a bucket that takes longer to fill: as good as never.
constexpr Duration longest_window = std::chrono::hours{100 * 366 * 24};

std::vector<std::unique_ptr<LogPool>> make_logs(const Config& config) {
  std::vector<std::unique_ptr<LogPool>> logs;
  for (const Rule& rule : config.rules)
    logs.push_back(rule.algorithm == Algorithm::sliding_log
                       ? std::make_unique<LogPool>(rule.limit, rule.interval, config.node.keys, rule.weight)
                       : nullptr);
  return logs;
}

/// What a worker draws from a bucket beyond need. What all of them hold so never comes to more than a 64th of
/// a burst; with the only one to no more than a 1024th: nobody waits for what it holds, and so the small
/// bursts of which each token counts are drawn one by one. Nor is a chunk worth it of which hardly more than
/// a request is left, nor may the bucket lack for them what one of the rule's requests weighs.
std::uint64_t chunk_of(const Rule& rule, unsigned workers) {
  constexpr std::uint64_t least_alone = 4;
  const std::uint64_t burst = burst_of(rule);
  const std::uint64_t beside_a_request = (burst - rule.weight) / (tables_per_worker * std::uint64_t{workers});
  if (workers > 1) return std::min(burst / (128 * std::uint64_t{workers}), beside_a_request);
  const std::uint64_t alone = std::min(burst / 2048, beside_a_request);
  return alone < least_alone ? 0 : alone;
}

/// What all of them may hold at once: each as much again in the table that it has left, until that is
/// drained.
std::uint64_t held_of(const Rule& rule, unsigned workers) {
  return std::uint64_t{tables_per_worker} * workers * chunk_of(rule, workers);
}

/// How many of its intervals a bucket's windows last: until what its cells hold is worth nothing any more.
std::int64_t intervals_of_window(const Rule& rule) {
  // From the deepest debt, one bucket, to a full one it takes two fillings. (But where BucketTerms cuts the
  // rate, of which nobody can tell.)
  const unsigned __int128 tokens = 2 * std::min(burst_of(rule), BucketTerms::max_burst);
  const unsigned __int128 intervals = (tokens + rule.limit - 1) / rule.limit;
  const std::int64_t most = (longest_window.count() + rule.interval.count() - 1) / rule.interval.count();
  return static_cast<std::int64_t>(std::min<unsigned __int128>(intervals, static_cast<std::uint64_t>(most)));
}

/// For how long a level may lie in its cells: in the window that it was made in and the next one, and as long
/// again where a window turns late.
Duration longest_kept(const Rule& rule) {
  const Duration window = intervals_of_window(rule) * rule.interval;
  return 3 * std::min(window, Duration::max() / 3);
}

/// To one or two digits: a rate that is a round number in a round time is counted in larger units.
std::uint64_t rounded_up(std::uint64_t tokens) {
  std::uint64_t unit = 1;
  while (unit * 100 <= tokens) unit *= 10;
  return (tokens + unit - 1) / unit * unit;
}

/// What the cells' buckets hold, and how fast they fill: the rule's but for what workers may have beside
/// them.
BucketTerms make_bucket(const Rule& rule, unsigned workers) {
  // What workers hold drawn counts as in the bucket: together they never hold more than it.
  const std::uint64_t held = held_of(rule, workers);
  const std::uint32_t grant = may_be_granted(rule) ? standing_grant(rule, grantable(rule), workers) : 0;
  if (grant < rule.weight) return {rule.limit, rule.interval, burst_of(rule) - held, longest_kept(rule)};
  // As shared/grant_table.h derives it. (Windows that are as good as endless bring no more than the first.)
  const std::uint64_t granted = std::uint64_t{grant} * workers;
  const std::int64_t intervals = intervals_of_window(rule);
  const std::uint64_t tokens = rule.limit * static_cast<std::uint64_t>(intervals);
  return {tokens - std::min(rounded_up(granted), tokens / 64), intervals * rule.interval,
          burst_of(rule) - held - 4 * granted, longest_kept(rule)};
}

std::vector<BucketTerms> make_buckets(const Config& config, unsigned workers) {
  std::vector<BucketTerms> buckets;
  for (const Rule& rule : config.rules)
    buckets.push_back(is_bucket(rule.algorithm) ? make_bucket(rule, workers) : BucketTerms());
  return buckets;
}

/// Whether what is refused counts of itself: it exceeds the limit, or is counted like what is admitted.
bool counts_refusals(const Rule& rule) { return rule.algorithm == Algorithm::cooldown || rule.penalize; }

/// When what a rule's cells hold is worth nothing any more, and its keys are granted anew.
WindowTerms window_of(const Rule& rule, LogPool* logs) {
  switch (rule.algorithm) {
    case Algorithm::sliding_window:
      return {.interval = rule.interval, .spans = rule.spans, .monotonic = false, .logs = nullptr};
    case Algorithm::token_bucket:
    case Algorithm::leaky_bucket:
      return {.interval = intervals_of_window(rule) * rule.interval,
              .spans = 1,
              .monotonic = true,
              .logs = nullptr};
    case Algorithm::sliding_log:
      return {.interval = rule.interval, .spans = 1, .monotonic = true, .logs = logs};
    default:
      return {.interval = rule.interval, .spans = 1, .monotonic = false, .logs = nullptr};
  }
}

std::vector<std::uint16_t> number_windows(const Config& config, unsigned workers,
                                          const std::vector<BucketTerms>& buckets,
                                          const std::vector<std::unique_ptr<LogPool>>& logs,
                                          std::vector<WindowPools>& pools) {
  std::vector<std::uint16_t> window_of_rule;
  std::vector<WindowTerms> windows;
  std::vector<std::vector<BucketTerms::Pace>> paces;
  for (std::size_t i = 0; i < config.rules.size(); ++i) {
    const WindowTerms wanted = window_of(config.rules[i], logs[i].get());
    const auto window =
        static_cast<std::size_t>(std::find(windows.begin(), windows.end(), wanted) - windows.begin());
    window_of_rule.push_back(static_cast<std::uint16_t>(window));
    if (window == windows.size()) {
      windows.push_back(wanted);
      paces.emplace_back();
    }
    if (std::ranges::count(paces[window], buckets[i].pace()) == 0) paces[window].push_back(buckets[i].pace());
  }
  for (std::size_t i = 0; i < windows.size(); ++i)
    pools.emplace_back(windows[i], config.node.keys, workers, std::move(paces[i]));
  return window_of_rule;
}

/// Of a rule's key: how many of its dimensions are about who sends, how many there are, and how much of
/// addresses they tell.
std::array<std::size_t, 3> degree_of(const Rule& rule) {
  std::array<std::size_t, 3> degree{0, rule.key.size(), 0};
  for (const Dimension& dimension : rule.key) {
    const bool is_source = dimension.kind == Dimension::Kind::source_address;
    degree[0] += is_source || dimension.kind == Dimension::Kind::header;
    if (is_source || dimension.kind == Dimension::Kind::destination_address)
      degree[2] += std::size_t{dimension.ipv4_bits} + dimension.ipv6_bits;
  }
  return degree;
}

/// RuleTerms::closeness of each rule.
std::vector<std::uint16_t> closeness_of(const std::vector<Rule>& rules) {
  std::set<std::array<std::size_t, 3>> degrees;
  for (const Rule& rule : rules) degrees.insert(degree_of(rule));
  std::vector<std::uint16_t> closeness;
  for (const Rule& rule : rules)
    closeness.push_back(
        static_cast<std::uint16_t>(1 + std::distance(degrees.begin(), degrees.find(degree_of(rule)))));
  return closeness;
}

std::vector<RuleTerms> number_terms(const Config& config, unsigned workers,
                                    const std::vector<std::uint16_t>& window_of_rule,
                                    const std::vector<WindowPools>& pools,
                                    const std::vector<BucketTerms>& buckets,
                                    const std::vector<std::unique_ptr<LogPool>>& logs) {
  const std::vector<std::uint16_t> closeness = closeness_of(config.rules);
  std::vector<RuleTerms> terms;
  for (std::size_t i = 0; i < config.rules.size(); ++i) {
    const Rule& rule = config.rules[i];
    const WindowPools& pool = pools[window_of_rule[i]];
    terms.push_back({.limit = rule.limit,
                     .weight = rule.weight,
                     .window = window_of_rule[i],
                     .algorithm = rule.algorithm,
                     .action = rule.action,
                     .dense = rule.key.empty(),
                     .block = {rule.cooldown, rule.dephase},
                     .interval = rule.interval,
                     .spans = rule.spans,
                     .section = static_cast<std::uint16_t>(pool.section(buckets[i].pace())),
                     .closeness = closeness[i],
                     .chunk = is_bucket(rule.algorithm) ? chunk_of(rule, workers) : 0,
                     .too_heavy_counts = counts_refusals(rule) ? rule.limit + 1 : 0,
                     .logs = logs[i].get(),
                     .bucket = buckets[i]});
  }
  return terms;
}

}  // namespace

RulePlan::RulePlan(const Config& config, unsigned workers)
    : logs(make_logs(config)),
      buckets(make_buckets(config, workers)),
      window_of_rule(number_windows(config, workers, buckets, logs, pools)),
      terms(number_terms(config, workers, window_of_rule, pools, buckets, logs)) {}

}  // namespace weir
