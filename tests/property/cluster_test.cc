// SPDX-License-Identifier: BSD-3-Clause
// Several whole nodes on shared counters, in virtual time, under random traffic and a store that comes and
// goes. What must hold whatever happens: no count lost or doubled; no node over the limit; blocked keys come
// back.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cluster.h"
#include "user_rule.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using testing::Counters;
using testing::seed;
using testing::user_rule;

Rule rule_of(std::uint64_t limit) {
  Rule rule = user_rule(limit, Algorithm::cooldown);
  rule.cooldown = 500ms;
  return rule;
}

/// Random traffic of a few users over random nodes and workers for `spans` spans; the store is cut now and
/// then.
void run_random_traffic(Cluster& cluster, int spans, bool with_outages) {
  const std::vector<std::string> users = {"ann", "bob", "cho", "dee", "eve"};
  for (int span = 0; span < spans; ++span) {
    if (with_outages && cluster.random() % 8 == 0) *cluster.cut = !*cluster.cut;
    for (int step = 0; step < 10; ++step) {
      const auto requests = cluster.random() % 40;
      for (std::uint64_t i = 0; i < requests; ++i) {
        // Zipf-like: the first user sends half of everything.
        std::size_t user = 0;
        while (user + 1 < users.size() && cluster.random() % 2 == 0) ++user;
        cluster.admit(static_cast<unsigned>(cluster.random() % cluster.nodes.size()),
                      static_cast<unsigned>(cluster.random() % cluster.workers), users[user]);
      }
      cluster.advance(10ms);
    }
  }
}

class RandomTraffic : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomTraffic, LosesAndDoublesNoCountAndKeepsEachNodeWithinTheLimit) {
  const std::uint64_t value = seed();
  RecordProperty("seed", std::to_string(value));
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(value));
  for (const bool with_outages : {false, true}) {
    Cluster cluster(rule_of(GetParam()), 3, 2, value);
    run_random_traffic(cluster, 100, with_outages);
    cluster.finish();
    cluster.expect_conservation(cluster.admitted_by_all);
    cluster.expect_no_node_over(GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Limits, RandomTraffic, ::testing::Values(1, 2, 5, 100, 1000));

TEST(Penalize, StoresWhatWasOffered) {
  Rule rule = rule_of(50);
  rule.penalize = true;
  Cluster cluster(rule, 3, 2, seed());
  run_random_traffic(cluster, 60, true);
  cluster.finish();
  cluster.expect_conservation(cluster.offered);
}

TEST(SharedLimit, TwoNodesUnderSteadyOverloadTogetherAdmitAboutTheLimit) {
  Rule rule = rule_of(1000);
  rule.cooldown = 100ms;
  Cluster cluster(rule, 2, 1, seed());
  // 5000 requests a second, evenly spread: five times the limit.
  for (int step = 0; step < 1000; ++step) {
    for (int i = 0; i < 25; ++i)
      for (unsigned node = 0; node < 2; ++node) cluster.admit(node, 0, "ann");
    cluster.advance(10ms);
  }
  int intervals = 0;
  for (Ordinal ordinal = 1002; ordinal < 1010; ++ordinal, ++intervals) {
    const std::uint64_t admitted = cluster.admitted_by_all[{"user|ann", ordinal}];
    EXPECT_LE(admitted, 1000U) << ordinal;
    EXPECT_GE(admitted, 950U) << ordinal;
  }
  // The very first interval, before anything is known of others, is bounded by what two nodes may see in one
  // span.
  EXPECT_LE(cluster.admitted_by_all.begin()->second, 1000U + 2 * 250U);
}

TEST(SharedLimit, AnHonestClientIsNeverRefusedWhileTheStoreIsThere) {
  Cluster cluster(rule_of(100), 2, 1, seed());
  for (int step = 0; step < 1000; ++step) {
    if (step % 2 == 0) {
      EXPECT_TRUE(cluster.admit(step / 2 % 2, 0, "ann")) << step;  // half of the limit, alternating
    }
    cluster.advance(10ms);
  }
}

TEST(Heartbeat, IsNeverLeftOutByWhoIsAlwaysALittleLateHoweverLongSpansLast) {
  Rule rule = user_rule(100, Algorithm::fixed_window);
  rule.interval = 10h;
  Cluster cluster(rule, 1, 1, seed());
  while (cluster.now.wall < WallTime(1100s)) {
    const Instant due = cluster.nodes[0]->advance(cluster.now);
    cluster.now = cluster.now + (due.monotonic - cluster.now.monotonic) + 20ms;
  }
  for (Ordinal second = 1000; second < 1099; ++second)
    EXPECT_EQ((cluster.counters[{"~nodes", second}]), 1U) << second;
}

TEST(Recovery, AKeyComesBackAfterItsCooldownOnEveryNode) {
  Cluster cluster(rule_of(10), 3, 2, seed());
  for (unsigned node = 0; node < 3; ++node)
    for (int i = 0; i < 50; ++i) cluster.admit(node, 0, "ann");
  for (unsigned node = 0; node < 3; ++node) EXPECT_FALSE(cluster.admit(node, 0, "ann"));
  for (int i = 0; i < 200; ++i) cluster.advance(10ms);
  for (unsigned node = 0; node < 3; ++node) EXPECT_TRUE(cluster.admit(node, 0, "ann")) << "node " << node;
}

TEST(Replay, TheSameSeedGivesTheSameDecisions) {
  const auto run = [] {
    Cluster cluster(rule_of(20), 3, 2, 7);
    run_random_traffic(cluster, 50, true);
    return std::pair(cluster.admitted_by_node, cluster.counters);
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace weir
