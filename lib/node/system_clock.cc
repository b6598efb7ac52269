// SPDX-License-Identifier: BSD-3-Clause
#include "node/system_clock.h"

#include <time.h>

#include "weir/throttle.h"

namespace weir {
namespace {

Duration read_clock(clockid_t clock) noexcept {
  timespec at{};
  clock_gettime(clock, &at);
  return std::chrono::seconds{at.tv_sec} + std::chrono::nanoseconds{at.tv_nsec};
}

}  // namespace

Instant system_now() noexcept { return {WallTime(read_clock(CLOCK_REALTIME)), monotonic_now()}; }

MonotonicTime monotonic_now() noexcept { return MonotonicTime(read_clock(CLOCK_MONOTONIC)); }

}  // namespace weir
