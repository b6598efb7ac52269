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

/// A node alone, and users who ask for more or less as time goes by.
class Crowd {
 public:
  static constexpr int steps = 5;  // of a span

  /// @param spans  of an interval; by thirds of the runs
  Crowd(std::uint64_t run, const std::array<std::uint32_t, 3>& spans)
      : rule_(rule_of(run, spans[run / 4])),
        random_(seed() + run),
        workers_(static_cast<unsigned>(1 + run % 3)),
        cluster_(rule_, 1, workers_, seed() + run),
        users_(12) {
    for (std::size_t i = 0; i < users_.size(); ++i) users_[i].name = "u" + std::to_string(i);
  }

  const Rule& rule() const noexcept { return rule_; }
  Cluster& cluster() noexcept { return cluster_; }
  Duration step() const noexcept { return rule_.interval / rule_.spans / steps; }
  int all_steps() const noexcept { return static_cast<int>(60 * rule_.spans) * steps; }
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  /// A step's requests. Calls asked(user, the span that runs, whether it is admitted) for each, of which the
  /// user's sums know already.
  template <typename Asked>
  void ask(Asked&& asked) {
    const SpanId id = cluster_.clock.span(cluster_.now.wall);
    const std::int64_t running = id.ordinal * rule_.spans + id.index;
    for (User& user : users_) {
      if (below(100) < 2) user.habit = static_cast<Habit>(below(4));
      for (std::uint64_t i = wanted(user.habit, rule_, random_); i > 0; --i) {
        const bool admitted = cluster_.admit(0, static_cast<unsigned>(below(workers_)), user.name);
        user.admitted[running] += admitted;
        refused_ += !admitted;
        asked(user, running, admitted);
      }
    }
  }
  std::uint64_t refused() const noexcept { return refused_; }

 private:
  static Rule rule_of(std::uint64_t run, std::uint32_t spans) {
    // Too small for light keys; for grants; and neither.
    Rule rule = user_rule(std::array{100U, 180U, 1000U, 3000U}[run % 4], Algorithm::sliding_window);
    rule.spans = spans;
    return rule;
  }

  const Rule rule_;
  std::mt19937_64 random_;
  const unsigned workers_;
  Cluster cluster_;
  std::vector<User> users_;
  std::uint64_t refused_ = 0;
};

template <typename Test>
void for_each_crowd(const std::array<std::uint32_t, 3>& spans, Test&& test) {
  std::uint64_t refused = 0;
  for (std::uint64_t run = 0; run < 12; run += testing::sanitized ? 5 : 1) {
    SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed() + run));
    Crowd crowd(run, spans);
    test(crowd);
    if (::testing::Test::HasFatalFailure()) return;
    refused += crowd.refused();
  }
  EXPECT_GT(refused, 1000U) << "this must not pass by nobody coming near the limit";
}

TEST(SlidingWindow, NeverHoldsMoreThanTheLimitAndRefusesNobodyWhoAsksForLess) {
  for_each_crowd({10, 4, 2}, [](Crowd& crowd) {
    const Rule& rule = crowd.rule();
    for (int step = 0; step < crowd.all_steps(); ++step) {
      crowd.ask([&](const User& user, std::int64_t running, bool admitted) {
        const std::uint64_t in_window = user.in_window(running, rule.spans);
        ASSERT_LE(in_window, rule.limit) << user.name;
        // Light keys are taken to have used a 64th, may have used as much before they are told from those,
        // as much again is set aside for grants, and workers divide what remains into chunks.
        if (!admitted) {
          ASSERT_GE(in_window + rule.limit / 8, rule.limit) << user.name;
        }
      });
      if (::testing::Test::HasFatalFailure()) return;
      crowd.cluster().advance(crowd.step());
    }
    crowd.cluster().finish();
    crowd.cluster().expect_conservation(crowd.cluster().admitted_by_all);
  });
}

// Of what is admitted while the controller is late nobody knows when it was, but for a span.
TEST(SlidingWindow, HoldsNoMoreThanTheLimitThoughSpansEndLate) {
  for_each_crowd({10, 4, 3}, [](Crowd& crowd) {
    const Rule& rule = crowd.rule();
    std::uint64_t late = 0;  // steps until the controller comes round
    for (int step = 0; step < crowd.all_steps(); ++step) {
      crowd.ask([&](const User& user, std::int64_t running, bool) {
        // Of a light key as much as it may have used in an interval may be in a third one.
        ASSERT_LE(user.in_window(running, rule.spans - 1), rule.limit + rule.limit / 128) << user.name;
      });
      if (::testing::Test::HasFatalFailure()) return;
      if (late == 0 && crowd.below(4 * Crowd::steps) == 0) late = crowd.below(2 * rule.spans * Crowd::steps);
      if (late > 0) {
        --late;
        crowd.cluster().now = crowd.cluster().now + crowd.step();
      } else {
        crowd.cluster().advance(crowd.step());
      }
    }
    crowd.cluster().finish();
  });
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
