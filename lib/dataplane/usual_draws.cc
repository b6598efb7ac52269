// SPDX-License-Identifier: BSD-3-Clause
// Keys of which there is no more to be said than of all their rule's: all that is left to do is to draw.
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
#include "dataplane/worker_core.h"
#include "limit/bucket_rule.h"
#include "shared/bucket_cell.h"

namespace weir {

// EntryTerms::allowance of the rule's keys that have none of their own.
std::uint64_t WorkerCore::usual_of(RuleIndex rule) const noexcept {
  const KeyTerms& terms = publication_->defaults[rule];
  return is_bucket(plane_.terms[rule].algorithm) ? terms.factor : terms.allowance;
}

// Whether draw_as_usual() does anything for the rule's keys.
bool WorkerCore::is_drawn_as_usual(RuleIndex of) const noexcept {
  const RuleTerms& rule = plane_.terms[of];
  const bool draws_only = is_bucket(rule.algorithm) || rule.algorithm == Algorithm::cooldown ||
                          rule.algorithm == Algorithm::fixed_window;
  if (!draws_only || rule.dense || publication_->defaults[of].allowance == 0) return false;
  return usual_of(of) >> 32 == 0 &&  // (an entry has a rest for more)
         publication_->reserve_of(nullptr, of, rule.window, windows_[rule.window].interval_number) == 0;
}

// Of a rule without grants, as those of small limits are: keys known from spans before that come for the
// first time in this one, and such as have been looked at in it and have nothing ready. As a rule there is no
// more to be said of the first than of all their rule's keys, nor of the others than what their entries do;
// and then all that is left to do is to draw. Others, and whom that refuses, are left.
WEIR_FLATTEN void WorkerCore::draw_as_usual(Run& run, MonotonicTime now) noexcept {
  if (!is_drawn_as_usual(run.rule)) return;
  const RuleTerms& rule = plane_.terms[run.rule];
  // Before it is asked about the window.
  const Publication* const current = plane_.publication.load();
  if (is_bucket(rule.algorithm)) {
    if (!window_runs(rule.window)) return;
    const std::uint64_t more = std::min(rule.chunk, SpanTable::most_ready);
    // A copy that nothing drawn can be taken to change.
    draw_as_usual(run, now, current,
                  [&, bucket = rule.bucket](AllowanceCell& cell, std::uint64_t key, std::uint64_t weight,
                                            std::uint64_t price) {
                    return BucketCell(cell).draw(key, weight, more, price, bucket, now).taken;
                  });
  } else {
    if (!window_is_known(rule.window)) return;
    draw_as_usual(run, now, current,
                  [workers = plane_.quiescence.workers()](AllowanceCell& cell, std::uint64_t,
                                                          std::uint64_t weight, std::uint64_t allowance) {
                    return cell.draw(weight, allowance, workers);
                  });
  }
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
// @param draw     called with a cell, its key, what the request weighs, and EntryTerms::allowance; what it
//                 has drawn, or 0
template <typename Draw>
void WorkerCore::draw_as_usual(Run& run, MonotonicTime now, const Publication* current,
                               Draw&& draw) noexcept {
  const std::uint64_t usual = usual_of(run.rule);
  const RuleTerms& rule = plane_.terms[run.rule];
  AllowanceCell* const cells = table_->cells[run.rule];
  const auto still_holds = [this](std::uint32_t since, std::uint32_t low) {
    return publication_->still_holds(since, low);
  };
  const auto known_terms = [this](SpanTable::Place place) { return table_->terms(table_->entry(place)); };
  const auto draw_of = [&](SpanTable::Place place, std::uint64_t key, std::uint64_t weight) -> std::uint64_t {
    // A worker that stalls here draws once more at most, as AllowancePool::clear() has it.
    if (plane_.publication.load() != current) [[unlikely]]
      return 0;
    if (table_->is_open(place)) {
      if (!table_->only_draws(place, generation_)) return 0;
      const EntryTerms terms = known_terms(place);
      return draw(cells[terms.cell], key, weight, terms.allowance);
    }
    AllowanceCell* const cell = usual_cell(key, rule, now);
    const std::uint64_t drawn = cell != nullptr ? draw(*cell, key, weight, usual) : 0;
    if (drawn > 0)
      table_->open_with(place, generation_, still_holds, static_cast<std::uint32_t>(cell - cells),
                        static_cast<std::uint32_t>(usual));
    return drawn;
  };
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
      prefetch_to_write(cells + known_terms(place).cell);
  // Whose request has been left does not get ahead of it with the next one. A bit for some of all keys.
  std::uint64_t left_before = 0;
  for (std::size_t i = 0; i < run.left; ++i) {
    const std::uint8_t at = run.at[i];
    const std::uint64_t key = run.keys[at].hash_;
    const std::uint64_t weight = run.weight(run.keys[at]);
    const SpanTable::Place place = run.place[at];
    const std::uint64_t bit = std::uint64_t{1} << (key >> 32) % 64;
    const bool may_draw = place != SpanTable::nowhere && (left_before & bit) == 0 &&
                          weight - 1 < SpanTable::most_ready - 1 && table_->holds(place, key);
    const std::uint64_t drawn = may_draw ? draw_of(place, key, weight) : 0;
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
  if (window_is_known(rule.window)) [[likely]]
    return count_admitted(run.rule, count);
  // They are left to who refuses them, as the window is known no more.
  for (const Drawn& in_vain : std::span(admitted).first(count)) {
    table_->uncount_drawn(run.place[in_vain.at], in_vain.drawn, in_vain.weight);
    run.at[run.left++] = in_vain.at;
  }
}

}  // namespace weir
