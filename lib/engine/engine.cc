// SPDX-License-Identifier: BSD-3-Clause
#include "engine/engine.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <utility>

#include "base/key_bytes.h"
#include "engine/heartbeat.h"
#include "limit/arithmetic.h"

namespace weir {
namespace {

/// An interval as stores name it.
std::chrono::milliseconds named(const SpanClock& clock) {
  return std::chrono::ceil<std::chrono::milliseconds>(clock.interval());
}

/// How long the counters of each length of interval live: those of one interval are kept together, so the one
/// that needs longest decides. The heartbeat is always among them, so that nodes whose rules differ agree.
std::map<std::chrono::milliseconds, Duration> lives_by_interval(std::span<const RuleState> rules) {
  std::map<std::chrono::milliseconds, Duration> lives{{named(heartbeat), heartbeat_lives}};
  for (const RuleState& rule : rules) {
    Duration& life = lives[named(rule.clock)];
    life = std::max(life, rule.time_to_live);
    if (rule.algorithm != Algorithm::cooldown) continue;
    Duration& block_life = lives[named(rule.block_clock)];
    block_life = std::max(block_life, rule.block_time_to_live);
  }
  return lives;
}

/// How many intervals without counts a share is kept for, where there is room. For a quarter of them it is
/// kept up to date. And how many of them with counts too small to be told of.
constexpr Ordinal remembered_intervals = 16;
/// The like for the seeds' nodes: as many as a key under cooldown itself is kept for.
constexpr Ordinal nodes_remembered = 2;
/// So many intervals after the clock was set all keys in use have been counted by it as it is.
constexpr std::int64_t idle_intervals = 3;

/// Whether a key's quota may differ from its rule's default before anything is heard of other nodes.
bool differs_by_itself(const RuleState& rule) noexcept {
  return rule.algorithm == Algorithm::strict || rule.early_block == EarlyBlock::predictive ||
         rule.warmup > Duration{} || rule.debt;
}

}  // namespace

Engine::Engine(std::span<const Rule> rules, std::uint32_t keys) : ledger_(keys), may_differ_(keys / 64 + 1), aside_(keys / 64 + 1) {
  rules_.reserve(rules.size());
  for (const Rule& rule : rules) {
    const RuleState& state = rules_.emplace_back(rule);
    some_by_shares_ = some_by_shares_ || state.by_shares();
    counts_members_ = counts_members_ || state.by_shares() || state.algorithm == Algorithm::strict ||
                      state.early_block == EarlyBlock::predictive || state.holds();
  }
  const auto lives = lives_by_interval(rules_);
  for (RuleState& rule : rules_) {
    rule.time_to_live = lives.at(named(rule.clock));
    if (rule.algorithm == Algorithm::cooldown) rule.block_time_to_live = lives.at(named(rule.block_clock));
  }
  std::map<std::pair<Duration, std::uint32_t>, std::size_t> clocks;
  for (const RuleState& rule : rules_) {
    const std::size_t clock =
        clocks.try_emplace({rule.clock.interval(), rule.spans}, clocks.size()).first->second;
    rules_by_clock_.resize(clocks.size());
    rules_by_clock_[clock].push_back(index_of(rule));
    clock_of_rule_.push_back(clock);
  }
  light_keys_.resize(clocks.size());
  share_light();
  heartbeat_lives_ = lives.at(named(heartbeat));
}

KeySlot* Engine::slot_for(const SpanCount& count, Ordinal ordinal) {
  SlotIndex index = ledger_.find(count.key);
  if (index != Ledger::none) return &ledger_[index];
  if (ledger_.full()) return nullptr;
  const RuleState& rule = rules_[count.rule];
  if (count.learned) {
    if (!ledger_.has_learned(count.key)) return nullptr;
  } else {
    make_key_name(name_, rule.name, count.key_bytes);
  }
  index = ledger_.insert(count.key, name_, cluster_.nodes);
  KeySlot& fresh = ledger_[index];
  fresh.rule = count.rule;
  set_differs(index, differs_by_itself(rule));
  take_back(index);  // whatever key had the slot before
  fresh.current.ordinal = ordinal;
  if (rule.needs_detail()) {
    KeyDetail& detail = own_detail(fresh);
    detail.cold_permits = rule.warm_permits();
    if (rule.algorithm == Algorithm::strict) detail.leases = std::make_unique<KeyLeases>();
  }
  return &fresh;
}

void Engine::count(std::span<const SpanCount> counts) {
  // Keys come in no order, and what a count touches lies at random: one miss after the other would be most of
  // what a count costs.
  constexpr std::size_t together = 64;
  std::array<SlotIndex, together> slots;
  std::array<std::uint8_t, together> heavy;  // numbers of those that are not counted lightly
  LightCounts light;
  for (std::size_t i = 0; i < counts.size(); i += together) {
    const std::span<const SpanCount> some = counts.subspan(i, std::min(together, counts.size() - i));
    for (const SpanCount& count : some) ledger_.prefetch(count.key);
    for (std::size_t j = 0; j < some.size(); ++j) {
      slots[j] = ledger_.prefetch_slot(some[j].key);
      if (slots[j] == Ledger::none) ledger_.prefetch_learned(some[j].key);
    }
    std::size_t heavies = 0;
    bool slides = false;
    for (std::size_t j = 0; j < some.size(); ++j) {
      if (!light.are_of(some[j])) light = light_counts(some[j]);
      if (slots[j] != Ledger::none) {
        KeySlot& slot = ledger_[slots[j]];
        if (slot.current.ordinal == light.ordinal) {
          if (count_lightly(light, some[j], slot)) continue;
        } else {
          // In an interval's first span nearly all of them come to it with what they counted in the one
          // before.
          ledger_.prefetch_past(slots[j]);
          ledger_.prefetch_detail(slots[j]);
          if (light.least > 0)
            light_keys_[clock_of_rule_[light.rule]].prefetch(some[j].key, light.ordinal);
        }
        if (rules_[light.rule].algorithm == Algorithm::sliding_window) {
          ledger_.prefetch_spans(slots[j]);
          slides = true;
        }
      }
      heavy[heavies++] = static_cast<std::uint8_t>(j);
    }
    const auto rest = std::span(heavy).first(heavies);
    for (const std::size_t j : slides ? rest : std::span<std::uint8_t>())
      if (RuleState& rule = rules_[some[j].rule];
          slots[j] != Ledger::none && rule.algorithm == Algorithm::sliding_window)
        ledger_.prefetch_span(
              slots[j], rule.place_of(rule.number(rule.held_span_of(some[j].began, some[j].counted_by))));
    for (const std::size_t j : rest) {
      if (!light.are_of(some[j])) light = light_counts(some[j]);
      if (slots[j] == Ledger::none || ledger_[slots[j]].current.ordinal != light.ordinal - 1 ||
          !turn_lightly(light, some[j], ledger_[slots[j]]))
        count(some[j], slots[j]);
    }
  }
}

Engine::LightCounts Engine::light_counts(const SpanCount& count) {
  RuleState& rule = rules_[count.rule];
  const Ordinal ordinal = rule.span_of(count.began).ordinal;
  // Who is counted late may have to be a light key in the interval after his own, too.
  const bool late = rule.held_span_of(count.began, count.counted_by).ordinal != ordinal;
  return {.rule = count.rule,
          .began = count.began,
          .counted_by = count.counted_by,
          .ordinal = ordinal,
          .possible = rule.hold > 0 && cluster_.store_reached && !late,
          .hold = rule.hold,
          // Where windows slide the first count of an interval makes it a light key.
          .least = rule.has_light_keys() ? 1U : 0U,
          .most = rule.has_light_keys() ? std::min(rule.light, rule.limit) : rule.limit};
}

// What count() would do where sums are all that it changes: of a key that has been counted in the same
// interval before, of which nothing is known but its own counts, and what has not been told of it may be kept
// back. (It is not contended at the end of this span, as far as anybody knows.) Most counts are such ones.
// @pre slot.current.ordinal == light.ordinal
bool Engine::count_lightly(const LightCounts& light, const SpanCount& count, KeySlot& slot) noexcept {
  if (!light.possible || !is_kept_back(slot) || slot.key != count.key || !light.may_be(count) ||
      slot.current.offered != slot.current.admitted || slot.current.admitted < light.least)
    return false;
  const std::uint64_t sum = slot.current.admitted + count.admitted;
  const std::uint64_t unwritten = slot.unwritten + count.admitted;
  if (sum > light.most || unwritten > light.hold) return false;
  slot.current.offered = slot.current.admitted = sum;
  slot.unwritten = unwritten;
  slot.contended = false;
  return true;
}

// The same for a key's first count in an interval, where it was counted in the one before, and nothing is
// kept back but what was counted then.
// @pre slot.current.ordinal == light.ordinal - 1
bool Engine::turn_lightly(const LightCounts& light, const SpanCount& count, KeySlot& slot) {
  if (!light.possible || !is_kept_back(slot) || slot.key != count.key || !light.may_be(count) ||
      slot.went_back || slot.unwritten > light.hold || count.admitted > light.most ||
      count.admitted > light.hold)
    return false;
  KeyPast& past = ledger_.past(slot);
  if (past.held > 0) return false;
  past.held = std::exchange(slot.unwritten, count.admitted);
  past.held_age = 1;
  past.offered = slot.current.offered;
  past.admitted = slot.current.admitted;
  past.alone = {0, past.alone[0]};
  slot.current = {.ordinal = light.ordinal, .offered = count.offered, .admitted = count.admitted};
  slot.was_contended = slot.contended;
  slot.contended = false;
  slot.was_told = slot.told;
  slot.told = false;
  if (light.least > 0 && count.admitted > 0) add_light_key(rules_[light.rule], count.key, light.ordinal);
  return true;
}

// Whether a count is one of refusals that nobody is told of and nothing is learned from: of a key whose block
// lasts, and of which nothing else is to be done when the span ends. In a flood nearly all are.
bool Engine::is_of_lasting_block(const RuleState& rule, const KeySlot& slot, Ordinal ordinal,
                                 const SpanCount& count) const noexcept {
  return rule.leaves_refusals_alone && is_aside(ledger_.index_of(slot)) && count.admitted == 0 &&
         count.refused_at == never && ordinal == slot.current.ordinal && slot.unwritten == 0 &&
         !slot.watched;
}

// @param likely  the key's slot, unless it is another's whose hash looks like it; or none
void Engine::count(const SpanCount& count, SlotIndex likely) {
  RuleState& rule = rules_[count.rule];
  const SpanId span = rule.span_of(count.began);
  const SpanId held = rule.held_span_of(count.began, count.counted_by);
  const Ordinal ordinal = span.ordinal;
  const std::uint64_t units = rule.counted(count.offered, count.admitted);

  const bool known = likely != Ledger::none && ledger_[likely].key == count.key;
  KeySlot* found = known ? &ledger_[likely] : slot_for(count, ordinal);
  if (found == nullptr) {
    ++strays_;
    note_stray(rule, ordinal, held.ordinal);
    std::string name =
        count.learned ? std::string(ledger_.learned_name(count.key)) : key_name(rule.name, count.key_bytes);
    if (name.empty())
      write_stray(rule, 0, rule.overflow_name, ordinal, units);
    else
      write_stray(rule, count.key, std::move(name), ordinal, units);
    return;
  }
  KeySlot& slot = *found;
  const SlotIndex index = ledger_.index_of(slot);

  // A clock that was set back makes an older ordinal the running one; otherwise an older one is a
  // straggler's.
  const bool set_back = ordinal < slot.current.ordinal && rule.started && rule.span.ordinal == ordinal;
  if (ordinal > slot.current.ordinal || set_back) roll(rule, slot, ordinal);

  if (is_of_lasting_block(rule, slot, ordinal, count)) {
    slot.current.offered += count.offered;
    slot.idle = false;
    return;
  }
  if (rule.algorithm == Algorithm::sliding_window) slide(rule, slot, span, held, count.admitted);
  const bool leased = rule.algorithm == Algorithm::strict;  // the claims are the counts
  if (leased)
    if (Lease* lease = own_detail(slot).leases->of(ordinal); lease != nullptr)
      lease->admitted += count.admitted;
  if (ordinal == slot.current.ordinal) {
    slot.current.offered += count.offered;
    slot.current.admitted += count.admitted;
    if (leased || rule.judges_spans()) slot.span_counting += leased ? count.offered : units;
    slot.idle = false;
    if (rule.started && span == rule.span) slot.counted_lately = true;
    if (!leased) slot.unwritten += refunds_ ? without_refunded(slot, units) : units;
    if (rule.tells_refused() && count.offered != count.admitted)
      own_detail(slot).refused_unwritten += count.offered - count.admitted;
    if (rule.warmup > Duration{}) own_detail(slot).span_admitted += count.admitted;
    if (!slot.touched && ends_lightly(rule, slot)) {
      end_lightly(rule, slot);
    } else if (!slot.touched) {
      slot.touched = true;
      rule.touched.push_back(index);
    }
    if (slot.fresh && !slot.fresh_due && rule.hears() && slot.unwritten > rule.hold) {
      slot.fresh_due = true;
      fresh_.push_back(index);
    }
  } else {
    if (ordinal == slot.previous_ordinal()) {
      KeyPast& past = ledger_.past(slot);
      // A light key of which nothing was to be read when its interval ended.
      if (past.offered > 0 && rule.reads && ordinal == rule.reads_ordinal) await_read(rule, slot);
      past.offered += count.offered;
      past.admitted += count.admitted;
    }
    if (!leased && units > 0) write(rule, slot, ordinal, units);  // of refusals alone nobody learns
  }

  if (count.refused_at != never) {
    KeyDetail& detail = own_detail(slot);
    if (detail.refused_at == never || count.refused_at < detail.refused_at) {
      detail.refused_at = count.refused_at;
      detail.refused_ordinal = ordinal;
    }
    if (!slot.refusal_due) {
      slot.refusal_due = true;
      refusals_.push_back(index);
    }
  }
}

void Engine::learn(std::span<const LearnedKey> keys) {
  // Keys come in no order.
  for (const LearnedKey& key : keys) ledger_.prefetch_learned(key.key);
  for (const LearnedKey& key : keys) {
    make_key_name(name_, rules_[key.rule].name, key.key_bytes);
    ledger_.learn(key.key, name_);
  }
}

void Engine::unlearn(std::span<const std::uint64_t> keys) {
  for (const std::uint64_t key : keys) {
    ledger_.prefetch_learned(key);
    ledger_.prefetch(key);
  }
  for (const std::uint64_t key : keys) ledger_.unlearn(key);
}

void Engine::count_overflow(const SpanCount& count) {
  RuleState& rule = rules_[count.rule];
  const Ordinal ordinal = rule.span_of(count.began).ordinal;
  note_stray(rule, ordinal, rule.held_span_of(count.began, count.counted_by).ordinal);
  write_stray(rule, 0, rule.overflow_name, ordinal, rule.counted(count.offered, count.admitted));
}

// The interval of a key changes: what is unwritten still belongs to the old one (step 1).
void Engine::roll(RuleState& rule, KeySlot& slot, Ordinal to) {
  if (slot.holding && slot.unwritten <= rule.hold && to == slot.current.ordinal + 1) {
    keep_over(rule, slot);
  } else if (slot.unwritten > 0) {
    write(rule, slot, slot.current.ordinal, slot.unwritten);
    slot.unwritten = 0;
  }
  // A span of the interval before, which has yet to end: for who judges by the span it is none of this one.
  if (rule.judges_spans()) slot.span_counting = 0;
  KeyDetail* const detail = ledger_.detail_if_any(slot);
  if (detail != nullptr && detail->refused_unwritten > 0) write_refused(rule, slot, slot.current.ordinal);
  if (detail != nullptr) detail->overdrawn = false;
  if (detail != nullptr && !rule.is_bucket()) detail->refunded = 0;
  age_held(rule, slot, to - slot.current.ordinal);

  KeyPast& past = ledger_.past(slot);
  const Ordinal from = std::exchange(slot.current.ordinal, to);
  const bool follows = from == to - 1;
  const bool returns = slot.went_back ? follows : from == to + 1;
  const bool contended = slot.contended;
  const bool told = slot.told;
  if (returns) {
    // A clock that was set back by less than an interval, and perhaps forward again: nothing is forgotten.
    slot.went_back = !slot.went_back;
    std::swap(slot.current.offered, past.offered);
    std::swap(slot.current.admitted, past.admitted);
    std::swap(past.alone[0], past.alone[1]);
    if (detail != nullptr) std::swap(detail->counted[0], detail->counted[1]);
    if (detail != nullptr) std::swap(detail->refused[0], detail->refused[1]);
    slot.contended = slot.was_contended;
    slot.told = slot.was_told;
    slot.was_contended = contended;
    slot.was_told = told;
    if (slot.told) rule.told.push_back(ledger_.index_of(slot));
    return;
  }
  slot.went_back = false;
  past.offered = follows ? slot.current.offered : 0;
  past.admitted = follows ? slot.current.admitted : 0;
  past.alone = {0, follows ? past.alone[0] : 0};
  if (detail != nullptr) {
    detail->heard_ended = false;
    detail->counted = {SharedCount(), follows ? detail->counted[0] : SharedCount()};
    detail->refused = {SharedCount(), follows ? detail->refused[0] : SharedCount()};
  }
  slot.was_contended = !follows || contended;
  slot.was_told = follows && told;
  slot.current.offered = slot.current.admitted = 0;
  slot.contended = true;
  slot.told = false;
  if (!follows) slot.asked_blocks = false;  // others may have blocked it while it was away from here
}

void Engine::write(const RuleState& rule, KeySlot& slot, Ordinal ordinal, std::uint64_t delta,
                   CounterUse use) {
  note_told(slot, ordinal);
  collected_.push_back({.key = slot.key,
                        .amount = delta,
                        .ordinal = ordinal,
                        .name = ledger_.name_of(slot),
                        .rule = index_of(rule),
                        .use = use});
}

std::uint32_t Engine::set_apart(std::string name, std::uint64_t returned) {
  apart_.push_back({std::move(name), returned});
  return static_cast<std::uint32_t>(apart_.size() - 1);
}

EngineWrite Engine::write_of(const Collected& collected) const noexcept {
  const Apart* const apart = collected.apart ? &apart_[collected.name] : nullptr;
  EngineWrite write{.key = collected.key,
                    .name = apart != nullptr ? apart->name : ledger_.text(collected.name),
                    .suffix = suffix_of(collected.use),
                    .ordinal = collected.ordinal,
                    .use = collected.use};
  if (collected.use == CounterUse::blocked) {
    const RuleState& rule = rules_[collected.rule];
    write.interval = rule.block_clock.interval();
    write.time_to_live = rule.block_time_to_live;
    write.raised_to = collected.amount;
    return write;
  }
  write.delta = collected.amount;
  if (apart != nullptr) write.returned = apart->returned;
  if (collected.use == CounterUse::members) {
    write.interval = heartbeat.interval();
    write.time_to_live = heartbeat_lives_;
  } else {
    const RuleState& rule = rules_[collected.rule];
    write.interval = rule.clock.interval();
    write.time_to_live = rule.time_to_live;
  }
  return write;
}

// The store is told, or asked, something of a key's interval. When that has ended, its sum is to be read.
void Engine::note_told(KeySlot& slot, Ordinal ordinal) {
  RuleState& rule = rules_[slot.rule];
  if (ordinal == slot.current.ordinal && !slot.told) {
    slot.told = true;
    if (ordinal >= rule.span.ordinal)
      rule.told.push_back(ledger_.index_of(slot));
    else if (rule.reads && ordinal == rule.reads_ordinal)
      await_read(rule, slot);  // it has ended, and is about to be read
  }
  if (ordinal == slot.previous_ordinal()) slot.was_told = true;
}

void Engine::await_read(RuleState& rule, KeySlot& slot) {
  if (slot.read_due) return;
  slot.read_due = true;
  rule.awaiting_read.push_back(ledger_.index_of(slot));
}

void Engine::write_refused(const RuleState& rule, KeySlot& slot, Ordinal ordinal) {
  KeyDetail* const detail = ledger_.detail_if_any(slot);
  write_refused(rule, slot, ordinal, detail != nullptr ? std::exchange(detail->refused_unwritten, 0) : 0);
}

void Engine::write_refused(const RuleState& rule, const KeySlot& slot, Ordinal ordinal, std::uint64_t delta) {
  collected_.push_back({.key = slot.key,
                        .amount = delta,
                        .ordinal = ordinal,
                        .name = ledger_.name_of(slot),
                        .rule = index_of(rule),
                        .use = CounterUse::refused});
}

void Engine::write_stray(const RuleState& rule, std::uint64_t key, std::string name, Ordinal ordinal,
                         std::uint64_t delta) {
  if (delta == 0) return;
  collected_.push_back({.key = key,
                        .amount = delta,
                        .ordinal = ordinal,
                        .name = set_apart(std::move(name)),
                        .rule = index_of(rule),
                        .apart = true});
}

void Engine::clear_writes() noexcept {
  collected_.clear();
  apart_.clear();
  ledger_.release_names();
}

void Engine::step(Instant now, bool end_all, bool all_passed, MonotonicTime at) {
  pardoned_.clear();
  judge_refusals();
  if (counts_members_) beat(now);
  // By how much the wall clock has been set since the last step.
  const Duration set = stepped_ ? (now.wall - last_step_.wall) - (at - last_step_.monotonic) : Duration{};
  stepped_ = true;
  last_step_ = {now.wall, at};
  for (RuleState& rule : rules_) {
    const SpanId running = rule.clock.span(now.wall);
    if (!rule.started) {
      rule.started = true;
      rule.span = running;
    }
    notice_set(rule, running, set);
    rule.span_ends = running != rule.span || end_all;
    if (rule.span_ends) end_span(rule, running, now, end_all, all_passed);
  }
  for (std::size_t clock = 0; clock < rules_by_clock_.size(); ++clock)
    if (rules_[rules_by_clock_[clock].front()].span_ends) forget_idle(clock, now);
  for (RuleState& rule : rules_)
    if (rule.span_ends) begin_span(rule, rule.clock.span(now.wall));
  ask_for_fresh(now);
}

// Nobody remembers a key that was counted in this interval; or in another one, by the clock as it was before
// it was set.
// @param held  the interval in which a window that slides holds it
void Engine::note_stray(RuleState& rule, Ordinal ordinal, Ordinal held) const noexcept {
  const bool by_clock_before = rule.started && (ordinal > rule.span.ordinal + 1 || rule.was_set_lately());
  rule.strayed = std::max(rule.strayed, by_clock_before ? rule.span.ordinal : held);
}

// A clock that is slow for a while, because it is ahead, is none that has been set: spans go on in order.
// @param set  by how much the wall clock has been, if at all
void Engine::notice_set(RuleState& rule, SpanId running, Duration set) {
  const Duration span = rule.clock.interval() / rule.spans;
  const bool back = rule.number(running) < rule.number(rule.span);
  if (!back && set < span) return;
  rule.set_in = rule.number(running);
  const std::int64_t by = set > Duration{} ? (set + span - Duration{1}) / span : set / span;
  rule.set_by += by;
  move_windows(rule, running, by);
  rule.move_held(running, by);
  // What strays have used, too, is as old as it was, or younger.
  if (rule.strayed >= rule.span.ordinal - 1) rule.strayed = running.ordinal;
}

void Engine::beat(Instant now) {
  const Ordinal ordinal = heartbeat.ordinal(now.wall);
  if (beating_ && ordinal == beat_) return;
  const auto say = [&](Ordinal at, std::uint64_t delta) {
    collected_.push_back({.amount = delta,
                          .ordinal = at,
                          .name = set_apart(std::string(heartbeat_name)),
                          .use = CounterUse::members,
                          .apart = true});
  };
  say(ordinal - 1, 0);
  say(ordinal, 1);
  if (!beating_ || beat_ != ordinal - 1) {
    absent_ = ordinal - 1;
    // Where the clock has been set, others may come to this period only when this node is in the next one.
    whole_from_ = beating_ ? ordinal + 1 : ordinal;
  }
  beating_ = true;
  beat_ = ordinal;
  beat_at_ = now.monotonic;
}

void Engine::end_span(RuleState& rule, SpanId next, Instant now, bool end_all, bool all_passed) {
  read_ended(rule, now);

  std::swap(rule.touched, rule.last_touched);
  rule.touched.clear();
  near_.clear();
  for (std::size_t i = 0; i < rule.last_touched.size(); ++i) {
    const SlotIndex index = rule.last_touched[i];
    ledger_.prefetch_to_tell(rule.last_touched, i);
    KeySlot& slot = ledger_[index];
    slot.touched = false;
    if (rule.algorithm == Algorithm::strict && !slot.watched) watch(rule, index);
    write_counts(rule, slot, now);
  }
  write_held(rule, next, end_all);
  keep_watching(rule, now);
  rule.turn_to(next.ordinal);
  if (rule.algorithm == Algorithm::strict) {
    for (const SlotIndex index : rule.watched) {
      if (!end_all)
        lease_ahead(rule, ledger_[index], next, all_passed);
      else if (all_passed)
        end_leases(rule, ledger_[index]);
    }
    for (const SlotIndex index : rule.last_touched) ledger_[index].span_counting = 0;
  }
  if (!cluster_.store_reached) apply_local_rules(rule, now);

  if (rule.debt && next.ordinal != rule.span.ordinal) pay_debts(rule, next.ordinal);
}

void Engine::begin_span(RuleState& rule, SpanId next) {
  if (next.ordinal != rule.span.ordinal) await_reads(rule, next.ordinal);
  rule.span = next;
}

// An interval ends: the keys that the store was told of are to be read one span later. Of the others nobody
// need know anything, so that not all keys are looked at in this one moment.
void Engine::await_reads(RuleState& rule, Ordinal next) {
  const RuleIndex index = index_of(rule);
  // A log is exact on each node by itself; claims are a lease's own business.
  rule.reads = rule.algorithm != Algorithm::sliding_log && rule.algorithm != Algorithm::strict;
  rule.reads_ordinal = rule.span.ordinal;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < rule.told.size(); ++i) {
    if (i + Ledger::ahead < rule.told.size()) ledger_.prefetch_slot(rule.told[i + Ledger::ahead]);
    KeySlot& slot = ledger_[rule.told[i]];
    if (slot.key == 0 || slot.rule != index || !slot.told)
      continue;  // forgotten, or back in another interval
    // Its interval has yet to end: a worker was early, or the clock has been set back.
    if (slot.current.ordinal >= next) rule.told[kept++] = rule.told[i];
    if (rule.reads && slot.current.ordinal == rule.span.ordinal) await_read(rule, slot);
  }
  rule.told.resize(kept);
}

