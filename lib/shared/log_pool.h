// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The sliding logs of one rule's keys: a fixed number of logs, each with room for the rule's limit of
/// admissions. Which key has which its cells say, see shared/log_cell.h. Memory never grows.
///
/// A key has a log from its first touch on while there are plenty. The last ones are for keys that need one:
/// what a key may have without a log is half of the limit. So who makes up keys, and sends little under each,
/// leaves some for those who come after him.
///
/// Cells live in pools that are cleared as a whole, a log goes on. When a pool is cleared, a log that no cell
/// of the two newer pools names is nobody's any more, and free as soon as nothing in it counts.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "limit/bucket.h"
#include "limit/sliding_log.h"
#include "shared/allowance_pool.h"

namespace weir {

/// What a cell of a sliding log's key says of how its requests are admitted: AllowanceCell::log.
class LogName {
 public:
  /// Of a cell that nothing is known of yet.
  constexpr LogName() noexcept = default;
  explicit constexpr LogName(std::uint32_t word) noexcept : word_(word) {}
  /// Of a key that has had no log so far: by the cell's bucket alone.
  static constexpr LogName bucket_only() noexcept { return LogName(most_windows << windows_at); }
  /// Of a cell that keys share: the same, and none of them ever has a log there.
  static constexpr LogName shared_bucket() noexcept { return LogName((most_windows - 1) << windows_at); }
  /// @param bucket_too  for how many windows the bucket is asked besides, 0 … 2, this one included
  static constexpr LogName of(std::uint32_t log, std::uint32_t bucket_too) noexcept {
    return LogName((log + 1) | bucket_too << windows_at);
  }

  constexpr std::uint32_t word() const noexcept { return word_; }
  constexpr bool known() const noexcept { return word_ != 0; }
  constexpr bool has_log() const noexcept { return (word_ & logs) != 0; }
  /// @pre has_log()
  constexpr std::uint32_t log() const noexcept { return (word_ & logs) - 1; }
  constexpr bool asks_bucket() const noexcept { return windows() != 0; }
  constexpr bool may_have_log() const noexcept { return word_ == bucket_only().word_; }

  /// Whether the key has come in the cell's window. Else it is named for those who may still be there, so
  /// that they find the same.
  constexpr bool used() const noexcept { return known() && (word_ & unused) == 0; }

  /// What it is in the window after this one. @pre has_log()
  constexpr LogName next() const noexcept { return of(log(), asks_bucket() ? windows() - 1 : 0); }

  /// The bit of which used() tells.
  static constexpr std::uint32_t unused = std::uint32_t{1} << 31;

 private:
  static constexpr unsigned windows_at = 28;
  static constexpr std::uint32_t most_windows = 3;
  static constexpr std::uint32_t logs = (std::uint32_t{1} << windows_at) - 1;

  constexpr std::uint32_t windows() const noexcept { return word_ >> windows_at & most_windows; }

  std::uint32_t word_ = 0;
};

class LogPool {
 public:
  /// Memory that the logs of one rule may take.
  static constexpr std::size_t max_bytes = std::size_t{64} << 20;

