// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The loop of shared/lane_search.h, for a Comparison that says how eight tags are compared at once.
///
/// To be included where the target is chosen, once in a file; all of it is this file's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shared/lane_search.h"

namespace weir {
namespace {

template <typename Comparison>
inline std::uint32_t find_at_home(const Comparison& comparison, const HomeLines& lines, const Hashes& keys,
                                  std::byte** words) noexcept {
  std::uint32_t missing = 0;
  // What is written may be anything, so what does not change is kept here.
  const HomeLines all = lines;
  const std::size_t count = keys.count;
  const std::size_t stride = keys.stride;
  const std::byte* hash = keys.first;
  for (std::size_t i = 0; i < count; ++i, hash += stride) {
    std::uint64_t key;
    std::memcpy(&key, hash, sizeof key);
    std::byte* const line = all.first + home_of(key, all.homes) * HomeLines::line_bytes;
    const auto lanes = comparison.lanes_with(line, hash);
    if (!comparison.found(lanes)) [[unlikely]] {
      missing |= std::uint32_t{1} << i;
      continue;
    }
    words[i] = line + HomeLines::words_at + comparison.offset_of_first(lanes);
  }
  return missing;
}

}  // namespace
}  // namespace weir
