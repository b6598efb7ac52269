// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "faulty_proxy.h"
#include "redis_server.h"
#include "store/outbox.h"
#include "store/redis/batch_script.h"
#include "watched_store.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::string counter_name(const std::string& name, Ordinal ordinal) {
  return "weir:{" + std::to_string(partition_of(name)) + "}:" + name + ':' + std::to_string(ordinal);
}

std::vector<std::pair<std::string, std::uint64_t>> many(std::size_t count, std::uint64_t delta) {
  std::vector<std::pair<std::string, std::uint64_t>> result;
  for (std::size_t i = 0; i < count; ++i) result.emplace_back("rule|" + std::to_string(i), delta);
  return result;
}

// ---- the ordinary case

class RedisStoreOver : public ::testing::TestWithParam<const char*> {};

TEST_P(RedisStoreOver, AddsCountsAndRepliesWithTheSums) {
  RedisServer server;
  WatchedStore store(std::string(GetParam()) == "unix" ? server.unix_url() : server.tcp_url());
  store.add("login|10.0.0.1", 170, 5);
  ASSERT_TRUE(store.wait_until_quiet());
  store.add("login|10.0.0.1", 170, 2);
  store.add("login|10.0.0.1", 171, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.total("login|10.0.0.1", 170), 7u);
  EXPECT_EQ(store.total("login|10.0.0.1", 171), 1u);
  EXPECT_EQ(server.counter(counter_name("login|10.0.0.1", 170)), 7u);
  const StoreFigures figures = store.figures();
  EXPECT_TRUE(figures.up);
  EXPECT_EQ(figures.error, "");
  EXPECT_EQ(figures.applied, 8u);
  EXPECT_EQ(figures.expired, 0u);
  EXPECT_EQ(figures.failures, 0u);
  EXPECT_GT(figures.batches, 0u);
  EXPECT_GT(figures.round_trip, 0ns);
}

INSTANTIATE_TEST_SUITE_P(Transports, RedisStoreOver, ::testing::Values("unix", "tcp"),
                         [](const auto& transport) { return std::string(transport.param); });

TEST(RedisStore, ComesUpWithoutBeingAskedForAnything) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  EXPECT_TRUE(store.wait_until_up());
}

TEST(RedisStore, NamesCountersByPrefixPartitionNameAndOrdinal) {
  RedisServer server;
  StoreConfig config = quick_config();
  config.prefix = "edge:a";
  WatchedStore store(server.unix_url(), config);
  store.add("login|10.0.0.1", 170, 5);
  ASSERT_TRUE(store.wait_until_quiet());
  const std::string partition = "edge:a:{" + std::to_string(partition_of("login|10.0.0.1")) + "}:";
  EXPECT_THAT(server.names("*"),
              ElementsAre(StartsWith(partition + "applied:"), partition + "login|10.0.0.1:170"));
}

TEST(RedisStore, ADeltaOfNothingOnlyReads) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  store.add("a", 1, 0);
  ASSERT_TRUE(store.wait_until([&](const StoreFigures&) { return store.replies() == 1; }));
  EXPECT_EQ(store.total("a", 1), 0u);
  EXPECT_THAT(server.names("weir:*a:1"), IsEmpty()) << "reading creates nothing";
  server.command({"SET", counter_name("a", 1), "42", "PX", "60000"});
  store.add("a", 1, 0);
  ASSERT_TRUE(store.wait_until([&](const StoreFigures&) { return store.replies() == 2; }));
  EXPECT_EQ(store.total("a", 1), 42u);
}

TEST(RedisStore, TwoNodesSeeTheSumOfBoth) {
  RedisServer server;
  WatchedStore first(server.unix_url());
  WatchedStore second(server.tcp_url());
  for (int round = 1; round <= 20; ++round) {
    first.add("a", 1, 3);
    ASSERT_TRUE(first.wait_until_quiet());
    second.add("a", 1, 4);
    ASSERT_TRUE(second.wait_until_quiet());
    EXPECT_EQ(second.total("a", 1), 7u * static_cast<unsigned>(round));
  }
}

