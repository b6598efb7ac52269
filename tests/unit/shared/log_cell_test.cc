// SPDX-License-Identifier: BSD-3-Clause
#include "shared/log_cell.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr MonotonicTime start{100s};
constexpr std::uint64_t key = 42;

/// A key's cells in the windows that it comes in, one after the other.
class Windows {
 public:
  explicit Windows(LogPool& logs) : logs_(logs) {}

  /// The key's cell in a window; that of the one before is the ended one.
  LogCell use(std::size_t window, MonotonicTime now = start) {
    take_over(cells_[window], window == 0 ? nullptr : &cells_[window - 1], now);
    return cell(window);
  }
  LogCell cell(std::size_t window) { return {cells_[window], logs_}; }
  LogName name(std::size_t window) const { return LogName(cells_[window].log.load()); }

  void take_over(AllowanceCell& cell, AllowanceCell* ended, MonotonicTime now) {
    LogCell(cell, logs_).take_over(true, {ended, true}, spare, now);
  }

  std::uint32_t spare = LogPool::none;

 private:
  LogPool& logs_;
  std::array<AllowanceCell, 8> cells_;
};

int admitted_of(LogCell cell, int requests, MonotonicTime now) {
  int admitted = 0;
  for (int i = 0; i < requests; ++i) admitted += cell.draw(key, now, 1).taken;
  return admitted;
}

/// A key that had a cell of its own in the window before, and shares one in this.
struct SharesNow {
  explicit SharesNow(LogPool& of) : logs(of) {
    own().take_over(true, {nullptr, true}, spare, start);
    shared().take_over(false, {nullptr, false}, spare, start);
  }
  LogCell own() { return {own_cell, logs}; }
  LogCell shared() { return {shared_cell, logs}; }
  LogCell both() { return {shared_cell, logs, &own_cell}; }

  LogPool& logs;
  AllowanceCell own_cell;
  AllowanceCell shared_cell;
  std::uint32_t spare = LogPool::none;
};

/// So that keys that come now have none, but who needs one has.
void take_all_but_those_kept(LogPool& logs) {
  while (logs.take(false) != LogPool::none) {
  }
}
void take_all(LogPool& logs) {
  while (logs.take(true) != LogPool::none) {
  }
}

TEST(LogCell, EveryKeyHasALogOfItsOwn) {
  LogPool logs(3, 1s, 8);
  std::uint32_t spare = LogPool::none;
  std::set<std::uint32_t> used;
  std::vector<AllowanceCell> cells(8);
  for (AllowanceCell& cell : cells) {
    LogCell(cell, logs).take_over(true, {nullptr, false}, spare, start);
    ASSERT_TRUE(LogName(cell.log.load()).has_log());
    used.insert(LogName(cell.log.load()).log());
    EXPECT_EQ(admitted_of({cell, logs}, 9, start), 3);
  }
  EXPECT_EQ(used.size(), 8U);
}

TEST(LogCell, AKeysLogGoesOnInTheNextPool) {
  LogPool logs(3, 1s, 8);
  Windows windows(logs);
  EXPECT_EQ(admitted_of(windows.use(0), 2, start), 2);
  const LogCell next = windows.use(1);
  EXPECT_EQ(windows.name(1).log(), windows.name(0).log());
  EXPECT_FALSE(windows.name(1).asks_bucket());
  EXPECT_EQ(admitted_of(next, 9, start + 999ms), 1);
  EXPECT_EQ(admitted_of(next, 9, start + 1s), 2);
}

TEST(LogCell, AKeyMetFirstInTheNewPoolHasTheSameLogForWorkersStillInTheOldOne) {
  LogPool logs(3, 1s, 8);
  Windows windows(logs);
  windows.use(1);
  EXPECT_FALSE(windows.cell(0).begun());
  windows.use(0);
  EXPECT_TRUE(windows.cell(0).begun());
  EXPECT_EQ(windows.name(0).log(), windows.name(1).log());
}

