// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Leaky bucket as a meter: every admitted request pours its weight in, the bucket drains at limit /
/// interval, and what would make it overflow is refused. Nothing is queued; who wants a queue asks reserve()
/// when to go.
///
/// It is the token bucket seen from the other side (water = capacity − tokens), so both decide alike; this
/// one speaks of water, and has no warm-up.
#pragma once

#include <cstdint>

#include "limit/bucket_meter.h"

namespace weir {

/// Immutable; pure transitions on a State.
class LeakyBucket : public BucketMeter {
 public:
  /// @param limit     weight drained per interval, ≥ 1
  /// @param interval  > 0
  /// @param burst     capacity, ≥ 1; cut to BucketTerms::max_burst
  constexpr LeakyBucket(std::uint64_t limit, Duration interval, std::uint64_t burst) noexcept
      : BucketMeter(BucketTerms(limit, interval, burst)) {}

  /// What is in the bucket, rounded up to whole weight; above the capacity: debt.
  constexpr std::uint64_t water(const State& state, Instant now) const noexcept { return taken(state, now); }
};

}  // namespace weir
