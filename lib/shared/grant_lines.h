// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// How many lines a worker's grants lie on (shared/grant_table.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weir {

inline constexpr std::size_t grants_per_line = 8;

/// Lines that are the home of some key: 62 % full with as many keys as were asked for; half full where these
/// are few. Then more keys are in their home line, so that a decision takes a twentieth less, for 7 bytes a
/// key more; among a million, whose lines come from memory, it takes as long or longer.
constexpr std::size_t grant_home_lines(std::uint32_t keys) noexcept {
  constexpr std::uint32_t few = 131'072;
  const std::size_t places = keys <= few ? std::size_t{keys} * 2 : std::size_t{keys} * 8 / 5;
  return std::max<std::size_t>((places + grants_per_line - 1) / grants_per_line, 1);
}

}  // namespace weir
