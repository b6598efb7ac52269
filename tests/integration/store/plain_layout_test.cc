// SPDX-License-Identifier: BSD-3-Clause
// The literal form: counters that gateways in other languages can share.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/heartbeat.h"
#include "redis_server.h"
#include "watched_store.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

StoreConfig plain() {
  StoreConfig config = quick_config();
  config.layout = StoreLayout::plain;
  return config;
}

TEST(PlainLayout, SharesItsCountersWithWhoeverUsesIncrbyAndExpire) {
  RedisServer server;
  WatchedStore store(server.unix_url(), plain());
  server.command({"INCRBY", "login|203.0.113.9:170", "5"});
  server.command({"EXPIRE", "login|203.0.113.9:170", "100"});
  store.add({{"login|203.0.113.9", 3}, {"login|203.0.113.10", 2}}, 170, 200s);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.total("login|203.0.113.9", 170), 8u) << "theirs and ours";
  EXPECT_EQ(server.command({"GET", "login|203.0.113.9:170"}).text, "8");
  EXPECT_LE(server.command({"TTL", "login|203.0.113.9:170"}).integer, 100)
      << "who made it decides how long it lives";
  EXPECT_GT(server.command({"TTL", "login|203.0.113.10:170"}).integer, 100);
  server.command({"INCRBY", "login|203.0.113.10:170", "4"});
  store.add("login|203.0.113.10", 170, 0);
  store.add("login|203.0.113.10", 170, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.total("login|203.0.113.10", 170), 7u);
}

TEST(PlainLayout, ACounterThatSomebodyElseUsesForAnotherTypeIsGivenUpAndTheOthersGoOn) {
  RedisServer server;
  WatchedStore store(server.unix_url(), plain());
  server.command({"LPUSH", "a:1", "x"});
  store.add({{"a", 3}, {"b", 2}}, 1);
  ASSERT_TRUE(store.wait_until([](const StoreFigures& figures) { return figures.pending == 0; }));
  EXPECT_EQ(store.figures().expired, 3u);
  EXPECT_EQ(server.command({"GET", "b:1"}).text, "2");
}

TEST(PlainLayout, NodesOfAnotherPrefixAreNotCountedAmongTheirOwn) {
  RedisServer server;
  StoreConfig others = plain();
  others.prefix = "others";
  WatchedStore first(server.unix_url(), plain());
  WatchedStore second(server.unix_url(), plain());
  WatchedStore other(server.unix_url(), others);
  const std::string beat(heartbeat_name);
  for (WatchedStore* store : {&first, &second, &other}) {
    store->add({{beat, 1}, {"login|203.0.113.9", 1}}, 170);
    ASSERT_TRUE(store->wait_until_quiet());
  }
  EXPECT_EQ(second.total(beat, 170), 2u);
  EXPECT_EQ(other.total(beat, 170), 1u);
  EXPECT_EQ(other.total("login|203.0.113.9", 170), 3u) << "rules' counters are everybody's";
  EXPECT_EQ(server.command({"GET", "weir:~nodes:170"}).text, "2");
  EXPECT_EQ(server.command({"GET", "others:~nodes:170"}).text, "1");
}

TEST(PlainLayout, ConnectionsKilledInMidRunLoseAndDoubleNothing) {
  RedisServer server;
  WatchedStore first(server.unix_url(), plain());
  WatchedStore second(server.unix_url(), plain());
  std::map<std::string, std::uint64_t> expected;
  std::mt19937_64 random(20240611);
  for (int round = 0; round < 200; ++round) {
    for (WatchedStore* store : {&first, &second}) {
      std::vector<std::pair<std::string, std::uint64_t>> deltas;
      for (int i = 0; i < 10; ++i) deltas.emplace_back("r|" + std::to_string(random() % 50), random() % 5);
      for (const auto& [name, delta] : deltas) expected[name] += delta;
      store->add(deltas, 1);
    }
    if (round % 5 == 0) server.kill_clients();
  }
  ASSERT_TRUE(first.wait_until_quiet());
  ASSERT_TRUE(second.wait_until_quiet());
  for (const auto& [name, sum] : expected)
    EXPECT_EQ(server.command({"GET", name + ":1"}).text, sum == 0 ? "" : std::to_string(sum)) << name;
  for (const std::string& name : server.names("*"))
    EXPECT_GT(server.command({"PTTL", name}).integer, 0) << name;
}

}  // namespace
}  // namespace weir