// An interval ends. What it came to is read of keys that were told of in it; of all others it is known:
// nothing was admitted here, or nobody is there to tell.
void Engine::pay_debts(RuleState& rule, Ordinal next) {
  std::erase_if(rule.indebted, [&](SlotIndex index) {
    KeySlot& slot = ledger_[index];
    KeyDetail& detail = *ledger_.detail_if_any(slot);
    // Of later ones only before the clock was set back.
    detail.debt_paid_in = std::min({detail.debt_paid_in, rule.span.ordinal - 1, next - 1});
    pay_unread(rule, slot, is_to_be_read(rule, slot) ? std::min(rule.span.ordinal, next) : next);
    detail.owes = detail.debt > 0;
    return !detail.owes;
  });
}

// Intervals before `until` that nothing will be read of pay what they have left of the limit. As others are
// taken to have admitted what their parts came to, an unlucky one does not make the debt larger.
void Engine::pay_unread(const RuleState& rule, KeySlot& slot, Ordinal until) {
  KeyDetail& detail = own_detail(slot);
  const double part = rule.by_shares() ? part_of(rule, ledger_.view(slot), cluster_)
                                       : 1 / weir::nodes_of(rule, detail, cluster_).value();
  while (detail.debt > 0 && detail.debt_paid_in + 1 < until) {
    const std::uint64_t here = rule.counted(counts_in(slot, ++detail.debt_paid_in));
    const double left = static_cast<double>(rule.limit) - static_cast<double>(here) / part;
    if (left > 0) detail.debt -= std::min(detail.debt, static_cast<std::uint64_t>(left));
  }
}

