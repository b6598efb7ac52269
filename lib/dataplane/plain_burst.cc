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
    const bool granted = rule_grants_[of_rule.rule].most > 0;
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

// Under the only rule there is. A loop of its own: what it needs fits into registers.
std::uint32_t WorkerCore::take_ready_of_rule(const PlainKeys::OfRule& of_rule,
                                             std::uint32_t requests) noexcept {
  const RuleIndex rule = of_rule.rule;
  const RuleTerms& terms = plane_.terms[rule];
  const std::uint64_t weight = terms.weight;
  const std::uint32_t generation = generation_;
  const SpanTable::Lines table = table_->lines();
  std::uint32_t taken = 0;
  std::uint32_t others = of_rule.requests;
  // A weight of 0 is nobody's common case, and must not pass where the key has not been looked at.
  if (const Grant grant = rule_grants_[rule]; weight - 1 < grant.most && !terms.dense) {
    const GrantTable::Lines lines = grants_.lines();
    GrantTable::Lines::Half used_up = lines.used_up(grant.window);
    for_each(of_rule.requests, [&](std::size_t at) {
      const std::uint64_t key = of_rule.hashes[at];
      GrantTable::Lines::Half& half = lines.half_of(key, grant.window, used_up);
      const bool used =
          !is_ungranted(key) && lines.use(half, static_cast<std::uint32_t>(weight), grant.most, grant.window);
      taken |= std::uint32_t{used} << at;
    });
    if (taken != 0) table_->counted_beside = true;
    others &= ~taken;
    for_each(others, [&](std::size_t at) { table_->prefetch(of_rule.hashes[at]); });
  }
  for_each(others, [&](std::size_t at) {
    std::uint32_t nothing = 0;
    SpanTable::Place place;
    const bool ready = table.take(
        terms.dense ? table.ready_at(table_->place_of_rule(rule), rule_keys_[rule], generation, nothing)
                    : table.ready_of(of_rule.hashes[at], generation, nothing, place),
        weight);
    taken |= std::uint32_t{ready} << at;
  });
  if (taken != 0) count_admitted(rule, static_cast<std::uint64_t>(std::popcount(taken)));
  return taken | (requests & ~of_rule.requests);  // none but rules that apply can refuse
}

// Under several rules: all of a request's keys have enough ready, or nothing is taken. First all keys are
// found, rule by rule; then each request looks once more, for earlier ones of the burst may have used what it
// found.
std::uint32_t WorkerCore::take_ready_of_all(std::uint32_t requests) noexcept {
  std::uint32_t ready = requests;
  std::array<PlainColumn, max_rules_per_request> columns;
  for (std::size_t i = 0; i < plain_.rule_count; ++i) ready &= find_places(plain_.rules[i], columns[i]);
  const std::span<const PlainColumn> all = std::span(columns).first(plain_.rule_count);
  ready &= ~alike(all);
  std::uint32_t taken = 0;
  for_each(ready, [&](std::size_t at) { taken |= std::uint32_t{take_ready_in(all, at)} << at; });
  for (std::size_t i = 0; i < plain_.rule_count; ++i) {
    const std::uint32_t admitted = taken & plain_.rules[i].requests;
    if (admitted != 0)
      count_admitted(plain_.rules[i].rule, static_cast<std::uint64_t>(std::popcount(admitted)));
    if ((admitted & columns[i].granted) != 0) table_->counted_beside = true;
  }
  return taken;
}

// Where a rule's keys are. @return the requests that the rule may let pass, or has nothing to do with
std::uint32_t WorkerCore::find_places(const PlainKeys::OfRule& of_rule, PlainColumn& column) const noexcept {
  const RuleTerms& terms = plane_.terms[of_rule.rule];
  column.weight = terms.weight;
  column.grant = rule_grants_[of_rule.rule];
  column.requests = of_rule.requests;
  column.hashes = of_rule.hashes.data();
  column.granted = 0;
  std::uint32_t found = 0;
  if (terms.dense) {
    column.dense_key = rule_keys_[of_rule.rule];
    column.dense = true;
    column.places[0] = table_->place_of_rule(of_rule.rule);
    return ~std::uint32_t{0};
  }
  column.dense = false;
  std::uint32_t others = of_rule.requests;
  if (terms.weight - 1 < column.grant.most) {
    const GrantTable::Lines lines = grants_.lines();
    for_each(of_rule.requests, [&](std::size_t at) {
      const std::uint64_t key = of_rule.hashes[at];
      const GrantTable::Place place = lines.locate(key);
      column.places[at] = place;
      const bool granted =
          place != GrantTable::nowhere && terms.weight <= left_of(column.grant, place) && !is_ungranted(key);
      column.granted |= std::uint32_t{granted} << at;
    });
    others &= ~column.granted;
    for_each(others, [&](std::size_t at) { table_->prefetch(of_rule.hashes[at]); });
  }
  for_each(others, [&](std::size_t at) {
    column.places[at] = table_->locate(of_rule.hashes[at]);
    found |= std::uint32_t{column.places[at] != SpanTable::nowhere} << at;
  });
  return found | column.granted | ~of_rule.requests;
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
