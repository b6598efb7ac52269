// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The worst window, exactly.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "weir/time.h"

namespace weir::sim {

/// The sum over the window (now - length, now], and the largest it has ever been. The largest window of any
/// offset ends at an addition, so looking at additions finds it.
class SlidingSum {
 public:
  explicit SlidingSum(Duration length) noexcept : length_(length) {}

  /// @pre times ascend
  void add(Duration now, std::uint64_t units) {
    const Duration begin = now - length_;
    while (first_ < parts_.size() && parts_[first_].at <= begin) sum_ -= parts_[first_++].units;
    // Half of the array is dead: moving the rest costs less than what it took to get there.
    if (first_ > 64 && first_ > parts_.size() / 2) {
      parts_.erase(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    if (first_ < parts_.size() && parts_.back().at == now)
      parts_.back().units += units;
    else
      parts_.push_back({now, units});
    sum_ += units;
    largest_ = std::max(largest_, sum_);
  }

  /// Over the window that ended with the last addition.
  std::uint64_t sum() const noexcept { return sum_; }
  std::uint64_t largest() const noexcept { return largest_; }

 private:
  struct Part {
    Duration at;
    std::uint64_t units;
  };
  Duration length_;
  std::vector<Part> parts_;
  std::size_t first_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t largest_ = 0;
};

}  // namespace weir::sim
