// SPDX-License-Identifier: BSD-3-Clause
#include "control/sync_watch.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr MonotonicTime start{100s};

TEST(SyncWatch, AStoreThatAnswersInTimeIsReachedAndOneThatDoesNotIsLost) {
  SyncWatch watch(50ms, 100ms);
  EXPECT_EQ(watch.due(), MonotonicTime::max());
  watch.begin(start, 10, 0);
  EXPECT_EQ(watch.due(), start + 50ms);
  EXPECT_TRUE(watch.judge(start + 50ms, true, 10));
  EXPECT_EQ(watch.due(), MonotonicTime::max());
  watch.begin(start + 100ms, 20, 10);
  EXPECT_FALSE(watch.judge(start + 150ms, true, 10)) << "not one answer";
  watch.begin(start + 200ms, 30, 20);
  EXPECT_TRUE(watch.judge(start + 250ms, true, 30));
  watch.begin(start + 300ms, 30, 30);
  EXPECT_FALSE(watch.judge(start + 350ms, false, 30)) << "it says so itself";
  watch.begin(start + 400ms, 30, 30);
  EXPECT_TRUE(watch.judge(start + 450ms, true, 30)) << "nothing to write, and it is there";
}

TEST(SyncWatch, WhatIsSubmittedLaterIsNotWaitedFor) {
  SyncWatch watch(50ms, 100ms);
  watch.begin(start, 10, 0);
  watch.begin(start + 49ms, 15, 10);
  watch.begin(start + 50ms, 17, 10);
  EXPECT_TRUE(watch.judge(start + 50ms, true, 10));
  EXPECT_EQ(watch.due(), start + 100ms) << "the later ones have their own time";
  EXPECT_FALSE(watch.judge(start + 100ms, true, 10));

  SyncWatch idle(50ms, 100ms);
  idle.begin(start, 10, 10);  // nothing to write
  idle.begin(start + 49ms, 15, 10);
  EXPECT_TRUE(idle.judge(start + 50ms, true, 10));
}

TEST(SyncWatch, AStoreThatGoesOnNoMoreIsLostAtTheNextSync) {
  SyncWatch watch(10ms, 100ms);
  watch.begin(start, 100, 0);
  EXPECT_TRUE(watch.judge(start + 10ms, true, 50));
  watch.begin(start + 20ms, 200, 50);
  EXPECT_FALSE(watch.judge(start + 30ms, true, 50));
}

TEST(SyncWatch, AStoreThatIsSlowIsReachedAsLongAsItAnswersAllWithinASpan) {
  SyncWatch watch(50ms, 100ms);
  std::uint64_t submitted = 0;
  MonotonicTime now = start;
  for (int span = 0; span < 10; ++span, now += 100ms, submitted += 100) {
    watch.begin(now, submitted + 100, submitted);
    EXPECT_TRUE(watch.judge(now + 50ms, true, submitted + 60)) << span;
  }
  watch.begin(now, submitted + 100, submitted);
  EXPECT_TRUE(watch.judge(now + 50ms, true, submitted + 10));
  watch.begin(now + 100ms, submitted + 200, submitted + 50);
  EXPECT_FALSE(watch.judge(now + 150ms, true, submitted + 90)) << "after a span and a half not all of it";
}

// While it is lost, it gets many times as many writes.
TEST(SyncWatch, ALostStoreIsFoundAgainByOneSyncWithinASpan) {
  SyncWatch watch(50ms, 5s);
  watch.begin(start, 10, 0);
  EXPECT_FALSE(watch.judge(start + 50ms, true, 0));
  watch.begin(start + 5s, 40'010, 10);
  watch.begin(start + 10s, 80'010, 40'010);
  EXPECT_TRUE(watch.judge(start + 5050ms, true, 24'000)) << "the one before it is done";
  EXPECT_TRUE(watch.judge(start + 10050ms, true, 64'000));
}

TEST(SyncWatch, AStoreThatCannotKeepUpStaysLost) {
  SyncWatch watch(50ms, 100ms);
  std::uint64_t submitted = 0;
  std::uint64_t answered = 0;
  int reached = 0;
  for (int span = 0; span < 40; ++span) {
    const MonotonicTime now = start + span * 100ms;
    submitted += 100;
    watch.begin(now, submitted, answered);
    answered += 20;
    reached += watch.judge(now + 50ms, true, answered);
    answered += 20;
  }
  EXPECT_LE(reached, 2) << "at first, when it was not known yet";
}

// Or else it would be lost and found in turns.
TEST(SyncWatch, AStoreWhoseAnswersAreAlwaysLateIsReachedIfTheyComeWithinASpan) {
  SyncWatch watch(10ms, 20ms);
  std::uint64_t submitted = 0;
  for (int span = 0; span < 10; ++span, submitted += 100) {
    const MonotonicTime now = start + span * 20ms;
    watch.begin(now, submitted + 100, submitted);  // all of the one before has been answered 5 ms ago
    EXPECT_EQ(watch.judge(now + 10ms, true, submitted), span > 0) << span;
  }
  watch.begin(start + 200ms, submitted + 100, submitted);
  EXPECT_TRUE(watch.judge(start + 210ms, true, submitted));
  watch.begin(start + 220ms, submitted + 200, submitted);
  EXPECT_FALSE(watch.judge(start + 230ms, true, submitted)) << "it hangs";
}

TEST(SyncWatch, AStoreThatSaysThatItIsDownIsNotReachedWhateverItHasAnswered) {
  SyncWatch watch(50ms, 100ms);
  watch.begin(start, 10, 0);
  EXPECT_FALSE(watch.judge(start + 50ms, false, 5));
  watch.begin(start + 100ms, 10, 5);
  EXPECT_FALSE(watch.judge(start + 150ms, false, 10));
}

TEST(SyncWatch, WhatIsSubmittedTogetherIsWaitedForTogether) {
  SyncWatch watch(50ms, 100ms);
  watch.begin(start, 10, 0);
  watch.begin(start + 10ms, 20, 0);
  watch.begin(start + 40ms, 30, 0);
  EXPECT_TRUE(watch.judge(start + 50ms, true, 10));
  EXPECT_EQ(watch.due(), start + 90ms);
  EXPECT_TRUE(watch.judge(start + 90ms, true, 20)) << "it goes on";
  watch.begin(start + 100ms, 40, 20);
  EXPECT_FALSE(watch.judge(start + 150ms, true, 29)) << "but has not had all of it for a span";
}

TEST(SyncWatch, TheControllersOwnTimeIsNotTheStores) {
  SyncWatch watch(50ms, 100ms);
  watch.begin(start, 10, 0);
  watch.look(start + 80ms);  // it has worked so long, and hands the sync over at the end of that
  EXPECT_EQ(watch.due(), start + 105ms);
  watch.look(start + 200ms);
  EXPECT_EQ(watch.due(), start + 105ms) << "from the first look on it is the store's";
  EXPECT_TRUE(watch.judge(start + 105ms, true, 5));
  watch.begin(start + 110ms, 15, 5);
  EXPECT_TRUE(watch.judge(start + 160ms, true, 14)) << "the first had until 155 ms, and has all";
  watch.begin(start + 300ms, 20, 15);
  watch.look(start + 301ms);
  watch.look(start + 390ms);
  EXPECT_EQ(watch.due(), start + 350ms);
}

}  // namespace
}  // namespace weir
