// SPDX-License-Identifier: BSD-3-Clause
// What nodes learn of each other's demand, and what each algorithm makes of it: one engine, the others played
// by the test through the counters.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine_fixture.h"
#include "limit/share.h"

namespace weir::testing {
namespace {

constexpr Ordinal first_ordinal = 1000;
const std::pair<std::string, Ordinal> counter{"login|a", first_ordinal};

Rule rule_with(Algorithm algorithm, std::uint64_t limit = 100) {
  Rule rule = rule_of(limit);
  rule.algorithm = algorithm;
  return rule;
}

constexpr Algorithm by_shares[] = {Algorithm::fixed_window, Algorithm::sliding_window,
                                   Algorithm::token_bucket, Algorithm::leaky_bucket, Algorithm::shed};

/// One span's count here, and what others have added to the counter by the time it is answered.
void count_beside_others(EngineNode& node, Counters& counters, Duration began, std::uint64_t own,
                         std::uint64_t others) {
  const SpanClock clock(1s, 10);
  node.count(began, own);
  node.step(began + 100ms);
  counters[{"login|a", clock.ordinal(EngineNode::at(began).wall)}] += others;
  node.sync(counters, began + 105ms);
}

std::uint64_t delta_of(const EngineNode& node, CounterUse use, Ordinal ordinal) {
  std::uint64_t sum = 0;
  for (const EngineNode::Pending& write : node.pending)
    if (write.use == use && write.ordinal == ordinal) sum += write.delta;
  return sum;
}

bool asked(const EngineNode& node, CounterUse use, Ordinal ordinal) {
  for (const EngineNode::Pending& write : node.pending)
    if (write.use == use && write.ordinal == ordinal) return true;
  return false;
}

TEST(Step1, CountsOfTwoIntervalsDrainedAtOnceAreWrittenEachToItsOwn) {
  EngineNode node(rule_of(100));
  node.count(900ms, 7);
  node.count(1000ms, 3);
  node.step(1100ms);
  EXPECT_EQ(delta_of(node, CounterUse::counted, first_ordinal), 7U);
  EXPECT_EQ(delta_of(node, CounterUse::counted, first_ordinal + 1), 3U);
}

TEST(Step1, EachSpansCountIsWrittenOnce) {
  EngineNode node(rule_of(100));
  node.count(0ms, 7);
  node.step(100ms);
  node.count(100ms, 2);
  node.step(200ms);
  EXPECT_EQ(delta_of(node, CounterUse::counted, first_ordinal), 9U);
}

// Members.

TEST(Members, EveryNodeAddsOneToEachSecondsHeartbeatAndAsksForTheOneBefore) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  node.step(100ms);
  node.step(900ms);
  EXPECT_EQ(delta_of(node, CounterUse::members, first_ordinal), 1U);
  node.step(1000ms);
  EXPECT_EQ(delta_of(node, CounterUse::members, first_ordinal), 1U);
  EXPECT_EQ(delta_of(node, CounterUse::members, first_ordinal + 1), 1U);
}

TEST(Members, RulesThatAskForNoShareSendNoHeartbeat) {
  EngineNode node(rule_of(100));
  node.step(1000ms);
  EXPECT_TRUE(node.pending.empty());
}

TEST(Members, AreThoseWhoseHeartbeatIsInThePeriodThatIsOver) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  Counters counters{{{"~nodes", first_ordinal}, 3}};
  EXPECT_EQ(node.engine.nodes(), 1U);
  node.step(1000ms);
  node.sync(counters, 1005ms);
  EXPECT_EQ(node.engine.nodes(), 4U);
}

TEST(Members, ThePeriodThatRunsCanOnlyShowThatThereAreMore) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  Counters counters{{{"~nodes", first_ordinal}, 3}, {{"~nodes", first_ordinal + 1}, 8}};
  node.step(1000ms);
  node.sync(counters, 1005ms);
  EXPECT_EQ(node.engine.nodes(), 9U);
  EngineNode early(rule_with(Algorithm::fixed_window));
  Counters few{{{"~nodes", first_ordinal}, 3}};
  early.step(1000ms);
  early.sync(few, 1005ms);  // only its own heartbeat is in the second period yet
  EXPECT_EQ(early.engine.nodes(), 4U);
}

TEST(Members, WhoHasLeftIsNoMemberFromThePeriodAfterTheNextOn) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  Counters counters{{{"~nodes", first_ordinal}, 3}, {{"~nodes", first_ordinal + 1}, 1}};
  node.step(0ms);
  node.sync(counters, 5ms);
  node.step(1000ms);
  node.sync(counters, 1005ms);
  EXPECT_EQ(node.engine.nodes(), 4U);
  node.step(2000ms);
  node.sync(counters, 2005ms);
  EXPECT_EQ(node.engine.nodes(), 2U);
}

/// A node that has seen three others in each of two seconds.
class OneOfFour : public EngineNode {
 public:
  OneOfFour() : EngineNode(rule_with(Algorithm::fixed_window)) {
    step(0ms);
    sync(counters, 5ms);
    end_second(3);
    end_second(3);
    EXPECT_EQ(engine.nodes(), 4U);
  }

  void others_tell(std::uint64_t others) { counters[{"~nodes", first_ordinal + now / 1s}] += others; }
  /// @param others  whose heartbeats come to be in the second that ends
  void end_second(std::uint64_t others) {
    others_tell(others);
    end_second_unanswered();
    sync(counters, now + 5ms);
  }
  void end_second_unanswered() {
    now += 1s;
    step(now);
  }

  Counters counters;
  Duration now{};
};

