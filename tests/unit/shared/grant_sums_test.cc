// SPDX-License-Identifier: BSD-3-Clause
#include "shared/grant_sums.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <tuple>
#include <vector>

namespace weir {
namespace {

using Sums = std::vector<std::tuple<std::uint64_t, RuleIndex, std::uint32_t>>;

Sums take(GrantSums& sums) {
  Sums taken;
  sums.take([&](const GrantUse& use) { taken.emplace_back(use.key, use.rule, use.admitted); });
  return taken;
}

/// Keys that differ in both halves.
std::uint64_t key_of(std::uint32_t number) { return std::uint64_t{number} << 32 | number; }

TEST(GrantSums, WhatSeveralHaveUsedOfAKeyIsOneSum) {
  GrantSums sums;
  EXPECT_TRUE(take(sums).empty());
  sums.add(63, {key_of(7), 2, 5});
  sums.add(63, {key_of(9), 3, 1});
  sums.add(63, {key_of(9), 3, 2});
  sums.add(63, {key_of(7), 2, 2047});
  EXPECT_EQ(take(sums), (Sums{{key_of(7), 2, 2052}, {key_of(9), 3, 3}}));
}

TEST(GrantSums, WhatHasBeenTakenIsForgotten) {
  GrantSums sums;
  sums.add(0, {key_of(7), 0, 5});
  take(sums);
  EXPECT_TRUE(take(sums).empty());
  sums.add(0, {key_of(7), 0, 1});
  EXPECT_EQ(take(sums), (Sums{{key_of(7), 0, 1}}));
}

TEST(GrantSums, KeysThatLookAlikeAreToldApart) {
  GrantSums sums;
  const std::uint64_t other = key_of(7) | std::uint64_t{1} << 63;
  for (int i = 0; i < 3; ++i) {
    sums.add(5, {key_of(7), 0, 1});
    sums.add(5, {other, 1, 10});
  }
  std::map<std::uint64_t, std::uint32_t> of;
  for (const auto& [key, rule, admitted] : take(sums)) of[key] += admitted;
  EXPECT_EQ(of, (std::map<std::uint64_t, std::uint32_t>{{key_of(7), 3}, {other, 30}}));
  EXPECT_TRUE(take(sums).empty());
}

TEST(GrantSums, NothingIsLostOfMoreKeysThanALineHasLanes) {
  std::mt19937_64 random(5);
  GrantSums sums;
  for (int turn = 0; turn < 20; ++turn) {
    std::map<std::uint64_t, std::uint32_t> used;
    std::map<std::uint64_t, RuleIndex> rules;
    for (int i = 0; i < 5000; ++i) {
      const auto line = random() % GrantTable::lines_per_group;
      // Some lines have fewer keys, some more; no key is in two of them.
      const auto key = key_of(static_cast<std::uint32_t>(1 + line + 64 * (random() % (1 + line / 4))));
      const GrantUse use{key, static_cast<RuleIndex>(key % 1000),
                         static_cast<std::uint32_t>(random() % 2048)};
      sums.add(line, use);
      used[key] += use.admitted;
      rules[key] = use.rule;
    }
    std::map<std::uint64_t, std::uint32_t> summed;
    for (const auto& [key, rule, admitted] : take(sums)) {
      summed[key] += admitted;
      ASSERT_EQ(rule, rules[key]);
    }
    ASSERT_EQ(summed, used) << "turn " << turn;
  }
}

}  // namespace
}  // namespace weir
