// SPDX-License-Identifier: BSD-3-Clause
// Layout "exchange": nodes that read each other's logs instead of adding up in the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "load.h"
#include "redis_cluster.h"
#include "redis_sentinels.h"
#include "redis_server.h"
#include "seed.h"
#include "store/exchange/exchange_group.h"
#include "store/outbox.h"
#include "stored_counters.h"
#include "wait_until.h"
#include "watched_store.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

StoreConfig exchange() {
  StoreConfig config = quick_config();
  config.layout = StoreLayout::exchange;
  return config;
}

std::string name(std::size_t number) { return "rule|" + std::to_string(number); }

std::vector<std::pair<std::string, std::uint64_t>> many(std::size_t count, std::uint64_t delta) {
  std::vector<std::pair<std::string, std::uint64_t>> result;
  for (std::size_t i = 0; i < count; ++i) result.emplace_back(name(i), delta);
  return result;
}

/// Adds to all, and waits for the answers.
[[nodiscard]] bool count(WatchedStore& node, std::size_t names, std::uint64_t delta, Ordinal ordinal = 1) {
  const std::uint64_t before = node.replies();
  node.add(many(names, delta), ordinal);
  return node.wait_until([&](const StoreFigures&) { return node.replies() >= before + names; });
}

TEST(ExchangeLayout, EveryNodeSeesTheSumOfAll) {
  RedisServer server;
  WatchedStore a(server.unix_url(), exchange());
  WatchedStore b(server.unix_url(), exchange());
  WatchedStore c(server.tcp_url(), exchange());
  ASSERT_TRUE(count(a, 500, 1));
  ASSERT_TRUE(count(b, 500, 10));
  ASSERT_TRUE(count(c, 300, 100));
  ASSERT_TRUE(count(a, 500, 0));
  for (std::size_t i = 0; i < 500; ++i) {
    EXPECT_EQ(a.total(name(i), 1), i < 300 ? 111u : 11u) << i;
    EXPECT_EQ(b.total(name(i), 1), 11u) << i;
  }
  const StoredCounters stored(server.client());
  for (std::size_t i = 0; i < 500; ++i) EXPECT_EQ(stored.value(name(i), 1), i < 300 ? 111 : 11) << i;
  stored.expect_that_all_expire();
  EXPECT_EQ(a.figures().failures + b.figures().failures + c.figures().failures, 0u);
}

TEST(ExchangeLayout, KeepsOneHashOfAllLogsPerPartitionIntervalAndOrdinal) {
  RedisServer server;
  WatchedStore a(server.unix_url(), exchange());
  WatchedStore b(server.unix_url(), exchange());
  a.add(name(1), 7, 1);
  b.add(name(1), 7, 1);
  ASSERT_TRUE(a.wait_until_quiet());
  ASSERT_TRUE(b.wait_until_quiet());
  const std::string hash = "weir:{" + std::to_string(partition_of(name(1))) + "}:x:1000:7";
  EXPECT_THAT(server.names("*"), ElementsAre(hash));
  EXPECT_EQ(server.command({"OBJECT", "ENCODING", hash}).text, "hashtable")
      << "a list would be searched from its beginning for each field";
}

TEST(ExchangeLayout, LeavesWhatNeedsOneValueInTheHash) {
  RedisServer server;
  WatchedStore store(server.unix_url(), exchange());
  store.submit({{.name = "peak", .ordinal = 1, .raised_to = 7, .undivided = true},
                {.name = "quota", .ordinal = 1, .delta = 9, .undivided = true},
                {.name = "sum", .ordinal = 1, .delta = 3}});
  ASSERT_TRUE(store.wait_until_quiet());
  store.submit({{.name = "quota", .ordinal = 1, .returned = 4, .undivided = true}});
  ASSERT_TRUE(store.wait_until_quiet());
  const StoredCounters stored(server.client());
  const auto in_hash = [&](const std::string& counter) {
    return server.command({"HGET", stored.name_in_store(counter, 1), counter}).text;
  };
  EXPECT_EQ(in_hash("peak"), "7");
  EXPECT_EQ(in_hash("quota"), "5");
  EXPECT_EQ(in_hash("sum"), "");
  EXPECT_EQ(stored.value("sum", 1), 3);
}

TEST(ExchangeLayout, AQuestionWritesNothing) {
  RedisServer server;
  WatchedStore store(server.unix_url(), exchange());
  ASSERT_TRUE(count(store, 100, 0));
  EXPECT_THAT(server.names("*"), IsEmpty());
}

