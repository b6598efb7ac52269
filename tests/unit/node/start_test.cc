// SPDX-License-Identifier: BSD-3-Clause
// How a node begins: what it waits for before its first decision.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "node/node_core.h"
#include "weir/config.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

/// A store with a clock that nobody asks for anything, and that is reached only after some looks.
class LateClock final : public Store {
 public:
  explicit LateClock(int looks) : looks_(looks) {}

  void submit(const std::vector<CounterWrite>& writes, MonotonicTime) override {
    asked_ = asked_ || !writes.empty();
  }
  void collect(std::vector<CounterReply>&) override {
    if (looks_ == 0) return;
    if (--looks_ == 0)
      time_ = {.asked = monotonic_now(),
               .answered = monotonic_now(),
               .wall = WallTime(std::chrono::system_clock::now().time_since_epoch() + 1h),
               .number = 1};
    if (wake_) wake_();
  }
  void on_ready(std::function<void()> wake) override {
    if (wake_ && !wake) waits_.push_back(time_.has_value());
    wake_ = std::move(wake);
  }
  StoreFigures figures() const override { return {}; }
  std::optional<StoreTime> time() const override { return time_; }
  bool has_clock() const override { return true; }
  bool flush(Duration) override { return true; }

  bool asked() const { return asked_; }
  /// Whether the time was known when the node ceased to wait.
  bool first_wait_ended_with_the_time() const { return !waits_.empty() && waits_.front(); }

 private:
  int looks_;  // to come
  bool asked_ = false;
  std::vector<bool> waits_;
  std::optional<StoreTime> time_;
  std::function<void()> wake_;
};

std::unique_ptr<NodeCore> node_over(std::unique_ptr<Store> store, Duration timeout) {
  // Too little of it could be kept back for anybody to want to know how many nodes there are.
  ConfigResult config = parse_config("[[rule]]\nname = \"all\"\nlimit = 3\ninterval = \"10h\"\n", "test");
  config.config.store.timeout = timeout;
  return std::make_unique<NodeCore>(config.config, ThrottleOptions{.workers = 1, .hash_seed = 1, .log = {}},
                                    std::move(store));
}

TEST(Start, WaitsForTheTimeOfAStoreThatHasAClockAlsoWhereItIsAskedForNothing) {
  auto late = std::make_unique<LateClock>(10);
  const LateClock& store = *late;
  const auto core = node_over(std::move(late), 10s);
  core->start();
  EXPECT_TRUE(store.first_wait_ended_with_the_time());
  EXPECT_FALSE(store.asked());
  EXPECT_GT(core->figures().clock_offset, 59min);
  core->stop(0s);
}

TEST(Start, GoesOnWithoutTheTimeOfAStoreThatDoesNotTellIt) {
  auto silent = std::make_unique<LateClock>(0);
  const LateClock& store = *silent;
  const auto core = node_over(std::move(silent), 1ms);
  core->start();
  EXPECT_FALSE(store.first_wait_ended_with_the_time());
  core->stop(0s);
}

}  // namespace
}  // namespace weir
