// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What windows that slide hold of each span, of keys that are known by the span: a block for each such key,
/// as long as its rule has spans. Blocks come and go; what they take is kept for others of their length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <utility>

#include "base/huge_rows.h"

namespace weir {

/// What was admitted in one span, for windows that slide.
struct SpanCounts {
  /// Before any that a clock may tell; far from where numbers end, so that it may be counted on from.
  static constexpr std::int64_t before_all = std::numeric_limits<std::int64_t>::min() / 2;

  std::int64_t number = before_all;  ///< of the span, counted from the epoch
  std::uint64_t own = 0;
  std::uint64_t others = 0;
};

/// Not thread-safe.
class SpanBlocks {
 public:
  /// @param most  blocks that there will be at once
  explicit SpanBlocks(std::size_t most) : most_(most) {}

  /// A blank one that stays where it is, until it is given back.
  std::span<SpanCounts> take(std::size_t length) {
    Pool& pool = pool_of(length);
    if (pool.free == nullptr) return {pool.rows[pool.rows.add()], length};
    SpanCounts* const block = std::exchange(pool.free, next_of(*pool.free));
    std::fill_n(block, length, SpanCounts());
    return {block, length};
  }
  /// @param block  that was taken, or none
  void give_back(std::span<SpanCounts> block) noexcept {
    if (block.empty()) return;
    Pool& pool = pool_of(block.size());
    block[0].own = reinterpret_cast<std::uintptr_t>(std::exchange(pool.free, block.data()));
  }
  std::size_t memory() const noexcept {
    std::size_t sum = 0;
    for (const Pool& pool : pools_) sum += pool.rows.memory();
    return sum;
  }

 private:
  struct Pool {
    Pool(std::size_t length, std::size_t most) : rows(length, most) {}

    HugeRows<SpanCounts> rows;
    SpanCounts* free = nullptr;  // the first of those that were given back
  };

  static SpanCounts* next_of(const SpanCounts& free) noexcept {
    return reinterpret_cast<SpanCounts*>(static_cast<std::uintptr_t>(free.own));
  }

  // There are as few lengths as rules have different numbers of spans.
  Pool& pool_of(std::size_t length) {
    for (Pool& pool : pools_)
      if (pool.rows.width() == length) return pool;
    return pools_.emplace_back(length, most_);
  }

  std::size_t most_;
  std::deque<Pool> pools_;
};

}  // namespace weir
