// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// How often each length of time occurred, in memory that does not grow: buckets as fine as a fixed fraction
/// of what they hold, so that a quantile is right within 1.6 % wherever it lies.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weir::bench {

/// One thread at a time. Units are the caller's.
class Histogram {
 public:
  void add(std::uint64_t value) noexcept {
    ++counts_[index_of(value)];
    ++total_;
    max_ = std::max(max_, value);
  }
  std::uint64_t total() const noexcept { return total_; }
  std::uint64_t max() const noexcept { return max_; }
  /// The smallest value that at least this part of all values do not exceed, rounded up to its bucket's end.
  /// @param part  0 … 1
  std::uint64_t quantile(double part) const noexcept {
    const auto wanted = static_cast<std::uint64_t>(part * static_cast<double>(total_) + 0.5);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      sum += counts_[i];
      if (sum >= wanted && sum > 0) return std::min(end_of(i), max_);
    }
    return max_;
  }
  /// Of all values' sum the part of those above this one and its bucket: where they are times, of the time.
  double part_of_sum_above(std::uint64_t value) const noexcept {
    double above = 0;
    double all = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      const double sum = static_cast<double>(counts_[i]) * static_cast<double>(std::min(end_of(i), max_));
      all += sum;
      if (i > index_of(value)) above += sum;
    }
    return all > 0 ? above / all : 0;
  }

 private:
  static constexpr unsigned fine_bits = 6;  // 64 buckets for each power of two
  static constexpr std::size_t fine = std::size_t{1} << fine_bits;

  static std::size_t index_of(std::uint64_t value) noexcept {
    if (value < fine) return value;
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - 1 - fine_bits;
    return (std::size_t{shift} + 1) * fine + ((value >> shift) - fine);
  }
  static std::uint64_t end_of(std::size_t index) noexcept {
    if (index < fine) return index;
    const std::size_t shift = index / fine - 1;
    return ((std::uint64_t{index % fine + fine} + 1) << shift) - 1;
  }

  std::array<std::uint64_t, (64 - fine_bits + 1) * fine> counts_{};
  std::uint64_t total_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace weir::bench
