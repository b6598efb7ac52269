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

/// As weir::Key is laid out.
struct KeyOfRule {
  std::array<std::byte, 16> value{};
  std::uint32_t times = 1;
  std::uint16_t rule = 0;
  std::uint16_t form = 0xffff;
  std::uint64_t hash = 0;
};
static_assert(sizeof(KeyOfRule) == Hashes::in_keys);

Hashes hashes_of(std::span<const KeyOfRule> keys) {
  return {reinterpret_cast<const std::byte*>(&keys[0].hash), sizeof keys[0], keys.size()};
}

template <typename Keys>
Hashes hashes_of(const Keys& keys, std::size_t count) {
  return {reinterpret_cast<const std::byte*>(keys.data()), sizeof keys[0], count};
}

/// Lines that are all full, each of the same generation.
class LaneSearches : public ::testing::TestWithParam<InstructionSet> {
 protected:
  static constexpr std::size_t homes = 5;
  static constexpr std::size_t probed = 3;

  LaneSearches() : lines_(homes + probed - 1) {
    for (Line& line : lines_) {
      for (std::uint32_t& tag : line.tags) tag = static_cast<std::uint32_t>(random_()) | 1;
      line.tags[7] = generation;
      line.words.fill(0);
    }
  }
  void SetUp() override {
    if (!has_instruction_set(GetParam())) GTEST_SKIP() << "not on this machine";
  }
  const LaneSearch& search() const { return lane_search_of(GetParam()); }
  TableLines table() { return table_of(lines_); }
  static TableLines table_of(std::vector<Line>& lines) {
    return {reinterpret_cast<std::byte*>(lines.data()), homes, probed};
  }
  std::byte* word(std::size_t line, std::size_t lane) {
    return reinterpret_cast<std::byte*>(&lines_[line].words[lane]);
  }
  /// A hash whose home is the line.
  static std::uint64_t hash_of(std::size_t line, std::uint32_t tag) {
    const std::uint64_t step = ~std::uint64_t{0} / homes;
    return ((line * step + step / 2) & ~std::uint64_t{0xffffffff}) | tag;
  }
  /// Where a key is, or nullptr.
  std::byte* found(std::uint64_t key) {
    std::byte* word = nullptr;
    const std::array keys{key};
    const std::uint32_t missing = search().find(table(), hashes_of(keys, 1), &word);
    EXPECT_EQ(missing, word == nullptr ? 1U : 0U);
    return word;
  }
  std::byte* found_of_generation(std::uint64_t key, std::uint32_t of = generation) {
    std::byte* word = nullptr;
    const std::array keys{key};
    const std::uint32_t missing = search().find_of_generation(table(), of, hashes_of(keys, 1), &word);
    EXPECT_EQ(missing, word == nullptr ? 1U : 0U);
    return word;
  }
  std::vector<std::uint8_t> others_of_grants(std::span<const std::uint64_t> keys,
                                             const GrantPortion& portion) {
    std::vector<std::uint8_t> others(keys.size());
    others.resize(
        search().use(table(), hashes_of(keys, keys.size()), Hashes::none(), portion, others.data()));
    return others;
  }
  std::vector<std::uint8_t> others_of_ready(std::span<const std::uint64_t> keys, std::uint32_t weight) {
    std::vector<std::uint8_t> others(keys.size());
    others.resize(search().take(table(), generation, hashes_of(keys, keys.size()), Hashes::none(), weight,
                                others.data()));
    return others;
  }

  std::mt19937_64 random_{1};
  std::vector<Line> lines_;
};

using Numbers = std::vector<std::uint8_t>;

TEST_P(LaneSearches, MakeNumbersOfTheHashesOfABurstAndOfNothingBehindIt) {
  std::array<std::uint64_t, 33> hashes;
  for (std::size_t i = 0; i < hashes.size(); ++i)
    hashes[i] = i % 3 == 1 ? hash_of(i % homes, 0) : random_() % 5 == 0 ? random_() | 0xffffffff : random_();
  for (std::size_t count = 0; count < hashes.size(); ++count) {
    std::array<std::uint64_t, 33> numbers = hashes;
    search().ask(table(), numbers.data(), count);
    for (std::size_t i = 0; i < hashes.size(); ++i)
      EXPECT_EQ(numbers[i], i < count ? number_of_key(hashes[i]) : hashes[i]) << i << " of " << count;
  }
}

