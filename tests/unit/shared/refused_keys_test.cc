// SPDX-License-Identifier: BSD-3-Clause
#include "shared/refused_keys.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace weir {
namespace {

int held_of_others(const RefusedKeys& keys) {
  std::mt19937_64 random(2);
  int held = 0;
  for (int i = 0; i < 10'000; ++i) held += keys.may_hold(random());
  return held;
}

TEST(RefusedKeys, AreToldFromOthersThoughThereAreHundredsOfThem) {
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> added;
  RefusedKeys keys;
  EXPECT_EQ(held_of_others(keys), 0);
  for (int i = 0; i < 256; ++i) keys.add(3, added.emplace_back(random()));
  for (const std::uint64_t key : added) EXPECT_TRUE(keys.may_hold(key));
  EXPECT_LT(held_of_others(keys), 500);
}

TEST(RefusedKeys, AreOfTheirRules) {
  RefusedKeys keys;
  EXPECT_FALSE(keys.any());
  keys.add(3, 7);
  EXPECT_TRUE(keys.any());
  for (RuleIndex rule = 0; rule < 64; ++rule) EXPECT_EQ(keys.any_of(rule), rule == 3) << rule;
  keys.add(70, 8);
  EXPECT_TRUE(keys.any_of(70));
}

TEST(RefusedKeys, OfSeveralWorkersAreOneSet) {
  SharedRefusedKeys ann;
  SharedRefusedKeys bob;
  ann.add(1, 7);
  bob.add(2, 1 << 12);
  RefusedKeys of_ann;
  RefusedKeys all;
  ann.add_to(of_ann);
  bob.add_to(all);
  EXPECT_FALSE(all.any_of(1));
  EXPECT_FALSE(all.may_hold(7));
  all.add_all(of_ann);
  for (const RuleIndex rule : {1, 2}) EXPECT_TRUE(all.any_of(rule));
  for (const std::uint64_t key : {7, 1 << 12}) EXPECT_TRUE(all.may_hold(key));
}

TEST(RefusedKeys, AreForgottenAtOnce) {
  SharedRefusedKeys shared;
  shared.add(1, 7);
  EXPECT_TRUE(shared.any());
  shared.clear();
  EXPECT_FALSE(shared.any());
  shared.add(1, 1 << 12);
  RefusedKeys keys;
  shared.add_to(keys);
  EXPECT_FALSE(keys.may_hold(7));
}

}  // namespace
}  // namespace weir
