// SPDX-License-Identifier: BSD-3-Clause
// What a node keeps back of light keys (algorithm.md §7), when it is written after all, and what that saves.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine_fixture.h"

namespace weir::testing {
namespace {

constexpr Ordinal first_ordinal = 1000;

Rule light_rule(std::uint64_t limit = 1000, double hold_back = 0.01) {
  Rule rule = rule_of(limit);
  rule.hold_back = hold_back;
  return rule;
}

/// A node that has counted the nodes of its cluster; its next span begins at `now`.
class CountedNode : public EngineNode {
 public:
  explicit CountedNode(const Rule& rule, std::uint64_t others = 0, std::uint32_t keys = 1024)
      : EngineNode(std::vector<Rule>{rule}, keys) {
    for (now = 100ms; now <= 3s; now += 100ms) {
      for (Ordinal second = first_ordinal - 1; second < first_ordinal + 4; ++second)
        counters.try_emplace({"~nodes", second}, others);
      step(now);
      sync(counters, now);
    }
    now = 3s;
    written.clear();
  }

  /// Ends the span that runs; what is written of keys shows in `written`.
  void end_span() {
    now += 100ms;
    step(now);
    note();
    sync(counters, now + 5ms);
  }
  /// The same, with the answers to some of what is asked before all others, and learned from apart.
  template <typename Is>
  void end_span(const Is& is_first) {
    now += 100ms;
    step(now);
    note();
    answer(is_first);
    sync(counters, now + 6ms);
  }
  template <typename Is>
  void answer(const Is& is_first) {
    std::vector<Pending> later;
    std::ranges::partition_copy(std::exchange(pending, {}), std::back_inserter(pending),
                                std::back_inserter(later), is_first);
    sync(counters, now + 5ms);
    pending = later;
  }
  void end_all() {
    engine.step(at(now), true);
    engine.for_each_write([&](const EngineWrite& write) {
      pending.push_back({write.key, write.use, std::string(write.name), write.ordinal, write.delta,
                         write.returned, write.raised_to});
    });
    engine.clear_writes();
    note();
    sync(counters, now + 5ms);
  }
  void note() {
    for (const Pending& write : pending)
      if (write.use != CounterUse::members) written.push_back(write);
  }
  /// Of one counter's count, over all writes.
  std::uint64_t sum(Ordinal ordinal, const std::string& value = "a") const {
    std::uint64_t sum = 0;
    for (const Pending& write : written)
      if (write.name == "login|" + value && write.ordinal == ordinal) sum += write.delta;
    return sum;
  }
  std::uint64_t stored(Ordinal ordinal, const std::string& value = "a") const {
    const auto found = counters.find({"login|" + value, ordinal});
    return found == counters.end() ? 0 : found->second;
  }

