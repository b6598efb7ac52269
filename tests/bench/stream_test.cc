// SPDX-License-Identifier: BSD-3-Clause
#include "decision/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace weir::bench {
namespace {

std::vector<std::uint32_t> indices(std::span<const PlainKey> keys) {
  std::vector<std::uint32_t> found;
  for (const PlainKey& key : keys) found.push_back(key.index);
  return found;
}

TEST(Stream, BringsEveryKeyOnceWhereThatIsAskedFor) {
  constexpr std::size_t keys = 1000;
  const Stream stream(keys, Drawn::once);
  ASSERT_EQ(stream.size(), keys);
  std::vector<std::uint32_t> found = indices(stream.part(0, keys));
  EXPECT_FALSE(std::is_sorted(found.begin(), found.end()));
  std::sort(found.begin(), found.end());
  for (std::uint32_t key = 0; key < keys; ++key) EXPECT_EQ(found[key], key);
}

TEST(Stream, ShowsItsFirstBurstOnceMoreAfterItsLast) {
  for (const Drawn drawn : {Drawn::uniform, Drawn::zipf, Drawn::once}) {
    const Stream stream(1000, drawn);
    EXPECT_EQ(indices(stream.part(stream.size(), burst)), indices(stream.part(0, burst))) << name_of(drawn);
  }
}

TEST(Stream, IsTheSameEachTime) {
  const Stream one(1000, Drawn::zipf);
  const Stream other(1000, Drawn::zipf);
  EXPECT_EQ(indices(one.all()), indices(other.all()));
}

TEST(Stream, DrawsUniformlyFromAllKeys) {
  constexpr std::size_t keys = 1000;
  const Stream stream(keys, Drawn::uniform);
  std::vector<std::size_t> counts(keys);
  for (const std::uint32_t key : indices(stream.part(0, stream.size()))) ++counts.at(key);
  const auto [fewest, most] = std::minmax_element(counts.begin(), counts.end());
  const std::size_t expected = stream.size() / keys;
  EXPECT_GT(*fewest, expected * 3 / 4);
  EXPECT_LT(*most, expected * 5 / 4);
}

TEST(Stream, DrawsTheRanksOfZipfsLaw) {
  constexpr std::size_t keys = 1000;
  const Stream stream(keys, Drawn::zipf);
  std::map<std::uint32_t, std::size_t> counts;
  for (const std::uint32_t key : indices(stream.part(0, stream.size()))) ++counts[key];
  std::vector<std::size_t> by_rank;
  for (const auto& [key, count] : counts) by_rank.push_back(count);
  std::sort(by_rank.rbegin(), by_rank.rend());
  // With an exponent of 0.99 the tenth is drawn 10^-0.99 times as often as the first.
  EXPECT_NEAR(static_cast<double>(by_rank[9]) / static_cast<double>(by_rank[0]), 0.102, 0.01);
}

TEST(Stream, IsSoLongThatMostKeysCome) {
  for (const std::size_t keys : {1000UL, 100'000UL, 1'000'000UL}) {
    EXPECT_GE(Stream::length(keys, Drawn::uniform), 2 * keys);
    EXPECT_EQ(Stream::length(keys, Drawn::uniform) % burst, 0U);
  }
  EXPECT_EQ(Stream::length(10'000'000, Drawn::uniform), std::size_t{1} << 24);
}

TEST(PlainKey, HasTheNameThatGoesWithItsNumber) {
  EXPECT_EQ(PlainKey(17).name(), "user-17");
  EXPECT_EQ(PlainKey(15'999'999).name(), "user-15999999");
  std::set<std::uint64_t> hashes;
  for (std::uint32_t key = 0; key < 1000; ++key) hashes.insert(PlainKey(key).hash);
  EXPECT_EQ(hashes.size(), 1000U);
}

}  // namespace
}  // namespace weir::bench
