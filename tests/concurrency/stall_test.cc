// SPDX-License-Identifier: BSD-3-Clause
// A worker that stops looping hangs neither the controller nor its colleagues, and loses nothing of its own.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "running_node.h"

namespace weir::testing {
namespace {

/// Two workers on one thread, with the controller driven by hand: every interleaving is exact.
struct Stage {
  explicit Stage(std::uint64_t limit)
      : counters(std::make_shared<MemoryCounters>()),
        node(fast_config(limit, 100ms), {.workers = 2, .hash_seed = 1, .log = {}},
             make_memory_store(counters)),
        users(1) {
    now = {WallTime(1000s), MonotonicTime(10s)};
    node.advance(now);
    node.worker(0).online();
    node.worker(1).online();
  }
  void pass(Duration by, bool first_reports, bool second_reports) {
    now = now + by;
    for (int i = 0; i < 3; ++i) {
      node.advance(now);
      if (first_reports) node.worker(0).quiescent();
      if (second_reports) node.worker(1).quiescent();
      now = now + 1us;
    }
    node.advance(now + 1ms);  // past the drain's patience
    if (first_reports) node.worker(0).quiescent();
    if (second_reports) node.worker(1).quiescent();
  }
  bool admit(unsigned worker) {
    return node.worker(worker).admit(users[0], now.monotonic).verdict == Verdict::admit;
  }
  std::uint64_t stored(Ordinal ordinal) { return counters->read({"user|u0", 100ms, ordinal}, now.monotonic); }

  std::shared_ptr<MemoryCounters> counters;
  NodeCore node;
  Users users;
  Instant now;
};

constexpr Ordinal first = 10'000;  // 1000 s in intervals of 100 ms

TEST(Stall, OthersCountsGoOnToTheStore) {
  Stage stage(100);
  EXPECT_TRUE(stage.admit(0));
  EXPECT_TRUE(stage.admit(1));
  stage.pass(1ms, true, false);
  EXPECT_EQ(stage.stored(first), 1U);
  EXPECT_TRUE(stage.admit(0));
  stage.pass(1ms, true, false);
  stage.pass(1ms, true, false);
  EXPECT_EQ(stage.stored(first), 2U);
  EXPECT_EQ(stage.node.figures().stalled_workers, 1U);
}

TEST(Stall, TheStalledWorkersCountsArriveWhenItReturnsAndInTheOrdinalTheyBelongTo) {
  Stage stage(100);
  for (int i = 0; i < 5; ++i) stage.admit(1);
  for (int i = 0; i < 150; ++i) stage.pass(1ms, true, false);  // into the next interval
  EXPECT_EQ(stage.stored(first), 0U);
  stage.pass(1ms, true, true);
  stage.pass(1ms, true, true);
  EXPECT_EQ(stage.stored(first), 5U);
  EXPECT_EQ(stage.node.figures().stalled_workers, 0U);
}

TEST(Stall, LimitsAreRenewedForTheOthers) {
  Stage stage(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(stage.admit(0));
  for (int i = 0; i < 120; ++i) stage.pass(1ms, true, false);
  EXPECT_TRUE(stage.admit(0));
}

TEST(Stall, AWorkerThatReturnsAfterManyIntervalsStillRespectsTheLimit) {
  Stage stage(3);
  EXPECT_TRUE(stage.admit(1));
  for (int i = 0; i < 1000; ++i) stage.pass(1ms, true, false);
  int admitted = 0;
  // Its last burst before it reports: decided by what it knew, which was an allowance of 3.
  for (int i = 0; i < 10; ++i) admitted += stage.admit(1);
  EXPECT_LE(admitted, 3);
  stage.pass(1ms, true, true);
  stage.pass(1ms, true, true);
  for (int i = 0; i < 10; ++i) stage.admit(1);
  for (int i = 0; i < 200; ++i) stage.pass(1ms, true, true);
  EXPECT_TRUE(stage.admit(1));
}

TEST(Stall, NothingIsLostWhenTheNodeStops) {
  Stage stage(1000);
  std::uint64_t admitted = 0;
  for (int span = 0; span < 300; ++span) {
    for (int i = 0; i < 3; ++i) admitted += stage.admit(0);
    for (int i = 0; i < 2; ++i) admitted += stage.admit(1);
    stage.pass(1ms, true, span % 7 == 0);
  }
  stage.node.worker(0).offline();
  stage.node.worker(1).offline();
  EXPECT_TRUE(stage.node.finish(stage.now, 1s));
  EXPECT_EQ(stage.node.figures().counts_synced, admitted);
}

TEST(Thread, StartsStopsAndIsAskedForFiguresWhileWorkersRun) {
  NodeCore node(fast_config(100), {.workers = 2, .hash_seed = 1, .log = {}},
                make_memory_store(std::make_shared<MemoryCounters>()));
  const Users users(8);
  node.start();
  std::atomic<bool> done{false};
  std::thread operating([&] {
    while (!done) {
      EXPECT_EQ(node.figures().rules.size(), 1U);
      EXPECT_LE(node.top(3).size(), 3U);
    }
  });
  run_workers(node, 2, [&](Worker& worker, unsigned) {
    std::vector<Decision> decisions(users.all().size());
    while (node.figures().spans < 50) {
      worker.admit_burst(users.all(), monotonic_now(), decisions);
      worker.quiescent();
    }
  });
  done = true;
  operating.join();
  EXPECT_TRUE(node.stop(1s));
  EXPECT_EQ(node.figures().counts_synced, node.figures().rules[0].admitted);
}

}  // namespace
}  // namespace weir::testing
