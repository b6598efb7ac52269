// SPDX-License-Identifier: BSD-3-Clause
// Requests in plain frames of which not all has been ready. Of a burst they are decided on as one after the
// other would be, and none is laid out: a key that is met for the first time has its name from the frame.
//
// What an attack is made of, and what a worker sees most of while it lasts, is a flood of what is refused.
// Who is refused need not be drawn for or charged: of a key that has been looked at under this publication
// the entry tells whether the next request is refused (and for a limit that is used up the cell that it
// names), and to refuse is to count it there. So nothing is written but what has been counted, and whatever
// is less clear than that is left to who looks closely. Of who is blocked for long the line tells as much,
// where no other rule has a say, and the client is not told how long.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/flatten.h"
#include "base/prefetch.h"
#include "dataplane/request_bits.h"
#include "dataplane/rule_look.h"
#include "dataplane/worker_core.h"
#include "shared/bucket_cell.h"

namespace weir {

static_assert(PlainDecisions::most_frames == PlainKeys::most_frames);

// Of the other algorithms: is_known_refused(). (A sliding log tells nothing without going through what it
// holds.)
bool WorkerCore::lacks_allowance(PlannedKey planned, std::uint64_t weight, MonotonicTime now) const noexcept {
  const SpanTable::Place place = planned.place;
  const RuleTerms& terms = plane_.terms[planned.rule];
  switch (terms.algorithm) {
    case Algorithm::shed:
      if (!sheds(touched_at(place, terms), planned, weight) && !is_used_up(place, weight)) return false;
      break;
    case Algorithm::fixed_window:
    case Algorithm::sliding_window:
    case Algorithm::strict:
      if (!is_used_up(place, weight)) return false;
      break;
    case Algorithm::token_bucket:
    case Algorithm::leaky_bucket:
      if (!is_empty(place, terms.bucket, weight, now)) return false;
      break;
    case Algorithm::cooldown:
    case Algorithm::sliding_log:
      return false;
  }
  return !may_be_granted(planned, weight);
}

// As draw_window() has it. What is lent to the key's grant would be called back first, and what weighs too
// much for an entry gives back what that holds.
bool WorkerCore::is_used_up(SpanTable::Place place, std::uint64_t weight) const noexcept {
  const SpanEntry& entry = table_->entry(place);
  const EntryTerms terms = table_->terms(entry);
  if (terms.allowance == 0) return true;
  if (weight >= SpanTable::most_ready || entry.lent > 0) return false;
  const std::uint64_t credit = table_->credit(place);
  return credit < weight && table_->cells[entry.rule][terms.cell].left_of(terms.allowance) < weight - credit;
}

// Whether a closer look would give the key a grant, which it has not had yet. (Where another rule refuses,
// keys have entries before they have grants.)
bool WorkerCore::may_be_granted(const PlannedKey& planned, std::uint64_t weight) const noexcept {
  return weight - 1 < rule_grants_[planned.rule].most && !is_ungranted(planned.rule, planned.key) &&
         grants_.locate(planned.key) == GrantTable::nowhere;
}

// As draw_bucket() has it, and as is_used_up(). What costs more than the whole bucket is admitted now and
// then.
bool WorkerCore::is_empty(SpanTable::Place place, const BucketTerms& bucket, std::uint64_t weight,
                          MonotonicTime now) const noexcept {
  const SpanEntry& entry = table_->entry(place);
  const EntryTerms terms = table_->terms(entry);
  if (terms.allowance == 0) return true;
  const std::uint64_t credit = table_->credit(place);
  if (weight >= SpanTable::most_ready || entry.lent > 0 || credit >= weight) return false;
  const std::uint64_t needed = BucketCell::priced(bucket.cost(weight - credit), terms.allowance);
  const BucketCell cell(table_->cells[entry.rule][terms.cell]);
  return needed <= bucket.capacity() && cell.is_here() && cell.available(bucket, now) < needed;
}

/// What one rule makes of the requests of a burst that are left. Without initial values.
struct WorkerCore::EntryLook {
  const PlainKeys::OfRule* of_rule;
  std::uint32_t requests;  // bit i: the rule applies to it
  std::uint32_t refused;   // bit i: it is this rule that refuses it
  std::uint32_t settled;   // bit i: its key's entry holds under this publication
  bool dense;
  bool observes;
  bool tells;             // refused clients how long to wait
  std::uint64_t own_key;  // of a rule without dimensions
  EntryPlaces places;

