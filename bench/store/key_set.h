// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The counters that every contender is to synchronise: the same names and counts for all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::bench {

struct KeySet {
  std::vector<std::string> names;     ///< "user|203.0.113.57", all different
  std::vector<std::uint32_t> counts;  ///< to be added to each in one pass; 1 … 200, most of them small
  std::uint64_t sum = 0;              ///< of the counts

  std::size_t size() const noexcept { return names.size(); }
};

/// The first `keys` of a fixed sequence. @pre keys ≤ 2^32
KeySet make_keys(std::size_t keys);

}  // namespace weir::bench
