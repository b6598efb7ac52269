// SPDX-License-Identifier: BSD-3-Clause
// Which rules no request comes to, because those before them take all that it may have.
#include "filter/rule_reach.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::filter {
namespace {

Rule rule_named(std::string name, Match match = {}) {
  Rule rule;
  rule.name = std::move(name);
  rule.match = std::move(match);
  return rule;
}

/// Named "r0", "r1" and so on.
std::vector<Rule> rules_for_every_request(std::size_t count) {
  std::vector<Rule> rules;
  for (std::size_t i = 0; i < count; ++i) rules.push_back(rule_named("r" + std::to_string(i)));
  return rules;
}

TEST(OutOfReach, AsManyRulesForEveryRequestAsItMayHaveAreGood) {
  EXPECT_EQ(out_of_reach({}), "");
  EXPECT_EQ(out_of_reach(rules_for_every_request(max_rules_per_request)), "");
}

TEST(OutOfReach, TheFirstRuleThatCouldNeverApplyIsNamed) {
  EXPECT_EQ(out_of_reach(rules_for_every_request(max_rules_per_request + 2)),
            "rule \"r16\": it would never apply: a request is counted by at most 16 rules, and 16 before "
            "this one apply to every request; give them a match, or leave some of them out");
}

TEST(OutOfReach, IsAlsoARuleWithAMatchBehindThem) {
  std::vector<Rule> rules = rules_for_every_request(max_rules_per_request);
  rules.push_back(
      rule_named("login", {.methods = {"POST"}, .host = {}, .path = {}, .destination_ports = {}}));
  EXPECT_TRUE(out_of_reach(rules).starts_with("rule \"login\": ")) << out_of_reach(rules);
}

TEST(OutOfReach, IsNoneBehindRulesThatDoNotApplyToEveryRequest) {
  const Match some[] = {{.methods = {"GET"}, .host = {}, .path = {}, .destination_ports = {}},
                        {.methods = {}, .host = "a", .path = {}, .destination_ports = {}},
                        {.methods = {}, .host = {}, .path = "/a", .destination_ports = {}},
                        {.methods = {}, .host = {}, .path = {}, .destination_ports = {80}}};
  for (const Match& match : some) {
    std::vector<Rule> rules = rules_for_every_request(max_rules_per_request + 1);
    rules[3].match = match;
    EXPECT_EQ(out_of_reach(rules), "");
  }
}

}  // namespace
}  // namespace weir::filter