// What each node had to say in an outage it has said when it finds the store again: the first is alone there.
TEST(Members, AreNotOnlyThoseWhoHaveFoundTheStoreAgainByThen) {
  OneOfFour node;
  node.others_tell(3);
  node.engine.sync_result(false, EngineNode::at(2500ms));
  for (int second = 0; second < 3; ++second) node.end_second_unanswered();
  node.sync(node.counters, 5500ms);
  EXPECT_EQ(node.engine.nodes(), 4U);
  node.engine.sync_result(false, EngineNode::at(5600ms));
  EXPECT_EQ(node.engine.default_of(0).allowance, 25U);
}

TEST(Members, AreCountedAgainOverAWholeSecondAfterAnOutage) {
  OneOfFour node;
  node.others_tell(3);
  node.engine.sync_result(false, EngineNode::at(2500ms));
  node.end_second_unanswered();
  node.sync(node.counters, 3900ms);
  node.end_second(0);  // others are still looking for the store
  EXPECT_EQ(node.engine.nodes(), 4U);
  node.end_second(1);
  EXPECT_EQ(node.engine.nodes(), 2U);
}

// A round trip may be longer than a span, so that the store is called away in each, and what is found in it
// is complete all the same.
TEST(Members, WhoHasLeftIsNoneAlsoWhereTheStoreIsDistant) {
  OneOfFour node;
  for (int second = 0; second < 3; ++second) {
    node.others_tell(1);
    node.end_second_unanswered();
    node.engine.sync_result(false, EngineNode::at(node.now + 100ms));
    node.sync(node.counters, node.now + 500ms);
    node.engine.sync_result(false, EngineNode::at(node.now + 600ms));
    EXPECT_EQ(node.engine.nodes(), 2U);
  }
}

TEST(Members, AreNoFewerWhereTheStoreHasForgottenThem) {
  OneOfFour node;
  node.counters.clear();
  node.end_second(0);
  EXPECT_EQ(node.engine.nodes(), 4U);
  node.end_second(1);  // two more had told before all was forgotten
  EXPECT_EQ(node.engine.nodes(), 4U);
  node.end_second(1);
  EXPECT_EQ(node.engine.nodes(), 2U);
}

TEST(Members, AreNoFewerWhereTheClockHasBeenSet) {
  for (const Duration by : {10s, -10s}) {
    SCOPED_TRACE(by / 1s);
    OneOfFour node;
    node.now += by;
    node.end_second(0);
    EXPECT_EQ(node.engine.nodes(), 4U);
    node.end_second(0);  // others' clocks are still to be set
    EXPECT_EQ(node.engine.nodes(), 4U);
    node.end_second(1);
    EXPECT_EQ(node.engine.nodes(), 2U);
  }
}

TEST(Members, AKeyWithoutHistoryBeginsWithAnEvenShare) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  Counters counters{{{"~nodes", first_ordinal}, 3}};
  node.step(1000ms);
  node.sync(counters, 1005ms);
  node.count(1000ms, 1);
  EXPECT_DOUBLE_EQ(node.nodes(), 4);
}

// A key of which nothing is known.

TEST(Default, IsTheWholeLimitWhileTheStoreTellsOfOthersAndAnEvenPartWhileItIsAway) {
  for (const Algorithm algorithm : by_shares) {
    SCOPED_TRACE(to_string(algorithm));
    EngineNode node(rule_with(algorithm));
    Counters counters{{{"~nodes", first_ordinal}, 3}};
    node.step(1000ms);
    node.sync(counters, 1005ms);
    const KeyOverride reached = node.engine.default_of(0);
    node.engine.sync_result(false, EngineNode::at(1100ms));
    const KeyOverride away = node.engine.default_of(0);
    if (algorithm == Algorithm::token_bucket || algorithm == Algorithm::leaky_bucket) {
      EXPECT_EQ(reached.factor, full_price);
      EXPECT_EQ(away.factor, 4 * full_price);
      EXPECT_GT(away.allowance, 0U);
    } else {
      EXPECT_EQ(reached.allowance, 100U);
      EXPECT_EQ(away.allowance, 25U);
    }
  }
}

TEST(Default, IsAtLeastOneAlsoWhereThereAreMoreNodesThanRequests) {
  EngineNode node(rule_with(Algorithm::fixed_window, 3));
  Counters counters{{{"~nodes", first_ordinal}, 9}};
  node.step(1000ms);
  node.sync(counters, 1005ms);
  node.engine.sync_result(false, EngineNode::at(1100ms));
  EXPECT_EQ(node.engine.default_of(0).allowance, 1U);
}

TEST(Default, PredictiveIsAnEvenPartAtAnyTime) {
  for (const Algorithm algorithm :
       {Algorithm::cooldown, Algorithm::fixed_window, Algorithm::sliding_window}) {
    SCOPED_TRACE(to_string(algorithm));
    Rule rule = rule_with(algorithm);
    rule.early_block = EarlyBlock::predictive;
    EngineNode node(rule);
    Counters counters{{{"~nodes", first_ordinal}, 3}};
    node.step(1000ms);
    node.sync(counters, 1005ms);
    EXPECT_EQ(node.engine.default_of(0).allowance, 25U);
  }
}

TEST(Default, OpenGoesOnWithTheWholeLimitAndClosedWithNothing) {
  for (const Algorithm algorithm : by_shares) {
    SCOPED_TRACE(to_string(algorithm));
    Rule open = rule_with(algorithm);
    open.on_store_failure = OnStoreFailure::open;
    Rule closed = rule_with(algorithm);
    closed.name = "closed";
    closed.on_store_failure = OnStoreFailure::closed;
    EngineNode node({open, closed});
    const KeyOverride reached = node.engine.default_of(0);
    node.engine.sync_result(false, EngineNode::at(50ms));
    EXPECT_EQ(node.engine.default_of(0).allowance, reached.allowance);
    EXPECT_EQ(node.engine.default_of(0).factor, reached.factor);
    EXPECT_EQ(node.engine.default_of(1).allowance, 0U);
  }
}

