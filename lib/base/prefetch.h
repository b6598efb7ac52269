// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Asks for a cache line that will be written soon, or read.
///
/// The problem: GCC (12 at least) takes a function that does nothing but __builtin_prefetch() for one
/// without effect. Where it does not put the function into its caller at once, it drops the calls, and with
/// them, one after the other, those of the callers: a worker's prefetch of a whole burst became a single
/// `ret`. What looks like an assembler instruction it keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir {

/// Where it is wrong, nothing happens: the address need not be anybody's.
[[gnu::always_inline]] inline void prefetch_to_write(const void* address) noexcept {
  __builtin_prefetch(address, 1);
  asm volatile("" : : "r"(address));
}
[[gnu::always_inline]] inline void prefetch_to_read(const void* address) noexcept {
  __builtin_prefetch(address);
  asm volatile("" : : "r"(address));
}
/// Every line that has some of these.
[[gnu::always_inline]] inline void prefetch_lines_to_read(std::span<const std::byte> bytes) noexcept {
  constexpr std::uintptr_t line = 64;
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  for (std::uintptr_t at = begin - begin % line; at < begin + bytes.size(); at += line)
    prefetch_to_read(reinterpret_cast<const void*>(at));
}

}  // namespace weir
