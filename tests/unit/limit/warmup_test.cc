// SPDX-License-Identifier: BSD-3-Clause
// The token bucket's warm-up against its description in floating point, and worked examples.
#include <gtest/gtest.h>

#include "limit/shared_state.h"
#include "limit/token_bucket.h"
#include "steps.h"

namespace weir::testing {
namespace {

using namespace std::chrono_literals;

/// The limiter of token_bucket.h's essay, integrated numerically: tokens are taken in thin slices at the
/// price that the coldness of that moment asks.
class WarmupModel {
 public:
  WarmupModel(double limit, double interval, double burst, double warmup)
      : price_(interval / limit), burst_(burst), warmup_(warmup), saved_(burst * price_), cold_(warmup) {}

  double saved(double now) {
    const double saved = saved_ + (now - at_);
    if (saved > burst_ * price_) {
      cold_ = std::min(warmup_, cold_ + saved - burst_ * price_);
      saved_ = burst_ * price_;
    } else {
      saved_ = saved;
    }
    at_ = now;
    return saved_;
  }
  void take(double tokens) {
    constexpr int slices = 1000;
    for (int i = 0; i < slices; ++i) {
      const double slice = tokens * price_ / slices;
      const double middle = cold_ - slice / 2;
      saved_ -= slice * std::max(1.0, 4 * middle / warmup_ - 1);
      cold_ = std::max(0.0, cold_ - slice);
    }
  }
  double price() const { return price_; }

