// SPDX-License-Identifier: BSD-3-Clause
// Bursts of plain frames: what is decided on without a request that is laid out, admitted or refused, is
// decided as such requests are, one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "burst_node.h"
#include "dataplane/request_bits.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using namespace testing;

/// Requests, and the frames in which they come.
class Frames {
 public:
  Frames(std::mt19937_64& random, std::size_t count, std::size_t users, std::size_t paths)
      : texts_(count), headers_(count), requests_(count) {
    constexpr std::size_t before_payload = 54;
    for (std::size_t i = 0; i < count; ++i) {
      Text& text = texts_[i];
      text = {"user-" + std::to_string(random() % users), "/items/" + std::to_string(random() % paths), {}};
      headers_[i] = {"X-User", text.user};
      requests_[i].method = "GET";
      requests_[i].target = text.target;
      requests_[i].host = random() % 2 == 0 ? "example.com" : "example.org";
      requests_[i].headers = std::span(&headers_[i], 1);
      text.frame = std::string(before_payload, ' ') + "GET " + text.target +
                   " HTTP/1.1\r\nHost: " + std::string(requests_[i].host) + "\r\nX-User: " + text.user +
                   "\r\nAccept: */*\r\n\r\n";
      plain_.push_back({reinterpret_cast<const std::byte*>(text.frame.data()),
                        {before_payload, static_cast<std::uint32_t>(text.frame.size() - before_payload)}});
    }
  }
  std::span<const PlainFrame> plain() const { return plain_; }
  const Request& request(std::size_t i) const { return requests_[i]; }

 private:
  struct Text {
    std::string user;
    std::string target;
    std::string frame;
  };
  std::vector<Text> texts_;
  std::vector<Header> headers_;
  std::vector<Request> requests_;
  std::vector<PlainFrame> plain_;
};

/// Decides on bursts with one node, and on the same requests one by one with another.
class Compared {
 public:
  explicit Compared(const std::vector<Rule>& rules, unsigned workers = 1) : Compared(rules, rules, workers) {}
  /// @param others  of the node that decides one by one: these rules and further ones
  /// @param keys    that there is room for
  Compared(const std::vector<Rule>& rules, const std::vector<Rule>& others, unsigned workers,
           std::uint32_t keys = 8192)
      : plain_(rules, keys, workers), alone_(others, keys, workers) {}

  /// The worker that decides from now on.
  void turn_to(unsigned worker) { index_ = worker; }

  /// @param asks  whether decide_plain() is, too
  void decide(const Frames& frames, bool asks) {
    Worker& worker = plain_.worker(index_);
    Worker& other = alone_.worker(index_);
    std::uint32_t decided = worker.admit_plain(frames.plain());
    for_each(decided, [&](std::size_t at) {
      EXPECT_EQ(other.admit(frames.request(at), alone_.now()).verdict, Verdict::admit);
      ++admitted;
    });
    PlainDecisions decisions;
    if (asks) {
      worker.decide_plain(plain_.now(), decisions);
      EXPECT_EQ(decisions.refused & decisions.admitted, 0U);
      EXPECT_EQ((decisions.refused | decisions.admitted) & decided, 0U);
      // In the order of the burst.
      for_each(decisions.admitted | decisions.refused, [&](std::size_t at) {
        const Decision expected = other.admit(frames.request(at), alone_.now());
        if ((decisions.admitted >> at & 1) != 0) {
          EXPECT_EQ(expected.verdict, Verdict::admit);
          ++admitted;
          return;
        }
        EXPECT_EQ(expected.verdict, Verdict::block);
        EXPECT_EQ(decisions.rules[at], expected.rule);
        EXPECT_EQ(decisions.retry_after[at],
                  expected.action == Action::reply_429 ? expected.retry_after : Duration{});
        ++refused;
      });
      decided |= decisions.admitted | decisions.refused;
      left += frames.plain().size() - static_cast<std::size_t>(std::popcount(decided));
    }
    for (std::size_t i = 0; i < frames.plain().size(); ++i) {
      if ((decided >> i & 1) != 0) continue;
      const Decision decision = worker.admit(frames.request(i), plain_.now());
      const Decision expected = other.admit(frames.request(i), alone_.now());
      EXPECT_EQ(decision.verdict, expected.verdict);
      EXPECT_EQ(decision.rule, expected.rule);
      EXPECT_EQ(decision.retry_after, expected.retry_after);
      if (decision.verdict == Verdict::block) ++refused_laid_out;
    }
  }
  void pass(Duration by) {
    plain_.pass(by);
    alone_.pass(by);
  }
  void pass_unseen(Duration by) {
    plain_.pass_unseen(by);
    alone_.pass_unseen(by);
  }
  void wait(Duration by) {
    plain_.wait(by);
    alone_.wait(by);
  }
  void expect_same_figures() const { plain_.expect_same_figures(alone_); }

