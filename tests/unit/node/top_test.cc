// SPDX-License-Identifier: BSD-3-Clause
// Which keys a node names when it is asked for those that are asked for most.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "timed_node.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

class Node {
 public:
  void end_interval() { node_.end_spans(10); }
  void admit(std::uint32_t key, std::uint32_t weight) {
    node_.worker().admit_key(0, std::to_string(key), weight, node_.now().monotonic);
  }
  std::vector<KeyFigures> top(std::size_t count) {
    node_.end_span();
    return node_.core().top(count);
  }

 private:
  testing::TimedNode node_{
      "[node]\nkeys = 400000\n[[rule]]\nname = \"r\"\nkey = [\"header:x-user\"]\nlimit = 64000\n"
      "interval = \"1s\"\nspans = 10\n"};
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

TEST(Top, GoesByTheIntervalOfTheSpanThatEndedLast) {
  Node node;
  node.admit(1, 50);
  node.admit(2, 3);
  EXPECT_EQ(node.top(1).at(0).name, "r|1");
  node.end_interval();
  node.admit(2, 7);
  EXPECT_EQ(node.top(1).at(0).name, "r|2");
  const std::vector<KeyFigures> top = node.top(10);
  ASSERT_EQ(top.size(), 2U);
  EXPECT_EQ(top[0].name, "r|2");
  EXPECT_EQ(top[0].offered, 7U);
  EXPECT_EQ(top[1].offered, 0U) << "it has come in the one before";
  EXPECT_EQ(top[1].admitted, 0U);
}

TEST(Top, OfANodeThatHasStoppedGoesByTheSpanThatEndedWithIt) {
  for (const char* const spans : {"2", "10"}) {
    testing::TimedNode node(std::string("[[rule]]\nname = \"r\"\nkey = [\"header:x-user\"]\nlimit = 9\n") +
                            "interval = \"1h\"\nspans = " + spans + "\n");
    EXPECT_EQ(node.admit(0, "ann", 3), 3U);
    node.worker().offline();
    EXPECT_TRUE(node.core().finish(node.now(), 0ms));
    const std::vector<KeyFigures> top = node.core().top(1);
    ASSERT_EQ(top.size(), 1U);
    EXPECT_EQ(top[0].admitted, 3U) << spans;
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
