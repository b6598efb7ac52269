// SPDX-License-Identifier: BSD-3-Clause
#include "engine/span_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "seed.h"

namespace weir::testing {
namespace {

TEST(SpanBlocks, AreBlankAndNobodyElsesHoweverManyComeAndGo) {
  SCOPED_TRACE("seed " + std::to_string(test_seed()));
  std::mt19937_64 random(test_seed());
  SpanBlocks blocks(1000);
  struct Taken {
    std::span<SpanCounts> block;
    std::uint64_t mark;
  };
  std::vector<Taken> taken;
  std::map<std::size_t, std::size_t> held, most_held;
  for (std::uint64_t step = 1; step <= 20'000; ++step) {
    if (taken.size() < 500 && random() % 2 == 0) {
      const std::size_t length = std::array<std::size_t, 3>{3, 11, 101}[random() % 3];
      const std::span<SpanCounts> block = blocks.take(length);
      ASSERT_EQ(block.size(), length);
      for (SpanCounts& span : block) {
        ASSERT_EQ(span.number, SpanCounts::before_all);
        ASSERT_EQ(span.own, 0U);
        ASSERT_EQ(span.others, 0U);
        span = {.number = 1, .own = step, .others = step};
      }
      taken.push_back({block, step});
      most_held[length] = std::max(most_held[length], ++held[length]);
    } else if (!taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      for (const SpanCounts& span : taken.back().block) ASSERT_EQ(span.own, taken.back().mark);
      --held[taken.back().block.size()];
      blocks.give_back(taken.back().block);
      taken.pop_back();
    }
  }
  std::size_t memory = 0;
  for (const auto& [length, count] : most_held) memory += length * count * sizeof(SpanCounts);
  EXPECT_EQ(blocks.memory(), memory);
}

TEST(SpanBlocks, NoneIsGivenBackForADetailWithoutSpans) {
  SpanBlocks blocks(10);
  blocks.give_back({});
  EXPECT_EQ(blocks.memory(), 0U);
}

}  // namespace
}  // namespace weir::testing
