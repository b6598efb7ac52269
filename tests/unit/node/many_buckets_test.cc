// SPDX-License-Identifier: BSD-3-Clause
// Buckets of more keys than a node has cells for, beside another rule's whose windows last as long.
#include <gtest/gtest.h>

#include <string>

#include "timed_node.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr RuleIndex crowded = 0;
constexpr RuleIndex quiet = 1;

TEST(ManyBuckets, AreNothingToARuleWhoseBucketsFillAtAnotherPace) {
  testing::TimedNode node(R"(
    [node]
    keys = 64
    [[rule]]
    name = "crowded"
    key = ["header:x-user"]
    algorithm = "token-bucket"
    interval = "1m"
    limit = 70  # of which a nanosecond brings no round part
    [[rule]]
    name = "quiet"
    key = ["header:x-user"]
    algorithm = "token-bucket"
    interval = "1m"
    limit = 100
  )");
  node.end_spans(200);  // so that levels differ by as much as debts do
  for (int key = 0; key < 500; ++key) node.admit(crowded, std::to_string(key), 70);
  EXPECT_EQ(node.admit(quiet, "at once", 100), 100U);
  for (int seconds = 0; seconds < 300; seconds += 30) {
    node.end_spans(300);
    EXPECT_EQ(node.admit(quiet, "later " + std::to_string(seconds), 100), 100U);
  }
}

}  // namespace
}  // namespace weir
