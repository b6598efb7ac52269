// SPDX-License-Identifier: BSD-3-Clause
// Somebody sends every request under a key of its own, far more than a node holds, and always before the
// others come: their limits hold as if he were not there.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <span>
#include <string>
#include <utility>
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

constexpr std::uint64_t limit = 100;
constexpr Duration cooldown = 500ms;
constexpr Duration step = 10ms;
constexpr int steps_per_interval = 100;
constexpr int steps_per_span = 10;

Rule rule_of(Algorithm algorithm) {
  Rule rule = user_rule(limit, algorithm);
  rule.cooldown = cooldown;
  return rule;
}

/// A node with some room for keys, of which a sprayer takes as much as he can get.
class SprayedNode {
 public:
  /// @param asked  how often for each of the sprayed keys
  explicit SprayedNode(Algorithm algorithm, unsigned workers = 2, std::uint32_t keys = 256, int asked = 1)
      : cluster_(rule_of(algorithm), 1, workers, seed(), keys),
        sprayed_per_span_(static_cast<int>(3 * keys)),
        asked_(asked) {}

  Cluster& cluster() { return cluster_; }

  /// Sprays at the beginning of each span.
  /// @param others  called in each step, after the spray, with the step's number and the worker whose turn it
  /// is
  template <typename Others>
  void run(int intervals, bool sprayed, Others&& others) {
    for (int i = 0; i < intervals * steps_per_interval; ++i) {
      if (sprayed && i % steps_per_span == 0)
        for (int key = 0; key < sprayed_per_span_; ++key, ++sprayed_)
          for (int again = 0; again < asked_; ++again)
            cluster_.admit(0, static_cast<unsigned>(key) % cluster_.workers,
                           "sprayed" + std::to_string(sprayed_));
      others(i, static_cast<unsigned>(i) % cluster_.workers);
      cluster_.advance(step);
    }
  }

  std::uint64_t overflowed() const { return cluster_.nodes[0]->figures().overflowed; }

 private:
  Cluster cluster_;
  int sprayed_per_span_;
  int asked_;
  int sprayed_ = 0;
};

