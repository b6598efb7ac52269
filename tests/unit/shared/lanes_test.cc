// SPDX-License-Identifier: BSD-3-Clause
#include "shared/lanes.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>

namespace weir {
namespace {

struct alignas(64) Line {
  std::array<std::uint32_t, Lanes::per_line> tags;
  std::array<std::uint32_t, Lanes::per_line> words;
};

TEST(Lanes, AreFoundWhereverTheTagIs) {
  std::mt19937 random(1);
  for (int run = 0; run < 1000; ++run) {
    Line line;
    for (std::uint32_t& tag : line.tags) tag = static_cast<std::uint32_t>(random());
    for (std::size_t lane = 0; lane < Lanes::per_line; ++lane) {
      const Lanes lanes = Lanes::with(&line, line.tags[lane]);
      ASSERT_FALSE(lanes.none());
      EXPECT_EQ(lanes.none_of_seven(), lane == 7);
      EXPECT_EQ(lanes.first(), lane);
      EXPECT_EQ(&lanes.first_of(line.words.data()), &line.words[lane]);
    }
    EXPECT_TRUE(Lanes::with(&line, static_cast<std::uint32_t>(random())).none());
  }
}

// Compared as signed or narrower numbers these would be alike.
TEST(Lanes, DifferInEveryBitOfTheirTags) {
  for (unsigned bit = 0; bit < 32; ++bit) {
    Line line{};
    line.tags[3] = std::uint32_t{1} << bit;
    EXPECT_EQ(Lanes::with(&line, std::uint32_t{1} << bit).first(), 3U);
    EXPECT_TRUE(Lanes::with(&line, std::uint32_t{1} << (bit + 1) % 32).none());
  }
}

TEST(Lanes, OfSeveralTheFirstIsTold) {
  Line line{};
  line.tags[2] = line.tags[5] = line.tags[7] = 9;
  EXPECT_EQ(Lanes::with(&line, 9).first(), 2U);
  EXPECT_FALSE(Lanes::with(&line, 9).none_of_seven());
}

}  // namespace
}  // namespace weir
