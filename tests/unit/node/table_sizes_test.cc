// SPDX-License-Identifier: BSD-3-Clause
#include "node/table_sizes.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

constexpr std::uint32_t keys = 1'600'000;

Rule rule_of(std::uint64_t limit, Algorithm algorithm = Algorithm::cooldown, std::uint64_t weight = 1) {
  Rule rule;
  rule.name = "user";
  rule.key = {{.kind = Dimension::Kind::header, .name = "user"}};
  rule.limit = limit;
  rule.algorithm = algorithm;
  rule.weight = weight;
  return rule;
}

Config config_of(std::vector<Rule> rules, std::uint32_t of_keys = keys) {
  Config config;
  config.node.keys = of_keys;
  config.rules = std::move(rules);
  return config;
}

TEST(TableSizes, WhereAllKeysAreGrantedFewNeedMore) {
  Rule dense = rule_of(3);
  dense.key.clear();
  const Config config = config_of({rule_of(1000), rule_of(1000, Algorithm::shed), dense});
  EXPECT_EQ(granted_keys(config, 2), keys);
  EXPECT_EQ(counted_keys(config, 2), keys / 16);
  EXPECT_EQ(drawn_keys(config, 2), keys / 2);
}

TEST(TableSizes, OneRuleWithoutGrantsNeedsRoomForAll) {
  for (const Rule& other :
       {rule_of(100), rule_of(1000, Algorithm::token_bucket), rule_of(1000, Algorithm::cooldown, 100)}) {
    const Config config = config_of({rule_of(1000), other});
    EXPECT_EQ(granted_keys(config, 2), keys);
    EXPECT_EQ(counted_keys(config, 2), keys);
    EXPECT_EQ(drawn_keys(config, 2), keys);
    EXPECT_EQ(granted_keys(config_of({other}), 2), 0U);
  }
}

TEST(TableSizes, WhatIsGrantedDependsOnHowManyShareALimit) {
  const Config config = config_of({rule_of(200)});
  EXPECT_EQ(counted_keys(config, 3), keys / 16);
  EXPECT_EQ(counted_keys(config, 4), keys);
}

TEST(TableSizes, OfAFewThousandKeysEachMayNeedAllThereIs) {
  EXPECT_EQ(counted_keys(config_of({rule_of(1000)}, 1000), 1), 1000U);
  EXPECT_EQ(drawn_keys(config_of({rule_of(1000)}, 1000), 1), 1000U);
  EXPECT_EQ(counted_keys(config_of({rule_of(1000)}, 65'536), 1), 16'384U);
}

}  // namespace
}  // namespace weir