  Counters counters;
  std::vector<Pending> written;
  Duration now{};
};

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
};
Known known_of(const EngineNode& node) {
  Known known;
  node.engine.for_each_key([&](const KeyView& key) {
    if (key.slot.key != EngineNode::key_of()) return;
    known.detail = key.slot.detail != no_index;
    const SharedCount& before = key.detail.counted[1];
    known.acknowledged = known.detail ? before.acknowledged : key.past.alone[1];
    known.others = before.others();
  });
  return known;
}

/// Two nodes keep back the key's count of an interval; the other one has told of it first.
void count_on_both(CountedNode& node, std::uint64_t others) {
  const Ordinal ordinal = first_ordinal + node.now / 1s;
  for (int span = 0; span < 10; ++span) {
    if (span < 3) node.count(node.now, 1);
    node.end_span();
  }
  node.counters[{"login|a", ordinal}] += others;
}

class HoldBackOf : public ::testing::TestWithParam<Algorithm> {
 protected:
  static Rule rule() {
    Rule rule = light_rule();
    rule.algorithm = GetParam();
    return rule;
  }
};

INSTANTIATE_TEST_SUITE_P(Algorithms, HoldBackOf,
                         ::testing::Values(Algorithm::cooldown, Algorithm::fixed_window,
                                           Algorithm::sliding_window, Algorithm::token_bucket,
                                           Algorithm::shed),
                         [](const auto& one) {
                           std::string name(to_string(one.param));
                           std::erase(name, '-');
                           return name;
                         });

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

/// As a store may that has many writes waiting: those to one counter as one, of the last one's use.
void merge(std::vector<EngineNode::Pending>& writes) {
  std::vector<EngineNode::Pending> merged;
  for (const EngineNode::Pending& write : writes) {
    const auto same = std::ranges::find_if(merged, [&](const EngineNode::Pending& other) {
      return other.name == write.name && other.ordinal == write.ordinal;
    });
    if (same == merged.end()) {
      merged.push_back(write);
    } else {
      same->delta += write.delta;
      same->use = write.use;
    }
  }
  writes = merged;
}

TEST_P(HoldBackOf, AKeyThatGrowsHeavyHereIsNotTakenForOneThatGrowsElsewhereToo) {
  // Before and after what was kept back of the interval before is written, and as it is.
  for (const bool is_merged : {false, true})
    for (int grows_in = 0; grows_in < 10; ++grows_in) {
      CountedNode node(rule(), 1);
      count_on_both(node, 450);
      for (int span = 0; span < 10; ++span) {
        node.counters[{"login|a", first_ordinal + 4}] += 45;  // as before
        if (span >= grows_in) node.count(node.now, 20);
        node.now += 100ms;
        node.step(node.now);
        if (is_merged) merge(node.pending);
        node.sync(node.counters, node.now + 5ms);
        node.engine.for_each_key([&](const KeyView& key) {
          EXPECT_FALSE(key.detail.demand.exceeds(rule().limit))
              << is_merged << ' ' << grows_in << ' ' << span;
        });
        if (GetParam() == Algorithm::sliding_window && span == grows_in) {
          EXPECT_NEAR(static_cast<double>(node.state(node.now).allowance), 1000 - 405 - 20, 50)
              << is_merged << ' ' << grows_in;
        }
      }
    }
}

/// What a node takes a key's demand to be.
const DemandEstimate& demand_of(const EngineNode& node, const std::string& value = "a") {
  const DemandEstimate* demand = nullptr;
  node.engine.for_each_key([&](const KeyView& key) {
    if (key.slot.key == EngineNode::key_of(value)) demand = &key.detail.demand;
  });
  return *demand;
}

TEST_P(HoldBackOf, WhatAnIntervalCameToIsItsDemandHoweverLateItIsHeard) {
  for (const std::uint32_t spans : {2U, 10U}) {
    Rule rule = HoldBackOf::rule();
    rule.spans = spans;
    const double length = 1.0 / spans;  // of a span, in intervals
    for (const bool is_told_of_next : {false, true}) {
      CountedNode node(rule, 1);
      const auto end_span = [&] {
        node.now += 1000ms / spans - 100ms;
        node.end_span();
      };
      node.count(node.now, 20);  // told of; and nobody else has counted anything
      for (std::uint32_t span = 0; span < spans; ++span) end_span();
      node.counters[{"login|a", first_ordinal + 3}] += 400;
      // With the answer to what has been counted since, or without it.
      node.count(node.now, is_told_of_next ? 20 : 1);
      node.counters[{"login|a", first_ordinal + 4}] += is_told_of_next ? 30 : 0;
      end_span();
      const double heard = is_told_of_next ? (20 + 400 + 20 + 30) / (1 + length) : 20 + 400;
      EXPECT_DOUBLE_EQ(demand_of(node).per_interval(), heard) << spans << is_told_of_next;
      if (is_told_of_next) continue;
      if (GetParam() == Algorithm::sliding_window && spans == 2) {
        EXPECT_EQ(node.state(node.now).allowance, 1000 - 1) << "what others counted has left the window";
      }
      node.count(node.now, 20);
      node.counters[{"login|a", first_ordinal + 4}] += 30;
      end_span();
      EXPECT_DOUBLE_EQ(demand_of(node).per_interval(),
                       spans == 2 ? 1 + 20 + 30 : (20 + 400) * (1 - 2 * length) + 1 + 20 + 30);
    }
  }
}

TEST_P(HoldBackOf, AnAnswerThatComesAfterThatOfTheNextIntervalTellsOfItsOwn) {
  CountedNode node(rule(), 1);
  node.count(node.now, 300);
  std::vector<EngineNode::Pending> late;
  for (int span = 0; span < 10; ++span) {
    node.now += 100ms;
    node.step(node.now);
    std::ranges::copy_if(node.pending, std::back_inserter(late), [](const EngineNode::Pending& write) {
      return write.use == CounterUse::counted && write.ordinal == first_ordinal + 3;
    });
    std::erase_if(node.pending, [](const auto& write) { return write.use == CounterUse::counted; });
    node.sync(node.counters, node.now + 5ms);
  }
  node.counters[{"login|a", first_ordinal + 3}] = 300;
  node.counters[{"login|a", first_ordinal + 4}] = 30;
  node.count(node.now, 30);
  node.now += 100ms;
  node.step(node.now);
  std::erase_if(node.pending, [](const auto& write) { return write.ordinal == first_ordinal + 3; });
  node.sync(node.counters, node.now + 5ms);
  EXPECT_NEAR(demand_of(node).per_interval(), 600, 1e-9) << "so far of one span";
  ASSERT_FALSE(late.empty());
  node.pending = late;
  node.sync(node.counters, node.now + 10ms);
  EXPECT_NEAR(demand_of(node).per_interval(), 600, 1e-9) << "of eleven";
  EXPECT_NEAR(demand_of(node).share(), 0.5, 1e-9);
  node.counters[{"login|a", first_ordinal + 4}] += 30;
  node.count(node.now, 30);
  node.end_span();
  EXPECT_NEAR(demand_of(node).per_interval(), 600 * 0.9 + 60, 1e-9);
  EXPECT_NEAR(demand_of(node).share(), 0.5, 1e-9);
}

TEST_P(HoldBackOf, ItDoesNotMatterWhichAnswersComeFirst) {
  using Pending = EngineNode::Pending;
  using Is = bool (*)(const Pending&);
  const std::vector<std::pair<const char*, Is>> orders{
      {"all together", [](const Pending&) { return true; }},
      {"what others refused", [](const Pending& write) { return write.use == CounterUse::refused; }},
      {"what others admitted", [](const Pending& write) { return write.use == CounterUse::counted; }},
      {"what is read", [](const Pending& write) { return write.delta == 0; }},
      {"what is told", [](const Pending& write) { return write.delta > 0; }},
      {"the interval that runs", [](const Pending& write) { return write.ordinal % 2 == 0; }},
      {"the interval that is over", [](const Pending& write) { return write.ordinal % 2 == 1; }},
  };
  for (const auto& [first, is_first] : orders) {
    CountedNode node(rule(), 1);
    std::uint64_t others = 0;
    for (int span = 0; span < 60; ++span) {
      // Two thirds are offered elsewhere, and half of all is refused.
      const Ordinal ordinal = first_ordinal + 3 + span / 10;
      others += 100;
      node.counters[{"login|a", ordinal}] += 100;
      node.counters[{"login|a|~refused", ordinal}] += 100;
      node.count(node.now, 100, 50, GetParam() == Algorithm::cooldown ? never : node.at(node.now).monotonic);
      node.end_span(is_first);
      if (span < 10) continue;
      EXPECT_NEAR(demand_of(node).share(), 1.0 / 3, 0.1) << first << ' ' << span;
      if (GetParam() != Algorithm::cooldown) {
        EXPECT_NEAR(demand_of(node).per_interval(), 3000, 600) << first << ' ' << span;
      }
    }
  }
}

/// Equal nodes under a fixed window, each of which admits what its allowance lets it. In each span all of
/// them tell, then all are answered; some answers come first, and are learned from apart.
class EqualNodes {
 public:
  EqualNodes(std::size_t count, std::uint64_t demand) : demand_(demand) {
    Rule rule = rule_of(limit);
    rule.algorithm = Algorithm::fixed_window;
    for (std::size_t i = 0; i < count; ++i) nodes_.emplace_back(rule);
    used_.resize(count);
  }
  /// @return admitted in each of so many intervals
  template <typename Is>
  std::vector<std::uint64_t> run(int intervals, const Is& is_first) {
    std::vector<std::uint64_t> admitted(static_cast<std::size_t>(intervals));
    for (int span = 0; span < intervals * 10; ++span) {
      if (span % 10 == 0) std::ranges::fill(used_, 0);
      for (std::size_t i = 0; i < nodes_.size(); ++i)
        admitted[static_cast<std::size_t>(span / 10)] += count(i, span * 100ms);
      for (EngineNode& node : nodes_) node.step((span + 1) * 100ms);
      tell();
      for (EngineNode& node : nodes_) answer(node, (span + 1) * 100ms, is_first);
    }
    return admitted;
  }

