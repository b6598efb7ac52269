// SPDX-License-Identifier: BSD-3-Clause
// What a node's controller is told of a flood of keys that are blocked, all of which go on: not of all of
// them in every span, so that it has time for others.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "node/node_core.h"
#include "store/memory/memory_store.h"
#include "weir/config.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

/// One request of each key in every span, of 100 ms; all but the first two spans' are refused.
class FloodedNode {
 public:
  FloodedNode(std::uint32_t keys, const std::string& rule)
      : core_(config(rule), {.workers = 1, .hash_seed = 1, .log = {}},
              make_memory_store(std::make_shared<MemoryCounters>())) {
    core_.advance(now_);
    core_.worker(0).online();
    for (std::uint32_t key = 0; key < keys; ++key)
      keys_.push_back(core_.worker(0).key(0, names_.emplace_back(std::to_string(key))));
    for (int i = 0; i < 8; ++i) span();
  }
  ~FloodedNode() { core_.worker(0).offline(); }

  void span() {
    std::array<Verdict, 32> verdicts;
    for (std::size_t i = 0; i < keys_.size(); i += verdicts.size()) {
      const auto burst = std::span(keys_).subspan(i, std::min(verdicts.size(), keys_.size() - i));
      core_.worker(0).admit_keys(burst, now_.monotonic, verdicts);
      admitted_ += std::ranges::count(std::span(verdicts).first(burst.size()), Verdict::admit);
    }
    ++spans_;
    now_ = now_ + 100ms;
    core_.advance(now_);
    core_.worker(0).quiescent();
    core_.advance(now_);
    core_.worker(0).quiescent();
  }
  void finish() {
    core_.worker(0).offline();
    EXPECT_TRUE(core_.finish(now_, 0ms));
  }
  std::ptrdiff_t admitted() const { return admitted_; }
  std::uint64_t spans() const { return spans_; }
  /// Of each key, in the interval, as far as the controller knows; the most first.
  std::vector<std::uint64_t> offered() const {
    std::vector<std::uint64_t> offered;
    for (const KeyFigures& key : core_.top(keys_.size())) offered.push_back(key.offered);
    EXPECT_EQ(offered.size(), keys_.size());
    return offered;
  }

 private:
  static Config config(const std::string& rule) {
    ConfigResult parsed = parse_config(
        "[node]\nkeys = 1000000\n[[rule]]\nname = \"r\"\nkey = [\"header:x-user\"]\nlimit = 1\ncooldown = "
        "\"1000s\"\n" +
            rule,
        "test");
    for (const ConfigError& error : parsed.errors) ADD_FAILURE() << error.to_string();
    return parsed.config;
  }

  std::deque<std::string> names_;
  std::vector<Key> keys_;
  std::ptrdiff_t admitted_ = 0;
  std::uint64_t spans_ = 0;
  Instant now_{WallTime(1000s), MonotonicTime(10s)};
  NodeCore core_;
};

constexpr std::uint32_t few = 60'000;
constexpr std::uint32_t many = 70'000;
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
  FloodedNode node(300'000, long_interval);
  for (int i = 0; i < 20; ++i) node.span();
  const std::vector<std::uint64_t> offered = node.offered();
  EXPECT_LE(offered.front() - offered.back(), 9U);
  EXPECT_GE(offered.front() - offered.back(), 5U);
  EXPECT_GE(offered.back(), node.spans() - 13);
}

TEST(ManyBlocked, AreAllToldOfWhenTheNodeStops) {
  constexpr std::uint32_t more = 140'000;  // so that of some it is not told twice in a row
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

// Of whom nothing is told in an interval it is thought that he is idle.
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
