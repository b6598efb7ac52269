// SPDX-License-Identifier: BSD-3-Clause
// The base algorithm, step by step, as algorithm.md §3 numbers it.
#include <gtest/gtest.h>

#include "engine_fixture.h"

namespace weir::testing {
namespace {

using Written = std::vector<std::pair<std::pair<std::string, Ordinal>, std::uint64_t>>;
constexpr Ordinal first_ordinal = 1000;

TEST(Step1, ASpansCountIsAddedToTheCounterOfTheOrdinalInWhichTheSpanBegan) {
  EngineNode node(rule_of(100));
  node.count(0ms, 7);
  EXPECT_EQ(node.step(100ms), (Written{{{"login|a", first_ordinal}, 7}}));
}

TEST(Step1, TheLastSpanOfAnIntervalIsPushedAfterItsEndAndStillBelongsToIt) {
  EngineNode node(rule_of(100));
  node.step(900ms);
  node.count(900ms, 5);
  EXPECT_EQ(node.step(1000ms), (Written{{{"login|a", first_ordinal}, 5}}));
}

// It is written and forgotten in one step: the write must still know its name.
TEST(Step1, AStragglersCountOfAKeyThatIsForgottenAtOnceIsWrittenUnderItsName) {
  EngineNode node(rule_of(100));
  for (Duration now = 100ms; now < 3s; now += 100ms) node.step(now);
  node.count(900ms, 7);
  const auto written = node.step(3s);
  EXPECT_EQ(written,
            (std::vector<std::pair<std::pair<std::string, Ordinal>, std::uint64_t>>{{{"login|a", 1000}, 7}}));
  EXPECT_EQ(node.engine.keys(), 0U);
}

TEST(Step1, AStragglersBlockThatIsOverWhenItsKeyIsForgottenIsNotTold) {
  EngineNode node(rule_of(100));
  // Keys come and go, so that free places lie before and behind.
  for (int i = 0; i < 600; ++i) node.count(0ms, 1, 1, never, "other" + std::to_string(i));
  for (Duration now = 100ms; now < 4s; now += 100ms) node.step(now);
  for (int i = 0; i < 600; ++i)
    node.count(900ms, 101, 100, EngineNode::at(900ms).monotonic, "other" + std::to_string(i));
  node.step(4s);
  EXPECT_TRUE(std::none_of(node.pending.begin(), node.pending.end(), [](const EngineNode::Pending& write) {
    return write.use == CounterUse::blocked && write.raised_to > 0;
  }));
  EXPECT_LT(node.engine.keys(), 600U) << "a part of them, at each span's end";
  for (Duration now = 4100ms; now < 5s; now += 100ms) node.step(now);
  EXPECT_EQ(node.engine.keys(), 0U);
}

TEST(Step1, AStragglersCountGoesToItsOwnOrdinalNotToTheRunningOne) {
  EngineNode node(rule_of(100));
  node.step(1000ms);
  node.count(1000ms, 3);
  node.count(900ms, 2);  // a worker that came round late
  EXPECT_EQ(node.step(1100ms),
            (Written{{{"login|a", first_ordinal}, 2}, {{"login|a", first_ordinal + 1}, 3}}));
}

TEST(Step1, WhatAStragglerRefusedIsNotWorthAWrite) {
  EngineNode node(rule_of(100));
  node.step(1000ms);
  node.count(1000ms, 3);
  node.count(900ms, 5, 0);
  EXPECT_EQ(node.step(1100ms), (Written{{{"login|a", first_ordinal + 1}, 3}}));
}

TEST(Step1, AKeyWithoutCountsWritesNothing) {
  EngineNode node(rule_of(100));
  node.count(0ms, 4, 0, EngineNode::at(10ms).monotonic);  // offered, none admitted
  EXPECT_EQ(node.step(100ms), Written{});
}

TEST(Step1, NothingIsWrittenTwice) {
  EngineNode node(rule_of(100));
  node.count(0ms, 7);
  node.step(100ms);
  EXPECT_EQ(node.step(200ms), Written{});
  EXPECT_EQ(node.step(300ms), Written{});
}

TEST(Step1, WithinASpanNothingIsWritten) {
  EngineNode node(rule_of(100));
  node.count(0ms, 7);
  EXPECT_EQ(node.step(99ms), (Written{{{"login|a", first_ordinal}, 0}})) << "a new key is only asked for";
  EXPECT_EQ(node.step(99ms), Written{});
  node.count(0ms, 1);
  EXPECT_EQ(node.step(100ms), (Written{{{"login|a", first_ordinal}, 8}}));
}

TEST(Step1, SpansMissedByALateControllerLoseNoCount) {
  EngineNode node(rule_of(100));
  node.count(0ms, 7);
  EXPECT_EQ(node.step(3700ms), (Written{{{"login|a", first_ordinal}, 7}}));
}

TEST(Step1, AClockSetBackLosesNoCount) {
  EngineNode node(rule_of(1000));
  node.step(5000ms);
  node.count(5000ms, 7);
  node.step(5100ms);
  node.step(2000ms);
  node.count(2000ms, 4);
  EXPECT_EQ(node.step(2100ms), (Written{{{"login|a", first_ordinal + 2}, 4}}));
  EXPECT_EQ(node.state(2100ms).allowance, 1000U);
}

TEST(Step2, MoreThanTheLimitInTheStoreBlocksForOneCooldown) {
  EngineNode node(rule_of(100));
  Counters counters{{{"login|a", first_ordinal}, 60}};
  node.count(0ms, 41);
  node.step(100ms);
  node.sync(counters, 105ms);
  EXPECT_TRUE(node.blocked(106ms));
  EXPECT_TRUE(node.blocked(105ms + 1s - 1ns));
  EXPECT_FALSE(node.blocked(105ms + 1s));
}

TEST(Step2, ReachingTheLimitExactlyIsNotExceedingIt) {
  EngineNode node(rule_of(100));
  Counters counters{{{"login|a", first_ordinal}, 60}};
  node.count(0ms, 40);
  node.step(100ms);
  node.sync(counters, 105ms);
  EXPECT_FALSE(node.blocked(106ms));
  EXPECT_EQ(node.state(106ms).allowance, 40U);
}

TEST(Step2, ABlockIsNeitherShortenedNorExtendedByTraffic) {
  EngineNode node(rule_of(100));
  Counters counters{{{"login|a", first_ordinal}, 100}};
  node.count(0ms, 1);
  node.step(100ms);
  node.sync(counters, 105ms);
  const MonotonicTime until = node.state(106ms).blocked_until;
  node.count(100ms, 500, 3, EngineNode::at(150ms).monotonic);
  node.step(200ms);
  node.sync(counters, 205ms);
  EXPECT_EQ(node.state(206ms).blocked_until, until);
}

TEST(Step2, TheFirstRequestRefusedForWantOfAllowanceBeginsTheCooldown) {
  EngineNode node(rule_of(100));
  node.count(0ms, 130, 100, EngineNode::at(42ms).monotonic);
  node.step(100ms);
  EXPECT_TRUE(node.blocked(42ms + 1s - 1ns));
  EXPECT_FALSE(node.blocked(42ms + 1s));
}

TEST(Step2, ARefusalThatOnlyUnluckyChunksCausedIsPardoned) {
  EngineNode node(rule_of(100));
  node.count(0ms, 99, 98, EngineNode::at(42ms).monotonic);
  node.step(100ms);
  EXPECT_FALSE(node.blocked(100ms));
  ASSERT_EQ(node.engine.pardoned().size(), 1U);
  EXPECT_EQ(node.engine.pardoned()[0].key, EngineNode::key_of());
  EXPECT_EQ(node.engine.pardoned()[0].rule, 0);
}

TEST(Step2, OneKeysBlockLeavesOtherKeysAlone) {
  EngineNode node(rule_of(100));
  Counters counters{{{"login|a", first_ordinal}, 100}};
  node.count(0ms, 1);
  node.count(0ms, 50, 50, never, "b");
  node.step(100ms);
  node.sync(counters, 105ms);
  EXPECT_TRUE(node.blocked(106ms, "a"));
  EXPECT_FALSE(node.blocked(106ms, "b"));
}

TEST(Step3, AFailedWriteBlocksWhenTheLocalRuleSaysSo) {
  Rule rule = rule_of(100);
  rule.local_rule = LocalRule::per_span;
  EngineNode node(rule);
  node.count(0ms, 11);  // > L/N
  node.step(100ms);
  EXPECT_FALSE(node.blocked(101ms));
  node.engine.sync_result(false, EngineNode::at(150ms));
  EXPECT_TRUE(node.blocked(151ms));
}

TEST(Step3, WhileTheStoreStaysAwayEachSpanIsJudgedByTheLocalRule) {
  Rule rule = rule_of(100);
  rule.local_rule = LocalRule::per_span;
  EngineNode node(rule);
  node.engine.sync_result(false, EngineNode::at(50ms));
  node.count(0ms, 10);
  node.step(100ms);
  EXPECT_FALSE(node.blocked(100ms));
  node.count(100ms, 11);
  node.step(200ms);
  EXPECT_TRUE(node.blocked(200ms));
}

TEST(Step3, OpenBlocksOnlyOnProof) {
  Rule rule = rule_of(2000);  // so large that a node's part of it would tell
  rule.on_store_failure = OnStoreFailure::open;
  rule.local_rule = LocalRule::per_span;
  EngineNode node(rule);
  Counters counters{{{"login|a", first_ordinal}, 600}};
  node.count(0ms, 200);
  node.step(100ms);
  node.sync(counters, 105ms);
  node.engine.sync_result(false, EngineNode::at(150ms));
  node.count(100ms, 1000);
  node.step(200ms);
  EXPECT_FALSE(node.blocked(200ms));
  EXPECT_EQ(node.state(200ms).allowance, 1400U);  // what others had counted is still proof
}

TEST(Step3, ClosedAdmitsNothingWhileTheStoreIsAwayAndAllAgainWhenItIsBack) {
  Rule rule = rule_of(100);
  rule.on_store_failure = OnStoreFailure::closed;
  EngineNode node(rule);
  node.engine.sync_result(false, EngineNode::at(50ms));
  EXPECT_EQ(node.engine.default_of(0).allowance, 0U);
  node.engine.sync_result(true, EngineNode::at(80ms));
  EXPECT_EQ(node.engine.default_of(0).allowance, 100U);
}

TEST(Step4, NodesStartsAtOne) {
  EngineNode node(rule_of(100));
  node.count(0ms, 7);
  EXPECT_EQ(node.nodes(), 1.0);
}

TEST(Step4, TheSumOfAnEndedIntervalIsReadOneSpanAfterItsEnd) {
  EngineNode node(rule_of(100));
  node.count(0ms, 10);
  node.step(100ms);
  node.step(900ms);
  EXPECT_EQ(node.step(1000ms), Written{});
  EXPECT_EQ(node.step(1100ms), (Written{{{"login|a", first_ordinal}, 0}}));
  EXPECT_EQ(node.step(1200ms), Written{});
}

TEST(Step4, NodesIsEverybodysCountOverTheLocalOne) {
  EngineNode node(rule_of(100));
  Counters counters;
  node.count(0ms, 10);
  node.step(100ms);
  node.sync(counters, 105ms);
  counters[{"login|a", first_ordinal}] += 30;  // others
  node.step(1000ms);
  node.step(1100ms);
  node.sync(counters, 1105ms);
  EXPECT_DOUBLE_EQ(node.nodes(), 4.0);
}

TEST(Step4, OthersWhoWriteInTheSpanAfterTheIntervalAreStillSeen) {
  EngineNode node(rule_of(100));
  Counters counters;
  node.step(900ms);
  node.count(900ms, 10);
  node.step(1000ms);
  node.sync(counters, 1005ms);
  counters[{"login|a", first_ordinal}] += 10;  // the others' last span arrives
  node.count(1000ms, 1);
  node.step(1100ms);
  node.sync(counters, 1105ms);
  EXPECT_DOUBLE_EQ(node.nodes(), 2.0);
}

TEST(Step4, NodesIsPerKey) {
  EngineNode node(rule_of(100));
  Counters counters{{{"login|a", first_ordinal}, 10}};
  node.count(0ms, 10, 10, never, "a");
  node.count(0ms, 10, 10, never, "b");
  node.step(100ms);
  node.step(1000ms);
  node.step(1100ms);
  node.sync(counters, 1105ms);
  EXPECT_DOUBLE_EQ(node.nodes("a"), 2.0);
  EXPECT_DOUBLE_EQ(node.nodes("b"), 1.0);
}

TEST(Step4, AWipedStoreReadsAsOneNode) {
  EngineNode node(rule_of(100));
  Counters counters{{{"login|a", first_ordinal}, 30}};
  node.count(0ms, 10);
  node.step(100ms);
  node.sync(counters, 105ms);
  counters.clear();
  node.step(1000ms);
  node.step(1100ms);
  node.sync(counters, 1105ms);
  EXPECT_DOUBLE_EQ(node.nodes(), 1.0);
}

/// A node that has learnt that it sees a quarter of the key's traffic; the store is then lost.
EngineNode node_with_a_quarter(const Rule& rule) {
  EngineNode node(rule);
  Counters counters{{{"login|a", first_ordinal}, 30}};
  node.count(0ms, 10);
  node.step(100ms);
  node.step(1000ms);
  node.step(1100ms);
  node.sync(counters, 1105ms);
  EXPECT_DOUBLE_EQ(node.nodes(), 4.0);
  return node;
}

TEST(Step5, TheCumulativeRuleCountsTheIntervalSoFarTimesNodes) {
  EngineNode node = node_with_a_quarter(rule_of(100));
  node.engine.sync_result(false, EngineNode::at(1150ms));
  node.count(1100ms, 13);
  node.step(1200ms);
  node.count(1200ms, 12);  // 25 × 4 = 100: reached, not exceeded
  node.step(1300ms);
  EXPECT_FALSE(node.blocked(1300ms));
  node.count(1300ms, 1);
  node.step(1400ms);
  EXPECT_TRUE(node.blocked(1400ms));
}

TEST(Step5, ThePerSpanRuleCountsTheSpanTimesNodes) {
  Rule rule = rule_of(100);
  rule.local_rule = LocalRule::per_span;
  EngineNode node = node_with_a_quarter(rule);
  node.engine.sync_result(false, EngineNode::at(1150ms));
  node.count(1100ms, 2);  // 2 × 4 = 8 ≤ 10
  node.step(1200ms);
  EXPECT_FALSE(node.blocked(1200ms));
  node.count(1200ms, 3);  // 3 × 4 = 12 > 10
  node.step(1300ms);
  EXPECT_TRUE(node.blocked(1300ms));
}

TEST(Step5, ASteadyHonestClientIsNeverBlockedByTheCumulativeRule) {
  EngineNode node = node_with_a_quarter(rule_of(100));
  node.engine.sync_result(false, EngineNode::at(1150ms));
  for (int span = 11; span < 60; ++span) {
    node.count(span * 100ms, span % 2 == 0 ? 4 : 0);  // bursts above L/N, 20 per interval of the 25 it may
    node.step((span + 1) * 100ms);
    EXPECT_FALSE(node.blocked((span + 1) * 100ms)) << "span " << span;
  }
}

/// The same, of a demand that has grown beyond the limit of 100. 10 have been counted here in the interval
/// that runs.
EngineNode node_with_a_quarter_of_too_much() {
  EngineNode node(rule_of(100));
  Counters counters{{{"login|a", first_ordinal}, 60}, {{"login|a", first_ordinal + 1}, 30}};
  node.count(0ms, 20);
  node.step(100ms);
  node.step(1000ms);
  node.count(1000ms, 10);
  node.step(1100ms);
  node.sync(counters, 1105ms);
  EXPECT_DOUBLE_EQ(node.nodes(), 4.0);
  return node;
}

TEST(Step6, TheLocalCountTimesNodesBlocksWithoutWaitingForTheStore) {
  EngineNode node = node_with_a_quarter_of_too_much();
  node.count(1100ms, 15);  // 25 × 4 = 100: reached, not exceeded
  node.step(1200ms);       // no reply yet
  EXPECT_FALSE(node.blocked(1200ms));
  node.count(1200ms, 1);
  node.step(1300ms);
  EXPECT_TRUE(node.blocked(1300ms));
}

TEST(Step6, WorkersStopAtTheNodesShareInTheSamePacket) {
  const EngineNode node = node_with_a_quarter_of_too_much();
  EXPECT_EQ(node.state(1150ms).allowance, 25U);
}

TEST(Step6, OfADemandWithinTheLimitTheStoreJudges) {
  EngineNode node = node_with_a_quarter(rule_of(100));  // 40 in an interval
  EXPECT_EQ(node.state(1150ms).allowance, 100U);
  node.count(1100ms, 26);
  node.step(1200ms);  // no reply yet
  EXPECT_FALSE(node.blocked(1200ms));
}

TEST(Step6, ANodeThatSeesLittleOfAKeyMayStillAdmitOne) {
  EngineNode node(rule_of(3));
  Counters counters{{{"login|a", first_ordinal}, 9}};
  node.count(0ms, 1);
  node.step(100ms);
  node.step(1000ms);
  node.step(1100ms);
  node.sync(counters, 1105ms);
  EXPECT_DOUBLE_EQ(node.nodes(), 10.0);
  node.engine.sync_result(false, EngineNode::at(1200ms));
  // A part of the limit below one request: one, as often as that part says.
  int admitted = 0;
  for (int second = 2; second < 102; ++second)
    admitted += static_cast<int>(node.state(second * 1000ms).allowance);
  EXPECT_NEAR(admitted, 30, 2);
}

TEST(Allowance, WhatOthersHaveCountedIsTakenOffAtOnce) {
  EngineNode node(rule_of(100));
  Counters counters{{{"login|a", first_ordinal}, 60}};
  node.count(0ms, 10);
  node.step(100ms);
  node.sync(counters, 105ms);
  EXPECT_EQ(node.state(106ms).allowance, 40U);
}

TEST(Allowance, ANewIntervalBeginsAfresh) {
  EngineNode node(rule_of(100));
  Counters counters{{{"login|a", first_ordinal}, 60}};
  node.count(0ms, 10);
  node.step(100ms);
  node.sync(counters, 105ms);
  EXPECT_EQ(node.state(999ms).allowance, 40U);
  EXPECT_EQ(node.state(1000ms).allowance, 100U);
}

TEST(Penalize, OfferedRequestsAreCountedSoThatWhoKeepsHammeringStaysBlocked) {
  Rule rule = rule_of(100);
  rule.penalize = true;
  rule.cooldown = 300ms;
  EngineNode node(rule);
  Counters counters;
  node.count(0ms, 150, 100, EngineNode::at(50ms).monotonic);
  EXPECT_EQ(node.step(100ms), (Written{{{"login|a", first_ordinal}, 150}}));
  node.sync(counters, 105ms);
  EXPECT_TRUE(node.blocked(349ms));
  EXPECT_FALSE(node.blocked(350ms));
  node.count(300ms, 20, 0);  // still hammering
  node.step(400ms);
  node.sync(counters, 405ms);
  EXPECT_TRUE(node.blocked(406ms));
}

TEST(Penalize, ByDefaultRefusedRequestsAreNotCountedSoAKeyUnderOverloadRecovers) {
  EngineNode node(rule_of(100));
  Counters counters;
  node.count(0ms, 150, 100, EngineNode::at(50ms).monotonic);
  EXPECT_EQ(node.step(100ms), (Written{{{"login|a", first_ordinal}, 100}}));
  node.sync(counters, 105ms);
  for (int span = 1; span < 10; ++span) {
    node.count(span * 100ms, 500, 0);
    node.step((span + 1) * 100ms);
    node.sync(counters, (span + 1) * 100ms + 5ms);
  }
  EXPECT_FALSE(node.blocked(1050ms));
  EXPECT_EQ(node.state(1050ms).allowance, 100U);
}

TEST(SmallLimits, OneRequestPerIntervalIsAdmittedAndTheSecondBlocks) {
  EngineNode node(rule_of(1));
  Counters counters;
  node.count(0ms, 1);
  node.step(100ms);
  node.sync(counters, 105ms);
  EXPECT_FALSE(node.blocked(106ms));
  node.count(100ms, 1, 0, EngineNode::at(150ms).monotonic);
  node.step(200ms);
  EXPECT_TRUE(node.blocked(200ms));
}

TEST(SeveralRules, EachRuleHasItsOwnSpansAndOrdinals) {
  Rule slow = rule_of(1000, 60s, 6);
  slow.name = "slow";
  EngineNode node({rule_of(100), slow});
  node.count(0ms, 3, 3, never, "a", 0);
  node.count(0ms, 3, 3, never, "a", 1);
  EXPECT_EQ(node.step(100ms), (Written{{{"login|a", first_ordinal}, 3}, {{"slow|a", 16}, 0}}));
  node.count(100ms, 2, 2, never, "a", 1);
  // 1000 s lies 40 s into a minute: the slow rule's span ends on the next multiple of 10 s.
  EXPECT_EQ(node.step(10s), (Written{{{"slow|a", 16}, 5}}));
}

TEST(SeveralRules, CountersOfOneIntervalLiveEquallyLong) {
  Rule coarse = rule_of(100, 1s, 2);
  coarse.name = "coarse";
  Rule leased = rule_of(100, 60s, 6);
  leased.name = "leased";
  leased.algorithm = Algorithm::strict;
  Rule minute = rule_of(100, 60s, 20);
  minute.name = "minute";
  Rule window = rule_of(100, 1s, 10);
  window.name = "window";
  window.algorithm = Algorithm::fixed_window;  // sends heartbeats, which count seconds
  EngineNode node({rule_of(100), coarse, leased, minute, window});
  for (RuleIndex rule = 0; rule < 5; ++rule) node.count(0ms, 50, 50, never, "a", rule);
  node.engine.step(EngineNode::at(60s));
  std::map<Duration, Duration> lives;
  node.engine.for_each_write([&](const EngineWrite& write) {
    ASSERT_GT(write.interval, 0ns) << write.name;
    const auto [known, first] = lives.try_emplace(write.interval, write.time_to_live);
    EXPECT_EQ(known->second, write.time_to_live) << write.name;
    EXPECT_GE(write.time_to_live, 2 * write.interval);
  });
  EXPECT_EQ(lives.size(), 2U);
}

TEST(Bounds, AFullLedgerStillCountsEveryRequestInTheStore) {
  EngineNode node({rule_of(100)}, 4);
  std::uint64_t written = 0;
  for (int i = 0; i < 10; ++i) node.count(0ms, 3, 3, never, "key" + std::to_string(i));
  for (const auto& write : node.step(100ms)) written += write.second;
  EXPECT_EQ(written, 30U);
  EXPECT_EQ(node.engine.keys(), 4U);
  EXPECT_EQ(node.engine.strays(), 6U);
}

TEST(Bounds, CountsThatOverflowedAWorkersTableAreWrittenUnderTheRule) {
  EngineNode node(rule_of(100));
  node.engine.count_overflow({.rule = 0, .began = EngineNode::at(0ms).wall, .offered = 9, .admitted = 7});
  EXPECT_EQ(node.step(100ms), (Written{{{"login|~", first_ordinal}, 7}}));
}

TEST(Learned, ACountWithoutANameIsWrittenUnderTheNameThatWasLearned) {
  EngineNode node({rule_of(100)}, 1);
  const auto written = [](const char* name, std::uint64_t count) {
    return std::vector<std::pair<std::pair<std::string, Ordinal>, std::uint64_t>>{{{name, 1000}, count}};
  };
  node.learn("a");
  node.count_learned(0ms, 3, "a");
  EXPECT_EQ(node.step(100ms), written("login|a", 3));
  // There is no room for another key, but its name is known.
  node.learn("b");
  node.count_learned(100ms, 2, "b");
  EXPECT_EQ(node.step(200ms), written("login|b", 2));
  node.unlearn("b");
  node.count_learned(200ms, 5, "b");
  EXPECT_EQ(node.step(300ms), written("login|~", 5));
  EXPECT_EQ(node.engine.strays(), 2U);
}

TEST(Step4, NoSumOfHeartbeatsMakesAShareInfinite) {
  Rule rule = rule_of(100);
  rule.algorithm = Algorithm::fixed_window;
  EngineNode node(rule);
  node.step(0ms);
  for (const auto& write : std::exchange(node.pending, {}))
    if (write.use == CounterUse::members)
      node.engine.reply({.key = write.key,
                         .use = write.use,
                         .ordinal = write.ordinal,
                         .delta = write.delta,
                         .total = std::uint64_t{1} << 40},
                        node.at(10ms));
  node.count(20ms, 1);
  node.engine.for_each_key([](const KeyView& key) {
    EXPECT_GT(key.share(), 0);
    EXPECT_LE(key.share(), 1);
  });
}

TEST(Bounds, IdleKeysAreForgottenAndBlockedOnesAreNot) {
  Rule rule = rule_of(100);
  rule.cooldown = 1h;
  EngineNode node(rule);
  Counters counters{{{"login|bad", first_ordinal}, 100}};
  node.count(0ms, 1, 1, never, "bad");
  node.count(0ms, 1, 1, never, "good");
  for (Duration now = 100ms; now <= 5s; now += 100ms) {
    node.step(now);
    node.sync(counters, now + 5ms);
  }
  EXPECT_EQ(node.engine.keys(), 1U);
  EXPECT_TRUE(node.blocked(5s, "bad"));
}

TEST(Bounds, IdleKeysAreForgottenByTheIntervalsOfTheirOwnRules) {
  EngineNode node({rule_of(100), rule_of(100), rule_of(100, 10s)});
  Counters counters;
  for (RuleIndex rule = 0; rule < 3; ++rule) node.count(0ms, 1, 1, never, "ann", rule);
  Duration now{};
  const auto known_at = [&](Duration then) {
    while (now < then) {
      now += 100ms;
      node.step(now);
      node.sync(counters, now + 5ms);
    }
    return node.engine.keys();
  };
  EXPECT_EQ(known_at(2s), 3U);
  EXPECT_EQ(known_at(4s), 1U) << "of the rules of a second both";
  EXPECT_EQ(known_at(20s), 1U);
  EXPECT_EQ(known_at(40s), 0U);
}

TEST(Determinism, TheSameInputsGiveTheSameWrites) {
  const auto run = [] {
    EngineNode node(rule_of(50));
    Counters counters;
    Written all;
    for (int span = 0; span < 50; ++span) {
      for (int key = 0; key < 20; ++key)
        node.count(span * 100ms, (span * key) % 7, (span * key) % 5, never, std::to_string(key));
      for (auto& write : node.step((span + 1) * 100ms)) all.push_back(write);
      node.sync(counters, (span + 1) * 100ms + 3ms);
    }
    return all;
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace weir::testing
