// SPDX-License-Identifier: BSD-3-Clause
// Which keys the next publication says no more of than that they are blocked, and which come back.
#include "control/lasting_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Duration margin = 400ms;

LastingBlocks::Key key_of(SlotIndex slot, RuleIndex rule = 0) {
  return {.key = 1000 + slot, .ungranted_since = slot, .slot = slot, .rule = rule};
}
std::vector<SlotIndex> slots_of(std::span<const LastingBlocks::Key> keys) {
  std::vector<SlotIndex> slots;
  for (const LastingBlocks::Key& key : keys) slots.push_back(key.slot);
  return slots;
}

struct LastingBlocksOfOneRule : ::testing::Test {
  std::span<const LastingBlocks::Key> begin(Duration now) { return blocks.begin(MonotonicTime(now), margin); }
  void add(SlotIndex slot, Duration until) { blocks.add(key_of(slot), MonotonicTime(until)); }

  LastingBlocks blocks{1};
};

TEST_F(LastingBlocksOfOneRule, LastForSeveralTimesWhatAPublicationMayHaveToDo) {
  begin(10s);
  EXPECT_FALSE(blocks.lasts(never));
  EXPECT_FALSE(blocks.lasts(MonotonicTime(10s + 4 * margin - 1ns)));
  EXPECT_TRUE(blocks.lasts(MonotonicTime(10s + 4 * margin)));
}

TEST_F(LastingBlocksOfOneRule, ComeBackOnceBeforeTheyEndByTheirSlots) {
  begin(10s);
  for (const SlotIndex slot : {7U, 3U, 5U}) add(slot, 20s);
  add(4, 30s);
  EXPECT_TRUE(begin(20s - margin - 200ms).empty());
  EXPECT_EQ(slots_of(begin(20s - margin)), (std::vector<SlotIndex>{3, 5, 7}));
  EXPECT_TRUE(begin(20s - margin).empty());
  EXPECT_EQ(blocks.size(), 1U);
  EXPECT_EQ(slots_of(begin(40s)), std::vector<SlotIndex>{4}) << "also where the controller is late";
  EXPECT_EQ(blocks.size(), 0U);
}

TEST_F(LastingBlocksOfOneRule, AreToldWhatWasSaidOfTheirGrantsWhenTheyAreMetAgain) {
  begin(10s);
  for (const SlotIndex slot : {2U, 4U, 6U, 8U}) add(slot, 20s);
  ASSERT_EQ(begin(20s).size(), 4U);
  EXPECT_EQ(blocks.meet(1, 1001), nullptr);
  ASSERT_NE(blocks.meet(4, 1004), nullptr);
  EXPECT_EQ(blocks.meet(5, 1005), nullptr);
  EXPECT_EQ(blocks.meet(6, 77), nullptr) << "another key has the slot by now";
  EXPECT_EQ(blocks.meet(9, 1009), nullptr);
  EXPECT_EQ(slots_of(blocks.unmet()), (std::vector<SlotIndex>{2, 6, 8}));
  begin(20s);
  EXPECT_EQ(blocks.meet(4, 1004), nullptr);
  EXPECT_TRUE(blocks.unmet().empty());
}

TEST_F(LastingBlocksOfOneRule, ThatAreNotMetAtAllAreUnmetAllTheSame) {
  begin(10s);
  for (const SlotIndex slot : {2U, 4U}) add(slot, 20s);
  begin(20s);
  EXPECT_EQ(slots_of(blocks.unmet()), (std::vector<SlotIndex>{2, 4}));
}

TEST(LastingBlocks, AreCountedByRule) {
  LastingBlocks blocks(3);
  blocks.begin(MonotonicTime(10s), margin);
  blocks.add(key_of(1, 0), MonotonicTime(20s));
  blocks.add(key_of(2, 2), MonotonicTime(20s));
  blocks.add(key_of(3, 2), MonotonicTime(30s));
  EXPECT_TRUE(std::ranges::equal(blocks.of_rule(), std::vector<std::uint64_t>{1, 0, 2}));
  blocks.begin(MonotonicTime(20s), margin);
  EXPECT_TRUE(std::ranges::equal(blocks.of_rule(), std::vector<std::uint64_t>{0, 0, 1}));
}

// The set may still say so, though they have come back and nobody has met them.
TEST(LastingBlocks, OfEachRuleIsKnownWhenAllHaveEnded) {
  LastingBlocks blocks(3);
  blocks.begin(MonotonicTime(10s), margin);
  blocks.add(key_of(1, 0), MonotonicTime(20s));
  blocks.add(key_of(2, 2), MonotonicTime(30s));
  blocks.add(key_of(3, 2), MonotonicTime(25s));
  for (const Duration now : {10s, 20s}) {
    blocks.begin(MonotonicTime(now), margin);
    EXPECT_TRUE(std::ranges::equal(
        blocks.ends(), std::vector<MonotonicTime>{MonotonicTime(20s), never, MonotonicTime(30s)}));
  }
}

TEST_F(LastingBlocksOfOneRule, AreTheSameSetForAsLongAsNobodyComesToIt) {
  begin(10s);
  EXPECT_EQ(blocks.keys(), nullptr);
  add(1, 20s);
  const auto first = blocks.keys();
  begin(11s);
  EXPECT_EQ(blocks.keys(), first);
  add(2, 20s);
  EXPECT_NE(blocks.keys(), first);
}

