// SPDX-License-Identifier: BSD-3-Clause
// Keys under sliding windows that use little of their limits: what is published of them, and what they cost.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine_fixture.h"
#include "seed.h"

namespace weir::testing {
namespace {

constexpr std::uint64_t limit = 12800;
constexpr std::uint64_t little = limit / 128;  // what a light key uses in an interval at most
constexpr std::uint64_t light_allowance = limit - limit / 64;

Rule sliding(std::uint64_t of = limit) {
  Rule rule = rule_of(of);
  rule.algorithm = Algorithm::sliding_window;
  return rule;
}

std::optional<std::uint64_t> named(const EngineNode& node, Duration now, const std::string& value = "a") {
  std::optional<std::uint64_t> found;
  node.engine.for_each_override(EngineNode::at(now), [&](const KeyOverride& override) {
    if (override.key == EngineNode::key_of(value)) found = override.allowance;
  });
  return found;
}

bool light(const EngineNode& node, Duration now, const std::string& value = "a", RuleIndex rule = 0) {
  KeyFilter keys;
  node.engine.copy_light_keys(rule, EngineNode::at(now).wall, keys);
  return keys.may_hold(static_cast<std::uint32_t>(EngineNode::key_of(value, rule)));
}

/// As workers take it.
std::uint64_t allowance(const EngineNode& node, Duration now, const std::string& value = "a") {
  if (const auto own = named(node, now, value)) return *own;
  const std::uint64_t usual = node.engine.default_of(0).allowance;
  return light(node, now, value) ? std::min(usual, node.engine.light_quota_of(0).allowance) : usual;
}

/// What the engine takes for details.
std::size_t details(const EngineNode& node) {
  std::size_t with = 0;
  node.engine.for_each_key([&](const KeyView& key) { with += key.slot.detail != no_index; });
  return with;
}

TEST(LightKeys, AreNotNamedButHaveALittleLess) {
  EngineNode node(sliding());
  EXPECT_EQ(allowance(node, 0ms), limit);
  node.count(0ms, little);
  node.step(100ms);
  EXPECT_FALSE(named(node, 100ms));
  EXPECT_TRUE(light(node, 100ms));
  EXPECT_EQ(allowance(node, 100ms), light_allowance);
  EXPECT_EQ(details(node), 0U);
  EXPECT_EQ(allowance(node, 100ms, "who has used nothing"), limit);
}

TEST(LightKeys, HaveAllAgainWhenTheirWindowHasEnded) {
  EngineNode node(sliding());
  node.count(950ms, little);
  node.step(1000ms);
  // In the last span of the interval after, the window still reaches the span in which it came.
  EXPECT_EQ(allowance(node, 1850ms), light_allowance);
  EXPECT_EQ(allowance(node, 2000ms), limit);
}

TEST(LightKeys, MayUseALittleInEachInterval) {
  EngineNode node(sliding());
  for (Duration now = 0ms; now < 5s; now += 100ms) {
    node.count(now, little / 10);
    node.step(now + 100ms);
    EXPECT_EQ(allowance(node, now + 100ms), light_allowance) << now / 100ms;
  }
  EXPECT_EQ(details(node), 0U);
}

TEST(LightKeys, WhoseSumIsMoreAreKnownBySpanFromThenOn) {
  EngineNode node(sliding());
  node.count(0ms, little);
  node.step(100ms);
  node.count(100ms, 1);
  node.step(200ms);
  EXPECT_EQ(named(node, 200ms), limit - little - 1);
  node.count(200ms, 7000);
  node.step(300ms);
  EXPECT_EQ(named(node, 300ms), limit - little - 1 - 7000);
  // What it had used by then leaves with the span in which that was found out, at the latest.
  EXPECT_EQ(named(node, 1100ms), limit - 7000);
  // It is taken for a light key until the interval after has ended.
  EXPECT_EQ(allowance(node, 1200ms), light_allowance);
  EXPECT_EQ(allowance(node, 2000ms), limit);
}

TEST(LightKeys, OpenWhenWhatTheyUsedBeforeLeaves) {
  EngineNode node(sliding());
  node.count(0ms, little);
  node.step(100ms);
  node.count(100ms, limit - little);
  node.step(200ms);
  const KeyOverride state = node.state(200ms);
  EXPECT_EQ(state.allowance, 0U);
  EXPECT_EQ(state.opens_at, EngineNode::at(1100ms).monotonic);
  EXPECT_EQ(state.opens_by, limit - little);  // at least
}

TEST(LightKeys, AreKnownBySpanFromTheFirstCountThatIsMore) {
  EngineNode node(sliding());
  node.count(0ms, little + 1);
  node.step(100ms);
  EXPECT_EQ(named(node, 100ms), limit - little - 1);
  EXPECT_EQ(named(node, 950ms), limit - little - 1);
  EXPECT_EQ(allowance(node, 1000ms), limit);
}

TEST(LightKeys, WhatAStragglerBringsIsCountedInItsOwnInterval) {
  EngineNode node(sliding());
  node.count(900ms, little);
  node.step(1000ms);
  node.count(1000ms, little);
  node.count(900ms, 1);  // together more than little, in the interval before
  node.step(1100ms);
  EXPECT_EQ(named(node, 1100ms), limit - 2 * little - 1);
  EXPECT_FALSE(named(node, 2100ms));
}

TEST(LightKeys, WhatAStragglerBringsOfAnIntervalThatHasLeftIsNotHeldAgainstThem) {
  EngineNode node(sliding());
  node.step(2900ms);
  node.count(2900ms, 1);
  node.count(900ms, 5000);
  node.step(3000ms);
  EXPECT_EQ(allowance(node, 3000ms), light_allowance);
}

TEST(LightKeys, ThatOthersCountTooAreKnownBySpan) {
  EngineNode node(sliding());
  Counters counters;
  node.count(0ms, 20);
  node.step(100ms);
  counters[{"login|a", 1000}] += 300;
  node.count(100ms, 20);
  node.step(200ms);
  node.sync(counters, 205ms);
  EXPECT_EQ(named(node, 205ms), limit - 40 - 300);
}

TEST(LightKeys, TheyBecomeAgainWhenTheyHaveUsedLittleForAnInterval) {
  EngineNode node(sliding());
  Counters counters;
  node.count(900ms, 5000);
  Duration now = 1000ms;
  node.step(now);
  node.sync(counters, now + 5ms);
  EXPECT_EQ(details(node), 1U);
  while (now < 6s) {
    node.count(now, 1);
    now += 100ms;
    node.step(now);
    node.sync(counters, now + 5ms);
    if (now < 1900ms) {
      EXPECT_LE(allowance(node, now), limit - 5000) << now / 1ms;
    } else {
      EXPECT_GE(allowance(node, now), light_allowance) << now / 1ms;
      EXPECT_LT(allowance(node, now), limit) << now / 1ms;
    }
  }
  EXPECT_EQ(details(node), 0U);
  EXPECT_FALSE(named(node, now));
}

TEST(LightKeys, OfRulesWithOtherWindowsAreOthers) {
  Rule longer = sliding();
  longer.interval = 10s;
  EngineNode node(std::vector<Rule>{sliding(), longer});
  node.count(0ms, 1, 1, never, "a", 1);
  node.step(100ms);
  EXPECT_FALSE(light(node, 100ms, "a", 0));
  EXPECT_TRUE(light(node, 100ms, "a", 1));
}

TEST(LightKeys, AreThoseOfAllRulesWithTheSameWindows) {
  EngineNode node(std::vector<Rule>{sliding(), sliding(2 * limit)});
  node.count(0ms, 2 * little, 2 * little, never, "a", 1);
  node.step(100ms);
  KeyFilter keys;
  node.engine.copy_light_keys(0, EngineNode::at(100ms).wall, keys);
  EXPECT_TRUE(keys.may_hold(static_cast<std::uint32_t>(EngineNode::key_of("a", 1))));
  EXPECT_EQ(node.engine.light_quota_of(1).allowance, 2 * light_allowance);
  EXPECT_EQ(details(node), 0U);
}

TEST(LightKeys, AreNoneUnderLimitsOfWhichALittleIsLessThanOne) {
  EngineNode node(sliding(127));
  node.count(0ms, 1);
  node.step(100ms);
  EXPECT_EQ(named(node, 100ms), 126U);
}

TEST(LightKeys, AreNoneWhereEstimatesMayBlock) {
  Rule rule = sliding();
  rule.early_block = EarlyBlock::predictive;
  EngineNode node(rule);
  EXPECT_FALSE(node.engine.has_light_keys(0));
  node.count(0ms, 1);
  node.step(100ms);
  EXPECT_TRUE(named(node, 100ms));
}

TEST(LightKeys, OnManyNodesUseNoMoreTogetherThanOnOne) {
  EngineNode node(sliding());
  Counters counters;
  counters[{"~nodes", 1000}] = counters[{"~nodes", 1001}] = 9;
  node.step(100ms);
  node.sync(counters, 105ms);
  ASSERT_EQ(node.engine.nodes(), 10U);
  node.count(200ms, little / 10);
  node.step(300ms);
  EXPECT_FALSE(named(node, 300ms));
  node.count(300ms, 1);
  node.step(400ms);
  EXPECT_EQ(named(node, 400ms), limit - little / 10 - 1);
}

TEST(LightKeys, AreNamedWhileSharesHaveToStandInForTheStore) {
  EngineNode node(sliding());
  node.count(0ms, little);
  node.step(100ms);
  node.engine.sync_result(false, EngineNode::at(150ms));
  EXPECT_EQ(named(node, 150ms), limit - little);
}

TEST(LightKeys, AreAllFoundAgainHoweverManyComeAndGo) {
  // So that the filter proves too small within an interval, and the keys of the one before are in it.
  constexpr int few = 100;
  constexpr int many = 5000;
  EngineNode node(std::vector<Rule>{sliding()}, 4 * many);
  const auto name = [](int interval, int i) { return std::to_string(interval) + "-" + std::to_string(i); };
  const auto keys = [](int interval) { return interval % 5 == 4 ? many : few; };
  for (int interval = 0; interval < 30; ++interval) {
    const Duration now = interval * 1s;
    node.step(now);
    for (int i = 0; i < keys(interval); ++i) node.count(now, 1, 1, never, name(interval, i));
    node.step(now + 100ms);
    ASSERT_EQ(node.engine.strays(), 0U);
    int missing = 0;
    for (int i = 0; i < keys(interval); ++i) missing += !light(node, now + 100ms, name(interval, i));
    for (int i = 0; interval > 0 && i < keys(interval - 1); ++i)
      missing += !light(node, now + 100ms, name(interval - 1, i));
    EXPECT_EQ(missing, 0) << interval;
    int wrongly = 0;
    for (int i = 0; i < many; ++i) wrongly += light(node, now + 100ms, name(-1, i));
    EXPECT_LT(wrongly, many / 10) << interval;
  }
}

/// A node alone whose wall clock is set, while time goes on.
class SetNode {
 public:
  explicit SetNode(const Rule& rule) : node_(rule) { node_.engine.step(now()); }

