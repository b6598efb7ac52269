// SPDX-License-Identifier: BSD-3-Clause
// Which keys a node names when it is asked for those that are asked for most.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "node/node_core.h"
#include "store/memory/memory_store.h"
#include "weir/config.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

class Node {
 public:
  Node()
      : core_(config(), {.workers = 1, .hash_seed = 1, .log = {}},
              make_memory_store(std::make_shared<MemoryCounters>())) {
    core_.advance(now_);
    core_.worker(0).online();
  }
  ~Node() { core_.worker(0).offline(); }

  void admit(std::uint32_t key, std::uint32_t weight) {
    core_.worker(0).admit_key(0, std::to_string(key), weight, now_.monotonic);
  }
  std::vector<KeyFigures> top(std::size_t count) {
    now_ = now_ + 100ms;
    core_.advance(now_);
    core_.worker(0).quiescent();
    core_.advance(now_);
    return core_.top(count);
  }

 private:
  static Config config() {
    Rule rule;
    rule.name = "r";
    rule.key = {{.kind = Dimension::Kind::header, .name = "x-user"}};
    rule.limit = 64'000;
    rule.interval = 1s;
    rule.spans = 10;
    Config config;
    config.node.keys = 400'000;
    config.rules.push_back(rule);
    return config;
  }

  Instant now_{WallTime(1000s), MonotonicTime(10s)};
  NodeCore core_;
};

TEST(Top, NamesTheMostOfferedInOrderHoweverManyKeysThereAre) {
  constexpr std::uint32_t keys = 300'000;
  std::mt19937 random(3);
  Node node;
  std::vector<std::uint64_t> offered;
  for (std::uint32_t key = 0; key < keys; ++key) {
    offered.push_back(1 + random() % 900);
    node.admit(key, static_cast<std::uint32_t>(offered.back()));
  }
  const std::vector<KeyFigures> top = node.top(1000);
  std::vector<std::uint64_t> most(offered);
  std::ranges::sort(most, std::greater<>());
  ASSERT_EQ(top.size(), 1000U);
  for (std::size_t i = 0; i < top.size(); ++i) {
    ASSERT_EQ(top[i].offered, most[i]) << i;
    ASSERT_EQ(top[i].admitted, most[i]) << i;
    ASSERT_EQ(top[i].offered, offered[std::stoul(top[i].name.substr(2))]) << top[i].name;
  }
}

TEST(Top, NamesAllWhereThereAreFewerAndNoneWhereNoneIsAskedFor) {
  Node node;
  EXPECT_TRUE(node.top(10).empty());
  for (const std::uint32_t key : {3U, 1U, 2U}) node.admit(key, key == 3 ? 5 : 7);
  std::vector<std::string> names;
  for (const KeyFigures& key : node.top(10)) names.push_back(key.name);
  EXPECT_EQ(names, (std::vector<std::string>{"r|1", "r|2", "r|3"}));
  EXPECT_TRUE(node.top(0).empty());
}

}  // namespace
}  // namespace weir