TEST_P(LaneSearches, FindEveryKeyInItsHomeLineWhateverItsLane) {
  for (std::size_t line = 0; line < homes; ++line)
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const std::uint64_t key = hash_of(line, lines_[line].tags[lane]);
      EXPECT_EQ(found(key), word(line, lane));
      // The eighth is no key's where it tells what the line holds for.
      if (lane < 7) {
        EXPECT_EQ(found_of_generation(key), word(line, lane));
      }
    }
  EXPECT_EQ(found_of_generation(hash_of(2, generation)), nullptr);
}

TEST_P(LaneSearches, FindAKeyBehindItsHomeAsLongAsLinesAreFull) {
  const std::uint64_t next = hash_of(1, lines_[2].tags[6]);
  const std::uint64_t last = hash_of(1, lines_[3].tags[0]);
  const std::uint64_t beyond = hash_of(1, lines_[4].tags[3]);
  const auto expect_found = [&](auto&& find) {
    EXPECT_EQ(find(next), word(2, 6));
    EXPECT_EQ(find(last), word(3, 0));
    EXPECT_EQ(find(beyond), nullptr) << "so many lines are not probed";
    EXPECT_EQ(find(hash_of(1, lines_[0].tags[3])), nullptr) << "before its home";
    EXPECT_EQ(find(hash_of(4, lines_[4].tags[0] ^ 1U << 31)), nullptr) << "of nobody's tag";
  };
  expect_found([&](std::uint64_t key) { return found(key); });
  expect_found([&](std::uint64_t key) { return found_of_generation(key); });
  lines_[2].tags[6] = 0;
  EXPECT_EQ(found(last), word(3, 0));
  EXPECT_EQ(found_of_generation(last), nullptr) << "the line before has a free lane";
  lines_[2].tags[7] = 0;
  EXPECT_EQ(found(last), nullptr);
}

TEST_P(LaneSearches, FindNothingInALineOfAnotherGeneration) {
  lines_[2].tags[7] = generation + 1;
  const std::uint64_t key = hash_of(2, lines_[2].tags[6]);
  EXPECT_EQ(found_of_generation(key), nullptr);
  EXPECT_EQ(found_of_generation(key, generation + 1), word(2, 6));
  EXPECT_EQ(found_of_generation(hash_of(2, lines_[3].tags[1])), word(3, 1))
      << "a line between may be of another";
  lines_[3].tags[4] = lines_[2].tags[6];
  EXPECT_EQ(found_of_generation(key), nullptr) << "that is another key, which looks alike";
}

TEST_P(LaneSearches, OfSeveralLanesWithTheTagTellTheFirst) {
  lines_[0].tags[2] = lines_[0].tags[5] = 9;
  EXPECT_EQ(found(hash_of(0, 9)), word(0, 2));
  EXPECT_EQ(found_of_generation(hash_of(0, 9)), word(0, 2));
}

TEST_P(LaneSearches, UseGrantsThatRunAndAreEnough) {
  for (const std::uint32_t number : {6U, 7U}) {  // of either half
    SCOPED_TRACE(number);
    const GrantWindow window(number);
    const auto half = [&](std::size_t line, std::size_t lane) -> std::uint16_t& {
      return reinterpret_cast<std::uint16_t*>(word(line, lane))[window.half];
    };
    const std::array keys{hash_of(0, lines_[0].tags[1]), hash_of(0, lines_[0].tags[2]),
                          hash_of(0, lines_[0].tags[3]), hash_of(1, lines_[2].tags[4]),
                          hash_of(0, lines_[0].tags[1]), hash_of(0, lines_[0].tags[6])};
    const auto stamp = static_cast<std::uint16_t>(window.stamp);
    constexpr std::uint16_t closed = 0x800;
    const std::uint16_t of_another = static_cast<std::uint16_t>(GrantWindow(number + 2).stamp | 1);
    for (Line& line : lines_) line.words.fill(0);
    half(0, 1) = stamp | 3;
    half(0, 2) = stamp | closed;
    half(0, 3) = of_another;
    half(2, 4) = stamp | 5;
    half(0, 6) = stamp | 6;
    const std::vector<Line> before = lines_;
    EXPECT_EQ(others_of_grants(keys, {.weight = 3, .most = 8, .window = window}), (Numbers{1, 2, 4, 5}));
    EXPECT_EQ(half(0, 1), stamp | 6) << "once; it would be 9";
    EXPECT_EQ(half(0, 2), stamp | closed);
    EXPECT_EQ(half(0, 3), of_another);
    EXPECT_EQ(half(2, 4), stamp | 8);
    EXPECT_EQ(half(0, 6), stamp | 6);
    half(0, 1) = stamp | 3;
    half(2, 4) = stamp | 5;
    for (std::size_t line = 0; line < lines_.size(); ++line)
      EXPECT_EQ(lines_[line].words, before[line].words) << "another word has changed";
  }
}