  Instant now() const { return {EngineNode::at(since_ + ahead_).wall, EngineNode::at(since_).monotonic}; }
  /// Of the span that runs.
  void count(std::uint64_t admitted, const std::string& key = "a") {
    node_.count(since_ + ahead_, admitted, admitted, never, key);
  }
  void pass(Duration by) {
    since_ += by;
    step();
  }
  /// @param at  a time in the interval that it is counted in
  void others_use(Duration at, std::uint64_t count) {
    counters_[{"login|a", EngineNode::at(at).wall.time_since_epoch() / 1s}] += count;
  }
  std::size_t details() const { return testing::details(node_); }
  std::uint32_t keys() const { return node_.engine.keys(); }
  void stray() { node_.engine.count_overflow({.rule = 0, .began = now().wall, .offered = 1, .admitted = 1}); }
  bool has_strays() const { return node_.engine.has_strays(0, now().wall); }
  /// It shows so much more than it did, as of the next step.
  void set_ahead(Duration by) { ahead_ += by; }
  std::uint64_t allowance(const std::string& key = "a") const {
    return testing::allowance(node_, since_ + ahead_, key);
  }

 private:
  void step() {
    node_.engine.step(now());
    node_.engine.for_each_write([&](const EngineWrite& write) {
      node_.pending.push_back({write.key, write.use, full_name(write), write.ordinal, write.delta,
                               write.returned, write.raised_to});
    });
    node_.engine.clear_writes();
    node_.sync(counters_, since_);
  }

