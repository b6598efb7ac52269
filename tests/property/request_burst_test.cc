// SPDX-License-Identifier: BSD-3-Clause
// Bursts of requests: whatever they ask for, each request gets the answer that it would have got alone, one
// after the other; also where a key's limit is reached in the middle of a burst, and whatever has enough
// ready is taken for all of a burst at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "burst_node.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using namespace testing;

/// Limits that grants come from, limits too small for that, and such that end within few bursts.
struct Limits {
  const char* name;
  std::vector<Rule> (*rules)();
};
const Limits all_limits[] = {
    {"one_rule", [] { return std::vector{rule_of("user", 640, {by_user})}; }},
    {"one_rule_without_dimensions", [] { return std::vector{rule_of("all", 3000, {})}; }},
    {"one_rule_with_a_match",
     [] {
       return std::vector{rule_of("items", 90, {by_user, by_host}, "/items/*")};
     }},
    {"three_rules",
     [] {
       return std::vector{rule_of("all", 500, {}), rule_of("user", 200, {by_user}),
                          rule_of("items", 640, {by_path}, "/items/{id}")};
     }},
    // Of which only the first one ends: until it does, burst after burst has all that it needs.
    {"three_rules_of_which_one_ends",
     [] {
       return std::vector{rule_of("all", 1500, {}), rule_of("user", 200'000, {by_user}),
                          rule_of("items", 100'000, {by_path}, "/items/{id}")};
     }},
    // That apply to each request; of some keys several requests of a burst ask, whose grants end in it.
    {"two_keys_of_each_request",
     [] {
       return std::vector{rule_of("user", 1300, {by_user}), rule_of("host", 3200, {by_host})};
     }},
    {"four_keys_of_each_request",
     [] {
       return std::vector{rule_of("user", 1300, {by_user}), rule_of("host", 3200, {by_host}),
                          rule_of("both", 900, {by_user, by_host}), rule_of("path", 640, {by_path})};
     }},
    {"a_key_that_is_drawn_beside_one_that_is_granted",
     [] {
       std::vector rules{rule_of("user", 1300, {by_user}), rule_of("host", 3200, {by_host})};
       without_grants(rules[1]);
       return rules;
     }},
    {"heavy_requests",
     [] {
       std::vector rules{rule_of("all", 2500, {}), rule_of("user", 6400, {by_user})};
       rules[0].weight = 2;
       rules[1].weight = 7;
       return rules;
     }},
    {"every_algorithm",
     [] {
       std::vector<Rule> rules;
       for (int i = 0; i <= static_cast<int>(Algorithm::shed); ++i) {
         rules.push_back(rule_of("rule-" + std::to_string(i), 300, {by_user}));
         rules.back().algorithm = static_cast<Algorithm>(i);
         if (i % 3 == 1) rules.back().action = Action::observe;
       }
       return rules;
     }},
    // A burst meets them in another order than the configuration's, or none.
    {"rules_that_seldom_apply",
     [] {
       std::vector rules{rule_of("one", 640, {by_user}, "/items/1"), rule_of("both", 1300, {by_host}),
                         rule_of("zero", 800, {by_user}, "/items/0")};
       rules[1].match.path = "/items/{id}";
       rules[1].match.host = "example.com";
       return rules;
     }},
    // More of them apply to the requests of a burst than may to one.
    {"many_routes",
     [] {
       std::vector rules{rule_of("all", 3000, {})};
       for (int i = 0; i < 40; ++i)
         rules.push_back(rule_of("route-" + std::to_string(i), 200 + 100 * (i % 7), {by_user},
                                 "/items/" + std::to_string(i)));
       return rules;
     }},
};

constexpr std::array all_details{Detail::refusals, Detail::verdicts, Detail::full};

/// Of the same request, but for what is not told where a burst is decided on.
void expect_same(const Decision& decision, Decision expected, Detail detail) {
  if (detail == Detail::verdicts || (detail == Detail::refusals && decision.verdict == Verdict::admit)) {
    expected.remaining = 0;
    expected.retry_after = {};
    expected.reset_after = {};
  }
  EXPECT_EQ(decision.verdict, expected.verdict);
  EXPECT_EQ(decision.rule, expected.rule);
  EXPECT_EQ(decision.observed, expected.observed);
  EXPECT_EQ(decision.weight, expected.weight);
  EXPECT_EQ(decision.limit, expected.limit);
  if (decision.rule != no_rule) {
    EXPECT_EQ(decision.action, expected.action);
  }
  EXPECT_EQ(decision.remaining, expected.remaining);
  EXPECT_EQ(decision.retry_after, expected.retry_after);
  EXPECT_EQ(decision.reset_after, expected.reset_after);
}

class RequestBurst : public ::testing::TestWithParam<Limits> {};
INSTANTIATE_TEST_SUITE_P(Under, RequestBurst, ::testing::ValuesIn(all_limits),
                         [](const auto& limits) { return std::string(limits.param.name); });

TEST_P(RequestBurst, IsDecidedAsOneRequestAfterTheOther) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed());
  std::mt19937_64 random(seed());
  const std::vector<Rule> rules = GetParam().rules();
  BurstNode together(rules);
  BurstNode alone(rules);
  const std::array<std::string, 5> users{"", "ann", "bob-the-builder", "a-name-of-more-than-sixteen-bytes",
                                         "someone.whose.name.is.longer.than.a.piece.of.the.hash"};
  std::uint64_t admitted = 0;
  std::uint64_t refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::vector<Header> headers(1 + random() % 70);
    std::vector<std::string> targets(headers.size());
    std::vector<Request> requests(headers.size());
    const bool weighs = random() % 8 == 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      headers[i] = {"X-User", users[random() % users.size()]};
      targets[i] = "/items/" + std::to_string(random() % (random() % 3 == 0 ? 2 : 45));
      requests[i].method = "GET";
      requests[i].target = targets[i];
      requests[i].host = random() % 2 == 0 ? "example.com" : "Example.org:8080";
      if (random() % 16 != 0) requests[i].headers = std::span(&headers[i], 1);
      if (weighs && random() % 4 == 0) requests[i].weight = static_cast<std::uint32_t>(random() % 5);
    }
    const Detail detail = all_details[random() % all_details.size()];
    if (random() % 4 == 0) together.worker().admit_plain({});  // as who has frames does before
    std::vector<Decision> decisions(requests.size());
    together.worker().admit_burst(requests, together.now(), decisions, detail);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Decision expected = alone.worker().admit(requests[i], alone.now());
      expect_same(decisions[i], expected, detail);
      ASSERT_FALSE(HasFailure()) << "burst " << round << ", request " << i;
      (expected.verdict == Verdict::admit ? admitted : refused) += 1;
    }
    // Busy times and others, of which the last are such that every limit is reached.
    if (random() % (round % 500 < 250 ? 4 : round < 1000 ? 10 : 100) == 0)
      for (BurstNode* const node : {&together, &alone}) node->pass(20ms);
  }
  // All of it has come up.
  EXPECT_GT(admitted, 1000U);
  EXPECT_GT(refused, 200U);
  for (BurstNode* const node : {&together, &alone}) node->pass(2s);
  together.expect_same_figures(alone);
}

