// SPDX-License-Identifier: BSD-3-Clause
// What workers' cells hold of a bucket: the rule's, but for what the workers may have beside them.
#include "node/rule_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

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

// What workers may draw ahead is not to be missing to a rule's usual request.
TEST(RulePlan, LeavesABucketWhatItsRulesRequestsWeigh) {
  for (const unsigned workers : {1U, 2U, 16U}) {
    for (const std::uint32_t burst : {1U, 256U, 8192U, 100'000U}) {
      for (const std::uint32_t weight : {1U, burst / 2 + 1, burst - burst / 64, burst}) {
        Config config = with_bucket(1000, burst, 1s);
        config.rules[0].weight = weight;
        const RulePlan plan(config, workers);
        EXPECT_GE(plan.buckets[0].burst(), weight) << workers << " workers, burst " << burst;
      }
    }
  }
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

// Keys that find no cell of their own share some with others, of whatever rule has the same windows.
TEST(RulePlan, HasKeysShareCellsOnlyWhereLevelsCountAlike) {
  Config config = with_bucket(100, 50, 60s);
  const auto add = [&](std::uint64_t limit) {
    config.rules.push_back(config.rules[0]);
    config.rules.back().limit = limit;
    config.rules.back().burst = limit / 2;
  };
  add(50);
  add(70);                            // seven units in a nanosecond, not one
  add((std::uint64_t{1} << 31) - 1);  // no whole number
  add(140);
  const RulePlan plan(config, 1);
  EXPECT_EQ(plan.pools.size(), 1U);
  std::vector<unsigned> sections;
  for (const RuleTerms& rule : plan.terms) sections.push_back(rule.section);
  EXPECT_EQ(sections, (std::vector<unsigned>{0, 0, 1, 2, 1}));
}

TEST(RulePlan, KeysAreTheCloserToWhoSendsTheMoreTheyTellOfHim) {
  using Kind = Dimension::Kind;
  const Dimension user{.kind = Kind::header, .name = "x-user"};
  const Dimension path{.kind = Kind::path, .name = {}};
  const Dimension host{.kind = Kind::host, .name = {}};
  const Dimension network{.kind = Kind::source_address, .ipv4_bits = 24, .ipv6_bits = 56, .name = {}};
  const Dimension address{.kind = Kind::source_address, .ipv4_bits = 32, .ipv6_bits = 64, .name = {}};
  const std::vector<std::vector<Dimension>> from_far_to_close{
      {}, {path}, {path, host}, {user}, {network}, {address}, {address, path}, {address, user}};
  Config config;
  for (const std::vector<Dimension>& key : from_far_to_close) {
    config.rules.push_back(with_bucket(100, 50, 60s).rules[0]);
    config.rules.back().key = key;
  }
  config.rules.push_back(config.rules[1]);
  config.rules.back().key = {host};
  const RulePlan plan(config, 1);
  for (std::size_t i = 0; i < from_far_to_close.size(); ++i) EXPECT_EQ(plan.terms[i].closeness, i + 1);
  EXPECT_EQ(plan.terms.back().closeness, plan.terms[1].closeness) << "neither tells more than the other";
}

/// How much is in a bucket that was looked at so long ago, in per mille of what it holds.
std::uint64_t filled(const BucketTerms& bucket, std::uint64_t missing, MonotonicTime then, Duration age) {
  const std::uint64_t now = bucket.generated(then + age);
  const std::uint64_t level = bucket.caught_up(bucket.full(bucket.generated(then)) + missing, now);
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(bucket.available(level, now)) * 1000 /
                                    bucket.capacity());
}

// Windows last as long as intervals, in which small bursts are filled many times over.
TEST(RulePlan, ABucketIsFullHoweverOftenItHasBeenFilledWhileItsWindowsKeptIt) {
  std::mt19937_64 random(55);
  const auto below = [&](int bits) { return random() % (std::uint64_t{1} << bits); };
  struct Bucket {
    std::uint64_t limit;
    std::uint64_t burst;
    Duration interval;
  };
  std::vector<Bucket> buckets{{100'000, 10'000, 24h},
                              {1'000'000, 100'000, 24h},
                              {5'000'000, 100'000, 1h},
                              {77'777, 100, 24h},
                              {1'000'003, 7, 1s},
                              {31'536'000, 512, 8760h},
                              {std::numeric_limits<std::int64_t>::max(), BucketTerms::max_burst, 1s},
                              {1'000'000'000'000'000'000, 1, 1s}};
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t limit = 1 + below(static_cast<int>(random() % 41));
    const auto interval = Duration(1 + below(static_cast<int>(random() % 54)));
    buckets.push_back({limit, 1 + random() % limit, interval});
  }
  for (const auto& [limit, burst, interval] : buckets) {
    for (const unsigned workers : {1U, 4U, 64U}) {
      const Config config = with_bucket(limit, burst, interval);
      const RulePlan plan(config, workers);
      const BucketTerms& bucket = plan.buckets[0];
      const Duration window = plan.pools[0].terms().interval;
      const Duration longest = std::min(window, Duration::max() / 8) * 5 / 2;
      for (int i = 0; i < 20; ++i) {
        const MonotonicTime then(Duration(below(static_cast<int>(random() % 62))));
        const Duration age = Duration(random() % static_cast<std::uint64_t>(longest.count()));
        EXPECT_EQ(filled(bucket, 2 * bucket.capacity(), then, -window / 4), 0U)
            << "by a clock that is behind";
        for (const std::uint64_t missing : {std::uint64_t{0}, bucket.capacity(), 2 * bucket.capacity()}) {
          if (age < bucket.time_for(missing)) continue;
          ASSERT_EQ(filled(bucket, missing, then, age), 1000U)
              << limit << " in " << interval.count() << " ns, burst " << burst << ", workers " << workers
              << ", " << age.count() << " after " << then.time_since_epoch().count();
        }
      }
    }
  }
}

// A controller that has much to do between reading its clock and charging a bucket, say.
TEST(RulePlan, ABucketInDebtIsNotFullToWhoIsLateByMoreThanItsWindows) {
  struct Limit {
    std::uint64_t limit;
    std::uint64_t burst;
    Duration interval;
  };
  // The last ones are no whole numbers in any unit, or would be counted in so small ones that numbers begin
  // anew within seconds.
  for (const auto& [limit, burst, interval] :
       {Limit{100, 50, 10ms}, Limit{200'000'003, 200'000'003, 1s}, Limit{1'000'000'007, 100, 1s},
        Limit{10'000'000'000, 10'000'000'000, 1s}, Limit{1'000'000'000'000, 1'000'000'000'000, 1s}})
    for (const unsigned workers : {1U, 2U}) {
      const Config config = with_bucket(limit, burst, interval);
      const RulePlan plan(config, workers);
      const BucketTerms& bucket = plan.buckets[0];
      ASSERT_LE(plan.pools[0].terms().interval, 2 * interval);
      for (const Duration late : {35ms, 350ms, 3'500ms, 10'000ms})
        EXPECT_EQ(filled(bucket, 2 * bucket.capacity(), MonotonicTime(100s), -late), 0U)
            << limit << ", burst " << burst << ", " << late.count();
    }
}

// A process that is stopped, or a capture with a hole, turns one window in all that time.
TEST(RulePlan, ABucketThatNobodyHasLookedAtForDaysIsFullButForFewMoments) {
  std::mt19937_64 random(56);
  for (const Duration interval : {Duration(1s), Duration(1h)})
    for (const std::uint64_t limit :
         {9973UL, 33'347UL, 99'991UL, 100'003UL, 1'000'003UL, 200'000'003UL, 10'000'000'000UL}) {
      const Config config = with_bucket(limit, limit, interval);
      for (const unsigned workers : {1U, 2U}) {
        const RulePlan plan(config, workers);
        const BucketTerms& bucket = plan.buckets[0];
        int full = 0;
        for (int i = 0; i < 1000; ++i) {
          const MonotonicTime then(Duration(random() >> 3));
          const Duration least = 3 * plan.pools[0].terms().interval;
          const Duration age =
              least + Duration(random() % static_cast<std::uint64_t>(Duration(240h).count()));
          full += filled(bucket, bucket.capacity(), then, age) == 1000;
        }
        EXPECT_GE(full, 990) << limit << " in " << interval.count() << ", workers " << workers;
      }
    }
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
