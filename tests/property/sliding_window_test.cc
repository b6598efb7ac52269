// SPDX-License-Identifier: BSD-3-Clause
// A node alone, under a sliding window: no key is ever admitted more than its limit in the spans that a
// window reaches, whoever asks for how much, and whenever; and who asks for less is not refused.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "cluster.h"
#include "sanitized.h"
#include "user_rule.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using testing::seed;
using testing::user_rule;

/// What a key asks for in a span.
enum class Habit { nothing, a_little, more, all };

struct User {
  std::string name;
  Habit habit = Habit::nothing;
  std::map<std::int64_t, std::uint64_t> admitted;  // by span

  std::uint64_t in_window(std::int64_t running, std::uint32_t spans) const {
    std::uint64_t sum = 0;
    for (auto span = admitted.upper_bound(running - spans); span != admitted.end(); ++span)
      sum += span->second;
    return sum;
  }
};

// What a key asks for in a part of a span.
std::uint64_t wanted(Habit habit, const Rule& rule, std::mt19937_64& random) {
  switch (habit) {
    case Habit::nothing:
      return 0;
    case Habit::a_little:
      return random() % (rule.limit / 128 / rule.spans + 2) * (random() % 2);
    case Habit::more:
      return random() % (rule.limit / 20);
    case Habit::all:
      return random() % (rule.limit / 2);
  }
  return 0;
}

std::vector<User> some_users() {
  std::vector<User> users(12);
  for (std::size_t i = 0; i < users.size(); ++i) users[i].name = "u" + std::to_string(i);
  return users;
}

TEST(SlidingWindow, NeverHoldsMoreThanTheLimitAndRefusesNobodyWhoAsksForLess) {
  std::uint64_t refused_at_limit = 0;
  for (std::uint64_t run = 0; run < 12; run += testing::sanitized ? 5 : 1) {
    const std::uint64_t run_seed = seed() + run;
    SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(run_seed));
    std::mt19937_64 random(run_seed);
    const auto workers = static_cast<unsigned>(1 + run % 3);
    // Too small for light keys; for grants; and neither.
    Rule rule = user_rule(std::array{100U, 180U, 1000U, 3000U}[run % 4], Algorithm::sliding_window);
    rule.spans = std::array{10U, 4U, 2U}[run / 4];
    Cluster cluster(rule, 1, workers, run_seed);
    std::vector<User> users = some_users();
    const Duration span = rule.interval / rule.spans;
    constexpr int steps = 5;
    for (int step = 0; step < static_cast<int>(60 * rule.spans) * steps; ++step) {
      const SpanId id = cluster.clock.span(cluster.now.wall);
      const std::int64_t running = id.ordinal * rule.spans + id.index;
      for (User& user : users) {
        if (random() % 100 < 2) user.habit = static_cast<Habit>(random() % 4);
        for (std::uint64_t i = wanted(user.habit, rule, random); i > 0; --i) {
          const bool admitted = cluster.admit(0, static_cast<unsigned>(random() % workers), user.name);
          const std::uint64_t before = user.in_window(running, rule.spans);
          user.admitted[running] += admitted;
          ASSERT_LE(before + admitted, rule.limit) << user.name;
          refused_at_limit += !admitted;
          // Light keys are taken to have used a 64th, may have used as much before they are told from those,
          // as much again is set aside for grants, and workers divide what remains into chunks.
          if (!admitted) {
            ASSERT_GE(before + rule.limit / 8, rule.limit) << user.name;
          }
        }
      }
      cluster.advance(span / steps);
    }
    cluster.finish();
    cluster.expect_conservation(cluster.admitted_by_all);
  }
  EXPECT_GT(refused_at_limit, 1000U) << "this must not pass by nobody coming near the limit";
}

// Of what is admitted while the controller is late nobody knows when it was, but for a span.
TEST(SlidingWindow, HoldsNoMoreThanTheLimitThoughSpansEndLate) {
  std::uint64_t refused_at_limit = 0;
  for (std::uint64_t run = 0; run < 12; run += testing::sanitized ? 5 : 1) {
    const std::uint64_t run_seed = seed() + run;
    SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(run_seed));
    std::mt19937_64 random(run_seed);
    const auto workers = static_cast<unsigned>(1 + run % 3);
    Rule rule = user_rule(std::array{100U, 180U, 1000U, 3000U}[run % 4], Algorithm::sliding_window);
    rule.spans = std::array{10U, 4U, 3U}[run / 4];
    Cluster cluster(rule, 1, workers, run_seed);
    std::vector<User> users = some_users();
    constexpr int steps = 5;
    const Duration part = rule.interval / rule.spans / steps;
    int late = 0;  // parts of spans until the controller comes round
    for (int step = 0; step < static_cast<int>(60 * rule.spans) * steps; ++step) {
      const SpanId id = cluster.clock.span(cluster.now.wall);
      const std::int64_t running = id.ordinal * rule.spans + id.index;
      for (User& user : users) {
        if (random() % 100 < 2) user.habit = static_cast<Habit>(random() % 4);
        for (std::uint64_t i = wanted(user.habit, rule, random); i > 0; --i) {
          const bool admitted = cluster.admit(0, static_cast<unsigned>(random() % workers), user.name);
          user.admitted[running] += admitted;
          // Of a light key as much as it may have used in an interval may be in a third one.
          ASSERT_LE(user.in_window(running, rule.spans - 1), rule.limit + rule.limit / 128) << user.name;
          refused_at_limit += !admitted;
        }
      }
      if (late == 0 && random() % (4 * steps) == 0)
        late = static_cast<int>(random() % (2 * rule.spans * steps));
      if (late > 0) {
        --late;
        cluster.now = cluster.now + part;
      } else {
        cluster.advance(part);
      }
    }
    cluster.finish();
  }
  EXPECT_GT(refused_at_limit, 1000U) << "this must not pass by nobody coming near the limit";
}

// By the filter alone: so many workers that nobody has grants.
TEST(SlidingWindow, HoldsWhatLittleALightKeyHasUsed) {
  const Rule rule = user_rule(1280, Algorithm::sliding_window);
  Cluster cluster(rule, 1, 8, seed());
  cluster.advance(500ms);
  std::uint64_t admitted = 0;
  for (int i = 0; i < 10; ++i) admitted += cluster.admit(0, 0, "ann");
  cluster.advance(500ms);
  for (int i = 0; i < 10; ++i) admitted += cluster.admit(0, 0, "ann");
  cluster.advance(100ms);
  ASSERT_EQ(admitted, 20U);
  for (int i = 0; i < 2000; ++i) admitted += cluster.admit(0, 0, "ann");
  EXPECT_LE(admitted, rule.limit);
  EXPECT_GE(admitted, rule.limit - rule.limit / 32);
  cluster.finish();
}

}  // namespace
}  // namespace weir