TEST(RedisStore, ManyCountersGoInBoundedBatches) {
  RedisServer server;
  StoreConfig config = quick_config();
  config.timeout = 10s;
  WatchedStore store(server.unix_url(), config);
  store.add(many(20'000, 2), 1);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.replies(), 20'000u);
  EXPECT_EQ(store.replied(), 40'000u);
  EXPECT_GE(store.figures().batches, 20'000u / 512);
  EXPECT_THAT(server.names("weir:*:rule|*:1"), SizeIs(20'000));
}

TEST(RedisStore, EveryNameHasATimeToLive) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  store.add(many(500, 1), 1, 30s);
  store.add(many(500, 1), 1, 30s);
  ASSERT_TRUE(store.wait_until_quiet());
  const std::vector<std::string> names = server.names("*");
  EXPECT_THAT(names, SizeIs(500 + store_partitions));
  for (const std::string& name : names) {
    const long long life = server.command({"PTTL", name}).integer;
    EXPECT_GT(life, 0) << name;
    const bool marker = name.find(":applied:") != std::string::npos;
    EXPECT_TRUE(marker || life <= 30'000) << name << ": " << life;
  }
}

TEST(RedisStore, LaterWritesDoNotProlongACounter) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  store.add("a", 1, 1, 1h);
  ASSERT_TRUE(store.wait_until_quiet());
  server.command({"PEXPIRE", counter_name("a", 1), "600000"});
  store.add("a", 1, 1, 1h);
  ASSERT_TRUE(store.wait_until_quiet());
  const long long life = server.command({"PTTL", counter_name("a", 1)}).integer;
  EXPECT_GT(life, 0);
  EXPECT_LE(life, 600'000);
}

TEST(RedisStore, TheMarkerOutlivesItsBatch) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  store.add("a", 1, 1, 1h);
  ASSERT_TRUE(store.wait_until_quiet());
  const auto markers = server.names("weir:*:applied:*");
  ASSERT_THAT(markers, SizeIs(1));
  EXPECT_GT(server.command({"PTTL", markers[0]}).integer, 3600'000);
}

TEST(RedisStore, LargeTotalsAreExact) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  constexpr std::uint64_t beyond_double = (std::uint64_t{1} << 53) + 1;
  store.add("a", 1, beyond_double);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.total("a", 1), beyond_double);
  store.add("a", 1, 2);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.total("a", 1), beyond_double + 2);
}

// ---- logging in

TEST(RedisStoreLogin, UsesAPasswordAlone) {
  RedisServer server({"--requirepass", "hunter2"});
  server.log_in_as({"AUTH", "hunter2"});
  WatchedStore store("redis://:hunter2@127.0.0.1:" + std::to_string(server.port()));
  store.add("a", 1, 1);
  EXPECT_TRUE(store.wait_until_quiet());
}

TEST(RedisStoreLogin, UsesAUserWithJustThePermissionsItNeeds) {
  RedisServer server;
  server.command({"ACL", "SETUSER", "weir", "on", ">p@ss:word", "~weir:*", "resetchannels", "-@all", "+get",
                  "+set", "+incrby", "+eval", "+evalsha", "+script|load", "+select"});
  WatchedStore store("redis+unix://weir:p%40ss%3Aword@" + server.socket().string() + "?db=3");
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  server.command({"SELECT", "3"});
  EXPECT_EQ(server.counter(counter_name("a", 1)), 1u);
}

TEST(RedisStoreLogin, TellsThatAPasswordIsWantedAndHealsWhenItIsNoLonger) {
  RedisServer server({"--requirepass", "hunter2"});
  server.log_in_as({"AUTH", "hunter2"});
  WatchedStore store(server.unix_url());
  store.add("a", 1, 7);
  ASSERT_TRUE(store.wait_until_down("NOAUTH"));
  EXPECT_EQ(store.figures().pending, 7u);
  server.command({"CONFIG", "SET", "requirepass", ""});
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(server.counter(counter_name("a", 1)), 7u);
}

TEST(RedisStoreLogin, TellsThatThePasswordIsWrongWithoutShowingIt) {
  RedisServer server({"--requirepass", "right"});
  server.log_in_as({"AUTH", "right"});
  WatchedStore store("redis://:hunter2@127.0.0.1:" + std::to_string(server.port()));
  ASSERT_TRUE(store.wait_until_down("AUTH: WRONGPASS"));
  EXPECT_THAT(store.figures().error, AllOf(StartsWith("redis://127.0.0.1:"), Not(HasSubstr("hunter2"))));
  server.command({"CONFIG", "SET", "requirepass", "hunter2"});
  EXPECT_TRUE(store.wait_until_up());
}

TEST(RedisStoreLogin, NeverShowsAPasswordThatAServerRepeats) {
  RedisServer server;
  FaultyProxy proxy(server.socket());
  proxy.set({Fault::Kind::say, 0, "-ERR hunter2 is not the password\r\n"});
  std::string url = proxy.url();
  WatchedStore store(url.insert(url.find("127"), ":hunter2@"));
  ASSERT_TRUE(store.wait_until_down("AUTH: ERR *** is not the password"));
}

TEST(RedisStoreLogin, TellsThatTheDatabaseDoesNotExist) {
  RedisServer server;
  WatchedStore store(server.tcp_url() + "/999");
  EXPECT_TRUE(store.wait_until_down("SELECT: ERR DB index is out of range"));
}

TEST(RedisStoreLogin, TellsAPermissionThatIsLackingAndLosesNothing) {
  RedisServer server;
  server.command({"ACL", "SETUSER", "weir", "on", ">hunter2", "~weir:*", "-@all", "+get", "+set", "+eval",
                  "+evalsha", "+script|load"});
  WatchedStore store("redis+unix://weir:hunter2@" + server.socket().string());
  store.add("a", 1, 7);
  ASSERT_TRUE(store.wait_until_down("user_script"));
  EXPECT_EQ(store.figures().pending, 7u);
  EXPECT_EQ(server.counter(counter_name("a", 1)), 0u);
  server.command({"ACL", "SETUSER", "weir", "+incrby"});
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(server.counter(counter_name("a", 1)), 7u);
  EXPECT_GT(server.command({"PTTL", counter_name("a", 1)}).integer, 0);
}

// ---- servers that are not there, or not themselves

TEST(RedisStoreFaults, WhatIsRefusedIsCarriedOverUntilTheServerIsBack) {
  RedisServer server;
  server.kill();
  WatchedStore store(server.tcp_url());
  store.add("a", 1, 5);
  ASSERT_TRUE(store.wait_until_down("Connection refused"));
  EXPECT_EQ(store.figures().pending, 5u);
  store.add("a", 1, 6);
  server.start();
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.total("a", 1), 11u);
  EXPECT_EQ(server.counter(counter_name("a", 1)), 11u);
  EXPECT_EQ(store.figures().error, "");
}

TEST(RedisStoreFaults, ASocketThatDoesNotExistIsTold) {
  WatchedStore store("redis+unix:///nonexistent/weir.sock");
  EXPECT_TRUE(store.wait_until_down(
      "redis+unix:///nonexistent/weir.sock: cannot connect: No such file or directory"));
}

TEST(RedisStoreFaults, AHostThatDoesNotExistIsTold) {
  WatchedStore store("redis://weir.invalid");
  EXPECT_TRUE(store.wait_until_down("cannot resolve the host's name"));
}

TEST(RedisStoreFaults, TheLossOfAnIdleConnectionIsNoticed) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  ASSERT_TRUE(store.wait_until_up());
  server.kill();
  ASSERT_TRUE(store.wait_until_down("cannot connect"));
  server.start();
  EXPECT_TRUE(store.wait_until_up());
}

