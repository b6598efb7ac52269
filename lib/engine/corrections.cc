// SPDX-License-Identifier: BSD-3-Clause
// Requests that cost more in the end, or less, than was counted of them.
//
// Who is charged what nobody has drawn leaves the workers what they have at hand, of which who only looks
// whether anything is left never uses up any: so a key that has used up its limit in this way has nothing.
//
// What the store has been told is not taken back: a counter that only grows cannot be lowered twice, nor by
// who has been told of it as it was. What was counted too much is set against what this node counts of the
// key next: so as long as requests come, all nodes know what the key has really used; and if none come any
// more, others take the last ones for as dear as they were estimated, until the interval ends.
#include <algorithm>
#include <utility>

#include "engine/engine.h"

namespace weir {
namespace {

/// In an interval: what workers count beside it makes no sum of 64 bits wrap.
constexpr std::uint64_t most_charged = std::uint64_t{1} << 61;

}  // namespace

std::uint64_t Engine::charge(SpanCount charged) {
  SlotIndex index = ledger_.find(charged.key);
  RuleState& rule = rules_[charged.rule];
  const Ordinal ordinal = rule.span_of(charged.began).ordinal;
  rule.charged_in = std::max(rule.charged_in, ordinal);
  const std::uint64_t before = index == Ledger::none ? 0 : offered_in(ledger_[index], ordinal);
  charged.admitted = std::min(charged.admitted, most_charged - std::min(before, most_charged));
  charged.offered = charged.admitted;
  count(charged, index);
  if (index == Ledger::none) index = ledger_.find(charged.key);
  if (index == Ledger::none) return charged.admitted;
  KeySlot& slot = ledger_[index];
  // Up to a half grants end by themselves; see Controller::publish_keys().
  if (slot.current.admitted >= default_of(slot.rule).allowance / 2) {
    own_detail(slot).overdrawn = true;
    let_differ(slot);
  }
  return charged.admitted;
}

// What has left the window frees nothing that came after it.
bool Engine::may_be_refunded(RuleIndex rule, WallTime charged) const noexcept {
  const RuleState& state = rules_[rule];
  return state.algorithm == Algorithm::sliding_window || state.clock.ordinal(charged) >= state.span.ordinal;
}

std::uint64_t Engine::refund(const Refund& refund) {
  const SlotIndex index = ledger_.find(refund.key);
  if (index == Ledger::none) return 0;
  KeySlot& slot = ledger_[index];
  RuleState& rule = rules_[slot.rule];
  if (rule.is_bucket()) {
    refund_to_bucket(rule, slot, refund.amount);
    return refund.amount;
  }
  if (!may_be_refunded(slot.rule, refund.charged)) return 0;
  const SpanId span = rule.span_of(refund.charged);
  const bool running = span.ordinal == slot.current.ordinal;
  const bool slides = rule.algorithm == Algorithm::sliding_window;
  if (!running && span.ordinal != slot.previous_ordinal()) return 0;

  KeyPast& past = ledger_.past(slot);
  std::uint64_t& admitted = running ? slot.current.admitted : past.admitted;
  std::uint64_t& offered = running ? slot.current.offered : past.offered;
  std::uint64_t amount = std::min({refund.amount, admitted, offered});
  if (slides) amount = take_from_window(rule, slot, span, amount);
  admitted -= amount;
  offered -= amount;
  if (rule.algorithm == Algorithm::strict) {
    if (Lease* lease = own_detail(slot).leases->of(span.ordinal); lease != nullptr)
      lease->admitted -= std::min(lease->admitted, amount);
  } else if (running) {
    set_against_next(slot, amount);
  }
  return amount;
}

// A bucket knows of no interval: what is put back into it, it has, whenever that was drawn.
void Engine::refund_to_bucket(const RuleState& rule, KeySlot& slot, std::uint64_t amount) {
  const std::uint64_t counted = std::min({amount, slot.current.admitted, slot.current.offered});
  slot.current.admitted -= counted;
  slot.current.offered -= counted;
  set_against_next(slot, amount);
  KeyDetail* const detail = ledger_.detail_if_any(slot);
  if (detail == nullptr) return;
  detail->refunded = std::min(detail->refunded, rule.burst);
  detail->span_admitted -= std::min(detail->span_admitted, amount);
}

// What has not been told yet need not be; the rest is not told of what comes next.
void Engine::set_against_next(KeySlot& slot, std::uint64_t amount) {
  const std::uint64_t untold = std::min(slot.unwritten, amount);
  slot.unwritten -= untold;
  if (amount == untold) return;
  own_detail(slot).refunded += amount - untold;
  refunds_ = true;
}

std::uint64_t Engine::without_refunded(KeySlot& slot, std::uint64_t units) noexcept {
  KeyDetail* const detail = ledger_.detail_if_any(slot);
  if (detail == nullptr) return units;
  const std::uint64_t refunded = std::min(detail->refunded, units);
  detail->refunded -= refunded;
  // As if it had been told, and answered: else this node would seem to take less part in the key's traffic.
  slot.own_since_heard += refunded;
  return units - refunded;
}

// Of what a sliding window holds of a span. Light keys are known by the interval.
// @return as much of it as there is
std::uint64_t Engine::take_from_window(const RuleState& rule, KeySlot& slot, SpanId span,
                                       std::uint64_t amount) noexcept {
  KeyDetail* const detail = ledger_.detail_if_any(slot);
  if (detail == nullptr || detail->spans.empty()) return amount;
  const std::int64_t number = rule.number(span);
  if (is_by_clock_before(rule, number)) return 0;
  std::uint64_t left = amount;
  const auto take_from = [&](SpanCounts& counts) {
    const std::uint64_t taken = std::min(counts.own, left);
    counts.own -= taken;
    left -= taken;
  };
  const auto take_as_of = [&](std::int64_t held) {
    if (SpanCounts& own = detail->spans[rule.place_of(held)]; own.number == held) take_from(own);
  };
  take_as_of(number);
  if (const std::int64_t late = rule.held_late_of(number); late != number) take_as_of(late);
  if (SpanCounts& before = detail->spans.back(); before.number >= number) take_from(before);
  return amount - left;
}

TokenPrice Engine::price_of(RuleIndex rule, std::uint64_t key, Instant now) const noexcept {
  const SlotIndex slot = ledger_.find(key);
  return slot == Ledger::none ? default_of(rule).factor : quota_for(ledger_.view(ledger_[slot]), now).factor;
}

}  // namespace weir
