// SPDX-License-Identifier: BSD-3-Clause
// Blocks: how a key gets one here, how other nodes are told of it, and how theirs are taken over.
#include <algorithm>

#include "engine/engine.h"

namespace weir {

// The first request refused for want of allowance is the exceeding, and the cooldown began with it (step 2).
// With several workers a refusal may also mean that another one held an unused chunk: then the offered count
// tells.
void Engine::judge_refusals() {
  for (std::size_t i = 0; i < refusals_.size(); ++i) {
    ledger_.prefetch_to_tell(refusals_, i);
    KeySlot& slot = ledger_[refusals_[i]];
    const RuleState& rule = rules_[slot.rule];
    KeyDetail& detail = own_detail(slot);
    const std::uint64_t limit = rule.limit_of(detail);
    const auto exceeded = [&](Ordinal ordinal, std::uint64_t offered, const SharedCount& counted) {
      if (ordinal != detail.refused_ordinal) return false;
      if (offered > limit - std::min(limit, counted.others())) return true;
      if (rule.early_block == EarlyBlock::predictive)
        return true;  // refused on an estimate: as it was asked to
      return nodes_tell(rule, detail, cluster_) &&
             weir::nodes_of(rule, detail, cluster_).exceeds(offered, limit);
    };
    if (exceeded(slot.current.ordinal, slot.current.offered, detail.counted[0]) ||
        exceeded(slot.previous_ordinal(), ledger_.past(slot).offered, detail.counted[1]))
      begin_block(rule, slot, detail.refused_at);
    else
      pardoned_.push_back({slot.key, slot.rule});
    slot.refusal_due = false;
    detail.refused_at = never;
  }
  refusals_.clear();
}

// While a block runs here the answer would tell nothing: in a flood it would be asked for a million.
void Engine::ask_blocks(const RuleState& rule, KeySlot& slot, Instant now) {
  if (slot.asked_blocks || ledger_.detail(slot).block.active(now.monotonic)) return;
  slot.asked_blocks = true;
  if (rule.algorithm != Algorithm::cooldown) return;
  const Ordinal running = rule.block_clock.ordinal(now.wall);
  write_block(rule, slot, running, 0);
  write_block(rule, slot, running + 1, 0);
}

// Another node may have begun one since this one asked.
void Engine::ask_blocks_again(const RuleState& rule, KeySlot& slot, Instant now) {
  slot.asked_blocks = false;
  ask_blocks(rule, slot, now);
}

// Whether all together have counted so much of a key in an interval that one of them may have refused some,
// be it on an estimate. (While the interval runs that need not be known: nothing is left in it for any.)
bool Engine::may_have_begun_blocks(const RuleState& rule, const KeySlot& slot,
                                   std::uint64_t counted) const noexcept {
  const std::uint64_t limit = rule.limit_of(ledger_.detail(slot));
  return rule.algorithm == Algorithm::cooldown && counted >= limit - limit / 4;
}

void Engine::begin_block(const RuleState& rule, KeySlot& slot, MonotonicTime at) {
  let_differ(slot);
  if (own_detail(slot).block.begin(at, rule.block.length(slot.key)))
    blocks_.push_back(ledger_.index_of(slot));
}

void Engine::tell_blocks(Instant now) {
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    ledger_.prefetch_to_tell(blocks_, i);
    const KeySlot& slot = ledger_[blocks_[i]];
    const Block& block = ledger_.detail(slot).block;
    if (!block.active(now.monotonic)) continue;  // or the key has been forgotten
    const RuleState& rule = rules_[slot.rule];
    const WallTime end = now.wall + (block.until() - now.monotonic);
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(end.time_since_epoch()).count();
    if (milliseconds > 0)
      write_block(rule, slot, rule.block_clock.ordinal(end), static_cast<std::uint64_t>(milliseconds));
  }
  blocks_.clear();
}

void Engine::write_block(const RuleState& rule, const KeySlot& slot, Ordinal ordinal,
                         std::uint64_t raised_to) {
  collected_.push_back({.key = slot.key,
                        .amount = raised_to,
                        .ordinal = ordinal,
                        .name = ledger_.name_of(slot),
                        .rule = index_of(rule),
                        .use = CounterUse::blocked});
}

// Another node has blocked the key, or this one in an earlier life.
void Engine::take_over_block(const RuleState& rule, KeySlot& slot, WallTime end, Instant now) {
  // No block lasts longer: where it seems to, a clock was set.
  const Duration left = std::min(end - now.wall, rule.block_clock.interval());
  if (left <= Duration{}) return;
  let_differ(slot);
  own_detail(slot).block.begin(now.monotonic, left);
}

}  // namespace weir
