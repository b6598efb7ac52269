// SPDX-License-Identifier: BSD-3-Clause
// Requests whose cost is known only some time after they have been admitted, on one node and on several.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cluster.h"
#include "user_rule.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using testing::seed;
using testing::user_rule;

constexpr std::uint64_t limit = 10'000;
constexpr int intervals = 20;
constexpr Duration tick = 10ms;
constexpr int ticks_per_interval = 100;

struct Costs {
  std::uint32_t estimate;  // that requests are admitted with
  std::int64_t least;      // that they have cost in the end
  std::int64_t most;
};

class CostlyRequests {
 public:
  CostlyRequests(Algorithm algorithm, unsigned nodes, Costs costs)
      : costs_(costs), cluster_(user_rule(limit, algorithm), nodes, 2, seed()) {}

  // Each node as much, six times what the limit is for at the mean cost, in all; answers take up to 200 ms.
  void run() {
    const auto nodes = static_cast<int>(cluster_.nodes.size());
    const std::int64_t mean = (costs_.least + costs_.most) / 2;
    const int requests = static_cast<int>(6 * limit / ticks_per_interval / mean) / nodes;
    for (int at = 0; at < intervals * ticks_per_interval; ++at) {
      for (int node = 0; node < nodes; ++node)
        for (int i = 0; i < requests; ++i) ask(static_cast<unsigned>(node));
      settle();
      cluster_.advance(tick);
    }
    cluster_.finish();
  }

  // But for the first ones, in which nodes get to know each other.
  std::uint64_t most() const { return std::ranges::max(settled_costs()); }
  double mean() const {
    const std::vector<std::uint64_t> costs = settled_costs();
    double sum = 0;
    for (const std::uint64_t cost : costs) sum += static_cast<double>(cost);
    return sum / static_cast<double>(costs.size());
  }
  void expect_that_the_store_knows_of_all() const {
    for (const auto& [ordinal, cost] : costs_of_interval_) {
      const auto counter = cluster_.counters.find({"user|ada", ordinal});
      ASSERT_NE(counter, cluster_.counters.end());
      EXPECT_GE(counter->second, cost) << ordinal;
    }
  }

 private:
  struct UnderWay {
    unsigned node;
    std::int64_t by;
    Instant charged_in;
    MonotonicTime ends;
  };

  unsigned any_worker() { return static_cast<unsigned>(cluster_.random() % cluster_.workers); }
  void ask(unsigned node) {
    Worker& worker = cluster_.nodes[node]->worker(any_worker());
    if (worker.admit_key(0, "ada", costs_.estimate, cluster_.now.monotonic).verdict != Verdict::admit) return;
    const std::int64_t cost = std::uniform_int_distribution(costs_.least, costs_.most)(cluster_.random);
    costs_of_interval_[cluster_.clock.ordinal(cluster_.now.wall)] += static_cast<std::uint64_t>(cost);
    under_way_.push_back({node, cost - std::int64_t{costs_.estimate}, worker.span_began(),
                          cluster_.now.monotonic + tick * static_cast<int>(cluster_.random() % 20)});
  }
  void settle() {
    std::erase_if(under_way_, [&](const UnderWay& one) {
      if (one.ends > cluster_.now.monotonic) return false;
      Worker& worker = cluster_.nodes[one.node]->worker(any_worker());
      EXPECT_TRUE(worker.correct(worker.key(0, "ada"), one.by, one.charged_in));
      return true;
    });
  }
  std::vector<std::uint64_t> settled_costs() const {
    std::vector<std::uint64_t> costs;
    for (const auto& [ordinal, cost] : costs_of_interval_) costs.push_back(cost);
    return {costs.begin() + 5, costs.end()};
  }

  Costs costs_;
  Cluster cluster_;
  std::vector<UnderWay> under_way_;
  std::map<Ordinal, std::uint64_t> costs_of_interval_;
};

class CostsKnownLater : public ::testing::TestWithParam<std::pair<Algorithm, unsigned>> {};

INSTANTIATE_TEST_SUITE_P(
    Nodes, CostsKnownLater,
    ::testing::Values(std::pair{Algorithm::fixed_window, 1U}, std::pair{Algorithm::fixed_window, 3U},
                      std::pair{Algorithm::sliding_window, 1U}, std::pair{Algorithm::sliding_window, 3U},
                      std::pair{Algorithm::token_bucket, 1U}, std::pair{Algorithm::token_bucket, 3U},
                      std::pair{Algorithm::strict, 1U}, std::pair{Algorithm::strict, 3U}));

// Five times what requests cost in the mean: what is under way holds back as much as it was estimated to
// cost, and no more comes through than that leaves.
TEST_P(CostsKnownLater, OfRequestsThatAreEstimatedTooDearNearlyAllTheLimitIsUsedAndNoMore) {
  const auto [algorithm, nodes] = GetParam();
  CostlyRequests requests(algorithm, nodes, {.estimate = 50, .least = 1, .most = 19});
  requests.run();
  EXPECT_GT(requests.mean(), 0.55 * limit);
  // Buckets have what they hold, too; and several nodes what they admit before they hear of each other.
  const bool bucket = algorithm == Algorithm::token_bucket;
  EXPECT_LE(static_cast<double>(requests.most()), (bucket || nodes > 1 ? 1.1 : 1.0) * limit);
  if (!bucket) requests.expect_that_the_store_knows_of_all();
}

// Nothing but what has turned out already holds anybody back: an answer's time, and what remains of its span,
// is how long who asks for six times the limit goes unnoticed; and several nodes need another span.
TEST_P(CostsKnownLater, OfRequestsThatAreChargedAfterwardsOnlyThoseUnderWayAreTooMany) {
  const auto [algorithm, nodes] = GetParam();
  CostlyRequests requests(algorithm, nodes, {.estimate = 0, .least = 5, .most = 15});
  requests.run();
  EXPECT_GT(requests.mean(), 0.9 * limit);
  EXPECT_LE(static_cast<double>(requests.most()), 6 * (nodes > 1 ? 0.4 : 0.3) * limit + 0.1 * limit);
}

