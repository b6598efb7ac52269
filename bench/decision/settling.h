// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// From when a node deals with its requests as it shall be timed doing.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "program/program.h"

namespace weir::bench {

/// Looks at a node from time to time while all its keys come. One thread at a time.
class Settling {
 public:
  /// Longer than this nobody waits for it.
  static constexpr Duration patience = std::chrono::minutes{5};

  /// @param requests   that have come so far
  /// @param unsettled  of them; not dealt with as those are that shall be timed
  void look(const Figures& figures, std::uint64_t requests, std::uint64_t unsettled) {
    const std::uint64_t since = unsettled - unsettled_;
    const std::uint64_t of = requests - requests_;
    requests_ = requests;
    unsettled_ = unsettled;
    // Of a million keys, for which there is just room, a few find none.
    if (since > of / 10'000)
      settled_.reset();
    else if (!settled_ && of > 0)
      settled_ = Settled{monotonic_now(), {}};
    // A million keys' first interval may end seconds late, and workers have no grants for the next one
    // meanwhile.
    if (settled_ && !settled_->spans_an_interval_later && monotonic_now() - settled_->at >= interval)
      settled_->spans_an_interval_later = figures.spans;
    ended_two_more_ = settled_ && settled_->spans_an_interval_later &&
                      figures.spans >= *settled_->spans_an_interval_later + 2;
  }
  /// Nearly all requests between the last two looks were dealt with so.
  bool has_settled() const noexcept { return settled_.has_value(); }
  /// And have been for an interval, and two spans more.
  bool has_settled_for_an_interval() const noexcept { return ended_two_more_; }
  /// As of the last look.
  std::uint64_t requests() const noexcept { return requests_; }
  std::uint64_t unsettled() const noexcept { return unsettled_; }

 private:
  static constexpr Duration interval = std::chrono::seconds{1};  // of all rules whose controller is at work
  struct Settled {
    MonotonicTime at;
    std::optional<std::uint64_t> spans_an_interval_later;
  };
  std::optional<Settled> settled_;
  bool ended_two_more_ = false;
  std::uint64_t requests_ = 0;
  std::uint64_t unsettled_ = 0;
};

}  // namespace weir::bench
