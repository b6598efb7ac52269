// SPDX-License-Identifier: BSD-3-Clause
// A span table that begins with lines for few keys and has more of them once they are needed.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/pages.h"
#include "shared/span_table.h"

namespace weir {
namespace {

constexpr SpanTable::Place nowhere = SpanTable::nowhere;
constexpr std::uint32_t first_keys = 8192;

/// Meets a key as a worker does, and admits of it. @return its place; nowhere where there is no room
SpanTable::Place admit(SpanTable& table, std::uint64_t key, const std::string& name, std::uint64_t weight,
                       RuleIndex rule = 0) {
  SpanTable::Place place = table.locate(key);
  if (place == nowhere) place = table.insert(key, rule, std::as_bytes(std::span(name)));
  if (place == nowhere) return nowhere;
  if (!table.is_open(place)) table.open(place);
  table.add_credit(place, weight);
  table.charge(place, weight);
  return place;
}

/// Keys in the order in which they are to come.
std::vector<std::uint64_t> some_keys(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> keys(count);
  for (std::uint64_t& key : keys) key = random() | 1;
  return keys;
}

std::size_t refused_of(SpanTable& table, std::span<const std::uint64_t> keys) {
  std::size_t refused = 0;
  for (const std::uint64_t key : keys) refused += admit(table, key, "203.0.113.7", 1) == nowhere;
  return refused;
}

std::vector<SpanTable::Place> places_of(const SpanTable& table, std::span<const std::uint64_t> keys) {
  std::vector<SpanTable::Place> places;
  for (const std::uint64_t key : keys) places.push_back(table.locate(key));
  return places;
}

class GrowingTable : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all lines at once";
  }
};

TEST_F(GrowingTable, HasEveryKeyAfterwardsUnderItsNameAndCountsItOnce) {
  SpanTable table(100'000, 1, first_keys);
  table.touch_pages();
  const std::vector<std::uint64_t> keys = some_keys(6000, 1);
  for (std::size_t i = 0; i < keys.size(); ++i)
    ASSERT_NE(admit(table, keys[i], std::to_string(i), 1, i % 5), nowhere);
  const std::vector<SpanTable::Place> before = places_of(table, keys);
  table.close();
  EXPECT_NE(places_of(table, keys), before);  // so it has grown
  EXPECT_EQ(table.size(), 0U);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const SpanTable::Place place = table.locate(keys[i]);
    ASSERT_NE(place, nowhere) << i;
    ASSERT_TRUE(table.holds(place, keys[i])) << i;
    ASSERT_FALSE(table.is_open(place)) << i;
    admit(table, keys[i], "not asked for", i % 7 + 1);
  }
  std::size_t next = 0;
  table.for_each([&](const CountedKey& counted) {  // in the order in which they first came
    ASSERT_EQ(counted.key, keys[next]);
    ASSERT_EQ(std::string(reinterpret_cast<const char*>(counted.name.data()), counted.name.size()),
              std::to_string(next));
    ASSERT_EQ(counted.rule, next % 5);
    ASSERT_EQ(counted.admitted, next % 7 + 1);
    ASSERT_EQ(counted.offered, counted.admitted);
    ASSERT_EQ(counted.credit, 0U);
    ++next;
  });
  EXPECT_EQ(next, keys.size());
}

