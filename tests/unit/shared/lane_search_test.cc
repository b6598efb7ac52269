// SPDX-License-Identifier: BSD-3-Clause
#include "shared/lane_search.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace weir {
namespace {

constexpr std::uint32_t generation = 77;

struct alignas(64) Line {
  std::array<std::uint32_t, 8> tags;
  std::array<std::uint32_t, 8> words;
};

/// A key, and what lies between its hash and the next one's.
template <std::size_t stride>
struct Spaced {
  std::uint64_t hash;
  std::array<std::byte, stride - 8> other;
};
template <>
struct Spaced<8> {
  std::uint64_t hash;
};

class LaneSearches : public ::testing::TestWithParam<InstructionSet> {
 protected:
  LaneSearches() : lines_(5) {
    for (Line& line : lines_)
      for (std::uint32_t& tag : line.tags) tag = static_cast<std::uint32_t>(random_()) | 1;
    for (Line& line : lines_) line.tags[7] = generation;
  }
  void SetUp() override {
    if (!has_instruction_set(GetParam())) GTEST_SKIP() << "not on this machine";
  }
  const LaneSearch& search() const { return lane_search_of(GetParam()); }
  HomeLines home_lines() { return {reinterpret_cast<std::byte*>(lines_.data()), lines_.size()}; }
  std::byte* word(std::size_t line, std::size_t lane) {
    return reinterpret_cast<std::byte*>(&lines_[line].words[lane]);
  }
  /// A hash whose home is the line.
  std::uint64_t hash_of(std::size_t line, std::uint32_t tag) const {
    const std::uint64_t step = ~std::uint64_t{0} / lines_.size();
    return ((line * step + step / 2) & ~std::uint64_t{0xffffffff}) | tag;
  }

  std::mt19937_64 random_{1};
  std::vector<Line> lines_;
};

template <typename Keys>
Hashes hashes_of(const Keys& keys, std::size_t count) {
  return {reinterpret_cast<const std::byte*>(keys.data()), sizeof keys[0], count};
}

TEST_P(LaneSearches, FindEveryKeyInItsHomeLineWhateverItsLane) {
  for (std::size_t line = 0; line < lines_.size(); ++line)
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const std::array<std::uint64_t, 1> key{hash_of(line, lines_[line].tags[lane])};
      std::byte* found = nullptr;
      EXPECT_EQ(search().find(home_lines(), hashes_of(key, 1), &found), 0U);
      EXPECT_EQ(found, word(line, lane));
      found = nullptr;
      // The eighth is no key's where it tells what the line holds for.
      const bool is_key = lane < 7;
      EXPECT_EQ(search().find_of_generation(home_lines(), generation, hashes_of(key, 1), &found),
                is_key ? 0U : 1U);
      EXPECT_EQ(found, is_key ? word(line, lane) : nullptr);
    }
}

TEST_P(LaneSearches, FindNoKeyOfAnotherLineOrAnotherTag) {
  std::array<std::byte*, 2> found{};
  const std::array<std::uint64_t, 2> keys{hash_of(1, lines_[2].tags[3]),
                                          hash_of(4, lines_[4].tags[0] ^ 1U << 31)};
  EXPECT_EQ(search().find(home_lines(), hashes_of(keys, 2), found.data()), 3U);
  EXPECT_EQ(search().find_of_generation(home_lines(), generation, hashes_of(keys, 2), found.data()), 3U);
  EXPECT_EQ(found[0], nullptr);
  EXPECT_EQ(found[1], nullptr);
}

TEST_P(LaneSearches, FindNothingInALineOfAnotherGeneration) {
  lines_[3].tags[7] = generation + 1;
  std::array<std::byte*, 2> found{};
  const std::array<std::uint64_t, 2> keys{hash_of(2, lines_[2].tags[6]), hash_of(3, lines_[3].tags[6])};
  EXPECT_EQ(search().find_of_generation(home_lines(), generation, hashes_of(keys, 2), found.data()), 2U);
  EXPECT_EQ(found[0], word(2, 6));
  EXPECT_EQ(search().find_of_generation(home_lines(), generation + 1, hashes_of(keys, 2), found.data()), 1U);
  EXPECT_EQ(found[1], word(3, 6));
}

TEST_P(LaneSearches, OfSeveralLanesWithTheTagTellTheFirst) {
  lines_[0].tags[2] = lines_[0].tags[5] = 9;
  std::byte* found = nullptr;
  const std::array<std::uint64_t, 1> key{hash_of(0, 9)};
  EXPECT_EQ(search().find(home_lines(), hashes_of(key, 1), &found), 0U);
  EXPECT_EQ(found, word(0, 2));
  EXPECT_EQ(search().find_of_generation(home_lines(), generation, hashes_of(key, 1), &found), 0U);
  EXPECT_EQ(found, word(0, 2));
}

template <std::size_t stride>
void expect_as_portable(const LaneSearch& search, HomeLines lines, std::span<const std::uint64_t> keys) {
  std::array<Spaced<stride>, 32> spaced;
  for (std::size_t count = 0; count <= spaced.size(); ++count) {
    for (std::size_t i = 0; i < count; ++i) spaced[i].hash = keys[i];
    const Hashes hashes = hashes_of(spaced, count);
    const auto expect_alike = [&](auto&& find) {
      std::array<std::byte*, 32> expected{};
      std::array<std::byte*, 32> found{};
      ASSERT_EQ(find(search, found.data()), find(lane_search_portable, expected.data()));
      ASSERT_EQ(found, expected);
    };
    expect_alike([&](const LaneSearch& one, std::byte** words) { return one.find(lines, hashes, words); });
    expect_alike([&](const LaneSearch& one, std::byte** words) {
      return one.find_of_generation(lines, generation, hashes, words);
    });
  }
}

TEST_P(LaneSearches, FindInABurstWhatThePortableOneFinds) {
  for (int run = 0; run < 200; ++run) {
    for (Line& line : lines_)
      line.tags[7] = random_() % 4 == 0 ? static_cast<std::uint32_t>(random_()) : generation;
    std::array<std::uint64_t, 32> keys;
    for (std::uint64_t& key : keys) {
      const std::size_t line = random_() % lines_.size();
      key = hash_of(line, random_() % 3 == 0 ? static_cast<std::uint32_t>(random_()) | 1
                                             : lines_[line].tags[random_() % 8]);
    }
    expect_as_portable<8>(search(), home_lines(), keys);
    expect_as_portable<32>(search(), home_lines(), keys);
  }
}

std::string name_of(const ::testing::TestParamInfo<InstructionSet>& set) {
  constexpr std::array<const char*, 4> names{"portable", "sse2", "avx2", "avx512"};
  return names[static_cast<std::size_t>(set.param)];
}

INSTANTIATE_TEST_SUITE_P(Of, LaneSearches,
                         ::testing::Values(InstructionSet::portable, InstructionSet::sse2,
                                           InstructionSet::avx2, InstructionSet::avx512),
                         name_of);

}  // namespace
}  // namespace weir
