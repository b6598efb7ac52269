// SPDX-License-Identifier: BSD-3-Clause
// What nodes keep back of light keys: nothing is lost of it, and it hides no more than it may.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cluster.h"
#include "limit/cooldown_bound.h"
#include "timed_cluster.h"
#include "user_rule.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using testing::seed;
using testing::TimedCluster;
using testing::user_rule;

Rule rule_of(std::uint64_t limit, double hold_back, Algorithm algorithm) {
  Rule rule = user_rule(limit, algorithm);
  rule.cooldown = 500ms;
  rule.hold_back = hold_back;
  return rule;
}

class HoldBack : public ::testing::TestWithParam<Algorithm> {};

TEST_P(HoldBack, LosesAndDoublesNoCount) {
  for (const double hold_back : {0.01, 0.1, 0.5})
    for (const bool with_outages : {false, true}) {
      SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()) + ", hold_back " + std::to_string(hold_back));
      Cluster cluster(rule_of(600, hold_back, GetParam()), 3, 2, seed());
      for (int step = 0; step < 600; ++step) {
        if (with_outages && cluster.random() % 80 == 0) *cluster.cut = !*cluster.cut;
        for (int request = static_cast<int>(cluster.random() % 20); request > 0; --request)
          cluster.admit(static_cast<unsigned>(cluster.random() % 3),
                        static_cast<unsigned>(cluster.random() % 2),
                        "user" + std::to_string(cluster.random() % (1 + cluster.random() % 40)));
        cluster.advance(10ms);
      }
      cluster.finish();
      cluster.expect_conservation(cluster.admitted_by_all);
      cluster.expect_no_node_over(600);
    }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, HoldBack,
                         ::testing::Values(Algorithm::cooldown, Algorithm::fixed_window,
                                           Algorithm::sliding_window, Algorithm::token_bucket,
                                           Algorithm::leaky_bucket, Algorithm::sliding_log, Algorithm::shed),
                         [](const auto& tested) {
                           std::string name(to_string(tested.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Ten nodes; one takes all it can get, and the others just as much as they need not tell.
TEST(HoldBackOvershoot, OfManyNodesThatEachStayJustBelowIsWhatTheBoundSays) {
  for (const double hold_back : {0.01, 0.05, 0.2}) {
    constexpr std::uint64_t limit = 5000;
    constexpr unsigned nodes = 10;
    const auto held = static_cast<std::uint64_t>(hold_back * limit / nodes);
    Cluster cluster(rule_of(limit, hold_back, Algorithm::cooldown), nodes, 1, seed());
    for (int step = 0; step < 800; ++step) {
      // At the beginning of each interval, so that nobody has reached the limit yet; and not from the start,
      // when they would tell, and learn that the key is near its limit.
      if (step >= 300 && step % 100 == 5)
        for (unsigned node = 1; node < nodes; ++node)
          for (std::uint64_t i = 0; i < held; ++i) cluster.admit(node, 0, "ann");
      for (int i = 0; i < 100; ++i) cluster.admit(0, 0, "ann");
      cluster.advance(10ms);
    }
    std::uint64_t worst = 0;
    for (const auto& [counter, count] : cluster.admitted_by_all)
      if (counter.second > 1003) worst = std::max(worst, count);
    // The busy node is not blind to itself: only what the others keep back is over.
    EXPECT_LE(worst, limit + cooldown_overshoot_bound(limit, nodes, 0, hold_back)) << hold_back;
    EXPECT_EQ(worst, limit + (nodes - 1) * held) << hold_back;
    cluster.finish();
    cluster.expect_conservation(cluster.admitted_by_all);
  }
}

/// Nodes that begin one after the other, most with a little of a key that one of them takes all it can get of
/// later: what is hidden then.
struct Beginning {
  unsigned nodes;
  std::function<Duration(unsigned)> clock_ahead;
  std::function<Duration(unsigned)> begins;
  std::function<Duration(unsigned)> asks_at;        // after it has begun
  std::function<std::uint64_t(unsigned)> asks_for;  // of the first, nothing
  Duration first_asks_at = 60s;  // for all there is, but so slowly that it hears of the others meanwhile
};

void expect_within_bound(const Beginning& beginning) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  constexpr std::uint64_t limit = 5000;
  constexpr double hold_back = 0.2;
  Rule rule = rule_of(limit, hold_back, Algorithm::cooldown);
  rule.interval = 100s;
  rule.spans = 1000;
  rule.cooldown = 100s;
  TimedCluster cluster(rule, beginning.nodes, 5ms, seed());
  for (unsigned node = 0; node < beginning.nodes; ++node)
    cluster.set_clock(node, beginning.clock_ahead(node));
  while (cluster.now() < beginning.first_asks_at + 10s) {
    for (unsigned node = 0; node < beginning.nodes; ++node) {
      if (!cluster.alive(node) && cluster.now() >= beginning.begins(node)) {
        cluster.start(node);
      } else if (node > 0 && cluster.now() - beginning.begins(node) == beginning.asks_at(node)) {
        for (std::uint64_t i = 0; i < beginning.asks_for(node); ++i) cluster.admit(node, "ann");
      }
    }
    if (cluster.now() >= beginning.first_asks_at)
      for (int i = 0; i < 100; ++i) cluster.admit(0, "ann");
    cluster.advance(10ms);
  }
  std::uint64_t admitted = 0;
  for (const auto& [counter, count] : cluster.admitted) admitted += count;
  EXPECT_GE(admitted, limit);
  EXPECT_LE(admitted, limit + cooldown_overshoot_bound(limit, beginning.nodes, 0, hold_back));
}

constexpr std::uint64_t held_by_all = 1000;

TEST(HoldBackOvershoot, OfNodesThatJoinOneWithWrongClocksIsWithinTheBound) {
  for (const Duration apart : {Duration(0s), Duration(2s), Duration(10min), Duration(-2s), Duration(-10min)})
    for (const Duration first_asks_at : {Duration(20'250ms), Duration(60s)})
      expect_within_bound({.nodes = 8,
                           .clock_ahead = [apart](unsigned node) { return node * apart; },
                           .begins = [](unsigned node) { return node == 0 ? Duration(0s) : Duration(20s); },
                           .asks_at = [](unsigned) { return 200ms; },
                           .asks_for = [](unsigned) { return held_by_all / 2 - 10; },
                           .first_asks_at = first_asks_at});
}

TEST(HoldBackOvershoot, OfNodesThatJoinOneAfterTheOtherIsWithinTheBound) {
  expect_within_bound({.nodes = 40,
                       .clock_ahead = [](unsigned) { return 0s; },
                       .begins = [](unsigned node) { return node * 1s; },
                       .asks_at = [](unsigned) { return 2500ms; },
                       .asks_for = [](unsigned node) { return held_by_all / (node + 3); }});
}

TEST(HoldBackOvershoot, OfNodesThatBeginTogetherWhereThereWereNoneIsWithinTheBound) {
  const auto is_early = [](unsigned node) { return node <= 6; };
  expect_within_bound(
      {.nodes = 40,
       .clock_ahead = [](unsigned) { return 0s; },
       .begins = [](unsigned node) { return node * 20ms; },
       .asks_at = [=](unsigned node) { return is_early(node) ? Duration(40ms) : Duration(5s); },
       .asks_for =
           [=](unsigned node) {
             return is_early(node) ? held_by_all / ((node + 1) * (node + 2)) : held_by_all / 40;
           }});
}

}  // namespace
}  // namespace weir
