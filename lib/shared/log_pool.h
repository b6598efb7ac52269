// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The sliding logs of one rule's keys: a fixed number of logs, each with room for the rule's limit of
/// admissions, handed to keys at their first touch.
///
/// A key's cell names its log by index. Cells live in pools that are cleared as a whole, the log goes on: at
/// the key's first touch in a new pool its cell there gets the index that the old pool's cell has. Both cells
/// agree by one compare-exchange each, first the old one, so workers in different windows find the same log.
/// When a pool is cleared, a log that no cell of the two newer pools names has been idle for a whole window,
/// which is at least the log's interval: nothing in it counts any more, and it is free.
///
/// Where no log is free, keys share the last one: each is refused early rather than never. Memory never
/// grows.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "limit/sliding_log.h"
#include "shared/allowance_pool.h"
#include "weir/limiter.h"

namespace weir {

class LogPool {
 public:
  /// Memory that the logs of one rule may take.
  static constexpr std::size_t max_bytes = std::size_t{64} << 20;

  /// @param limit  of the rule, 1 … max_sliding_log_limit
  /// @param keys   logs to make, where max_bytes allow it
  LogPool(std::uint64_t limit, Duration interval, std::uint32_t keys)
      : terms_(limit, interval),
        logs_(static_cast<std::uint32_t>(
            std::clamp<std::size_t>(max_bytes / (limit * sizeof(SlidingLogSlot)), 2, std::max(keys, 2U)))),
        heads_(std::make_unique<SlidingLogHead[]>(logs_)),
        slots_(std::make_unique<SlidingLogSlot[]>(logs_ * limit)),
        free_(std::make_unique<std::atomic<std::uint32_t>[]>(logs_)),
        idle_(logs_) {
    // The last one is the one that is shared.
    for (std::uint32_t i = 0; i + 1 < logs_; ++i) free_[i].store(i, std::memory_order_relaxed);
    offered_.store(logs_ - 1, std::memory_order_relaxed);
  }

  /// One key's log. Any worker, any time.
  class Log {
   public:
    Log(const SlidingLog& terms, SlidingLogHead& head, std::span<SlidingLogSlot> slots) noexcept
        : terms_(terms), head_(head), slots_(slots) {}

    bool try_acquire(MonotonicTime now, std::uint64_t weight) noexcept {
      return weight == 0 || terms_.admit(head_, slots_, now, weight);
    }
    void give_back(MonotonicTime now, std::uint64_t weight) noexcept {
      terms_.correct(head_, slots_, {WallTime{}, now}, -static_cast<std::int64_t>(weight));
    }
    /// Admits what has been, whatever the window holds.
    void charge(MonotonicTime now, std::uint64_t weight) noexcept {
      terms_.correct(head_, slots_, {WallTime{}, now}, static_cast<std::int64_t>(weight));
    }
    /// What may be admitted at `now`, how long until it is `weight`, and until it is all.
    Acquisition look(MonotonicTime now) const noexcept {
      return terms_.peek(head_, slots_, {WallTime{}, now});
    }
    Duration retry_after(MonotonicTime now, std::uint64_t weight) const noexcept {
      return terms_.retry_after(head_, slots_, now, weight);
    }

   private:
    const SlidingLog& terms_;
    SlidingLogHead& head_;
    std::span<SlidingLogSlot> slots_;
  };

  /// @pre take_over(cell) has been called. (Where the cell's pool has been cleared since, under a worker that
  /// did not come round: the shared log.)
  Log log(const AllowanceCell& cell) noexcept {
    const std::uint32_t named = cell.log.load(std::memory_order_relaxed);
    const std::uint32_t index = (named == 0 ? logs_ : named) - 1;
    return {
        terms_, heads_[index], {&slots_[index * terms_.limit()], static_cast<std::size_t>(terms_.limit())}};
  }

  /// Whether the cell's key shares its log with others. @pre take_over(cell) has been called
  bool is_shared(const AllowanceCell& cell) const noexcept {
    return cell.log.load(std::memory_order_relaxed) == logs_;
  }