// Whether the store will be asked what all have counted in the interval that ends, and is there to answer.
bool Engine::is_to_be_read(const RuleState& rule, const KeySlot& slot) const noexcept {
  const bool told = slot.current.ordinal == rule.span.ordinal ? slot.told : slot.was_told;
  return cluster_.store_reached &&
         (slot.watched || (told && rule.counted(counts_in(slot, rule.span.ordinal)) > 0));
}

// What a key has admitted over its limit in an interval; once for each.
void Engine::book_debt(KeySlot& slot, Ordinal ordinal, std::uint64_t admitted) {
  RuleState& rule = rules_[slot.rule];
  KeyDetail& detail = own_detail(slot);
  if (detail.owes && ordinal <= detail.debt_paid_in) return;
  const std::uint64_t sum = saturated_sum(detail.debt, admitted);
  detail.debt = sum - std::min(sum, rule.limit);
  detail.debt_paid_in = ordinal;
  // And those since, of which the controller has seen nothing.
  pay_unread(rule, slot, rule.span.ordinal);
  if (detail.debt == 0 || std::exchange(detail.owes, true)) return;
  rule.indebted.push_back(ledger_.index_of(slot));
}

// One span after an interval's end the others have written too: ask for its sum (step 4).
void Engine::read_ended(RuleState& rule, Instant now) {
  rule.reads = false;
  for (std::size_t i = 0; i < rule.awaiting_read.size(); ++i) {
    ledger_.prefetch_to_tell(rule.awaiting_read, i);
    KeySlot& slot = ledger_[rule.awaiting_read[i]];
    if (slot.key == 0 || !slot.read_due) continue;
    slot.read_due = false;
    const bool still = slot.current.ordinal < rule.span.ordinal;  // it has not been counted since
    // Of a light key nothing has been told, and nothing need be known.
    if (!(still ? slot.told : slot.was_told) && !slot.watched) continue;
    const IntervalCounts ended = still ? slot.current : previous(slot);
    if (rule.counted(ended) == 0 && !slot.watched) continue;
    if (slot.detail == no_index && ended.ordinal == rule.reads_ordinal) {
      ledger_.past(slot).reading = true;
    } else {
      begin_reading(slot, ended.ordinal);
      const SharedCount& shared = ledger_.detail(slot).counted[still ? 0 : 1];
      if (shared.others() > 0 && may_have_begun_blocks(rule, slot, shared.others() + rule.counted(ended)))
        ask_blocks_again(rule, slot, now);
    }
    write(rule, slot, ended.ordinal, 0);
    if (slot.watched && rule.tells_refused()) write_refused(rule, slot, ended.ordinal, 0);
  }
  rule.awaiting_read.clear();
}

