// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "engine_fixture.h"

namespace weir::testing {

inline constexpr Ordinal first_ordinal = 1000;

inline Rule light_rule(std::uint64_t limit = 1000, double hold_back = 0.01) {
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
  /// The same; what is answered, and when, is the test's.
  void end_span_unanswered() {
    now += 100ms;
    step(now);
  }
  void end_all() {
    engine.step(at(now), true);
    engine.for_each_write([&](const EngineWrite& write) {
      pending.push_back({write.key, write.use, full_name(write), write.ordinal, write.delta,
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

/// Two nodes keep back the key's count of an interval; the other one has told of it first.
inline void count_on_both(CountedNode& node, std::uint64_t others) {
  const Ordinal ordinal = first_ordinal + node.now / 1s;
  for (int span = 0; span < 10; ++span) {
    if (span < 3) node.count(node.now, 1);
    node.end_span();
  }
  node.counters[{"login|a", ordinal}] += others;
}

/// A node's key in an interval of 4 s (251, of 40 spans) that has run for two: what it counted, 3, has been
/// told of, for there are more nodes now and each may keep less. 4 have been counted elsewhere.
inline CountedNode node_that_keeps_less(Rule rule) {
  rule.interval = 4s;
  rule.spans = 40;
  CountedNode node(rule, 1);
  while (node.now < 4s) node.end_span();
  node.count(node.now, 3);
  for (Ordinal second = 1003; second < 1010; ++second) node.counters[{"~nodes", second}] = 4;
  node.counters[{"login|a", 251}] = 4;
  while (node.now < 6s) node.end_span();
  EXPECT_EQ(node.stored(251), 4U + 3U);
  return node;
}

/// For what holds under each algorithm by which nodes learn of each other.
class ByAlgorithm : public ::testing::TestWithParam<Algorithm> {
 protected:
  static Rule rule() {
    Rule rule = light_rule();
    rule.algorithm = GetParam();
    return rule;
  }
};
inline auto algorithms_that_learn() {
  return ::testing::Values(Algorithm::cooldown, Algorithm::fixed_window, Algorithm::sliding_window,
                           Algorithm::token_bucket, Algorithm::shed);
}
struct NameOfAlgorithm {
  std::string operator()(const ::testing::TestParamInfo<Algorithm>& one) const {
    std::string name(to_string(one.param));
    std::erase(name, '-');
    return name;
  }
};

}  // namespace weir::testing
