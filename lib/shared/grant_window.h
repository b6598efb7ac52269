// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// How the lanes of grants tell windows apart, and the arithmetic of the common decision on one of their
/// halves (shared/grant_table.h).
#pragma once

#include <cstdint>

namespace weir {

/// How lanes tell a window: by the worker's number of it. Which half is the window's, and what it begins
/// with.
struct GrantWindow {
  std::uint32_t half = 0;
  std::uint32_t stamp = 0;

  /// Where a half has its window's stamp; below it is what has been used.
  static constexpr std::uint32_t stamps = 0xf000;

  GrantWindow() noexcept = default;
  explicit GrantWindow(std::uint32_t number) noexcept : half(number & 1), stamp((number >> 1 & 0xf) << 12) {}

  /// What a half says after so much more has been used of a grant: the common decision, if that is no more
  /// than last(). Without a branch. (Always inlined, so that it may be used where an instruction set is in
  /// force: shared/lane_search_kernel.h.)
  /// @param before  the half, of any window
  /// @param weight  1 … most, or any where the half is closed
  [[gnu::always_inline]] std::uint32_t after(std::uint32_t before, std::uint32_t weight) const noexcept {
    const bool runs = ((before ^ stamp) & stamps) == 0;
    return (runs ? before : stamp) + weight;
  }
  /// @param most  what the worker may admit of the key in the window, all in all
  [[gnu::always_inline]] std::uint32_t last(std::uint32_t most) const noexcept { return stamp + most; }
};

}  // namespace weir