TEST(LogCell, AKeyHasComeOnlyInTheWindowsInWhichItCame) {
  for (const bool scarce : {false, true}) {
    LogPool logs(3, 1s, 8);
    if (scarce) take_all(logs);
    AllowanceCell old;
    AllowanceCell next;
    std::uint32_t spare = LogPool::none;
    LogCell(next, logs).take_over(true, {&old, true}, spare, start);
    EXPECT_FALSE(LogCell::was_used(old)) << scarce;
    EXPECT_TRUE(LogCell::was_used(next)) << scarce;
    LogCell(old, logs).take_over(true, {nullptr, true}, spare, start);
    EXPECT_TRUE(LogCell::was_used(old)) << scarce;
  }
}

TEST(LogCell, ALogTakenInVainServesTheWorkersNextKey) {
  LogPool logs(3, 1s, 3);
  std::uint32_t first = LogPool::none;
  std::uint32_t second = LogPool::none;
  std::vector<AllowanceCell> cells(3);
  // Two workers meet a key in the same moment: of the one that is late what it has taken is at hand.
  second = logs.take(false);
  LogCell(cells[0], logs).take_over(true, {nullptr, false}, first, start);
  LogCell(cells[1], logs).take_over(true, {nullptr, false}, second, start);
  EXPECT_EQ(second, LogPool::none);
  LogCell(cells[2], logs).take_over(true, {nullptr, false}, first, start);
  std::set<std::uint32_t> used;
  for (const AllowanceCell& cell : cells) {
    ASSERT_TRUE(LogName(cell.log.load()).has_log());
    used.insert(LogName(cell.log.load()).log());
  }
  EXPECT_EQ(used.size(), 3U);
}

TEST(LogCell, AKeyThatIsRefusedForWantOfALogHasOneFromThenOn) {
  LogPool logs(8, 1s, 8);
  take_all_but_those_kept(logs);
  Windows windows(logs);
  LogCell cell = windows.use(0);
  EXPECT_FALSE(windows.name(0).has_log());
  EXPECT_EQ(admitted_of(cell, 9, start), 4);
  cell.ask_for_log(windows.spare);
  EXPECT_TRUE(windows.name(0).has_log());
  EXPECT_EQ(admitted_of(cell, 9, start + 10ms), 0) << "of what has been admitted the log knows nothing";
}

TEST(LogCell, AKeyWithoutALogHasHalfOfTheLimitLastinglyAndNeverMoreThanAllOfIt) {
  LogPool logs(100, 1s, 8);
  take_all(logs);
  Windows windows(logs);
  LogCell cell = windows.use(0);
  int admitted = 0;
  for (int i = 0; i < 1000; ++i) admitted += admitted_of(cell, 1, start + i * 1ms);
  EXPECT_LE(admitted, 100);
  EXPECT_GE(admitted, 98);
  admitted = 0;
  for (int i = 1000; i < 3000; ++i)
    admitted += admitted_of(windows.use(1, start + i * 1ms), 1, start + i * 1ms);
  EXPECT_LE(admitted, 102);
  EXPECT_GE(admitted, 98);
}

TEST(LogCell, WhoGetsALogHasAllOfTheLimitInTheWindowAfterTheNext) {
  LogPool logs(100, 1s, 8);
  take_all_but_those_kept(logs);
  Windows windows(logs);
  const auto in_window = [&](std::size_t window) {
    int admitted = 0;
    for (int i = 0; i < 200; ++i) {
      const MonotonicTime now = start + window * 1s + i * 5ms;
      LogCell cell = windows.use(window, now);
      admitted += admitted_of(cell, 1, now);
      cell.ask_for_log(windows.spare);
    }
    return admitted;
  };
  EXPECT_NEAR(in_window(0), 100, 1);
  EXPECT_NEAR(in_window(1), 50, 1);
  EXPECT_EQ(in_window(2), 100);
  EXPECT_FALSE(windows.name(2).asks_bucket());
}

TEST(LogCell, WhoHadNoLogHasOneInTheNextWindowIfThereArePlentyAgain) {
  LogPool logs(8, 1s, 1);  // two
  std::uint32_t taken = logs.take(true);
  const std::uint32_t other = logs.take(true);
  Windows windows(logs);
  EXPECT_EQ(admitted_of(windows.use(0), 9, start), 4);
  EXPECT_FALSE(windows.name(0).has_log());
  std::swap(windows.spare, taken);  // free again
  LogCell next = windows.use(1);
  EXPECT_TRUE(windows.name(1).has_log());
  EXPECT_NE(windows.name(1).log(), other);
  EXPECT_TRUE(windows.name(1).asks_bucket());
  EXPECT_EQ(admitted_of(next, 9, start), 0) << "the bucket goes on";
  EXPECT_TRUE(windows.cell(0).draw(key, start, 1).closed);
}

