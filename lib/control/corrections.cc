// SPDX-License-Identifier: BSD-3-Clause
#include "control/corrections.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "limit/bucket_rule.h"

namespace weir {
namespace {

/// Keys come in no order, so all that they touch is fetched for many at once.
constexpr std::size_t corrected_together = 64;
/// Of a key in a sliding log, at once: more than any log holds, and little enough for sums.
constexpr std::int64_t most_logged = std::int64_t{1} << 30;
static_assert(most_logged > max_sliding_log_limit);

}  // namespace

void Corrections::take(CorrectionLog& log, const Drained& drained, Instant now) {
  emptied_.clear();
  std::array<Correction, corrected_together> some;
  std::size_t count = 0;
  log.for_each([&](const Correction& correction) {
    some[count++] = correction;
    if (count < some.size()) return;
    take(some, drained, now);
    count = 0;
  });
  take(std::span(some).first(count), drained, now);
  log.clear();
}

void Corrections::take(std::span<const Correction> some, const Drained& drained, Instant now) {
  for (const Correction& correction : some) parts_.engine.prefetch(correction.key);
  for (const Correction& correction : some) {
    parts_.engine.prefetch_known(correction.key);
    pools_of(correction.rule).prefetch(correction.key);
  }
  for (const Correction& correction : some) {
    if (parts_.rules[correction.rule].algorithm == Algorithm::sliding_log)
      logged_.push_back({correction.key, correction.charged_in,
                         std::clamp(correction.by, -most_logged, most_logged), correction.rule});
    if (correction.by > 0)
      charge(correction, drained, now);
    else
      refunds_.push_back({correction.key, static_cast<std::uint64_t>(-correction.by), correction.charged_in,
                          correction.rule, false});
  }
}

// What has been admitted without being charged counts when that is known: in the span that was drained.
void Corrections::charge(const Correction& correction, const Drained& drained, Instant now) {
  const RuleIndex index = correction.rule;
  const Algorithm algorithm = parts_.rules[index].algorithm;
  const auto weight = static_cast<std::uint64_t>(correction.by);
  const std::uint64_t counted = parts_.engine.charge({.rule = index,
                                                      .key = correction.key,
                                                      .key_bytes = correction.name,
                                                      .began = drained.began.wall,
                                                      .counted_by = drained.counted_by,
                                                      .offered = weight,
                                                      .admitted = weight});
  WindowPools& pools = pools_of(index);
  if (is_bucket(algorithm)) {
    const BucketTerms& bucket = parts_.bucket_of_rule[index];
    const TokenPrice price = parts_.engine.price_of(index, correction.key, now);
    if (pools.charge(correction.key, weight, 1, bucket, now.monotonic, price) > bucket.burst() / 2)
      emptied_.push_back({correction.key, index});
  } else if (algorithm != Algorithm::sliding_log && pools.runs_at(drained.began)) {
    // (Nothing is drawn any more from another window.)
    pools.charge(correction.key, counted);
  }
}

void Corrections::settle(Instant now, const Counted& counted) {
  const bool span_over =
      counted.all_drained && std::exchange(uncounted_, counted.uncounted) != counted.uncounted;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < refunds_.size(); ++i) {
    if (i + corrected_together < refunds_.size())
      parts_.engine.prefetch(refunds_[i + corrected_together].key);
    if (i + corrected_together / 2 < refunds_.size()) {
      const Refunded& soon = refunds_[i + corrected_together / 2];
      parts_.engine.prefetch_known(soon.key);
      pools_of(soon.rule).prefetch(soon.key);
    }
    Refunded rest = refunds_[i];
    const bool bucket = is_bucket(parts_.rules[rest.rule].algorithm);
    if (bucket || is_due(rest, counted)) rest.amount -= refund(rest, now);
    if (bucket || rest.amount == 0 || !may_bear_yet(rest, now.monotonic)) continue;
    const bool found = counted.all_drained && rest.charged_in.monotonic < counted.uncounted;
    if (found && (!rest.waited || span_over)) {
      if (rest.waited || parts_.greatest_grants[rest.rule] == 0) continue;
      rest.waited = true;
    }
    if (kept < most_waiting_) refunds_[kept++] = rest;
  }
  refunds_.resize(kept);
  limit_waited();
  correct_logs(now.monotonic);
}

