// SPDX-License-Identifier: BSD-3-Clause
// Which keys are heavy (shared/heaviness.h).
#include "shared/heaviness.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace weir {
namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

unsigned by_division(std::uint64_t used, std::uint64_t limit) {
  const unsigned __int128 part = (static_cast<unsigned __int128>(used) << 32) / (limit == 0 ? 1 : limit);
  return static_cast<unsigned>(std::bit_width(part > most ? most : static_cast<std::uint64_t>(part)));
}

TEST(Heaviness, IsTheWidthOfTheUsedPart) {
  EXPECT_EQ(heaviness(0, 100), 0U);
  EXPECT_EQ(heaviness(100, 100), 33U);
  EXPECT_EQ(heaviness(50, 100), 32U);
  EXPECT_EQ(heaviness(49, 100), 31U);
  EXPECT_EQ(heaviness(most, 1), 64U);
  std::vector<std::uint64_t> numbers{0, 3, 1000, most, most - 1};
  for (unsigned bit = 0; bit < 64; ++bit)
    for (const std::uint64_t near : {0U, 1U, 2U}) numbers.push_back((std::uint64_t{1} << bit) + near - 1);
  for (const std::uint64_t used : numbers)
    for (const std::uint64_t limit : numbers)
      ASSERT_EQ(heaviness(used, limit), by_division(used, limit)) << used << " of " << limit;
}

std::vector<int> heaviest(std::size_t room, const std::vector<unsigned>& heavinesses) {
  Heaviest<int> heaviest(room);
  for (std::size_t i = 0; i < heavinesses.size(); ++i) heaviest.add(static_cast<int>(i), heavinesses[i]);
  std::vector<int> chosen;
  for (const auto& one : heaviest.chosen()) chosen.push_back(one.thing);
  return chosen;
}

TEST(Heaviest, AreAllThatUsedAnythingWhereThereIsRoom) {
  EXPECT_EQ(heaviest(3, {1, 0, 64, 5}), (std::vector{0, 2, 3}));
}

TEST(Heaviest, AreTheHeavierOnesInWhateverOrderTheyCome) {
  EXPECT_EQ(heaviest(2, {1, 2, 3}), (std::vector{1, 2}));
  EXPECT_EQ(heaviest(2, {3, 2, 1}), (std::vector{0, 1}));
  EXPECT_EQ(heaviest(2, {2, 1, 3}), (std::vector{0, 2}));
}

TEST(Heaviest, OfThoseEquallyHeavyAreAllOrNone) {
  EXPECT_EQ(heaviest(2, {7, 4, 4}), (std::vector{0}));
  EXPECT_EQ(heaviest(3, {4, 7, 4}), (std::vector{0, 1, 2}));
  EXPECT_EQ(heaviest(1, {4, 4, 7}), (std::vector{2})) << "nor those that come later";
  EXPECT_EQ(heaviest(1, {4, 4, 4}), std::vector<int>{});
  EXPECT_EQ(heaviest(0, {4}), std::vector<int>{});
}

TEST(Heaviest, BeginAnewWhenCleared) {
  Heaviest<int> heaviest(1);
  for (const int i : {1, 2}) heaviest.add(i, 9);
  heaviest.clear();
  heaviest.add(3, 1);
  ASSERT_EQ(heaviest.chosen().size(), 1U);
  EXPECT_EQ(heaviest.chosen()[0].thing, 3);
}

}  // namespace
}  // namespace weir
