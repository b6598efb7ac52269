// SPDX-License-Identifier: BSD-3-Clause
// The common case of a packet pipeline: a burst of plain frames, whose requests have enough ready of all
// their keys. In passes over the burst: find and hash, ask for all lines, then take. Whatever lacks anything
// is left as it was, to who lays a request out.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/worker_core.h"

namespace weir {
namespace {

template <typename Visit>
[[gnu::always_inline]] inline void for_each(std::uint32_t requests, Visit&& visit) noexcept {
  for (; requests != 0; requests &= requests - 1) visit(static_cast<std::size_t>(std::countr_zero(requests)));
}

}  // namespace

std::uint32_t WorkerCore::admit_plain(std::span<const PlainFrame> frames) noexcept {
  catch_up();
  if (publication_ == nullptr) return 0;
  plane_.classifier.plain().classify(frames, key_hash_, plain_);
  if (plain_.requests == 0) return 0;
  for (std::size_t i = 0; i < plain_.rule_count; ++i) {
    PlainKeys::OfRule& of_rule = plain_.rules[i];
    of_rule.requests &= plain_.requests;
    if (plane_.terms[of_rule.rule].dense) continue;
    const bool granted = rule_grants_[of_rule.rule].most > 0 && !rule_grants_[of_rule.rule].entries_first;
    for_each(of_rule.requests, [&](std::size_t at) {
      const std::uint64_t key = number_of(of_rule.hashes[at]);
      of_rule.hashes[at] = key;
      if (granted)
        grants_.prefetch(key);
      else
        table_->prefetch(key);
    });
  }
  if (plain_.rule_count == 1) return take_ready_of_rule(plain_.rules[0], plain_.requests);
  return take_ready_of_all(plain_.requests);
}

// Under the only rule there is. Loops of their own: what they need fits into registers.
std::uint32_t WorkerCore::take_ready_of_rule(const PlainKeys::OfRule& of_rule,
                                             std::uint32_t requests) noexcept {
  const RuleIndex rule = of_rule.rule;
  const std::uint32_t all = of_rule.requests;
  Grant& grant = rule_grants_[rule];
  std::uint32_t taken = 0;
  // A weight of 0 is nobody's common case, and must not pass where the key has not been looked at.
  if (plane_.terms[rule].dense || std::uint64_t{plane_.terms[rule].weight} - 1 >= grant.most) {
    taken = take_from_entries(of_rule, all, false);
  } else {
    // As admit_run() has it.
    const int few = std::popcount(all) / 8;
    const auto ask_again = [&](auto&& table) {
      for_each(all & ~taken, [&](std::size_t at) { table.prefetch(of_rule.hashes[at]); });
    };
    if (grant.entries_first) {
      taken = take_from_entries(of_rule, all, false);
      grant.entries_first = std::popcount(all & ~taken) <= few;
      ask_again(grants_);
      if (taken != all) taken |= take_from_grants(of_rule, all & ~taken);
    } else {
      taken = take_from_grants(of_rule, all);
      grant.entries_first = std::popcount(taken) <= few;
      ask_again(*table_);
      if (taken != all) taken |= take_from_entries(of_rule, all & ~taken, true);
    }
  }
  if (taken != 0) count_admitted(rule, static_cast<std::uint64_t>(std::popcount(taken)));
  return taken | (requests & ~all);  // none but rules that apply can refuse
}

std::uint32_t WorkerCore::take_from_grants(const PlainKeys::OfRule& of_rule,
                                           std::uint32_t requests) noexcept {
  const Grant grant = rule_grants_[of_rule.rule];
  const std::uint32_t weight = plane_.terms[of_rule.rule].weight;
  const GrantTable::Lines lines = grants_.lines();
  const bool some_ungranted = any_ungranted_;
  GrantTable::Lines::Half used_up = lines.used_up(grant.window);
  std::array<GrantTable::Lines::Half*, PlainKeys::most_frames> halves;
  for_each(requests, [&](std::size_t at) {
    halves[at] = some_ungranted && is_ungranted(of_rule.hashes[at])
                     ? &used_up
                     : &lines.half_of(of_rule.hashes[at], grant.window, used_up);
  });
  std::uint32_t taken = 0;
  for_each(requests, [&](std::size_t at) {
    const bool used = lines.use(*halves[at], weight, grant.most, grant.window);
    taken |= std::uint32_t{used} << at;
  });
  if (taken != 0) table_->counted_beside = true;
  return taken;
}

std::uint32_t WorkerCore::take_from_entries(const PlainKeys::OfRule& of_rule, std::uint32_t requests,
                                            bool lends) noexcept {
  const RuleTerms& terms = plane_.terms[of_rule.rule];
  const std::uint64_t weight = terms.weight;
  const std::uint32_t generation = generation_;
  const SpanTable::Lines lines = table_->lines();
  std::uint32_t taken = 0;
  for_each(requests, [&](std::size_t at) {
    std::uint32_t nothing = 0;
    SpanTable::Place place;
    std::uint32_t& word = terms.dense ? lines.ready_at(table_->place_of_rule(of_rule.rule),
                                                       rule_keys_[of_rule.rule], generation, nothing)
                                      : lines.ready_of(of_rule.hashes[at], generation, nothing, place);
    const bool ready = lines.take(word, weight);
    if (lends && ready) lend(lines.place_of(word), of_rule.hashes[at], rule_grants_[of_rule.rule]);
    taken |= std::uint32_t{ready} << at;
  });
  return taken;
}

// Under several rules: all of a request's keys have enough ready, or nothing is taken. First all keys are
// found, rule by rule. As a rule each has enough for whatever a burst may take of it, and then it is taken
// rule by rule, too; of the others each request looks once more, for earlier ones of the burst may have used
// what it found.
std::uint32_t WorkerCore::take_ready_of_all(std::uint32_t requests) noexcept {
  std::uint32_t ready = requests;
  std::array<PlainColumn, max_rules_per_request> columns;
  const std::span<PlainColumn> all = std::span(columns).first(plain_.rule_count);
  // All requests of a burst take so much of all their keys together, whichever may turn out to share a place.
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    most += PlainKeys::most_frames * std::uint64_t{plane_.terms[plain_.rules[i].rule].weight};
  for (std::size_t i = 0; i < all.size(); ++i) ready &= find_places(plain_.rules[i], most, all[i]);
  ready &= ~alike(all);
  std::uint32_t taken = ready;
  for (const PlainColumn& column : all) taken &= column.plenty | ~column.requests;
  for (const PlainColumn& column : all) take_plenty(column, taken & column.requests);
  // Only now: what is lent is not ready any more, and a key that has plenty has it for the whole burst.
  for (const PlainColumn& column : all)
    if (!column.dense)
      for_each(taken & column.requests & ~column.granted,
               [&](std::size_t at) { lend(column.places[at], column.hashes[at], column.grant); });
  for_each(ready & ~taken, [&](std::size_t at) { taken |= std::uint32_t{take_ready_in(all, at)} << at; });
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint32_t admitted = taken & all[i].requests;
    if (admitted != 0)
      count_admitted(plain_.rules[i].rule, static_cast<std::uint64_t>(std::popcount(admitted)));
    if ((admitted & all[i].granted) != 0) table_->counted_beside = true;
  }
  return taken;
}

