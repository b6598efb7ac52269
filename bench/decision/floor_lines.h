// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The floor of a decision: a line that is read, changed and written, as random as a key's, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/huge_array.h"
#include "decision/stream.h"

namespace weir::bench {

/// Lines that so many keys fall on. One thread at a time.
class FloorLines {
 public:
  /// Eight places to a line of 64 bytes, half of them taken: what a worker's table touches in the common
  /// case.
  static constexpr std::size_t bytes_per_key = 64 / 8 * 2;

  explicit FloorLines(std::size_t keys) : lines_(keys * bytes_per_key / sizeof(Line) + 1) {}

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
  Line& line_of(const PlainKey& key) noexcept { return lines_[(key.hash >> 32) * lines_.size() >> 32]; }

  HugeArray<Line> lines_;
};

}  // namespace weir::bench