/// A fault, and the words that tell it.
struct NamedFault {
  const char* name;
  Fault fault;
  const char* words;
};

void PrintTo(const NamedFault& fault, std::ostream* out) { *out << fault.name; }

class RedisStoreMeets : public ::testing::TestWithParam<NamedFault> {};

TEST_P(RedisStoreMeets, TellsItKeepsTheCountsAndHeals) {
  RedisServer server;
  FaultyProxy proxy(server.socket());
  proxy.set(GetParam().fault);
  StoreConfig config = quick_config();
  config.timeout = 200ms;
  WatchedStore store(proxy.url(), config);
  store.add("a", 1, 5);
  ASSERT_TRUE(store.wait_until_down(GetParam().words));
  // It tries again, and is not stuck with one attempt.
  const std::size_t attempts = proxy.connections();
  ASSERT_TRUE(store.wait_until([&](const StoreFigures&) { return proxy.connections() > attempts; }));
  EXPECT_EQ(store.figures().pending, 5u);
  EXPECT_EQ(store.figures().applied, 0u);
  proxy.set({});
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(server.counter(counter_name("a", 1)), 5u) << "exactly once, whatever had arrived before";
}

// Of the answers to greeting and batch, "$40\r\n<digest>\r\n" are the first 47 bytes.
constexpr std::size_t greeting = 47;

