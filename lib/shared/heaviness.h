// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which keys are worth their room when there is not enough for all: those that used the largest parts of
/// their limits. Somebody who sprays keys has many, but each of them is light; to look heavy, each must be
/// used as much as the keys that it is to drive out.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace weir {

/// How much of its limit a key has used, in steps by powers of two: 0 … 64. Any thread.
inline unsigned heaviness(std::uint64_t used, std::uint64_t limit) noexcept {
  constexpr unsigned __int128 most = ~std::uint64_t{0};
  const unsigned __int128 part =
      (static_cast<unsigned __int128>(used) << 32) / std::max<std::uint64_t>(limit, 1);
  return static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(std::min(part, most))));
}

/// Finds how heavy a key must be to be among the heaviest. One thread.
class HeavinessCensus {
 public:
  void add(unsigned heaviness) noexcept { ++number_[heaviness]; }
  /// The least heaviness of which, and above, there are at most `room`; keys that used nothing are not heavy.
  unsigned least(std::uint64_t room) const noexcept {
    unsigned least = static_cast<unsigned>(number_.size());
    for (; least > 1 && number_[least - 1] <= room; --least) room -= number_[least - 1];
    return least;
  }

 private:
  std::array<std::uint64_t, 65> number_{};
};

}  // namespace weir
