// SPDX-License-Identifier: BSD-3-Clause
#include "shared/span_table.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "short_of_rests.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr SpanTable::Place nowhere = SpanTable::nowhere;

/// Meets a key as a worker does. @return its place, open; nowhere where there is no room
SpanTable::Place meet(SpanTable& table, std::uint64_t key, const std::string& name = "name",
                      RuleIndex rule = 0) {
  SpanTable::Place place = table.locate(key);
  if (place == nowhere) place = table.insert(key, rule, bytes(name));
  if (place != nowhere && !table.is_open(place)) table.open(place);
  return place;
}

void admit(SpanTable& table, SpanTable::Place place, std::uint64_t weight) {
  table.add_credit(place, weight);
  table.charge(place, weight);
}

/// Whether the key's terms were to be looked up again; now they have been.
bool takes_stale(SpanTable& table, SpanTable::Place place) {
  return table.is_stale(place) && table.set_terms(place, {.allowance = 1});
}

constexpr auto all_hold = [](std::uint32_t, std::uint32_t) { return true; };
constexpr auto none_hold = [](std::uint32_t, std::uint32_t) { return false; };

TEST(SpanTable, FindsWhatWasInserted) {
  SpanTable table(100, 1);
  const SpanTable::Place place = table.insert(42, 0, bytes("name"));
  ASSERT_NE(place, nowhere);
  EXPECT_EQ(table.locate(42), place);
  EXPECT_TRUE(table.holds(place, 42));
  EXPECT_EQ(table.locate(43), nowhere);
}

TEST(SpanTable, ADrainSeesEveryOpenKeyOnceWithItsNameAndCounts) {
  std::mt19937_64 random(5);
  SpanTable table(1000, 1);
  struct Expected {
    std::string name;
    std::uint64_t admitted, refused, credit;
  };
  std::map<std::uint64_t, Expected> expected;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t key = random() | 1;
    const Expected counts{"key" + std::to_string(i), random() % 100, random() % 100, random() % 100};
    const SpanTable::Place place = meet(table, key, counts.name);
    ASSERT_NE(place, nowhere);
    table.add_credit(place, counts.admitted + counts.credit);
    table.charge(place, counts.admitted);
    table.count_refused(table.entry(place), counts.refused);
    expected[key] = counts;
  }
  table.for_each([&](const CountedKey& seen) {
    ASSERT_TRUE(expected.contains(seen.key));
    const Expected& counts = expected[seen.key];
    EXPECT_EQ(seen.admitted, counts.admitted);
    EXPECT_EQ(seen.offered, counts.admitted + counts.refused);
    EXPECT_EQ(seen.credit, counts.credit);
    EXPECT_EQ(text(seen.name), counts.name);
    expected.erase(seen.key);
  });
  EXPECT_TRUE(expected.empty());
}

TEST(SpanTable, HoldsTheKeysItWasMadeFor) {
  std::mt19937_64 random(6);
  for (const std::uint32_t keys : {64U, 1000U, 52'428U, 65'536U}) {
    SpanTable table(keys, 1);
    std::uint32_t refused = 0;
    for (std::uint32_t i = 0; i < keys; ++i) refused += meet(table, random() | 1, "203.0.113.7") == nowhere;
    EXPECT_EQ(refused, 0U) << keys;
  }
}

TEST(SpanTable, RefusesWhatDoesNotFitAndKeepsTheRest) {
  std::mt19937_64 random(7);
  SpanTable table(64, 1);
  std::vector<std::uint64_t> held;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t key = random() | 1;
    if (meet(table, key, "x") != nowhere) held.push_back(key);
  }
  EXPECT_GE(held.size(), 64U);
  EXPECT_LT(held.size(), 1000U);
  for (const std::uint64_t key : held) EXPECT_TRUE(table.find(key));
}

TEST(SpanTable, RefusesWhenThereIsNoMoreRoomForNames) {
  std::mt19937_64 random(8);
  SpanTable table(64, 1);
  const std::string long_name(400, 'n');
  int held = 0;
  for (int i = 0; i < 64; ++i) held += meet(table, random() | 1, long_name) != nowhere;
  EXPECT_GT(held, 0);
  EXPECT_LT(held, 64);
}

constexpr auto everything_holds = [](std::uint32_t, std::uint32_t) { return true; };

TEST(SpanTable, ReadyWeightIsTakenUnderItsPublicationOnlyAndNeverMoreThanThereIs) {
  SpanTable table(64, 1);
  const SpanTable::Place place = meet(table, 42);
  const auto takes = [&](std::uint64_t key, std::uint64_t weight, std::uint32_t generation) {
    std::uint32_t nothing = 0;
    SpanTable::Place found = 0;
    const SpanTable::Lines lines = table.lines();
    std::uint32_t& ready = lines.ready_of(key, generation, nothing, found);
    EXPECT_EQ(&ready == &nothing ? found : lines.place_of(ready), key == 42 ? place : nowhere);
    EXPECT_EQ(&lines.ready_at(place, key, generation, nothing), &ready);
    return lines.take(ready, weight);
  };
  table.set_aside(place, 7, everything_holds);
  table.add_credit(place, 10);
  EXPECT_FALSE(takes(42, 1, 7));
  table.make_ready(place);
  EXPECT_TRUE(table.has_ready(place, 42, 10, 7));
  EXPECT_FALSE(table.has_ready(place, 43, 10, 7));
  EXPECT_TRUE(takes(42, 8, 7));
  EXPECT_FALSE(takes(42, 3, 7));
  EXPECT_FALSE(takes(42, 1, 8));
  EXPECT_FALSE(takes(43, 1, 7));
  EXPECT_FALSE(takes(42, 0, 7));  // which says nothing of what is ready
  EXPECT_TRUE(takes(42, 1, 7));
  EXPECT_EQ(table.credit(place), 1U);
  table.set_aside(place, 7, everything_holds);
  EXPECT_FALSE(takes(42, 1, 7));
  EXPECT_EQ(table.find(42)->admitted, 9U);
  EXPECT_EQ(table.find(42)->credit, 1U);
}

/// Keys with one home, so that they lie in one line.
constexpr std::uint64_t neighbour(std::uint64_t which) { return which + 1; }

TEST(SpanTable, ALineIsBroughtUpToANewPublicationAsAWholeAndTellsWhoseTermsMayHaveChanged) {
  SpanTable table(64, 1);
  SpanTable::Place places[5];
  for (std::uint64_t i = 0; i < 5; ++i) {
    places[i] = meet(table, neighbour(i));
    table.set_aside(places[i], 7, everything_holds);
    EXPECT_TRUE(takes_stale(table, places[i]));  // met for the first time
    table.add_credit(places[i], 10);
    table.make_ready(places[i]);
  }
  const SpanTable::Place closed = table.insert(neighbour(5), 0, bytes("never met"));
  table.set_aside(places[0], 8, [](std::uint32_t since, std::uint32_t key) {
    EXPECT_EQ(since, 7U);
    return key != neighbour(2);
  });
  EXPECT_FALSE(takes_stale(table, places[0]));
  EXPECT_FALSE(table.has_ready(places[0], neighbour(0), 1, 8));  // in the middle of a closer look
  EXPECT_TRUE(table.has_ready(places[1], neighbour(1), 10, 8));
  EXPECT_FALSE(table.has_ready(places[2], neighbour(2), 1, 8));
  EXPECT_EQ(table.credit(places[2]), 10U);  // not ready, but not lost
  EXPECT_TRUE(takes_stale(table, places[2]));
  EXPECT_FALSE(takes_stale(table, places[2]));
  EXPECT_FALSE(takes_stale(table, closed));
}

constexpr std::uint32_t most_in_a_line = (std::uint32_t{1} << 31) - 1;

/// Refused by its line under publication 7, with 20 of credit aside.
SpanTable::Place refused_at_a_glance(SpanTable& table, std::uint64_t key) {
  const SpanTable::Place place = meet(table, key);
  table.set_aside(place, 7, everything_holds);
  EXPECT_TRUE(takes_stale(table, place));
  table.add_credit(place, 20);
  table.refuse_from_now_on(place, false);
  return place;
}

/// By its line alone. @return whether it has been, and is counted
bool refuses(SpanTable& table, std::uint64_t key, std::uint64_t weight, std::uint32_t generation = 7) {
  std::uint32_t nothing = 0;
  std::uint32_t& word = table.lines().ready_at(table.locate(key), key, generation, nothing);
  return SpanTable::Lines::refuses(word) && SpanTable::Lines::refuse(word, weight);
}

TEST(SpanTable, OfAKeyThatIsOpenedWithItsTermsNothingIsToBeLookedUp) {
  SpanTable table(100, 1);
  std::array<AllowanceCell, 10> cells;
  table.cells = {cells.data()};
  const SpanTable::Place place = table.insert(42, 0, bytes("name"));
  table.open_with(place, 7, none_hold, 5, 100);
  EXPECT_TRUE(table.is_open(place));
  EXPECT_TRUE(table.is_settled(place, 42, 7));
  EXPECT_TRUE(table.only_draws(place, 7));
  EXPECT_FALSE(table.only_draws(place, 8)) << "another publication's";
  const std::optional<CountedKey> counted = table.find(42);
  ASSERT_TRUE(counted);
  EXPECT_EQ(counted->cell, &cells[5]);
  EXPECT_EQ(counted->allowance, 100U);
  EXPECT_EQ(counted->offered, 0U);
}

