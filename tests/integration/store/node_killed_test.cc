// SPDX-License-Identifier: BSD-3-Clause
// Nodes that are killed in the middle of a batch, over and over, while a second client looks for counters
// without a time to live between any two commands.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>

#include "child_process.h"
#include "redis_cluster.h"
#include "redis_server.h"
#include "seed.h"
#include "stored_counters.h"
#include "wait_until.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr int kills = 25;
constexpr std::uint64_t names_per_round = 300;

/// Names that would live for ever: the server runs no other command between the questions.
constexpr const char* immortals_script = R"(
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) == -1 then found[#found + 1] = key end
end
return found
)";

std::uint64_t look_for_immortals(RedisClient& client) {
  const Answer found = client.command({"EVAL", immortals_script, "0"});
  // A busy machine can make a cluster believe that it is down.
  EXPECT_TRUE(!found.is_error() || found.text.find("cluster is down") != std::string::npos) << found.text;
  for (const std::string& name : found.elements) ADD_FAILURE() << name << " was seen without a time to live";
  return static_cast<std::uint64_t>(client.command({"DBSIZE"}).integer);
}

std::string node_program() {
  const char* build = std::getenv("WEIR_BUILD_ROOT");
  return std::filesystem::path(build == nullptr ? "." : build) / "tests/integration/store/submitting-node";
}

class ANodeKilled : public ::testing::TestWithParam<const char*> {};

TEST_P(ANodeKilled, LeavesNoCounterThatNeverExpiresAndNoneTooLarge) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(test_seed()));
  std::mt19937_64 random(test_seed());
  RedisServer server;
  RedisClient looker(server.socket());
  const TestFolder folder("node");
  std::uint64_t looks = 0;
  for (int kill = 0; kill < kills; ++kill) {
    server.command({"FLUSHALL"});
    const std::filesystem::path rounds = folder.path() / ("rounds" + std::to_string(kill));
    ChildProcess node({node_program(), server.unix_url(), GetParam()}, rounds);
    // At a moment that has nothing to do with what the node does, once it does something.
    ASSERT_TRUE(wait_until("the node to count", [&] {
      EXPECT_TRUE(node.running()) << node_program() << " has ended";
      return look_for_immortals(looker) > 0 || !node.running();
    }));
    for (std::uint64_t more = random() % 8; more > 0; --more, ++looks) look_for_immortals(looker);
    std::this_thread::sleep_for(std::chrono::microseconds{random() % 5000});
    node.kill();
    look_for_immortals(looker);
    // What it had sent may still be in the server's buffers; DBSIZE stands in the same queue behind it.
    const std::uint64_t submitted = names_per_round * std::filesystem::file_size(rounds);
    if (std::string(GetParam()) == "hash") {
      const StoredCounters stored(server.client());
      const auto sum = static_cast<std::uint64_t>(stored.sum());
      EXPECT_GT(sum, 0u);
      EXPECT_LE(sum, submitted);
      for (const auto& [id, value] : stored.all()) EXPECT_EQ(value, 1) << ::testing::PrintToString(id);
      stored.expect_that_all_expire();
    }
  }
  std::printf("%llu looks between kills\n", static_cast<unsigned long long>(looks));
}

INSTANTIATE_TEST_SUITE_P(InMidBatch, ANodeKilled, ::testing::Values("hash", "plain"),
                         [](const auto& layout) { return std::string(layout.param); });

TEST(ANodeKilledOnACluster, LeavesNoCounterThatNeverExpires) {
  std::mt19937_64 random(test_seed());
  RedisCluster cluster;
  const TestFolder folder("node");
  for (int kill = 0; kill < 10; ++kill) {
    ChildProcess node({node_program(), cluster.url(), "hash"}, folder.path() / "rounds");
    ASSERT_TRUE(wait_until("the node to count", [&] {
      std::uint64_t keys = 0;
      for (RedisClient* master : cluster.master_clients()) keys += look_for_immortals(*master);
      return keys > 0 || !node.running();
    }));
    std::this_thread::sleep_for(std::chrono::microseconds{random() % 20'000});
    node.kill();
    for (RedisClient* master : cluster.master_clients()) look_for_immortals(*master);
  }
}

}  // namespace
}  // namespace weir
