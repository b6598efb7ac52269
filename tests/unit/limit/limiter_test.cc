// SPDX-License-Identifier: BSD-3-Clause
// The public face: what create() refuses, and that every algorithm behaves behind it.
#include "weir/limiter.h"

#include <gtest/gtest.h>

#include <vector>

#include "steps.h"

namespace weir::testing {
namespace {

using namespace std::chrono_literals;

constexpr Algorithm offered[] = {Algorithm::cooldown,     Algorithm::fixed_window, Algorithm::sliding_window,
                                 Algorithm::token_bucket, Algorithm::leaky_bucket, Algorithm::sliding_log,
                                 Algorithm::shed};

std::string refusal(const LimiterTerms& terms) {
  const LimiterResult made = Limiter::create(terms);
  EXPECT_EQ(made.limiter == nullptr, !made.error.empty());
  return made.error;
}

TEST(Limiter, SaysWhatIsWrongAndWhatToDo) {
  EXPECT_NE(refusal({.limit = 0, .interval = 1s}).find("limit: 0 would admit nothing; use 1"),
            std::string::npos);
  EXPECT_NE(refusal({.limit = std::uint64_t{1} << 63, .interval = 1s}).find("too large"), std::string::npos);
  EXPECT_NE(refusal({.limit = 1}).find("interval: must be longer than 0"), std::string::npos);
  EXPECT_NE(refusal({.algorithm = Algorithm::strict, .limit = 1, .interval = 1s}).find("store"),
            std::string::npos);
  EXPECT_NE(refusal({.algorithm = Algorithm::sliding_log, .limit = max_sliding_log_limit + 1, .interval = 1s})
                .find("sliding-window"),
            std::string::npos);
  EXPECT_NE(refusal({.algorithm = Algorithm::shed, .limit = 1, .interval = 1s, .spans = 1}).find("spans: 1"),
            std::string::npos);
  EXPECT_NE(
      refusal({.algorithm = Algorithm::sliding_window, .limit = 1, .interval = 9ns}).find("fewer spans"),
      std::string::npos);
  EXPECT_NE(
      refusal({.algorithm = Algorithm::fixed_window, .limit = 1, .interval = 1s, .burst = 2}).find("burst"),
      std::string::npos);
  EXPECT_NE(refusal({.algorithm = Algorithm::leaky_bucket, .limit = 1, .interval = 1s, .warmup = 1s})
                .find("warmup"),
            std::string::npos);
  EXPECT_NE(refusal({.limit = 1, .interval = 1s, .warmup = 73h}).find("3 days"), std::string::npos);
  EXPECT_NE(refusal({.limit = 1, .interval = 1s, .warmup = -1ns}).find("negative"), std::string::npos);
  EXPECT_NE(refusal({.limit = 1, .interval = 1s, .cooldown = 1s}).find("cooldown"), std::string::npos);
  EXPECT_NE(refusal({.algorithm = static_cast<Algorithm>(99), .limit = 1, .interval = 1s}), "");
  EXPECT_EQ(refusal({.limit = 1, .interval = 1s}), "");
}

TEST(Limiter, AllMistakesAreTold) {
  const std::string error = refusal({.algorithm = Algorithm::shed, .limit = 0, .burst = 1});
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 2);
}

TEST(Limiter, EveryAlgorithmAdmitsItsLimitAndThenRefuses) {
  for (const Algorithm algorithm : offered) {
    if (algorithm == Algorithm::shed) continue;
    SCOPED_TRACE(to_string(algorithm));
    const LimiterResult made = Limiter::create({.algorithm = algorithm, .limit = 100, .interval = 1s});
    ASSERT_TRUE(made) << made.error;
    EXPECT_EQ(made.limiter->peek(at(10s)).remaining, 100U);
    for (std::uint64_t left = 100; left-- > 0;) {
      const Acquisition answer = made.limiter->try_acquire(at(10s), 1);
      EXPECT_TRUE(answer.admitted);
      EXPECT_EQ(answer.remaining, left);
      EXPECT_EQ(answer.retry_after, 0s);
      EXPECT_GT(answer.reset_after, 0s);
    }
    EXPECT_FALSE(made.limiter->peek(at(10s)).admitted);
    const Acquisition refused = made.limiter->try_acquire(at(10s), 1);
    EXPECT_FALSE(refused.admitted);
    EXPECT_GT(refused.retry_after, 0s);
    EXPECT_LE(refused.retry_after, 1s);
    EXPECT_TRUE(made.limiter->try_acquire(at(10s) + refused.retry_after, 1).admitted);
    EXPECT_EQ(made.limiter->try_acquire(at(20s), 101).retry_after, forever);
  }
}

TEST(Limiter, LookingChangesNothing) {
  for (const Algorithm algorithm : offered) {
    SCOPED_TRACE(to_string(algorithm));
    Steps steps(10'000);
    const LimiterTerms terms{.algorithm = algorithm, .limit = 20, .interval = 1s};
    const LimiterResult looked_at = Limiter::create(terms);
    const LimiterResult left_alone = Limiter::create(terms);
    std::int64_t now = 0;
    for (int step = 0; step < 3000; ++step) {
      now = steps.next_time(now, 50'000'000);
      const std::int64_t elsewhere = steps.next_time(now, 500'000'000);
      looked_at.limiter->peek(at(elsewhere));
      looked_at.limiter->try_acquire(at(elsewhere), 0);
      looked_at.limiter->reserve(at(elsewhere), 0);
      looked_at.limiter->correct(at(elsewhere), 0);
      const std::uint64_t weight = std::max<std::uint64_t>(steps.weight(20), 1);
      ASSERT_EQ(say(looked_at.limiter->try_acquire(at(now), weight)),
                say(left_alone.limiter->try_acquire(at(now), weight)))
          << "WEIR_TEST_SEED=" << seed() << ", step " << step;
    }
  }
}

TEST(Limiter, PeekTellsWhatOneUnitWouldGet) {
  for (const Algorithm algorithm : offered) {
    SCOPED_TRACE(to_string(algorithm));
    Steps steps(10'100);
    const LimiterResult made = Limiter::create({.algorithm = algorithm, .limit = 20, .interval = 1s});
    std::int64_t now = 0;
    for (int step = 0; step < 3000; ++step) {
      now = steps.next_time(now, 50'000'000);
      const Acquisition looked = made.limiter->peek(at(now));
      ASSERT_EQ(looked.admitted, made.limiter->try_acquire(at(now), 1).admitted)
          << "WEIR_TEST_SEED=" << seed() << ", step " << step;
    }
  }
}

TEST(Limiter, ReservationsPaceACallerAtTheRate) {
  for (const Algorithm algorithm : offered) {
    SCOPED_TRACE(to_string(algorithm));
    const LimiterResult made =
        Limiter::create({.algorithm = algorithm, .limit = 10, .interval = 1s, .spans = 2});
    Instant now = at(0s);
    for (int sent = 0; sent < 100;) {
      const Reservation reservation = made.limiter->reserve(now, 1);
      ASSERT_NE(reservation.wait, forever);
      ASSERT_TRUE(reservation.claimed || reservation.wait > 0s);
      now = now + reservation.wait;
      sent += reservation.claimed;
    }
    EXPECT_GE(count(now), (8s / 1ns));
    EXPECT_LE(count(now), (12s / 1ns));
  }
}

TEST(Limiter, ACostKnownAfterwardsIsSettled) {
  for (const Algorithm algorithm : offered) {
    if (algorithm == Algorithm::shed) continue;
    SCOPED_TRACE(to_string(algorithm));
    const LimiterResult made = Limiter::create({.algorithm = algorithm, .limit = 100, .interval = 1s});
    EXPECT_TRUE(made.limiter->try_acquire(at(5s), 60).admitted);
    made.limiter->correct(at(5s), -50);
    EXPECT_EQ(made.limiter->peek(at(5s)).remaining, 90U);
    made.limiter->correct(at(5s), 89);
    EXPECT_EQ(made.limiter->peek(at(5s)).remaining, 1U);
    made.limiter->correct(at(5s), 50);
    EXPECT_EQ(made.limiter->peek(at(5s)).remaining, 0U);
    made.limiter->correct(at(5s), std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(made.limiter->peek(at(5s)).remaining, 100U);
  }
}

TEST(Limiter, ExtremeTermsAndMomentsAreSafe) {
  const std::int64_t moments[] = {
      std::numeric_limits<std::int64_t>::min(),     std::numeric_limits<std::int64_t>::min() + 1, -1, 0, 1,
      std::numeric_limits<std::int64_t>::max() - 1, std::numeric_limits<std::int64_t>::max()};
  const std::uint64_t weights[] = {0,
                                   1,
                                   2,
                                   std::numeric_limits<std::uint32_t>::max(),
                                   std::uint64_t{1} << 59,
                                   std::numeric_limits<std::int64_t>::max(),
                                   std::numeric_limits<std::uint64_t>::max()};
  const std::int64_t corrections[] = {std::numeric_limits<std::int64_t>::min(), -1, 1,
                                      std::numeric_limits<std::int64_t>::max()};
  for (const Algorithm algorithm : offered)
    for (const std::uint64_t limit : {std::uint64_t{1}, std::uint64_t{4096},
                                      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())})
      for (const Duration interval : std::vector<Duration>{1ns, 1000ns, 24h * 366, Duration::max()})
        for (const Duration warmup : std::vector<Duration>{0ns, 1ns, 72h}) {
          const LimiterResult made = Limiter::create(
              {.algorithm = algorithm, .limit = limit, .interval = interval, .warmup = warmup});
          if (!made) continue;
          for (const std::int64_t moment : moments)
            for (const std::uint64_t weight : weights) {
              const Acquisition answer = made.limiter->try_acquire(at(moment), weight);
              EXPECT_TRUE(answer.admitted == (answer.retry_after == 0s));
              EXPECT_TRUE(!answer.admitted || weight <= limit);
              EXPECT_LE(answer.remaining, limit);
              EXPECT_GE(answer.reset_after, 0s);
              EXPECT_GE(made.limiter->reserve(at(moment), weight).wait, 0s);
              for (const std::int64_t by : corrections) made.limiter->correct(at(moment), by);
            }
        }
}

}  // namespace
}  // namespace weir::testing
