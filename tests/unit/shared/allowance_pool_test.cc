// SPDX-License-Identifier: BSD-3-Clause
#include "shared/allowance_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "base/pages.h"

namespace weir {
namespace {

TEST(Draw, NeverGivesMoreThanTheAllowance) {
  for (const unsigned workers : {1U, 2U, 16U})
    for (const std::uint64_t allowance : {0U, 1U, 7U, 100U, 100000U}) {
      AllowanceCell cell;
      std::uint64_t drawn = 0;
      while (const std::uint64_t chunk = cell.draw(1, allowance, workers)) drawn += chunk;
      EXPECT_EQ(drawn, allowance) << workers << " workers";
    }
}

TEST(Draw, SmallAllowancesAreDrawnOneByOne) {
  AllowanceCell cell;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(cell.draw(1, 20, 8), 1U);
  EXPECT_EQ(cell.draw(1, 20, 8), 0U);
}

TEST(Draw, IsRareWhereTheAllowanceIsLarge) {
  AllowanceCell cell;
  int draws = 0;
  while (cell.draw(1, 1'000'000, 4) > 0) ++draws;
  EXPECT_LT(draws, 2000);
}

TEST(Draw, WhatIdleWorkersHoldIsAtMostA64thOfTheAllowance) {
  constexpr std::uint64_t allowance = 100'000;
  constexpr unsigned workers = 8;
  AllowanceCell cell;
  std::uint64_t idle = 0;
  for (unsigned i = 1; i < workers; ++i) idle += cell.draw(1, allowance, workers);
  EXPECT_LE(idle, allowance / 64);
}

TEST(Draw, AHeavyRequestIsAllOrNothing) {
  AllowanceCell cell;
  EXPECT_EQ(cell.draw(8, 10, 1), 8U);
  EXPECT_EQ(cell.draw(3, 10, 1), 0U);
  EXPECT_EQ(cell.draw(2, 10, 1), 2U);
}

TEST(Draw, WhatIsGivenBackCanBeDrawnAgain) {
  AllowanceCell cell;
  EXPECT_EQ(cell.draw(10, 10, 1), 10U);
  cell.give_back(4);
  EXPECT_EQ(cell.draw(4, 10, 1), 4U);
  EXPECT_EQ(cell.draw(1, 10, 1), 0U);
}

TEST(Draw, AnAllowanceLoweredBelowWhatIsDrawnGivesNothing) {
  AllowanceCell cell;
  EXPECT_EQ(cell.draw(10, 20, 1), 10U);
  EXPECT_EQ(cell.draw(1, 5, 1), 0U);
}

TEST(Pool, AKeyKeepsItsCell) {
  AllowancePool pool(64, 1);
  AllowanceCell* cell = pool.claim(42, 0).cell;
  EXPECT_EQ(pool.claim(42, 0).cell, cell);
  EXPECT_EQ(pool.find(42), cell);
  EXPECT_EQ(pool.find(43), nullptr);
}

TEST(Pool, AtFirstLookAKeyHasTheCellItClaimedAndNoOthers) {
  std::mt19937_64 random(9);
  AllowancePool pool(1000, 1);
  EXPECT_EQ(pool.at_first_look(42), nullptr);
  EXPECT_EQ(pool.used(), 0U) << "to look is not to claim";
  AllowanceCell* const cell = pool.claim(42, 0).cell;
  EXPECT_EQ(pool.at_first_look(42), cell);
  EXPECT_EQ(pool.at_first_look(43), nullptr);
  std::size_t shared = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::uint64_t key = random() | 1;
    if (pool.claim(key, 0).own) continue;
    ++shared;
    EXPECT_EQ(pool.at_first_look(key), nullptr);
  }
  EXPECT_GT(shared, 0U);
  pool.clear();
  EXPECT_EQ(pool.at_first_look(42), nullptr);
}

TEST(Pool, DifferentKeysHaveDifferentCells) {
  std::mt19937_64 random(1);
  AllowancePool pool(1000, 1);
  std::set<AllowanceCell*> cells;
  for (int i = 0; i < 1000; ++i) {
    const auto place = pool.claim(random() | 1, 0);
    ASSERT_TRUE(place.own);
    EXPECT_TRUE(cells.insert(place.cell).second);
  }
}

TEST(Pool, OfAsManyKeysAsItWasMadeForNearlyAllHaveACellOfTheirOwn) {
  std::mt19937_64 random(4);
  constexpr std::uint32_t keys = 200'000;
  AllowancePool pool(keys, 1);
  std::uint32_t shared = 0;
  for (std::uint32_t i = 0; i < keys; ++i) shared += !pool.claim(random() | 1, 0).own;
  EXPECT_LE(shared, keys / 10'000);
  EXPECT_TRUE(pool.crowded());
  EXPECT_LE(pool.memory(), (std::size_t{keys} * 9 / 4 + 200) * sizeof(AllowanceCell) + keys / 8);
}

TEST(Pool, WhenFullNewKeysShareCellsAndOldOnesKeepTheirs) {
  std::mt19937_64 random(2);
  AllowancePool pool(64, 1);
  AllowanceCell* first = pool.claim(1, 0).cell;
  bool shared = false;
  for (int i = 0; i < 10'000; ++i) shared |= !pool.claim(random() | 1, 0).own;
  EXPECT_TRUE(shared);
  EXPECT_EQ(pool.claim(1, 0).cell, first);
  EXPECT_TRUE(pool.claim(1, 0).own);
}

// Where the one that draws there and the one that has a cell at hand are not the same worker.
TEST(Pool, AKeyThatHasDrawnFromASharedCellNeverGetsOneOfItsOwn) {
  std::mt19937_64 random(5);
  AllowancePool pool(1000, 2);
  ASSERT_TRUE(pool.claim(random() | 1, 1).own);
  int shared = 0;
  for (int i = 0; i < 1900; ++i) {
    const std::uint64_t key = random() | 1;
    const AllowancePool::Place first = pool.claim(key, 0);
    const AllowancePool::Place second = pool.claim(key, 1);
    EXPECT_EQ(second.cell, first.cell);
    EXPECT_EQ(second.own, first.own);
    EXPECT_EQ(pool.find(key), first.own ? first.cell : nullptr);
    shared += !first.own;
  }
  EXPECT_GT(shared, 100);
  bool had_some = false;
  for (int i = 0; i < 20; ++i) had_some |= pool.claim(random() | 1, 1).own;
  EXPECT_TRUE(had_some);
}

TEST(Pool, ItsCellsTakeMemoryAsKeysCome) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  std::mt19937_64 random(6);
  constexpr std::uint32_t keys = 100'000;
  AllowancePool pool(keys, 1);
  pool.begin();
  // Words, and the sketch.
  const std::size_t empty = pool.memory();
  EXPECT_LE(empty, keys * (16 + 8) + 0x40000U);
  for (std::uint32_t i = 0; i < keys; ++i) {
    pool.claim(random() | 1, 0);
    if (i % 10'000 == 0) pool.provide(0);
  }
  pool.provide(0);
  EXPECT_GE(pool.memory(), empty + (keys - 4096) * sizeof(AllowanceCell));
  EXPECT_LE(pool.memory(), empty + (keys + 4096) * sizeof(AllowanceCell) + (2U << 20));
}

TEST(Pool, ProvidesForAsManyKeysAsAreExpected) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  AllowancePool pool(100'000, 1);
  pool.begin();
  const std::size_t empty = pool.memory();
  pool.provide(50'000);
  EXPECT_GE(pool.memory(), empty + (50'000 - 4096) * sizeof(AllowanceCell));
}

TEST(Pool, CellsThatAWorkerHadAtHandWhenItWasClearedAreOthersToGive) {
  std::mt19937_64 random(7);
  AllowancePool pool(1000, 2);
  pool.claim(random() | 1, 0);
  pool.clear();
  std::set<AllowanceCell*> cells;
  for (int i = 0; i < 200; ++i) {
    const AllowancePool::Place place = pool.claim(random() | 1, i % 2 == 0 ? 1 : 0);
    ASSERT_TRUE(place.own);
    EXPECT_TRUE(cells.insert(place.cell).second) << i;
  }
}

TEST(Pool, WhatAStalledWorkerLeavesInAClearedCellIsGoneAfterTheNextTurn) {
  AllowancePool pool(1000, 2);
  std::mt19937_64 random(8);
  AllowanceCell* stalled_at = nullptr;
  for (int i = 0; i < 900; ++i) stalled_at = pool.claim(random(), 0).cell;
  pool.clear();
  stalled_at->drawn.store(7, std::memory_order_relaxed);
  // Its like is not used in the turns to come.
  for (int i = 0; i < 100; ++i) pool.claim(random(), 0);
  pool.clear();
  for (int i = 0; i < 950; ++i) {
    const AllowancePool::Place place = pool.claim(random(), 0);
    ASSERT_EQ(place.cell->drawn.load(std::memory_order_relaxed), 0U) << i;
  }
}

TEST(Pool, TellsWhetherACellIsStillTheKeys) {
  std::mt19937_64 random(8);
  AllowancePool pool(64, 1);
  AllowancePool other(64, 1);
  AllowanceCell* cell = pool.claim(42, 0).cell;
  EXPECT_TRUE(pool.is_own_cell(cell, 42));
  EXPECT_FALSE(pool.is_own_cell(cell, 43));
  EXPECT_FALSE(pool.is_own_cell(other.claim(42, 0).cell, 42));
  // Nor one that it shares.
  std::uint64_t key = 0;
  AllowancePool::Place place{nullptr, true};
  while (place.own) place = pool.claim(key = random() | 1, 0);
  EXPECT_FALSE(pool.is_own_cell(place.cell, key));
  pool.clear();
  EXPECT_FALSE(pool.is_own_cell(cell, 42));
}

TEST(Pool, ForeseesWhichCellAKeyWouldBeDrawnFrom) {
  std::mt19937_64 random(9);
  AllowancePool pool(1000, 2);
  int own = 0;
  int shared = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t key = random() | 1;
    const auto by = static_cast<unsigned>(random() % 2);
    const AllowanceCell* const foreseen = pool.foresee(key, by);
    const AllowancePool::Place claimed = pool.claim(key, by);
    EXPECT_EQ(foreseen, claimed.own ? nullptr : claimed.cell);
    EXPECT_EQ(pool.foresee(key, 1 - by), claimed.cell);
    (claimed.own ? own : shared) += 1;
  }
  EXPECT_GT(own, 1000);
  EXPECT_GT(shared, 1000);
}

TEST(Pool, TellsOfNearlyAllKeysWithoutALookThatNobodyHasRefusedThem) {
  AllowancePool pool(6400, 1);
  std::mt19937_64 random(3);
  std::vector<std::uint64_t> refused;
  for (int i = 0; i < 640; ++i) pool.note_refusal(refused.emplace_back(random()));
  for (const std::uint64_t key : refused) EXPECT_TRUE(pool.may_be_refused(key));
  int taken_for_one = 0;
  for (int i = 0; i < 10'000; ++i) taken_for_one += pool.may_be_refused(random());
  EXPECT_LT(taken_for_one, 1'200);
  pool.clear();
  for (const std::uint64_t key : refused) EXPECT_FALSE(pool.may_be_refused(key));
}

TEST(Pool, ClearForgetsEverything) {
  AllowancePool pool(64, 1);
  AllowanceCell* cell = pool.claim(42, 0).cell;
  cell->draw(5, 10, 1);
  cell->refused_at.store(17);
  pool.clear();
  EXPECT_EQ(pool.find(42), nullptr);
  EXPECT_EQ(cell->drawn.load(), 0U);
  EXPECT_EQ(cell->refused_at.load(), AllowanceCell::no_refusal);
}

}  // namespace
}  // namespace weir
