// SPDX-License-Identifier: BSD-3-Clause
// What a node learns of a key's demand from the store's answers: whenever they come, and in whatever order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "counted_node.h"

namespace weir::testing {
namespace {

class LearningUnder : public ByAlgorithm {};

INSTANTIATE_TEST_SUITE_P(Algorithms, LearningUnder, algorithms_that_learn(), NameOfAlgorithm());

/// Of those whose demand is also what is refused.
class LearningByShares : public ByAlgorithm {};

INSTANTIATE_TEST_SUITE_P(Algorithms, LearningByShares,
                         ::testing::Values(Algorithm::fixed_window, Algorithm::sliding_window,
                                           Algorithm::token_bucket, Algorithm::shed),
                         NameOfAlgorithm());

/// As a store may that has many writes waiting: those to one counter as one, of the first use among theirs.
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
      same->use = std::min(same->use, write.use);
    }
  }
  writes = merged;
}

TEST_P(LearningUnder, AKeyThatGrowsHeavyHereIsNotTakenForOneThatGrowsElsewhereToo) {
  // Before and after what was kept back of the interval before is written, and as it is.
  for (const bool is_merged : {false, true})
    for (int grows_in = 0; grows_in < 10; ++grows_in) {
      CountedNode node(rule(), 1);
      count_on_both(node, 450);
      for (int span = 0; span < 10; ++span) {
        node.counters[{"login|a", first_ordinal + 4}] += 45;  // as before
        if (span >= grows_in) node.count(node.now, 20);
        node.end_span_unanswered();
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

TEST_P(LearningUnder, TheSumOfAnIntervalMayBeAnsweredWithTheRestThatWasKeptBackOfIt) {
  // One whose rest is told in the span in which the sum is asked for.
  std::string value = "a";
  while (EngineNode::key_of(value) % rule().spans != 0) value += 'a';
  std::array<double, 2> shares{};
  for (const bool is_merged : {false, true}) {
    CountedNode node(rule(), 1);
    for (int span = 0; span < 10; ++span) {
      node.count(node.now, span == 0 ? 20 : 0, span == 0 ? 20 : 0, never, value);
      if (span == 9) node.count(node.now, 3, 3, never, value);
      node.end_span();
    }
    // Too late for what was told before to tell of it.
    node.counters[{"login|" + value, first_ordinal + 3}] += 400;
    node.end_span_unanswered();
    EXPECT_EQ(
        std::ranges::count_if(node.pending,
                              [&](const EngineNode::Pending& write) { return write.name.ends_with(value); }),
        2);
    if (is_merged) merge(node.pending);
    node.sync(node.counters, node.now + 5ms);
    EXPECT_EQ(node.stored(first_ordinal + 3, value), 400U + 20 + 3);
    node.engine.for_each_key([&](const KeyView& key) {
      EXPECT_FALSE(key.detail.settling) << is_merged;
      EXPECT_EQ(key.detail.counted[key.slot.current.ordinal == first_ordinal + 3 ? 0 : 1].others(), 400U);
      shares[is_merged] = key.share();
    });
    if (GetParam() == Algorithm::cooldown) {
      EXPECT_EQ(node.nodes(value), (400.0 + 23) / 23) << is_merged;
    }
  }
  EXPECT_EQ(shares[0], shares[1]);
}

/// What a node takes a key's demand to be.
const DemandEstimate& demand_of(const EngineNode& node, const std::string& value = "a") {
  const DemandEstimate* demand = nullptr;
  node.engine.for_each_key([&](const KeyView& key) {
    if (key.slot.key == EngineNode::key_of(value)) demand = &key.detail.demand;
  });
  return *demand;
}

TEST_P(LearningUnder, WhatAnIntervalCameToIsItsDemandHoweverLateItIsHeard) {
  for (const std::uint32_t spans : {2U, 10U}) {
    Rule rule = ByAlgorithm::rule();
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

TEST_P(LearningUnder, WhatIsFirstHeardOfOthersIsLearnedWithAllThatWasCountedHereInTheInterval) {
  for (const int alone_for : {0, 10}) {
    CountedNode node(rule(), 0);
    for (int span = 0; span < alone_for + 6; ++span) {
      if (span == alone_for + 5) node.counters[{"login|a", first_ordinal + 3 + alone_for / 10}] += 50;
      node.count(node.now, 20);
      node.end_span();
    }
    EXPECT_NEAR(demand_of(node).per_interval(), (6 * 20 + 50) * 10 / 6, 40) << alone_for;
  }
}

TEST_P(LearningUnder, WhatWasCountedHereIsLearnedWithItsIntervalWhereNobodyElseWasHeardInIt) {
  CountedNode node(rule(), 0);
  for (int span = 0; span < 12; ++span) {
    if (span == 10) node.counters[{"login|a", first_ordinal + 3}] += 400;
    node.count(node.now, 20);
    node.end_span();
  }
  EXPECT_NEAR(demand_of(node).per_interval(), (12 * 20 + 400) * 10 / 12, 70);
}

TEST_P(LearningUnder, AKeyThatIsFarFromItsLimitAgainIsLearnedFromTheIntervalsBeginning) {
  CountedNode node(rule(), 0);
  for (int key = 0; key < 5; ++key) node.count(node.now, 1, 1, never, "before " + std::to_string(key));
  node.count(node.now, 60);
  for (int key = 0; key < 5; ++key) node.count(node.now, 1, 1, never, "after " + std::to_string(key));
  for (int span = 1; span < 29; ++span) {
    node.end_span();
    if (span == 28) node.counters[{"login|a", first_ordinal + 5}] += 50;
    node.count(node.now, span < 10 ? 60 : 20);
  }
  node.end_span();
  EXPECT_NEAR(demand_of(node).per_interval(), (9 * 20 + 50) * 10 / 9, 40);
}

TEST_P(LearningUnder, TheFirstOfAnIntervalIsLearnedWithTheLateRestOfTheOneBefore) {
  CountedNode node(rule(), 1);
  for (int span = 0; span < 11; ++span) {
    if (span < 10) node.counters[{"login|a", first_ordinal + 3}] += 45;
    node.count(node.now, 20);
    if (span < 7) {
      node.end_span();
    } else {
      node.end_span_unanswered();
    }
  }
  // This node is the first to tell of the interval that runs.
  node.answer([](const EngineNode::Pending& write) { return write.ordinal == first_ordinal + 3; });
  EXPECT_NEAR(demand_of(node).share(), 20.0 / 65, 0.05);
  node.sync(node.counters, node.now + 6ms);
  EXPECT_NEAR(demand_of(node).share(), 80.0 / (80 + 3 * 45), 0.05);
}

TEST_P(LearningUnder, WhatIsHeardAfterAnOutageIsOfAllItsSpansAlsoWhereItsIntervalsAreAnsweredApart) {
  CountedNode node(rule(), 1);
  for (int span = 0; span < 15; ++span) {
    node.counters[{"login|a", first_ordinal + 3 + span / 10}] += 45;
    node.count(node.now, 45);
    if (span < 3) {
      node.end_span();
    } else {
      node.end_span_unanswered();
    }
  }
  node.answer([](const EngineNode::Pending& write) { return write.ordinal == first_ordinal + 3; });
  node.sync(node.counters, node.now + 6ms);
  EXPECT_NEAR(demand_of(node).per_interval(), 900, 50);
  EXPECT_NEAR(demand_of(node).share(), 0.5, 0.05);
}

TEST(Learning, WhatOthersCountedInAnIntervalLeavesTheWindowWithItsLastSpanThoughItIsReadApart) {
  Rule rule = light_rule();
  rule.algorithm = Algorithm::sliding_window;
  CountedNode node(rule, 1);
  for (int span = 0; span < 10; ++span) {
    node.count(node.now, 20);
    node.end_span();
  }
  node.counters[{"login|a", first_ordinal + 3}] += 400;
  node.count(node.now, 20);
  node.end_span([](const EngineNode::Pending& write) { return write.ordinal == first_ordinal + 3; });
  EXPECT_EQ(node.state(node.now).allowance, 1000 - 400 - 9 * 20);
  while (node.now < 4900ms) node.end_span();
  EXPECT_EQ(node.state(node.now).allowance, 1000 - 20);
}

TEST(Learning, WhatWasCountedHereAloneIsLearnedWithItsIntervalThoughOthersAreHeardInTheNextOneFirst) {
  for (const Algorithm algorithm :
       {Algorithm::cooldown, Algorithm::fixed_window, Algorithm::token_bucket, Algorithm::shed}) {
    Rule rule = light_rule();
    rule.algorithm = algorithm;
    CountedNode node(rule, 0);
    for (int span = 0; span < 10; ++span) {
      node.count(node.now, 40);
      node.end_span();
    }
    node.counters[{"login|a", first_ordinal + 3}] += 500;
    node.counters[{"login|a", first_ordinal + 4}] += 45;
    node.count(node.now, 20);
    node.end_span([](const EngineNode::Pending& write) { return write.ordinal == first_ordinal + 4; });
    EXPECT_NEAR(demand_of(node).share(), 400.0 / 900, 0.05) << to_string(algorithm);
  }
}

TEST_P(LearningUnder, AnAnswerThatComesAfterThatOfTheNextIntervalTellsOfItsOwn) {
  CountedNode node(rule(), 1);
  node.count(node.now, 300);
  std::vector<EngineNode::Pending> late;
  for (int span = 0; span < 10; ++span) {
    node.end_span_unanswered();
    std::ranges::copy_if(node.pending, std::back_inserter(late), [](const EngineNode::Pending& write) {
      return write.use == CounterUse::counted && write.ordinal == first_ordinal + 3;
    });
    std::erase_if(node.pending, [](const auto& write) { return write.use == CounterUse::counted; });
    node.sync(node.counters, node.now + 5ms);
  }
  node.counters[{"login|a", first_ordinal + 3}] = 300;
  node.counters[{"login|a", first_ordinal + 4}] = 30;
  node.count(node.now, 30);
  node.end_span_unanswered();
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

TEST_P(LearningUnder, ItDoesNotMatterWhichAnswersComeFirst) {
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
    for (int span = 0; span < 60; ++span) {
      // Two thirds are offered elsewhere, and half of all is refused.
      const Ordinal ordinal = first_ordinal + 3 + span / 10;
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
    const std::uint64_t in_span = demand_ / 10;
    const std::uint64_t offered = in_span * (i + 1) / nodes_.size() - in_span * i / nodes_.size();
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
  std::vector<EngineNode> nodes_;
  std::vector<std::uint64_t> used_;
  Counters counters_;
};

TEST(Learning, NodesAdmitTheLimitWhicheverAnswersComeFirst) {
  using Pending = EngineNode::Pending;
  using Is = bool (*)(const Pending&);
  const std::vector<std::pair<const char*, Is>> orders{
      {"all together", [](const Pending&) { return true; }},
      {"what others refused", [](const Pending& write) { return write.use == CounterUse::refused; }},
      {"what is read", [](const Pending& write) { return write.delta == 0; }},
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

TEST_P(LearningUnder, WhatOthersRefusedWhileNothingElseWasHeardIsNotHeardAtOnce) {
  CountedNode node(rule(), 1);
  const auto end_span = [&](bool is_reached) {
    const Ordinal ordinal = first_ordinal + node.now / 1s;
    node.counters[{"login|a", ordinal}] += 50;
    node.counters[{"login|a|~refused", ordinal}] += 50;
    node.count(node.now, 100, 50, GetParam() == Algorithm::cooldown ? never : node.at(node.now).monotonic);
    node.end_span_unanswered();
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

TEST_P(LearningByShares, ALoadThatMovesIsLearnedOfInTheSameSpanAlsoWhereWhatIsRefusedIsAnsweredLast) {
  CountedNode node(rule(), 1);
  const auto end_span = [&](std::uint64_t offered, std::uint64_t admitted, std::uint64_t others_refused) {
    const Ordinal ordinal = first_ordinal + node.now / 1s;
    node.counters[{"login|a", ordinal}] += admitted;
    node.counters[{"login|a|~refused", ordinal}] += others_refused;
    node.count(node.now, offered, admitted, node.at(node.now).monotonic);
    node.end_span([](const EngineNode::Pending& write) { return write.use == CounterUse::counted; });
  };
  for (int span = 0; span < 25; ++span) end_span(100, 50, 50);
  EXPECT_NEAR(demand_of(node).share(), 0.5, 0.05);
  end_span(200, 10, 0);
  EXPECT_GT(demand_of(node).share(), 0.8);
}

TEST_P(LearningByShares, ANodeThatRefusesAllThatComesBackToItLearnsOfItInTheSameSpan) {
  CountedNode node(rule(), 1);
  const auto end_spans = [&](int spans, std::uint64_t here, std::uint64_t admitted, std::uint64_t elsewhere) {
    for (int span = 0; span < spans; ++span) {
      const Ordinal ordinal = first_ordinal + node.now / 1s;
      if (elsewhere > 0) {
        node.counters[{"login|a", ordinal}] += 100;
        node.counters[{"login|a|~refused", ordinal}] += elsewhere - 100;
      }
      if (here > 0) node.count(node.now, here, admitted, node.at(node.now).monotonic);
      node.end_span();
    }
  };
  end_spans(20, 20, 10, 280);  // here little of it arrives
  end_spans(40, 0, 0, 280);    // and then nothing: it is no longer asked for
  end_spans(1, 300, 0, 0);     // all of it, and none elsewhere
  EXPECT_GT(demand_of(node).share(), 0.8);
}

/// For each the turn comes in another span to tell of what was kept back, for one before an interval's sum is
/// read.
std::vector<std::string> keys_for_each_turn() {
  std::map<std::uint64_t, std::string> keys;
  for (int number = 0; keys.size() < 10; ++number)
    keys.try_emplace(EngineNode::key_of(std::to_string(number)) % 10, std::to_string(number));
  std::vector<std::string> values;
  for (const auto& [turn, value] : keys) values.push_back(value);
  return values;
}

TEST_P(LearningUnder, TheRestOfAnIntervalThatWasToldOfIsLearnedWithItsSum) {
  for (const std::string& value : keys_for_each_turn()) {
    CountedNode node(rule(), 1);
    for (int span = 0; span < 20; ++span) {
      if (span > 0 && span < 10) node.counters[{"login|" + value, first_ordinal + 3}] += 45;
      if (span == 0) node.count(node.now, 20, 20, never, value);
      if (span == 5 || span == 10) node.count(node.now, 1, 1, never, value);
      node.end_span([](const EngineNode::Pending& write) { return write.use == CounterUse::held; });
    }
    EXPECT_NEAR(demand_of(node, value).per_interval(), 20 + 9 * 45, 5) << value;
  }
}

TEST_P(LearningUnder, WhatOthersToldLateOfALightKeyIsNoNewsWhenItGrowsHeavy) {
  for (const std::string& value : keys_for_each_turn()) {
    CountedNode node(rule(), 1);
    const auto end_intervals = [&](int count) {
      for (int span = 0; span < count * 10; ++span) {
        if (span % 10 == 5) node.count(node.now, 1, 1, never, value);
        if (node.now == 4300ms) node.counters[{"login|" + value, first_ordinal + 3}] += 500;
        node.end_span();
      }
    };
    node.count(node.now, 20, 20, never, value);
    end_intervals(12);  // not so long that all is forgotten
    double charged = 0;
    for (int span = 0; span < 5; ++span) {
      node.count(node.now, 20, 20, never, value);
      node.end_span();
      for (const BucketCharge& charge : node.engine.charges()) charged += static_cast<double>(charge.tokens);
      node.engine.clear_charges();
      EXPECT_NEAR(demand_of(node, value).per_interval(), 200, 200) << value << ' ' << span;
      EXPECT_GE(node.state(node.now, value).allowance, 1000 - 5 * 20 - 1) << value << ' ' << span;
    }
    EXPECT_EQ(charged, 0) << value;
  }
}

TEST_P(LearningUnder, WhatGrowsHeavyAfterTheNodesKeepLessIsLearnedToTheEnd) {
  CountedNode node = node_that_keeps_less(rule());
  node.count(node.now, 100);
  node.end_span();
  while (node.now < 8s) node.end_span();
  node.counters[{"login|a", 251}] += 300;
  node.count(node.now, 1);
  node.end_span();
  EXPECT_NEAR(demand_of(node).per_interval(), 103 + 300 + 4, 15);
}

TEST_P(LearningUnder, WhatWasLightForHoweverLongIsNoDemandOfTheSpanInWhichItGrowsHeavy) {
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

TEST_P(LearningUnder, AReadingSaysNothingOfTheSpanInWhichItIsAnswered) {
  // Told of in the interval's last span; and what has been counted since is answered apart, or kept back.
  for (const std::uint64_t each : {20U, 1U}) {
    CountedNode node(rule(), 1);
    for (int span = 0; span < 11; ++span) {
      node.counters[{"login|a", first_ordinal + 3 + span / 10}] += 45;
      if (each == 1 && span == 10) node.counters[{"login|a", first_ordinal + 3}] += 90;
      node.count(node.now, span < 10 ? 20 : each);
      node.end_span_unanswered();
      node.answer([](const EngineNode::Pending& write) { return write.ordinal == first_ordinal + 3; });
      if (each > 1 || span < 10) {
        EXPECT_NEAR(demand_of(node).share(), 20.0 / 65, 0.1) << each << ' ' << span;
      }
      node.sync(node.counters, node.now + 6ms);
      if (each > 1 || span < 10) {
        EXPECT_NEAR(demand_of(node).share(), 20.0 / 65, 0.1) << each << ' ' << span;
        EXPECT_NEAR(demand_of(node).per_interval(), 650, 1e-9) << each << ' ' << span;
      }
    }
    // A key that is told of no more may be asked for no more: what others told late is learned now.
    if (each == 1) {
      EXPECT_NEAR(demand_of(node).per_interval(), 650 * 0.9 + 90, 1e-9);
    }
  }
}

TEST_P(LearningUnder, WhatIsAddedToAnIntervalThatWasLightSaysNothingOfTheDemand) {
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

TEST(Learning, WhatABucketIsChargedDoesNotDependOnWhichAnswerComesFirst) {
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

TEST_P(LearningUnder, AQuestionAskedInAnIntervalsFirstSpanSaysNothingOfTheDemandBefore) {
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

TEST_P(LearningUnder, AClockThatIsSetChangesTheDemandByWhatIsOfferedInASpanAtMost) {
  for (const std::uint32_t spans : {2U, 10U})
    for (const Duration set : {-500ms, -430ms, -100ms, -70ms, 30ms, 100ms, 130ms, 500ms, 2300ms, 2370ms})
      for (int at = 20; at < 30; ++at) {
        Rule rule = ByAlgorithm::rule();
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
          // What is counted before the engine has noticed is a straggler's.
          if (tenth > 10 && tenth != at) {
            EXPECT_NEAR(demand_of(node).share(), 20.0 / 65, 0.15)
                << spans << ' ' << set / 1ms << ' ' << at << ' ' << tenth;
          }
        }
      }
}

TEST_P(LearningUnder, AStragglersCountTellsOfOthersInAllOfItsInterval) {
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

TEST_P(LearningUnder, AStragglersCountOfAKeyThatIsKnownTellsOfTheDemand) {
  CountedNode node(rule(), 1);
  node.count(node.now, 20);
  while (node.now < 4s) node.end_span();
  const Duration before = node.now;
  count_on_both(node, 450);
  EXPECT_DOUBLE_EQ(demand_of(node).per_interval(), 20);
  node.count(node.now, 1);
  node.count(before, 2);
  node.end_span();
  EXPECT_DOUBLE_EQ(demand_of(node).per_interval(), 450 + 2) << "what is kept back nobody has been told";
}

TEST(Learning, AStragglersCountAndAQuestionTellOfOthersOnce) {
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

TEST_P(LearningUnder, AnAnswerThatIsLostIsNotMistakenForALaterOne) {
  // What is asked first, of the interval before, is answered to one of two nodes alone.
  const auto allowances = [](bool is_answered) {
    CountedNode node(rule(), 1);
    count_on_both(node, 450);
    std::vector<std::uint64_t> found;
    for (int span = 0; span < 20; ++span) {
      node.counters[{"login|a", first_ordinal + 4 + span / 10}] += 45;
      node.count(node.now, 20);
      node.end_span_unanswered();
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

TEST_P(LearningUnder, ATotalBeyondAllCountsIsNotTakenForLess) {
  // 63 bits are kept of it.
  for (const std::uint64_t total : {std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    CountedNode node(rule(), 1);
    node.count(node.now, 20);
    node.counters[{"login|a", first_ordinal + 3}] = total - 20;
    node.end_span();
    EXPECT_TRUE(demand_of(node).exceeds(rule().limit));
    if (GetParam() != Algorithm::token_bucket) {
      EXPECT_EQ(node.state(node.now).allowance, 0U);
    }
  }
}

}  // namespace
}  // namespace weir::testing