/// A burst of requests by so many users for so many paths.
class Asked {
 public:
  /// @param heaviest  that a few weigh; 0: each weighs what its rules say
  Asked(std::mt19937_64& random, std::size_t users, std::size_t paths, std::uint32_t heaviest)
      : texts_(1 + random() % 70), headers_(texts_.size()), requests_(texts_.size()) {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      texts_[i] = {"user-" + std::to_string(random() % users), "/items/" + std::to_string(random() % paths)};
      headers_[i] = {"X-User", texts_[i][0]};
      requests_[i].method = "GET";
      requests_[i].target = texts_[i][1];
      requests_[i].host = random() % 2 == 0 ? "example.com" : "example.org";
      requests_[i].headers = std::span(&headers_[i], 1);
      if (heaviest > 0 && random() % 4 == 0)
        requests_[i].weight = static_cast<std::uint32_t>(
            random() % (random() % 10 == 0 ? heaviest + 1 : std::min(heaviest + 1, 5U)));
    }
  }
  const std::vector<Request>& requests() const { return requests_; }

 private:
  std::vector<std::array<std::string, 2>> texts_;
  std::vector<Header> headers_;
  std::vector<Request> requests_;
};

/// What comes, and when.
struct Course {
  std::size_t users;
  std::size_t paths;
  std::size_t bursts_of_a_span;
  bool weighs = false;
  unsigned workers = 1;
  bool unseen = false;  // spans may end before the workers come round
};

