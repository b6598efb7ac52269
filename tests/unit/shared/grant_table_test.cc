// SPDX-License-Identifier: BSD-3-Clause
#include "shared/grant_table.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace weir {
namespace {

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

using Found = std::map<std::uint64_t, std::uint32_t>;

/// What a harvest of one rule's keys in one turn tells.
Found harvest(GrantTable& table, std::uint32_t turn) {
  Found found;
  const std::vector<GrantWindow> windows(4, GrantWindow(turn));
  table.harvest(windows, [&](const GrantUse& use) {
    EXPECT_EQ(found.count(use.key), 0U) << use.key;
    found[use.key] = use.admitted;
  });
  return found;
}

TEST(GrantTable, FindsTheKeysItHoldsAndNoOthers) {
  std::mt19937_64 random(11);
  GrantTable table(1000);
  std::map<std::uint64_t, GrantTable::Place> places;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t key = random() | 1;
    EXPECT_EQ(table.locate(key), GrantTable::nowhere);
    places[key] = table.insert(key, 0, bytes(std::to_string(key)));
    ASSERT_NE(places[key], GrantTable::nowhere);
  }
  for (const auto& [key, place] : places) {
    EXPECT_EQ(table.locate(key), place);
    EXPECT_TRUE(table.holds(place, key));
    EXPECT_FALSE(table.holds(place, key ^ std::uint64_t{1} << 63));
  }
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(table.locate(random() | 1), GrantTable::nowhere);
  EXPECT_EQ(table.held(), 1000U);
}

TEST(GrantTable, WhatIsUsedIsUsedInItsTurnOnly) {
  GrantTable table(8);
  const GrantTable::Place place = table.insert(7, 0, bytes("a"));
  table.use(place, 5, GrantWindow(1));
  EXPECT_EQ(table.used(place, GrantWindow(1)), 5U);
  EXPECT_EQ(table.used(place, GrantWindow(2)), 0U);
  table.use(place, 2, GrantWindow(2));
  // Two turns are kept apart; the third takes the place of the first.
  EXPECT_EQ(table.used(place, GrantWindow(1)), 5U);
  table.use(place, 1, GrantWindow(3));
  EXPECT_EQ(table.used(place, GrantWindow(3)), 1U);
  EXPECT_EQ(table.used(place, GrantWindow(2)), 2U);
  EXPECT_EQ(table.used(place, GrantWindow(1)), 0U);
}

TEST(GrantTable, AClosedPlaceHasNothingLeftInItsTurn) {
  GrantTable table(8);
  const GrantTable::Place place = table.insert(7, 0, bytes("a"));
  table.use(place, 5, GrantWindow(4));
  EXPECT_EQ(table.close(place, GrantWindow(4)), 5U);
  EXPECT_GT(table.used(place, GrantWindow(4)), GrantTable::most);
  EXPECT_EQ(table.used(place, GrantWindow(5)), 0U);
  EXPECT_EQ(harvest(table, 4), (Found{{7, 5}}));
}

TEST(GrantTable, TheCommonDecisionUsesTheGrantUpAndNoMore) {
  GrantTable table(64);
  const GrantTable::Place place = table.insert(7, 0, bytes("a"));
  const GrantTable::Lines lines = table.lines();
  const auto uses = [&](std::uint32_t weight, std::uint32_t grant, const GrantWindow& window) {
    const std::uint64_t key = 7;
    std::byte* halves = nullptr;
    lines.find(Hashes::alone(&key, 1), nullptr, &halves);
    return lines.use(reinterpret_cast<GrantTable::Lines::Half*>(halves)[window.half], weight, grant, window);
  };
  const GrantWindow window(9);
  EXPECT_TRUE(uses(2, 3, window));
  EXPECT_FALSE(uses(2, 3, window));
  EXPECT_TRUE(uses(1, 3, window));
  EXPECT_FALSE(uses(1, 3, window));
  EXPECT_EQ(table.used(place, window), 3U);
  // The largest grant there is, and a closed one.
  EXPECT_TRUE(uses(GrantTable::most, GrantTable::most, GrantWindow(10)));
  EXPECT_FALSE(uses(1, GrantTable::most, GrantWindow(10)));
  table.close(place, GrantWindow(11));
  EXPECT_FALSE(uses(1, GrantTable::most, GrantWindow(11)));
}

