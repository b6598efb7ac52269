// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a worker needs of a rule, and nothing else: dense, so that the rules of a request share few cache
/// lines.
#pragma once

#include <cstdint>

#include "limit/bucket.h"
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
  bool dense = false;         ///< its keys have no dimensions: there is one
  BlockTerms block;           ///< cooldown
  Duration span{};            ///< interval / spans
  std::uint32_t spans = 2;    ///< of a sliding window
  std::uint16_t section = 0;  ///< buckets: of the pools' sketches
  std::uint64_t chunk = 0;    ///< buckets: tokens drawn beyond need, when several workers share one
  LogPool* logs = nullptr;    ///< sliding log: the keys' logs
  BucketTerms bucket;         ///< token and leaky bucket
};

inline bool may_refuse(const RuleTerms& terms) noexcept { return terms.action != Action::observe; }

}  // namespace weir
