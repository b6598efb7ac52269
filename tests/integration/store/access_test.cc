// SPDX-License-Identifier: BSD-3-Clause
// What a store needs to be let in, and that it needs no more: users with exactly the rights that
// redis_store.h tells, passwords from files and from the environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "child_process.h"
#include "redis_cluster.h"
#include "redis_sentinels.h"
#include "redis_server.h"
#include "store/outbox.h"
#include "stored_counters.h"
#include "wait_until.h"
#include "watched_store.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

using Rights = std::vector<std::string>;

// As redis_store.h documents them.
const Rights hash_rights{"+evalsha", "+eval", "+script|load", "+time", "+hmget",
                         "+hset",    "+hget", "+hincrby",     "+pttl", "+pexpire"};

/// A user who may do this and nothing else.
void make_user(RedisServer& server, const Rights& rights, const std::string& names = "~weir:*") {
  std::vector<std::string> words{"ACL", "SETUSER",       "weir", "reset", "on",
                                 ">pw", "resetchannels", names,  "-@all"};
  words.insert(words.end(), rights.begin(), rights.end());
  const Answer answer = server.command(words);
  EXPECT_FALSE(answer.is_error()) << answer.text;
}

std::string as_user(std::string url) { return url.insert(url.find("://") + 3, "weir:pw@"); }

/// Directly: "NOPERM …"; of a script's command: "… can't run this command" (Redis 7, Valkey), "… no
/// permissions to run the command" (Redis 8).
bool says_that_a_right_is_missing(const std::string& error) {
  return error.find("NOPERM") != std::string::npos || error.find("can't run") != std::string::npos ||
         error.find("no permissions to run") != std::string::npos;
}

/// Everything a store asks of its server: small and large counts, returned ones, maxima, reads.
void use_everything(WatchedStore& store) {
  constexpr std::uint64_t large = std::uint64_t{1} << 60;
  store.submit({{.name = "sum", .ordinal = 1, .delta = 5}, {.name = "large", .ordinal = 1, .delta = large}});
  ASSERT_TRUE(store.wait_until_quiet());
  store.submit({{.name = "sum", .ordinal = 1, .delta = 1, .returned = 2},
                {.name = "large", .ordinal = 1, .delta = 3},
                {.name = "peak", .ordinal = 1, .raised_to = 7},
                {.name = "unknown", .ordinal = 1}});
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.total("sum", 1), 4u);
  EXPECT_EQ(store.total("large", 1), large + 3);
  EXPECT_EQ(store.total("peak", 1), 7u);
}

TEST(Access, AUserWithTheDocumentedRightsIsEnough) {
  RedisServer server;
  make_user(server, hash_rights);
  WatchedStore store(as_user(server.tcp_url()));
  use_everything(store);
  EXPECT_TRUE(store.figures().up);
  EXPECT_EQ(store.figures().failures, 0u);
  EXPECT_TRUE(store.store().time().has_value());
}

TEST(Access, ADatabaseOfItsOwnNeedsOneRightMore) {
  RedisServer server;
  make_user(server, hash_rights);
  WatchedStore store(as_user(server.tcp_url()) + "/3");
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_down("SELECT"));
  server.command({"ACL", "SETUSER", "weir", "+select"});
  ASSERT_TRUE(store.wait_until_quiet());
}

