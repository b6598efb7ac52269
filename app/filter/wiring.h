// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which port faces which, and where frames for a port come from. Built by the main thread, read-only while
/// workers run.
#pragma once

#include <rte_config.h>
#include <rte_mempool.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace weir::filter {

/// Frames received at once.
inline constexpr std::uint16_t burst_size = 32;
/// A frame becomes at most two: an answer to each end.
inline constexpr std::size_t max_outgoing = 2 * burst_size;

struct Wiring {
  struct Port {
    std::uint16_t peer = 0;
    rte_mempool* pool = nullptr;  ///< memory for this port's frames
  };
  std::array<Port, RTE_MAX_ETHPORTS> ports{};  ///< by port id; those in no pair stay empty
};

}  // namespace weir::filter
