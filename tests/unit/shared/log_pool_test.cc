// SPDX-License-Identifier: BSD-3-Clause
#include "shared/log_pool.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr MonotonicTime start{100s};
constexpr std::uint64_t limit = 3;

/// A key's hash whose home no other one here shares.
constexpr std::uint64_t key_of(std::uint64_t number) { return (number + 1) << 24; }

int admitted_of(LogPool::Log log, int requests, MonotonicTime now) {
  int admitted = 0;
  for (int i = 0; i < requests; ++i) admitted += log.try_acquire(now, 1);
  return admitted;
}

TEST(LogPool, EveryKeyHasALogOfItsOwn) {
  LogPool logs(limit, 1s, 8);
  std::uint32_t spare = 0;
  std::set<std::uint32_t> used;
  std::vector<AllowanceCell> cells(7);
  for (AllowanceCell& cell : cells) {
    logs.take_over(cell, nullptr, spare);
    used.insert(cell.log.load());
    EXPECT_EQ(admitted_of(logs.log(cell), 9, start), 3);
  }
  EXPECT_EQ(used.size(), 7U);
  EXPECT_FALSE(used.contains(0));
}

TEST(LogPool, AKeysLogGoesOnInTheNextPool) {
  LogPool logs(limit, 1s, 8);
  std::uint32_t spare = 0;
  AllowanceCell old;
  AllowanceCell next;
  logs.take_over(old, nullptr, spare);
  EXPECT_EQ(admitted_of(logs.log(old), 2, start), 2);
  logs.take_over(next, &old, spare);
  EXPECT_EQ(next.log.load(), old.log.load());
  EXPECT_EQ(admitted_of(logs.log(next), 9, start + 999ms), 1);
  EXPECT_EQ(admitted_of(logs.log(next), 9, start + 1s), 2);
}

TEST(LogPool, AKeyMetFirstInTheNewPoolHasTheSameLogForWorkersStillInTheOldOne) {
  LogPool logs(limit, 1s, 8);
  std::uint32_t ahead = 0;
  std::uint32_t behind = 0;
  AllowanceCell old;
  AllowanceCell next;
  logs.take_over(next, &old, ahead);
  logs.take_over(old, nullptr, behind);
  EXPECT_EQ(next.log.load(), old.log.load());
}

TEST(LogPool, ALogTakenInVainServesTheWorkersNextKey) {
  LogPool logs(limit, 1s, 4);  // three, and the shared one
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  std::vector<AllowanceCell> cells(3);
  logs.take_over(cells[0], nullptr, first);
  logs.take_over(cells[0], nullptr, second);  // it met the key in the same moment
  EXPECT_NE(second, 0U);
  logs.take_over(cells[1], nullptr, second);
  EXPECT_EQ(second, 0U);
  logs.take_over(cells[2], nullptr, first);
  const std::set<std::uint32_t> used{cells[0].log.load(), cells[1].log.load(), cells[2].log.load()};
  EXPECT_EQ(used.size(), 3U);
  EXPECT_FALSE(used.contains(logs.logs()));
}

TEST(LogPool, WhereNoLogIsFreeKeysShareTheLastAndAreRefusedEarly) {
  LogPool logs(limit, 1s, 4);
  std::uint32_t spare = 0;
  std::vector<AllowanceCell> cells(6);
  for (AllowanceCell& cell : cells) logs.take_over(cell, nullptr, spare);
  for (int i = 3; i < 6; ++i) EXPECT_EQ(cells[i].log.load(), logs.logs());
  EXPECT_EQ(admitted_of(logs.log(cells[0]), 9, start), 3);
  int shared = 0;
  for (int i = 3; i < 6; ++i) shared += admitted_of(logs.log(cells[i]), 9, start);
  EXPECT_EQ(shared, 3);
  EXPECT_EQ(spare, 0U);
}

/// Three pools in turn, as the controller holds them.
struct Pools {
  AllowancePool cleared{64, 1};
  AllowancePool ended{64, 1};
  AllowancePool running{64, 1};
  std::uint32_t spare = 0;

  std::uint32_t use(LogPool& logs, AllowancePool& pool, std::uint64_t number,
                    AllowancePool* before = nullptr) {
    AllowanceCell& cell = *pool.claim(key_of(number), 0).cell;
    logs.take_over(cell, before != nullptr ? before->claim(key_of(number), 0).cell : nullptr, spare);
    return cell.log.load();
  }
};

