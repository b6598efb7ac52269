// SPDX-License-Identifier: BSD-3-Clause
// Rules whose requests cost more than one unit of their limits: limits are divided by whole requests, and
// what chance does to counts goes by their number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "engine_fixture.h"
#include "seed.h"

namespace weir::testing {
namespace {

constexpr Ordinal first_ordinal = 1000;

Rule weighing(std::uint32_t weight, Algorithm algorithm, std::uint64_t limit = 100) {
  Rule rule = rule_of(limit);
  rule.algorithm = algorithm;
  rule.weight = weight;
  return rule;
}

/// One of 16 nodes; its interval of ordinal 1001 has begun.
class OneOfSixteen : public EngineNode {
 public:
  explicit OneOfSixteen(const Rule& rule) : EngineNode(rule) {
    step(1000ms);
    sync(counters, 1005ms);
  }

  /// One span's count here, and what others have added to the counter by the time it is answered.
  void count_beside_others(Duration began, std::uint64_t own, std::uint64_t others) {
    const Ordinal ordinal = first_ordinal + began / 1s;
    count(began, own);
    step(began + 100ms);
    counters[{"login|a", ordinal}] += others;
    counters.try_emplace({"~nodes", ordinal + 1}, 15);
    sync(counters, began + 105ms);
  }
  /// A whole interval: 16 requests, one of them here, and five of all admitted.
  void count_sixteen_requests(Duration began, std::uint64_t weight) {
    const Ordinal ordinal = first_ordinal + began / 1s;
    for (std::uint64_t span = 0; span < 10; ++span) {
      counters[{"login|a|~refused", ordinal}] += (span < 9 ? 1 : 2) * weight;
      count_beside_others(began + span * 100ms, span == 0 ? weight : 0, span < 4 ? weight : 0);
    }
  }

  Counters counters{{{"~nodes", first_ordinal}, 15}};
};

// Else no request would fit into any node's share, and nothing would be admitted at all.
TEST(Weights, AShareOfLessThanOneRequestIsOneNowAndThen) {
  for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::sliding_window}) {
    SCOPED_TRACE(to_string(algorithm));
    OneOfSixteen node(weighing(20, algorithm));
    constexpr int intervals = 40;
    int with_room = 0;
    for (int interval = 1; interval <= intervals; ++interval) {
      node.count_sixteen_requests(interval * 1s, 20);
      const std::uint64_t allowance = node.state(interval * 1s + 1000ms).allowance;
      with_room += allowance >= 20;
      EXPECT_LE(allowance, 20U);
    }
    EXPECT_NEAR(with_room, intervals * 5.0 / 16, 2);
  }
}

TEST(Weights, WithoutTheStoreTheShareOfANewKeyIsAtLeastOneRequest) {
  for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::sliding_window, Algorithm::shed}) {
    SCOPED_TRACE(to_string(algorithm));
    OneOfSixteen node(weighing(20, algorithm));
    node.engine.sync_result(false, EngineNode::at(1100ms));
    EXPECT_EQ(node.engine.default_of(0).allowance, 20U);
  }
}

TEST(Weights, PredictiveLeavesWholeRequestsOfWhatIsLeft) {
  Rule rule = weighing(20, Algorithm::fixed_window, 1000);
  rule.early_block = EarlyBlock::predictive;
  OneOfSixteen node(rule);
  std::uint64_t requests = 0;
  constexpr int intervals = 16;
  for (int interval = 1; interval <= intervals; ++interval) {
    node.count_beside_others(interval * 1s, 20, 300);
    const std::uint64_t allowance = node.state(interval * 1s + 150ms).allowance;
    EXPECT_EQ(allowance % 20, 0U);
    requests += allowance / 20 - 1;
  }
  EXPECT_NEAR(static_cast<double>(requests), intervals * (1000 - 320) / 16 / 20.0, 3);
}

