// SPDX-License-Identifier: BSD-3-Clause
// What a node keeps back of light keys (algorithm.md §7), when it is written after all, and what that saves.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "counted_node.h"

namespace weir::testing {
namespace {

TEST(HoldBack, WhatALightKeyCountedIsKeptWithinTheInterval) {
  CountedNode node(light_rule());  // 10 of a limit of 1000, and no other node
  for (int span = 0; span < 9; ++span) {
    node.count(node.now, 1);
    node.end_span();
  }
  EXPECT_TRUE(node.written.empty()) << node.written.front().name;
}

TEST(HoldBack, ItIsWrittenOnceToItsOwnIntervalWithinTheNextOne) {
  CountedNode node(light_rule());
  for (int span = 0; span < 10; ++span) {
    node.count(node.now, 1);
    node.end_span();
  }
  for (int span = 0; span < 10; ++span) node.end_span();
  ASSERT_EQ(node.written.size(), 1U);
  EXPECT_EQ(node.written[0].ordinal, first_ordinal + 3);
  EXPECT_EQ(node.written[0].delta, 10U);
  EXPECT_EQ(node.stored(first_ordinal + 3), 10U);
  for (int span = 0; span < 30; ++span) node.end_span();
  EXPECT_EQ(node.written.size(), 1U) << "neither asked for nor written again";
}

TEST(HoldBack, MoreThanThatIsWrittenWithAllThatWasKept) {
  CountedNode node(light_rule());
  node.count(node.now, 10);
  node.end_span();
  EXPECT_TRUE(node.written.empty());
  node.count(node.now, 1);
  node.end_span();
  EXPECT_EQ(node.sum(first_ordinal + 3), 11U);
  node.count(node.now, 4);  // light again
  node.end_span();
  EXPECT_EQ(node.sum(first_ordinal + 3), 11U);
}

TEST(HoldBack, WhatSeveralWorkersCountedInASpanIsJudgedTogether) {
  CountedNode node(light_rule());
  node.count(node.now, 6);
  node.count(node.now, 6);
  node.end_span();
  EXPECT_EQ(node.sum(first_ordinal + 3), 12U);
  node.count(node.now, 6);
  node.count(node.now, 3, 2);  // refused by another one
  node.end_span();
  EXPECT_EQ(node.sum(first_ordinal + 3), 20U);
}

TEST(HoldBack, AKeyBeyondItsLimitIsBlockedHoweverFewItsLastCountsAre) {
  CountedNode node(light_rule());
  node.count(node.now, 999);
  node.now += 100ms;
  node.step(node.now);  // the store's answer takes its time
  EXPECT_FALSE(node.blocked(node.now));
  node.count(node.now, 2);
  node.now += 100ms;
  node.step(node.now);
  EXPECT_TRUE(node.blocked(node.now));
}

/// What is known of a key.
struct Known {
  bool detail = false;
  std::uint64_t acknowledged = 0;  // of the interval before
  std::uint64_t others = 0;
  double share = 0;
};
Known known_of(const EngineNode& node) {
  Known known;
  node.engine.for_each_key([&](const KeyView& key) {
    if (key.slot.key != EngineNode::key_of()) return;
    known.detail = key.slot.detail != no_index;
    const SharedCount& before = key.detail.counted[1];
    known.acknowledged = known.detail ? before.acknowledged : key.past.alone[1];
    known.others = before.others();
    known.share = key.share();
  });
  return known;
}

class HoldBackOf : public ByAlgorithm {};

INSTANTIATE_TEST_SUITE_P(Algorithms, HoldBackOf, algorithms_that_learn(), NameOfAlgorithm());

TEST_P(HoldBackOf, AKeyThatIsLightOnAllNodesNothingIsRememberedOfOthers) {
  CountedNode node(rule(), 1);
  for (int interval = 0; interval < 3; ++interval) {
    count_on_both(node, 4);
    for (int span = 0; span < 10; ++span) {
      node.end_span();
      EXPECT_FALSE(known_of(node).detail);
      EXPECT_EQ(node.state(node.now).allowance, node.engine.default_of(0).allowance);
    }
  }
  EXPECT_EQ(node.stored(first_ordinal + 3), 7U);
}

TEST_P(HoldBackOf, AKeyThatIsBusyElsewhereThatIsRemembered) {
  CountedNode node(rule(), 1);
  count_on_both(node, 50);
  for (int span = 0; span < 10; ++span) {
    if (span < 3) node.count(node.now, 1);
    node.end_span();
  }
  EXPECT_TRUE(known_of(node).detail);
  EXPECT_EQ(known_of(node).others, 50U);
}

TEST_P(HoldBackOf, WhatOthersCountedInTheIntervalThatRunsIsRememberedHoweverLittle) {
  CountedNode node = node_that_keeps_less(rule());
  EXPECT_TRUE(known_of(node).detail);
  // And forgotten when that is over, though both go on.
  for (Ordinal interval = 252; interval < 256; ++interval) {
    node.counters[{"login|a", interval}] = 2;
    for (int span = 0; span < 40; ++span) {
      if (span < 2) node.count(node.now, 1);
      node.end_span();
    }
  }
  EXPECT_FALSE(known_of(node).detail);
}

/// How many intervals without news what was learned of a key's share is kept for.
int intervals_remembered(Algorithm algorithm) { return algorithm == Algorithm::cooldown ? 2 : 16; }

/// One of two nodes that has learned a key's share, in an interval that is over. There will be four.
CountedNode node_with_share_of(Rule rule, std::uint64_t here, std::uint64_t elsewhere) {
  rule.limit = 4000;
  CountedNode node(rule, 1);
  for (Ordinal second = first_ordinal + 4; second < first_ordinal + 30; ++second)
    node.counters[{"~nodes", second}] = 3;
  for (int span = 0; span < 10; ++span) {
    node.count(node.now, here);
    node.counters[{"login|a", first_ordinal + 3}] += elsewhere;
    node.end_span();
  }
  return node;
}

TEST_P(HoldBackOf, WhatWasLearnedOfAKeyIsForgottenWhenItHasLongBeenLight) {
  CountedNode node = node_with_share_of(rule(), 40, 120);
  const bool by_ratio = GetParam() == Algorithm::cooldown;
  const auto count_lightly = [&] {
    for (int span = 0; span < 10; ++span) {
      if (span == 0) node.count(node.now, 1);
      node.end_span();
    }
  };
  for (int interval = 0; interval < intervals_remembered(GetParam()); ++interval) {
    count_lightly();
    EXPECT_TRUE(known_of(node).detail) << interval;
    EXPECT_NEAR(known_of(node).share, 0.25, 0.01) << interval;
    if (by_ratio) {
      EXPECT_EQ(node.state(node.now).allowance, 1000U) << interval;
    }
  }
  count_lightly();
  EXPECT_FALSE(known_of(node).detail);
  EXPECT_EQ(known_of(node).share, 0.25) << "as that of a key which comes now";
  EXPECT_EQ(node.engine.nodes(), 4U);
  EXPECT_EQ(node.state(node.now).allowance, node.engine.default_of(0).allowance);
}

TEST_P(HoldBackOf, ButNotWhileTheStoreIsAway) {
  CountedNode node = node_with_share_of(rule(), 40, 80);
  node.end_span();  // the sum of that interval is told
  for (int span = 0; span < 10 * (intervals_remembered(GetParam()) + 2); ++span) {
    node.count(node.now, 1);
    node.engine.sync_result(false, EngineNode::at(node.now));
    node.end_span_unanswered();
  }
  EXPECT_NEAR(known_of(node).share, 0.33, 0.01);
}

TEST_P(HoldBackOf, NorWhenTheStoreComesBackBeforeItHasToldOfTheKey) {
  CountedNode node = node_with_share_of(rule(), 40, 20);
  node.end_span();
  const double share = known_of(node).share;
  EXPECT_NEAR(share, 0.67, 0.01);
  for (int span = 0; span < 10 * (intervals_remembered(GetParam()) + 2); ++span) {
    node.count(node.now, 1);
    const bool is_last_of_interval = node.now % 1s == 900ms;
    node.engine.sync_result(is_last_of_interval, EngineNode::at(node.now));
    node.end_span_unanswered();
  }
  EXPECT_EQ(known_of(node).share, share);
}

TEST_P(HoldBackOf, NorOfAKeyOfWhichMuchIsAskedForAndNothingAdmitted) {
  CountedNode node = node_with_share_of(rule(), 40, 120);
  node.end_span();
  for (int span = 0; span < 10 * (intervals_remembered(GetParam()) + 2); ++span) {
    node.count(node.now, 40, 0);
    node.end_span();
  }
  EXPECT_TRUE(known_of(node).detail);
  if (GetParam() == Algorithm::cooldown) {
    EXPECT_EQ(node.state(node.now).allowance, 1000U);
  }
}

TEST_P(HoldBackOf, AStragglersCountAddsToWhatWasToldBefore) {
  CountedNode node(rule(), 1);
  count_on_both(node, 4);
  const Duration ended = node.now - 100ms;
  for (int span = 0; span < 10; ++span) {
    if (span == 9) node.count(ended, 2);
    if (span < 3) node.count(node.now, 1);
    if (span < 9) node.end_span();
  }
  EXPECT_EQ(known_of(node).acknowledged, 3U);
  node.now += 50ms;
  node.step(node.now);
  node.note();
  node.sync(node.counters, node.now);
  EXPECT_EQ(node.stored(first_ordinal + 3), 9U);
  EXPECT_EQ(known_of(node).acknowledged, 5U);
  EXPECT_EQ(known_of(node).others, 4U);
}

TEST(HoldBack, NodesShareWhatIsKeptBack) {
  CountedNode node(light_rule(), 4);  // five nodes: two each
  node.count(node.now, 2);
  node.end_span();
  EXPECT_TRUE(node.written.empty());
  node.count(node.now, 1);
  node.end_span();
  EXPECT_EQ(node.sum(first_ordinal + 3), 3U);
}

TEST(HoldBack, NothingIsKeptBackBeforeTheStoreHasAnswered) {
  EngineNode node(light_rule());
  node.count(0ms, 1);
  node.step(100ms);
  EXPECT_TRUE(std::ranges::any_of(node.pending, [](const EngineNode::Pending& write) {
    return write.use == CounterUse::counted && write.delta == 1;
  }));
}

TEST(HoldBack, TheFirstNodesKeepBackSoLittleBeforeTheyAreCountedThatItIsNoMoreThanIsAllowed) {
  constexpr std::uint64_t allowed = 1000;
  std::uint64_t hidden = 0;
  Counters counters;
  for (std::uint64_t node_number = 1; node_number <= 40; ++node_number) {
    EngineNode node(light_rule(100'000));
    node.step(0ms);
    node.sync(counters, 5ms);  // all of them begin in the same second
    std::uint64_t kept = 0;
    for (std::uint64_t key = 1; key <= allowed; ++key) node.count(5ms, key, key, never, std::to_string(key));
    std::map<std::string, std::uint64_t> told;
    for (const auto& [counter, delta] : node.step(100ms)) told[counter.first] += delta;
    for (std::uint64_t key = 1; key <= allowed; ++key)
      if (told["login|" + std::to_string(key)] == 0) kept = key;
    EXPECT_EQ(kept, allowed / (node_number * (node_number + 1)));
    hidden += kept;
  }
  EXPECT_LE(hidden, allowed);
}

TEST(HoldBack, ANodeThatFindsOthersKeepsNothingBackBeforeItHasBeenCounted) {
  EngineNode node(light_rule());
  Counters counters{{{"~nodes", first_ordinal - 1}, 1}};
  node.step(0ms);
  node.sync(counters, 5ms);
  node.count(5ms, 1);
  node.step(100ms);
  EXPECT_TRUE(std::ranges::any_of(node.pending, [](const EngineNode::Pending& write) {
    return write.use == CounterUse::counted && write.delta == 1;
  }));
}

TEST(HoldBack, OrWhereItIsSwitchedOffOrTheRuleIsStrict) {
  CountedNode off(light_rule(1000, 0));
  off.count(off.now, 1);
  off.end_span();
  EXPECT_EQ(off.sum(first_ordinal + 3), 1U);
  Rule rule = light_rule();
  rule.algorithm = Algorithm::strict;
  CountedNode strict(rule);
  strict.count(strict.now, 1, 0);
  strict.end_span();
  EXPECT_FALSE(strict.written.empty()) << "a claim";
}

TEST(HoldBack, KeysNearTheirLimitAreToldOfAtOnce) {
  CountedNode node(light_rule());
  node.counters[{"login|a", first_ordinal + 3}] = 950;  // others
  node.count(node.now, 20);
  node.end_span();
  EXPECT_EQ(node.sum(first_ordinal + 3), 20U);
  node.count(node.now, 1);
  node.end_span();
  EXPECT_EQ(node.sum(first_ordinal + 3), 21U);
}

TEST(HoldBack, AKeyThatWasRefusedIsNoLightOne) {
  CountedNode node(light_rule());
  node.count(node.now, 3, 1);
  node.end_span();
  EXPECT_EQ(node.sum(first_ordinal + 3), 1U);
}

TEST(HoldBack, NothingIsKeptBackWhileTheStoreIsAway) {
  CountedNode node(light_rule());
  node.engine.sync_result(false, EngineNode::at(node.now));
  node.count(node.now, 1);
  node.now += 100ms;
  node.step(node.now);
  node.note();
  EXPECT_EQ(node.sum(first_ordinal + 3), 1U) << "it waits for the store, not here";
}

TEST(HoldBack, ANodeThatStopsWritesEverything) {
  CountedNode node(light_rule());
  for (int key = 0; key < 50; ++key) node.count(node.now, 1, 1, never, std::to_string(key));
  node.end_span();
  for (int span = 0; span < 9; ++span) node.end_span();
  for (int key = 0; key < 50; ++key) node.count(node.now, 1, 1, never, std::to_string(key));
  node.end_span();
  node.end_all();
  for (int key = 0; key < 50; ++key) {
    EXPECT_EQ(node.stored(first_ordinal + 3, std::to_string(key)), 1U) << key;
    EXPECT_EQ(node.stored(first_ordinal + 4, std::to_string(key)), 1U) << key;
  }
}

TEST(HoldBack, ALateAnswerBlocksNothing) {
  CountedNode node(light_rule());
  node.count(node.now, 5);
  node.end_span();
  node.counters[{"login|a", first_ordinal + 3}] =
      2000;  // others exceeded the limit meanwhile, and were blocked
  for (int span = 0; span < 25; ++span) {
    node.end_span();
    EXPECT_FALSE(node.blocked(node.now + 6ms)) << span;
  }
  EXPECT_EQ(node.stored(first_ordinal + 3), 2005U);
}

// Whatever the clock does, each count arrives once, in the interval it was counted in.
TEST(HoldBack, NoJumpOfTheClockLosesOrDoublesWhatIsKept) {
  for (const Duration jump : {Duration(-5s), Duration(-1s), Duration(-300ms), Duration(300ms), Duration(1s),
                              Duration(1200ms), Duration(60s)}) {
    for (const int spans_before : {1, 5, 9, 12}) {
      CountedNode node(light_rule());
      std::map<std::pair<std::string, Ordinal>, std::uint64_t> counted;
      const auto count = [&](int span) {
        for (int key = span % 3; key < 40; key += 3) {
          const std::string value = std::to_string(key);
          node.count(node.now, 1, 1, never, value);
          ++counted[{"login|" + value, SpanClock(1s, 10).ordinal(EngineNode::at(node.now).wall)}];
        }
      };
      for (int span = 0; span < spans_before; ++span) {
        count(span);
        node.end_span();
      }
      count(1);
      node.now += jump;
      for (int span = 0; span < 25; ++span) {
        node.end_span();
        count(span);
      }
      node.end_all();
      for (const auto& [counter, number] : counted)
        EXPECT_EQ(node.counters[counter], number) << counter.first << ":" << counter.second << ", jump "
                                                  << jump.count() << ", " << spans_before << " spans before";
    }
  }
}

TEST(HoldBack, AKeyIsNotForgottenBeforeAllOfItIsWritten) {
  CountedNode node(light_rule());
  for (int key = 0; key < 100; ++key) node.count(node.now, 1, 1, never, std::to_string(key));
  for (int span = 0; span < 60; ++span) node.end_span();
  EXPECT_EQ(node.engine.keys(), 0U);
  for (int key = 0; key < 100; ++key)
    EXPECT_EQ(node.stored(first_ordinal + 3, std::to_string(key)), 1U) << key;
}

/// Store operations of 10^5 keys, each counted once in every span, in each span of one interval.
std::vector<std::size_t> operations_per_span(double hold_back) {
  constexpr int keys = 100'000;
  Rule rule = light_rule(10'000, hold_back);
  EngineNode node({rule}, 2 * keys);
  Counters counters;
  std::vector<std::string> names;
  for (int key = 0; key < keys; ++key) names.push_back(std::to_string(key));
  std::vector<std::size_t> operations;
  for (int span = 0; span < 40; ++span) {
    for (const std::string& name : names) node.count(span * 100ms, 1, 1, never, name);
    const std::size_t count = node.step((span + 1) * 100ms).size();
    if (span >= 30) operations.push_back(count);
    // Only how many nodes there are is answered: the rest would be the map's work.
    std::erase_if(node.pending,
                  [](const EngineNode::Pending& write) { return write.use != CounterUse::members; });
    node.sync(counters, (span + 1) * 100ms);
  }
  return operations;
}

TEST(HoldBack, AHundredThousandLightKeysCostOneWriteEachPerIntervalSpreadOverIt) {
  const std::vector<std::size_t> before = operations_per_span(0);
  const std::vector<std::size_t> after = operations_per_span(0.01);
  std::size_t before_sum = 0;
  std::size_t after_sum = 0;
  for (const std::size_t count : before) before_sum += count;
  for (const std::size_t count : after) after_sum += count;
  RecordProperty("operations_per_interval_before", std::to_string(before_sum));
  RecordProperty("operations_per_interval_after", std::to_string(after_sum));
  EXPECT_GE(before_sum, 1'100'000U) << "ten writes, and one question for the interval that has ended";
  EXPECT_LE(after_sum, 100'010U) << "one write, and the node's heartbeat";
  EXPECT_GE(after_sum, 100'000U);
  for (const std::size_t count : after) EXPECT_NEAR(static_cast<double>(count), 10'000, 1'000);
}

/// Keys of which more is known than their own counts.
std::size_t details(const Engine& engine) {
  std::size_t count = 0;
  engine.for_each_key([&](const KeyView& key) { count += key.slot.detail != no_index; });
  return count;
}

/// Counts a key in every span, and synchronises.
class OneKey : public EngineNode {
 public:
  using EngineNode::EngineNode;
  void spans_until(Duration end, std::uint64_t weight) {
    for (; now < end; now += 100ms) {
      count(now, weight);
      counted += weight;
      step(now + 100ms);
      sync(counters, now + 105ms);
    }
  }
  std::uint64_t stored() const {
    std::uint64_t sum = 0;
    for (const auto& [name, total] : counters)
      if (name.first == "login|a") sum += total;
    return sum;
  }

  Counters counters;
  std::uint64_t counted = 0;
  Duration now{};
};

TEST(Detail, AKeyThatOnlyThisNodeCountsAndThatIsFarFromItsLimitHasNone) {
  for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::cooldown, Algorithm::token_bucket}) {
    Rule rule = rule_of(1000);
    rule.algorithm = algorithm;
    OneKey node(rule);
    node.spans_until(3s, 50);
    EXPECT_EQ(details(node.engine), 0U) << to_string(algorithm);
    EXPECT_EQ(node.stored(), node.counted) << "it has been told of all the same";
  }
}

TEST(Detail, ItHasOneFromTheFirstAnswerOnThatTellsOfOthers) {
  Rule rule = rule_of(1000);
  rule.algorithm = Algorithm::fixed_window;
  OneKey node(rule);
  node.spans_until(1500ms, 50);
  node.counters[{"login|a", 1001}] += 300;
  node.spans_until(1600ms, 50);
  EXPECT_EQ(details(node.engine), 1U);
  EXPECT_EQ(node.state(1605ms).allowance, 700U) << "what it was told before was its own";
  EXPECT_EQ(node.stored(), node.counted + 300);
}

TEST(Detail, OrFromTheReadingOfAnIntervalThatOthersCountedInLater) {
  OneKey node(rule_of(1000));
  node.spans_until(1000ms, 10);
  node.counters[{"login|a", 1000}] += 300;
  EXPECT_EQ(node.nodes(), 1);
  EXPECT_EQ(details(node.engine), 0U);
  node.spans_until(1100ms, 10);
  EXPECT_EQ(node.nodes(), 4);
}

TEST(Detail, OrWhenItComesNearItsLimitUntilItIsFarAgain) {
  Rule rule = rule_of(1000);
  rule.algorithm = Algorithm::fixed_window;
  OneKey node(rule);
  node.spans_until(1000ms, 80);
  EXPECT_EQ(details(node.engine), 1U);
  node.spans_until(5000ms, 10);
  EXPECT_EQ(details(node.engine), 0U);
  node.counters[{"login|a", 1005}] += 300;
  node.spans_until(5300ms, 10);
  EXPECT_EQ(node.state(5305ms).allowance, 700U);
  EXPECT_EQ(node.stored(), node.counted + 300);
}

TEST(Detail, ItsShareOfALimitDividedAmongManyIsLearntFromWhatWouldNotBeKeptBack) {
  for (const bool light : {true, false}) {
    Rule rule = rule_of(1000);
    rule.algorithm = Algorithm::fixed_window;
    rule.hold_back = 0.01;  // five of a key for each of two nodes
    OneKey node(rule);
    // Two nodes are known, but not yet for sure.
    for (Ordinal second = 999; second < 1003; ++second) node.counters[{"~nodes", second}] = 1;
    node.step(0ms);
    node.sync(node.counters, 5ms);
    node.spans_until(300ms, light ? 1 : 10);
    EXPECT_EQ(details(node.engine), light ? 0U : 1U);
  }
}

TEST(HoldBack, AStragglerThatMakesALightKeyHeavyHasItsIntervalRead) {
  Rule rule = rule_of(1000);
  rule.hold_back = 0.01;
  rule.algorithm = Algorithm::fixed_window;
  EngineNode node(std::vector<Rule>{rule});
  Counters counters;
  Duration at;
  for (at = 100ms; at <= 2000ms; at += 100ms) {
    node.step(at);
    node.sync(counters, at + 5ms);
    for (Ordinal second = 1000; second < 1005; ++second) counters.try_emplace({"~nodes", second}, 1);
  }
  node.count(2900ms, 3);
  for (; at <= 3000ms; at += 100ms) {
    node.step(at);
    node.sync(counters, at + 5ms);
  }
  node.count(3000ms, 1);    // one worker is in the next interval already
  node.count(2900ms, 900);  // another one was not
  bool read = false;
  for (const auto& write : node.step(3100ms))
    read |= write.first == std::pair<std::string, Ordinal>{"login|a", 1002} && write.second == 0;
  EXPECT_TRUE(read);
}

TEST(Debt, AClockSetBackOverABorderForgetsNone) {
  Rule rule = rule_of(100);
  rule.algorithm = Algorithm::fixed_window;
  rule.debt = true;
  EngineNode node(rule);
  Counters counters;
  Duration at;
  for (at = 100ms; at <= 1000ms; at += 100ms) node.step(at);
  const auto step = [&](Duration now) {
    node.step(now);
    node.sync(counters, now + 5ms);
  };
  node.count(1000ms, 60);
  step(1100ms);
  step(950ms);  // set back
  step(1000ms);
  step(1100ms);
  counters[{"login|a", 1001}] += 100;  // others
  node.count(1100ms, 5);
  for (at = 1200ms; at <= 2200ms; at += 100ms) step(at);
  std::uint64_t debt = 0;
  node.engine.for_each_key([&](const KeyView& key) { debt = key.detail.debt; });
  EXPECT_EQ(debt, 65U);
}

}  // namespace
}  // namespace weir::testing
