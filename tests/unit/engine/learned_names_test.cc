// SPDX-License-Identifier: BSD-3-Clause
// Names come and go by the million: whatever moves meanwhile, each is found as long as somebody holds it.
#include "engine/learned_names.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/sanitized.h"
#include "seed.h"

namespace weir::testing {
namespace {

/// Names beside what they must be.
class Checked {
 public:
  /// @param homes  keys lie in a row behind so many places, if not 0, among them the last ones
  Checked(std::uint64_t seed, std::uint64_t homes) : random_(seed), homes_(homes) {}

  void add() {
    const std::uint64_t key = new_key();
    const auto name = static_cast<NamePool::Name>(random_());
    ASSERT_TRUE(names_.add(key, name));
    wanted_[key] = name;
    keys_.push_back(key);
    expect_known(key);
  }
  void remove() {
    const std::size_t at = random_() % keys_.size();
    const std::uint64_t key = std::exchange(keys_[at], keys_.back());
    keys_.pop_back();
    names_.remove(*names_.find(key));
    wanted_.erase(key);
    ASSERT_EQ(names_.find(key), nullptr);
  }
  void look() {
    if (!keys_.empty()) expect_known(keys_[random_() % keys_.size()]);
    ASSERT_EQ(names_.find(new_key()), nullptr);
  }
  void expect_all() {
    ASSERT_EQ(names_.size(), wanted_.size());
    for (const std::uint64_t key : keys_) ASSERT_NO_FATAL_FAILURE(expect_known(key));
  }

  std::size_t size() const noexcept { return keys_.size(); }
  const LearnedNames& names() const noexcept { return names_; }
  std::uint64_t some() { return random_(); }

 private:
  std::uint64_t new_key() {
    while (true) {
      std::uint64_t key = random_() | 1;
      if (homes_ != 0) key = (key % homes_ == 0 ? ~std::uint64_t{0} << 40 : key % homes_ << 58) | key >> 34;
      if (!wanted_.contains(key)) return key;
    }
  }
  void expect_known(std::uint64_t key) {
    const LearnedNames::Learned* const found = names_.find(key);
    ASSERT_NE(found, nullptr);
    ASSERT_EQ(found->key, key);
    ASSERT_EQ(found->name, wanted_[key]);
  }

  std::mt19937_64 random_;
  std::uint64_t homes_;
  LearnedNames names_;
  std::unordered_map<std::uint64_t, NamePool::Name> wanted_;
  std::vector<std::uint64_t> keys_;
};

TEST(LearnedNames, AreFoundHoweverOftenTheirTableGrowsAndShrinks) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(test_seed()));
  for (const std::uint64_t homes : {0U, 63U, 9U}) {
    Checked checked(test_seed(), homes);
    for (int cycle = 0; cycle < 60; ++cycle) {
      // So that moves are met in all their stages by what comes and what goes.
      const std::size_t wanted = checked.some() % (homes == 0 ? 20'000 : 3'000);
      while (checked.size() != wanted) {
        const bool towards = checked.some() % 8 != 0;
        if (checked.size() == 0 || (checked.size() < wanted) == towards)
          ASSERT_NO_FATAL_FAILURE(checked.add());
        else
          ASSERT_NO_FATAL_FAILURE(checked.remove());
        ASSERT_NO_FATAL_FAILURE(checked.look());
      }
      ASSERT_NO_FATAL_FAILURE(checked.expect_all());
    }
  }
}

