// SPDX-License-Identifier: BSD-3-Clause
#include "filter/port_setup.h"

#include <rte_ether.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

namespace weir::filter {
namespace {

/// What a frame has beside its MTU's bytes: a header, two VLAN tags and a checksum.
constexpr std::uint32_t around_frame = RTE_ETHER_HDR_LEN + 2 * RTE_VLAN_HLEN + RTE_ETHER_CRC_LEN;
constexpr std::uint32_t cache_line = RTE_CACHE_LINE_SIZE;

/// A Toeplitz key that repeats every 16 bits gives both directions of a flow the same hash: swapping
/// addresses, or ports, swaps whole 16-bit units. Larger than any device's; not constant, because DPDK's
/// pointer to it is not. Nobody writes to it.
constinit std::array<std::uint8_t, 256> symmetric_key = [] {
  std::array<std::uint8_t, 256> key{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = i % 2 == 0 ? 0x6d : 0x5a;
  return key;
}();

/// Of what a device says of MTUs and of frames the smaller, as DPDK will hold us to.
std::uint16_t largest_mtu(const rte_eth_dev_info& info) noexcept {
  constexpr std::uint32_t usual = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
  if (info.max_mtu == 0) return RTE_ETHER_MTU;
  const bool tells_both = info.max_mtu != UINT16_MAX && info.max_rx_pktlen > info.max_mtu;
  if (tells_both || info.max_rx_pktlen <= usual) return info.max_mtu;
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(info.max_mtu, info.max_rx_pktlen - usual));
}

}  // namespace

std::uint64_t hashed_fields(std::uint64_t offered) noexcept {
  // Ports are hashed, too, of all that has any: who asks for TCP's alone has everything else in one queue.
  return offered & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP);
}

rte_eth_rss_conf symmetric_hash(const rte_eth_dev_info& info) noexcept {
  rte_eth_rss_conf conf{};
  conf.rss_hf = hashed_fields(info.flow_type_rss_offloads);
  conf.rss_key = symmetric_key.data();
  // As the device says, be it nothing: DPDK refuses any other from 23.11 on. Of one that says nothing the
  // driver takes as much as it needs (net_vmxnet3).
  conf.rss_key_len = info.hash_key_size;
  return conf;
}

FrameSize frame_size(std::uint16_t wanted, std::uint16_t has, const rte_eth_dev_info& info, bool chained) {
  FrameSize size;
  const std::uint16_t most = largest_mtu(info);
  const std::uint16_t least = std::min(info.min_mtu, most);
  if (wanted != 0 && (wanted < least || wanted > most)) {
    size.error = "[ports] mtu = " + std::to_string(wanted) +
                 " is not among the MTUs that the device takes, " + std::to_string(least) + " to " +
                 std::to_string(most);
    return size;
  }
  size.mtu = wanted != 0 ? wanted : std::clamp(has != 0 ? has : std::uint16_t{RTE_ETHER_MTU}, least, most);

  const std::uint32_t longest = size.mtu + around_frame;
  const std::uint32_t whole = (longest + RTE_PKTMBUF_HEADROOM + cache_line - 1) / cache_line * cache_line;
  if (chained || whole <= RTE_MBUF_DEFAULT_BUF_SIZE) {
    size.buffer_size = RTE_MBUF_DEFAULT_BUF_SIZE;
  } else if (whole > std::numeric_limits<std::uint16_t>::max()) {
    size.error = "[ports] mtu = " + std::to_string(size.mtu) +
                 " is more than a buffer holds, and the device takes no frame in several: write less";
  } else {
    size.buffer_size = static_cast<std::uint16_t>(whole);
  }
  return size;
}

}  // namespace weir::filter