  std::uint64_t admitted = 0;
  std::uint64_t refused = 0;  // in frames
  std::uint64_t refused_laid_out = 0;
  std::uint64_t left = 0;  // by decide_plain(), where it is asked

 private:
  BurstNode plain_;
  BurstNode alone_;
  unsigned index_ = 0;
};

bool has_vectors() { return best_instruction_set() != InstructionSet::portable; }

TEST(PlainDecisions, UnderAnyRulesAreThoseOfRequestsThatAreLaidOut) {
  std::uint64_t admitted = 0;
  std::uint64_t refused = 0;
  std::uint64_t left = 0;
  for (std::uint64_t run = 0; run < 80; ++run) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed() << ", run " << run);
    std::mt19937_64 random(seed() + run);
    const std::vector<Rule> rules = random_rules(random);
    const unsigned workers = random() % 2 == 0 ? 1 : 2;
    Compared compared(rules, workers);
    const std::size_t users = std::array{1, 3, 8, 40, 400}[random() % 5];
    const std::size_t paths = std::array{1, 2, 4, 16}[random() % 4];
    const std::size_t bursts_of_a_span = std::array{2, 5, 20}[random() % 3];
    const std::size_t largest = std::array{1, 4, 32}[random() % 3];
    const bool forgets_to_ask = random() % 4 == 0;
    for (int round = 0; round < 100; ++round) {
      const Frames frames(random, 1 + random() % largest, users, paths);
      compared.turn_to(static_cast<unsigned>(random() % workers));
      compared.decide(frames, !forgets_to_ask || random() % 2 == 0);
      ASSERT_FALSE(HasFailure()) << "burst " << round;
      if (random() % bursts_of_a_span == 0) compared.pass(20ms);
      if (random() % 8 == 0) compared.wait(3ms);
    }
    for (int i = 0; i < 3; ++i) compared.pass(2s);
    compared.expect_same_figures();
    if (HasFailure()) return;
    admitted += compared.admitted;
    refused += compared.refused;
    left += compared.left;
  }
  if (!has_vectors()) return;
  EXPECT_EQ(left, 0U);
  EXPECT_GT(admitted, 1000U);
  EXPECT_GT(refused, 1000U);
}