TEST_F(LastingBlocksOfOneRule, AreNotWrittenIntoASetThatIsPublished) {
  begin(10s);
  for (const SlotIndex slot : {1U, 3U, 4U}) add(slot, 20s);
  const auto first = blocks.keys();
  begin(11s);
  add(2, 21s);
  const auto second = blocks.keys();
  EXPECT_EQ(first->find(1002), never);
  EXPECT_EQ(second->find(1001), MonotonicTime(20s));
  EXPECT_EQ(second->find(1002), MonotonicTime(21s));
}

TEST_F(LastingBlocksOfOneRule, HaveNoMoreSetsThanArePublishedAndOneToWriteIn) {
  std::shared_ptr<const BlockedKeys> published;
  std::size_t most = 0;
  for (SlotIndex slot = 0; slot < 300; ++slot) {
    begin(10s);
    add(slot, 20s);
    published = blocks.keys();
    most = std::max(most, published->memory());
  }
  EXPECT_LE(blocks.memory(), 3 * most + 300 * 2 * sizeof(LastingBlocks::Key));
}

TEST_F(LastingBlocksOfOneRule, AreBroughtTogetherAnewOnlyOnceManyHaveCome) {
  constexpr SlotIndex many = 40'000;
  begin(10s);
  for (SlotIndex slot = 0; slot < many; ++slot) add(slot, 1h);
  auto before = blocks.keys();
  std::size_t anew = 0;
  // One publication after the other, as long as the one before is looked at: in each somebody is blocked.
  constexpr SlotIndex rounds = 100;
  for (SlotIndex round = 1; round <= rounds; ++round) {
    begin(10s + round * 1ms);
    for (SlotIndex i = 0; i < 100; ++i) add(many + 100 * round + i, 1h);
    const auto next = blocks.keys();
    anew += next->memory_beside(*before) == next->memory();
    const std::size_t of_lists = 2 * sizeof(LastingBlocks::Key) * (many + 100 * round);
    EXPECT_LE(blocks.memory(), before->memory_beside(*next) + next->memory() + of_lists);
    before = next;
  }
  EXPECT_EQ(anew, 100 * rounds / (1024 + many / 16));
  EXPECT_EQ(before->find(key_of(many + 100 * rounds).key), MonotonicTime(1h));
}

TEST_F(LastingBlocksOfOneRule, WhoseBlocksHaveEndedAreLeftBehindOnceTheyAreMany) {
  begin(10s);
  for (SlotIndex slot = 0; slot < 320; ++slot) add(slot, slot < 18 ? 20s : 1h);
  add(1000, 30s);
  const auto all = blocks.keys();
  begin(15s);
  ASSERT_EQ(begin(20s).size(), 18U);
  EXPECT_EQ(blocks.keys(), all) << "a sixteenth of those that last";
  ASSERT_EQ(begin(30s).size(), 1U);
  const auto fewer = blocks.keys();
  EXPECT_EQ(fewer->size(), 302U);
  EXPECT_EQ(fewer->find(1000), never);
  EXPECT_EQ(fewer->find(1018), MonotonicTime(1h));
}

TEST_F(LastingBlocksOfOneRule, AreNoSetOnceAllHaveComeBack) {
  begin(10s);
  add(1, 20s);
  ASSERT_NE(blocks.keys(), nullptr);
  begin(20s);
  EXPECT_EQ(blocks.keys(), nullptr);
  EXPECT_EQ(blocks.memory(), 0U);
}

// Whatever comes, and however late: who lasts is in each set until his block ends, or has come back before.
TEST(LastingBlocks, AreBlockedUntilTheyComeBackWhateverComes) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    LastingBlocks blocks(1);
    struct Known {
      MonotonicTime until;
      SlotIndex slot;
    };
    std::map<std::uint64_t, Known> lasting;  // by key
    std::vector<std::shared_ptr<const BlockedKeys>> published;
    std::uint64_t next_key = 1;
    MonotonicTime now{10s};
    std::size_t came_back = 0;
    for (int round = 0; round < 150; ++round) {
      now += Duration(random() % 200) * 1'000'000;
      const Duration most = Duration(1 + random() % 500) * 1'000'000;
      const auto back = blocks.begin(now, most);
      ASSERT_TRUE(std::ranges::is_sorted(back, {}, &LastingBlocks::Key::slot));
      for (const LastingBlocks::Key& key : back) {
        ASSERT_TRUE(lasting.contains(key.key));
        ASSERT_EQ(lasting.at(key.key).slot, key.slot);
        lasting.erase(key.key);
        ++came_back;
      }
      for (const auto& [key, known] : lasting) ASSERT_GT(known.until, now + most);
      for (std::uint64_t i = random() % 30; i > 0; --i) {
        const MonotonicTime until = now + Duration(random() % 5000) * 1'000'000;
        if (!blocks.lasts(until)) continue;
        const std::uint64_t key = next_key++ * 0x9e3779b97f4a7c15;
        const auto slot = static_cast<SlotIndex>(random() % 10'000);
        blocks.add({.key = key, .ungranted_since = 1, .slot = slot, .rule = 0}, until);
        lasting[key] = {until, slot};
      }
      const auto set = blocks.keys();
      ASSERT_EQ(set == nullptr, lasting.empty());
      ASSERT_EQ(blocks.size(), lasting.size());
      for (const auto& [key, known] : lasting) ASSERT_EQ(set->find(key), known.until);
      published.push_back(set);
      if (published.size() > random() % 5) published.erase(published.begin());
    }
    EXPECT_GT(came_back, 100U);
  }
}

}  // namespace
}  // namespace weir