// Fixed window.

TEST(FixedWindow, BelowTheLimitOnlyWhatOthersHaveAdmittedIsTakenOff) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  Counters counters;
  count_beside_others(node, counters, 0ms, 6, 10);
  EXPECT_EQ(node.state(106ms).allowance, 90U);
  EXPECT_EQ(node.state(1000ms).allowance, 100U);
}

TEST(FixedWindow, UnderOverloadANodeHasItsShareOfTheLimit) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  Counters counters;
  count_beside_others(node, counters, 0ms, 100, 300);
  EXPECT_NEAR(node.nodes(), 4, 0.1);
  EXPECT_NEAR(static_cast<double>(node.state(1000ms).allowance), 25, 1);
}

TEST(FixedWindow, NeverBlocksBeyondTheInterval) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  Counters counters;
  node.count(0ms, 500, 100);
  node.step(100ms);
  counters[counter] += 400;
  node.sync(counters, 105ms);
  EXPECT_FALSE(node.blocked(106ms));
}

TEST(FixedWindow, RefusedRequestsAreToldApartFromWhatWasAdmitted) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  node.count(0ms, 130, 100);
  node.step(100ms);
  EXPECT_EQ(delta_of(node, CounterUse::counted, first_ordinal), 100U);
  EXPECT_EQ(delta_of(node, CounterUse::refused, first_ordinal), 30U);
}

TEST(FixedWindow, WhatOthersRefuseIsDemandButNotTakenOffTheLimit) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  Counters counters;
  node.count(0ms, 11, 10);
  node.step(100ms);
  counters[{"login|a|~refused", first_ordinal}] += 300;
  node.sync(counters, 105ms);
  EXPECT_GT(node.nodes(), 10);
  EXPECT_LT(node.state(106ms).allowance, 10U);  // its share of the limit…
  EXPECT_GT(node.state(106ms).allowance, 0U);   // …though nothing has been admitted elsewhere
}

TEST(FixedWindow, WithoutTheStoreANodeKeepsToItsShareAlsoBelowTheLimit) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  Counters counters{{{"~nodes", first_ordinal}, 3}};
  node.step(1000ms);
  node.sync(counters, 1005ms);
  count_beside_others(node, counters, 1000ms, 12, 3);
  const double share = 1 / node.nodes();
  node.engine.sync_result(false, EngineNode::at(1150ms));
  EXPECT_NEAR(static_cast<double>(node.state(2000ms).allowance), 100 * share, 1);
  node.engine.sync_result(true, EngineNode::at(2050ms));
  EXPECT_EQ(node.state(2060ms).allowance, 100U);
}

TEST(FixedWindow, OpenTakesOffWhatIsProvenAndNothingElse) {
  Rule rule = rule_with(Algorithm::fixed_window);
  rule.on_store_failure = OnStoreFailure::open;
  EngineNode node(rule);
  Counters counters;
  count_beside_others(node, counters, 0ms, 6, 10);
  node.engine.sync_result(false, EngineNode::at(150ms));
  EXPECT_EQ(node.state(160ms).allowance, 90U);
  EXPECT_EQ(node.state(1000ms).allowance, 100U);
}

// The store may be away for long, and the traffic come here meanwhile.
TEST(WithoutTheStore, ANodeHasNoLessThanOneThatComesToTheKeyNow) {
  for (const Algorithm algorithm : by_shares) {
    SCOPED_TRACE(to_string(algorithm));
    EngineNode node(rule_with(algorithm));
    Counters counters{{{"~nodes", first_ordinal}, 3}};
    node.step(1000ms);
    node.sync(counters, 1005ms);
    count_beside_others(node, counters, 1000ms, 10, 1990);
    ASSERT_GT(node.nodes(), 20);
    node.engine.sync_result(false, EngineNode::at(1150ms));
    const KeyOverride usual = node.engine.default_of(0);
    const KeyOverride quota = node.state(3000ms);
    if (algorithm == Algorithm::token_bucket || algorithm == Algorithm::leaky_bucket)
      EXPECT_EQ(quota.factor, usual.factor);
    else
      EXPECT_EQ(quota.allowance, usual.allowance);
  }
}

TEST(WithoutTheStore, OpenDividesNothingThoughMoreWasAskedForThanTheLimit) {
  for (const Algorithm algorithm : by_shares) {
    SCOPED_TRACE(to_string(algorithm));
    Rule rule = rule_with(algorithm);
    rule.on_store_failure = OnStoreFailure::open;
    EngineNode node(rule);
    Counters counters;
    count_beside_others(node, counters, 0ms, 100, 300);
    node.engine.sync_result(false, EngineNode::at(150ms));
    const KeyOverride usual = node.engine.default_of(0);
    EXPECT_EQ(node.state(3000ms).allowance, usual.allowance);
    EXPECT_EQ(node.state(3000ms).factor, usual.factor);
  }
}

TEST(FixedWindow, PredictiveLeavesOthersTheirShareOfWhatIsLeft) {
  Rule rule = rule_with(Algorithm::fixed_window);
  rule.early_block = EarlyBlock::predictive;
  EngineNode node(rule);
  Counters counters;
  count_beside_others(node, counters, 0ms, 6, 10);
  const double share = 1 / node.nodes();
  EXPECT_NEAR(static_cast<double>(node.state(106ms).allowance), 6 + share * (100 - 16), 1);
}

TEST(FixedWindow, WhatTheSharesGotWrongIsMadeGoodInTheNextIntervals) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  Counters counters;
  count_beside_others(node, counters, 0ms, 100, 100);
  const std::uint64_t before = node.state(1000ms).allowance;
  EXPECT_NEAR(static_cast<double>(before), 50, 1);
  node.step(1000ms);
  count_beside_others(node, counters, 1000ms, 100, 100);
  node.step(2000ms);
  count_beside_others(node, counters, 2000ms, 100, 100);
  // Twice the limit has been admitted in a whole contended interval: as far down as a correction goes.
  EXPECT_NEAR(static_cast<double>(node.state(3000ms).allowance), 40, 1);
}

