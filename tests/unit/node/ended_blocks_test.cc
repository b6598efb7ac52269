// SPDX-License-Identifier: BSD-3-Clause
// Who has been blocked is a key as any other once his block is over, also while others go on being blocked.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "timed_node.h"

namespace weir {
namespace {

constexpr RuleIndex for_an_hour = 0;
constexpr RuleIndex for_seconds = 1;
const char* const rules = R"(
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
)";

std::uint64_t blocked_keys(const testing::TimedNode& node) {
  const Figures figures = node.core().figures();
  return figures.rules[for_an_hour].blocked_keys + figures.rules[for_seconds].blocked_keys;
}

TEST(EndedBlocks, LeaveAKeyItsWholeLimitAsBefore) {
  testing::TimedNode node(rules);
  for (int key = 0; key < 16; ++key) node.admit(for_an_hour, std::to_string(key), 2);
  EXPECT_EQ(node.admit(for_seconds, "ann", 6500), 6400U);
  node.end_spans(10);
  EXPECT_EQ(blocked_keys(node), 17U);
  node.end_spans(30);
  EXPECT_EQ(blocked_keys(node), 16U);
  for (int interval = 0; interval < 4; ++interval) {
    node.admit(for_seconds, "bob", 6500);
    EXPECT_EQ(node.admit(for_seconds, "ann", 3000), 3000U) << interval;
    node.end_spans(10);
    EXPECT_EQ(node.admit(for_seconds, "ann", 6400), 6400U) << interval;
    node.end_spans(10);
  }
  node.end_spans(40);
  EXPECT_EQ(blocked_keys(node), 16U);
}

}  // namespace
}  // namespace weir
