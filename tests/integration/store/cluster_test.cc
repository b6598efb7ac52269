// SPDX-License-Identifier: BSD-3-Clause
// The store on a Redis Cluster: three masters, slots on the move, failovers, and a network that fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fault_network.h"
#include "load.h"
#include "random_faults.h"
#include "redis_cluster.h"
#include "seed.h"
#include "store/outbox.h"
#include "stored_counters.h"
#include "wait_until.h"
#include "watched_store.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string partition_tag(std::uint32_t partition) { return "{" + std::to_string(partition) + "}"; }

std::vector<std::pair<std::string, std::uint64_t>> many(std::size_t count, std::uint64_t delta) {
  std::vector<std::pair<std::string, std::uint64_t>> result;
  for (std::size_t i = 0; i < count; ++i) result.emplace_back("rule|" + std::to_string(i), delta);
  return result;
}

TEST(Cluster, SpreadsThePartitionsOverAllMastersAndSumsAcrossNodes) {
  RedisCluster cluster;
  WatchedStore first(cluster.url());
  WatchedStore second(cluster.url(1));
  first.add(many(500, 3), 7);
  second.add(many(500, 4), 7);
  ASSERT_TRUE(first.wait_until_quiet());
  ASSERT_TRUE(second.wait_until_quiet());
  const StoredCounters stored(cluster.master_clients());
  for (const auto& [name, delta] : many(500, 7)) EXPECT_EQ(stored.value(name, 7), 7) << name;
  stored.expect_that_all_expire();
  for (RedisClient* master : cluster.master_clients())
    EXPECT_GT(master->command({"DBSIZE"}).integer, 10) << "every master has its part";
  EXPECT_TRUE(first.figures().up);
  EXPECT_EQ(first.figures().failures, 0u);
}

TEST(Cluster, IsFoundByAnyOneOfItsNodes) {
  RedisCluster cluster(RedisCluster::Replicas::one_each);
  const std::string dead = "redis+cluster://127.0.0.1:" + std::to_string(free_port());
  // A port where nobody listens, then a replica.
  WatchedStore store(dead + ",127.0.0.1:" + std::to_string(cluster.node(4).port()));
  store.add(many(200, 1), 1);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(StoredCounters(cluster.master_clients()).sum(), 200);
}

TEST(Cluster, TellsThatTheServerIsNone) {
  RedisServer server;
  WatchedStore store("redis+cluster://127.0.0.1:" + std::to_string(server.port()));
  EXPECT_TRUE(store.wait_until_down("cluster support disabled"));
}

TEST(Cluster, AServerOfOneIsNotTakenForAServerAlone) {
  RedisCluster cluster;
  WatchedStore store(cluster.node(0).tcp_url());
  store.add(many(64, 1), 1);
  EXPECT_TRUE(store.wait_until_down("redis+cluster://"));
}

TEST(Cluster, ASlotThatIsHalfWayToAnotherMasterIsServedAllTheTime) {
  RedisCluster cluster;
  WatchedStore store(cluster.url());
  const std::string name = "rule|1";
  const unsigned slot = cluster.slot_of(partition_tag(partition_of(name)));
  const std::size_t from = cluster.owner(slot);
  const std::size_t to = (from + 1) % RedisCluster::masters;
  // Counters of several ordinals, so that there are several names in the slot.
  for (Ordinal ordinal = 0; ordinal < 6; ++ordinal) store.add(name, ordinal, 1);
  ASSERT_TRUE(store.wait_until_quiet());

  cluster.begin_move(slot, to);
  const auto everywhere = [&] {
    // Old ones, which are still there or have moved, and new ones.
    for (Ordinal ordinal = 0; ordinal < 10; ++ordinal) store.add(name, ordinal, 10);
    ASSERT_TRUE(store.wait_until_quiet());
  };
  everywhere();
  ASSERT_EQ(cluster.move_names(slot, to, 3), 3u);
  everywhere();
  while (cluster.move_names(slot, to, 1) > 0) everywhere();
  cluster.end_move(slot, to);
  everywhere();

  const StoredCounters stored(cluster.master_clients());
  const std::uint64_t last = store.total(name, 0);
  EXPECT_EQ(last % 10, 1u);
  for (Ordinal ordinal = 0; ordinal < 10; ++ordinal) {
    EXPECT_EQ(stored.value(name, ordinal), static_cast<std::int64_t>(last - (ordinal < 6 ? 0 : 1)))
        << ordinal;
    EXPECT_EQ(store.total(name, ordinal), last - (ordinal < 6 ? 0 : 1)) << ordinal;
  }
  EXPECT_EQ(cluster.owner(slot), to);
  stored.expect_that_all_expire();
}