// And what is asked: "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$<length>\r\n<script>\r\n", then the batch.
const std::size_t in_the_batch = batch_script().size() + 37 + 100;

const NamedFault named_faults[] = {
    {"Close", {Fault::Kind::close}, "connection closed by the server"},
    {"Reset", {Fault::Kind::reset}, "Connection reset by peer"},
    {"Hang", {Fault::Kind::hang}, "no answer in time"},
    {"SlowDrip", {Fault::Kind::drip, 0, "$9999\r\n" + std::string(9999, 'x')}, "no answer in time"},
    {"SlowDripOfGoodReplies", {Fault::Kind::drip, 0, "*100\r\n" + std::string(9999, '\n')}, "server"},
    {"Http", {Fault::Kind::say, 0, "HTTP/1.1 400 Bad Request\r\n\r\n"}, "not Redis' protocol"},
    {"HugeArray", {Fault::Kind::say, 0, "*1000000000\r\n"}, "not Redis' protocol"},
    {"WrongType", {Fault::Kind::say, 0, ":5\r\n"}, "not what Redis answers"},
    {"TooManyReplies", {Fault::Kind::say, 0, "+OK\r\n+OK\r\n"}, "answered what was not asked"},
    {"TooManyClients",
     {Fault::Kind::say, 0, "-ERR max number of clients reached\r\n"},
     "max number of clients"},
    {"Loading", {Fault::Kind::say, 0, "-LOADING Redis is loading the dataset in memory\r\n"}, "LOADING"},
    {"ControlCharacters", {Fault::Kind::say, 0, "-ERR \x1b[2J\r\n"}, "ERR ?[2J"},
    {"NoAnswerToTheBatch", {Fault::Kind::stall_answer, greeting}, "no answer in time"},
    {"HalfAnAnswerToTheBatch", {Fault::Kind::stall_answer, greeting + 3}, "no answer in time"},
    {"CutBeforeTheAnswer", {Fault::Kind::cut_answer, greeting}, "connection closed by the server"},
    {"CutInTheAnswer", {Fault::Kind::cut_answer, greeting + 5}, "connection closed by the server"},
    {"CutInTheRequest", {Fault::Kind::cut_request, in_the_batch}, "connection closed by the server"},
    {"AnswerOfWrongLength", {Fault::Kind::replace, greeting, "*2\r\n:1\r\n:1\r\n"}, "not what Redis answers"},
    {"AnswerOfWrongType", {Fault::Kind::replace, greeting, "+OK\r\n"}, "not what Redis answers"},
    {"AnswerWithinAnswer", {Fault::Kind::replace, greeting, "*1\r\n*1\r\n:1\r\n"}, "not Redis' protocol"},
    {"AnswerThatMovedAway", {Fault::Kind::replace, greeting, "-MOVED 1 127.0.0.1:1\r\n"}, "MOVED"},
    {"AnswerThatIsBusy",
     {Fault::Kind::replace, greeting, "-BUSY Redis is busy running a script\r\n"},
     "BUSY"},
    {"ScriptThatIsNeverKnown",
     {Fault::Kind::replace, greeting, "-NOSCRIPT No matching script\r\n"},
     "no answer in time"},
};

INSTANTIATE_TEST_SUITE_P(Fault, RedisStoreMeets, ::testing::ValuesIn(named_faults),
                         [](const auto& fault) { return std::string(fault.param.name); });

