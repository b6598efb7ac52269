// SPDX-License-Identifier: BSD-3-Clause
// A burst under several rules: of each request all keys have enough ready, or nothing is taken. What each
// rule's keys have is found first, rule by rule. Then it is taken request by request, for earlier ones of the
// burst may have used what there was, but where there is plenty for all of them; and nothing is taken before
// all is known to be there, for it may be counted at once, and could not be put back.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "dataplane/chosen_hashes.h"
#include "dataplane/request_bits.h"
#include "dataplane/rule_look.h"
#include "dataplane/worker_core.h"

namespace weir {
namespace {

// A rule that applies to fewer than one in so many is quicker without the others being filled up.
constexpr int few_divisor = 4;

}  // namespace

// Those of the requests to which more than one rule applies.
std::uint32_t WorkerCore::under_several(std::uint32_t requests) const noexcept {
  std::uint32_t under_any = 0;
  std::uint32_t under_several = 0;
  for (const PlainKeys::OfRule& of_rule : std::span(plain_.rules).first(plain_.rule_count)) {
    under_several |= under_any & of_rule.requests;
    under_any |= of_rule.requests;
  }
  return under_several & requests;
}

std::uint32_t WorkerCore::take_ready_of_all(std::uint32_t requests, Order order) noexcept {
  ReadyLooks ready;
  look_first(requests, ready);
  std::uint32_t& taken = ready.taken;
  if (!some_lack_.is_other()) {
    taken = take_at_first_look(ready.all(), requests);
    learn_where_to_look(ready.all(), taken);
  }
  if (taken != requests) take_at_second_look(ready, order);
  some_lack_.learn(taken != requests);
  count_taken(ready);
  return taken;
}

// Of requests all of whose keys had enough where they were looked for first.
void WorkerCore::learn_where_to_look(std::span<const RuleLook> looks, std::uint32_t taken) noexcept {
  for (const RuleLook& look : looks)
    if (const std::uint32_t own = look.requests & taken;
        own != 0 && look.weight() - 1 < rule_grants_[look.of_rule->rule].most)
      learn_entries_first(look.of_rule->rule, (look.granted & own) == 0);
}

void WorkerCore::look_first(std::uint32_t requests, ReadyLooks& ready) noexcept {
  ready.requests = requests;
  for (const PlainKeys::OfRule& of_rule : std::span(plain_.rules).first(plain_.rule_count))
    if ((of_rule.requests & requests) != 0) look_first(of_rule, requests, ready.looks[ready.count++]);
}

void WorkerCore::count_taken(ReadyLooks& ready) noexcept {
  for (const RuleLook& look : ready.all()) {
    const std::uint32_t admitted = ready.taken & look.requests;
    if (admitted == 0) continue;
    count_admitted(look.of_rule->rule, static_cast<std::uint64_t>(std::popcount(admitted)));
    if ((admitted & look.granted) != 0) table_->counted_beside = true;
  }
}

// Where each key is looked for first.
void WorkerCore::look_first(const PlainKeys::OfRule& of_rule, std::uint32_t requests,
                            RuleLook& look) noexcept {
  const RuleTerms& terms = plane_.terms[of_rule.rule];
  const Grant& grant = rule_grants_[of_rule.rule];
  look.of_rule = &of_rule;
  look.grant = &grant;
  look.requests = of_rule.requests & requests;
  look.granted = 0;
  look.dense = terms.dense;
  look.nothing_ready.set(0);
  if (terms.dense) {
    auto& nothing = *reinterpret_cast<std::uint32_t*>(look.nothing_ready.bytes.data());
    std::uint32_t& ready = table_->lines().ready_at(table_->place_of_rule(of_rule.rule),
                                                    rule_keys_[of_rule.rule], generation_, nothing);
    look.words[0] = reinterpret_cast<std::byte*>(&ready);
    return;
  }
  look.used_up.set(RuleLook::of_halves(GrantTable::Lines::used_up(grant.window)));
  // A weight of 0 is nobody's common case, and must not pass where the key has not been looked at.
  if (is_granted_first(of_rule.rule) && grant.weight - 1 < grant.most)
    look_in_grants(look, look.requests);
  else
    look_in_entries(look, look.requests);
}

void WorkerCore::look_in_grants(RuleLook& look, std::uint32_t requests) const noexcept {
  std::byte* const used_up = look.used_up.bytes.data();
  const ChosenHashes chosen(look.of_rule->hashes, requests);
  chosen.put(look.words, [&](std::byte** words) { grants_.lines().find(chosen.keys(), used_up, words); });
  look.granted |= requests;
  const RuleIndex rule = look.of_rule->rule;
  if (rule_grants_[rule].some_ungranted)
    for_each(requests, [&](std::size_t at) {
      if (is_ungranted(rule, look.of_rule->hashes[at])) look.words[at] = used_up;
    });
}

void WorkerCore::look_in_entries(RuleLook& look, std::uint32_t requests) const noexcept {
  auto& nothing = *reinterpret_cast<std::uint32_t*>(look.nothing_ready.bytes.data());
  const ChosenHashes chosen(look.of_rule->hashes, requests);
  chosen.put(look.words,
             [&](std::byte** words) { table_->lines().find(chosen.keys(), generation_, nothing, words); });
  look.granted &= ~requests;
}

// Most bursts come to this: few rules with keys, each of which applies to many, and all requests have enough.
// From the first one on that lacks anything all are left: more such may follow, and these loops are quick
// where none does.
std::uint32_t WorkerCore::take_at_first_look(std::span<RuleLook> looks, std::uint32_t requests) noexcept {
  const auto weight_of_all = [&](const RuleLook& look, std::uint32_t of) {
    return look.weight() * static_cast<unsigned>(std::popcount(of));
  };
  KeyedLooks keyed;
  std::size_t count = 0;
  for (RuleLook& look : looks) {
    if (!look.dense) {
      const bool seldom = few_divisor * std::popcount(look.requests) < std::popcount(requests);
      if (count == most_at_once || seldom || look.weight() == 0) return 0;
      keyed[count++] = &look;
    } else if (!SpanTable::Lines::has(look.ready(0), weight_of_all(look, look.requests))) {
      return 0;
    }
  }
  for (RuleLook& look : looks)
    if (!look.dense) look.fill_up(requests & ~look.requests);
  std::uint32_t taken = requests;
  static_assert(most_at_once == 3);
  if (count == 1) taken = take_keyed<1>(keyed, requests);
  if (count == 2) taken = take_keyed<2>(keyed, requests);
  if (count == 3) taken = take_keyed<3>(keyed, requests);
  for (const RuleLook& look : looks)
    if (const std::uint32_t own = look.requests & taken; look.dense && own != 0)
      SpanTable::Lines::take(look.ready(0), weight_of_all(look, own));
  return taken;
}

// Where all keys are looked for in the grants, as is most common, nobody asks it of each.
template <std::size_t count>
std::uint32_t WorkerCore::take_keyed(const KeyedLooks& looks, std::uint32_t requests) noexcept {
  const auto is_granted = [](const RuleLook* look) { return look->granted != 0; };
  return std::all_of(looks.begin(), looks.begin() + count, is_granted)
             ? take_of_each<count, true>(looks, requests)
             : take_of_each<count, false>(looks, requests);
}

// A loop of its own for each number of rules, in which what it needs stays in registers.
template <std::size_t count, bool all_granted>
std::uint32_t WorkerCore::take_of_each(const KeyedLooks& looks, std::uint32_t requests) noexcept {
  struct Column {
    std::byte* const* words;
    std::size_t half;  // in bytes from the word
    bool granted;
    std::uint32_t weight;
    std::uint32_t last;
    GrantWindow window;
  };
  std::array<Column, count> columns;
#pragma GCC unroll 3
  for (std::size_t i = 0; i < count; ++i) {
    const Grant& grant = *looks[i]->grant;
    columns[i] = {looks[i]->words.data(),          grant.window.half * sizeof(RuleLook::Half),
                  looks[i]->granted != 0,          static_cast<std::uint32_t>(grant.weight),
                  grant.window.stamp + grant.most, grant.window};
  }
  std::uint32_t rest = requests;
  for (; rest != 0; rest &= rest - 1) {
    const auto at = static_cast<std::size_t>(std::countr_zero(rest));
    std::array<std::uint32_t, count> after;
    const auto half = [&](std::size_t i) -> RuleLook::Half& {
      return *reinterpret_cast<RuleLook::Half*>(columns[i].words[at] + columns[i].half);
    };
    const auto ready = [&](std::size_t i) -> std::uint32_t& {
      return *reinterpret_cast<std::uint32_t*>(columns[i].words[at]);
    };
    bool enough = true;
#pragma GCC unroll 3
    for (std::size_t i = 0; i < count; ++i) {
      const Column& column = columns[i];
      if (all_granted || column.granted) {
        after[i] = GrantTable::Lines::after_use(half(i), column.weight, column.window);
        enough &= after[i] <= column.last;
      } else {
        after[i] = ready(i) - column.weight;
        enough &= SpanTable::Lines::has(ready(i), column.weight);
      }
      // As alike() has it.
#pragma GCC unroll 2
      for (std::size_t earlier = 0; earlier < i; ++earlier)
        enough &= column.words[at] != columns[earlier].words[at];
    }
    if (!enough) [[unlikely]]
      break;
#pragma GCC unroll 3
    for (std::size_t i = 0; i < count; ++i) {
      if (all_granted || columns[i].granted)
        GrantTable::Lines::set(half(i), after[i]);
      else
        ready(i) = after[i];
    }
  }
  return requests & ~rest;
}

// Keys that lack anything where they were looked for first are looked for in the other table. As a rule most
// have enough for whatever a burst may take of it, or lack it, and that is found out and taken rule by rule,
// without branches that nobody can foresee; of the others each request looks once more, for earlier ones of
// the burst may have used what it found.
void WorkerCore::take_at_second_look(ReadyLooks& ready, Order order) noexcept {
  const std::uint32_t requests = ready.requests & ~ready.taken;
  look_again(requests, ready, true);
  std::uint32_t lacking = ready.alike;
  std::uint32_t plenty = requests;
  for (const RuleLook& look : ready.all()) {
    lacking |= look.lacking;
    plenty &= look.plenty | ~look.requests;
  }
  plenty &= ~lacking;
  for (const RuleLook& look : ready.all()) take_plenty(look, plenty & look.requests);
  std::uint32_t taken = plenty;
  // Who has plenty of all his keys neither takes what another one needs nor needs what another one takes; of
  // the others none goes before one that waits.
  std::uint32_t others = requests & ~lacking & ~plenty;
  if (order == Order::kept) others &= before_first(lacking);
  for (; others != 0; others &= others - 1) {
    if (take_one(ready.all(), static_cast<std::size_t>(std::countr_zero(others))))
      taken |= others & -others;
    else if (order == Order::kept)
      break;
  }
  ready.taken |= taken;
  lend_after(ready, taken);
}

// What is lent is not ready any more: so not before all of a burst have taken what they need.
void WorkerCore::lend_after(ReadyLooks& ready, std::uint32_t taken) noexcept {
  for (const RuleLook& look : ready.all())
    if (!look.dense && look.grant->most > 0)
      for_each(taken & look.requests & ~look.granted, [&](std::size_t at) {
        lend(table_->lines().place_of(look.ready(at)), look.of_rule->hashes[at], look.of_rule->rule);
      });
}

// All that there is to know of the requests, for who takes what is ready one request after the other.
void WorkerCore::look_for_ready(std::uint32_t requests, ReadyLooks& ready) noexcept {
  look_first(requests, ready);
  look_again(requests, ready, false);
  for (RuleLook& look : ready.all()) {
    look.doubtful = look.requests;
    look.located = 0;
  }
}

// @param tells  whether where these keys have enough tells where to look for a burst's first
void WorkerCore::look_again(std::uint32_t requests, ReadyLooks& ready, bool tells) noexcept {
  // All requests of a burst take so much of all their keys together, whichever may turn out to share a place.
  std::uint64_t most = 0;
  for (const RuleLook& look : ready.all()) most += PlainKeys::most_frames * look.weight();
  for (RuleLook& look : ready.all()) look_again(look, requests, most, tells);
  ready.alike = alike(ready.all(), requests);
}

void WorkerCore::look_again(RuleLook& look, std::uint32_t requests, std::uint64_t most, bool tells) noexcept {
  look.lacking = 0;
  look.plenty = 0;
  const std::uint32_t own = look.requests & requests;
  if (own == 0) return;
  if (look.dense) {
    if (!SpanTable::Lines::has(look.ready(0), look.weight())) look.lacking = own;
    if (SpanTable::Lines::has(look.ready(0), most)) look.plenty = own;
    return;
  }
  look_at_words(look, own, most);
  Grant& grant = rule_grants_[look.of_rule->rule];
  if (look.weight() - 1 >= grant.most) return;
  // As admit_run_of_keys() has it.
  const int all = std::popcount(own);
  const int left = std::popcount(look.lacking);
  const int few = all / 8;
  const auto learn = [&](bool entries_first) {
    if (tells) learn_entries_first(look.of_rule->rule, entries_first);
  };
  const std::uint32_t others = std::exchange(look.lacking, 0);
  if (others == 0) return learn(grant.entries_first.is_other());
  const bool granted_first = (look.granted & others) != 0;
  if (granted_first) {
    for_each(others,
             [&](std::size_t at) { prefetch_beyond_grant(look.of_rule->hashes[at], look.of_rule->rule); });
    look_in_entries(look, others);
  } else {
    for_each(others, [&](std::size_t at) { grants_.prefetch(look.of_rule->hashes[at]); });
    look_in_grants(look, others);
  }
  look_at_words(look, others, most);
  learn(granted_first ? all - left <= few && std::popcount(look.lacking) <= few : left <= few);
}

// @param requests  whose words are all of one table
void WorkerCore::look_at_words(RuleLook& look, std::uint32_t requests, std::uint64_t most) noexcept {
  const std::uint64_t weight = look.weight();
  const Grant grant = *look.grant;
  std::byte* const* const words = look.words.data();
  std::uint32_t lacking = 0;
  std::uint32_t plenty = 0;
  if ((look.granted & requests) != 0)
    for_each(requests, [&](std::size_t at) {
      const std::uint32_t left = RuleLook::left_in_grant(words[at], grant);
      lacking |= std::uint32_t{left < weight} << at;
      plenty |= std::uint32_t{left >= most} << at;
    });
  else
    for_each(requests, [&](std::size_t at) {
      const std::uint32_t ready = *reinterpret_cast<const std::uint32_t*>(words[at]);
      lacking |= std::uint32_t{!SpanTable::Lines::has(ready, weight)} << at;
      plenty |= std::uint32_t{SpanTable::Lines::has(ready, most)} << at;
    });
  look.lacking |= lacking;
  look.plenty |= plenty;
}

void WorkerCore::take_plenty(const RuleLook& look, std::uint32_t requests) noexcept {
  if (requests == 0) return;
  if (look.dense) {
    SpanTable::Lines::take(look.ready(0), look.weight() * static_cast<unsigned>(std::popcount(requests)));
    return;
  }
  for_each(requests & look.granted, [&](std::size_t at) { look.use_grant(at); });
  for_each(requests & ~look.granted,
           [&](std::size_t at) { SpanTable::Lines::take(look.ready(at), look.weight()); });
}

// @return false: a key of the request has not enough any more, and nothing has been taken
bool WorkerCore::take_one(std::span<const RuleLook> looks, std::size_t at) noexcept {
  const auto applies = [at](const RuleLook& look) { return (look.requests >> at & 1) != 0; };
  for (const RuleLook& look : looks)
    if (applies(look) && !look.has_enough(at)) return false;
  for (const RuleLook& look : looks)
    if (applies(look)) look.take(at);
  return true;
}

// Requests two of whose keys look alike in a table: they are told apart by who looks closer.
std::uint32_t WorkerCore::alike(std::span<const RuleLook> looks, std::uint32_t requests) noexcept {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < looks.size(); ++i)
    for (std::size_t earlier = 0; earlier < i; ++earlier) {
      if (looks[i].dense || looks[earlier].dense) continue;
      for_each(looks[i].requests & looks[earlier].requests & requests, [&](std::size_t at) {
        const bool equal = static_cast<std::uint32_t>(looks[i].of_rule->hashes[at]) ==
                           static_cast<std::uint32_t>(looks[earlier].of_rule->hashes[at]);
        found |= std::uint32_t{equal} << at;
      });
    }
  return found;
}

}  // namespace weir
