// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The only place in the library that reads a clock.
#pragma once

#include "weir/time.h"

namespace weir {

/// CLOCK_REALTIME and CLOCK_MONOTONIC. Any thread.
Instant system_now() noexcept;

}  // namespace weir