TEST(LogPool, LogsOfKeysIdleForAWholeWindowAreFreeAgain) {
  LogPool logs(limit, 1s, 4);
  Pools pools;
  std::set<std::uint32_t> first;
  for (std::uint64_t i = 0; i < 3; ++i) first.insert(pools.use(logs, pools.cleared, i));
  logs.free_idle(pools.cleared, pools.running, pools.ended);
  pools.cleared.clear();
  std::set<std::uint32_t> second;
  for (std::uint64_t i = 10; i < 13; ++i) second.insert(pools.use(logs, pools.running, i));
  EXPECT_EQ(first, second);
  EXPECT_EQ(pools.use(logs, pools.running, 13), logs.logs());
}

TEST(LogPool, ALogThatANewerPoolNamesIsKept) {
  LogPool logs(limit, 1s, 4);
  Pools pools;
  std::vector<std::uint32_t> used;
  for (std::uint64_t i = 0; i < 3; ++i) used.push_back(pools.use(logs, pools.cleared, i));
  EXPECT_EQ(pools.use(logs, pools.ended, 0, &pools.cleared), used[0]);
  pools.use(logs, pools.ended, 1, &pools.cleared);
  EXPECT_EQ(pools.use(logs, pools.running, 1, &pools.ended), used[1]);
  logs.free_idle(pools.cleared, pools.running, pools.ended);
  pools.cleared.clear();
  EXPECT_EQ(pools.use(logs, pools.running, 20), used[2]);
  EXPECT_EQ(pools.use(logs, pools.running, 21), logs.logs());
}

TEST(LogPool, TheSharedLogIsNeverFreed) {
  LogPool logs(limit, 1s, 4);
  Pools pools;
  for (std::uint64_t i = 0; i < 5; ++i) pools.use(logs, pools.cleared, i);
  logs.free_idle(pools.cleared, pools.running, pools.ended);
  pools.cleared.clear();
  std::set<std::uint32_t> own;
  for (std::uint64_t i = 10; i < 13; ++i) own.insert(pools.use(logs, pools.running, i));
  EXPECT_EQ(own.size(), 3U);
  EXPECT_FALSE(own.contains(logs.logs()));
}

TEST(LogPool, GoesRoundAndRoundWithoutLosingALog) {
  LogPool logs(limit, 1s, 8);
  Pools pools;
  for (std::uint64_t window = 0; window < 100; ++window) {
    std::set<std::uint32_t> used;
    for (std::uint64_t i = 0; i < 7; ++i) used.insert(pools.use(logs, pools.cleared, window * 7 + i));
    ASSERT_EQ(used.size(), 7U) << "window " << window;
    ASSERT_FALSE(used.contains(logs.logs())) << "window " << window;
    logs.free_idle(pools.cleared, pools.running, pools.ended);
    pools.cleared.clear();
  }
}

TEST(LogPool, WhatIsGivenBackCanBeAdmittedAgain) {
  LogPool logs(limit, 1s, 4);
  std::uint32_t spare = 0;
  AllowanceCell cell;
  logs.take_over(cell, nullptr, spare);
  LogPool::Log log = logs.log(cell);
  EXPECT_TRUE(log.try_acquire(start, 3));
  EXPECT_EQ(log.retry_after(start, 2), Duration(1s));
  log.give_back(start, 2);
  EXPECT_EQ(log.look(start).remaining, 2U);
  EXPECT_EQ(admitted_of(log, 9, start), 2);
}

TEST(LogPool, AWeightOfZeroPassesAndLeavesNoTrace) {
  LogPool logs(limit, 1s, 4);
  std::uint32_t spare = 0;
  AllowanceCell cell;
  logs.take_over(cell, nullptr, spare);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(logs.log(cell).try_acquire(start, 0));
  EXPECT_EQ(logs.log(cell).look(start).remaining, limit);
}

TEST(LogPool, ItsMemoryIsBoundedHoweverManyKeysAndHoweverLargeTheLimit) {
  const LogPool logs(max_sliding_log_limit, 1s, 1U << 20);
  EXPECT_LE(logs.memory(), LogPool::max_bytes + (std::size_t{1} << 20));
  EXPECT_GE(logs.logs(), 2U);
}

}  // namespace
}  // namespace weir
