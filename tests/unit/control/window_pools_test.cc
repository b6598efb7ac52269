// SPDX-License-Identifier: BSD-3-Clause
// Who has a cell in the window that begins before anybody draws in it; and how windows are numbered.
#include "control/window_pools.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t keys = 4096;

std::uint64_t key_of(std::uint64_t number) { return (number + 1) * 0x9e3779b97f4a7c15; }

class Pools {
 public:
  explicit Pools(std::uint32_t most = keys)
      : pools_({.interval = 1s, .spans = 1, .monotonic = false, .logs = nullptr}, most, 1) {
    pools_.begin();
    pools_.turn_to(now_);
  }

  /// The next window begins; nobody has drawn in it yet.
  void turn() {
    pools_.provide();
    now_ = now_ + 1s;
    pools_.turn_to(now_);
    pools_.reserve_for_known();
    pools_.retired(0, 0);
    reserved_ = pools_.running().used();
  }
  void draw(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t key = first; key < first + count; ++key) {
      if (key % 256 == 0) pools_.provide();
      pools_.running().claim(key_of(key), 0).cell->draw(1, 100, 1);
    }
  }
  void look_for_in_ended(std::uint64_t first, std::uint64_t count) {
    WindowState window = pools_.state(now_);
    for (std::uint64_t key = first; key < first + count; ++key) {
      if (key % 256 == 0) pools_.provide();
      window.ended->claim(key_of(key), 0);
    }
  }
  std::uint64_t with_cells(std::uint64_t first, std::uint64_t count) {
    std::uint64_t with = 0;
    for (std::uint64_t key = first; key < first + count; ++key)
      with += pools_.running().find(key_of(key)) != nullptr ? 1 : 0;
    return with;
  }
  std::uint32_t reserved() const { return reserved_; }

 private:
  Instant now_{WallTime(1000s), MonotonicTime(10s)};
  WindowPools pools_;
  std::uint32_t reserved_ = 0;
};

TEST(ReservedCells, AreOfThoseWhoCameInTwoWindowsNotOfThoseWhoCameOnce) {
  Pools pools;
  pools.draw(0, 100);
  pools.turn();
  pools.draw(0, 100);
  pools.draw(1000, 4 * keys);  // crowded: who comes once is not known by that
  pools.turn();
  EXPECT_EQ(pools.with_cells(0, 100), 100U);
  EXPECT_EQ(pools.with_cells(1000, 4 * keys), 0U);
}

// Who carries over what he has claims a cell there, however new he is.
TEST(ReservedCells, AreOfThoseWhoCameWhileThereWasRoomHoweverManyAreLookedForThereLater) {
  Pools pools;
  pools.draw(0, 100);
  pools.turn();
  pools.draw(1000, 4 * keys);
  pools.look_for_in_ended(1000, 4 * keys);
  pools.turn();
  EXPECT_EQ(pools.with_cells(0, 100), 100U);
}

TEST(ReservedCells, AreKeptForTenWindowsForWhoStaysAway) {
  Pools pools;
  pools.draw(0, 100);
  pools.turn();
  pools.draw(0, 100);
  pools.draw(1000, 4 * keys);
  for (int window = 0; window < 10; ++window) {
    pools.turn();
    EXPECT_EQ(pools.with_cells(0, 100), 100U) << window;
    pools.draw(1000 + window * 4 * keys, 4 * keys);
  }
  pools.turn();
  EXPECT_EQ(pools.with_cells(0, 100), 0U);
}

// However many the controller takes at once.
TEST(ReservedCells, AreOfAllWhoAreKnownAlsoInPoolsForFewKeys) {
  for (const std::uint32_t few : {64U, 100U, 128U, 200U}) {
    Pools pools(few);
    for (int window = 0; window < 2; ++window) {
      pools.draw(0, few / 2);
      pools.turn();
    }
    EXPECT_EQ(pools.with_cells(0, few / 2), few / 2) << few;
    pools.draw(1000, few / 4);
    EXPECT_EQ(pools.with_cells(1000, few / 4), few / 4) << few;
  }
}

TEST(ReservedCells, LeaveSomeForNewKeysHoweverManyAreKnown) {
  Pools pools;
  for (int window = 0; window < 4; ++window) {
    pools.draw(0, 4 * keys);
    pools.turn();
    EXPECT_LE(pools.reserved(), keys + keys / 4);
  }
  EXPECT_GE(pools.reserved(), keys);
  pools.draw(10 * keys, 100);
  EXPECT_EQ(pools.with_cells(10 * keys, 100), 100U);
}

