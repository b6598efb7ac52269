// SPDX-License-Identifier: BSD-3-Clause
// How many new keys a node meets in a span, by how its spans end.
#include "control/new_key_limit.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Duration span = 100ms;
constexpr std::uint32_t many = 10'000'000;

TEST(NewKeyLimit, ANodeThatIsMadeForFewKeysMeetsAllThatThereMayBe) {
  EXPECT_EQ(NewKeyLimit(50'000, 1).of_each_worker(), NewKeyLimit::none);
}

TEST(NewKeyLimit, OfANodeOfWhichNothingIsKnownYetTheWorkersHaveEqualParts) {
  EXPECT_EQ(NewKeyLimit(many, 1).of_each_worker(), NewKeyLimit::at_first);
  EXPECT_EQ(NewKeyLimit(many, 4).of_each_worker(), NewKeyLimit::at_first / 4);
}

TEST(NewKeyLimit, IsDoubledWhereItWasUsedAndTheSpanEndedInTimeUntilAllAreMet) {
  NewKeyLimit limit(many, 1);
  limit.span_ended(span, 0ms, NewKeyLimit::at_first);
  EXPECT_EQ(limit.of_each_worker(), 2 * NewKeyLimit::at_first);
  for (int i = 0; i < 5; ++i) limit.span_ended(span, 0ms, many);
  EXPECT_EQ(limit.of_each_worker(), NewKeyLimit::none);
}

TEST(NewKeyLimit, OfASpanInWhichFewWereMetNothingIsLearned) {
  NewKeyLimit limit(many, 1);
  limit.span_ended(span, 0ms, NewKeyLimit::at_first / 2 - 1);
  limit.span_ended(span, 1s, NewKeyLimit::least);
  limit.span_ended(0ms, 1s, many);
  EXPECT_EQ(limit.of_each_worker(), NewKeyLimit::at_first);
}

TEST(NewKeyLimit, AfterASpanThatEndedLateIsWhatHalfASpanMeets) {
  NewKeyLimit limit(many, 1);
  limit.span_ended(span, 300ms, 800'000);
  EXPECT_EQ(limit.of_each_worker(), 100'000U);
  limit.span_ended(span, 51ms, 100'000);
  EXPECT_EQ(limit.of_each_worker(), 33'112U);
  limit.span_ended(span, 10s, 33'112);
  EXPECT_EQ(limit.of_each_worker(), NewKeyLimit::least);
}

TEST(NewKeyLimit, OnceASpanHasEndedLateItGrowsByAQuarter) {
  NewKeyLimit limit(many, 1);
  limit.span_ended(span, 300ms, 800'000);
  limit.span_ended(span, 50ms, 50'000);
  EXPECT_EQ(limit.of_each_worker(), 125'000U);
}

}  // namespace
}  // namespace weir
