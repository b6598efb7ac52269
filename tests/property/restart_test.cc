// SPDX-License-Identifier: BSD-3-Clause
// Nodes are restarted one after the other, as when a new version is rolled out, under three times the limit:
// no hole opens by it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "limit/cooldown_bound.h"
#include "timed_cluster.h"
#include "user_rule.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::seed;
using testing::TimedCluster;
using testing::user_rule;

constexpr std::uint64_t limit = 3000;
constexpr Duration interval = 10s;
constexpr std::uint32_t spans = 10;
constexpr unsigned nodes = 6;
constexpr Duration most_way = 5ms;
constexpr Duration step = 10ms;
/// Three times the limit.
constexpr double per_step = 3.0 * limit * (static_cast<double>(step.count()) / interval.count());

Rule long_block() {
  Rule rule = user_rule(limit, Algorithm::cooldown);
  rule.interval = interval;
  rule.spans = spans;
  rule.cooldown = 15s;
  return rule;
}

struct Outcome {
  std::uint64_t worst = 0;         ///< of an interval, all nodes together
  std::uint64_t blocked = 0;       ///< requests of a blocked key to restarted nodes that had been answered…
  std::uint64_t after_answer = 0;  ///< …and what they admitted of it
};

/// A minute and a half; each node is restarted in its turn, if so wished.
Outcome run(bool restarts, std::uint64_t seed_value) {
  TimedCluster cluster(long_block(), nodes, most_way, seed_value);
  for (std::size_t node = 0; node < nodes; ++node) cluster.start(node);
  double due = 0;
  std::vector<bool> touched(nodes, true);  // since the last start
  // From when on a restarted node is to know of a block, and how long that lasts at least.
  std::vector<Duration> knows_from(nodes);
  std::vector<Duration> knows_until(nodes);
  Outcome outcome;
  for (int i = 0; i < 9000; ++i) {
    const auto turn = static_cast<std::size_t>(i / 700);
    if (restarts && i % 700 == 333 && turn < nodes) {
      cluster.stop(turn);
      cluster.start(turn);
      touched[turn] = false;
      Duration least = Duration::max();
      for (std::size_t other = 0; other < nodes; ++other)
        if (other != turn) least = std::min(least, cluster.blocked_for(other));
      knows_until[turn] = cluster.now() + least;
    }
    due += per_step;
    for (; due >= 1; due -= 1) {
      const std::size_t node = cluster.random() % nodes;
      // Tables are drained once in a second; then it takes the way there and back.
      if (!touched[node]) knows_from[node] = cluster.now() + 1s + 2 * most_way + 3 * step;
      touched[node] = true;
      const bool passes = cluster.admit(node, "ann");
      const bool knows = knows_from[node] < cluster.now() && cluster.now() < knows_until[node];
      outcome.blocked += knows;
      outcome.after_answer += knows && passes;
    }
    cluster.advance(step);
  }
  for (const auto& [counter, count] : cluster.admitted) outcome.worst = std::max(outcome.worst, count);
  return outcome;
}

TEST(RollingRestart, OpensNoHole) {
  for (std::uint64_t round = 0; round < 4; ++round) {
    SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed() + round));
    const Outcome quiet = run(false, seed() + round);
    const Outcome rolling = run(true, seed() + round);
    // All nodes are offered the same; a restarted one may be blind once more. At most two restart in an
    // interval.
    const Duration blind = cooldown_blind_time(interval, spans, 2 * most_way, {});
    const double offered = per_step * static_cast<double>(blind.count()) / static_cast<double>(step.count());
    const auto bound = [&](unsigned restarted) {
      // Four standard deviations: requests come to nodes by lot.
      const double most = offered * (nodes + restarted) / nodes;
      return limit + cooldown_overshoot_bound(limit, nodes + restarted,
                                              static_cast<std::uint64_t>(most + 4 * std::sqrt(most)),
                                              long_block().hold_back);
    };
    EXPECT_LE(quiet.worst, bound(0));
    EXPECT_LE(rolling.worst, bound(2));
    EXPECT_LE(rolling.worst, quiet.worst + static_cast<std::uint64_t>(2 * offered / nodes * 1.2));
    EXPECT_EQ(rolling.after_answer, 0U) << "a blocked key stays blocked on a node that has come back";
    EXPECT_GT(rolling.blocked, 100U);
  }
}

}  // namespace
}  // namespace weir
