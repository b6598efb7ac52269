// SPDX-License-Identifier: BSD-3-Clause
// Nodes whose own clocks are minutes apart, and jump: by the store's time they agree, and a strict limit
// holds although counters do not live so long. By their own clocks it holds while these differ by little.
#include <gtest/gtest.h>

#include <string>

#include "timed_cluster.h"
#include "user_rule.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::seed;
using testing::TimedCluster;
using testing::user_rule;

Rule strict_rule(std::uint64_t limit, Duration interval) {
  Rule rule = user_rule(limit, Algorithm::strict);
  rule.interval = interval;
  return rule;
}

constexpr Duration most_way = 5ms;

class StoreTime : public ::testing::TestWithParam<Duration> {};

TEST_P(StoreTime, NodesAgreeAndStrictIsNeverExceeded) {
  const Duration interval = GetParam();
  for (std::uint64_t round = 0; round < 6; ++round) {
    SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed() + round));
    constexpr std::uint64_t limit = 60;
    TimedCluster cluster(strict_rule(limit, interval), 5, most_way, seed() + round);
    const auto minutes = [&] {
      return Duration(static_cast<std::int64_t>(cluster.random() % 600'000'000'000)) - 5min;
    };
    for (std::size_t node = 0; node < cluster.count(); ++node) {
      cluster.set_clock(node, minutes());
      if (node > 0) cluster.start(node);
    }
    const Duration step = interval / 40;
    for (int i = 0; i < 800; ++i) {
      if (i == 300) cluster.start(0);  // comes later, to counters that run
      for (std::size_t node = 0; node < cluster.count(); ++node)
        if (cluster.random() % 200 == 0) cluster.set_clock(node, minutes());
      cluster.advance(0ms);
      const auto requests = cluster.random() % 6;
      for (std::uint64_t j = 0; j < requests; ++j)
        cluster.admit(cluster.random() % cluster.count(), cluster.random() % 2 == 0 ? "ann" : "bob");
      cluster.advance(step);
      for (std::size_t node = 0; i > 20 && node < cluster.count(); ++node) {
        if (!cluster.alive(node) || (node == 0 && i < 330)) continue;
        EXPECT_LE(std::chrono::abs(cluster.time_of(node) - cluster.wall()), most_way + 1ms)
            << "node " << node << ", step " << i;
      }
      if (HasFailure()) return;
    }
    std::uint64_t sum = 0;
    for (const auto& [counter, count] : cluster.admitted) {
      EXPECT_LE(count, limit) << counter.first << ":" << counter.second;
      sum += count;
    }
    EXPECT_GT(sum, 500U);
  }
}

INSTANTIATE_TEST_SUITE_P(Intervals, StoreTime, ::testing::Values(200ms, 1s, 5s),
                         [](const auto& tested) { return std::to_string(tested.param / 1ms) + "_ms"; });

class OwnClocks : public ::testing::TestWithParam<Duration> {};

// Each of the two would use the limit up alone: what the later one finds of it is what the first has left.
TEST_P(OwnClocks, NodesUnderAStrictLimitMayBeTwoIntervalsApart) {
  const Duration interval = GetParam();
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  constexpr std::uint64_t limit = 60;
  TimedCluster cluster(strict_rule(limit, interval), 2, most_way, seed());
  cluster.server.tells_time = false;
  cluster.set_clock(1, -2 * interval);
  for (std::size_t node = 0; node < cluster.count(); ++node) cluster.start(node);
  const Duration step = interval / 40;
  for (Duration passed{}; passed < 8 * interval; passed += step) {
    for (std::size_t node = 0; node < cluster.count(); ++node)
      for (int request = 0; request < 4; ++request) cluster.admit(node, "ann");
    cluster.advance(step);
  }
  ASSERT_EQ(cluster.wall() - cluster.time_of(1), 2 * interval) << "it has not learned the store's time";
  std::uint64_t sum = 0;
  for (const auto& [counter, count] : cluster.admitted) {
    EXPECT_LE(count, limit) << counter.first << ":" << counter.second;
    sum += count;
  }
  EXPECT_GT(sum, 5 * limit);
}

INSTANTIATE_TEST_SUITE_P(Intervals, OwnClocks, ::testing::Values(200ms, 1s, 5s),
                         [](const auto& tested) { return std::to_string(tested.param / 1ms) + "_ms"; });

// What a node that steps from its own clock to the store's has counted is in the store all the same.
TEST(StoreTimeSwitch, LosesNothing) {
  for (const Duration ahead : {Duration(-10min), Duration(-700ms), Duration(700ms), Duration(10min)}) {
    Rule rule = strict_rule(100'000, 1s);
    rule.algorithm = Algorithm::cooldown;
    rule.hold_back = 0.01;
    TimedCluster cluster(rule, 1, 200ms, seed());
    cluster.set_clock(0, ahead);
    cluster.start(0);
    std::uint64_t admitted = 0;
    for (int i = 0; i < 100; ++i) {
      admitted += cluster.admit(0, "ann");
      cluster.advance(10ms);
    }
    EXPECT_LE(std::chrono::abs(cluster.time_of(0) - cluster.wall()), 201ms);
    cluster.stop(0);
    std::uint64_t stored = 0;
    for (const auto& [counter, count] : cluster.offered)
      stored +=
          cluster.server.counters.read({counter.first, 1s, counter.second}, MonotonicTime(cluster.now()));
    EXPECT_EQ(stored, admitted) << ahead.count();
    EXPECT_EQ(admitted, 100U);
  }
}

}  // namespace
}  // namespace weir
