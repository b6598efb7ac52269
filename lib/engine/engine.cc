// SPDX-License-Identifier: BSD-3-Clause
#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/key_bytes.h"
#include "limit/share.h"

namespace weir {
namespace {

/// Every node adds one to the heartbeat's counter in each of its periods. Those of the period before are all
/// in when a period begins: it was written at its beginning.
constexpr SpanClock heartbeat(std::chrono::seconds{1}, 1);
constexpr std::string_view heartbeat_name = "~nodes";  // no rule's name begins so
constexpr Duration heartbeat_lives = std::chrono::seconds{5};

/// How long the counters of each length of interval live: those of one interval are kept together, so the one
/// that needs longest decides. The heartbeat is always among them, so that nodes whose rules differ agree.
std::map<Duration, Duration> lives_by_interval(std::span<const RuleState> rules) {
  std::map<Duration, Duration> lives{{heartbeat.interval(), heartbeat_lives}};
  for (const RuleState& rule : rules) {
    Duration& life = lives[rule.clock.interval()];
    life = std::max(life, rule.time_to_live);
    if (rule.algorithm != Algorithm::cooldown) continue;
    Duration& block_life = lives[rule.block_clock.interval()];
    block_life = std::max(block_life, rule.block_time_to_live);
  }
  return lives;
}

/// How many intervals without counts a share is kept for, where there is room. For a quarter of them it is
/// kept up to date.
constexpr Ordinal remembered_intervals = 16;

/// How much of an interval's error is made good in the next one, and how far that may go: it corrects what
/// rounding and small counts do to the shares; a real change of demand is the estimates' business.
constexpr double correction_gain = 0.5;
constexpr double correction_least = 0.8;
constexpr double correction_most = 1.25;

/// Whether a key's quota may differ from its rule's default before anything is heard of other nodes.
bool differs_by_itself(const RuleState& rule) noexcept {
  return rule.algorithm == Algorithm::sliding_window || rule.algorithm == Algorithm::strict ||
         rule.early_block == EarlyBlock::predictive || rule.warmup > Duration{} || rule.debt;
}

}  // namespace

Engine::Engine(std::span<const Rule> rules, std::uint32_t keys) : ledger_(keys), may_differ_(keys) {
  rules_.reserve(rules.size());
  for (const Rule& rule : rules) {
    const RuleState& state = rules_.emplace_back(rule);
    counts_members_ = counts_members_ || state.by_shares() || state.algorithm == Algorithm::strict ||
                      state.early_block == EarlyBlock::predictive || state.holds();
  }
  const std::map<Duration, Duration> lives = lives_by_interval(rules_);
  for (RuleState& rule : rules_) {
    rule.time_to_live = lives.at(rule.clock.interval());
    if (rule.algorithm == Algorithm::cooldown)
      rule.block_time_to_live = lives.at(rule.block_clock.interval());
  }
  heartbeat_lives_ = lives.at(heartbeat.interval());
}

KeySlot* Engine::slot_for(const SpanCount& count, Ordinal ordinal) {
  Ledger::SlotIndex index = ledger_.find(count.key);
  if (index != Ledger::none) return &ledger_[index];
  index = ledger_.insert(count.key);
  if (index == Ledger::none) return nullptr;
  const RuleState& rule = rules_[count.rule];
  KeySlot& fresh = ledger_[index];
  fresh.rule = count.rule;
  may_differ_[index] = differs_by_itself(rule);
  fresh.name = key_name(rule.name, count.key_bytes);
  fresh.current.ordinal = ordinal;
  fresh.previous.ordinal = ordinal - 1;
  fresh.last_counted = ordinal;
  fresh.cold_permits = rule.warm_permits();
  fresh.demand.begin(cluster_.nodes);
  if (rule.algorithm == Algorithm::sliding_window) fresh.spans.assign(rule.spans, SpanCounts{});
  return &fresh;
}

void Engine::count(const SpanCount& count) {
  RuleState& rule = rules_[count.rule];
  const Ordinal ordinal = rule.clock.ordinal(count.began);
  const std::uint64_t units = rule.counted(count.offered, count.admitted);

  KeySlot* found = slot_for(count, ordinal);
  if (found == nullptr) {
    ++strays_;
    write_stray(rule, count.key, key_name(rule.name, count.key_bytes), ordinal, units);
    return;
  }
  KeySlot& slot = *found;
  const Ledger::SlotIndex index = ledger_.index_of(slot);

  // A clock that was set back makes an older ordinal the running one; otherwise an older one is a
  // straggler's.
  const bool set_back = ordinal < slot.current.ordinal && rule.started && rule.span.ordinal == ordinal;
  if (ordinal > slot.current.ordinal || set_back) roll(rule, slot, ordinal);

  const bool leased = rule.algorithm == Algorithm::strict;  // the claims are the counts
  if (leased)
    if (Lease* lease = slot.lease_of(ordinal); lease != nullptr) lease->admitted += count.admitted;
  if (ordinal == slot.current.ordinal) {
    slot.current.offered += count.offered;
    slot.current.admitted += count.admitted;
    slot.span_offered += count.offered;
    slot.span_admitted += count.admitted;
    slot.last_counted = ordinal;
    slot.counted_span = std::max(slot.counted_span, rule.number(rule.clock.span(count.began)));
    if (!leased) slot.unwritten += units;
    slot.span_counting += units;
    if (rule.tells_refused()) slot.refused_unwritten += count.offered - count.admitted;
    if (!slot.touched) {
      slot.touched = true;
      rule.touched.push_back(index);
    }
    if (slot.fresh && !slot.fresh_due && rule.hears() && slot.unwritten > rule.hold) {
      slot.fresh_due = true;
      fresh_.push_back(index);
    }
  } else {
    if (ordinal == slot.previous.ordinal) {
      slot.previous.offered += count.offered;
      slot.previous.admitted += count.admitted;
    }
    if (!leased) write(rule, slot, ordinal, units);
  }
  if (!slot.spans.empty()) {
    const std::int64_t number = rule.number(rule.clock.span(count.began));
    SpanCounts& span = slot.spans[static_cast<std::size_t>(number) % slot.spans.size()];
    if (span.number < number) span = {.number = number};
    if (span.number == number) span.own += count.admitted;
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
  write_stray(rule, 0, rule.overflow_name, rule.clock.ordinal(began), rule.counted(offered, admitted));
}

// The interval of a key changes: what is unwritten still belongs to the old one (step 1).
void Engine::roll(RuleState& rule, KeySlot& slot, Ordinal to) {
  if (slot.holding && slot.unwritten <= rule.hold && to == slot.current.ordinal + 1) {
    keep_over(rule, slot);
  } else if (slot.unwritten > 0) {
    write(rule, slot, slot.current.ordinal, slot.unwritten);
    slot.unwritten = 0;
  }
  slot.span_counting = 0;
  if (slot.refused_unwritten > 0) write_refused(rule, slot, slot.current.ordinal);
  // A clock that was set back by less than an interval, and perhaps forward again: nothing is forgotten.
  if (to == slot.previous.ordinal) return std::swap(slot.current, slot.previous);
  slot.previous = slot.current;
  slot.current = IntervalCounts{};
  slot.current.ordinal = to;
  if (slot.previous.ordinal == to - 1) return;
  slot.previous = IntervalCounts{};
  slot.previous.ordinal = to - 1;
  slot.asked_blocks = false;  // others may have blocked it while it was away from here
}

void Engine::write(const RuleState& rule, KeySlot& slot, Ordinal ordinal, std::uint64_t delta,
                   CounterUse use) {
  for (IntervalCounts* counts : {&slot.current, &slot.previous})
    if (counts->ordinal == ordinal) counts->told = true;
  writes_.push_back({.key = slot.key,
                     .name = slot.name,
                     .ordinal = ordinal,
                     .interval = rule.clock.interval(),
                     .delta = delta,
                     .time_to_live = rule.time_to_live,
                     .returned = 0,
                     .use = use});
}

void Engine::write_refused(const RuleState& rule, KeySlot& slot, Ordinal ordinal) {
  write_refused(rule, slot, ordinal, std::exchange(slot.refused_unwritten, 0));
}

void Engine::write_refused(const RuleState& rule, const KeySlot& slot, Ordinal ordinal, std::uint64_t delta) {
  stray_names_.push_back(slot.name + "|~refused");
  writes_.push_back({.key = slot.key,
                     .name = stray_names_.back(),
                     .ordinal = ordinal,
                     .interval = rule.clock.interval(),
                     .delta = delta,
                     .time_to_live = rule.time_to_live,
                     .returned = 0,
                     .use = CounterUse::refused});
}

void Engine::write_lease(const RuleState& rule, KeySlot& slot, Lease& lease, std::uint64_t claim) {
  const std::uint64_t owed = std::exchange(lease.owed, 0);
  if (claim == 0 && owed == 0) return;
  lease.asked += claim;
  writes_.push_back({.key = slot.key,
                     .name = slot.name,
                     .ordinal = lease.ordinal,
                     .interval = rule.clock.interval(),
                     .delta = claim,
                     .time_to_live = rule.time_to_live,
                     .returned = owed,
                     .use = CounterUse::lease});
}

void Engine::write_lease_question(const RuleState& rule, const KeySlot& slot, const Lease& lease) {
  writes_.push_back({.key = slot.key,
                     .name = slot.name,
                     .ordinal = lease.ordinal,
                     .interval = rule.clock.interval(),
                     .delta = 0,
                     .time_to_live = rule.time_to_live,
                     .returned = 0,
                     .use = CounterUse::lease});
}

void Engine::write_stray(const RuleState& rule, std::uint64_t key, std::string name, Ordinal ordinal,
                         std::uint64_t delta) {
  if (delta == 0) return;
  stray_names_.push_back(std::move(name));
  writes_.push_back({.key = key,
                     .name = stray_names_.back(),
                     .ordinal = ordinal,
                     .interval = rule.clock.interval(),
                     .delta = delta,
                     .time_to_live = rule.time_to_live});
}

void Engine::clear_writes() noexcept {
  writes_.clear();
  stray_names_.clear();
}

void Engine::step(Instant now, bool end_all, bool all_passed) {
  pardoned_.clear();
  judge_refusals();
  if (counts_members_) beat(now);
  // By how much the wall clock has been set since the last step.
  const Duration set =
      stepped_ ? (now.wall - last_step_.wall) - (now.monotonic - last_step_.monotonic) : Duration{};
  stepped_ = true;
  last_step_ = now;
  for (RuleState& rule : rules_) {
    const SpanId running = rule.clock.span(now.wall);
    if (!rule.started) {
      rule.started = true;
      rule.span = running;
    }
    if (std::chrono::abs(set) >= rule.clock.interval() / rule.spans) move_windows(rule, set);
    if (running != rule.span || end_all) end_span(rule, running, now, end_all, all_passed);
  }
  ask_for_fresh(now);
}

// What a sliding window holds is as old as it was, whatever the wall clock says.
void Engine::move_windows(const RuleState& rule, Duration by) {
  if (rule.algorithm != Algorithm::sliding_window) return;
  const auto index = static_cast<RuleIndex>(&rule - rules_.data());
  const auto moved = static_cast<std::int64_t>(static_cast<__int128>(by.count()) * rule.spans /
                                               rule.clock.interval().count());
  for (Ledger::SlotIndex i = 0; i < ledger_.end(); ++i) {
    KeySlot& slot = ledger_[i];
    if (slot.key == 0 || slot.rule != index) continue;
    std::vector<SpanCounts> spans(slot.spans.size());
    for (const SpanCounts& span : slot.spans)
      if (span.number + moved >= 0)
        spans[static_cast<std::size_t>(span.number + moved) % spans.size()] = {span.number + moved, span.own,
                                                                               span.others};
    slot.spans = std::move(spans);
    slot.heard_span = -1;
  }
}

void Engine::beat(Instant now) {
  const Ordinal ordinal = heartbeat.ordinal(now.wall);
  if (beating_ && ordinal == beat_) return;
  const auto say = [&](Ordinal at, std::uint64_t delta) {
    writes_.push_back({.key = 0,
                       .name = heartbeat_name,
                       .ordinal = at,
                       .interval = heartbeat.interval(),
                       .delta = delta,
                       .time_to_live = heartbeat_lives_,
                       .returned = 0,
                       .use = CounterUse::members});
  };
  say(ordinal - 1, 0);
  say(ordinal, 1);
  if (!beating_ || beat_ != ordinal - 1) absent_ = ordinal - 1;
  beating_ = true;
  beat_ = ordinal;
}

// The first request refused for want of allowance is the exceeding, and the cooldown began with it (step 2).
// With several workers a refusal may also mean that another one held an unused chunk: then the offered count
// tells.
void Engine::judge_refusals() {
  for (const Ledger::SlotIndex index : refusals_) {
    KeySlot& slot = ledger_[index];
    const RuleState& rule = rules_[slot.rule];
    const std::uint64_t limit = rule.limit_of(slot);
    const auto exceeded = [&](const IntervalCounts& counts) {
      if (counts.ordinal != slot.refused_ordinal) return false;
      if (counts.offered > limit - std::min(limit, counts.counted.others())) return true;
      if (rule.early_block == EarlyBlock::predictive)
        return true;  // refused on an estimate: as it was asked to
      return nodes_tell(rule, slot, cluster_) &&
             weir::nodes_of(rule, slot, cluster_).exceeds(counts.offered, limit);
    };
    if (exceeded(slot.current) || exceeded(slot.previous))
      begin_block(rule, slot, slot.refused_at);
    else
      pardoned_.push_back(slot.key);
    slot.refusal_due = false;
    slot.refused_at = never;
  }
  refusals_.clear();
}

void Engine::end_span(RuleState& rule, SpanId next, Instant now, bool end_all, bool all_passed) {
  read_ended(rule);

  std::swap(rule.touched, rule.last_touched);
  rule.touched.clear();
  constexpr std::size_t ahead = 4;  // slots lie at random
  for (std::size_t i = 0; i < rule.last_touched.size(); ++i) {
    const Ledger::SlotIndex index = rule.last_touched[i];
    if (i + ahead < rule.last_touched.size()) ledger_.prefetch_slot(rule.last_touched[i + ahead]);
    KeySlot& slot = ledger_[index];
    slot.touched = false;
    if (rule.algorithm == Algorithm::strict && !slot.watched) watch(rule, index);
    write_counts(rule, slot, now);
  }
  write_held(rule, next, end_all);
  keep_watching(rule, now);
  if (rule.algorithm == Algorithm::strict)
    for (const Ledger::SlotIndex index : rule.watched) {
      if (!end_all)
        lease_ahead(rule, ledger_[index], next, all_passed);
      else if (all_passed)
        end_leases(rule, ledger_[index]);
    }
  for (const Ledger::SlotIndex index : rule.last_touched)
    ledger_[index].span_offered = ledger_[index].span_admitted = 0;
  if (!cluster_.store_reached) apply_local_rules(rule, now);

  if (rule.debt && next.ordinal != rule.span.ordinal) pay_debts(rule, next.ordinal);
  if (next.ordinal != rule.span.ordinal) {
    const auto index = static_cast<RuleIndex>(&rule - rules_.data());
    forget_idle(index, now.monotonic);
    // A log is exact on each node by itself; claims are a lease's own business.
    const bool reads = rule.algorithm != Algorithm::sliding_log && rule.algorithm != Algorithm::strict;
    for (Ledger::SlotIndex i = 0; reads && i < ledger_.end(); ++i) {
      KeySlot& slot = ledger_[i];
      if (slot.key == 0 || slot.rule != index || slot.current.ordinal != rule.span.ordinal) continue;
      slot.read_due = true;
      rule.awaiting_read.push_back(i);
    }
  }
  rule.span = next;
}

// An interval without counts pays as much as the limit: nothing will be read of it.
void Engine::pay_debts(const RuleState& rule, Ordinal next) {
  const auto index = static_cast<RuleIndex>(&rule - rules_.data());
  for (Ledger::SlotIndex i = 0; i < ledger_.end(); ++i) {
    KeySlot& slot = ledger_[i];
    if (slot.key == 0 || slot.rule != index || slot.debt == 0 || slot.last_counted >= next - 1) continue;
    slot.debt -= std::min(slot.debt, rule.limit);
  }
}

// One span after an interval's end the others have written too: ask for its sum (step 4).
void Engine::read_ended(RuleState& rule) {
  for (const Ledger::SlotIndex index : rule.awaiting_read) {
    KeySlot& slot = ledger_[index];
    if (slot.key == 0 || !slot.read_due) continue;
    slot.read_due = false;
    const IntervalCounts& ended = slot.current.ordinal < rule.span.ordinal ? slot.current : slot.previous;
    // Of a light key nothing has been told, and nothing need be known.
    if ((rule.counted(ended) == 0 || !ended.told) && !slot.watched) continue;
    slot.reading = true;
    slot.reading_ordinal = ended.ordinal;
    write(rule, slot, ended.ordinal, 0);
    slot.settling = true;
    if (slot.watched && rule.tells_refused()) write_refused(rule, slot, ended.ordinal, 0);
  }
  rule.awaiting_read.clear();
}

// Steps 1 and 6, for a key counted in the span that ends.
void Engine::write_counts(RuleState& rule, KeySlot& slot, Instant now) {
  slot.span_count = std::exchange(slot.span_counting, 0);
  if (may_hold(rule, slot))
    hold(rule, slot);
  else
    tell(rule, slot, now);
  slot.offered_since_heard += rule.by_shares() ? slot.span_offered : slot.span_count;
  if (rule.by_shares()) slot.current.contended = slot.current.contended && contended(rule, slot);
  if (rule.warmup > Duration{}) warm(rule, slot);
  if (rule.algorithm == Algorithm::cooldown && nodes_tell(rule, slot, cluster_) &&
      weir::nodes_of(rule, slot, cluster_).exceeds(rule.counted(slot.current), rule.limit_of(slot)))
    begin_block(rule, slot, now.monotonic);
}

void Engine::tell(RuleState& rule, KeySlot& slot, Instant now) {
  // First, so that a block that runs elsewhere is not taken for the beginning of a new one.
  if (!slot.asked_blocks) ask_blocks(rule, slot, now.wall);
  if (slot.unwritten > 0 || (slot.watched && rule.hears()))
    write(rule, slot, slot.current.ordinal, slot.unwritten);
  slot.unwritten = 0;
  if (slot.fresh) ask_first(rule, slot);
  if (slot.refused_unwritten > 0 || (slot.watched && rule.tells_refused()))
    write_refused(rule, slot, slot.current.ordinal);
}

// A key of which all nodes together keep back no more than a small part of the limit, and of which nothing
// says that it comes near it.
bool Engine::may_hold(const RuleState& rule, const KeySlot& slot) const noexcept {
  return rule.hold > 0 && slot.unwritten <= rule.hold && cluster_.store_reached &&
         slot.current.offered == slot.current.admitted && !slot.watched && slot.debt == 0 &&
         !slot.demand.nears(rule.limit_of(slot));
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
  if (slot.held > 0 && slot.held_ordinal != slot.current.ordinal)
    write(rule, slot, slot.held_ordinal, std::exchange(slot.held, 0), CounterUse::held);
  slot.held += std::exchange(slot.unwritten, 0);
  slot.held_ordinal = slot.current.ordinal;
}

// What is kept back of intervals that are over, for the keys whose turn it is: all of them once per interval.
// Where the clock has been set, or the node stops, all at once.
void Engine::write_held(RuleState& rule, SpanId next, bool end_all) {
  const SpanId ended = rule.span;
  if (end_all || next.ordinal < ended.ordinal || next.ordinal > ended.ordinal + 1) {
    for (std::uint32_t place = 0; place < rule.spans; ++place) write_held(rule, place, next.ordinal, true);
    return;
  }
  const bool same = next.ordinal == ended.ordinal;
  for (std::uint32_t place = ended.index; place < (same ? next.index : rule.spans); ++place)
    write_held(rule, place, ended.ordinal, false);
  for (std::uint32_t place = 0; !same && place < next.index; ++place)
    write_held(rule, place, next.ordinal, false);
}

void Engine::write_held(RuleState& rule, std::uint32_t place, Ordinal running, bool everything) {
  std::erase_if(rule.holding[place], [&](Ledger::SlotIndex index) {
    KeySlot& slot = ledger_[index];
    if (slot.held > 0 && (everything || slot.held_ordinal < running))
      write(rule, slot, slot.held_ordinal, std::exchange(slot.held, 0), CounterUse::held);
    if (slot.unwritten > 0 && (everything || slot.current.ordinal < running))
      write(rule, slot, slot.current.ordinal, std::exchange(slot.unwritten, 0), CounterUse::held);
    slot.holding = slot.held > 0 || slot.unwritten > 0;
    return !slot.holding;
  });
}

void Engine::share_holds() {
  for (RuleState& rule : rules_) rule.share_hold(cluster_.nodes);
}

// What outlives an interval's border (a bucket's level, a window that slides) does not begin with this node.
void Engine::ask_first(const RuleState& rule, KeySlot& slot) {
  slot.fresh = false;
  if (!rule.is_bucket() && slot.spans.empty()) return;
  slot.asked_before = true;
  write(rule, slot, slot.current.ordinal - 1, 0);
}

void Engine::ask_blocks(const RuleState& rule, KeySlot& slot, WallTime now) {
  slot.asked_blocks = true;
  if (rule.algorithm != Algorithm::cooldown) return;
  const Ordinal running = rule.block_clock.ordinal(now);
  write_block(rule, slot, running, 0);
  write_block(rule, slot, running + 1, 0);
}

// A node that has just come to a key knows nothing of what others have admitted, and its first span may be
// long.
void Engine::ask_for_fresh(Instant now) {
  for (const Ledger::SlotIndex index : fresh_) {
    KeySlot& slot = ledger_[index];
    slot.fresh_due = false;
    if (slot.key == 0 || !slot.fresh) continue;
    const RuleState& rule = rules_[slot.rule];
    slot.looks_back = true;
    if (!slot.asked_blocks) ask_blocks(rule, slot, now.wall);
    write(rule, slot, slot.current.ordinal, 0);
    ask_first(rule, slot);
  }
  fresh_.clear();
}

void Engine::begin_block(const RuleState& rule, KeySlot& slot, MonotonicTime at) {
  let_differ(slot);
  if (slot.block.begin(at, rule.block.length(slot.key))) blocks_.push_back(ledger_.index_of(slot));
}

void Engine::tell_blocks(Instant now) {
  for (const Ledger::SlotIndex index : blocks_) {
    const KeySlot& slot = ledger_[index];
    if (slot.key == 0 || !slot.block.active(now.monotonic)) continue;
    const RuleState& rule = rules_[slot.rule];
    const WallTime end = now.wall + (slot.block.until() - now.monotonic);
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(end.time_since_epoch()).count();
    if (milliseconds > 0)
      write_block(rule, slot, rule.block_clock.ordinal(end), static_cast<std::uint64_t>(milliseconds));
  }
  blocks_.clear();
}

void Engine::write_block(const RuleState& rule, const KeySlot& slot, Ordinal ordinal,
                         std::uint64_t raised_to) {
  stray_names_.push_back(slot.name + "|~blocked");
  writes_.push_back({.key = slot.key,
                     .name = stray_names_.back(),
                     .ordinal = ordinal,
                     .interval = rule.block_clock.interval(),
                     .delta = 0,
                     .time_to_live = rule.block_time_to_live,
                     .returned = 0,
                     .use = CounterUse::blocked,
                     .raised_to = raised_to});
}

// Another node has blocked the key, or this one in an earlier life.
void Engine::take_over_block(const RuleState& rule, KeySlot& slot, WallTime end, Instant now) {
  // No block lasts longer: where it seems to, a clock was set.
  const Duration left = std::min(end - now.wall, rule.block_clock.interval());
  if (left <= Duration{}) return;
  let_differ(slot);
  slot.block.begin(now.monotonic, left);
}

void Engine::watch(RuleState& rule, Ledger::SlotIndex index) {
  ledger_[index].watched = true;
  rule.watched.push_back(index);
}

// A block says all there is to say.
bool Engine::worth_watching(const RuleState& rule, const KeySlot& slot, Instant now) const noexcept {
  return slot.demand.nears(rule.limit_of(slot)) && !slot.block.active(now.monotonic);
}

// Keys near their limit are asked for in every span, also where nothing of them was counted here or refused:
// who knows only the spans it took part in overestimates its share.
void Engine::keep_watching(RuleState& rule, Instant now) {
  std::erase_if(rule.watched, [&](Ledger::SlotIndex index) {
    KeySlot& slot = ledger_[index];
    if (slot.key == 0) return true;
    const bool idle = slot.last_counted < rule.span.ordinal - remembered_intervals / 4;
    const bool leased = slot.lease.held || slot.next_lease.held || slot.ended_lease.held ||
                        slot.span_offered > 0 || asked_for_lately(rule, slot);
    const bool near = !idle && worth_watching(rule, slot, now);
    slot.watched = rule.algorithm == Algorithm::strict ? leased : near;
    return !slot.watched;
  });
  if (!rule.hears()) return;
  for (const Ledger::SlotIndex index : rule.watched) {
    KeySlot& slot = ledger_[index];
    if (slot.counted_span == rule.number(rule.span)) continue;
    if (slot.current.ordinal != rule.span.ordinal) roll(rule, slot, rule.span.ordinal);
    write(rule, slot, rule.span.ordinal, std::exchange(slot.unwritten, 0));
    if (rule.tells_refused()) write_refused(rule, slot, rule.span.ordinal);
  }
  for (const Ledger::SlotIndex index : rule.last_touched)
    if (const KeySlot& slot = ledger_[index]; !slot.watched && worth_watching(rule, slot, now))
      watch(rule, index);
}

// A cold start, as in Guava's SmoothWarmingUp, by spans: permits pile up while the rate is not used, up to
// warmup × rate, and are used up by admissions; above the half of it a token costs more, up to three.
void Engine::warm(const RuleState& rule, KeySlot& slot) {
  const double most = rule.warm_permits();
  const std::int64_t number = rule.number(rule.span);
  const double elapsed = slot.warmed_span < 0 ? 1 : static_cast<double>(number - slot.warmed_span);
  const double admitted = static_cast<double>(slot.span_admitted) / slot.demand.share();
  const double per_span = static_cast<double>(rule.limit) / rule.spans;
  const double unused = std::max(0.0, elapsed * per_span - admitted * coldness(rule, slot));
  slot.cold_permits = std::clamp(slot.cold_permits + unused - admitted, 0.0, most);
  slot.warmed_span = number;
}

bool Engine::asked_for_lately(const RuleState& rule, const KeySlot& slot) const noexcept {
  // Where there is no room to remember many, only what is asked for now.
  const Ordinal back = ledger_.size() <= ledger_.capacity() / 2 ? remembered_intervals : 0;
  return slot.last_counted >= rule.span.ordinal - back;
}

// Claims ahead of need: so much that workers can go on until the next claim's answer, two spans from now.
void Engine::lease_ahead(RuleState& rule, KeySlot& slot, SpanId next, bool all_passed) {
  const auto end = [&](Lease& over) {
    if (slot.ended_lease.held) {
      if (all_passed) slot.ended_lease.close();
      write_lease(rule, slot, slot.ended_lease, 0);
    }
    slot.ended_lease = std::exchange(over, Lease());
  };
  if (slot.lease.held && slot.lease.ordinal != next.ordinal) end(slot.lease);
  if (slot.next_lease.held && slot.next_lease.ordinal == next.ordinal && !slot.lease.held)
    slot.lease = std::exchange(slot.next_lease, Lease());
  // A clock that was set has left the interval that this was for.
  if (slot.next_lease.held && slot.next_lease.ordinal != next.ordinal + 1) end(slot.next_lease);
  if (slot.ended_lease.held && all_passed) {
    Lease& ended = slot.ended_lease;
    ended.lowering = false;
    ended.close();
    write_lease(rule, slot, ended, 0);
    ended = Lease();  // a claim still on its way goes back when its answer comes, and keeps nothing here
  }

  const std::uint64_t demand = slot.span_offered;
  Lease& lease = slot.lease;
  if (!lease.held) {
    if (!asked_for_lately(rule, slot)) return;
    lease.begin(next.ordinal);
  }
  if (lease.lowering && all_passed) lease.lowered_everywhere();
  const std::uint64_t unused = lease.granted > lease.admitted ? lease.granted - lease.admitted : 0;
  // What a span takes is a small number as a rule, and jumps: beside the last one stands the interval's
  // average.
  const double average = static_cast<double>(slot.offered_in(rule.span.ordinal)) / (rule.span.index + 1);
  const double expected = std::max(average, (average + static_cast<double>(demand)) / 2);
  // Until the next claim is answered, but not beyond the interval: what is left then is nobody's.
  const double spans_ahead = std::min(1.5, static_cast<double>(rule.spans - next.index));
  // Three standard deviations more, as far as there is enough for all: honest clients should not feel that
  // quota is leased.
  const bool plenty = lease.total < rule.limit - rule.limit / 4;
  const double left_for_each =
      static_cast<double>(rule.limit - std::min(rule.limit, lease.total) + unused) / cluster_.nodes;
  const double margin = std::min(3 * std::sqrt(expected * spans_ahead), left_for_each);
  // One is kept for a client who comes less than once in an interval, and would else find nothing each time.
  const std::uint64_t kept =
      std::min<std::uint64_t>(whole_requests(left_for_each, slot.key, next.ordinal), 1);
  const auto needed = static_cast<std::uint64_t>(expected * spans_ahead + margin + (expected > 0 ? 1 : 0));
  const std::uint64_t target = std::max(needed, kept);
  std::uint64_t claim = 0;
  if (lease.asked == 0 && !lease.lowering) {
    if (unused < target && !lease.used_up) {
      // The last tenth goes out by shares, so that nobody strands much of it.
      const std::uint64_t left = rule.limit - std::min(rule.limit, lease.total);
      const double share = lease.total > 0
                               ? static_cast<double>(lease.granted) / static_cast<double>(lease.total)
                               : 1.0 / cluster_.nodes;
      const auto most =
          static_cast<std::uint64_t>(static_cast<double>(left) * (left > rule.limit / 10 ? 0.5 : share));
      claim = std::min(target - unused, std::max<std::uint64_t>(most, 1));
    } else if (unused < target) {
      // Others may give some back.
      write_lease_question(rule, slot, lease);
    } else if (unused > target + target / 2) {
      lease.lower(lease.admitted + target);
    } else if (demand == 0) {
      // Others may have come to need what is kept here.
      write_lease_question(rule, slot, lease);
    }
  }
  write_lease(rule, slot, lease, claim);

  // For the next interval, while the last span of this one runs: until the first claim in it is answered, or
  // half of what was admitted in this one where the limit was used up, as it will be again.
  if (next.index + 1 == rule.spans && !slot.next_lease.held && asked_for_lately(rule, slot)) {
    slot.next_lease.begin(next.ordinal + 1);
    const double first = 1.5 * expected + 3 * std::sqrt(1.5 * expected);
    const double for_each = static_cast<double>(rule.limit) / cluster_.nodes;
    const std::uint64_t ahead = std::max(
        {plenty ? 0 : lease.admitted / 2, std::min(static_cast<std::uint64_t>(first), rule.limit / 2),
         std::min<std::uint64_t>(whole_requests(for_each, slot.key, next.ordinal + 1), 1)});
    write_lease(rule, slot, slot.next_lease, ahead);
  }
}

// The node stops: what it holds and has not used goes back.
void Engine::end_leases(RuleState& rule, KeySlot& slot) {
  for (Lease* lease : {&slot.lease, &slot.next_lease, &slot.ended_lease}) {
    if (!lease->held) continue;
    lease->lowering = false;
    lease->close();
    write_lease(rule, slot, *lease, 0);
  }
}

// Step 5, the seed's form. The cumulative form is step 6, which holds with and without the store.
void Engine::apply_local_rules(RuleState& rule, Instant now) {
  if (rule.algorithm != Algorithm::cooldown || rule.local_rule != LocalRule::per_span ||
      rule.on_store_failure != OnStoreFailure::local)
    return;
  for (const Ledger::SlotIndex index : rule.last_touched) {
    KeySlot& slot = ledger_[index];
    if (slot.key != 0 && slot.nodes.exceeds_in_span(slot.span_count, rule.limit_of(slot), rule.spans))
      begin_block(rule, slot, now.monotonic);
  }
}

void Engine::sync_result(bool reached, Instant now) {
  const bool newly_lost = cluster_.store_reached && !reached;
  cluster_.store_reached = reached;
  if (newly_lost)
    for (RuleState& rule : rules_) apply_local_rules(rule, now);
}

void Engine::reply(const EngineReply& reply, Instant now) {
  if (reply.use == CounterUse::members) {
    // Only a period that is over has been written by all; the one that runs can only show that there are
    // more.
    // In a period from before its time this node did not count itself.
    const bool absent = reply.ordinal == absent_;
    const auto alive =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(reply.total + (absent ? 1 : 0), 1, 1U << 20));
    cluster_.nodes = reply.ordinal < beat_ ? alive : std::max(cluster_.nodes, alive);
    // Nodes that begin together do not see each other in their first period: until the next one they would
    // keep back too much.
    cluster_.counted = cluster_.counted || (reply.ordinal < beat_ && !absent);
    if (cluster_.counted) share_holds();
    return;
  }
  const Ledger::SlotIndex index = reply.key == 0 ? Ledger::none : ledger_.find(reply.key);
  if (index == Ledger::none) return;
  KeySlot& slot = ledger_[index];
  const RuleState& rule = rules_[slot.rule];
  if (reply.use == CounterUse::lease) {
    if (Lease* lease = slot.lease_of(reply.ordinal); lease != nullptr) {
      lease->answered(reply.delta, reply.total, rule.limit);
    } else if (reply.delta > 0) {
      // It came too late for its interval: nobody can have drawn on it.
      Lease late;
      late.begin(reply.ordinal);
      late.owed = reply.delta;
      write_lease(rule, slot, late, 0);
    }
    return;
  }
  if (reply.use == CounterUse::blocked) {
    using std::chrono::milliseconds;
    if (reply.total > 0 && reply.total < std::uint64_t{1} << 43)
      take_over_block(rule, slot, WallTime(milliseconds(static_cast<std::int64_t>(reply.total))), now);
    return;
  }
  IntervalCounts* counts = reply.ordinal == slot.current.ordinal    ? &slot.current
                           : reply.ordinal == slot.previous.ordinal ? &slot.previous
                                                                    : nullptr;
  if (counts == nullptr) return;
  if (slot.asked_before && reply.use == CounterUse::counted && reply.ordinal < slot.last_counted &&
      counts->offered == 0) {
    slot.asked_before = false;
    counts->counted.total = reply.total;
    let_differ(slot);
    hear_before(rule, slot, reply);
    return;
  }
  SharedCount& shared = reply.use == CounterUse::refused ? counts->refused : counts->counted;
  const std::uint64_t known = shared.others();
  shared.acknowledged += reply.delta;
  shared.total = reply.total;
  if (shared.others() > 0) let_differ(slot);
  if (reply.use == CounterUse::held) return;  // what was light in its interval says nothing of this one
  if (std::exchange(slot.looks_back, false) && reply.delta == 0) slot.looked_back = true;
  if (rule.by_shares()) {
    hear(slot, shared.others() > known ? shared.others() - known : 0, reply.use == CounterUse::counted);
    if (reply.use == CounterUse::counted) settle_interval(rule, slot, *counts);
    return;
  }
  if (rule.algorithm != Algorithm::cooldown) return;
  hear(slot, shared.others() > known ? shared.others() - known : 0, true);

  // Step 4. Our own part is what we counted, whether or not all of it has reached the store yet.
  if (slot.reading && slot.reading_ordinal == reply.ordinal) {
    if (const std::uint64_t own = rule.counted(*counts); own > 0)
      slot.nodes = NodesRatio(own, counts->counted.others());
    settle_interval(rule, slot, *counts);
  }
  // Step 2. Of an interval that is over only what this node has added to it counts.
  if ((reply.delta > 0 || reply.ordinal == rule.span.ordinal) && reply.total > rule.limit_of(slot))
    begin_block(rule, slot, now.monotonic);
}

// What others admitted in the interval before this node saw the key.
void Engine::hear_before(const RuleState& rule, KeySlot& slot, const EngineReply& reply) {
  slot.was_full = static_cast<double>(reply.total) > 0.9 * static_cast<double>(rule.limit);
  if (slot.was_full) hear(slot, 0, true);
  for (std::uint32_t i = 0; i < slot.spans.size(); ++i) {
    const std::int64_t number = rule.number({reply.ordinal, i});
    SpanCounts& span = slot.spans[static_cast<std::size_t>(number) % slot.spans.size()];
    if (span.number < number) span = {.number = number};
    if (span.number == number) span.others += reply.total / rule.spans;
  }
}

void Engine::hear(KeySlot& slot, std::uint64_t others, bool admitted) {
  slot.others_since_heard += others;
  if (admitted) slot.others_admitted += others;
  if (slot.heard) return;
  slot.heard = true;
  heard_.push_back(ledger_.index_of(slot));
}

// Once for each interval that has ended, when its whole sum is known.
void Engine::settle_interval(const RuleState& rule, KeySlot& slot, const IntervalCounts& ended) {
  if (!slot.settling || slot.reading_ordinal != ended.ordinal) return;
  slot.settling = false;
  const std::uint64_t sum = rule.counted(ended) + ended.counted.others();
  const std::uint64_t limit = rule.limit_of(slot);
  if (rule.by_shares()) {
    double error = (static_cast<double>(limit) - static_cast<double>(sum)) /
                   static_cast<double>(std::max<std::uint64_t>(limit, 1));
    // What others may have kept back is not missing.
    if (error > 0)
      error = std::max(0.0, error - static_cast<double>(rule.hold) * (cluster_.nodes - 1) /
                                        static_cast<double>(rule.limit));
    // A bucket may admit more than the rate for once: what it had saved up.
    const double least = rule.is_bucket() ? -0.05 : -0.5;
    // A node that is alone has all of the limit, whatever chance did.
    if (ended.contended && ended.counted.others() > 0)
      slot.correction = std::clamp(slot.correction * (1 + correction_gain * std::clamp(error, least, 0.5)),
                                   correction_least, correction_most);
  }
  if (rule.debt) slot.debt = slot.debt + sum > rule.limit ? slot.debt + sum - rule.limit : 0;
}

void Engine::learn() {
  for (const Ledger::SlotIndex index : heard_) {
    KeySlot& slot = ledger_[index];
    if (!slot.heard) continue;  // forgotten meanwhile, or another key's by now
    slot.heard = false;
    const RuleState& rule = rules_[slot.rule];
    // The span that has just ended is the last that the store was told of.
    const std::int64_t told = rule.number(rule.span) - 1;
    std::uint32_t elapsed = rule.span.index == 0 ? rule.spans : rule.span.index;
    if (slot.heard_span >= told)
      elapsed = 0;
    else if (slot.heard_span >= 0 && told - slot.heard_span <= rule.spans)
      elapsed = static_cast<std::uint32_t>(told - slot.heard_span);
    else
      // The first that is heard, or the first for long, tells of the interval alone.
      slot.offered_since_heard = std::min(
          slot.offered_since_heard, slot.offered_in(rule.span.ordinal - (rule.span.index == 0 ? 1 : 0)));
    slot.heard_span = std::max(slot.heard_span, told);

    if (std::exchange(slot.looked_back, false))
      slot.demand.look_back(slot.others_since_heard, elapsed, rule.spans);
    else
      slot.demand.learn(slot.offered_since_heard, slot.others_since_heard, elapsed, rule.spans,
                        cluster_.nodes);
    // What others have admitted, spread over the spans that it may have happened in.
    if (!slot.spans.empty()) {
      const std::uint32_t over = std::max<std::uint32_t>(elapsed, 1);
      for (std::uint32_t i = 0; i < over; ++i) {
        const std::int64_t number = told - i;
        SpanCounts& span = slot.spans[static_cast<std::size_t>(number) % slot.spans.size()];
        if (span.number < number) span = {.number = number};
        if (span.number != number) continue;
        span.others += slot.others_admitted / over + (i < slot.others_admitted % over ? 1 : 0);
      }
    }
    if (contended(rule, slot)) let_differ(slot);
    if (rule.is_bucket()) charge_bucket(rule, slot);
    slot.offered_since_heard = 0;
    slot.others_since_heard = 0;
    slot.others_admitted = 0;
  }
  heard_.clear();
}

void Engine::charge_bucket(const RuleState& rule, KeySlot& slot) {
  // A price paid while the key was known to be contended has others' part in it already. A bucket that others
  // had emptied before is not full here: what was taken from it is owed.
  if (std::exchange(slot.was_full, false))
    charges_.push_back({.key = slot.key, .rule = slot.rule, .tokens = rule.burst});
  else if (slot.others_admitted > 0 && slot.price == 0)
    charges_.push_back({.key = slot.key, .rule = slot.rule, .tokens = slot.others_admitted});

  const TokenPrice before = slot.price;
  slot.price = contended(rule, slot) ? token_price(rule, slot, cluster_) : 0;
  const TokenPrice now = slot.price == 0 ? full_price : slot.price;
  if (before != 0 && before != now)
    charges_.push_back({.key = slot.key,
                        .rule = slot.rule,
                        .tokens = 0,
                        .scale = static_cast<double>(now) / static_cast<double>(before)});
}

double Engine::nodes_of(const KeySlot& slot) const noexcept {
  return rules_[slot.rule].by_shares() ? 1 / slot.demand.share() : slot.nodes.value();
}

// A key without counts for two intervals, without block and without a pending question has nothing left to
// remember.
void Engine::forget_idle(RuleIndex index, MonotonicTime now) {
  const Ordinal ending = rules_[index].span.ordinal;
  for (Ledger::SlotIndex i = 0; i < ledger_.end(); ++i) {
    const KeySlot& slot = ledger_[i];
    if (slot.key == 0 || slot.rule != index || slot.touched || slot.refusal_due || slot.read_due) continue;
    if (slot.watched || slot.holding || slot.debt > 0) continue;
    // While there is room, what was learned of a contended key is worth keeping: who forgets his small share
    // begins with the larger one of a node that knows nothing.
    if (rules_[index].by_shares() && slot.last_counted >= ending - remembered_intervals &&
        ledger_.size() < ledger_.capacity() / 2 && contended(rules_[index], slot))
      continue;
    if (slot.last_counted >= ending - 1 || slot.block.active(now)) continue;
    // Warm until it has been idle for as long as warming up takes.
    if (rules_[index].clock.interval() * (ending - slot.last_counted) < rules_[index].warmup) continue;
    ledger_.erase(i);
  }
  auto& last = rules_[index].last_touched;
  std::erase_if(last, [&](Ledger::SlotIndex i) { return ledger_[i].key == 0 || ledger_[i].rule != index; });
}

}  // namespace weir