TEST(RedisStoreFaults, AServerThatHangsIsToldAndNothingIsCountedTwiceWhenItGoesOn) {
  RedisServer server;
  StoreConfig config = quick_config();
  config.timeout = 100ms;
  WatchedStore store(server.tcp_url(), config);
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  for (int round = 0; round < 3; ++round) {
    server.signal(SIGSTOP);
    store.add("a", 1, 10);
    // Several attempts: each leaves a copy of the batch in the stopped server's buffers.
    const std::uint64_t failures = store.figures().failures;
    ASSERT_TRUE(
        store.wait_until([&](const StoreFigures& figures) { return figures.failures > failures + 3; }));
    EXPECT_FALSE(store.figures().up);
    server.signal(SIGCONT);
    ASSERT_TRUE(store.wait_until_quiet());
  }
  EXPECT_EQ(store.total("a", 1), 31u);
  EXPECT_EQ(server.counter(counter_name("a", 1)), 31u);
}

TEST(RedisStoreFaults, CommandsThatTheServerHoldsBackAreNotCountedTwice) {
  RedisServer server;
  StoreConfig config = quick_config();
  config.timeout = 50ms;
  WatchedStore store(server.tcp_url(), config);
  ASSERT_TRUE(store.wait_until_up());
  for (int round = 0; round < 5; ++round) {
    server.command({"CLIENT", "PAUSE", "200", "ALL"});
    for (int i = 0; i < 10; ++i) store.add(many(50, 1), round);
    ASSERT_TRUE(store.wait_until_quiet());
  }
  EXPECT_GT(store.figures().failures, 0u);
  for (int round = 0; round < 5; ++round)
    for (const auto& [name, delta] : many(50, 1))
      EXPECT_EQ(server.counter(counter_name(name, round)), 10u) << name;
}

TEST(RedisStoreFaults, ConnectionsKilledInMidRunLoseAndDoubleNothing) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  for (int round = 0; round < 200; ++round) {
    store.add(many(20, 1), 1);
    if (round % 3 == 0) server.kill_clients();
  }
  ASSERT_TRUE(store.wait_until_quiet());
  for (const auto& [name, delta] : many(20, 1))
    EXPECT_EQ(server.counter(counter_name(name, 1)), 200u) << name;
}

TEST(RedisStoreFaults, AServerKilledAndRestartedWithItsStateKeepsExactTotals) {
  RedisServer server({"--appendonly", "yes", "--appendfsync", "always"});
  WatchedStore store(server.unix_url());
  ASSERT_TRUE(store.wait_until_up());
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i) store.add(many(20, 1), 1);
    server.kill();
    for (int i = 0; i < 100; ++i) store.add(many(20, 1), 1);
    ASSERT_TRUE(store.wait_until_down(""));
    server.start();
    ASSERT_TRUE(store.wait_until_quiet());
  }
  for (const auto& [name, delta] : many(20, 1))
    EXPECT_EQ(server.counter(counter_name(name, 1)), 600u) << name;
  EXPECT_EQ(store.figures().applied, 600u * 20);
  for (const std::string& name : server.names("*"))
    EXPECT_GT(server.command({"PTTL", name}).integer, 0) << name;
}

TEST(RedisStoreFaults, AServerRestartedEmptyHoldsWhatCameSinceAndNoMore) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  store.add("a", 1, 5);
  ASSERT_TRUE(store.wait_until_quiet());
  server.kill();
  store.add("a", 1, 7);
  server.start();
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(server.counter(counter_name("a", 1)), 7u);
  EXPECT_EQ(store.total("a", 1), 7u);
  EXPECT_EQ(store.figures().applied, 12u);
}

TEST(RedisStoreFaults, AWipedServerIsFilledAnew) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  store.add("a", 1, 5);
  ASSERT_TRUE(store.wait_until_quiet());
  server.command({"FLUSHALL"});
  store.add("a", 1, 7);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.total("a", 1), 7u);
  EXPECT_GT(server.command({"PTTL", counter_name("a", 1)}).integer, 0);
}

