// SPDX-License-Identifier: BSD-3-Clause
// Standing grants under threads: workers that stall, go and come back, and whose idle keys are forgotten
// under load never admit more of a key in an interval than its limit, and what they admitted is what the
// store holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "running_node.h"

namespace weir::testing {
namespace {

constexpr unsigned workers = 3;

std::uint64_t seed() {
  const char* given = std::getenv("WEIR_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
}

struct GrantedLoad {
  Algorithm algorithm;
  std::uint64_t limit;
  std::uint32_t keys;  // that the node is made for
  std::size_t users;
};

class GrantsUnderThreads : public ::testing::TestWithParam<GrantedLoad> {};

TEST_P(GrantsUnderThreads, NoKeyIsAdmittedMoreThanItsLimitAndNothingIsLost) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  const GrantedLoad load = GetParam();
  auto store = std::make_unique<RecordingStore>();
  RecordingStore& recorded = *store;
  Config config = fast_config(load.limit);
  config.rules[0].algorithm = load.algorithm;
  config.rules[0].cooldown = 1ms;  // so that every interval is tried
  config.node.keys = load.keys;
  NodeCore node(config, {.workers = workers, .hash_seed = 1, .log = {}}, std::move(store));
  const Users users(load.users);
  node.start();
  // Enough for idle keys to be forgotten, and for grants to be used again.
  constexpr std::uint64_t spans = 300;
  run_workers(node, workers, [&](Worker& worker, unsigned index) {
    std::mt19937_64 random(seed() + index);
    std::vector<Request> requests(64);
    std::vector<Decision> decisions(requests.size());
    for (std::uint64_t now = 0; now < spans; now = node.figures().spans) {
      for (int i = 0; i < 200; ++i) {
        // A few ask for most. The others come and go, so that there are idle grants to be forgotten.
        const std::size_t first = now / 40 * 64;
        for (Request& request : requests)
          request = users[random() % 4 != 0 ? random() % 3 : (first + random() % 128) % load.users];
        worker.admit_burst(requests, monotonic_now(), decisions);
        // Now and then it goes on without having reported.
        if (random() % 4 != 0) worker.quiescent();
        if (random() % 128 == 0) {
          worker.offline();
          worker.online();
        }
      }
      if (random() % 16 == 0) {
        // Stalls, or is away, for more than an interval.
        const bool away = random() % 2 == 0;
        if (away) worker.offline();
        while (node.figures().spans < std::min(spans, now + 30)) std::this_thread::yield();
        if (away) worker.online();
      }
    }
  });
  ASSERT_TRUE(node.stop(1s));
  for (const auto& [counter, total] : recorded.totals) {
    // What many keys without room were counted under has no limit of its own.
    if (RecordingStore::is_of_node(counter.first) || counter.first == "user|~") continue;
    EXPECT_LE(total, load.limit) << counter.first << ":" << counter.second;
  }
  EXPECT_EQ(recorded.sum_of_keys(), node.figures().rules[0].admitted);
  EXPECT_GT(recorded.sum_of_keys(), 0U);
}

TEST(GrantsUnderThreads, KeysThatAreAllNewAreCountedUnderTheirNames) {
  auto store = std::make_unique<RecordingStore>();
  RecordingStore& recorded = *store;
  // A worker that stands still in the midst of a decision until its interval is long over refuses the
  // request; it is not to be as short as that here.
  Config config = fast_config(64 * workers, 1s);
  config.rules[0].algorithm = Algorithm::fixed_window;
  config.node.keys = 1 << 16;
  NodeCore node(config, {.workers = workers, .hash_seed = 1, .log = {}}, std::move(store));
  const Users users(12'000);
  node.start();
  run_workers(node, workers, [&](Worker& worker, unsigned index) {
    for (std::size_t i = 0; i < 4000; ++i) {
      Decision decision;
      worker.admit_burst({&users[i * workers + index], 1}, monotonic_now(), {&decision, 1});
      EXPECT_EQ(decision.verdict, Verdict::admit);
      if (i % 8 == 0) worker.quiescent();
    }
  });
  ASSERT_TRUE(node.stop(1s));
  std::uint64_t named = 0;
  for (const auto& [counter, total] : recorded.totals) {
    EXPECT_NE(counter.first, "user|~");
    if (counter.first.starts_with("user|") && !counter.first.ends_with("|~refused")) named += total;
  }
  EXPECT_EQ(named, 12'000U);
}

INSTANTIATE_TEST_SUITE_P(Loads, GrantsUnderThreads,
                         ::testing::Values(GrantedLoad{Algorithm::fixed_window, 64 * workers, 4096, 200},
                                           GrantedLoad{Algorithm::fixed_window, 3 * 64 * workers, 64, 600},
                                           GrantedLoad{Algorithm::cooldown, 64 * workers + 1, 64, 600},
                                           GrantedLoad{Algorithm::shed, 2 * 64 * workers, 256, 600},
                                           // From here on grants are filled up again.
                                           GrantedLoad{Algorithm::fixed_window, 512 * workers, 4096, 200},
                                           GrantedLoad{Algorithm::fixed_window, 16'384 * workers, 64, 600},
                                           GrantedLoad{Algorithm::cooldown, 1024 * workers, 64, 600},
                                           GrantedLoad{Algorithm::shed, 4096 * workers, 256, 600}),
                         [](const auto& tested) {
                           const std::string algorithm(to_string(tested.param.algorithm));
                           return algorithm.substr(0, algorithm.find('-')) + "_" +
                                  std::to_string(tested.param.limit) + "_of_" +
                                  std::to_string(tested.param.keys);
                         });

}  // namespace
}  // namespace weir::testing