/// As they have to on a machine that leaves one of them no time for long.
TEST(Cluster, SlotsMoveThoughNodesHadToConnectAnew) {
  RedisCluster cluster;
  const auto made = [&] {
    std::vector<std::string> times;
    const Answer links = cluster.node(0).command({"CLUSTER", "LINKS"});
    for (std::size_t i = 0; i + 1 < links.elements.size(); ++i)
      if (links.elements[i] == "create-time") times.push_back(links.elements[i + 1]);
    return times;
  };
  // To and from each of the others.
  ASSERT_TRUE(wait_until("all links to be known", [&] { return made().size() == 2 * (cluster.size() - 1); }));
  const std::vector<std::string> before = made();
  cluster.hang(1);
  ASSERT_TRUE(wait_until("a link to be made anew", [&] { return made() != before; }));
  cluster.go_on(1);
  const std::size_t from = cluster.owner(0);
  for (const std::size_t to : {(from + 1) % RedisCluster::masters, from}) {
    cluster.move(0, to);
    EXPECT_EQ(cluster.owner(0), to);
  }
}

TEST(Cluster, ReshardingUnderLoadLosesAndDoublesNothing) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(test_seed()));
  std::mt19937_64 random(test_seed());
  RedisCluster cluster;
  Load load(cluster.url(), quick_config(), test_seed());
  ASSERT_TRUE(load.wait_for_more(500));
  for (int moves = 0; moves < 80; ++moves) {
    const unsigned slot =
        cluster.slot_of(partition_tag(static_cast<std::uint32_t>(random() % store_partitions)));
    const std::size_t to = random() % RedisCluster::masters;
    if (cluster.owner(slot) == to) continue;
    cluster.begin_move(slot, to);
    while (cluster.move_names(slot, to, 1) > 0) {
      if (random() % 2 == 0) {
        ASSERT_TRUE(load.wait_for_more(1));
      }
    }
    cluster.end_move(slot, to);
    ASSERT_FALSE(HasFailure());
  }
  ASSERT_TRUE(load.finish());
  const StoredCounters stored(cluster.master_clients());
  load.expect_exactly(stored);
  stored.expect_that_all_expire();
}

TEST(Cluster, FailoversByHandUnderLoadLoseAndDoubleNothing) {
  RedisCluster cluster(RedisCluster::Replicas::one_each);
  Load load(cluster.url(), quick_config(), test_seed());
  ASSERT_TRUE(load.wait_for_more(500));
  for (std::size_t i = 0; i < RedisCluster::masters; ++i) {
    cluster.fail_over_to(i + RedisCluster::masters);
    ASSERT_TRUE(load.wait_for_more(500));
  }
  cluster.fail_over_to(0);
  ASSERT_TRUE(load.finish());
  const StoredCounters stored(cluster.master_clients());
  load.expect_exactly(stored);
  stored.expect_that_all_expire();
}

TEST(Cluster, AMasterKilledUnderLoadCostsAtMostWhatItHadAcknowledgedSinceItsReplicaWasInStep) {
  RedisCluster cluster(RedisCluster::Replicas::one_each);
  Load load(cluster.url(), quick_config(), test_seed());
  ASSERT_TRUE(load.wait_for_more(500));
  // What has been acknowledged by now, the replica has: WAIT is answered when it has told so.
  const std::uint64_t safe = load.acknowledged();
  EXPECT_EQ(cluster.node(0).command({"WAIT", "1", "60000"}).integer, 1);
  ASSERT_TRUE(load.wait_for_more(200));
  cluster.kill(0);
  cluster.wait_for_takeover_by(3);
  const std::uint64_t at_risk = load.acknowledged() - safe;
  ASSERT_TRUE(load.wait_for_more(500));
  ASSERT_TRUE(load.finish());
  const StoredCounters stored(cluster.master_clients());
  const std::uint64_t missing = load.expect_nothing_doubled(stored);
  EXPECT_LE(missing, at_risk);
  stored.expect_that_all_expire();
  std::printf("%llu lost of %llu at risk\n", static_cast<unsigned long long>(missing),
              static_cast<unsigned long long>(at_risk));
}

/// What has been sent to a master that hangs goes to the one that takes its place, whether the first is a
/// seed, which is kept, or not.
class ClusterWithSeeds : public ::testing::TestWithParam<std::size_t> {};

TEST_P(ClusterWithSeeds, WhatAHangingMasterHasGoesToTheOneThatTakesItsPlace) {
  RedisCluster cluster(RedisCluster::Replicas::one_each);
  StoreConfig config = quick_config();
  config.timeout = 90s;  // longer than this test waits: the cluster's map alone can help
  WatchedStore store(cluster.url(GetParam()), config);
  store.add(many(300, 1), 1);
  ASSERT_TRUE(store.wait_until_quiet());
  cluster.hang(2);
  store.add(many(300, 1), 2);
  cluster.wait_for_takeover_by(5);
  EXPECT_TRUE(store.wait_until_quiet());
  cluster.go_on(2);
  ASSERT_TRUE(cluster.wait_until_well());
  const StoredCounters stored(cluster.master_clients());
  for (const auto& [name, delta] : many(300, 1)) EXPECT_EQ(stored.value(name, 2), 1) << name;
  EXPECT_EQ(store.figures().expired, 0u);
}

