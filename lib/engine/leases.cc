// SPDX-License-Identifier: BSD-3-Clause
// Leases: parts of a strict limit that this node has claimed in the store, and may admit by itself.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/engine.h"

namespace weir {
namespace {

/// A store that is reached has answered a claim of so many spans ago, or has given it up.
constexpr std::int64_t spans_to_answer = 3;

}  // namespace

void Engine::write_lease(const RuleState& rule, KeySlot& slot, Lease& lease, std::uint64_t claim) {
  const std::uint64_t owed = std::exchange(lease.owed, 0);
  claim = lease.ask(claim, rule.passed(rule.span));
  if (claim == 0 && owed == 0) return;
  const bool returns = owed > 0;
  collected_.push_back(
      {.key = slot.key,
       .amount = claim,
       .ordinal = lease.ordinal,
       .name = returns ? set_apart(std::string(ledger_.name(slot)), owed) : ledger_.name_of(slot),
       .rule = index_of(rule),
       .use = CounterUse::lease,
       .apart = returns});
}

void Engine::write_lease_question(const RuleState& rule, const KeySlot& slot, const Lease& lease) {
  collected_.push_back({.key = slot.key,
                        .ordinal = lease.ordinal,
                        .name = ledger_.name_of(slot),
                        .rule = index_of(rule),
                        .use = CounterUse::lease});
}

// What was drawn in an interval before the clock was set back still is when that comes again, and has been
// claimed. (Not where some was charged without being drawn: as much could be drawn once more.)
void Engine::begin_lease(const RuleState& rule, const KeySlot& slot, Lease& lease, Ordinal of) {
  lease.begin(of);
  if (rule.has_run(of) && rule.charged_in < of)
    lease.granted = lease.admitted = counts_in(slot, of).admitted;
}

// Claims ahead of need: so much that workers can go on until the next claim's answer, two spans from now.
void Engine::lease_ahead(RuleState& rule, KeySlot& slot, SpanId next, bool all_passed) {
  KeyLeases& leases = *own_detail(slot).leases;
  const auto end = [&](Lease& over) {
    if (leases.ended.held) {
      if (all_passed) leases.ended.close();
      write_lease(rule, slot, leases.ended, 0);
    }
    leases.ended = std::exchange(over, Lease());
  };
  // The clock has come back to an interval of whose lease nothing has gone back yet.
  if (leases.ended.held && leases.ended.ordinal == next.ordinal && leases.running.ordinal != next.ordinal &&
      rule.charged_in < next.ordinal)
    std::swap(leases.running, leases.ended);
  if (leases.running.held && leases.running.ordinal != next.ordinal) end(leases.running);
  if (leases.next.held && leases.next.ordinal == next.ordinal && !leases.running.held)
    leases.running = std::exchange(leases.next, Lease());
  // A clock that was set has left the interval that this was for.
  if (leases.next.held && leases.next.ordinal != next.ordinal + 1) end(leases.next);
  if (leases.ended.held && all_passed) {
    Lease& ended = leases.ended;
    ended.lowering = false;
    ended.close();
    write_lease(rule, slot, ended, 0);
    ended = Lease();  // a claim still on its way goes back when its answer comes, and keeps nothing here
  }

  // All that is held, claimed and given back is whole requests of the rule's weight: a rest that lies here is
  // of no use to anybody. (Who says that his requests cost several times as much may find too little where he
  // comes seldom.)
  const auto one_request_of = [&](double part, Ordinal ordinal) {
    return std::min<std::uint64_t>(rule.whole_requests(part, slot.key, ordinal), rule.weight);
  };
  const std::uint64_t demand = slot.span_counting;
  Lease& lease = leases.running;
  if (!lease.held) {
    if (!asked_for_lately(rule, slot)) return;
    begin_lease(rule, slot, lease, next.ordinal);
  }
  if (lease.lowering && all_passed) lease.lowered_everywhere();
  const std::uint64_t unused = lease.granted > lease.admitted ? lease.granted - lease.admitted : 0;
  // What a span takes is a small number as a rule, and jumps: beside the last one stands the interval's
  // average.
  const double average = static_cast<double>(offered_in(slot, rule.span.ordinal)) / (rule.span.index + 1);
  const double expected = std::max(average, (average + static_cast<double>(demand)) / 2);
  // Until the next claim is answered, but not beyond the interval: what is left then is nobody's.
  const double spans_ahead = std::min(1.5, static_cast<double>(rule.spans - next.index));
  // Three standard deviations more, as far as there is enough for all: honest clients should not feel that
  // quota is leased.
  const bool plenty = lease.total < rule.limit - rule.limit / 4;
  const double left_for_each =
      static_cast<double>(rule.limit - std::min(rule.limit, lease.total) + unused) / cluster_.nodes;
  const double margin = std::min(3 * std::sqrt(expected * spans_ahead * rule.weight), left_for_each);
  // One is kept for a client who comes less than once in an interval, and would else find nothing each time.
  const std::uint64_t kept = one_request_of(left_for_each, next.ordinal);
  const auto needed =
      static_cast<std::uint64_t>((expected * spans_ahead + margin) / rule.weight + (expected > 0 ? 1 : 0)) *
      rule.weight;
  const std::uint64_t target = std::max(needed, kept);
  if (lease.lowering) lease.raise(lease.admitted + target);
  if (cluster_.store_reached && rule.passed(rule.span) - lease.asked_in >= spans_to_answer) lease.give_up();
  std::uint64_t claim = 0;
  if (lease.asked == 0 && lease.missing == 0 && !lease.lowering) {
    if (unused < target && !lease.used_up) {
      // The last tenth goes out by shares, so that nobody strands much of it.
      const std::uint64_t left = rule.limit - std::min(rule.limit, lease.total);
      const double share = lease.total > 0
                               ? static_cast<double>(lease.granted) / static_cast<double>(lease.total)
                               : 1.0 / cluster_.nodes;
      const auto most = static_cast<std::uint64_t>(static_cast<double>(left) *
                                                   (left > rule.limit / 10 ? 0.5 : share) / rule.weight);
      const std::uint64_t lacking = (target - unused + rule.weight - 1) / rule.weight;
      claim = std::min(lacking, std::max<std::uint64_t>(most, 1)) * rule.weight;
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
  if (next.index + 1 == rule.spans && !leases.next.held && asked_for_lately(rule, slot)) {
    begin_lease(rule, slot, leases.next, next.ordinal + 1);
    const double first = 1.5 * expected + 3 * std::sqrt(1.5 * expected * rule.weight);
    const double for_each = static_cast<double>(rule.limit) / cluster_.nodes;
    const std::uint64_t early_claim = std::max({plenty ? 0 : lease.admitted / 2,
                                                std::min(static_cast<std::uint64_t>(first), rule.limit / 2),
                                                one_request_of(for_each, next.ordinal + 1)});
    write_lease(rule, slot, leases.next, early_claim / rule.weight * rule.weight);
  }
}

// The node stops: what it holds and has not used goes back.
void Engine::end_leases(RuleState& rule, KeySlot& slot) {
  KeyLeases& leases = *own_detail(slot).leases;
  for (Lease* lease : {&leases.running, &leases.next, &leases.ended}) {
    if (!lease->held) continue;
    lease->lowering = false;
    lease->close();
    write_lease(rule, slot, *lease, 0);
  }
}

}  // namespace weir
