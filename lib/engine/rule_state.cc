// SPDX-License-Identifier: BSD-3-Clause
#include "engine/rule_state.h"

#include <algorithm>
#include <chrono>

namespace weir {
namespace {

/// So much more than an interval the clocks of nodes may differ without a strict limit being exceeded:
/// another one, for counters that lived 10 s longer whatever their interval would be many times as many.
Duration strict_clocks_apart(const Rule& rule) {
  return std::min<Duration>(rule.interval, std::chrono::seconds{10});
}

// A counter must outlive the read one span after its interval, what is kept back until the end of the next
// one, and a carry-over of about another interval. Under a strict limit also the claims of the node that is
// latest in the interval, by its clock: on a counter that has expired they would be granted once more. From
// the first node's claim, a span before the interval, to its own, a span before the end, is an interval and
// what their clocks are apart.
Duration life_of_counters(const Rule& rule) {
  const Duration life = 2 * rule.interval + 2 * (rule.interval / rule.spans) + std::chrono::milliseconds{1};
  return rule.algorithm == Algorithm::strict ? life + strict_clocks_apart(rule) : life;
}

}  // namespace

RuleState::RuleState(const Rule& rule)
    : clock(rule.interval, rule.spans),
      name(rule.name),
      overflow_name(rule.name + "|~"),
      limit(rule.limit),
      burst(burst_of(rule)),
      weight(std::max<std::uint32_t>(rule.weight, 1)),
      spans(rule.spans),
      block{rule.cooldown, rule.dephase},
      time_to_live(life_of_counters(rule)),
      algorithm(rule.algorithm),
      early_block(rule.early_block),
      on_store_failure(rule.on_store_failure),
      local_rule(rule.local_rule),
      warmup(rule.warmup),
      penalize(rule.penalize),
      debt(rule.debt),
      hold_back(rule.algorithm == Algorithm::strict ? 0 : rule.hold_back),
      block_clock(std::chrono::ceil<std::chrono::milliseconds>(
                      std::max(block.length(~std::uint64_t{0}), Duration{1})),
                  1),
      block_time_to_live(2 * block_clock.interval() + 2 * (rule.interval / rule.spans) +
                         std::chrono::milliseconds{1}),
      holding(rule.spans),
      late_spans(rule.algorithm == Algorithm::sliding_window ? rule.spans : 0) {}

SpanCounts RuleState::before_spans(const KeySlot& slot, const KeyPast& past) const noexcept {
  const std::int64_t ends = number({slot.latest_ordinal(), spans - 1});
  return {.number = std::max(started ? std::min(ends, number(span)) : ends, held_latest),
          .own = slot.current.admitted + past.admitted};
}

void RuleState::find_held_span(WallTime began, WallTime counted_by) noexcept {
  held_began = began;
  held_counted_by = counted_by;
  held_span = span_of(began);
  const SpanId by = clock.span(counted_by);
  if (number(by) - 1 <= number(held_span)) return;
  const std::int64_t own = number(held_span);
  held_span = by.index > 0 ? SpanId{by.ordinal, by.index - 1} : SpanId{by.ordinal - 1, spans - 1};
  late_spans[place_of(own)] = {own, number(held_span)};
  held_latest = std::max(held_latest, number(held_span));
}

void RuleState::move_held(SpanId running, std::int64_t by) noexcept {
  std::ranges::fill(late_spans, LateSpan());
  if (held_latest != before_all) held_latest = std::min(held_latest + by, number(running));
}

bool RuleState::holds() const noexcept { return hold_back * static_cast<double>(limit) >= 1; }

std::uint64_t RuleState::hold_of(std::uint64_t parts) const noexcept {
  // A hundredth of a hundred is one, also in binary fractions.
  constexpr double rounding = 1e-9;
  return static_cast<std::uint64_t>(hold_back * static_cast<double>(limit) /
                                        static_cast<double>(std::max<std::uint64_t>(parts, 1)) +
                                    rounding);
}

}  // namespace weir
