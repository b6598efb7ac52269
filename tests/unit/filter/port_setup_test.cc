// SPDX-License-Identifier: BSD-3-Clause
#include "filter/port_setup.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

namespace weir::filter {
namespace {

rte_eth_dev_info device(std::uint16_t min_mtu, std::uint16_t max_mtu) {
  rte_eth_dev_info info{};
  info.min_mtu = min_mtu;
  info.max_mtu = max_mtu;
  return info;
}

TEST(HashedFields, AreAllOfIpThatTheDeviceOffersAndNothingElse) {
  EXPECT_EQ(hashed_fields(0), 0U);
  EXPECT_EQ(hashed_fields(std::numeric_limits<std::uint64_t>::max()),
            RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP);
  for (const std::uint64_t one : {RTE_ETH_RSS_NONFRAG_IPV4_UDP, RTE_ETH_RSS_NONFRAG_IPV6_UDP,
                                  RTE_ETH_RSS_NONFRAG_IPV4_SCTP, RTE_ETH_RSS_NONFRAG_IPV6_TCP,
                                  RTE_ETH_RSS_NONFRAG_IPV4_OTHER, RTE_ETH_RSS_FRAG_IPV4, RTE_ETH_RSS_IPV6})
    EXPECT_EQ(hashed_fields(one | RTE_ETH_RSS_VXLAN), one);
}

// What DPDK keeps of a configuration, and drivers read again later.
rte_eth_rss_conf kept(std::uint8_t key_size) {
  rte_eth_dev_info info{};
  info.hash_key_size = key_size;
  info.flow_type_rss_offloads = RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_VXLAN;
  return symmetric_hash(info);
}

TEST(SymmetricHash, HasAKeyOfTheDevicesOwnSizeAndForDriversThatSayNothingMore) {
  // DPDK refuses any other length from 23.11 on, and net_vmxnet3, which says nothing, reads 40 bytes all the
  // same.
  for (const std::uint8_t size : {0, 40, 52, 255}) {
    const rte_eth_rss_conf conf = kept(size);
    EXPECT_EQ(conf.rss_hf, RTE_ETH_RSS_NONFRAG_IPV4_TCP);
    EXPECT_EQ(conf.rss_key_len, size);
    for (int i = 0; i < std::max<int>(size, 40); ++i) EXPECT_EQ(conf.rss_key[i], i % 2 == 0 ? 0x6d : 0x5a);
  }
}

TEST(FrameSizes, AreThoseThatThePortHasWhereNoneAreAskedFor) {
  EXPECT_EQ(frame_size(0, 1500, device(68, 9000), true).mtu, 1500);
  EXPECT_EQ(frame_size(0, 9000, device(68, 9000), true).mtu, 9000);
  EXPECT_EQ(frame_size(0, 0, device(68, 9000), true).mtu, 1500) << "it does not say";
  EXPECT_EQ(frame_size(0, 1500, device(68, 1400), true).mtu, 1400);
}

TEST(FrameSizes, AreThoseAskedForAsFarAsTheDeviceTakesThem) {
  EXPECT_EQ(frame_size(9000, 1500, device(68, 9000), true).mtu, 9000);
  EXPECT_EQ(frame_size(68, 1500, device(68, 9000), true).mtu, 68);
  for (const std::uint16_t mtu : {67, 9001})
    EXPECT_EQ(
        frame_size(mtu, 1500, device(68, 9000), true).error,
        "[ports] mtu = " + std::to_string(mtu) + " is not among the MTUs that the device takes, 68 to 9000");
}

TEST(FrameSizes, AreHeldToTheLongestFrameOfADeviceThatTellsOfNoMtu) {
  rte_eth_dev_info info = device(68, 65535);
  info.max_rx_pktlen = 1518;
  EXPECT_EQ(frame_size(1500, 1500, info, true).error, "");
  EXPECT_EQ(frame_size(1501, 1500, info, true).error,
            "[ports] mtu = 1501 is not among the MTUs that the device takes, 68 to 1500");
  EXPECT_EQ(frame_size(0, 9000, info, true).mtu, 1500);
  info = device(68, 9000);
  info.max_rx_pktlen = 9022;
  EXPECT_EQ(frame_size(9000, 1500, info, true).error, "") << "it has room for a tag";
}

TEST(FrameSizes, LeaveTheUsualBuffersWhereFramesFitOrComeInSeveral) {
  EXPECT_EQ(frame_size(1500, 1500, device(68, 65535), false).buffer_size, RTE_MBUF_DEFAULT_BUF_SIZE);
  EXPECT_EQ(frame_size(65535, 1500, device(68, 65535), true).buffer_size, RTE_MBUF_DEFAULT_BUF_SIZE);
}

TEST(FrameSizes, TakeBuffersForWholeFramesWhereTheDeviceCannotDivideThem) {
  const FrameSize size = frame_size(9000, 1500, device(68, 65535), false);
  EXPECT_EQ(size.error, "");
  EXPECT_GE(size.buffer_size, 9000 + 14 + 2 * 4 + 4 + RTE_PKTMBUF_HEADROOM);
  EXPECT_EQ(size.buffer_size % RTE_CACHE_LINE_SIZE, 0);
  // The longest frame of the usual buffers, and the first one beyond.
  EXPECT_EQ(frame_size(2022, 1500, device(68, 65535), false).buffer_size, RTE_MBUF_DEFAULT_BUF_SIZE);
  EXPECT_GT(frame_size(2023, 1500, device(68, 65535), false).buffer_size, RTE_MBUF_DEFAULT_BUF_SIZE);
}

TEST(FrameSizes, ThatNoBufferHoldsAreRefused) {
  EXPECT_EQ(frame_size(65000, 1500, device(68, 65535), false).error, "");
  EXPECT_EQ(
      frame_size(65535, 1500, device(68, 65535), false).error,
      "[ports] mtu = 65535 is more than a buffer holds, and the device takes no frame in several: write "
      "less");
}

}  // namespace
}  // namespace weir::filter
