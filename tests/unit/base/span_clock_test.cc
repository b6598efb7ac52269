// SPDX-License-Identifier: BSD-3-Clause
#include "base/span_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace weir {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr WallTime at(Duration since_epoch) { return WallTime(since_epoch); }

TEST(SpanClock, AlignsIntervalsToTheUnixEpoch) {
  const SpanClock clock(seconds(10), 10);
  EXPECT_EQ(clock.ordinal(at(seconds(0))), 0);
  EXPECT_EQ(clock.ordinal(at(seconds(10) - nanoseconds(1))), 0);
  EXPECT_EQ(clock.ordinal(at(seconds(10))), 1);
  EXPECT_EQ(clock.ordinal(at(seconds(1'700'000'005))), 170'000'000);
}

TEST(SpanClock, RoundsOrdinalsDownBeforeTheEpochToo) {
  const SpanClock clock(seconds(10), 10);
  EXPECT_EQ(clock.ordinal(at(nanoseconds(-1))), -1);
  EXPECT_EQ(clock.ordinal(at(seconds(-10))), -1);
  EXPECT_EQ(clock.ordinal(at(seconds(-10) - nanoseconds(1))), -2);
  EXPECT_EQ(clock.span(at(nanoseconds(-1))), (SpanId{-1, 9}));
  EXPECT_EQ(clock.span(at(seconds(-10))), (SpanId{-1, 0}));
}

TEST(SpanClock, BeginsASpanExactlyAtItsBegin) {
  const SpanClock clock(seconds(1), 10);
  EXPECT_EQ(clock.span(at(milliseconds(299))), (SpanId{0, 2}));
  EXPECT_EQ(clock.span(at(milliseconds(300) - nanoseconds(1))), (SpanId{0, 2}));
  EXPECT_EQ(clock.span(at(milliseconds(300))), (SpanId{0, 3}));
  EXPECT_EQ(clock.begin({0, 3}), at(milliseconds(300)));
  EXPECT_EQ(clock.next_begin(at(milliseconds(300))), at(milliseconds(400)));
  EXPECT_EQ(clock.next_begin(at(milliseconds(400) - nanoseconds(1))), at(milliseconds(400)));
}

TEST(SpanClock, LeadsFromTheLastSpanIntoTheNextInterval) {
  const SpanClock clock(seconds(1), 10);
  EXPECT_EQ(clock.next_begin(at(milliseconds(950))), at(seconds(1)));
  EXPECT_EQ(clock.next_interval(at(milliseconds(950))), at(seconds(1)));
  EXPECT_EQ(clock.next_interval(at(seconds(1))), at(seconds(2)));
  EXPECT_EQ(clock.next_begin(at(nanoseconds(-1))), at(seconds(0)));
}

// Walking from begin to begin must visit every span once, in order, each beginning where span() says that it
// begins.
void expect_spans_tile(Duration interval, std::uint32_t spans, WallTime from, int intervals) {
  const SpanClock clock(interval, spans);
  SpanId expected{clock.ordinal(from), 0};
  WallTime begin = clock.begin(expected);
  for (int i = 0; i < intervals * static_cast<int>(spans); ++i) {
    ASSERT_EQ(clock.span(begin), expected);
    ASSERT_EQ(clock.begin(expected), begin);
    const WallTime next = clock.next_begin(begin);
    ASSERT_LT(begin, next);
    ASSERT_EQ(clock.span(next - nanoseconds(1)), expected) << "the last nanosecond belongs to the span";
    ASSERT_EQ(clock.next_begin(next - nanoseconds(1)), next);
    // No span is more than a nanosecond away from the even length.
    const auto even = interval.count() / spans;
    ASSERT_GE((next - begin).count(), even);
    ASSERT_LE((next - begin).count(), even + 1);
    begin = next;
    if (++expected.index == spans) expected = {expected.ordinal + 1, 0};
  }
  EXPECT_EQ(begin - clock.begin({clock.ordinal(from), 0}), intervals * interval);
}

TEST(SpanClock, TilesAnIntervalThatTheSpansDivide) { expect_spans_tile(seconds(1), 10, at(seconds(7)), 3); }

TEST(SpanClock, TilesAnIntervalThatTheSpansDoNotDivide) {
  expect_spans_tile(seconds(1), 3, at(seconds(7)), 3);
  expect_spans_tile(seconds(1), 7, at(seconds(7)), 3);
  expect_spans_tile(nanoseconds(1'000'000'007), 999, at(seconds(7)), 2);
}

TEST(SpanClock, TilesAcrossTheEpoch) {
  expect_spans_tile(seconds(1), 7, at(seconds(-2)), 4);
  expect_spans_tile(milliseconds(10), 3, at(nanoseconds(-1)), 4);
}

TEST(SpanClock, DoesNotOverflowWithTheLongestIntervalAndFarTimes) {
  const Duration longest = hours(24 * 366);
  expect_spans_tile(longest, 1000, at(hours(24 * 365 * 55)), 1);
  expect_spans_tile(longest, 1000, at(hours(24 * 365 * -200)), 1);
  const SpanClock clock(milliseconds(10), 2);
  const WallTime far = at(hours(24 * 365 * 250));
  EXPECT_EQ(clock.begin(clock.span(far)), far);
}

TEST(SpanClock, TreatsOneSpanAsTheInterval) {
  const SpanClock clock(seconds(1), 1);
  EXPECT_EQ(clock.span(at(milliseconds(1999))), (SpanId{1, 0}));
  EXPECT_EQ(clock.next_begin(at(milliseconds(1999))), clock.next_interval(at(milliseconds(1999))));
}

TEST(SpanId, OrdersByTime) {
  EXPECT_LT((SpanId{3, 9}), (SpanId{4, 0}));
  EXPECT_LT((SpanId{4, 0}), (SpanId{4, 1}));
  EXPECT_LT((SpanId{-1, 0}), (SpanId{0, 0}));
}

}  // namespace
}  // namespace weir
