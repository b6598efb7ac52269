// SPDX-License-Identifier: BSD-3-Clause
// A burst under several rules: of each request all keys have enough ready, or nothing is taken. What each
// rule's keys have is found first, rule by rule, and then taken request by request: earlier ones of the burst
// may have used what there was, and nothing that has been taken can be put back, for it may have been counted
// at once.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "dataplane/chosen_hashes.h"
#include "dataplane/request_bits.h"
#include "dataplane/worker_core.h"

namespace weir {

/// What the keys of one rule have ready, for the requests of a burst.
struct WorkerCore::RuleLook {
  using Half = GrantTable::Lines::Half;

  const PlainKeys::OfRule* of_rule;
  const Grant* grant;
  std::uint32_t requests;  // bit i: the rule applies to it
  std::uint32_t granted;   // bit i: its word is one of the grants'; else of the entries
  bool dense;              // all requests' word is the first one
  std::array<std::byte*, PlainKeys::most_frames> words;  // by request: what its key has is there
  // That of a key that is nowhere, or must be looked at more closely.
  std::uint32_t nothing_ready;
  std::array<Half, 2> used_up;
  // See fill_up(); as bytes, because they stand for words of either table.
  alignas(
      std::uint32_t) std::array<std::array<std::byte, sizeof(std::uint32_t)>, PlainKeys::most_frames> enough;

  std::uint64_t weight() const noexcept { return grant->weight; }
  bool applies(std::size_t at) const noexcept { return (requests >> at & 1) != 0; }
  bool is_granted(std::size_t at) const noexcept { return (granted >> at & 1) != 0; }
  std::byte* word(std::size_t at) const noexcept { return words[dense ? 0 : at]; }
  Half& half(std::size_t at) const noexcept { return reinterpret_cast<Half*>(word(at))[grant->window.half]; }
  std::uint32_t& ready(std::size_t at) const noexcept { return *reinterpret_cast<std::uint32_t*>(word(at)); }
  std::byte* no_grant() noexcept { return reinterpret_cast<std::byte*>(used_up.data()); }

  /// Gives the other requests of a burst words, too, that have enough: so that nobody need ask to which of
  /// them the rule applies, which is not to be foreseen.
  void fill_up(std::uint32_t others) noexcept {
    if (others == 0) return;
    const std::uint32_t unused = grant->window.stamp << 16 | grant->window.stamp;  // in both halves
    const std::uint32_t word = granted != 0 ? unused : static_cast<std::uint32_t>(weight());
    for (auto& each : enough) std::memcpy(each.data(), &word, sizeof word);
    for_each(others, [&](std::size_t at) { words[at] = enough[at].data(); });
  }

