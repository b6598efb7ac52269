// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The counter by which nodes know how many they are.
#pragma once

#include <chrono>
#include <string_view>

#include "base/span_clock.h"
#include "weir/time.h"

namespace weir {

/// Every node adds one to the heartbeat's counter in each of its periods. Those of the period before are all
/// in when a period begins, for it was written at its beginning: unless the store was away then, or has been
/// wiped since.
inline constexpr SpanClock heartbeat(std::chrono::seconds{1}, 1);
/// No rule's name begins so: by that a store tells it from the rules' counters where these are everybody's.
inline constexpr std::string_view heartbeat_name = "~nodes";
inline constexpr Duration heartbeat_lives = std::chrono::seconds{5};
/// Whose heartbeat has been answered later than that has not reached the store in time, nor perhaps others
/// who have yet to find it again. A distant store answers sooner.
inline constexpr Duration heartbeat_is_late = std::chrono::milliseconds{750};

}  // namespace weir
