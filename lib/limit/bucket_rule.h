// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which rules limit by buckets, and how much these hold.
#pragma once

#include <algorithm>
#include <cstdint>

#include "limit/bucket.h"
#include "weir/rule.h"

namespace weir {

constexpr bool is_bucket(Algorithm algorithm) noexcept {
  return algorithm == Algorithm::token_bucket || algorithm == Algorithm::leaky_bucket;
}

/// Tokens that a full bucket of the rule holds. @pre is_bucket()
inline std::uint64_t burst_of(const Rule& rule) noexcept {
  return std::min(rule.burst != 0 ? rule.burst : rule.limit, BucketTerms::max_burst);
}

}  // namespace weir
