// SPDX-License-Identifier: BSD-3-Clause
// Whole nodes under a strict limit whose quota is leased from a real Redis, in virtual time: never over the
// limit, also when answers are lost and claims are sent again; what is not used goes back.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "faulty_proxy.h"
#include "node/node_core.h"
#include "redis_server.h"
#include "seed.h"
#include "stored_counters.h"
#include "watched_store.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t limit = 100;

/// A store that does not tell its time: it is the real one, and these nodes live in a virtual one.
class WithoutClock final : public Store {
 public:
  explicit WithoutClock(std::unique_ptr<Store> inner) : inner_(std::move(inner)) {}
  void submit(const std::vector<CounterWrite>& writes, MonotonicTime now) override {
    inner_->submit(writes, now);
  }
  void collect(std::vector<CounterReply>& replies) override { inner_->collect(replies); }
  void on_ready(std::function<void()> wake) override { inner_->on_ready(std::move(wake)); }
  StoreFigures figures() const override { return inner_->figures(); }
  bool flush(Duration patience) override { return inner_->flush(patience); }

 private:
  std::unique_ptr<Store> inner_;
};

struct Node {
  Node(const std::string& url, const Config& config, std::uint64_t hash_seed) {
    const RedisUrlResult parsed = parse_redis_url(url);
    EXPECT_TRUE(parsed) << parsed.error;
    auto made = std::make_unique<WithoutClock>(make_redis_store(parsed.url, config.store));
    store = made.get();
    core = std::make_unique<NodeCore>(
        config, ThrottleOptions{.workers = 2, .hash_seed = hash_seed, .log = {}}, std::move(made));
  }

  /// Waits, in real time, for everything submitted to be answered; what is not by then, virtual time goes on
  /// without.
  void answered(std::chrono::milliseconds patience) const {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (store->figures().pending > 0 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(200us);
  }

  Store* store;
  std::unique_ptr<NodeCore> core;
};

Config strict_config(Duration store_timeout, StoreLayout layout = StoreLayout::hash) {
  Config config;
  config.node.keys = 64;
  config.store = quick_config();
  config.store.timeout = store_timeout;
  config.store.layout = layout;
  Rule rule;
  rule.name = "user";
  rule.limit = limit;
  rule.interval = 1s;
  rule.spans = 10;
  rule.cooldown = 1s;
  rule.algorithm = Algorithm::strict;
  config.rules.push_back(rule);
  return config;
}

/// Admissions of all nodes, by ordinal, under three times the limit.
/// @param patience  real time to wait for answers before virtual time goes on
std::map<Ordinal, std::uint64_t> run(std::vector<Node>& nodes, int seconds,
                                     std::chrono::milliseconds patience) {
  std::mt19937_64 random(test_seed());
  std::map<Ordinal, std::uint64_t> admitted;
  Instant now{WallTime(1000s), MonotonicTime(10s)};
  const auto drive = [&] {
    for (Node& node : nodes) {
      for (int round = 0; round < 2; ++round) {
        node.core->advance(now);
        for (unsigned worker = 0; worker < 2; ++worker) node.core->worker(worker).quiescent();
      }
      node.answered(patience);
      node.core->advance(now);
      for (unsigned worker = 0; worker < 2; ++worker) node.core->worker(worker).quiescent();
    }
  };
  for (Node& node : nodes) {
    node.core->advance(now);
    for (unsigned worker = 0; worker < 2; ++worker) node.core->worker(worker).online();
  }
  for (int step = 0; step < seconds * 10; ++step) {
    for (int request = 0; request < 30; ++request) {  // three times the limit
      Node& node = nodes[random() % nodes.size()];
      const Decision decision =
          node.core->worker(static_cast<unsigned>(random() % 2)).admit_key(0, "a", 1, now.monotonic);
      if (decision.verdict == Verdict::admit) ++admitted[now.wall.time_since_epoch() / 1s];
    }
    now = now + 100ms;
    drive();
  }
  for (Node& node : nodes) {
    for (unsigned worker = 0; worker < 2; ++worker) node.core->worker(worker).offline();
    EXPECT_TRUE(node.core->finish(now, 30s));
  }
  return admitted;
}

/// Also where nodes exchange their counts: what is claimed is no such count.
class StrictInLayout : public ::testing::TestWithParam<StoreLayout> {};

TEST_P(StrictInLayout, AdmitsTheLimitAndNoMoreAndReturnsWhatIsLeft) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(test_seed()));
  RedisServer server;
  std::vector<Node> nodes;
  for (std::uint64_t i = 0; i < 3; ++i)
    nodes.emplace_back(server.unix_url(), strict_config(500ms, GetParam()), i + 1);
  const auto admitted = run(nodes, 8, 10s);
  for (const auto& [ordinal, count] : admitted) {
    EXPECT_LE(count, limit) << ordinal;
    if (ordinal > 1000 && ordinal < 1007) {
      EXPECT_GE(count, limit * 9 / 10) << ordinal;
    }
  }

  const StoredCounters stored(server.client());
  // After all have stopped, a counter holds what was admitted: claims less what came back.
  for (const auto& [ordinal, count] : admitted) {
    if (ordinal < 1002) continue;
    EXPECT_EQ(stored.value("user|a", ordinal), static_cast<std::int64_t>(count)) << ordinal;
  }
}

INSTANTIATE_TEST_SUITE_P(StrictOverRedis, StrictInLayout,
                         ::testing::Values(StoreLayout::hash, StoreLayout::exchange),
                         [](const auto& one) { return std::string(to_string(one.param)); });

TEST(StrictOverRedis, NeverExceedsTheLimitWhenAnswersAreLostAndClaimsSentAgain) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(test_seed()));
  RedisServer server;
  FaultyProxy proxy(server.socket());
  auto random = std::make_shared<std::mt19937_64>(test_seed());
  auto left = std::make_shared<int>(60);
  proxy.on_connection([random, left](std::size_t) -> Fault {
    if (--*left <= 0) return {};
    constexpr Fault::Kind kinds[] = {Fault::Kind::none, Fault::Kind::cut_answer, Fault::Kind::stall_answer,
                                     Fault::Kind::close};
    return {kinds[(*random)() % std::size(kinds)], 40 + (*random)() % 300, {}};
  });
  std::vector<Node> nodes;
  for (std::uint64_t i = 0; i < 3; ++i) nodes.emplace_back(proxy.url(), strict_config(50ms), i + 1);
  const auto admitted = run(nodes, 8, 60ms);
  std::uint64_t sum = 0;
  for (const auto& [ordinal, count] : admitted) {
    EXPECT_LE(count, limit) << ordinal;
    sum += count;
  }
  EXPECT_GT(sum, 0U);
}

}  // namespace
}  // namespace weir
