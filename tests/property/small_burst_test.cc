// SPDX-License-Identifier: BSD-3-Clause
// Buckets that hold less than what is admitted to a key in a span, on nodes that hear of each other only when
// one ends.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <tuple>

#include "cluster.h"
#include "sanitized.h"
#include "user_rule.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using testing::seed;
using testing::user_rule;

constexpr int minutes = testing::sanitized ? 4 : 20;
constexpr double limit = 600;  // a minute: 60 in a span
constexpr std::uint64_t burst = 10;

struct Outcome {
  double offered = 0;
  double admitted = 0;
};

/// Poisson arrivals on two nodes.
/// @param first  the part of them that comes to the first one
Outcome run(double of_limit, double first) {
  Rule rule = user_rule(static_cast<std::uint64_t>(limit), Algorithm::token_bucket);
  rule.interval = 1min;
  rule.burst = burst;
  Cluster cluster(rule, 2, 1, seed());
  std::poisson_distribution<int> arrivals(of_limit * limit / 600);
  std::bernoulli_distribution comes_to_first(first);
  Outcome outcome;
  for (Duration passed{}; passed < minutes * 1min; passed += 100ms) {
    for (int count = arrivals(cluster.random); count > 0; --count) {
      ++outcome.offered;
      outcome.admitted += cluster.admit(comes_to_first(cluster.random) ? 0 : 1, 0, "ann");
    }
    cluster.advance(100ms);
  }
  return outcome;
}

class SmallBurst : public ::testing::TestWithParam<double> {
 protected:
  void SetUp() override { SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed())); }
};

TEST_P(SmallBurst, RefusesNextToNothingBelowTheLimit) {
  const Outcome outcome = run(0.6, GetParam());
  EXPECT_GT(outcome.admitted, 0.98 * outcome.offered);
}

TEST_P(SmallBurst, AdmitsNoMoreThanTheRateOverALongTime) {
  for (const double of_limit : {0.9, 1.0, 1.1, 1.5, 5.0}) {
    const Outcome outcome = run(of_limit, GetParam());
    RecordProperty(std::to_string(of_limit), std::to_string(outcome.admitted / (limit * minutes)));
    // And what each node may have had at the beginning: its bucket, and a span's rate.
    EXPECT_LE(outcome.admitted, limit * minutes + 2 * (burst + limit / 10)) << of_limit;
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, SmallBurst, ::testing::Values(0.5, 0.8, 0.95));

}  // namespace
}  // namespace weir
