// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Whether the store answers in time, which decides by what a node goes: by what the store has added up, or
/// by its own count.
///
/// The problem: while a store is taken for lost, nothing is held back from it, so it gets many times as many
/// writes. A store that is only slow, or that was away for a moment, must not be kept lost by what follows
/// from its being lost; and one that answers must not be taken for lost because of writes that it has only
/// just been given, of another rule's span, or of the time that the controller itself took.
///
/// So each sync is judged by what had been submitted with it and before, when `patience` has passed. If not
/// all of that has been answered, something must have been since the sync before was judged, and all must be
/// by the time that the next one is, if that is a span later: what is known of other nodes is hardly older
/// than a span. A store that has been lost is found again by a sync that keeps to that.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "weir/time.h"

namespace weir {

/// Not thread-safe: the controller's. Amounts are weights, ever, modulo 2^64.
class SyncWatch {
 public:
  /// @param patience  > 0
  /// @param span      ≥ patience
  SyncWatch(Duration patience, Duration span) noexcept : patience_(patience), span_(span) {}

  /// A sync has been handed over.
  /// @param now        when what it says was found: some time ago, perhaps
  /// @param submitted  with it, and before
  /// @param answered   of that: acknowledged, or given up
  void begin(MonotonicTime now, std::uint64_t submitted, std::uint64_t answered) noexcept {
    const Sync sync{now + patience_, now + span_, submitted, false};
    if (!seen_) seen_ = answered;
    if (!running_) {
      running_ = sync;
    } else if (!next_) {
      next_ = sync;
    } else {  // together with that one
      next_->due = sync.due;
      next_->whole_by = sync.whole_by;
      next_->submitted = submitted;
    }
  }

  /// To be told of each look at the clock. Who comes much too late for the first look after a sync's begin
  /// was at work until now, and the store may have had the sync for a moment only.
  void look(MonotonicTime now) noexcept {
    if (!running_ || std::exchange(running_->looked_at, true) || now - running_->due < patience_ / 8) return;
    running_->whole_by += now + patience_ / 2 - running_->due;
    running_->due = now + patience_ / 2;
  }

  /// When judge() is due; MonotonicTime::max(): there is nothing to judge.
  MonotonicTime due() const noexcept { return running_ ? running_->due : MonotonicTime::max(); }

  /// @param up        whether the store says that it is
  /// @param answered  as for begin()
  /// @return whether the store is reached
  /// @pre now >= due()
  bool judge(MonotonicTime now, bool up, std::uint64_t answered) noexcept {
    const Sync sync = *running_;
    running_ = std::exchange(next_, std::nullopt);
    const auto has_all = [answered](const Sync& of) {
      return static_cast<std::int64_t>(answered - of.submitted) >= 0;
    };
    const bool answers = has_all(sync) || answered != seen_;
    seen_ = answered;
    bool has_caught_up = false;
    bool is_late = false;
    if (behind_) {
      has_caught_up = has_all(*behind_);
      is_late = !has_caught_up && now >= behind_->whole_by;
      if (has_caught_up || is_late) behind_.reset();
    }
    if (!has_all(sync) && !behind_) behind_ = sync;
    // A lost one is to show with a whole sync that it is back.
    reached_ = up && answers && !is_late && (reached_ || has_all(sync) || has_caught_up);
    return reached_;
  }

 private:
  struct Sync {
    MonotonicTime due;
    MonotonicTime whole_by;
    std::uint64_t submitted;
    bool looked_at;
  };

  Duration patience_;
  Duration span_;
  std::optional<Sync> running_;
  std::optional<Sync> next_;
  std::optional<Sync> behind_;         // the first that had not all of its answers when it was due
  std::optional<std::uint64_t> seen_;  // answered, when last judged
  bool reached_ = true;
};

}  // namespace weir