// The store's answers of this interval tell the nodes and, once, what it came to.
void Engine::begin_reading(KeySlot& slot, Ordinal ordinal) {
  KeyDetail& detail = own_detail(slot);
  detail.reading = true;
  detail.reading_ordinal = ordinal;
  detail.settling = true;
}

// Whether nothing but end_lightly() remains to be done for a key when its span ends, if nothing else is
// counted of it: nothing is known of it but its own counts, these are few, and there is a store to tell of
// them later. Most keys are so in most spans, and need not be looked at again then, when their slots have
// left the caches.
bool Engine::ends_lightly(const RuleState& rule, const KeySlot& slot) const noexcept {
  return slot.detail == no_index && slot.current.offered <= rule.limit &&
         may_hold(rule, slot, ledger_.detail(slot));
}

// What write_counts() would do for such a key.
void Engine::end_lightly(RuleState& rule, KeySlot& slot) {
  hold(rule, slot);
  slot.contended = false;  // at the end of this span it is not, as far as anybody knows
}

// Steps 1 and 6, for a key counted in the span that ends.
void Engine::write_counts(RuleState& rule, KeySlot& slot, Instant now) {
  const KeyDetail& detail = ledger_.detail(slot);
  const bool near = slot.detail != no_index && detail.demand.nears(rule.limit_of(detail));
  // In a flood all are near their limits: to look at each once more would be to wait for it.
  const bool blocked = detail.block.active(now.monotonic);
  if (near && !slot.watched && !blocked) near_.push_back(ledger_.index_of(slot));
  if (!near && may_hold(rule, slot, detail))
    hold(rule, slot);
  else
    tell(rule, slot, now);
  if (rule.judges_spans()) own_detail(slot).span_count = std::exchange(slot.span_counting, 0);
  // Telling may have made it one.
  const KeyDetail& known = ledger_.detail(slot);
  if (rule.by_shares() && slot.contended) slot.contended = contended(rule, known);
  if (rule.warmup > Duration{}) warm(rule, own_detail(slot));
  if (rule.algorithm == Algorithm::cooldown && !blocked && nodes_tell(rule, known, cluster_) &&
      weir::nodes_of(rule, known, cluster_).exceeds(rule.counted(slot.current), rule.limit_of(known)))
    begin_block(rule, slot, now.monotonic);
}