TEST(SpanTable, WhatIsDrawnIsAdmittedOrReadyAndMayBeTakenBack) {
  SpanTable table(100, 1);
  std::array<AllowanceCell, 10> cells;
  table.cells = {cells.data()};
  const SpanTable::Place place = table.insert(42, 0, bytes("name"));
  table.open_with(place, 7, none_hold, 5, 100);
  table.count_drawn(place, 3, 3);
  EXPECT_TRUE(table.only_draws(place, 7));
  table.count_drawn(place, 10, 4);
  EXPECT_FALSE(table.only_draws(place, 7)) << "something is ready";
  EXPECT_TRUE(table.has_ready(place, 42, 6, 7));
  EXPECT_FALSE(table.has_ready(place, 42, 7, 7));
  EXPECT_EQ(table.find(42)->admitted, 7U);
  EXPECT_EQ(table.find(42)->credit, 6U);
  table.uncount_drawn(place, 10, 4);
  EXPECT_EQ(table.find(42)->admitted, 3U);
  EXPECT_EQ(table.find(42)->credit, 0U);
}

TEST(SpanTable, AKeyWithMoreToItDoesNotOnlyDraw) {
  SpanTable table(100, 1);
  std::array<AllowanceCell, 10> cells;
  table.cells = {cells.data()};
  const SpanTable::Place place = meet(table, 42);
  table.set_aside(place, 7, none_hold);
  EXPECT_FALSE(table.only_draws(place, 7)) << "it is stale";
  ASSERT_TRUE(table.set_terms(place, {.cell = 5, .allowance = 0}));
  EXPECT_FALSE(table.only_draws(place, 7)) << "it is closed";
  ASSERT_TRUE(table.set_terms(place, {.cell = 5, .allowance = 9}));
  EXPECT_TRUE(table.only_draws(place, 7));
  table.add_credit(place, 1);
  EXPECT_FALSE(table.only_draws(place, 7)) << "it has credit aside";
  table.drop_credit(place, 1);
  table.entry(place).lent = 1;
  EXPECT_FALSE(table.only_draws(place, 7)) << "something is lent";
  table.entry(place).lent = 0;
  ASSERT_TRUE(table.block(table.entry(place), MonotonicTime(1s), MonotonicTime(1h)));
  EXPECT_FALSE(table.only_draws(place, 7)) << "it is blocked";
}

TEST(SpanTable, WhoIsOpenedWithHisTermsBringsUpHisLine) {
  SpanTable table(7, 1);  // so small numbers' first line is the same
  std::array<AllowanceCell, 10> cells;
  table.cells = {cells.data()};
  const SpanTable::Place place = meet(table, 42);
  table.set_aside(place, 7, none_hold);
  ASSERT_TRUE(table.set_terms(place, {.cell = 5, .allowance = 9}));
  table.add_credit(place, 4);
  table.make_ready(place);
  const SpanTable::Place beside = table.insert(43, 0, bytes("beside"));
  table.open_with(beside, 8, none_hold, 6, 9);
  EXPECT_TRUE(table.is_stale(place));
  EXPECT_EQ(table.ready(place), 0U);
  EXPECT_EQ(table.credit(place), 4U);
  EXPECT_FALSE(table.is_stale(beside));
  const SpanTable::Place third = table.insert(44, 0, bytes("third"));
  table.open_with(third, 9, all_hold, 7, 9);
  EXPECT_TRUE(table.only_draws(beside, 9)) << "its terms hold for the next publication, too";
}

TEST(RefusedAtAGlance, AKeyHasNothingReadyAndIsCountedAsOffered) {
  SpanTable table(64, 1);
  const SpanTable::Place place = refused_at_a_glance(table, 42);
  table.count_refused(table.entry(place), 3);
  EXPECT_TRUE(refuses(table, 42, 1));
  EXPECT_TRUE(refuses(table, 42, 1000));
  EXPECT_FALSE(refuses(table, 42, 1, 8)) << "of another publication";
  for (const std::uint64_t weight : {0U, 1U, 1000U, most_in_a_line}) {
    EXPECT_FALSE(table.has_ready(place, 42, weight, 7)) << weight;
    std::uint32_t nothing = 0;
    std::uint32_t& word = table.lines().ready_at(place, 42, 7, nothing);
    EXPECT_FALSE(SpanTable::Lines::take(word, weight)) << weight;
    if (SpanTable::Lines::is_usual(weight)) {
      EXPECT_FALSE(SpanTable::Lines::take_usual(word, static_cast<std::int32_t>(weight))) << weight;
    }
  }
  EXPECT_EQ(table.ready(place), 0U);
  EXPECT_EQ(table.credit(place), 20U);
  EXPECT_EQ(table.admitted(place), 0U);
  const CountedKey counted = *table.find(42);
  EXPECT_EQ(counted.offered, 1004U);
  EXPECT_EQ(counted.admitted, 0U);
  EXPECT_EQ(counted.credit, 20U);
}

TEST(RefusedAtAGlance, ACloserLookEndsItAndCountsWithTheEntry) {
  SpanTable table(64, 1);
  const SpanTable::Place place = refused_at_a_glance(table, 42);
  EXPECT_TRUE(refuses(table, 42, 1000));
  EXPECT_EQ(table.refused(table.entry(place)), 0U);
  table.set_aside(place, 7, everything_holds);
  EXPECT_FALSE(refuses(table, 42, 1));
  EXPECT_EQ(table.refused(table.entry(place)), 1000U);
  EXPECT_EQ(table.credit(place), 20U);
  EXPECT_EQ(table.find(42)->offered, 1000U);
  table.make_ready(place);
  EXPECT_TRUE(table.has_ready(place, 42, 20, 7));
}

TEST(RefusedAtAGlance, ANewPublicationEndsItWhereTheKeysTermsMayHaveChanged) {
  SpanTable table(64, 1);
  const SpanTable::Place other = meet(table, neighbour(0));
  refused_at_a_glance(table, neighbour(1));
  const SpanTable::Place changes = refused_at_a_glance(table, neighbour(2));
  EXPECT_TRUE(refuses(table, neighbour(1), 5));
  EXPECT_TRUE(refuses(table, neighbour(2), 6));
  table.set_aside(other, 8, [](std::uint32_t, std::uint32_t key) { return key != neighbour(2); });
  EXPECT_TRUE(refuses(table, neighbour(1), 10, 8));
  EXPECT_FALSE(refuses(table, neighbour(2), 10, 8));
  EXPECT_TRUE(table.is_stale(changes));
  EXPECT_EQ(table.find(neighbour(1))->offered, 15U);
  EXPECT_EQ(table.find(neighbour(2))->offered, 6U);
}

TEST(RefusedAtAGlance, WhatIsMoreThanTheLineHasRoomForIsLeftToWhoLooksCloser) {
  SpanTable table(64, 1);
  const SpanTable::Place place = refused_at_a_glance(table, 42);
  EXPECT_FALSE(refuses(table, 42, 0));
  EXPECT_TRUE(refuses(table, 42, most_in_a_line - 1));
  for (const std::uint64_t weight :
       {std::uint64_t{0}, std::uint64_t{2}, std::uint64_t{most_in_a_line}, std::uint64_t{1} << 40})
    EXPECT_FALSE(refuses(table, 42, weight)) << weight;
  EXPECT_TRUE(refuses(table, 42, 1));
  EXPECT_FALSE(refuses(table, 42, 1));
  EXPECT_EQ(table.find(42)->offered, most_in_a_line);
  table.count_refused(table.entry(place), 5);
  table.set_aside(place, 7, everything_holds);
  EXPECT_EQ(table.refused(table.entry(place)), std::uint64_t{most_in_a_line} + 5);
}

TEST(RefusedAtAGlance, ADrainCountsItAndEndsIt) {
  SpanTable table(64, 1);
  const SpanTable::Place place = refused_at_a_glance(table, 42);
  EXPECT_TRUE(refuses(table, 42, 1000));
  std::uint64_t offered = 0;
  table.drain({}, SpanTable::keep_none, {}, [&](std::span<const CountedKey> keys) {
    for (const CountedKey& key : keys) offered += key.offered;
  });
  table.renew();
  EXPECT_EQ(offered, 1000U);
  EXPECT_EQ(meet(table, 42), place);
  EXPECT_FALSE(refuses(table, 42, 1));
  EXPECT_EQ(table.find(42)->offered, 0U);
}

/// Refused by its line for as long as its published block lasts. @return its place
SpanTable::Place refused_for_long(SpanTable& table, std::uint64_t key, MonotonicTime until,
                                  bool is_published = true) {
  const SpanTable::Place place = meet(table, key);
  table.set_aside(place, 7, everything_holds);
  EXPECT_TRUE(table.is_stale(place));
  EXPECT_TRUE(
      table.set_terms(place, {.allowance = 1, .blocked_until = until, .block_is_published = is_published}));
  table.refuse_from_now_on(place, is_published);
  return place;
}

constexpr auto nothing_holds = [](std::uint32_t, std::uint32_t) { return false; };