// What others have counted is told by the store, as dear as it was when they told of it.
TEST(CooldownCostsKnownLater, NobodyTakesOthersForMoreThanTheyAreBecauseHisOwnRequestsWereCheaper) {
  constexpr std::uint64_t large = 100'000;
  Cluster cluster(user_rule(large, Algorithm::cooldown), 2, 1, seed());
  for (int interval = 0; interval < 6; ++interval) {
    for (unsigned node = 0; node < 2; ++node) {
      Worker& worker = cluster.nodes[node]->worker(0);
      EXPECT_EQ(worker.admit_key(0, "ada", 40'000, cluster.now.monotonic).verdict, Verdict::admit)
          << interval << " " << node;
    }
    const Instant charged = cluster.nodes[0]->worker(0).span_began();
    cluster.advance(100ms);
    for (const auto& node : cluster.nodes)
      EXPECT_TRUE(node->worker(0).correct(node->worker(0).key(0, "ada"), -39'000, charged));
    for (int span = 1; span < 10; ++span) cluster.advance(100ms);
  }
  EXPECT_NEAR(cluster.nodes[0]->top(1).at(0).nodes, 2, 0.1);
  cluster.finish();
}

/// What one of two nodes admits in three seconds, both of which ask for twice the rate of a bucket's key,
/// after it has drawn so much of it, and handed some back.
unsigned admitted_after(std::uint32_t drawn, std::int64_t handed_back) {
  Rule rule = user_rule(1000, Algorithm::token_bucket);
  rule.burst = 10'000;
  Cluster cluster(rule, 2, 1, seed());
  Worker& one = cluster.nodes[0]->worker(0);
  const auto admits = [&](const auto& node, std::uint32_t weight) {
    return node->worker(0).admit_key(0, "ada", weight, cluster.now.monotonic).verdict == Verdict::admit;
  };
  const Instant charged_in = one.span_began();
  EXPECT_TRUE(admits(cluster.nodes[0], drawn));
  cluster.advance(100ms);
  EXPECT_TRUE(one.correct(one.key(0, "ada"), -handed_back, charged_in));
  unsigned admitted = 0;
  for (int span = 0; span < 30; ++span) {
    for (int i = 0; i < 200; ++i) {
      admitted += admits(cluster.nodes[0], 1);
      admits(cluster.nodes[1], 1);
    }
    cluster.advance(100ms);
  }
  cluster.finish();
  return admitted;
}

TEST(BucketCostsKnownLater, WhoHandsSomethingBackHasNoLessThanWhoNeverDrewIt) {
  EXPECT_GE(admitted_after(9000, 2000), admitted_after(7000, 0) / 10 * 9);
}

// Who only looks whether anything is left does not go by what his node might have granted him.
TEST(CostsKnownLaterOnSeveralNodes, LeaveNothingToWhoOnlyLooksOnceAllTogetherHaveUsedTheLimit) {
  Rule rule = user_rule(1000, Algorithm::fixed_window);
  rule.spans = 50;
  Cluster cluster(rule, 2, 1, seed());
  std::uint64_t used = 0;
  const auto admits = [&](unsigned node, std::uint32_t weight) {
    return cluster.nodes[node]->worker(0).admit_key(0, "ada", weight, cluster.now.monotonic).verdict ==
           Verdict::admit;
  };
  used += admits(1, 1);
  for (int span = 0; span < 49; ++span) {
    for (int i = 0; span < 5 && i < 40; ++i) used += admits(0, 1);
    for (int i = 0; i < 4; ++i) {
      if (!admits(1, 0)) continue;
      Worker& worker = cluster.nodes[1]->worker(0);
      EXPECT_TRUE(worker.correct(worker.key(0, "ada"), 10, worker.span_began()));
      used += 10;
    }
    cluster.advance(20ms);
  }
  EXPECT_LE(used, 1000U + 2 * 40);  // of a span, and of the one in which it becomes known
  EXPECT_GE(used, 950U);
  cluster.finish();
}

TEST(StrictCostsKnownLater, WhatOneNodeHandsBackAnotherOneLeases) {
  Rule rule = user_rule(1000, Algorithm::strict);
  rule.spans = 50;
  Cluster cluster(rule, 2, 1, seed());
  Worker& one = cluster.nodes[0]->worker(0);
  const auto admit = [&](unsigned node, std::uint32_t requests) {
    std::uint32_t admitted = 0;
    for (; requests > 0; --requests)
      admitted += cluster.nodes[node]->worker(0).admit_key(0, "ada", 1, cluster.now.monotonic).verdict ==
                  Verdict::admit;
    return admitted;
  };
  const auto end_span = [&] { cluster.advance(20ms); };
  for (int span = 0; span < 50; ++span) {
    admit(0, 50);
    end_span();
  }
  std::uint32_t admitted = 0;
  const Instant charged = one.span_began();
  for (int span = 0; span < 20; ++span) {
    admitted += admit(0, 50);
    end_span();
  }
  ASSERT_GT(admitted, 900U);
  ASSERT_TRUE(one.correct(one.key(0, "ada"), -800, charged));
  std::uint32_t of_other = 0;
  for (int span = 0; span < 25; ++span) {
    end_span();
    of_other += admit(1, 100);
  }
  EXPECT_GT(of_other, 600U);
  EXPECT_LE(admitted + of_other, 1800U);
  cluster.finish();
}

}  // namespace
}  // namespace weir
