// SPDX-License-Identifier: BSD-3-Clause
// A node whose controller is driven in another monotonic time than the system's, over a real Redis.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>

#include "redis_server.h"
#include "weir/throttle.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

TEST(OwnTime, WhatWaitsForTheStoreIsNotGivenUpWhereTheNodeIsStoppedInIt) {
  RedisServer server;
  server.signal(SIGSTOP);
  Config config;
  config.store.url = server.tcp_url();
  config.rules.resize(1);
  config.rules[0].name = "all";
  config.rules[0].limit = 100;
  config.rules[0].interval = 1min;
  config.rules[0].cooldown = 1min;
  const ThrottleResult made = Throttle::create(config, {.workers = 1, .hash_seed = 1, .log = {}});
  ASSERT_TRUE(made) << made.error;
  Throttle& throttle = *made.throttle;
  // Hours behind the machine's clock, and counters live for minutes.
  const WallTime wall(std::chrono::system_clock::now().time_since_epoch());
  const MonotonicTime monotonic = monotonic_now() - 10h;
  const auto at = [&](Duration since) { return Instant{wall + since, monotonic + since}; };
  Worker& worker = throttle.worker(0);
  throttle.advance(at(0s));
  worker.online();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(worker.admit_key(0, "", 1, at(0s).monotonic).verdict, Verdict::admit);
  throttle.advance(at(10s));
  worker.quiescent();
  throttle.advance(at(10s));
  worker.offline();

  EXPECT_FALSE(throttle.stop(at(11s), 0s)) << "nobody has taken it";
  EXPECT_EQ(throttle.figures().counts_pending, 5U);
  server.signal(SIGCONT);
  EXPECT_TRUE(throttle.stop(at(12s), 60s));
  const Figures figures = throttle.figures();
  EXPECT_EQ(figures.counts_synced, 5U);
  EXPECT_EQ(figures.counts_expired, 0U);
}

}  // namespace
}  // namespace weir
