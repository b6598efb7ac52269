// SPDX-License-Identifier: BSD-3-Clause
#include "limit/shed.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "steps.h"

namespace weir::testing {
namespace {

using namespace std::chrono_literals;

TEST(ErrorDiffusion, AdmitsTheFractionOfAnyRunGiveOrTakeHalfARequest) {
  for (std::uint64_t number = 0; number < 50; ++number) {
    Steps steps(7000 + number);
    const std::uint64_t numerator = steps.magnitude(1, 1'000'000'000);
    const ShedFraction fraction{numerator, steps.between(numerator + 1, numerator * 50 + 1)};
    const double part = static_cast<double>(fraction.numerator) / static_cast<double>(fraction.denominator);
    ErrorDiffusion::State credit = 0;
    int admitted = 0;
    for (int offered = 1; offered <= 5000; ++offered) {
      admitted += ErrorDiffusion::admits(credit, fraction);
      ASSERT_LE(std::abs(admitted - part * offered), 0.5 + 1e-5)
          << "WEIR_TEST_SEED=" << seed() << ", walk " << number << ", request " << offered;
    }
  }
}

TEST(ErrorDiffusion, SpreadsAdmissionsEvenly) {
  ErrorDiffusion::State credit = 0;
  int since = 0;
  int admitted = 0;
  for (int i = 0; i < 10'000; ++i) {
    ++since;
    if (!ErrorDiffusion::admits(credit, {1, 7})) continue;
    if (admitted++ > 0) {
      EXPECT_GE(since, 7);
      EXPECT_LE(since, 8);
    }
    since = 0;
  }
  EXPECT_NEAR(admitted, 10'000 / 7, 1);
}

TEST(Shed, HeavyRequestsAreNeitherStarvedNorFavoured) {
  Shed shed(10'000, 1s, 10);
  int heavy = 0;
  int light = 0;
  double admitted = 0;
  // 20,000 light ones per second and 206 of weight 100: four times the limit.
  for (int i = 0; i < 200'000; ++i) {
    const Instant now = at(Duration(i * 50'000LL));
    const bool passes = shed.try_acquire(now, 1).admitted;
    const bool heavy_passes = i % 97 == 0 && shed.try_acquire(now, 100).admitted;
    if (now.wall < WallTime(1s)) continue;
    light += passes;
    heavy += heavy_passes;
    admitted += passes + (heavy_passes ? 100 : 0);
  }
  EXPECT_NEAR(admitted, 90'000, 2000);
  EXPECT_NEAR(light / 180'000.0, heavy * 97 / 180'000.0, 0.01);
}

TEST(Shed, AdmitsEverythingBelowTheLimit) {
  Shed shed(1000, 1s, 10);
  for (Duration now{}; now < 10s; now += 1ms) EXPECT_TRUE(shed.try_acquire(at(now), 1).admitted);
}

TEST(Shed, HoldsTheLimitUnderAnyOverload) {
  for (const double overload : {1.2, 2.0, 10.0, 300.0}) {
    Shed shed(1000, 1s, 10);
    const auto gap = Duration(static_cast<std::int64_t>(1e6 / overload));
    std::uint64_t admitted = 0;
    for (Duration now{}; now < 11s; now += gap) {
      const bool passes = shed.try_acquire(at(now), 1).admitted;
      if (now >= 1s) admitted += passes;
    }
    EXPECT_NEAR(static_cast<double>(admitted), 10'000, 100) << overload;
  }
}

TEST(Shed, HoldsTheLimitUnderPoissonArrivals) {
  for (const double overload : {1.2, 3.0, 10.0}) {
    Steps steps(7100);
    std::exponential_distribution<double> gap(overload * 1000 / 1e9);
    Shed shed(1000, 1s, 10);
    double admitted = 0;
    for (double now = 0; now < 61e9; now += gap(steps.random())) {
      const bool passes = shed.try_acquire(at(static_cast<std::int64_t>(now)), 1).admitted;
      if (now >= 1e9) admitted += passes;
    }
    EXPECT_NEAR(admitted / 60, 1000, 50) << overload << ", WEIR_TEST_SEED=" << seed();
  }
}

TEST(Shed, ASuddenOverloadAdmitsLittleMoreThanTheFirstSpansPart) {
  Shed shed(1000, 1s, 10);
  for (Duration now{}; now < 1s; now += 10ms) EXPECT_TRUE(shed.try_acquire(at(now), 1).admitted);
  std::uint64_t admitted = 0;
  for (int i = 0; i < 100'000; ++i) admitted += shed.try_acquire(at(1s), 1).admitted;
  // q (1 + ln(D/q)) with q = 100 and D = 100,000
  EXPECT_NEAR(static_cast<double>(admitted), 100 * (1 + std::log(1000.0)), 10);
}

TEST(Shed, ForgetsOldDemand) {
  Shed shed(1000, 1s, 10);
  for (Duration now{}; now < 2s; now += 100us) shed.try_acquire(at(now), 1);
  EXPECT_EQ(shed.estimate(), 1000U);
  EXPECT_FALSE(shed.try_acquire(at(2s), 1).admitted && shed.try_acquire(at(2s), 1).admitted);
  EXPECT_TRUE(shed.try_acquire(at(10s), 1).admitted);
  EXPECT_EQ(shed.estimate(), 0U);
  EXPECT_EQ(shed.peek(at(10s)).remaining, 99U);
}

TEST(Shed, ASmallLimitAdmitsWhatStaysBelowIt) {
  for (const std::uint64_t limit : {1U, 2U, 4U, 9U}) {
    Shed shed(limit, 1s, 10);
    const Duration pause = Duration(1250ms) / static_cast<std::int64_t>(limit);
    for (Duration now{}; now < 100s; now += pause)
      EXPECT_TRUE(shed.try_acquire(at(now), 1).admitted) << limit << " a second, at " << now.count();
  }
}

TEST(Shed, WeightZeroOnlyLooks) {
  Shed shed(10, 1s, 2);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(shed.try_acquire(at(1s), 0).admitted);
  EXPECT_EQ(shed.peek(at(1s)).remaining, 5U);
  EXPECT_FALSE(shed.reserve(at(1s), 0).claimed);
}

/// What came to a limiter, so that others can be brought to where it is.
class Course {
 public:
  explicit Course(std::uint32_t spans) : spans_(spans), shed_(limit, 1s, spans) {}

  Acquisition ask(Instant now, std::uint64_t weight) {
    asked_.emplace_back(now, weight);
    return shed_.try_acquire(now, weight);
  }
  /// One that has seen the same, and is asked no more until then.
  std::unique_ptr<Shed> another() const {
    auto made = std::make_unique<Shed>(limit, 1s, spans_);
    for (const auto& [now, weight] : asked_) made->try_acquire(now, weight);
    return made;
  }

  static constexpr std::uint64_t limit = 100;

 private:
  std::uint32_t spans_;
  Shed shed_;
  std::vector<std::pair<Instant, std::uint64_t>> asked_;
};

TEST(Shed, WhoIsRefusedAndComesAsLateAsHeIsToldPassesAndNotASpanBefore) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  int late = 0;
  for (std::uint64_t walk = 0; walk < 20; ++walk) {
    Steps steps(9000 + walk);
    const std::uint32_t spans = walk % 2 == 0 ? 10 : 7;  // the latter not all equally long
    Course course(spans);
    const std::uint64_t longest_pause = steps.magnitude(20'000, 100'000'000);
    Duration now{};
    for (int i = 0; i < 100; ++i) {
      now += Duration(steps.between(0, longest_pause));
      const std::uint64_t weight = steps.between(1, 10);
      const Acquisition got = course.ask(at(now), weight);
      const Acquisition looked = course.another()->peek(at(now + got.reset_after));
      ASSERT_EQ(looked.remaining, Course::limit / spans) << "walk " << walk << ", request " << i;
      ASSERT_EQ(looked.reset_after, 0s);
      if (got.reset_after > 0s) {
        ASSERT_NE(course.another()->peek(at(now + got.reset_after - 1ns)).reset_after, 0s);
      }
      if (got.admitted) continue;
      ASSERT_TRUE(course.another()->try_acquire(at(now + got.retry_after), weight).admitted)
          << "walk " << walk << ", request " << i;
      if (got.retry_after <= Duration(1s) / spans + 1ns) continue;
      ++late;
      ASSERT_FALSE(course.another()->try_acquire(at(now + got.retry_after - 1ns), weight).admitted);
    }
  }
  EXPECT_GT(late, 20) << "some had to wait for longer than a span";
}

TEST(Shed, ARequestHeavierThanTheLimitNeverPasses) {
  Shed shed(10, 1s, 2);
  EXPECT_EQ(shed.try_acquire(at(1s), 11).retry_after, forever);
  EXPECT_EQ(shed.reserve(at(1s), std::numeric_limits<std::uint64_t>::max()).wait, forever);
}

TEST(Shed, WhatIsTooHeavyEverToPassIsNoDemand) {
  Shed shed(1000, 1s, 10);
  for (Duration now{}; now < 5s; now += 10ms) {
    EXPECT_FALSE(shed.try_acquire(at(now), 1001).admitted);
    EXPECT_TRUE(shed.try_acquire(at(now), 1).admitted) << now.count();
  }
  EXPECT_EQ(shed.estimate(), 10U);
}

TEST(Shed, WhatIsHandedBackLetsAnotherPass) {
  Shed shed(100, 1s, 2);
  for (Duration now{}; now < 5s; now += 1ms) shed.try_acquire(at(now), 1);
  // A tenth passes: one request in ten.
  const auto refused_before_the_next = [&] {
    int refused = 0;
    while (!shed.try_acquire(at(5s), 1).admitted) ++refused;
    return refused;
  };
  refused_before_the_next();
  EXPECT_EQ(refused_before_the_next(), 9);
  shed.give_back(at(5s), 1);
  EXPECT_EQ(refused_before_the_next(), 0);
  shed.correct(at(5s), 1);
  EXPECT_GE(refused_before_the_next(), 18);
}

TEST(Shed, TheLargestNumbersDoNotOverflow) {
  constexpr std::uint64_t limit = std::numeric_limits<std::int64_t>::max();
  Shed shed(limit, 1000ns, 1000);
  for (int i = 0; i < 1000; ++i) {
    const Instant now = at(std::numeric_limits<std::int64_t>::max() - 2000 + i);
    shed.try_acquire(now, limit);
    shed.try_acquire(now, 1);
    shed.try_acquire(now, std::numeric_limits<std::uint64_t>::max());
    shed.correct(now, std::numeric_limits<std::int64_t>::min());
    shed.correct(now, std::numeric_limits<std::int64_t>::max());
  }
  EXPECT_TRUE(Shed(limit, 1s, 10).try_acquire(at(0s), 1).admitted);
}

TEST(Shed, TimeThatJumpsBackFindsTheLatestSpanStillRunning) {
  Shed shed(100, 1s, 10);
  std::uint64_t admitted = 0;
  for (int i = 0; i < 1000; ++i) admitted += shed.try_acquire(at(i % 2 == 0 ? 100s : 50s), 1).admitted;
  EXPECT_NEAR(static_cast<double>(admitted), 10 * (1 + std::log(100.0)), 3);
}

}  // namespace
}  // namespace weir::testing