TEST(ExchangeLayout, ANodeThatIsRestartedFindsWhatItCountedBefore) {
  RedisServer server;
  WatchedStore other(server.unix_url(), exchange());
  ASSERT_TRUE(count(other, 50, 1));
  for (int life = 1; life <= 3; ++life) {
    WatchedStore node(server.unix_url(), exchange());
    ASSERT_TRUE(count(node, 50, 10));
    for (std::size_t i = 0; i < 50; ++i)
      EXPECT_EQ(node.total(name(i), 1), static_cast<std::uint64_t>(1 + 10 * life));
  }
  ASSERT_TRUE(count(other, 50, 0));
  EXPECT_EQ(other.total(name(7), 1), 31u);
}

TEST(ExchangeLayout, AWipedStoreIsRestoredByTheNodesThatCount) {
  RedisServer server;
  WatchedStore a(server.unix_url(), exchange());
  WatchedStore b(server.unix_url(), exchange());
  ASSERT_TRUE(count(a, 200, 1));
  ASSERT_TRUE(count(b, 200, 10));
  ASSERT_TRUE(count(a, 200, 100));
  server.command({"FLUSHALL"});
  // By what it counts, and by what it asks.
  ASSERT_TRUE(count(a, 200, 1000));
  ASSERT_TRUE(count(b, 200, 0));
  for (std::size_t i = 0; i < 200; ++i) EXPECT_EQ(b.total(name(i), 1), 1111u);
  const StoredCounters stored(server.client());
  for (std::size_t i = 0; i < 200; ++i) EXPECT_EQ(stored.value(name(i), 1), 1111) << i;
  stored.expect_that_all_expire();
}

TEST(ExchangeLayout, LogsStayShortAndWhoComesRarelyStillKnowsTheTotals) {
  RedisServer server;
  WatchedStore often(server.unix_url(), exchange());
  WatchedStore rarely(server.unix_url(), exchange());
  const std::string counter = name(1);
  const std::string hash = "weir:{" + std::to_string(partition_of(counter)) + "}:x:1000:1";
  rarely.add(counter, 1, 1000);
  ASSERT_TRUE(rarely.wait_until_quiet());
  std::int64_t most = 0;
  constexpr std::uint64_t batches = 2500;
  for (std::uint64_t i = 1; i <= batches; ++i) {
    often.add(counter, 1, 1);
    ASSERT_TRUE(often.wait_until_quiet());
    EXPECT_EQ(often.total(counter, 1), 1000 + i);
    if (i % 100 == 0) most = std::max<std::int64_t>(most, server.command({"HLEN", hash}).integer);
    if (i != 700 && i != 2000) continue;
    rarely.add(counter, 1, 0);
    ASSERT_TRUE(rarely.wait_until([&](const StoreFigures&) { return rarely.total(counter, 1) == 1000 + i; }));
  }
  EXPECT_LT(most, static_cast<std::int64_t>(ExchangeGroup::least_log / ExchangeGroup::piece_overhead));
  const StoredCounters stored(server.client());
  EXPECT_EQ(stored.value(counter, 1), static_cast<std::int64_t>(1000 + batches));
  stored.expect_that_all_expire();
}

TEST(ExchangeLayout, WhatSomebodyHasDamagedIsCountedAndTheRestGoesOn) {
  RedisServer server;
  WatchedStore a(server.unix_url(), exchange());
  a.add(name(1), 1, 5);
  ASSERT_TRUE(a.wait_until_quiet());
  const std::string hash = "weir:{" + std::to_string(partition_of(name(1))) + "}:x:1000:1";
  for (const std::string& field : server.command({"HKEYS", hash}).elements)
    if (field.find(':') != std::string::npos) server.command({"HSET", hash, field, "torn"});
  WatchedStore b(server.unix_url(), exchange());
  b.add(name(1), 1, 1);
  ASSERT_TRUE(b.wait_until_quiet());
  EXPECT_EQ(b.total(name(1), 1), 1u);
  EXPECT_EQ(b.figures().failures, 1u);
}

TEST(ExchangeLayout, ReshardingUnderLoadLosesAndDoublesNothing) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(test_seed()));
  std::mt19937_64 random(test_seed());
  RedisCluster cluster;
  Load load(cluster.url(), exchange(), test_seed());
  ASSERT_TRUE(load.wait_for_more(500));
  for (int moves = 0; moves < 60; ++moves) {
    const unsigned slot = cluster.slot_of("{" + std::to_string(random() % store_partitions) + "}");
    const std::size_t to = random() % RedisCluster::masters;
    if (cluster.owner(slot) == to) continue;
    cluster.begin_move(slot, to);
    do {
      // Also with nothing there but what is new, which the new owner is asked for.
      if (random() % 2 == 0) {
        ASSERT_TRUE(load.wait_for_more(1));
      }
    } while (cluster.move_names(slot, to, 1) > 0);
    cluster.end_move(slot, to);
  }
  ASSERT_TRUE(load.finish());
  const StoredCounters stored(cluster.master_clients(), "weir", Load::all_names());
  load.expect_exactly(stored);
  stored.expect_that_all_expire();
}

