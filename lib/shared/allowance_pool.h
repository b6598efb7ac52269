// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What this node may still admit of each key in one window, shared by its workers. A window is an interval,
/// or one span of a sliding window, or the time a bucket takes to fill.
///
/// The hard property: one node never admits more than the limit of one key in one window, over all its
/// workers, also where the limit is smaller than their number. So workers draw what they admit from one cell
/// per key: the one shared write of the data plane. It is rare by construction: a draw takes a chunk, and
/// chunks shrink with what remains.
///
/// Cells are only ever added while an interval runs, in a fixed probe order, so that two workers meeting a
/// new key at once agree on its cell without a lock; the controller clears a whole pool when its interval is
/// over and all workers have passed a grace period. When a key's probe is full of others, it draws from a
/// cell of the sketch that it may share with further light keys: it is refused early rather than never.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/huge_array.h"
#include "base/prefetch.h"
#include "weir/time.h"

namespace weir {

/// One key's cell. Written by all workers (compare-exchange) and, for credit handed back, by the controller.
struct alignas(32) AllowanceCell {
  /// The key's hash; 0: free. Claimed once by a worker's compare-exchange, cleared by the controller between
  /// intervals.
  std::atomic<std::uint64_t> key{0};
  /// Weight drawn in this window; for a bucket its level, see shared/bucket_cell.h. All orders relaxed: the
  /// number itself is all there is to agree on. What a worker had granted and did not need comes back here
  /// though it was not drawn: then the difference may be below 0, in two's complement.
  std::atomic<std::uint64_t> drawn{0};
  /// First refusal for want of allowance that still holds, in nanoseconds of monotonic time. Relaxed: an
  /// early hint; the block itself comes through the publication.
  std::atomic<std::int64_t> refused_at{no_refusal};

  /// Sliding logs only: 1 + the index of the key's log, see shared/log_pool.h; 0: none yet.
  std::atomic<std::uint32_t> log{0};

  static constexpr std::int64_t no_refusal = never.time_since_epoch().count();
  /// No chunk is larger: workers keep what they have drawn in 32 bits.
  static constexpr std::uint64_t usual_chunk = std::uint64_t{1} << 31;

  /// Takes `need`, and as much more as makes a chunk, if the allowance still holds it. Any worker.
  /// @param chunk_divisor  workers, at least 1: what remains is divided so that no one strands much
  /// @param largest_chunk  beyond it only the need is taken; 0: never more than that
  /// @return what was taken, at least `need`; 0: not enough left
  std::uint64_t draw(std::uint64_t need, std::uint64_t allowance, unsigned chunk_divisor,
                     std::uint64_t largest_chunk = usual_chunk) noexcept;

  /// Of an allowance, what has not been drawn. Any thread.
  std::uint64_t left_of(std::uint64_t allowance) const noexcept {
    const auto already = static_cast<std::int64_t>(drawn.load(std::memory_order_relaxed));
    return left(allowance, already);
  }

  /// Puts back what was drawn and not used.
  void give_back(std::uint64_t unused) noexcept {
    // Relaxed: see drawn. Only what was drawn or granted comes back, and to the window it came from.
    drawn.fetch_sub(unused, std::memory_order_relaxed);
  }

 private:
  static std::uint64_t left(std::uint64_t allowance, std::int64_t already) noexcept {
    if (already < 0) return allowance + static_cast<std::uint64_t>(-already);
    return allowance - std::min(allowance, static_cast<std::uint64_t>(already));
  }
};
static_assert(sizeof(AllowanceCell) == 32);

class AllowancePool {
 public:
  /// @param keys  cells are made for twice as many, plus the sketch
  explicit AllowancePool(std::uint32_t keys);

  /// What a worker draws a key from.
  struct Place {
    AllowanceCell* cell;
    bool own;  ///< false: a cell of the sketch, shared with other keys
  };

  /// The key's cell, claimed if it has none. Any worker, any time. Bounded: one probe of probe_length cells.
  Place claim(std::uint64_t key) noexcept;
  /// The key's own cell, or nullptr.
  AllowanceCell* find(std::uint64_t key) noexcept;
  /// Calls visit(cell) for every cell that a worker may have used. The controller, after a grace period.
  template <typename Visitor>
  void for_each_cell(Visitor&& visit) noexcept {
    for (std::size_t i = 0; i < cells_.size(); ++i)
      if (cells_[i].key.load(std::memory_order_relaxed) != 0) visit(cells_[i]);
    for (std::size_t i = 0; i < sketch_.size(); ++i) visit(sketch_[i]);
  }
  void prefetch(std::uint64_t key) const noexcept { prefetch_to_write(&cells_[home(key)]); }

  /// Whether so many cells are taken that keys may soon find none, as far as a sample tells. Any thread.
  bool crowded() const noexcept;

  /// Empties the pool. The controller alone, after a grace period.
  void clear() noexcept;

  std::size_t memory() const noexcept { return cells_.bytes() + sketch_.bytes(); }

 private:
  // Twelve cache lines at worst, one as a rule. Of as many keys as the pool is for, one in 40,000 finds none.
  static constexpr std::size_t probe_length = 24;
  /// Hashes are as good at the top as at the bottom, so any number of cells will do.
  std::size_t home(std::uint64_t key) const noexcept {
    return static_cast<std::size_t>(static_cast<unsigned __int128>(key) * homes_ >> 64);
  }
  AllowanceCell& shared_cell(std::uint64_t key) noexcept {
    return sketch_[static_cast<std::uint32_t>(key) * sketch_.size() >> 32];
  }

  std::size_t homes_;
  HugeArray<AllowanceCell> cells_;  // a few more than homes, for those that begin near the end
  HugeArray<AllowanceCell> sketch_;
};

}  // namespace weir
