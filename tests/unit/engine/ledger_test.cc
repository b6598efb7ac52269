// SPDX-License-Identifier: BSD-3-Clause
#include "engine/ledger.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/name_pool.h"
#include "seed.h"

namespace weir::testing {
namespace {

TEST(Ledger, FindsEveryKeyItHoldsAndNoOtherWhateverComesAndGoes) {
  SCOPED_TRACE("seed " + std::to_string(test_seed()));
  std::mt19937_64 random(test_seed());
  constexpr std::uint32_t capacity = 200;
  Ledger ledger(capacity);
  std::map<std::uint64_t, std::string> wanted;
  for (int step = 0; step < 20000; ++step) {
    // Few bits at the top and at the bottom, so that homes and tags are often the same.
    const std::uint64_t key = (random() % 8) << 60 | (random() % 64) << 20 | (random() % 4 + 1);
    const SlotIndex found = ledger.find(key);
    const auto known = wanted.find(key);
    ASSERT_EQ(found != Ledger::none, known != wanted.end());
    if (found != Ledger::none) {
      EXPECT_EQ(ledger[found].key, key);
      EXPECT_EQ(ledger.name(ledger[found]), known->second);
      ledger.erase(found);
      wanted.erase(known);
    } else {
      const std::string name(random() % 200, static_cast<char>('a' + random() % 26));
      const SlotIndex made = ledger.insert(key, name, 1);
      ASSERT_EQ(made == Ledger::none, wanted.size() == capacity);
      if (made == Ledger::none) {
        ASSERT_TRUE(ledger.full());
        const SlotIndex other = ledger.find(std::next(wanted.begin(), 100)->first);
        wanted.erase(std::next(wanted.begin(), 100));
        ledger.erase(other);
      } else {
        EXPECT_FALSE(ledger[made].touched) << "nothing is left of the slot's key before";
        EXPECT_EQ(ledger[made].detail, no_index);
        if (random() % 2 == 0) ledger.own_detail(ledger[made]).debt = key;
        wanted[key] = name;
      }
    }
    ASSERT_EQ(ledger.size(), wanted.size());
  }
}

TEST(Ledger, KnowsTheNameOfAKeyAsLongAsAWorkerHoldsIt) {
  Ledger ledger(100);
  EXPECT_EQ(ledger.learned_name(7), "");
  ledger.learn(7, "ann");
  ledger.learn(7, "ann");
  EXPECT_EQ(ledger.learned_name(7), "ann");
  const SlotIndex slot = ledger.insert(7, "not asked for", 1);
  EXPECT_EQ(ledger.name(ledger[slot]), "ann");
  ledger.erase(slot);
  ledger.release_names();
  EXPECT_EQ(ledger.learned_name(7), "ann");
  ledger.unlearn(7);
  EXPECT_EQ(ledger.learned_name(7), "ann");
  ledger.unlearn(7);
  EXPECT_EQ(ledger.learned_name(7), "");
  ledger.unlearn(7);
}

TEST(Ledger, AKeyThatNoWorkerHoldsAnyMoreKeepsItsNameUntilItIsErased) {
  Ledger ledger(100);
  ledger.learn(7, "ann");
  const SlotIndex slot = ledger.insert(7, "", 1);
  ledger.unlearn(7);
  ledger.release_names();
  ledger.learn(9, "bob");
  EXPECT_EQ(ledger.name(ledger[slot]), "ann");
  ledger.erase(slot);
  EXPECT_EQ(ledger.learned_name(9), "bob");
}

TEST(Ledger, ANameCanBeReadUntilNamesAreReleasedThoughNobodyHoldsTheKey) {
  Ledger ledger(100);
  ledger.learn(7, "ann");
  const SlotIndex slot = ledger.insert(7, "", 1);
  const std::string_view name = ledger.name(ledger[slot]);
  ledger.erase(slot);
  ledger.unlearn(7);
  ledger.insert(9, "bob", 1);
  EXPECT_EQ(name, "ann");
}

TEST(Ledger, LearnsMoreKeysThanItHasSlotsForAndTellsWhenTheyAreMany) {
  Ledger ledger(100);
  const auto key_of = [](std::uint64_t number) { return number << 40 | 1; };
  for (std::uint64_t i = 1; i <= 75; ++i) ledger.learn(key_of(i), "name");
  EXPECT_FALSE(ledger.learned_crowded());
  for (std::uint64_t i = 76; i <= 10'000; ++i) ledger.learn(key_of(i), "name " + std::to_string(i));
  EXPECT_TRUE(ledger.learned_crowded());
  EXPECT_EQ(ledger.learned(), 10'000U);
  EXPECT_EQ(ledger.learned_name(key_of(10'000)), "name 10000");
  EXPECT_EQ(ledger.learned_name(key_of(10'001)), "");
  for (std::uint64_t i = 76; i <= 10'000; ++i) ledger.unlearn(key_of(i));
  EXPECT_FALSE(ledger.learned_crowded());
}

TEST(Ledger, CountsAsManyNodesAsThereAre) {
  Ledger ledger(4);
  const KeySlot& slot = ledger[ledger.insert(7, "ann", most_nodes)];
  EXPECT_DOUBLE_EQ(ledger.view(slot).share(), 1.0 / most_nodes);
}

TEST(Ledger, NamesAreRightAndNoneIsLeftOverWhateverIsLearnedAndForgotten) {
  SCOPED_TRACE("seed " + std::to_string(test_seed()));
  std::mt19937_64 random(test_seed());
  constexpr std::uint32_t capacity = 4000;
  Ledger ledger(capacity);
  struct Known {
    std::string name;
    unsigned holders = 0;
    bool has_slot = false;
  };
  std::map<std::uint64_t, Known> wanted;
  const auto name_of = [](std::uint64_t key) { return std::string(key % 50 + 1, 'n') + std::to_string(key); };
  std::size_t memory = 0;
  for (int step = 0; step < 200'000; ++step) {
    // Few homes, and many that lie beside the last.
    const std::uint64_t key = (random() % 40 == 0 ? 0xff : random() % 32) << 56 | random() % 97 << 20 | 1;
    Known& known = wanted[key];
    switch (random() % 5) {
      case 0:
        ledger.learn(key, name_of(key));
        ++known.holders;
        break;
      case 1:
      case 2:
        ledger.unlearn(key);
        if (known.holders > 0) --known.holders;
        break;
      case 3:
        if (!known.has_slot) ledger.insert(key, name_of(key), 1);
        known.has_slot = true;
        break;
      default:
        if (known.has_slot) ledger.erase(ledger.find(key));
        known.has_slot = false;
        break;
    }
    if (random() % 16 == 0) ledger.release_names();
    ASSERT_EQ(ledger.learned_name(key), known.holders > 0 ? name_of(key) : "");
    if (const SlotIndex slot = ledger.find(key); slot != Ledger::none) {
      ASSERT_EQ(ledger.name(ledger[slot]), name_of(key));
    }
    if (step == 100'000) memory = ledger.memory();
  }
  for (const auto& [key, known] : wanted)
    ASSERT_EQ(ledger.learned_name(key), known.holders > 0 ? name_of(key) : "");
  EXPECT_EQ(ledger.memory(), memory) << "names that nobody holds have not been given back";
}

TEST(Ledger, ADetailIsTheKeysOwnAndBeginsBlankAlsoWhereAnotherKeyHadItBefore) {
  Ledger ledger(1000);
  for (std::uint64_t key = 1; key <= 1000; ++key) {
    KeySlot& slot = ledger[ledger.insert(key << 32 | 1, "name", 4)];
    EXPECT_EQ(ledger.detail_if_any(slot), nullptr);
    EXPECT_DOUBLE_EQ(ledger.view(slot).share(), 0.25);
    KeyDetail& detail = ledger.own_detail(slot);
    EXPECT_EQ(detail.debt, 0U);
    EXPECT_DOUBLE_EQ(ledger.view(slot).share(), 0.25);
    detail.debt = key;
  }
  const std::size_t memory = ledger.memory();
  for (std::uint64_t key = 1; key <= 1000; ++key) {
    const SlotIndex slot = ledger.find(key << 32 | 1);
    EXPECT_EQ(ledger.detail(ledger[slot]).debt, key);
    ledger.erase(slot);
    KeySlot& next = ledger[ledger.insert(key << 32 | 2, "other", 1)];
    EXPECT_EQ(ledger.detail(next).debt, 0U);
    EXPECT_EQ(ledger.own_detail(next).debt, 0U);
  }
  EXPECT_EQ(ledger.memory(), memory) << "what was freed is used again";
}

TEST(Ledger, WhatTheStoreHasAppliedMovesIntoTheDetail) {
  Ledger ledger(64);
  KeySlot& slot = ledger[ledger.insert(1, "name", 1)];
  ledger.past(slot).alone = {7, 9};
  EXPECT_EQ(ledger.view(slot).acknowledged(), 7U);
  const KeyDetail& detail = ledger.own_detail(slot);
  EXPECT_EQ(detail.counted[0].acknowledged, 7U);
  EXPECT_EQ(detail.counted[1].acknowledged, 9U);
  EXPECT_EQ(detail.counted[1].others(), 0U);
  EXPECT_EQ(ledger.view(slot).acknowledged(), 7U);
}

TEST(NamePool, GivesBackWhatWasPutInAndUsesItsMemoryAgain) {
  SCOPED_TRACE("seed " + std::to_string(test_seed()));
  std::mt19937_64 random(test_seed());
  NamePool pool;
  std::map<NamePool::Name, std::string> names;
  const auto fill = [&] {
    while (names.size() < 20000) {
      std::string text(random() % 100 == 0 ? random() % NamePool::longest : random() % 40, '\0');
      for (char& c : text) c = static_cast<char>(random());
      const NamePool::Name name = pool.add(text);
      ASSERT_TRUE(names.emplace(name, std::move(text)).second) << "given twice";
    }
  };
  fill();
  for (int round = 0; round < 20; ++round) {
    for (auto name = names.begin(); name != names.end();) {
      ASSERT_EQ(pool.text(name->first), name->second);
      if (random() % 2 == 0) {
        pool.remove(name->first);
        name = names.erase(name);
      } else {
        ++name;
      }
    }
    fill();
  }
  EXPECT_LT(pool.memory(), std::size_t{8} << 20);
}

TEST(NamePool, CutsWhatIsLongerThanAnyKeysName) {
  NamePool pool;
  const std::string text(100000, 'x');
  EXPECT_EQ(pool.text(pool.add(text)), text.substr(0, NamePool::longest));
}

}  // namespace
}  // namespace weir::testing
