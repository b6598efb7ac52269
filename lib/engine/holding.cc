// SPDX-License-Identifier: BSD-3-Clause
// Counts kept back: of a key far from its limit a node tells the store nothing until its turn comes, once per
// interval, as long as all nodes together keep back no more than a small part of the limit.
#include <utility>

#include "engine/engine.h"

namespace weir {

// A key of which all nodes together keep back no more than a small part of the limit. That nothing says that
// it comes near it, the caller has seen.
bool Engine::may_hold(const RuleState& rule, const KeySlot& slot, const KeyDetail& detail) const noexcept {
  return rule.hold > 0 && slot.unwritten <= rule.hold && cluster_.store_reached &&
         slot.current.offered == slot.current.admitted && !slot.watched && detail.debt == 0;
}

void Engine::hold(RuleState& rule, KeySlot& slot) {
  if (slot.unwritten == 0 || slot.holding) return;
  slot.holding = true;
  // By the key's hash, so that not all of them come at the interval's border.
  rule.holding[slot.key % rule.spans].push_back(ledger_.index_of(slot));
}

// The interval of a key changes: what is kept back of it waits for the key's span in the next one.
void Engine::keep_over(const RuleState& rule, KeySlot& slot) {
  if (slot.unwritten == 0) return;
  KeyPast& past = ledger_.past(slot);
  if (past.held_age != 0) write_kept(rule, slot);
  past.held += std::exchange(slot.unwritten, 0);
  past.held_age = 0;
}

// What was kept back, to the interval that it was counted in.
void Engine::write_kept(const RuleState& rule, KeySlot& slot) {
  KeyPast& past = ledger_.past(slot);
  if (past.held == 0) return;
  write(rule, slot, slot.current.ordinal - past.held_age, std::exchange(past.held, 0), CounterUse::held);
}

// What was kept back grows older by so many intervals. After a jump of the clock that does not fit in, it is
// kept no longer.
void Engine::age_held(const RuleState& rule, KeySlot& slot, Ordinal by) {
  constexpr Ordinal oldest = 0xff;
  KeyPast& past = ledger_.past(slot);
  if (past.held == 0) return;
  const Ordinal age = past.held_age + by;
  if (age < 0 || age > oldest) return write_kept(rule, slot);
  past.held_age = static_cast<std::uint32_t>(age) & oldest;
}

// What is kept back of intervals that are over, for the keys whose turn it is: all of them once per interval.
// Where the clock has been set, or the node stops, all at once.
void Engine::write_held(RuleState& rule, SpanId next, bool end_all) {
  const SpanId ended = rule.span;
  if (end_all || next.ordinal < ended.ordinal || next.ordinal > ended.ordinal + 1) {
    for (std::uint32_t place = 0; place < rule.spans; ++place) write_held(rule, place, next.ordinal, true);
    return;
  }
  if (std::exchange(rule.holds_less, false)) write_beyond_hold(rule);
  const bool same = next.ordinal == ended.ordinal;
  for (std::uint32_t place = ended.index; place < (same ? next.index : rule.spans); ++place)
    write_held(rule, place, ended.ordinal, false);
  for (std::uint32_t place = 0; !same && place < next.index; ++place)
    write_held(rule, place, next.ordinal, false);
}

void Engine::write_held(RuleState& rule, std::uint32_t place, Ordinal running, bool everything) {
  std::vector<SlotIndex>& held = rule.holding[place];
  std::size_t kept = 0;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (i + Ledger::ahead < held.size()) ledger_.prefetch_slot(held[i + Ledger::ahead]);
    if (i + Ledger::ahead < held.size()) ledger_.prefetch_past(held[i + Ledger::ahead]);
    KeySlot& slot = ledger_[held[i]];
    const KeyPast& past = ledger_.past(slot);
    if (everything || slot.current.ordinal - past.held_age < running) write_kept(rule, slot);
    if (slot.unwritten > 0 && (everything || slot.current.ordinal < running))
      write(rule, slot, slot.current.ordinal, std::exchange(slot.unwritten, 0), CounterUse::held);
    slot.holding = past.held > 0 || slot.unwritten > 0;
    if (slot.holding) held[kept++] = held[i];
  }
  held.resize(kept);
}

// What is kept back is looked at again when more comes; but there are more nodes now, and each may keep less.
void Engine::write_beyond_hold(RuleState& rule) {
  for (const std::vector<SlotIndex>& held : rule.holding)
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (i + Ledger::ahead < held.size()) ledger_.prefetch_slot(held[i + Ledger::ahead]);
      KeySlot& slot = ledger_[held[i]];
      if (slot.unwritten > rule.hold)
        write(rule, slot, slot.current.ordinal, std::exchange(slot.unwritten, 0), CounterUse::held);
    }
}

void Engine::share_holds(std::uint64_t parts) {
  for (RuleState& rule : rules_) rule.share_hold(parts);
}

}  // namespace weir
