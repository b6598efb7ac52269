// SPDX-License-Identifier: BSD-3-Clause
#include "shared/span_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace weir {
namespace {

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(SpanTable, FindsWhatWasInserted) {
  SpanTable table(100, 1);
  SpanEntry* entry = table.insert(42, 0, bytes("name"));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(table.find(42), entry);
  EXPECT_EQ(table.find(43), nullptr);
  EXPECT_EQ(table.size(), 1U);
}

TEST(SpanTable, ADrainSeesEveryEntryOnceWithItsNameAndCounts) {
  std::mt19937_64 random(5);
  SpanTable table(1000, 1);
  std::map<std::uint64_t, std::pair<std::string, std::uint64_t>> expected;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t key = random() | 1;
    const std::string name = "key" + std::to_string(i);
    SpanEntry* entry = table.insert(key, 0, bytes(name));
    ASSERT_NE(entry, nullptr);
    entry->offered = random() % 100;
    expected[key] = {name, entry->offered};
  }
  table.for_each([&](std::uint64_t key, const SpanEntry& entry, std::span<const std::byte> name) {
    ASSERT_TRUE(expected.contains(key));
    EXPECT_EQ(expected[key].second, entry.offered);
    EXPECT_EQ(expected[key].first, std::string(reinterpret_cast<const char*>(name.data()), name.size()));
    expected.erase(key);
  });
  EXPECT_TRUE(expected.empty());
}

TEST(SpanTable, HoldsTheKeysItWasMadeFor) {
  std::mt19937_64 random(6);
  for (const std::uint32_t keys : {64U, 1000U, 65536U}) {
    SpanTable table(keys, 1);
    std::uint32_t refused = 0;
    for (std::uint32_t i = 0; i < keys; ++i)
      refused += table.insert(random() | 1, 0, bytes("203.0.113.7")) == nullptr;
    EXPECT_EQ(refused, 0U) << keys;
  }
}

TEST(SpanTable, RefusesWhatDoesNotFitAndKeepsTheRest) {
  std::mt19937_64 random(7);
  SpanTable table(64, 1);
  std::vector<std::uint64_t> held;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t key = random() | 1;
    if (table.insert(key, 0, bytes("x")) != nullptr) held.push_back(key);
  }
  EXPECT_GE(held.size(), 64U);
  EXPECT_LT(held.size(), 1000U);
  for (std::uint64_t key : held) EXPECT_NE(table.find(key), nullptr);
}

TEST(SpanTable, RefusesWhenThereIsNoMoreRoomForNames) {
  std::mt19937_64 random(8);
  SpanTable table(64, 1);
  const std::string long_name(400, 'n');
  int held = 0;
  for (int i = 0; i < 64; ++i) held += table.insert(random() | 1, 0, bytes(long_name)) != nullptr;
  EXPECT_GT(held, 0);
  EXPECT_LT(held, 64);
}

TEST(SpanTable, ClearedItIsAsNew) {
  SpanTable table(64, 2);
  table.insert(42, 0, bytes("x"))->offered = 9;
  table.overflow(1).offered = 3;
  table.clear();
  EXPECT_EQ(table.find(42), nullptr);
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.overflows()[1].offered, 0U);
  EXPECT_EQ(table.insert(42, 0, bytes("x"))->offered, 0U);
}

TEST(SpanTable, WhatADecisionTouchesIsOneCacheLine) {
  EXPECT_EQ(sizeof(SpanEntry), 64U);
  EXPECT_EQ(alignof(SpanEntry), 64U);
  EXPECT_EQ(sizeof(AllowanceCell), 32U);
}

}  // namespace
}  // namespace weir
