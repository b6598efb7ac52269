// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What time it is by the store's clock.
///
/// The problem: ordinals name the counters that nodes share, so nodes must agree on the time; and their own
/// wall clocks may be minutes apart, or be set while they run. What they share is the store, so its clock
/// decides.
///
/// An answer of the store's clock was read somewhere between the question and its arrival: taken for the
/// middle of that time, it is wrong by at most half the round trip. Of the last few answers the most certain
/// one counts. From there on the monotonic clock alone goes on, so that a node whose own wall clock jumps
/// does not notice; its pace may differ from the store's, so an answer becomes less certain as it ages.
///
/// Nodes that have heard the store therefore differ by at most the sum of their uncertainties: about a round
/// trip.
///
/// A correction within the uncertainty changes nothing: it may as well be the new answer that is wrong. A
/// forward one applies at once. A small backward one never takes the time back: it passes at half its speed
/// until the correction is made good, so that no span is lived through twice. A large one is a step, as when
/// an administrator has set the store's clock; the engine bears steps. So is the first answer of all, which
/// ends the time of going by the node's own clock.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "store/store.h"
#include "weir/time.h"

namespace weir {

/// Pure: no clock is read. Not thread-safe.
class StoreClock {
 public:
  /// A backward correction below it is made good slowly.
  static constexpr Duration smallest_step = std::chrono::seconds{1};
  /// By how many parts of a million a monotonic clock may go wrong.
  static constexpr std::int64_t drift_ppm = 200;

  /// Takes in an answer. One that has been seen, or in which time ran backwards, changes nothing.
  /// @param now  at least `sample.answered`
  void learn(const StoreTime& sample, MonotonicTime now) noexcept;

  /// The same moment with the store's wall time; before the first answer, as it is.
  Instant at(Instant own) const noexcept;

  /// How long it takes from `now` on until the wall time reads `wall`; 0 where it does already.
  Duration until(WallTime wall, Instant own) const noexcept;

  /// Whether there has been an answer yet.
  bool known() const noexcept { return known_; }

  /// The most by which at() may differ from the store's clock; 0 before the first answer.
  Duration uncertainty(MonotonicTime now) const noexcept;

 private:
  /// An answer that counts: wall time less monotonic time, and how certain that is.
  struct Sample {
    Duration offset{};
    Duration error{};  // when it was answered
    MonotonicTime answered{};

    Duration error_at(MonotonicTime now) const noexcept;
  };
  static constexpr std::size_t remembered = 8;

  Duration offset_at(MonotonicTime now) const noexcept;
  const Sample& best(MonotonicTime now) const noexcept;
  void correct(Duration by, MonotonicTime now) noexcept;

  std::array<Sample, remembered> samples_;
  std::size_t count_ = 0;  // of `samples_`, …
  std::size_t next_ = 0;   // …and where the next one goes
  std::uint64_t seen_ = 0;
  bool known_ = false;
  Duration offset_{};     // wall less monotonic time at `slow_from_`
  Duration slow_left_{};  // what the time was ahead by then: it is made good from there on
  MonotonicTime slow_from_{};
};

}  // namespace weir
