// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// How the lanes of grants tell windows apart: the times that grants are for (shared/grant_table.h).
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

  /// Whether a half is of this window.
  bool runs(std::uint32_t of_half) const noexcept { return ((of_half ^ stamp) & stamps) == 0; }
};

}  // namespace weir
