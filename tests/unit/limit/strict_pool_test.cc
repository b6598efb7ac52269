// SPDX-License-Identifier: BSD-3-Clause
#include "limit/strict_pool.h"

#include <gtest/gtest.h>

#include <array>

#include "steps.h"

namespace weir::testing {
namespace {

using namespace std::chrono_literals;

StrictLease lease(std::uint64_t period, std::uint64_t grant, std::uint64_t quota, Duration until) {
  return {period, grant, quota, MonotonicTime(until)};
}

TEST(StrictPool, WithoutALeaseNothingIsAdmitted) {
  StrictPool pool;
  const Acquisition refused = pool.try_acquire(at(0s), 1);
  EXPECT_FALSE(refused.admitted);
  EXPECT_EQ(refused.retry_after, forever);
  EXPECT_EQ(pool.draw(MonotonicTime(0s), 1, 2).left, 0U);
  EXPECT_FALSE(StrictChunk{}.try_spend(MonotonicTime(0s), 0));
}

TEST(StrictPool, ALeaseIsAdmittedOnceAndEnds) {
  StrictPool pool;
  EXPECT_EQ(pool.fill(lease(1, 1, 5, 10s)), 5U);
  EXPECT_TRUE(pool.try_acquire(at(1s), 3).admitted);
  EXPECT_FALSE(pool.try_acquire(at(1s), 3).admitted);
  EXPECT_EQ(pool.try_acquire(at(1s), 3).retry_after, 9s);
  EXPECT_EQ(pool.try_acquire(at(1s), 0).remaining, 2U);
  EXPECT_FALSE(pool.try_acquire(at(10s), 1).admitted);
}

TEST(StrictPool, AGrantCountsOnceAndAnOldPeriodNotAtAll) {
  StrictPool pool;
  EXPECT_EQ(pool.fill(lease(3, 7, 5, 10s)), 5U);
  EXPECT_EQ(pool.fill(lease(3, 7, 5, 10s)), 0U) << "the same grant again";
  EXPECT_EQ(pool.fill(lease(3, 8, 5, 12s)), 5U);
  EXPECT_EQ(pool.fill(lease(2, 9, 5, 12s)), 0U) << "its period is over";
  EXPECT_EQ(pool.quota(), 10U);
  EXPECT_TRUE(pool.try_acquire(at(11s), 1).admitted) << "the later end holds";
  EXPECT_EQ(pool.fill(lease(4, 10, 2, 20s)), 2U);
  EXPECT_EQ(pool.quota(), 2U) << "what was left of the old period is worth nothing";
}

TEST(StrictPool, AChunkNotUsedComesBackIntoItsOwnPeriodOnly) {
  StrictPool pool;
  pool.fill(lease(1, 1, 100, 10s));
  StrictChunk chunk = pool.draw(MonotonicTime(0s), 1, 2);
  EXPECT_EQ(chunk.left, 25U);
  EXPECT_EQ(pool.quota(), 75U);
  EXPECT_TRUE(chunk.try_spend(MonotonicTime(0s), 20));
  EXPECT_EQ(pool.put_back(chunk), 5U);
  EXPECT_EQ(pool.put_back(chunk), 0U);
  EXPECT_EQ(pool.quota(), 80U);
  StrictChunk late = pool.draw(MonotonicTime(0s), 1, 2);
  pool.fill(lease(2, 2, 100, 20s));
  EXPECT_EQ(pool.put_back(late), 0U);
  EXPECT_EQ(pool.quota(), 100U);
}

TEST(StrictPool, ChunksShrinkWithWhatIsLeft) {
  StrictPool pool;
  pool.fill(lease(1, 1, 1000, 10s));
  std::uint64_t before = 1000;
  std::uint64_t sum = 0;
  for (StrictChunk chunk = pool.draw(MonotonicTime(0s), 1, 4); chunk.left > 0;
       chunk = pool.draw(MonotonicTime(0s), 1, 4)) {
    EXPECT_LE(chunk.left, before);
    before = chunk.left;
    sum += chunk.left;
  }
  EXPECT_EQ(sum, 1000U);
  EXPECT_EQ(before, 1U);
}

TEST(StrictPool, DrainLeavesNothing) {
  StrictPool pool;
  pool.fill(lease(1, 1, 10, 10s));
  EXPECT_EQ(pool.drain(), 10U);
  EXPECT_FALSE(pool.try_acquire(at(0s), 1).admitted);
}

TEST(StrictPool, AChargeBeyondTheQuotaIsToldInsteadOfOwed) {
  StrictPool pool;
  pool.fill(lease(1, 1, 10, 10s));
  EXPECT_EQ(pool.correct(at(0s), 1, 13), 3U);
  EXPECT_EQ(pool.quota(), 0U);
  EXPECT_EQ(pool.correct(at(0s), 1, -4), 0U);
  EXPECT_EQ(pool.quota(), 4U);
  EXPECT_EQ(pool.correct(at(10s), 1, 1), 1U);
}

TEST(StrictPool, WhatWasAdmittedInAPeriodThatIsOverDoesNotComeBack) {
  StrictPool pool;
  pool.fill(lease(1, 1, 10, 10s));
  EXPECT_TRUE(pool.try_acquire(at(0s), 10).admitted);
  pool.fill(lease(2, 2, 5, 20s));
  pool.give_back(at(11s), 1, 10);
  EXPECT_EQ(pool.quota(), 5U);
}

TEST(StrictPool, NeverAdmitsMoreThanWasLeasedInAPeriod) {
  for (std::uint64_t number = 0; number < 40; ++number) {
    Steps steps(9000 + number);
    StrictPool pool;
    std::array<StrictChunk, 4> cores;
    std::uint64_t period = 0;
    std::uint64_t grant = 0;
    std::uint64_t leased = 0;
    std::uint64_t admitted = 0;
    std::int64_t now = 0;
    for (int step = 0; step < 5000; ++step) {
      now += static_cast<std::int64_t>(steps.between(0, 10));
      StrictChunk& core = cores[steps.between(0, 3)];
      const std::uint64_t weight = steps.between(1, 5);
      switch (steps.between(0, 9)) {
        case 0:
          // A period begins with a grant of its own; within one a grant may arrive twice.
          if (period == 0 || steps.one_in(5)) {
            ++period;
            ++grant;
            leased = admitted = 0;
          } else if (steps.one_in(2)) {
            ++grant;
          }
          leased += pool.fill(lease(period, grant, steps.between(0, 50), Duration(now + 200)));
          break;
        case 1:
          leased -= steps.one_in(10) ? pool.drain() : 0;
          break;
        case 2:
          pool.put_back(core);
          break;
        case 3:
          if (core.left == 0) core = pool.draw(MonotonicTime(Duration(now)), weight, 4);
          break;
        case 4:
          if (pool.try_acquire(at(now), weight).admitted) admitted += weight;
          break;
        default:
          // A core that still holds a chunk of an earlier period spends that period's quota, not this one's.
          if (core.try_spend(MonotonicTime(Duration(now)), weight) && core.period == period)
            admitted += weight;
      }
      ASSERT_LE(admitted, leased) << "WEIR_TEST_SEED=" << seed() << ", walk " << number << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace weir::testing