TEST_P(LaneSearches, UseGrantsOfSeveralRulesInAnyOrderAsOftenAsTheyWeigh) {
  const GrantWindow first(6);
  const GrantWindow second(7);
  std::array<std::uint64_t, 4> used{};
  const std::array<RuleUse, 4> uses{{
      {{.weight = 1, .most = 8, .window = first}, &used[0]},
      {{.weight = 3, .most = 7, .window = second}, &used[1]},
      {{.weight = 1, .most = 0, .window = first}, &used[2]},
      {{.weight = 0xffffffff, .most = 0x7ff, .window = first}, &used[3]},
  }};
  const auto half = [&](std::size_t line, std::size_t lane, const GrantWindow& window) -> std::uint16_t& {
    return reinterpret_cast<std::uint16_t*>(word(line, lane))[window.half];
  };
  half(0, 1, first) = static_cast<std::uint16_t>(first.stamp | 4);
  half(2, 4, second) = static_cast<std::uint16_t>(second.stamp | 1);
  half(3, 0, first) = static_cast<std::uint16_t>(first.stamp);
  half(3, 1, first) = static_cast<std::uint16_t>(second.stamp ^ 0x1000);
  const std::uint64_t of_first = hash_of(0, lines_[0].tags[1]);
  const std::uint64_t of_second = hash_of(1, lines_[2].tags[4]);
  const std::uint64_t of_none = hash_of(3, lines_[3].tags[0]);
  const std::array<KeyOfRule, 12> keys{{
      {.times = 1, .rule = 0, .hash = of_first},                       // 5
      {.times = 1, .rule = 1, .hash = of_second},                      // 4
      {.times = 3, .rule = 0, .hash = of_first},                       // 8
      {.times = 1, .rule = 0, .hash = of_first},                       // 9: left
      {.times = 2, .rule = 1, .hash = of_second},                      // 10: left
      {.times = 0, .rule = 1, .hash = of_second},                      // a look: left
      {.times = 1, .rule = 1, .hash = of_second},                      // 7
      {.times = 1, .rule = 2, .hash = of_none},                        // not to be used: left
      {.times = 0xffffffff, .rule = 3, .hash = of_none},               // left, whatever the product wraps to
      {.times = 1, .rule = 0, .hash = hash_of(3, lines_[3].tags[1])},  // of another window: left
      {.times = 1, .rule = 0, .hash = hash_of(2, 8)},                  // nowhere: left
      {.times = 1, .rule = 0, .hash = of_none},                        // 1
  }};
  Numbers others(keys.size());
  others.resize(search().use_of_rules(table(), hashes_of(keys), uses.data(), others.data()));
  EXPECT_EQ(others, (Numbers{3, 4, 5, 7, 8, 9, 10}));
  EXPECT_EQ(half(0, 1, first), first.stamp | 8);
  EXPECT_EQ(half(2, 4, second), second.stamp | 7);
  EXPECT_EQ(half(3, 0, first), first.stamp | 1);
  EXPECT_EQ(half(3, 1, first), second.stamp ^ 0x1000);
  EXPECT_EQ(used, (std::array<std::uint64_t, 4>{3, 2, 0, 0}));
}

TEST_P(LaneSearches, TakeWhatIsReadyOfTheGeneration) {
  const std::array keys{
      hash_of(0, lines_[0].tags[1]), hash_of(3, lines_[3].tags[0]), hash_of(1, 8),
      hash_of(0, lines_[1].tags[6]), hash_of(0, lines_[0].tags[1]), hash_of(3, lines_[3].tags[0])};
  lines_[0].words[1] = 10;
  lines_[1].words[6] = 0x7fffffff;
  lines_[3].words[0] = 100;
  lines_[3].tags[7] = generation + 1;
  EXPECT_EQ(others_of_ready(keys, 6), (Numbers{1, 2, 4, 5}));
  EXPECT_EQ(lines_[0].words[1], 4U);
  EXPECT_EQ(lines_[1].words[6], 0x7fffffffU - 6);
  EXPECT_EQ(lines_[3].words[0], 100U);
  EXPECT_EQ(others_of_ready(std::span(keys).first(1), 4), Numbers{});
  EXPECT_EQ(others_of_ready(std::span(keys).first(1), 1), Numbers{0});
}

