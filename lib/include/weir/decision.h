// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What weir says about one request.
#pragma once

#include <cstdint>

#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

enum class Verdict : std::uint8_t { admit, block };

/// The answer to one request.
struct Decision {
  Verdict verdict = Verdict::admit;
  Action action = Action::observe;  ///< of the deciding rule; meaningful for `block`
  /// The rule that refused; else the first rule that applied; else no_rule.
  RuleIndex rule = no_rule;
  /// An observing rule that would have refused (the verdict does not show it); else no_rule.
  RuleIndex observed = no_rule;
  std::uint32_t weight = 0;     ///< what was, or would have been, charged under `rule`
  std::uint64_t limit = 0;      ///< of `rule`, per interval
  std::uint64_t remaining = 0;  ///< what this worker knows may still be admitted to the key in this interval
  Duration retry_after{};       ///< for `block`: until the block ends; at least 1 ns
  Duration reset_after{};       ///< until the interval ends
};

}  // namespace weir