/// By its line, whatever has been published. @return whether it has been, and is counted
bool goes_on_refusing(SpanTable& table, std::uint64_t key, std::uint64_t weight, std::uint32_t generation) {
  std::uint32_t* const word = table.refusal_that_lasts(table.locate(key), key, generation, nothing_holds);
  if (word == nullptr) return false;
  table.met_again = true;
  return SpanTable::Lines::refuse(*word, weight);
}

/// What a drain tells of, by key: what has been offered.
std::map<std::uint64_t, std::uint64_t> offered_at_drain(SpanTable& table, MonotonicTime keep_until,
                                                        unsigned turns = 1, unsigned ahead = 0) {
  std::map<std::uint64_t, std::uint64_t> offered;
  table.drain({}, keep_until, {.count = turns, .ahead = ahead}, [&](std::span<const CountedKey> keys) {
    for (const CountedKey& key : keys) EXPECT_TRUE(offered.emplace(key.key, key.offered).second);
  });
  table.renew();
  return offered;
}
using Offered = std::map<std::uint64_t, std::uint64_t>;

TEST(RefusedForLong, AKeyIsSoUnderWhateverIsPublishedNext) {
  SpanTable table(64, 1);
  const SpanTable::Place place = refused_for_long(table, 42, MonotonicTime(1s));
  EXPECT_TRUE(refuses(table, 42, 3));
  EXPECT_FALSE(refuses(table, 42, 1, 8));
  for (const std::uint32_t generation : {8U, 8U, 9U}) {
    EXPECT_TRUE(goes_on_refusing(table, 42, 10, generation));
    EXPECT_TRUE(refuses(table, 42, 100, generation));
  }
  EXPECT_FALSE(refuses(table, 42, 1, 8));
  EXPECT_EQ(table.find(42)->offered, 333U);
  EXPECT_TRUE(table.is_stale(place)) << "of anything else the line knows nothing";
  EXPECT_EQ(table.refusal_that_lasts(place, 43, 9, nothing_holds), nullptr) << "another key's place by now";
  EXPECT_FALSE(goes_on_refusing(table, 43, 1, 9));
}

TEST(RefusedForLong, AKeysNeighboursAreLookedAtAgain) {
  SpanTable table(64, 1);
  const SpanTable::Place other = meet(table, neighbour(0));
  table.set_aside(other, 7, everything_holds);
  EXPECT_TRUE(takes_stale(table, other));
  table.add_credit(other, 10);
  table.make_ready(other);
  refused_at_a_glance(table, neighbour(1));
  refused_for_long(table, neighbour(2), MonotonicTime(1s));
  refused_for_long(table, neighbour(3), MonotonicTime(1s));
  EXPECT_TRUE(refuses(table, neighbour(1), 5));
  EXPECT_TRUE(refuses(table, neighbour(3), 6));
  // As long as others have something ready the line waits for them, and goes on refusing.
  EXPECT_TRUE(goes_on_refusing(table, neighbour(2), 7, 8));
  EXPECT_FALSE(refuses(table, neighbour(2), 1, 8));
  EXPECT_TRUE(table.has_ready(other, neighbour(0), 10, 7));
  table.set_aside(other, 8, nothing_holds);
  EXPECT_TRUE(refuses(table, neighbour(3), 20, 8));
  EXPECT_FALSE(refuses(table, neighbour(1), 1, 8));
  EXPECT_FALSE(goes_on_refusing(table, neighbour(1), 1, 8));
  EXPECT_FALSE(table.has_ready(other, neighbour(0), 1, 8));
  EXPECT_EQ(table.credit(other), 10U);
  EXPECT_TRUE(takes_stale(table, other));
  EXPECT_EQ(table.find(neighbour(1))->offered, 5U);
  EXPECT_EQ(table.find(neighbour(2))->offered, 7U);
  EXPECT_EQ(table.find(neighbour(3))->offered, 26U);
}

TEST(RefusedForLong, AKeyIsNoLongerSoOnceItIsLookedAtMoreClosely) {
  SpanTable table(64, 1);
  const SpanTable::Place place = refused_for_long(table, 42, MonotonicTime(1s));
  EXPECT_TRUE(goes_on_refusing(table, 42, 10, 8));
  table.set_aside(place, 8, everything_holds);
  EXPECT_TRUE(table.is_stale(place));
  EXPECT_FALSE(goes_on_refusing(table, 42, 1, 8));
  EXPECT_FALSE(goes_on_refusing(table, 42, 1, 9));
  EXPECT_EQ(table.find(42)->offered, 10U);
}

TEST(RefusedForLong, ADrainCountsWhatWasRefusedAndTheLineGoesOn) {
  SpanTable table(64, 1);
  const SpanTable::Place place = refused_for_long(table, 42, MonotonicTime(1s));
  EXPECT_TRUE(refuses(table, 42, 1000));
  EXPECT_EQ(offered_at_drain(table, MonotonicTime(400ms)), (Offered{{42, 1000}}));
  std::uint32_t generation = 8;
  for (const auto keep_until : {500ms, 600ms, 900ms}) {
    EXPECT_TRUE(table.empty());
    EXPECT_EQ(table.rests(), 0U);
    EXPECT_EQ(table.find(42)->offered, 0U);
    EXPECT_TRUE(table.is_open(place));
    EXPECT_TRUE(table.is_stale(place));
    EXPECT_FALSE(refuses(table, 42, 1, generation));
    EXPECT_TRUE(goes_on_refusing(table, 42, 10, generation++));
    EXPECT_FALSE(table.empty());
    EXPECT_EQ(offered_at_drain(table, MonotonicTime(keep_until)), (Offered{{42, 10}}));
    EXPECT_EQ(table.kept_until(), MonotonicTime(keep_until));
  }
}

TEST(RefusedForLong, OnlyWhoseBlockLastsLongEnoughIsLeftSo) {
  for (const Duration more : {-1ns, 0ns, 1ns}) {
    SpanTable table(64, 1);
    refused_for_long(table, 42, MonotonicTime(400ms + more));
    EXPECT_TRUE(refuses(table, 42, 1));
    offered_at_drain(table, MonotonicTime(400ms));
    EXPECT_EQ(goes_on_refusing(table, 42, 1, 8), more >= 0ns) << more.count();
    EXPECT_EQ(table.size(), more >= 0ns ? 1U : 0U);
    EXPECT_EQ(table.kept_until(), more >= 0ns ? MonotonicTime(400ms) : SpanTable::keep_none);
  }
}

TEST(RefusedForLong, WhoWasLeftSoIsNotLeftSoBeyondHisBlock) {
  constexpr Duration day = 24h;
  for (const Duration up : {Duration{}, 365 * day, 40 * 365 * day}) {
    SpanTable table(64, 1);
    const MonotonicTime began = MonotonicTime(up);
    refused_for_long(table, 42, began + 2s);
    EXPECT_TRUE(refuses(table, 42, 1));
    offered_at_drain(table, began + 400ms);
    EXPECT_TRUE(goes_on_refusing(table, 42, 1, 8));
    // How exactly the end is known by now.
    offered_at_drain(table, began + 2s - 40ms);
    EXPECT_TRUE(goes_on_refusing(table, 42, 1, 9));
    EXPECT_EQ(offered_at_drain(table, began + 2s), (Offered{{42, 1}}));
    EXPECT_FALSE(goes_on_refusing(table, 42, 1, 10));
    EXPECT_EQ(table.size(), 0U);
  }
}

