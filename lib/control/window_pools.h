// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The allowance pools of all rules with the same windows: the running one, the one just ended, and one that
/// is being, or has been, cleared for the next. The controller's alone, but for the cells, which workers draw
/// from.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/span_clock.h"
#include "limit/bucket.h"
#include "shared/bucket_cell.h"
#include "shared/log_cell.h"
#include "shared/publication.h"

namespace weir {

/// When the pools of a rule begin anew.
struct WindowTerms {
  Duration interval{};
  std::uint32_t spans = 1;  ///< windows per interval: more than one for a sliding window, whose spans count
  bool monotonic = false;   ///< what must not be forgotten because the wall clock jumps: buckets and logs
  LogPool* logs = nullptr;  ///< of the one rule that these pools are for

  bool operator==(const WindowTerms&) const = default;
};

class WindowPools {
 public:
  /// @param paces  at which the buckets of its rules fill, each once: keys that find no cell of their own
  /// share some only where levels count alike. Of other rules any
  WindowPools(const WindowTerms& terms, std::uint32_t keys, unsigned workers,
              std::vector<BucketTerms::Pace> paces = {BucketTerms::Pace{}})
      : terms_(terms), paces_(std::move(paces)), clock_(terms.interval, terms.spans) {
    for (auto& pool : pools_)
      pool = std::make_unique<AllowancePool>(keys, workers, static_cast<unsigned>(paces_.size()));
  }

  const WindowTerms& terms() const noexcept { return terms_; }
  /// Of the pools' sketches: that of the keys of a bucket rule.
  /// @param pace  one of those it was made with
  unsigned section(const BucketTerms::Pace& pace) const noexcept {
    return static_cast<unsigned>(std::find(paces_.begin(), paces_.end(), pace) - paces_.begin());
  }
  /// Whether `at` lies in the window that runs.
  bool runs_at(Instant at) const noexcept { return clock_.span(time(at)) == running_; }
  /// The number of the interval that the running window lies in: a new one for each, but where the clock has
  /// come back to the interval before.
  std::uint64_t interval_number() const noexcept { return interval_.number; }
  AllowancePool& running() noexcept { return *pools_[0]; }
  const AllowancePool& ended() const noexcept { return *pools_[1]; }

  /// Has memory provided for the first keys. Before any worker claims.
  void begin() noexcept {
    for (const auto& pool : pools_) pool->begin();
  }
  /// Has memory provided for the keys to come, in any window as many as there were in another one. In each
  /// span.
  void provide() noexcept {
    std::uint32_t most = 0;
    for (const auto& pool : pools_) most = std::max(most, pool->used());
    for (const auto& pool : pools_) pool->provide(most);
  }

  bool settled() const noexcept { return settled_; }
  /// Turns to the window `now` lies in, if that is another one. @return true when it was: call retired()
  /// then
  bool turn_to(Instant now) noexcept {
    const SpanId window = clock_.span(time(now));
    if (terms_.logs != nullptr && !known_) turned_at_ = now.monotonic;
    known_ = true;
    if (started_ && window == running_) return false;
    // What the pool before the last knows is not worth nothing before another one has served for a whole
    // window, however late that began.
    if (started_ && terms_.monotonic && now.monotonic - turned_at_ < terms_.interval - unevenness())
      return false;
    turned_at_ = now.monotonic;
    known_ = false;
    settled_ = !started_;
    started_ = true;
    if (window == ended_) {  // the clock was set back: what was drawn then still is
      std::swap(pools_[0], pools_[1]);
      std::swap(running_, ended_);
      std::swap(running_number_, ended_number_);
      std::swap(running_since_, ended_since_);
      ended_was_crowded_ = pools_[1]->crowded();
      enter_interval();
      return true;
    }
    // A worker that has stalled since the window before the last may still hold what was not cleared in time.
    // It draws nothing for a window that the publication does not name any more; see
    // WorkerCore::window_is_known().
    if (!clean_) clear_spare(now.monotonic);
    before_was_crowded_ = std::exchange(ended_was_crowded_, pools_[0]->crowded());
    std::swap(pools_[1], pools_[2]);
    std::swap(pools_[0], pools_[1]);
    clean_ = false;
    ended_ = std::exchange(running_, window);
    ended_number_ = std::exchange(running_number_, ++turns_);
    ended_since_ = std::exchange(running_since_, no_flip);
    enter_interval();
    return true;
  }

