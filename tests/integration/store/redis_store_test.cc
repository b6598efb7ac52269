// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "faulty_proxy.h"
#include "redis_server.h"
#include "store/outbox.h"
#include "store/redis/batch_command.h"
#include "stored_counters.h"
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
using ::testing::UnorderedElementsAre;

std::uint64_t value_of(RedisServer& server, const std::string& name, Ordinal ordinal) {
  return static_cast<std::uint64_t>(StoredCounters(server.client()).value(name, ordinal));
}

long long life_ms_of(RedisServer& server, const std::string& name, Ordinal ordinal) {
  return server.command({"PTTL", StoredCounters(server.client()).name_in_store(name, ordinal)}).integer;
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
  EXPECT_EQ(value_of(server, "login|10.0.0.1", 170), 7u);
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

TEST(RedisStore, NamesHashesByPrefixPartitionIntervalAndOrdinalAndCountersByTheirNames) {
  RedisServer server;
  StoreConfig config = quick_config();
  config.prefix = "edge:a";
  WatchedStore store(server.unix_url(), config);
  const std::string name = "login|10.0.0.1";
  store.submit({{.name = name, .ordinal = 170, .interval = 1s, .delta = 5},
                {.name = name, .ordinal = 170, .interval = 1min, .delta = 6}});
  ASSERT_TRUE(store.wait_until_quiet());
  const std::string partition = "edge:a:{" + std::to_string(partition_of(name)) + "}:";
  EXPECT_THAT(server.names("*"), ElementsAre(partition + "1000:170", partition + "60000:170"));
  EXPECT_EQ(server.command({"HGET", partition + "1000:170", name}).text, "5");
  EXPECT_EQ(server.command({"HGET", partition + "60000:170", name}).text, "6");
}

TEST(RedisStore, RaisesAMaximumAndNeverLowersIt) {
  RedisServer server;
  WatchedStore first(server.unix_url());
  WatchedStore second(server.tcp_url());
  first.submit({{.name = "peak", .ordinal = 1, .raised_to = 7}});
  ASSERT_TRUE(first.wait_until_quiet());
  second.submit({{.name = "peak", .ordinal = 1, .raised_to = 3}});
  ASSERT_TRUE(second.wait_until_quiet());
  EXPECT_EQ(second.total("peak", 1), 7u);
  second.submit({{.name = "peak", .ordinal = 1, .raised_to = 12}});
  ASSERT_TRUE(second.wait_until_quiet());
  first.submit({{.name = "peak", .ordinal = 1}});
  ASSERT_TRUE(first.wait_until([&](const StoreFigures&) { return first.total("peak", 1) == 12; }));
  EXPECT_EQ(value_of(server, "peak", 1), 12u);
  EXPECT_EQ(first.figures().applied + second.figures().applied, 0u) << "a maximum is no weight";
}

TEST(RedisStore, TakesOffWhatIsReturned) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  store.add("a", 1, 10);
  ASSERT_TRUE(store.wait_until_quiet());
  store.submit({{.name = "a", .ordinal = 1, .delta = 2, .returned = 7}});
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.total("a", 1), 5u);
  EXPECT_EQ(store.counter("a", 1).returned, 7u);
  EXPECT_EQ(value_of(server, "a", 1), 5u);
}

// As after a wipe: who then claims is not to find less than nothing claimed.
TEST(RedisStore, WhatIsReturnedAndNotThereLeavesNothing) {
  for (const StoreLayout layout : {StoreLayout::hash, StoreLayout::plain}) {
    RedisServer server;
    StoreConfig config = quick_config();
    config.layout = layout;
    WatchedStore store(server.unix_url(), config);
    const auto value = [&](const std::string& name) {
      return layout == StoreLayout::plain ? std::stoll(server.command({"GET", name + ":1"}).text)
                                          : StoredCounters(server.client()).value(name, 1);
    };
    constexpr std::uint64_t huge = std::uint64_t{1} << 62;
    store.submit({{.name = "a", .ordinal = 1, .delta = 2, .returned = 7},
                  {.name = "b", .ordinal = 1, .returned = 7},
                  {.name = "c", .ordinal = 1, .returned = huge}});
    ASSERT_TRUE(store.wait_until([&](const StoreFigures&) { return store.replies() == 3; }));
    for (const char* const name : {"a", "b", "c"}) EXPECT_EQ(value(name), 0) << name;
    store.add("a", 1, 3);
    // With one that a script cannot add up, the others of its batch go another way.
    store.submit({{.name = "b", .ordinal = 1, .returned = 8}, {.name = "c", .ordinal = 1, .delta = huge}});
    ASSERT_TRUE(store.wait_until([&](const StoreFigures&) { return store.replies() == 6; }));
    EXPECT_EQ(store.total("a", 1), 3u);
    EXPECT_EQ(store.total("c", 1), huge);
    EXPECT_EQ(value("a"), 3);
    EXPECT_EQ(value("b"), 0);
    for (const std::string& name : server.names("*"))
      EXPECT_GT(server.command({"PTTL", name}).integer, 0) << name;
  }
}

