// SPDX-License-Identifier: BSD-3-Clause
// What algorithm.md §8 asks of the algorithms, of whole clusters in virtual time.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "cluster.h"
#include "sanitized.h"
#include "user_rule.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using testing::seed;
using testing::user_rule;

constexpr unsigned many_nodes = testing::sanitized ? 4 : 40;

/// How a demand is spread over nodes.
enum class Spread { even, skewed, one, moving };

/// One key's demand, paced, for whole intervals of one second; nodes are driven every ten milliseconds.
struct Load {
  double per_second;
  Spread spread = Spread::even;
  bool poisson = false;

  unsigned node(Cluster& cluster) const {
    const auto nodes = static_cast<unsigned>(cluster.nodes.size());
    switch (spread) {
      case Spread::even:
        return static_cast<unsigned>(cluster.random() % nodes);
      case Spread::one:
        return 0;
      case Spread::moving:
        return static_cast<unsigned>((cluster.now.wall.time_since_epoch() / 3s) % nodes);
      case Spread::skewed: {
        // Zipf with exponent 1, by rejection from 1/x.
        const double u = static_cast<double>(cluster.random() >> 11) * 0x1p-53;
        return std::min(nodes - 1, static_cast<unsigned>(std::pow(nodes + 1.0, u)) - 1);
      }
    }
    return 0;
  }
};

struct Outcome {
  double offered = 0;
  double admitted = 0;
  double worst = 0;  // of an aligned interval
  int refused_intervals = 0;
};

/// Runs `settle` + `seconds` seconds and sums up the latter.
Outcome run(Cluster& cluster, const Load& load, int settle, int seconds) {
  Outcome outcome;
  double due = 0;
  for (int second = 0; second < settle + seconds; ++second) {
    double offered = 0;
    double admitted = 0;
    for (int step = 0; step < 100; ++step) {
      due += load.per_second / 100;
      double count = std::floor(due);
      due -= count;
      if (load.poisson) count = std::poisson_distribution<int>(load.per_second / 100)(cluster.random);
      for (int i = 0; i < static_cast<int>(count); ++i) {
        ++offered;
        admitted += cluster.admit(load.node(cluster),
                                  static_cast<unsigned>(cluster.random() % cluster.workers), "ann");
      }
      cluster.advance(10ms);
    }
    if (second < settle) continue;
    outcome.offered += offered;
    outcome.admitted += admitted;
    outcome.worst = std::max(outcome.worst, admitted);
    outcome.refused_intervals += admitted < offered;
  }
  return outcome;
}

struct Case {
  Algorithm algorithm;
  double demand;  // × limit
  unsigned nodes;
  Spread spread;
  std::uint32_t weight = 1;  ///< of each request
};

/// @param limit  in requests
Rule rule_of(const Case& given, std::uint64_t limit) {
  Rule rule = user_rule(limit * given.weight, given.algorithm);
  rule.weight = given.weight;
  return rule;
}

std::string name_of(Spread spread) {
  switch (spread) {
    case Spread::even:
      return "even";
    case Spread::skewed:
      return "skewed";
    case Spread::one:
      return "one";
    case Spread::moving:
      return "moving";
  }
  return "";
}

class Overload : public ::testing::TestWithParam<Case> {};

// §8.3: within 5 % of the limit; `strict` never over it and at least 95 % of it.
TEST_P(Overload, AdmitsTheLimit) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  const Case& given = GetParam();
  constexpr std::uint64_t limit = 1000;
  Cluster cluster(user_rule(limit, given.algorithm), given.nodes, 2, seed());
  const Outcome outcome = run(cluster, {.per_second = given.demand * limit, .spread = given.spread}, 5, 10);
  const double error = 100 * (outcome.admitted / (limit * 10) - 1);
  RecordProperty("error_pct", std::to_string(error));
  if (given.algorithm == Algorithm::strict) {
    EXPECT_LE(outcome.worst, limit);
    EXPECT_GE(error, -5);
  } else {
    EXPECT_NEAR(error, 0, 5);
  }
  cluster.finish();
  if (given.algorithm == Algorithm::strict) cluster.expect_conservation(cluster.admitted_by_all);
}

class HonestClient : public ::testing::TestWithParam<Case> {};

// §8.3: a client at 70 % of its limit is blocked in less than 0.1 % of the intervals.
TEST_P(HonestClient, IsHardlyEverRefused) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  const Case& given = GetParam();
  const std::uint64_t limit = 1000;
  Cluster cluster(rule_of(given, limit), given.nodes, 2, seed());
  constexpr int intervals = testing::sanitized ? 20 : 100;
  const Outcome outcome = run(
      cluster, {.per_second = given.demand * limit, .spread = given.spread, .poisson = true}, 5, intervals);
  RecordProperty("refused", std::to_string(outcome.refused_intervals));
  EXPECT_EQ(outcome.refused_intervals, 0) << "of " << intervals;
}