TEST(RefusedForLong, WhoseBlockLastsForDaysIsLookedAtOnceInSomeSecondsFewAtATime) {
  std::mt19937_64 random(33);
  SpanTable table(10'000, 1);
  std::vector<std::uint64_t> keys;
  for (int i = 0; i < 6400; ++i) {
    keys.push_back(random() | 1);
    refused_for_long(table, keys.back(), MonotonicTime(48h));
    EXPECT_TRUE(refuses(table, keys.back(), 1));
  }
  std::map<Duration, int> looked_at_after;
  Duration now = 400ms;
  for (std::uint32_t generation = 8; !keys.empty(); ++generation, now += 400ms) {
    ASSERT_LT(now, 20s);
    offered_at_drain(table, MonotonicTime(now));
    looked_at_after[now] = static_cast<int>(
        std::erase_if(keys, [&](std::uint64_t key) { return !goes_on_refusing(table, key, 1, generation); }));
  }
  for (const auto& [after, looks] : looked_at_after) {
    if (after < 8s) {
      EXPECT_EQ(looks, 0) << after.count();
    }
    EXPECT_LT(looks, 1000) << after.count();
  }
}

TEST(RefusedForLong, WhatIsMoreThanTheLineOfWhoWasLeftSoHasRoomForIsCountedWithALook) {
  SpanTable table(64, 1);
  const SpanTable::Place place = refused_for_long(table, 42, MonotonicTime(1h));
  EXPECT_TRUE(refuses(table, 42, 1));
  offered_at_drain(table, MonotonicTime(400ms));
  EXPECT_TRUE(goes_on_refusing(table, 42, most_in_a_line, 8));
  EXPECT_FALSE(goes_on_refusing(table, 42, 1, 8));
  table.count_refused(table.entry(place), 5);
  table.set_aside(place, 8, everything_holds);
  EXPECT_TRUE(table.is_stale(place));
  EXPECT_TRUE(table.set_terms(place, {.allowance = 1}));
  EXPECT_EQ(offered_at_drain(table, MonotonicTime(500ms)),
            (Offered{{42, std::uint64_t{most_in_a_line} + 5}}));
}

TEST(RefusedForLong, WhoDoesNotComeAgainIsForgottenAndToldNobody) {
  SpanTable table(64, 1);
  refused_for_long(table, 42, MonotonicTime(1h));
  EXPECT_TRUE(refuses(table, 42, 1));
  offered_at_drain(table, MonotonicTime(400ms));
  EXPECT_EQ(table.size(), 1U);
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(offered_at_drain(table, MonotonicTime(500ms)), Offered());
  EXPECT_EQ(table.size(), 0U);
  EXPECT_FALSE(goes_on_refusing(table, 42, 1, 8));
}

TEST(RefusedForLong, WhatHasBeenAGuessIsNotLeftSo) {
  SpanTable table(64, 1);
  const SpanTable::Place place = refused_for_long(table, 42, MonotonicTime(1h), false);
  table.count_refused(table.entry(place), 1);
  EXPECT_FALSE(goes_on_refusing(table, 42, 1, 8));
  // One that was published, and another one on the worker's own account after it.
  const SpanTable::Place again = refused_for_long(table, 43, MonotonicTime(1s));
  EXPECT_TRUE(table.block(table.entry(again), MonotonicTime(1s), MonotonicTime(1h)));
  EXPECT_TRUE(refuses(table, 43, 1));
  EXPECT_EQ(offered_at_drain(table, MonotonicTime(400ms)), (Offered{{42, 1}, {43, 1}}));
  EXPECT_EQ(table.size(), 0U);
}

TEST(RefusedForLong, WhoWasLeftSoAndIsLookedAtMoreCloselyCountsInTheSpan) {
  SpanTable table(64, 1);
  const SpanTable::Place place = refused_for_long(table, 42, MonotonicTime(1h));
  EXPECT_TRUE(refuses(table, 42, 1));
  offered_at_drain(table, MonotonicTime(400ms));
  EXPECT_TRUE(table.empty());
  // As for a key that the last drain has closed.
  table.set_aside(place, 9, everything_holds);
  EXPECT_FALSE(table.empty()) << "a worker that takes it for empty would count in another span";
  EXPECT_TRUE(takes_stale(table, place));
  EXPECT_EQ(table.credit(place), 0U);
  admit(table, place, 5);
  table.count_refused(table.entry(place), 2);
  EXPECT_EQ(table.find(42)->admitted, 5U);
  EXPECT_EQ(offered_at_drain(table, MonotonicTime(500ms)), (Offered{{42, 7}}));
  EXPECT_EQ(table.size(), 0U);
}

TEST(RefusedForLong, CreditIsGivenBackByADrainThoughNothingWasRefused) {
  SpanTable table(64, 1);
  const SpanTable::Place place = meet(table, 42);
  table.set_aside(place, 7, everything_holds);
  EXPECT_TRUE(table.set_terms(
      place, {.allowance = 1, .blocked_until = MonotonicTime(1h), .block_is_published = true}));
  table.add_credit(place, 20);
  table.refuse_from_now_on(place, true);
  std::uint64_t credit = 0;
  table.drain({}, MonotonicTime(400ms), {}, [&](std::span<const CountedKey> keys) {
    for (const CountedKey& key : keys) credit += key.credit;
  });
  EXPECT_EQ(credit, 20U);
}

TEST(RefusedForLong, NoOtherKeyTakesThePlaceOfOneThatWasLeftSo) {
  std::mt19937_64 random(31);
  SpanTable table(64, 1);
  const SpanTable::Place place = refused_for_long(table, 42, MonotonicTime(1h));
  EXPECT_TRUE(refuses(table, 42, 1));
  offered_at_drain(table, MonotonicTime(400ms));
  for (int i = 0; i < 10'000; ++i) meet(table, random() | 1, "");
  EXPECT_EQ(table.locate(42), place);
  EXPECT_TRUE(goes_on_refusing(table, 42, 1, 8));
}

/// Some hundred keys that are refused for long, of which it is told in turns.
class ToldInTurns : public ::testing::Test {
 protected:
  static constexpr unsigned turns = 4;

  ToldInTurns() {
    for (std::uint64_t i = 0; i < 640; ++i) keys_.push_back(random_() | 1);
    block_in(table_);
    EXPECT_EQ(drain().size(), keys_.size());
  }

  void block_in(SpanTable& table) const {
    for (const std::uint64_t key : keys_) {
      refused_for_long(table, key, blocked_until);
      EXPECT_TRUE(refuses(table, key, 1));
    }
  }

  void refuse_each(std::uint64_t weight) {
    ++generation_;
    for (const std::uint64_t key : keys_) EXPECT_TRUE(goes_on_refusing(table_, key, weight, generation_));
  }
  Offered drain() { return offered_at_drain(table_, keep_until_, turns); }
  /// Of each key, what it has told of by the end of these drains.
  Offered drain_all() {
    Offered sums;
    for (unsigned i = 0; i < turns; ++i)
      for (const auto& [key, offered] : drain()) EXPECT_TRUE(sums.emplace(key, offered).second);
    return sums;
  }
  Offered each(std::uint64_t offered) const {
    Offered all;
    for (const std::uint64_t key : keys_) all[key] = offered;
    return all;
  }

  static constexpr MonotonicTime blocked_until{2s};
  MonotonicTime keep_until_{400ms};
  std::mt19937_64 random_{44};
  std::vector<std::uint64_t> keys_;
  SpanTable table_{4096, 1};
  std::uint32_t generation_ = 7;
};

TEST_F(ToldInTurns, ADrainTellsOfAPartOfThemAndOfTheOthersLaterAllThatTheyWereRefused) {
  std::uint64_t sum = 0;
  for (std::uint64_t span = 1; span <= 2 * turns; ++span) {
    refuse_each(1);
    const Offered told = drain();
    for (const auto& [key, offered] : told) sum += offered;
    EXPECT_GE(told.size(), keys_.size() / turns / 2) << span;
    EXPECT_LE(told.size(), keys_.size() / turns * 2) << span;
    for (const auto& [key, offered] : told) EXPECT_EQ(offered, std::min<std::uint64_t>(span, turns));
    EXPECT_EQ(table_.size(), keys_.size());
    EXPECT_EQ(table_.left_open(), keys_.size());
    EXPECT_TRUE(table_.empty());
    EXPECT_EQ(table_.kept_until(), keep_until_);
  }
  for (const auto& [key, offered] : drain_all()) sum += offered;
  EXPECT_EQ(sum, 2 * turns * keys_.size());
}

TEST_F(ToldInTurns, TwoTablesTellOfAKeyAtDifferentTimes) {
  SpanTable other(4096, 1);
  block_in(other);
  offered_at_drain(other, keep_until_, turns, turns / 2);
  for (unsigned span = 0; span < turns; ++span) {
    refuse_each(1);
    for (const std::uint64_t key : keys_) EXPECT_TRUE(goes_on_refusing(other, key, 1, generation_));
    const Offered told = drain();
    const Offered told_by_other = offered_at_drain(other, keep_until_, turns, turns / 2);
    EXPECT_GT(told_by_other.size(), 0U);
    for (const auto& [key, offered] : told) EXPECT_FALSE(told_by_other.contains(key));
  }
}

TEST_F(ToldInTurns, WhoDoesNotComeAgainIsForgottenWhenItIsHisTurn) {
  EXPECT_EQ(drain_all(), Offered());
  EXPECT_EQ(table_.size(), 0U);
}

TEST_F(ToldInTurns, WhoIsLookedAtIsToldOfAtOnce) {
  refuse_each(2);
  for (const std::uint64_t key : keys_) {
    const SpanTable::Place place = table_.locate(key);
    table_.set_aside(place, generation_ + 1, nothing_holds);
    EXPECT_TRUE(takes_stale(table_, place));
    admit(table_, place, 1);
  }
  EXPECT_EQ(drain(), each(3));
  EXPECT_EQ(table_.size(), 0U);
}

TEST_F(ToldInTurns, WhoseBlockIsAboutToEndIsToldOfAtOnceAndLeftOpenNoLonger) {
  refuse_each(2);
  keep_until_ = blocked_until - 40ms;  // how exactly the end is known by now
  EXPECT_LT(drain().size(), keys_.size());
  refuse_each(1);
  keep_until_ = blocked_until;
  std::size_t once = 0;
  for (const auto& [key, offered] : drain()) once += offered == 1;
  EXPECT_GT(once, 0U);
  EXPECT_LT(once, keys_.size());
  EXPECT_EQ(table_.size(), 0U);
  EXPECT_EQ(table_.kept_until(), SpanTable::keep_none);
}

// Some came to the table later, beside those whose blocks will have ended by then.
TEST_F(ToldInTurns, NobodyIsLeftOpenForAsLongAsWhoIsBesideHim) {
  SpanTable table(4096, 1);
  std::uint64_t some = 0;
  for (const std::uint64_t key : keys_) {
    refused_for_long(table, key, ++some % 2 == 0 ? MonotonicTime(600ms) : blocked_until);
    EXPECT_TRUE(refuses(table, key, 1));
  }
  offered_at_drain(table, MonotonicTime(400ms), turns);
  for (const std::uint64_t key : keys_) EXPECT_TRUE(goes_on_refusing(table, key, 1, 8));
  EXPECT_EQ(offered_at_drain(table, MonotonicTime(800ms), turns).size(), keys_.size());
  EXPECT_EQ(table.size(), keys_.size() / 2);
}

TEST_F(ToldInTurns, WhereSomeAreLookedAtNowAndThenOthersWaitAllTheSame) {
  std::size_t told = 0;
  std::size_t looks = 0;
  SpanTable table(4096, 1);
  constexpr std::size_t drains = 100;
  for (std::uint32_t drain = 0; drain < drains; ++drain) {
    for (const std::uint64_t key : keys_) {
      if (goes_on_refusing(table, key, 1, 100 + drain)) continue;
      ++looks;
      refused_for_long(table, key, MonotonicTime(1h));
      EXPECT_TRUE(refuses(table, key, 1));
    }
    told += offered_at_drain(table, MonotonicTime(400ms + drain * 200ms), turns).size();
  }
  EXPECT_GE(looks, 2 * keys_.size());
  EXPECT_LT(told, keys_.size() * drains / turns * 3 / 2);
}

TEST_F(ToldInTurns, AllAreToldOfWhereNobodyIsToStayOpen) {
  refuse_each(2);
  keep_until_ = SpanTable::keep_none;
  EXPECT_EQ(drain(), each(2));
}

TEST_F(ToldInTurns, AllAreToldOfBeforeNamesRunShort) {
  refuse_each(2);
  const std::string long_name(1000, 'n');
  while (table_.insert(random_() | 1, 0, bytes(long_name)) != nowhere) {
  }
  EXPECT_EQ(drain(), each(2));
}

TEST_F(ToldInTurns, LinesAreNotMadeMoreUntilADrainHasToldOfAll) {
  SpanTable table(100'000, 1, 4096);
  block_in(table);
  offered_at_drain(table, keep_until_, turns);
  for (std::uint32_t generation = 8; generation < 10; ++generation) {
    for (const std::uint64_t key : keys_) EXPECT_TRUE(goes_on_refusing(table, key, 1, generation));
    if (generation == 8) {
      EXPECT_LT(offered_at_drain(table, keep_until_, turns).size(), keys_.size());
      EXPECT_FALSE(table.grow(50'000));
      EXPECT_EQ(table.size(), keys_.size());
    } else {
      EXPECT_EQ(offered_at_drain(table, keep_until_, turns).size(), keys_.size());
      EXPECT_TRUE(table.grow(50'000));
    }
  }
}

// More keys have come than there are lines for: there will be more after this drain.
TEST_F(ToldInTurns, AllAreToldOfBeforeThereAreMoreLines) {
  SpanTable table(100'000, 1, 4096);
  block_in(table);
  offered_at_drain(table, keep_until_, turns);
  table.grow();
  for (const std::uint64_t key : keys_) EXPECT_TRUE(goes_on_refusing(table, key, 1, 8));
  for (int i = 0; i < 3000; ++i) EXPECT_NE(meet(table, random_() | 1, ""), nowhere);
  Offered told = offered_at_drain(table, keep_until_, turns);
  for (const std::uint64_t key : keys_) EXPECT_EQ(told[key], 1U);
  EXPECT_TRUE(table.grow());
}

TEST(RefusedForLong, ATableThatIsMadeAnewBeginsAnew) {
  for (const bool grows : {false, true}) {
    SpanTable table(10'000, 1, 16);
    refused_for_long(table, 42, MonotonicTime(1h));
    EXPECT_TRUE(refuses(table, 42, 1));
    offered_at_drain(table, MonotonicTime(400ms));
    EXPECT_EQ(table.size(), 1U);
    if (grows) {
      EXPECT_TRUE(table.grow(5000));
    } else {
      table.clear();
    }
    EXPECT_EQ(table.size(), 0U);
    EXPECT_TRUE(table.empty());
    EXPECT_EQ(table.kept_until(), SpanTable::keep_none);
    EXPECT_FALSE(goes_on_refusing(table, 42, 1, 8));
    EXPECT_EQ(offered_at_drain(table, MonotonicTime(500ms)), Offered());
    const SpanTable::Place place = meet(table, 42);
    EXPECT_EQ(table.size(), 1U);
    admit(table, place, 3);
    EXPECT_EQ(offered_at_drain(table, MonotonicTime(500ms)), (Offered{{42, 3}}));
  }
}

TEST(SpanTable, TellsAKeyFromAnotherOneWithTheSameTag) {
  SpanTable table(64, 1);
  const SpanTable::Place place = meet(table, 42);
  const std::uint64_t twin = 42 | std::uint64_t{1} << 32;
  EXPECT_EQ(table.locate(twin), place);
  EXPECT_FALSE(table.holds(place, twin));
  EXPECT_FALSE(table.find(twin));
}

TEST(SpanTable, ClosedItForgetsTheCountsAndKeepsTheKeysAndTheirNames) {
  SpanTable table(64, 2);
  const SpanTable::Place place = meet(table, 42, "forty-two", 1);
  table.set_aside(place, 7, everything_holds);
  table.add_credit(place, 9);
  table.charge(place, 4);
  table.make_ready(place);
  table.count_refused(table.entry(place), 3);
  table.block(table.entry(place), MonotonicTime{}, MonotonicTime{} + 1s);
  table.overflow(1).offered = 3;
  table.close();
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.overflows()[1].offered, 0U);
  EXPECT_FALSE(table.find(42));
  EXPECT_FALSE(table.has_ready(place, 42, 1, 7));
  ASSERT_EQ(meet(table, 42, "not asked for"), place);
  const std::optional<CountedKey> again = table.find(42);
  ASSERT_TRUE(again);
  EXPECT_EQ(text(again->name), "forty-two");
  EXPECT_EQ(again->rule, 1);
  EXPECT_EQ(again->offered, 0U);
  EXPECT_EQ(again->admitted, 0U);
  EXPECT_EQ(again->credit, 0U);
  EXPECT_EQ(again->refused_at, never);
}

TEST(SpanTable, SpanAfterSpanOfNewKeysFindsRoomAndLosesNoCount) {
  std::mt19937_64 random(9);
  SpanTable table(64, 1);
  const std::uint64_t heavy = random() | 1;
  for (int span = 0; span < 1000; ++span) {
    ASSERT_NE(meet(table, heavy), nowhere);
    std::uint64_t met = 1;
    admit(table, table.locate(heavy), 5);
    for (int i = 0; i < 63; ++i) {
      const std::uint64_t key = random() | 1;
      const SpanTable::Place place = meet(table, key, "203.0.113." + std::to_string(i));
      ASSERT_NE(place, nowhere) << span;
      admit(table, place, 1);
      ++met;
    }
    EXPECT_EQ(table.find(heavy)->admitted, 5U);
    std::uint64_t seen = 0, admitted = 0;
    table.for_each([&](const CountedKey& counted) {
      ++seen;
      admitted += counted.admitted;
    });
    EXPECT_EQ(seen, met);
    EXPECT_EQ(admitted, met + 4);
    table.close();
  }
}

TEST(SpanTable, KeysFromBeforeLeaveRoomForTheNamesOfAsManyNewOnesAsItWasMadeFor) {
  std::mt19937_64 random(12);
  for (std::uint32_t before = 0; before <= 1000; before += 100) {
    SpanTable table(1000, 1);
    const std::string name(60, 'n');
    for (std::uint32_t i = 0; i < before; ++i) meet(table, random() | 1, name);
    table.close();
    std::uint32_t refused = 0;
    for (int i = 0; i < 1000; ++i) refused += meet(table, random() | 1, name) == nowhere;
    EXPECT_EQ(refused, 0U) << before;
  }
}

TEST(SpanTable, RoomForNamesIsProvidedSpanAfterSpan) {
  std::mt19937_64 random(18);
  constexpr std::uint32_t keys = 100'000;
  SpanTable table(keys, 1);
  const std::size_t at_most = table.memory();
  table.touch_pages();
  if (can_provide_pages()) {
    EXPECT_LT(table.memory(), at_most - std::size_t{10} * keys);
  }
  for (int span = 0; span < 5; ++span) {
    const std::string name(span % 2 == 0 ? 20 : 64, 'n');
    std::uint32_t refused = 0;
    for (std::uint32_t i = 0; i < keys; ++i) refused += meet(table, random() | 1, name) == nowhere;
    EXPECT_LE(refused, keys / 10'000) << span;
    table.close();
  }
  EXPECT_LE(table.memory(), at_most);
}

// Memory follows what is used.

TEST(SpanTableMemory, IsThatOfTheLinesUntilKeysComeAndThenFollowsThem) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  std::mt19937_64 random(21);
  constexpr std::uint32_t keys = 1'000'000;
  SpanTable table(keys, 1);
  table.touch_pages();
  // A place in the lines, of which there are more than keys, with its number.
  const std::size_t at_first = table.memory();
  EXPECT_LE(at_first, std::size_t{24} * keys);
  std::vector<std::uint64_t> met;
  for (int span = 0; span < 20; ++span) {
    for (int i = 0; i < 5000; ++i) {
      met.push_back(random() | 1);
      ASSERT_NE(meet(table, met.back(), "203.0.113.7"), nowhere);
    }
    table.close();
  }
  // Entry, name and place: 64 bytes of each, and what is ready for those to come.
  EXPECT_LE(table.memory() - at_first, std::size_t{120} * met.size());
  std::size_t kept = 0;
  for (const std::uint64_t key : met) kept += table.locate(key) != nowhere;
  EXPECT_GE(kept, met.size() / 100 * 99);
}

TEST(SpanTableMemory, CountsWhatIsTakenToChooseTheHeavyKeys) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  std::mt19937_64 random(23);
  SpanTable table(100'000, 1);
  table.touch_pages();
  std::vector<std::uint64_t> met;
  for (int i = 0; i < 30'000; ++i) meet(table, met.emplace_back(random() | 1), "ann");
  table.close();  // there are too many for them to be weighed, and too few for that to matter
  const std::size_t unweighed = table.memory();
  constexpr std::size_t again = 4000;
  for (std::size_t i = 0; i < again; ++i) admit(table, meet(table, met[i], "ann"), 1);
  table.close();
  // The key, and its heaviness while it is weighed; its number; its hash and name while the table is made
  // anew.
  EXPECT_GE(table.memory(), unweighed + again * 28);
}

TEST(SpanTableMemory, AsManyKeysAsItIsMadeForFindRoomAtOnceAndAreThereInTheNextSpan) {
  std::mt19937_64 random(22);
  for (const std::uint32_t keys : {10'000U, 100'000U, 300'000U}) {
    SpanTable table(keys, 2);
    table.touch_pages();
    // The one key of a rule without dimensions comes first and stays where it is.
    const SpanTable::Place own = table.place_of_rule(1);
    ASSERT_EQ(table.insert_rule(77, 1, {}), own);
    std::vector<std::uint64_t> met;
    for (std::uint32_t i = 0; i < keys; ++i) {
      met.push_back(random() | 1);
      const SpanTable::Place place = meet(table, met.back(), std::to_string(i));
      if (place != nowhere) admit(table, place, i % 7 + 1);
    }
    table.open(own);
    admit(table, own, 9);
    // One in 100,000 finds its lines full.
    const auto expect_nearly_all = [&] {
      std::uint64_t admitted = 9;
      std::uint32_t missing = 0;
      for (std::uint32_t i = 0; i < keys; ++i) {
        const std::optional<CountedKey> counted = table.find(met[i]);
        missing += !counted;
        if (!counted) continue;
        ASSERT_EQ(counted->admitted, i % 7 + 1) << i << " of " << keys;
        ASSERT_EQ(text(counted->name), std::to_string(i));
        admitted += counted->admitted;
      }
      EXPECT_LE(missing, keys / 10'000);
      EXPECT_EQ(table.find(77)->admitted, 9U);
      EXPECT_EQ(table.size(), keys + 1 - missing);
      table.for_each([&](const CountedKey& counted) { admitted -= counted.admitted; });
      EXPECT_EQ(admitted, 0U);
    };
    expect_nearly_all();
    table.close();
    EXPECT_EQ(table.size(), 0U);
    for (std::uint32_t i = 0; i < keys; ++i) {
      SpanTable::Place place = nowhere;
      std::uint32_t nothing = 0;
      const std::uint32_t& ready = table.lines().ready_of(met[i], 7, nothing, place);
      if (&ready != &nothing) place = table.lines().place_of(ready);
      ASSERT_EQ(place, table.locate(met[i])) << i << " of " << keys;
      if (place == nowhere) continue;
      ASSERT_TRUE(table.holds(place, met[i]));
      table.open(place);
      admit(table, place, i % 7 + 1);
    }
    ASSERT_TRUE(table.holds(own, 77));
    table.open(own);
    admit(table, own, 9);
    expect_nearly_all();
  }
}

TEST(SpanTableMemory, MoreKeysSpanAfterSpanLoseNoCount) {
  std::mt19937_64 random(24);
  constexpr std::uint32_t keys = 200'000;
  SpanTable table(keys, 1);
  table.touch_pages();
  std::vector<std::uint64_t> known{random() | 1};
  for (int span = 0; span < 12; ++span) {
    std::map<std::uint64_t, std::uint64_t> expected;
    const auto admit_one = [&](std::uint64_t key, std::uint64_t weight) {
      const SpanTable::Place place = meet(table, key, "203.0.113.7");
      ASSERT_NE(place, nowhere) << span;
      admit(table, place, weight);
      expected[key] += weight;
    };
    for (int i = 0; i < 3000 * (span % 4); ++i) {
      known.push_back(random() | 1);
      admit_one(known.back(), 1);
    }
    for (std::size_t i = 0; i < known.size(); i += 3) admit_one(known[i], i % 5 + 1);
    std::uint64_t seen = 0;
    table.for_each([&](const CountedKey& counted) {
      ++seen;
      ASSERT_EQ(expected.at(counted.key), counted.admitted) << span;
    });
    EXPECT_EQ(seen, expected.size());
    EXPECT_EQ(table.size(), expected.size());
    table.close();
  }
}

TEST(SpanTableMemory, IsUsedAgainOnceKeysAreForgotten) {
  std::mt19937_64 random(25);
  SpanTable table(50'000, 1);
  table.touch_pages();
  const auto span_of_new_keys = [&] {
    std::uint32_t refused = 0;
    for (int i = 0; i < 50'000; ++i) refused += meet(table, random() | 1, "203.0.113.7") == nowhere;
    table.close();
    return refused;
  };
  for (int span = 0; span < 6; ++span) EXPECT_LE(span_of_new_keys(), 5U) << span;
  const std::size_t taken = table.memory();
  for (int span = 0; span < 12; ++span) EXPECT_LE(span_of_new_keys(), 5U) << span;
  EXPECT_EQ(table.memory(), taken);
}

TEST(SpanTableMemory, WhereTheKernelHasNoneNewKeysTakeClosedPlacesOrNoneUntilItHasSome) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  std::mt19937_64 random(26);
  constexpr std::uint32_t keys = 100'000;
  SpanTable table(keys, 1);
  table.touch_pages();
  const SpanTable::Place first = meet(table, random() | 1, "");
  // Behind what has been provided for the first entries.
  constexpr std::size_t there = 2048;
  SpanEntry* const beyond = &table.entry(first) + there;
  constexpr std::size_t bytes = (keys - there) * sizeof(SpanEntry) / 4096 * 4096;
  ASSERT_EQ(::mprotect(beyond, bytes, PROT_NONE), 0);
  for (std::size_t i = 1; i < there; ++i) ASSERT_NE(meet(table, random() | 1, ""), nowhere);
  table.close();
  std::size_t held = 0;
  for (std::size_t i = 0; i < 4 * there; ++i)
    if (const SpanTable::Place place = meet(table, random() | 1, ""); place != nowhere) {
      admit(table, place, 1);
      ++held;
    }
  // One in eleven lines has a closed key that a new one of that line can take the place of.
  EXPECT_GT(held, there / 8);
  EXPECT_LE(held, there);
  std::uint64_t admitted = 0;
  table.for_each([&](const CountedKey& counted) { admitted += counted.admitted; });
  EXPECT_EQ(admitted, held);
  ASSERT_EQ(::mprotect(beyond, bytes, PROT_READ | PROT_WRITE), 0);
  table.close();
  for (std::size_t i = 0; i < 4 * there; ++i) ASSERT_NE(meet(table, random() | 1, ""), nowhere);
}

// What an entry has no room for.

constexpr std::uint64_t four_gib = std::uint64_t{1} << 32;

TEST(EntryRest, WhatIsRefusedBeyondAllNumbersStaysTheLargest) {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  SpanTable table(64, 1);
  const SpanTable::Place place = meet(table, 42);
  table.count_refused(table.entry(place), most - 5);
  EXPECT_EQ(table.find(42)->offered, most - 5);
  for (int i = 0; i < 3; ++i) table.count_refused(table.entry(place), most);
  table.count_refused(table.entry(place), 1);
  EXPECT_EQ(table.find(42)->offered, most);
}

TEST(EntryRest, WhatIsTooMuchFor32BitsIsCountedExactly) {
  SpanTable table(64, 1);
  const SpanTable::Place place = meet(table, 42);
  SpanEntry& entry = table.entry(place);
  for (int i = 0; i < 10; ++i) admit(table, place, SpanTable::most_ready - 1);
  table.count_admitted(place, 5 * four_gib + 3);
  table.add_credit(place, 1000);
  table.drop_credit(place, 1);
  for (int i = 0; i < 10; ++i) table.count_refused(entry, four_gib / 2 - 1);
  table.count_refused(entry, 7 * four_gib);
  const std::uint64_t admitted = 10 * (SpanTable::most_ready - 1) + 5 * four_gib + 3;
  const std::uint64_t refused = 10 * (four_gib / 2 - 1) + 7 * four_gib;
  const std::optional<CountedKey> counted = table.find(42);
  EXPECT_EQ(counted->admitted, admitted);
  EXPECT_EQ(counted->offered, admitted + refused);
  EXPECT_EQ(counted->credit, 999U);
  EXPECT_EQ(table.admitted(place), admitted);
  EXPECT_EQ(table.refused(entry), refused);
  EXPECT_EQ(table.overflows()[0].offered, 0U);
}

TEST(EntryRest, TermsAreKeptAsTheyAreHoweverLarge) {
  SpanTable table(64, 1);
  std::array<AllowanceCell, 100> cells;
  table.cells[0] = cells.data();
  const SpanTable::Place place = meet(table, 42);
  SpanEntry& entry = table.entry(place);
  admit(table, place, 5);
  table.count_refused(entry, 3);
  const MonotonicTime until = MonotonicTime{} + 3s;
  for (const EntryTerms& terms :
       {EntryTerms{7, 100, never}, EntryTerms{7, four_gib - 1, never}, EntryTerms{8, four_gib, never},
        EntryTerms{9, 1, never}, EntryTerms{9, 9 * four_gib + 1, until}, EntryTerms{9, 0, until}}) {
    ASSERT_TRUE(table.set_terms(place, terms));
    const EntryTerms kept = table.terms(entry);
    EXPECT_EQ(kept.cell, terms.cell);
    EXPECT_EQ(kept.allowance, terms.allowance);
    EXPECT_EQ(kept.blocked_until, terms.blocked_until);
    EXPECT_EQ(SpanTable::blocked_until(entry), terms.blocked_until);
    // And what has been counted with it.
    EXPECT_EQ(table.find(42)->admitted, 5U);
    EXPECT_EQ(table.find(42)->offered, 8U);
    EXPECT_EQ(table.find(42)->allowance, terms.allowance);
    EXPECT_EQ(table.find(42)->cell, &cells[terms.cell]);
  }
  EXPECT_EQ(table.rests(), 1U);
}

TEST(EntryRest, IsTakenByWhoNeedsItAndGivenBackAtTheDrain) {
  SpanTable table(64, 1);
  std::array<AllowanceCell, 2> cells;
  table.cells[0] = cells.data();
  const SpanTable::Place place = meet(table, 42);
  ASSERT_TRUE(table.set_terms(place, {1, four_gib - 1, never}));
  admit(table, place, four_gib / 2);
  admit(table, place, four_gib / 2 - 1);
  table.count_refused(table.entry(place), four_gib / 2 - 1);
  EXPECT_EQ(table.rests(), 0U);
  ASSERT_TRUE(table.block(table.entry(place), MonotonicTime{} + 1s, MonotonicTime{} + 2s));
  ASSERT_TRUE(table.block(table.entry(place), MonotonicTime{} + 3s, MonotonicTime{} + 4s));
  EXPECT_EQ(table.rests(), 1U);
  EXPECT_EQ(table.find(42)->refused_at, MonotonicTime{} + 1s);  // the first one
  EXPECT_EQ(SpanTable::blocked_until(table.entry(place)), MonotonicTime{} + 4s);
  table.close();
  EXPECT_EQ(table.rests(), 0U);
  meet(table, 42);
  EXPECT_EQ(SpanTable::blocked_until(table.entry(place)), never);
  EXPECT_EQ(table.find(42)->offered, 0U);
}

TEST(EntryRest, WithoutMemoryForItEverythingIsCountedUnderOneNameOrTheOther) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  SpanTable table(8192, 2);
  const testing::ShortOfRests shortage(table);
  const SpanTable::Place place = meet(table, 42, "forty-two", 1);
  std::uint64_t admitted = 0;
  std::uint64_t refused = 0;
  const auto expect_all = [&] {
    const std::optional<CountedKey> counted = table.find(42);
    EXPECT_EQ(counted->admitted + table.overflows()[1].admitted, admitted);
    EXPECT_EQ(counted->offered + table.overflows()[1].offered, admitted + refused);
  };
  table.add_credit(place, 500);
  for (int i = 0; i < 5; ++i) {
    admit(table, place, SpanTable::most_ready);
    admitted += SpanTable::most_ready;
    expect_all();
    EXPECT_EQ(table.credit(place), 500U);
  }
  table.count_admitted(place, 3 * four_gib);
  admitted += 3 * four_gib;
  expect_all();
  for (int i = 0; i < 5; ++i) {
    table.count_refused(table.entry(place), four_gib / 2 - 1);
    refused += four_gib / 2 - 1;
    expect_all();
  }
  EXPECT_EQ(table.find(42)->credit, 500U);
  EXPECT_EQ(table.overflows()[0].offered, 0U);
}

TEST(EntryRest, WithoutMemoryForItWhatIsDrawnForABurstIsCountedAndTakenBackWhereverItIs) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  SpanTable table(8192, 1);
  const testing::ShortOfRests shortage(table);
  std::array<AllowanceCell, 10> cells;
  table.cells = {cells.data()};
  const std::vector<OverflowCount> before(table.overflows().begin(), table.overflows().end());
  const SpanTable::Place place = table.insert(42, 0, bytes("forty-two"));
  table.open_with(place, 7, none_hold, 5, 100);
  constexpr std::uint64_t large = SpanTable::most_ready;
  std::uint64_t admitted = 0;
  const auto expect_all = [&](std::uint64_t credit) {
    const std::optional<CountedKey> counted = table.find(42);
    EXPECT_EQ(counted->credit, credit);
    EXPECT_EQ(counted->admitted + table.overflows()[0].admitted - before[0].admitted, admitted);
    EXPECT_EQ(counted->offered + table.overflows()[0].offered - before[0].offered, admitted);
  };
  for (int i = 0; i < 4; ++i) {
    table.count_drawn(place, large, large);
    admitted += large;
    expect_all(0);
  }
  for (int i = 0; i < 3; ++i) {
    // More than 32 bits tell: it is no more with the entry.
    table.count_drawn(place, large + 9, large);
    admitted += large;
    expect_all(9);
    table.uncount_drawn(place, large + 9, large);
    admitted -= large;
    expect_all(0);
  }
}

TEST(EntryRest, TermsThatThereIsNoMemoryForStayToBeLookedUpUntilThereIsSome) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  SpanTable table(8192, 1);
  std::array<AllowanceCell, 2> cells;
  table.cells[0] = cells.data();
  testing::ShortOfRests shortage(table);
  SpanTable::Place place = meet(table, 42);
  for (const EntryTerms& terms : {EntryTerms{1, four_gib, never}, EntryTerms{1, 5, MonotonicTime{} + 1s}}) {
    EXPECT_FALSE(table.set_terms(place, terms));
    EXPECT_TRUE(table.is_stale(place));
  }
  EXPECT_FALSE(table.block(table.entry(place), MonotonicTime{}, MonotonicTime{} + 1s));
  EXPECT_EQ(table.find(42)->refused_at, never);
  EXPECT_TRUE(table.set_terms(place, {1, four_gib - 1, never}));
  EXPECT_FALSE(table.is_stale(place));
  shortage.end();
  table.close();
  // As many as anybody may need.
  std::mt19937_64 random(28);
  for (int i = 0; i < 5000; ++i) {
    place = meet(table, random() | 1, "");
    ASSERT_NE(place, nowhere);
    ASSERT_TRUE(table.set_terms(place, {1, four_gib, never}));
  }
}

TEST(EntryRest, TheMemoryThatTheFirstNeedIsThereFromTheBeginningAndThatOfOthersIsCounted) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  std::mt19937_64 random(29);
  constexpr std::size_t blocked = 5000;
  SpanTable table(8192, 1);
  table.touch_pages();
  for (std::size_t i = 0; i < blocked; ++i) meet(table, random() | 1, "");
  table.close();
  const std::size_t before = table.memory();
  SpanTable::Place place = nowhere;
  random.seed(29);
  const EntryRest* first = nullptr;
  for (std::size_t i = 0; i < blocked; ++i) {
    place = meet(table, random() | 1, "");
    ASSERT_TRUE(table.block(table.entry(place), MonotonicTime{}, MonotonicTime{}));
    if (i > 0) continue;
    first = &std::as_const(table).rest(table.entry(place));
    std::array<unsigned char, 1024 * sizeof(EntryRest) / 4096> pages;
    ASSERT_EQ(::mincore(const_cast<EntryRest*>(first), 1024 * sizeof(EntryRest), pages.data()), 0);
    for (const unsigned char page : pages) EXPECT_EQ(page & 1, 1);
  }
  EXPECT_EQ(table.memory() - before, (blocked - 1024) * sizeof(EntryRest));
  // In the next span as many may need one: what is provided lies in whole steps.
  table.close();
  EXPECT_GE(table.memory() - before, (blocked - 1024) * sizeof(EntryRest));
  EXPECT_LT(table.memory() - before, blocked * sizeof(EntryRest));
}

// Who sprays keys takes all places and names there are, span after span, before the others come.

TEST(SprayedTable, AHeavyKeyKeepsItsPlaceAndItsNameHoweverManyLightOnesCome) {
  std::mt19937_64 random(13);
  SpanTable table(64, 2);
  const std::vector<std::uint64_t> limits{100, 100};
  std::vector<std::uint64_t> heavy;
  for (int i = 0; i < 8; ++i) heavy.push_back(random() | 1);
  const auto name_of = [](std::size_t i) { return "heavy-" + std::to_string(i); };
  ASSERT_EQ(table.insert_rule(77, 1, {}), table.place_of_rule(1));
  std::uint64_t without_room = 0;
  for (int span = 0; span < 300; ++span) {
    const auto spray = [&] {
      for (int i = 0; i < 400; ++i) {
        const std::uint64_t key = random() | 1;
        const SpanTable::Place place = meet(table, key, "sprayed-" + std::to_string(i));
        without_room += place == nowhere;
        if (place != nowhere) admit(table, place, 1);
      }
    };
    if (span > 0) spray();
    for (std::size_t i = 0; i < heavy.size(); ++i) {
      if (span > 0) {
        ASSERT_NE(table.locate(heavy[i]), nowhere) << span;
      }
      const SpanTable::Place place = meet(table, heavy[i], name_of(i));
      ASSERT_NE(place, nowhere);
      admit(table, place, 20 + i);
      EXPECT_EQ(text(table.find(heavy[i])->name), name_of(i)) << span;
      EXPECT_EQ(table.find(heavy[i])->admitted, 20 + i);
      EXPECT_EQ(table.find(heavy[i])->rule, 0);
    }
    ASSERT_TRUE(table.holds(table.place_of_rule(1), 77)) << span;
    table.open(table.place_of_rule(1));
    if (span == 0) spray();
    table.close(limits);
  }
  EXPECT_GT(without_room, 0U);
}

TEST(SprayedTable, HeavyIsWhoUsedMuchOfHisLimitNotWhoWeighsMuch) {
  std::mt19937_64 random(14);
  SpanTable table(64, 2);
  const std::vector<std::uint64_t> limits{10, 10'000'000};
  const std::uint64_t near_limit = random() | 1;
  admit(table, meet(table, near_limit, "near", 0), 9);
  for (int i = 0; i < 400; ++i)
    if (const SpanTable::Place place = meet(table, random() | 1, "bytes", 1); place != nowhere)
      admit(table, place, 1500);
  table.close(limits);
  for (int i = 0; i < 400; ++i) meet(table, random() | 1, "bytes", 1);
  EXPECT_NE(table.locate(near_limit), nowhere);
}

TEST(SprayedTable, WhoWasHeavyAndStayedAwayASpanGivesWay) {
  for (const bool stays_away : {false, true}) {
    std::mt19937_64 random(15);
    SpanTable table(64, 1);
    const std::uint64_t key = random() | 1;
    for (int span = 0; span < 2; ++span) {
      if (span == 0 || !stays_away) admit(table, meet(table, key), 50);
      table.close();
    }
    for (int i = 0; i < 1000; ++i) meet(table, random() | 1, "");
    EXPECT_EQ(table.locate(key) == nowhere, stays_away);
  }
}

TEST(SprayedTable, AmongManyKeysOnceBeingFullMakesItTakeCareForLong) {
  std::mt19937_64 random(17);
  SpanTable table(8192, 1);
  const std::uint64_t heavy = random() | 1;
  const auto span_of = [&](int others) {
    ASSERT_NE(meet(table, heavy, "heavy"), nowhere);
    admit(table, table.locate(heavy), 50);
    for (int i = 0; i < others; ++i)
      if (const SpanTable::Place place = meet(table, random() | 1, ""); place != nowhere)
        admit(table, place, 1);
    table.close();
  };
  span_of(11000);  // made anew after it
  span_of(5000);   // less than half of it
  for (int sprayed = 0; sprayed < 20000; ++sprayed) meet(table, random() | 1, "");
  EXPECT_NE(table.locate(heavy), nowhere);
}

TEST(SprayedTable, AHeavyKeyKeepsItsPlaceWhileATenthOfTheTableIsTaken) {
  std::mt19937_64 random(31);
  SpanTable table(1'000'000, 1);
  const std::vector<std::uint64_t> limits{1000};
  std::vector<std::uint64_t> keys;
  for (int i = 0; i < 10'000; ++i) keys.push_back(random() | 1);
  constexpr std::size_t heavy = 100;
  for (int span = 0; span < 3; ++span) {
    for (std::size_t i = 0; i < keys.size(); ++i) admit(table, meet(table, keys[i]), i < heavy ? 900 : 1);
    table.close(limits);
  }
  for (int i = 0; i < 100'000; ++i) ASSERT_NE(meet(table, random() | 1), nowhere);
  int lost = 0;
  for (std::size_t i = 0; i < heavy; ++i) {
    const SpanTable::Place place = table.locate(keys[i]);
    lost += place == nowhere || !table.holds(place, keys[i]);
  }
  EXPECT_EQ(lost, 0);
}

// Who sprays long names, or more keys than the table keeps, has it forget light keys at every drain.
TEST(SprayedTable, TheKeysThatStayAreFoundAtTheFirstLookWhoeverSprays) {
  for (const auto& [sprayed, length] : {std::pair{6'000, 1000}, std::pair{130'000, 4}}) {
    std::mt19937_64 random(32);
    SpanTable table(100'000, 1);
    const std::vector<std::uint64_t> limits{1000};
    std::vector<std::uint64_t> keys;
    for (int i = 0; i < 10'000; ++i) keys.push_back(random() | 1);
    for (int span = 0; span < 10; ++span) {
      for (const std::uint64_t key : keys) admit(table, meet(table, key), 900);
      for (int i = 0; i < sprayed; ++i)
        meet(table, random() | 1, std::string(static_cast<std::size_t>(length), 'x'));
      table.close(limits);
    }
    int at_last_look = 0;
    for (const std::uint64_t key : keys) {
      std::uint32_t nothing = 0;
      SpanTable::Place place = 0;
      const SpanTable::Place found = meet(table, key);
      if (found == nowhere) continue;
      if (&table.lines().ready_of(key, 1, nothing, place) == &nothing && place == nowhere) ++at_last_look;
    }
    EXPECT_EQ(at_last_look, 0) << sprayed << " keys of " << length << " bytes";
  }
}

TEST(SprayedTable, KeysThatAreAllAlikeGiveWayToNewOnes) {
  std::mt19937_64 random(16);
  SpanTable table(64, 1);
  for (int span = 0; span < 10; ++span) {
    // Nobody is heavier than the others, so nobody is kept, and as many as the table is for find room.
    int without_room = 0;
    for (int i = 0; i < 64; ++i) {
      const SpanTable::Place place = meet(table, random() | 1, "a name of usual length");
      without_room += place == nowhere;
      if (place != nowhere) admit(table, place, 3);
    }
    EXPECT_EQ(without_room, 0) << span;
    table.close();
  }
}

TEST(SpanTable, IsEmptyOnlyWhenNothingIsCountedUnderAnyName) {
  SpanTable table(64, 2);
  EXPECT_TRUE(table.empty());
  table.overflow(1).offered = 1;
  EXPECT_FALSE(table.empty());
  table.close();
  EXPECT_TRUE(table.empty());
  meet(table, 42);
  EXPECT_FALSE(table.empty());
}

TEST(SpanTable, ANewKeyTakesAClosedPlaceButNeverAnOpenOne) {
  std::mt19937_64 random(10);
  SpanTable table(64, 1);
  // So many inserted and not met that there is no free place.
  for (int i = 0; i < 2000; ++i) table.insert(random() | 1, 0, {});
  std::vector<std::uint64_t> open;
  for (int i = 0; i < 40; ++i) {
    open.push_back(random() | 1);
    EXPECT_NE(meet(table, open.back(), ""), nowhere);
  }
  for (int i = 0; i < 100; ++i) table.insert(random() | 1, 0, {});
  for (const std::uint64_t key : open) EXPECT_TRUE(table.find(key)) << key;
}

TEST(SpanTable, TheKeyOfARuleWithoutDimensionsHasAPlaceOfItsOwn) {
  SpanTable table(64, 3);
  for (RuleIndex rule = 0; rule < 3; ++rule) {
    const SpanTable::Place place = table.place_of_rule(rule);
    EXPECT_FALSE(table.holds(place, 100U + rule));
    ASSERT_EQ(table.insert_rule(100U + rule, rule, {}), place);
    table.open(place);
    admit(table, place, rule + 1U);
  }
  EXPECT_EQ(table.locate(100), nowhere);
  EXPECT_EQ(table.find(102)->admitted, 3U);
  EXPECT_EQ(table.size(), 3U);
}

TEST(SpanTable, ClearedItIsAsNew) {
  SpanTable table(64, 2);
  admit(table, meet(table, 42), 9);
  table.overflow(1).offered = 3;
  table.clear();
  EXPECT_EQ(table.locate(42), nowhere);
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.overflows()[1].offered, 0U);
  meet(table, 42, "x");
  EXPECT_EQ(table.find(42)->offered, 0U);
  EXPECT_EQ(text(table.find(42)->name), "x");
}

TEST(SpanTable, ItsPagesCanBeTouchedWithoutHarm) {
  SpanTable table(5000, 1);
  table.touch_pages();
  EXPECT_EQ(table.locate(42), nowhere);
  EXPECT_NE(meet(table, 42), nowhere);
}

TEST(SpanTable, WhatACommonDecisionTouchesIsOneCacheLineAndWhatElseAKeyNeedsHalfAnother) {
  EXPECT_EQ(sizeof(SpanEntry), 32U);
  EXPECT_EQ(alignof(SpanEntry), 32U);
  EXPECT_EQ(sizeof(EntryRest), 32U);
  EXPECT_EQ(alignof(EntryRest), 32U);
  EXPECT_EQ(sizeof(AllowanceCell), 32U);
}

}  // namespace
}  // namespace weir