TEST(GrantTable, AKeyWithoutAPlaceHasNothingToUseInAnyWindow) {
  const GrantTable table(64);
  const GrantTable::Lines lines = table.lines();
  for (std::uint32_t number = 0; number < 40; ++number) {
    const GrantWindow window(number);
    GrantTable::Lines::Half nothing = lines.used_up(window);
    const std::uint64_t key = 7;
    std::byte* halves = nullptr;
    lines.find(Hashes::alone(&key, 1), reinterpret_cast<std::byte*>(&nothing), &halves);
    EXPECT_EQ(halves, reinterpret_cast<std::byte*>(&nothing));
    EXPECT_FALSE(lines.use(nothing, 0, GrantTable::most, window));
    EXPECT_FALSE(lines.use(nothing, GrantTable::most, GrantTable::most, window));
    EXPECT_EQ(nothing, lines.used_up(window));
  }
}

TEST(GrantTable, AHarvestTellsWhatHasBeenUsedSinceTheOneBefore) {
  GrantTable table(64);
  const GrantTable::Place a = table.insert(7, 1, bytes("a"));
  const GrantTable::Place b = table.insert(9, 2, bytes(""));
  table.insert(11, 0, bytes("never used"));
  table.use(a, 5, GrantWindow(1));
  EXPECT_EQ(harvest(table, 1), (Found{{7, 5}}));
  EXPECT_EQ(harvest(table, 1), Found{});
  table.use(a, 1, GrantWindow(1));
  table.use(b, 2, GrantWindow(1));
  table.use(b, 4, GrantWindow(2));  // by now the worker is in its next turn
  EXPECT_EQ(harvest(table, 1), (Found{{7, 1}, {9, 2}}));
  table.use(a, 3, GrantWindow(2));
  EXPECT_EQ(harvest(table, 2), (Found{{7, 3}, {9, 4}}));
}

TEST(GrantTable, OfEachKeyOfALineIsHarvestedWhatHasBeenUsedOfItAlone) {
  GrantTable table(8);
  std::vector<GrantTable::Place> places;
  for (std::uint64_t key = 1; key <= 8; ++key)  // so much alike that all have one home
    places.push_back(table.insert(key, 0, bytes("a")));
  for (std::uint32_t turn = 0; turn < 4; ++turn) {
    for (std::uint64_t key = 1; key <= 8; ++key) {
      ASSERT_EQ(places[key - 1], places[0] + key - 1);
      table.use(places[key - 1], 1, GrantWindow(turn));
      EXPECT_EQ(harvest(table, turn), (Found{{key, 1}}));
    }
  }
}

TEST(GrantTable, WhatHasBeenLentIsCountedAsUsed) {
  GrantTable table(8);
  const GrantTable::Place place = table.insert(7, 0, bytes("a"));
  const GrantWindow window(1);
  table.use(place, 8, window);
  table.close(place, window);
  EXPECT_EQ(table.fill(place, 0, window), 8U);
  table.use(place, 8, window);
  EXPECT_EQ(table.fill(place, 0, window), 8U);
  table.use(place, 3, window);
  EXPECT_EQ(table.take_lent(7, 16, window), 19U);
  EXPECT_EQ(harvest(table, 1), Found{});
}

TEST(GrantTable, IsFilledUpAsFarAsThereIsCredit) {
  GrantTable table(8);
  const GrantTable::Place place = table.insert(7, 0, bytes("a"));
  const GrantWindow window(1);
  table.use(place, 8, window);
  table.close(place, window);
  EXPECT_TRUE(table.may_be_filled(place, 7, window));
  EXPECT_FALSE(table.may_be_filled(place, 8, window));
  EXPECT_EQ(table.fill(place, 3, window), 5U);
  EXPECT_EQ(table.used(place, window), 3U);
  EXPECT_EQ(table.take_lent(7, 5, window), 8U);
}

