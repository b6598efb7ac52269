// SPDX-License-Identifier: BSD-3-Clause
// When statistics lines are due, on time and late.
#include "filter/next_line.h"

#include <gtest/gtest.h>

namespace weir::filter {
namespace {

using namespace std::chrono_literals;

constexpr MonotonicTime due{100s};

TEST(NextLine, ComesAPeriodAfterOneThatWasOnTimeOrALittleLate) {
  EXPECT_EQ(next_line(due, due, 1s), due + 1s);
  EXPECT_EQ(next_line(due, due + 1ms, 1s), due + 1s) << "what they are late by does not add up";
  EXPECT_EQ(next_line(due, due + 499ms, 1s), due + 1s);
}

TEST(NextLine, DoesNotFollowALateOneAtOnce) {
  EXPECT_EQ(next_line(due, due + 999ms, 1s), due + 2s);
  EXPECT_EQ(next_line(due, due + 1s, 1s), due + 2s);
  EXPECT_EQ(next_line(due, due + 1400ms, 1s), due + 2s);
  EXPECT_EQ(next_line(due, due + 1600ms, 1s), due + 3s);
}

TEST(NextLine, MakesUpForNoneOfThePeriodsThatWereMissed) {
  EXPECT_EQ(next_line(due, due + 1h, 1s), due + 1h + 1s);
  EXPECT_EQ(next_line(due, due + 10s + 700ms, 500ms), due + 11s);
}

TEST(NextLine, IsHalfAPeriodToAPeriodAndAHalfAway) {
  for (Duration late = 0ns; late < 3s; late += 7ms) {
    const Duration away = next_line(due, due + late, 1s) - (due + late);
    EXPECT_GE(away, 500ms) << late.count();
    EXPECT_LE(away, 1500ms) << late.count();
  }
}

}  // namespace
}  // namespace weir::filter
