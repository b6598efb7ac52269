// SPDX-License-Identifier: BSD-3-Clause
// Which keys are blocked for how long, by a set that publications share.
#include "shared/blocked_keys.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace weir {
namespace {

using namespace std::chrono_literals;

/// As who publishes does: what has been is left as it is, and all are brought together where there is no
/// room.
void add(BlockedKeys& keys, const std::vector<KeyBlock>& more) {
  BlockedKeys next;
  if (keys.has_room(more.size()))
    next.extend(keys, more);
  else
    next.assign(keys, MonotonicTime::min(), more);
  keys = next;
}
void add(BlockedKeys& keys, std::uint64_t key, MonotonicTime until) { add(keys, {{key, until}}); }
KeyFilter filter_of(const BlockedKeys& keys, std::size_t more = 0) {
  KeyFilter filter;
  keys.fill(filter, more);
  return filter;
}
bool holds(const KeyFilter& filter, std::uint64_t key) {
  return filter.may_hold(static_cast<std::uint32_t>(key));
}

TEST(BlockedKeys, AreNoneAtFirst) {
  const BlockedKeys keys;
  EXPECT_EQ(keys.find(1), never);
  EXPECT_EQ(keys.size(), 0U);
  EXPECT_FALSE(holds(filter_of(keys), 1));
}

TEST(BlockedKeys, AreFoundUntilWhenTheyAreBlockedAndNoOthersAre) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::map<std::uint64_t, MonotonicTime> wanted;
    BlockedKeys keys;
    for (std::uint64_t i = random() % 100; i > 0; --i) {
      std::vector<KeyBlock> some;
      for (std::uint64_t j = random() % 200; j > 0; --j) {
        some.push_back({random() | 1, MonotonicTime(Duration(i))});
        wanted[some.back().key] = some.back().until;
      }
      add(keys, some);
    }
    EXPECT_EQ(keys.size(), wanted.size());
    const KeyFilter filter = filter_of(keys);
    for (const auto& [key, until] : wanted) {
      ASSERT_EQ(keys.find(key), until);
      ASSERT_TRUE(holds(filter, key));
    }
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(keys.find(random() << 1 | (i == 0 ? 2 : 0)), never);
  }
}

// Whether it came long ago, lately, or both.
TEST(BlockedKeys, OfAKeyThatComesTwiceTheLaterEndHolds) {
  BlockedKeys keys;
  for (const auto until : {2s, 3s, 1s}) add(keys, 7, MonotonicTime(until));
  EXPECT_EQ(keys.find(7), MonotonicTime(3s));
  EXPECT_EQ(keys.size(), 1U);
  BlockedKeys together;
  together.assign(keys, MonotonicTime::min(), std::vector<KeyBlock>{{7, MonotonicTime(2s)}});
  EXPECT_EQ(together.find(7), MonotonicTime(3s));
  EXPECT_EQ(together.size(), 1U);
  add(together, 7, MonotonicTime(2s));
  EXPECT_EQ(together.find(7), MonotonicTime(3s));
  add(together, 7, MonotonicTime(5s));
  add(together, 7, MonotonicTime(4s));
  EXPECT_EQ(together.find(7), MonotonicTime(5s));
  keys.assign(together, MonotonicTime::min(), {});
  EXPECT_EQ(keys.find(7), MonotonicTime(5s));
  EXPECT_EQ(keys.size(), 1U);
}

// So many that there are some in both parts.
struct ManyBlockedKeys : ::testing::Test {
  static constexpr std::size_t count = 6000;

  ManyBlockedKeys() {
    std::vector<KeyBlock> most, more;
    for (std::size_t i = 0; i < count; ++i) {
      (i < count - 1000 ? most : more).push_back({random() | 1, MonotonicTime(Duration(random() % 100))});
      all[(i < count - 1000 ? most : more).back().key] = (i < count - 1000 ? most : more).back().until;
    }
    BlockedKeys earlier;
    earlier.assign(BlockedKeys(), MonotonicTime::min(), most);
    EXPECT_TRUE(earlier.has_room(more.size()));
    keys.extend(earlier, more);
  }

  std::mt19937_64 random{11};
  std::map<std::uint64_t, MonotonicTime> all;
  BlockedKeys keys;
};

TEST_F(ManyBlockedKeys, AreBroughtTogetherButForThoseWhoseBlocksEndEarlier) {
  const MonotonicTime from{50ns};
  BlockedKeys second;
  second.assign(keys, from, {});
  std::size_t kept = 0;
  std::size_t still_filtered = 0;
  const KeyFilter filter = filter_of(second);
  for (const auto& [key, until] : all) {
    EXPECT_EQ(keys.find(key), until);
    EXPECT_EQ(second.find(key), until >= from ? until : never);
    kept += until >= from;
    if (until < from) still_filtered += holds(filter, key);
  }
  EXPECT_EQ(second.size(), kept);
  EXPECT_LT(still_filtered, (count - kept) / 20) << "they may have grants again";
}

TEST_F(ManyBlockedKeys, AreAddedToCopiesUntilTheseAreASixteenthOfThem) {
  EXPECT_TRUE(keys.has_room(24 + (count - 1000) / 16));
  EXPECT_FALSE(keys.has_room(25 + (count - 1000) / 16));
  BlockedKeys second;
  second.extend(keys, std::vector<KeyBlock>{{2, MonotonicTime(1s)}});
  EXPECT_EQ(keys.find(2), never);
  EXPECT_EQ(second.find(2), MonotonicTime(1s));
  for (const auto& [key, until] : all) ASSERT_EQ(second.find(key), until);
  BlockedKeys third;
  third.assign(second, MonotonicTime::min(), {});
  EXPECT_FALSE(third.has_room(1025 + (count + 1) / 16)) << "room anew";
  EXPECT_TRUE(third.has_room(1024 + (count + 1) / 16));
}

TEST_F(ManyBlockedKeys, ShareTheMemoryOfMostOfThem) {
  BlockedKeys second;
  second.extend(keys, std::vector<KeyBlock>{{2, MonotonicTime(1s)}});
  EXPECT_LT(second.memory_beside(keys), second.memory() / 2);
  EXPECT_GT(second.memory(), count * sizeof(KeyBlock));
  BlockedKeys third;
  third.assign(second, MonotonicTime::min(), {});
  EXPECT_EQ(third.memory_beside(keys), third.memory());
}

TEST_F(ManyBlockedKeys, FillAFilterThatHasRoomForMore) {
  KeyFilter filter = filter_of(keys, 10 * count);
  EXPECT_GE(filter.memory(), 10 * count * 2);
  for (std::size_t i = 0; i < 10 * count; ++i) filter.add(random());
  std::size_t others = 0;
  for (int i = 0; i < 1000; ++i) others += holds(filter, random());
  EXPECT_LT(others, 100U);
  for (const auto& [key, until] : all) ASSERT_TRUE(holds(filter, key));
}

}  // namespace
}  // namespace weir