void Engine::tell(RuleState& rule, KeySlot& slot, Instant now) {
  // First, so that a block that runs elsewhere is not taken for the beginning of a new one.
  ask_blocks(rule, slot, now);
  // Of refusals alone nobody learns: beside them it is asked what others have admitted.
  const bool refused = ledger_.detail(slot).refused_unwritten > 0;
  if (slot.unwritten > 0 || refused || (slot.watched && rule.hears()))
    write(rule, slot, slot.current.ordinal, slot.unwritten);
  slot.unwritten = 0;
  if (slot.fresh) ask_first(rule, slot);
  if (refused || (slot.watched && rule.tells_refused())) write_refused(rule, slot, slot.current.ordinal);
}

// What outlives an interval's border does not begin with this node.
void Engine::ask_first(const RuleState& rule, KeySlot& slot) {
  slot.fresh = false;
  if (!rule.outlives_intervals()) return;
  ledger_.past(slot).asked_before = true;
  write(rule, slot, slot.current.ordinal - 1, 0);
}

// A node that has just come to a key knows nothing of what others have admitted, and its first span may be
// long.
void Engine::ask_for_fresh(Instant now) {
  for (const SlotIndex index : fresh_) {
    KeySlot& slot = ledger_[index];
    slot.fresh_due = false;
    if (slot.key == 0 || !slot.fresh) continue;
    const RuleState& rule = rules_[slot.rule];
    ledger_.past(slot).looks_back = true;
    ask_blocks(rule, slot, now);
    write(rule, slot, slot.current.ordinal, 0);
    ask_first(rule, slot);
  }
  fresh_.clear();
}

