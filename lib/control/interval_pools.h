// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The allowance pools of all rules with one interval: the running one, the one just ended, and one that is
/// being, or has been, cleared for the next. The controller's alone, but for the cells, which workers draw
/// from.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/span_clock.h"
#include "shared/publication.h"

namespace weir {

class IntervalPools {
 public:
  IntervalPools(Duration interval, std::uint32_t keys)
      : clock_(interval, 1),
        pools_{std::make_unique<AllowancePool>(keys), std::make_unique<AllowancePool>(keys),
               std::make_unique<AllowancePool>(keys)} {}

  Duration interval() const noexcept { return clock_.interval(); }
  Ordinal ordinal_at(WallTime at) const noexcept { return clock_.ordinal(at); }
  Ordinal running_ordinal() const noexcept { return ordinal_; }
  AllowancePool& running() noexcept { return *pools_[0]; }

  /// Turns to the interval `now` lies in, if that is another one. @return true when it was: call retired()
  /// then
  bool turn_to(WallTime now) noexcept {
    const Ordinal ordinal = clock_.ordinal(now);
    if (started_ && ordinal == ordinal_) return false;
    // A worker that has stalled since the interval before the last may still draw from what was not cleared
    // in time. Cells are counters in memory that is never freed: the worst is an allowance that is wrong by
    // that worker's burst.
    if (!clean_) pools_[2]->clear();
    std::swap(pools_[1], pools_[2]);
    std::swap(pools_[0], pools_[1]);
    clean_ = false;
    started_ = true;
    ordinal_ = ordinal;
    return true;
  }

  /// The pool that turn_to() put aside is nobody's once the grace period of `token` is over and every worker
  /// counts in a table that it was given at flip number `flip` or later.
  void retired(std::uint64_t token, std::uint64_t flip) noexcept {
    token_ = token;
    flip_ = flip;
  }
  std::uint64_t retired_token() const noexcept { return token_; }
  std::uint64_t retired_flip() const noexcept { return flip_; }
  bool wants_clearing() const noexcept { return !clean_; }
  void clear_spare() noexcept {
    pools_[2]->clear();
    clean_ = true;
  }

  /// Takes back the mark of a refusal that proved wrong. Relaxed: a worker that still sees it refuses a
  /// little longer.
  void pardon(std::uint64_t key) noexcept {
    for (const auto pool : {pools_[0].get(), pools_[1].get()})
      if (AllowanceCell* cell = pool->find(key); cell != nullptr)
        cell->refused_at.store(AllowanceCell::no_refusal, std::memory_order_relaxed);
  }

  IntervalState state(Instant now) noexcept {
    return {.ordinal = ordinal_,
            .ends = now.monotonic + (clock_.next_interval(now.wall) - now.wall),
            .running = pools_[0].get(),
            .ended = pools_[1].get()};
  }

  std::size_t memory() const noexcept { return pools_.size() * pools_[0]->memory(); }

 private:
  SpanClock clock_;
  std::array<std::unique_ptr<AllowancePool>, 3> pools_;  // running, ended, spare
  Ordinal ordinal_ = 0;
  std::uint64_t token_ = 0;
  std::uint64_t flip_ = 0;
  bool started_ = false;
  bool clean_ = true;  // the spare is
};

}  // namespace weir
