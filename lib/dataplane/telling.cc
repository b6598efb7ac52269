// SPDX-License-Identifier: BSD-3-Clause
// What a decision tells besides its verdict: how much remains of a key, and when there is more.
#include <algorithm>
#include <cstdint>

#include "dataplane/worker_core.h"
#include "limit/bucket_rule.h"
#include "shared/bucket_cell.h"

namespace weir {
namespace {

/// Whole tokens that so many units of a bucket come to.
std::uint64_t tokens_of(std::uint64_t units, const BucketTerms& bucket, TokenPrice price) noexcept {
  const auto priced = static_cast<unsigned __int128>(units) * full_price / std::max<TokenPrice>(price, 1);
  return bucket.tokens(static_cast<std::uint64_t>(priced));
}

}  // namespace

// What may be drawn of the key, what is left of the worker's grant, and what an entry has drawn beside it.
std::uint64_t WorkerCore::remaining_of_granted(const PlannedKey& planned, GrantTable::Place place,
                                               MonotonicTime now) const noexcept {
  const SpanTable::Place entry = table_->locate(planned.key);
  const bool drew =
      entry != SpanTable::nowhere && table_->is_open(entry) && table_->holds(entry, planned.key);
  return drawable_of_granted(planned, now) + (drew ? table_->credit(entry) : 0) +
         left_of(rule_grants_[planned.rule], place);
}

std::uint64_t WorkerCore::drawable_of_granted(const PlannedKey& planned, MonotonicTime now) const noexcept {
  const RuleTerms& rule = plane_.terms[planned.rule];
  const KeyState* state = publication_->find(planned.key);
  const KeyTerms terms = terms_of(planned.key, planned.rule, state, windows_[rule.window], true);
  if (is_bucket(rule.algorithm)) {
    const std::uint64_t full = rule.bucket.capacity();
    return tokens_of(full - std::min(missing_of_granted(planned, now), full), rule.bucket, terms.factor);
  }
  const AllowanceCell* cell = windows_[rule.window].running->foresee(planned.key, index_);
  return cell != nullptr ? cell->left_of(terms.allowance) : terms.allowance;
}

// Units that its bucket lacks, wherever that is: also where it has moved on before this worker.
std::uint64_t WorkerCore::missing_of_granted(const PlannedKey& planned, MonotonicTime now) const noexcept {
  const RuleTerms& terms = plane_.terms[planned.rule];
  const WindowState& window = plane_.publication.load()->windows[terms.window];
  AllowancePool& running = *window.running;
  const AllowanceCell* const cell = running.foresee(planned.key, index_, terms.section);
  const AllowanceCell* const before = window.ended == nullptr ? nullptr : window.ended->find(planned.key);
  const auto missing = [&](const AllowanceCell* of) {
    return of == nullptr || !BucketCell::is_here(*of) ? 0 : BucketCell::missing(*of, terms.bucket, now);
  };
  return std::max(missing(cell), missing(before));
}

// Where the key's bucket is: it may have moved on to the next window before this worker.
BucketCell WorkerCore::bucket_of(const Touched& touched, const PlannedKey& planned) const noexcept {
  if (!BucketCell(*touched.cell).is_here()) [[unlikely]] {
    AllowancePool& running = *plane_.publication.load()->windows[plane_.terms[planned.rule].window].running;
    if (AllowanceCell* const cell = running.find(planned.key); cell != nullptr && BucketCell(*cell).begun())
      return BucketCell(*cell);
  }
  return BucketCell(*touched.cell);
}

// Units that it lacks; of a key that shares one, and had one for itself before, what that lacks if it is
// more.
std::uint64_t WorkerCore::missing_of(const Touched& touched, const PlannedKey& planned,
                                     MonotonicTime now) const noexcept {
  const RuleTerms& terms = plane_.terms[planned.rule];
  const std::uint64_t missing = bucket_of(touched, planned).missing(terms.bucket, now);
  const AllowanceCell* const before = own_bucket_before(touched, planned.key, terms);
  return before == nullptr ? missing : std::max(missing, BucketCell::missing(*before, terms.bucket, now));
}

std::uint64_t WorkerCore::remaining(const Touched& touched, const PlannedKey& planned,
                                    MonotonicTime now) const noexcept {
  return now < touched.blocked_until ? 0 : room(touched, planned, now);
}

// What would remain if the key were not blocked.
std::uint64_t WorkerCore::room(const Touched& touched, const PlannedKey& planned,
                               MonotonicTime now) const noexcept {
  if (touched.grant != GrantTable::nowhere) return remaining_of_granted(planned, touched.grant, now);
  const RuleTerms& terms = plane_.terms[planned.rule];
  std::uint64_t credit = touched.entry != nullptr ? table_->credit(touched.place) : 0;
  if (touched.entry != nullptr && touched.entry->lent > 0)
    if (const GrantTable::Place lent = grants_.locate(planned.key); lent != GrantTable::nowhere)
      credit += left_of(rule_grants_[planned.rule], lent);
  if (touched.terms.allowance == 0) return 0;
  if (terms.algorithm == Algorithm::sliding_log)
    return log_of(touched, planned.key, terms).look(now).remaining;
  if (is_bucket(terms.algorithm)) {
    const std::uint64_t full = terms.bucket.capacity();
    const std::uint64_t there = full - std::min(missing_of(touched, planned, now), full);
    return tokens_of(there, terms.bucket, touched.terms.factor) + credit;
  }
  return touched.cell->left_of(touched.terms.allowance) + credit;
}

Duration WorkerCore::retry_after(const Touched& touched, const PlannedKey& planned, std::uint64_t weight,
                                 std::uint64_t remaining, MonotonicTime now) const noexcept {
  const RuleTerms& terms = plane_.terms[planned.rule];
  if (weight > heaviest_of(terms)) return forever;
  const MonotonicTime ends = windows_[terms.window].ends;
  const Duration rest = ends - now;
  if (now < touched.blocked_until) {
    // Who comes back when the block ends, and finds the interval's limit used up, begins another one.
    const bool ends_in_vain = touched.blocked_until < ends && weight > room(touched, planned, now);
    return (ends_in_vain ? ends : touched.blocked_until) - now;
  }
  switch (terms.algorithm) {
    case Algorithm::cooldown:
    case Algorithm::fixed_window:
      return rest;
    case Algorithm::sliding_window:
    case Algorithm::strict: {
      const KeyState* state = publication_->find(planned.key);
      if (state != nullptr && state->opens_at > now && weight <= remaining + state->opens_by)
        return state->opens_at - now;
      return terms.algorithm == Algorithm::strict ? span_of(terms) : rest + until_left(terms);
    }
    case Algorithm::shed:
      return span_of(terms);
    case Algorithm::token_bucket:
    case Algorithm::leaky_bucket: {
      if (touched.terms.allowance == 0) return span_of(terms);
      const std::uint64_t needed = std::min(
          BucketCell::priced(terms.bucket.cost(weight), touched.terms.factor), terms.bucket.capacity());
      const std::uint64_t missing = missing_of(touched, planned, now);
      return terms.bucket.time_for(missing - std::min(missing, terms.bucket.capacity() - needed));
    }
    case Algorithm::sliding_log:
      return touched.terms.allowance == 0 ? span_of(terms)
                                          : log_of(touched, planned.key, terms).retry_after(now, weight);
  }
  return rest;
}

Duration WorkerCore::reset_after(const Touched& touched, const PlannedKey& planned,
                                 MonotonicTime now) const noexcept {
  const RuleTerms& terms = plane_.terms[planned.rule];
  const Duration rest = windows_[terms.window].ends - now;
  if (terms.algorithm == Algorithm::sliding_window) return rest + until_left(terms);
  if (terms.algorithm == Algorithm::sliding_log)
    return log_of(touched, planned.key, terms).look(now).reset_after;
  if (is_bucket(terms.algorithm)) {
    return terms.bucket.time_for(touched.grant != GrantTable::nowhere ? missing_of_granted(planned, now)
                                                                      : missing_of(touched, planned, now));
  }
  return rest;
}

void WorkerCore::tell(Decision& decision, const PlannedKey& planned, const Touched& touched,
                      std::uint64_t weight, MonotonicTime now) const noexcept {
  const RuleTerms& terms = plane_.terms[planned.rule];
  name_rule(decision, planned.rule, weight);
  // Nothing is admitted before a block ends.
  const Duration block_lasts = now < touched.blocked_until ? touched.blocked_until - now : Duration{};
  decision.reset_after = std::max(block_lasts, reset_after(touched, planned, now));
  const bool blocked = decision.verdict == Verdict::block;
  // What is shed is not refused for want of anything.
  if (!blocked || terms.algorithm != Algorithm::shed) decision.remaining = remaining(touched, planned, now);
  if (blocked)
    decision.retry_after =
        std::max(Duration{1}, retry_after(touched, planned, weight, decision.remaining, now));
}

// For Decision::retry_after, which tell() makes of the same.
Duration WorkerCore::retry_after_refusal(const PlannedKey& planned, MonotonicTime now) const noexcept {
  const Touched touched = touched_at(planned.place, plane_.terms[planned.rule]);
  // What is shed is not refused for want of anything.
  const bool sheds = plane_.terms[planned.rule].algorithm == Algorithm::shed;
  const std::uint64_t there = sheds ? 0 : remaining(touched, planned, now);
  return std::max(Duration{1}, retry_after(touched, planned, rule_grants_[planned.rule].weight, there, now));
}

}  // namespace weir