TEST(ExchangeLayout, ASlotThatIsHalfWayToAnotherMasterIsServedAllTheTime) {
  RedisCluster cluster;
  WatchedStore first(cluster.url(), exchange());
  WatchedStore second(cluster.url(), exchange());
  const unsigned slot = cluster.slot_of("{" + std::to_string(partition_of(name(1))) + "}");
  const std::size_t to = (cluster.owner(slot) + 1) % RedisCluster::masters;
  for (Ordinal ordinal = 0; ordinal < 4; ++ordinal) first.add(name(1), ordinal, 1);
  ASSERT_TRUE(first.wait_until_quiet());
  cluster.begin_move(slot, to);
  ASSERT_EQ(cluster.move_names(slot, to, 2), 2u);
  // Old groups that have moved or have not, and new ones; the second node reads all of them for the first
  // time.
  for (WatchedStore* node : {&second, &first, &second}) {
    for (Ordinal ordinal = 0; ordinal < 6; ++ordinal) node->add(name(1), ordinal, 10);
    ASSERT_TRUE(node->wait_until_quiet());
  }
  for (Ordinal ordinal = 0; ordinal < 6; ++ordinal)
    EXPECT_EQ(second.total(name(1), ordinal), ordinal < 4 ? 31u : 30u) << ordinal;
  while (cluster.move_names(slot, to, 1) > 0) {
  }
  cluster.end_move(slot, to);
  const StoredCounters stored(cluster.master_clients());
  for (Ordinal ordinal = 0; ordinal < 6; ++ordinal)
    EXPECT_EQ(stored.value(name(1), ordinal), ordinal < 4 ? 31 : 30) << ordinal;
}

TEST(ExchangeLayout, APieceThatSomebodyHasDeletedIsNotAskedForAsFastAsCanBe) {
  RedisServer server;
  WatchedStore writer(server.unix_url(), exchange());
  ASSERT_TRUE(count(writer, 1, 1));
  const std::string logs = StoredCounters(server.client()).logs_in_store(name(0), 1);
  int deleted = 0;
  for (const std::string& field : server.command({"HKEYS", logs}).elements)
    if (!field.starts_with('~')) deleted += server.command({"HDEL", logs, field}).integer == 1;
  ASSERT_GT(deleted, 0);
  WatchedStore reader(server.unix_url(), exchange());
  reader.add(name(0), 1, 1);
  ASSERT_TRUE(reader.wait_until([](const StoreFigures& figures) { return figures.failures >= 10; }));
  const std::string statistics = server.command({"INFO", "commandstats"}).text;
  const std::string calls = "cmdstat_evalsha:calls=";
  const std::size_t at = statistics.find(calls);
  ASSERT_NE(at, std::string::npos);
  EXPECT_LE(std::stoi(statistics.substr(at + calls.size())), 40);
}

TEST(ExchangeLayout, WhatAMasterOfAClusterTookAwayIsRestoredByTheNodes) {
  RedisCluster cluster(RedisCluster::Replicas::one_each);
  Load load(cluster.url(), exchange(), test_seed());
  ASSERT_TRUE(load.wait_for_more(5000));
  cluster.kill(0);
  cluster.wait_for_takeover_by(3);
  ASSERT_TRUE(load.wait_for_more(500));
  ASSERT_TRUE(load.finish());
  ASSERT_TRUE(load.ask_for_all());
  const StoredCounters stored(cluster.master_clients(), "weir", Load::all_names());
  load.expect_exactly(stored);
  stored.expect_that_all_expire();
}

TEST(ExchangeLayout, WhatAFailoverBySentinelsTookAwayIsRestoredByTheNodes) {
  RedisSentinels sentinels;
  Load load(sentinels.url(), exchange(), test_seed());
  ASSERT_TRUE(load.wait_for_more(5000));
  const std::size_t before = sentinels.master();
  const std::size_t after = sentinels.fail_over();
  // Until then it acknowledges what it will forget.
  wait_until("the old master to be a replica", [&] {
    const Answer role = sentinels.server(before).client().try_command({"ROLE"});
    return !role.elements.empty() && role.elements[0] == "slave";
  });
  ASSERT_TRUE(load.wait_for_more(500));
  ASSERT_TRUE(load.finish());
  ASSERT_TRUE(load.ask_for_all());
  const StoredCounters stored({&sentinels.server(after).client()}, "weir", Load::all_names());
  load.expect_exactly(stored);
  stored.expect_that_all_expire();
}

}  // namespace
}  // namespace weir
