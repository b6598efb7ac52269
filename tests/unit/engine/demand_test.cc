// SPDX-License-Identifier: BSD-3-Clause
// What a node believes of a key's demand and of its own part of it.
#include "engine/demand.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "seed.h"

namespace weir {
namespace {

using testing::test_seed;

constexpr std::uint32_t spans = 10;

TEST(DemandShare, BeginsEvenlySpread) {
  DemandEstimate demand;
  demand.begin(8);
  EXPECT_DOUBLE_EQ(demand.share(), 1.0 / 8);
  demand.begin(0);
  EXPECT_DOUBLE_EQ(demand.share(), 1);
}

TEST(DemandShare, AFewCountsMoveItLittleAndManyMoveItAllTheWay) {
  DemandEstimate few;
  few.begin(4);
  few.learn(2, 0, 1, spans, 4);
  // 16 counts for each node are what is believed: (2 + 64/4) / (2 + 64).
  EXPECT_DOUBLE_EQ(few.share(), 18.0 / 66);
  DemandEstimate many;
  many.begin(4);
  many.learn(100'000, 100'000, 1, spans, 4);
  EXPECT_NEAR(many.share(), 0.5, 0.001);
}

TEST(DemandShare, WhatCameAsBelievedConfirmsIt) {
  DemandEstimate demand;
  demand.begin(4);
  for (int i = 0; i < 100; ++i) demand.learn(25, 75, 1, spans, 4);
  EXPECT_DOUBLE_EQ(demand.share(), 0.25);
}

TEST(DemandShare, ALoadThatHasMovedAwayOverrulesWhatWasBelieved) {
  DemandEstimate demand;
  demand.begin(4);
  for (int i = 0; i < 50; ++i) demand.learn(100, 0, 1, spans, 4);
  EXPECT_GT(demand.share(), 0.95);
  demand.learn(0, 100, 1, spans, 4);
  // Four standard deviations off: the belief weighs 64/16 = 4 counts against 100.
  EXPECT_LT(demand.share(), 0.05);
}

TEST(DemandShare, MoreThatIsHeardOfTheSameTimeIsAsIfItHadBeenHeardWithTheRest) {
  std::mt19937_64 random(test_seed());
  DemandEstimate at_once, in_parts;
  EXPECT_FALSE(in_parts.can_revise());
  at_once.begin(4);
  in_parts.begin(4);
  int revised = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t own = random() % 300, others = random() % 500, more = random() % 500;
    const auto elapsed = static_cast<std::uint32_t>(1 + random() % 4);
    at_once.learn(own + more / 5, others + more, elapsed, spans, 4);
    in_parts.learn(own, others, elapsed, spans, 4);
    revised += in_parts.can_revise() ? 1 : 0;
    if (!in_parts.can_revise()) {
      in_parts = at_once;  // it closed an interval that was none of so many spans
      continue;
    }
    in_parts.revise(more / 5, more / 3, 4);
    in_parts.revise(0, more - more / 3, 4);
    ASSERT_NEAR(in_parts.share(), at_once.share(), 1e-5) << i;
    ASSERT_NEAR(in_parts.per_interval(), at_once.per_interval(), 1e-6) << i;
  }
  EXPECT_GT(revised, 700);
  in_parts.look_back(100, 1, spans);
  EXPECT_FALSE(in_parts.can_revise()) << "it tells nothing of this node's part";
}

TEST(DemandShare, StaysAboveNothingAndAtMostOne) {
  DemandEstimate demand;
  demand.begin(1024);
  for (int i = 0; i < 2000; ++i) demand.learn(0, 1'000'000, 1, spans, 1024);
  EXPECT_GT(demand.share(), 0);
  for (int i = 0; i < 200; ++i) demand.learn(1'000'000, 0, 1, spans, 1024);
  EXPECT_LE(demand.share(), 1);
  EXPECT_GT(demand.share(), 0.999);
}

// The counts are the same, seen from different sides, and all mix with the same weights: as long as none is
// so surprised that it forgets what it believed.
TEST(DemandShare, TheSharesOfAllNodesAddUpToOne) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(test_seed()));
  std::mt19937_64 random(test_seed());
  for (const std::uint32_t nodes : {2U, 5U, 40U}) {
    std::vector<DemandEstimate> estimates(nodes);
    for (DemandEstimate& estimate : estimates) estimate.begin(nodes);
    for (int sync = 0; sync < 200; ++sync) {
      std::vector<std::uint64_t> offered(nodes);
      std::uint64_t sum = 0;
      for (std::uint64_t& own : offered) sum += own = 15 + random() % 11;
      double shares = 0;
      for (std::uint32_t i = 0; i < nodes; ++i) {
        estimates[i].learn(offered[i], sum - offered[i], 1, spans, nodes);
        shares += estimates[i].share();
      }
      ASSERT_NEAR(shares, 1, 1e-9) << nodes << " nodes, sync " << sync;
    }
  }
}

TEST(DemandPerInterval, IsUnknownAtFirstAndThenScaledUpFromTheSpansThatHaveBeenSeen) {
  DemandEstimate demand;
  demand.begin(2);
  EXPECT_EQ(demand.per_interval(), 0);
  demand.learn(10, 20, 1, spans, 2);
  EXPECT_DOUBLE_EQ(demand.per_interval(), 300);
  demand.learn(10, 20, 4, spans, 2);
  EXPECT_DOUBLE_EQ(demand.per_interval(), 120);
}

TEST(DemandPerInterval, SlidesFromTheLastWholeIntervalIntoTheRunningOne) {
  DemandEstimate demand;
  demand.begin(1);
  demand.learn(1000, 0, spans, spans, 1);
  EXPECT_DOUBLE_EQ(demand.per_interval(), 1000);
  demand.learn(0, 0, 5, spans, 1);
  EXPECT_DOUBLE_EQ(demand.per_interval(), 500);
  demand.learn(50, 0, 0, spans, 1);  // more of the time that was told of before
  EXPECT_DOUBLE_EQ(demand.per_interval(), 550);
}

TEST(DemandPerInterval, AnIntervalTooLongIsScaledDownToOne) {
  DemandEstimate demand;
  demand.begin(1);
  demand.learn(3000, 0, 30, spans, 1);
  EXPECT_DOUBLE_EQ(demand.per_interval(), 1000);
}

TEST(DemandExceeds, ByMoreThanChanceUntilAWholeIntervalHasBeenSeen) {
  DemandEstimate demand;
  demand.begin(1);
  demand.learn(12, 0, 1, spans, 1);  // 120 per interval, give or take 2 √12 × 10
  EXPECT_FALSE(demand.exceeds(100));
  EXPECT_TRUE(demand.exceeds(40));
  for (int i = 0; i < 9; ++i) demand.learn(12, 0, 1, spans, 1);
  EXPECT_TRUE(demand.exceeds(100));
  EXPECT_FALSE(demand.exceeds(120));  // reached is not exceeded
}

TEST(DemandExceeds, ComesNearAtFourFifths) {
  DemandEstimate demand;
  demand.begin(1);
  demand.learn(81, 0, spans, spans, 1);
  EXPECT_TRUE(demand.nears(100));
  EXPECT_FALSE(demand.nears(102));
}

}  // namespace
}  // namespace weir
