// SPDX-License-Identifier: BSD-3-Clause
// Requests under two rules on several nodes: what the one refuses has asked for nothing of what the other one
// has, and so does not change how that is divided between nodes and keys. But of what both refuse one of them
// knows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "burst_node.h"
#include "cluster.h"
#include "user_rule.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::BurstNode;
using testing::by_path;
using testing::by_user;
using testing::Cluster;
using testing::rule_of;
using testing::seed;
using testing::user_rule;

constexpr unsigned node_count = 4;
constexpr std::uint64_t limit_of_all = 1000;
constexpr int seconds_to_settle = 3;
constexpr int seconds_counted = 5;
constexpr Duration step = 5ms;
constexpr int steps_per_second = static_cast<int>(1s / step);

struct Outcome {
  std::uint64_t offered = 0;   // by all but the attacker
  std::uint64_t admitted = 0;  // of these
  std::uint64_t attacker = 0;  // what has been admitted of him
};

/// @param users   of 40 requests a second each, evenly over the nodes: less than the limit of each
/// @param attack  requests a second of one more user, all at the first node
Outcome run(const std::vector<Rule>& rules, unsigned users, unsigned attack) {
  Cluster cluster(rules, node_count, 2, seed());
  Outcome outcome;
  std::uint64_t honest = 0;
  for (int at = 0; at < (seconds_to_settle + seconds_counted) * steps_per_second; ++at) {
    const bool counted = at >= seconds_to_settle * steps_per_second;
    const auto worker = [&] { return static_cast<unsigned>(cluster.random() % cluster.workers); };
    const unsigned mine = users * 40 / steps_per_second;
    const unsigned his = attack / steps_per_second;
    for (unsigned i = 0; i < std::max(mine, his); ++i) {
      if (i < his) {
        const bool admitted = cluster.admit(0, worker(), "mallory");
        if (counted) outcome.attacker += admitted;
      }
      if (i >= mine) continue;
      // Every user comes to every node in turn.
      const std::uint64_t turn = honest++;
      const bool admitted = cluster.admit(static_cast<unsigned>(turn / users % node_count), worker(),
                                          "user-" + std::to_string(turn % users));
      if (!counted) continue;
      ++outcome.offered;
      outcome.admitted += admitted;
    }
    cluster.advance(step);
  }
  return outcome;
}

/// @param algorithm  of the limit that all share
std::vector<Rule> rules_of(Algorithm algorithm, bool all_first) {
  Rule user = user_rule(50, Algorithm::fixed_window);
  Rule all = user_rule(limit_of_all, algorithm);
  all.name = "all";
  all.key = {};
  return all_first ? std::vector{all, user} : std::vector{user, all};
}

using AlgorithmAndOrder = std::tuple<Algorithm, bool>;

class BesideAnotherRule : public ::testing::TestWithParam<AlgorithmAndOrder> {
 protected:
  std::vector<Rule> rules() const { return rules_of(std::get<0>(GetParam()), std::get<1>(GetParam())); }
};

TEST_P(BesideAnotherRule, WhoIsRefusedByHisOwnLimitTakesNothingFromOthers) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  // 800 a second of 1000, and one who sends five times as much as there is for all, of which he may have 50.
  const Outcome outcome = run(rules(), 20, 5000);
  EXPECT_GE(outcome.offered, 3900U);
  EXPECT_GE(outcome.admitted, outcome.offered * 99 / 100);
  EXPECT_LE(outcome.attacker, 60U * seconds_counted);
}

/// Without cooldown, which blocks in overload.
class OverloadBesideAnotherRule : public BesideAnotherRule {};

TEST_P(OverloadBesideAnotherRule, WhatIsRefusedElsewhereLeavesTheLimitToTheOthers) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  // 1600 a second for 1000.
  const Outcome calm = run(rules(), 40, 0);
  const Outcome attacked = run(rules(), 40, 5000);
  EXPECT_GE(attacked.admitted + attacked.attacker, calm.admitted * 95 / 100);
  EXPECT_GE(attacked.admitted + attacked.attacker, limit_of_all * seconds_counted * 95 / 100);
  EXPECT_LE(attacked.admitted + attacked.attacker, limit_of_all * seconds_counted * 105 / 100);
}

std::string name_of(const ::testing::TestParamInfo<AlgorithmAndOrder>& info) {
  std::string name(to_string(std::get<0>(info.param)));
  for (char& each : name)
    if (each == '-') each = '_';
  return name + (std::get<1>(info.param) ? "_first" : "_second");
}