TEST_P(LaneSearches, TakeNothingWhereTheWordSaysThatNothingIsReadyWhateverElseItSays) {
  const std::array keys{hash_of(0, lines_[0].tags[1]), hash_of(0, lines_[0].tags[2]),
                        hash_of(0, lines_[0].tags[3])};
  lines_[0].words = {0, TableLines::nothing_ready, TableLines::nothing_ready | 1000, 0xffffffff};
  for (const std::uint32_t weight : {1U, 1000U, TableLines::nothing_ready - 1})
    EXPECT_EQ(others_of_ready(keys, weight), (Numbers{0, 1, 2})) << weight;
  EXPECT_EQ(lines_[0].words[2], TableLines::nothing_ready | 1000);
}

template <std::size_t stride>
void expect_as_portable(const LaneSearch& search, std::span<const Line> lines,
                        std::span<const std::uint64_t> keys, TableLines (*table_of)(std::vector<Line>&)) {
  std::array<Spaced<stride>, 32> spaced;
  for (std::size_t count = 0; count <= spaced.size(); ++count) {
    for (std::size_t i = 0; i < count; ++i) spaced[i].hash = keys[i];
    const Hashes hashes = hashes_of(spaced, count);
    const Hashes next = stride == Hashes::in_keys && count % 3 != 0 ? hashes : Hashes::none();
    const auto expect_alike = [&](auto&& does) {
      std::vector<Line> its(lines.begin(), lines.end());
      std::vector<Line> expected(lines.begin(), lines.end());
      ASSERT_EQ(does(search, its), does(lane_search_portable, expected));
      for (std::size_t line = 0; line < lines.size(); ++line)
        ASSERT_EQ(its[line].words, expected[line].words);
    };
    const auto places = [&](std::uint32_t missing, const std::array<std::byte*, 32>& words,
                            std::vector<Line>& of) {
      std::vector<std::ptrdiff_t> found{missing};
      for (std::size_t i = 0; i < count; ++i)
        if ((missing >> i & 1) == 0) found.push_back(words[i] - reinterpret_cast<std::byte*>(of.data()));
      return found;
    };
    expect_alike([&](const LaneSearch& one, std::vector<Line>& of) {
      std::array<std::byte*, 32> words;
      return places(one.find(table_of(of), hashes, words.data()), words, of);
    });
    expect_alike([&](const LaneSearch& one, std::vector<Line>& of) {
      std::array<std::byte*, 32> words;
      return places(one.find_of_generation(table_of(of), generation, hashes, words.data()), words, of);
    });
    const auto left = [&](auto&& serve) {
      Numbers others(32);
      others.resize(serve(others.data()));
      return others;
    };
    for (const std::uint32_t number : {4U, 5U})
      expect_alike([&](const LaneSearch& one, std::vector<Line>& of) {
        const GrantPortion portion{.weight = 2, .most = 7, .window = GrantWindow(number)};
        return left(
            [&](std::uint8_t* others) { return one.use(table_of(of), hashes, next, portion, others); });
      });
    expect_alike([&](const LaneSearch& one, std::vector<Line>& of) {
      return left(
          [&](std::uint8_t* others) { return one.take(table_of(of), generation, hashes, next, 3, others); });
    });
  }
}

TEST_P(LaneSearches, DoToABurstWhatThePortableOneDoes) {
  for (int run = 0; run < 100; ++run) {
    for (Line& line : lines_) {
      for (std::uint32_t& tag : line.tags)
        if (tag == 0 || random_() % 16 == 0) tag = static_cast<std::uint32_t>(random_());
      if (random_() % 4 == 0) line.tags[6] = 0;
      line.tags[7] = random_() % 4 == 0 ? static_cast<std::uint32_t>(random_() % 2) : generation;
      for (std::uint32_t& used : line.words)
        used = static_cast<std::uint32_t>(random_() % 10 | GrantWindow(random_() % 8).stamp |
                                          (random_() % 10 | GrantWindow(random_() % 8).stamp) << 16);
    }
    std::array<std::uint64_t, 32> keys;
    for (std::uint64_t& key : keys) {
      const std::size_t home = random_() % homes;
      const std::size_t line = home + (random_() % 3 == 0 ? random_() % probed : 0);
      const std::uint32_t tag = lines_[line].tags[random_() % 8];
      key = hash_of(home, random_() % 5 == 0 || tag == 0 ? static_cast<std::uint32_t>(random_()) | 1 : tag);
    }
    expect_as_portable<8>(search(), lines_, keys, &LaneSearches::table_of);
    expect_as_portable<32>(search(), lines_, keys, &LaneSearches::table_of);
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
