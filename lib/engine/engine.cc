// SPDX-License-Identifier: BSD-3-Clause
#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/key_bytes.h"

namespace weir {

Engine::Engine(std::span<const Rule> rules, std::uint32_t keys) : ledger_(keys) {
  rules_.reserve(rules.size());
  for (const Rule& rule : rules) {
    // The counter must outlive the read one span after its interval, and a carry-over of about another
    // interval.
    const Duration span = rule.interval / rule.spans;
    rules_.push_back({.clock = SpanClock(rule.interval, rule.spans),
                      .name = rule.name,
                      .limit = rule.limit,
                      .spans = rule.spans,
                      .cooldown = rule.cooldown,
                      .time_to_live = 2 * rule.interval + 2 * span + std::chrono::milliseconds{1},
                      .on_store_failure = rule.on_store_failure,
                      .local_rule = rule.local_rule,
                      .penalize = rule.penalize,
                      .started = false,
                      .span = {},
                      .touched = {},
                      .last_touched = {},
                      .awaiting_read = {},
                      .overflow_name = rule.name + "|~"});
  }
}

void Engine::count(const SpanCount& count) {
  RuleState& rule = rules_[count.rule];
  const Ordinal ordinal = rule.clock.ordinal(count.began);
  const std::uint64_t units = counted(rule, count.offered, count.admitted);

  Ledger::SlotIndex index = ledger_.find(count.key);
  if (index == Ledger::none) {
    index = ledger_.insert(count.key);
    if (index == Ledger::none) {
      ++strays_;
      write_stray(rule, count.key, key_name(rule.name, count.key_bytes), ordinal, units);
      return;
    }
    KeySlot& fresh = ledger_[index];
    fresh.rule = count.rule;
    fresh.name = key_name(rule.name, count.key_bytes);
    fresh.current.ordinal = ordinal;
    fresh.previous.ordinal = ordinal - 1;
  }
  KeySlot& slot = ledger_[index];

  // A clock that was set back makes an older ordinal the running one; otherwise an older one is a
  // straggler's.
  const bool set_back = ordinal < slot.current.ordinal && rule.started && rule.span.ordinal == ordinal;
  if (ordinal > slot.current.ordinal || set_back) roll(rule, slot, ordinal);

  if (ordinal == slot.current.ordinal) {
    slot.current.offered += count.offered;
    slot.current.admitted += count.admitted;
    slot.unwritten += units;
    if (!slot.touched) {
      slot.touched = true;
      rule.touched.push_back(index);
    }
  } else {
    if (ordinal == slot.previous.ordinal) {
      slot.previous.offered += count.offered;
      slot.previous.admitted += count.admitted;
    }
    write(rule, slot, ordinal, units);
  }

  if (count.refused_at != never) {
    if (slot.refused_at == never || count.refused_at < slot.refused_at) {
      slot.refused_at = count.refused_at;
      slot.refused_ordinal = ordinal;
    }
    if (!slot.refusal_due) {
      slot.refusal_due = true;
      refusals_.push_back(index);
    }
  }
}

void Engine::count_overflow(RuleIndex index, WallTime began, std::uint64_t offered, std::uint64_t admitted) {
  const RuleState& rule = rules_[index];
  write_stray(rule, 0, rule.overflow_name, rule.clock.ordinal(began), counted(rule, offered, admitted));
}

// The interval of a key changes: what is unwritten still belongs to the old one (step 1).
void Engine::roll(RuleState& rule, KeySlot& slot, Ordinal to) {
  if (slot.unwritten > 0) {
    write(rule, slot, slot.current.ordinal, slot.unwritten);
    slot.unwritten = 0;
  }
  slot.previous = slot.current;
  slot.current = {.ordinal = to};
  if (slot.previous.ordinal != to - 1) slot.previous = {.ordinal = to - 1};
}

void Engine::write(const RuleState& rule, const KeySlot& slot, Ordinal ordinal, std::uint64_t delta) {
  writes_.push_back({slot.key, slot.name, ordinal, delta, rule.time_to_live});
}

void Engine::write_stray(const RuleState& rule, std::uint64_t key, std::string name, Ordinal ordinal,
                         std::uint64_t delta) {
  if (delta == 0) return;
  stray_names_.push_back(std::move(name));
  writes_.push_back({key, stray_names_.back(), ordinal, delta, rule.time_to_live});
}

void Engine::clear_writes() noexcept {
  writes_.clear();
  stray_names_.clear();
}

NodesRatio Engine::nodes_for(const RuleState& rule, const KeySlot& slot) const noexcept {
  // `open`: without the store only this node's own count proves anything.
  if (!store_reached_ && rule.on_store_failure == OnStoreFailure::open) return NodesRatio();
  return slot.nodes;
}

void Engine::step(Instant now, bool end_all) {
  pardoned_.clear();
  judge_refusals();
  for (RuleState& rule : rules_) {
    const SpanId running = rule.clock.span(now.wall);
    if (!rule.started) {
      rule.started = true;
      rule.span = running;
    }
    if (running != rule.span || end_all) end_span(rule, running, now);
  }
}

// The first request refused for want of allowance is the exceeding, and the cooldown began with it (step 2).
// With several workers a refusal may also mean that another one held an unused chunk: then the offered count
// tells.
void Engine::judge_refusals() {
  for (const Ledger::SlotIndex index : refusals_) {
    KeySlot& slot = ledger_[index];
    const RuleState& rule = rules_[slot.rule];
    const auto exceeded = [&](const IntervalCounts& counts) {
      return counts.ordinal == slot.refused_ordinal &&
             (counts.offered > rule.limit - std::min(rule.limit, counts.others()) ||
              nodes_for(rule, slot).exceeds(counts.offered, rule.limit));
    };
    if (exceeded(slot.current) || exceeded(slot.previous))
      slot.block.begin(slot.refused_at, rule.cooldown);
    else
      pardoned_.push_back(slot.key);
    slot.refusal_due = false;
    slot.refused_at = never;
  }
  refusals_.clear();
}

void Engine::end_span(RuleState& rule, SpanId next, Instant now) {
  // One span after an interval's end the others have written too: ask for its sum (step 4).
  for (const Ledger::SlotIndex index : rule.awaiting_read) {
    KeySlot& slot = ledger_[index];
    if (slot.key == 0 || !slot.read_due) continue;
    slot.read_due = false;
    const IntervalCounts& ended = slot.current.ordinal < rule.span.ordinal ? slot.current : slot.previous;
    if (counted(rule, ended) == 0) continue;
    slot.reading = true;
    slot.reading_ordinal = ended.ordinal;
    write(rule, slot, ended.ordinal, 0);
  }
  rule.awaiting_read.clear();

  std::swap(rule.touched, rule.last_touched);
  rule.touched.clear();
  for (const Ledger::SlotIndex index : rule.last_touched) {
    KeySlot& slot = ledger_[index];
    slot.touched = false;
    slot.span_count = slot.unwritten;
    if (slot.unwritten > 0) write(rule, slot, slot.current.ordinal, slot.unwritten);
    slot.unwritten = 0;
    // Step 6: at any time.
    if (nodes_for(rule, slot).exceeds(counted(rule, slot.current), rule.limit))
      slot.block.begin(now.monotonic, rule.cooldown);
  }
  if (!store_reached_) apply_local_rules(rule, now);

  if (next.ordinal != rule.span.ordinal) {
    const auto index = static_cast<RuleIndex>(&rule - rules_.data());
    forget_idle(index, now.monotonic);
    for (Ledger::SlotIndex i = 0; i < ledger_.end(); ++i) {
      KeySlot& slot = ledger_[i];
      if (slot.key == 0 || slot.rule != index || slot.current.ordinal != rule.span.ordinal) continue;
      slot.read_due = true;
      rule.awaiting_read.push_back(i);
    }
  }
  rule.span = next;
}

// Step 5, the seed's form. The cumulative form is step 6, which holds with and without the store.
void Engine::apply_local_rules(RuleState& rule, Instant now) {
  if (rule.local_rule != LocalRule::per_span || rule.on_store_failure != OnStoreFailure::local) return;
  for (const Ledger::SlotIndex index : rule.last_touched) {
    KeySlot& slot = ledger_[index];
    if (slot.key != 0 && slot.nodes.exceeds_in_span(slot.span_count, rule.limit, rule.spans))
      slot.block.begin(now.monotonic, rule.cooldown);
  }
}

void Engine::sync_result(bool reached, Instant now) {
  const bool newly_lost = store_reached_ && !reached;
  store_reached_ = reached;
  if (newly_lost)
    for (RuleState& rule : rules_) apply_local_rules(rule, now);
}

void Engine::reply(std::uint64_t key, Ordinal ordinal, std::uint64_t delta, std::uint64_t total,
                   Instant now) {
  const Ledger::SlotIndex index = key == 0 ? Ledger::none : ledger_.find(key);
  if (index == Ledger::none) return;
  KeySlot& slot = ledger_[index];
  const RuleState& rule = rules_[slot.rule];
  IntervalCounts* counts = ordinal == slot.current.ordinal    ? &slot.current
                           : ordinal == slot.previous.ordinal ? &slot.previous
                                                              : nullptr;
  if (counts == nullptr) return;
  counts->acknowledged += delta;
  counts->total = total;

  // Step 4. Our own part is what we counted, whether or not all of it has reached the store yet.
  if (slot.reading && slot.reading_ordinal == ordinal)
    if (const std::uint64_t own = counted(rule, *counts); own > 0)
      slot.nodes = NodesRatio(own, counts->others());
  // Step 2. A reply that only reads tells of an interval that is over.
  if (delta > 0 && total > rule.limit) slot.block.begin(now.monotonic, rule.cooldown);
}

std::uint64_t Engine::default_allowance(RuleIndex index) const noexcept {
  const RuleState& rule = rules_[index];
  return !store_reached_ && rule.on_store_failure == OnStoreFailure::closed ? 0 : rule.limit;
}

KeyOverride Engine::override_of(const KeySlot& slot, Instant now) const noexcept {
  const RuleState& rule = rules_[slot.rule];
  KeyOverride override{.key = slot.key, .allowance = default_allowance(slot.rule)};
  if (slot.block.active(now.monotonic)) override.blocked_until = slot.block.until();
  if (override.allowance > 0) {
    const bool running = slot.current.ordinal == rule.clock.ordinal(now.wall);
    override.allowance =
        node_allowance(rule.limit, running ? slot.current.others() : 0, nodes_for(rule, slot));
  }
  return override;
}

// A key without counts for two intervals, without block and without a pending question has nothing left to
// remember.
void Engine::forget_idle(RuleIndex index, MonotonicTime now) {
  const Ordinal ending = rules_[index].span.ordinal;
  for (Ledger::SlotIndex i = 0; i < ledger_.end(); ++i) {
    const KeySlot& slot = ledger_[i];
    if (slot.key == 0 || slot.rule != index || slot.touched || slot.refusal_due || slot.read_due) continue;
    if (slot.current.ordinal >= ending - 1 || slot.block.active(now)) continue;
    ledger_.erase(i);
  }
  auto& last = rules_[index].last_touched;
  std::erase_if(last, [&](Ledger::SlotIndex i) { return ledger_[i].key == 0 || ledger_[i].rule != index; });
}

}  // namespace weir
