// SPDX-License-Identifier: BSD-3-Clause
// How a node ends: how long it waits for a store that does not answer, and whether it has told all.
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "node/node_core.h"
#include "store/memory/memory_store.h"
#include "weir/config.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

/// A store that acknowledges nothing.
class DeafStore : public Store {
 public:
  void submit(const std::vector<CounterWrite>&, MonotonicTime) override {}
  void collect(std::vector<CounterReply>&) override {}
  void on_ready(std::function<void()>) override {}
  StoreFigures figures() const override { return {}; }
};

/// However long it is waited for.
class SilentStore final : public DeafStore {
 public:
  bool flush(Duration patience) override {
    waits.push_back(patience);
    const MonotonicTime begun = monotonic_now();
    while (monotonic_now() - begun < patience) {
    }
    return false;
  }

  std::vector<Duration> waits;
};

Config one_rule() {
  return parse_config("[[rule]]\nname = \"all\"\nlimit = 3\ninterval = \"1s\"\n", "test").config;
}

TEST(Stop, WaitsNoLongerThanItsPatienceThoughItAsksTheStoreTwice) {
  auto silent = std::make_unique<SilentStore>();
  const SilentStore& store = *silent;
  NodeCore core(one_rule(), {.workers = 1, .hash_seed = 1, .log = {}}, std::move(silent));
  core.advance({WallTime(1000s), MonotonicTime(10s)});
  EXPECT_FALSE(core.finish({WallTime(1000s), MonotonicTime(10s)}, 2ms));
  ASSERT_EQ(store.waits.size(), 2U);
  EXPECT_EQ(store.waits[0], 2ms);
  EXPECT_LE(store.waits[1], 0ms);
}

/// While it is waited for, another thread asks the node for all that may be asked.
class StoreWaitedFor final : public DeafStore {
 public:
  bool flush(Duration) override {
    asked.push_back(std::async(std::launch::async, [this] {
      node->figures();
      node->top(1);
      node->memory();
    }));
    answered += asked.back().wait_for(10s) == std::future_status::ready;
    return false;
  }

  NodeCore* node = nullptr;
  std::vector<std::future<void>> asked;
  std::size_t answered = 0;
};

TEST(Stop, KeepsNobodyWaitingWhoAsksForFiguresWhileItWaitsForTheStore) {
  auto waited_for = std::make_unique<StoreWaitedFor>();
  StoreWaitedFor& store = *waited_for;
  NodeCore core(one_rule(), {.workers = 1, .hash_seed = 1, .log = {}}, std::move(waited_for));
  store.node = &core;
  core.advance({WallTime(1000s), MonotonicTime(10s)});
  core.finish({WallTime(1000s), MonotonicTime(10s)}, 1s);
  EXPECT_EQ(store.asked.size(), 2U);
  EXPECT_EQ(store.answered, 2U);
}

TEST(Stop, TellsAllInAFloodOfABlockedKeyThatOnlyItsLineRefusesAndSaysSo) {
  const ConfigResult config = parse_config(
      "[[rule]]\nname = \"user\"\nkey = [\"header:user\"]\nlimit = 3\ninterval = \"1s\"\ncooldown = \"1h\"\n",
      "test");
  const auto counters = std::make_shared<MemoryCounters>();
  NodeCore core(config.config, {.workers = 1, .hash_seed = 1, .log = {}}, make_memory_store(counters));
  Instant now{WallTime(1000s), MonotonicTime(10s)};
  core.advance(now);
  Worker& worker = core.worker(0);
  worker.online();
  const std::vector<Key> keys(8, worker.key(0, "ann"));
  std::array<Verdict, 8> verdicts;
  std::uint64_t offered = 0;
  for (int span = 0; span < 8; ++span) {
    for (int burst = 0; burst < 4; ++burst, offered += keys.size())
      worker.admit_keys(keys, now.monotonic, verdicts);
    now = now + Duration(100ms);
    for (int round = 0; round < 3; ++round) {
      core.advance(now);
      worker.quiescent();
    }
  }
  worker.admit_keys(keys, now.monotonic, verdicts);
  offered += keys.size();
  EXPECT_EQ(verdicts[0], Verdict::block);
  worker.offline();
  EXPECT_TRUE(core.finish(now, 1s));
  EXPECT_EQ(core.figures().rules[0].offered, offered);
  EXPECT_EQ(core.figures().rules[0].admitted, 3U);
  EXPECT_EQ(core.top(1).at(0).offered, offered);
}

}  // namespace
}  // namespace weir
