// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which source of randomness a run draws from for what: apart, so that a scenario that draws more of one
/// thing keeps all others as they were.
#pragma once

#include <cstdint>

namespace weir::sim {

enum class RandomStream : std::uint64_t {
  demand = 1,
  spread = 2,
  cores = 3,
  clocks = 4,
  links = 5,
  hashes = 6
};

constexpr std::uint64_t stream_of(RandomStream kind, std::uint64_t index = 0) noexcept {
  return static_cast<std::uint64_t>(kind) << 48 | index;
}

}  // namespace weir::sim
