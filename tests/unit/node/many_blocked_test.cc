// SPDX-License-Identifier: BSD-3-Clause
// What a node's controller is told of a flood of keys that are blocked, all of which go on: not of all of
// them in every span, so that it has time for others.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "timed_node.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t told_at_once = 1024;

enum class Order : std::uint8_t { always_the_same, any };

/// One request of each key in every span; all but the first two spans' are refused.
class FloodedNode {
 public:
  FloodedNode(std::uint32_t keys, const std::string& rule, Order order = Order::always_the_same)
      : node_(config(rule), told_at_once), order_(order) {
    for (std::uint32_t key = 0; key < keys; ++key)
      keys_.push_back(node_.worker().key(0, names_.emplace_back(std::to_string(key))));
    for (int i = 0; i < 8; ++i) span();
  }

  void span() {
    if (order_ == Order::any) std::ranges::shuffle(keys_, random_);
    std::array<Verdict, 32> verdicts;
    for (std::size_t i = 0; i < keys_.size(); i += verdicts.size()) {
      const auto burst = std::span(keys_).subspan(i, std::min(verdicts.size(), keys_.size() - i));
      node_.worker().admit_keys(burst, node_.now().monotonic, verdicts);
      admitted_ += std::ranges::count(std::span(verdicts).first(burst.size()), Verdict::admit);
    }
    ++spans_;
    node_.end_span();
  }
  void finish() {
    node_.worker().offline();
    EXPECT_TRUE(node_.core().finish(node_.now(), 0ms));
  }
  std::ptrdiff_t admitted() const { return admitted_; }
  std::uint64_t spans() const { return spans_; }
  /// Of each key, in the interval, as far as the controller knows; the most first.
  std::vector<std::uint64_t> offered() const {
    std::vector<std::uint64_t> offered;
    for (const KeyFigures& key : top()) offered.push_back(key.offered);
    EXPECT_EQ(offered.size(), keys_.size());
    return offered;
  }
  std::vector<KeyFigures> top() const { return node_.core().top(keys_.size()); }

 private:
  static std::string config(const std::string& rule) {
    return "[node]\nkeys = 20000\n[[rule]]\nname = \"r\"\nkey = [\"header:x-user\"]\nlimit = 1\ncooldown = "
           "\"1000s\"\n" +
           rule;
  }

  testing::TimedNode node_;
  std::deque<std::string> names_;
  std::vector<Key> keys_;
  const Order order_;
  std::mt19937 random_{28};
  std::ptrdiff_t admitted_ = 0;
  std::uint64_t spans_ = 0;
};

constexpr std::uint32_t few = 1000;
constexpr std::uint32_t many = 1100;
/// All that the tests need lies in one interval.
const char* const long_interval = "interval = \"10s\"\nspans = 100\n";

TEST(ManyBlocked, AreToldOfInTurnsEachWithAllThatItWasRefused) {
  FloodedNode node(many, long_interval);
  const std::ptrdiff_t admitted = node.admitted();
  int in_turns = 0;
  for (int i = 0; i < 6; ++i) {
    node.span();
    const std::vector<std::uint64_t> offered = node.offered();
    in_turns += offered.front() > offered.back();
    EXPECT_LE(offered.front(), node.spans());
    EXPECT_GE(offered.back(), node.spans() - 4);
  }
  EXPECT_GE(in_turns, 3);
  EXPECT_EQ(node.admitted(), admitted);
}

// In eight turns: what lies between two of them is what the one table tells, and half as much of the other.
TEST(ManyBlocked, AreToldOfByEachTableInTurn) {
  FloodedNode node(4700, long_interval);
  for (int i = 0; i < 20; ++i) node.span();
  const std::vector<std::uint64_t> offered = node.offered();
  EXPECT_LE(offered.front() - offered.back(), 9U);
  EXPECT_GE(offered.front() - offered.back(), 5U);
  EXPECT_GE(offered.back(), node.spans() - 13);
}

// Where a key lies in a table goes by when it came first, so the two may tell of it one soon after the other.
TEST(ManyBlocked, AreToldOfOnceInSixteenSpansInWhateverOrderTheyCome) {
  constexpr std::uint32_t in_eight_turns = 9000;
  FloodedNode node(in_eight_turns, long_interval, Order::any);
  std::map<std::string, std::uint64_t> told;
  std::map<std::string, std::uint64_t> told_in;
  for (int i = 0; i < 60; ++i) {
    node.span();
    const std::vector<KeyFigures> all = node.top();
    ASSERT_EQ(all.size(), in_eight_turns);
    for (const KeyFigures& key : all) {
      if (std::exchange(told[key.name], key.offered) != key.offered) told_in[key.name] = node.spans();
      ASSERT_GE(told_in[key.name] + 16, node.spans()) << key.name;
    }
  }
}

TEST(ManyBlocked, AreAllToldOfWhenTheNodeStops) {
  constexpr std::uint32_t more = 2200;  // so that of some it is not told twice in a row
  FloodedNode node(more, long_interval);
  node.finish();
  EXPECT_EQ(node.offered(), std::vector<std::uint64_t>(more, node.spans()));
}

TEST(ManyBlocked, AreToldOfInEverySpanWhereTheyAreNotThatMany) {
  FloodedNode node(few, long_interval);
  for (int i = 0; i < 3; ++i) {
    node.span();
    EXPECT_EQ(node.offered(), std::vector<std::uint64_t>(few, node.spans()));
  }
}

TEST(ManyBlocked, AreToldOfInEverySpanWhereWhatIsRefusedCounts) {
  FloodedNode node(many, std::string(long_interval) + "penalize = true\n");
  for (int i = 0; i < 3; ++i) {
    node.span();
    EXPECT_EQ(node.offered(), std::vector<std::uint64_t>(many, node.spans()));
  }
}

// Of whom nothing is told in two intervals it is thought that he is idle.
TEST(ManyBlocked, AreToldOfInEverySpanOfWhichAnIntervalHasFew) {
  FloodedNode node(many, "interval = \"300ms\"\nspans = 3\n");
  for (int i = 0; i < 6; ++i) {
    node.span();
    const std::vector<std::uint64_t> offered = node.offered();
    EXPECT_EQ(offered.front(), offered.back());
    EXPECT_GT(offered.back(), 0U);
  }
}

}  // namespace
}  // namespace weir