  RuleIndex rule() const noexcept { return of_rule->rule; }
  PlannedKey planned(std::size_t at) const noexcept {
    return {dense ? own_key : of_rule->hashes[at], places[at], of_rule->rule, dense};
  }
};

void WorkerCore::decide_plain(MonotonicTime now, PlainDecisions& decisions) noexcept {
  catch_up();
  decisions.admitted = 0;
  decisions.refused = 0;
  const std::uint32_t left = std::exchange(plain_left_, 0);
  if (left == 0 || publication_ == nullptr) return;
  decide_plain(left, now, decisions);
  refusals_first_.learn(2 * std::popcount(decisions.refused) > std::popcount(plain_.requests));
}

void WorkerCore::decide_plain(std::uint32_t requests, MonotonicTime now, PlainDecisions& decisions) noexcept {
  const std::uint32_t shared = under_several(requests);
  ReadyLooks ready;
  // As a rule all need no more than that.
  if (!refusals_first_.is_other() && shared != 0 && some_draw(shared))
    requests = take_or_draw_in_front(requests, ready, now);
  if (requests != 0) decide_plain(requests, shared, ready, now, decisions);
  decisions.admitted |= ready.taken;
  count_taken(ready);
  lend_after(ready, ready.taken);
}

// Flattened: what the calls of small functions cost for each request is as much as these do.
// @param shared  those to which more than one rule applies; there may be others than the requests
WEIR_FLATTEN void WorkerCore::decide_plain(std::uint32_t requests, std::uint32_t shared, ReadyLooks& ready,
                                           MonotonicTime now, PlainDecisions& decisions) noexcept {
  std::array<EntryLook, max_rules_per_request> looks;
  std::size_t count = 0;
  for (const PlainKeys::OfRule& of_rule : std::span(plain_.rules).first(plain_.rule_count))
    if (const std::uint32_t own = of_rule.requests & requests; own != 0)
      look_for_entries(of_rule, own, looks[count++]);
  const std::span all = std::span(looks).first(count);
  for (EntryLook& look : all) decisions.refused |= refuse_at_a_glance(look, ~shared, now, decisions);
  requests &= ~decisions.refused;
  if (requests == 0) return;
  if (!refusals_first_.is_other()) {
    for (EntryLook& look : all)
      if ((look.requests & shared) == 0) decisions.admitted |= draw_as_usual(look, now);
  } else if (decisions.refused != 0 && plain_.rule_count == 1) {
    // To draw would mostly be in vain in a flood; but who stands among those who are blocked may have enough.
    decisions.admitted = take_ready_of_rule(plain_.rules[0], requests);
    for (EntryLook& look : all) look.requests &= ~decisions.admitted;
  }
  requests &= ~decisions.admitted;
  if (requests == 0) return;
  prefetch_entries(all);
  std::uint32_t settled_in_any = 0;
  for (EntryLook& look : all) {
    look.settled = settled(look);
    settled_in_any |= look.settled;
    if (const std::uint32_t others = look.requests & ~look.settled & ~ready.requests; others != 0)
        [[unlikely]]
      prefetch_to_look(look, others);
  }
  std::uint32_t refused = 0;
  for_each(requests, [&](std::size_t at) {
    const std::uint32_t bit = std::uint32_t{1} << at;
    EntryLook* const by = (settled_in_any & bit) != 0 ? refused_by(all, at, now) : nullptr;
    if (by == nullptr) {
      // In a flood of what is refused there may be no other, and those whose keys are settled are part of it.
      if (ready.requests == 0 && (shared & bit) != 0 && some_draw(bit))
        look_for_ready((shared & ~settled_in_any & ~(bit - 1)) | bit, ready);
      if (!take_or_draw(ready, at, now)) look_closely(all, at, now, decisions);
      return;
    }
    refused |= bit;
    by->refused |= bit;
    decisions.rules[at] = by->rule();
    decisions.retry_after[at] = by->tells ? retry_after_refusal(by->planned(at), now) : Duration{};
  });
  decisions.refused |= refused;
  for (const EntryLook& look : all) {
    RuleCounters& counters = of_rules_[look.rule()].counters;
    counters.others.add(static_cast<std::uint64_t>(std::popcount(look.requests & refused)));
    counters.blocked.add(static_cast<std::uint64_t>(std::popcount(look.refused)));
  }
}

// With what is known of one request, in order of the configuration.
void WorkerCore::look_closely(std::span<const EntryLook> looks, std::size_t at, MonotonicTime now,
                              PlainDecisions& decisions) noexcept {
  Plan& plan = plans_[0];
  plan.count = 0;
  for (const EntryLook& look : looks) {
    if ((look.requests >> at & 1) == 0) continue;
    PlannedKey& planned = plan.keys[plan.count++];
    planned = look.planned(at);
    // As look_up() has it.
    if (find_grant(planned, rule_grants_[planned.rule].weight) && !planned.dense)
      planned.place = SpanTable::nowhere;
  }
  decide_plain(plan, at, now, decisions);
}

// All are on their way before the first one is waited for.
void WorkerCore::prefetch_entries(std::span<const EntryLook> looks) const noexcept {
  for (const EntryLook& look : looks)
    for_each(look.requests, [&](std::size_t at) {
      if (look.places[at] != SpanTable::nowhere) table_->prefetch_number(look.places[at]);
    });
  for (const EntryLook& look : looks) {
    // Who is blocked is so whatever he has at hand.
    const bool asks_grants = rule_grants_[look.rule()].most > 0 &&
                             (looks.size() > 1 || plane_.terms[look.rule()].algorithm != Algorithm::cooldown);
    for_each(look.requests, [&](std::size_t at) {
      if (look.places[at] != SpanTable::nowhere) table_->prefetch_entry(look.places[at]);
      if (asks_grants) grants_.prefetch(look.of_rule->hashes[at]);
    });
  }
}

void WorkerCore::prefetch_to_look(const EntryLook& look, std::uint32_t requests) const noexcept {
  std::uint32_t lacking = 0;
  for_each(requests, [&](std::size_t at) {
    const PlannedKey planned = look.planned(at);
    if (has_enough(planned)) return;
    lacking |= std::uint32_t{1} << at;
    prefetch_beyond_line(planned.key, planned.place, planned.rule);
  });
  for_each(lacking, [&](std::size_t at) {
    const PlannedKey planned = look.planned(at);
    prefetch_entry(planned.key, planned.place, planned.rule);
  });
}

// Of these requests. Those that are refused so are not the look's any more. @return which
std::uint32_t WorkerCore::refuse_at_a_glance(EntryLook& look, std::uint32_t requests, MonotonicTime now,
                                             PlainDecisions& decisions) noexcept {
  const std::uint64_t weight = rule_grants_[look.rule()].weight;
  if (look.tells || !may_refuse_at_a_glance(plane_.terms[look.rule()]) || now >= glances_end_) return 0;
  const SpanTable::Lines lines = table_->lines();
  std::uint32_t nothing = 0;
  std::uint32_t refused = 0;
  for_each(look.requests & requests, [&](std::size_t at) {
    const PlannedKey planned = look.planned(at);
    if (planned.place == SpanTable::nowhere) return;
    std::uint32_t* word = &lines.ready_at(planned.place, planned.key, generation_, nothing);
    if (!SpanTable::Lines::refuses(*word)) word = refusal_that_lasts(planned.place, planned.key);
    if (word == nullptr || !SpanTable::Lines::refuse(*word, weight)) return;
    refused |= std::uint32_t{1} << at;
    decisions.rules[at] = look.rule();
    decisions.retry_after[at] = Duration{};
  });
  look.requests &= ~refused;
  if (refused == 0) return 0;
  count_refused(look.rule(), static_cast<std::uint64_t>(std::popcount(refused)));
  table_->met_again = true;
  return refused;
}

void WorkerCore::look_for_entries(const PlainKeys::OfRule& of_rule, std::uint32_t requests,
                                  EntryLook& look) const noexcept {
  look.of_rule = &of_rule;
  look.requests = requests;
  look.refused = 0;
  const RuleTerms& terms = plane_.terms[of_rule.rule];
  look.dense = terms.dense;
  look.observes = terms.action == Action::observe;
  look.tells = terms.action == Action::reply_429;
  look.own_key = rule_keys_[of_rule.rule];
  for_each(requests, [&](std::size_t at) {
    const SpanTable::Place place =
        look.dense ? table_->place_of_rule(of_rule.rule) : table_->locate(of_rule.hashes[at]);
    look.places[at] = place;
  });
}

// The requests whose keys' entries hold under this publication.
std::uint32_t WorkerCore::settled(const EntryLook& look) const noexcept {
  const bool asks_cells = plane_.terms[look.rule()].algorithm != Algorithm::cooldown;
  const AllowanceCell* const cells = table_->cells[look.rule()];
  std::uint32_t settled = 0;
  for_each(look.requests, [&](std::size_t at) {
    const PlannedKey planned = look.planned(at);
    if (planned.place == SpanTable::nowhere || !table_->is_settled(planned.place, planned.key, generation_))
      return;
    settled |= std::uint32_t{1} << at;
    if (asks_cells) prefetch_to_read(cells + table_->terms(table_->entry(planned.place)).cell);
  });
  return settled;
}

// @pre no other rule applies to the look's requests. What has been drawn for is none of them any more.
// @return which
std::uint32_t WorkerCore::draw_as_usual(EntryLook& look, MonotonicTime now) noexcept {
  if (look.requests == 0 || rule_grants_[look.rule()].usual == 0) return 0;
  const std::uint32_t drawn = draw_as_usual(*look.of_rule, look.requests, look.places, {}, now);
  look.requests &= ~drawn;
  return drawn;
}

// Counts a request as refused by those of its rules of which it exceeds something, as decide_closely() has
// it. One request after the other, since what a rule sheds depends on what it has shed.
// @return by which one it is refused; nullptr: it is not known to be, and nothing has been done
WorkerCore::EntryLook* WorkerCore::refused_by(std::span<EntryLook> looks, std::size_t at,
                                              MonotonicTime now) noexcept {
  const auto count = [&](const EntryLook& look) {
    table_->count_refused(table_->entry(look.places[at]),
                          counts_refused(plane_.terms[look.rule()], rule_grants_[look.rule()].weight));
  };
  const auto is_settled = [&](const EntryLook& look) { return (look.settled >> at & 1) != 0; };
  if (looks.size() == 1) [[likely]] {
    EntryLook& look = looks.front();
    if (!is_settled(look) || look.observes || !refuses(look.planned(at), now)) return nullptr;
    count(look);
    return &look;
  }
  EntryLook* by = nullptr;
  std::uint16_t closest = 0;
  std::uint32_t exceeded = 0;  // bit i: what looks[i] is of
  for (std::size_t i = 0; i < looks.size(); ++i) {
    EntryLook& look = looks[i];
    if ((look.requests >> at & 1) == 0) continue;
    const RuleTerms& terms = plane_.terms[look.rule()];
    if (by != nullptr && terms.closeness < closest && !counts_refusals(terms)) continue;
    const PlannedKey planned = look.planned(at);
    if (is_settled(look) && (by != nullptr || !look.observes) && refuses(planned, now)) {
      exceeded |= std::uint32_t{1} << i;
      if (look.observes) continue;
      if (by == nullptr) by = &look;
      closest = std::max(closest, terms.closeness);
      if (settles_it(plane_.terms[by->rule()])) break;
    } else if (!has_enough(planned)) {
      return nullptr;
    }
  }
  for_each(exceeded, [&](std::size_t i) {
    const RuleTerms& terms = plane_.terms[looks[i].rule()];
    if (terms.closeness >= closest || counts_refusals(terms)) count(looks[i]);
  });
  return by;
}

bool WorkerCore::refuses(const PlannedKey& planned, MonotonicTime now) const noexcept {
  // Who is blocked is so whatever he has at hand.
  return is_known_refused(planned, rule_grants_[planned.rule].weight, now) &&
         (plane_.terms[planned.rule].algorithm == Algorithm::cooldown || !has_enough(planned));
}

// Whether the key's rule admits a request without a look.
bool WorkerCore::has_enough(PlannedKey planned) const noexcept {
  return find_grant(planned, rule_grants_[planned.rule].weight) || has_ready(planned, 1);
}

}  // namespace weir
