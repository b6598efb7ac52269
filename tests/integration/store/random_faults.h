// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Schedules of faults at random, cut to what a store says to its server.
#pragma once

#include <cstdint>

#include "fault_network.h"

namespace weir {

/// The schedule of a connection: always the same for the same seed and number.
FaultSchedule random_faults(std::uint64_t seed, std::size_t connection);

}  // namespace weir
