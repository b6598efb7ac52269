// SPDX-License-Identifier: BSD-3-Clause
// The whole library behind its public face, in virtual time.
#include "weir/throttle.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <system_error>
#include <vector>

namespace weir {
namespace {

using namespace std::chrono_literals;

Config config_of(std::string_view rules) {
  ConfigResult result = parse_config(rules, "test.toml");
  for (const ConfigError& error : result.errors) ADD_FAILURE() << error.to_string();
  return result.config;
}

/// One node, one worker, one thread, a clock in the test's hands.
class VirtualNode {
 public:
  explicit VirtualNode(std::string_view rules, unsigned workers = 1)
      : made(Throttle::create(config_of(rules), {.workers = workers, .hash_seed = 1, .log = {}})) {
    now = {WallTime(1000s), MonotonicTime(10s)};
    made.throttle->advance(now);
    for (unsigned i = 0; i < workers; ++i) made.throttle->worker(i).online();
  }
  void run_to(Duration since_start) {
    const Instant target = Instant{WallTime(1000s), MonotonicTime(10s)} + since_start;
    while (now.wall < target.wall) {
      const Instant due = made.throttle->advance(now);
      now = due.wall < target.wall ? due : target;
      made.throttle->advance(now);
      made.throttle->worker(0).quiescent();
      made.throttle->advance(now);
      made.throttle->worker(0).quiescent();
    }
  }
  Decision get(std::string_view target) {
    Request request;
    request.method = "GET";
    request.target = target;
    request.host = "example.com";
    return made.throttle->worker(0).admit(request, now.monotonic);
  }
  bool admits(std::string_view target) { return get(target).verdict == Verdict::admit; }

  ThrottleResult made;
  Instant now;
};

constexpr std::string_view one_rule = R"(
[[rule]]
name = "login"
match = { path = "/login" }
limit = 3
interval = "1s"
cooldown = "2s"
)";

TEST(Throttle, AdmitsUpToTheLimitBlocksForTheCooldownAndAdmitsAgain) {
  VirtualNode node(one_rule);
  node.run_to(250ms);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(node.admits("/login"));
  EXPECT_FALSE(node.admits("/login"));
  node.run_to(2249ms);
  EXPECT_FALSE(node.admits("/login"));
  node.run_to(2250ms);
  EXPECT_TRUE(node.admits("/login"));
}

TEST(Throttle, LeavesOtherRoutesAlone) {
  VirtualNode node(one_rule);
  for (int i = 0; i < 10; ++i) node.get("/login");
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(node.admits("/other"));
}

TEST(Throttle, ASlowClientIsNeverBlocked) {
  VirtualNode node(one_rule);
  for (int i = 0; i < 100; ++i) {
    node.run_to(i * 350ms);
    EXPECT_TRUE(node.admits("/login")) << i;
  }
}

TEST(Throttle, ARequestInTheLastSpanCountsForItsOwnInterval) {
  VirtualNode node(one_rule);
  node.run_to(990ms);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(node.admits("/login"));
  node.run_to(1010ms);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(node.admits("/login"));
  EXPECT_FALSE(node.admits("/login"));
}

TEST(Throttle, ShowsWhatItDoesInFiguresAndTop) {
  VirtualNode node(one_rule);
  for (int i = 0; i < 5; ++i) node.get("/login");
  node.run_to(150ms);
  const Figures figures = node.made.throttle->figures();
  ASSERT_EQ(figures.rules.size(), 1U);
  EXPECT_EQ(figures.rules[0].name, "login");
  EXPECT_EQ(figures.rules[0].offered, 5U);
  EXPECT_EQ(figures.rules[0].admitted, 3U);
  EXPECT_EQ(figures.rules[0].blocked, 2U);
  EXPECT_EQ(figures.rules[0].blocked_keys, 1U);
  EXPECT_EQ(figures.counts_synced, 3U);
  EXPECT_TRUE(figures.store_up);
  const auto top = node.made.throttle->top(10);
  ASSERT_EQ(top.size(), 1U);
  EXPECT_EQ(top[0].name, "login");
  EXPECT_EQ(top[0].offered, 5U);
}

TEST(Throttle, ShowsAKeyAsBlockedUntilItsBlockHasEnded) {
  VirtualNode node(one_rule);
  const auto blocked_keys = [&] { return node.made.throttle->figures().rules[0].blocked_keys; };
  EXPECT_EQ(blocked_keys(), 0U);
  for (int i = 0; i < 5; ++i) node.get("/login");
  node.run_to(150ms);
  EXPECT_EQ(blocked_keys(), 1U);
  node.run_to(1950ms);
  EXPECT_EQ(blocked_keys(), 1U);
  node.run_to(2250ms);
  EXPECT_EQ(blocked_keys(), 0U);
}

TEST(Throttle, ShowsABlockSoonAlsoWhereSpansAreLong) {
  VirtualNode node(R"(
[[rule]]
name = "daily"
limit = 3
interval = "24h"
)");
  for (int i = 0; i < 5; ++i) node.get("/");
  node.run_to(1100ms);
  EXPECT_EQ(node.made.throttle->figures().rules[0].blocked_keys, 1U);
  EXPECT_EQ(node.made.throttle->figures().counts_synced, 0U);  // the store hears at the span's end
}

constexpr std::string_view bucket_rule = R"(
[[rule]]
name = "download"
key = ["path"]
limit = 10000
burst = %
interval = "1s"
algorithm = "token-bucket"
)";