/// Bursts that one node decides on, and another one request by request.
void expect_decided_as_one_after_the_other(std::mt19937_64& random, const std::vector<Rule>& rules,
                                           const Course& course) {
  constexpr std::uint32_t room_for_all = 8192;
  BurstNode together(rules, room_for_all, course.workers);
  BurstNode alone(rules, room_for_all, course.workers);
  for (int round = 0; round < 80; ++round) {
    const Asked asked(random, course.users, course.paths, course.weighs && random() % 2 == 0 ? 5000 : 0);
    const std::vector<Request>& requests = asked.requests();
    // What one of several workers has at hand of large limits need not be the same.
    const Detail detail = course.workers > 1 ? Detail::verdicts : all_details[random() % all_details.size()];
    std::vector<Decision> decisions(requests.size());
    const unsigned by = course.workers == 1 ? 0 : static_cast<unsigned>(random() % course.workers);
    together.worker(by).admit_burst(requests, together.now(), decisions, detail);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Decision expected = alone.worker(by).admit(requests[i], alone.now());
      expect_same(decisions[i], expected, detail);
      ASSERT_FALSE(::testing::Test::HasFailure()) << "burst " << round << ", request " << i;
    }
    if (random() % course.bursts_of_a_span == 0)
      for (BurstNode* const node : {&together, &alone}) node->pass(20ms);
    if (course.unseen && random() % 8 == 0)
      for (BurstNode* const node : {&together, &alone}) node->pass_unseen(20ms);
  }
  for (BurstNode* const node : {&together, &alone})
    for (int i = 0; i < 3; ++i) node->pass(2s);
  together.expect_same_figures(alone);
}

TEST(RequestBursts, UnderAnyRulesAreDecidedAsOneRequestAfterTheOther) {
  for (std::uint64_t run = 0; run < 60; ++run) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed() << ", run " << run);
    std::mt19937_64 random(seed() + run);
    const std::vector<Rule> rules = random_rules(random);
    expect_decided_as_one_after_the_other(
        random, rules,
        {.users = std::array<std::size_t, 5>{1, 3, 8, 40, 400}[random() % 5],
         .paths = std::array<std::size_t, 4>{1, 2, 4, 16}[random() % 4],
         .bursts_of_a_span = std::array<std::size_t, 3>{2, 5, 20}[random() % 3],
         .weighs = random() % 3 == 0});
    if (HasFailure()) return;
  }
}

TEST(RequestBursts, UnderSeveralRulesOfWhichSomeDrawAreDecidedAsOneRequestAfterTheOther) {
  for (std::uint64_t run = 0; run < 100; ++run) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed() << ", run " << run);
    std::mt19937_64 random(seed() + run);
    const std::vector<Rule> rules = rules_of_which_some_draw(random);
    expect_decided_as_one_after_the_other(
        random, rules,
        {.users = std::array<std::size_t, 4>{1, 8, 40, 400}[random() % 4],
         .paths = std::array<std::size_t, 3>{1, 4, 16}[random() % 3],
         .bursts_of_a_span = std::array<std::size_t, 3>{1, 2, 5}[random() % 3],
         .weighs = random() % 5 == 0,
         .workers = 1 + static_cast<unsigned>(random() % 2)});
    if (HasFailure()) return;
  }
}

// What a worker draws and does not need the others do without. A burst meets the rules in another order than
// the configuration's.
TEST(RequestBursts, DrawNothingUnderTheRulesBehindOneThatRefuses) {
  for (std::uint64_t run = 0; run < 100; ++run) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed() << ", run " << run);
    std::mt19937_64 random(seed() + run);
    std::vector rules{rule_of("path", 2, {by_path}, "/items/0"), rule_of("user", 40, {by_user}),
                      rule_of("host", 1'000'000, {by_host})};
    rules[0].algorithm = Algorithm::fixed_window;
    rules[1].algorithm = Algorithm::fixed_window;
    for (Rule& rule : rules) rule.interval = 10s;
    expect_decided_as_one_after_the_other(random, rules,
                                          {.users = 40, .paths = 2, .bursts_of_a_span = 5, .workers = 2});
    if (HasFailure()) return;
  }
}

/// Time goes on for a node, or not.
void go_on(BurstNode& node, std::uint64_t how) {
  if (how % 16 == 0) node.pass(20ms);
  if (how % 16 == 1) node.pass_unseen(20ms);
  if (how % 16 < 4) node.wait(3ms);
}