TEST(RedisStore, ADeltaOfNothingOnlyReads) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  store.add("a", 1, 0);
  ASSERT_TRUE(store.wait_until([&](const StoreFigures&) { return store.replies() == 1; }));
  EXPECT_EQ(store.total("a", 1), 0u);
  EXPECT_THAT(server.names("*"), IsEmpty()) << "reading creates nothing";
  StoredCounters(server.client()).put("a", 1, 42);
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
  EXPECT_THAT(StoredCounters(server.client()).all(), SizeIs(20'000));
}

TEST(RedisStore, EveryNameHasATimeToLive) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  store.add(many(500, 1), 1, 30s);
  store.add(many(500, 1), 1, 30s);
  ASSERT_TRUE(store.wait_until_quiet());
  const auto lives = StoredCounters(server.client()).lives();
  EXPECT_THAT(lives, SizeIs(Gt(1u)));
  for (const auto& [name, life] : lives) {
    EXPECT_GT(life, 0ms) << name;
    EXPECT_LE(life, 30s) << name;
  }
}

TEST(RedisStore, LaterWritesDoNotProlongACounter) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  store.add("a", 1, 1, 1h);
  ASSERT_TRUE(store.wait_until_quiet());
  server.command({"PEXPIRE", StoredCounters(server.client()).name_in_store("a", 1), "600000"});
  store.add("a", 1, 1, 1h);
  ASSERT_TRUE(store.wait_until_quiet());
  const long long life = life_ms_of(server, "a", 1);
  EXPECT_GT(life, 0);
  EXPECT_LE(life, 600'000);
}

TEST(RedisStore, TheMarkerLivesAndDiesWithItsCounters) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  store.add("a", 1, 1, 1h);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_THAT(server.names("*"), ElementsAre(StoredCounters(server.client()).name_in_store("a", 1)));
  EXPECT_THAT(server.command({"HKEYS", server.names("*").at(0)}).elements,
              UnorderedElementsAre("a", StartsWith("~applied:")));
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
  server.command({"ACL", "SETUSER", "weir", "on", ">p@ss:word", "~weir:*", "resetchannels", "-@all", "+hmget",
                  "+hset", "+hget", "+hincrby", "+pttl", "+pexpire", "+eval", "+evalsha", "+script|load",
                  "+time", "+select"});
  WatchedStore store("redis+unix://weir:p%40ss%3Aword@" + server.socket().string() + "?db=3");
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  server.command({"SELECT", "3"});
  EXPECT_EQ(value_of(server, "a", 1), 1u);
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
  EXPECT_EQ(value_of(server, "a", 1), 7u);
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
  EXPECT_EQ(value_of(server, "a", 1), 11u);
  EXPECT_EQ(store.figures().error, "");
}

TEST(RedisStoreFaults, ASocketThatDoesNotExistIsTold) {
  WatchedStore store("redis+unix:///nonexistent/weir.sock");
  EXPECT_TRUE(store.wait_until_down(
      "redis+unix:///nonexistent/weir.sock: cannot connect: No such file or directory"));
}

TEST(RedisStoreFaults, AHostThatDoesNotExistIsToldByItsName) {
  WatchedStore store("redis://weir.invalid");
  EXPECT_TRUE(store.wait_until_down("looking up weir.invalid: "));
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
  EXPECT_EQ(value_of(server, "a", 1), 5u) << "exactly once, whatever had arrived before";
}

// The answers before the first batch's: to SCRIPT LOAD, to PEXPIRE of nothing, and to TIME.
constexpr std::size_t before_the_batch = 3;

