// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// From what is known of a key to what this node's workers may admit of it: one answer per algorithm. Pure.
///
/// Two bounds meet in most of them. The sound one is a proof: the limit minus what others are known to have
/// admitted. It wastes nothing while the demand is below the limit, but it is late by a sync. The share is an
/// estimate: the limit times this node's part of the demand. It is what lets nodes that do not know each
/// other's last span add up to the limit, and is used when the demand exceeds the limit, or the store is
/// away.
#pragma once

#include <cstdint>

#include "engine/rule_state.h"
#include "limit/share.h"
#include "weir/time.h"

namespace weir {

/// What a publication says of one key that differs from its rule's default.
struct KeyOverride {
  std::uint64_t key = 0;
  RuleIndex rule = no_rule;
  /// This node, this window (an interval, or a span of a sliding window), all workers together. Buckets: 0 is
  /// none, everything else any.
  std::uint64_t allowance = 0;
  std::uint64_t factor = 0;  ///< buckets: TokenPrice; shedding: AdmitFraction; see limit/share.h
  MonotonicTime blocked_until = never;
  /// When an allowance that is used up grows again, and at least by how much, where that is known.
  MonotonicTime opens_at = never;
  std::uint64_t opens_by = 0;
  /// Sliding windows: what the window has left of the limit, whoever else may have a share of it.
  std::uint64_t left = 0;
  SlotIndex slot = no_index;  ///< in the engine
};

/// A moment by a rule's clock: worked out once for all keys that are looked at together, for divisions are
/// dear.
struct RuleMoment {
  RuleMoment(const RuleState& rule, Instant at) noexcept : now(at), span(rule.clock.span(at.wall)) {}

  Instant now;
  SpanId span;
};

/// What holds for a key of which nothing is known.
KeyOverride default_quota(const RuleState& rule, const Cluster& cluster) noexcept;

/// What holds for a key in the window that `at` lies in.
/// @param usual  default_quota() of the rule
KeyOverride quota_of(const RuleState& rule, const KeyView& key, const Cluster& cluster, const RuleMoment& at,
                     const KeyOverride& usual) noexcept;

/// Whether the key's demand on all nodes exceeds its limit.
inline bool contended(const RuleState& rule, const KeyDetail& key) noexcept {
  return key.demand.exceeds(rule.limit_of(key), rule.weight);
}

/// Whether the key's limit is divided, so that a node has no more than its share of it: the demand exceeds
/// it, or nothing is heard of others. (`open`: what was heard of the demand before proves nothing any more.)
bool is_divided(const RuleState& rule, const KeyDetail& key, const Cluster& cluster) noexcept;

/// This node's part of a limit that is divided. While nothing is heard of others it is no less than that of a
/// node that comes to the key now: the traffic may have come here since.
double part_of(const RuleState& rule, const KeyView& key, const Cluster& cluster) noexcept;

/// What a token of the key's bucket costs this node.
TokenPrice token_price(const RuleState& rule, const KeyView& key, const Cluster& cluster) noexcept;

/// What a token of a bucket costs that is not warm yet: from 3 down to 1.
double coldness(const RuleState& rule, const KeyDetail& key) noexcept;

/// Whether "count × nodes > limit" says anything of a key (algorithm.md §3, step 6). Where a node's part of
/// the limit is a small number, chance alone exceeds it: of clients at 70 % of a limit of 1000, spread over
/// 40 nodes, some node blocks in every single interval, as Poisson counts of 17.5 exceed 25 at some of 40
/// nodes, and the ratio itself is a quotient of such counts. There it takes the store's word that the demand
/// exceeds the limit, or the store's absence, when nothing better is to be had. (From 400 requests on it is
/// less than one in 10^4, as long as none of them says that it costs several times as much.)
bool nodes_tell(const RuleState& rule, const KeyDetail& key, const Cluster& cluster) noexcept;

/// The seeds' ratio of a key; 1 while only what is proven may block.
NodesRatio nodes_of(const RuleState& rule, const KeyDetail& key, const Cluster& cluster) noexcept;

}  // namespace weir