// A request under one rule may be refused by what is known of its key already; one under several rules, of
// which the others have enough for all, is always looked at.
TEST(KnownRefusals, AreWhatACloserLookComesTo) {
  std::uint64_t refused = 0;
  for (std::uint64_t run = 0; run < 60; ++run) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed() << ", run " << run);
    std::mt19937_64 random(seed() + run);
    const Rule rule = random_rule_by_user(random);
    const unsigned workers = 1 + random() % 2;
    BurstNode known({rule}, 8192, workers);
    BurstNode closely(and_plenty({rule}), 8192, workers);
    const std::size_t users = std::array{1, 3, 40}[random() % 3];
    const bool weighs = random() % 3 == 0;
    for (int round = 0; round < 60; ++round) {
      const unsigned worker = static_cast<unsigned>(random() % workers);
      const Asked asked(random, users, 1, weighs && random() % 2 == 0 ? 5000 : 0);
      for (const Request& request : asked.requests()) {
        const Decision decision = known.worker(worker).admit(request, known.now());
        expect_same(decision, closely.worker(worker).admit(request, closely.now()), Detail::full);
        refused += decision.verdict == Verdict::block;
        ASSERT_FALSE(HasFailure()) << "burst " << round;
      }
      for (const auto how = random(); BurstNode* const node : {&known, &closely}) go_on(*node, how);
    }
    for (BurstNode* const node : {&known, &closely})
      for (int i = 0; i < 3; ++i) node->pass(2s);
    if (HasFailure()) return;
  }
  EXPECT_GT(refused, 5'000U);
}

// Keys of several rules in any order, many of which have no dimensions: whoever finds enough of his grant, or
// of his rule's only key, is not sorted by rule, and the others are.
TEST(MixedKeys, AreDecidedAsOneAfterTheOther) {
  std::uint64_t refused = 0;
  std::uint64_t admitted = 0;
  for (std::uint64_t run = 0; run < 60; ++run) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed() << ", run " << run);
    std::mt19937_64 random(seed() + run);
    std::vector<Rule> rules;
    for (std::size_t i = 0, count = 2 + random() % 12; i < count; ++i) {
      Rule& rule = rules.emplace_back(random_rule_by_user(random));
      rule.name = "rule-" + std::to_string(i);
      // What is heavier no configuration may have: what is known of a key would make a difference.
      rule.weight = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(rule.weight, is_bucket(rule.algorithm) ? burst_of(rule) : rule.limit));
      if (random() % 4 != 0) rule.key.clear();
    }
    BurstNode together(rules, 8192);
    BurstNode alone(rules, 8192);
    for (int round = 0; round < 60; ++round) {
      std::vector<Key> keys;
      std::vector<std::string> users;
      for (std::size_t i = 0, count = 1 + random() % 70; i < count; ++i)
        users.push_back("user-" + std::to_string(random() % 3));
      const std::uint32_t weight = random() % 4 != 0 ? 1 : static_cast<std::uint32_t>(random() % 4);
      for (std::string& user : users) {
        const auto rule = static_cast<RuleIndex>(random() % rules.size());
        if (rules[rule].key.empty()) user.clear();
        keys.emplace_back(together.worker().key(rule, user)).weight = weight;
      }
      std::vector<Verdict> verdicts(keys.size());
      together.worker().admit_keys(keys, together.now(), verdicts);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const Decision expected =
            alone.worker().admit_key(keys[i].rule(), users[i], keys[i].weight, alone.now());
        ASSERT_EQ(verdicts[i], expected.verdict)
            << "burst " << round << ", key " << i << " of rule " << keys[i].rule() << ", weight " << weight;
        (expected.verdict == Verdict::block ? refused : admitted) += 1;
      }
      for (const auto how = random(); BurstNode* const node : {&together, &alone}) go_on(*node, how);
    }
    for (BurstNode* const node : {&together, &alone})
      for (int i = 0; i < 3; ++i) node->pass(2s);
    together.expect_same_figures(alone);
    if (HasFailure()) return;
  }
  EXPECT_GT(refused, 10'000U);
  EXPECT_GT(admitted, 10'000U);
}

// What is refused of a burst of keys is so before the others are looked at closely.
TEST(KnownRefusals, OfBurstsOfKeysAreThoseOfOneKeyAfterTheOther) {
  std::uint64_t refused = 0;
  for (std::uint64_t run = 0; run < 60; ++run) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed() << ", run " << run);
    std::mt19937_64 random(seed() + run);
    const Rule rule = random_rule_by_user(random);
    BurstNode together({rule}, 8192);
    BurstNode alone({rule}, 8192);
    std::vector<std::string> names;
    for (std::size_t user = 0, users = std::array{1, 3, 40}[random() % 3]; user < users; ++user)
      names.push_back("user-" + std::to_string(user));
    for (int round = 0; round < 60; ++round) {
      std::vector<Key> keys;
      for (std::size_t i = 0, count = 1 + random() % 70; i < count; ++i)
        keys.push_back(together.worker().key(0, names[random() % names.size()]));
      std::vector<Verdict> verdicts(keys.size());
      together.worker().admit_keys(keys, together.now(), verdicts);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const Decision expected = alone.worker().admit_key(0, keys[i].value, 1, alone.now());
        ASSERT_EQ(verdicts[i], expected.verdict) << "burst " << round << ", key " << i;
        refused += expected.verdict == Verdict::block;
      }
      for (const auto how = random(); BurstNode* const node : {&together, &alone}) go_on(*node, how);
    }
    for (BurstNode* const node : {&together, &alone})
      for (int i = 0; i < 3; ++i) node->pass(2s);
    together.expect_same_figures(alone);
    if (HasFailure()) return;
  }
  EXPECT_GT(refused, 5'000U);
}

