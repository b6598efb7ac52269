// SPDX-License-Identifier: BSD-3-Clause
#include "engine/quota.h"

#include <algorithm>
#include <limits>
#include <span>

#include "limit/share.h"

namespace weir {
namespace {

constexpr double coldest = 3;  // as in Guava's SmoothWarmingUp
constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

bool closed(const RuleState& rule, const Cluster& cluster) noexcept {
  return !cluster.store_reached && rule.on_store_failure == OnStoreFailure::closed;
}

bool open(const RuleState& rule, const Cluster& cluster) noexcept {
  return !cluster.store_reached && rule.on_store_failure == OnStoreFailure::open;
}

/// Whether nothing is heard of others, and the share has to stand in for it.
bool alone(const RuleState& rule, const Cluster& cluster) noexcept {
  return !cluster.store_reached && rule.on_store_failure == OnStoreFailure::local;
}

std::uint64_t less(std::uint64_t limit, std::uint64_t used) noexcept { return limit - std::min(limit, used); }

/// What others are known to have counted in the interval that runs.
std::uint64_t others_now(const KeyView& key, const RuleMoment& at) noexcept {
  return key.slot.current.ordinal == at.span.ordinal ? key.detail.counted[0].others() : 0;
}

/// "G at the last sync + own since / share > L", as an allowance.
std::uint64_t predicted(const RuleState& rule, const KeyView& key, double share,
                        const RuleMoment& at) noexcept {
  const bool running = key.slot.current.ordinal == at.span.ordinal;
  const std::uint64_t own = running ? key.acknowledged() : 0;
  const std::uint64_t left = less(rule.limit_of(key.detail), own + others_now(key, at));
  return own + rule.whole_requests(share * static_cast<double>(left), key.slot.key, at.span.ordinal);
}

std::uint64_t cooldown_allowance(const RuleState& rule, const KeyView& key, const Cluster& cluster,
                                 const RuleMoment& at) noexcept {
  const NodesRatio nodes = nodes_of(rule, key.detail, cluster);
  const std::uint64_t limit = rule.limit_of(key.detail);
  std::uint64_t allowance = less(limit, others_now(key, at));
  if (nodes_tell(rule, key.detail, cluster)) {
    allowance = std::min(allowance, std::max<std::uint64_t>(nodes.allowance(limit), rule.weight));
    if (const double part = static_cast<double>(limit) / nodes.value(); part < rule.weight)
      allowance = std::min(allowance, rule.whole_requests(part, key.slot.key, at.span.ordinal));
  }
  if (rule.early_block == EarlyBlock::predictive) {
    const double share = key.detail.reading ? 1 / nodes.value() : 1.0 / cluster.nodes;
    allowance = std::min(allowance, predicted(rule, key, share, at));
  }
  return allowance;
}

std::uint64_t window_allowance(const RuleState& rule, const KeyView& key, const Cluster& cluster,
                               const RuleMoment& at) noexcept {
  const std::uint64_t limit = rule.limit_of(key.detail);
  const std::uint64_t sound = less(limit, others_now(key, at));
  if (is_divided(rule, key.detail, cluster)) {
    const double part = part_of(rule, key, cluster) * static_cast<double>(limit);
    return std::min(sound, rule.whole_requests(part, key.slot.key, at.span.ordinal));
  }
  if (rule.early_block == EarlyBlock::predictive)
    return std::min(sound, predicted(rule, key, key.share(), at));
  return sound;
}

/// Whether a key has been charged more than it might have drawn in the interval that runs. Of buckets, logs
/// and windows that slide others know.
bool is_overdrawn(const RuleState& rule, const KeyView& key, const RuleMoment& at,
                  std::uint64_t allowance) noexcept {
  const bool by_interval = rule.algorithm == Algorithm::cooldown ||
                           rule.algorithm == Algorithm::fixed_window || rule.algorithm == Algorithm::shed ||
                           rule.algorithm == Algorithm::strict;
  return key.detail.overdrawn && by_interval && key.slot.current.ordinal == at.span.ordinal &&
         key.slot.current.admitted >= allowance;
}

void sliding_quota(const RuleState& rule, const KeyView& key, const Cluster& cluster, const RuleMoment& at,
                   KeyOverride& quota) noexcept {
  const std::int64_t number = rule.number(at.span);
  std::uint64_t own = 0;  // in the window, but for the span that runs
  std::uint64_t others = 0;
  // The oldest span with anything in it leaves first; if that is the running one, after a whole interval.
  std::int64_t oldest = number;
  quota.opens_by = rule.limit;
  const auto hold = [&](const SpanCounts& span) {
    own += span.own;
    if (span.own == 0 || span.number >= oldest) return;
    oldest = span.number;
    quota.opens_by = span.own;
  };
  const bool by_span = !key.detail.spans.empty();
  for (const SpanCounts& span : std::span(key.detail.spans).first(by_span ? rule.spans : 0)) {
    if (span.number <= number - rule.spans) continue;
    others += span.others;
    // The running span's pool has what is drawn in it; not what was, before the clock was set into it.
    if (span.number == number && rule.set_in != number) continue;
    hold(span);
  }
  // In the running span, too, for all that is known.
  const SpanCounts before = by_span ? key.detail.spans.back() : rule.before_spans(key.slot, key.past);
  if (before.number > number - rule.spans) {
    hold(before);
    others += before.others;
  }
  quota.left = less(rule.limit, own + others);
  quota.allowance = quota.left;
  const bool divided = is_divided(rule, key.detail, cluster);
  if (divided || rule.early_block == EarlyBlock::predictive) {
    // Predictive: what is left of the limit, by shares.
    const double whole =
        divided ? part_of(rule, key, cluster) * static_cast<double>(rule.limit) - static_cast<double>(own)
                : key.share() * static_cast<double>(quota.allowance);
    quota.allowance = std::min(quota.allowance, rule.whole_requests(whole, key.slot.key, number));
  }
  // An interval after it: in this interval or the next one.
  const auto index = static_cast<std::uint32_t>(at.span.index + (oldest + rule.spans - number));
  const SpanId opens =
      index < rule.spans ? SpanId{at.span.ordinal, index} : SpanId{at.span.ordinal + 1, index - rule.spans};
  quota.opens_at = at.now.monotonic + (rule.clock.begin(opens) - at.now.wall);
}

/// What was offered here in the last interval's length, by a window that slides from the interval before into
/// the one that runs.
double offered_here(const RuleState& rule, const KeyView& key, const RuleMoment& at) noexcept {
  const auto offered_in = [&](Ordinal ordinal) {
    if (ordinal == key.slot.current.ordinal) return static_cast<double>(key.slot.current.offered);
    return ordinal == key.slot.previous_ordinal() ? static_cast<double>(key.past.offered) : 0;
  };
  const double passed = static_cast<double>(at.span.index) / rule.spans;
  return offered_in(at.span.ordinal - 1) * (1 - passed) + offered_in(at.span.ordinal);
}

std::uint64_t shed_fraction(const RuleState& rule, const KeyView& key, const Cluster& cluster,
                            const RuleMoment& at) noexcept {
  const auto limit = static_cast<double>(rule.limit_of(key.detail));
  // Nobody tells what is offered elsewhere.
  if (alone(rule, cluster))
    return fraction_of(part_of(rule, key, cluster) * limit, offered_here(rule, key, at));
  if (!is_divided(rule, key.detail, cluster)) return admit_all;
  return fraction_of(key.detail.correction * limit, key.detail.demand.per_interval());
}

void strict_quota(const RuleState& rule, const KeyView& key, const RuleMoment& at,
                  KeyOverride& quota) noexcept {
  const auto [now, span] = at;
  const KeyLeases& leases = *key.detail.leases;
  const Lease* lease = leases.running.held && leases.running.ordinal == span.ordinal ? &leases.running
                       : leases.next.held && leases.next.ordinal == span.ordinal     ? &leases.next
                                                                                     : nullptr;
  quota.allowance = lease != nullptr ? lease->allowance() : 0;
  const WallTime opens = lease != nullptr && lease->used_up ? rule.clock.next_interval(now.wall)
                                                            : rule.clock.next_begin(now.wall);
  quota.opens_at = now.monotonic + (opens - now.wall);
  quota.opens_by = rule.limit;
}

}  // namespace

bool is_divided(const RuleState& rule, const KeyDetail& key, const Cluster& cluster) noexcept {
  return (contended(rule, key) && !open(rule, cluster)) || alone(rule, cluster);
}

double part_of(const RuleState& rule, const KeyView& key, const Cluster& cluster) noexcept {
  const double part = key.detail.correction * key.share();
  return alone(rule, cluster) ? std::max(part, 1.0 / cluster.nodes) : part;
}

bool nodes_tell(const RuleState& rule, const KeyDetail& key, const Cluster& cluster) noexcept {
  constexpr double beyond_chance = 400;  // requests
  const NodesRatio nodes = nodes_of(rule, key, cluster);
  // What this node has counted by itself is no matter of chance.
  if (nodes.is_one() || is_divided(rule, key, cluster)) return true;
  return static_cast<double>(rule.limit_of(key)) / nodes.value() / rule.weight >= beyond_chance;
}

TokenPrice token_price(const RuleState& rule, const KeyView& key, const Cluster& cluster) noexcept {
  double share = 1;
  if (is_divided(rule, key.detail, cluster))
    share = part_of(rule, key, cluster);
  else if (rule.early_block == EarlyBlock::predictive)
    share = key.share();
  return price_of_share(std::min(share, 1.0) / coldness(rule, key.detail));
}

double coldness(const RuleState& rule, const KeyDetail& key) noexcept {
  const double half = rule.warm_permits() / 2;
  return key.cold_permits <= half ? 1 : 1 + (coldest - 1) * (key.cold_permits - half) / half;
}

NodesRatio nodes_of(const RuleState& rule, const KeyDetail& key, const Cluster& cluster) noexcept {
  // Without the store only this node's own count proves anything.
  return open(rule, cluster) ? NodesRatio() : key.nodes;
}

KeyOverride default_quota(const RuleState& rule, const Cluster& cluster) noexcept {
  KeyOverride quota;
  if (rule.is_bucket()) quota.factor = full_price;
  if (rule.algorithm == Algorithm::shed) quota.factor = admit_all;
  if (closed(rule, cluster)) return quota;
  const bool divided =
      rule.early_block == EarlyBlock::predictive || (alone(rule, cluster) && rule.by_shares());
  const std::uint32_t nodes = divided ? cluster.nodes : 1;
  switch (rule.algorithm) {
    case Algorithm::cooldown:
    case Algorithm::fixed_window:
    case Algorithm::sliding_window:
    case Algorithm::shed:
      quota.allowance = std::max<std::uint64_t>(rule.limit / nodes, rule.weight);
      quota.left = rule.limit;
      break;
    case Algorithm::token_bucket:
    case Algorithm::leaky_bucket:
      quota.allowance = unlimited;
      quota.factor = price_of_share(1.0 / nodes / (rule.warmup > Duration{} ? coldest : 1));
      break;
    case Algorithm::sliding_log:
      quota.allowance = rule.limit;
      break;
    case Algorithm::strict:
      break;
  }
  return quota;
}

KeyOverride quota_of(const RuleState& rule, const KeyView& key, const Cluster& cluster, const RuleMoment& at,
                     const KeyOverride& usual) noexcept {
  KeyOverride quota = usual;
  quota.key = key.slot.key;
  quota.rule = key.slot.rule;
  if (key.detail.block.active(at.now.monotonic)) quota.blocked_until = key.detail.block.until();
  if (closed(rule, cluster)) return quota;
  switch (rule.algorithm) {
    case Algorithm::cooldown:
      quota.allowance = cooldown_allowance(rule, key, cluster, at);
      break;
    case Algorithm::fixed_window:
      quota.allowance = window_allowance(rule, key, cluster, at);
      break;
    case Algorithm::sliding_window:
      sliding_quota(rule, key, cluster, at, quota);
      break;
    case Algorithm::shed:
      quota.allowance = alone(rule, cluster) ? window_allowance(rule, key, cluster, at)
                                             : less(rule.limit_of(key.detail), others_now(key, at));
      quota.factor = shed_fraction(rule, key, cluster, at);
      break;
    case Algorithm::token_bucket:
    case Algorithm::leaky_bucket:
      quota.factor = token_price(rule, key, cluster);
      break;
    case Algorithm::sliding_log:
      break;
    case Algorithm::strict:
      strict_quota(rule, key, at, quota);
      break;
  }
  if (is_overdrawn(rule, key, at, quota.allowance)) quota.allowance = 0;
  return quota;
}

}  // namespace weir