TEST(GrantTable, WhatIsLentBeforeTheSpansCountIsTakenIsCountedWithTheNext) {
  GrantTable table(8);
  const GrantTable::Place place = table.insert(7, 0, bytes("a"));
  const GrantWindow window(1);
  table.use(place, 8, window);
  EXPECT_EQ(harvest(table, 1), (Found{{7, 8}}));
  table.use(place, 2, window);
  table.fill(place, 0, window);  // 10, in the span that runs
  EXPECT_EQ(harvest(table, 1), Found{});
  table.use(place, 3, window);
  EXPECT_EQ(harvest(table, 1), Found{});
  EXPECT_EQ(table.take_lent(7, 10, window), 5U);
  // And where the span that is handed over has lent as well, but less.
  table.fill(place, 2, window);
  table.fill(place, 0, window);
  EXPECT_EQ(table.take_lent(7, 1, window), 0U);
  EXPECT_EQ(harvest(table, 1), Found{});
  table.use(place, 1, window);
  EXPECT_EQ(table.take_lent(7, 2, window), 1U);
}

TEST(GrantTable, WhatWasLentInAnEarlierTurnIsNotCountedInALaterOne) {
  GrantTable table(8);
  const GrantTable::Place place = table.insert(7, 0, bytes("a"));
  table.use(place, 8, GrantWindow(1));
  table.fill(place, 0, GrantWindow(1));
  table.use(place, 4, GrantWindow(2));
  EXPECT_EQ(table.fill(place, 0, GrantWindow(2)), 4U);
  EXPECT_EQ(table.take_lent(7, 8, GrantWindow(1)), 8U);
  EXPECT_EQ(table.take_lent(7, 4, GrantWindow(2)), 4U);
}

TEST(GrantTable, AHalfUsedAgainIsCountedAnew) {
  GrantTable table(8);
  const GrantTable::Place place = table.insert(7, 0, bytes("a"));
  for (std::uint32_t turn = 1; turn < 200; ++turn) {
    // The stamps come round every 32 turns; the key rests for some of them.
    if (turn % 3 == 0) continue;
    const std::uint32_t before = table.used(place, GrantWindow(turn)) & GrantTable::most;
    table.use(place, turn % 5 + 1, GrantWindow(turn));
    EXPECT_EQ(harvest(table, turn), (Found{{7, turn % 5 + 1}})) << turn << " after " << before;
  }
}

TEST(GrantTable, AKeyAsOldAsTheStampsIsGrantedLessAndCountedOnce) {
  GrantTable table(8);
  const GrantTable::Place place = table.insert(7, 0, bytes("a"));
  table.use(place, 5, GrantWindow(3));
  EXPECT_EQ(harvest(table, 3), (Found{{7, 5}}));
  EXPECT_EQ(harvest(table, 35), Found{});
  EXPECT_EQ(table.used(place, GrantWindow(35)), 5U);
  table.use(place, 1, GrantWindow(35));
  EXPECT_EQ(harvest(table, 35), (Found{{7, 1}}));
}

TEST(GrantTable, WithoutRoomThereIsNoPlaceAndNobodyLosesHis) {
  GrantTable table(64);
  std::mt19937_64 random(3);
  std::vector<std::uint64_t> held;
  std::size_t refused = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t key = random() | 1;
    const GrantTable::Place place = table.insert(key, 0, bytes("a name of some length"));
    if (place == GrantTable::nowhere) {
      ++refused;
      continue;
    }
    table.use(place, 2, GrantWindow(1));
    held.push_back(key);
  }
  EXPECT_GT(refused, 700U);
  EXPECT_GE(held.size(), 50U);
  EXPECT_TRUE(table.crowded());
  const Found found = harvest(table, 1);
  EXPECT_EQ(found.size(), held.size());
  for (const std::uint64_t key : held) EXPECT_EQ(found.count(key), 1U);
}

TEST(GrantTable, TellsRulesOfAnyNumber) {
  GrantTable table(64);
  const std::vector<GrantWindow> windows(max_rules, GrantWindow(1));
  std::map<std::uint64_t, RuleIndex> held;
  for (std::uint64_t i = 0; i < 6; ++i) {
    const std::uint64_t key = i << 60 | (i + 1);
    held[key] = static_cast<RuleIndex>(i % 2 == 0 ? i : max_rules - 1 - i);
    table.use(table.insert(key, held[key], bytes("a")), 1, GrantWindow(1));
  }
  std::map<std::uint64_t, RuleIndex> told;
  table.harvest(windows, [&](const GrantUse& use) { told[use.key] = use.rule; });
  EXPECT_EQ(told, held);
}

