// SPDX-License-Identifier: BSD-3-Clause
// Keys of which there is no more to be said than of all their rule's: all that is left to do is to draw. Of
// one rule's keys in a loop; of a request under several rules before what is ready is taken of all its keys.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/flatten.h"
#include "base/prefetch.h"
#include "dataplane/key_run.h"
#include "dataplane/request_bits.h"
#include "dataplane/rule_look.h"
#include "dataplane/worker_core.h"
#include "limit/bucket_rule.h"
#include "shared/bucket_cell.h"

namespace weir {

// For Grant::usual.
std::uint32_t WorkerCore::usual_of(RuleIndex of) const noexcept {
  const RuleTerms& rule = plane_.terms[of];
  const bool draws_only = is_bucket(rule.algorithm) || rule.algorithm == Algorithm::cooldown ||
                          rule.algorithm == Algorithm::fixed_window;
  const KeyTerms& terms = publication_->defaults[of];
  if (!draws_only || rule.dense || terms.allowance == 0) return 0;
  if (publication_->reserve_of(nullptr, of, rule.window, windows_[rule.window].interval_number) > 0) return 0;
  const std::uint64_t usual = is_bucket(rule.algorithm) ? terms.factor : terms.allowance;
  return usual >> 32 == 0 ? static_cast<std::uint32_t>(usual) : 0;  // (an entry has a rest for more)
}

// @param use  called with how a key of the rule is drawn for, if its window is such that it may be: a call
// with its cell, the key, what the request weighs, and EntryTerms::allowance; what it has drawn, or 0
void WorkerCore::with_usual_draw(const RuleTerms& rule, MonotonicTime now, auto&& use) const noexcept {
  if (is_bucket(rule.algorithm)) {
    if (!window_runs(rule.window)) return;
    const std::uint64_t more = std::min(rule.chunk, SpanTable::most_ready);
    // A copy that nothing drawn can be taken to change.
    use([more, bucket = rule.bucket, now](AllowanceCell& cell, std::uint64_t key, std::uint64_t weight,
                                          std::uint64_t price) {
      return BucketCell(cell).draw(key, weight, more, price, bucket, now).taken;
    });
  } else {
    if (!window_is_known(rule.window)) return;
    use([workers = plane_.quiescence.workers()](AllowanceCell& cell, std::uint64_t, std::uint64_t weight,
                                                std::uint64_t allowance) {
      return cell.draw(weight, allowance, workers);
    });
  }
}

// @param place  the key's
// @param draw   as with_usual_draw() has it
// @return what has been drawn, and not been counted yet; 0: nothing, or there is more to be said of the key
std::uint64_t WorkerCore::draw_of(SpanTable::Place place, std::uint64_t key, RuleIndex of,
                                  std::uint64_t weight, MonotonicTime now, auto&& draw) noexcept {
  AllowanceCell* const cells = table_->cells[of];
  if (table_->is_open(place)) {
    if (!table_->only_draws(place, generation_)) return 0;
    const EntryTerms terms = table_->terms(table_->entry(place));
    return draw(cells[terms.cell], key, weight, terms.allowance);
  }
  AllowanceCell* const cell = usual_cell(key, plane_.terms[of], now);
  const std::uint32_t usual = rule_grants_[of].usual;
  const std::uint64_t drawn = cell != nullptr ? draw(*cell, key, weight, usual) : 0;
  if (drawn > 0)
    table_->open_with(
        place, generation_,
        [this](std::uint32_t since, std::uint32_t low) { return publication_->still_holds(since, low); },
        static_cast<std::uint32_t>(cell - cells), usual);
  return drawn;
}

// Of a rule without grants, as those of small limits are: keys known from spans before that come for the
// first time in this one, and such as have been looked at in it and have nothing ready. As a rule there is no
// more to be said of the first than of all their rule's keys, nor of the others than what their entries do;
// and then all that is left to do is to draw. Others, and whom that refuses, are left.
WEIR_FLATTEN void WorkerCore::draw_as_usual(Run& run, MonotonicTime now) noexcept {
  if (rule_grants_[run.rule].usual == 0) return;
  // Before it is asked about the window.
  const Publication* const current = plane_.publication.load();
  with_usual_draw(plane_.terms[run.rule], now, [&](auto&& draw) { draw_as_usual(run, now, current, draw); });
}

// Requests of one rule, to which no other applies.
// @param places    of their keys' entries, or nowhere
// @param laid_out  the burst's; none: they came in plain frames
// @return those that have been drawn for, and so admitted
std::uint32_t WorkerCore::draw_as_usual(const PlainKeys::OfRule& of_rule, std::uint32_t requests,
                                        const EntryPlaces& places, std::span<const Request> laid_out,
                                        MonotonicTime now) noexcept {
  static_assert(burst_size == PlainKeys::most_frames);
  std::array<Key, burst_size> keys;
  BurstTime when(now);
  Run run(keys, of_rule.rule, rule_grants_, when, {});
  for_each(requests, [&](std::size_t at) {
    keys[at].hash_ = of_rule.hashes[at];
    if (!laid_out.empty()) keys[at].weight = times(laid_out[at]);
    run.place[at] = places[at];
    run.at[run.left++] = static_cast<std::uint8_t>(at);
  });
  prefetch_beyond_lines(run);
  draw_as_usual(run, now);
  for (const std::uint8_t at : std::span(run.at).first(run.left)) requests &= ~(std::uint32_t{1} << at);
  return requests;
}

// @param current  the publication: as long as there is no other one, nobody clears the cells
// @param draw     as with_usual_draw() has it
template <typename Draw>
void WorkerCore::draw_as_usual(Run& run, MonotonicTime now, const Publication* current,
                               Draw&& draw) noexcept {
  AllowanceCell* const cells = table_->cells[run.rule];
  struct Drawn {
    std::uint32_t weight;
    std::uint32_t drawn;
    std::uint8_t at;
  };
  std::array<Drawn, burst_size> admitted;
  std::size_t count = 0;
  std::size_t others = 0;
  for (const std::uint8_t at : std::span(run.at).first(run.left))
    if (const SpanTable::Place place = run.place[at];
        place != SpanTable::nowhere && table_->is_open(place) && table_->only_draws(place, generation_))
      prefetch_to_write(cells + table_->terms(table_->entry(place)).cell);
  // Whose request has been left does not get ahead of it with the next one. A bit for some of all keys.
  std::uint64_t left_before = 0;
  for (std::size_t i = 0; i < run.left; ++i) {
    const std::uint8_t at = run.at[i];
    const std::uint64_t key = run.keys[at].hash_;
    const std::uint64_t weight = run.weight(run.keys[at]);
    const SpanTable::Place place = run.place[at];
    const std::uint64_t bit = std::uint64_t{1} << (key >> 32) % 64;
    // A worker that stalls here draws once more at most, as AllowancePool::clear() has it.
    const bool may_draw = place != SpanTable::nowhere && (left_before & bit) == 0 &&
                          weight - 1 < SpanTable::most_ready - 1 && table_->holds(place, key) &&
                          plane_.publication.load() == current;
    const std::uint64_t drawn = may_draw ? draw_of(place, key, run.rule, weight, now, draw) : 0;
    if (drawn == 0) {
      left_before |= bit;
      run.at[others++] = at;
      continue;
    }
    // At once: the key may come again in this burst.
    table_->count_drawn(place, drawn, weight);
    admitted[count++] = {static_cast<std::uint32_t>(weight), static_cast<std::uint32_t>(drawn), at};
  }
  run.left = others;
  if (count == 0) return;
  // As in may_admit(), with its acquire fence.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (window_is_known(plane_.terms[run.rule].window)) [[likely]]
    return count_admitted(run.rule, count);
  // They are left to who refuses them, as the window is known no more.
  for (const Drawn& in_vain : std::span(admitted).first(count)) {
    table_->uncount_drawn(run.place[in_vain.at], in_vain.drawn, in_vain.weight);
    run.at[run.left++] = in_vain.at;
  }
}

// Whether that may do more for some of the requests than to take what is ready.
bool WorkerCore::some_draw(std::uint32_t requests) const noexcept {
  const std::span rules = std::span(plain_.rules).first(plain_.rule_count);
  return std::any_of(rules.begin(), rules.end(), [&](const PlainKeys::OfRule& of_rule) {
    return (of_rule.requests & requests) != 0 && rule_grants_[of_rule.rule].usual != 0;
  });
}

// One request after the other, under several rules as a rule, until one needs a closer look.
// @param ready  is set
// @return the requests that are left
std::uint32_t WorkerCore::take_or_draw_in_front(std::uint32_t requests, ReadyLooks& ready,
                                                MonotonicTime now) noexcept {
  look_for_ready(requests, ready);
  for (RuleLook& look : ready.all()) {
    prefetch_to_draw(look);
    look.doubtful = look.requests & ~look.plenty;
  }
  while (requests != 0 && take_or_draw(ready, static_cast<std::size_t>(std::countr_zero(requests)), now))
    requests &= requests - 1;
  for (RuleLook& look : ready.all()) {
    take_plenty(look, ready.taken & look.requests & ~look.doubtful);
    look.doubtful = look.requests;
  }
  return requests;
}

// Draws for those of a request's keys that have not enough ready, if that is all there is to do, and then
// takes of all. What it has drawn for one in vain, as another one has refused it, it leaves to
// decide_closely(): as what is ready of the key, or to be drawn once more.
// @return whether the request has been admitted
WEIR_FLATTEN bool WorkerCore::take_or_draw(ReadyLooks& ready, std::size_t at, MonotonicTime now) noexcept {
  const std::uint32_t bit = std::uint32_t{1} << at;
  if ((ready.requests & ~ready.alike & bit) == 0) return false;
  const std::span looks = ready.all();
  std::array<RuleLook*, max_rules_per_request> lacking;
  std::size_t count = 0;
  for (RuleLook& look : looks) {
    if ((look.doubtful & bit) == 0 || still_has_enough(look, at)) continue;
    if (look.grant->usual == 0) return false;
    lacking[count++] = &look;
  }
  // Nothing is drawn to be given back at once.
  if (count > 1 && !std::all_of(lacking.begin(), lacking.begin() + count,
                                [&](const RuleLook* look) { return may_draw_ahead(*look, at); }))
    return false;
  std::array<std::uint64_t, max_rules_per_request> drawn;
  for (std::size_t i = 0; i < count; ++i) {
    if (draw_ahead(*lacking[i], at, now, drawn[i])) continue;
    while (i-- > 0) undraw_ahead(*lacking[i], at, drawn[i]);
    return false;
  }
  for (const RuleLook& look : looks)
    if ((look.doubtful & bit) != 0) look.take(at);
  ready.taken |= bit;
  return true;
}

// An earlier request of the burst may have been looked at closely, and inserted another key where this one
// was.
bool WorkerCore::still_has_enough(const RuleLook& look, std::size_t at) const noexcept {
  return look.has_enough(at) && (look.dense || look.is_granted(at) ||
                                 table_->lines().is_of(look.ready(at), look.of_rule->hashes[at]));
}

// What those need that lack anything: their rule draws for them, as a rule.
void WorkerCore::prefetch_to_draw(RuleLook& look) const noexcept {
  if (look.lacking == 0 || look.dense) return;
  const RuleIndex rule = look.of_rule->rule;
  look.located = look.lacking;
  for_each(look.lacking, [&](std::size_t at) {
    const std::uint64_t key = look.of_rule->hashes[at];
    look.places[at] = table_->locate(key);
    prefetch_beyond_line(key, look.places[at], rule);
  });
  for_each(look.lacking,
           [&](std::size_t at) { prefetch_entry(look.of_rule->hashes[at], look.places[at], rule); });
  if (look.grant->usual == 0) return;
  const AllowanceCell* const cells = table_->cells[rule];
  for_each(look.lacking, [&](std::size_t at) {
    if (const SpanTable::Place place = look.places[at];
        place != SpanTable::nowhere && table_->is_open(place) && table_->only_draws(place, generation_))
      prefetch_to_write(cells + table_->terms(table_->entry(place)).cell);
  });
}

SpanTable::Place WorkerCore::place_of(const RuleLook& look, std::size_t at) const noexcept {
  const std::uint64_t key = look.of_rule->hashes[at];
  const SpanTable::Place place = (look.located >> at & 1) != 0 ? look.places[at] : table_->locate(key);
  return place != SpanTable::nowhere && table_->holds(place, key) ? place : SpanTable::nowhere;
}

// Whether draw_ahead() would draw, if there is enough.
bool WorkerCore::may_draw_ahead(const RuleLook& look, std::size_t at) const noexcept {
  const SpanTable::Place place = place_of(look, at);
  return place != SpanTable::nowhere &&
         (!table_->is_open(place) || table_->only_draws(place, generation_) ||
          table_->has_ready(place, look.of_rule->hashes[at], look.weight(), generation_));
}

// @param drawn  set to what has been drawn, and is ready from now on
// @return false: the key is to be looked at closely
bool WorkerCore::draw_ahead(RuleLook& look, std::size_t at, MonotonicTime now,
                            std::uint64_t& drawn) noexcept {
  drawn = 0;
  const std::uint64_t weight = look.weight();
  const SpanTable::Place place = place_of(look, at);
  if (place == SpanTable::nowhere || weight - 1 >= SpanTable::most_ready - 1) return false;
  const RuleIndex of = look.of_rule->rule;
  const std::uint64_t key = look.of_rule->hashes[at];
  std::byte* const word = reinterpret_cast<std::byte*>(&table_->word(place));
  // By an earlier request of the burst that has opened it.
  if (look.words[at] != word && table_->has_ready(place, key, weight, generation_)) {
    look.words[at] = word;
    return true;
  }
  const RuleTerms& rule = plane_.terms[of];
  with_usual_draw(rule, now, [&](auto&& draw) { drawn = draw_of(place, key, of, weight, now, draw); });
  if (drawn == 0) return false;
  // As in may_admit(), with its acquire fence.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!window_is_known(rule.window)) [[unlikely]]
    return false;
  table_->count_drawn(place, drawn, 0);
  look.words[at] = word;
  return true;
}

// What is drawn in windows stays with the key's entry, as there are others that may need it.
void WorkerCore::undraw_ahead(const RuleLook& look, std::size_t at, std::uint64_t drawn) noexcept {
  const RuleIndex of = look.of_rule->rule;
  const RuleTerms& rule = plane_.terms[of];
  if (drawn == 0 || !is_bucket(rule.algorithm)) return;
  const SpanTable::Place place = table_->lines().place_of(look.ready(at));
  const EntryTerms terms = table_->terms(table_->entry(place));
  BucketCell(table_->cells[of][terms.cell]).give_back(drawn, terms.allowance, rule.bucket);
  table_->uncount_drawn(place, drawn, 0);
}

}  // namespace weir
