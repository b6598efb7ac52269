// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a port is set up with, of what its device offers: pure arithmetic, so that it needs no device to be
/// tested. Any thread.
#pragma once

#include <rte_ethdev.h>

#include <cstdint>

namespace weir::filter {

/// What a hash over several queues goes by.
/// @param offered  RTE_ETH_RSS_*, as rte_eth_dev_info has them
/// @return of these, all that spreads IP over the queues; fragments have no ports and go by their addresses
/// alone
std::uint64_t hashed_fields(std::uint64_t offered) noexcept;

}  // namespace weir::filter