// And what is asked until then: "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$<length>\r\n<script>\r\n", PEXPIRE,
// TIME, and some of the batch.
const std::size_t in_the_batch =
    BatchCommand(StoreLayout::hash, "weir", std::string(instance_length, 'a')).script().size() + 37 + 14 +
    100;

Fault in_the_answer(Fault::Kind kind, std::size_t bytes, std::string text = {}) {
  return {kind, bytes, std::move(text), before_the_batch};
}

const NamedFault named_faults[] = {
    {"Close", {Fault::Kind::close}, "connection closed by the server"},
    {"Reset", {Fault::Kind::reset}, "Connection reset by peer"},
    {"Hang", {Fault::Kind::hang}, "no answer in time"},
    {"SlowDrip", {Fault::Kind::drip, 0, "$9999\r\n" + std::string(9999, 'x')}, "no answer in time"},
    {"SlowDripOfGoodReplies", {Fault::Kind::drip, 0, "*100\r\n" + std::string(9999, '\n')}, "server"},
    {"Http", {Fault::Kind::say, 0, "HTTP/1.1 400 Bad Request\r\n\r\n"}, "not Redis' protocol"},
    {"HugeArray", {Fault::Kind::say, 0, "*1000000000\r\n"}, "not Redis' protocol"},
    {"WrongType", {Fault::Kind::say, 0, ":5\r\n"}, "not what Redis answers"},
    {"TooManyReplies",
     {Fault::Kind::say, 0, "$40\r\n" + std::string(40, 'a') + "\r\n:0\r\n+OK\r\n"},
     "answered what was not asked"},
    {"TooManyClients",
     {Fault::Kind::say, 0, "-ERR max number of clients reached\r\n"},
     "max number of clients"},
    {"Loading", {Fault::Kind::say, 0, "-LOADING Redis is loading the dataset in memory\r\n"}, "LOADING"},
    {"ControlCharacters", {Fault::Kind::say, 0, "-ERR \x1b[2J\r\n"}, "ERR ?[2J"},
    {"NoAnswerToTheBatch", in_the_answer(Fault::Kind::stall_answer, 0), "no answer in time"},
    {"HalfAnAnswerToTheBatch", in_the_answer(Fault::Kind::stall_answer, 3), "no answer in time"},
    {"CutBeforeTheAnswer", in_the_answer(Fault::Kind::cut_answer, 0), "connection closed by the server"},
    {"CutInTheAnswer", in_the_answer(Fault::Kind::cut_answer, 5), "connection closed by the server"},
    {"CutInTheRequest", {Fault::Kind::cut_request, in_the_batch}, "connection closed by the server"},
    {"AnswerOfWrongLength", in_the_answer(Fault::Kind::replace, 0, "$3\r\n\x92\x01\x01\r\n"),
     "not what Redis answers"},
    {"AnswerOfWrongType", in_the_answer(Fault::Kind::replace, 0, "+OK\r\n"), "not what Redis answers"},
    {"AnswerThatIsNotPacked", in_the_answer(Fault::Kind::replace, 0, "$2\r\nOK\r\n"),
     "not what Redis answers"},
    {"AnswerWithMoreBehind", in_the_answer(Fault::Kind::replace, 0, "$3\r\n\x91\x01\x01\r\n"),
     "not what Redis answers"},
    {"AnswerWithinAnswer", in_the_answer(Fault::Kind::replace, 0, "$3\r\n\x91\x91\x01\r\n"),
     "not what Redis answers"},
    {"AnswerThatMovedAway", in_the_answer(Fault::Kind::replace, 0, "-MOVED 1 127.0.0.1:1\r\n"), "MOVED"},
    {"AnswerThatIsBusy", in_the_answer(Fault::Kind::replace, 0, "-BUSY Redis is busy running a script\r\n"),
     "BUSY"},
    {"ScriptThatIsNeverKnown", in_the_answer(Fault::Kind::replace, 0, "-NOSCRIPT No matching script\r\n"),
     "no answer in time"},
    {"TimeThatIsNone",
     {Fault::Kind::replace, 0, "*2\r\n$1\r\nx\r\n$1\r\n1\r\n", 2},
     "not what Redis answers"},
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
  EXPECT_EQ(value_of(server, "a", 1), 31u);
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
    for (const auto& [name, delta] : many(50, 1)) EXPECT_EQ(value_of(server, name, round), 10u) << name;
}