TEST(LearnedNames, OneThatComesRoundToTheFirstPlaceAsTheirTableGrowsIsFound) {
  constexpr std::uint64_t places = 1024;
  const auto key_at = [](std::uint64_t place, std::uint64_t number) { return place << 54 | number; };
  LearnedNames names;
  // The last place is taken, the first one is free, and behind it lie as many as make no table grow.
  ASSERT_TRUE(names.add(key_at(places - 1, 1), 7));
  for (std::uint64_t i = 1; i < places / 4 * 3; ++i) ASSERT_TRUE(names.add(key_at(1, i), 7));
  ASSERT_EQ(names.memory(), places * 16);
  ASSERT_TRUE(names.add(key_at(places - 1, 2), 9));
  EXPECT_GT(names.memory(), places * 16);
  for (std::uint64_t i = 1; i < places; ++i) {
    const LearnedNames::Learned* const found = names.find(key_at(places - 1, 2));
    ASSERT_NE(found, nullptr) << i;
    ASSERT_EQ(found->name, 9U);
    ASSERT_TRUE(names.add(key_at(500, i), 7));
  }
}

// A sanitizer may want memory of its own at any time, and ends the process that has none for it.
#if !WEIR_SANITIZED
/// The process gets no more addresses.
class NoMoreMemory {
 public:
  NoMoreMemory() {
    // Who throws for the first time takes some for that.
    EXPECT_THROW(throw std::bad_alloc(), std::bad_alloc);
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit none{0, before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &none);
  }
  ~NoMoreMemory() { ::setrlimit(RLIMIT_AS, &before_); }
  NoMoreMemory(const NoMoreMemory&) = delete;
  NoMoreMemory& operator=(const NoMoreMemory&) = delete;

 private:
  rlimit before_{};
};

TEST(LearnedNames, AreLeftOutWhereThereIsNoMemoryForMoreUntilThereIsSome) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(test_seed()));
  std::mt19937_64 random(test_seed());
  LearnedNames names;
  std::vector<std::uint64_t> keys;
  keys.reserve(2000);
  while (keys.size() < 768) {  // three quarters of the first places
    keys.push_back(random() | 1);
    ASSERT_TRUE(names.add(keys.back(), 7));
  }
  const std::size_t memory = names.memory();
  {
    const NoMoreMemory here;
    while (names.add(random() | 1, 7)) ASSERT_LT(names.size(), 1024U);
    EXPECT_EQ(names.memory(), memory);
    EXPECT_EQ(names.find(random() | 1), nullptr);
    for (const std::uint64_t key : keys) ASSERT_NE(names.find(key), nullptr);
  }
  const std::uint64_t late = random() | 1;
  ASSERT_TRUE(names.add(late, 9));
  EXPECT_GT(names.memory(), memory);
  ASSERT_NE(names.find(late), nullptr);
  for (const std::uint64_t key : keys) ASSERT_NE(names.find(key), nullptr);
}
#endif

TEST(LearnedNames, TakeMemoryByTheirNumberAndGiveItBack) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(test_seed()));
  Checked checked(test_seed(), 0);
  EXPECT_EQ(checked.names().memory(), 0U);
  while (checked.size() < 1000) ASSERT_NO_FATAL_FAILURE(checked.add());
  const std::size_t few = checked.names().memory();
  // Larger than what is given back on the way.
  while (checked.size() < 600'000) {
    ASSERT_NO_FATAL_FAILURE(checked.add());
    if (checked.size() > 10'000) {
      // A third is free at least, half at most; while keys are moved the old table is there as well.
      ASSERT_GE(checked.names().memory(), checked.size() * 16 * 4 / 3);
      ASSERT_LE(checked.names().memory(), checked.size() * 16 * 4);
    }
  }
  ASSERT_NO_FATAL_FAILURE(checked.expect_all());
  while (checked.size() > 1000) {
    ASSERT_NO_FATAL_FAILURE(checked.remove());
    // An eighth is taken when moving to a smaller one begins, half of it when that has been done.
    ASSERT_LE(checked.names().memory(), checked.size() * 16 * 20);
  }
  ASSERT_NO_FATAL_FAILURE(checked.expect_all());
  while (checked.size() > 0) ASSERT_NO_FATAL_FAILURE(checked.remove());
  EXPECT_LE(checked.names().memory(), few);
}

}  // namespace
}  // namespace weir::testing
