// SPDX-License-Identifier: BSD-3-Clause
#include "shared/publication.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "shared/quiescence.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

TEST(Publication, FindsTheKeysItHoldsAndNoOthers) {
  for (const std::size_t likely : {0U, 60U, 1000U}) {
    std::mt19937_64 random(3);
    std::vector<std::uint64_t> keys;
    for (int i = 0; i < 1000; ++i) keys.push_back(random() | 1);
    Publication publication;
    publication.reset_keys(likely);
    for (std::uint64_t key : keys) publication.append_key({.key = key, .terms = {key / 2, 0}});
    publication.index_keys();
    for (std::uint64_t key : keys) {
      ASSERT_NE(publication.find(key), nullptr);
      EXPECT_EQ(publication.find(key)->terms.allowance, key / 2);
    }
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(publication.find(random() | 1), nullptr);
    EXPECT_EQ(publication.keys(), keys.size());
  }
}

TEST(Publication, FindsKeysAddedOnceItHasBeenIndexed) {
  // More than an index made for the first ones alone has places.
  constexpr std::uint64_t appended = 100;
  constexpr std::uint64_t added = 900;
  std::mt19937_64 random(5);
  std::vector<std::uint64_t> keys;
  Publication publication;
  publication.reset_keys(0);
  const auto state = [&] {
    keys.push_back(random() | 1);
    return KeyState{.key = keys.back(), .terms = {keys.size(), 0}};
  };
  for (std::uint64_t i = 0; i < appended; ++i) publication.append_key(state());
  publication.index_keys(added);
  for (std::uint64_t i = 0; i < added; ++i) publication.add_key(state());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_NE(publication.find(keys[i]), nullptr) << i;
    EXPECT_EQ(publication.find(keys[i])->terms.allowance, i + 1);
  }
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(publication.find(random() & ~std::uint64_t{1}), nullptr);
}

TEST(Publication, TellsKeysApartThatLookAlikeInItsIndex) {
  constexpr std::uint64_t alike = std::uint64_t{0x12345678} << 32;
  Publication publication;
  publication.reset_keys(3);
  // One home, too: of eight places.
  for (const std::uint64_t low : {0x10U, 0x20U, 0x30U})
    publication.append_key({.key = alike | low, .terms = {low, 0}});
  publication.index_keys();
  for (const std::uint64_t low : {0x10U, 0x20U, 0x30U}) {
    ASSERT_NE(publication.find(alike | low), nullptr);
    EXPECT_EQ(publication.find(alike | low)->terms.allowance, low);
  }
  EXPECT_EQ(publication.find(alike | 0x40), nullptr);
  EXPECT_EQ(publication.keys(), 3U);
}

TEST(Publication, ShowsEachKeyOnceInTheOrderInWhichTheyCame) {
  Publication publication;
  publication.reset_keys(3);
  std::vector<std::uint64_t> shown;
  for (const std::uint64_t key : {9U, 2U, 7U}) publication.append_key({.key = key, .terms = {}});
  publication.index_keys(1);
  publication.add_key({.key = 4, .terms = {}});
  publication.for_each_key([&](const KeyState& state) { shown.push_back(state.key); });
  EXPECT_EQ(shown, (std::vector<std::uint64_t>{9, 2, 7, 4}));
}

/// Keys that are blocked until a time each.
std::shared_ptr<const BlockedKeys> blocked(const std::vector<std::pair<std::uint64_t, Duration>>& keys) {
  std::vector<KeyBlock> blocks;
  for (const auto& [key, until] : keys) blocks.push_back({key, MonotonicTime(until)});
  // Half of them are told of later.
  const auto later = std::span(blocks).subspan(blocks.size() / 2);
  BlockedKeys first;
  first.assign(BlockedKeys(), MonotonicTime::min(), std::span(blocks).first(blocks.size() / 2));
  const auto set = std::make_shared<BlockedKeys>();
  set->extend(first, later);
  return set;
}

