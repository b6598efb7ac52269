// SPDX-License-Identifier: BSD-3-Clause
// What keys under sliding windows have used, span by span; of light ones (light_keys.h) by the interval.
#include "engine/engine.h"

#include <algorithm>

namespace weir {

KeyDetail& Engine::make_detail(KeySlot& slot) {
  const RuleState& rule = rules_[slot.rule];
  const SpanCounts before = rule.before_spans(slot, ledger_.past(slot));
  KeyDetail& detail = ledger_.own_detail(slot);
  if (rule.algorithm != Algorithm::sliding_window) return detail;
  ledger_.make_spans(detail, rule.spans + 1);
  detail.spans.back() = before;
  let_differ(slot);
  return detail;
}

// @param running  the interval that a window may still reach what the key has used from
void Engine::drop_detail(const RuleState& rule, KeySlot& slot, Ordinal running) {
  // What it had learned of its share is out of date: it begins with as much as a key that comes now.
  if (ledger_.detail(slot).demand.share() != ledger_.first_share(slot))
    ledger_.past(slot).first_nodes = cluster_.nodes & most_nodes;
  ledger_.drop_detail(slot);
  if (rule.has_light_keys()) add_light_key(rule, slot.key, running);
}

void Engine::share_light() noexcept {
  for (RuleState& rule : rules_) rule.light = LightKeys::most(rule.limit, cluster_.nodes);
}

// Before a count is added to the key's interval: what it came to until then may make the key a light one.
// @param held  the span that the window is to hold it as of
void Engine::slide(const RuleState& rule, KeySlot& slot, SpanId span, SpanId held, std::uint64_t admitted) {
  if (slot.detail == no_index && rule.has_light_keys()) {
    const bool current = span.ordinal == slot.current.ordinal;
    const bool remembered = current || span.ordinal == slot.previous_ordinal();
    if (!remembered && (held == span || admitted == 0)) return;  // it has left the window
    const std::uint64_t before = current ? slot.current.admitted : ledger_.past(slot).admitted;
    if (remembered && before <= rule.light && admitted <= rule.light - before) {
      if (admitted > 0 && (before == 0 || held.ordinal != span.ordinal))
        add_light_key(rule, slot.key, held.ordinal);
      return;
    }
  }
  KeyDetail& detail = own_detail(slot);
  if (is_by_clock_before(rule, rule.number(span))) {
    held_as_of_now(rule, detail).own += admitted;
    return;
  }
  const std::int64_t number = rule.number(held);
  SpanCounts& own = detail.spans[rule.place_of(number)];
  if (own.number < number) own = {.number = number};
  if (own.number == number) own.own += admitted;
}

// Whether a number is of a span by the clock as it was before it was set: then it lies ahead, or before all
// that has been numbered since.
bool Engine::is_by_clock_before(const RuleState& rule, std::int64_t number) const noexcept {
  if (!rule.started) return false;
  const std::int64_t running = rule.number(rule.span);
  return number >= running + rule.spans ||
         (rule.was_set_lately() && (number > running || number < rule.set_in));
}

void Engine::add_light_key(const RuleState& rule, std::uint64_t key, Ordinal ordinal) {
  // A straggler's: it would push out those of the interval that runs.
  if (rule.started && ordinal < rule.span.ordinal - 1) return;
  const std::size_t clock = clock_of_rule_[index_of(rule)];
  if (light_keys_[clock].crowded()) find_light_keys(clock);
  light_keys_[clock].add(key, ordinal);
}

// With room for those that are known. As of the interval that runs: they are held for an interval too long
// rather than for one too short.
void Engine::find_light_keys(std::size_t clock) {
  LightKeys& keys = light_keys_[clock];
  keys.empty(ledger_.size());
  for (SlotIndex i = 0; i < ledger_.end(); ++i) {
    const KeySlot& slot = ledger_[i];
    if (slot.key == 0 || slot.detail != no_index) continue;
    const RuleState& rule = rules_[slot.rule];
    if (!rule.has_light_keys() || clock_of_rule_[slot.rule] != clock) continue;
    if (const Ordinal running = rule.span.ordinal; slot.latest_ordinal() >= running - 1)
      keys.add(slot.key, std::max({running, slot.latest_ordinal(), rule.held_latest / rule.spans}));
  }
}

// Whether a key is as good as light when a span begins: then it need not be known by the span any more.
bool Engine::window_says_nothing(const RuleState& rule, const KeySlot& slot, const KeyDetail& detail,
                                 SpanId next) const noexcept {
  if (rule.algorithm != Algorithm::sliding_window) return true;
  const IntervalCounts before = previous(slot);
  if (slot.current.admitted > rule.light || before.admitted > rule.light ||
      slot.current.ordinal > next.ordinal || slot.current.ordinal < next.ordinal - 1)
    return false;
  // After the clock has been set the window holds what was counted in other intervals.
  std::uint64_t own = 0;
  for (const SpanCounts& span : detail.spans) {
    if (span.number <= rule.number(next) - rule.spans) continue;
    if (span.others > 0) return false;
    own += span.own;
  }
  return own <= slot.current.admitted + before.admitted;
}

// Whether there is anything in the window of a key that is known by the span.
bool Engine::window_holds(const RuleState& rule, const KeyDetail& detail, SpanId next) const noexcept {
  return std::ranges::any_of(detail.spans, [&](const SpanCounts& span) {
    return span.own + span.others > 0 && span.number > rule.number(next) - rule.spans;
  });
}

// Where what a window holds goes that is of a span nobody can tell by the clock as it is now: as of the span
// that runs.
SpanCounts& Engine::held_as_of_now(const RuleState& rule, KeyDetail& detail) const noexcept {
  SpanCounts& held = detail.spans.back();
  const std::int64_t running = rule.number(rule.span);
  if (held.number <= running - rule.spans) held = {};
  held.number = running;
  return held;
}

// The clock has been set. What a window holds is as old as it was, as far as spans tell: rather too young by
// one than too old. What was counted last is of the span that runs now, for its pool has not got it.
// @param by  by how many spans; 0: back by less than one, over its border, which matters little to light keys
void Engine::move_windows(const RuleState& rule, SpanId to, std::int64_t by) {
  if (rule.algorithm != Algorithm::sliding_window) return;
  const RuleIndex index = index_of(rule);
  const std::int64_t running = rule.number(to);
  const std::int64_t left = rule.number(rule.span) - rule.spans;
  for (SlotIndex i = 0; i < ledger_.end(); ++i) {
    KeySlot& slot = ledger_[i];
    if (slot.key == 0 || slot.rule != index || (slot.detail == no_index && by == 0)) continue;
    KeyDetail& detail = own_detail(slot);
    moved_.assign(detail.spans.size(), {});
    const auto move = [](const SpanCounts& from, SpanCounts& into, std::int64_t number) {
      into = {.number = number, .own = into.own + from.own, .others = into.others + from.others};
    };
    for (const SpanCounts& one : detail.spans.first(rule.spans)) {
      const std::int64_t number = std::min(one.number + by, running);
      if (one.number > left && number > running - rule.spans)
        move(one, moved_[rule.place_of(number)], number);
    }
    if (const SpanCounts& before = detail.spans.back(); before.number > left)
      move(before, moved_.back(), std::min(before.number + by, running));
    std::ranges::copy(moved_, detail.spans.begin());
  }
}

}  // namespace weir