// As gateways have them: a rule for each route, some for all. What has no room among a burst's rules is laid
// out.
TEST(PlainDecisions, UnderMoreRulesThanARequestMayHaveAreThoseOfRequestsThatAreLaidOut) {
  std::uint64_t admitted = 0;
  std::uint64_t refused = 0;
  std::uint64_t left = 0;
  for (std::uint64_t run = 0; run < 40; ++run) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed() << ", run " << run);
    std::mt19937_64 random(seed() + run);
    std::vector<Rule> rules;
    const std::size_t routes = std::array{4, 12, 40}[random() % 3];
    for (std::size_t i = 0, count = max_rules_per_request + 1 + random() % 40; i < count; ++i) {
      Rule& rule = rules.emplace_back(random_rule_by_user(random));
      rule.name = "rule-" + std::to_string(i);
      rule.match.path = random() % 16 == 0 ? "/items/*" : "/items/" + std::to_string(random() % routes);
      if (random() % 4 == 0) rule.key.clear();
    }
    Compared compared(rules);
    const std::size_t users = std::array{1, 8, 40}[random() % 3];
    for (int round = 0; round < 100; ++round) {
      compared.decide(Frames(random, 1 + random() % 32, users, routes), random() % 8 != 0);
      ASSERT_FALSE(HasFailure()) << "burst " << round;
      if (random() % 8 == 0) compared.pass(20ms);
      if (random() % 8 == 0) compared.wait(3ms);
    }
    for (int i = 0; i < 3; ++i) compared.pass(2s);
    compared.expect_same_figures();
    if (HasFailure()) return;
    admitted += compared.admitted;
    refused += compared.refused;
    left += compared.left;
  }
  if (!has_vectors()) return;
  EXPECT_GT(left, 1000U);
  EXPECT_GT(admitted, 1000U);
  EXPECT_GT(refused, 1000U);
}

TEST(PlainDecisions, UnderSeveralRulesOfWhichSomeDrawAreThoseOfRequestsThatAreLaidOut) {
  std::uint64_t admitted = 0;
  std::uint64_t refused = 0;
  for (std::uint64_t run = 0; run < 100; ++run) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed() << ", run " << run);
    std::mt19937_64 random(seed() + run);
    const unsigned workers = random() % 2 == 0 ? 1 : 2;
    Compared compared(rules_of_which_some_draw(random), workers);
    const std::size_t users = std::array{1, 8, 40, 400}[random() % 4];
    const std::size_t paths = std::array{1, 4, 16}[random() % 3];
    const std::size_t bursts_of_a_span = std::array{1, 2, 5}[random() % 3];
    for (int round = 0; round < 60; ++round) {
      compared.turn_to(static_cast<unsigned>(random() % workers));
      compared.decide(Frames(random, 1 + random() % 32, users, paths), true);
      ASSERT_FALSE(HasFailure()) << "burst " << round;
      if (random() % bursts_of_a_span == 0) compared.pass(20ms);
      if (random() % 8 == 0) compared.pass_unseen(20ms);
      if (random() % 4 == 0) compared.wait(3ms);
    }
    for (int i = 0; i < 3; ++i) compared.pass(2s);
    compared.expect_same_figures();
    if (HasFailure()) return;
    admitted += compared.admitted;
    refused += compared.refused;
  }
  if (!has_vectors()) return;
  EXPECT_GT(admitted, 10'000U);
  EXPECT_GT(refused, 10'000U);
}

// A key that has come before gives its place to a new one of the same burst, before its own turn comes.
TEST(PlainDecisions, WhereThereIsNotRoomForAllKeysAreThoseOfRequestsThatAreLaidOut) {
  std::uint64_t admitted = 0;
  for (std::uint64_t run = 0; run < 100; ++run) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed() << ", run " << run);
    std::mt19937_64 random(seed() + run);
    const std::vector<Rule> rules = rules_of_which_some_draw(random);
    const std::uint32_t room = std::array{16U, 64U, 256U}[random() % 3];
    Compared compared(rules, rules, 1, room);
    for (int round = 0; round < 100; ++round) {
      compared.decide(Frames(random, 1 + random() % 32, 2 * room, 4), true);
      ASSERT_FALSE(HasFailure()) << "burst " << round;
      if (random() % 3 == 0) compared.pass(20ms);
    }
    for (int i = 0; i < 3; ++i) compared.pass(2s);
    compared.expect_same_figures();
    if (HasFailure()) return;
    admitted += compared.admitted;
  }
  if (!has_vectors()) return;
  EXPECT_GT(admitted, 10'000U);
}