TEST(Publication, TellsOfBlocksThatItNamesAndOfThoseThatItSharesWithOthers) {
  Publication publication;
  publication.reset_keys(3);
  publication.append_key({.key = 7, .terms = {}, .blocked_until = MonotonicTime(3s)});
  publication.append_key({.key = 8, .terms = {}, .blocked_until = MonotonicTime(4s)});
  publication.append_key({.key = 9, .terms = {}});
  publication.index_keys();
  publication.set_blocked(blocked({{5, 50s}, {8, 80s}, {9, 90s}}), {});
  publication.set_ungranted({});
  const auto until = [&](std::uint64_t key) { return publication.blocked_until(key, publication.find(key)); };
  EXPECT_EQ(until(5), MonotonicTime(50s));
  EXPECT_EQ(until(6), never);
  EXPECT_EQ(until(7), MonotonicTime(3s));
  EXPECT_EQ(until(8), MonotonicTime(4s)) << "what it names is the newer";
  EXPECT_EQ(until(9), MonotonicTime(90s));
  publication.set_blocked(nullptr, {});
  EXPECT_EQ(until(5), never);
  EXPECT_EQ(until(7), MonotonicTime(3s));
}

TEST(Publication, TellsNothingOfBlocksThatHadEndedWhenItWasMade) {
  Publication publication;
  publication.set_blocked(blocked({{5, 50s}, {6, 60s}}), MonotonicTime(50s));
  publication.set_ungranted({});
  EXPECT_EQ(publication.blocked_until(5, nullptr), never);
  EXPECT_EQ(publication.blocked_until(6, nullptr), MonotonicTime(60s));
}