TEST(RedisStoreFaults, AFlushedScriptIsMadeKnownAgain) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  for (int round = 0; round < 50; ++round) {
    store.add(many(40, 1), 1);
    if (round % 5 == 0) server.command({"SCRIPT", "FLUSH"});
  }
  server.command({"SCRIPT", "FLUSH"});
  store.add(many(40, 1), 1);
  ASSERT_TRUE(store.wait_until_quiet());
  for (const auto& [name, delta] : many(40, 1)) EXPECT_EQ(server.counter(counter_name(name, 1)), 51u) << name;
  EXPECT_EQ(store.figures().failures, 0u) << "no connection is given up for it";
}

TEST(RedisStoreFaults, AReadOnlyReplicaIsToldAndPromotionHeals) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  server.command({"REPLICAOF", "127.0.0.1", std::to_string(free_port())});
  store.add("a", 1, 5);
  ASSERT_TRUE(store.wait_until_down("READONLY"));
  EXPECT_EQ(store.figures().pending, 5u);
  server.command({"REPLICAOF", "NO", "ONE"});
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.total("a", 1), 6u);
}

TEST(RedisStoreFaults, AServerOutOfMemoryIsToldAndNothingIsHalfApplied) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  ASSERT_TRUE(store.wait_until_up());
  server.command({"CONFIG", "SET", "maxmemory", "1"});
  store.add(many(100, 3), 1);
  ASSERT_TRUE(store.wait_until_down("OOM"));
  EXPECT_EQ(store.figures().pending, 300u);
  EXPECT_THAT(server.names("weir:*:rule|*"), IsEmpty());
  server.command({"CONFIG", "SET", "maxmemory", "0"});
  ASSERT_TRUE(store.wait_until_quiet());
  for (const auto& [name, delta] : many(100, 3)) EXPECT_EQ(server.counter(counter_name(name, 1)), 3u) << name;
}

TEST(RedisStoreFaults, ACounterOfAnotherTypeIsGivenUpAndTheOthersGoOn) {
  RedisServer server;
  const std::string other = "rule|2";
  server.command({"LPUSH", counter_name(other, 1), "x"});
  server.command({"SET", counter_name("rule|3", 1), "not a number"});
  server.command({"SET", counter_name("rule|4", 1), "9223372036854775807"});
  WatchedStore store(server.unix_url());
  store.add(many(64, 1), 1);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.figures().expired, 3u);
  EXPECT_EQ(store.figures().applied, 61u);
  EXPECT_GT(store.figures().failures, 0u);
  EXPECT_TRUE(store.figures().up) << "the store itself is well";
  store.add(many(64, 1), 2);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.figures().applied, 61u + 64u);
  EXPECT_EQ(server.command({"LLEN", counter_name(other, 1)}).integer, 1);
}

TEST(RedisStoreFaults, APartitionWhoseAnswersAreBadDoesNotBlockTheOthers) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  store.add("rule|0", 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  // The marker of one partition turns into something that no marker is.
  const std::vector<std::string> markers = server.names("weir:*:applied:*");
  ASSERT_THAT(markers, SizeIs(1));
  server.command({"DEL", markers[0]});
  server.command({"LPUSH", markers[0], "x"});
  std::uint64_t elsewhere = 0;
  for (const auto& [name, delta] : many(64, 1))
    elsewhere += partition_of(name) != partition_of("rule|0") ? delta : 0;
  store.add(many(64, 1), 2);
  ASSERT_TRUE(
      store.wait_until([&](const StoreFigures& figures) { return figures.applied == 1 + elsewhere; }));
  EXPECT_EQ(store.figures().pending, 64 - elsewhere);
  server.command({"DEL", markers[0]});
  EXPECT_TRUE(store.wait_until_quiet());
}

TEST(RedisStoreFaults, WhatExpiresWhileTheServerIsAwayIsCountedAndNeverSent) {
  RedisServer server;
  server.kill();
  WatchedStore store(server.unix_url());
  store.add("a", 1, 5, 100ms);
  store.add("b", 1, 6, 10min);
  ASSERT_TRUE(store.wait_until([](const StoreFigures& figures) { return figures.expired == 5; }));
  EXPECT_EQ(store.figures().pending, 6u);
  server.start();
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_THAT(server.names("weir:*:a:1"), IsEmpty());
  EXPECT_EQ(server.counter(counter_name("b", 1)), 6u);
}

