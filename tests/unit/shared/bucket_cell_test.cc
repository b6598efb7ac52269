// SPDX-License-Identifier: BSD-3-Clause
#include "shared/bucket_cell.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr MonotonicTime start{100s};
constexpr std::uint64_t key = 0x9ae16a3b2f90404f;
constexpr BucketTerms ten_a_second(10, 1s, 10);

/// A cell and its bucket.
struct Cell {
  AllowanceCell cell;
  BucketCell bucket{cell};

  std::uint64_t tokens(MonotonicTime now) const {
    return ten_a_second.tokens(bucket.available(ten_a_second, now));
  }
  BucketCell::Draw draw(std::uint64_t need, MonotonicTime now = start, TokenPrice price = full_price,
                        std::uint64_t more = 0) {
    return bucket.draw(key, need, more, price, ten_a_second, now);
  }
};

TEST(BucketCell, ABucketNeverTouchedIsFull) {
  Cell cell;
  EXPECT_FALSE(cell.bucket.begun());
  EXPECT_FALSE(cell.bucket.is_here());
  EXPECT_EQ(cell.tokens(start), 10U);
  cell.bucket.take_over(nullptr, ten_a_second, start);
  EXPECT_TRUE(cell.bucket.begun());
  EXPECT_EQ(cell.tokens(start), 10U);
}

// Its pool has been cleared under a worker that stalled, and the cell is another key's, who brings his level.
TEST(BucketCell, NothingIsDrawnWhereNobodyHasBegunABucket) {
  Cell cell;
  const BucketCell::Draw drawn = cell.draw(1);
  EXPECT_EQ(drawn.taken, 0U);
  EXPECT_TRUE(drawn.closed);
  Cell ended;
  ended.bucket.take_over(nullptr, ten_a_second, start);
  EXPECT_EQ(ended.draw(10).taken, 10U);
  cell.bucket.take_over(&ended.cell, ten_a_second, start);
  EXPECT_EQ(cell.tokens(start), 0U);
}

TEST(BucketCell, BeginsWithWhatAnotherOneHasWhereItWasNotBegunButInNoDebt) {
  for (const std::uint64_t owed : {0U, 5U}) {
    Cell beside;
    beside.bucket.take_over(nullptr, ten_a_second, start);
    EXPECT_EQ(beside.draw(8).taken, 8U);
    if (owed > 0) beside.bucket.charge(2 + owed, ten_a_second, start);
    Cell ended;
    Cell cell;
    cell.bucket.take_over(&ended.cell, ten_a_second, start, &beside.cell);
    EXPECT_EQ(cell.tokens(start), owed > 0 ? 0U : 2U);
    EXPECT_EQ(cell.tokens(start + 100ms), owed > 0 ? 1U : 3U);
    EXPECT_TRUE(beside.bucket.is_here());
    Cell begun;
    begun.bucket.take_over(nullptr, ten_a_second, start);
    Cell after;
    after.bucket.take_over(&begun.cell, ten_a_second, start, &beside.cell);
    EXPECT_EQ(after.tokens(start), 10U);
  }
}

// Of which a token is worth no whole number of units, so that these are as small as can be, and numbers wrap.
TEST(BucketCell, IsFullHoweverLongItWasNotLookedAtForUpToFiveFillings) {
  constexpr BucketTerms terms((std::uint64_t{1} << 31) - 1, 1s, (std::uint64_t{1} << 31) - 1);
  const Duration filling = terms.fills_in();
  EXPECT_GT(terms.capacity(), std::uint64_t{1} << 60);
  for (const std::uint64_t taken : {std::uint64_t{1}, terms.burst()}) {
    for (int tenths = 10; tenths < 50; ++tenths) {
      Cell cell;
      cell.bucket.take_over(nullptr, terms, start);
      EXPECT_EQ(cell.bucket.draw(key, taken, 0, full_price, terms, start).taken, taken);
      EXPECT_EQ(cell.bucket.available(terms, start + filling * tenths / 10), terms.capacity()) << tenths;
    }
  }
}

