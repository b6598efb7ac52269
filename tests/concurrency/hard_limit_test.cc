// SPDX-License-Identifier: BSD-3-Clause
// One node never admits more than the limit of one key in one interval, over all its workers.
#include <gtest/gtest.h>

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

TEST(HardLimit, HoldsForLimitsSmallerThanTheNumberOfWorkers) { expect_hard_limit(1); }
TEST(HardLimit, HoldsForSmallLimits) { expect_hard_limit(7); }
TEST(HardLimit, HoldsForLimitsDrawnInChunks) { expect_hard_limit(1000); }

}  // namespace
}  // namespace weir::testing