void Engine::watch(RuleState& rule, SlotIndex index) {
  ledger_[index].watched = true;
  ledger_[index].counted_lately = false;  // its span has been written
  rule.watched.push_back(index);
}

// A block says all there is to say.
bool Engine::worth_watching(const RuleState& rule, const KeySlot& slot, Instant now) const noexcept {
  const KeyDetail& detail = ledger_.detail(slot);
  return detail.demand.nears(rule.limit_of(detail)) && !detail.block.active(now.monotonic);
}

// Keys near their limit are asked for in every span, also where nothing of them was counted here or refused:
// who knows only the spans it took part in overestimates its share.
void Engine::keep_watching(RuleState& rule, Instant now) {
  std::erase_if(rule.watched, [&](SlotIndex index) {
    KeySlot& slot = ledger_[index];
    if (slot.key == 0) return true;
    if (rule.algorithm == Algorithm::strict) {
      slot.watched =
          ledger_.detail(slot).leases->any() || slot.span_counting > 0 || asked_for_lately(rule, slot);
    } else {
      const bool idle = last_counted(slot) < rule.span.ordinal - remembered_intervals / 4;
      slot.watched = !idle && worth_watching(rule, slot, now);
    }
    return !slot.watched;
  });
  if (!rule.hears()) return;
  for (const SlotIndex index : rule.watched) {
    KeySlot& slot = ledger_[index];
    const bool counted = slot.counted_lately;
    slot.counted_lately = false;
    if (counted) continue;
    if (slot.current.ordinal != rule.span.ordinal) {
      own_detail(slot).last_counted = last_counted(slot);
      slot.idle = true;
      roll(rule, slot, rule.span.ordinal);
    }
    write(rule, slot, rule.span.ordinal, std::exchange(slot.unwritten, 0));
    if (rule.tells_refused()) write_refused(rule, slot, rule.span.ordinal);
  }
  for (const SlotIndex index : near_)
    if (const KeySlot& slot = ledger_[index]; !slot.watched && worth_watching(rule, slot, now))
      watch(rule, index);
}