TEST(LogCell, KeysThatShareACellShareABucketAndNeverHaveALog) {
  LogPool logs(8, 1s, 8);
  AllowanceCell shared;
  std::uint32_t spare = LogPool::none;
  LogCell cell(shared, logs);
  cell.take_over(false, {nullptr, false}, spare, start);
  EXPECT_EQ(admitted_of(cell, 9, start), 4);
  cell.ask_for_log(spare);
  EXPECT_FALSE(LogName(shared.log.load()).has_log());
  EXPECT_EQ(admitted_of(cell, 9, start), 0);
}

TEST(LogCell, WhoSharedACellHasALogWithACellOfHisOwnAndWhatHeDrewIsNotForgotten) {
  LogPool logs(8, 1s, 8);
  AllowanceCell shared;
  AllowanceCell own;
  std::uint32_t spare = LogPool::none;
  LogCell(shared, logs).take_over(false, {nullptr, false}, spare, start);
  EXPECT_EQ(admitted_of({shared, logs}, 3, start), 3);
  LogCell(own, logs).take_over(true, {&shared, false}, spare, start);
  EXPECT_TRUE(LogName(own.log.load()).has_log());
  EXPECT_EQ(admitted_of({own, logs}, 9, start), 1);
}

TEST(LogCell, TheBucketOfASharedCellGoesOnInTheNextWindow) {
  LogPool logs(8, 1s, 8);
  std::array<AllowanceCell, 2> shared;
  std::uint32_t spare = LogPool::none;
  LogCell(shared[0], logs).take_over(false, {nullptr, false}, spare, start);
  EXPECT_EQ(admitted_of({shared[0], logs}, 9, start), 4);
  LogCell(shared[1], logs).take_over(false, {&shared[0], false}, spare, start + 500ms);
  EXPECT_EQ(admitted_of({shared[1], logs}, 9, start + 500ms), 2);
}

TEST(LogCell, WhoSharesACellAsksHisOwnOneOfTheWindowBeforeToo) {
  for (const bool scarce : {false, true}) {
    LogPool logs(8, 1s, 8);
    if (scarce) take_all(logs);
    SharesNow one(logs);
    const int had = scarce ? 4 : 8;
    EXPECT_EQ(admitted_of(one.own(), had - 1, start), had - 1);
    EXPECT_EQ(one.both().look(start).remaining, 1U);
    EXPECT_EQ(one.both().retry_after(start, 1), Duration{});
    EXPECT_GT(one.both().retry_after(start, 2), Duration{});
    EXPECT_EQ(admitted_of(one.both(), 9, start), 1);
    EXPECT_EQ(admitted_of(one.shared(), 9, start), 3) << "what was refused was drawn";
    EXPECT_EQ(admitted_of(one.own(), 9, start), 0);
    EXPECT_EQ(admitted_of(one.both(), 9, start + 2s), 4);
    EXPECT_EQ(admitted_of(one.own(), 9, start + 2s), had - 4);
  }
}

TEST(LogCell, WhomTheSharedCellRefusesLosesNothingInHisOwn) {
  LogPool logs(8, 1s, 8);
  SharesNow one(logs);
  EXPECT_EQ(admitted_of(one.own(), 7, start), 7);
  EXPECT_EQ(admitted_of(one.shared(), 9, start), 4);
  for (int i = 1; i < 10; ++i) EXPECT_EQ(admitted_of(one.both(), 9, start + i * 1ms), 0);
  EXPECT_EQ(one.own().look(start + 1s).remaining, 8U);
}

TEST(LogCell, WhoseOwnCellWasReservedAndNotUsedAsksTheSharedOneAlone) {
  LogPool logs(8, 1s, 8);
  AllowanceCell reserved;
  AllowanceCell shared;
  std::uint32_t spare = LogPool::none;
  LogCell(shared, logs).take_over(false, {nullptr, false}, spare, start);
  EXPECT_EQ(admitted_of({shared, logs, &reserved}, 9, start), 4);
}

