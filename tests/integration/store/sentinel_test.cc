// SPDX-License-Identifier: BSD-3-Clause
// The store behind sentinels: found, failed over, and what a failover may cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "load.h"
#include "redis_sentinels.h"
#include "redis_server.h"
#include "scripted_server.h"
#include "seed.h"
#include "stored_counters.h"
#include "wait_until.h"
#include "watched_store.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::vector<std::pair<std::string, std::uint64_t>> many(std::size_t count, std::uint64_t delta) {
  std::vector<std::pair<std::string, std::uint64_t>> result;
  for (std::size_t i = 0; i < count; ++i) result.emplace_back("rule|" + std::to_string(i), delta);
  return result;
}

void wait_until_all_in_step(RedisSentinels& sentinels) {
  const std::size_t master = sentinels.master();
  for (std::size_t i = 0; i < RedisSentinels::count; ++i)
    if (i != master) sentinels.wait_until_in_step(i);
}

/// Stops the replicas, or lets them go on. What the master sends to stopped ones still reaches them later, as
/// long as the connection stands.
void signal_replicas(RedisSentinels& sentinels, std::size_t master, int number) {
  for (std::size_t i = 0; i < RedisSentinels::count; ++i)
    if (i != master) sentinels.server(i).signal(number);
}

TEST(Sentinel, NamesTheMasterThatTheStoreWritesTo) {
  RedisSentinels sentinels;
  WatchedStore first(sentinels.url());
  WatchedStore second(sentinels.url(1) + "/2");
  first.add(many(100, 3), 1);
  second.add(many(100, 4), 1);
  ASSERT_TRUE(first.wait_until_quiet());
  ASSERT_TRUE(second.wait_until_quiet());
  RedisServer& master = sentinels.server(sentinels.master());
  EXPECT_EQ(StoredCounters(master.client()).sum(), 300);
  EXPECT_TRUE(first.figures().up);
  EXPECT_EQ(first.figures().failures, 0u);
  master.command({"SELECT", "2"});
  EXPECT_EQ(StoredCounters(master.client()).sum(), 400) << "a database of its own";
}

TEST(Sentinel, AMasterThatNoSentinelKnowsIsTold) {
  RedisSentinels sentinels;
  std::string url = sentinels.url();
  url.replace(url.rfind('/'), std::string::npos, "/nobody");
  WatchedStore store(url);
  EXPECT_TRUE(store.wait_until_down("nobody"));
}

TEST(Sentinel, SentinelsThatAreDeadOrSilentAreLeftForOthers) {
  RedisSentinels sentinels;
  sentinels.kill_sentinel(0);
  sentinels.signal_sentinel(1, SIGSTOP);
  WatchedStore store(sentinels.url());
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  ASSERT_TRUE(store.wait_until_up());
  sentinels.signal_sentinel(1, SIGCONT);
}

// A master that has died refuses at once; a sentinel that is far away needs several round trips to say who is
// the next one.
TEST(Sentinel, IsHeardToTheEndThoughTheDeadMasterRefusesAgainAndAgainMeanwhile) {
  RedisServer first;
  RedisServer second;
  std::atomic<std::uint16_t> master{first.port()};
  const auto from_afar = [&](const ScriptedServer::Words& words) {
    std::this_thread::sleep_for(3 * quick_config().reconnect);
    if (words.at(0) != "SENTINEL") return std::string("+PONG\r\n");
    return ScriptedServer::array(
        {ScriptedServer::bulk("127.0.0.1"), ScriptedServer::bulk(std::to_string(master))});
  };
  ScriptedServer one(from_afar);
  ScriptedServer other(from_afar);
  WatchedStore store("redis+sentinel://127.0.0.1:" + std::to_string(one.port()) +
                     ",127.0.0.1:" + std::to_string(other.port()) + "/main");
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  first.kill();
  master = second.port();
  store.add("a", 1, 1);
  EXPECT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(StoredCounters(second.client()).sum(), 1);
}

TEST(Sentinel, WithoutAnySentinelTheKnownMasterServesOn) {
  RedisSentinels sentinels;
  WatchedStore store(sentinels.url());
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  const std::size_t master = sentinels.master();
  for (std::size_t i = 0; i < RedisSentinels::count; ++i) sentinels.kill_sentinel(i);
  for (int round = 0; round < 20; ++round) {
    store.add("a", 1, 1);
    ASSERT_TRUE(store.wait_until_quiet());
  }
  EXPECT_EQ(StoredCounters(sentinels.server(master).client()).value("a", 1), 21);
}

