// SPDX-License-Identifier: BSD-3-Clause
// One node never admits more than the limit of one key in one interval, over all its workers.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <span>
#include <string>
#include <thread>

#include "running_node.h"

namespace weir::testing {
namespace {

constexpr unsigned workers = 3;

void expect_hard_limit(std::uint64_t limit) {
  auto store = std::make_unique<RecordingStore>();
  RecordingStore& recorded = *store;
  Config config = fast_config(limit);
  config.rules[0].cooldown = 1ms;  // so that every interval is tried, and several times
  NodeCore node(config, {.workers = workers, .hash_seed = 1, .log = {}}, std::move(store));
  const Users users(4);
  node.start();
  run_workers(node, workers, [&](Worker& worker, unsigned) {
    std::vector<Decision> decisions(users.all().size());
    // Until ten intervals and more have passed, however slow the machine: a flip needs every worker to go on.
    while (node.figures().spans < 200) {
      for (int i = 0; i < 500; ++i) {
        worker.admit_burst(users.all(), monotonic_now(), decisions);
        worker.quiescent();
      }
    }
  });
  ASSERT_TRUE(node.stop(1s));
  for (const auto& [counter, total] : recorded.totals) {
    EXPECT_LE(total, limit) << counter.first << ":" << counter.second;
  }
  EXPECT_GT(recorded.totals.size(), users.all().size());
  // Not by admitting too little: under such load most intervals are used up but for what chunks strand.
  EXPECT_GT(recorded.sum(), recorded.totals.size() * limit / 2);
}

// Workers that meet a key of one rule in the same moment take a log for it each, and all but one in vain.
// What such a one keeps for later is a log of that rule: under another one it would be the log of another key
// there.
TEST(SlidingLogs, OfOneRuleAreNeverTakenForThoseOfAnother) {
  constexpr std::uint64_t limit = 6;
  constexpr int rounds = 1500;
  constexpr int met = 16;      // in each round, by one from the first on and by the other from the last on
  constexpr unsigned two = 2;  // that really run at once, also on a small machine
  Config config = fast_config(limit, 1h);
  config.node.keys = 65'536;
  config.rules[0].spans = 3600;
  config.rules[0].algorithm = Algorithm::sliding_log;
  config.rules.push_back(config.rules[0]);
  config.rules[1].name = "other";
  NodeCore node(config, {.workers = two, .hash_seed = 1, .log = {}}, std::make_unique<RecordingStore>());
  node.start();
  const MonotonicTime now = monotonic_now();
  std::atomic<int> there{0};
  std::atomic<std::uint64_t> refused{0};
  run_workers(node, two, [&](Worker& worker, unsigned index) {
    for (int round = 0; round < rounds; ++round) {
      std::vector<std::string> names;
      for (int i = 0; i < met; ++i) names.push_back("a" + std::to_string(round * met + i));
      if (index == 1) std::ranges::reverse(names);
      std::vector<Key> same;
      for (const std::string& name : names) same.push_back(worker.key(0, name));
      std::array<Verdict, met> verdicts;
      ++there;
      // Some time at full speed, so that both go on together; but on a processor of one's own only.
      for (int spins = 0; there.load() < static_cast<int>(two) * (round + 1); ++spins)
        if (spins % (1 << 16) == (1 << 16) - 1) std::this_thread::yield();
      worker.admit_keys(same, now, verdicts);
      const std::string alone = "b" + std::to_string(round) + "," + std::to_string(index);
      const std::vector<Key> own(limit, worker.key(1, alone));
      const auto own_verdicts = std::span(verdicts).first(own.size());
      worker.admit_keys(own, now, own_verdicts);
      refused += static_cast<std::uint64_t>(std::ranges::count(own_verdicts, Verdict::block));
      worker.quiescent();
    }
  });
  EXPECT_TRUE(node.stop(1s));
  EXPECT_EQ(refused, 0U);
}

TEST(HardLimit, HoldsForLimitsSmallerThanTheNumberOfWorkers) { expect_hard_limit(1); }
TEST(HardLimit, HoldsForSmallLimits) { expect_hard_limit(7); }
TEST(HardLimit, HoldsForLimitsDrawnInChunks) { expect_hard_limit(1000); }

}  // namespace
}  // namespace weir::testing
