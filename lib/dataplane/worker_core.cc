// SPDX-License-Identifier: BSD-3-Clause
#include "dataplane/worker_core.h"

#include <algorithm>
#include <limits>

namespace weir {

WorkerCore::WorkerCore(const DataPlane& plane, unsigned index, std::span<SpanTable> tables)
    : plane_(plane), index_(index), tables_(tables), table_(&tables[0]), counters_(plane.terms.size()) {
  std::size_t intervals = 0;
  for (const RuleTerms& terms : plane.terms)
    intervals = std::max<std::size_t>(intervals, terms.interval + 1U);
  intervals_.reserve(intervals);
}

void WorkerCore::online() noexcept {
  if (online_) return;
  online_ = true;
  plane_.quiescence.online(index_);
  take_up_publication();
}

void WorkerCore::offline() noexcept {
  if (!online_) return;
  online_ = false;
  publication_ = nullptr;
  plane_.quiescence.offline(index_);
}

void WorkerCore::quiescent() noexcept {
  plane_.quiescence.quiescent(index_);
  // Only after the report: what is loaded from here on is what the reported token promised.
  take_up_publication();
}

void WorkerCore::take_up_publication() noexcept {
  const Publication* published = plane_.publication.load();
  if (published == publication_) return;
  publication_ = published;
  SpanTable* assigned = &tables_[published->table_of_worker[index_]];
  // An empty table has no counts that an older span's beginning would have to name.
  if (assigned != table_ || assigned->size() == 0) {
    table_ = assigned;
    table_->began = published->began;
    intervals_ = published->intervals;
  }
}

std::uint64_t WorkerCore::key_of(RuleIndex rule, std::span<const std::byte> bytes) const noexcept {
  const std::uint64_t hash = keyed_hash(plane_.hash_key, rule, bytes);
  return hash == 0 ? 1 : hash;  // 0 marks free places
}

void WorkerCore::plan(const Request& request, Plan& plan) noexcept {
  plane_.classifier.match(request, scratch_);
  plan.count = scratch_.rule_count;
  for (std::size_t i = 0; i < plan.count; ++i) {
    const RuleIndex rule = scratch_.rules[i];
    plane_.classifier.make_key(rule, request, scratch_, key_bytes_);
    plan.keys[i] = {rule, key_of(rule, key_bytes_.bytes())};
  }
}

Decision WorkerCore::admit(const Request& request, MonotonicTime now) noexcept {
  Plan& planned = plans_[0];
  plan(request, planned);
  return decide(planned, request.weight, now, [&](RuleIndex rule) {
    plane_.classifier.make_key(rule, request, scratch_, key_bytes_);
    return key_bytes_.bytes();
  });
}

void WorkerCore::admit_burst(std::span<const Request> requests, MonotonicTime now,
                             std::span<Decision> decisions) noexcept {
  while (!requests.empty()) {
    const std::size_t count = std::min(requests.size(), burst_size);
    for (std::size_t i = 0; i < count; ++i) {
      plan(requests[i], plans_[i]);
      for (std::size_t k = 0; k < plans_[i].count; ++k) table_->prefetch(plans_[i].keys[k].key);
    }
    for (std::size_t i = 0; i < count; ++i) {
      decisions[i] = decide(plans_[i], requests[i].weight, now, [&](RuleIndex rule) {
        // Once per key and span: worth matching again instead of keeping 32 requests' key bytes.
        plane_.classifier.match(requests[i], scratch_);
        plane_.classifier.make_key(rule, requests[i], scratch_, key_bytes_);
        return key_bytes_.bytes();
      });
    }
    requests = requests.subspan(count);
    decisions = decisions.subspan(count);
  }
}

Decision WorkerCore::admit_key(RuleIndex rule, std::string_view value, std::uint32_t weight,
                               MonotonicTime now) noexcept {
  key_bytes_.clear();
  key_bytes_.add_text(value);
  Plan& planned = plans_[0];
  planned.count = 1;
  planned.keys[0] = {rule, key_of(rule, key_bytes_.bytes())};
  return decide(planned, weight, now, [&](RuleIndex) { return key_bytes_.bytes(); });
}

// Until the publication says otherwise, a refusal in this interval, or in the one before as long as it has
// not been judged, is the beginning of a block: so no worker admits anything between an exceeding and its
// publication.
MonotonicTime WorkerCore::early_block(const AllowancePool::Place& place, std::uint64_t key,
                                      const RuleTerms& terms, const IntervalState& interval) const noexcept {
  std::int64_t refused_at = AllowanceCell::no_refusal;
  if (place.own) refused_at = place.cell->refused_at.load(std::memory_order_relaxed);
  if (refused_at == AllowanceCell::no_refusal && !publication_->judged && interval.ended != nullptr)
    if (const AllowanceCell* before = interval.ended->find(key); before != nullptr)
      refused_at = before->refused_at.load(std::memory_order_relaxed);
  return refused_at == AllowanceCell::no_refusal ? never
                                                 : MonotonicTime(Duration(refused_at)) + terms.cooldown;
}

void WorkerCore::refresh(SpanEntry& entry, std::uint64_t key) noexcept {
  const RuleTerms& terms = plane_.terms[entry.rule];
  const IntervalState& interval = intervals_[terms.interval];
  const AllowancePool::Place place = interval.running->claim(key);
  if (entry.cell != place.cell) {
    entry.cell = place.cell;
    entry.credit = 0;  // it was drawn in another interval
  }
  entry.generation = static_cast<std::uint16_t>(publication_->generation);
  const KeyState* state = publication_->find(key);
  entry.allowance = state != nullptr ? state->allowance : publication_->default_allowance[entry.rule];
  entry.blocked_until =
      std::max(state != nullptr ? state->blocked_until : never, early_block(place, key, terms, interval));
}

template <typename NameOf>
WorkerCore::Touched WorkerCore::touch(const PlannedKey& planned, NameOf&& name_of) noexcept {
  SpanEntry* entry = table_->find(planned.key);
  if (entry == nullptr) [[unlikely]] {
    const RuleTerms& terms = plane_.terms[planned.rule];
    const IntervalState& interval = intervals_[terms.interval];
    const AllowancePool::Place place = interval.running->claim(planned.key);
    if (place.own) entry = table_->insert(planned.key, planned.rule, name_of(planned.rule));
    if (entry == nullptr) {
      overflowed_.add(1);
      const KeyState* state = publication_->find(planned.key);
      return {
          .entry = nullptr,
          .cell = place.cell,
          .allowance = state != nullptr ? state->allowance : publication_->default_allowance[planned.rule],
          .drawn = 0,
          .blocked_until = std::max(state != nullptr ? state->blocked_until : never,
                                    early_block(place, planned.key, terms, interval))};
    }
    refresh(*entry, planned.key);
  } else if (entry->generation != static_cast<std::uint16_t>(publication_->generation)) {
    refresh(*entry, planned.key);
  }
  return {.entry = entry,
          .cell = entry->cell,
          .allowance = entry->allowance,
          .drawn = 0,
          .blocked_until = entry->blocked_until};
}

bool WorkerCore::may_admit(Touched& touched, std::uint64_t weight, const RuleTerms& terms,
                           MonotonicTime now) noexcept {
  if (now < touched.blocked_until) return false;
  const unsigned workers = plane_.quiescence.workers();
  if (touched.entry != nullptr) {
    if (touched.entry->credit >= weight) return true;
    const std::uint64_t drawn =
        touched.cell->draw(weight - touched.entry->credit, touched.allowance, workers);
    touched.entry->credit += drawn;
    if (drawn > 0) return true;
  } else {
    if (weight == 0) return true;
    // A divisor this large makes no chunk: there is no entry to keep one in.
    touched.drawn = touched.cell->draw(weight, touched.allowance, std::numeric_limits<unsigned>::max());
    if (touched.drawn > 0) return true;
  }
  refuse(touched, terms, now);
  return false;
}

// The first request refused for want of allowance is the exceeding (algorithm.md §3, step 2).
void WorkerCore::refuse(Touched& touched, const RuleTerms& terms, MonotonicTime now) noexcept {
  SpanEntry* entry = touched.entry;
  if (entry == nullptr) return;  // counted under a shared name: no block can follow
  if (entry->refused_at == never) entry->refused_at = now;
  entry->blocked_until = now + terms.cooldown;
  touched.blocked_until = entry->blocked_until;
  // A mark of a block that has ended is replaced; one that another worker has just set stays.
  std::int64_t mark = entry->cell->refused_at.load(std::memory_order_relaxed);
  if (mark == AllowanceCell::no_refusal || MonotonicTime(Duration(mark)) + terms.cooldown <= now)
    entry->cell->refused_at.compare_exchange_strong(mark, now.time_since_epoch().count(),
                                                    std::memory_order_relaxed);
}

template <typename NameOf>
Decision WorkerCore::decide(const Plan& plan, std::uint32_t multiplier, MonotonicTime now,
                            NameOf&& name_of) noexcept {
  Decision decision;
  if (plan.count == 0 || publication_ == nullptr) return decision;
  const std::uint64_t times = multiplier == 0 ? 1 : multiplier;

  // Check all…
  std::array<Touched, max_rules_per_request> touched;
  std::size_t deciding = 0;
  std::size_t checked = 0;
  std::array<bool, max_rules_per_request> charge{};
  bool refused = false;
  for (; checked < plan.count; ++checked) {
    const PlannedKey& planned = plan.keys[checked];
    const RuleTerms& terms = plane_.terms[planned.rule];
    Touched& here = touched[checked] = touch(planned, name_of);
    const std::uint64_t weight = terms.weight * times;
    if (here.entry != nullptr)
      here.entry->offered += weight;
    else
      table_->overflow(planned.rule).offered += weight;
    RuleCounters& counters = counters_[planned.rule];
    counters.offered.add(1);
    if (refused) continue;
    if (may_admit(here, weight, terms, now)) {
      charge[checked] = true;
      continue;
    }
    counters.blocked.add(1);
    if (terms.action == Action::observe) {
      if (decision.observed == no_rule) decision.observed = planned.rule;
    } else {
      refused = true;
      deciding = checked;
    }
  }

  // …then charge all, or none. A rule that only observes what another one refuses was not charged either.
  for (std::size_t i = 0; i < plan.count; ++i) {
    if (!charge[i]) continue;
    const RuleTerms& terms = plane_.terms[plan.keys[i].rule];
    const std::uint64_t weight = terms.weight * times;
    if (refused) {
      if (touched[i].entry == nullptr && touched[i].drawn > 0) touched[i].cell->give_back(touched[i].drawn);
      continue;
    }
    if (touched[i].entry != nullptr) {
      touched[i].entry->credit -= weight;
      touched[i].entry->admitted += weight;
    } else {
      table_->overflow(plan.keys[i].rule).admitted += weight;
      if (touched[i].drawn > weight) touched[i].cell->give_back(touched[i].drawn - weight);
    }
    counters_[plan.keys[i].rule].admitted.add(1);
  }

  const PlannedKey& by = plan.keys[deciding];
  const RuleTerms& terms = plane_.terms[by.rule];
  const Touched& told = touched[deciding];
  decision.rule = by.rule;
  decision.action = terms.action;
  decision.weight = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(terms.weight * times, std::numeric_limits<std::uint32_t>::max()));
  decision.limit = terms.limit;
  decision.reset_after = std::max(Duration{1}, intervals_[terms.interval].ends - now);
  if (refused) {
    decision.verdict = Verdict::block;
    decision.retry_after =
        std::max(Duration{1}, now < told.blocked_until ? told.blocked_until - now : decision.reset_after);
  } else {
    const std::uint64_t drawn = told.cell->drawn.load(std::memory_order_relaxed);
    decision.remaining = (told.allowance > drawn ? told.allowance - drawn : 0) +
                         (told.entry != nullptr ? told.entry->credit : 0);
  }
  return decision;
}

}  // namespace weir