class SmallLimit : public ::testing::TestWithParam<Case> {};

// §8.4: about the limit; not nothing, and not one for each node.
TEST_P(SmallLimit, OnManyNodesIsAboutTheLimit) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  const Case& given = GetParam();
  constexpr std::uint64_t limit = 10;
  constexpr int intervals = 40;
  Cluster cluster(rule_of(given, limit), given.nodes, 2, seed());
  const Outcome outcome =
      run(cluster, {.per_second = given.demand * limit, .spread = given.spread}, 10, intervals);
  const double error = 100 * (outcome.admitted / (limit * intervals) - 1);
  RecordProperty("error_pct", std::to_string(error));
  if (given.algorithm == Algorithm::strict) {
    EXPECT_LE(outcome.worst, limit);
    EXPECT_GE(error, -50);
  } else {
    EXPECT_NEAR(error, 0, 25);
  }
}

TEST(Strict, AClientWhoComesLessThanOnceInAnIntervalIsRefusedOnceOnly) {
  for (const std::uint32_t weight : {1U, 2U, 3U}) {
    SCOPED_TRACE(weight);
    Rule rule = user_rule(13, Algorithm::strict);
    rule.weight = weight;
    Cluster cluster(rule, 4, 1, seed());
    for (int request = 0; request < 20; ++request) {
      EXPECT_EQ(cluster.admit(2, 0, "ann"), request > 0) << "request " << request;
      for (int step = 0; step < 333; ++step) cluster.advance(10ms);
    }
    cluster.finish();
    testing::Counters counted = cluster.admitted_by_all;
    for (auto& [counter, count] : counted) count *= weight;
    cluster.expect_conservation(counted);
  }
}

constexpr std::array algorithms_of_clusters{Algorithm::fixed_window, Algorithm::sliding_window,
                                            Algorithm::token_bucket, Algorithm::leaky_bucket,
                                            Algorithm::shed,         Algorithm::strict};

std::vector<Case> honest_cases() {
  std::vector<Case> all;
  for (const Algorithm algorithm : algorithms_of_clusters)
    for (const Spread spread : {Spread::even, Spread::skewed, Spread::one, Spread::moving})
      if (algorithm != Algorithm::strict) all.push_back({algorithm, 0.7, many_nodes, spread});
  for (const Spread spread : {Spread::even, Spread::skewed, Spread::one, Spread::moving})
    all.push_back({Algorithm::cooldown, 0.7, many_nodes, spread});
  all.push_back({Algorithm::cooldown, 0.7, many_nodes, Spread::even, 100});
  return all;
}

std::vector<Case> small_cases() {
  std::vector<Case> all;
  for (const Algorithm algorithm : algorithms_of_clusters)
    for (const Spread spread : {Spread::even, Spread::skewed})
      if (!testing::sanitized || spread == Spread::even)
        all.push_back({algorithm, 20, testing::sanitized ? 12U : 64U, spread});
  for (const Algorithm algorithm : algorithms_of_clusters)
    all.push_back({algorithm, 20, testing::sanitized ? 12U : 64U, Spread::even, 20});
  return all;
}

std::string case_name(const ::testing::TestParamInfo<Case>& tested) {
  std::string name(to_string(tested.param.algorithm));
  for (char& c : name)
    if (c == '-') c = '_';
  return name + "_" + std::to_string(static_cast<int>(tested.param.demand * 10)) + "_tenths_" +
         std::to_string(tested.param.nodes) + "_nodes_" + name_of(tested.param.spread) +
         (tested.param.weight > 1 ? "_weighing_" + std::to_string(tested.param.weight) : "");
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Algorithm algorithm : algorithms_of_clusters)
    for (const double demand : {1.2, 3.0, 10.0})
      for (const unsigned nodes : testing::sanitized ? std::vector{1U, 3U} : std::vector{1U, 3U, 4U, 40U})
        for (const Spread spread : {Spread::even, Spread::skewed, Spread::one, Spread::moving})
          if (nodes > 1 || spread == Spread::even) all.push_back({algorithm, demand, nodes, spread});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Overload, ::testing::ValuesIn(cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Algorithms, HonestClient, ::testing::ValuesIn(honest_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Algorithms, SmallLimit, ::testing::ValuesIn(small_cases()), case_name);

}  // namespace
}  // namespace weir
