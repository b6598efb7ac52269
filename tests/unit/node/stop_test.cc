// SPDX-License-Identifier: BSD-3-Clause
// How long a node that ends waits for a store that does not answer.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "node/node_core.h"
#include "weir/config.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

/// A store that acknowledges nothing, however long it is waited for.
class SilentStore final : public Store {
 public:
  void submit(const std::vector<CounterWrite>&, MonotonicTime) override {}
  void collect(std::vector<CounterReply>&) override {}
  void on_ready(std::function<void()>) override {}
  StoreFigures figures() const override { return {}; }
  bool flush(Duration patience) override {
    waits.push_back(patience);
    const MonotonicTime begun = monotonic_now();
    while (monotonic_now() - begun < patience) {
    }
    return false;
  }

  std::vector<Duration> waits;
};

TEST(Stop, WaitsNoLongerThanItsPatienceThoughItAsksTheStoreTwice) {
  const ConfigResult config =
      parse_config("[[rule]]\nname = \"all\"\nlimit = 3\ninterval = \"1s\"\n", "test");
  auto silent = std::make_unique<SilentStore>();
  const SilentStore& store = *silent;
  NodeCore core(config.config, {.workers = 1, .hash_seed = 1, .log = {}}, std::move(silent));
  core.advance({WallTime(1000s), MonotonicTime(10s)});
  EXPECT_FALSE(core.finish({WallTime(1000s), MonotonicTime(10s)}, 2ms));
  ASSERT_EQ(store.waits.size(), 2U);
  EXPECT_EQ(store.waits[0], 2ms);
  EXPECT_LE(store.waits[1], 0ms);
}

}  // namespace
}  // namespace weir