// Where a rule's keys are, and which of them have `most` ready. @return the requests that the rule may let
// pass, or has nothing to do with
std::uint32_t WorkerCore::find_places(const PlainKeys::OfRule& of_rule, std::uint64_t most,
                                      PlainColumn& column) const noexcept {
  const RuleTerms& terms = plane_.terms[of_rule.rule];
  column.weight = terms.weight;
  column.grant = rule_grants_[of_rule.rule];
  column.requests = of_rule.requests;
  column.hashes = of_rule.hashes.data();
  column.granted = 0;
  column.plenty = 0;
  column.dense = terms.dense;
  if (terms.dense) {
    column.dense_key = rule_keys_[of_rule.rule];
    column.places[0] = table_->place_of_rule(of_rule.rule);
    if (table_->has_ready(column.places[0], column.dense_key, most, generation_))
      column.plenty = ~std::uint32_t{0};
    return ~std::uint32_t{0};
  }
  const Grant grant = column.grant;
  std::uint32_t found = 0;
  std::uint32_t others = of_rule.requests;
  if (column.weight - 1 < grant.most) {
    const GrantTable::Lines lines = grants_.lines();
    const bool some_ungranted = any_ungranted_;
    for_each(of_rule.requests, [&](std::size_t at) { column.places[at] = lines.locate(of_rule.hashes[at]); });
    for_each(of_rule.requests, [&](std::size_t at) {
      const GrantTable::Place place = column.places[at];
      const std::uint32_t left = place != GrantTable::nowhere ? left_of(grant, place) : 0;
      const bool granted = column.weight <= left && !(some_ungranted && is_ungranted(of_rule.hashes[at]));
      column.granted |= std::uint32_t{granted} << at;
      column.plenty |= std::uint32_t{granted && most <= left} << at;
    });
    others &= ~column.granted;
    for_each(others, [&](std::size_t at) { table_->prefetch(of_rule.hashes[at]); });
  }
  for_each(others, [&](std::size_t at) {
    const SpanTable::Place place = table_->locate(of_rule.hashes[at]);
    column.places[at] = place;
    if (place == SpanTable::nowhere) return;
    found |= std::uint32_t{1} << at;
    const bool plenty = table_->has_ready(place, of_rule.hashes[at], most, generation_);
    column.plenty |= std::uint32_t{plenty} << at;
  });
  return found | column.granted | ~of_rule.requests;
}