// A key that found no cell of its own has one in the window that follows, and its bucket moves there.
TEST(Charge, TakesOverWhatIsInACellSharedWithKeysWhoseBucketsFillAtTheSamePace) {
  const BucketTerms other(100, 1min, 100);
  const BucketTerms bucket(70, 1min, 70);
  WindowPools pools({.interval = 2min, .spans = 1, .monotonic = true, .logs = nullptr}, 64, 1,
                    {other.pace(), bucket.pace()});
  const auto at = [](Duration since) {
    return Instant{WallTime(1000s) + since, MonotonicTime(1200s) + since};
  };
  pools.begin();
  pools.turn_to(at(0s));
  std::uint64_t key = 1;
  while (pools.running().claim(key, 0).own) key += 0x9e3779b97f4a7c15;
  AllowanceCell* const shared = pools.running().claim(key, 0, pools.section(bucket.pace())).cell;
  EXPECT_NE(shared, pools.running().claim(key, 0, pools.section(other.pace())).cell);
  BucketCell(*shared).take_over(nullptr, bucket, at(0s).monotonic);
  EXPECT_EQ(BucketCell(*shared).draw(key, 70, 0, full_price, bucket, at(119s).monotonic).taken, 70U);

  pools.provide();
  pools.turn_to(at(120s));
  pools.retired(0, 0);
  pools.charge(key, 0, 1, bucket, at(120s).monotonic);
  AllowanceCell* const own = pools.running().find(key);
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(bucket.tokens(BucketCell(*own).available(bucket, at(120s).monotonic)), 1U);
}

/// The intervals' numbers of the windows that some moments lie in, one after the other.
std::vector<std::uint64_t> interval_numbers(std::uint32_t spans, const std::vector<Duration>& moments) {
  WindowPools pools({.interval = 1s, .spans = spans, .monotonic = false, .logs = nullptr}, keys, 1);
  std::vector<std::uint64_t> numbers;
  for (const Duration moment : moments) {
    pools.turn_to({WallTime(1000s) + moment, MonotonicTime(10s)});
    pools.retired(0, 0);
    numbers.push_back(pools.state({}).interval_number);
    EXPECT_EQ(pools.interval_number(), numbers.back());
  }
  return numbers;
}
using Numbers = std::vector<std::uint64_t>;

TEST(IntervalNumber, IsTheSameInAllSpansOfAnIntervalAndAnotherOneInTheNext) {
  EXPECT_EQ(interval_numbers(10, {0ms, 100ms, 950ms, 1s, 1100ms, 2500ms}), (Numbers{1, 1, 1, 2, 2, 3}));
  EXPECT_EQ(interval_numbers(1, {0ms, 950ms, 1s, 2s}), (Numbers{1, 1, 2, 3}));
}

TEST(IntervalNumber, IsTheOneOfBeforeWhereTheClockComesBackToAnInterval) {
  EXPECT_EQ(interval_numbers(10, {900ms, 1s, 950ms, 1s}), (Numbers{1, 2, 1, 2}));
  EXPECT_EQ(interval_numbers(10, {900ms, 1s, 950ms, 1200ms}), (Numbers{1, 2, 1, 2}));
  EXPECT_EQ(interval_numbers(10, {500ms, 600ms, 300ms, 700ms}), (Numbers{1, 1, 1, 1}));
  EXPECT_EQ(interval_numbers(1, {0s, 1s, 0s, 1s}), (Numbers{1, 2, 1, 2}));
}

TEST(IntervalNumber, IsANewOneWhereTheClockGoesBackBeyondTheIntervalBefore) {
  EXPECT_EQ(interval_numbers(10, {0s, 1s, 2s, 100ms}), (Numbers{1, 2, 3, 4}));
}

// (Where what is drawn is forgotten with its window, windows begin when the clock says so.)
TEST(WindowsOfBuckets, LastAWholeWindowEachHoweverLateTheyBegin) {
  WindowPools pools({.interval = 1s, .spans = 1, .monotonic = true, .logs = nullptr}, keys, 1);
  Instant now{WallTime(1000s), MonotonicTime(10s)};
  const auto turns_after = [&](Duration by) {
    now = now + by;
    return pools.turn_to(now);
  };
  pools.begin();
  EXPECT_TRUE(pools.turn_to(now));
  EXPECT_FALSE(turns_after(999ms));
  EXPECT_TRUE(turns_after(1ms));
  EXPECT_TRUE(turns_after(1900ms)) << "of the window from 12 s on";
  EXPECT_FALSE(turns_after(200ms)) << "from 13 s on";
  EXPECT_FALSE(turns_after(789ms));
  EXPECT_TRUE(turns_after(1ms)) << "but for what a controller may wake up late";
}