// A cold start, as in Guava's SmoothWarmingUp, by spans: permits pile up while the rate is not used, up to
// warmup × rate, and are used up by admissions; above the half of it a token costs more, up to three.
void Engine::warm(const RuleState& rule, KeyDetail& key) {
  const double most = rule.warm_permits();
  const std::int64_t number = rule.number(rule.span);
  const double elapsed = key.warmed_span < 0 ? 1 : static_cast<double>(number - key.warmed_span);
  const double admitted = static_cast<double>(std::exchange(key.span_admitted, 0)) / key.demand.share();
  const double per_span = static_cast<double>(rule.limit) / rule.spans;
  const double unused = std::max(0.0, elapsed * per_span - admitted * coldness(rule, key));
  key.cold_permits = std::clamp(key.cold_permits + unused - admitted, 0.0, most);
  key.warmed_span = number;
}

bool Engine::asked_for_lately(const RuleState& rule, const KeySlot& slot) const noexcept {
  // Where there is no room to remember many, only what is asked for now.
  const Ordinal back = ledger_.size() <= ledger_.capacity() / 2 ? remembered_intervals : 0;
  return last_counted(slot) >= rule.span.ordinal - back;
}

Ordinal Engine::last_counted(const KeySlot& slot) const noexcept {
  return slot.idle ? ledger_.detail(slot).last_counted : slot.current.ordinal;
}

IntervalCounts Engine::previous(const KeySlot& slot) const noexcept {
  const KeyPast& past = ledger_.past(slot);
  return {slot.previous_ordinal(), past.offered, past.admitted};
}

// What was counted here in one of the two intervals that are remembered; else nothing.
IntervalCounts Engine::counts_in(const KeySlot& slot, Ordinal ordinal) const noexcept {
  if (ordinal == slot.current.ordinal) return slot.current;
  return ordinal == slot.previous_ordinal() ? previous(slot) : IntervalCounts();
}

// Step 5, the seed's form. The cumulative form is step 6, which holds with and without the store.
void Engine::apply_local_rules(RuleState& rule, Instant now) {
  if (!rule.judges_spans() || rule.on_store_failure != OnStoreFailure::local) return;
  for (const SlotIndex index : rule.last_touched) {
    KeySlot& slot = ledger_[index];
    const KeyDetail& detail = ledger_.detail(slot);
    if (slot.key != 0 && detail.nodes.exceeds_in_span(detail.span_count, rule.limit_of(detail), rule.spans))
      begin_block(rule, slot, now.monotonic);
  }
}

void Engine::sync_result(bool reached, Instant now) {
  const bool newly_lost = cluster_.store_reached && !reached;
  if (!cluster_.store_reached && reached)
    for (RuleState& rule : rules_) rule.asks_again_until = rule.passed(rule.span) + rule.spans;
  cluster_.store_reached = reached;
  if (newly_lost)
    for (RuleState& rule : rules_) apply_local_rules(rule, now);
}

// Whether a key's own counts alone keep it so far from its limit that it need not be known how far.
bool Engine::is_far(const RuleState& rule, const KeySlot& slot) const noexcept {
  // At the interval's rate so far: what a first estimate of its demand would be.
  const bool runs = slot.current.ordinal == rule.span.ordinal && rule.span.index > 0;
  const std::uint64_t spans = runs ? rule.span.index : rule.spans;
  const std::uint64_t far = rule.limit / 2;
  return slot.current.offered <= far && ledger_.past(slot).offered <= far &&
         static_cast<unsigned __int128>(slot.current.offered) * rule.spans <=
             static_cast<unsigned __int128>(far) * spans;
}

double Engine::nodes_of(const KeyView& key) const noexcept {
  return rules_[key.slot.rule].by_shares() ? 1 / key.share() : key.detail.nodes.value();
}

// Whether all nodes have counted no more in an interval than they may keep back of each other.
bool Engine::is_light(const RuleState& rule, std::uint64_t total) const noexcept {
  return total <= rule.hold_of(1);
}

// Whether a key's detail holds no more than a blank one: when the store last told of it, nobody else had
// counted anything, or all had little in an interval that is over; and it is far from its limit, or that was
// an interval ago.
bool Engine::says_nothing(const RuleState& rule, const KeySlot& slot, SpanId next,
                          MonotonicTime now) const noexcept {
  const KeyDetail& detail = ledger_.detail(slot);
  const auto alone = [&](const SharedCount& count, Ordinal ordinal) {
    return count.total == count.acknowledged || (ordinal < rule.span.ordinal && is_light(rule, count.total));
  };
  const KeyPast& past = ledger_.past(slot);
  const std::int64_t unheard = rule.passed(next) - 1 - detail.heard.last();  // for so many spans
  const bool lately = unheard <= rule.spans && !is_far(rule, slot);
  const bool asked = detail.settling || detail.looked_back || past.looks_back || past.asked_before ||
                     (detail.reading && rule.early_block == EarlyBlock::predictive);
  // Of a key that so long has been too little to be told of nothing need be known any more: had it not been
  // counted at all, it would have been forgotten. (What was told and not answered is awaited.)
  const Ordinal remembered = rule.by_shares() ? remembered_intervals : nodes_remembered;
  const bool recent = unheard <= remembered * rule.spans;
  const bool busy = std::max(slot.current.offered, past.offered) > rule.hold;
  const bool learned = (recent || busy) && (!detail.nodes.is_one() || detail.correction != 1 ||
                                            detail.demand.share() != ledger_.first_share(slot));
  const bool others = !alone(detail.counted[0], slot.current.ordinal) ||
                      !alone(detail.counted[1], slot.previous_ordinal()) || detail.was_full || learned;
  const bool refused = detail.refused[0].total > 0 || detail.refused[1].total > 0 ||
                       detail.refused[0].acknowledged > 0 || detail.refused[1].acknowledged > 0 ||
                       detail.refused_unwritten > 0 || detail.refused_at != never;
  const bool corrected =
      (detail.refunded > 0 || detail.overdrawn) && slot.current.ordinal >= rule.span.ordinal;
  return !lately && !asked && !others && !refused && !corrected && detail.price == 0 && !detail.owes &&
         !detail.block.active(now) && !rule.needs_detail() && rule.hears() && !slot.idle && !slot.watched &&
         !slot.heard && !slot.refusal_due && !slot.read_due && !slot.fresh_due &&
         window_says_nothing(rule, slot, detail, next);
}

