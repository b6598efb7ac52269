// SPDX-License-Identifier: BSD-3-Clause
// Who has been blocked is a key as any other once his block is over, also while others go on being blocked.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "node/node_core.h"
#include "store/memory/memory_store.h"
#include "weir/config.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

/// Two rules, whose blocks last for an hour and for three seconds.
class Node {
 public:
  Node()
      : core_(config(), {.workers = 1, .hash_seed = 1, .log = {}},
              make_memory_store(std::make_shared<MemoryCounters>())) {
    core_.advance(now_);
    core_.worker(0).online();
  }
  ~Node() { core_.worker(0).offline(); }

  std::uint32_t admit(RuleIndex rule, const std::string& key, std::uint32_t requests) {
    std::uint32_t admitted = 0;
    for (std::uint32_t i = 0; i < requests; ++i)
      admitted += core_.worker(0).admit_key(rule, key, 1, now_.monotonic).verdict == Verdict::admit;
    return admitted;
  }
  void pass(int spans) {
    for (; spans > 0; --spans) {
      now_ = now_ + 100ms;
      core_.advance(now_);
      core_.worker(0).quiescent();
      core_.advance(now_);
      core_.worker(0).quiescent();
    }
  }
  std::uint64_t blocked_keys() const {
    const Figures figures = core_.figures();
    return figures.rules[0].blocked_keys + figures.rules[1].blocked_keys;
  }

 private:
  static Config config() {
    ConfigResult parsed = parse_config(R"(
      [node]
      keys = 1000
      [[rule]]
      name = "for-an-hour"
      key = ["header:x-user"]
      limit = 1
      interval = "1s"
      spans = 10
      cooldown = "1h"
      [[rule]]
      name = "for-seconds"
      key = ["header:x-session"]
      limit = 6400
      interval = "1s"
      spans = 10
      cooldown = "3s"
    )",
                                       "test");
    for (const ConfigError& error : parsed.errors) ADD_FAILURE() << error.to_string();
    return parsed.config;
  }

  Instant now_{WallTime(1000s), MonotonicTime(10s)};
  NodeCore core_;
};

TEST(EndedBlocks, LeaveAKeyItsWholeLimitAsBefore) {
  Node node;
  for (int key = 0; key < 16; ++key) node.admit(0, std::to_string(key), 2);
  EXPECT_EQ(node.admit(1, "ann", 6500), 6400U);
  node.pass(10);
  EXPECT_EQ(node.blocked_keys(), 17U);
  node.pass(30);
  EXPECT_EQ(node.blocked_keys(), 16U);
  for (int interval = 0; interval < 4; ++interval) {
    EXPECT_EQ(node.admit(1, "ann", 3000), 3000U) << interval;
    node.pass(10);
    EXPECT_EQ(node.admit(1, "ann", 6400), 6400U) << interval;
    node.pass(10);
  }
  EXPECT_EQ(node.blocked_keys(), 16U);
}

}  // namespace
}  // namespace weir
