// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "faulty_proxy.h"
#include "redis_server.h"
#include "seed.h"
#include "stored_counters.h"
#include "watched_store.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

Fault random_fault(std::mt19937_64& random) {
  using Kind = Fault::Kind;
  // No nonsense in the middle of an answer here: by bad luck it completes the answer, which is then taken for
  // one.
  constexpr Kind kinds[] = {Kind::none,       Kind::none,         Kind::close,      Kind::reset,
                            Kind::cut_answer, Kind::stall_answer, Kind::cut_request};
  const Kind kind = kinds[random() % std::size(kinds)];
  // Around the first batches: the greeting's answer takes 47 bytes, its request some 1000.
  const std::size_t bytes = kind == Kind::cut_request ? 900 + random() % 8000 : 40 + random() % 400;
  return {kind, bytes, {}};
}

TEST(ExactlyOnce, HoldsForTwoNodesWhateverHappensToTheirConnections) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(test_seed()));
  RedisServer server;
  FaultyProxy proxy(server.socket());
  auto random = std::make_shared<std::mt19937_64>(test_seed());
  auto left = std::make_shared<int>(120);  // faulty connections, so that the test ends
  proxy.on_connection([random, left](std::size_t) { return --*left > 0 ? random_fault(*random) : Fault{}; });

  StoreConfig config = quick_config();
  config.timeout = 100ms;
  WatchedStore first(proxy.url(), config);
  WatchedStore second(proxy.url(), config);
  std::map<std::pair<std::string, Ordinal>, std::uint64_t> expected;
  std::mt19937_64 own(test_seed() + 1);
  std::size_t rounds = 0;
  // As long as there are faults to come, and some rounds after.
  for (std::size_t after = 0; after < 20; ++rounds) {
    if (proxy.connections() >= 120) ++after;
    for (WatchedStore* store : {&first, &second}) {
      std::vector<std::pair<std::string, std::uint64_t>> deltas;
      for (int i = 0; i < 10; ++i) deltas.emplace_back("rule|" + std::to_string(own() % 40), own() % 5);
      const auto ordinal = static_cast<Ordinal>(own() % 3);
      for (const auto& [name, delta] : deltas) expected[{name, ordinal}] += delta;
      store->add(deltas, ordinal);
      store->collect();
      if (own() % 4 == 0) store->store().flush(20ms);
    }
    // A connection that has outlived its fault makes room for the next.
    if (own() % 20 == 0) server.kill_clients();
    ASSERT_LT(rounds, 100'000u) << "the faults do not come";
  }
  ASSERT_TRUE(first.wait_until_quiet());
  ASSERT_TRUE(second.wait_until_quiet());
  const StoredCounters stored(server.client());
  for (const auto& [name, total] : expected)
    EXPECT_EQ(stored.value(name.first, name.second), static_cast<std::int64_t>(total))
        << name.first << " " << name.second << ", seed " << test_seed();
  EXPECT_EQ(first.figures().expired + second.figures().expired, 0u);
  EXPECT_GT(first.figures().failures + second.figures().failures, 0u);
  stored.expect_that_all_expire();
  std::printf("%zu rounds, %zu connections, %llu failures\n", rounds, proxy.connections(),
              static_cast<unsigned long long>(first.figures().failures + second.figures().failures));
}

}  // namespace
}  // namespace weir
