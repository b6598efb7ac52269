// SPDX-License-Identifier: BSD-3-Clause
// Names that take long to look up: the store's thread waits for the resolver, and nobody else is to pay for
// it.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "redis_cluster.h"
#include "scripted_server.h"
#include "store/outbox.h"
#include "store/redis/batch_command.h"
#include "store/redis/redis_topology.h"
#include "stored_counters.h"
#include "wait_until.h"
#include "watched_store.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// The resolver of this program. Names that end in ".test" are not found, after as long as the test says; all
/// others are the system's.
class Resolver {
 public:
  struct LookUp {
    std::string name;
    steady_clock::time_point begun;
    steady_clock::time_point ended{};
  };

  static Resolver& instance() {
    static Resolver resolver;
    return resolver;
  }
  /// As at the beginning. Nobody may be waiting.
  void reset() {
    const std::lock_guard lock(mutex_);
    takes_ = {};
    held_ = false;
    look_ups_.clear();
  }
  void take(Duration time) {
    const std::lock_guard lock(mutex_);
    takes_ = time;
  }
  /// No look-up ends before release().
  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    released_.notify_all();
  }
  std::vector<LookUp> look_ups() const {
    const std::lock_guard lock(mutex_);
    return look_ups_;
  }
  bool in_progress() const {
    const std::lock_guard lock(mutex_);
    return !look_ups_.empty() && look_ups_.back().ended == steady_clock::time_point{};
  }

  int look_up(const std::string& name) {
    std::unique_lock lock(mutex_);
    const std::size_t own = look_ups_.size();
    look_ups_.push_back({.name = name, .begun = steady_clock::now()});
    const auto until = steady_clock::now() + takes_;
    released_.wait(lock, [this] { return !held_; });
    while (steady_clock::now() < until) released_.wait_until(lock, until);
    look_ups_[own].ended = steady_clock::now();
    return EAI_AGAIN;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable released_;
  Duration takes_{};
  bool held_ = false;
  std::vector<LookUp> look_ups_;
};

}  // namespace
}  // namespace weir

// Instead of the C library's, for the whole program.
extern "C" int getaddrinfo(const char* __restrict node, const char* __restrict service,
                           const addrinfo* __restrict hints, addrinfo** __restrict found) {
  if (node != nullptr && std::string_view(node).ends_with(".test"))
    return weir::Resolver::instance().look_up(node);
  static const auto real = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(node, service, hints, found);
}

namespace weir {
namespace {

class LookUps : public ::testing::Test {
 protected:
  LookUps() { resolver_.reset(); }

  Resolver& resolver_ = Resolver::instance();
};

TEST_F(LookUps, AHealthySeedIsFoundAmongNamesThatTakeLongerToFailThanServersAreWaitedFor) {
  RedisCluster cluster;
  const StoreConfig config = quick_config();
  resolver_.take(config.timeout + 200ms);
  WatchedStore store(
      "redis+cluster://one.test,two.test,127.0.0.1:" + std::to_string(cluster.node(0).port()) + ",three.test",
      config);
  std::vector<std::pair<std::string, std::uint64_t>> counts;
  for (int i = 0; i < 200; ++i) counts.emplace_back("rule|" + std::to_string(i), 1);
  store.add(counts, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  ASSERT_TRUE(store.wait_until_up());
  EXPECT_EQ(StoredCounters(cluster.master_clients()).sum(), 200);
}

TEST_F(LookUps, AServerThatSaysNothingIsLeftThoughOneNameAfterTheOtherIsLookedUp) {
  std::atomic<int> connections{0};
  ScriptedServer silent([&](const ScriptedServer::Words& words) {
    connections += words.at(0) == "SCRIPT";
    return std::string();
  });
  resolver_.take(300ms);
  WatchedStore store("redis+cluster://127.0.0.1:" + std::to_string(silent.port()) + ",one.test,two.test");
  EXPECT_TRUE(store.wait_until([&](const StoreFigures&) { return connections > 1; }));
}

/// Whether somebody has written to an event that nobody has read since.
bool an_event_is_set() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream lines(entry.path());
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("eventfd-count:") &&
          line.find_first_of("123456789abcdef", 14) != std::string::npos)
        return true;
  }
  return false;
}

TEST_F(LookUps, WhoEndsTheStoreWaitsForTheOneInProgressAlone) {
  resolver_.hold();
  std::unique_ptr<Store> store =
      open_store("redis+cluster://one.test,two.test,three.test,four.test", quick_config());
  ASSERT_TRUE(wait_until("a look-up to begin", [&] { return resolver_.in_progress(); }));
  std::thread ending([&] { store.reset(); });
  // It is written to once the store's thread is to stop.
  EXPECT_TRUE(wait_until("the store to be told that it ends", an_event_is_set));
  resolver_.release();
  ending.join();
  EXPECT_EQ(resolver_.look_ups().size(), 1u);
}

class LookUpsOf : public LookUps, public ::testing::WithParamInterface<const char*> {};

TEST_P(LookUpsOf, ANameThatIsNotFoundHaveAWholePauseBetweenThem) {
  StoreConfig config = quick_config();
  config.timeout = 10ms;
  config.reconnect = 200ms;
  resolver_.take(300ms);
  WatchedStore store(GetParam(), config);
  ASSERT_TRUE(store.wait_until([&](const StoreFigures&) { return resolver_.look_ups().size() > 3; }));
  const std::vector<Resolver::LookUp> all = resolver_.look_ups();
  for (std::size_t i = 1; i < all.size(); ++i)
    EXPECT_GE(all[i].begun - all[i - 1].ended, config.reconnect * 3 / 4) << i;
  EXPECT_TRUE(store.wait_until_down("looking up one.test"));
}