TEST(Access, AUserOfTheClusterNeedsTwoRightsMore) {
  RedisCluster cluster;
  Rights rights = hash_rights;
  rights.insert(rights.end(), {"+cluster|slots", "+asking"});
  for (std::size_t i = 0; i < cluster.size(); ++i) make_user(cluster.node(i), rights);
  WatchedStore store(as_user(cluster.url()));
  const std::string name = "rule|1";
  const unsigned slot = cluster.slot_of("{" + std::to_string(partition_of(name)) + "}");
  const std::size_t to = (cluster.owner(slot) + 1) % RedisCluster::masters;
  store.add(name, 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  // Half way, so that it is told ASK.
  cluster.begin_move(slot, to);
  store.add(name, 2, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  while (cluster.move_names(slot, to, 100) > 0) {
  }
  store.add(name, 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  cluster.end_move(slot, to);
  EXPECT_EQ(StoredCounters(cluster.master_clients()).sum(), 3);
  EXPECT_EQ(store.figures().failures, 0u);
}

TEST(Access, AUserBehindSentinelsNeedsOneRightMore) {
  RedisSentinels sentinels;
  Rights rights = hash_rights;
  for (std::size_t i = 0; i < RedisSentinels::count; ++i) make_user(sentinels.server(i), rights);
  WatchedStore store(as_user(sentinels.url()));
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_down("ROLE"));
  rights.emplace_back("+role");
  for (std::size_t i = 0; i < RedisSentinels::count; ++i) make_user(sentinels.server(i), rights);
  ASSERT_TRUE(store.wait_until_quiet());
}

TEST(Access, CountersThatNodesExchangeNeedOneRightMore) {
  RedisServer server;
  Rights rights = hash_rights;
  StoreConfig config = quick_config();
  config.layout = StoreLayout::exchange;
  make_user(server, rights);
  WatchedStore store(as_user(server.tcp_url()), config);
  WatchedStore other(as_user(server.tcp_url()), config);
  store.submit({{.name = "sum", .ordinal = 1, .delta = 5},
                {.name = "quota", .ordinal = 1, .delta = 5, .returned = 2, .undivided = true},
                {.name = "peak", .ordinal = 1, .raised_to = 7, .undivided = true}});
  ASSERT_TRUE(store.wait_until_quiet());
  other.add("sum", 1, 1);
  ASSERT_TRUE(other.wait_until_quiet());
  EXPECT_EQ(other.total("sum", 1), 6u);
  // Until a log is shortened.
  const auto count_on = [&] {
    for (int i = 0; i < 600; ++i) {
      store.add("sum", 1, 1);
      store.wait_for_wake(std::chrono::milliseconds{20});
      store.collect();
    }
  };
  count_on();
  ASSERT_TRUE(store.wait_until([](const StoreFigures& figures) {
    return !figures.up && says_that_a_right_is_missing(figures.error);
  }));
  rights.emplace_back("+hdel");
  make_user(server, rights);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.total("sum", 1), 606u);
  server.command({"SCRIPT", "FLUSH"});
  count_on();
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.total("sum", 1), 1206u);
}

TEST(Access, APlainLayoutNeedsOthers) {
  RedisServer server;
  make_user(server, {"+evalsha", "+eval", "+script|load", "+time", "+get", "+set", "+incrby"}, "~*");
  StoreConfig config = quick_config();
  config.layout = StoreLayout::plain;
  WatchedStore store(as_user(server.tcp_url()), config);
  use_everything(store);
  EXPECT_EQ(server.counter("sum:1"), 4u);
  EXPECT_EQ(store.figures().failures, 0u);
}

/// Without any one of the rights something does not work, nothing is counted that never expires, and when the
/// right is given everything that was pending is counted once.
class AccessWithout : public ::testing::TestWithParam<std::string> {};

TEST_P(AccessWithout, TheRightIsTold) {
  RedisServer server;
  Rights rights = hash_rights;
  std::erase(rights, GetParam());
  make_user(server, rights);
  WatchedStore store(as_user(server.tcp_url()));
  constexpr std::uint64_t large = std::uint64_t{1} << 60;
  // EVAL is for a script that the server has forgotten.
  if (GetParam() == "+eval") {
    ASSERT_TRUE(store.wait_until_up());
    server.command({"SCRIPT", "FLUSH"});
  }
  store.submit({{.name = "sum", .ordinal = 1, .delta = 5}, {.name = "large", .ordinal = 1, .delta = large}});
  store.submit({{.name = "peak", .ordinal = 1, .raised_to = 7}});
  // Only counters beyond 10^15 are left to it, one by one.
  const bool for_large_ones = GetParam() == "+hincrby";
  ASSERT_TRUE(store.wait_until([&](const StoreFigures& figures) {
    return for_large_ones ? figures.failures > 0 : !figures.up && says_that_a_right_is_missing(figures.error);
  }));
  const StoredCounters stored(server.client());
  stored.expect_that_all_expire();
  make_user(server, hash_rights);
  ASSERT_TRUE(store.wait_until_quiet());
  ASSERT_TRUE(store.wait_until_up());
  EXPECT_EQ(stored.value("sum", 1) + static_cast<std::int64_t>(store.figures().expired % large), 5);
  stored.expect_that_all_expire();
}

