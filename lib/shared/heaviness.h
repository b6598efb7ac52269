// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which keys are worth their room when there is not enough for all: those that used the largest parts of
/// their limits. Somebody who sprays keys has many, but each of them is light; to look heavy, each must be
/// used as much as the keys that it is to drive out.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir {

/// How much of its limit a key has used, in steps by powers of two: 0 … 64. What has used a part p of it, is
/// the bit width of p × 2^32. Any thread.
inline unsigned heaviness(std::uint64_t used, std::uint64_t limit) noexcept {
  // Without a division, of which there would be one for each key in each span: the quotient's width follows
  // from both widths, and from which of the two is larger when both begin with the same bit.
  if (used == 0) return 0;
  limit = std::max<std::uint64_t>(limit, 1);
  const int used_zeros = std::countl_zero(used);
  const int limit_zeros = std::countl_zero(limit);
  const int smaller = used << used_zeros < limit << limit_zeros ? 1 : 0;
  return static_cast<unsigned>(std::clamp(33 + limit_zeros - used_zeros - smaller, 0, 64));
}

/// Chooses the heaviest of those that it is told of, one after the other: as many as there is room for, if
/// all that are as heavy find it too. One thread.
template <typename Thing>
class Heaviest {
 public:
  struct Chosen {
    Thing thing;
    std::uint8_t heaviness;
  };

  /// @param most  what is chosen at most, ever. Allocates, as nothing else does
  explicit Heaviest(std::size_t most) : room_(most) { chosen_.reserve(most + 1); }

  /// Who used nothing is not heavy.
  void add(Thing thing, unsigned heaviness) noexcept {
    if (heaviness < least_) return;
    ++number_[heaviness];
    chosen_.push_back({thing, static_cast<std::uint8_t>(heaviness)});
    if (chosen_.size() > room_) drop_lightest();
  }
  /// In the order in which they were told of.
  std::span<const Chosen> chosen() const noexcept { return chosen_; }
  /// From now on at most so many are chosen, or as many as ever.
  void clear(std::size_t room) noexcept {
    room_ = std::min(room, chosen_.capacity() - 1);
    clear();
  }
  void clear() noexcept {
    chosen_.clear();
    number_ = {};
    least_ = 1;
  }

 private:
  void drop_lightest() noexcept {
    for (std::size_t left = chosen_.size(); left > room_; ++least_) left -= number_[least_];
    std::erase_if(chosen_, [&](const Chosen& one) { return one.heaviness < least_; });
  }

  std::size_t room_;
  std::vector<Chosen> chosen_;
  std::array<std::size_t, 65> number_{};  // that are as heavy
  unsigned least_ = 1;                    // of which, and above, there is room for all so far
};

}  // namespace weir