// Keys that are near their limit.

TEST(Watched, AKeyNearItsLimitIsAskedForInEverySpanAlsoWhereItHasNotBeenSeen) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  Counters counters;
  count_beside_others(node, counters, 0ms, 10, 0);
  count_beside_others(node, counters, 100ms, 10, 0);
  node.step(300ms);
  EXPECT_TRUE(asked(node, CounterUse::counted, first_ordinal));
  EXPECT_TRUE(asked(node, CounterUse::refused, first_ordinal));
  EXPECT_EQ(delta_of(node, CounterUse::counted, first_ordinal), 0U);
}

TEST(Watched, AKeyFarFromItsLimitIsNot) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  Counters counters;
  count_beside_others(node, counters, 0ms, 1, 0);
  count_beside_others(node, counters, 100ms, 1, 0);
  node.step(300ms);
  EXPECT_TRUE(node.pending.empty());
}

TEST(Watched, AKeyThatHasGoneQuietIsForgottenInTheEnd) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  Counters counters;
  for (int span = 0; span < 10; ++span) count_beside_others(node, counters, span * 100ms, 50, 50);
  for (Duration now = 1100ms; now <= 60s; now += 100ms) {
    node.step(now);
    node.sync(counters, now + 5ms);
  }
  EXPECT_EQ(node.engine.keys(), 0U);
}

// Debt.

TEST(Debt, WhatWasAdmittedOverTheLimitIsTakenOffTheNextInterval) {
  Rule rule = rule_with(Algorithm::fixed_window);
  rule.debt = true;
  EngineNode node(rule);
  Counters counters;
  count_beside_others(node, counters, 0ms, 130, 0);
  node.step(1000ms);
  node.step(1100ms);
  node.sync(counters, 1105ms);
  EXPECT_EQ(node.state(1106ms).allowance, 70U);
}

TEST(Debt, IsPaidByWhatALaterIntervalDoesNotUse) {
  Rule rule = rule_with(Algorithm::fixed_window);
  rule.debt = true;
  EngineNode node(rule);
  Counters counters;
  count_beside_others(node, counters, 0ms, 130, 0);
  node.step(1000ms);
  count_beside_others(node, counters, 1000ms, 90, 0);  // 10 below the limit: 20 are still owed
  node.step(2000ms);
  node.step(2100ms);
  node.sync(counters, 2105ms);
  EXPECT_EQ(node.state(2106ms).allowance, 80U);
}

TEST(Debt, WithoutTheOptionNothingIsOwed) {
  EngineNode node(rule_with(Algorithm::fixed_window));
  Counters counters;
  count_beside_others(node, counters, 0ms, 130, 0);
  node.step(1000ms);
  node.step(1100ms);
  node.sync(counters, 1105ms);
  EXPECT_EQ(node.state(1106ms).allowance, 100U);
}

TEST(Debt, IsPaidByIntervalsWithoutAnyRequestToo) {
  Rule rule = rule_with(Algorithm::fixed_window);
  rule.debt = true;
  EngineNode node(rule);
  Counters counters;
  count_beside_others(node, counters, 0ms, 130, 0);
  for (Duration now = 200ms; now <= 60s; now += 100ms) {
    node.step(now);
    node.sync(counters, now + 5ms);
  }
  EXPECT_EQ(node.state(60s).allowance, 100U);
  EXPECT_EQ(node.engine.keys(), 0U) << "a key that owes keeps its slot for ever";
}

// Or else who is refused for it, and comes back now and then, is refused for ever.
TEST(Debt, IsPaidByIntervalsInWhichAllIsRefusedToo) {
  Rule rule = rule_of(100);
  rule.cooldown = 1s;
  rule.debt = true;
  EngineNode node(rule);
  Counters counters;
  count_beside_others(node, counters, 0ms, 100, 700);
  for (Duration now = 200ms; now < 15s; now += 100ms) {
    const Duration since = now % 1s;
    if (since == 500ms) node.count(now - 100ms, 1, 0, MonotonicTime(now - 50ms));
    node.step(now);
    node.sync(counters, now + 5ms);
  }
  std::uint64_t debt = 0;
  node.engine.for_each_key([&](const KeyView& key) { debt = key.detail.debt; });
  EXPECT_EQ(debt, 0U);
}

/// A node whose key owes 30 of its limit of 100 in the interval that begins at 1 s. Others have counted as
/// much as it has.
struct Indebted {
  static Rule rule(Algorithm algorithm) {
    Rule rule = rule_with(algorithm);
    rule.cooldown = 100ms;
    rule.debt = true;
    return rule;
  }
  explicit Indebted(std::uint64_t all = 130, Algorithm algorithm = Algorithm::fixed_window)
      : node(rule(algorithm)) {
    count_beside_others(node, counters, 0ms, all / 2 - 5, all / 2 - 5);
    count_beside_others(node, counters, 100ms, 5, 5);  // so near its limit that it is watched
    end_span(1000ms);
    end_span(1100ms);
  }
  void end_span(Duration now) {
    node.step(now);
    node.sync(counters, now + 5ms);
  }
  std::uint64_t debt() const {
    std::uint64_t debt = 0;
    node.engine.for_each_key([&](const KeyView& key) { debt = key.detail.debt; });
    return debt;
  }

  EngineNode node;
  Counters counters{{{"~nodes", first_ordinal}, 1}};
};