TEST(Sentinel, AFailoverAskedForCostsAtMostWhatWasAcknowledgedSinceTheReplicasWereInStep) {
  RedisSentinels sentinels;
  Load load(sentinels.url(), quick_config(), test_seed());
  ASSERT_TRUE(load.wait_for_more(500));
  const std::uint64_t safe = load.acknowledged();
  const std::size_t before = sentinels.master();
  EXPECT_EQ(sentinels.server(before).command({"WAIT", "2", "60000"}).integer, 2);
  const std::size_t after = sentinels.fail_over();
  wait_until("the old master to be a replica", [&] {
    const Answer role = sentinels.server(before).client().try_command({"ROLE"});
    return !role.elements.empty() && role.elements[0] == "slave";
  });
  // The old one acknowledges nothing from now on.
  const std::uint64_t at_risk = load.acknowledged() - safe;
  ASSERT_TRUE(load.wait_for_more(500));
  ASSERT_TRUE(load.finish());
  const StoredCounters stored(sentinels.server(after).client());
  const std::uint64_t missing = load.expect_nothing_doubled(stored);
  EXPECT_LE(missing, at_risk);
  stored.expect_that_all_expire();
  std::printf("%llu lost of %llu at risk\n", static_cast<unsigned long long>(missing),
              static_cast<unsigned long long>(at_risk));
}

TEST(Sentinel, AMasterKilledUnderLoadCostsAtMostWhatItHadAcknowledgedSinceItsReplicasWereInStep) {
  RedisSentinels sentinels;
  Load load(sentinels.url(), quick_config(), test_seed());
  ASSERT_TRUE(load.wait_for_more(500));
  const std::uint64_t safe = load.acknowledged();
  const std::size_t before = sentinels.master();
  EXPECT_EQ(sentinels.server(before).command({"WAIT", "2", "60000"}).integer, 2);
  ASSERT_TRUE(load.wait_for_more(200));
  sentinels.server(before).kill();
  const std::size_t after = sentinels.wait_for_another_master(before);
  const std::uint64_t at_risk = load.acknowledged() - safe;
  ASSERT_TRUE(load.wait_for_more(500));

  // The old one comes back, and is a replica: nothing is written to it.
  sentinels.server(before).start();
  sentinels.wait_until_in_step(before);
  ASSERT_TRUE(load.wait_for_more(500));
  ASSERT_TRUE(load.finish());
  const StoredCounters stored(sentinels.server(after).client());
  const std::uint64_t missing = load.expect_nothing_doubled(stored);
  EXPECT_LE(missing, at_risk);
  stored.expect_that_all_expire();
  sentinels.wait_until_in_step(before);
  EXPECT_EQ(StoredCounters(sentinels.server(before).client()).all(), stored.all());
  std::printf("%llu lost of %llu at risk\n", static_cast<unsigned long long>(missing),
              static_cast<unsigned long long>(at_risk));
}

/// The worst case on purpose: the replicas have heard nothing for a while when the master dies.
TEST(Sentinel, WhatAMasterAcknowledgedAloneIsLostWithItAndNothingElseIs) {
  RedisSentinels sentinels;
  WatchedStore store(sentinels.url());
  store.add(many(100, 1), 1);
  ASSERT_TRUE(store.wait_until_quiet());
  const std::size_t before = sentinels.master();
  wait_until_all_in_step(sentinels);
  signal_replicas(sentinels, before, SIGSTOP);
  sentinels.server(before).command({"CLIENT", "KILL", "TYPE", "replica"});
  store.add(many(100, 10), 1);
  ASSERT_TRUE(store.wait_until_quiet());
  sentinels.server(before).kill();
  store.add(many(100, 100), 1);
  signal_replicas(sentinels, before, SIGCONT);
  const std::size_t after = sentinels.wait_for_another_master(before);
  ASSERT_TRUE(store.wait_until_quiet());
  ASSERT_TRUE(store.wait_until_up());
  const StoredCounters stored(sentinels.server(after).client());
  for (const auto& [name, delta] : many(100, 1)) {
    EXPECT_EQ(stored.value(name, 1), 101) << name;
    EXPECT_EQ(store.total(name, 1), 101u) << "and the node is told so";
  }
  stored.expect_that_all_expire();
}