INSTANTIATE_TEST_SUITE_P(Hanging, ClusterWithSeeds, ::testing::Values(2, 6),
                         [](const auto& one) { return one.param == 2 ? "NoSeed" : "ASeed"; });

TEST(Cluster, AMasterThatIsAwayTakesOnlyItsOwnPartitionsWithIt) {
  // Slots that nobody serves do not keep the others from being served.
  RedisCluster cluster(RedisCluster::Replicas::none, {"--cluster-require-full-coverage", "no"});
  WatchedStore store(cluster.url());
  store.add(many(300, 1), 1);
  ASSERT_TRUE(store.wait_until_quiet());
  std::uint64_t there = 0;
  for (const auto& [name, delta] : many(300, 1))
    if (cluster.owner(cluster.slot_of(partition_tag(partition_of(name)))) != 0) there += delta;
  cluster.kill(0);
  store.add(many(300, 1), 2);
  ASSERT_TRUE(store.wait_until([&](const StoreFigures& figures) { return figures.applied == 300 + there; }));
  EXPECT_EQ(store.figures().pending, 300 - there);
  EXPECT_FALSE(store.figures().up);
  EXPECT_THAT(store.figures().error, HasSubstr("127.0.0.1:" + std::to_string(cluster.node(0).port())));
  cluster.start(0);
  ASSERT_TRUE(store.wait_until_quiet());
  ASSERT_TRUE(store.wait_until_up());
  const StoredCounters stored(cluster.master_clients());
  for (const auto& [name, delta] : many(300, 1)) EXPECT_EQ(stored.value(name, 2), 1) << name;
}

TEST(Cluster, AClusterThatIsDownIsToldAndHeals) {
  RedisCluster cluster;
  WatchedStore store(cluster.url());
  store.add(many(300, 1), 1);
  ASSERT_TRUE(store.wait_until_quiet());
  cluster.kill(1);
  wait_until("the others to notice", [&] {
    return cluster.node(0).command({"CLUSTER", "INFO"}).text.find("cluster_state:fail") != std::string::npos;
  });
  store.add(many(300, 1), 2);
  ASSERT_TRUE(store.wait_until([](const StoreFigures& figures) { return !figures.up; }));
  EXPECT_GT(store.figures().pending, 0u);
  cluster.start(1);
  cluster.wait_until_well();
  ASSERT_TRUE(store.wait_until_quiet());
  ASSERT_TRUE(store.wait_until_up());
  const StoredCounters stored(cluster.master_clients());
  for (const auto& [name, delta] : many(300, 1)) EXPECT_EQ(stored.value(name, 2), 1) << name;
}

/// Everything at once: connections that fail, requests that are delivered late and again, slots on the move.
TEST(Cluster, ReshardingOverANetworkThatFailsLosesAndDoublesNothing) {
  const std::uint64_t seed = test_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  RedisCluster cluster;
  FaultNetwork network;
  std::vector<FaultNetwork::Door> doors;
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    doors.push_back(network.open(cluster.node(i).socket()));
    cluster.announce(i, network.port(doors[i]));
  }
  const std::string url = "redis+cluster://127.0.0.1:" + std::to_string(network.port(doors[0])) +
                          ",127.0.0.1:" + std::to_string(network.port(doors[1]));
  StoreConfig config = quick_config();
  config.timeout = 30ms;
  config.reconnect = 2ms;
  constexpr std::size_t faulty = 600;
  std::size_t before = 0;
  for (int period = 0; period < 4; ++period) {
    config.prefix = "period" + std::to_string(period);
    for (std::size_t i = 0; i < doors.size(); ++i)
      network.plan(doors[i], [seed, i, period](std::size_t connection) {
        return random_faults(seed + 1000 * static_cast<std::uint64_t>(period) + i, connection);
      });
    Load load(url, config, seed + static_cast<std::uint64_t>(period));
    const auto connections = [&] {
      std::size_t sum = 0;
      for (const auto door : doors) sum += network.connections(door);
      return sum;
    };
    while (connections() < before + faulty / 4) {
      const unsigned slot =
          cluster.slot_of(partition_tag(static_cast<std::uint32_t>(random() % store_partitions)));
      cluster.move(slot, random() % RedisCluster::masters);
      ASSERT_FALSE(HasFailure());
      // A connection that has outlived its faults makes room for the next.
      if (random() % 10 == 0) cluster.node(random() % cluster.size()).kill_clients();
    }
    for (const auto door : doors) network.pass(door);
    ASSERT_TRUE(load.finish());
    for (const auto door : doors) ASSERT_TRUE(network.settle(door));
    before = connections();
    const StoredCounters stored(cluster.master_clients(), config.prefix);
    load.expect_exactly(stored);
    stored.expect_that_all_expire();
    EXPECT_GT(load.failures(), 0u);
  }
  std::printf("%zu connections\n", before);
}

}  // namespace
}  // namespace weir