  static constexpr std::uint64_t limit = 1000;

 private:
  std::uint64_t count(std::size_t i, Duration now) {
    // So many in a span on all of them.
    offered_ += demand_ / 10;
    const std::uint64_t offered = offered_ / nodes_.size();
    offered_ -= i + 1 == nodes_.size() ? offered * nodes_.size() : demand_ / 10;
    const std::uint64_t allowance = nodes_[i].state(now).allowance;
    const std::uint64_t admitted = std::min(offered, allowance - std::min(allowance, used_[i]));
    used_[i] += admitted;
    nodes_[i].count(now, offered, admitted, admitted < offered ? EngineNode::at(now).monotonic : never);
    return admitted;
  }
  void tell() {
    for (EngineNode& node : nodes_)
      for (const EngineNode::Pending& write : node.pending)
        counters_[{write.name, write.ordinal}] += write.delta;
  }
  template <typename Is>
  void answer(EngineNode& node, Duration now, const Is& is_first) {
    for (const bool first : {true, false}) {
      for (const EngineNode::Pending& write : node.pending)
        if (is_first(write) == first)
          node.engine.reply({.key = write.key,
                             .use = write.use,
                             .ordinal = write.ordinal,
                             .delta = write.delta,
                             .total = counters_[{write.name, write.ordinal}]},
                            EngineNode::at(now + 5ms));
      node.engine.learn();
    }
    node.pending.clear();
    node.engine.sync_result(true, EngineNode::at(now + 5ms));
  }

