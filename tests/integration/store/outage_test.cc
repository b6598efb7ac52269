// SPDX-License-Identifier: BSD-3-Clause
// What a server alone can do to a store that counts: be killed, hang, lose everything, forget its scripts,
// run out of memory, be busy. And the store's clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "fault_network.h"
#include "load.h"
#include "redis_server.h"
#include "seed.h"
#include "stored_counters.h"
#include "wait_until.h"
#include "watched_store.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

StoreConfig impatient() {
  StoreConfig config = quick_config();
  config.timeout = 30ms;
  config.reconnect = 2ms;
  return config;
}

/// Lets something happen to a server under load, over and over; nothing may be lost by it.
template <typename Happening>
void expect_exact_under(RedisServer& server, const StoreConfig& config, int times, Happening happening) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(test_seed()));
  std::mt19937_64 random(test_seed());
  Load load(server.tcp_url(), config, test_seed());
  for (int i = 0; i < times; ++i) {
    ASSERT_TRUE(load.wait_for_more(1 + random() % 200));
    happening(random);
  }
  ASSERT_TRUE(load.finish());
  const StoredCounters stored(server.client());
  load.expect_exactly(stored);
  stored.expect_that_all_expire();
}

TEST(Outage, AServerThatHangsAndGoesOnLosesAndDoublesNothing) {
  RedisServer server;
  expect_exact_under(server, impatient(), 15, [&](std::mt19937_64& random) {
    server.signal(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds{random() % 150});
    server.signal(SIGCONT);
  });
}

TEST(Outage, AServerThatForgetsItsScriptsLosesAndDoublesNothing) {
  RedisServer server;
  expect_exact_under(server, quick_config(), 200, [&](std::mt19937_64&) {
    server.command({"SCRIPT", "FLUSH"});
  });
}

TEST(Outage, AServerOutOfMemoryLosesAndDoublesNothing) {
  RedisServer server;
  expect_exact_under(server, impatient(), 30, [&](std::mt19937_64& random) {
    server.command({"CONFIG", "SET", "maxmemory", "1"});
    std::this_thread::sleep_for(std::chrono::milliseconds{random() % 40});
    server.command({"CONFIG", "SET", "maxmemory", "0"});
  });
}

TEST(Outage, AServerThatIsBusyLosesAndDoublesNothing) {
  RedisServer server({"--busy-reply-threshold", "5"});
  expect_exact_under(server, impatient(), 20, [&](std::mt19937_64& random) {
    const std::string limit = std::to_string(random() % 80'000);
    if (random() % 2 == 0) {
      server.command({"DEBUG", "SLEEP", "0.0" + std::to_string(random() % 9)});
    } else {
      // A script of somebody else that takes its time: BUSY is answered meanwhile.
      server.command({"EVAL",
                      "local t = redis.call('TIME') local e = t[1] * 1e6 + t[2] + ARGV[1] repeat "
                      "t = redis.call('TIME') until t[1] * 1e6 + t[2] > e",
                      "0", limit});
    }
  });
}

TEST(Outage, AServerThatRefusesAndKillsAtOnceLosesAndDoublesNothing) {
  RedisServer server;
  expect_exact_under(server, impatient(), 100, [&](std::mt19937_64& random) {
    // Refusals are on their way to the node when the connection goes.
    server.command({"CONFIG", "SET", "maxmemory", "1"});
    if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds{random() % 3000});
    server.kill_clients();
    server.command({"CONFIG", "SET", "maxmemory", "0"});
    if (random() % 4 == 0) server.command({"CLIENT", "PAUSE", std::to_string(1 + random() % 60), "ALL"});
  });
}

TEST(Outage, AServerKilledWithItsStateOnDiskLosesAndDoublesNothing) {
  RedisServer server({"--appendonly", "yes", "--appendfsync", "always"});
  expect_exact_under(server, impatient(), 8, [&](std::mt19937_64&) {
    server.kill();
    server.start();
  });
}

