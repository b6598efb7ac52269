// SPDX-License-Identifier: BSD-3-Clause
// A strict limit's quota: claims, their answers, and what goes back. First the arithmetic of one lease, then
// engines that claim from one counter.
#include "engine/lease.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine_fixture.h"

namespace weir::testing {
namespace {

constexpr Ordinal first_ordinal = 1000;

Lease lease_of(Ordinal ordinal = 7) {
  Lease lease;
  lease.begin(ordinal);
  return lease;
}

TEST(Lease, AClaimBelowTheLimitIsGrantedWhole) {
  Lease lease = lease_of();
  lease.asked = 30;
  lease.answered(30, 80, 100);
  EXPECT_EQ(lease.allowance(), 30U);
  EXPECT_EQ(lease.owed, 0U);
  EXPECT_EQ(lease.asked, 0U);
  EXPECT_FALSE(lease.used_up);
}

TEST(Lease, TheLastOfTheLimitIsGrantedAndThenItIsUsedUp) {
  Lease lease = lease_of();
  lease.answered(30, 100, 100);
  EXPECT_EQ(lease.allowance(), 30U);
  EXPECT_EQ(lease.owed, 0U);
  EXPECT_TRUE(lease.used_up);
}

TEST(Lease, WhatAClaimGotBeyondTheLimitIsOwedBackAndNotGranted) {
  Lease lease = lease_of();
  lease.answered(30, 110, 100);
  EXPECT_EQ(lease.allowance(), 20U);
  EXPECT_EQ(lease.owed, 10U);
  EXPECT_TRUE(lease.used_up);
}

TEST(Lease, AClaimWhollyBeyondTheLimitGetsNothing) {
  Lease lease = lease_of();
  lease.answered(30, 500, 100);
  EXPECT_EQ(lease.allowance(), 0U);
  EXPECT_EQ(lease.owed, 30U);
}

TEST(Lease, AQuestionLearnsTheSumAndClaimsNothing) {
  Lease lease = lease_of();
  lease.answered(30, 100, 100);
  lease.answered(0, 60, 100);
  EXPECT_EQ(lease.granted, 30U);
  EXPECT_FALSE(lease.used_up);
  EXPECT_EQ(lease.total, 60U);
}

// A batch whose answer was lost is answered again, with the counter as it is by then: others have claimed
// since.
TEST(Lease, ARepeatedAnswerWithALargerSumGrantsLessNeverMore) {
  for (std::uint64_t later = 40; later <= 200; ++later) {
    Lease at_once = lease_of();
    at_once.answered(40, 40, 100);
    Lease repeated = lease_of();
    repeated.answered(40, later, 100);
    EXPECT_LE(repeated.granted, at_once.granted);
    EXPECT_EQ(repeated.granted + repeated.owed, 40U);
  }
}

// Whatever the order in which claims are applied: what nodes may admit adds up to no more than the limit.
TEST(Lease, GrantsOfOneCounterNeverAddUpToMoreThanTheLimit) {
  for (std::uint64_t limit : {1U, 7U, 100U}) {
    std::vector<Lease> nodes(5, lease_of());
    std::uint64_t counter = 0;
    for (std::uint64_t turn = 0; turn < 60; ++turn) {
      Lease& lease = nodes[turn * 7 % nodes.size()];
      const std::uint64_t claim = turn * 13 % (limit + 3);
      const std::uint64_t back = std::exchange(lease.owed, 0);
      counter += claim;
      counter -= std::min(counter, back);
      lease.answered(claim, counter, limit);
      std::uint64_t granted = 0;
      for (const Lease& each : nodes) granted += each.granted;
      ASSERT_LE(granted, limit) << "turn " << turn;
    }
  }
}

TEST(Lease, ClosingGivesBackWhatWasNotAdmitted) {
  Lease lease = lease_of();
  lease.answered(30, 30, 100);
  lease.admitted = 12;
  lease.close();
  EXPECT_EQ(lease.owed, 18U);
  EXPECT_EQ(lease.allowance(), 12U);
  lease.close();
  EXPECT_EQ(lease.owed, 18U);
}

TEST(Lease, NothingIsGivenBackBeforeAllWorkersHaveTakenTheLowerAllowanceUp) {
  Lease lease = lease_of();
  lease.answered(30, 30, 100);
  lease.lower(10);
  EXPECT_EQ(lease.allowance(), 10U);
  EXPECT_EQ(lease.granted, 30U);
  EXPECT_EQ(lease.owed, 0U);
  lease.admitted = 4;
  lease.lowered_everywhere();
  EXPECT_EQ(lease.owed, 0U) << "before what they have drawn by then has been counted";
  lease.lowered_everywhere();
  EXPECT_EQ(lease.allowance(), 10U);
  EXPECT_EQ(lease.owed, 20U);
}

TEST(Lease, WhatWorkersDrewBeforeTheyHeardOfTheLowerAllowanceStaysTheirs) {
  Lease lease = lease_of();
  lease.answered(30, 30, 100);
  lease.lower(10);
  lease.admitted = 5;
  lease.lowered_everywhere();
  lease.admitted = 25;
  lease.lowered_everywhere();
  EXPECT_EQ(lease.allowance(), 25U);
  EXPECT_EQ(lease.owed, 5U);
}

// The sum that an answer brings cannot be less than what this node alone holds: others may hold the rest of
// the limit.
TEST(Lease, WhatTheStoreHasLostIsClaimedAnewAndNothingMoreIsGranted) {
  Lease lease = lease_of();
  lease.answered(30, 100, 100);
  lease.answered(20, 20, 100);
  EXPECT_EQ(lease.granted, 30U);
  EXPECT_EQ(lease.owed, 20U);
  EXPECT_EQ(lease.total, 30U) << "it is at least what is held here";
  EXPECT_TRUE(lease.used_up);
  lease.owed = 0;
  ASSERT_EQ(lease.ask(0, 1), 30U);
  lease.answered(30, 60, 100);
  EXPECT_EQ(lease.granted, 30U);
  EXPECT_EQ(lease.owed, 0U);
  EXPECT_EQ(lease.ask(0, 1), 0U) << "it is there again";
  EXPECT_FALSE(lease.used_up);
  ASSERT_EQ(lease.ask(20, 2), 20U);
  lease.answered(20, 80, 100);
  EXPECT_EQ(lease.granted, 50U);
}

/// Of 30 that the store has lost; they are on their way to it again.
Lease lease_that_is_claimed_anew() {
  Lease lease = lease_of();
  lease.answered(30, 30, 100);
  lease.answered(0, 0, 100);
  EXPECT_EQ(lease.ask(0, 1), 30U);
  return lease;
}

TEST(Lease, WhatWasToBeClaimedAnewAndWasGivenUpIsMissedAgain) {
  Lease lease = lease_that_is_claimed_anew();
  lease.give_up();
  EXPECT_EQ(lease.asked, 0U);
  lease.answered(5, 5, 100);
  EXPECT_EQ(lease.granted, 30U);
  EXPECT_EQ(lease.ask(0, 2), 30U);
}

TEST(Lease, WhatIsOnItsWayToBeClaimedAnewIsNotMissedASecondTime) {
  Lease lease = lease_that_is_claimed_anew();
  lease.answered(0, 0, 100);  // asked before that, or applied before it
  lease.answered(30, 30, 100);
  EXPECT_EQ(lease.granted, 30U);
  EXPECT_EQ(lease.ask(0, 2), 0U);
}

TEST(Lease, WhatWasToBeClaimedAnewAndWasGivenUpIsNotGrantedASecondTimeByALateAnswer) {
  Lease lease = lease_that_is_claimed_anew();
  lease.give_up();
  ASSERT_EQ(lease.ask(0, 4), 30U);
  lease.answered(30, 90, 100);  // with 60 of others'
  EXPECT_EQ(lease.granted, 30U);
  EXPECT_EQ(lease.owed, 0U);
  lease.answered(30, 120, 100);
  EXPECT_EQ(lease.granted, 40U) << "what is claimed a second time is new";
  EXPECT_EQ(lease.owed, 20U);
}

// Also where the store is wiped again and again, as long as who holds something asks before others have
// claimed.
TEST(Lease, ANodeNeverHoldsMoreThanTheLimitWhateverTheStoreForgets) {
  for (std::uint64_t limit : {1U, 7U, 100U}) {
    Lease lease = lease_of();
    std::uint64_t counter = 0;
    for (std::uint64_t turn = 0; turn < 60; ++turn) {
      if (turn % 9 == 8) counter = turn * 5 % (limit + 1);  // as others have left it
      const std::uint64_t back = std::exchange(lease.owed, 0);
      const std::uint64_t claim = lease.ask(turn * 13 % (limit + 3), 0);
      counter += claim;
      counter -= std::min(counter, back);
      lease.answered(claim, counter, limit);
      ASSERT_LE(lease.granted, limit) << "turn " << turn;
    }
  }
}

TEST(Lease, WhatIsNeededAgainIsNotGivenBackAfterAll) {
  Lease lease = lease_of();
  lease.answered(30, 30, 100);
  lease.lower(10);
  lease.raise(20);
  EXPECT_EQ(lease.allowance(), 20U);
  lease.raise(15);
  EXPECT_EQ(lease.allowance(), 20U) << "workers may have heard of it";
  for (int span = 0; span < 2; ++span) lease.lowered_everywhere();
  EXPECT_EQ(lease.allowance(), 20U);
  EXPECT_EQ(lease.owed, 10U);
  lease.lower(10);
  lease.raise(50);
  EXPECT_FALSE(lease.lowering);
  EXPECT_EQ(lease.allowance(), 20U) << "and no more than is held";
}

Rule strict_rule(std::uint64_t limit) {
  Rule rule = rule_of(limit);
  rule.algorithm = Algorithm::strict;
  return rule;
}

std::uint64_t claimed(const Counters& counters, Ordinal ordinal) {
  const auto found = counters.find({"login|a", ordinal});
  return found == counters.end() ? 0 : found->second;
}

TEST(Strict, AdmitsNothingBeforeTheStoreHasGrantedIt) {
  EngineNode node(strict_rule(100));
  Counters counters;
  EXPECT_EQ(node.state(0ms).allowance, 0U);
  node.count(0ms, 5, 0);
  node.step(100ms);
  EXPECT_EQ(node.state(101ms).allowance, 0U);
  node.sync(counters, 105ms);
  EXPECT_GE(node.state(106ms).allowance, 5U);
  EXPECT_EQ(node.state(106ms).allowance, claimed(counters, first_ordinal));
}

// So far the clocks of nodes may be apart, beside an interval: a claim on a counter that has expired would be
// granted once more.
TEST(Strict, CountersLiveUpToTenSecondsLongerThanThoseOfOtherRules) {
  const auto life = [](const Rule& rule) {
    EngineNode node(rule);
    node.count(0ms, 5, 5);
    node.engine.step(EngineNode::at(10s));
    Duration longest{};
    node.engine.for_each_write([&](const EngineWrite& write) {
      if (write.interval == rule.interval) longest = std::max(longest, write.time_to_live);
    });
    return longest;
  };
  const Rule other = rule_of(100, 60s, 6);
  EXPECT_EQ(life(other), 140s + 1ms);
  Rule strict = other;
  strict.algorithm = Algorithm::strict;
  EXPECT_EQ(life(strict), 150s + 1ms);
  strict.interval = 6s;
  EXPECT_EQ(life(strict), 20s + 1ms) << "another interval is enough where that is short";
}

TEST(Strict, AdmittedRequestsAreNotCountedASecondTimeBesideTheClaims) {
  EngineNode node(strict_rule(100));
  Counters counters;
  node.count(0ms, 5, 0);
  node.step(100ms);
  node.sync(counters, 105ms);
  const std::uint64_t before = claimed(counters, first_ordinal);
  node.count(100ms, 1, 1);
  node.step(200ms);
  std::uint64_t claims = 0;
  for (const EngineNode::Pending& write : node.pending) {
    EXPECT_NE(write.use, CounterUse::counted);
    EXPECT_NE(write.use, CounterUse::refused);
    if (write.use == CounterUse::lease && write.ordinal == first_ordinal) claims += write.delta;
  }
  node.sync(counters, 205ms);
  EXPECT_EQ(claimed(counters, first_ordinal), before + claims);
}

TEST(Strict, ExcessOfAClaimGoesBackToTheStore) {
  EngineNode node(strict_rule(100));
  Counters counters{{{"login|a", first_ordinal}, 95}};  // others
  node.count(0ms, 40, 0);
  node.step(100ms);
  node.sync(counters, 105ms);
  EXPECT_LE(node.state(106ms).allowance, 5U);
  node.count(100ms, 40, 0);
  node.step(200ms);
  node.sync(counters, 205ms);
  EXPECT_EQ(claimed(counters, first_ordinal), 95 + node.state(206ms).allowance);
}

TEST(Strict, AsksForNoMoreWhileAClaimIsUnanswered) {
  EngineNode node(strict_rule(1000));
  std::uint64_t claims = 0;
  for (int span = 0; span < 5; ++span) {
    node.count(span * 100ms, 20, 0);
    node.step((span + 1) * 100ms);
    node.engine.sync_result(span == 0, EngineNode::at((span + 1) * 100ms + 50ms));
  }
  for (const EngineNode::Pending& write : node.pending)
    if (write.use == CounterUse::lease && write.delta > 0) ++claims;
  EXPECT_EQ(claims, 1U);
}

// A store that is reached has answered all of some spans ago, or has given it up: there was no room for it,
// or it was too old.
TEST(Strict, AClaimThatWasGivenUpIsMadeAnew) {
  Rule rule = strict_rule(1000);
  rule.interval = 1min;
  rule.spans = 600;
  EngineNode node(rule);
  Counters counters;
  node.count(0ms, 20, 0);
  node.step(100ms);
  node.pending.clear();
  Duration now = 100ms;
  for (int span = 0; span < 20; ++span) {
    node.count(now, 20, 0);
    now += 100ms;
    node.step(now);
    node.pending.clear();
    node.engine.sync_result(false, EngineNode::at(now));
  }
  node.engine.sync_result(true, EngineNode::at(now));
  node.count(now, 20, 0);
  node.step(now + 100ms);
  node.sync(counters, now + 105ms);
  EXPECT_GE(node.state(now + 106ms).allowance, 20U);
}

TEST(Strict, AClaimIsNotMadeAnewWhileItsAnswerMayBeOnItsWay) {
  EngineNode node(strict_rule(1000));
  for (int span = 0; span < 3; ++span) {
    node.count(span * 100ms, 20, 0);
    node.step((span + 1) * 100ms);
    node.engine.sync_result(true, EngineNode::at((span + 1) * 100ms + 50ms));
  }
  const auto claims = std::ranges::count_if(node.pending, [](const EngineNode::Pending& write) {
    return write.use == CounterUse::lease && write.delta > 0;
  });
  EXPECT_EQ(claims, 1);
}

TEST(Strict, NodesThatHoldQuotaClaimItAnewFromAStoreThatWasWiped) {
  std::deque<EngineNode> nodes;
  for (int i = 0; i < 3; ++i) nodes.emplace_back(strict_rule(100));
  Counters counters;
  Duration now = 0ms;
  const auto held = [&] {
    std::uint64_t sum = 0;
    for (const EngineNode& node : nodes) sum += node.state(now).allowance;
    return sum;
  };
  const auto run = [&](int spans) {
    for (int span = 0; span < spans; ++span) {
      for (EngineNode& node : nodes) {
        // All that it may admit, and ever more is asked for.
        const std::uint64_t admitted = node.state(now).allowance;
        node.count(now, 60, 0);
        node.step(now + 100ms);
        node.sync(counters, now + 105ms);
        EXPECT_GE(node.state(now + 106ms).allowance, admitted);
      }
      now += 100ms;
    }
  };
  run(4);
  ASSERT_GE(held(), 90U);
  const std::uint64_t least = nodes.back().state(now).allowance;
  counters.clear();
  run(4);
  EXPECT_LE(held(), 100U + least) << "who holds little, and asks when others have claimed, may not notice";
}

TEST(Strict, ClaimsForTheNextIntervalBeforeItBegins) {
  EngineNode node(strict_rule(1000));
  Counters counters;
  for (int span = 0; span < 9; ++span) {
    node.count(span * 100ms, 20, span == 0 ? 0 : 20);
    node.step((span + 1) * 100ms);
    node.sync(counters, (span + 1) * 100ms + 5ms);
  }
  EXPECT_GT(claimed(counters, first_ordinal + 1), 0U);
  // It holds from the first packet of that interval on, and not before.
  EXPECT_EQ(node.state(1000ms).allowance, claimed(counters, first_ordinal + 1));
}

TEST(Strict, ALeaseHoldsInItsOwnIntervalOnly) {
  EngineNode node(strict_rule(100));
  Counters counters;
  node.count(0ms, 20, 0);
  node.step(100ms);
  node.sync(counters, 105ms);
  EXPECT_GT(node.state(999ms).allowance, 0U);
  EXPECT_EQ(node.state(1000ms).allowance, 0U);
}

TEST(Strict, WhatAKeyDoesNotUseGoesBackOnceAllWorkersHaveHeardOfIt) {
  EngineNode node(strict_rule(1000));
  Counters counters;
  node.count(0ms, 200, 0);
  node.step(100ms);
  node.sync(counters, 105ms);
  const std::uint64_t held = node.state(106ms).allowance;
  ASSERT_GE(held, 200U);
  // The demand has gone. First the workers are told; a worker that stands still keeps the quota where it is.
  Duration now = 100ms;
  while (node.state(now).allowance == held && now < 900ms) {
    now += 100ms;
    node.engine.step(EngineNode::at(now), false, false);
  }
  const std::uint64_t lowered = node.state(now).allowance;
  ASSERT_LT(lowered, held);
  for (int i = 0; i < 2; ++i) {
    now += 100ms;
    node.engine.step(EngineNode::at(now), false, false);
    node.step(now);
    node.sync(counters, now + 5ms);
    EXPECT_EQ(claimed(counters, first_ordinal), held) << "given back while a worker may still draw";
  }
  for (int span = 0; span < 2; ++span) {
    EXPECT_EQ(claimed(counters, first_ordinal), held) << "what they have drawn by then is not counted yet";
    now += 100ms;
    ASSERT_LT(now, 900ms);
    node.step(now);
    node.sync(counters, now + 5ms);
  }
  EXPECT_LT(claimed(counters, first_ordinal), held);
  EXPECT_EQ(claimed(counters, first_ordinal), lowered);
}

TEST(Strict, WhatIsToGoBackIsHadWhereItIsNeededAgainAlsoWhileAWorkerStandsStill) {
  EngineNode node(strict_rule(1000));
  Counters counters;
  node.count(0ms, 200, 0);
  node.step(100ms);
  node.sync(counters, 105ms);
  const std::uint64_t held = node.state(106ms).allowance;
  Duration now = 100ms;
  const auto step = [&](std::uint64_t offered, std::uint64_t admitted) {
    node.count(now, offered, admitted);
    now += 100ms;
    node.engine.step(EngineNode::at(now), false, false);
    node.step(now);
    node.sync(counters, now + 5ms);
  };
  while (node.state(now).allowance == held && now < 500ms) step(0, 0);
  const std::uint64_t lowered = node.state(now).allowance;
  ASSERT_LT(lowered, held);
  step(200, lowered);
  EXPECT_GT(node.state(now).allowance, lowered);
  EXPECT_GE(claimed(counters, first_ordinal), held) << "nothing has been given back";
  step(400, node.state(now - 1ms).allowance - lowered);
  step(400, 0);
  step(400, 0);
  EXPECT_GT(node.state(now).allowance, held) << "and more is claimed";
}

TEST(Strict, WhenTheIntervalHasEndedTheStoreHoldsExactlyWhatWasAdmitted) {
  EngineNode node(strict_rule(1000));
  Counters counters;
  std::uint64_t admitted = 0;
  for (int span = 0; span < 40; ++span) {
    const std::uint64_t allowed = node.state(span * 100ms).allowance;
    // At most a tenth of what it holds, so that there is always some left.
    const std::uint64_t taken = span < 10 ? allowed / 10 : 0;
    admitted += taken;
    node.count(span * 100ms, span < 10 ? 20 : 0, taken);
    node.step((span + 1) * 100ms);
    node.sync(counters, (span + 1) * 100ms + 5ms);
  }
  EXPECT_GT(admitted, 0U);
  EXPECT_EQ(claimed(counters, first_ordinal), admitted);
  EXPECT_EQ(claimed(counters, first_ordinal + 1), 0U);
}

TEST(Strict, ANodeThatStopsGivesBackWhatItHolds) {
  EngineNode node(strict_rule(1000));
  Counters counters;
  node.count(0ms, 50, 0);
  node.step(100ms);
  node.sync(counters, 105ms);
  node.count(100ms, 7, 7);
  node.engine.step(EngineNode::at(150ms), true);
  node.step(151ms);
  node.sync(counters, 155ms);
  EXPECT_EQ(claimed(counters, first_ordinal), 7U);
}

/// Whose wall clock is set between two steps; all that is leased is asked for, and admitted if it may be.
/// What was drawn in an interval is known, as the pools of workers know it, when the clock comes back to it.
struct NodeWithItsClockSet {
  explicit NodeWithItsClockSet(std::uint64_t limit) : node(strict_rule(limit)) {}