TEST(Debt, IsPaidWhileTheStoreIsAwayByWhatThisNodesPartDoesNotUse) {
  for (const Algorithm algorithm : {Algorithm::cooldown, Algorithm::fixed_window, Algorithm::shed}) {
    SCOPED_TRACE(to_string(algorithm));
    Indebted key(130, algorithm);
    ASSERT_EQ(key.debt(), 30U);
    key.node.engine.sync_result(false, EngineNode::at(1150ms));
    key.node.count(1200ms, 45);  // and others as much
    key.node.step(1300ms);
    key.node.step(2000ms);
    EXPECT_NEAR(static_cast<double>(key.debt()), 20, 1);
    key.node.count(2000ms, 30);
    key.node.step(2100ms);
    key.node.step(3000ms);
    EXPECT_EQ(key.debt(), 0U);
  }
}

TEST(Debt, DoesNotGrowWhileTheStoreIsAwayByWhatMayHaveBeenAdmittedElsewhere) {
  Indebted key;
  key.node.engine.sync_result(false, EngineNode::at(1150ms));
  key.node.count(1200ms, 80);
  key.node.step(1300ms);
  key.node.step(2000ms);
  EXPECT_EQ(key.debt(), 30U);
}

TEST(Debt, IsPaidByEachIntervalOfWhichTheControllerHasSeenNothing) {
  Indebted key(350);
  ASSERT_EQ(key.debt(), 250U);
  key.end_span(4100ms);
  key.end_span(4200ms);
  EXPECT_EQ(key.debt(), 0U);
}

TEST(Debt, IsNotPaidByAnIntervalInWhichOnlyOthersAdmitTheLimit) {
  Indebted key;
  ASSERT_EQ(key.debt(), 30U);
  key.counters[{"login|a", first_ordinal + 1}] += 100;
  for (Duration now = 1200ms; now <= 2100ms; now += 100ms) key.end_span(now);
  EXPECT_EQ(key.debt(), 30U);
}

TEST(Debt, OfAnIntervalThatIsToldOfTooLateIsPaidByWhatWasKnownOfIt) {
  Indebted key;
  key.node.count(1200ms, 30);
  key.end_span(1300ms);
  key.node.step(2000ms);
  key.node.count(2000ms, 50);  // and others as much
  for (Duration now = 2100ms; now <= 3000ms; now += 100ms) key.node.step(now);
  EXPECT_EQ(key.debt(), 0U);
  key.node.sync(key.counters, 3005ms);
  EXPECT_EQ(key.debt(), 0U);
}

TEST(Debt, IsPaidAlsoAfterTheClockHasBeenSetBack) {
  Indebted key;
  key.node.step(-4000ms);
  EXPECT_EQ(key.debt(), 30U);
  for (Duration now = -3900ms; now <= -1000ms; now += 100ms) key.node.step(now);
  EXPECT_EQ(key.debt(), 0U);
}

