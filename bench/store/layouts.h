// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Candidates for how counters lie in Redis and how a batch of counts is applied to them. Batches are those
/// of one partition, for all candidates, also for those that would not need it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "key_set.h"
#include "wire.h"

namespace weir::bench {

/// Counts that are applied together.
struct CountBatch {
  std::uint32_t partition = 0;
  std::uint64_t sequence = 0;           ///< grows; of this candidate and turn
  std::span<const std::uint32_t> keys;  ///< positions in the key set
};

struct Layout {
  std::string name;
  std::string description;
  std::size_t batch = 512;  ///< the most keys of one
  /// Appends the commands of a batch. @return how many replies they have
  std::function<std::uint64_t(std::string& output, const KeySet& keys, const CountBatch& batch)> append;
  /// Whether the integers in the replies add up to the counters' sums.
  bool answers_sums = true;
};

/// The candidates; loads their scripts into the server. The first is what the others are compared to: INCRBY
/// alone.
std::vector<Layout> make_layouts(Wire& wire);

/// The keys by partition, as a store has them.
std::vector<std::vector<std::uint32_t>> partitioned(const KeySet& keys);

}  // namespace weir::bench