std::string name_of(const ::testing::TestParamInfo<Algorithm>& tested) {
  std::string name(to_string(tested.param));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class Sprayed : public ::testing::TestWithParam<Algorithm> {};

TEST_P(Sprayed, WhoStaysWithinTheLimitIsNeverRefused) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  SprayedNode node(GetParam());
  int refused = 0;
  const auto honest = [&](int i, unsigned worker) {
    if (i % 2 == 0) refused += !node.cluster().admit(0, worker, "honest");
  };
  node.run(1, false, honest);
  node.run(5, true, honest);
  EXPECT_GT(node.overflowed(), 1'000U);
  EXPECT_EQ(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Sprayed,
                         ::testing::Values(Algorithm::cooldown, Algorithm::fixed_window,
                                           Algorithm::sliding_window, Algorithm::token_bucket,
                                           Algorithm::leaky_bucket, Algorithm::sliding_log, Algorithm::shed),
                         name_of);

/// As many keys as a node is made for, all alike: each asks for a fifth of its limit, now and then.
class LightKeys {
 public:
  LightKeys(Cluster& cluster, std::size_t count) : cluster_(cluster) {
    for (std::size_t i = 0; i < count; ++i) names_.push_back("light" + std::to_string(i));
  }
  void ask(unsigned worker) {
    const std::size_t asking = names_.size() * limit / 5 / steps_per_interval;
    for (std::size_t i = 0; i < asking; ++i, ++offered_)
      refused_ += !cluster_.admit(0, worker, names_[cluster_.random() % names_.size()]);
  }
  /// Since the last time.
  double refused() { return static_cast<double>(std::exchange(refused_, 0)) / std::exchange(offered_, 0); }

 private:
  Cluster& cluster_;
  std::vector<std::string> names_;
  int offered_ = 0;
  int refused_ = 0;
};

// Who was there before the spray keeps what he draws from, whether he is heavy or not.
TEST_P(Sprayed, WhoIsLightIsNotRefusedInANodeThatIsMadeForJustItsKeys) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  constexpr std::uint32_t keys = 2048;
  SprayedNode node(GetParam(), 1, keys);
  LightKeys light(node.cluster(), keys);
  const auto ask = [&](int, unsigned worker) { light.ask(worker); };
  node.run(3, false, ask);
  EXPECT_LE(light.refused(), 0.001);
  for (int interval = 0; interval < 4; ++interval) {
    node.run(1, true, ask);
    EXPECT_LE(light.refused(), 0.001) << interval;
  }
  EXPECT_GT(node.overflowed(), 100'000U);
}

/// A node that is made for more does not know, in the window in which the spray begins, that it has to take
/// care.
class SprayedBesideRoom : public ::testing::TestWithParam<Algorithm> {};

TEST_P(SprayedBesideRoom, WhoIsLightIsRefusedInTheFirstWindowAtMost) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  constexpr std::uint32_t keys = 4096;
  SprayedNode node(GetParam(), 1, keys);
  LightKeys light(node.cluster(), keys / 3);
  const auto ask = [&](int, unsigned worker) { light.ask(worker); };
  node.run(3, false, ask);
  node.run(2, true, ask);
  light.refused();
  for (int interval = 0; interval < 3; ++interval) {
    node.run(1, true, ask);
    EXPECT_LE(light.refused(), 0.001) << interval;
  }
}

// The first ones are those that differ most.
constexpr std::array beside_room{Algorithm::fixed_window, Algorithm::sliding_window, Algorithm::token_bucket,
                                 Algorithm::sliding_log,  Algorithm::cooldown,       Algorithm::leaky_bucket,
                                 Algorithm::shed};
INSTANTIATE_TEST_SUITE_P(Algorithms, SprayedBesideRoom,
                         ::testing::ValuesIn(std::span(beside_room).first(testing::sanitized ? 4 : 7)),
                         name_of);

TEST(SprayedFixedWindow, AHeavyKeyIsCountedExactlyAndGetsItsLimit) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  SprayedNode node(Algorithm::fixed_window);
  const auto heavy = [&](int, unsigned worker) {
    for (int i = 0; i < 3; ++i) node.cluster().admit(0, worker, "heavy");
  };
  node.run(1, false, heavy);
  node.run(5, true, heavy);
  EXPECT_GT(node.overflowed(), 1'000U);
  node.cluster().finish();
  int intervals = 0;
  for (const auto& [counter, count] : node.cluster().admitted_by_all) {
    if (counter.first != "user|heavy") continue;
    ++intervals;
    EXPECT_EQ(count, limit) << counter.second;
    EXPECT_EQ(node.cluster().counters[counter], count) << counter.second;
  }
  EXPECT_EQ(intervals, 6);
}

// The first time, if there are many keys, the node does not know yet that it has to take care.
TEST(SprayedFixedWindow, AmongManyKeysASprayThatComesAndGoesGainsNothingByIt) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  SprayedNode node(Algorithm::fixed_window, 1, 8192);
  Cluster& cluster = node.cluster();
  const auto users = [&](int, unsigned worker) {
    for (int i = 0; i < 3; ++i) cluster.admit(0, worker, "heavy");
    for (int i = 0; i < 100; ++i) cluster.admit(0, worker, "user" + std::to_string(cluster.random() % 5000));
  };
  node.run(1, false, users);
  node.run(1, true, users);
  const Ordinal first_free = cluster.clock.ordinal(cluster.now.wall);
  node.run(1, false, users);
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t overflowed = node.overflowed();
    node.run(1, true, users);
    EXPECT_GT(node.overflowed(), overflowed + 10'000);
    node.run(1, false, users);
  }
  cluster.finish();
  for (Ordinal ordinal = first_free; ordinal < first_free + 5; ++ordinal) {
    EXPECT_EQ((cluster.admitted_by_all[{"user|heavy", ordinal}]), limit) << ordinal - first_free;
    EXPECT_EQ((cluster.counters[{"user|heavy", ordinal}]), limit) << ordinal - first_free;
  }
}

// A sprayer who uses up the grants of his keys takes all entries, and those that have their own counts keep
// them.
TEST(SprayedGrants, WhoUsesMuchIsCountedExactlyAndWhoUsesLittleIsNeverRefused) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  SprayedNode node(Algorithm::fixed_window, 1, 32768, 2);
  Cluster& cluster = node.cluster();
  int refused = 0;
  const auto users = [&](int i, unsigned worker) {
    for (int ask = 0; ask < 3; ++ask) cluster.admit(0, worker, "heavy");
    if (i % 2 == 0) refused += !cluster.admit(0, worker, "honest");
  };
  node.run(1, false, users);
  node.run(1, true, users);  // after it the node knows that it has to take care
  const Ordinal taken_care = cluster.clock.ordinal(cluster.now.wall);
  refused = 0;
  node.run(1, true, users);
  EXPECT_GT(node.overflowed(), 100'000U);
  EXPECT_EQ(refused, 0);
  cluster.finish();
  EXPECT_EQ((cluster.admitted_by_all[{"user|heavy", taken_care}]), limit);
  EXPECT_EQ((cluster.counters[{"user|heavy", taken_care}]), limit);
  EXPECT_EQ((cluster.counters[{"user|honest", taken_care}]), 50U);
}

// Sprayed keys take the places of grants once idle ones are forgotten there.
TEST(SprayedGrants, WhoAsksForLessThanAGrantIsNotRefusedForWantOfOne) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  Rule rule = rule_of(Algorithm::fixed_window);
  rule.limit = 6400;
  Cluster cluster(rule, 1, 1, seed(), 256);
  int sprayed = 0;
  int refused = 0;
  for (int now = 0; now < 16 * steps_per_interval; ++now) {
    // She is known before anybody sprays.
    if (now >= steps_per_interval && now % steps_per_span == 0)
      for (int key = 0; key < 16'000; ++key, ++sprayed)
        for (int again = 0; again < 2; ++again)
          cluster.nodes[0]->worker(0).admit_key(0, "sprayed" + std::to_string(sprayed), 20,
                                                cluster.now.monotonic);
    if (now % steps_per_span != 0) refused += !cluster.admit(0, 0, "ann");
    cluster.advance(step);
  }
  EXPECT_EQ(refused, 0);
}

