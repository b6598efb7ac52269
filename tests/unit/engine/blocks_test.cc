// SPDX-License-Identifier: BSD-3-Clause
// What a node that comes to a key learns of the time before: counts of the running interval, and blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine_fixture.h"

namespace weir::testing {
namespace {

constexpr Ordinal first_ordinal = 1000;

Rule blocking_rule(Duration cooldown = 3s) {
  Rule rule = rule_of(100);
  rule.cooldown = cooldown;
  return rule;
}

std::vector<EngineNode::Pending> of_blocks(const EngineNode& node) {
  std::vector<EngineNode::Pending> found;
  for (const EngineNode::Pending& write : node.pending)
    if (write.use == CounterUse::blocked) found.push_back(write);
  return found;
}

/// Exceeds the limit in the span that begins at `began`; the block begins with the refusal 50 ms later.
void exceed(EngineNode& node, Counters& counters, Duration began) {
  node.count(began, 130, 100, EngineNode::at(began + 50ms).monotonic);
  node.step(began + 100ms);
  node.sync(counters, began + 105ms);
  ASSERT_TRUE(node.blocked(began + 106ms));
}

TEST(StoredBlock, ItsEndIsTheCountersValueAndNamesTheOrdinal) {
  EngineNode node(blocking_rule());
  node.count(0ms, 130, 100, EngineNode::at(50ms).monotonic);
  node.step(100ms);
  std::vector<EngineNode::Pending> raised = of_blocks(node);
  std::erase_if(raised, [](const EngineNode::Pending& write) { return write.raised_to == 0; });
  ASSERT_EQ(raised.size(), 1U);
  EXPECT_EQ(raised[0].name, "login|a|~blocked");
  EXPECT_EQ(raised[0].raised_to, 1'000'000U + 50 + 3'000);  // milliseconds of Unix time
  EXPECT_EQ(raised[0].ordinal, 1'003'050 / 3'000);
  EXPECT_EQ(raised[0].delta, 0U);
}

// By these the store names them: of other rules' counters it could not tell them apart.
TEST(StoredBlock, EndsAreCountedByIntervalsOfWholeMilliseconds) {
  Rule rule = blocking_rule();
  rule.dephase = 1s;
  EngineNode node(rule);
  node.count(0ms, 130, 100, EngineNode::at(50ms).monotonic);
  node.engine.step(EngineNode::at(100ms));
  node.engine.tell_blocks(EngineNode::at(100ms));
  int told = 0;
  node.engine.for_each_write([&](const EngineWrite& write) {
    if (write.use != CounterUse::blocked) return;
    EXPECT_EQ(write.interval, Duration(4s)) << "the longest block takes a nanosecond less";
    ++told;
  });
  EXPECT_GT(told, 0);
}

TEST(StoredBlock, LivesAsLongAsWhatTheStoreKeepsBesideIt) {
  Rule blocking = blocking_rule();
  blocking.dephase = 1s;
  Rule longer = rule_of(100, 4s - 2ns, 2);  // two spans more than two intervals: twelve seconds
  longer.name = "longer";
  longer.cooldown = 1s;
  EngineNode node({blocking, longer});
  node.count(0ms, 1);
  node.engine.step(EngineNode::at(100ms));
  int asked = 0;
  node.engine.for_each_write([&](const EngineWrite& write) {
    if (write.use != CounterUse::blocked) return;
    EXPECT_GE(write.time_to_live, 12s);
    ++asked;
  });
  EXPECT_GT(asked, 0);
}

TEST(StoredBlock, IsToldOncePerBlock) {
  EngineNode node(blocking_rule());
  Counters counters;
  exceed(node, counters, 0ms);
  int raised = 0;
  for (Duration now = 200ms; now <= 3s; now += 100ms) {
    node.count(now - 100ms, 10, 0, EngineNode::at(now - 50ms).monotonic);
    node.step(now);
    for (const EngineNode::Pending& write : of_blocks(node)) raised += write.raised_to > 0;
    node.sync(counters, now + 5ms);
  }
  EXPECT_EQ(raised, 0);
}

TEST(StoredBlock, ANodeThatComesToTheKeyTakesItOver) {
  const Rule rule = blocking_rule();
  Counters counters;
  EngineNode first(rule);
  exceed(first, counters, 0ms);
  EngineNode restarted(rule);
  restarted.step(1900ms);
  restarted.count(1900ms, 1);
  restarted.step(2000ms);
  restarted.sync(counters, 2005ms);
  EXPECT_TRUE(restarted.blocked(2005ms));
  EXPECT_TRUE(restarted.blocked(3049ms));
  EXPECT_FALSE(restarted.blocked(3050ms)) << "it ends where the others' ends";
}

TEST(StoredBlock, AlsoAcrossABorderOfTheIntervalsThatEndsAreCountedBy) {
  // 1,000 s is 1 s into an interval of three seconds: blocks from 0 to 5 s end in three different ones.
  const Rule rule = blocking_rule();
  for (Duration began = 0s; began < 5s; began += 300ms) {
    Counters counters;
    EngineNode first(rule);
    first.step(began);
    exceed(first, counters, began);
    for (const Duration later : {Duration(200ms), Duration(1500ms), Duration(2900ms)}) {
      EngineNode restarted(rule);
      restarted.step(began + later - 100ms);
      restarted.count(began + later - 100ms, 1);
      restarted.step(began + later);
      restarted.sync(counters, began + later);
      EXPECT_TRUE(restarted.blocked(began + 3049ms)) << began.count() << " " << later.count();
      EXPECT_FALSE(restarted.blocked(began + 3050ms));
    }
  }
}

TEST(StoredBlock, OfTheLatestEndOnly) {
  const Rule rule = blocking_rule();
  Counters counters;
  EngineNode first(rule);
  exceed(first, counters, 0ms);
  EngineNode second(rule);
  second.step(700ms);
  second.engine.reply({}, EngineNode::at(700ms));
  second.count(700ms, 130, 100, EngineNode::at(750ms).monotonic);
  second.step(800ms);  // begins a block of its own before it has heard of the other
  second.sync(counters, 805ms);
  EngineNode restarted(rule);
  restarted.step(1900ms);
  restarted.count(1900ms, 1);
  restarted.step(2000ms);
  restarted.sync(counters, 2005ms);
  EXPECT_TRUE(restarted.blocked(3749ms));
  EXPECT_FALSE(restarted.blocked(3750ms));
}

TEST(StoredBlock, OneThatIsOverBlocksNobody) {
  const Rule rule = blocking_rule(500ms);
  Counters counters;
  EngineNode first(rule);
  exceed(first, counters, 0ms);
  EngineNode late(rule);
  late.step(1000ms);
  late.count(1000ms, 1);
  late.step(1100ms);
  late.sync(counters, 1105ms);
  EXPECT_FALSE(late.blocked(1105ms));
}

TEST(StoredBlock, AClockThatWasSetMakesNoBlockLongerThanARuleCan) {
  const Rule rule = blocking_rule();
  const Ordinal running = 1'000 / 3;
  Counters counters{{{"login|a|~blocked", running}, 9'000'000'000}, {{"login|a|~blocked", running + 1}, 1}};
  EngineNode node(rule);
  node.count(0ms, 1);
  node.step(100ms);
  node.sync(counters, 105ms);
  EXPECT_TRUE(node.blocked(3100ms));
  EXPECT_FALSE(node.blocked(3106ms));
}

TEST(StoredBlock, IsAskedForAgainAfterTheKeyWasAway) {
  EngineNode node(blocking_rule());
  Counters counters;
  node.count(0ms, 1);
  node.step(100ms);
  EXPECT_EQ(of_blocks(node).size(), 2U);
  node.sync(counters, 105ms);
  node.count(1000ms, 1);
  node.step(1100ms);
  EXPECT_TRUE(of_blocks(node).empty()) << "it was here all the time";
  node.sync(counters, 1105ms);
  node.step(2000ms);
  node.step(2900ms);
  node.count(3000ms, 1);
  node.step(3100ms);
  EXPECT_EQ(of_blocks(node).size(), 2U);
}

// The question may have been given up: it was too old, or there was no room for it.
TEST(StoredBlock, IsAskedForAgainAfterTheStoreWasAway) {
  EngineNode node(blocking_rule());
  Counters counters;
  Duration now = 0ms;
  const auto asks_in = [&](int spans) {
    std::size_t asks = 0;
    for (int span = 0; span < spans; ++span) {
      node.count(now, 1);
      now += 100ms;
      node.step(now);
      asks += of_blocks(node).size();
      node.pending.clear();
    }
    return asks;
  };
  EXPECT_EQ(asks_in(10), 2U);
  node.engine.sync_result(false, EngineNode::at(now));
  EXPECT_EQ(asks_in(13), 0U);
  node.engine.sync_result(true, EngineNode::at(now));
  EXPECT_EQ(asks_in(30), 2U);
  node.engine.sync_result(true, EngineNode::at(now));
  EXPECT_EQ(asks_in(10), 0U) << "it was there all the time";
}

TEST(StoredBlock, IsNotAskedForWhileOneRunsHere) {
  EngineNode node(blocking_rule());
  Counters counters;
  node.count(0ms, 130, 100, EngineNode::at(50ms).monotonic);
  node.step(100ms);
  EXPECT_EQ(of_blocks(node).size(), 1U) << "that its own has begun";
  node.sync(counters, 105ms);
  for (Duration now = 200ms; now <= 2000ms; now += 100ms) node.step(now);
  node.count(2000ms, 10, 0);
  node.step(2100ms);
  EXPECT_TRUE(of_blocks(node).empty());
  node.sync(counters, 2105ms);
  for (Duration now = 2200ms; now <= 4000ms; now += 100ms) node.step(now);
  node.count(4000ms, 1);
  node.step(4100ms);
  EXPECT_EQ(of_blocks(node).size(), 2U) << "another node's may have begun since";
}

// Of which it is asked as soon as much has been counted.
TEST(StoredBlock, IsNotAskedForWhileTheOneThatANewKeysFirstSpanBeganRunsHere) {
  Rule rule = blocking_rule();
  rule.interval = 60s;
  rule.spans = 6;
  EngineNode node(rule);
  node.count(0ms, 130, 100, EngineNode::at(50ms).monotonic);
  node.step(1s);
  EXPECT_EQ(of_blocks(node).size(), 1U) << "that its own has begun";
}

/// Two nodes count a key in each span alike; in an interval's last one the first is asked for more than is
/// left, and begins a block. @return how many spans after that end the other one, which counts on, is told
int spans_until_the_other_blocks(std::uint64_t in_each, bool first_is_answered_first) {
  const Rule rule = blocking_rule();
  Counters counters;
  EngineNode blocks(rule);
  EngineNode other(rule);
  EngineNode& first = first_is_answered_first ? blocks : other;
  EngineNode& second = first_is_answered_first ? other : blocks;
  for (Duration now = 100ms; now < 1s; now += 100ms) {
    blocks.count(now - 100ms, in_each);
    other.count(now - 100ms, in_each);
    blocks.step(now);
    other.step(now);
    blocks.sync(counters, now + 1ms);
    other.sync(counters, now + 2ms);
  }
  other.count(900ms, in_each);
  const std::uint64_t left = 100 - 19 * in_each;
  blocks.count(900ms, left + 30, left, EngineNode::at(950ms).monotonic);
  for (int spans = 0; spans < 10; ++spans) {
    const Duration now = 1s + spans * 100ms;
    blocks.step(now);
    other.step(now);
    first.sync(counters, now + 1ms);
    second.sync(counters, now + 2ms);
    EXPECT_TRUE(blocks.blocked(now + 3ms));
    if (other.blocked(now + 3ms)) {
      EXPECT_TRUE(other.blocked(3949ms));
      EXPECT_FALSE(other.blocked(3950ms)) << "it ends where the other's ends";
      return spans;
    }
    other.count(now, 1);
  }
  return 10;
}

TEST(StoredBlock, OneThatBeginsInAnIntervalsLastSpanReachesWhoCarriesTheKey) {
  for (const bool answered_first : {true, false})
    EXPECT_EQ(spans_until_the_other_blocks(5, answered_first), 1) << answered_first;
}

TEST(StoredBlock, AlsoWhereNothingHadToldThatTheLimitWasNear) {
  EXPECT_EQ(spans_until_the_other_blocks(1, true), 1);
  EXPECT_EQ(spans_until_the_other_blocks(1, false), 2)
      << "it learned what the interval came to one span later";
}

TEST(StoredBlock, AlsoWhereAllOfTheKeyHadBeenKeptBack) {
  Rule rule = blocking_rule();
  rule.limit = 1000;
  rule.hold_back = 0.1;
  Counters counters;
  for (Ordinal second = first_ordinal - 1; second < first_ordinal + 4; ++second)
    counters[{"~nodes", second}] = 2;
  EngineNode other(rule);
  const auto pass = [&](Duration now) {
    other.step(now);
    other.sync(counters, now + 1ms);
  };
  for (Duration now = 100ms; now < 1s; now += 100ms) {
    other.count(now - 100ms, 20);
    pass(now);
  }
  other.count(1s, 1);
  pass(1100ms);
  // In the second after the first one, of which it has told, it keeps all back.
  counters[{"login|a", first_ordinal + 1}] = 1000;
  counters[{"login|a|~blocked", 1'004'000 / 3'000}] = 1'004'000;
  for (Duration now = 1200ms; now <= 2200ms; now += 100ms) pass(now);
  EXPECT_TRUE(other.blocked(2201ms));
  EXPECT_FALSE(other.blocked(4000ms));
}

TEST(StoredBlock, IsNotAskedForAgainWhereTheLimitWasFarOrNobodyElseCounts) {
  for (const auto& [others, own] : {std::pair{60, 1}, std::pair{0, 9}}) {
    EngineNode node(blocking_rule());
    Counters counters;
    for (Ordinal second = first_ordinal; second < first_ordinal + 3; ++second)
      counters[{"login|a", second}] = static_cast<std::uint64_t>(others);
    node.count(0ms, static_cast<std::uint64_t>(own));
    node.step(100ms);
    EXPECT_EQ(of_blocks(node).size(), 2U);
    node.sync(counters, 105ms);
    for (Duration now = 200ms; now <= 3s; now += 100ms) {
      node.count(now - 100ms, static_cast<std::uint64_t>(own));
      node.step(now);
      EXPECT_TRUE(of_blocks(node).empty()) << others << " " << now.count();
      node.sync(counters, now + 5ms);
    }
  }
}

TEST(StoredBlock, IsAskedForAgainOnceForAnInterval) {
  EngineNode node(blocking_rule());
  Counters counters;
  for (Ordinal second = first_ordinal; second < first_ordinal + 3; ++second)
    counters[{"login|a", second}] = 80;
  std::size_t asked = 0;
  for (Duration now = 100ms; now <= 3s; now += 100ms) {
    node.count(now - 100ms, 1);
    node.step(now);
    asked += of_blocks(node).size();
    node.sync(counters, now + 5ms);
  }
  EXPECT_EQ(asked, 2U + 2 * 2U) << "at first, and after two of three seconds";
}

TEST(StoredBlock, IsNotAskedForWhereNothingBlocks) {
  Rule rule = blocking_rule();
  rule.algorithm = Algorithm::fixed_window;
  EngineNode node(rule);
  node.count(0ms, 130, 100);
  node.step(100ms);
  EXPECT_TRUE(of_blocks(node).empty());
}

/// Of one of four nodes: all of them exceed a limit of 20 in their first interval, and the key is blocked for
/// ten. `offered` is refused here in each interval until the block ends.
EngineNode node_that_blocked_for_long(std::uint64_t offered = 0, bool store_reached = true) {
  Rule rule = rule_of(20);
  rule.cooldown = 10s;
  EngineNode node(rule);
  Counters counters;
  node.count(0ms, 8);
  counters[{"login|a", first_ordinal}] = 24;
  for (Duration now = 100ms; now <= 10300ms; now += 100ms) {
    node.step(now);
    if (store_reached || now < 3s)
      node.sync(counters, now + 5ms);
    else
      node.engine.sync_result(false, EngineNode::at(now + 5ms));
    EXPECT_EQ(node.blocked(now + 6ms), now < 10100ms) << now.count();
    if (offered > 0 && now % 1s == 500ms && now < 10s) node.count(now, offered, 0);
  }
  return node;
}

TEST(LongBlock, WhoComesBackAfterItIsNotHeldToWhatWasKnownBefore) {
  EngineNode node = node_that_blocked_for_long();
  EXPECT_EQ(node.state(10300ms).allowance, 20U);
  EXPECT_EQ(node.nodes(), 1);
}

TEST(LongBlock, NorIsWhoGoesOnMeanwhileAndStaysBelowTheLimit) {
  EXPECT_EQ(node_that_blocked_for_long(5).state(10300ms).allowance, 20U);
}

TEST(LongBlock, WhoGoesOnBeyondTheLimitIsHeldToTheSameShare) {
  EXPECT_EQ(node_that_blocked_for_long(6).state(10300ms).allowance, NodesRatio(8, 24).allowance(20));
}

TEST(LongBlock, WhatWasKnownHoldsWhileTheStoreIsAway) {
  EXPECT_EQ(node_that_blocked_for_long(0, false).state(10300ms).allowance, NodesRatio(8, 24).allowance(20));
}

TEST(LongBlock, WhatWasKnownOfAKeyHoldsAfterABlockOfOneInterval) {
  EngineNode node(rule_of(20));
  Counters counters;
  node.count(0ms, 8);
  counters[{"login|a", first_ordinal}] = 24;
  for (Duration now = 100ms; now <= 1300ms; now += 100ms) {
    node.step(now);
    node.sync(counters, now + 5ms);
  }
  EXPECT_FALSE(node.blocked(1300ms));
  EXPECT_EQ(node.state(1300ms).allowance, NodesRatio(8, 24).allowance(20));
}

TEST(FirstTouch, ALongSpanIsNotWaitedForToAskWhatOthersHaveCounted) {
  EngineNode node(rule_of(100, 60s, 6));
  Counters counters{{{"login|a", 16}, 70}};  // 1000 s lie 40 s into a minute
  node.count(0ms, 5);
  node.step(1s);
  node.sync(counters, 1010ms);
  EXPECT_EQ(node.state(1010ms).allowance, 30U);
  node.count(1s, 5);
  node.step(2s);
  EXPECT_TRUE(node.pending.empty()) << "once";
  node.step(20s);
  node.sync(counters, 20010ms);
  EXPECT_EQ((counters[{"login|a", 16}]), 80U);
}

TEST(FirstTouch, AKeyThatCountsLittleIsAskedForWhenItCountsMore) {
  Rule rule = rule_of(1000, 60s, 6);
  rule.hold_back = 0.01;
  EngineNode node(rule);
  Counters counters;
  for (Duration now = 1s; now <= 4s; now += 1s) {
    node.step(now);
    node.sync(counters, now);
  }
  const auto asks = [&] {
    return std::ranges::any_of(node.pending,
                               [](const EngineNode::Pending& write) { return write.name == "login|a"; });
  };
  node.count(4s, 8);
  node.step(5s);
  EXPECT_FALSE(asks());
  node.count(5s, 3);
  node.step(6s);
  EXPECT_TRUE(asks());
}

TEST(FirstTouch, WhatOthersWereOfferedBeforeSaysNothingOfTheShareFromNowOn) {
  Rule rule = rule_of(1000, 60s, 6);
  rule.algorithm = Algorithm::fixed_window;
  EngineNode node(rule);
  Counters counters{{{"login|a", 16}, 900}};
  for (Ordinal second = first_ordinal - 1; second < first_ordinal + 4; ++second)
    counters[{"~nodes", second}] = 3;
  node.step(1s);
  node.sync(counters, 1010ms);
  node.count(1s, 5);
  node.step(2s);
  node.sync(counters, 2010ms);
  EXPECT_DOUBLE_EQ(node.nodes(), 4.0) << "an even share among four";
}

TEST(FirstTouch, ANodeThatBeginsAsksAtOnceHowManyThereAre) {
  Rule rule = rule_of(1000);
  rule.algorithm = Algorithm::fixed_window;
  EngineNode node(rule);
  Counters counters{{{"~nodes", first_ordinal - 1}, 3}};
  node.step(10ms);
  node.sync(counters, 20ms);
  EXPECT_EQ(node.engine.nodes(), 4U) << "those, and itself";
}

}  // namespace
}  // namespace weir::testing
