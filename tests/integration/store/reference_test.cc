// SPDX-License-Identifier: BSD-3-Clause
// The limiters that live in Redis alone, against a real redis-server. Time is the server's and cannot be
// injected; so what must hold is compared with the server's own clock before and after, and no test is right
// or wrong by how fast it runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "faulty_proxy.h"
#include "redis_server.h"
#include "scripted_server.h"
#include "store/redis/reference/scripts.h"
#include "store/redis/reference/token_purse.h"
#include "weir/store_limiter.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr Duration ample = 10s;

StoreLimiterTerms terms_of(StoreAlgorithm algorithm, std::uint64_t limit, Duration interval) {
  StoreLimiterTerms terms;
  terms.algorithm = algorithm;
  terms.name = "login";
  terms.limit = limit;
  terms.interval = interval;
  terms.timeout = ample;
  return terms;
}

std::unique_ptr<StoreLimiter> limiter(const std::string& url, const StoreLimiterTerms& terms) {
  StoreLimiterResult made = StoreLimiter::create(url, terms);
  EXPECT_TRUE(made) << made.error;
  return std::move(made.limiter);
}

/// The server's clock.
std::chrono::microseconds time_of(RedisServer& server) {
  const Answer answer = server.command({"TIME"});
  return std::chrono::seconds(std::stoll(answer.elements.at(0))) +
         std::chrono::microseconds(std::stoll(answer.elements.at(1)));
}

/// Windows that the two moments and all between them touch.
std::uint64_t windows(std::chrono::microseconds from, std::chrono::microseconds to, Duration interval) {
  const auto length = std::chrono::duration_cast<std::chrono::microseconds>(interval);
  return static_cast<std::uint64_t>(to / length - from / length) + 1;
}

void expect_that_all_names_expire(RedisServer& server) {
  const std::vector<std::string> names = server.names("*");
  EXPECT_FALSE(names.empty());
  for (const std::string& name : names) EXPECT_GT(server.command({"PTTL", name}).integer, 0) << name;
}

const std::vector<StoreAlgorithm> every_algorithm{StoreAlgorithm::window, StoreAlgorithm::token_bucket,
                                                  StoreAlgorithm::sliding_log, StoreAlgorithm::token_server};

class StoreLimiterWith : public ::testing::TestWithParam<StoreAlgorithm> {};

/// So long that no window ends and no token grows while a test runs (nor twice in a year).
constexpr Duration long_interval = 366 * 24h;

TEST_P(StoreLimiterWith, AdmitsTheLimitAndNoMore) {
  RedisServer server;
  const auto client = limiter(server.unix_url(), terms_of(GetParam(), 5, long_interval));
  for (std::uint64_t left : {4u, 3u, 2u, 1u, 0u}) {
    const StoreAcquisition answer = client->try_acquire("a", 1);
    ASSERT_TRUE(answer) << answer.error;
    EXPECT_TRUE(answer.admitted);
    EXPECT_EQ(answer.remaining, left);
    EXPECT_EQ(answer.retry_after, 0ns);
    EXPECT_GT(answer.reset_after, 0ns);
    EXPECT_LE(answer.reset_after, long_interval);
  }
  const StoreAcquisition refused = client->try_acquire("a", 1);
  ASSERT_TRUE(refused) << refused.error;
  EXPECT_FALSE(refused.admitted);
  EXPECT_EQ(refused.remaining, 0u);
  EXPECT_GT(refused.retry_after, 0ns);
  EXPECT_LE(refused.retry_after, long_interval);
  EXPECT_TRUE(client->try_acquire("b", 1).admitted) << "another key has a limit of its own";
  expect_that_all_names_expire(server);
}

TEST_P(StoreLimiterWith, ChargesWeightsWholeOrNotAtAll) {
  RedisServer server;
  const auto client = limiter(server.tcp_url(), terms_of(GetParam(), 10, long_interval));
  EXPECT_EQ(client->try_acquire("a", 7).remaining, 3u);
  const StoreAcquisition refused = client->try_acquire("a", 4);
  EXPECT_FALSE(refused.admitted);
  EXPECT_EQ(refused.remaining, 3u) << "a request refused is not charged";
  EXPECT_EQ(client->try_acquire("a", 3).remaining, 0u);
  const StoreAcquisition never = client->try_acquire("fresh", 11);
  ASSERT_TRUE(never) << never.error;
  EXPECT_FALSE(never.admitted);
  EXPECT_EQ(never.retry_after, forever);
  EXPECT_EQ(client->try_acquire("fresh", ~std::uint64_t{0}).retry_after, forever);
  EXPECT_EQ(client->try_acquire("fresh", 10).remaining, 0u);
}