TEST(Publication, NobodyHasGrantsWhoIsBlockedOrIsNamedToHaveNone) {
  for (const std::uint64_t count : {0U, 1U, 3000U}) {
    for (const std::uint64_t blocks : {1U, 3000U}) {
      std::mt19937_64 random(17);
      std::vector<std::pair<std::uint64_t, Duration>> lasting;
      std::vector<std::uint64_t> ungranted;
      for (std::uint64_t i = 0; i < blocks; ++i) lasting.emplace_back(random() | 1, 1s);
      for (std::uint64_t i = 0; i < count; ++i) ungranted.push_back(random());
      Publication publication;
      publication.set_blocked(blocked(lasting), {});
      publication.set_ungranted(ungranted);
      EXPECT_EQ(publication.ungranted_keys(), count);
      const auto may_hold = [&](std::uint64_t key) {
        return publication.ungranted().may_hold(static_cast<std::uint32_t>(key));
      };
      for (const auto& [key, until] : lasting) ASSERT_TRUE(may_hold(key));
      for (const std::uint64_t key : ungranted) ASSERT_TRUE(may_hold(key));
      int others = 0;
      for (int i = 0; i < 10'000; ++i) others += may_hold(random());
      EXPECT_LT(others, 500);
    }
  }
}

TEST(Publication, AnEmptyOneFindsNothing) {
  Publication publication;
  EXPECT_EQ(publication.find(1), nullptr);
  publication.reset_keys(0);
  EXPECT_EQ(publication.find(1), nullptr);
}

TEST(Publication, ReuseForgetsTheKeysOfBefore) {
  Publication publication;
  publication.reset_keys(1);
  publication.append_key({.key = 7, .terms = {1, 0}});
  publication.index_keys();
  publication.reset_keys(1);
  EXPECT_EQ(publication.find(7), nullptr);
  EXPECT_EQ(publication.keys(), 0U);
}

TEST(Publication, FindsEachOfSoManyKeysThatTheyLieOnHugePagesWhateverItHeldBefore) {
  std::uint64_t number = 0;
  Publication publication;
  for (const std::uint64_t count : {10U, 200'000U, 10U, 100'000U}) {
    publication.reset_keys(count / 2);
    const std::uint64_t first = number + 1;
    // Keys are hashes.
    const auto key = [](std::uint64_t of) { return of * 0x9e3779b97f4a7c15; };
    while (number < first + count) publication.append_key({.key = key(++number), .terms = {number, 0}});
    publication.index_keys();
    for (std::uint64_t i = first; i <= number; ++i) {
      const KeyState* const state = publication.find(key(i));
      ASSERT_NE(state, nullptr) << i;
      ASSERT_EQ(state->terms.allowance, i);
    }
    for (std::uint64_t i = 1; i < first; ++i) ASSERT_EQ(publication.find(key(i)), nullptr) << i;
  }
}

/// A publication of interval 5, in which grants come to 12 and came to 10 before.
Publication with_grants(bool slides) {
  Publication publication;
  publication.windows = {{.slides = slides, .interval_number = 5}};
  publication.defaults = {{1000, 0}};
  publication.reserves = {12};
  publication.reserves_before = {10};
  return publication;
}

TEST(Reserve, IsWhatGrantsComeToInTheIntervalThatAWorkerCountsFor) {
  const Publication publication = with_grants(false);
  EXPECT_EQ(publication.reserve_of(nullptr, 0, 0, 5), 12U);
  EXPECT_EQ(publication.reserve_of(nullptr, 0, 0, 4), 12U);  // whichever is more
  const KeyState key{.ungranted_since = 5};
  EXPECT_EQ(publication.reserve_of(&key, 0, 0, 5), 0U);
  EXPECT_EQ(publication.reserve_of(&key, 0, 0, 4), 12U);
}

TEST(Reserve, LeavesHalfOfWhatOthersHaveLeft) {
  const Publication publication = with_grants(false);
  EXPECT_EQ(publication.drawable(1000, nullptr, 0, 0, 5), 988U);
  EXPECT_EQ(publication.drawable(20, nullptr, 0, 0, 5), 10U);
  EXPECT_TRUE(publication.reserves_all(nullptr, 0, 0, 5));
}

TEST(Reserve, IsOffWhatIsPublishedWhereWindowsSlide) {
  const Publication publication = with_grants(true);
  EXPECT_EQ(publication.reserve_of(nullptr, 0, 0, 5), 0U);
  EXPECT_EQ(publication.drawable(1000, nullptr, 0, 0, 5), 1000U);
  // What a worker does not use of its own is for spans to come.
  EXPECT_FALSE(publication.reserves_all(nullptr, 0, 0, 5));
}

TEST(Quiescence, AnOfflineWorkerHasPassed) {
  Quiescence quiescence(2);
  const std::uint64_t token = quiescence.start();
  EXPECT_TRUE(quiescence.passed(0, token));
  EXPECT_TRUE(quiescence.all_passed(token));
}

TEST(Quiescence, AnOnlineWorkerHasPassedOnceItReports) {
  Quiescence quiescence(2);
  quiescence.online(0);
  const std::uint64_t token = quiescence.start();
  EXPECT_FALSE(quiescence.passed(0, token));
  EXPECT_FALSE(quiescence.all_passed(token));
  quiescence.quiescent(0);
  EXPECT_TRUE(quiescence.passed(0, token));
  EXPECT_TRUE(quiescence.all_passed(token));
}

TEST(Quiescence, OneStalledWorkerDoesNotHideThatOthersHavePassed) {
  Quiescence quiescence(2);
  quiescence.online(0);
  quiescence.online(1);
  const std::uint64_t token = quiescence.start();
  quiescence.quiescent(1);
  EXPECT_TRUE(quiescence.passed(1, token));
  EXPECT_FALSE(quiescence.passed(0, token));
}

TEST(Quiescence, AWorkerThatComesOnlineAfterTheTokenHasPassedIt) {
  Quiescence quiescence(1);
  const std::uint64_t token = quiescence.start();
  quiescence.online(0);
  EXPECT_TRUE(quiescence.passed(0, token));
}

}  // namespace
}  // namespace weir
