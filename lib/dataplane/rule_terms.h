// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a worker needs of a rule, and nothing else: dense, so that the rules of a request share few cache
/// lines.
#pragma once

#include <cstdint>

#include "limit/bucket.h"
#include "limit/bucket_rule.h"
#include "limit/cooldown.h"
#include "shared/log_pool.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

struct RuleTerms {
  std::uint64_t limit = 0;
  std::uint32_t weight = 1;
  std::uint16_t window = 0;  ///< index into Publication::windows
  Algorithm algorithm = Algorithm::cooldown;
  Action action = Action::drop;
  bool dense = false;  ///< its keys have no dimensions: there is one
  BlockTerms block;    ///< cooldown
  Duration interval{};
  std::uint32_t spans = 2;
  std::uint16_t section = 0;  ///< buckets: of the pools' sketches
  /// How closely its keys are about who sends requests, among all rules: a number of its own for each degree,
  /// from 1 on. What several rules refuse is demand under the closest of them.
  std::uint16_t closeness = 1;
  std::uint64_t chunk = 0;  ///< buckets: tokens drawn beyond need, when several workers share one
  /// What a refused request counts that is too heavy ever to be admitted: no demand to be shared, but where
  /// refusals count by themselves (counts_refusals()) the limit is exceeded.
  std::uint64_t too_heavy_counts = 0;
  LogPool* logs = nullptr;  ///< sliding log: the keys' logs
  BucketTerms bucket;       ///< token and leaky bucket
};

/// The shortest span there is.
inline Duration span_of(const RuleTerms& terms) noexcept { return terms.interval / terms.spans; }
/// From a span's end until it has left a sliding window; where spans differ by a nanosecond, that of the
/// shortest.
inline Duration until_left(const RuleTerms& terms) noexcept { return terms.interval - span_of(terms); }

/// The heaviest request that is ever admitted.
inline std::uint64_t heaviest_of(const RuleTerms& terms) noexcept {
  return is_bucket(terms.algorithm) ? terms.bucket.burst() : terms.limit;
}

/// What a request that the rule refuses counts.
inline std::uint64_t counts_refused(const RuleTerms& terms, std::uint64_t weight) noexcept {
  return weight > heaviest_of(terms) ? terms.too_heavy_counts : weight;
}

/// Whether what is refused counts of itself: it exceeds the limit, or is counted like what is admitted.
inline bool counts_refusals(const RuleTerms& terms) noexcept { return terms.too_heavy_counts > 0; }

inline bool may_refuse(const RuleTerms& terms) noexcept { return terms.action != Action::observe; }

}  // namespace weir