  /// Who was here in the windows before finds a cell of his own in the one that has begun, however light he
  /// is and however many new keys come first: as far as that leaves cells for new keys, and those first who
  /// have had one for longest. Who sends each request under another key is never known, and who sends two of
  /// each takes only what is left. After turn_to(), before any worker knows the window's pool: then all
  /// agree.
  void reserve_for_known() noexcept {
    AllowancePool& running = *pools_[0];
    AllowancePool& ended = *pools_[1];
    AllowancePool& before = *pools_[2];  // cleared, or nobody draws from it any more
    const auto reserve = [&](std::uint64_t key, std::uint32_t windows) {
      if (windows == 0 || !running.may_reserve()) return;
      const AllowancePool::Place place = running.claim(key, AllowancePool::controller);
      if (place.own) place.cell->reserved_for = windows;
    };
    const auto prefetch = [&](std::uint64_t key) {
      running.prefetch(key);
      before.prefetch_to_look(key);
    };
    ended.for_each_key(
        [&](std::uint64_t key, AllowanceCell& cell) {
          const auto known_before = [&] {
            AllowanceCell* const earlier = before.find(key);
            return earlier != nullptr && was_used(*earlier);
          };
          if (!was_used(cell))
            reserve(key, cell.reserved_for == 0 ? 0 : cell.reserved_for - 1);
          else if (cell.reserved_for > 0 || known_before())
            reserve(key, reserved_windows);
        },
        prefetch);
    // Where there was room for all, nobody had to be known: so those who found none in the window after it.
    if (before_was_crowded_) return;
    before.for_each_key(
        [&](std::uint64_t key, AllowanceCell& cell) {
          if (was_used(cell)) reserve(key, reserved_windows);
        },
        prefetch);
  }

