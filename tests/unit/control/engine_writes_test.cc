// SPDX-License-Identifier: BSD-3-Clause
// What the engine wants told reaches the store whole, however much it is.
#include "control/engine_writes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/key_bytes.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

/// Keeps what it is given, names and all.
class Notebook final : public Store {
 public:
  void submit(const std::vector<CounterWrite>& writes, MonotonicTime now) override {
    calls.push_back(writes.size());
    std::size_t joined = 0;
    for (const CounterWrite& write : writes) {
      EXPECT_EQ(write.expires, now + write.time_to_live);
      if (write.tag == static_cast<std::uint8_t>(CounterUse::counted))
        counts[std::string(write.name)] += write.delta;
      if (write.tag == static_cast<std::uint8_t>(CounterUse::blocked)) {
        blocks[std::string(write.name)] += 1;
        joined += write.name.size();
      }
      if (write.weightless) ++weightless;
      if (write.undivided) ++undivided;
    }
    EXPECT_LE(joined, 64 * written_together) << "more would not stay where they are";
  }
  void collect(std::vector<CounterReply>&) override {}
  void on_ready(std::function<void()>) override {}
  StoreFigures figures() const override { return {}; }
  bool flush(Duration) override { return true; }

  std::vector<std::size_t> calls;
  std::map<std::string, std::uint64_t> counts;
  std::map<std::string, int> blocks;  // how often each was written
  int weightless = 0;
  int undivided = 0;
};

Instant at(Duration since) { return {WallTime(1000s) + since, MonotonicTime(10s) + since}; }

Rule rule_of(std::uint64_t limit) {
  Rule rule;
  rule.name = "user";
  rule.limit = limit;
  rule.interval = 1s;
  rule.spans = 10;
  rule.cooldown = 1s;
  return rule;
}

void count(Engine& engine, std::uint64_t key, std::uint64_t weight) {
  KeyBytes bytes;
  bytes.clear();
  bytes.add_text(std::to_string(key));
  engine.count(SpanCount{.rule = 0,
                         .key = (key + 1) * 0x9e3779b97f4a7c15,
                         .key_bytes = bytes.bytes(),
                         .began = at(0ms).wall,
                         .offered = weight,
                         .admitted = weight});
}

/// In which so many keys have been counted, each with another weight.
void end_first_span(Engine& engine, std::uint64_t keys) {
  engine.step(at(0ms));
  engine.clear_writes();
  for (std::uint64_t key = 0; key < keys; ++key) count(engine, key, 100'000 + key);
  engine.step(at(100ms));
}

TEST(EngineWrites, AllReachTheStoreAThousandOrSoAtATime) {
  constexpr std::uint64_t keys = 2 * written_together + 100;
  const Rule rule = rule_of(1'000'000);
  Engine engine(std::span(&rule, 1), keys);
  end_first_span(engine, keys);
  Notebook store;
  WritesOnTheirWay writes;
  writes.submit(engine, store, at(100ms).monotonic);
  EXPECT_FALSE(engine.has_writes());
  ASSERT_EQ(store.counts.size(), keys);
  for (std::uint64_t key = 0; key < keys; ++key)
    EXPECT_EQ(store.counts["user|" + std::to_string(key)], 100'000 + key);
  EXPECT_GE(store.calls.size(), 3U);
  for (const std::size_t some : store.calls) EXPECT_LE(some, written_together);
  // What was said of blocks: two questions for each key.
  EXPECT_EQ(store.undivided, static_cast<int>(2 * keys));
  writes.submit(engine, store, at(100ms).monotonic);
  EXPECT_EQ(store.counts["user|0"], 100'000U) << "and once";
}

TEST(EngineWrites, OfBlocksHaveNamesOfTheirOwnHoweverLongTheseAre) {
  for (const std::size_t length : {4UL, 1000UL, NamePool::longest - 40}) {
    SCOPED_TRACE("names of " + std::to_string(length) + " bytes and more");
    constexpr std::uint64_t keys = 3 * written_together / 2;
    Rule rule = rule_of(1'000'000);
    rule.name = std::string(length, 'x');
    Engine engine(std::span(&rule, 1), keys);
    end_first_span(engine, keys);
    Notebook store;
    WritesOnTheirWay().submit(engine, store, at(100ms).monotonic);
    ASSERT_EQ(store.counts.size(), keys);
    ASSERT_EQ(store.blocks.size(), keys);
    for (std::uint64_t key = 0; key < keys; ++key) {
      const std::string name = rule.name + "|" + std::to_string(key);
      ASSERT_EQ(store.counts[name], 100'000 + key);
      ASSERT_EQ(store.blocks[name + "|~blocked"], 2) << "two questions";
    }
  }
}

TEST(EngineWrites, SignsOfLifeHaveNoWeight) {
  Rule rule = rule_of(100);
  rule.algorithm = Algorithm::fixed_window;
  Engine engine(std::span(&rule, 1), 16);
  engine.step(at(0ms));
  Notebook store;
  WritesOnTheirWay writes;
  writes.submit(engine, store, at(0ms).monotonic);
  EXPECT_EQ(store.weightless, 2);
}

}  // namespace
}  // namespace weir
