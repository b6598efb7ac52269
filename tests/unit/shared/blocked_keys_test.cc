// SPDX-License-Identifier: BSD-3-Clause
// Which keys are blocked for how long, by a set that publications share.
#include "shared/blocked_keys.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>

namespace weir {
namespace {

using namespace std::chrono_literals;

/// Makes room where there is none.
void add(BlockedKeys& keys, std::uint64_t key, MonotonicTime until) {
  if (!keys.has_room(1)) {
    BlockedKeys larger;
    larger.assign(keys, MonotonicTime::min(), 1);
    keys = larger;
  }
  keys.add(key, until);
}
bool filter_holds(const BlockedKeys& keys, std::uint64_t key) {
  return keys.filter().may_hold(static_cast<std::uint32_t>(key));
}

TEST(BlockedKeys, AreNoneAtFirst) {
  const BlockedKeys keys;
  EXPECT_EQ(keys.find(1), never);
  EXPECT_EQ(keys.size(), 0U);
  EXPECT_FALSE(keys.has_room(1));
  EXPECT_FALSE(filter_holds(keys, 1));
}

TEST(BlockedKeys, AreFoundUntilWhenTheyAreBlockedAndNoOthersAre) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::map<std::uint64_t, MonotonicTime> wanted;
    BlockedKeys keys;
    for (std::uint64_t i = random() % 2000; i > 0; --i) {
      const std::uint64_t key = random() | 1;
      wanted[key] = MonotonicTime(Duration(i));
      add(keys, key, MonotonicTime(Duration(i)));
    }
    EXPECT_EQ(keys.size(), wanted.size());
    for (const auto& [key, until] : wanted) {
      ASSERT_EQ(keys.find(key), until);
      ASSERT_TRUE(filter_holds(keys, key));
    }
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(keys.find(random() << 1 | (i == 0 ? 2 : 0)), never);
  }
}

TEST(BlockedKeys, OfAKeyThatComesTwiceTheLaterEndHolds) {
  BlockedKeys keys;
  for (const auto until : {2s, 3s, 1s}) add(keys, 7, MonotonicTime(until));
  EXPECT_EQ(keys.find(7), MonotonicTime(3s));
  EXPECT_EQ(keys.size(), 1U);
}

TEST(BlockedKeys, AreCopiedButForThoseWhoseBlocksEndEarlier) {
  constexpr std::uint64_t count = 4000;
  std::mt19937_64 random(11);
  std::map<std::uint64_t, MonotonicTime> all;
  BlockedKeys first;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t key = random() | 1;
    all[key] = MonotonicTime(Duration(random() % 100));
    add(first, key, all[key]);
  }
  const MonotonicTime from{50ns};
  BlockedKeys second;
  second.assign(first, from, 10);
  std::size_t kept = 0;
  std::size_t still_filtered = 0;
  for (const auto& [key, until] : all) {
    EXPECT_EQ(first.find(key), until);
    EXPECT_EQ(second.find(key), until >= from ? until : never);
    kept += until >= from;
    if (until < from) still_filtered += filter_holds(second, key);
  }
  EXPECT_EQ(second.size(), kept);
  EXPECT_LT(still_filtered, (count - kept) / 20) << "they may have grants again";
  EXPECT_TRUE(second.has_room(10));
  for (std::uint64_t key = 2; second.has_room(1); key += 2) second.add(key, from);
  EXPECT_EQ(first.find(2), never);
  for (const auto& [key, until] : all) {
    if (until < from) continue;
    ASSERT_EQ(second.find(key), until);
  }
}

}  // namespace
}  // namespace weir