/// What a log tells that it has not told before, by key.
std::map<std::uint64_t, std::string> told_by(NameLog& log) {
  std::map<std::uint64_t, std::string> names;
  log.read_new([&](const NewName& name) {
    EXPECT_EQ(names.count(name.key), 0U);
    names[name.key] = std::to_string(name.rule) + "|" +
                      std::string(reinterpret_cast<const char*>(name.bytes.data()), name.bytes.size());
  });
  return names;
}
using Told = std::map<std::uint64_t, std::string>;

TEST(GrantTable, TellsAKeysNameOnceWhereTheWorkerCounts) {
  GrantTable table(64);
  table.insert(7, 1, bytes("ann"));
  const std::string name = "bob";
  const auto bob = [&] { return table.locate_or_insert(9, 2, [&] { return bytes(name); }); };
  bob();
  EXPECT_EQ(told_by(table.names(0)), (Told{{7, "1|ann"}, {9, "2|bob"}}));
  EXPECT_EQ(told_by(table.names(0)), Told{});
  table.write_names_to(1);
  bob();
  table.insert(11, 0, bytes(""));
  EXPECT_EQ(told_by(table.names(0)), Told{});
  table.names(0).empty();
  EXPECT_EQ(told_by(table.names(1)), (Told{{11, "0|"}}));
  table.insert(13, 0, bytes("cid"));
  EXPECT_EQ(told_by(table.names(1)), (Told{{13, "0|cid"}}));
  table.write_names_to(0);
  table.insert(15, 0, bytes("dan"));
  EXPECT_EQ(told_by(table.names(0)), (Told{{15, "0|dan"}}));
}

