// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a port is set up with, of what its device offers: pure arithmetic, so that it needs no device to be
/// tested. Any thread.
#pragma once

#include <rte_ethdev.h>

#include <cstdint>
#include <string>

namespace weir::filter {

/// What a hash over several queues goes by.
/// @param offered  RTE_ETH_RSS_*, as rte_eth_dev_info has them
/// @return of these, all that spreads IP over the queues; fragments have no ports, and go by their addresses
std::uint64_t hashed_fields(std::uint64_t offered) noexcept;

/// The hash over several queues: of both directions of a connection the same. What it points to lives as long
/// as the program: DPDK keeps the pointer, and drivers read the key again (where a network card is taken away
/// from under a net_netvsc port and given back).
rte_eth_rss_conf symmetric_hash(const rte_eth_dev_info& info) noexcept;

/// Which frames a port receives, and in what.
struct FrameSize {
  std::uint16_t mtu = 0;          ///< bytes behind the link's header
  std::uint16_t buffer_size = 0;  ///< of each buffer, its headroom included
  std::string error;              ///< for people; empty when all is well
};

/// @param wanted   `[ports] mtu`; 0: what the port has
/// @param has      the port's MTU as it is; 0: it does not say
/// @param chained  whether frames longer than a buffer can be received here, and sent by the port that is
///                 faced
FrameSize frame_size(std::uint16_t wanted, std::uint16_t has, const rte_eth_dev_info& info, bool chained);

}  // namespace weir::filter