TEST(RedisStoreFaults, ABatchThatIsNeverAnsweredIsGivenUpWhenItExpires) {
  RedisServer server;
  FaultyProxy proxy(server.socket());
  proxy.set({Fault::Kind::replace, greeting, "+OK\r\n"});
  StoreConfig config = quick_config();
  WatchedStore store(proxy.url(), config);
  store.add("a", 1, 5, 300ms);
  ASSERT_TRUE(store.wait_until([](const StoreFigures& figures) { return figures.expired == 5; }));
  EXPECT_EQ(store.figures().pending, 0u);
}

// ---- manners

TEST(RedisStore, FlushWaitsForEverythingPending) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  store.add(many(1000, 1), 1);
  EXPECT_TRUE(store.store().flush(60s));
  EXPECT_EQ(store.figures().pending, 0u);
  EXPECT_TRUE(store.store().flush(0s)) << "nothing pending";
}

TEST(RedisStore, FlushTriesAtOnceAndGivesUpWhenPatienceEnds) {
  RedisServer server;
  server.kill();
  StoreConfig config = quick_config();
  config.reconnect = 60s;
  WatchedStore store(server.unix_url(), config);
  store.add("a", 1, 5);
  ASSERT_TRUE(store.wait_until_down("cannot connect"));
  EXPECT_FALSE(store.store().flush(50ms));
  EXPECT_EQ(store.figures().pending, 5u);
  server.start();
  EXPECT_TRUE(store.store().flush(30s)) << "without waiting for the next attempt, a minute away";
}

TEST(RedisStore, EndsWhileTheServerHangs) {
  RedisServer server;
  FaultyProxy proxy(server.socket());
  proxy.set({Fault::Kind::hang});
  StoreConfig config = quick_config();
  config.timeout = 10s;
  {
    WatchedStore store(proxy.url(), config);
    store.add("a", 1, 5);
    ASSERT_TRUE(store.wait_until([&](const StoreFigures&) { return proxy.connections() > 0; }));
  }
  EXPECT_EQ(proxy.connections(), 1u) << "and not by running into the timeout";
}

TEST(RedisStore, WakesOnRepliesAndWhenItGoesUpOrDown) {
  RedisServer server;
  const RedisUrlResult url = parse_redis_url(server.unix_url());
  const auto store = make_redis_store(url.url, quick_config());
  std::mutex mutex;
  std::condition_variable woken;
  std::vector<bool> seen;
  store->on_ready([&] {
    const bool up = store->figures().up;
    const std::lock_guard lock(mutex);
    if (seen.empty() || seen.back() != up) seen.push_back(up);
    woken.notify_all();
  });
  const auto wait_for = [&](bool up) {
    std::unique_lock lock(mutex);
    // It may have come up before the function was there to be told.
    return woken.wait_for(lock, 60s, [&] {
      return (seen.empty() && store->figures().up == up) || (!seen.empty() && seen.back() == up);
    });
  };
  ASSERT_TRUE(wait_for(true));
  server.kill();
  ASSERT_TRUE(wait_for(false));
  server.start();
  ASSERT_TRUE(wait_for(true));
  store->on_ready({});
}

TEST(RedisStore, ItsThreadTakesNoSignals) {
  RedisServer server;
  const auto threads = [] {
    std::set<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
      result.insert(entry.path().filename().string());
    return result;
  };
  const auto blocked = [](const std::string& thread) {
    std::ifstream status("/proc/self/task/" + thread + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("SigBlk:")) return std::stoull(line.substr(7), nullptr, 16);
    return 0ULL;
  };
  const std::set<std::string> before = threads();
  const unsigned long long mine = blocked(std::to_string(getpid()));
  WatchedStore store(server.unix_url());
  ASSERT_TRUE(store.wait_until_up());
  EXPECT_EQ(blocked(std::to_string(getpid())), mine) << "the caller's mask is left as it was";
  int found = 0;
  for (const std::string& thread : threads()) {
    if (before.contains(thread)) continue;
    ++found;
    for (const int number : {SIGINT, SIGTERM, SIGPIPE, SIGHUP, SIGALRM, SIGUSR1, SIGCHLD})
      EXPECT_NE(blocked(thread) >> (number - 1) & 1, 0u) << "signal " << number;
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace weir