  EngineNode node_;
  Counters counters_;
  Duration since_{};
  Duration ahead_{};
};

TEST(SetClock, BackByIntervalsLeavesWhatALightKeyHasUsedInItsWindow) {
  SetNode node(sliding());
  node.pass(9100ms);
  node.count(little);
  node.pass(100ms);
  node.set_ahead(-4s);
  node.pass(100ms);
  node.count(1, "b");  // takes the place of an interval that lies in the clock's future
  for (int span = 0; span < 6; ++span) {
    node.pass(100ms);
    EXPECT_LE(node.allowance(), limit - little) << span;
  }
}

TEST(SetClock, ForwardAndBackAgainLeavesWhatAKeyHasUsedInItsWindow) {
  struct Set {
    Duration forward;
    int spans;  // that pass
    Duration back;
  };
  // Into an interval that nothing was counted in; and into the one that was counted in last.
  for (const auto& [forward, spans, back] : {Set{4400ms, 2, 4400ms}, Set{1900ms, 2, 900ms}}) {
    SetNode node(sliding());
    node.pass(1000ms);
    for (int span = 0; span < 9; ++span) {
      node.count(1000);
      node.pass(100ms);
    }
    node.set_ahead(forward);
    node.pass(100ms);
    node.count(1);
    for (int span = 0; span < spans; ++span) node.pass(100ms);
    node.set_ahead(-back);
    node.pass(100ms);
    // The first ones of them have left meanwhile.
    EXPECT_LE(node.allowance(), limit - 5000) << forward / 1ms << " ms forward, " << back / 1ms << " back";
  }
}

TEST(SetClock, ForwardByIntervalsForgetsNobodyWhoseWindowHoldsSomething) {
  SetNode node(sliding());
  node.pass(1000ms);
  const auto name = [](int i) { return "k" + std::to_string(i); };
  for (int span = 0; span < 8; ++span) {
    for (int i = 0; i < 50; ++i) node.count(1000, name(i));
    node.pass(100ms);
  }
  node.set_ahead(5s);
  for (int span = 0; span < 3; ++span) {
    node.pass(100ms);
    for (int i = 0; i < 50; ++i) EXPECT_LE(node.allowance(name(i)), limit - 5000) << span << ", " << i;
  }
  // When it has left they are forgotten.
  for (int span = 0; span < 30; ++span) node.pass(100ms);
  EXPECT_EQ(node.allowance(name(0)), limit);
}

TEST(SetClock, BackIntoTheSpanBeforeLeavesWhatWasUsedInTheOneThatRan) {
  SetNode node(sliding());
  node.pass(500ms);
  node.count(7000);
  node.set_ahead(-10ms);
  node.pass(1ms);
  EXPECT_LE(node.allowance(), limit - 7000);
}

// The answer to what was asked by the clock as it was.
TEST(SetClock, LeavesWhatOthersHadUsedInTheWindowForAnInterval) {
  for (const Duration by : {-3s, 2s}) {
    SetNode node(sliding());
    node.pass(5000ms);
    node.others_use(4s, 8000);
    node.count(1);
    node.set_ahead(by);
    for (int span = 0; span < 9; ++span) {
      node.pass(100ms);
      EXPECT_LE(node.allowance(), limit - 8000) << by / 1s << ", " << span;
    }
    for (int span = 0; span < 15; ++span) node.pass(100ms);
    node.count(1);
    node.pass(100ms);
    EXPECT_GE(node.allowance(), light_allowance - 1) << by / 1s;
  }
}

TEST(SetClock, SlowForAWhileHoldsNothingLongerAndMakesNothingOfLightKeys) {
  SetNode node(sliding());
  node.pass(1000ms);
  node.count(9000);
  node.count(1, "b");
  node.pass(100ms);
  for (int span = 0; span < 5; ++span) {  // at half speed
    node.set_ahead(-100ms);
    node.pass(200ms);
  }
  EXPECT_EQ(node.details(), 1U);
  for (int span = 0; span < 5; ++span) node.pass(100ms);
  EXPECT_GE(node.allowance(), light_allowance);
}

TEST(SetClock, AgainAndAgainKeepsNothingForEver) {
  SetNode node(sliding());
  node.pass(1000ms);
  node.count(9000);
  int spans = 0;
  for (; spans < 40 && node.allowance() < light_allowance; ++spans) {
    node.pass(100ms);
    if (spans % 8 != 0) continue;
    node.set_ahead(-20us);  // back over the span's border
    node.pass(10us);
    node.pass(10us);
  }
  EXPECT_LE(spans, 12);
}

TEST(SetClock, BackByIntervalsForgetsNobodyWhoIsThere) {
  Rule rule = rule_of(limit);
  rule.algorithm = Algorithm::token_bucket;
  SetNode node(rule);
  node.pass(1000ms);
  for (int span = 0; span < 20; ++span) {
    node.count(100);
    node.pass(100ms);
  }
  node.set_ahead(-5s);
  for (int span = 0; span < 60; ++span) {
    node.count(100);
    node.pass(100ms);
    EXPECT_EQ(node.keys(), 1U) << span;
  }
}

TEST(SetClock, LeavesItKnownForAnIntervalThatThereWereStrays) {
  for (const Duration by : {1h, -1h}) {
    SetNode node(sliding());
    node.pass(1000ms);
    node.stray();
    node.pass(100ms);
    EXPECT_TRUE(node.has_strays());
    node.set_ahead(by);
    node.pass(100ms);
    EXPECT_TRUE(node.has_strays()) << by / 1h;
    for (int span = 0; span < 20; ++span) node.pass(100ms);
    EXPECT_FALSE(node.has_strays()) << by / 1h;
  }
}

TEST(LightKeys, ThatWereKnownBySpanAreAmongThoseThatAreFoundAgain) {
  EngineNode node({sliding()}, 20'000);
  Counters counters;
  Duration now = 0ms;
  const auto name = [](int i) { return "a" + std::to_string(i); };
  const auto all_use = [&](std::uint64_t each) {
    for (int i = 0; i < 20; ++i) node.count(now, each, each, never, name(i));
  };
  const auto pass_to = [&](Duration to) {
    while (now < to) {
      now += 100ms;
      node.step(now);
      node.sync(counters, now + 1ms);
    }
  };
  all_use(5000);
  pass_to(1900ms);
  all_use(little);
  pass_to(2900ms);
  all_use(little);
  pass_to(3500ms);
  for (int i = 0; i < 5000; ++i) node.count(now, 1, 1, never, "k" + std::to_string(i));
  pass_to(3800ms);
  for (int i = 0; i < 20; ++i) EXPECT_LT(allowance(node, now, name(i)), limit) << i;
}

TEST(LightKeys, OfWhichNobodyKnowsAnythingAreTold) {
  EngineNode node({sliding()}, 4);
  for (int i = 0; i < 4; ++i) node.count(0ms, 1, 1, never, "k" + std::to_string(i));
  EXPECT_FALSE(node.engine.has_strays(0, EngineNode::at(0ms).wall));
  node.count(0ms, 1, 1, never, "one too many");
  EXPECT_TRUE(node.engine.has_strays(0, EngineNode::at(100ms).wall));
  EXPECT_TRUE(node.engine.has_strays(0, EngineNode::at(1900ms).wall));
  EXPECT_FALSE(node.engine.has_strays(0, EngineNode::at(2000ms).wall));
  node.step(3s);
  node.engine.count_overflow({.rule = 0, .began = EngineNode::at(3s).wall, .offered = 1, .admitted = 1});
  EXPECT_TRUE(node.engine.has_strays(0, EngineNode::at(3s).wall));
}

/// What was admitted, span by span; what a window holds by the definition.
class Window {
 public:
  void add(std::int64_t span, std::uint64_t admitted) { spans_[span] += admitted; }
  /// Of all spans that a window reaches which ends with span `running`, but for that one itself.
  std::uint64_t before(std::int64_t running, std::uint32_t spans) const {
    std::uint64_t sum = 0;
    for (auto it = spans_.upper_bound(running - spans); it != spans_.end() && it->first < running; ++it)
      sum += it->second;
    return sum;
  }

 private:
  std::map<std::int64_t, std::uint64_t> spans_;
};

// Alone, a node never lets a key have more than its window has left, and never withholds more than light keys
// are taken to have used; whatever they use, and whenever they come.
TEST(LightKeys, NeverHaveMoreThanTheirWindowsHaveLeftNorMuchLess) {
  const std::uint64_t first_seed = test_seed();
  std::size_t light_seen = 0;
  std::size_t named_seen = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + 60; ++seed) {
    SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto chance = [&](unsigned percent) { return random() % 100 < percent; };
    Rule rule = sliding(50 + random() % 20000);
    rule.spans = 2 + static_cast<std::uint32_t>(random() % 12);
    rule.hold_back = chance(50) ? 0.01 : 0;
    EngineNode node(std::vector<Rule>{rule}, 128);
    Counters counters;
    std::map<std::string, Window> windows;
    const SpanClock clock(rule.interval, rule.spans);
    const auto begin = [&](std::int64_t number) {
      return Duration(clock.begin({number / rule.spans, static_cast<std::uint32_t>(number % rule.spans)}) -
                      EngineNode::at(0ms).wall);
    };
    const std::int64_t first = 1000 * static_cast<std::int64_t>(rule.spans);
    for (std::int64_t number = first; number < first + 8 * rule.spans; ++number) {
      const Duration now = begin(number + 1);
      for (int i = 0; i < 20; ++i) {
        const std::string key = "k" + std::to_string(random() % 40);
        // A worker may be late by some spans.
        const std::int64_t counted =
            std::max(first, number - (chance(10) ? static_cast<int>(random() % 4) : 0));
        const std::uint64_t left = rule.limit - std::min(rule.limit, windows[key].before(number, rule.spans));
        const std::uint64_t wanted = chance(80) ? random() % (rule.limit / 100 + 1) : random() % rule.limit;
        const std::uint64_t admitted = std::min(left, wanted);
        if (admitted == 0) continue;
        node.count(begin(counted), admitted, admitted, never, key);
        windows[key].add(counted, admitted);
      }
      node.step(now);
      if (chance(80)) node.sync(counters, now + 1ms);
      for (const auto& [key, window] : windows) {
        const std::uint64_t held = window.before(number + 1, rule.spans);
        const std::uint64_t left = rule.limit - std::min(rule.limit, held);
        const std::uint64_t may = allowance(node, now + 2ms, key);
        named_seen += named(node, now + 2ms, key).has_value();
        light_seen += !named(node, now + 2ms, key) && light(node, now + 2ms, key);
        ASSERT_LE(may, left) << key << " in span " << number - first;
        // What was used before a key was known by the span may be held until an interval after that.
        ASSERT_GE(may + 2 * (rule.limit / 64) + 1, left) << key << " in span " << number - first;
      }
    }
  }
  EXPECT_GT(light_seen, 1000U);
  EXPECT_GT(named_seen, 1000U);
}

}  // namespace
}  // namespace weir::testing