  std::uint64_t demand_;
  std::uint64_t offered_ = 0;
  std::vector<EngineNode> nodes_;
  std::vector<std::uint64_t> used_;
  Counters counters_;
};

TEST(HoldBack, NodesAdmitTheLimitWhicheverAnswersComeFirst) {
  using Pending = EngineNode::Pending;
  using Is = bool (*)(const Pending&);
  const std::vector<std::pair<const char*, Is>> orders{
      {"all together", [](const Pending&) { return true; }},
      {"what others refused", [](const Pending& write) { return write.use == CounterUse::refused; }},
      {"what others admitted", [](const Pending& write) { return write.use == CounterUse::counted; }},
  };
  for (const auto& [first, is_first] : orders)
    for (const std::size_t nodes : {2U, 3U, 10U})
      for (const std::uint64_t demand : {1500U, 2000U, 4000U}) {
        const std::vector<std::uint64_t> admitted = EqualNodes(nodes, demand).run(20, is_first);
        for (std::size_t interval = 5; interval < admitted.size(); ++interval) {
          EXPECT_NEAR(static_cast<double>(admitted[interval]), 1000, 50)
              << first << ' ' << nodes << ' ' << demand << ' ' << interval;
        }
      }
}

TEST_P(HoldBackOf, WhatOthersRefusedWhileNothingElseWasHeardIsNotHeardAtOnce) {
  CountedNode node(rule(), 1);
  const auto end_span = [&](bool is_reached) {
    const Ordinal ordinal = first_ordinal + node.now / 1s;
    node.counters[{"login|a", ordinal}] += 50;
    node.counters[{"login|a|~refused", ordinal}] += 50;
    node.count(node.now, 100, 50, GetParam() == Algorithm::cooldown ? never : node.at(node.now).monotonic);
    node.now += 100ms;
    node.step(node.now);
    std::vector<EngineNode::Pending> later;
    const auto is_away = [&](const EngineNode::Pending& write) {
      return !is_reached && write.use == CounterUse::counted;
    };
    std::ranges::copy_if(node.pending, std::back_inserter(later), is_away);
    std::erase_if(node.pending, is_away);
    node.sync(node.counters, node.now + 5ms);
    node.pending = later;
  };
  for (int span = 0; span < 20; ++span) end_span(true);
  for (int span = 0; span < 100; ++span) end_span(false);
  for (int span = 0; span < 3; ++span) {
    end_span(true);
    EXPECT_LT(demand_of(node).per_interval(), 2500) << span;
    EXPECT_GT(demand_of(node).share(), 0.3) << span;
  }
}

TEST_P(HoldBackOf, TheRestOfAnIntervalThatWasToldOfIsLearnedWithItsSum) {
  // For each key the turn comes in another span to tell of what was kept back, also before the sum is read.
  for (const char* value : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"}) {
    CountedNode node(rule(), 1);
    for (int span = 0; span < 20; ++span) {
      if (span > 0 && span < 10) node.counters[{"login|" + std::string(value), first_ordinal + 3}] += 45;
      if (span == 0) node.count(node.now, 20, 20, never, value);
      if (span == 5 || span == 10) node.count(node.now, 1, 1, never, value);
      node.end_span([](const EngineNode::Pending& write) { return write.use == CounterUse::held; });
    }
    EXPECT_NEAR(demand_of(node, value).per_interval(), 20 + 9 * 45, 5) << value;
  }
}

TEST_P(HoldBackOf, WhatGrowsHeavyAfterTheNodesKeepLessIsLearnedToTheEnd) {
  Rule rule = HoldBackOf::rule();
  rule.interval = 4s;
  rule.spans = 40;
  CountedNode node(rule, 1);
  while (node.now < 4s) node.end_span();
  node.count(node.now, 3);
  for (Ordinal second = 1003; second < 1010; ++second) node.counters[{"~nodes", second}] = 4;
  node.counters[{"login|a", 251}] = 4;
  while (node.now < 6s) node.end_span();
  ASSERT_EQ(node.stored(251), 4U + 3U) << "told of, for more nodes may keep less each";
  node.count(node.now, 100);
  node.end_span();
  while (node.now < 8s) node.end_span();
  node.counters[{"login|a", 251}] += 300;
  node.count(node.now, 1);
  node.end_span();
  EXPECT_NEAR(demand_of(node).per_interval(), 103 + 300 + 4, 15);
}

TEST_P(HoldBackOf, WhatWasLightForHoweverLongIsNoDemandOfTheSpanInWhichItGrowsHeavy) {
  for (const int intervals : {1, 20, 60}) {
    CountedNode node(rule(), 1);
    for (int interval = 0; interval < intervals; ++interval) {
      node.counters[{"login|a", first_ordinal + 3 + interval}] += 40;
      for (int span = 0; span < 10; ++span) {
        if (span % 2 == 0) node.count(node.now, 1);
        node.end_span();
      }
    }
    for (int span = 0; span < 10; ++span) {
      node.counters[{"login|a", first_ordinal + 3 + intervals}] += 45;
      node.count(node.now, 20);
      node.end_span();
      EXPECT_NEAR(demand_of(node).per_interval(), 650, 60) << intervals << ' ' << span;
    }
  }
}

TEST_P(HoldBackOf, AReadingSaysNothingOfTheSpanInWhichItIsAnswered) {
  // Told of in the interval's last span; and what has been counted since is answered apart, or kept back.
  for (const std::uint64_t each : {20U, 1U}) {
    CountedNode node(rule(), 1);
    for (int span = 0; span < 11; ++span) {
      node.counters[{"login|a", first_ordinal + 3 + span / 10}] += 45;
      if (each == 1 && span == 10) node.counters[{"login|a", first_ordinal + 3}] += 90;
      node.count(node.now, span < 10 ? 20 : each);
      node.end_span([](const EngineNode::Pending& write) { return write.ordinal == first_ordinal + 3; });
      if (each > 1 || span < 10) {
        EXPECT_NEAR(demand_of(node).share(), 20.0 / 65, 0.1) << each << ' ' << span;
        EXPECT_NEAR(demand_of(node).per_interval(), 650, 1e-9) << each << ' ' << span;
      }
    }
    // A key that is told of no more may be asked for no more: what others told late is learned now.
    if (each == 1) {
      EXPECT_NEAR(demand_of(node).per_interval(), 650 * 0.9 + 1 + 90, 1e-9);
    }
  }
}

TEST_P(HoldBackOf, WhatIsAddedToAnIntervalThatWasLightSaysNothingOfTheDemand) {
  CountedNode node(rule(), 1);
  const auto end_interval = [&](std::uint64_t own, std::uint64_t others) {
    for (int span = 0; span < 10; ++span) {
      node.counters[{"login|a", first_ordinal + node.now / 1s}] += others;
      node.count(node.now, own);
      node.end_span();
    }
  };
  end_interval(20, 45);
  const Duration light = node.now;
  node.count(node.now, 1);
  node.counters[{"login|a", first_ordinal + 4}] += 450;
  for (int span = 0; span < 10; ++span) node.end_span();
  for (int span = 0; span < 9; ++span) {
    node.counters[{"login|a", first_ordinal + 5}] += 45;
    if (span == 8) node.count(light, 5);
    node.count(node.now, span < 8 ? 1 : 20);
    node.end_span();
    EXPECT_GT(demand_of(node).per_interval(), 300) << span;
    EXPECT_LT(demand_of(node).per_interval(), 700) << span;
  }
}

TEST(HoldBack, WhatABucketIsChargedDoesNotDependOnWhichAnswerComesFirst) {
  std::vector<double> charges;
  for (const bool before_first : {true, false}) {
    Rule rule = light_rule();
    rule.algorithm = Algorithm::token_bucket;
    CountedNode node(rule, 1);
    count_on_both(node, 450);
    double& charged = charges.emplace_back();
    for (int span = 0; span < 5; ++span) {
      node.counters[{"login|a", first_ordinal + 4}] += 45;
      if (span > 1) node.count(node.now, 20);
      node.end_span([&](const EngineNode::Pending& write) {
        return (write.ordinal < first_ordinal + 4) == before_first;
      });
      for (const BucketCharge& charge : node.engine.charges()) charged += static_cast<double>(charge.tokens);
      node.engine.clear_charges();
    }
  }
  EXPECT_EQ(charges[0], charges[1]);
}

TEST_P(HoldBackOf, AQuestionAskedInAnIntervalsFirstSpanSaysNothingOfTheDemandBefore) {
  CountedNode node(rule(), 1);
  node.count(node.now, 20);
  node.step(node.now + 50ms);
  ASSERT_TRUE(std::ranges::any_of(node.pending, [](const EngineNode::Pending& write) {
    return write.use == CounterUse::counted && write.ordinal == first_ordinal + 3 && write.delta == 0;
  }));
  node.sync(node.counters, node.now + 55ms);
  node.counters[{"login|a", first_ordinal + 3}] += 45;
  node.end_span();
  EXPECT_DOUBLE_EQ(demand_of(node).per_interval(), 650);
}

TEST_P(HoldBackOf, AClockThatIsSetChangesTheDemandByWhatIsOfferedInASpanAtMost) {
  for (const std::uint32_t spans : {2U, 10U})
    for (const Duration set : {-500ms, -430ms, -100ms, -70ms, 30ms, 100ms, 130ms, 500ms, 2300ms, 2370ms})
      for (int at = 20; at < 30; ++at) {
        Rule rule = HoldBackOf::rule();
        rule.spans = spans;
        CountedNode node(rule, 1);
        Duration by{};
        const double span = 650.0 / spans;
        for (int tenth = 0; tenth < 60; ++tenth) {
          if (tenth == at) by = set;
          node.counters[{"login|a", first_ordinal + (node.now + by) / 1s}] += 45;
          node.count(node.now + by, 20);
          node.now += 100ms;
          Instant now = EngineNode::at(node.now);
          now.wall += by;
          node.step(now);
          node.sync(node.counters, node.now + by);
          if (tenth > 10) {
            EXPECT_NEAR(demand_of(node).per_interval(), 650, span + 66)
                << spans << ' ' << set / 1ms << ' ' << at << ' ' << tenth;
          }
        }
      }
}

TEST_P(HoldBackOf, AStragglersCountTellsOfOthersInAllOfItsInterval) {
  for (const std::uint64_t each : {1U, 20U})  // held back, or told of
    for (int straggles_in = 0; straggles_in < 10; ++straggles_in) {
      CountedNode node(rule(), 1);
      const Duration before = node.now;
      count_on_both(node, 450);
      for (int span = 0; span < 20; ++span) {
        node.counters[{"login|a", first_ordinal + 4 + span / 10}] += 45;
        node.count(node.now, each);
        if (span == straggles_in) node.count(before, 2);
        node.end_span();
        EXPECT_FALSE(demand_of(node).exceeds(rule().limit)) << each << ' ' << straggles_in << ' ' << span;
        if (span > straggles_in && each > 1) {
          EXPECT_NEAR(demand_of(node).per_interval(), 650, 220) << straggles_in << ' ' << span;
        }
      }
    }
}

TEST_P(HoldBackOf, AStragglersCountOfAKeyThatIsKnownTellsOfTheDemand) {
  CountedNode node(rule(), 1);
  node.count(node.now, 20);
  while (node.now < 4s) node.end_span();
  const Duration before = node.now;
  count_on_both(node, 450);
  EXPECT_DOUBLE_EQ(demand_of(node).per_interval(), 20);
  node.count(node.now, 1);
  node.count(before, 2);
  node.end_span();
  EXPECT_DOUBLE_EQ(demand_of(node).per_interval(), 450 + 3 + 2);
}

TEST(HoldBack, AStragglersCountAndAQuestionTellOfOthersOnce) {
  for (const Algorithm algorithm : {Algorithm::sliding_window, Algorithm::token_bucket})
    for (const std::uint64_t others : {450U, 950U}) {
      Rule rule = light_rule();
      rule.algorithm = algorithm;
      std::vector<double> allowances, charges;
      for (const bool straggles : {false, true}) {
        CountedNode node(rule, 1);
        count_on_both(node, others);
        node.count(node.now, 1);
        if (straggles) node.count(node.now - 100ms, 2);
        for (int span = 0; span < 3; ++span) {
          if (span == 2) node.count(node.now, 20);
          node.end_span();
        }
        allowances.push_back(static_cast<double>(node.state(node.now).allowance));
        double& charged = charges.emplace_back();
        for (const BucketCharge& charge : node.engine.charges())
          charged += static_cast<double>(charge.tokens);
      }
      EXPECT_NEAR(allowances[0], allowances[1], 10) << to_string(algorithm) << others;
      EXPECT_EQ(charges[0], charges[1]) << to_string(algorithm) << others;
    }
}

TEST_P(HoldBackOf, AnAnswerThatIsLostIsNotMistakenForALaterOne) {
  // What is asked first, of the interval before, is answered to one of two nodes alone.
  const auto allowances = [](bool is_answered) {
    CountedNode node(rule(), 1);
    count_on_both(node, 450);
    std::vector<std::uint64_t> found;
    for (int span = 0; span < 20; ++span) {
      node.counters[{"login|a", first_ordinal + 4 + span / 10}] += 45;
      node.count(node.now, 20);
      node.now += 100ms;
      node.step(node.now);
      if (!is_answered && span < 5)
        std::erase_if(node.pending, [](const EngineNode::Pending& write) {
          return write.use == CounterUse::counted && write.ordinal == first_ordinal + 3 && write.delta == 0;
        });
      node.sync(node.counters, node.now + 5ms);
      if (span >= 10) found.push_back(node.state(node.now).allowance);
    }
    return found;
  };
  EXPECT_EQ(allowances(false), allowances(true));
}

TEST_P(HoldBackOf, WhatOthersCountedInTheIntervalThatRunsIsRememberedHoweverLittle) {
  Rule rule = HoldBackOf::rule();
  rule.interval = 4s;
  rule.spans = 40;
  CountedNode node(rule, 1);
  while (node.now < 4s) node.end_span();
  node.count(node.now, 3);
  // There are more nodes now, and each may keep less.
  for (Ordinal second = 1003; second < 1010; ++second) node.counters[{"~nodes", second}] = 4;
  node.counters[{"login|a", 251}] = 4;
  while (node.now < 6s) node.end_span();
  EXPECT_EQ(node.stored(251), 7U);
  EXPECT_TRUE(known_of(node).detail);
  // And forgotten when that is over, though both go on.
  for (Ordinal interval = 252; interval < 256; ++interval) {
    node.counters[{"login|a", interval}] = 2;
    for (int span = 0; span < 40; ++span) {
      if (span < 2) node.count(node.now, 1);
      node.end_span();
    }
  }
  // But for the seeds' nodes, which the interval that was told of has shown.
  EXPECT_EQ(known_of(node).detail, GetParam() == Algorithm::cooldown);
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