  Instant at() const { return {EngineNode::at(now + ahead).wall, EngineNode::at(now).monotonic}; }
  Ordinal ordinal() const { return first_ordinal + (now + ahead) / 1s; }
  std::uint64_t allowance() const {
    std::uint64_t found = 0;
    node.engine.for_each_override(at(), [&](const KeyOverride& override) { found = override.allowance; });
    return found;
  }
  /// @return admitted
  std::uint64_t span(std::uint64_t offered) {
    const std::uint64_t drawn_before = drawn[ordinal()];
    const std::uint64_t admitted = std::min(offered, allowance() - std::min(allowance(), drawn_before));
    drawn[ordinal()] += admitted;
    node.count(now + ahead, offered, admitted);
    return admitted;
  }
  /// 20 are asked for in each.
  void spans_until(Duration end) {
    while (now < end) {
      span(20);
      step();
    }
  }
  void step(bool all_passed = true) {
    now += 100ms;
    node.engine.step(at(), false, all_passed);
    node.step(at());
    node.sync(counters, now + 5ms);
  }

  EngineNode node;
  Counters counters;
  std::map<Ordinal, std::uint64_t> drawn;
  Duration now{};
  Duration ahead{};
};

TEST(Strict, AnIntervalThatTheClockComesBackToGoesOnWhereItWasLeft) {
  NodeWithItsClockSet node(1000);
  node.spans_until(1300ms);
  ASSERT_EQ(node.drawn[first_ordinal + 1], 60U);
  node.ahead = -500ms;
  node.span(20);
  node.step();
  while (node.ordinal() == first_ordinal) {
    EXPECT_EQ(node.span(20), 20U) << "in the interval that the clock was set back to";
    node.step();
  }
  EXPECT_EQ(node.span(20), 20U) << "what is drawn in its first span was claimed before";
  for (int span = 0; span < 5; ++span) {
    node.step();
    EXPECT_EQ(node.span(20), 20U) << span;
  }
  while (node.now < 4s) node.step();
  EXPECT_EQ(claimed(node.counters, first_ordinal), node.drawn[first_ordinal]);
  EXPECT_EQ(claimed(node.counters, first_ordinal + 1), node.drawn[first_ordinal + 1]);
}

TEST(Strict, AlsoWhereAWorkerMayStillDrawOfItsLease) {
  NodeWithItsClockSet node(1000);
  node.spans_until(1300ms);
  const std::uint64_t held = node.allowance();
  node.ahead = -500ms;
  node.step(false);
  ASSERT_EQ(node.ordinal(), first_ordinal);
  node.ahead = 0ms;
  node.step(false);
  ASSERT_EQ(node.ordinal(), first_ordinal + 1);
  EXPECT_GE(node.allowance(), held);
  while (node.now < 4s) node.step();
  EXPECT_EQ(claimed(node.counters, first_ordinal + 1), node.drawn[first_ordinal + 1]);
}

// What is charged when the last span has ended has not been drawn: the pool has as much that may yet be.
TEST(Strict, AnIntervalThatTheClockComesBackToHasNoMoreForWhatWasChargedInIt) {
  NodeWithItsClockSet node(1000);
  node.spans_until(1300ms);
  constexpr std::uint64_t charged = 30;
  KeyBytes key;
  key.clear();
  key.add_text("a");
  node.node.engine.charge({.rule = 0,
                           .key = EngineNode::key_of(),
                           .key_bytes = key.bytes(),
                           .began = node.at().wall,
                           .offered = charged,
                           .admitted = charged});
  node.ahead = -500ms;
  node.step();
  while (node.ordinal() == first_ordinal) node.step();
  for (int span = 0; span < 6; ++span) {
    node.span(1000);
    EXPECT_LE(node.drawn[first_ordinal + 1] + charged, claimed(node.counters, first_ordinal + 1)) << span;
    node.step();
  }
}

// The pool of that interval has been cleared for a later one.
TEST(Strict, AnIntervalThatTheClockComesBackToAfterTwoOthersHasNoMoreThanWhatIsLeftOfTheLimit) {
  NodeWithItsClockSet node(100);
  node.spans_until(1800ms);
  const std::uint64_t before = node.drawn[first_ordinal + 1];
  ASSERT_GE(before, 80U);
  while (node.now < 3200ms) node.step();
  node.ahead = -2s;
  node.drawn.clear();
  for (int span = 0; span < 6; ++span) {
    node.step();
    ASSERT_EQ(node.ordinal(), first_ordinal + 1);
    node.span(20);
  }
  EXPECT_LE(before + node.drawn[first_ordinal + 1], 100U);
}

TEST(Strict, ARefusalRetriesAtTheNextSpanAndAfterTheLimitIsUsedUpInTheNextInterval) {
  EngineNode node(strict_rule(100));
  Counters counters;
  node.count(0ms, 5, 0);
  node.step(100ms);
  node.sync(counters, 105ms);
  EXPECT_EQ(node.state(150ms).opens_at, EngineNode::at(200ms).monotonic);
  counters[{"login|a", first_ordinal}] = 100;
  node.count(100ms, 90, 5);
  node.step(200ms);
  node.sync(counters, 205ms);
  EXPECT_EQ(node.state(250ms).opens_at, EngineNode::at(1000ms).monotonic);
}

}  // namespace
}  // namespace weir::testing
