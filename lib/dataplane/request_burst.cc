// SPDX-License-Identifier: BSD-3-Clause
// A burst of requests that have been laid out, in passes as plain frames have them (plain_burst.cc): their
// keys are found rule by rule, and what has enough ready is taken in loops over a rule's keys, as is what
// need only be drawn (usual_draws.cc); under several rules in a loop over the requests. What is left is
// decided one by one. Who comes earlier in the burst comes first, as if there were no burst.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/request_bits.h"
#include "dataplane/rule_look.h"
#include "dataplane/worker_core.h"

namespace weir {

void WorkerCore::admit_burst(std::span<const Request> requests, MonotonicTime now,
                             std::span<Decision> decisions, Detail detail) noexcept {
  catch_up();
  while (!requests.empty()) {
    const std::span<const Request> burst = requests.first(find_keys(requests));
    std::uint32_t left = first_requests(burst.size());
    // What remains of a key is told as it is between two requests.
    if (publication_ != nullptr && detail != Detail::full) {
      std::uint32_t taken = take_ready_of(burst);
      taken |= draw_as_usual(burst, left & ~taken, now);
      taken |= take_or_draw(burst, left & ~taken, now);
      tell_admitted(burst, taken, decisions);
      left &= ~taken;
    }
    if (left != 0) decide_each(burst, left, now, decisions, detail);
    requests = requests.subspan(burst.size());
    decisions = decisions.subspan(burst.size());
  }
}

// Of the first requests, as many as fit: which rules apply to them, and their keys, whose lines are asked
// for between one hash and the next. @return how many
std::size_t WorkerCore::find_keys(std::span<const Request> requests) noexcept {
  plain_.rule_count = 0;
  forget_plain();
  std::size_t count = std::min(requests.size(), burst_size);
  const GrantTable::Lines grants = grants_.lines();
  const SpanTable::Lines entries = table_->lines();
  for (std::size_t at = 0; at < count; ++at) {
    plane_.classifier.match(requests[at], scratch_);
    const std::span<const RuleIndex> rules = std::span(scratch_.rules).first(scratch_.rule_count);
    if (!std::all_of(rules.begin(), rules.end(),
                     [&](RuleIndex rule) { return plain_.column_of(rule) != nullptr; })) {
      count = at;
      break;
    }
    first_rules_[at] = rules.empty() ? no_rule : rules[0];
    for (const RuleIndex rule : rules) {
      PlainKeys::OfRule& of_rule = *plain_.column_of(rule);
      of_rule.requests |= std::uint32_t{1} << at;
      if (plane_.terms[rule].dense) continue;
      const std::uint64_t key =
          number_of_key(plane_.classifier.hash_key(rule, requests[at], scratch_, key_hash_));
      of_rule.hashes[at] = key;
      if (is_granted_first(rule))
        grants.prefetch(key);
      else
        entries.prefetch(key);
    }
  }
  plain_.forget_columns();
  plain_.requests = first_requests(count);
  return count;
}

// Those that have enough ready of all their keys are charged.
std::uint32_t WorkerCore::take_ready_of(std::span<const Request> requests) noexcept {
  if (has_heavy(requests)) return 0;
  if (plain_.rule_count == 0) return plain_.requests;
  if (plain_.rule_count == 1) return take_ready_of_rule(plain_.rules[0], plain_.requests);
  return take_ready_of_all(plain_.requests, Order::kept);
}

// Whether a request weighs more than its rules say.
bool WorkerCore::has_heavy(std::span<const Request> requests) noexcept {
  return std::any_of(requests.begin(), requests.end(),
                     [](const Request& request) { return request.weight > 1; });
}

// Of the rules that share none of the burst's requests with others: so no key's requests get ahead of each
// other, and none depends on what another rule says. @return those that have been drawn for
std::uint32_t WorkerCore::draw_as_usual(std::span<const Request> burst, std::uint32_t requests,
                                        MonotonicTime now) noexcept {
  if (requests == 0) return 0;
  const std::uint32_t shared = under_several(plain_.requests);
  std::uint32_t drawn = 0;
  for (const PlainKeys::OfRule& of_rule : std::span(plain_.rules).first(plain_.rule_count)) {
    const std::uint32_t own = of_rule.requests & requests;
    if (own == 0 || (of_rule.requests & shared) != 0 || rule_grants_[of_rule.rule].usual == 0) continue;
    EntryPlaces places;
    for_each(own, [&](std::size_t at) { places[at] = table_->locate(of_rule.hashes[at]); });
    drawn |= draw_as_usual(of_rule, own, places, burst, now);
  }
  return drawn;
}

// Where some are under several rules. @return those that come before one that needs a closer look
std::uint32_t WorkerCore::take_or_draw(std::span<const Request> burst, std::uint32_t requests,
                                       MonotonicTime now) noexcept {
  if (under_several(requests) == 0 || !some_draw(requests) || has_heavy(burst)) return 0;
  const auto rules = std::span(plain_.rules).first(plain_.rule_count);
  // They are drawn for in order of the configuration, as long as none refuses.
  std::ranges::sort(rules, {}, &PlainKeys::OfRule::rule);
  ReadyLooks ready;
  take_or_draw_in_front(requests, ready, now);
  count_taken(ready);
  lend_after(ready, ready.taken);
  return ready.taken;
}

// Neither what remains nor when: that is left as Detail has it.
void WorkerCore::tell_admitted(std::span<const Request> burst, std::uint32_t requests,
                               std::span<Decision> decisions) const noexcept {
  RuleIndex told = no_rule;
  std::uint32_t told_times = 1;
  Decision decision;
  for_each(requests, [&](std::size_t at) {
    const RuleIndex rule = first_rules_[at];
    const std::uint32_t multiplier = times(burst[at]);
    if (rule != told || multiplier != told_times) {
      decision = {};
      if (rule != no_rule) name_rule(decision, rule, std::uint64_t{plane_.terms[rule].weight} * multiplier);
      told = rule;
      told_times = multiplier;
    }
    decisions[at] = decision;
  });
}

// What find_keys() has found of one request, in order of the configuration.
void WorkerCore::plan_found(std::size_t at, Plan& plan) const noexcept {
  plan.count = 0;
  for (std::size_t column = 0; column < plain_.rule_count; ++column) {
    const PlainKeys::OfRule& of_rule = plain_.rules[column];
    if ((of_rule.requests >> at & 1) == 0) continue;
    const bool dense = plane_.terms[of_rule.rule].dense;
    std::size_t place = plan.count++;
    for (; place > 0 && plan.keys[place - 1].rule > of_rule.rule; --place)
      plan.keys[place] = plan.keys[place - 1];
    plan.keys[place] = {dense ? rule_keys_[of_rule.rule] : of_rule.hashes[at],
                        dense ? table_->place_of_rule(of_rule.rule) : SpanTable::nowhere, of_rule.rule,
                        dense};
  }
}

}  // namespace weir