// What has not been counted would be taken from what others were charged before. But all are not to wait for
// one worker that does not come round; nor beyond the interval.
bool Corrections::is_due(const Refunded& refunded, const Counted& counted) const noexcept {
  if (refunded.charged_in.monotonic < counted.uncounted) return true;
  if (refunded.charged_in.monotonic >= counted.running.monotonic) return false;
  const SpanClock& clock = parts_.engine.clock(refunded.rule);
  return !counted.all_drained ||
         clock.ordinal(refunded.charged_in.wall) < clock.ordinal(counted.running.wall);
}

void Corrections::limit_waited() {
  const auto others =
      std::partition(refunds_.begin(), refunds_.end(), [](const Refunded& one) { return one.waited; });
  const std::span<Refunded> waited(refunds_.begin(), others);
  if (waited.empty()) return;
  std::ranges::sort(waited, {}, [](const Refunded& one) { return std::tuple(one.rule, one.key); });
  std::uint64_t left = 0;
  for (std::size_t i = 0; i < waited.size(); ++i) {
    Refunded& one = waited[i];
    if (i == 0 || one.rule != waited[i - 1].rule || one.key != waited[i - 1].key)
      left = parts_.greatest_grants[one.rule];
    one.amount = std::min(one.amount, left);
    left -= one.amount;
  }
  std::erase_if(refunds_, [](const Refunded& one) { return one.amount == 0; });
}

// (What seems to have been charged in time to come is a caller's mistake; who makes one may name any time.)
bool Corrections::may_bear_yet(const Refunded& refunded, MonotonicTime now) const noexcept {
  const Rule& rule = parts_.rules[refunded.rule];
  const __int128 charged = refunded.charged_in.monotonic.time_since_epoch().count();
  const __int128 age = now.time_since_epoch().count() - charged;
  return age >= 0 && age < 2 * static_cast<__int128>(rule.interval.count()) &&
         parts_.engine.may_be_refunded(refunded.rule, refunded.charged_in.wall);
}

std::uint64_t Corrections::refund(const Refunded& refunded, Instant now) {
  const RuleIndex index = refunded.rule;
  WindowPools& pools = pools_of(index);
  std::uint64_t amount = refunded.amount;
  if (is_bucket(parts_.rules[index].algorithm)) {
    // What the bucket has been filled up with since is not there to be told of again.
    amount = pools.give_back(refunded.key, amount, parts_.engine.price_of(index, refunded.key, now),
                             parts_.bucket_of_rule[index], now.monotonic);
    if (amount > 0)
      parts_.engine.refund({.key = refunded.key, .amount = amount, .charged = refunded.charged_in.wall});
    return amount;
  }
  amount = parts_.engine.refund({.key = refunded.key, .amount = amount, .charged = refunded.charged_in.wall});
  if (amount > 0 && parts_.rules[index].algorithm != Algorithm::sliding_log &&
      pools.runs_at(refunded.charged_in))
    pools.give_back(refunded.key, amount);
  return amount;
}

void Corrections::correct_logs(MonotonicTime now) {
  std::ranges::sort(
      logged_, {}, [](const Logged& one) { return std::tuple(one.rule, one.key, one.charged_in.monotonic); });
  for (auto first = logged_.begin(); first != logged_.end();) {
    const auto last = std::find_if(first, logged_.end(), [&](const Logged& one) {
      return one.rule != first->rule || one.key != first->key;
    });
    correct_log({first, last}, now);
    first = last;
  }
  logged_.clear();
}

// What is handed back comes first: a log that is full forgets what it is charged beyond that.
// @param of_key  in the order in which they were charged
void Corrections::correct_log(std::span<const Logged> of_key, MonotonicTime now) {
  const std::uint64_t key = of_key.front().key;
  WindowPools& pools = pools_of(of_key.front().rule);
  std::int64_t charged = 0;
  for (std::size_t i = 0; i < of_key.size();) {
    const MonotonicTime charged_in = of_key[i].charged_in.monotonic;
    std::int64_t back = 0;
    for (; i < of_key.size() && of_key[i].charged_in.monotonic == charged_in; ++i)
      (of_key[i].by < 0 ? back : charged) += of_key[i].by;
    if (back < 0) pools.correct_log(key, back, charged_in, now);
  }
  if (charged > 0) pools.correct_log(key, charged, now, now);
}

}  // namespace weir
