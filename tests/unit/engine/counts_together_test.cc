// SPDX-License-Identifier: BSD-3-Clause
// Counts that come together come to what they would come to one by one, whatever happens meanwhile, and those
// of keys that are set aside to what they would come to otherwise: nobody sees that most of them take a
// shorter way.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "engine_fixture.h"
#include "seed.h"

namespace weir::testing {
namespace {

constexpr std::size_t keys = 120;
constexpr int length = 100;  // spans
constexpr Duration span = 100ms;

struct Tested {
  std::string name;
  Rule rule;
};

std::vector<Tested> tested_rules() {
  std::vector<Tested> tested;
  const auto add = [&](const std::string& name, Algorithm algorithm, const auto& change) {
    Rule rule = rule_of(4000);
    rule.algorithm = algorithm;
    rule.hold_back = 0.02;
    change(rule);
    tested.push_back({name, rule});
  };
  const auto nothing = [](Rule&) {};
  add("cooldown", Algorithm::cooldown, nothing);
  add("cooldown_per_span", Algorithm::cooldown, [](Rule& rule) { rule.local_rule = LocalRule::per_span; });
  add("fixed_window", Algorithm::fixed_window, nothing);
  add("fixed_window_with_debt", Algorithm::fixed_window, [](Rule& rule) { rule.debt = true; });
  add("fixed_window_that_penalizes", Algorithm::fixed_window, [](Rule& rule) { rule.penalize = true; });
  add("fixed_window_that_tells_all", Algorithm::fixed_window, [](Rule& rule) { rule.hold_back = 0; });
  add("sliding_window", Algorithm::sliding_window, nothing);
  add("sliding_window_that_keeps_much_back", Algorithm::sliding_window,
      [](Rule& rule) { rule.hold_back = 0.1; });
  add("predictive_sliding_window", Algorithm::sliding_window,
      [](Rule& rule) { rule.early_block = EarlyBlock::predictive; });
  add("token_bucket", Algorithm::token_bucket, nothing);
  add("token_bucket_that_warms_up", Algorithm::token_bucket, [](Rule& rule) { rule.warmup = 2s; });
  add("shed", Algorithm::shed, nothing);
  add("strict", Algorithm::strict, nothing);
  add("sliding_log", Algorithm::sliding_log, nothing);
  add("limit_of_3", Algorithm::fixed_window, [](Rule& rule) {
    rule.limit = 3;
    rule.hold_back = 20;  // more than the limit
  });
  return tested;
}

/// The keys of another rule come with those of the tested one.
Rule other_rule() {
  Rule rule = rule_of(1000);
  rule.name = "other";
  rule.algorithm = Algorithm::sliding_window;
  rule.hold_back = 0.1;
  return rule;
}
constexpr RuleIndex rule_of_key(std::size_t key) { return key % 7 == 0 ? 1 : 0; }

/// A node behind a store that others count in as well.
class Node : public EngineNode {
 public:
  explicit Node(const Rule& rule) : EngineNode(std::vector<Rule>{rule, other_rule()}) {}

