// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// For masks by which the code goes on, and which nearly always are what one expects.
#pragma once

#include <cstdint>

namespace weir {

/// A burst's frames without those that hardly ever are to be left out: by a branch, which a processor
/// guesses, so that what goes on with the rest need not wait until it is known.
[[gnu::always_inline]] inline std::uint32_t without_rare(std::uint32_t frames, std::uint32_t rare) noexcept {
  if (rare != 0) [[unlikely]] {
    asm volatile("" : "+r"(rare));  // or else a compiler saves the branch
    frames &= ~rare;
  }
  return frames;
}

}  // namespace weir
