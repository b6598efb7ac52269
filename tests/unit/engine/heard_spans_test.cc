// SPDX-License-Identifier: BSD-3-Clause
// Of which spans a node has heard what others counted.
#include "engine/heard_spans.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "seed.h"

namespace weir {
namespace {

TEST(HeardSpans, NothingIsHeardAtFirst) {
  const HeardSpans heard;
  EXPECT_LT(heard.last(), -1'000'000'000'000);
  EXPECT_FALSE(heard.any_of(heard.last(), 10));
}

TEST(HeardSpans, EachSpanIsNewOnce) {
  HeardSpans heard;
  EXPECT_EQ(heard.add(20, 23), 4);
  EXPECT_EQ(heard.add(20, 23), 0);
  EXPECT_EQ(heard.add(20, 24), 1);
  EXPECT_EQ(heard.add(25, 25), 1);
  EXPECT_EQ(heard.add(10, 19), 10);
  EXPECT_EQ(heard.add(10, 25), 0);
  EXPECT_EQ(heard.add(9, 26), 2);
  EXPECT_EQ(heard.last(), 26);
  EXPECT_TRUE(heard.any_of(0, 9));
  EXPECT_FALSE(heard.any_of(0, 8));
  EXPECT_TRUE(heard.any_of(26, 40));
  EXPECT_FALSE(heard.any_of(27, 40));
}

TEST(HeardSpans, NoSpansAreNone) {
  HeardSpans heard;
  EXPECT_EQ(heard.add(20, 19), 0);
  EXPECT_FALSE(heard.any_of(heard.last(), 40));
}

TEST(HeardSpans, WhatDoesNotAdjoinIsForgotten) {
  HeardSpans heard;
  heard.add(20, 23);
  EXPECT_EQ(heard.add(25, 26), 2);
  EXPECT_FALSE(heard.any_of(0, 24));
  EXPECT_EQ(heard.add(20, 23), 4);
  EXPECT_EQ(heard.last(), 23);
}

TEST(HeardSpans, GoOnForMoreSpansThanAreTold) {
  constexpr std::int64_t many = std::int64_t{1} << 32;
  HeardSpans heard;
  EXPECT_EQ(heard.add(0, many + 5), many + 6);
  EXPECT_EQ(heard.add(many + 6, many + 6), 1);
  EXPECT_EQ(heard.add(many, many + 8), 2);
  EXPECT_EQ(heard.last(), many + 8);
  EXPECT_TRUE(heard.any_of(many, many));
}

TEST(HeardSpans, CountAsASetOfSpansWouldWhereTheyAdjoin) {
  std::mt19937_64 random(testing::test_seed());
  for (int run = 0; run < 1000; ++run) {
    HeardSpans heard;
    std::set<std::int64_t> spans;
    for (int step = 0; step < 20; ++step) {
      const auto first = static_cast<std::int64_t>(random() % 60);
      const std::int64_t last = first + static_cast<std::int64_t>(random() % 10);
      if (!spans.empty() && (first > *spans.rbegin() + 1 || last < *spans.begin() - 1)) spans.clear();
      std::int64_t added = 0;
      for (std::int64_t span = first; span <= last; ++span) added += spans.insert(span).second ? 1 : 0;
      ASSERT_EQ(heard.add(first, last), added);
      ASSERT_EQ(heard.last(), *spans.rbegin());
      ASSERT_TRUE(heard.any_of(*spans.begin(), *spans.begin()));
      ASSERT_FALSE(heard.any_of(*spans.begin() - 5, *spans.begin() - 1));
    }
  }
}

}  // namespace
}  // namespace weir