std::string bucket_of(unsigned burst) {
  std::string rules(bucket_rule);
  return rules.replace(rules.find('%'), 1, std::to_string(burst));
}

unsigned admitted_of(VirtualNode& node, unsigned requests) {
  unsigned admitted = 0;
  for (unsigned i = 0; i < requests; ++i) admitted += node.admits("/file");
  return admitted;
}

TEST(Throttle, TheOnlyWorkerOfASmallBucketHasItsBurstToTheLastToken) {
  for (const unsigned burst : {1U, 10U, 1000U, 8191U}) {
    VirtualNode node(bucket_of(burst));
    EXPECT_EQ(admitted_of(node, burst + 100), burst);
  }
}

TEST(Throttle, TheOnlyWorkerOfALargeBucketMayKeepAThousandthOfItAndNeverAdmitsMore) {
  constexpr unsigned burst = 65536;
  VirtualNode node(bucket_of(burst));
  const unsigned at_once = admitted_of(node, burst + 1000);
  EXPECT_LE(at_once, burst);
  EXPECT_GE(at_once, burst - burst / 1024);
  // Then the rate, neither more nor less, whatever it holds when spans end.
  unsigned refilled = 0;
  for (int i = 1; i <= 50; ++i) {
    node.run_to(i * 20ms);
    refilled += admitted_of(node, 1000);
  }
  EXPECT_EQ(refilled, 10000U);
  // Full again, and not more than full.
  node.run_to(20s);
  const unsigned again = admitted_of(node, burst + 1000);
  EXPECT_LE(again, burst);
  EXPECT_GE(again, burst - burst / 1024);
}

TEST(Throttle, OfALargeBucketWhatTheOnlyWorkerHoldsIsAmongWhatRemains) {
  VirtualNode node(bucket_of(65536));
  const std::uint64_t first = node.get("/file").remaining;
  EXPECT_EQ(node.get("/file").remaining, first - 1);
  for (int i = 0; i < 200; ++i) node.get("/file");
  EXPECT_EQ(node.get("/file").remaining, first - 202);
}

TEST(Throttle, NamesKeysAsTheStoreDoes) {
  VirtualNode node(R"(
[[rule]]
name = "user"
key = ["src_ip/24", "path:id"]
match = { path = "/users/{id}" }
limit = 3
interval = "1s"
)");
  Request request;
  request.method = "GET";
  request.target = "/users/7";
  request.source = {{203, 0, 113, 9}, IpAddress::Family::v4};
  ASSERT_EQ(node.made.throttle->rules_for(request), std::vector<RuleIndex>{0});
  EXPECT_EQ(node.made.throttle->key_name(0, request), "user|203.0.113.0/24|7");
}