// Quota that is given back has no weight, and would be missed until its interval ends.
TEST(Outage, WhatIsReturnedOrRaisedIsNotTakenForDoneBeforeItIsAnswered) {
  RedisServer server;
  const auto store = open_store(server.tcp_url(), impatient());
  const auto write = [](const char* name, std::uint64_t delta, std::uint64_t returned,
                        std::uint64_t raised_to) {
    return CounterWrite{.name = name,
                        .ordinal = 1,
                        .interval = 1s,
                        .delta = delta,
                        .time_to_live = 10min,
                        .expires = now() + 10min,
                        .returned = returned,
                        .raised_to = raised_to,
                        .undivided = true};
  };
  store->submit({write("quota", 10, 0, 0), write("largest", 0, 0, 3)}, now());
  ASSERT_TRUE(store->flush(60s));
  for (int round = 1; round <= 3; ++round) {
    server.signal(SIGSTOP);
    store->submit({write("quota", 0, 1, 0)}, now());
    EXPECT_FALSE(store->flush(50ms));
    store->submit({write("largest", 0, 0, 3U + static_cast<unsigned>(round))}, now());
    EXPECT_FALSE(store->flush(0s));
    server.signal(SIGCONT);
    ASSERT_TRUE(store->flush(60s));
    const StoredCounters stored(server.client());
    EXPECT_EQ(stored.value("quota", 1), 10 - round);
    EXPECT_EQ(stored.value("largest", 1), 3 + round);
  }
}

/// After a loss of everything the store holds what has been acknowledged since, and what was pending: no
/// more.
class OutageThatLosesEverything : public ::testing::TestWithParam<const char*> {};

TEST_P(OutageThatLosesEverything, LeavesWhatCameSinceAndWhatWasPending) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(test_seed()));
  std::mt19937_64 random(test_seed());
  RedisServer server;
  FaultNetwork network;
  const auto door = network.open(server.socket());
  for (int round = 0; round < 10; ++round) {
    StoreConfig config = impatient();
    config.prefix = "round" + std::to_string(round);
    Load load(network.url(door), config, test_seed() + static_cast<std::uint64_t>(round));
    ASSERT_TRUE(load.wait_for_more(500));
    if (round % 2 == 1) {
      // So they are about to find it again: at no moment of that may anything be lost.
      server.signal(SIGSTOP);
      ASSERT_TRUE(wait_until("the nodes to give the server up", [&] { return !load.any_up(); }));
      server.signal(SIGCONT);
      std::this_thread::sleep_for(std::chrono::microseconds{random() % 4000});
    }
    // Nothing under way, in either direction; but the nodes count on.
    network.sever(door);
    ASSERT_TRUE(network.settle(door));
    ASSERT_TRUE(load.wait_until_cut_off());
    const std::uint64_t acknowledged = load.acknowledged();
    if (std::string(GetParam()) == "FLUSHALL") {
      server.command({"FLUSHALL"});
    } else {
      server.kill();
      server.start();
    }
    network.admit(door);
    ASSERT_TRUE(load.wait_for_more(500));
    ASSERT_TRUE(load.finish());
    const StoredCounters stored(server.client(), config.prefix);
    EXPECT_EQ(load.expect_nothing_doubled(stored), acknowledged) << "what had been acknowledged is lost";
    stored.expect_that_all_expire();
  }
}

INSTANTIATE_TEST_SUITE_P(By, OutageThatLosesEverything, ::testing::Values("FLUSHALL", "Kill"),
                         [](const auto& how) { return std::string(how.param); });

TEST(Outage, AWipeInTheMiddleOfThingsLosesAtMostWhatHadBeenSubmittedAndDoublesNothing) {
  RedisServer server;
  Load load(server.tcp_url(), quick_config(), test_seed());
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(load.wait_for_more(200));
    server.command({"FLUSHALL"});
  }
  const std::uint64_t before = load.submitted();
  ASSERT_TRUE(load.wait_for_more(500));
  ASSERT_TRUE(load.finish());
  const StoredCounters stored(server.client());
  EXPECT_LE(load.expect_nothing_doubled(stored), before);
  stored.expect_that_all_expire();
}