TEST(Sentinel, AMasterThatMustHaveAReplicaAcknowledgesNothingWithout) {
  RedisSentinels sentinels({"--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"});
  WatchedStore store(sentinels.url());
  store.add(many(100, 1), 1);
  ASSERT_TRUE(store.wait_until_quiet());
  const std::size_t before = sentinels.master();
  wait_until_all_in_step(sentinels);
  signal_replicas(sentinels, before, SIGSTOP);
  // For a few seconds the master has not noticed yet, and acknowledges alone.
  while (store.figures().error.find("NOREPLICAS") == std::string::npos) {
    store.add("early", 1, 1);
    store.wait_for_wake(10ms);
    store.collect();
  }
  ASSERT_TRUE(store.wait_until_down("NOREPLICAS"));
  const std::uint64_t alone = store.replied() - 100;
  const std::uint64_t early = store.submitted() - 100;
  store.add(many(100, 100), 1);
  sentinels.server(before).kill();
  signal_replicas(sentinels, before, SIGCONT);
  const std::size_t after = sentinels.wait_for_another_master(before);
  ASSERT_TRUE(store.wait_until_quiet());
  const StoredCounters stored(sentinels.server(after).client());
  for (const auto& [name, delta] : many(100, 1)) EXPECT_EQ(stored.value(name, 1), 101) << name;
  // What was acknowledged alone may have been on its way.
  EXPECT_GE(stored.value("early", 1), static_cast<std::int64_t>(early - alone));
  EXPECT_LE(stored.value("early", 1), static_cast<std::int64_t>(early));
  stored.expect_that_all_expire();
}

// It keeps its connections, and would answer "MASTERDOWN" to all that comes, for as long as it finds no
// master.
TEST(Sentinel, AMasterThatIsMadeAReplicaIsAskedAnewWhetherItIsOne) {
  RedisSentinels sentinels({"--replica-serve-stale-data", "no"});
  RedisServer& master = sentinels.server(sentinels.master());
  WatchedStore store(sentinels.url());
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  master.command({"REPLICAOF", "127.0.0.1", std::to_string(free_port())});
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_down("is not a master"));
  master.command({"REPLICAOF", "NO", "ONE"});
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(StoredCounters(master.client()).value("a", 1), 2);
}

/// A network that is torn: the node still reaches the old master, which the sentinels have replaced.
TEST(Sentinel, ANodeLeftWithTheOldMasterGoesToTheNewOne) {
  RedisSentinels sentinels;
  WatchedStore store(sentinels.url());
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  wait_until_all_in_step(sentinels);
  const std::size_t before = sentinels.master();
  // Hung, so far as the sentinels see.
  sentinels.server(before).signal(SIGSTOP);
  const std::size_t after = sentinels.wait_for_another_master(before);
  store.add("a", 1, 10);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(StoredCounters(sentinels.server(after).client()).value("a", 1), 11);
  sentinels.server(before).signal(SIGCONT);
  sentinels.wait_until_in_step(before);
  store.add("a", 1, 100);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(StoredCounters(sentinels.server(after).client()).value("a", 1), 111);
}

TEST(Sentinel, ThatWantsAPasswordGetsTheMasters) {
  RedisSentinels sentinels({"--requirepass", "hunter2", "--masterauth", "hunter2"},
                           {"requirepass hunter2", "sentinel auth-pass weir hunter2"}, "hunter2");
  std::string url = sentinels.url();
  url.insert(url.find("127"), ":hunter2@");
  WatchedStore store(url);
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(StoredCounters(sentinels.server(sentinels.master()).client()).value("a", 1), 1);
}

TEST(Sentinel, WithoutAPasswordServesAMasterWithOne) {
  RedisSentinels sentinels({"--requirepass", "hunter2", "--masterauth", "hunter2"},
                           {"sentinel auth-pass weir hunter2"}, "hunter2");
  std::string url = sentinels.url();
  url.insert(url.find("127"), ":hunter2@");
  WatchedStore store(url);
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  WatchedStore without(sentinels.url());
  EXPECT_TRUE(without.wait_until_down("NOAUTH"));
}

}  // namespace
}  // namespace weir