/// Who is admitted as the algorithm says, however many others come first.
class ExactLog {
 public:
  ExactLog(Cluster& cluster, std::string name, std::uint64_t most = limit)
      : cluster_(cluster), name_(std::move(name)), most_(most) {}

  void ask(unsigned worker, int requests) {
    for (int i = 0; i < requests; ++i) {
      const MonotonicTime now = cluster_.now.monotonic;
      while (!admitted_.empty() && now - admitted_.front() >= 1s) admitted_.pop_front();
      if (cluster_.admit(0, worker, name_)) {
        admitted_.push_back(now);
        EXPECT_LE(admitted_.size(), most_);
      } else {
        refused_early_ += admitted_.size() < most_;
      }
    }
  }
  int refused_early() { return std::exchange(refused_early_, 0); }

 private:
  Cluster& cluster_;
  std::string name_;
  std::uint64_t most_;
  std::deque<MonotonicTime> admitted_;
  int refused_early_ = 0;
};

// The limit is so high that a node that is made for so many keys has far fewer logs, and at once they are
// gone.
class SprayedSlidingLog : public ::testing::Test {
 protected:
  static constexpr std::uint64_t high = 2000;
  void spray() {
    for (int key = 0; key < 2'500; ++key, ++sprayed_)
      cluster_.admit(0, 0, "sprayed" + std::to_string(sprayed_));
  }
  /// @param others  called in each step, after the spray
  template <typename Others>
  void run(int intervals, Others&& others) {
    for (int i = 0; i < intervals * steps_per_interval; ++i) {
      if (i % steps_per_span == 0) spray();
      others();
      cluster_.advance(step);
    }
  }

  Cluster cluster_{user_rule(high, Algorithm::sliding_log), 1, 2, seed(), 65'536};
  int sprayed_ = 0;
};

TEST_F(SprayedSlidingLog, WhoIsKnownHasHisLimitInEachWindowAndNeverMore) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  ExactLog known(cluster_, "known", high);
  for (int i = 0; i < steps_per_interval; ++i) {
    known.ask(0, 30);
    cluster_.advance(step);
  }
  unsigned worker = 0;
  run(5, [&] { known.ask(++worker % 2, 30); });
  EXPECT_EQ(known.refused_early(), 0);
}

TEST_F(SprayedSlidingLog, WhoComesWhileItLastsHasHalfOfHisLimitAtOnceAndAllOfItInTheWindowAfterTheNext) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  run(3, [] {});
  ExactLog light(cluster_, "light", high);
  ExactLog heavy(cluster_, "heavy", high);
  const auto both = [&] {
    light.ask(0, 8);
    heavy.ask(1, 30);
  };
  run(3, both);
  EXPECT_EQ(light.refused_early(), 0);
  EXPECT_GT(heavy.refused_early(), 0) << "nothing was in need of a log";
  run(3, both);
  EXPECT_EQ(light.refused_early(), 0);
  EXPECT_EQ(heavy.refused_early(), 0);
}

// There are cells for few more than are known.
TEST(SprayedSmallLog, NobodyHasMoreThanHisLimitAlsoWhereHeFindsNoCell) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  SprayedNode node(Algorithm::sliding_log, 2, 1024);
  std::vector<ExactLog> users;
  for (int i = 0; i < 200; ++i) users.emplace_back(node.cluster(), "user" + std::to_string(i));
  const auto come_and_go = [&](int, unsigned worker) {
    for (int i = 0; i < 10; ++i)
      users[node.cluster().random() % users.size()].ask(worker,
                                                        1 + static_cast<int>(node.cluster().random() % 60));
  };
  node.run(2, false, come_and_go);
  for (int i = 0; i < 4; ++i) {
    node.run(1, true, come_and_go);
    node.run(1, false, come_and_go);
  }
  EXPECT_GT(node.overflowed(), 1'000U);
}

TEST(SprayedCooldown, WhoIsBlockedStaysBlockedForAsLongAsHeShould) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  SprayedNode node(Algorithm::cooldown);
  Cluster& cluster = node.cluster();
  MonotonicTime blocked_until = never;
  int blocks = 0;
  const auto greedy = [&](int, unsigned worker) {
    for (int i = 0; i < 5; ++i) {
      const bool admitted = cluster.admit(0, worker, "greedy");
      const MonotonicTime now = cluster.now.monotonic;
      if (admitted) {
        EXPECT_GE(now, blocked_until) << blocks;
      } else if (now >= blocked_until) {
        blocked_until = now + cooldown;
        ++blocks;
      }
    }
  };
  node.run(1, false, greedy);
  node.run(5, true, greedy);
  EXPECT_GT(node.overflowed(), 1'000U);
  EXPECT_GT(blocks, 4);
}

}  // namespace
}  // namespace weir
