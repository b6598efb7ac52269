// SPDX-License-Identifier: BSD-3-Clause
#include "dataplane/worker_core.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "shared/bucket_cell.h"

namespace weir {
namespace {

/// A request that says nothing about its cost has that of its rules.
std::uint64_t times(const Request& request) noexcept { return request.weight == 0 ? 1 : request.weight; }

bool is_bucket(Algorithm algorithm) noexcept {
  return algorithm == Algorithm::token_bucket || algorithm == Algorithm::leaky_bucket;
}

}  // namespace

WorkerCore::WorkerCore(const DataPlane& plane, unsigned index, std::span<SpanTable> tables)
    : plane_(plane), index_(index), tables_(tables), table_(&tables[0]), counters_(plane.terms.size()) {
  std::size_t windows = 0;
  for (const RuleTerms& terms : plane.terms) windows = std::max<std::size_t>(windows, terms.window + 1U);
  windows_.reserve(windows);
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
    windows_ = published->windows;
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
  return decide(planned, times(request), now, [&](RuleIndex rule) {
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
      decisions[i] = decide(plans_[i], times(requests[i]), now, [&](RuleIndex rule) {
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
  if (weight == 0) return peek(planned.keys[0], key_bytes_.bytes(), now);
  return decide(planned, weight, now, [&](RuleIndex) { return key_bytes_.bytes(); });
}

// Until the publication says otherwise, a refusal in this window, or in the one before as long as it has not
// been judged, is the beginning of a block: so no worker admits anything between an exceeding and its
// publication.
MonotonicTime WorkerCore::early_block(const AllowancePool::Place& place, std::uint64_t key,
                                      const RuleTerms& terms, const WindowState& window) const noexcept {
  std::int64_t refused_at = AllowanceCell::no_refusal;
  if (place.own) refused_at = place.cell->refused_at.load(std::memory_order_relaxed);
  if (refused_at == AllowanceCell::no_refusal && !publication_->judged && window.ended != nullptr)
    if (const AllowanceCell* before = window.ended->find(key); before != nullptr)
      refused_at = before->refused_at.load(std::memory_order_relaxed);
  return refused_at == AllowanceCell::no_refusal
             ? never
             : MonotonicTime(Duration(refused_at)) + terms.block.length(key);
}

KeyTerms WorkerCore::terms_of(std::uint64_t key, RuleIndex rule, const WindowState& window,
                              MonotonicTime& blocked_until) const noexcept {
  const KeyState* state = publication_->find(key);
  if (state != nullptr) blocked_until = state->blocked_until;
  KeyTerms terms = state != nullptr ? state->terms : publication_->defaults[rule];
  // What was drawn in the span before is not in this sliding window's allowance until it has been judged.
  if (plane_.terms[rule].algorithm == Algorithm::sliding_window && window.ended != nullptr &&
      !publication_->windows[plane_.terms[rule].window].settled)
    if (const AllowanceCell* before = window.ended->find(key); before != nullptr)
      terms.allowance -= std::min(terms.allowance, before->drawn.load(std::memory_order_relaxed));
  return terms;
}

// Buckets and logs outlive the window of their pool.
void WorkerCore::carry_over(AllowanceCell& cell, std::uint64_t key, const RuleTerms& terms,
                            MonotonicTime now) noexcept {
  AllowancePool* ended = windows_[terms.window].ended;
  if (is_bucket(terms.algorithm)) {
    if (cell.drawn.load(std::memory_order_relaxed) == 0)
      BucketCell(cell).take_over(ended == nullptr ? nullptr : ended->claim(key).cell, terms.bucket, now);
  } else if (terms.algorithm == Algorithm::sliding_log) {
    if (cell.log.load(std::memory_order_relaxed) == 0)
      terms.logs->take_over(cell, ended == nullptr ? nullptr : ended->claim(key).cell, spare_log_);
  }
}

void WorkerCore::refresh(SpanEntry& entry, std::uint64_t key, MonotonicTime now) noexcept {
  const RuleTerms& terms = plane_.terms[entry.rule];
  const WindowState& window = windows_[terms.window];
  const AllowancePool::Place place = window.running->claim(key);
  if (entry.cell != place.cell) {
    entry.cell = place.cell;
    entry.credit = 0;  // it was drawn in another window
  }
  carry_over(*entry.cell, key, terms, now);
  entry.generation = static_cast<std::uint16_t>(publication_->generation);
  MonotonicTime blocked_until = never;
  const KeyTerms key_terms = terms_of(key, entry.rule, window, blocked_until);
  entry.allowance =
      is_bucket(terms.algorithm) && key_terms.allowance > 0 ? key_terms.factor : key_terms.allowance;
  if (terms.algorithm == Algorithm::shed)
    entry.fraction = key_terms.factor;
  else
    entry.blocked_until = std::max(blocked_until, early_block(place, key, terms, window));
}

template <typename NameOf>
WorkerCore::Touched WorkerCore::touch(const PlannedKey& planned, NameOf&& name_of,
                                      MonotonicTime now) noexcept {
  const RuleTerms& terms = plane_.terms[planned.rule];
  SpanEntry* entry = table_->find(planned.key);
  if (entry == nullptr) [[unlikely]] {
    const WindowState& window = windows_[terms.window];
    const AllowancePool::Place place = window.running->claim(planned.key);
    if (place.own) entry = table_->insert(planned.key, planned.rule, name_of(planned.rule));
    if (entry == nullptr) {
      overflowed_.add(1);
      Touched touched{.entry = nullptr, .cell = place.cell, .terms = {}, .drawn = 0, .blocked_until = never};
      carry_over(*place.cell, planned.key, terms, now);
      touched.terms = terms_of(planned.key, planned.rule, window, touched.blocked_until);
      touched.blocked_until = std::max(touched.blocked_until, early_block(place, planned.key, terms, window));
      return touched;
    }
    refresh(*entry, planned.key, now);
  } else if (entry->generation != static_cast<std::uint16_t>(publication_->generation)) {
    refresh(*entry, planned.key, now);
  }
  Touched touched{.entry = entry, .cell = entry->cell, .terms = {}, .drawn = 0, .blocked_until = never};
  touched.terms.allowance = touched.terms.factor = entry->allowance;
  if (terms.algorithm == Algorithm::shed)
    touched.terms.factor = entry->fraction;
  else
    touched.blocked_until = entry->blocked_until;
  return touched;
}

bool WorkerCore::may_admit(Touched& touched, const PlannedKey& planned, std::uint64_t weight,
                           const RuleTerms& terms, MonotonicTime now) noexcept {
  switch (terms.algorithm) {
    case Algorithm::cooldown:
      if (now < touched.blocked_until) return false;
      if (draw_window(touched, weight)) return true;
      refuse(touched, planned, terms, now);
      return false;
    case Algorithm::shed:
      return !sheds(touched, planned, weight) && draw_window(touched, weight);
    case Algorithm::strict:
      // What is counted under a shared name cannot be told from what a lease has left.
      return touched.entry != nullptr && draw_window(touched, weight);
    case Algorithm::fixed_window:
    case Algorithm::sliding_window:
      return draw_window(touched, weight);
    case Algorithm::token_bucket:
    case Algorithm::leaky_bucket:
      return draw_bucket(touched, planned, weight, terms, now);
    case Algorithm::sliding_log:
      if (touched.terms.allowance == 0) return false;
      touched.drawn = weight;
      return terms.logs->log(*touched.cell).try_acquire(now, weight);
  }
  return false;
}

bool WorkerCore::draw_window(Touched& touched, std::uint64_t weight) noexcept {
  if (touched.terms.allowance == 0) return false;
  if (touched.entry != nullptr) {
    if (touched.entry->credit >= weight) return true;
    const std::uint64_t drawn = touched.cell->draw(weight - touched.entry->credit, touched.terms.allowance,
                                                   plane_.quiescence.workers());
    touched.entry->credit += drawn;
    return drawn > 0;
  }
  if (weight == 0) return true;
  // A divisor this large makes no chunk: there is no entry to keep one in.
  touched.drawn = touched.cell->draw(weight, touched.terms.allowance, std::numeric_limits<unsigned>::max());
  return touched.drawn > 0;
}

bool WorkerCore::draw_bucket(Touched& touched, const PlannedKey& planned, std::uint64_t weight,
                             const RuleTerms& terms, MonotonicTime now) noexcept {
  const TokenPrice price = touched.terms.factor;
  if (touched.terms.allowance == 0) return false;
  const std::uint64_t credit = touched.entry != nullptr ? touched.entry->credit : 0;
  if (credit >= weight) return true;
  const std::uint64_t more = touched.entry != nullptr ? terms.chunk : 0;
  BucketCell::Draw draw =
      BucketCell(*touched.cell).draw(planned.key, weight - credit, more, price, terms.bucket, now);
  if (draw.closed) [[unlikely]] {
    // This worker is the last to leave the old window: what it draws now belongs to the next one.
    const WindowState& window = publication_->windows[terms.window];
    touched.cell = window.running->claim(planned.key).cell;
    BucketCell(*touched.cell)
        .take_over(window.ended == nullptr ? nullptr : window.ended->claim(planned.key).cell, terms.bucket,
                   now);
    draw = BucketCell(*touched.cell).draw(planned.key, weight - credit, 0, price, terms.bucket, now);
    if (touched.entry != nullptr) touched.entry->cell = touched.cell;
  }
  touched.drawn = draw.taken;
  if (touched.entry != nullptr) touched.entry->credit += draw.taken;
  return draw.taken > 0;
}

// Error diffusion: of what has been offered so far the fraction has been admitted, to within one request.
// Where that one falls differs from key to key and from span to span, so that rare keys' rounding evens out.
bool WorkerCore::sheds(const Touched& touched, const PlannedKey& planned,
                       std::uint64_t weight) const noexcept {
  const std::uint64_t fraction = touched.terms.factor;
  if (fraction >= admit_all || touched.entry == nullptr) return false;
  const auto moment = static_cast<std::uint64_t>(table_->began.wall.time_since_epoch().count());
  const std::uint64_t phase = ((planned.key ^ moment) * 0x9e3779b97f4a7c15) >> 32;
  const unsigned __int128 due = static_cast<unsigned __int128>(touched.entry->offered) * fraction +
                                static_cast<unsigned __int128>(weight) * phase;
  return static_cast<unsigned __int128>(touched.entry->admitted + weight) > due >> 32;
}

// The first request refused for want of allowance is the exceeding (algorithm.md §3, step 2).
void WorkerCore::refuse(Touched& touched, const PlannedKey& planned, const RuleTerms& terms,
                        MonotonicTime now) noexcept {
  SpanEntry* entry = touched.entry;
  if (entry == nullptr) return;  // counted under a shared name: no block can follow
  const Duration length = terms.block.length(planned.key);
  if (entry->refused_at == never) entry->refused_at = now;
  entry->blocked_until = now + length;
  touched.blocked_until = entry->blocked_until;
  // A mark of a block that has ended is replaced; one that another worker has just set stays.
  std::int64_t mark = entry->cell->refused_at.load(std::memory_order_relaxed);
  if (mark == AllowanceCell::no_refusal || MonotonicTime(Duration(mark)) + length <= now)
    entry->cell->refused_at.compare_exchange_strong(mark, now.time_since_epoch().count(),
                                                    std::memory_order_relaxed);
}

// The request was refused by another rule. What a worker may keep for its next request stays with its entry.
void WorkerCore::undraw(const Touched& touched, const RuleTerms& terms, MonotonicTime now) noexcept {
  if (touched.drawn == 0) return;
  if (terms.algorithm == Algorithm::sliding_log) {
    terms.logs->log(*touched.cell).give_back(now, touched.drawn);
  } else if (is_bucket(terms.algorithm)) {
    BucketCell(*touched.cell).give_back(touched.drawn, touched.terms.factor, terms.bucket);
    if (touched.entry != nullptr) touched.entry->credit -= touched.drawn;
  } else {
    touched.cell->give_back(touched.drawn);
  }
}

std::uint64_t WorkerCore::remaining(const Touched& touched, const RuleTerms& terms,
                                    MonotonicTime now) const noexcept {
  const std::uint64_t credit = touched.entry != nullptr ? touched.entry->credit : 0;
  if (touched.terms.allowance == 0 || now < touched.blocked_until) return 0;
  if (terms.algorithm == Algorithm::sliding_log) return terms.logs->log(*touched.cell).look(now).remaining;
  if (is_bucket(terms.algorithm)) {
    const std::uint64_t there = BucketCell(*touched.cell).available(terms.bucket, now);
    const auto priced =
        static_cast<unsigned __int128>(there) * full_price / std::max<TokenPrice>(touched.terms.factor, 1);
    return terms.bucket.tokens(static_cast<std::uint64_t>(priced)) + credit;
  }
  const std::uint64_t drawn = touched.cell->drawn.load(std::memory_order_relaxed);
  return (touched.terms.allowance > drawn ? touched.terms.allowance - drawn : 0) + credit;
}

Duration WorkerCore::retry_after(const Touched& touched, const PlannedKey& planned, std::uint64_t weight,
                                 std::uint64_t remaining, MonotonicTime now) const noexcept {
  const RuleTerms& terms = plane_.terms[planned.rule];
  const Duration rest = windows_[terms.window].ends - now;
  if (now < touched.blocked_until) return touched.blocked_until - now;
  switch (terms.algorithm) {
    case Algorithm::cooldown:
    case Algorithm::fixed_window:
      return rest;
    case Algorithm::sliding_window:
    case Algorithm::strict: {
      const KeyState* state = publication_->find(planned.key);
      if (state != nullptr && state->opens_at > now && weight <= remaining + state->opens_by)
        return state->opens_at - now;
      return terms.algorithm == Algorithm::strict ? terms.span : rest + (terms.spans - 1) * terms.span;
    }
    case Algorithm::shed:
      return terms.span;
    case Algorithm::token_bucket:
    case Algorithm::leaky_bucket: {
      if (touched.terms.allowance == 0) return terms.span;
      const std::uint64_t needed = std::min(
          BucketCell::priced(terms.bucket.cost(weight), touched.terms.factor), terms.bucket.capacity());
      const std::uint64_t there = BucketCell(*touched.cell).available(terms.bucket, now);
      if (weight > terms.bucket.burst()) return Duration::max();
      return terms.bucket.time_for(needed - std::min(there, needed));
    }
    case Algorithm::sliding_log:
      return touched.terms.allowance == 0 ? terms.span
                                          : terms.logs->log(*touched.cell).retry_after(now, weight);
  }
  return rest;
}

Duration WorkerCore::reset_after(const Touched& touched, const RuleTerms& terms,
                                 MonotonicTime now) const noexcept {
  const Duration rest = windows_[terms.window].ends - now;
  if (terms.algorithm == Algorithm::sliding_window) return rest + (terms.spans - 1) * terms.span;
  if (terms.algorithm == Algorithm::sliding_log) return terms.logs->log(*touched.cell).look(now).reset_after;
  if (is_bucket(terms.algorithm)) {
    const std::uint64_t there = BucketCell(*touched.cell).available(terms.bucket, now);
    return terms.bucket.time_for(terms.bucket.capacity() - std::min(there, terms.bucket.capacity()));
  }
  return rest;
}

template <typename NameOf>
Decision WorkerCore::decide(const Plan& plan, std::uint64_t multiplier, MonotonicTime now,
                            NameOf&& name_of) noexcept {
  Decision decision;
  if (plan.count == 0 || publication_ == nullptr) return decision;

  // Check all…
  // Not initialised: as a rule few of them are needed, and each decision would pay for all.
  union Places {
    Places() noexcept {}
    Touched all[max_rules_per_request];
  } places;
  Touched* const touched = places.all;
  std::size_t deciding = 0;
  std::array<bool, max_rules_per_request> charge{};
  bool refused = false;
  for (std::size_t i = 0; i < plan.count; ++i) {
    const PlannedKey& planned = plan.keys[i];
    const RuleTerms& terms = plane_.terms[planned.rule];
    Touched& here = *std::construct_at(&touched[i], touch(planned, name_of, now));
    const std::uint64_t weight = terms.weight * multiplier;
    if (here.entry != nullptr)
      here.entry->offered += weight;
    else
      table_->overflow(planned.rule).offered += weight;
    RuleCounters& counters = counters_[planned.rule];
    counters.offered.add(1);
    if (refused) continue;
    if (may_admit(here, planned, weight, terms, now)) {
      charge[i] = true;
      continue;
    }
    here.drawn = 0;
    counters.blocked.add(1);
    if (terms.action == Action::observe) {
      if (decision.observed == no_rule) decision.observed = planned.rule;
    } else {
      refused = true;
      deciding = i;
    }
  }

  // …then charge all, or none. A rule that only observes what another one refuses was not charged either.
  for (std::size_t i = 0; i < plan.count; ++i) {
    if (!charge[i]) continue;
    const RuleTerms& terms = plane_.terms[plan.keys[i].rule];
    const std::uint64_t weight = terms.weight * multiplier;
    if (refused) {
      undraw(touched[i], terms, now);
      continue;
    }
    if (touched[i].entry != nullptr) {
      if (terms.algorithm != Algorithm::sliding_log) touched[i].entry->credit -= weight;
      touched[i].entry->admitted += weight;
    } else {
      table_->overflow(plan.keys[i].rule).admitted += weight;
    }
    counters_[plan.keys[i].rule].admitted.add(1);
  }

  const PlannedKey& by = plan.keys[deciding];
  const RuleTerms& terms = plane_.terms[by.rule];
  const std::uint64_t weight = terms.weight * multiplier;
  decision.verdict = refused ? Verdict::block : Verdict::admit;
  decision.weight =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(weight, std::numeric_limits<std::uint32_t>::max()));
  tell(decision, by, touched[deciding], weight, now);
  return decision;
}

void WorkerCore::tell(Decision& decision, const PlannedKey& planned, const Touched& touched,
                      std::uint64_t weight, MonotonicTime now) const noexcept {
  const RuleTerms& terms = plane_.terms[planned.rule];
  decision.rule = planned.rule;
  decision.action = terms.action;
  decision.limit = terms.limit;
  decision.reset_after = std::max(Duration{}, reset_after(touched, terms, now));
  const bool blocked = decision.verdict == Verdict::block;
  // What is shed is not refused for want of anything.
  if (!blocked || terms.algorithm != Algorithm::shed) decision.remaining = remaining(touched, terms, now);
  if (blocked)
    decision.retry_after =
        std::max(Duration{1}, retry_after(touched, planned, weight, decision.remaining, now));
}

Decision WorkerCore::peek(const PlannedKey& planned, std::span<const std::byte> name,
                          MonotonicTime now) noexcept {
  Decision decision;
  if (publication_ == nullptr) return decision;
  const Touched touched = touch(
      planned, [&](RuleIndex) { return name; }, now);
  const std::uint64_t weight = std::max<std::uint64_t>(plane_.terms[planned.rule].weight, 1);
  if (remaining(touched, plane_.terms[planned.rule], now) < weight) decision.verdict = Verdict::block;
  tell(decision, planned, touched, weight, now);
  return decision;
}

}  // namespace weir
