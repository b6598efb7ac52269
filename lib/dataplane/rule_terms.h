// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a worker needs of a rule, and nothing else: dense, so that the rules of a request share few cache
/// lines.
#pragma once

#include <cstdint>

#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

struct RuleTerms {
  std::uint64_t limit = 0;
  Duration cooldown{};
  std::uint32_t weight = 1;
  std::uint16_t interval = 0;  ///< index into Publication::intervals
  Action action = Action::drop;
};

}  // namespace weir