  bool has(std::size_t at, std::uint64_t much) const noexcept {
    if (!is_granted(at)) return SpanTable::Lines::has(ready(at), much);
    const std::uint32_t used = GrantTable::Lines::used(half(at), grant->window);
    return used <= grant->most && much <= grant->most - used;
  }
  /// @pre has() as much
  void take(std::size_t at) const noexcept {
    if (is_granted(at))
      GrantTable::Lines::set(half(at), GrantTable::Lines::after_use(
                                           half(at), static_cast<std::uint32_t>(weight()), grant->window));
    else
      SpanTable::Lines::take(ready(at), weight());
  }
};

std::uint32_t WorkerCore::take_ready_of_all(std::uint32_t requests, Order order) noexcept {
  std::array<RuleLook, max_rules_per_request> looks;
  std::size_t count = 0;
  for (const PlainKeys::OfRule& of_rule : std::span(plain_.rules).first(plain_.rule_count))
    if ((of_rule.requests & requests) != 0) look_first(of_rule, requests, looks[count++]);
  const std::span all = std::span(looks).first(count);
  std::uint32_t taken = take_at_first_look(all, requests, order);
  if (taken != requests) [[unlikely]]
    taken |= take_at_second_look(all, requests & ~taken, order);
  for (const RuleLook& look : all) {
    const std::uint32_t admitted = taken & look.requests;
    if (admitted == 0) continue;
    count_admitted(look.of_rule->rule, static_cast<std::uint64_t>(std::popcount(admitted)));
    if ((admitted & look.granted) != 0) table_->counted_beside = true;
  }
  return taken;
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
  look.nothing_ready = 0;
  if (terms.dense) {
    std::uint32_t& ready = table_->lines().ready_at(
        table_->place_of_rule(of_rule.rule), rule_keys_[of_rule.rule], generation_, look.nothing_ready);
    look.words[0] = reinterpret_cast<std::byte*>(&ready);
    return;
  }
  for (RuleLook::Half& half : look.used_up)
    GrantTable::Lines::set(half, GrantTable::Lines::used_up(grant.window));
  // A weight of 0 is nobody's common case, and must not pass where the key has not been looked at.
  if (is_granted_first(of_rule.rule) && grant.weight - 1 < grant.most)
    look_in_grants(look, look.requests);
  else
    look_in_entries(look, look.requests);
}

void WorkerCore::look_in_grants(RuleLook& look, std::uint32_t requests) const noexcept {
  const ChosenHashes chosen(look.of_rule->hashes, requests);
  chosen.find(look.words,
              [&](std::byte** words) { grants_.lines().find(chosen.keys(), look.no_grant(), words); });
  look.granted |= requests;
  if (any_ungranted_)
    for_each(requests, [&](std::size_t at) {
      if (is_ungranted(look.of_rule->hashes[at])) look.words[at] = look.no_grant();
    });
}

void WorkerCore::look_in_entries(RuleLook& look, std::uint32_t requests) const noexcept {
  const ChosenHashes chosen(look.of_rule->hashes, requests);
  chosen.find(look.words, [&](std::byte** words) {
    table_->lines().find(chosen.keys(), generation_, look.nothing_ready, words);
  });
  look.granted &= ~requests;
}

std::uint32_t WorkerCore::take_at_first_look(std::span<RuleLook> looks, std::uint32_t requests,
                                             Order order) noexcept {
  const auto weight_of_all = [&](const RuleLook& look, std::uint32_t of) {
    return look.weight() * static_cast<unsigned>(std::popcount(of));
  };
  std::array<const RuleLook*, most_at_once> keyed;
  std::size_t count = 0;
  for (RuleLook& look : looks) {
    if (look.dense ? !look.has(0, weight_of_all(look, look.requests)) : count == most_at_once)
      return take_one_by_one(looks, requests, order);
    if (look.dense) continue;
    look.fill_up(requests & ~look.requests);
    keyed[count++] = &look;
  }
  std::uint32_t taken = requests;
  static_assert(most_at_once == 3);
  if (count == 1) taken = take_of_each<1>(keyed.data(), requests, order);
  if (count == 2) taken = take_of_each<2>(keyed.data(), requests, order);
  if (count == 3) taken = take_of_each<3>(keyed.data(), requests, order);
  for (const RuleLook& look : looks)
    if (const std::uint32_t own = look.requests & taken; look.dense && own != 0)
      SpanTable::Lines::take(look.ready(0), weight_of_all(look, own));
  return taken;
}

// A loop of its own for each number of rules, in which what it needs stays in registers.
template <std::size_t count>
std::uint32_t WorkerCore::take_of_each(const RuleLook* const* looks, std::uint32_t requests,
                                       Order order) noexcept {
  struct Column {
    std::byte* const* words;
    std::size_t half;  // in bytes from the word
    bool granted;
    std::uint32_t weight;
    std::uint32_t last;
    GrantWindow window;
  };
  std::array<Column, count> columns;
  for (std::size_t i = 0; i < count; ++i) {
    const Grant& grant = *looks[i]->grant;
    columns[i] = {looks[i]->words.data(),          grant.window.half * sizeof(RuleLook::Half),
                  looks[i]->granted != 0,          static_cast<std::uint32_t>(grant.weight),
                  grant.window.stamp + grant.most, grant.window};
  }
  std::uint32_t left = 0;
  for (std::uint32_t rest = requests; rest != 0; rest &= rest - 1) {
    const auto at = static_cast<std::size_t>(std::countr_zero(rest));
    std::array<std::uint32_t, count> after;
    const auto half = [&](std::size_t i) -> RuleLook::Half& {
      return *reinterpret_cast<RuleLook::Half*>(columns[i].words[at] + columns[i].half);
    };
    const auto ready = [&](std::size_t i) -> std::uint32_t& {
      return *reinterpret_cast<std::uint32_t*>(columns[i].words[at]);
    };
    bool enough = true;
    for (std::size_t i = 0; i < count; ++i) {
      const Column& column = columns[i];
      if (column.granted) {
        after[i] = GrantTable::Lines::after_use(half(i), column.weight, column.window);
        enough &= after[i] <= column.last;
      } else {
        after[i] = ready(i) - column.weight;
        enough &= SpanTable::Lines::has(ready(i), column.weight);
      }
      for (std::size_t earlier = 0; earlier < i; ++earlier)
        enough &= column.words[at] != columns[earlier].words[at];
    }
    if (enough) [[likely]] {
      for (std::size_t i = 0; i < count; ++i) {
        if (columns[i].granted)
          GrantTable::Lines::set(half(i), after[i]);
        else
          ready(i) = after[i];
      }
      continue;
    }
    if (order == Order::kept) {
      left |= rest;
      break;
    }
    left |= std::uint32_t{1} << at;
  }
  return requests & ~left;
}

// Keys that lack anything where they are looked for first are looked for in the other table.
std::uint32_t WorkerCore::take_at_second_look(std::span<RuleLook> looks, std::uint32_t requests,
                                              Order order) noexcept {
  for (RuleLook& look : looks) {
    Grant& grant = rule_grants_[look.of_rule->rule];
    if (look.dense || grant.weight - 1 >= grant.most) continue;
    std::uint32_t lacking = 0;
    for_each(look.requests & requests,
             [&](std::size_t at) { lacking |= std::uint32_t{!look.has(at, look.weight())} << at; });
    // As admit_run_of_keys() has it.
    const int all = std::popcount(look.requests);
    const int few = all / 8;
    const int found = all - std::popcount(lacking);
    if (!grant.entries_first) {
      grant.entries_first = found <= few;
      for_each(lacking,
               [&](std::size_t at) { prefetch_beyond_grant(look.of_rule->hashes[at], look.of_rule->rule); });
      look_in_entries(look, lacking);
    } else {
      grant.entries_first = all - found <= few;
      look_in_grants(look, lacking);
    }
  }
  const std::uint32_t taken = take_one_by_one(looks, requests, order);
  // Only now: what is lent is not ready any more.
  for (const RuleLook& look : looks)
    for_each(look.dense ? 0 : taken & look.requests & ~look.granted, [&](std::size_t at) {
      lend(table_->lines().place_of(look.ready(at)), look.of_rule->hashes[at],
           rule_grants_[look.of_rule->rule]);
    });
  return taken;
}

// In any order all that have enough. Else whoever comes behind one that lacks something neither takes what
// that one needs nor needs what another such one takes: all that a burst may take of all its keys together is
// there, whichever of them may turn out to share a place.
std::uint32_t WorkerCore::take_one_by_one(std::span<const RuleLook> looks, std::uint32_t requests,
                                          Order order) noexcept {
  // Each request's own: where there are many rules most apply to few.
  std::array<std::array<std::uint8_t, max_rules_per_request>, PlainKeys::most_frames> of_request;
  std::array<std::uint8_t, PlainKeys::most_frames> counts{};
  std::uint64_t plenty = 0;
  for (std::size_t i = 0; i < looks.size(); ++i) {
    plenty += PlainKeys::most_frames * looks[i].weight();
    for_each(looks[i].requests & requests,
             [&](std::size_t at) { of_request[at][counts[at]++] = static_cast<std::uint8_t>(i); });
  }
  std::uint32_t taken = 0;
  bool some_wait = false;
  for_each(requests, [&](std::size_t at) {
    const std::span own = std::span(of_request[at]).first(counts[at]);
    bool enough = true;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const RuleLook& look = looks[own[i]];
      enough &= look.has(at, some_wait ? std::max(plenty, look.weight()) : look.weight());
      // Two keys that look alike in a table are told apart by who looks closer.
      for (std::size_t earlier = 0; earlier < i; ++earlier)
        enough &= look.word(at) != looks[own[earlier]].word(at);
    }
    if (!enough) {
      some_wait = order == Order::kept;
      return;
    }
    for (const std::uint8_t i : own) looks[i].take(at);
    taken |= std::uint32_t{1} << at;
  });
  return taken;
}

}  // namespace weir