TEST(WindowsOfBuckets, AreNotLongerBecauseAControllerWakesUpUnevenly) {
  WindowPools pools({.interval = 2s, .spans = 1, .monotonic = true, .logs = nullptr}, keys, 1);
  const Instant begin{WallTime(1000s), MonotonicTime(10s)};
  pools.begin();
  pools.turn_to(begin);
  int turns = 0;
  for (int second = 1; second <= 100; ++second)
    turns += pools.turn_to(begin + second * 1s + std::chrono::microseconds(second * 37 % 100));
  EXPECT_EQ(turns, 50);
}

// The window after next knows nothing of the log of a key that stays away in between: by then all that it
// holds must have come back.
TEST(WindowsOfLogs, LastAsLongAsWhatIsAdmittedCountsHoweverUnevenlyAControllerWakesUp) {
  LogPool logs(8, 1s, keys);
  WindowPools pools({.interval = 1s, .spans = 1, .monotonic = true, .logs = &logs}, keys, 1);
  const Instant begin{WallTime(1000s), MonotonicTime(10s)};
  pools.begin();
  pools.turn_to(begin);
  // Whenever workers hear of it, they have when the next span ends.
  EXPECT_FALSE(pools.turn_to(begin + 100ms));
  EXPECT_FALSE(pools.turn_to(begin + 1s));
  EXPECT_TRUE(pools.turn_to(begin + 1100ms));
  EXPECT_FALSE(pools.turn_to(begin + 1208ms));
  EXPECT_FALSE(pools.turn_to(begin + 2200ms));
  EXPECT_FALSE(pools.turn_to(begin + 2207999us));
  EXPECT_TRUE(pools.turn_to(begin + 2208ms));
}

TEST(WindowsOfBuckets, WhoSharesACellIsChargedWhereHeHadOneOfHisOwn) {
  WindowPools pools({.interval = 1s, .spans = 1, .monotonic = true, .logs = nullptr}, 64, 1);
  constexpr BucketTerms ten(10, 1s, 10);
  Instant now{WallTime(1000s), MonotonicTime(10s)};
  pools.begin();
  pools.turn_to(now);
  const std::uint64_t key = key_of(0);
  AllowanceCell* const own = pools.running().claim(key, 0).cell;
  BucketCell(*own).take_over(nullptr, ten, now.monotonic);
  now = now + 1s;
  ASSERT_TRUE(pools.turn_to(now));
  for (std::uint64_t other = 1; other < 1000; ++other) pools.running().claim(key_of(other), 0);
  ASSERT_FALSE(pools.running().claim(key, 0).own);
  EXPECT_EQ(pools.charge(key, 4, 1, ten, now.monotonic), 4U);
  EXPECT_EQ(ten.tokens(BucketCell(*own).available(ten, now.monotonic)), 6U);
  EXPECT_EQ(pools.charge(key_of(1234), 4, 1, ten, now.monotonic), 0U) << "who had none";
}

TEST(WindowsOfLogs, WhoSharesACellIsChargedInTheLogThatHeHad) {
  LogPool logs(8, 1s, 64);
  WindowPools pools({.interval = 1s, .spans = 1, .monotonic = true, .logs = &logs}, 64, 1);
  Instant now{WallTime(1000s), MonotonicTime(10s)};
  pools.begin();
  pools.turn_to(now);
  const std::uint64_t key = key_of(0);
  std::uint32_t spare = LogPool::none;
  LogCell own(*pools.running().claim(key, 0).cell, logs);
  own.take_over(true, {nullptr, false}, spare, now.monotonic);
  now = now + 1s;
  ASSERT_FALSE(pools.turn_to(now));  // the first window is known to all by now
  now = now + 1s;
  ASSERT_TRUE(pools.turn_to(now));
  for (std::uint64_t other = 1; other < 1000; ++other) pools.running().claim(key_of(other), 0);
  ASSERT_FALSE(pools.running().claim(key, 0).own);
  pools.correct_log(key, 5, now.monotonic, now.monotonic);
  EXPECT_EQ(own.look(now.monotonic).remaining, 3U);
}

TEST(WindowPools, TellWhetherTheirWindowsAreSpansOfOneThatSlides) {
  WindowPools spans({.interval = 1s, .spans = 10, .monotonic = false, .logs = nullptr}, keys, 1);
  WindowPools intervals({.interval = 1s, .spans = 1, .monotonic = false, .logs = nullptr}, keys, 1);
  EXPECT_TRUE(spans.state({}).slides);
  EXPECT_FALSE(intervals.state({}).slides);
}

}  // namespace
}  // namespace weir
