// SPDX-License-Identifier: BSD-3-Clause
// The common case of a packet pipeline: a burst of plain frames, whose requests have enough ready of all
// their keys. In passes over the burst: find and hash, ask for all lines, then take. Whatever lacks anything
// is left as it was, to decide_plain() (plain_decisions.cc), or to who lays a request out.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/chosen_hashes.h"
#include "dataplane/request_bits.h"
#include "dataplane/worker_core.h"

namespace weir {
namespace {

/// Numbers keys, and asks for their lines.
template <typename Lines>
void ask_for(PlainKeys::OfRule& of_rule, const Lines& lines) noexcept {
  const std::uint32_t requests = of_rule.requests;
  // Nearly always all, without a gap.
  if (requests == first_requests(static_cast<std::size_t>(std::popcount(requests)))) [[likely]]
    return lines.ask_for(of_rule.hashes.data(), static_cast<std::size_t>(std::popcount(requests)));
  for_each(requests, [&](std::size_t at) {
    const std::uint64_t key = number_of_key(of_rule.hashes[at]);
    of_rule.hashes[at] = key;
    lines.prefetch(key);
  });
}

}  // namespace

std::uint32_t WorkerCore::admit_plain(std::span<const PlainFrame> frames,
                                      std::span<const PlainFrame> next) noexcept {
  forget_plain();
  catch_up();
  if (publication_ == nullptr) return 0;
  plane_.classifier.plain().classify(frames, key_hash_, plain_, next);
  if (plain_.requests == 0) return 0;
  for (std::size_t i = 0; i < plain_.rule_count; ++i) {
    PlainKeys::OfRule& of_rule = plain_.rules[i];
    of_rule.requests &= plain_.requests;
    if (plane_.terms[of_rule.rule].dense) continue;
    if (is_granted_first(of_rule.rule) && !refusals_first_.is_other())
      ask_for(of_rule, grants_.lines());
    else
      ask_for(of_rule, table_->lines());
  }
  // In a flood of what is refused, all is decide_plain()'s: who asks for that had better not be kept waiting.
  const std::uint32_t taken = refusals_first_.is_other() ? 0 : take_ready_plain(plain_.requests);
  plain_left_ = plain_.requests & ~taken;
  // Of what is left decide_plain() learns it.
  if (plain_left_ == 0) refusals_first_.learn(false);
  plain_frames_ = frames;
  return taken;
}

// What decide_plain() has not been asked about. Who does not ask gets all he can get from admit_plain().
void WorkerCore::forget_plain() noexcept {
  if (std::exchange(plain_left_, 0) != 0) refusals_first_ = {};
}

std::uint32_t WorkerCore::take_ready_plain(std::uint32_t requests) noexcept {
  if (requests == 0) return 0;
  if (plain_.rule_count == 0) return requests;  // as take_ready_of_all() has it, in fewer steps
  return plain_.rule_count == 1 ? take_ready_of_rule(plain_.rules[0], requests)
                                : take_ready_of_all(requests, Order::any);
}

// Under the only rule that applies to any of them. Loops of their own: what they need fits into registers.
std::uint32_t WorkerCore::take_ready_of_rule(const PlainKeys::OfRule& of_rule,
                                             std::uint32_t requests) noexcept {
  const RuleIndex rule = of_rule.rule;
  const std::uint32_t all = of_rule.requests & requests;
  if (all == 0) return requests;  // of which nothing is to be learned
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
    if (grant.entries_first.is_other()) {
      taken = take_from_entries(of_rule, all, false);
      learn_entries_first(rule, std::popcount(all & ~taken) <= few);
      ask_for_others([&](std::uint64_t key) { grants_.prefetch(key); });
      if (taken != all) taken |= take_from_grants(of_rule, all & ~taken);
    } else {
      taken = take_from_grants(of_rule, all);
      const bool few_granted = std::popcount(taken) <= few;
      ask_for_others([&](std::uint64_t key) { prefetch_beyond_grant(key, rule); });
      if (taken != all) taken |= take_from_entries(of_rule, all & ~taken, true);
      learn_entries_first(rule, few_granted && std::popcount(all & ~taken) <= few);
    }
  }
  if (taken != 0) count_admitted(rule, static_cast<std::uint64_t>(std::popcount(taken)));
  return taken | (requests & ~all);  // none but rules that apply can refuse
}

// Of a rule's keys, those of requests. @param serve  called with their hashes and room for the numbers of
// those that are left; their count. @return those of the requests whose keys are not
std::uint32_t WorkerCore::served(const PlainKeys::OfRule& of_rule, std::uint32_t requests,
                                 auto&& serve) noexcept {
  const ChosenHashes chosen(of_rule.hashes, requests);
  std::array<std::uint8_t, PlainKeys::most_frames> left;
  const std::size_t count = serve(chosen.keys(), left.data());
  std::uint32_t others = 0;
  for (std::size_t i = 0; i < count; ++i) others |= std::uint32_t{1} << chosen.request(left[i]);
  return requests & ~others;
}

std::uint32_t WorkerCore::take_from_grants(const PlainKeys::OfRule& of_rule,
                                           std::uint32_t requests) noexcept {
  return served(of_rule, requests, [&](const Hashes& keys, std::uint8_t* left) {
    return use_grants(of_rule.rule, keys, Hashes::none(), plane_.terms[of_rule.rule].weight, keys.count,
                      left);
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

}  // namespace weir