TEST(LogCell, ARequestOfTheUsualWeightPassesWithoutALog) {
  LogPool logs(10, 1s, 8, 7);
  take_all(logs);
  Windows windows(logs);
  LogCell cell = windows.use(0);
  EXPECT_TRUE(cell.draw(key, start, 7).taken);
  EXPECT_FALSE(cell.draw(key, start + 1s - 1ns, 7).taken);
  EXPECT_TRUE(cell.draw(key, start + 1s, 7).taken);
}

TEST(LogCell, WhatIsGivenBackCanBeAdmittedAgain) {
  for (const bool scarce : {false, true}) {
    LogPool logs(6, 1s, 4);
    if (scarce) take_all(logs);
    Windows windows(logs);
    LogCell cell = windows.use(0);
    EXPECT_TRUE(cell.draw(key, start, 3).taken);
    EXPECT_EQ(cell.look(start).remaining, scarce ? 0U : 3U);
    cell.give_back(start, 2);
    EXPECT_EQ(cell.look(start).remaining, scarce ? 2U : 5U);
    EXPECT_EQ(admitted_of(cell, 9, start), scarce ? 2 : 5);
  }
}

TEST(LogCell, WhatTheLogRefusesIsNotDrawnFromTheBucket) {
  LogPool logs(6, 1s, 4);
  take_all_but_those_kept(logs);
  Windows windows(logs);
  LogCell cell = windows.use(0);
  cell.ask_for_log(windows.spare);
  ASSERT_TRUE(windows.name(0).has_log());
  logs.log(windows.name(0).log()).charge(start, 6);
  EXPECT_EQ(admitted_of(cell, 9, start), 0);
  logs.log(windows.name(0).log()).give_back(start, 6);
  EXPECT_EQ(admitted_of(cell, 9, start), 3);
}

TEST(LogCell, CorrectionsCountInWhateverTheKeyDrawsFrom) {
  for (const bool scarce : {false, true}) {
    LogPool logs(6, 1s, 4);
    if (scarce) take_all(logs);
    Windows windows(logs);
    LogCell cell = windows.use(0);
    const std::uint64_t full = cell.look(start).remaining;
    cell.correct(start, start, 2);
    EXPECT_EQ(cell.look(start).remaining, full - 2);
    cell.correct(start, start, -1);
    EXPECT_EQ(cell.look(start).remaining, full - 1);
    cell.correct(start, start, -9);
    EXPECT_EQ(cell.look(start).remaining, full);
  }
}