// @param requests  whose keys of this rule have plenty
void WorkerCore::take_plenty(const PlainColumn& column, std::uint32_t requests) noexcept {
  if (requests == 0) return;
  if (column.dense) {
    table_->take_ready(column.places[0], column.weight * static_cast<unsigned>(std::popcount(requests)));
    return;
  }
  for_each(requests & column.granted, [&](std::size_t at) {
    grants_.use(column.places[at], static_cast<std::uint32_t>(column.weight), column.grant.window);
  });
  for_each(requests & ~column.granted,
           [&](std::size_t at) { table_->take_ready(column.places[at], column.weight); });
}

// Requests two of whose keys may look alike in a table: they are told apart by who looks closer.
std::uint32_t WorkerCore::alike(std::span<const PlainColumn> columns) noexcept {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < columns.size(); ++i)
    for (std::size_t earlier = 0; earlier < i; ++earlier) {
      if (columns[i].dense || columns[earlier].dense) continue;
      for_each(columns[i].requests & columns[earlier].requests, [&](std::size_t at) {
        const bool equal = static_cast<std::uint32_t>(columns[i].hashes[at]) ==
                           static_cast<std::uint32_t>(columns[earlier].hashes[at]);
        found |= std::uint32_t{equal} << at;
      });
    }
  return found;
}

// As take_ready(), for a request of a burst of plain frames.
bool WorkerCore::take_ready_in(std::span<const PlainColumn> columns, std::size_t at) noexcept {
  const auto applies = [&](const PlainColumn& column) { return (column.requests >> at & 1) != 0; };
  const auto is_granted = [&](const PlainColumn& column) { return (column.granted >> at & 1) != 0; };
  const auto place_in = [&](const PlainColumn& column) { return column.places[column.dense ? 0 : at]; };
  for (const PlainColumn& column : columns) {
    if (!applies(column)) continue;
    const std::uint32_t place = place_in(column);
    if (is_granted(column)) {
      if (column.weight > left_of(column.grant, place)) return false;
    } else if (!table_->has_ready(place, column.dense ? column.dense_key : column.hashes[at], column.weight,
                                  generation_)) {
      return false;
    }
  }
  for (const PlainColumn& column : columns) {
    if (!applies(column)) continue;
    if (is_granted(column))
      grants_.use(place_in(column), static_cast<std::uint32_t>(column.weight), column.grant.window);
    else
      table_->take_ready(place_in(column), column.weight);
  }
  return true;
}

}  // namespace weir
