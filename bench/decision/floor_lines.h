// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The floor of a decision: a line that is read, changed and written, as random as a key's, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/huge_array.h"
#include "decision/stream.h"
#include "shared/grant_lines.h"

namespace weir::bench {

/// Lines that so many keys fall on. One thread at a time.
class FloorLines {
 public:
  /// As many as a worker's table has whose common decisions these are the floor of.
  explicit FloorLines(std::size_t keys) : lines_(lines_of(keys)) {}

  static double bytes_per_key(std::size_t keys) noexcept {
    return static_cast<double>(lines_of(keys) * sizeof(Line)) / static_cast<double>(keys);
  }

  void ask_for(const PlainKey& key) noexcept { __builtin_prefetch(&line_of(key), 1); }
  void write(const PlainKey& key) noexcept { ++line_of(key).count; }
  std::uint64_t counted() const noexcept {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < lines_.size(); ++i) sum += lines_[i].count;
    return sum;
  }

 private:
  struct alignas(64) Line {
    std::uint64_t count = 0;
  };
  static std::size_t lines_of(std::size_t keys) noexcept {
    return grant_home_lines(static_cast<std::uint32_t>(keys));
  }
  Line& line_of(const PlainKey& key) noexcept { return lines_[(key.hash >> 32) * lines_.size() >> 32]; }

  HugeArray<Line> lines_;
};

}  // namespace weir::bench