// While all of a key is asked for elsewhere, each span leaves less of its share here.
TEST(Debt, IsPaidAlsoByANodeThatHasNextToNoShareOfTheKeyAnyMore) {
  Rule rule = rule_with(Algorithm::fixed_window, 1'000'000);
  rule.spans = 100;
  rule.debt = true;
  EngineNode node(rule);
  Counters counters{{{"~nodes", first_ordinal}, 1}};
  std::uint64_t most = 0;
  for (Duration now = 10ms; now <= 30s; now += 10ms) {
    if (now <= 1s) node.count(now - 10ms, 5'500);
    if (now <= 4s) counters[{"login|a", first_ordinal + (now - 10ms) / 1s}] += 11'000;
    node.step(now);
    node.sync(counters, now + 5ms);
    node.engine.for_each_key([&](const KeyView& key) { most = std::max(most, key.detail.debt); });
  }
  EXPECT_GT(most, 0U);
  EXPECT_EQ(node.engine.keys(), 0U) << "it owes for ever";
}

// Sliding window.

TEST(SlidingWindow, ASpansCountStaysTakenOffUntilItIsNSpansOld) {
  EngineNode node(rule_with(Algorithm::sliding_window));
  node.count(0ms, 30);
  node.step(100ms);
  EXPECT_EQ(node.state(100ms).allowance, 70U);
  EXPECT_EQ(node.state(999ms).allowance, 70U);
  EXPECT_EQ(node.state(1000ms).allowance, 100U);
}

TEST(SlidingWindow, EachSpanLeavesByItself) {
  EngineNode node(rule_with(Algorithm::sliding_window, 1000));
  for (int span = 0; span < 5; ++span) {
    node.count(span * 100ms, 10);
    node.step((span + 1) * 100ms);
  }
  for (int span = 10; span < 15; ++span)
    EXPECT_EQ(node.state(span * 100ms).allowance, 1000U - 10 * static_cast<unsigned>(14 - span)) << span;
}

TEST(SlidingWindow, WhatOthersAdmittedIsInTheWindowToo) {
  EngineNode node(rule_with(Algorithm::sliding_window));
  Counters counters;
  count_beside_others(node, counters, 0ms, 6, 10);
  EXPECT_EQ(node.state(106ms).allowance, 84U);
  EXPECT_EQ(node.state(1000ms).allowance, 100U);
}

TEST(SlidingWindow, WhatOthersAdmittedBeforeTheKeyWasSeenHereIsAskedFor) {
  EngineNode node(rule_with(Algorithm::sliding_window));
  Counters counters{{{"login|a", first_ordinal - 1}, 100}};
  count_beside_others(node, counters, 0ms, 1, 0);
  // Ten in each of its spans; eight of them are still in the window of the second span.
  EXPECT_EQ(node.state(106ms).allowance, 100U - 1 - 80);
}

TEST(SlidingWindow, AlsoWhereItIsLessThanOneForEachSpan) {
  EngineNode node(rule_with(Algorithm::sliding_window, 9));
  Counters counters{{{"login|a", first_ordinal - 1}, 7}};
  count_beside_others(node, counters, 0ms, 1, 0);
  // One in each of its last seven spans.
  EXPECT_EQ(node.state(106ms).allowance, 9U - 1 - 7);
  node.step(400ms);
  EXPECT_EQ(node.state(400ms).allowance, 9U - 1 - 5);
}

TEST(SlidingWindow, OpensWhenTheOldestSpanLeavesAndByWhatWasAdmittedInIt) {
  EngineNode node(rule_with(Algorithm::sliding_window));
  node.count(100ms, 30);
  node.step(200ms);
  node.count(200ms, 70);
  node.step(300ms);
  const KeyOverride state = node.state(350ms);
  EXPECT_EQ(state.allowance, 0U);
  EXPECT_EQ(state.opens_at, EngineNode::at(1100ms).monotonic);
  EXPECT_EQ(state.opens_by, 30U);
  // The 30 have left in the interval that runs then, and the others are about to.
  const KeyOverride later = node.state(1150ms);
  EXPECT_EQ(later.allowance, 30U);
  EXPECT_EQ(later.opens_at, EngineNode::at(1200ms).monotonic);
  EXPECT_EQ(later.opens_by, 70U);
}

TEST(SlidingWindow, UnderOverloadANodeHasItsShareOfTheWindow) {
  EngineNode node(rule_with(Algorithm::sliding_window));
  Counters counters;
  count_beside_others(node, counters, 0ms, 100, 300);
  EXPECT_EQ(node.state(200ms).allowance, 0U);
  EXPECT_NEAR(static_cast<double>(node.state(1000ms).allowance), 25, 1);
}

TEST(SlidingWindow, WhatItHoldsIsAsOldAsItWasWhenTheWallClockIsSet) {
  EngineNode node(rule_with(Algorithm::sliding_window));
  node.count(0ms, 30);
  node.step(100ms);
  // Half a second forward between two steps.
  const auto set = [](Duration since_start) {
    return Instant{EngineNode::at(since_start + 500ms).wall, EngineNode::at(since_start).monotonic};
  };
  node.engine.step(set(200ms));
  const auto allowance = [&](Instant now) {
    std::uint64_t found = 100;
    node.engine.for_each_override(now, [&](const KeyOverride& override) { found = override.allowance; });
    return found;
  };
  EXPECT_EQ(allowance(set(200ms)), 70U);
  EXPECT_EQ(allowance(set(999ms)), 70U);
  EXPECT_EQ(allowance(set(1000ms)), 100U);
}

// Buckets.

TEST(BucketRule, ATokenCostsTheWholePriceWhileTheKeyIsBelowItsLimit) {
  EngineNode node(rule_with(Algorithm::token_bucket));
  Counters counters;
  count_beside_others(node, counters, 0ms, 6, 10);
  EXPECT_EQ(node.state(106ms).factor, full_price);
}

TEST(BucketRule, WhatOthersAdmittedIsChargedOnce) {
  EngineNode node(rule_with(Algorithm::token_bucket));
  Counters counters;
  count_beside_others(node, counters, 0ms, 6, 10);
  ASSERT_EQ(node.engine.charges().size(), 1U);
  EXPECT_EQ(node.engine.charges()[0].key, EngineNode::key_of());
  EXPECT_EQ(node.engine.charges()[0].tokens, 10U);
  EXPECT_EQ(node.engine.charges()[0].scale, 1);
  node.engine.clear_charges();
  count_beside_others(node, counters, 100ms, 1, 0);
  for (const BucketCharge& charge : node.engine.charges()) EXPECT_EQ(charge.tokens, 0U);
}

TEST(BucketRule, UnderOverloadATokenCostsTheInverseOfTheShareAndOthersAreChargedNoMore) {
  EngineNode node(rule_with(Algorithm::token_bucket));
  Counters counters;
  count_beside_others(node, counters, 0ms, 100, 300);
  EXPECT_NEAR(static_cast<double>(node.state(106ms).factor), 4.0 * full_price, 0.1 * full_price);
  node.engine.clear_charges();
  count_beside_others(node, counters, 100ms, 100, 300);
  for (const BucketCharge& charge : node.engine.charges()) EXPECT_EQ(charge.tokens, 0U);
}

// Below its limit, too: who refuses on an estimate takes others to go on as they did.
TEST(BucketRule, APredictiveOnesTokenCostsTheInverseOfTheShareAndOthersAreNotCharged) {
  Rule rule = rule_with(Algorithm::token_bucket);
  rule.early_block = EarlyBlock::predictive;
  EngineNode node(rule);
  Counters counters;
  for (int span = 0; span < 25; ++span) {
    count_beside_others(node, counters, span * 100ms, 2, 6);
    EXPECT_TRUE(node.engine.charges().empty()) << span;
  }
  EXPECT_NEAR(static_cast<double>(node.state(2506ms).factor), 4.0 * full_price, 0.2 * full_price);
}

TEST(BucketRule, WhenItsShareGrowsWhatTheNodeHasSavedUpIsScaledToTheNewPrice) {
  EngineNode node(rule_with(Algorithm::token_bucket));
  Counters counters;
  count_beside_others(node, counters, 0ms, 100, 300);
  const TokenPrice before = node.state(106ms).factor;
  node.engine.clear_charges();
  count_beside_others(node, counters, 100ms, 400, 0);
  const TokenPrice after = node.state(206ms).factor;
  ASSERT_LT(after, before);
  ASSERT_EQ(node.engine.charges().size(), 1U);
  EXPECT_DOUBLE_EQ(node.engine.charges()[0].scale, static_cast<double>(after) / static_cast<double>(before));
}

TEST(BucketRule, ABucketThatOthersHadEmptiedBeforeIsNotFullHere) {
  Rule rule = rule_with(Algorithm::token_bucket);
  rule.burst = 40;
  EngineNode node(rule);
  Counters counters{{{"login|a", first_ordinal - 1}, 95}};
  count_beside_others(node, counters, 0ms, 1, 0);
  ASSERT_EQ(node.engine.charges().size(), 1U);
  EXPECT_EQ(node.engine.charges()[0].tokens, 40U);
}

/// Of a bucket of 60 a span: what is charged when others turn out to have taken `others` in the same span as
/// this node has taken `own`.
std::uint64_t charged_of_a_span(std::uint64_t burst, std::uint64_t own, std::uint64_t others,
                                Duration warmup = {}, bool store_reached = true) {
  Rule rule = rule_of(600, 60s, 10);
  rule.algorithm = Algorithm::token_bucket;
  rule.burst = burst;
  rule.warmup = warmup;
  EngineNode node(rule);
  // An interval of a minute begins 20 s after time 0.
  Counters counters;
  node.step(20s);
  node.sync(counters, 20005ms);
  node.count(20s, own);
  node.engine.sync_result(store_reached, EngineNode::at(25s));
  node.step(26s);
  counters[{"login|a", 17}] += others;
  node.sync(counters, 26005ms);
  std::uint64_t charged = 0;
  for (const BucketCharge& charge : node.engine.charges()) charged += charge.tokens;
  return charged;
}

TEST(BucketRule, WhatASmallOneCouldNotSaveUpIsWhatOthersHaveTaken) {
  EXPECT_EQ(charged_of_a_span(10, 18, 18), 0U);
  EXPECT_EQ(charged_of_a_span(10, 18, 22), 0U);
  EXPECT_EQ(charged_of_a_span(10, 18, 23), 1U);
  EXPECT_EQ(charged_of_a_span(10, 24, 24), 24U - (60 - 24 - 2 * 10));
  EXPECT_EQ(charged_of_a_span(10, 40, 18), 18U);
  EXPECT_EQ(charged_of_a_span(30, 1, 18), 18U) << "it may have been empty before";
}

TEST(BucketRule, WhatASmallOneCouldNotSaveUpIsNotKnownWhereTokensWereDearer) {
  EXPECT_EQ(charged_of_a_span(10, 18, 18, 1s), 18U);
  EXPECT_EQ(charged_of_a_span(10, 18, 18, {}, false), 18U);
}

TEST(BucketRule, OfALargeOneNoMoreIsMissingThanOthersHaveTaken) {
  Rule rule = rule_with(Algorithm::token_bucket);
  rule.burst = 10'000;
  EngineNode node(rule);
  Counters counters{{{"login|a", first_ordinal - 1}, 95}};
  count_beside_others(node, counters, 0ms, 1, 7);
  ASSERT_EQ(node.engine.charges().size(), 1U);
  EXPECT_EQ(node.engine.charges()[0].tokens, 95U + 7);
}

TEST(BucketRule, WithoutTheStoreATokenCostsTheInverseOfTheShare) {
  EngineNode node(rule_with(Algorithm::leaky_bucket));
  Counters counters{{{"~nodes", first_ordinal}, 3}};
  node.step(1000ms);
  node.sync(counters, 1005ms);
  count_beside_others(node, counters, 1000ms, 12, 3);
  node.engine.sync_result(false, EngineNode::at(1150ms));
  EXPECT_NEAR(static_cast<double>(node.state(1160ms).factor), node.nodes() * full_price, 1);
}

TEST(Warmup, AColdBucketsTokenCostsThreeAndAWarmOnesOne) {
  Rule rule = rule_with(Algorithm::token_bucket);
  rule.warmup = 1s;
  EngineNode node(rule);
  EXPECT_NEAR(static_cast<double>(node.engine.default_of(0).factor), 3.0 * full_price, 1);
  TokenPrice before = node.engine.default_of(0).factor;
  for (int span = 0; span < 5; ++span) {
    node.count(span * 100ms, 10);
    node.step((span + 1) * 100ms);
    EXPECT_LT(node.state((span + 1) * 100ms).factor, before) << span;
    before = node.state((span + 1) * 100ms).factor;
  }
  EXPECT_EQ(before, full_price);
}

TEST(Warmup, ABucketThatIsNotUsedGrowsColdAgain) {
  Rule rule = rule_with(Algorithm::token_bucket);
  rule.warmup = 1s;
  EngineNode node(rule);
  for (int span = 0; span < 10; ++span) {
    node.count(span * 100ms, 10);
    node.step((span + 1) * 100ms);
  }
  EXPECT_EQ(node.state(1000ms).factor, full_price);
  node.step(2000ms);
  node.count(2000ms, 1);
  node.step(2100ms);
  EXPECT_GT(node.state(2100ms).factor, 2 * full_price);
}

TEST(Warmup, ALoadThatComesBackAfterAllOfItWasElsewhereIsAdmittedHere) {
  Rule rule = rule_with(Algorithm::token_bucket, 1'000'000);
  rule.spans = 100;
  rule.warmup = 1s;
  EngineNode node(rule);
  Counters counters{{{"~nodes", first_ordinal}, 1}};
  for (Duration now = 10ms; now <= 6s; now += 10ms) {
    const bool here = now <= 1s || now > 4s;
    if (here || now == 4s) node.count(now - 10ms, here ? 5'500 : 1, here ? 5'500 : 0);
    if (now <= 4s) counters[{"login|a", first_ordinal + (now - 10ms) / 1s}] += 11'000;
    node.step(now);
    node.sync(counters, now + 5ms);
  }
  EXPECT_LT(node.state(6s).factor, 4 * full_price);
}

// Shed.

TEST(ShedRule, AdmitsAllBelowTheLimitAndTheLimitsPartOfTheDemandAboveIt) {
  EngineNode node(rule_with(Algorithm::shed));
  Counters counters;
  EXPECT_EQ(node.engine.default_of(0).factor, admit_all);
  count_beside_others(node, counters, 0ms, 6, 10);
  EXPECT_EQ(node.state(106ms).factor, admit_all);
  count_beside_others(node, counters, 100ms, 50, 150);
  // 216 in two spans are 1080 in an interval.
  EXPECT_NEAR(static_cast<double>(node.state(206ms).factor) / static_cast<double>(admit_all), 100.0 / 1080,
              0.001);
}

TEST(ShedRule, WithoutTheStoreAdmitsItsPartOfTheLimitOfWhatIsAskedHere) {
  EngineNode node(rule_with(Algorithm::shed));
  Counters counters{{{"~nodes", first_ordinal}, 1}};
  const auto fraction = [&](Duration now) {
    return static_cast<double>(node.state(now).factor) / static_cast<double>(admit_all);
  };
  for (int span = 0; span < 10; ++span) count_beside_others(node, counters, span * 100ms, 50, 50);
  EXPECT_NEAR(fraction(1000ms), 0.1, 0.01);
  node.engine.sync_result(false, EngineNode::at(1050ms));
  const auto ask_for = [&](std::uint64_t each, int first, int last) {
    for (int span = first; span < last; ++span) {
      node.count(span * 100ms, each);
      node.step((span + 1) * 100ms);
    }
  };
  ask_for(10, 10, 20);
  EXPECT_NEAR(fraction(2000ms), 0.5, 0.01);
  ask_for(20, 20, 25);
  EXPECT_NEAR(fraction(2500ms), 50 / 150.0, 0.01);
  ask_for(4, 25, 40);
  EXPECT_EQ(fraction(4000ms), 1);
  node.step(5000ms);
  EXPECT_EQ(fraction(5000ms), 1);
  node.step(6000ms);
  EXPECT_EQ(fraction(6000ms), 1);
}

TEST(ShedRule, StopsAtTheLimitWhateverTheEstimate) {
  EngineNode node(rule_with(Algorithm::shed));
  Counters counters;
  count_beside_others(node, counters, 0ms, 6, 60);
  EXPECT_EQ(node.state(106ms).allowance, 40U);
}

// Cooldown.

TEST(Dephase, BlocksOfSeveralKeysEndAtTimesOfTheirOwn) {
  Rule rule = rule_of(10);
  rule.dephase = 1s;
  EngineNode node(rule);
  const MonotonicTime refused = EngineNode::at(50ms).monotonic;
  std::vector<MonotonicTime> ends;
  for (int i = 0; i < 50; ++i) node.count(0ms, 20, 10, refused, "key" + std::to_string(i));
  node.step(100ms);
  for (int i = 0; i < 50; ++i) {
    const std::string key = "key" + std::to_string(i);
    ends.push_back(node.state(100ms, key).blocked_until);
    EXPECT_GE(ends.back(), refused + 1s);
    EXPECT_LE(ends.back(), refused + 2s);
    EXPECT_EQ(ends.back(), refused + BlockTerms({1s, 1s}).length(EngineNode::key_of(key)));
  }
  std::sort(ends.begin(), ends.end());
  EXPECT_GT(std::unique(ends.begin(), ends.end()) - ends.begin(), 40);
}

TEST(Predictive, CooldownLeavesOthersTheirShareOfWhatIsLeft) {
  Rule rule = rule_of(100);
  rule.early_block = EarlyBlock::predictive;
  EngineNode node(rule);
  Counters counters{{{"~nodes", first_ordinal}, 3}};
  node.step(1000ms);
  node.sync(counters, 1005ms);
  counters[{"login|a", first_ordinal + 1}] = 20;
  node.count(1000ms, 8);
  node.step(1100ms);
  node.sync(counters, 1105ms);
  // 8 + (100 − 28) / 4 nodes
  EXPECT_NEAR(static_cast<double>(node.state(1106ms).allowance), 26, 1);
}

TEST(Predictive, ARefusalOnAnEstimateBlocksAsItWasAskedTo) {
  Rule rule = rule_of(100);
  rule.early_block = EarlyBlock::predictive;
  EngineNode node(rule);
  node.count(0ms, 30, 25, EngineNode::at(42ms).monotonic);
  node.step(100ms);
  EXPECT_TRUE(node.blocked(100ms));
  EXPECT_TRUE(node.engine.pardoned().empty());
}

// The sliding log is exact on each node, and strict's claims are its counts.

TEST(SlidingLogRule, EachNodeHasTheLimitAndTheStoreIsToldForTheFiguresOnly) {
  EngineNode node(rule_with(Algorithm::sliding_log));
  Counters counters{{{"login|a", first_ordinal}, 500}};
  node.count(0ms, 30);
  node.step(100ms);
  EXPECT_EQ(delta_of(node, CounterUse::counted, first_ordinal), 30U);
  node.sync(counters, 105ms);
  EXPECT_EQ(node.state(106ms).allowance, 100U);
  EXPECT_FALSE(node.blocked(106ms));
}

TEST(Strict, AKeyWhoseClaimIsNeverAnsweredIsForgottenLikeAnyOther) {
  Rule rule;
  rule.name = "login";
  rule.limit = 100;
  rule.interval = 1s;
  rule.spans = 10;
  rule.cooldown = 1s;
  rule.algorithm = Algorithm::strict;
  EngineNode node(rule);
  node.count(0ms, 1, 0);
  node.step(100ms);
  ASSERT_EQ(node.engine.keys(), 1U);
  for (int span = 2; span < 400; ++span) node.step(span * 100ms);
  EXPECT_EQ(node.engine.keys(), 0U);
}

}  // namespace
}  // namespace weir::testing