// Which a worker uses first of what it has at hand of a key, its grant or what it has drawn, is not the same
// in bursts and one by one. It comes to as much; but the other workers do not see it, nor does the worker
// itself while a span that has ended waits to be counted.
TEST(RequestBursts, WhereSeveralWorkersShareAKeyDifferByNoMoreThanTheyHaveAtHand) {
  std::uint64_t same = 0;
  std::uint64_t different = 0;
  for (std::uint64_t run = 0; run < 150; ++run) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed() << ", run " << run);
    std::mt19937_64 random(seed() + run);
    const std::uint64_t limit = std::array{640, 1300, 3200, 6400, 64000, 1000000}[random() % 6];
    const std::uint64_t at_hand = limit / 32;
    Rule rule = rule_of("user", limit, {by_user});
    rule.algorithm = std::array{Algorithm::cooldown, Algorithm::fixed_window, Algorithm::sliding_window,
                                Algorithm::shed}[random() % 4];
    rule.weight = std::array{1, 7, 33}[random() % 3];
    const auto workers = static_cast<unsigned>(2 + random() % 2);
    BurstNode together({rule}, 8192, workers);
    BurstNode alone({rule}, 8192, workers);
    const std::size_t users = std::array{1, 2, 4}[random() % 3];
    const auto heaviest = static_cast<std::uint32_t>(random() % 2 == 0 ? limit / 100 : 0);
    bool parted = false;  // what comes after another verdict is another story
    for (int round = 0; round < 100 && !parted; ++round) {
      const Asked asked(random, users, 1, heaviest);
      const std::vector<Request>& requests = asked.requests();
      const auto by = static_cast<unsigned>(random() % workers);
      std::vector<Decision> decisions(requests.size());
      const Detail detail = all_details[random() % all_details.size()];
      together.worker(by).admit_burst(requests, together.now(), decisions, detail);
      for (std::size_t i = 0; i < requests.size() && !parted; ++i) {
        const Decision& decision = decisions[i];
        const Decision expected = alone.worker(by).admit(requests[i], alone.now());
        parted = decision.verdict != expected.verdict;
        if (parted) {
          // Another worker's block is met by whoever draws; not by what is at hand.
          const Decision& admitted = decision.verdict == Verdict::admit ? decision : expected;
          EXPECT_TRUE(admitted.remaining <= at_hand ||
                      (rule.algorithm == Algorithm::cooldown && admitted.weight <= at_hand));
        } else if (detail == Detail::full && decision.remaining != expected.remaining) {
          different += 1;
          EXPECT_LE(std::max(decision.remaining, expected.remaining),
                    std::min(decision.remaining, expected.remaining) + at_hand);
        } else if (detail == Detail::full) {
          same += 1;
          Decision told = expected;
          // When a window that slides has room again depends on in which span what is at hand was drawn.
          if (rule.algorithm == Algorithm::sliding_window && decision.retry_after > Duration{} &&
              told.retry_after > Duration{})
            told.retry_after = decision.retry_after;
          expect_same(decision, told, detail);
        }
        ASSERT_FALSE(HasFailure()) << "burst " << round << ", request " << i;
      }
      if (random() % 4 == 0)
        for (const bool seen = random() % 3 != 0; BurstNode* const node : {&together, &alone})
          seen ? node->pass(20ms) : node->pass_unseen(20ms);
    }
  }
  EXPECT_GT(same, 10000U);
  EXPECT_GT(different, 100U);
}

}  // namespace
}  // namespace weir
