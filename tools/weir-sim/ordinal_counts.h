// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Sums by ordinal, for ledgers that nothing wipes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/span_clock.h"

namespace weir::sim {

/// Nearly all additions go to the latest ordinals, so a sorted array searched from its end serves.
class OrdinalCounts {
 public:
  struct Count {
    Ordinal ordinal;
    std::int64_t value;  ///< below 0 where more was taken off than put on
  };

  std::int64_t& operator[](Ordinal ordinal) {
    auto at = counts_.end();
    while (at != counts_.begin() && (at - 1)->ordinal >= ordinal) --at;
    if (at == counts_.end() || at->ordinal != ordinal) at = counts_.insert(at, {ordinal, 0});
    return at->value;
  }

  std::int64_t of(Ordinal ordinal) const noexcept {
    const auto at = std::ranges::lower_bound(counts_, ordinal, {}, &Count::ordinal);
    return at == counts_.end() || at->ordinal != ordinal ? 0 : at->value;
  }

  auto begin() const noexcept { return counts_.begin(); }
  auto end() const noexcept { return counts_.end(); }

 private:
  std::vector<Count> counts_;  // ascending
};

}  // namespace weir::sim
