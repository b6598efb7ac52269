// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A clock for what takes less than reading any other would.
#pragma once

#include <cstdint>

#ifdef __x86_64__
#include <x86intrin.h>
#else
#include <weir/throttle.h>
#endif

namespace weir::bench {

/// Ticks of the processor's own clock, or nanoseconds where it has none.
inline std::uint64_t ticks() noexcept {
#ifdef __x86_64__
  unsigned processor = 0;
  return __rdtscp(&processor);  // waits for what comes before it
#else
  return static_cast<std::uint64_t>(monotonic_now().time_since_epoch().count());
#endif
}

}  // namespace weir::bench
