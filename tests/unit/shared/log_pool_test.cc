// SPDX-License-Identifier: BSD-3-Clause
#include "shared/log_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "shared/log_cell.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr MonotonicTime start{100s};
constexpr std::uint64_t limit = 3;

/// A key's hash whose home no other one here shares.
constexpr std::uint64_t key_of(std::uint64_t number) { return (number + 1) << 24; }

std::vector<std::uint32_t> all_of(LogPool& logs, bool needed) {
  std::vector<std::uint32_t> taken;
  for (std::uint32_t log; (log = logs.take(needed)) != LogPool::none;) taken.push_back(log);
  return taken;
}

TEST(LogPool, HasALogForAsManyKeysAsItIsMadeForAndSomeForWhoNeedsOne) {
  LogPool logs(limit, 1s, 80);
  const std::vector<std::uint32_t> plenty = all_of(logs, false);
  EXPECT_EQ(plenty.size(), 80U);
  const std::vector<std::uint32_t> kept = all_of(logs, true);
  EXPECT_GE(kept.size(), 10U);
  std::set<std::uint32_t> all(plenty.begin(), plenty.end());
  all.insert(kept.begin(), kept.end());
  EXPECT_EQ(all.size(), logs.logs());
  EXPECT_EQ(all.size(), plenty.size() + kept.size());
}

TEST(LogPool, WhatABucketAdmitsInAnyWindowIsTheLimitAtMostAndHalfOfItLastingly) {
  for (const std::uint64_t of : {1, 2, 3, 4, 5, 100, 101, 1000, 4096}) {
    SCOPED_TRACE(of);
    const LogPool logs(of, 1s, 1);
    const BucketTerms& bucket = logs.bucket();
    // A full bucket, and what comes until just before the window has passed.
    const std::uint64_t generated = bucket.generated(start + 1s - 1ns) - bucket.generated(start);
    EXPECT_EQ(bucket.tokens(bucket.capacity() + generated), of);
    EXPECT_GE(2 * bucket.tokens(bucket.generated(start + 1s) - bucket.generated(start)), of);
    EXPECT_LE(bucket.fills_in(), 1s);
  }
}

TEST(LogPool, WhatABucketAdmitsOfHeavyRequestsIsTheLimitAtMostToo) {
  for (const std::uint64_t of : {7, 10, 13, 20, 21, 100}) {
    for (const std::uint64_t weight : {0, 1, 3, 6, 7}) {
      SCOPED_TRACE(std::to_string(of) + " by " + std::to_string(weight));
      const LogPool logs(of, 1s, 1, weight);
      const BucketTerms& bucket = logs.bucket();
      const std::uint64_t generated = bucket.generated(start + 1s - 1ns) - bucket.generated(start);
      const std::uint64_t each = std::max<std::uint64_t>(weight, 1);
      EXPECT_EQ(bucket.tokens(bucket.capacity() + generated) / each, of / each);
      EXPECT_LE(bucket.fills_in(), 1s);
    }
  }
}

/// Three pools in turn, as the controller holds them.
struct Pools {
  AllowancePool cleared{64, 1};
  AllowancePool ended{64, 1};
  AllowancePool running{64, 1};
  std::uint32_t spare = LogPool::none;

  /// @return the key's log, or LogPool::none
  std::uint32_t use(LogPool& logs, AllowancePool& pool, std::uint64_t number,
                    AllowancePool* before = nullptr) {
    AllowanceCell& cell = *pool.claim(key_of(number), 0).cell;
    const AllowancePool::Place earlier =
        before != nullptr ? before->claim(key_of(number), 0) : AllowancePool::Place{nullptr, false};
    LogCell(cell, logs).take_over(true, earlier, spare, start);
    const LogName name(cell.log.load());
    return name.has_log() ? name.log() : LogPool::none;
  }
};

