// SPDX-License-Identifier: BSD-3-Clause
// The common case of a packet pipeline: a burst of plain frames, whose requests have enough ready of all
// their keys. In passes over the burst: find and hash, ask for all lines, then take. Whatever lacks anything
// is left as it was, to who lays a request out.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/request_bits.h"
#include "dataplane/worker_core.h"

namespace weir {
namespace {

/// The hashes of some of a burst's requests in a row: nearly always all, and then where they are.
class Chosen {
 public:
  using OfBurst = std::array<std::uint64_t, PlainKeys::most_frames>;

  Chosen(const OfBurst& hashes, std::uint32_t requests) noexcept
      : keys_(Hashes::alone(hashes.data(), static_cast<std::size_t>(std::popcount(requests)))),
        all_(requests == (std::uint64_t{1} << keys_.count) - 1) {
    if (all_) [[likely]]
      return;
    std::size_t next = 0;
    for_each(requests, [&](std::size_t at) {
      hashes_[next] = hashes[at];
      requests_[next++] = static_cast<std::uint8_t>(at);
    });
    keys_ = Hashes::alone(hashes_.data(), next);
  }
  Chosen(const Chosen&) = delete;
  Chosen& operator=(const Chosen&) = delete;

  const Hashes& keys() const noexcept { return keys_; }
  std::size_t request(std::size_t i) const noexcept { return all_ ? i : requests_[i]; }