 private:
  double price_;
  double burst_;
  double warmup_;
  double saved_;
  double cold_;
  double at_ = 0;
};

TEST(Warmup, AColdLimiterReachesTheFullRateAfterTheWarmup) {
  // 100 per second, 4 s to warm up, one at a time: Guava's limiter.
  OwnedLimit<WarmingTokenBucket> bucket{WarmingTokenBucket(100, 1s, 1, 4s)};
  int admitted[8] = {};
  for (Duration now{}; now < 8s; now += 20us) admitted[now / 1s] += bucket.try_acquire(at(now), 1).admitted;
  // 4 s of warm-up admit half of 400; in the beginning a third of the rate.
  EXPECT_NEAR(admitted[0] + admitted[1] + admitted[2] + admitted[3], 200, 4);
  EXPECT_LT(admitted[0], 42);
  EXPECT_GE(admitted[0], 33);
  for (int second = 1; second < 4; ++second) EXPECT_GT(admitted[second], admitted[second - 1]);
  for (int second = 4; second < 8; ++second) EXPECT_NEAR(admitted[second], 100, 1);
}

TEST(Warmup, IdleTimeMakesColdAgain) {
  const WarmingTokenBucket terms(100, 1s, 1, 4s);
  WarmingTokenBucket::State state;
  EXPECT_EQ(terms.coldness(state, at(0s)), 4s);
  for (Duration now{}; now < 20s; now += 1ms) terms.try_acquire(state, at(now), 1);
  EXPECT_LE(terms.coldness(state, at(20s)), 20ms);
  EXPECT_NEAR(static_cast<double>(terms.coldness(state, at(21s)).count()), 1e9, 3e7);
  EXPECT_EQ(terms.coldness(state, at(1000s)), 4s);
}

TEST(Warmup, TheFirstCostsThreeTimesItsPrice) {
  OwnedLimit<WarmingTokenBucket> bucket{WarmingTokenBucket(1000, 1s, 1, 1000s)};
  EXPECT_TRUE(bucket.try_acquire(at(0s), 1).admitted);
  const Acquisition refused = bucket.try_acquire(at(0s), 1);
  EXPECT_FALSE(refused.admitted);
  EXPECT_NEAR(static_cast<double>(refused.retry_after.count()), 3e6, 1e4);
  EXPECT_FALSE(bucket.try_acquire(at(refused.retry_after - 1ns), 1).admitted);
  EXPECT_TRUE(bucket.try_acquire(at(refused.retry_after), 1).admitted);
}

TEST(Warmup, ABurstLeavesAColdLimiterMoreIndebted) {
  OwnedLimit<WarmingTokenBucket> bucket{WarmingTokenBucket(100, 1s, 10, 100s)};
  EXPECT_TRUE(bucket.try_acquire(at(0s), 10).admitted);
  EXPECT_NEAR(static_cast<double>(bucket.try_acquire(at(0s), 1).retry_after.count()), 0.21e9, 5e6);
  EXPECT_EQ(bucket.try_acquire(at(0s), 11).retry_after, forever);
  EXPECT_EQ(bucket.reserve(at(0s), 11).wait, forever);
}

TEST(Warmup, FollowsThePriceLineInRandomWalks) {
  for (std::uint64_t number = 0; number < 60 && !HasFailure(); ++number) {
    Steps steps(2000 + number);
    const std::uint64_t limit = steps.magnitude(1, 100'000);
    const std::uint64_t burst = steps.one_in(2) ? 1 : steps.magnitude(1, 100);
    const std::int64_t interval = 1'000'000'000;
    const auto warmup = static_cast<std::int64_t>(steps.magnitude(1'000'000, 100'000'000'000));
    SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()) + ", walk " + std::to_string(number) +
                 ": limit " + std::to_string(limit) + ", burst " + std::to_string(burst) + ", warm-up " +
                 std::to_string(warmup));
    OwnedLimit<WarmingTokenBucket> bucket{
        WarmingTokenBucket(limit, Duration(interval), burst, Duration(warmup))};
    WarmupModel model(static_cast<double>(limit), 1e9, static_cast<double>(burst),
                      static_cast<double>(warmup));
    std::int64_t now = 0;
    for (int step = 0; step < 300 && !HasFailure(); ++step) {
      now += static_cast<std::int64_t>(
          steps.one_in(50) ? steps.magnitude(1, 200'000'000'000)
                           : steps.between(0, static_cast<std::uint64_t>(3'000'000'000) / limit + 1));
      const std::uint64_t weight = steps.between(1, burst);
      const double saved = model.saved(static_cast<double>(now));
      const double margin = saved - static_cast<double>(weight) * model.price();
      const bool admitted = bucket.try_acquire(at(now), weight).admitted;
      // Numerical slices and rounded prices: only a clear answer is compared.
      const double unclear =
          1e-3 * model.price() * static_cast<double>(burst) + 1e-6 * static_cast<double>(warmup) + 10;
      if (std::abs(margin) > unclear) {
        EXPECT_EQ(admitted, margin > 0) << "step " << step << " at " << now << ", margin " << margin;
      }
      if (admitted) model.take(static_cast<double>(weight));
    }
  }
}

TEST(Warmup, RemainingIsHowManyWouldPassNow) {
  Steps steps(2100);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t burst = steps.between(1, 50);
    const WarmingTokenBucket terms(steps.between(1, 1000), 1s, burst,
                                   Duration(steps.magnitude(1000, 10'000'000'000)));
    WarmingTokenBucket::State state;
    std::int64_t now = 0;
    for (int step = 0; step < 20; ++step) {
      now += static_cast<std::int64_t>(steps.magnitude(1, 1'000'000'000));
      const Acquisition answer = terms.try_acquire(state, at(now), steps.between(0, burst));
      WarmingTokenBucket::State copy = state;
      std::uint64_t pass = 0;
      while (terms.try_acquire(copy, at(now), 1).admitted) ++pass;
      // Each single price is rounded up by itself.
      EXPECT_LE(pass, answer.remaining) << "WEIR_TEST_SEED=" << seed();
      EXPECT_GE(pass + 1, answer.remaining) << "WEIR_TEST_SEED=" << seed();
    }
  }
}

TEST(Warmup, RetryAfterIsTheFirstMomentThatPasses) {
  Steps steps(2200);
  const WarmingTokenBucket terms(7, 1s, 3, 5s);
  WarmingTokenBucket::State state;
  std::int64_t now = 0;
  for (int step = 0; step < 2000; ++step) {
    now = steps.next_time(now, 300'000'000);
    const std::uint64_t weight = steps.between(1, 3);
    const Acquisition answer = terms.try_acquire(state, at(now), weight);
    if (answer.admitted) continue;
    WarmingTokenBucket::State copy = state;
    EXPECT_FALSE(terms.try_acquire(copy, at(now) + (answer.retry_after - 1ns), weight).admitted);
    EXPECT_TRUE(terms.try_acquire(copy, at(now) + answer.retry_after, weight).admitted);
  }
}

TEST(Warmup, TimeThatJumpsBackGrantsNothingTwice) {
  OwnedLimit<WarmingTokenBucket> bucket{WarmingTokenBucket(100, 1s, 5, 1s)};
  EXPECT_TRUE(bucket.try_acquire(at(100s), 5).admitted);
  EXPECT_FALSE(bucket.try_acquire(at(50s), 1).admitted);
  EXPECT_GT(bucket.try_acquire(at(50s), 1).retry_after, 50s);
  EXPECT_FALSE(bucket.try_acquire(at(100s), 1).admitted);
}

TEST(Warmup, CorrectionsMoveTheDebt) {
  OwnedLimit<WarmingTokenBucket> bucket{WarmingTokenBucket(10, 1s, 10, 1ns)};
  EXPECT_TRUE(bucket.try_acquire(at(0s), 10).admitted);
  bucket.correct(at(0s), 10);
  EXPECT_NEAR(static_cast<double>(bucket.try_acquire(at(0s), 1).retry_after.count()), 1.1e9, 5);
  bucket.give_back(at(0s), 15);
  EXPECT_TRUE(bucket.try_acquire(at(0s), 4).admitted);
  bucket.give_back(at(0s), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(bucket.try_acquire(at(0s), 0).remaining, 10U);
  bucket.correct(at(0s), std::numeric_limits<std::int64_t>::max());
  EXPECT_FALSE(bucket.try_acquire(at(24h * 365 * 200), 1).admitted);
}

TEST(Warmup, ExtremeRatesNeitherOverflowNorExceed) {
  OwnedLimit<WarmingTokenBucket> fast{
      WarmingTokenBucket(std::numeric_limits<std::int64_t>::max(), 1s, std::uint64_t{1} << 59, 1s)};
  EXPECT_TRUE(fast.try_acquire(at(0s), 1).admitted);
  EXPECT_FALSE(fast.try_acquire(at(0s), std::uint64_t{1} << 60).admitted);
  OwnedLimit<WarmingTokenBucket> slow{
      WarmingTokenBucket(1, 24h * 365 * 200, std::uint64_t{1} << 59, WarmingTokenBucket::max_warmup)};
  EXPECT_TRUE(slow.try_acquire(at(0s), 1).admitted);
  EXPECT_FALSE(slow.try_acquire(at(24h * 365 * 100), 1).admitted);
  EXPECT_TRUE(slow.try_acquire(at(24h * 365 * 201), 1).admitted);
}

}  // namespace
}  // namespace weir::testing