  /// @return what is told the store, in no order
  std::vector<std::string> end_span(Instant now) {
    engine.step(now);
    engine.tell_blocks(now);
    std::vector<std::string> told;
    engine.for_each_write([&](const EngineWrite& write) {
      pending.push_back({write.key, write.use, full_name(write), write.ordinal, write.delta, write.returned,
                         write.raised_to});
      std::ostringstream text;
      text << full_name(write) << ' ' << write.ordinal << ' ' << static_cast<int>(write.use) << ' '
           << write.delta << ' ' << write.returned << ' ' << write.raised_to;
      told.push_back(text.str());
    });
    engine.clear_writes();
    std::ranges::sort(told);
    return told;
  }
  /// What is known of each key.
  /// @param to_be_looked_at  whether it is to be, when the span ends, is told, too
  std::map<std::uint64_t, std::string> known(Instant now, bool to_be_looked_at = true) const {
    std::map<std::uint64_t, std::string> known;
    engine.for_each_key([&](const KeyView& key) {
      const auto& [slot, past, detail, names] = key;
      const KeyOverride quota = engine.quota_for(key, now);
      std::ostringstream text;
      text << "current " << slot.current.ordinal << ' ' << slot.current.offered << ' '
           << slot.current.admitted << " unwritten " << slot.unwritten << " span " << slot.span_counting
           << " flags " << slot.asked_blocks << slot.fresh_due << slot.read_due
           << (to_be_looked_at && slot.touched) << slot.watched << slot.refusal_due << slot.fresh
           << slot.holding << (slot.watched && slot.counted_lately) << slot.idle << slot.contended
           << slot.was_contended << slot.told << slot.was_told << slot.went_back << " past " << past.offered
           << ' ' << past.admitted << " held " << past.held << ' ' << (past.held > 0 ? past.held_age : 0)
           << " alone " << past.alone[0] << ' ' << past.alone[1] << " detail " << (slot.detail != no_index)
           << " demand " << detail.demand.per_interval() << ' ' << detail.demand.share() << " quota "
           << quota.allowance << ' ' << quota.left << ' ' << quota.factor << ' '
           << (quota.blocked_until != never);
      known.emplace(slot.key, text.str());
    });
    return known;
  }
  Counters counters;
};

std::string name_of(std::size_t key) { return std::to_string(key); }
/// Of two keys each that a first look takes for the same.
std::uint64_t hash_of(std::size_t key) {
  const std::uint64_t of_both = EngineNode::key_of(name_of(key / 2));
  return (of_both & ~std::uint64_t{1}) + 2 + key % 2;
}

class CountsTogether : public ::testing::TestWithParam<Tested> {};

INSTANTIATE_TEST_SUITE_P(Rules, CountsTogether, ::testing::ValuesIn(tested_rules()),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(CountsTogether, ComeToWhatTheyComeToOneByOne) {
  const std::uint64_t first_seed = test_seed();
  for (std::uint64_t seed = first_seed; seed < first_seed + 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto chance = [&](unsigned percent) { return random() % 100 < percent; };
    Node one_by_one(GetParam().rule);
    Node together(GetParam().rule);
    std::array<KeyBytes, keys> bytes;
    for (std::size_t key = 0; key < keys; ++key) {
      bytes[key].clear();
      bytes[key].add_text(name_of(key));
    }
    const bool is_calm = seed % 2 == 0;  // no clock is set, nobody late, and the store is there
    const std::uint64_t most = seed / 2 % 2 == 0 ? 100 : 4;  // of what a busy key asks for
    bool reached = true;
    Duration set{};  // by how much the wall clock has been
    for (int number = 0; number < length; ++number) {
      const Duration began = number * span;
      const auto clock = [&](Duration at) {
        const Instant now = EngineNode::at(at);
        return Instant{now.wall + set, now.monotonic};
      };
      // The controller comes so late to this span's end.
      if (!is_calm && chance(6)) number += static_cast<int>(random() % 24);
      const WallTime ends = clock((number + 1) * span).wall;
      for (int worker = 0; worker < 2; ++worker) {
        std::vector<SpanCount> counts;
        for (std::size_t key = 0; key < keys; ++key) {
          if (chance(key % 5 == 0 ? 80 : 40)) continue;
          Duration at = began;
          if (chance(5)) at -= static_cast<std::int64_t>(random() % 14) * span;  // a straggler's
          if (chance(6)) at += span;                                             // a worker's who is early
          // Some keys stay light in most intervals.
          const std::uint64_t admitted = chance(key % 3 == 0 ? 95 : 80) ? 1 : random() % (most + 1);
          const bool refused = chance(4);
          counts.push_back({.rule = rule_of_key(key),
                            .key = hash_of(key),
                            .key_bytes = bytes[key].bytes(),
                            .began = clock(at).wall,
                            .counted_by = ends,
                            .offered = admitted + (refused ? random() % 3 : 0),
                            .admitted = admitted,
                            .refused_at = refused && chance(50) ? clock(at).monotonic : never});
        }
        std::ranges::shuffle(counts, random);
        for (const SpanCount& count : counts) one_by_one.engine.count(count);
        for (std::size_t i = 0; i < counts.size();) {
          const std::size_t some = std::min<std::size_t>(1 + random() % 100, counts.size() - i);
          together.engine.count(std::span(counts).subspan(i, some));
          i += some;
        }
      }
      if (!is_calm && chance(8)) set += static_cast<std::int64_t>(random() % 30) * span - 15 * span;
      const Duration ended = (number + 1) * span;
      const Instant now = clock(ended);
      ASSERT_EQ(together.known(now), one_by_one.known(now)) << "before span " << number << " ends";
      ASSERT_EQ(together.end_span(now), one_by_one.end_span(now)) << "span " << number;
      // Others have counted as well; and there is another node from some moment on, or was.
      const bool others = chance(60);
      const std::string name = "login|" + name_of(random() % keys / 4 * 4);
      const std::uint64_t theirs = chance(80) ? 1 : random() % 1000;
      const std::uint64_t nodes = seed / 2 % 2 + (number / 7) % 3;
      if (!is_calm && chance(5)) reached = !reached;
      for (Node* const node : {&one_by_one, &together}) {
        const Ordinal running = node->engine.clock(0).ordinal(now.wall);
        if (others) node->counters[{name, running}] += theirs;
        for (Ordinal beat = running; beat < running + 2; ++beat)
          node->counters.try_emplace({"~nodes", beat}, nodes);
        if (reached)
          node->sync(node->counters, ended + 5ms);
        else
          node->engine.sync_result(false, now);
      }
      ASSERT_EQ(together.known(now), one_by_one.known(now)) << "after span " << number;
      ASSERT_EQ(together.engine.has_strays(0, now.wall), one_by_one.engine.has_strays(0, now.wall));
      if (!together.engine.has_light_keys(0)) continue;
      KeyFilter of_one, of_all;
      one_by_one.engine.copy_light_keys(0, now.wall, of_one);
      together.engine.copy_light_keys(0, now.wall, of_all);
      for (std::size_t key = 0; key < keys; ++key) {
        const auto low = static_cast<std::uint32_t>(hash_of(key));
        ASSERT_EQ(of_all.may_hold(low), of_one.may_hold(low)) << "key " << key << ", span " << number;
      }
    }
  }
}

struct Aside {
  std::string name;
  Rule rule;
  Duration margin = span;  ///< before their blocks end keys are taken back
};
std::vector<Aside> rules_that_block() {
  std::vector<Aside> rules;
  const auto add = [&](const std::string& name, const auto& change) {
    Rule rule = rule_of(30);
    rule.cooldown = 2s;
    rule.dephase = 1s;
    rule.hold_back = 0.4;
    change(rule);
    rules.push_back({name, rule});
  };
  add("cooldown", [](Rule&) {});
  add("that_penalizes", [](Rule& rule) { rule.penalize = true; });
  add("per_span", [](Rule& rule) { rule.local_rule = LocalRule::per_span; });
  add("with_debt", [](Rule& rule) { rule.debt = true; });
  add("that_tells_all", [](Rule& rule) { rule.hold_back = 0; });
  add("whose_blocks_end_in_a_span_that_has_begun", [](Rule&) {});
  rules.back().margin = span / 2;
  return rules;
}

class KeysSetAside : public ::testing::TestWithParam<Aside> {};

INSTANTIATE_TEST_SUITE_P(Rules, KeysSetAside, ::testing::ValuesIn(rules_that_block()),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(KeysSetAside, AreCountedAsIfTheyWereNot) {
  const std::uint64_t first_seed = test_seed();
  std::size_t set_aside = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto chance = [&](unsigned percent) { return random() % 100 < percent; };
    Node usual(GetParam().rule);
    Node aside(GetParam().rule);
    aside.engine.take_back_in_time(GetParam().margin);
    std::map<SlotIndex, MonotonicTime> until;  // of those that are aside
    bool reached = true;
    Duration set{};
    for (int number = 0; number < length; ++number) {
      const Duration began = number * span;
      const auto clock = [&](Duration at) {
        const Instant now = EngineNode::at(at);
        return Instant{now.wall + set, now.monotonic};
      };
      const MonotonicTime soon = clock(began + GetParam().margin).monotonic;
      std::erase_if(until, [&](const auto& one) {
        if (one.second > soon) return false;
        aside.engine.take_back(one.first);
        return true;
      });
      for (std::size_t i = 0; i < 3 * keys; ++i) {
        const std::string name = name_of(random() % (keys / 2));
        KeyBytes bytes;
        bytes.clear();
        bytes.add_text(name);
        Duration at = began;
        if (chance(5)) at -= static_cast<std::int64_t>(random() % 14) * span;
        if (chance(3)) at += span;
        const bool refused = chance(70);
        // Some worker may admit what others know to be blocked.
        const std::uint64_t admitted = refused && chance(90) ? 0 : random() % 4;
        const SpanCount count{.rule = 0,
                              .key = EngineNode::key_of(name),
                              .key_bytes = bytes.bytes(),
                              .began = clock(at).wall,
                              .offered = admitted + (refused ? random() % 5 : 0),
                              .admitted = admitted,
                              .refused_at = refused && chance(3) ? clock(at).monotonic : never};
        usual.engine.count(std::span(&count, 1));
        aside.engine.count(std::span(&count, 1));
      }
      if (seed % 2 != 0 && chance(5)) set += static_cast<std::int64_t>(random() % 30) * span - 15 * span;
      const Instant now = clock(began + span);
      ASSERT_EQ(aside.end_span(now), usual.end_span(now)) << "span " << number;
      ASSERT_TRUE(std::ranges::equal(aside.engine.pardoned(), usual.engine.pardoned())) << "span " << number;
      if (seed % 3 == 0 && chance(5)) reached = !reached;
      const bool others = chance(30);
      const std::string name = "login|" + name_of(random() % (keys / 2));
      for (Node* const node : {&usual, &aside}) {
        if (others) node->counters[{name, node->engine.clock(0).ordinal(now.wall)}] += 10;
        if (reached)
          node->sync(node->counters, began + span + 5ms);
        else
          node->engine.sync_result(false, now);
      }
      ASSERT_EQ(aside.known(now, false), usual.known(now, false)) << "after span " << number;
      aside.engine.for_each_override(now, [&](const KeyOverride& key) {
        if (key.blocked_until < clock(began + 5 * span).monotonic) return;
        aside.engine.set_aside(key.slot);
        until[key.slot] = key.blocked_until;
        ++set_aside;
      });
    }
  }
  EXPECT_GT(set_aside, 500U);
}

}  // namespace
}  // namespace weir::testing
