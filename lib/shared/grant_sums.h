// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What several workers have used of the same keys, added up by key before anything else is done with it.
///
/// The problem: where each of W workers is asked for the same million keys, their grants tell of W million
/// uses in a span; and what is done with one, a count in the engine's ledger, costs several cache misses. But
/// all workers' tables are of one size, so that a key has the same home line in each of them, and nearly
/// always lies there. So tables are gone through side by side, a group of lines of each at a time
/// (GrantTable::harvest_group), and a key's uses come to one sum while they are in the nearest cache. A key
/// that lies in another line of some worker's table, because its home was full there, comes to two sums:
/// nothing depends on its being one.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/grant_table.h"
#include "shared/lanes.h"
#include "weir/rule.h"

namespace weir {

/// Of one group of lines at a time. Not thread-safe.
class GrantSums {
 public:
  /// (A key's sum is far from 2^32: no worker tells of more than GrantTable::most.)
  /// @param line  of the group, in which the key lies
  void add(std::size_t line, const GrantUse& use) {
    Line& sums = lines_[line];
    const auto tag = static_cast<std::uint32_t>(use.key);
    const auto key_high = static_cast<std::uint32_t>(use.key >> 32);
    if (const Lanes lanes = Lanes::with(sums.tags.data(), tag); !lanes.none()) {
      const std::size_t lane = lanes.first();
      if (sums.key_highs[lane] == key_high)
        sums.admitted[lane] += use.admitted;
      else
        others_.push_back(use);
    } else if (sums.taken < Lanes::per_line) {
      const std::size_t lane = sums.taken++;
      sums.tags[lane] = tag;
      sums.key_highs[lane] = key_high;
      sums.admitted[lane] = use.admitted;
      sums.rules[lane] = use.rule;
      in_use_ |= std::uint64_t{1} << line;
    } else {
      others_.push_back(use);
    }
  }

  /// Calls visit(const GrantUse&) for each sum, and forgets them all. That visit() throws ends the program.
  template <typename Visitor>
  void take(Visitor&& visit) noexcept {
    for (; in_use_ != 0; in_use_ &= in_use_ - 1) {
      Line& sums = lines_[static_cast<unsigned>(std::countr_zero(in_use_))];
      for (std::size_t lane = 0; lane < sums.taken; ++lane)
        visit(GrantUse{.key = std::uint64_t{sums.key_highs[lane]} << 32 | sums.tags[lane],
                       .rule = sums.rules[lane],
                       .admitted = sums.admitted[lane]});
      sums.tags = {};
      sums.taken = 0;
    }
    for (const GrantUse& use : others_) visit(use);
    others_.clear();
  }

 private:
  struct alignas(64) Line {
    std::array<std::uint32_t, Lanes::per_line> tags;  // 0: free
    std::array<std::uint32_t, Lanes::per_line> key_highs;
    std::array<std::uint32_t, Lanes::per_line> admitted;
    std::array<RuleIndex, Lanes::per_line> rules;
    std::uint32_t taken;
  };

  static_assert(GrantTable::lines_per_group == 64);
  std::array<Line, GrantTable::lines_per_group> lines_{};
  std::uint64_t in_use_ = 0;  // a bit for each line
  // Whose line has no lane for them: of workers that hold different keys there, or of keys that look alike.
  std::vector<GrantUse> others_;
};

}  // namespace weir