TEST(GrantTable, AKeyWhoseNameFindsNoRoomFindsNoPlace) {
  GrantTable table(64);
  EXPECT_EQ(table.insert(7, 0, bytes(std::string(70'000, 'n'))), GrantTable::nowhere);
  std::uint64_t key = 1;
  const std::string name(1000, 'n');
  while (table.insert(key << 32 | key, 0, bytes(name)) != GrantTable::nowhere) ++key;
  EXPECT_LT(key, 40U);
  EXPECT_EQ(table.locate(key << 32 | key), GrantTable::nowhere);
  EXPECT_EQ(table.held(), key - 1);
  EXPECT_EQ(told_by(table.names(0)).size(), key - 1);
  table.names(0).empty();
  EXPECT_NE(table.insert(key << 32 | key, 0, bytes(name)), GrantTable::nowhere);
}

TEST(GrantTable, OfAsManyKeysAsItWasMadeForNearlyAllFindAPlace) {
  std::mt19937_64 random(17);
  for (const std::uint32_t keys : {1000U, 65'536U, 1'000'000U}) {
    GrantTable table(keys);
    std::uint32_t without = 0;
    for (std::uint32_t i = 0; i < keys; ++i)
      without += table.insert(random() | 1, 0, bytes("203.0.113.7")) == GrantTable::nowhere;
    EXPECT_LE(without, keys / 10'000) << keys;
    EXPECT_FALSE(table.crowded() && without == 0) << keys;
  }
}

TEST(GrantTable, AKeyTakesLittleMemoryHoweverLongItsName) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  std::mt19937_64 random(23);
  constexpr std::uint32_t keys = 1'000'000;
  GrantTable table(keys);
  table.touch_pages();
  std::uint32_t without = 0;
  for (std::uint32_t i = 0; i < keys; ++i) {
    without += table.insert(random() | 1, 0, bytes(std::string(38, 'n'))) == GrantTable::nowhere;
    if (i % 50'000 != 0) continue;
    table.names(0).read_new([](const NewName&) {});
    table.names(0).empty();
  }
  EXPECT_LE(without, keys / 1000);
  // And what the last ones' names take until they have been read.
  EXPECT_LE(table.memory(), std::size_t{29} * keys + 50'000 * 60 * 5);
  for (int times = 0; times < 3; ++times) {
    table.names(0).read_new([](const NewName&) {});
    table.names(0).empty();
  }
  EXPECT_LE(table.memory(), std::size_t{29} * keys + (std::size_t{128} << 10));
}

TEST(GrantTable, IdleKeysAreForgottenAndTheOthersGoOnAsIfNothingHadHappened) {
  std::mt19937_64 random(29);
  for (const std::uint32_t keys : {8U, 64U, 1000U, 50'000U}) {
    GrantTable table(keys);
    const std::vector<std::uint32_t> turns{7, 20, 3};
    const std::vector<GrantTable::RecentTurns> recent{{7, true}, {20, false}, {3, true}};
    struct Used {
      std::uint32_t turn, count, harvested;
      RuleIndex rule;
    };
    std::map<std::uint64_t, Used> staying;
    std::set<std::uint64_t> idle;
    // More than the table is for: so that there are full lines.
    for (std::uint32_t i = 0; i < keys + keys / 4; ++i) {
      const std::uint64_t key = random() | 1;
      const auto rule = static_cast<RuleIndex>(random() % 3);
      const GrantTable::Place place = table.insert(key, rule, bytes("a"));
      if (place == GrantTable::nowhere) continue;
      // Of one that is long over, of the window before, of the one that runs, of the one that begins; or of
      // none.
      const std::uint32_t turn = turns[rule] - 2 + random() % 4;
      const auto count = static_cast<std::uint32_t>(random() % 4);
      if (count > 0) table.use(place, count, GrantWindow(turn));
      if (count > 0 && turn + recent[rule].and_before >= turns[rule])
        staying[key] = {turn, count, 0, rule};
      else
        idle.insert(key);
    }
    const auto harvest_of = [&](std::uint32_t ahead) {
      std::vector<GrantWindow> windows;
      for (const std::uint32_t turn : turns) windows.push_back(GrantWindow(turn + ahead));
      std::map<std::uint64_t, std::uint32_t> found;
      table.harvest(windows, [&](const GrantUse& use) {
        found[use.key] += use.admitted;
        const auto expected = staying.find(use.key);
        ASSERT_TRUE(expected != staying.end() || idle.contains(use.key));
        if (expected != staying.end()) {
          EXPECT_EQ(use.rule, expected->second.rule);
        }
      });
      return found;
    };
    const auto earlier = harvest_of(~0U);
    const auto before = harvest_of(0);
    std::set<std::uint64_t> forgotten;
    table.forget_idle(recent, [&](std::uint64_t key) { EXPECT_TRUE(forgotten.insert(key).second); });
    EXPECT_EQ(forgotten, idle);
    EXPECT_EQ(table.held(), staying.size());
    for (const std::uint64_t key : idle) EXPECT_EQ(table.locate(key), GrantTable::nowhere);
    for (const auto& [key, used] : staying) {
      const GrantTable::Place place = table.locate(key);
      ASSERT_NE(place, GrantTable::nowhere);
      ASSERT_TRUE(table.holds(place, key));
      EXPECT_EQ(table.used(place, GrantWindow(used.turn)), used.count);
    }
    // What had been told is not told again, and nothing is missing.
    const auto again = harvest_of(0);
    EXPECT_TRUE(again.empty());
    const auto after = harvest_of(1);
    for (const auto& [key, used] : staying) {
      const std::uint32_t turn = turns[used.rule];
      EXPECT_EQ((used.turn < turn ? earlier : used.turn == turn ? before : after).at(key), used.count);
    }
    // There is room again.
    told_by(table.names(0));
    table.names(0).empty();
    for (const std::uint64_t key : idle) {
      const GrantTable::Place place = table.insert(key, 0, bytes("back"));
      if (place != GrantTable::nowhere) {
        EXPECT_EQ(table.used(place, GrantWindow(turns[0])), 0U);
      }
    }
  }
}

TEST(GrantTable, OnceAllAreIdleItIsAsNewTimeAndAgain) {
  GrantTable table(64);
  table.touch_pages();
  for (std::uint32_t turn = 1; turn < 40; turn += 3) {
    for (std::uint64_t key = 1; key <= 64; ++key)
      table.use(table.insert(key << 58 | key, 0, bytes(std::to_string(key))), 1, GrantWindow(turn));
    EXPECT_EQ(harvest(table, turn).size(), 64U);
    std::size_t forgotten = 0;
    table.forget_idle(std::vector<GrantTable::RecentTurns>{{turn + 2, true}},
                      [&](std::uint64_t) { ++forgotten; });
    EXPECT_EQ(forgotten, 64U);
    EXPECT_EQ(table.held(), 0U);
    EXPECT_FALSE(table.crowded());
    EXPECT_EQ(harvest(table, turn), Found{});
    EXPECT_EQ(told_by(table.names(0)).size(), 64U);
    table.names(0).empty();
  }
  const GrantTable::Place place = table.insert(1ULL << 58 | 1, 0, bytes("new"));
  table.use(place, 1, GrantWindow(1));
  EXPECT_EQ(harvest(table, 1), (Found{{1ULL << 58 | 1, 1}}));
}

TEST(GrantTable, WithoutGrantsThereIsRoomForNobody) {
  GrantTable table(0);
  EXPECT_EQ(table.insert(7, 0, bytes("a")), GrantTable::nowhere);
  EXPECT_EQ(table.locate(7), GrantTable::nowhere);
}

TEST(StandingGrant, IsOfAllWorkersA64thAtMost) {
  const Rule rule;
  EXPECT_EQ(standing_grant(rule, 63, 1), 0U);
  EXPECT_EQ(standing_grant(rule, 64, 1), 1U);
  EXPECT_EQ(standing_grant(rule, 1000, 2), 7U);
  EXPECT_EQ(standing_grant(rule, 1000, 16), 0U);
  EXPECT_EQ(standing_grant(rule, std::uint64_t{1} << 62, 4), GrantTable::most);
}

TEST(StandingGrant, IsAThirdOfThatWhereWindowsSlide) {
  Rule rule;
  rule.algorithm = Algorithm::sliding_window;
  EXPECT_EQ(standing_grant(rule, 191, 1), 0U);
  EXPECT_EQ(standing_grant(rule, 192, 1), 1U);
  EXPECT_EQ(standing_grant(rule, 1000, 2), 2U);
}

TEST(StandingGrant, IsAsMuchOfABucketButForAnOnlyWorker) {
  for (const Algorithm algorithm : {Algorithm::token_bucket, Algorithm::leaky_bucket}) {
    Rule rule;
    rule.algorithm = algorithm;
    EXPECT_EQ(standing_grant(rule, 511, 2), 0U);
    EXPECT_EQ(standing_grant(rule, 512, 2), 1U);
    EXPECT_EQ(standing_grant(rule, std::uint64_t{1} << 40, 1), 0U);
  }
}

TEST(StandingGrant, IsAPartOfWhatABucketHoldsAtTheNodesPrice) {
  Rule rule;
  rule.limit = 500;
  EXPECT_EQ(grantable(rule), 500U);
  EXPECT_EQ(grantable(rule, 300, full_price), 300U) << "no bucket";
  rule.algorithm = Algorithm::token_bucket;
  constexpr std::uint64_t any = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(grantable(rule), 500U);
  rule.burst = 10'000;
  EXPECT_EQ(grantable(rule), 10'000U);
  EXPECT_EQ(grantable(rule, any, 4 * full_price), 2'500U);
  EXPECT_EQ(grantable(rule, 0, full_price), 0U) << "closed";
}

TEST(StandingGrant, IsForKeysWhoseUsesAreASum) {
  Rule rule;
  rule.key = {{.kind = Dimension::Kind::source_address, .name = {}}};
  const auto may_have_one = [&](Algorithm algorithm) {
    rule.algorithm = algorithm;
    return may_be_granted(rule);
  };
  for (const Algorithm algorithm : {Algorithm::cooldown, Algorithm::fixed_window, Algorithm::sliding_window,
                                    Algorithm::shed, Algorithm::token_bucket, Algorithm::leaky_bucket})
    EXPECT_TRUE(may_have_one(algorithm)) << to_string(algorithm);
  EXPECT_FALSE(may_have_one(Algorithm::sliding_log));
  EXPECT_FALSE(may_have_one(Algorithm::strict));
  rule.warmup = std::chrono::seconds{1};
  EXPECT_FALSE(may_have_one(Algorithm::token_bucket)) << "a cold token costs more";
  rule.warmup = {};
  rule.key = {};
  EXPECT_FALSE(may_have_one(Algorithm::token_bucket)) << "one that all requests share";
}

TEST(KeyFilter, NeverMissesAKeyThatItWasGiven) {
  std::mt19937_64 random(5);
  KeyFilter filter;
  EXPECT_FALSE(filter.may_hold(7));
  std::vector<std::uint64_t> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back(random());
  filter.assign(keys);
  for (const std::uint64_t key : keys) EXPECT_TRUE(filter.may_hold(static_cast<std::uint32_t>(key)));
  int others = 0;
  for (int i = 0; i < 10'000; ++i) others += filter.may_hold(static_cast<std::uint32_t>(random()));
  EXPECT_LT(others, 500);
}

}  // namespace
}  // namespace weir
