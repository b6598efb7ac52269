// SPDX-License-Identifier: BSD-3-Clause
// What nodes keep back of light keys: nothing is lost of it, and it hides no more than it may.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cluster.h"
#include "limit/cooldown_bound.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using testing::seed;

Rule user_rule(std::uint64_t limit, double hold_back, Algorithm algorithm) {
  Rule rule;
  rule.name = "user";
  rule.key = {{.kind = Dimension::Kind::header, .name = "user"}};
  rule.limit = limit;
  rule.interval = 1s;
  rule.spans = 10;
  rule.cooldown = 500ms;
  rule.algorithm = algorithm;
  rule.hold_back = hold_back;
  rule.action = Action::drop;
  return rule;
}

class HoldBack : public ::testing::TestWithParam<Algorithm> {};

TEST_P(HoldBack, LosesAndDoublesNoCount) {
  for (const double hold_back : {0.01, 0.1, 0.5})
    for (const bool with_outages : {false, true}) {
      SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()) + ", hold_back " + std::to_string(hold_back));
      Cluster cluster(user_rule(600, hold_back, GetParam()), 3, 2, seed());
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
    Cluster cluster(user_rule(limit, hold_back, Algorithm::cooldown), nodes, 1, seed());
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

}  // namespace
}  // namespace weir
