// SPDX-License-Identifier: BSD-3-Clause
#include "limit/cooldown.h"

#include <gtest/gtest.h>

#include <limits>

namespace weir {
namespace {

using namespace std::chrono_literals;
constexpr auto huge = std::numeric_limits<std::uint64_t>::max();

TEST(NodesRatio, ComparesExactly) {
  const NodesRatio nodes(7, 3);  // 10/7 has no exact binary form
  EXPECT_FALSE(nodes.exceeds(7, 10));
  EXPECT_TRUE(nodes.exceeds(8, 10));
  EXPECT_EQ(nodes.allowance(10), 7U);
}

TEST(NodesRatio, TheAllowanceIsTheLargestCountThatDoesNotExceed) {
  for (std::uint64_t own = 1; own < 40; ++own)
    for (std::uint64_t others = 0; others < 40; ++others)
      for (std::uint64_t limit = 1; limit < 40; ++limit) {
        const NodesRatio nodes(own, others);
        const std::uint64_t allowance = nodes.allowance(limit);
        EXPECT_TRUE(nodes.exceeds(allowance + 1, limit));
        EXPECT_TRUE(allowance == 1 || !nodes.exceeds(allowance, limit));
      }
}

TEST(NodesRatio, HugeNumbersDoNotOverflow) {
  const NodesRatio nodes(1, huge);
  EXPECT_TRUE(nodes.exceeds(2, 10));
  EXPECT_EQ(nodes.allowance(huge), 1U);
  EXPECT_TRUE(NodesRatio().exceeds_in_span(huge / 2, 10, 1000));
  EXPECT_FALSE(NodesRatio().exceeds(huge, huge));
}

TEST(NodeAllowance, ProofAndEstimateTheSmallerHolds) {
  EXPECT_EQ(node_allowance(100, 0, NodesRatio()), 100U);
  EXPECT_EQ(node_allowance(100, 30, NodesRatio()), 70U);
  EXPECT_EQ(node_allowance(100, 30, NodesRatio(1, 3)), 25U);
  EXPECT_EQ(node_allowance(100, 90, NodesRatio(1, 3)), 10U);
  EXPECT_EQ(node_allowance(100, 500, NodesRatio()), 0U);
}

TEST(Block, LastsOneCooldownWhateverHappensMeanwhile) {
  Block block;
  EXPECT_FALSE(block.active(MonotonicTime(0s)));
  block.begin(MonotonicTime(10s), 5s);
  block.begin(MonotonicTime(12s), 5s);
  EXPECT_TRUE(block.active(MonotonicTime(15s - 1ns)));
  EXPECT_FALSE(block.active(MonotonicTime(15s)));
  block.begin(MonotonicTime(15s), 5s);
  EXPECT_TRUE(block.active(MonotonicTime(19s)));
}

TEST(Block, AnEndlessCooldownDoesNotOverflow) {
  Block block;
  block.begin(MonotonicTime::max() - 1s, 5s);
  EXPECT_TRUE(block.active(MonotonicTime::max() - 1ns));
}

}  // namespace
}  // namespace weir