constexpr std::string_view rules_of_all_kinds = R"(
[[rule]]
name = "mixed"
key = ["src_ip/24", "header:x-user", "dst_port"]
limit = 5
interval = "1s"
[[rule]]
name = "all"
match = { path = "/users/{id}" }
limit = 6
interval = "1s"
[[rule]]
name = "text"
match = { method = "GET" }
key = ["header:x-user"]
limit = 7
interval = "1s"
)";

/// @param user  of one's own; a null pointer: there is no such header
Request request_of(const Header& user) {
  Request request;
  request.method = "POST";
  request.target = "/";
  request.source = {{203, 0, 113, 9}, IpAddress::Family::v4};
  request.destination_port = 80;
  if (user.value.data() != nullptr) request.headers = std::span(&user, 1);
  return request;
}

/// What the key of a request has been admitted, one decision after the other.
std::size_t admitted_of(VirtualNode& node, const Key& key, std::size_t asked) {
  const std::vector<Key> keys(asked, key);
  std::vector<Verdict> verdicts(asked);
  node.made.throttle->worker(0).admit_keys(keys, node.now.monotonic, verdicts);
  return static_cast<std::size_t>(std::count(verdicts.begin(), verdicts.end(), Verdict::admit));
}

TEST(KeyOfARequest, SharesTheLimitOfTheRequestsItIsTheKeyOf) {
  for (const std::string_view user : {std::string_view("ann"), std::string_view(""), std::string_view()}) {
    for (const bool key_comes_first : {false, true}) {
      VirtualNode node(rules_of_all_kinds);
      Worker& worker = node.made.throttle->worker(0);
      const Header header{"X-User", user};
      const Request request = request_of(header);
      KeyRoom room;
      const Key key = worker.key(0, request, room);
      ASSERT_EQ(key.rule(), 0);
      std::size_t admitted = key_comes_first ? admitted_of(node, key, 2) : 0;
      for (int i = 0; i < 2; ++i)
        admitted += worker.admit(request, node.now.monotonic).verdict == Verdict::admit;
      admitted += admitted_of(node, key, 9);
      EXPECT_EQ(admitted, 5U);
      EXPECT_EQ(worker.admit(request, node.now.monotonic).verdict, Verdict::block);
    }
  }
}

TEST(KeyOfARequest, IsMetUnderTheNameOfItsRequestsAlsoWhereItsBytesHaveBeenCopied) {
  VirtualNode node(rules_of_all_kinds);
  const Header ann{"x-user", "ann"};
  KeyRoom room;
  Key key = node.made.throttle->worker(0).key(0, request_of(ann), room);
  const std::string kept(key.value);
  key.value = kept;
  room.fill('?');
  EXPECT_EQ(admitted_of(node, key, 1), 1U);
  node.run_to(150ms);
  const std::vector<KeyFigures> top = node.made.throttle->top(10);
  ASSERT_EQ(top.size(), 1U);
  EXPECT_EQ(top[0].name, "mixed|203.0.113.0/24|ann|80");
  EXPECT_EQ(top[0].name, node.made.throttle->key_name(0, request_of(ann)));
}

TEST(KeyOfARequest, WeighsWhatTheRequestDoes) {
  VirtualNode node(rules_of_all_kinds);
  const Header ann{"x-user", "ann"};
  Request request = request_of(ann);
  KeyRoom room;
  EXPECT_EQ(node.made.throttle->worker(0).key(0, request, room).weight, 1U);
  request.weight = 4;
  EXPECT_EQ(admitted_of(node, node.made.throttle->worker(0).key(0, request, room), 2), 1U);
}