  /// The pool that turn_to() put aside is nobody's once the grace period of `token` is over and every worker
  /// counts in a table that it was given at flip number `flip` or later.
  void retired(std::uint64_t token, std::uint64_t flip) noexcept {
    token_ = token;
    flip_ = flip;
    if (running_since_ == no_flip) running_since_ = flip;
  }
  std::uint64_t retired_token() const noexcept { return token_; }
  std::uint64_t retired_flip() const noexcept { return flip_; }
  /// The flip with which the window before the running one began, for the first time if the clock has come
  /// back to it.
  std::uint64_t ended_since() const noexcept { return ended_since_; }
  bool wants_clearing() const noexcept { return !clean_; }
  void clear_spare(MonotonicTime now) noexcept {
    if (terms_.logs != nullptr) terms_.logs->free_idle(*pools_[2], *pools_[0], *pools_[1], now);
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

  /// Takes tokens from a bucket and scales what is left; see BucketCharge in engine/engine.h.
  /// @return what it lacks then to be full, in tokens of the full price
  std::uint64_t charge(std::uint64_t key, std::uint64_t tokens, double scale, const BucketTerms& terms,
                       MonotonicTime now, TokenPrice price = full_price) noexcept {
    const AllowancePool::Place place = pools_[0]->claim(key, AllowancePool::controller);
    // From one that is shared with other keys theirs, too, would be taken: then from its own one of the
    // window before, which is asked beside that.
    AllowanceCell* const own = place.own ? place.cell : pools_[1]->find(key);
    if (own == nullptr) return 0;
    BucketCell bucket(*own);
    if (place.own)
      bucket.take_over(pools_[1]->claim(key, AllowancePool::controller, section(terms.pace())).cell, terms,
                       now);
    else if (!bucket.is_here())
      return 0;
    if (tokens > 0) bucket.charge(tokens, terms, now, price);
    if (scale != 1) bucket.scale(scale, terms, now);
    return terms.tokens(bucket.missing(terms, now));
  }

  /// Puts tokens back into a bucket, wherever it is.
  /// @param from  the cell they were drawn from: as a rule that is where it still is
  void give_back(std::uint64_t key, AllowanceCell& from, std::uint64_t tokens, TokenPrice price,
                 const BucketTerms& terms) noexcept {
    // Relaxed: whoever owns the cell by now, if it is the key's bucket it is the only one that has begun and
    // not moved on.
    if (from.key.load(std::memory_order_relaxed) == key && BucketCell(from).is_here() &&
        BucketCell(from).give_back(tokens, price, terms))
      return;
    AllowanceCell* cell = pools_[0]->find(key);
    if (cell == nullptr || !BucketCell(*cell).begun()) cell = pools_[1]->find(key);
    if (cell != nullptr) BucketCell(*cell).give_back(tokens, price, terms);
  }
  /// The same where nobody knows which cell they were drawn from; no more than the bucket lacks.
  /// @return how many
  std::uint64_t give_back(std::uint64_t key, std::uint64_t tokens, TokenPrice price, const BucketTerms& terms,
                          MonotonicTime now) noexcept {
    // Once more where it was first looked for: it may move there in between.
    for (const auto pool : {pools_[0].get(), pools_[1].get(), pools_[0].get()})
      if (AllowanceCell* cell = pool->find(key); cell != nullptr && BucketCell(*cell).is_here())
        if (const auto taken = BucketCell(*cell).fill_up(tokens, price, terms, now); taken) return *taken;
    return 0;
  }

  /// For who is about to correct many keys, in no order.
  void prefetch(std::uint64_t key) const noexcept { pools_[0]->prefetch(key); }

  /// Charges a key, in the window that runs, what it has been admitted without being charged. (Where it
  /// shares its cell with other keys, nothing.)
  void charge(std::uint64_t key, std::uint64_t weight) noexcept {
    const AllowancePool::Place place = pools_[0]->claim(key, AllowancePool::controller);
    if (place.own) place.cell->charge(weight);
  }
  /// Puts back what was charged too much. (Likewise.)
  /// @pre it has been charged in this window
  void give_back(std::uint64_t key, std::uint64_t weight) noexcept {
    const AllowancePool::Place place = pools_[0]->claim(key, AllowancePool::controller);
    if (place.own) place.cell->give_back(weight);
  }

  /// The same of both in a sliding log.
  /// @param by  below 0: to be put back
  /// @param at  when that was charged; else now
  void correct_log(std::uint64_t key, std::int64_t by, MonotonicTime at, MonotonicTime now) noexcept {
    const AllowancePool::Place place = pools_[0]->claim(key, AllowancePool::controller);
    if (!place.own) {  // as charge() has it
      if (AllowanceCell* const own = pools_[1]->find(key); own != nullptr && LogCell::was_used(*own))
        LogCell(*own, *terms_.logs).correct(at, now, by);
      return;
    }
    LogCell cell(*place.cell, *terms_.logs);
    cell.take_over(true, pools_[1]->claim(key, AllowancePool::controller), spare_log_, now);
    cell.correct(at, now, by);
  }

  /// What was counted in the window before has been decided upon.
  void settle() noexcept { settled_ = true; }

  WindowState state(Instant now) noexcept {
    return {.ends = now.monotonic + (clock_.next_begin(time(now)) - time(now)),
            .running = pools_[0].get(),
            .ended = pools_[1].get(),
            .settled = settled_,
            .slides = terms_.spans > 1,
            .running_number = running_number_,
            .ended_number = ended_number_,
            .interval_number = interval_.number};
  }

  /// What has been provided so far; until begin(): what may be.
  std::size_t memory() const noexcept {
    std::size_t bytes = 0;
    for (const auto& pool : pools_) bytes += pool->memory();
    return bytes;
  }

 private:
  // Light keys do not come in each window, where that is a span of a sliding window.
  static constexpr std::uint32_t reserved_windows = 10;

  // Controllers wake up a little late, now more, now less: that is no reason to wait for another flip, for
  // buckets, which are full again long before. But what a log holds counts for as long as a window lasts, and
  // what is admitted before its window is known belongs to the one before: so that lasts from the span's end
  // on that follows.
  Duration unevenness() const noexcept {
    if (terms_.logs != nullptr) return {};
    return std::min<Duration>(terms_.interval / 64, longest_unevenness);
  }
  static constexpr Duration longest_unevenness = std::chrono::milliseconds{10};

  // Relaxed: workers may still draw; who draws for the first time now is not known yet.
  bool was_used(AllowanceCell& cell) const noexcept {
    if (terms_.logs != nullptr) return LogCell::was_used(cell);
    if (terms_.monotonic) return BucketCell(cell).begun();
    return cell.drawn.load(std::memory_order_relaxed) != 0;
  }

  void enter_interval() noexcept {
    if (running_.ordinal == interval_.ordinal) return;
    std::swap(interval_, interval_before_);
    if (running_.ordinal != interval_.ordinal) interval_ = {running_.ordinal, ++intervals_};
  }

  WallTime time(Instant at) const noexcept {
    return terms_.monotonic ? WallTime(at.monotonic.time_since_epoch()) : at.wall;
  }

  WindowTerms terms_;
  std::vector<BucketTerms::Pace> paces_;
  SpanClock clock_;
  std::array<std::unique_ptr<AllowancePool>, 3> pools_;  // running, ended, spare
  SpanId running_;
  SpanId ended_{std::numeric_limits<Ordinal>::min(), 0};
  struct Interval {
    Ordinal ordinal = std::numeric_limits<Ordinal>::min();
    std::uint64_t number = 0;
  };
  std::uint64_t turns_ = 0;
  std::uint64_t running_number_ = 0;
  std::uint64_t ended_number_ = 0;
  std::uint64_t intervals_ = 0;  // so far
  Interval interval_;            // the running window's
  Interval interval_before_;
  std::uint64_t token_ = 0;
  std::uint64_t flip_ = 0;
  static constexpr std::uint64_t no_flip = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t running_since_ = no_flip;  // the flip
  std::uint64_t ended_since_ = 0;
  std::uint32_t spare_log_ = LogPool::none;  // taken, and then a worker's was agreed on
  // As their windows ended. (Who comes first in the next one may claim a cell there, too.)
  bool ended_was_crowded_ = false;
  bool before_was_crowded_ = false;
  MonotonicTime turned_at_{};
  bool known_ = true;  // when the next span ends the window has been published, whatever that took
  bool started_ = false;
  bool settled_ = true;
  bool clean_ = true;  // the spare is
};

}  // namespace weir
