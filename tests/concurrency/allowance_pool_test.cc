// SPDX-License-Identifier: BSD-3-Clause
// Threads that meet a new key in the same moment agree on one cell for it, also where cells run out, and
// where the pool is cleared under a thread that has stalled in it.
#include "shared/allowance_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "run_threads.h"

namespace weir {
namespace {

constexpr std::uint64_t limit = 20;

std::vector<std::uint64_t> some_keys(std::size_t count) {
  std::mt19937_64 random(seed());
  std::vector<std::uint64_t> keys(count);
  for (std::uint64_t& key : keys) key = random() | 1;
  return keys;
}

/// What each thread claimed of each key, all threads going through the keys side by side.
using Places = std::array<std::vector<AllowancePool::Place>, threads>;
Places claim_together(AllowancePool& pool, const std::vector<std::uint64_t>& keys) {
  Places places;
  std::barrier meet(threads);
  run_threads([&](unsigned index, std::mt19937_64&) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i % 8 == 0) meet.arrive_and_wait();
      places[index].push_back(pool.claim(keys[i], index));
    }
  });
  return places;
}

TEST(SharedPool, ThreadsThatMeetANewKeyAgreeOnOneCellAndNoCellIsLostByIt) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  constexpr std::uint32_t most = 4000;
  const std::vector<std::uint64_t> keys = some_keys(most);
  AllowancePool pool(2 * most, threads);  // where each finds a word, whatever the seed
  const Places places = claim_together(pool, keys);
  std::set<AllowanceCell*> cells;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_TRUE(places[0][i].own);
    for (unsigned index = 0; index < threads; ++index)
      ASSERT_EQ(places[index][i].cell, places[0][i].cell) << i;
    EXPECT_TRUE(cells.insert(places[0][i].cell).second) << "two keys have one cell";
    EXPECT_EQ(pool.find(keys[i]), places[0][i].cell);
  }
  // But for those that threads still have at hand.
  EXPECT_LE(pool.used(), most + threads * 64);
}

TEST(SharedPool, WhereCellsRunOutThreadsStillAgreeWhoHasOneAndAdmitNoMoreThanTheLimit) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  const std::vector<std::uint64_t> keys = some_keys(6000);
  AllowancePool pool(2000, threads);
  std::vector<std::atomic<std::uint64_t>> drawn(keys.size());
  std::vector<std::atomic<unsigned>> own(keys.size());
  std::barrier meet(threads);
  run_threads([&](unsigned index, std::mt19937_64&) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i % 8 == 0) meet.arrive_and_wait();
      const AllowancePool::Place place = pool.claim(keys[i], index);
      own[i] += place.own;
      for (unsigned again = 0; again < limit; ++again) drawn[i] += place.cell->draw(1, limit, threads);
    }
  });
  std::size_t with_none = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_TRUE(own[i] == 0 || own[i] == threads) << i;
    if (own[i] == 0)
      ++with_none;
    else
      ASSERT_EQ(drawn[i], limit) << i;
    ASSERT_LE(drawn[i], limit) << i;
  }
  EXPECT_GT(with_none, 1000U);
}

TEST(SharedPool, ThreadsInAPoolThatIsClearedUnderThemLeaveNoCellToTwoKeys) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  const std::vector<std::uint64_t> keys = some_keys(500);
  AllowancePool pool(1000, threads);  // as above
  std::atomic<unsigned> claiming{threads - 1};
  run_threads([&](unsigned index, std::mt19937_64& random) {
    if (index == 0) {
      while (claiming > 0) pool.clear();
      return;
    }
    for (int i = 0; i < 100'000; ++i) pool.claim(keys[random() % keys.size()], index);
    --claiming;
  });
  std::set<AllowanceCell*> cells;
  for (const std::uint64_t key : keys) {
    const AllowancePool::Place place = pool.claim(key, 1);
    ASSERT_TRUE(place.own);
    EXPECT_TRUE(cells.insert(place.cell).second);
  }
}

}  // namespace
}  // namespace weir