// Another worker needs it.
TEST(PlainDecisions, GiveBackWhatTheyHaveDrawnOfABucketWhereAnotherRuleRefuses) {
  for (std::uint64_t run = 0; run < 100; ++run) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed() << ", run " << run);
    std::mt19937_64 random(seed() + run);
    std::vector rules{rule_of("user", 20, {by_user}), rule_of("path", 4, {by_path}),
                      rule_of("host", 1'000'000, {by_host})};
    rules[0].algorithm = Algorithm::token_bucket;
    for (Rule& rule : rules) rule.interval = 10s;
    Compared compared(rules, 2);
    for (int round = 0; round < 30; ++round) {
      compared.turn_to(static_cast<unsigned>(random() % 2));
      compared.decide(Frames(random, 1 + random() % 8, 4, 40), true);
      ASSERT_FALSE(HasFailure()) << "burst " << round;
    }
    compared.expect_same_figures();
    if (HasFailure()) return;
  }
}

/// By algorithm: an attack, in which all but the first requests of each key are refused.
class PlainFlood : public ::testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(Under, PlainFlood,
                         ::testing::Values(Algorithm::cooldown, Algorithm::fixed_window,
                                           Algorithm::sliding_window, Algorithm::token_bucket,
                                           Algorithm::leaky_bucket, Algorithm::shed, Algorithm::strict),
                         [](const auto& tested) {
                           std::string name(to_string(tested.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(PlainFlood, IsDecidedAsWhereRequestsAreLaidOut) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed());
  std::mt19937_64 random(seed());
  Rule attacked = rule_of("user", 100, {by_user});
  attacked.algorithm = GetParam();
  // (Who knows what has been offered lately sheds what is too much from the beginning.)
  attacked.interval = attacked.algorithm == Algorithm::shed ? Duration(100ms) : Duration(10s);
  attacked.cooldown = 10s;
  if (attacked.algorithm == Algorithm::sliding_window) without_grants(attacked);
  attacked.action = Action::drop;
  Compared compared({rule_of("all", 1'000'000'000, {}), attacked, rule_of("path", 1'000'000'000, {by_path})});
  // Of whom most have used up their limits in the end, and some have not.
  for (int burst = 0; burst < 2000; ++burst) {
    compared.decide(Frames(random, 32, 16, 4), true);
    ASSERT_FALSE(HasFailure()) << "burst " << burst;
    if (burst % 20 == 19) compared.pass(10ms);
  }
  compared.expect_same_figures();
  if (!has_vectors()) return;
  EXPECT_EQ(compared.left, 0U);
  EXPECT_GT(compared.refused, 10'000U);
}

// Who is blocked under one rule alone is known by his line: not when his block ends, which may be in the
// midst of a span, or of one that ends late.
TEST(PlainDecisions, RefuseWhoIsBlockedJustAsLongAsHeIs) {
  std::uint64_t refused = 0;
  for (std::uint64_t run = 0; run < 40; ++run) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed() << ", run " << run);
    std::mt19937_64 random(seed() + run);
    std::vector<Rule> rules{rule_of("user", 30, {by_user}, "/items/0")};
    if (run % 3 == 1) rules.push_back(rule_of("others", 30, {by_user}, "/items/1"));
    if (run % 3 == 2) rules.push_back(rule_of("all", 1'000'000, {by_path}, "/items/1"));
    if (run % 6 == 2) rules.back().match.path.clear();  // then two apply
    rules[0].dephase = run % 4 == 0 ? Duration(20ms) : Duration{};
    // Also such as last for several spans.
    if (run % 5 > 1) rules[0].cooldown = run % 5 * 70ms;
    for (Rule& rule : rules) rule.action = random() % 2 == 0 ? Action::drop : Action::reply_429;
    Compared compared(rules, rules, 1);
    for (int round = 0; round < 300; ++round) {
      compared.decide(Frames(random, 1 + random() % 32, 8, 2), true);
      ASSERT_FALSE(HasFailure()) << "burst " << round;
      if (random() % 8 == 0) compared.pass(Duration(random() % 25'000'000));
      if (random() % 8 == 0) compared.wait(Duration(random() % (random() % 4 == 0 ? 80'000'000 : 5'000'000)));
    }
    for (int i = 0; i < 3; ++i) compared.pass(2s);
    compared.expect_same_figures();
    refused += compared.refused;
  }
  if (!has_vectors()) return;
  EXPECT_GT(refused, 10'000U);
}

TEST(PlainDecisions, RefuseWhoIsBlockedByHisLineInTheSpansAfterToo) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed());
  constexpr int users = 16;
  std::mt19937_64 random(seed());
  Rule attacked = rule_of("user", 100, {by_user});
  attacked.cooldown = 10s;
  attacked.action = Action::drop;
  Compared compared({attacked});
  for (int span = 0; span < 100; ++span) {
    for (int burst = 0; burst < 10; ++burst) compared.decide(Frames(random, 32, users, 1), true);
    ASSERT_FALSE(HasFailure()) << "span " << span;
    compared.pass(20ms);
  }
  for (int i = 0; i < 3; ++i) compared.pass(2s);
  compared.expect_same_figures();
  if (!has_vectors()) return;
  EXPECT_GT(compared.refused, 30'000U);
}

TEST(PlainDecision, IsNoneWhereNothingIsLeftToDecide) {
  std::mt19937_64 random(seed());
  BurstNode node({rule_of("user", 5, {by_user})});
  const Frames frames(random, 8, 1, 1);
  PlainDecisions decisions;
  const auto expect_none = [&](const char* why) {
    node.worker().decide_plain(node.now(), decisions);
    EXPECT_EQ(decisions.admitted | decisions.refused, 0U) << why;
  };
  expect_none("no frames have been given");
  for (int i = 0; i < 3; ++i)
    for (std::size_t at = 0; at < frames.plain().size(); ++at)
      node.worker().admit(frames.request(at), node.now());
  EXPECT_EQ(node.worker().admit_plain(frames.plain()), 0U);
  node.worker().decide_plain(node.now(), decisions);
  EXPECT_EQ(decisions.refused, has_vectors() ? 0xffU : 0U);
  expect_none("they have been decided on");
  node.worker().admit_plain(frames.plain());
  std::array<Decision, 1> decided;
  node.worker().admit_burst({&frames.request(0), 1}, node.now(), decided);
  expect_none("another burst has come");
  node.worker().admit_plain(frames.plain());
  node.worker().offline();
  expect_none("the worker is offline");
  node.worker().online();
}

TEST(PlainDecision, IsNotLookedForFirstInBurstsBetweenThoseOfAFlood) {
  if (!has_vectors()) return;
  std::mt19937_64 random(seed());
  BurstNode node({rule_of("user", 64'000, {by_user})});
  const Frames flood(random, 32, 1, 1);
  const Frames honest(random, 32, 1'000'000, 1);
  PlainDecisions decisions;
  const auto floods = [&] {
    const std::uint32_t taken = node.worker().admit_plain(flood.plain());
    node.worker().decide_plain(node.now(), decisions);
    for (std::size_t at = 0; at < flood.plain().size(); ++at)
      if (((taken | decisions.admitted | decisions.refused) >> at & 1) == 0)
        node.worker().admit(flood.request(at), node.now());
  };
  for (std::size_t at = 0; at < honest.plain().size(); ++at)
    node.worker().admit(honest.request(at), node.now());
  for (int burst = 0; burst < 64'000 / 32; ++burst) floods();
  for (int burst = 0; burst < 500; ++burst) {
    floods();
    ASSERT_EQ(decisions.refused, 0xffffffffU) << burst;
    ASSERT_EQ(node.worker().admit_plain(honest.plain()), 0xffffffffU) << burst;
  }
}

TEST(PlainDecision, IsWaitedForOnlyByWhoAsks) {
  if (!has_vectors()) return;
  std::mt19937_64 random(seed());
  BurstNode node({rule_of("user", 6400, {by_user})});
  const Frames flood(random, 32, 1, 1);
  PlainDecisions decisions;
  std::uint32_t refused = 0;
  for (int burst = 0; burst < 300; ++burst) {
    node.worker().admit_plain(flood.plain());
    node.worker().decide_plain(node.now(), decisions);
    refused |= decisions.refused;
    for (std::size_t at = 0; at < flood.plain().size(); ++at)
      if (((decisions.admitted | decisions.refused) >> at & 1) == 0)
        node.worker().admit(flood.request(at), node.now());
  }
  ASSERT_EQ(refused, 0xffffffffU);
  for (int i = 0; i < 3; ++i) node.pass(2s);
  // All has been forgotten. After the flood one burst has been left to decide_plain(), and so may be the
  // next, whatever the rest is given to.
  std::array<Decision, 32> decided;
  node.worker().admit(flood.request(0), node.now());
  node.worker().admit_plain(flood.plain());
  node.worker().admit_burst({&flood.request(0), 1}, node.now(), decided);
  EXPECT_EQ(node.worker().admit_plain(flood.plain()), 0xffffffffU);
}

// Limits of which weights leave rests: some at hand, some lent to a grant, some still to be drawn, none of
// them enough by itself.
TEST(PlainDecisions, AddUpWhatIsLeftOfAKey) {
  std::uint64_t refused = 0;
  for (std::uint64_t run = 0; run < 300; ++run) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed() << ", run " << run);
    std::mt19937_64 random(seed() + run);
    const std::uint64_t weight = 1 + random() % 60;
    // Of which as much as two weights is drawn at once, or less than one.
    const std::uint64_t limit =
        weight * (1 + random() % std::array{30, 300}[random() % 2]) + random() % weight;
    Rule rule = rule_of("user", limit, {by_user});
    rule.algorithm =
        std::array{Algorithm::fixed_window, Algorithm::token_bucket, Algorithm::strict}[random() % 3];
    rule.interval = 10s;
    rule.weight = static_cast<std::uint32_t>(weight);
    const unsigned workers = random() % 4 == 0 ? 1 : 2;
    Compared compared({rule}, and_plenty({rule}), workers);
    for (std::uint64_t before = 0; compared.refused + compared.refused_laid_out < 100;) {
      compared.turn_to(random() % 3 == 0 ? workers - 1 : 0);
      compared.decide(Frames(random, 1 + random() % 8, 1, 1), true);
      ASSERT_FALSE(HasFailure()) << compared.admitted << " admitted";
      // Now and then it is known more closely what there is.
      if (compared.admitted / 64 != before) compared.pass(1ms);
      before = compared.admitted / 64;
    }
    refused += compared.refused;
  }
  if (!has_vectors()) return;
  EXPECT_GT(refused, 10'000U);
}

// Each worker has a grant of its own. While another rule refuses, what is refused is counted with an entry,
// which says what is left beside the grants: nothing, at the end. The key may have an entry before it has a
// grant, too.
TEST(PlainDecisions, LeaveAWorkersGrantToWhoHasUsedUpAllElse) {
  std::uint64_t refused = 0;
  for (std::uint64_t run = 0; run < 60; ++run) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed() << ", run " << run);
    std::mt19937_64 random(seed() + run);
    Rule user = rule_of("user", 4'000, {by_user});
    Rule few = rule_of("few", 20, {}, "/items/0");
    few.algorithm = Algorithm::fixed_window;
    user.algorithm =
        std::array{Algorithm::fixed_window, Algorithm::sliding_window, Algorithm::shed}[random() % 3];
    user.interval = few.interval = 10s;
    const std::vector<Rule> rules = random() % 4 == 0 ? std::vector{user, few} : std::vector{few, user};
    Compared compared(rules, and_plenty(rules), 2);
    for (int round = 0; round < 1600; ++round) {
      // The other one meets a key that the first one has used up already.
      const bool late = round > 1200;
      compared.turn_to(late && random() % 2 == 0 ? 1 : 0);
      compared.decide(Frames(random, 1 + random() % (late ? 2 : 16), 1, 2), true);
      ASSERT_FALSE(HasFailure()) << compared.admitted << " admitted";
    }
    refused += compared.refused;
  }
  if (!has_vectors()) return;
  EXPECT_GT(refused, 10'000U);
}

}  // namespace
}  // namespace weir