TEST_F(GrowingTable, LeavesTheRulesOwnKeysWhereTheyAre) {
  SpanTable table(100'000, 20, first_keys);
  table.touch_pages();
  std::vector<SpanTable::Place> own;
  for (RuleIndex rule = 0; rule < 20; ++rule) {
    own.push_back(table.insert_rule(100U + rule, rule, {}));
    table.open(own.back());
  }
  refused_of(table, some_keys(6000, 2));
  table.close();
  for (RuleIndex rule = 0; rule < 20; ++rule) {
    ASSERT_EQ(table.place_of_rule(rule), own[rule]);
    ASSERT_TRUE(table.holds(own[rule], 100U + rule));
    table.open(own[rule]);
    table.add_credit(own[rule], rule + 1U);
    table.charge(own[rule], rule + 1U);
    EXPECT_EQ(table.find(100U + rule)->admitted, rule + 1U);
  }
}

TEST_F(GrowingTable, StaysAsItIsWhileNoMoreThanHalfOfWhatItsLinesAreForIsHeld) {
  SpanTable table(100'000, 1, first_keys);
  table.touch_pages();
  const std::vector<std::uint64_t> keys = some_keys(first_keys / 2, 3);
  // A few at a time, as twice those that came last may come again.
  for (std::size_t at = 0; at < keys.size(); at += 64) {
    const std::vector<SpanTable::Place> before = places_of(table, std::span(keys).first(at));
    refused_of(table, std::span(keys).subspan(at, 64));
    table.close();
    ASSERT_EQ(places_of(table, std::span(keys).first(at)), before);
  }
  const std::size_t memory = table.memory();
  const std::vector<SpanTable::Place> before = places_of(table, keys);
  refused_of(table, some_keys(64, 4));
  table.close();
  EXPECT_NE(places_of(table, keys), before);
  EXPECT_GE(table.memory(), memory);
}

TEST_F(GrowingTable, HasRoomForTwiceTheKeysThatTheLastSpanBrought) {
  SpanTable table(1'000'000, 1, first_keys);
  table.touch_pages();
  for (std::size_t count = 4000, span = 0; span < 7; ++span, count *= 2) {
    EXPECT_EQ(refused_of(table, some_keys(count, 10 + span)), 0U) << count;
    table.close();
  }
}

TEST_F(GrowingTable, KeysThatFoundNoPlaceSoonFindOne) {
  SpanTable table(500'000, 1, first_keys);
  table.touch_pages();
  const std::vector<std::uint64_t> keys = some_keys(300'000, 5);
  std::vector<std::size_t> refused;
  for (int span = 0; span < 4; ++span) {
    refused.push_back(refused_of(table, keys));
    table.close();
  }
  EXPECT_GT(refused[0], keys.size() / 2);
  EXPECT_LE(refused[3], 30U);
}

// Nearly all lines are full of keys that stay open, so those that found no place are not among the held.
TEST_F(GrowingTable, IsFourTimesAsLargeAfterASpanThatHadNoPlaceForAll) {
  SpanTable table(500'000, 1, first_keys);
  table.touch_pages();
  // One home for all: they fill the lines that they may be in, and no others.
  std::vector<std::uint64_t> neighbours;
  for (std::uint64_t i = 1; i <= 100; ++i) neighbours.push_back(i);
  EXPECT_GT(refused_of(table, neighbours), 0U);
  table.close();
  EXPECT_LE(refused_of(table, some_keys(4 * first_keys, 6)), first_keys / 100);  // beside the neighbours
}

TEST_F(GrowingTable, MakesRoomForTheKeysThatAreExpected) {
  SpanTable table(200'000, 1, first_keys);
  table.touch_pages();
  const std::vector<std::uint64_t> keys = some_keys(100'000, 7);
  refused_of(table, std::span(keys).first(1));
  table.drain({}, SpanTable::keep_none, {}, [](std::span<const CountedKey>) {});
  table.renew();
  table.grow(100'000);
  EXPECT_LE(refused_of(table, keys), 10U);
}

TEST_F(GrowingTable, EndsAsLargeAsOneThatHadAllLinesFromTheBeginning) {
  constexpr std::uint32_t keys = 50'000;
  const std::vector<std::uint64_t> all = some_keys(keys, 8);
  SpanTable growing(keys, 1, first_keys);
  SpanTable whole(keys, 1);
  growing.touch_pages();
  whole.touch_pages();
  for (int span = 0; span < 4; ++span)
    for (SpanTable* table : {&growing, &whole}) {
      table->grow(10 * keys);
      refused_of(*table, all);
      table->close();
    }
  EXPECT_LE(refused_of(growing, all), 5U);
  EXPECT_LE(growing.memory(), whole.memory());
}

/// Of the first hundred of these keys, which used most of their limits before, how many have no place after a
/// spray of so many others.
struct HeavyAmongOthers {
  explicit HeavyAmongOthers(std::size_t count, std::uint64_t seed) : keys(some_keys(count, seed)) {}

  void count_in(SpanTable& table) const {
    for (std::size_t i = 0; i < keys.size(); ++i) admit(table, keys[i], "key", i < heavy ? 900 : 1);
  }
  std::size_t lost_to_spray(SpanTable& table, std::size_t others) const {
    EXPECT_GT(refused_of(table, some_keys(others, 10)), 0U);
    std::size_t lost = 0;
    for (const std::uint64_t key : std::span(keys).first(heavy)) lost += table.locate(key) == nowhere;
    return lost;
  }

  static constexpr std::size_t heavy = 100;
  std::vector<std::uint64_t> keys;
};

TEST_F(GrowingTable, AHeavyKeyKeepsItsPlaceThroughGrowthAndTheSprayAfterIt) {
  SpanTable table(20'000, 1, first_keys);
  table.touch_pages();
  const HeavyAmongOthers heavy(7000, 9);
  heavy.count_in(table);
  const std::vector<SpanTable::Place> before = places_of(table, heavy.keys);
  table.close(std::vector<std::uint64_t>{1000});
  ASSERT_NE(places_of(table, heavy.keys), before);
  EXPECT_EQ(heavy.lost_to_spray(table, 100'000), 0U);
}

// As where all lines are there: also before half of the places are taken.
TEST_F(GrowingTable, AHeavyKeyKeepsItsPlaceInASprayThatComesBeforeTheTableHasGrown) {
  SpanTable table(1'000'000, 1, 65'536);
  table.touch_pages();
  const HeavyAmongOthers heavy(10'000, 11);
  heavy.count_in(table);
  table.close(std::vector<std::uint64_t>{1000});
  EXPECT_EQ(heavy.lost_to_spray(table, 200'000), 0U);
}

// As where all lines are there: a spray that fills them is not heavy altogether, so that nobody else finds
// room.
TEST_F(GrowingTable, WhoComesBeforeASprayFindsRoomWhileThereAreFewLines) {
  SpanTable table(1'000'000, 1, 31'250);
  table.touch_pages();
  const std::vector<std::uint64_t> limits{1000};
  for (std::size_t span = 0; span < 8; ++span) {
    EXPECT_EQ(refused_of(table, some_keys(1000, 100 + span)), 0U) << span;
    EXPECT_GT(refused_of(table, some_keys(80'000, 200 + span)), 0U) << span;
    table.drain(limits, SpanTable::keep_none, {}, [](std::span<const CountedKey>) {});
    table.renew();
  }
}

TEST_F(GrowingTable, TakesTheMemoryOfItsLinesAsTheyAreNeeded) {
  constexpr std::uint32_t keys = 1'000'000;
  SpanTable table(keys, 1, keys / 16);
  table.touch_pages();
  const std::size_t at_first = table.memory();
  EXPECT_LE(at_first, std::size_t{2} * keys);
  table.grow(keys / 4);
  EXPECT_GE(table.memory(), at_first + std::size_t{3} * keys);
  EXPECT_LE(table.memory(), at_first + std::size_t{8} * keys);
}

TEST_F(GrowingTable, StaysAsItIsWhereTheKernelHasNoMemoryUntilItHasSome) {
  constexpr std::uint32_t many = 1'000'000;
  SpanTable table(many, 1, first_keys);
  table.touch_pages();
  // Behind what has been provided for the first lines, and before the page with the rules' own.
  admit(table, 1, "in the first line", 1);
  SpanTable::Place place = 0;
  std::uint32_t nothing = 0;
  auto* const lines = reinterpret_cast<std::byte*>(&table.lines().ready_of(1, 0, nothing, place)) - 32;
  constexpr std::size_t there = std::size_t{256} << 10;
  constexpr std::size_t bytes = std::size_t{12} << 20;
  ASSERT_EQ(::mprotect(lines + there, bytes, PROT_NONE), 0);
  const std::vector<std::uint64_t> keys = some_keys(6000, 13);
  EXPECT_EQ(refused_of(table, keys), 0U);
  const std::vector<SpanTable::Place> before = places_of(table, keys);
  table.close();
  EXPECT_EQ(places_of(table, keys), before);
  EXPECT_EQ(refused_of(table, keys), 0U);
  table.close();
  table.clear();  // touches none of them
  EXPECT_EQ(refused_of(table, keys), 0U);
  ASSERT_EQ(::mprotect(lines + there, bytes, PROT_READ | PROT_WRITE), 0);
  table.close();
  EXPECT_EQ(refused_of(table, some_keys(12'000, 14)), 0U);
}

}  // namespace
}  // namespace weir