INSTANTIATE_TEST_SUITE_P(Mode, LookUpsOf,
                         ::testing::Values("redis://one.test", "redis+sentinel://one.test/main",
                                           "redis+cluster://one.test"),
                         [](const auto& one) {
                           const RedisUrl::Mode mode = parse_redis_url(one.param).url.mode;
                           return mode == RedisUrl::Mode::single     ? "Single"
                                  : mode == RedisUrl::Mode::sentinel ? "Sentinel"
                                                                     : "Cluster";
                         });

/// What a server has been asked when another's name begins to be looked up, for longer than answers are
/// waited for.
struct Awaited {
  RedisUrl::Mode mode;
  std::string command;

  std::string describe() const {
    return (mode == RedisUrl::Mode::cluster ? "Cluster" : "Sentinel") + command;
  }
  friend void PrintTo(const Awaited& awaited, std::ostream* out) { *out << awaited.describe(); }
};

/// A server that answers as it is, but for one command: that it answers only a little after a look-up that
/// begins and ends meanwhile.
class LookUpsOfOthers : public LookUps, public ::testing::WithParamInterface<Awaited> {
 protected:
  LookUpsOfOthers() { config_.timeout = 4s; }

  std::string answer(const ScriptedServer::Words& words) {
    const std::string& command = words.at(0);
    ++asked_[command];
    if (command == GetParam().command && asked_[command] == 1) await_a_look_up();
    if (command == "SCRIPT") return ScriptedServer::bulk(std::string(40, 'a'));
    if (command == "ROLE") return ScriptedServer::array({ScriptedServer::bulk("master")});
    if (command == "CLUSTER") return slots();
    if (command == "TIME")
      return ScriptedServer::array({ScriptedServer::bulk("1763739000"), ScriptedServer::bulk("0")});
    // One counter, whose total is 1.
    if (command == "EVALSHA") return ScriptedServer::bulk("\x91\x01");
    return ":0\r\n";
  }

  void await_a_look_up() {
    resolver_.hold();
    loses_sentinel_ = true;
    wait_until("a look-up to begin", [this] { return resolver_.in_progress(); });
    std::this_thread::sleep_for(config_.timeout + 500ms);
    resolver_.release();
    // Not so soon that the answer is there when the store looks first.
    std::this_thread::sleep_for(50ms);
  }

  /// Half of the slots are this server's, the others of one whose name is not found.
  std::string slots() const {
    const auto range = [](unsigned first, unsigned last, const std::string& host, std::uint16_t port) {
      const auto number = [](unsigned value) { return ":" + std::to_string(value) + "\r\n"; };
      return ScriptedServer::array(
          {number(first), number(last), ScriptedServer::array({ScriptedServer::bulk(host), number(port)})});
    };
    return ScriptedServer::array(
        {range(0, half - 1, "127.0.0.1", port_), range(half, cluster_slots - 1, "one.test", 6379)});
  }

  std::string sentinels_answer(const ScriptedServer::Words& words) {
    if (words.at(0) != "SENTINEL") return "+PONG\r\n";
    if (loses_sentinel_.exchange(false)) return "-ERR I am leaving\r\n";
    return ScriptedServer::array(
        {ScriptedServer::bulk("127.0.0.1"), ScriptedServer::bulk(std::to_string(port_))});
  }

  /// Of a counter that is this server's.
  static std::string name() {
    for (int i = 0;; ++i) {
      const std::string name = "rule|" + std::to_string(i);
      if (cluster_slot(partition_tag(partition_of(name))) < half) return name;
    }
  }

  static constexpr unsigned half = cluster_slots / 2;
  StoreConfig config_ = quick_config();
  std::atomic<std::uint16_t> port_{0};
  std::atomic<bool> loses_sentinel_{false};  // the next question it answers with an error
  std::map<std::string, std::atomic<int>> asked_;
};

TEST_P(LookUpsOfOthers, AreNotTakenForTheSilenceOfAServerThatIsAwaited) {
  for (const char* command : {"SCRIPT", "ROLE", "PEXPIRE", "CLUSTER", "TIME", "EVALSHA"}) asked_[command] = 0;
  ScriptedServer server([this](const auto& words) { return answer(words); });
  port_ = server.port();
  ScriptedServer sentinel([this](const auto& words) { return sentinels_answer(words); });
  const bool behind_sentinels = GetParam().mode == RedisUrl::Mode::sentinel;
  WatchedStore store(behind_sentinels
                         ? "redis+sentinel://one.test,127.0.0.1:" + std::to_string(sentinel.port()) + "/main"
                         : "redis+cluster://127.0.0.1:" + std::to_string(server.port()) + ",one.test",
                     config_);
  store.add(name(), 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(asked_["SCRIPT"], 1) << "it had to connect again";
  EXPECT_EQ(asked_["EVALSHA"], 1);
}

INSTANTIATE_TEST_SUITE_P(That, LookUpsOfOthers,
                         ::testing::Values(Awaited{RedisUrl::Mode::cluster, "SCRIPT"},
                                           Awaited{RedisUrl::Mode::cluster, "CLUSTER"},
                                           Awaited{RedisUrl::Mode::cluster, "EVALSHA"},
                                           Awaited{RedisUrl::Mode::sentinel, "ROLE"},
                                           Awaited{RedisUrl::Mode::sentinel, "EVALSHA"}),
                         [](const auto& one) { return one.param.describe(); });

}  // namespace
}  // namespace weir