TEST(RedisStoreFaults, ConnectionsKilledInMidRunLoseAndDoubleNothing) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  for (int round = 0; round < 200; ++round) {
    store.add(many(20, 1), 1);
    if (round % 3 == 0) server.kill_clients();
  }
  ASSERT_TRUE(store.wait_until_quiet());
  for (const auto& [name, delta] : many(20, 1)) EXPECT_EQ(value_of(server, name, 1), 200u) << name;
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
  for (const auto& [name, delta] : many(20, 1)) EXPECT_EQ(value_of(server, name, 1), 600u) << name;
  EXPECT_EQ(store.figures().applied, 600u * 20);
  StoredCounters(server.client()).expect_that_all_expire();
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
  EXPECT_EQ(value_of(server, "a", 1), 7u);
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
  EXPECT_GT(life_ms_of(server, "a", 1), 0);
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
  for (const auto& [name, delta] : many(40, 1)) EXPECT_EQ(value_of(server, name, 1), 51u) << name;
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
  EXPECT_THAT(server.names("*"), IsEmpty());
  server.command({"CONFIG", "SET", "maxmemory", "0"});
  ASSERT_TRUE(store.wait_until_quiet());
  for (const auto& [name, delta] : many(100, 3)) EXPECT_EQ(value_of(server, name, 1), 3u) << name;
}

TEST(RedisStoreFaults, ACounterThatIsNoneIsGivenUpAndTheOthersGoOn) {
  RedisServer server;
  const StoredCounters stored(server.client());
  server.command({"HSET", stored.name_in_store("rule|3", 1), "rule|3", "not a number"});
  stored.put("rule|4", 1, std::numeric_limits<std::int64_t>::max());
  WatchedStore store(server.unix_url());
  store.add(many(64, 1), 1);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.figures().expired, 2u);
  EXPECT_EQ(store.figures().applied, 62u);
  EXPECT_GT(store.figures().failures, 0u);
  EXPECT_TRUE(store.figures().up) << "the store itself is well";
  store.add(many(64, 1), 2);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(store.figures().applied, 62u + 64u);
  EXPECT_EQ(server.command({"HGET", stored.name_in_store("rule|3", 1), "rule|3"}).text, "not a number");
}

/// What somebody else has put where a partition's counters belong.
class RedisStoreFinds : public ::testing::TestWithParam<const char*> {};

TEST_P(RedisStoreFinds, APartitionThatCannotBeWrittenAndServesTheOthers) {
  RedisServer server;
  WatchedStore store(server.unix_url());
  store.add("rule|0", 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  const StoredCounters stored(server.client());
  const std::string bad = stored.name_in_store("rule|0", 2);
  if (std::string(GetParam()) == "AList") {
    server.command({"LPUSH", bad, "x"});
  } else {
    // The marker turns into something that no marker is.
    const std::vector<std::string> fields =
        server.command({"HKEYS", stored.name_in_store("rule|0", 1)}).elements;
    for (const std::string& field : fields)
      if (field.starts_with('~')) server.command({"HSET", bad, field, "x"});
  }
  std::uint64_t elsewhere = 0;
  for (const auto& [name, delta] : many(64, 1))
    elsewhere += partition_of(name) != partition_of("rule|0") ? delta : 0;
  store.add(many(64, 1), 2);
  ASSERT_TRUE(
      store.wait_until([&](const StoreFigures& figures) { return figures.applied == 1 + elsewhere; }));
  EXPECT_EQ(store.figures().pending, 64 - elsewhere);
  server.command({"DEL", bad});
  EXPECT_TRUE(store.wait_until_quiet());
}

INSTANTIATE_TEST_SUITE_P(Stranger, RedisStoreFinds, ::testing::Values("AList", "ABadMarker"),
                         [](const auto& stranger) { return std::string(stranger.param); });

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
  EXPECT_EQ(value_of(server, "a", 1), 0u);
  EXPECT_EQ(value_of(server, "b", 1), 6u);
}

TEST(RedisStoreFaults, ABatchThatIsNeverAnsweredIsGivenUpWhenItExpires) {
  RedisServer server;
  FaultyProxy proxy(server.socket());
  proxy.set(in_the_answer(Fault::Kind::replace, 0, "+OK\r\n"));
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
  store.add(many(1000, 1), 1);
  EXPECT_TRUE(store.store().flush(Duration::max())) << "for ever, if need be";
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
