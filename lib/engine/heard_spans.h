// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Of which spans a node has heard what others counted of a key: some in succession.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace weir {

/// Spans by their number among all that have passed.
class HeardSpans {
 public:
  /// Number of the last one; where nothing has been heard, one of long ago.
  std::int64_t last() const noexcept { return last_; }
  /// Whether anything has been heard of the spans from `first` to `last`.
  bool any_of(std::int64_t first, std::int64_t last) const noexcept {
    return count_ > 0 && last_ >= first && last_ - count_ < last;
  }

  /// What others counted from `first` to `last`, both included, is heard. What does not adjoin it is
  /// forgotten.
  /// @return how many of these spans are new
  std::int64_t add(std::int64_t first, std::int64_t last) noexcept {
    if (last < first) return 0;
    const std::int64_t until = last_ - count_;  // not heard
    if (count_ == 0 || first > last_ + 1 || last < until) return set(first - 1, last);
    const std::int64_t earlier = std::max<std::int64_t>(until - (first - 1), 0);
    const std::int64_t later = std::max<std::int64_t>(last - last_, 0);
    set(until - earlier, last_ + later);
    return earlier + later;
  }

 private:
  // More than a number has room for are not told apart from as many.
  std::int64_t set(std::int64_t until, std::int64_t last) noexcept {
    constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
    last_ = last;
    count_ = static_cast<std::uint32_t>(std::min(last - until, most));
    return last - until;
  }

  std::int64_t last_ = std::numeric_limits<std::int64_t>::min() / 2;
  std::uint32_t count_ = 0;
};

}  // namespace weir