// ---- the store's clock

/// What is to be added to a moment by now() for the same by the machine's wall clock.
Duration wall_offset() {
  return std::chrono::system_clock::now().time_since_epoch() - now().time_since_epoch();
}

/// Server and test share the machine's clock: what it says lies between two looks at it.
/// @param before, after  wall_offset() before it was asked, and after it has answered
void expect_to_lie_between(const StoreTime& time, Duration before, Duration after) {
  EXPECT_LE(time.asked, time.answered);
  EXPECT_LE(time.answered, now());
  // A machine's wall clock may be corrected meanwhile; then this round says nothing.
  if (after - before > 1ms || before - after > 1ms) return;
  // Redis tells whole microseconds, and the two clocks are not read in one instant.
  EXPECT_GE(time.wall.time_since_epoch() + 1ms, time.asked.time_since_epoch() + std::min(before, after));
  EXPECT_LE(time.wall.time_since_epoch(), time.answered.time_since_epoch() + std::max(before, after) + 1ms);
}

CounterWrite one_more(MonotonicTime at) {
  return {
      .name = "a", .ordinal = 1, .interval = 1s, .delta = 1, .time_to_live = 10min, .expires = at + 10min};
}

TEST(StoreClock, IsReadBetweenTheQuestionAndTheAnswer) {
  RedisServer server;
  WatchedStore store(server.tcp_url());
  std::uint64_t last = 0;
  for (int samples = 0; samples < 4; ++samples) {
    const Duration before = wall_offset();
    ASSERT_TRUE(store.wait_until([&](const StoreFigures&) {
      const auto time = store.store().time();
      return time && time->number > last;
    }));
    const StoreTime time = *store.store().time();
    EXPECT_EQ(time.number, last + 1) << "every answer counts, and only once";
    last = time.number;
    expect_to_lie_between(time, before, wall_offset());
  }
}

// A controller has much to do before it submits, and what it submits then is of the moment when it began.
TEST(StoreClock, IsNotMistakenByWhatTakesTimeBeforeWritesAreSubmitted) {
  RedisServer server;
  const auto store = open_store(server.tcp_url(), quick_config());
  std::uint64_t seen = 0;
  for (int samples = 0; samples < 2; ++samples) {
    const Duration before = wall_offset();
    const MonotonicTime began = now();
    store->now_is(began);
    store->submit({one_more(began)}, began - 300ms);
    wait_until("an answer that was asked for after that",
               [&] { return store->time() && store->time()->number > seen + 1; });
    const StoreTime time = *store->time();
    seen = time.number;
    EXPECT_GE(time.asked, began);
    expect_to_lie_between(time, before, wall_offset());
  }
}

TEST(StoreClock, HoldsForACallerThatLivesInATimeOfItsOwn) {
  RedisServer server;
  const auto store = open_store(server.tcp_url(), quick_config());
  constexpr MonotonicTime elsewhere{1000h};
  const auto started = std::chrono::steady_clock::now();
  store->submit({one_more(elsewhere)}, elsewhere);
  ASSERT_TRUE(store->flush(60s));
  const std::uint64_t number = store->time() ? store->time()->number : 0;
  wait_until("the next answer", [&] { return store->time() && store->time()->number > number + 1; });
  const StoreTime time = *store->time();
  EXPECT_GE(time.asked, elsewhere);
  EXPECT_LE(time.answered, elsewhere + (std::chrono::steady_clock::now() - started));
}

TEST(StoreClock, IsUnknownWhileNobodyHasAnswered) {
  RedisServer server;
  server.kill();
  WatchedStore store(server.tcp_url());
  ASSERT_TRUE(store.wait_until_down("Connection refused"));
  EXPECT_FALSE(store.store().time().has_value());
}

}  // namespace
}  // namespace weir
