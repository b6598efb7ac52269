// SPDX-License-Identifier: BSD-3-Clause
#include "filter/port_setup.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace weir::filter {
namespace {

TEST(HashedFields, AreAllOfIpThatTheDeviceOffersAndNothingElse) {
  EXPECT_EQ(hashed_fields(0), 0U);
  EXPECT_EQ(hashed_fields(std::numeric_limits<std::uint64_t>::max()),
            RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP);
  for (const std::uint64_t one : {RTE_ETH_RSS_NONFRAG_IPV4_UDP, RTE_ETH_RSS_NONFRAG_IPV6_UDP,
                                  RTE_ETH_RSS_NONFRAG_IPV4_SCTP, RTE_ETH_RSS_NONFRAG_IPV6_TCP,
                                  RTE_ETH_RSS_NONFRAG_IPV4_OTHER, RTE_ETH_RSS_FRAG_IPV4, RTE_ETH_RSS_IPV6})
    EXPECT_EQ(hashed_fields(one | RTE_ETH_RSS_VXLAN), one);
}

}  // namespace
}  // namespace weir::filter