// 70 % of the limit of 1000 requests, of which 14 come here in an interval and 21 in the next one, as chance
// has it.
TEST(Weights, CooldownTakesNoChanceForAnExcess) {
  OneOfSixteen node(weighing(100, Algorithm::cooldown, 100'000));
  for (int span = 0; span < 10; ++span)
    node.count_beside_others(1000ms + span * 100ms, span < 4 ? 200 : 100, 6'860);
  for (int span = 0; span < 10; ++span) {
    node.count_beside_others(2000ms + span * 100ms, span < 9 ? 200 : 300, 6'860);
    EXPECT_FALSE(node.blocked(2105ms + span * 100ms)) << span;
    if (span == 1) {
      EXPECT_EQ(node.state(2205ms).allowance, 100'000U - 2 * 6'860);
    }
  }
}

TEST(Weights, ForAKeyThatIsSeldomAskedForALeaseOfOneRequestIsKept) {
  OneOfSixteen node(weighing(20, Algorithm::strict, 1000));
  node.count(1000ms, 20, 0);
  for (Duration now = 1100ms; now <= 6000ms; now += 100ms) {
    node.step(now);
    node.sync(node.counters, now + 5ms);
    if (now < 2000ms) continue;
    EXPECT_GE(node.state(now + 10ms).allowance, 20U) << now / 100ms;
  }
}

struct Case {
  Algorithm algorithm;
  EarlyBlock early_block = EarlyBlock::sound;
  std::uint64_t limit = 400;
};

class SameInRequests : public ::testing::TestWithParam<Case> {};

/// How much there is of a key in each span: for a while little, for another one much.
struct Demand {
  std::mt19937_64 random;
  std::uint64_t most = 10;

  std::uint64_t next() {
    if (random() % 30 == 0) most = std::uint64_t{1} << random() % 8;
    return random() % most;
  }
};

/// Has the store answer what has been counted, and learned from, before what has been refused.
void sync_in_parts(EngineNode& node, Counters& counters, Duration now) {
  std::vector<EngineNode::Pending> refused;
  std::erase_if(node.pending, [&](const EngineNode::Pending& write) {
    if (write.use == CounterUse::refused) refused.push_back(write);
    return write.use == CounterUse::refused;
  });
  node.sync(counters, now);
  node.pending = refused;
  node.sync(counters, now + 1ms);
}

// A limit of so many times as much under which each request weighs as many units is the same limit.
TEST_P(SameInRequests, WhateverTheyWeigh) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(test_seed()));
  constexpr std::uint32_t weight = 64;  // a power of two: the same mantissas
  Rule of_one = weighing(1, GetParam().algorithm, GetParam().limit);
  of_one.early_block = GetParam().early_block;
  Rule of_many = of_one;
  of_many.weight = weight;
  of_many.limit *= weight;
  EngineNode one(of_one);
  EngineNode many(of_many);
  Counters counters_of_one;
  Counters counters_of_many;
  Demand own{std::mt19937_64(test_seed())};
  Demand others{std::mt19937_64(test_seed() + 1)};
  const bool any_allowance = of_one.algorithm == Algorithm::token_bucket;
  std::uint64_t drawn = 0;
  int blocked = 0;
  int divided = 0;
  for (int span = 0; span < 4000; ++span) {
    const Duration began = span * 100ms;
    const Ordinal ordinal = first_ordinal + span / 10;
    if (span % 10 == 0) {
      drawn = 0;
      counters_of_one[{"~nodes", ordinal}] = counters_of_many[{"~nodes", ordinal}] = 1 + ordinal / 100 % 7;
    }
    const std::uint64_t allowance = one.state(began).allowance;
    const bool is_blocked = one.blocked(began);
    const bool blocks = of_one.algorithm == Algorithm::cooldown && !is_blocked;
    const std::uint64_t offered = own.next();
    const std::uint64_t admitted = is_blocked ? 0 : std::min(offered, allowance - std::min(allowance, drawn));
    drawn += admitted;
    const MonotonicTime refused_at =
        blocks && admitted < offered ? EngineNode::at(began + 50ms).monotonic : never;
    if (offered > 0) {
      one.count(began, offered, admitted, refused_at);
      many.count(began, offered * weight, admitted * weight, refused_at);
    }
    one.step(began + 100ms);
    many.step(began + 100ms);
    const std::uint64_t elsewhere = others.next();
    const std::uint64_t left =
        GetParam().limit - std::min(GetParam().limit, counters_of_one[{"login|a", ordinal}]);
    const std::uint64_t taken = std::min(elsewhere, left);
    counters_of_one[{"login|a", ordinal}] += taken;
    counters_of_many[{"login|a", ordinal}] += taken * weight;
    if (of_one.algorithm != Algorithm::cooldown && of_one.algorithm != Algorithm::strict) {
      counters_of_one[{"login|a|~refused", ordinal}] += elsewhere - taken;
      counters_of_many[{"login|a|~refused", ordinal}] += (elsewhere - taken) * weight;
    }
    if (span % 500 < 450 && span % 7 == 0) {
      sync_in_parts(one, counters_of_one, began + 105ms);
      sync_in_parts(many, counters_of_many, began + 105ms);
    } else if (span % 500 < 450) {
      one.sync(counters_of_one, began + 105ms);
      many.sync(counters_of_many, began + 105ms);
    } else {
      one.engine.sync_result(false, EngineNode::at(began + 105ms));
      many.engine.sync_result(false, EngineNode::at(began + 105ms));
    }
    const KeyOverride quota_of_one = one.state(began + 110ms);
    const KeyOverride quota_of_many = many.state(began + 110ms);
    if (!any_allowance) {
      ASSERT_EQ(quota_of_many.allowance / weight, quota_of_one.allowance) << "span " << span;
    }
    ASSERT_EQ(quota_of_many.factor, quota_of_one.factor) << "span " << span;
    ASSERT_EQ(quota_of_many.blocked_until, quota_of_one.blocked_until) << "span " << span;
    ASSERT_EQ(one.nodes(), many.nodes()) << "span " << span;
    blocked += one.blocked(began + 110ms);
    divided +=
        quota_of_one.allowance < GetParam().limit || quota_of_one.factor != one.engine.default_of(0).factor;
  }
  EXPECT_GT(divided, 100);
  EXPECT_EQ(blocked > 10, of_one.algorithm == Algorithm::cooldown);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, SameInRequests,
    ::testing::Values(Case{Algorithm::cooldown}, Case{Algorithm::cooldown, EarlyBlock::sound, 20},
                      Case{Algorithm::cooldown, EarlyBlock::predictive}, Case{Algorithm::fixed_window},
                      Case{Algorithm::fixed_window, EarlyBlock::sound, 8},
                      Case{Algorithm::fixed_window, EarlyBlock::predictive}, Case{Algorithm::token_bucket},
                      Case{Algorithm::token_bucket, EarlyBlock::predictive}, Case{Algorithm::shed},
                      Case{Algorithm::strict}, Case{Algorithm::strict, EarlyBlock::sound, 8}),
    [](const ::testing::TestParamInfo<Case>& one) {
      std::string name(to_string(one.param.algorithm));
      std::ranges::replace(name, '-', '_');
      if (one.param.early_block == EarlyBlock::predictive) name += "_predictive";
      return name + "_" + std::to_string(one.param.limit);
    });

}  // namespace
}  // namespace weir::testing