  /// Gives the cell its key's log: the one the ended pool's cell has, or a free one. Any worker.
  /// @param ended  the key's cell in the pool before, or nullptr
  /// @param spare  the caller's, of this pool alone: a log it took and then did not need (plus 1), 0: none
  void take_over(AllowanceCell& cell, AllowanceCell* ended, std::uint32_t& spare) noexcept {
    // Relaxed: an index is all there is to agree on; the log's own words carry their order.
    std::uint32_t known = 0;
    if (ended != nullptr) {
      known = ended->log.load(std::memory_order_relaxed);
      if (known == 0) known = agree(*ended, spare);
    }
    if (known != 0)
      agree_on(cell, known);
    else
      agree(cell, spare);
  }

  /// Frees the logs that cells of `cleared` name and no cell of the two newer pools does. (A log that a
  /// worker holds spare is named by none.) The controller, before it clears that pool, when no worker can be
  /// in it.
  void free_idle(AllowancePool& cleared, AllowancePool& running, AllowancePool& ended) noexcept {
    const auto mark = [&](AllowancePool& pool, bool idle) {
      pool.for_each_cell([&](const AllowanceCell& cell) {
        // Relaxed: nobody writes it any more, or what is written does not matter.
        if (const std::uint32_t log = cell.log.load(std::memory_order_relaxed); log != 0)
          idle_[log - 1] = idle;
      });
    };
    std::fill(idle_.begin(), idle_.end(), false);
    mark(cleared, true);
    mark(ended, false);
    mark(running, false);
    std::uint64_t offered = offered_.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i + 1 < logs_; ++i)
      if (idle_[i]) free_[offered++ % logs_].store(i, std::memory_order_relaxed);
    // Release: who sees the offer sees which logs it is of.
    offered_.store(offered, std::memory_order_release);
  }

  std::uint32_t logs() const noexcept { return logs_; }
  std::size_t memory() const noexcept {
    return logs_ * (sizeof(SlidingLogHead) + sizeof(std::uint32_t) + terms_.limit() * sizeof(SlidingLogSlot));
  }

 private:
  /// Makes the cell name a log of its own unless it names one. @return the one it names, plus 1
  std::uint32_t agree(AllowanceCell& cell, std::uint32_t& spare) noexcept {
    const std::uint32_t own = spare != 0 ? spare : take();
    const std::uint32_t agreed = agree_on(cell, own);
    spare = agreed == own || own == logs_ ? 0 : own;
    return agreed;
  }
  std::uint32_t agree_on(AllowanceCell& cell, std::uint32_t log) noexcept {
    std::uint32_t known = 0;
    return cell.log.compare_exchange_strong(known, log, std::memory_order_relaxed) ? log : known;
  }
  /// A free log, plus 1; the shared one where none is free.
  std::uint32_t take() noexcept {
    std::uint64_t taken = taken_.load(std::memory_order_relaxed);
    for (;;) {
      // Acquire: pairs with the release in free_idle().
      if (taken == offered_.load(std::memory_order_acquire)) return logs_;
      // Relaxed: what was read holds if nobody took it meanwhile, for a place is only filled again after it
      // has been taken. (Who is late may read it while that is being done, and takes nothing.)
      const std::uint32_t log = free_[taken % logs_].load(std::memory_order_relaxed);
      if (taken_.compare_exchange_weak(taken, taken + 1, std::memory_order_acq_rel,
                                       std::memory_order_relaxed))
        return log + 1;
    }
  }

  SlidingLog terms_;
  std::uint32_t logs_;
  std::unique_ptr<SlidingLogHead[]> heads_;
  std::unique_ptr<SlidingLogSlot[]> slots_;
  // A ring: written by the controller, read by workers; see take().
  std::unique_ptr<std::atomic<std::uint32_t>[]> free_;
  std::atomic<std::uint64_t> taken_{0};    // written by workers
  std::atomic<std::uint64_t> offered_{0};  // written by the controller
  std::vector<bool> idle_;                 // the controller's
};

}  // namespace weir
