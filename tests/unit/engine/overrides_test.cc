// SPDX-License-Identifier: BSD-3-Clause
// Which keys a publication must name: all whose quota is not their rule's default, also where the engine
// spares itself the look at keys to which nothing has happened. But for those of which its filter of light
// keys tells, if these may really be admitted as much (light_keys_test.cc).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine_fixture.h"
#include "seed.h"

namespace weir::testing {
namespace {

using Quotas = std::map<std::uint64_t, KeyOverride>;

/// By the definition: every key is looked at.
Quotas by_looking_at_all(const Engine& engine, Instant now) {
  Quotas found;
  engine.for_each_key([&](const KeyView& key) {
    const KeyOverride usual = engine.default_of(key.slot.rule);
    const KeyOverride quota = engine.quota_for(key, now);
    if (quota.blocked_until != never || quota.allowance != usual.allowance || quota.factor != usual.factor)
      found[key.slot.key] = quota;
  });
  return found;
}

Quotas published(const Engine& engine, Instant now) {
  Quotas found;
  engine.for_each_override(now, [&](const KeyOverride& quota) { found[quota.key] = quota; });
  return found;
}

/// Takes out of `wanted` what the filter of light keys tells as well, if not as closely.
void leave_to_filter(const Engine& engine, Instant now, const Quotas& named, Quotas& wanted) {
  if (!engine.has_light_keys(0)) return;
  KeyFilter light;
  engine.copy_light_keys(0, now.wall, light);
  std::erase_if(wanted, [&](const auto& one) {
    const auto& [key, quota] = one;
    return !named.contains(key) && light.may_hold(static_cast<std::uint32_t>(key)) &&
           quota.blocked_until == never && quota.factor == engine.default_of(0).factor &&
           quota.allowance >= engine.light_quota_of(0).allowance;
  });
}

class Overrides : public ::testing::TestWithParam<Algorithm> {};

TEST_P(Overrides, NameEveryKeyWhoseQuotaIsNotTheDefaultWhateverHappens) {
  const std::uint64_t first_seed = test_seed();
  std::size_t seen = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto chance = [&](unsigned percent) { return random() % 100 < percent; };
    Rule rule = rule_of(20 + random() % 2000);
    rule.algorithm = GetParam();
    rule.burst = rule.limit;
    rule.cooldown = chance(50) ? 1s : 3s;
    if (chance(30)) rule.early_block = EarlyBlock::predictive;
    if (chance(30)) rule.hold_back = 0.01;
    if (chance(20) && GetParam() == Algorithm::fixed_window) rule.debt = true;
    if (chance(20) && GetParam() == Algorithm::token_bucket) rule.warmup = 2s;
    EngineNode node(std::vector<Rule>{rule}, 64);
    Counters counters;
    const unsigned keys = 1 + static_cast<unsigned>(random() % 80);
    const unsigned others = chance(30) ? 0 : 1 + static_cast<unsigned>(random() % 5);
    Duration now{};
    for (int span = 0; span < 60; ++span) {
      for (unsigned i = 0; i < 12; ++i) {
        const std::string key = "k" + std::to_string(random() % keys);
        const std::uint64_t offered = random() % (rule.limit / 3 + 1);
        const std::uint64_t refused = chance(20) ? offered / 2 : 0;
        node.count(now, offered, offered - refused,
                   refused > 0 && GetParam() == Algorithm::cooldown ? EngineNode::at(now).monotonic : never,
                   key);
        if (others > 0 && chance(60))
          counters[{"login|" + key, 1000 + now / 1s}] += random() % (rule.limit / 3 + 1);
      }
      now += 100ms;
      if (others > 0) counters[{"~nodes", 1000 + now / 1s}] = others;
      node.step(now);
      const auto wanted_beside = [&](const Quotas& named, Instant at) {
        Quotas wanted = by_looking_at_all(node.engine, at);
        leave_to_filter(node.engine, at, named, wanted);
        return wanted;
      };
      const Quotas first = published(node.engine, EngineNode::at(now));
      ASSERT_EQ(first.size(), wanted_beside(first, EngineNode::at(now)).size());
      if (chance(85))
        node.sync(counters, now + 5ms);
      else if (chance(50))
        node.engine.sync_result(false, EngineNode::at(now + 50ms));
      const Quotas named = published(node.engine, EngineNode::at(now + 50ms));
      const Quotas wanted = wanted_beside(named, EngineNode::at(now + 50ms));
      ASSERT_EQ(named.size(), wanted.size()) << "span " << span;
      for (const auto& [key, quota] : wanted) {
        ASSERT_TRUE(named.contains(key)) << "span " << span;
        EXPECT_EQ(named.at(key).allowance, quota.allowance);
        EXPECT_EQ(named.at(key).factor, quota.factor);
        EXPECT_EQ(named.at(key).blocked_until, quota.blocked_until);
        EXPECT_EQ(named.at(key).opens_at, quota.opens_at);
        EXPECT_EQ(named.at(key).opens_by, quota.opens_by);
      }
      seen += wanted.size();
    }
  }
  if (GetParam() != Algorithm::sliding_log) {
    EXPECT_GT(seen, 300U) << "this must not pass by there being nothing to name";
  }
}

/// A node that knows of twenty keys, all blocked. (Another rule goes by shares: so all slots are looked at
/// while the store is away.)
EngineNode blocked_keys() {
  std::vector<Rule> rules(2, rule_of(10));
  rules.back().algorithm = Algorithm::fixed_window;
  EngineNode node(rules, 64);
  for (int key = 0; key < 20; ++key)
    node.count(0ms, 20, 10, EngineNode::at(50ms).monotonic, "k" + std::to_string(key));
  node.step(100ms);
  return node;
}
std::vector<SlotIndex> slots_of(const Engine& engine, Duration now) {
  std::vector<SlotIndex> slots;
  engine.for_each_override(EngineNode::at(now),
                           [&](const KeyOverride& quota) { slots.push_back(quota.slot); });
  return slots;
}

TEST(Overrides, NameAllButThoseSetAsideWhetherOrNotTheStoreIsReached) {
  EngineNode node = blocked_keys();
  const std::vector<SlotIndex> all = slots_of(node.engine, 110ms);
  ASSERT_EQ(all.size(), 20U);
  EXPECT_TRUE(std::ranges::is_sorted(all));
  std::vector<SlotIndex> wanted = all;
  for (const std::size_t i : {19U, 7U, 0U}) {
    node.engine.set_aside(all[i]);
    wanted.erase(wanted.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (const bool reached : {true, false}) {
    node.engine.sync_result(reached, EngineNode::at(110ms));
    EXPECT_EQ(slots_of(node.engine, 110ms), wanted) << reached;
  }
  for (const std::size_t i : {0U, 7U, 19U}) node.engine.take_back(all[i]);
  EXPECT_EQ(slots_of(node.engine, 110ms), all);
}

TEST(Overrides, OfAKeyThatIsSetAsideWhileItIsVisitedAreOverAndAllOthersAreVisitedAllTheSame) {
  EngineNode node = blocked_keys();
  std::size_t visited = 0;
  node.engine.for_each_override(EngineNode::at(110ms), [&](const KeyOverride& quota) {
    ++visited;
    node.engine.set_aside(quota.slot);
  });
  EXPECT_EQ(visited, 20U);
  EXPECT_TRUE(slots_of(node.engine, 110ms).empty());
}

TEST(Overrides, NameAKeyWhoseSlotBelongedToOneThatWasSetAside) {
  EngineNode node = blocked_keys();
  for (const SlotIndex slot : slots_of(node.engine, 110ms)) node.engine.set_aside(slot);
  Duration now = 100ms;
  for (; now < 8s; now += 100ms) node.step(now);
  ASSERT_EQ(node.engine.keys(), 0U) << "all have been forgotten";
  for (int key = 0; key < 20; ++key)
    node.count(now, 20, 10, EngineNode::at(now).monotonic, "new" + std::to_string(key));
  node.step(now + 100ms);
  EXPECT_EQ(slots_of(node.engine, now + 110ms).size(), 20U);
}

TEST(Overrides, NameEachKeyOnceAndByItsOwnRulesClockWhereRulesTakeTurns) {
  std::vector<Rule> rules;
  for (const Duration interval : {700ms, 1000ms, 3000ms}) {
    Rule& rule = rules.emplace_back(rule_of(1000, interval, 7));
    rule.algorithm = Algorithm::sliding_window;
  }
  EngineNode node(rules);
  constexpr int keys_of_rule = 50;
  Counters counters;
  std::size_t most = 0;
  for (Duration now{}; now < 4s; now += 100ms) {
    // One key of each rule after the other, so that their slots lie as mixed.
    for (int key = 0; key < keys_of_rule; ++key)
      for (RuleIndex rule = 0; rule < rules.size(); ++rule)
        node.count(now, 40, 40, never, "k" + std::to_string(key), rule);
    node.step(now + 100ms);
    // Away and back: then all keys are looked at, not only those that may differ.
    if (now == 2s) node.engine.sync_result(false, EngineNode::at(now + 100ms));
    if (now == 3s) node.engine.sync_result(true, EngineNode::at(now + 100ms));
    const Instant at = EngineNode::at(now + 150ms);
    const Quotas wanted = by_looking_at_all(node.engine, at);
    std::size_t named = 0;
    node.engine.for_each_override(at, [&](const KeyOverride& quota) {
      ++named;
      ASSERT_TRUE(wanted.contains(quota.key));
      EXPECT_EQ(quota.allowance, wanted.at(quota.key).allowance);
      EXPECT_EQ(quota.opens_at, wanted.at(quota.key).opens_at);
    });
    ASSERT_EQ(named, wanted.size());
    most = std::max(most, named);
  }
  EXPECT_EQ(most, rules.size() * keys_of_rule);
}

TEST(Overrides, AreNoneWhereANodeIsAloneAndNobodyIsNearItsLimit) {
  EngineNode node(rule_of(1000));
  Counters counters;
  for (Duration now{}; now < 3s; now += 100ms) {
    for (int key = 0; key < 50; ++key) node.count(now, 10, 10, never, "k" + std::to_string(key));
    node.step(now + 100ms);
    node.sync(counters, now + 105ms);
    EXPECT_TRUE(published(node.engine, EngineNode::at(now + 105ms)).empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Overrides,
                         ::testing::Values(Algorithm::cooldown, Algorithm::fixed_window,
                                           Algorithm::sliding_window, Algorithm::token_bucket,
                                           Algorithm::leaky_bucket, Algorithm::sliding_log, Algorithm::shed,
                                           Algorithm::strict),
                         [](const auto& one) {
                           std::string name(to_string(one.param));
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace weir::testing