TEST(LogPool, LogsOfKeysIdleForAWholeWindowAreFreeAgain) {
  LogPool logs(limit, 1s, 3);
  Pools pools;
  std::set<std::uint32_t> first;
  for (std::uint64_t i = 0; i < 3; ++i) first.insert(pools.use(logs, pools.cleared, i));
  EXPECT_EQ(pools.use(logs, pools.running, 9), LogPool::none);
  logs.free_idle(pools.cleared, pools.running, pools.ended, start);
  pools.cleared.clear();
  std::set<std::uint32_t> second;
  for (std::uint64_t i = 10; i < 13; ++i) second.insert(pools.use(logs, pools.running, i));
  EXPECT_EQ(first.size(), 3U);
  EXPECT_EQ(second.size(), 3U);
  EXPECT_FALSE(second.contains(LogPool::none));
  EXPECT_EQ(pools.use(logs, pools.running, 13), LogPool::none);
}

TEST(LogPool, ALogThatANewerPoolNamesIsKept) {
  LogPool logs(limit, 1s, 3);
  Pools pools;
  std::vector<std::uint32_t> used;
  for (std::uint64_t i = 0; i < 3; ++i) used.push_back(pools.use(logs, pools.cleared, i));
  EXPECT_EQ(pools.use(logs, pools.ended, 0, &pools.cleared), used[0]);
  pools.use(logs, pools.ended, 1, &pools.cleared);
  EXPECT_EQ(pools.use(logs, pools.running, 1, &pools.ended), used[1]);
  logs.free_idle(pools.cleared, pools.running, pools.ended, start);
  pools.cleared.clear();
  const std::uint32_t freed = pools.use(logs, pools.running, 20);
  EXPECT_NE(freed, LogPool::none);
  EXPECT_NE(freed, used[0]);
  EXPECT_NE(freed, used[1]);
  EXPECT_EQ(pools.use(logs, pools.running, 21), LogPool::none);
}

// By who had no cell of his own in the window after that of the cell that names it.
TEST(LogPool, ALogThatIsWrittenToAllTheSameIsFreeWhenNothingInItCounts) {
  LogPool logs(limit, 1s, 1);  // two
  ASSERT_NE(logs.take(true), LogPool::none);
  Pools pools;
  const std::uint32_t used = pools.use(logs, pools.cleared, 0);
  ASSERT_EQ(used, LogPool::none) << "the last one is for who needs it";
  AllowanceCell& cell = *pools.cleared.claim(key_of(0), 0).cell;
  LogCell(cell, logs).ask_for_log(pools.spare);
  const std::uint32_t log = LogName(cell.log.load()).log();
  EXPECT_TRUE(logs.log(log).try_acquire(start, 1));
  const auto is_free = [&](MonotonicTime now) {
    logs.free_idle(pools.cleared, pools.running, pools.ended, now);
    pools.cleared.clear();
    return logs.take(true) != LogPool::none;
  };
  EXPECT_FALSE(is_free(start + 1s - 1ns));
  EXPECT_TRUE(is_free(start + 1s));
  EXPECT_FALSE(is_free(start + 2s)) << "once";
}

TEST(LogPool, GoesRoundAndRoundWithoutLosingALog) {
  LogPool logs(limit, 1s, 7);
  Pools pools;
  for (std::uint64_t window = 0; window < 100; ++window) {
    std::set<std::uint32_t> used;
    for (std::uint64_t i = 0; i < 7; ++i) used.insert(pools.use(logs, pools.cleared, window * 7 + i));
    ASSERT_EQ(used.size(), 7U) << "window " << window;
    ASSERT_FALSE(used.contains(LogPool::none)) << "window " << window;
    logs.free_idle(pools.cleared, pools.running, pools.ended, start);
    pools.cleared.clear();
  }
}

TEST(LogPool, ItsMemoryIsBoundedHoweverManyKeysAndHoweverLargeTheLimit) {
  const LogPool logs(max_sliding_log_limit, 1s, 1U << 20);
  EXPECT_LE(logs.memory(), LogPool::max_bytes + (std::size_t{1} << 20));
  EXPECT_GE(logs.logs(), 1U);
}

}  // namespace
}  // namespace weir