TEST_P(StoreLimiterWith, AsksWithoutChargingAtWeightZero) {
  RedisServer server;
  const auto client = limiter(server.unix_url(), terms_of(GetParam(), 2, long_interval));
  for (int i = 0; i < 3; ++i) {
    const StoreAcquisition answer = client->try_acquire("a", 0);
    ASSERT_TRUE(answer) << answer.error;
    EXPECT_TRUE(answer.admitted);
    EXPECT_EQ(answer.remaining, 2u);
    EXPECT_EQ(answer.reset_after, 0ns);
  }
  EXPECT_THAT(server.names("*"), IsEmpty()) << "asking leaves nothing behind";
  EXPECT_TRUE(client->try_acquire("a", 2).admitted);
  const StoreAcquisition refused = client->try_acquire("a", 0);
  ASSERT_TRUE(refused) << refused.error;
  EXPECT_FALSE(refused.admitted);
  EXPECT_GT(refused.retry_after, 0ns);
}

TEST_P(StoreLimiterWith, SharesOneLimitAmongClientsUnderContention) {
  RedisServer server;
  constexpr std::uint64_t limit = 1000;
  StoreLimiterTerms terms = terms_of(GetParam(), limit, long_interval);
  if (GetParam() == StoreAlgorithm::token_server) terms.batch = 7;
  constexpr std::size_t clients = 8;
  std::vector<std::uint64_t> admitted(clients);
  std::vector<std::string> errors(clients);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < clients; ++i)
    threads.emplace_back([&, i] {
      const auto client = limiter(i % 2 == 0 ? server.unix_url() : server.tcp_url(), terms);
      for (int refusals = 0; refusals < 10;) {
        const std::uint64_t weight = 1 + (i + admitted[i]) % 3;
        const StoreAcquisition answer = client->try_acquire("a", weight);
        if (!answer) {
          errors[i] = answer.error;
          return;
        }
        if (answer.admitted)
          admitted[i] += weight;
        else
          ++refusals;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(errors, ::testing::Each(""));
  const std::uint64_t sum = std::accumulate(admitted.begin(), admitted.end(), std::uint64_t{0});
  EXPECT_LE(sum, limit);
  EXPECT_GE(sum, limit - 3 * clients) << "but for what did not fit any more";
  expect_that_all_names_expire(server);
}

TEST_P(StoreLimiterWith, AdmitsNoMoreThanItsRateInAnyCase) {
  RedisServer server;
  constexpr std::uint64_t limit = 20;
  constexpr Duration interval = 50ms;
  StoreLimiterTerms terms = terms_of(GetParam(), limit, interval);
  if (GetParam() == StoreAlgorithm::token_server) terms.batch = 4;
  constexpr std::size_t clients = 3;
  const auto before = time_of(server);
  std::vector<std::uint64_t> admitted(clients);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < clients; ++i)
    threads.emplace_back([&, i] {
      const auto client = limiter(server.unix_url(), terms);
      for (int calls = 0; calls < 2000; ++calls) admitted[i] += client->try_acquire("a", 1).admitted ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  const auto after = time_of(server);
  const std::uint64_t sum = std::accumulate(admitted.begin(), admitted.end(), std::uint64_t{0});
  // Any stretch of time touches as many windows; a bucket gives as much as it held and gained.
  const std::uint64_t most = GetParam() == StoreAlgorithm::token_bucket
                                 ? limit + limit * static_cast<std::uint64_t>((after - before) / 1us) / 50'000
                                 : limit * windows(before, after, interval);
  EXPECT_LE(sum, most) << (after - before).count() << " us";
  EXPECT_GE(sum, limit);
}

TEST_P(StoreLimiterWith, AdmitsAgainWhenItHasSaidSo) {
  RedisServer server;
  const auto client = limiter(server.unix_url(), terms_of(GetParam(), 3, 100ms));
  for (int round = 0; round < 3; ++round) {
    StoreAcquisition answer = client->try_acquire("a", 1);
    for (int i = 0; i < 100'000 && answer && answer.admitted; ++i) answer = client->try_acquire("a", 1);
    ASSERT_TRUE(answer) << answer.error;
    ASSERT_FALSE(answer.admitted);
    EXPECT_LE(answer.retry_after, 100ms);
    // The waits are not trusted, only the server's clock: it says no until then, and yes from then on.
    const auto asked = time_of(server);
    do answer = client->try_acquire("a", 1);
    while (answer && !answer.admitted && time_of(server) - asked < 60s);
    ASSERT_TRUE(answer) << answer.error;
    EXPECT_TRUE(answer.admitted);
  }
}

TEST_P(StoreLimiterWith, ComesBackAfterTheServerWasKilled) {
  RedisServer server;
  const auto client = limiter(server.unix_url(), terms_of(GetParam(), 100, long_interval));
  ASSERT_TRUE(client->try_acquire("a", 1).admitted);
  server.kill();
  for (int i = 0; i < 3; ++i) {
    const StoreAcquisition lost = client->try_acquire("a", 1);
    EXPECT_FALSE(lost);
    EXPECT_FALSE(lost.admitted);
    EXPECT_THAT(lost.error, StartsWith("redis+unix://"));
  }
  server.start();
  const StoreAcquisition back = client->try_acquire("a", 1);
  ASSERT_TRUE(back) << back.error;
  EXPECT_EQ(back.remaining, 99u) << "a server without persistence has forgotten the first";
}

TEST_P(StoreLimiterWith, BearsThatTheServerForgetsItsScripts) {
  RedisServer server;
  const auto client = limiter(server.unix_url(), terms_of(GetParam(), 100, long_interval));
  EXPECT_EQ(client->try_acquire("a", 1).remaining, 99u);
  for (std::uint64_t left : {98u, 97u}) {
    server.command({"SCRIPT", "FLUSH"});
    const StoreAcquisition answer = client->try_acquire("a", 1);
    ASSERT_TRUE(answer) << answer.error;
    EXPECT_EQ(answer.remaining, left);
  }
}

TEST_P(StoreLimiterWith, TellsAServersRefusalAndGoesOn) {
  RedisServer server;
  const auto client = limiter(server.unix_url(), terms_of(GetParam(), 5, long_interval));
  ASSERT_TRUE(client->try_acquire("a", 1).admitted);
  const std::vector<std::string> names = server.names("*");
  ASSERT_THAT(names, SizeIs(1));
  server.command({"DEL", names[0]});
  server.command({"HSET", names[0], "of", "another type"});
  const StoreAcquisition refused = client->try_acquire("a", 1);
  EXPECT_FALSE(refused);
  EXPECT_THAT(refused.error, HasSubstr("WRONGTYPE"));
  EXPECT_TRUE(client->try_acquire("b", 1).admitted) << "on the same connection";
  server.command({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_THAT(client->try_acquire("c", 1).error, HasSubstr("OOM"));
  server.command({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_TRUE(client->try_acquire("c", 1).admitted);
}

TEST_P(StoreLimiterWith, TakesKeysOfAnyBytes) {
  RedisServer server;
  const auto client = limiter(server.unix_url(), terms_of(GetParam(), 1, long_interval));
  const std::vector<std::string> keys{
      "", "a b", "{x}", "}", std::string("\0\r\n\xff", 4), std::string(StoreLimiter::max_key, 'k')};
  for (const std::string& key : keys) {
    EXPECT_TRUE(client->try_acquire(key, 1).admitted);
    EXPECT_FALSE(client->try_acquire(key, 1).admitted);
  }
  const StoreAcquisition refused = client->try_acquire(std::string(StoreLimiter::max_key + 1, 'k'), 1);
  EXPECT_EQ(refused.error, "the key has 1025 bytes; the most are 1024");
}

INSTANTIATE_TEST_SUITE_P(Algorithms, StoreLimiterWith, ::testing::ValuesIn(every_algorithm),
                         [](const auto& that) {
                           std::string name(to_string(that.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// ---- names and single algorithms

TEST(StoreLimiter, NamesItsStateByPrefixNameKeyAndAlgorithm) {
  RedisServer server;
  StoreLimiterTerms terms = terms_of(StoreAlgorithm::token_bucket, 5, 1h);
  terms.prefix = "edge:a";
  limiter(server.unix_url(), terms)->try_acquire("10.0.0.1", 1);
  EXPECT_THAT(server.names("*"), ElementsAre("edge:a:{login|10.0.0.1}:token-bucket"));
  terms.algorithm = StoreAlgorithm::sliding_log;
  limiter(server.unix_url(), terms)->try_acquire("10.0.0.1", 3);
  EXPECT_EQ(server.command({"ZCARD", "edge:a:{login|10.0.0.1}:sliding-log"}).integer, 3);
}

TEST(StoreLimiter, CountsAWindowUnderItsOrdinal) {
  RedisServer server;
  const auto client = limiter(server.unix_url(), terms_of(StoreAlgorithm::window, 100, long_interval));
  client->try_acquire("a", 3);
  const auto ordinal = time_of(server) / long_interval;
  EXPECT_EQ(server.counter("weir:{login|a}:window:" + std::to_string(ordinal)), 3u);
}

TEST(StoreLimiter, BeginsAWindowAnewAtItsBoundary) {
  RedisServer server;
  constexpr Duration interval = 100ms;
  const auto client = limiter(server.unix_url(), terms_of(StoreAlgorithm::window, 2, interval));
  // All counters live on for a second: each must hold what its own window has admitted, at most the limit.
  const auto before = time_of(server);
  std::uint64_t admitted = 0;
  while (windows(before, time_of(server), interval) < 5)
    admitted += client->try_acquire("a", 1).admitted ? 1 : 0;
  std::uint64_t counted = 0;
  for (const std::string& name : server.names("weir:{login|a}:window:*")) {
    EXPECT_LE(server.counter(name), 2u);
    counted += server.counter(name);
  }
  EXPECT_LE(counted, admitted) << "some may have expired";
  EXPECT_GE(admitted, 2u);
  EXPECT_LE(admitted, 2 * windows(before, time_of(server), interval));
}

TEST(StoreLimiter, FillsABucketToItsBurst) {
  RedisServer server;
  StoreLimiterTerms terms = terms_of(StoreAlgorithm::token_bucket, 1, long_interval);
  terms.burst = 4;
  const auto client = limiter(server.unix_url(), terms);
  EXPECT_EQ(client->try_acquire("a", 0).remaining, 4u);
  const StoreAcquisition one = client->try_acquire("a", 1);
  EXPECT_EQ(one.remaining, 3u);
  EXPECT_EQ(one.reset_after, long_interval) << "one token comes back in one interval";
  EXPECT_EQ(client->try_acquire("a", 5).retry_after, forever);
  const StoreAcquisition refused = client->try_acquire("a", 4);
  EXPECT_FALSE(refused.admitted);
  EXPECT_LE(refused.retry_after, long_interval);
  EXPECT_GT(refused.retry_after, long_interval - 1h);
}

TEST(StoreLimiter, GoesOnWithABucketWhoseServersClockWentBack) {
  RedisServer server;
  const auto client = limiter(server.unix_url(), terms_of(StoreAlgorithm::token_bucket, 10, 1s));
  // As if the last decision had been made an hour from now, with two tokens left of a second's ten.
  const auto later = time_of(server) + 1h;
  server.command({"SET", "weir:{login|a}:token-bucket",
                  std::to_string(2 * 100'000) + ' ' + std::to_string(later.count()), "PX", "7200000"});
  EXPECT_EQ(client->try_acquire("a", 1).remaining, 1u);
  EXPECT_EQ(client->try_acquire("a", 1).remaining, 0u);
  const StoreAcquisition refused = client->try_acquire("a", 1);
  EXPECT_FALSE(refused.admitted) << "nothing grows until the clock has caught up";
  EXPECT_GT(refused.retry_after, 59min);
}

TEST(StoreLimiter, GoesOnWithALogWhoseServersClockWentBack) {
  RedisServer server;
  const auto client = limiter(server.unix_url(), terms_of(StoreAlgorithm::sliding_log, 3, 1s));
  const auto later = time_of(server) + 1h;
  server.command({"ZADD", "weir:{login|a}:sliding-log", std::to_string(later.count()), "x"});
  EXPECT_EQ(client->try_acquire("a", 1).remaining, 1u);
  EXPECT_EQ(client->try_acquire("a", 1).remaining, 0u);
  const StoreAcquisition refused = client->try_acquire("a", 1);
  EXPECT_FALSE(refused.admitted);
  EXPECT_GT(refused.retry_after, 59min);
  expect_that_all_names_expire(server);
}

TEST(StoreLimiter, ForgetsWhatHasLeftTheLog) {
  RedisServer server;
  const auto client = limiter(server.unix_url(), terms_of(StoreAlgorithm::sliding_log, 3, long_interval));
  const auto now = time_of(server);
  const std::string name = "weir:{login|a}:sliding-log";
  // Two that have left the log, and one that is about to.
  for (const auto age : {long_interval + 2s, long_interval + 1s, long_interval - 1h})
    server.command({"ZADD", name, std::to_string((now - age) / 1us), std::to_string(age.count())});
  EXPECT_EQ(client->try_acquire("a", 0).remaining, 2u);
  const StoreAcquisition refused = client->try_acquire("a", 3);
  EXPECT_FALSE(refused.admitted);
  EXPECT_LE(refused.retry_after, 1h);
  EXPECT_GT(refused.retry_after, 58min);
  EXPECT_EQ(client->try_acquire("a", 2).remaining, 0u);
  EXPECT_EQ(server.command({"ZCARD", name}).integer, 3) << "and does not keep it";
}

TEST(StoreLimiter, RemembersTheLargestLog) {
  RedisServer server;
  const auto client =
      limiter(server.unix_url(), terms_of(StoreAlgorithm::sliding_log, max_sliding_log_limit, long_interval));
  EXPECT_EQ(client->try_acquire("a", 1).remaining, max_sliding_log_limit - 1);
  const StoreAcquisition all = client->try_acquire("a", max_sliding_log_limit - 1);
  ASSERT_TRUE(all) << all.error;
  EXPECT_TRUE(all.admitted);
  EXPECT_EQ(all.remaining, 0u);
  EXPECT_EQ(server.command({"ZCARD", "weir:{login|a}:sliding-log"}).integer,
            static_cast<long long>(max_sliding_log_limit));
}

TEST(StoreLimiter, SpendsWhatTheTokenServerGrantedWithoutAsking) {
  RedisServer server;
  StoreLimiterTerms terms = terms_of(StoreAlgorithm::token_server, 100, long_interval);
  terms.batch = 10;
  const auto first = limiter(server.unix_url(), terms);
  EXPECT_EQ(first->try_acquire("a", 1).remaining, 99u);
  const std::string name = server.names("*").at(0);
  EXPECT_EQ(server.counter(name), 10u) << "one grant";
  server.kill();
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(first->try_acquire("a", 1).admitted) << "held";
  EXPECT_FALSE(first->try_acquire("a", 1)) << "and then it must ask";
}

TEST(StoreLimiter, GrantsShrinkWithWhatIsLeft) {
  RedisServer server;
  StoreLimiterTerms terms = terms_of(StoreAlgorithm::token_server, 10, long_interval);
  terms.batch = 100;
  std::vector<std::unique_ptr<StoreLimiter>> clients;
  std::vector<std::uint64_t> granted;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(limiter(server.unix_url(), terms));
    if (!clients.back()->try_acquire("a", 1).admitted) break;
    granted.push_back(server.counter(server.names("*").at(0)));
  }
  EXPECT_THAT(granted, ElementsAre(5u, 7u, 8u, 9u, 10u)) << "half of what is left, at least what is needed";
  EXPECT_FALSE(clients.back()->try_acquire("a", 1).admitted);
  EXPECT_TRUE(clients.front()->try_acquire("a", 4).admitted) << "what the first holds is still good";
}

// ---- faults

// What is held may be of a window that has ended: then it asks once more, in the time that is left.
TEST(StoreLimiter, WaitsNoLongerThanItsTimeoutThoughItAsksTwice) {
  constexpr Duration timeout = 4s;
  const auto granted = [](int tokens, int ordinal) {
    return ScriptedServer::array({":" + std::to_string(tokens) + "\r\n", ":50\r\n", ":60000000\r\n",
                                  ":" + std::to_string(ordinal) + "\r\n"});
  };
  int calls = 0;
  ScriptedServer server([&](const ScriptedServer::Words& words) {
    if (words.at(0) == "SCRIPT") return ScriptedServer::bulk(std::string(40, 'a'));
    if (++calls == 1) return granted(4, 1);
    if (calls > 2) return std::string();
    std::this_thread::sleep_for(timeout * 9 / 10);
    return granted(7, 2);
  });
  StoreLimiterTerms terms = terms_of(StoreAlgorithm::token_server, 100, 60s);
  terms.batch = 10;
  terms.timeout = timeout;
  const auto client = limiter("redis://127.0.0.1:" + std::to_string(server.port()), terms);
  ASSERT_TRUE(client->try_acquire("a", 1).admitted);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_FALSE(client->try_acquire("a", 10)) << "the second time nobody answers";
  EXPECT_LT(std::chrono::steady_clock::now() - begun, timeout * 17 / 10);
}

TEST(StoreLimiter, WaitsNoLongerThanItsTimeoutForAServerThatHangs) {
  RedisServer server;
  FaultyProxy proxy(server.socket());
  proxy.set({Fault::Kind::hang, 0, {}});
  StoreLimiterTerms terms = terms_of(StoreAlgorithm::window, 5, long_interval);
  terms.timeout = 20ms;
  const auto client = limiter(proxy.url(), terms);
  EXPECT_THAT(client->try_acquire("a", 1).error,
              AllOf(StartsWith("redis://127.0.0.1:"), HasSubstr("no answer in time")));
  proxy.set({});
  // The first try on a slow machine may miss so short a timeout, but connections come up in the end.
  StoreAcquisition answer;
  for (int i = 0; i < 1000 && !(answer = client->try_acquire("a", 1)); ++i) {
  }
  EXPECT_TRUE(answer) << answer.error;
}

TEST(StoreLimiter, TellsNonsenseAndBrokenConnectionsApartFromAnswers) {
  RedisServer server;
  FaultyProxy proxy(server.socket());
  const auto client = limiter(proxy.url(), terms_of(StoreAlgorithm::window, 5, long_interval));
  for (const Fault& fault :
       {Fault{Fault::Kind::close, 0, {}}, Fault{Fault::Kind::reset, 0, {}},
        Fault{Fault::Kind::say, 0, "+what\r\n"}, Fault{Fault::Kind::say, 0, "HTTP/1.1 400\r\n"},
        Fault{Fault::Kind::cut_answer, 50, {}}, Fault{Fault::Kind::cut_request, 300, {}}}) {
    proxy.set(fault);
    const StoreAcquisition answer = client->try_acquire("a", 1);
    EXPECT_FALSE(answer) << static_cast<int>(fault.kind);
    EXPECT_FALSE(answer.admitted);
    EXPECT_THAT(answer.error, StartsWith(proxy.url()));
  }
  proxy.set({});
  EXPECT_TRUE(client->try_acquire("a", 1));
}

TEST(StoreLimiter, LogsInAndNeverShowsThePassword) {
  RedisServer server({"--requirepass", "hunter2"});
  server.log_in_as({"AUTH", "hunter2"});
  const std::string address = "127.0.0.1:" + std::to_string(server.port());
  const StoreLimiterTerms terms = terms_of(StoreAlgorithm::window, 5, long_interval);
  EXPECT_TRUE(limiter("redis://:hunter2@" + address + "/3", terms)->try_acquire("a", 1).admitted);
  EXPECT_THAT(limiter("redis://" + address, terms)->try_acquire("a", 1).error, HasSubstr("NOAUTH"));
  const std::string wrong = limiter("redis://weir:hunter3@" + address, terms)->try_acquire("a", 1).error;
  EXPECT_THAT(wrong, AllOf(HasSubstr("AUTH: WRONGPASS"), Not(HasSubstr("hunter3"))));
}

// ---- terms

TEST(StoreLimiter, RefusesTermsThatCannotBe) {
  const auto error = [](const auto& change) {
    StoreLimiterTerms terms = terms_of(StoreAlgorithm::token_bucket, 5, 1s);
    change(terms);
    const StoreLimiterResult made = StoreLimiter::create("redis://127.0.0.1", terms);
    EXPECT_EQ(made.limiter == nullptr, !made.error.empty());
    return made.error;
  };
  EXPECT_EQ(error([](StoreLimiterTerms&) {}), "");
  EXPECT_THAT(error([](StoreLimiterTerms& t) { t.name = ""; }), StartsWith("name: "));
  EXPECT_THAT(error([](StoreLimiterTerms& t) { t.name = "a|b"; }), StartsWith("name: "));
  EXPECT_THAT(error([](StoreLimiterTerms& t) { t.prefix = "a{b}"; }), StartsWith("prefix: "));
  EXPECT_EQ(error([](StoreLimiterTerms& t) { t.limit = 0; }), "limit: 0 is not within 1 … 2251799813685248");
  EXPECT_THAT(error([](StoreLimiterTerms& t) { t.limit = max_script_number + 1; }), StartsWith("limit: "));
  EXPECT_THAT(error([](StoreLimiterTerms& t) { t.interval = 0ns; }), StartsWith("interval: "));
  EXPECT_THAT(error([](StoreLimiterTerms& t) { t.interval = 1500us; }), StartsWith("interval: "));
  EXPECT_THAT(error([](StoreLimiterTerms& t) { t.interval = 367 * 24h; }), StartsWith("interval: "));
  EXPECT_THAT(error([](StoreLimiterTerms& t) { t.burst = max_script_number; }), StartsWith("burst: so many"));
  EXPECT_THAT(error([](StoreLimiterTerms& t) { t.batch = 0; }), StartsWith("batch: 0 is not within"));
  EXPECT_THAT(error([](StoreLimiterTerms& t) { t.batch = 2; }), StartsWith("batch: token-bucket asks"));
  EXPECT_THAT(error([](StoreLimiterTerms& t) { t.timeout = 0ns; }), StartsWith("timeout: "));
  EXPECT_THAT(error([](StoreLimiterTerms& t) {
                t.algorithm = StoreAlgorithm::sliding_log;
                t.limit = max_sliding_log_limit + 1;
              }),
              StartsWith("limit: 4097 is too large for sliding-log"));
  EXPECT_THAT(error([](StoreLimiterTerms& t) {
                t.algorithm = StoreAlgorithm::window;
                t.burst = 1;
              }),
              StartsWith("burst: window saves nothing up"));
  EXPECT_THAT(error([](StoreLimiterTerms& t) {
                t.name = "";
                t.limit = 0;
              }),
              HasSubstr("\nlimit: "))
      << "all at once";
  const StoreLimiterTerms good = terms_of(StoreAlgorithm::window, 5, 1s);
  EXPECT_THAT(StoreLimiter::create("memory://", good).error,
              StartsWith("url: memory:// is this process alone"));
  EXPECT_THAT(StoreLimiter::create("http://x", good).error, StartsWith("url: "));
}

TEST(ScriptBucket, CountsInTheSmallestWholeUnits) {
  const ScriptBucket thousand = ScriptBucket::of(1000, 1s, 500);
  EXPECT_EQ(thousand.token, 1000u);
  EXPECT_EQ(thousand.rate, 1u);
  EXPECT_EQ(thousand.capacity, 500'000u);
  EXPECT_EQ(thousand.fills_in, 500'000u);
  const ScriptBucket seven = ScriptBucket::of(7, 1s, 3);
  EXPECT_EQ(seven.token, 1'000'000u);
  EXPECT_EQ(seven.rate, 7u);
  EXPECT_EQ(seven.fills_in, 428'572u) << "rounded up";
  EXPECT_TRUE(ScriptBucket::of(max_script_number, 1s, max_script_number / 1'000'000).exact);
  EXPECT_FALSE(ScriptBucket::of(1, 366 * 24h, 1'000'000).exact);
}

TEST(TokenPurse, HoldsUntilTheWindowEndsAndNoMoreKeysThanItMay) {
  using TimePoint = TokenPurse::TimePoint;
  const TimePoint now{100s};
  TokenPurse purse(2);
  EXPECT_EQ(purse.find("a", now), nullptr);
  purse.put("a", {.tokens = 3, .left = 0, .ordinal = 7, .until = now + 1s});
  ASSERT_NE(purse.find("a", now), nullptr);
  EXPECT_EQ(purse.find("a", now)->tokens, 3u);
  EXPECT_EQ(purse.find("a", now + 1s), nullptr) << "expired";
  purse.put("b", {.tokens = 1, .left = 0, .ordinal = 7, .until = now + 5s});
  EXPECT_TRUE(purse.has_room("a", now)) << "known";
  EXPECT_FALSE(purse.has_room("c", now));
  EXPECT_TRUE(purse.has_room("c", now + 1s)) << "the first has expired";
  purse.put("c", {.tokens = 1, .left = 0, .ordinal = 8, .until = now + 2s});
  EXPECT_FALSE(purse.has_room("a", now + 1s));
  purse.forget("b");
  EXPECT_TRUE(purse.has_room("a", now + 1s));
}

}  // namespace
}  // namespace weir