 private:
  Hashes keys_;
  bool all_;
  OfBurst hashes_;  // where they are not all
  std::array<std::uint8_t, PlainKeys::most_frames> requests_;
};

}  // namespace

std::uint32_t WorkerCore::admit_plain(std::span<const PlainFrame> frames,
                                      std::span<const PlainFrame> next) noexcept {
  catch_up();
  if (publication_ == nullptr) return 0;
  plane_.classifier.plain().classify(frames, key_hash_, plain_, next);
  if (plain_.requests == 0) return 0;
  for (std::size_t i = 0; i < plain_.rule_count; ++i) {
    PlainKeys::OfRule& of_rule = plain_.rules[i];
    of_rule.requests &= plain_.requests;
    if (plane_.terms[of_rule.rule].dense) continue;
    const bool granted = is_granted_first(of_rule.rule);
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
  return take_ready_of_all(plain_.requests, Order::any);
}

// Under the only rule there is. Loops of their own: what they need fits into registers.
std::uint32_t WorkerCore::take_ready_of_rule(const PlainKeys::OfRule& of_rule,
                                             std::uint32_t requests) noexcept {
  const RuleIndex rule = of_rule.rule;
  const std::uint32_t all = of_rule.requests;
  Grant& grant = rule_grants_[rule];
  std::uint32_t taken = 0;
  // A weight of 0 is nobody's common case, and must not pass where the key has not been looked at.
  if (plane_.terms[rule].dense) {
    taken = take_dense(rule, all);
  } else if (std::uint64_t{plane_.terms[rule].weight} - 1 >= grant.most) {
    taken = take_from_entries(of_rule, all, false);
  } else {
    // As admit_run() has it.
    const int few = std::popcount(all) / 8;
    const auto ask_for_others = [&](auto&& ask) {
      for_each(all & ~taken, [&](std::size_t at) { ask(of_rule.hashes[at]); });
    };
    if (grant.entries_first) {
      taken = take_from_entries(of_rule, all, false);
      grant.entries_first = std::popcount(all & ~taken) <= few;
      ask_for_others([&](std::uint64_t key) { grants_.prefetch(key); });
      if (taken != all) taken |= take_from_grants(of_rule, all & ~taken);
    } else {
      taken = take_from_grants(of_rule, all);
      grant.entries_first = std::popcount(taken) <= few;
      ask_for_others([&](std::uint64_t key) { prefetch_beyond_grant(key, rule); });
      if (taken != all) taken |= take_from_entries(of_rule, all & ~taken, true);
    }
  }
  if (taken != 0) count_admitted(rule, static_cast<std::uint64_t>(std::popcount(taken)));
  return taken | (requests & ~all);  // none but rules that apply can refuse
}

// Of a rule's keys, those of requests. @param serve  called with their hashes and room for the numbers of
// those that are left; their count. @return those of the requests whose keys are not
std::uint32_t WorkerCore::served(const PlainKeys::OfRule& of_rule, std::uint32_t requests,
                                 auto&& serve) noexcept {
  const Chosen chosen(of_rule.hashes, requests);
  std::array<std::uint8_t, PlainKeys::most_frames> left;
  const std::size_t count = serve(chosen.keys(), left.data());
  std::uint32_t others = 0;
  for (std::size_t i = 0; i < count; ++i) others |= std::uint32_t{1} << chosen.request(left[i]);
  return requests & ~others;
}

std::uint32_t WorkerCore::take_from_grants(const PlainKeys::OfRule& of_rule,
                                           std::uint32_t requests) noexcept {
  return served(of_rule, requests, [&](const Hashes& keys, std::uint8_t* left) {
    return use_grants(of_rule.rule, keys, Hashes::none(), plane_.terms[of_rule.rule].weight, left);
  });
}

std::uint32_t WorkerCore::take_from_entries(const PlainKeys::OfRule& of_rule, std::uint32_t requests,
                                            bool lends) noexcept {
  return served(of_rule, requests, [&](const Hashes& keys, std::uint8_t* left) {
    return take_from_entries(of_rule.rule, keys, Hashes::none(), plane_.terms[of_rule.rule].weight, lends,
                             left);
  });
}

std::uint32_t WorkerCore::take_dense(RuleIndex rule, std::uint32_t requests) noexcept {
  const SpanTable::Lines lines = table_->lines();
  const std::uint64_t weight = plane_.terms[rule].weight;
  std::uint32_t nothing = 0;
  std::uint32_t& ready = lines.ready_at(table_->place_of_rule(rule), rule_keys_[rule], generation_, nothing);
  std::uint32_t taken = 0;
  for_each(requests, [&](std::size_t at) { taken |= std::uint32_t{lines.take(ready, weight)} << at; });
  return taken;
}

// Under several rules: all of a request's keys have enough ready, or nothing is taken. First all keys are
// found, rule by rule. As a rule each has enough for whatever a burst may take of it, and then it is taken
// rule by rule, too; of the others each request looks once more, for earlier ones of the burst may have used
// what it found.
std::uint32_t WorkerCore::take_ready_of_all(std::uint32_t requests, Order order) noexcept {
  std::uint32_t ready = requests;
  std::array<PlainColumn, max_rules_per_request> columns;
  const std::span<PlainColumn> all = std::span(columns).first(plain_.rule_count);
  // All requests of a burst take so much of all their keys together, whichever may turn out to share a place.
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    most += PlainKeys::most_frames * std::uint64_t{plane_.terms[plain_.rules[i].rule].weight};
  for (std::size_t i = 0; i < all.size(); ++i) ready &= find_words(plain_.rules[i], most, all[i]);
  ready &= ~alike(all);
  std::uint32_t taken = ready;
  for (const PlainColumn& column : all) taken &= column.plenty | ~column.requests;
  for (const PlainColumn& column : all) take_plenty(column, taken & column.requests);
  // Only now: what is lent is not ready any more, and a key that has plenty has it for the whole burst.
  for (const PlainColumn& column : all)
    if (!column.dense)
      for_each(taken & column.requests & ~column.granted, [&](std::size_t at) {
        const auto& word = *reinterpret_cast<const std::uint32_t*>(column.words[at]);
        lend(table_->lines().place_of(word), column.hashes[at], column.grant);
      });
  std::uint32_t others = ready & ~taken;
  // Who has plenty of all his keys neither takes what another one needs nor needs what another one takes; of
  // the others none goes before one that waits.
  if (order == Order::kept) others &= before_first(requests & ~ready);
  for (; others != 0; others &= others - 1) {
    const auto at = static_cast<std::size_t>(std::countr_zero(others));
    if (take_ready_in(all, at))
      taken |= std::uint32_t{1} << at;
    else if (order == Order::kept)
      break;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint32_t admitted = taken & all[i].requests;
    if (admitted != 0)
      count_admitted(plain_.rules[i].rule, static_cast<std::uint64_t>(std::popcount(admitted)));
    if ((admitted & all[i].granted) != 0) table_->counted_beside = true;
  }
  return taken;
}

// Where what a rule's keys have ready is, and which of them have `most`. @return the requests that the rule
// may let pass, or has nothing to do with
std::uint32_t WorkerCore::find_words(const PlainKeys::OfRule& of_rule, std::uint64_t most,
                                     PlainColumn& column) const noexcept {
  const RuleTerms& terms = plane_.terms[of_rule.rule];
  const SpanTable::Lines entries = table_->lines();
  column.weight = terms.weight;
  column.grant = rule_grants_[of_rule.rule];
  column.requests = of_rule.requests;
  column.hashes = of_rule.hashes.data();
  column.granted = 0;
  column.plenty = 0;
  column.dense = terms.dense;
  std::uint32_t nothing = 0;
  if (terms.dense) {
    std::uint32_t& ready =
        entries.ready_at(table_->place_of_rule(of_rule.rule), rule_keys_[of_rule.rule], generation_, nothing);
    column.words[0] = reinterpret_cast<std::byte*>(&ready);
    if (entries.has(ready, most)) column.plenty = ~std::uint32_t{0};
    return &ready != &nothing ? ~std::uint32_t{0} : ~of_rule.requests;
  }
  std::uint32_t others = of_rule.requests;
  std::array<std::byte*, PlainKeys::most_frames> words;
  if (column.weight - 1 < column.grant.most) {
    const Grant grant = column.grant;
    const bool some_ungranted = any_ungranted_;
    const Chosen chosen(of_rule.hashes, others);
    grants_.lines().find(chosen.keys(), nullptr, words.data());
    for (std::size_t i = 0; i < chosen.keys().count; ++i) {
      if (words[i] == nullptr || (some_ungranted && is_ungranted(chosen.keys()[i]))) [[unlikely]]
        continue;
      const std::size_t at = chosen.request(i);
      const std::uint32_t left = left_of(grant, words[i]);
      column.words[at] = words[i];
      column.granted |= std::uint32_t{column.weight <= left} << at;
      column.plenty |= std::uint32_t{most <= left} << at;
    }
    others &= ~column.granted;
    if (others == 0) return ~std::uint32_t{0};
    for_each(others, [&](std::size_t at) { prefetch_beyond_grant(of_rule.hashes[at], of_rule.rule); });
  }
  std::uint32_t found = 0;
  const Chosen chosen(of_rule.hashes, others);
  entries.find(chosen.keys(), generation_, nothing, words.data());
  for (std::size_t i = 0; i < chosen.keys().count; ++i) {
    const auto& ready = *reinterpret_cast<const std::uint32_t*>(words[i]);
    const std::size_t at = chosen.request(i);
    const bool is_there = &ready != &nothing;
    column.words[at] = is_there ? words[i] : nullptr;
    found |= std::uint32_t{is_there} << at;
    column.plenty |= std::uint32_t{entries.has(ready, most)} << at;
  }
  return found | column.granted | ~of_rule.requests;
}

// @param requests  whose keys of this rule have plenty
void WorkerCore::take_plenty(const PlainColumn& column, std::uint32_t requests) noexcept {
  if (requests == 0) return;
  if (column.dense) {
    take_from(column, 0, column.weight * static_cast<unsigned>(std::popcount(requests)));
    return;
  }
  for_each(requests & column.granted, [&](std::size_t at) { use_grant(column, at); });
  for_each(requests & ~column.granted, [&](std::size_t at) { take_from(column, at, column.weight); });
}

// @pre there is as much
void WorkerCore::use_grant(const PlainColumn& column, std::size_t at) noexcept {
  auto* const halves = reinterpret_cast<GrantTable::Lines::Half*>(column.words[at]);
  GrantTable::Lines::use(halves[column.grant.window.half], static_cast<std::uint32_t>(column.weight),
                         column.grant.most, column.grant.window);
}
void WorkerCore::take_from(const PlainColumn& column, std::size_t at, std::uint64_t weight) noexcept {
  SpanTable::Lines::take(*reinterpret_cast<std::uint32_t*>(column.words[at]), weight);
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
  const auto word_in = [&](const PlainColumn& column) -> std::size_t { return column.dense ? 0 : at; };
  for (const PlainColumn& column : columns) {
    if (!applies(column)) continue;
    std::byte* const word = column.words[word_in(column)];
    const bool enough = is_granted(column)
                            ? column.weight <= left_of(column.grant, word)
                            : SpanTable::Lines::has(*reinterpret_cast<std::uint32_t*>(word), column.weight);
    if (!enough) return false;
  }
  for (const PlainColumn& column : columns) {
    if (!applies(column)) continue;
    if (is_granted(column))
      use_grant(column, at);
    else
      take_from(column, word_in(column), column.weight);
  }
  return true;
}

}  // namespace weir