// Who looks at it may have read his clock before somebody else did.
TEST(BucketCell, InTheDeepestDebtIsEmptyToAClockThatIsBehind) {
  for (const BucketTerms& terms :
       {ten_a_second, BucketTerms((std::uint64_t{1} << 31) - 1, 1s, 1'000'000'007)}) {
    Cell cell;
    cell.bucket.take_over(nullptr, terms, start);
    EXPECT_EQ(cell.bucket.draw(key, terms.burst(), 0, full_price, terms, start).taken, terms.burst());
    cell.bucket.charge(terms.burst(), terms, start);
    EXPECT_EQ(cell.bucket.available(terms, start - terms.fills_in() / 2), 0U);
  }
}

TEST(BucketCell, GivesWhatItHoldsAndThenItsRate) {
  Cell cell;
  cell.bucket.take_over(nullptr, ten_a_second, start);
  EXPECT_EQ(cell.draw(7).taken, 7U);
  const BucketCell::Draw refused = cell.draw(4);
  EXPECT_EQ(refused.taken, 0U);
  EXPECT_FALSE(refused.closed);
  EXPECT_EQ(ten_a_second.tokens(refused.available), 3U);
  EXPECT_EQ(cell.draw(4, start + 100ms).taken, 4U);
  EXPECT_EQ(cell.draw(1, start + 199ms).taken, 0U);
  EXPECT_EQ(cell.draw(1, start + 200ms).taken, 1U);
}

TEST(BucketCell, NeverHoldsMoreThanItsCapacity) {
  Cell cell;
  cell.bucket.take_over(nullptr, ten_a_second, start);
  cell.draw(10);
  EXPECT_EQ(cell.tokens(start + 1h), 10U);
  EXPECT_EQ(cell.draw(10, start + 1h).taken, 10U);
  EXPECT_EQ(cell.draw(1, start + 1h).taken, 0U);
}

TEST(BucketCell, AClockThatIsBehindFindsLessNotMore) {
  Cell cell;
  cell.bucket.take_over(nullptr, ten_a_second, start);
  EXPECT_EQ(cell.draw(10, start + 500ms).taken, 10U);
  EXPECT_EQ(cell.draw(1, start).taken, 0U);
  EXPECT_EQ(cell.draw(1, start + 599ms).taken, 0U);
  EXPECT_EQ(cell.draw(1, start + 600ms).taken, 1U);
}

TEST(BucketCell, ItsLevelMovesToTheNextPoolAndTheOldCellIsClosed) {
  Cell old;
  old.bucket.take_over(nullptr, ten_a_second, start);
  old.draw(6);
  Cell next;
  next.bucket.take_over(&old.cell, ten_a_second, start);
  EXPECT_EQ(next.tokens(start), 4U);
  const BucketCell::Draw late = old.draw(1);
  EXPECT_EQ(late.taken, 0U);
  EXPECT_TRUE(late.closed);
  EXPECT_EQ(next.draw(4).taken, 4U);
}

TEST(BucketCell, SaysWhetherWhatIsGivenBackHasComeBeforeItMovedOn) {
  Cell old;
  old.bucket.take_over(nullptr, ten_a_second, start);
  old.draw(6);
  EXPECT_TRUE(old.bucket.give_back(2, full_price, ten_a_second));
  Cell next;
  next.bucket.take_over(&old.cell, ten_a_second, start);
  EXPECT_EQ(next.tokens(start), 6U);
  EXPECT_FALSE(old.bucket.give_back(2, full_price, ten_a_second));
  EXPECT_EQ(next.tokens(start), 6U);
}

TEST(BucketCell, WhatItGainedMeanwhileMovesWithIt) {
  Cell old;
  old.bucket.take_over(nullptr, ten_a_second, start);
  old.draw(10);
  Cell next;
  next.bucket.take_over(&old.cell, ten_a_second, start + 300ms);
  EXPECT_TRUE(next.bucket.is_here());
  EXPECT_FALSE(old.bucket.is_here()) << "it has moved on";
  EXPECT_EQ(next.tokens(start + 300ms), 3U);
}

TEST(BucketCell, MovesOnceHoweverManyWorkersMeetIt) {
  Cell old;
  old.bucket.take_over(nullptr, ten_a_second, start);
  old.draw(6);
  Cell next;
  next.bucket.take_over(&old.cell, ten_a_second, start);
  EXPECT_EQ(next.draw(3).taken, 3U);
  for (int worker = 0; worker < 3; ++worker) next.bucket.take_over(&old.cell, ten_a_second, start);
  EXPECT_EQ(next.tokens(start), 1U);
}

TEST(BucketCell, AKeyTheOldPoolDoesNotKnowIsClosedThereToo) {
  Cell old;
  Cell next;
  next.bucket.take_over(&old.cell, ten_a_second, start);
  EXPECT_EQ(next.draw(10).taken, 10U);
  // A worker still in the old window, at its first touch of the key.
  old.bucket.take_over(nullptr, ten_a_second, start);
  EXPECT_FALSE(old.bucket.begun());
  EXPECT_TRUE(old.draw(1).closed);
}

TEST(BucketCell, AtAPriceATokenCostsSoMany) {
  Cell cell;
  cell.bucket.take_over(nullptr, ten_a_second, start);
  EXPECT_EQ(cell.draw(1, start, 4 * full_price).taken, 1U);
  EXPECT_EQ(cell.draw(1, start, 4 * full_price).taken, 1U);
  EXPECT_EQ(cell.draw(1, start, 4 * full_price).taken, 0U);
  EXPECT_EQ(cell.tokens(start), 2U);
  EXPECT_EQ(cell.draw(1, start + 200ms, 4 * full_price).taken, 1U);
}

TEST(BucketCell, WhatCostsMoreThanItHoldsPassesInSoManyOfItsFillingsThatItComesToThePrice) {
  Cell cell;
  cell.bucket.take_over(nullptr, ten_a_second, start);
  int admitted = 0;
  for (int second = 0; second < 400; ++second)
    for (const Duration part : {0ms, 300ms, 900ms})
      admitted += cell.draw(1, start + second * 1s + part, 40 * full_price).taken > 0;
  EXPECT_NEAR(admitted, 100, 2);
}

// So dear that levels cannot count it: a token of a bucket that fills once a month, in 1024 parts of which
// each is to be had by one node.
TEST(BucketCell, WhatCostsMoreThanLevelsCountPassesInAsManyFillingsAsItsPriceSays) {
  constexpr Duration month = 30 * 24h;
  constexpr BucketTerms slow(7, month, 7);
  Cell cell;
  cell.bucket.take_over(nullptr, slow, start);
  int admitted = 0;
  for (int filling = 0; filling < 3000; ++filling)
    admitted += cell.bucket.draw(key, 1, 0, 1024 * full_price, slow, start + filling * month).taken > 0;
  EXPECT_NEAR(admitted, 3000 * 7 / 1024, 2);
}

TEST(BucketCell, ARequestLargerThanTheBurstNeverPassesAtAnyPrice) {
  Cell cell;
  cell.bucket.take_over(nullptr, ten_a_second, start);
  for (const TokenPrice price : {full_price, 40 * full_price})
    for (int second = 0; second < 50; ++second)
      EXPECT_EQ(cell.draw(11, start + second * 1s, price).taken, 0U);
}

TEST(BucketCell, DrawsAheadWhileThatLeavesHalf) {
  Cell cell;
  cell.bucket.take_over(nullptr, ten_a_second, start);
  EXPECT_EQ(cell.draw(1, start, full_price, 3).taken, 4U);
  EXPECT_EQ(cell.draw(1, start, full_price, 3).taken, 1U);
  EXPECT_EQ(cell.draw(5, start, full_price, 3).taken, 5U);
  EXPECT_EQ(cell.draw(1, start, full_price, 3).taken, 0U);
}

TEST(BucketCell, WhatIsGivenBackCanBeDrawnAgainAtThePriceItWasDrawnAt) {
  Cell cell;
  cell.bucket.take_over(nullptr, ten_a_second, start);
  cell.draw(2, start, 4 * full_price);
  cell.bucket.give_back(1, 4 * full_price, ten_a_second);
  EXPECT_EQ(cell.tokens(start), 6U);
}

TEST(BucketCell, AChargeTakesWhatIsNotThereAndIsPaidOffByTheRate) {
  Cell cell;
  cell.bucket.take_over(nullptr, ten_a_second, start);
  cell.bucket.charge(15, ten_a_second, start);
  EXPECT_EQ(cell.tokens(start), 0U);
  EXPECT_EQ(cell.draw(1, start + 599ms).taken, 0U);
  EXPECT_EQ(cell.draw(1, start + 600ms).taken, 1U);
}

TEST(BucketCell, ADebtIsAtMostOneBucket) {
  Cell cell;
  cell.bucket.take_over(nullptr, ten_a_second, start);
  for (int i = 0; i < 5; ++i) cell.bucket.charge(1'000'000'000'000, ten_a_second, start);
  EXPECT_EQ(cell.draw(1, start + 1099ms).taken, 0U);
  EXPECT_EQ(cell.draw(1, start + 1100ms).taken, 1U);
}

TEST(BucketCell, ADebtIsNoDeeperWhereAWorkersClockIsAheadOfTheChargesOwn) {
  Cell cell;
  cell.bucket.take_over(nullptr, ten_a_second, start);
  EXPECT_EQ(cell.draw(10, start + 5s).taken, 10U);
  cell.bucket.charge(50, ten_a_second, start);
  EXPECT_EQ(cell.draw(1, start + 5099ms).taken, 0U);
  EXPECT_EQ(cell.draw(1, start + 5100ms).taken, 1U);
}

// Its windows are short, and the controller had much to do since it read its clock.
TEST(BucketCell, IsNotFilledByAChargeThatIsLateByMoreThanItsWindows) {
  constexpr BucketTerms quick(100, 10ms, 100, 60ms);
  Cell cell;
  cell.bucket.take_over(nullptr, quick, start);
  for (const Duration late : {71ms, 350ms, 5000ms}) {
    EXPECT_EQ(cell.bucket.draw(key, 100, 0, full_price, quick, start + late).taken, 100U);
    cell.bucket.charge(10, quick, start);
    EXPECT_EQ(cell.bucket.available(quick, start + late), 0U);
  }
}

TEST(BucketCell, AChargeIsNotMadeTwiceWhenTheBucketHasMoved) {
  Cell old;
  old.bucket.take_over(nullptr, ten_a_second, start);
  Cell next;
  next.bucket.take_over(&old.cell, ten_a_second, start);
  old.bucket.charge(5, ten_a_second, start);
  EXPECT_EQ(next.tokens(start), 10U);
  EXPECT_TRUE(old.draw(1).closed);
}

TEST(BucketCell, IsScaledUpToFullAndDownToNothing) {
  Cell cell;
  cell.bucket.take_over(nullptr, ten_a_second, start);
  cell.draw(2);
  cell.bucket.scale(0.5, ten_a_second, start);
  EXPECT_EQ(cell.tokens(start), 4U);
  cell.bucket.scale(100, ten_a_second, start);
  EXPECT_EQ(cell.tokens(start), 10U);
  cell.bucket.scale(0, ten_a_second, start);
  EXPECT_EQ(cell.tokens(start), 0U);
}

TEST(BucketCell, ScalingLeavesADebtWhatItIs) {
  Cell cell;
  cell.bucket.take_over(nullptr, ten_a_second, start);
  cell.bucket.charge(15, ten_a_second, start);
  cell.bucket.scale(4, ten_a_second, start);
  EXPECT_EQ(cell.draw(1, start + 599ms).taken, 0U);
  EXPECT_EQ(cell.draw(1, start + 600ms).taken, 1U);
}

TEST(BucketCell, PricesBeyondWhatAWordHoldsAreCutToWhatNeverPasses) {
  constexpr std::uint64_t dearest =
      BucketCell::priced(BucketTerms::max_burst * BucketTerms::unit, 1ULL << 40);
  EXPECT_EQ(dearest, BucketTerms::max_burst * BucketTerms::unit);
  EXPECT_EQ(BucketCell::priced(1000, full_price) % BucketTerms::unit, 0U);
  EXPECT_EQ(BucketCell::priced(1001, full_price + 1) % BucketTerms::unit, 0U);
}

}  // namespace
}  // namespace weir
