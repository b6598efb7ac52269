// SPDX-License-Identifier: BSD-3-Clause
#include "base/huge_array.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace weir::testing {
namespace {

struct alignas(64) Line {
  std::uint64_t words[8];
};

TEST(HugeArray, BeginsAsZeroesAndAligned) {
  // Less than a page, a page, some, and more than a huge page with a part of one.
  for (const std::size_t size : {1U, 64U, 1000U, 32768U, 100'000U}) {
    HugeArray<Line> lines(size);
    ASSERT_EQ(lines.size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lines.data()) % 4096, 0U);
    for (std::size_t i = 0; i < size; ++i)
      for (std::uint64_t& word : lines[i].words) ASSERT_EQ(std::exchange(word, i + 1), 0U) << size;
    lines.touch_pages();
    for (std::size_t i = 0; i < size; ++i)
      for (const std::uint64_t word : lines[i].words) ASSERT_EQ(word, i + 1) << size;
  }
}

TEST(HugeArray, WhatFillsAHugePageBeginsOnOne) {
  for (int round = 0; round < 4; ++round) {
    const HugeArray<Line> lines(100'000);
    const HugeArray<char> odd(4096);  // so that the next one begins elsewhere
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lines.data()) % (std::size_t{2} << 20), 0U);
  }
}

TEST(HugeArray, GivesBackThePagesThatSomeOfItsElementsFill) {
  constexpr std::size_t line_of_page = 64;
  HugeArray<Line> lines(100'000);
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i].words[0] = i + 1;
  lines.release(10 * line_of_page - 1, 40'000 + 1);
  lines.release(50'000, 50'000 + 1);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool given_back = i >= 10 * line_of_page && i < 40'000 / line_of_page * line_of_page;
    ASSERT_EQ(lines[i].words[0], given_back ? 0 : i + 1) << i;
  }
}

TEST(HugeArray, MovesWithItsContent) {
  HugeArray<std::uint64_t> first(1000);
  first[999] = 7;
  HugeArray<std::uint64_t> second(std::move(first));
  EXPECT_EQ(second[999], 7U);
  HugeArray<std::uint64_t> third;
  EXPECT_EQ(third.size(), 0U);
  third = std::move(second);
  EXPECT_EQ(third.size(), 1000U);
  EXPECT_EQ(third[999], 7U);
}

}  // namespace
}  // namespace weir::testing