TEST(LogCell, OfWhatIsPutBackIntoABucketOnlyThatCountsWhichHasNotComeBackByItself) {
  LogPool logs(100, 1s, 4);
  take_all(logs);
  Windows windows(logs);
  LogCell cell = windows.use(0);
  EXPECT_EQ(admitted_of(cell, 99, start), 50);
  const MonotonicTime later = start + 900ms;
  EXPECT_EQ(admitted_of(cell, 99, later), 45);
  cell.correct(start, later, -50);
  EXPECT_EQ(cell.look(later).remaining, 4U);  // 50, less 51 for each second
  for (const Duration ago : {Duration(1s), Duration(10s), Duration(100s), Duration(10'000s)}) {
    admitted_of(cell, 99, later);
    cell.correct(later - ago, later, -50);
    EXPECT_EQ(cell.look(later).remaining, 0U) << ago.count();
  }
  cell.correct(MonotonicTime::min(), later, -50);
  EXPECT_EQ(cell.look(later).remaining, 0U);
}

TEST(LogCell, WhatIsPutBackMakesNoRoomInALogThatMayNotKnowOfIt) {
  LogPool logs(6, 1s, 4);
  take_all_but_those_kept(logs);
  Windows windows(logs);
  LogCell cell = windows.use(0);
  EXPECT_EQ(admitted_of(cell, 9, start), 3);
  cell.ask_for_log(windows.spare);
  ASSERT_TRUE(windows.name(0).has_log());
  LogPool::Log log = logs.log(windows.name(0).log());
  EXPECT_EQ(admitted_of(cell, 9, start + 990ms), 3);
  cell.correct(start, start + 990ms, -3);
  EXPECT_EQ(log.look(start + 990ms).remaining, 3U);
}

TEST(LogCell, ATimeToComeBackIsOneAtWhichTheRequestPasses) {
  for (const bool scarce : {false, true}) {
    LogPool logs(6, 1s, 4);
    if (scarce) take_all(logs);
    Windows windows(logs);
    LogCell cell = windows.use(0);
    EXPECT_EQ(cell.retry_after(start, 3), Duration{});
    while (cell.draw(key, start, 1).taken) {
    }
    EXPECT_LE(cell.look(start).reset_after, 1s);
    EXPECT_GT(cell.look(start).reset_after, 700ms);
    for (std::uint64_t weight = 1; weight <= 3; ++weight) {
      const Duration wait = cell.retry_after(start, weight);
      ASSERT_GT(wait, Duration{}) << weight;
      ASSERT_LE(wait, 1s) << weight;
      EXPECT_FALSE(cell.draw(key, start + wait - 1ns, weight).taken) << weight;
      EXPECT_TRUE(cell.draw(key, start + wait, weight).taken) << weight;
      cell.give_back(start + wait, weight);
    }
    EXPECT_GT(cell.retry_after(start, 6), Duration{});
  }
}

TEST(LogCell, AWeightOfZeroPassesAndLeavesNoTrace) {
  for (const bool scarce : {false, true}) {
    LogPool logs(6, 1s, 4);
    if (scarce) take_all(logs);
    Windows windows(logs);
    LogCell cell = windows.use(0);
    const std::uint64_t full = cell.look(start).remaining;
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(cell.draw(key, start, 0).taken);
    EXPECT_EQ(cell.look(start).remaining, full);
  }
}

TEST(LogCell, OfACellThatHasBeenClearedNothingIsAdmitted) {
  LogPool logs(6, 1s, 4);
  AllowanceCell cleared;
  EXPECT_EQ(admitted_of({cleared, logs}, 9, start), 0);
}

// Logs come and go as it happens, workers are late, and still no window holds more than the limit.
TEST(LogCell, NoWindowOfTheIntervalHoldsMoreThanTheLimitHoweverLogsComeAndGo) {
  std::mt19937_64 random(7);
  for (int run = 0; run < 200; ++run) {
    SCOPED_TRACE(run);
    const std::uint64_t limit = 1 + random() % 12;
    LogPool logs(limit, 1s, 1);  // two
    std::uint32_t spare = LogPool::none;
    std::uint32_t hidden = LogPool::none;
    std::deque<AllowanceCell> cells(2);  // of each window
    std::deque<MonotonicTime> admitted;
    MonotonicTime now = start;
    for (int window = 0; window < 12; ++window) {
      const MonotonicTime turned = now;
      cells.emplace_back();
      while (now - turned < 1s) {
        if (random() % 4 == 0) {
          if (hidden == LogPool::none)
            hidden = logs.take(true);
          else if (spare == LogPool::none)
            std::swap(hidden, spare);
        }
        // Some have not heard of the window for its first tenth.
        const bool late = window > 0 && now - turned < 100ms && random() % 2 == 0;
        auto cell = cells.end() - (late ? 2 : 1);
        LogCell(*cell, logs).take_over(true, {&*(cell - 1), true}, spare, now);
        const std::uint64_t weight = 1 + random() % std::min<std::uint64_t>(limit, 3);
        LogCell::Draw draw = LogCell(*cell, logs).draw(key, now, weight);
        if (draw.closed) {
          ASSERT_TRUE(late);
          ++cell;
          LogCell(*cell, logs).take_over(true, {&*(cell - 1), true}, spare, now);
          draw = LogCell(*cell, logs).draw(key, now, weight);
        }
        if (!draw.taken && !late) LogCell(*cell, logs).ask_for_log(spare);
        if (draw.taken) admitted.insert(admitted.end(), weight, now);
        while (!admitted.empty() && now - admitted.front() >= 1s) admitted.pop_front();
        ASSERT_LE(admitted.size(), limit) << "window " << window;
        now += Duration(static_cast<std::int64_t>(random() % 60'000'000));
      }
    }
  }
}

}  // namespace
}  // namespace weir