  /// @param limit  of the rule, 1 … max_sliding_log_limit
  /// @param keys   that have a log at their first touch, where max_bytes allow it
  /// @param weight  of a request, or a part of it that all have in common
  LogPool(std::uint64_t limit, Duration interval, std::uint32_t keys, std::uint64_t weight = 1)
      : terms_(limit, interval),
        bucket_(make_bucket(limit, interval, std::clamp<std::uint64_t>(weight, 1, limit))),
        logs_(static_cast<std::uint32_t>(
            std::clamp<std::size_t>(max_bytes / (limit * sizeof(SlidingLogSlot)), 2,
                                    std::size_t{keys} + keys / (one_is_kept_of - 1) + 1))),
        heads_(std::make_unique<SlidingLogHead[]>(logs_)),
        slots_(std::make_unique<SlidingLogSlot[]>(logs_ * limit)),
        free_(std::make_unique<std::atomic<std::uint32_t>[]>(logs_)),
        idle_(logs_) {
    for (std::uint32_t i = 0; i < logs_; ++i) free_[i].store(i, std::memory_order_relaxed);
    offered_.store(logs_, std::memory_order_relaxed);
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

  Log log(std::uint32_t index) noexcept {
    return {
        terms_, heads_[index], {&slots_[index * terms_.limit()], static_cast<std::size_t>(terms_.limit())}};
  }

  /// What a key without a log draws from: a bucket that holds half of the limit, and fills in an interval;
  /// both in requests of the usual weight, rounded up. So it never admits more than the limit in any
  /// half-open window of that length: what it held in its first moment, and what has been generated since, in
  /// less than the interval, come to less than one request beyond it. (But for the rounding of intervals of
  /// many days, see limit/bucket.h.)
  const BucketTerms& bucket() const noexcept { return bucket_; }
  std::uint64_t limit() const noexcept { return terms_.limit(); }

  static constexpr std::uint32_t none = 0xffffffff;
  /// A free log, or none. Any worker.
  /// @param needed  else only while there are plenty
  std::uint32_t take(bool needed) noexcept {
    const std::uint64_t kept = needed ? 0 : (logs_ + one_is_kept_of - 1) / one_is_kept_of;
    std::uint64_t taken = taken_.load(std::memory_order_relaxed);
    for (;;) {
      // Acquire: pairs with the release in free_idle(). (Who is late may see fewer offered than have been
      // taken.)
      const std::uint64_t offered = offered_.load(std::memory_order_acquire);
      if (taken + kept >= offered) return none;
      // Relaxed: what was read holds if nobody took it meanwhile, for a place is only filled again after it
      // has been taken. (Who is late may read it while that is being done, and takes nothing.)
      const std::uint32_t log = free_[taken % logs_].load(std::memory_order_relaxed);
      if (taken_.compare_exchange_weak(taken, taken + 1, std::memory_order_acq_rel,
                                       std::memory_order_relaxed))
        return log;
    }
  }

  /// Frees the logs that cells of `cleared` name and no cell of the two newer pools does. (A log that a
  /// worker holds spare is named by none.) One that has been written to within an interval all the same, by
  /// who had no cell of his own in the window after, waits for the next time. The controller, before it
  /// clears that pool, when no worker can be in it.
  void free_idle(AllowancePool& cleared, AllowancePool& running, AllowancePool& ended,
                 MonotonicTime now) noexcept {
    const auto mark = [&](AllowancePool& pool, bool idle) {
      pool.for_each_cell([&](const AllowanceCell& cell) {
        // Relaxed: nobody writes it any more, or what is written does not matter.
        if (const LogName name(cell.log.load(std::memory_order_relaxed)); name.has_log())
          idle_[name.log()] = idle;
      });
    };
    mark(cleared, true);
    mark(ended, false);
    mark(running, false);
    std::uint64_t offered = offered_.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < logs_; ++i) {
      if (!idle_[i] || !terms_.is_empty(heads_[i], now)) continue;
      idle_[i] = false;
      free_[offered++ % logs_].store(i, std::memory_order_relaxed);
    }
    // Release: who sees the offer sees which logs it is of.
    offered_.store(offered, std::memory_order_release);
  }

  std::uint32_t logs() const noexcept { return logs_; }
  std::size_t memory() const noexcept {
    return logs_ * (sizeof(SlidingLogHead) + sizeof(std::uint32_t) + terms_.limit() * sizeof(SlidingLogSlot));
  }

 private:
  /// In requests of the same weight, as all weights are multiples of it.
  static BucketTerms make_bucket(std::uint64_t limit, Duration interval, std::uint64_t weight) noexcept {
    const std::uint64_t requests = limit / weight;
    const std::uint64_t at_once = requests - requests / 2;
    return {(requests - at_once + 1) * weight, interval, at_once * weight,
            3 * std::min(interval, Duration::max() / 3)};
  }

  /// Of so many logs one is for who needs it.
  static constexpr std::uint32_t one_is_kept_of = 9;

  SlidingLog terms_;
  BucketTerms bucket_;
  std::uint32_t logs_;
  std::unique_ptr<SlidingLogHead[]> heads_;
  std::unique_ptr<SlidingLogSlot[]> slots_;
  // A ring: written by the controller, read by workers; see take().
  std::unique_ptr<std::atomic<std::uint32_t>[]> free_;
  std::atomic<std::uint64_t> taken_{0};    // written by workers
  std::atomic<std::uint64_t> offered_{0};  // written by the controller
  std::vector<bool> idle_;                 // nobody's, and not yet free: the controller's
};

}  // namespace weir