constexpr auto all_but_cooldown = [] {
  return ::testing::Values(Algorithm::fixed_window, Algorithm::sliding_window, Algorithm::token_bucket,
                           Algorithm::leaky_bucket, Algorithm::shed, Algorithm::strict);
};
INSTANTIATE_TEST_SUITE_P(Cooldown, BesideAnotherRule,
                         ::testing::Combine(::testing::Values(Algorithm::cooldown), ::testing::Bool()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Algorithms, BesideAnotherRule,
                         ::testing::Combine(all_but_cooldown(), ::testing::Bool()), name_of);
INSTANTIATE_TEST_SUITE_P(Algorithms, OverloadBesideAnotherRule,
                         ::testing::Combine(all_but_cooldown(), ::testing::Bool()), name_of);

/// @param limits  of one user, who sends four times the smaller one, evenly to all nodes
/// @return what is admitted of him, second by second
std::vector<std::uint64_t> admitted_under(const std::vector<Rule>& limits, std::uint64_t smaller) {
  Cluster cluster(limits, node_count, 2, seed());
  std::vector<std::uint64_t> admitted(seconds_to_settle + seconds_counted);
  std::uint64_t turn = 0;
  for (std::uint64_t& of_second : admitted)
    for (int at = 0; at < steps_per_second; ++at) {
      for (; turn * steps_per_second < 4 * smaller * static_cast<std::uint64_t>(at + 1); ++turn)
        of_second += cluster.admit(static_cast<unsigned>(turn % node_count),
                                   static_cast<unsigned>(cluster.random() % cluster.workers), "ann");
      if (at + 1 == steps_per_second) turn = 0;
      cluster.advance(step);
    }
  return {admitted.begin() + seconds_to_settle, admitted.end()};
}

class TwoLimitsOfOneKey : public ::testing::TestWithParam<AlgorithmAndOrder> {};

// Both are used up at once, so hardly a request is refused by one of them alone.
TEST_P(TwoLimitsOfOneKey, AreSharedByWhatIsAskedForOfThem) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  constexpr std::uint64_t limit = 100;
  Rule second = user_rule(limit, std::get<0>(GetParam()));
  Rule longer = second;
  longer.name = "longer";
  longer.limit = 6 * limit;
  longer.interval = 6s;
  longer.spans = 60;
  for (const std::uint64_t admitted : admitted_under(
           std::get<1>(GetParam()) ? std::vector{second, longer} : std::vector{longer, second}, limit)) {
    EXPECT_LE(admitted, limit * 105 / 100);
    EXPECT_GE(admitted, limit * 95 / 100);
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, TwoLimitsOfOneKey,
                         ::testing::Combine(::testing::Values(Algorithm::fixed_window,
                                                              Algorithm::sliding_window),
                                            ::testing::Bool()),
                         name_of);

class TwoRulesThatShed : public ::testing::TestWithParam<std::tuple<unsigned, bool>> {};

// What each of them sheds depends on what it has shed.
TEST_P(TwoRulesThatShed, DoNotStopEachOther) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  const auto [users, all_first] = GetParam();
  const Rule user = user_rule(2 * limit_of_all / users, Algorithm::shed);
  Rule all = user_rule(limit_of_all, Algorithm::shed);
  all.name = "all";
  all.key = {};
  Cluster cluster(all_first ? std::vector{all, user} : std::vector{user, all}, 1, 1, seed());
  for (int second = 0; second < seconds_to_settle + seconds_counted; ++second) {
    std::uint64_t admitted = 0;
    for (int at = 0; at < steps_per_second; ++at) {
      for (int i = 0; i < 10'000 / steps_per_second; ++i)
        admitted += cluster.admit(0, 0, "user-" + std::to_string(static_cast<unsigned>(i) % users));
      cluster.advance(step);
    }
    if (second < seconds_to_settle) continue;
    EXPECT_LE(admitted, limit_of_all * 105 / 100);
    EXPECT_GE(admitted, limit_of_all * 95 / 100);
  }
}

INSTANTIATE_TEST_SUITE_P(Users, TwoRulesThatShed,
                         ::testing::Combine(::testing::Values(2, 5, 20), ::testing::Bool()));

// What is given back to a log is the oldest that it holds: who has been refused elsewhere would be in it for
// as long as if he had been admitted.
TEST(SlidingLog, HoldsNothingThatAnotherRuleHasRefused) {
  for (const bool log_first : {true, false}) {
    SCOPED_TRACE(log_first ? "the log first" : "the log last");
    Rule log = rule_of("log", 25, {by_user});
    log.algorithm = Algorithm::sliding_log;
    Rule few = rule_of("few", 1, {by_path});
    few.algorithm = Algorithm::fixed_window;
    few.interval = 10s;
    BurstNode node(log_first ? std::vector{log, few} : std::vector{few, log});
    const Header user{"x-user", "ann"};
    int paths = 0;
    const auto admits = [&](const std::string& path) {
      Request request;
      request.target = path;
      request.headers = std::span(&user, 1);
      return node.worker().admit(request, node.now()).verdict == Verdict::admit;
    };
    const auto admits_anew = [&] { return admits("/" + std::to_string(paths++)); };
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(admits_anew()) << i;
    node.pass(log.interval - 50ms);
    for (int i = 0; i < 40; ++i) EXPECT_FALSE(admits("/0")) << i;
    for (int i = 0; i < 15; ++i) EXPECT_TRUE(admits_anew()) << i;
    EXPECT_FALSE(admits_anew());
    // The first ten leave the window, and nobody has come after them but the fifteen.
    node.pass(60ms);
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(admits_anew()) << i;
    EXPECT_FALSE(admits_anew());
  }
}

}  // namespace
}  // namespace weir