TEST(KeyOfARequest, OfARuleWithoutDimensionsIsTheRulesOwn) {
  VirtualNode node(rules_of_all_kinds);
  Worker& worker = node.made.throttle->worker(0);
  const Header ann{"x-user", "ann"};
  Request request = request_of(ann);
  request.target = "/users/7";
  KeyRoom room;
  const Key key = worker.key(1, request, room);
  EXPECT_EQ(admitted_of(node, key, 4) + admitted_of(node, worker.key(1, ""), 4), 6U);
}

TEST(KeyOfARequest, IsThatOfItsValueWhereOneTextIsAllThatThereIsOfIt) {
  VirtualNode node(rules_of_all_kinds);
  Worker& worker = node.made.throttle->worker(0);
  const Header ann{"x-user", "ann"};
  Request request = request_of(ann);
  request.method = "GET";
  KeyRoom room;
  EXPECT_EQ(admitted_of(node, worker.key(2, request, room), 5) + admitted_of(node, worker.key(2, "ann"), 5),
            7U);
}

TEST(KeyOfARequest, IsNoneWhereTheRuleDoesNotApply) {
  VirtualNode node(rules_of_all_kinds);
  const Header ann{"x-user", "ann"};
  KeyRoom room;
  EXPECT_EQ(node.made.throttle->worker(0).key(2, request_of(ann), room).rule(), no_rule);
}

TEST(Throttle, AnImpossibleConfigurationIsRefusedWithItsReasons) {
  Config config;
  config.rules.push_back({});
  const ThrottleResult made = Throttle::create(config, {});
  EXPECT_FALSE(made);
  EXPECT_FALSE(made.error.empty());
}

TEST(Throttle, AsManyWorkersAsItCanNumber) {
  const Config config = config_of(one_rule);
  EXPECT_FALSE(Throttle::create(config, {.workers = 0, .hash_seed = {}, .log = {}}));
  EXPECT_FALSE(Throttle::create(config, {.workers = 256, .hash_seed = {}, .log = {}}));
}

TEST(Throttle, BeforeTheFirstPublicationEverythingPasses) {
  ThrottleResult made = Throttle::create(config_of(one_rule), {.workers = 1, .hash_seed = 1, .log = {}});
  Request request;
  request.target = "/login";
  EXPECT_EQ(made.throttle->worker(0).admit(request, MonotonicTime(1s)).verdict, Verdict::admit);
}

TEST(Throttle, RunsAndStopsWithItsOwnThread) {
  ThrottleResult made = Throttle::create(config_of(one_rule), {.workers = 1, .hash_seed = {}, .log = {}});
  made.throttle->start();
  Worker& worker = made.throttle->worker(0);
  worker.online();
  Request request;
  request.target = "/login";
  EXPECT_EQ(worker.admit(request, monotonic_now()).verdict, Verdict::admit);
  worker.quiescent();
  worker.offline();
  EXPECT_TRUE(made.throttle->stop(1s));
  EXPECT_EQ(made.throttle->figures().counts_synced, 1U);
}

TEST(Throttle, StartedTwiceRunsOnceAndMayBeStartedAgainOnceItWasStopped) {
  ThrottleResult made = Throttle::create(config_of(one_rule), {.workers = 1, .hash_seed = {}, .log = {}});
  made.throttle->start();
  made.throttle->start();
  EXPECT_TRUE(made.throttle->stop(1s));
  EXPECT_TRUE(made.throttle->stop(1s));
  made.throttle->start();
  EXPECT_TRUE(made.throttle->stop(1s));
}

/// While it lives, threads are asked to have stacks that no machine has.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 60);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

TEST(Throttle, ThatGetsNoThreadLeavesItsCallerTheSignalsAndMayBeStartedLater) {
  ThrottleResult made = Throttle::create(config_of(one_rule), {.workers = 1, .hash_seed = {}, .log = {}});
  {
    const NoThreads none;
    EXPECT_THROW(made.throttle->start(), std::system_error);
  }
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);
  made.throttle->start();
  EXPECT_TRUE(made.throttle->stop(1s));
}

}  // namespace
}  // namespace weir
