// SPDX-License-Identifier: BSD-3-Clause
// A node whose keys stay within their grants, as nearly all do, takes little memory for the others; and when
// they do not stay there it soon has room for all.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/pages.h"
#include "node/node_core.h"
#include "shared/grant_table.h"
#include "store/memory/memory_store.h"
#include "weir/config.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

/// Of one worker; a limit of 640 grants each key 10.
class Node {
 public:
  Node(std::uint32_t keys, std::uint64_t limit)
      : core_(config_of(keys, limit), {.workers = 1, .hash_seed = 1, .log = {}},
              make_memory_store(std::make_shared<MemoryCounters>())) {
    core_.advance(now_);
    core_.worker(0).online();
    run(10ms);
  }
  ~Node() { core_.worker(0).offline(); }

  void run(Duration time) {
    const Instant target = now_ + time;
    while (now_.wall < target.wall) {
      const Instant due = core_.advance(now_);
      now_ = due.wall < target.wall ? due : target;
      for (int i = 0; i < 2; ++i) {
        core_.advance(now_);
        core_.worker(0).quiescent();
      }
    }
  }
  /// A span, and the controller is not asked before it is over.
  void run_late() {
    now_ = now_ + 101ms;
    core_.advance(now_);
    core_.worker(0).quiescent();
  }
  void ask_for_all(std::uint32_t keys, std::uint32_t weight) {
    for (std::uint32_t key = 0; key < keys; ++key)
      core_.worker(0).admit_key(0, std::to_string(key), weight, now_.monotonic);
  }
  void set_clock_back(Duration time) { now_.wall -= time; }
  std::uint64_t overflowed() const { return core_.figures().overflowed; }
  std::size_t memory() const { return core_.memory(); }

 private:
  static Config config_of(std::uint32_t keys, std::uint64_t limit) {
    ConfigResult parsed = parse_config("[node]\nkeys = " + std::to_string(keys) +
                                           "\n[[rule]]\nname = \"r\"\nkey = [\"header:x-user\"]\nlimit = " +
                                           std::to_string(limit) + "\ninterval = \"1s\"\nspans = 10\n",
                                       "test");
    for (const ConfigError& error : parsed.errors) ADD_FAILURE() << error.to_string();
    return parsed.config;
  }

  Instant now_{WallTime(1000s), MonotonicTime(10s)};
  NodeCore core_;
};

class FewEntries : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all lines at once";
  }
};

TEST_F(FewEntries, TakeAMillionKeysThatAreGrantedSomethingLittleMoreThanTheirGrants) {
  constexpr std::uint32_t keys = 1'000'000;
  const std::size_t without_grants = Node(keys, 10).memory();
  GrantTable grants(keys);
  grants.touch_pages();
  // 22 bytes a key, in each of two tables, are not taken but for a sixteenth.
  EXPECT_LE(Node(keys, 640).memory(), without_grants + grants.memory() - std::size_t{2} * 18 * keys);
}

TEST_F(FewEntries, AllKeysBeyondTheirGrantsAreSoonCountedByName) {
  constexpr std::uint32_t keys = 60'000;
  Node node(2 * keys, 640);
  node.ask_for_all(keys, 5);
  node.run(100ms);
  EXPECT_EQ(node.overflowed(), 0U);
  node.ask_for_all(keys, 6);
  node.run(100ms);
  // Counted under their rule meanwhile.
  EXPECT_GT(node.overflowed(), keys / 2);
  for (int span = 0; span < 4; ++span) {
    node.ask_for_all(keys, 11);
    node.run(100ms);
  }
  const std::uint64_t before = node.overflowed();
  for (int span = 0; span < 4; ++span) {
    node.ask_for_all(keys, 11);
    node.run(100ms);
  }
  EXPECT_EQ(node.overflowed(), before);
}

// One that drains, decides and flips again in each call, as there is no time between.
TEST_F(FewEntries, BecomeManyAlsoWhereTheControllerIsAlwaysLate) {
  constexpr std::uint32_t keys = 20'000;
  Node node(65'536, 640);
  node.run_late();
  for (int span = 0; span < 4; ++span) {
    node.ask_for_all(keys, 11);
    node.run_late();
  }
  const std::uint64_t before = node.overflowed();
  for (int span = 0; span < 4; ++span) {
    node.ask_for_all(keys, 11);
    node.run_late();
  }
  EXPECT_GT(before, 0U);
  EXPECT_EQ(node.overflowed(), before);
}

TEST_F(FewEntries, BecomeManyBeforeTheNextSpanWhereGrantsDoNotHold) {
  constexpr std::uint32_t keys = 60'000;
  Node node(2 * keys, 640);
  for (int span = 0; span < 12; ++span) {
    node.ask_for_all(keys, 1);
    node.run(100ms);
  }
  EXPECT_EQ(node.overflowed(), 0U);
  // What was granted in a window that the clock comes back to may have been used.
  node.set_clock_back(1s);
  for (int span = 0; span < 4; ++span) {
    node.run(100ms);
    node.ask_for_all(keys, 1);
  }
  // One table was in use when that became known.
  EXPECT_GT(node.overflowed(), 0U);
  EXPECT_LE(node.overflowed(), keys);
}

}  // namespace
}  // namespace weir
