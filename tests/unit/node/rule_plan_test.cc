// SPDX-License-Identifier: BSD-3-Clause
// What workers' cells hold of a bucket: the rule's, but for what the workers may have beside them.
#include "node/rule_plan.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "shared/grant_table.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

Config with_bucket(std::uint64_t limit, std::uint64_t burst, Duration interval) {
  Config config;
  config.node.keys = 64;
  Rule& rule = config.rules.emplace_back();
  rule.name = "user";
  rule.key = {{.kind = Dimension::Kind::source_address, .name = {}}};
  rule.algorithm = Algorithm::token_bucket;
  rule.limit = limit;
  rule.burst = burst;
  rule.interval = interval;
  return config;
}

TEST(RulePlan, KeepsOffABucketWhatWorkersMayHaveBesideIt) {
  const Config config = with_bucket(100'000, 100'000, 1s);
  const RulePlan plan(config, 4);
  const BucketTerms& bucket = plan.buckets[0];
  EXPECT_EQ(plan.terms[0].chunk, 195U);                                            // a 512th
  EXPECT_EQ(standing_grant(config.rules[0], grantable(config.rules[0]), 4), 97U);  // a 1024th
  // Of each worker twice what it draws ahead, and four times what it is granted.
  EXPECT_EQ(bucket.burst(), 100'000U - 4 * (2 * 195 + 4 * 97));
  // In the two seconds for which grants are, what they come to is missing, in round numbers.
  EXPECT_EQ(plan.pools[0].terms().interval, 2s);
  EXPECT_EQ(bucket.time_for(bucket.cost(200'000 - 390)), 2s);
}

TEST(RulePlan, KeepsNothingOffTheSmallBucketOfAnOnlyWorker) {
  const Config config = with_bucket(1000, 8000, 1s);
  const RulePlan plan(config, 1);
  EXPECT_EQ(plan.terms[0].chunk, 0U);
  EXPECT_EQ(plan.buckets[0].burst(), 8000U);
  EXPECT_EQ(plan.buckets[0].time_for(plan.buckets[0].cost(1000)), 1s);
}

// Windows in which a bucket fills twice last as long as whole intervals.
TEST(RulePlan, HasABucketsWindowLastForAsLongAsItTakesToFillTwice) {
  const auto window = [](std::uint64_t limit, std::uint64_t burst, Duration interval) {
    const Config config = with_bucket(limit, burst, interval);
    return RulePlan(config, 2).pools[0].terms().interval;
  };
  EXPECT_EQ(window(1000, 10, 1s), 1s);
  EXPECT_EQ(window(1000, 500, 1s), 1s);
  EXPECT_EQ(window(1000, 501, 1s), 2s);
  EXPECT_EQ(window(1000, 1000, 1s), 2s);
  EXPECT_EQ(window(1, 1800, 2s), 2h);
}

// As good as never full, but no number is too large.
TEST(RulePlan, BearsTheSlowestBucketThereIs) {
  const Config config = with_bucket(1, BucketTerms::max_burst, 366 * 24h);
  const RulePlan plan(config, 255);
  EXPECT_GT(plan.pools[0].terms().interval, 99 * 365 * 24h);
  EXPECT_GT(plan.buckets[0].burst(), BucketTerms::max_burst / 32 * 31 - 1);
  EXPECT_EQ(plan.buckets[0].time_for(plan.buckets[0].cost(1)) / (366 * 24h), 1);
}

}  // namespace
}  // namespace weir