/// All but HGET, without which only totals beyond 10^15 are told less exactly.
Rights needed_rights() {
  Rights rights = hash_rights;
  std::erase(rights, "+hget");
  return rights;
}

INSTANTIATE_TEST_SUITE_P(Right, AccessWithout, ::testing::ValuesIn(needed_rights()), [](const auto& right) {
  std::string name = right.param.substr(1);
  std::ranges::replace(name, '|', '_');
  return name;
});

TEST(Access, NamesThatAreNotTheUsersAreTold) {
  RedisServer server;
  make_user(server, hash_rights, "~other:*");
  WatchedStore store(as_user(server.tcp_url()));
  store.add("a", 1, 1);
  EXPECT_TRUE(store.wait_until_down("NOPERM"));
  EXPECT_TRUE(server.names("*").empty());
}

// ---- passwords

class Password : public ::testing::Test {
 protected:
  Password() { server_.log_in_as({"AUTH", "right one"}); }
  void write(const std::string& text) const { std::ofstream(file_) << text; }

  RedisServer server_{{"--requirepass", "right one"}};
  TestFolder folder_{"password"};
  std::filesystem::path file_ = folder_.path() / "password";
};

TEST_F(Password, ComesFromAFile) {
  write("right one\n");
  StoreConfig config = quick_config();
  config.password_file = file_;
  WatchedStore store(server_.tcp_url(), config);
  store.add("a", 1, 1);
  EXPECT_TRUE(store.wait_until_quiet());
}

TEST_F(Password, IsReadFromItsFileAnewForEveryConnection) {
  write("wrong one");
  StoreConfig config = quick_config();
  config.password_file = file_;
  WatchedStore store(server_.tcp_url(), config);
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_down("WRONGPASS"));
  EXPECT_THAT(store.figures().error, Not(HasSubstr("wrong one")));
  write("right one");
  ASSERT_TRUE(store.wait_until_quiet());
  // And so is one that is changed while the store is connected.
  server_.command({"CONFIG", "SET", "requirepass", "next one"});
  server_.log_in_as({"AUTH", "next one"});
  write("next one");
  server_.kill_clients();
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(StoredCounters(server_.client()).value("a", 1), 2);
}

TEST_F(Password, ThatCannotBeReadIsTold) {
  StoreConfig config = quick_config();
  config.password_file = file_;
  WatchedStore missing(server_.tcp_url(), config);
  EXPECT_TRUE(missing.wait_until_down("cannot read \"" + file_.string() + "\""));
  write("\n");
  WatchedStore empty(server_.tcp_url(), config);
  EXPECT_TRUE(empty.wait_until_down("is empty"));
}

TEST_F(Password, ComesFromTheEnvironment) {
  StoreConfig config = quick_config();
  config.password_env = "WEIR_TEST_STORE_PASSWORD";
  // Before the store has a thread that could read it meanwhile.
  unsetenv("WEIR_TEST_STORE_PASSWORD");
  {
    WatchedStore store(server_.tcp_url(), config);
    EXPECT_TRUE(store.wait_until_down("no variable WEIR_TEST_STORE_PASSWORD"));
  }
  setenv("WEIR_TEST_STORE_PASSWORD", "right one", 1);
  {
    WatchedStore store(server_.tcp_url(), config);
    store.add("a", 1, 1);
    EXPECT_TRUE(store.wait_until_quiet());
  }
  unsetenv("WEIR_TEST_STORE_PASSWORD");
}

TEST_F(Password, GivenTwiceIsTold) {
  StoreConfig config = quick_config();
  config.password_file = file_;
  config.password_env = "WEIR_TEST_STORE_PASSWORD";
  WatchedStore store(server_.tcp_url(), config);
  EXPECT_TRUE(store.wait_until_down("more than once"));
}

TEST_F(Password, OfAUserNamedInTheUrlComesFromTheFileToo) {
  make_user(server_, hash_rights);
  write("pw");
  StoreConfig config = quick_config();
  config.password_file = file_;
  std::string url = server_.tcp_url();
  WatchedStore store(url.insert(url.find("127"), "weir@"), config);
  store.add("a", 1, 1);
  EXPECT_TRUE(store.wait_until_quiet());
}

}  // namespace
}  // namespace weir