// Whether a key has been blocked for so long that what is known of its traffic says nothing of who comes back
// after it: nobody is asked meanwhile. Who goes on, and would exceed the limit by it, does not come back.
bool Engine::is_out_of_date(const RuleState& rule, const KeySlot& slot, SpanId next,
                            MonotonicTime now) const noexcept {
  const KeyDetail& detail = ledger_.detail(slot);
  if (!detail.block.active(now) || !cluster_.store_reached) return false;
  const std::uint64_t offered =
      std::max(offered_in(slot, rule.span.ordinal), offered_in(slot, rule.span.ordinal - 1));
  return rule.passed(next) - 1 - detail.heard.last() > nodes_remembered * rule.spans &&
         !detail.nodes.exceeds(offered, rule.limit_of(detail));
}

// It begins anew, as a key that comes now.
void Engine::forget_traffic(KeySlot& slot) {
  KeyDetail& detail = own_detail(slot);
  ledger_.past(slot).first_nodes = cluster_.nodes & most_nodes;
  detail.demand.begin(cluster_.nodes);
  detail.nodes = NodesRatio();
  detail.reading = false;
}

// Every slot is looked at once per interval, a part of them at each span's end: all at once would be a long
// moment where keys are many. Where the clock has been set, all of them. Rules whose spans end together have
// theirs looked at together: there may be a thousand.
void Engine::forget_idle(std::size_t clock, Instant now) {
  const RuleState& any = rules_[rules_by_clock_[clock].front()];
  const SpanId ended = any.span;
  const SpanId next = any.clock.span(now.wall);
  const std::uint32_t before = ledger_.size();
  const auto part = [&](std::uint32_t from, std::uint32_t to) {
    const auto slot_at = [&](std::uint32_t place) {
      return static_cast<SlotIndex>(std::uint64_t{ledger_.end()} * place / any.spans);
    };
    forget_idle(clock, slot_at(from), slot_at(to), next, now.monotonic);
  };
  if (next.ordinal == ended.ordinal) {
    part(ended.index, next.index);
  } else if (next.ordinal == ended.ordinal + 1) {
    part(0, next.index);
    part(ended.index, any.spans);
  } else {
    part(0, any.spans);
  }
  if (ledger_.size() == before) return;
  for (const RuleIndex index : rules_by_clock_[clock])
    std::erase_if(rules_[index].last_touched,
                  [&](SlotIndex i) { return ledger_[i].key == 0 || ledger_[i].rule != index; });
}

// A key without counts for two intervals, without block and without a pending question has nothing left to
// remember.
void Engine::forget_idle(std::size_t clock, SlotIndex from, SlotIndex to, SpanId next, MonotonicTime now) {
  const RuleState& any = rules_[rules_by_clock_[clock].front()];
  // The interval that has ended last.
  const Ordinal ending = next.ordinal > any.span.ordinal ? any.span.ordinal : any.span.ordinal - 1;
  for (SlotIndex i = from; i < to; ++i) {
    // After a spray of keys there is hardly a slot that is not given up.
    if (i + Ledger::ahead < to)
      if (const KeySlot& soon = ledger_[i + Ledger::ahead];
          soon.key != 0 && soon.current.ordinal < ending - 1 && clock_of_rule_[soon.rule] == clock)
        ledger_.prefetch(soon.key);
    KeySlot& slot = ledger_[i];
    if (slot.key == 0 || clock_of_rule_[slot.rule] != clock) continue;
    RuleState& rule = rules_[slot.rule];
    if (rule.passed(rule.span) < rule.asks_again_until) slot.asked_blocks = false;
    if (slot.detail != no_index && says_nothing(rule, slot, next, now)) drop_detail(rule, slot, next.ordinal);
    if (slot.detail != no_index && is_out_of_date(rule, slot, next, now)) forget_traffic(slot);
    // So it has been since it was new, or is again.
    if (slot.detail == no_index && !differs_by_itself(rule)) set_differs(i, false);
    if (slot.touched || slot.refusal_due || slot.read_due) continue;
    if (slot.watched || slot.holding) continue;
    const Ordinal counted = last_counted(slot);
    // What lies far ahead was counted before the clock was set back, and not again in the intervals since.
    const bool ahead =
        counted > next.ordinal + 2 && rule.number(next) >= rule.set_in + idle_intervals * rule.spans;
    if (counted >= ending - 1 && !ahead) continue;
    const KeyDetail& detail = ledger_.detail(slot);
    if (detail.owes || detail.block.active(now) || window_holds(rule, detail, next)) continue;
    // While there is room, what was learned of a contended key is worth keeping: who forgets his small share
    // begins with the larger one of a node that knows nothing.
    if (rule.by_shares() && !ahead && counted >= ending - remembered_intervals &&
        ledger_.size() < ledger_.capacity() / 2 && contended(rule, detail))
      continue;
    // Warm until it has been idle for as long as warming up takes.
    if (!ahead && rule.clock.interval() * (ending - counted) < rule.warmup) continue;
    ledger_.erase(i);
  }
}

}  // namespace weir
