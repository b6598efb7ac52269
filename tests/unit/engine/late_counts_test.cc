// SPDX-License-Identifier: BSD-3-Clause
// What is counted under sliding windows while spans go by that nobody ends: the controller is late, or the
// worker.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "engine_fixture.h"

namespace weir::testing {
namespace {

constexpr std::uint64_t limit = 12800;
constexpr std::uint64_t little = limit / 128;  // what a light key uses in an interval at most

Rule sliding(std::uint64_t of = limit) {
  Rule rule = rule_of(of);
  rule.algorithm = Algorithm::sliding_window;
  return rule;
}

class LateNode : public EngineNode {
 public:
  LateNode() : EngineNode(sliding()) {}
  explicit LateNode(std::uint32_t keys) : EngineNode({sliding()}, keys) {}

  void count_late(Duration began, Duration counted_by, std::uint64_t admitted, const std::string& key = "a") {
    KeyBytes bytes;
    bytes.clear();
    bytes.add_text(key);
    engine.count({.rule = 0,
                  .key = key_of(key),
                  .key_bytes = bytes.bytes(),
                  .began = at(began).wall,
                  .counted_by = at(counted_by).wall,
                  .offered = admitted,
                  .admitted = admitted});
  }
  /// What is held of the key when a span begins.
  std::uint64_t held(Duration now, const std::string& key = "a") {
    step(now);
    KeyFilter light;
    engine.copy_light_keys(0, at(now).wall, light);
    const std::uint64_t left = state(now, key).allowance;
    const std::uint64_t left_of_light = engine.light_quota_of(0).allowance;
    const bool is_light = left == limit && light.may_hold(static_cast<std::uint32_t>(key_of(key)));
    return limit - (is_light ? left_of_light : left);
  }
};

TEST(LateCounts, LeaveAWindowAsThoseOfTheLastSpanThatHadEnded) {
  LateNode node;
  node.count_late(0ms, 850ms, 1000);  // the span that began at 700 ms is the last one
  for (Duration now = 850ms; now < 1700ms; now += 100ms) EXPECT_EQ(node.held(now), 1000U) << now / 1ms;
  EXPECT_EQ(node.held(1700ms), 0U);
}

TEST(LateCounts, ByMoreThanAnIntervalLeaveAWindowAnIntervalLater) {
  LateNode node;
  node.count_late(0ms, 12'340ms, 1000);
  for (Duration now = 12'340ms; now < 13'200ms; now += 100ms) EXPECT_EQ(node.held(now), 1000U) << now / 1ms;
  EXPECT_EQ(node.held(13'200ms), 0U);
}

TEST(LateCounts, ByLessThanASpanAreOfTheirOwn) {
  for (const Duration counted_by : {0ms, 1ms, 99ms, 100ms, 199ms}) {
    LateNode node;
    node.count_late(0ms, counted_by, 1000);
    EXPECT_EQ(node.held(900ms), 1000U) << counted_by / 1ms;
    EXPECT_EQ(node.held(1000ms), 0U) << counted_by / 1ms;
  }
}

TEST(LateCounts, AreToldTheStoreAsOfTheIntervalThatTheyBeganIn) {
  LateNode node;
  node.count_late(900ms, 2450ms, 1000);
  bool told = false;
  for (const auto& [counter, delta] : node.step(2450ms)) {
    if (counter.first != "login|a" || delta == 0) continue;
    EXPECT_EQ(counter.second, 1000);
    EXPECT_EQ(delta, 1000U);
    told = true;
  }
  EXPECT_TRUE(told);
}

TEST(LateCounts, OfALightKeyAreHeldInTheIntervalAfterTheirOwn) {
  for (const std::uint64_t before : {0U, 1U}) {
    LateNode node;
    node.count(900ms, before);
    node.count_late(900ms, 1850ms, little - before);
    for (Duration now = 1850ms; now < 3000ms; now += 100ms)
      EXPECT_EQ(node.held(now), 2 * little) << now / 1ms;
    EXPECT_EQ(node.held(3000ms), 0U);
  }
}

TEST(LateCounts, OfLightKeysAreHeldAsLongThoughTheyComeWithManyOthers) {
  constexpr int many = 10'000;
  LateNode node(2 * many);
  const auto name = [](int key) { return "user " + std::to_string(key); };
  for (int key = 0; key < many; ++key) node.count_late(900ms, 1850ms, 1, name(key));
  node.step(1850ms);
  node.step(2900ms);
  KeyFilter light;
  node.engine.copy_light_keys(0, node.at(2900ms).wall, light);
  for (int key = 0; key < many; ++key)
    ASSERT_TRUE(light.may_hold(static_cast<std::uint32_t>(EngineNode::key_of(name(key))))) << key;
}

TEST(LateCounts, OfAKeyThatIsLightNoMoreAreHeldAsLongAsThoseThatItHadWhenItWas) {
  LateNode node;
  node.count_late(0ms, 850ms, 50);
  node.count_late(0ms, 850ms, 200);
  for (Duration now = 850ms; now < 1700ms; now += 100ms) EXPECT_EQ(node.held(now), 250U) << now / 1ms;
  EXPECT_LE(node.held(1700ms), 2 * little);
}

TEST(LateCounts, OfAnIntervalThatIsNotRememberedAreHeld) {
  LateNode node;
  node.step(3000ms);
  node.count(3000ms, 1);
  node.count_late(0ms, 3150ms, 250);
  EXPECT_EQ(node.held(3150ms), 251U);
  EXPECT_EQ(node.held(3900ms), 251U);
  EXPECT_LE(node.held(4000ms), 2 * little);
}

TEST(LateCounts, MayBeHandedBack) {
  LateNode node;
  node.count_late(0ms, 850ms, 1000);
  node.step(850ms);
  node.count(850ms, 500);
  node.step(900ms);
  EXPECT_EQ(node.engine.refund({.key = EngineNode::key_of(), .amount = 1200, .charged = node.at(0ms).wall}),
            1000U);
  EXPECT_EQ(node.held(900ms), 500U);
}

TEST(LateCounts, AreHandedBackBesideThoseOfTheSameSpanThatWereNot) {
  LateNode node;
  node.count_late(0ms, 0ms, 300);
  node.count_late(0ms, 850ms, 1000);
  node.step(850ms);
  EXPECT_EQ(node.engine.refund({.key = EngineNode::key_of(), .amount = 1200, .charged = node.at(0ms).wall}),
            1200U);
  EXPECT_EQ(node.held(900ms), 100U);
  EXPECT_EQ(node.held(1700ms), 0U);
}

TEST(LateCounts, OfKeysThatNobodyRemembersBearOnAWindowAnIntervalLonger) {
  LateNode node;
  node.engine.count_overflow({.rule = 0,
                              .began = node.at(900ms).wall,
                              .counted_by = node.at(1850ms).wall,
                              .offered = 1,
                              .admitted = 1});
  node.step(2900ms);
  EXPECT_TRUE(node.engine.has_strays(0, node.at(2900ms).wall));
  node.step(3000ms);
  EXPECT_FALSE(node.engine.has_strays(0, node.at(3000ms).wall));
}

TEST(LateCounts, ByTheClockAsItWasLeaveAWindowAnIntervalAfterItWasSetBack) {
  LateNode node;
  const auto back = [](Duration since) {
    return Instant{EngineNode::at(since - 500ms).wall, EngineNode::at(since).monotonic};
  };
  node.step(5000ms);
  node.step(back(5100ms));
  node.count_late(5000ms, 4600ms, 1000);  // a worker's who has not come round since before
  for (Duration since = 5200ms; since < 6100ms; since += 100ms) {
    node.step(back(since));
    EXPECT_EQ(node.state(since - 500ms).allowance, limit - 1000) << since / 1ms;
  }
  node.step(back(6100ms));
  EXPECT_EQ(node.state(5600ms).allowance, limit);
}

TEST(LateCounts, BeforeTheClockIsSetBackMakeNoneOfThoseAfterItLastLonger) {
  LateNode node;
  const auto back = [](Duration since) {
    return Instant{EngineNode::at(since - 100s).wall, EngineNode::at(since).monotonic};
  };
  node.count_late(0ms, 850ms, 50);
  node.step(850ms);
  node.step(back(900ms));
  // Light at first, and then not.
  node.count(-99'100ms, little, little, never, "b");
  node.count(-99'100ms, 2 * little, 2 * little, never, "b");
  node.step(back(1000ms));
  const auto left = [&](Duration since) {
    std::uint64_t allowance = limit;
    node.engine.for_each_override(back(since), [&](const KeyOverride& key) {
      if (key.key == EngineNode::key_of("b")) allowance = key.allowance;
    });
    return allowance;
  };
  EXPECT_EQ(left(1000ms), limit - 3 * little);
  node.step(back(1900ms));
  EXPECT_EQ(left(1900ms), limit);
}

}  // namespace
}  // namespace weir::testing
