// SPDX-License-Identifier: BSD-3-Clause
#include "dataplane/expected_way.h"

#include <gtest/gtest.h>

#include <string_view>

namespace weir {
namespace {

/// After bursts that have wanted the other way (o) or the usual one (u).
bool is_other_after(int times, std::string_view bursts) {
  ExpectedWay way;
  for (int i = 0; i < times; ++i)
    for (const char wanted : bursts) way.learn(wanted == 'o');
  return way.is_other();
}

TEST(ExpectedWay, IsTheUsualOneAtFirstAndAfterOneBurst) {
  EXPECT_FALSE(is_other_after(0, ""));
  EXPECT_FALSE(is_other_after(1, "o"));
}

TEST(ExpectedWay, IsTheOtherOneOnceManyInARowHaveWantedIt) {
  EXPECT_FALSE(is_other_after(7, "o"));
  for (int bursts = 8; bursts < 1000; ++bursts) EXPECT_TRUE(is_other_after(bursts, "o")) << bursts;
}

TEST(ExpectedWay, StaysSoWhereOneBurstAmongVeryManyDoesNot) {
  EXPECT_TRUE(is_other_after(10, "oooooooooooooooou"));
}

TEST(ExpectedWay, IsTheUsualOneAgainAfterTwoInARow) {
  EXPECT_FALSE(is_other_after(1, "oooooooooooooooooooouu"));
}

TEST(ExpectedWay, IsNotTurnedByWhoSendsTwoOfThreeBursts) {
  for (const std::string_view bursts : {"ou", "oou", "ouo", "uoo"})
    EXPECT_FALSE(is_other_after(1000, bursts)) << bursts;
}

}  // namespace
}  // namespace weir
