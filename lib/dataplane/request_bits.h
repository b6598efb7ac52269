// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Some of a burst's requests, as a bit for each.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace weir {

/// Calls visit() with the number of each, in order.
template <typename Visit>
[[gnu::always_inline]] inline void for_each(std::uint32_t requests, Visit&& visit) noexcept {
  for (; requests != 0; requests &= requests - 1) visit(static_cast<std::size_t>(std::countr_zero(requests)));
}

/// The first so many. @pre count <= 32
constexpr std::uint32_t first_requests(std::size_t count) noexcept {
  return static_cast<std::uint32_t>((std::uint64_t{1} << count) - 1);
}

/// Those before the first of these; all where there is none.
constexpr std::uint32_t before_first(std::uint32_t requests) noexcept { return (requests & -requests) - 1; }

}  // namespace weir
