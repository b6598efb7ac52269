// SPDX-License-Identifier: BSD-3-Clause
// Token and leaky bucket against exact fractions of tokens.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "limit/leaky_bucket.h"
#include "limit/shared_state.h"
#include "limit/token_bucket.h"
#include "steps.h"

namespace weir::testing {
namespace {

using namespace std::chrono_literals;

/// Parts of tokens, T to a token: a nanosecond brings L of them. Exact, in 128 bits, nothing wraps.
class BucketModel {
 public:
  BucketModel(std::uint64_t limit, std::int64_t interval, std::uint64_t burst)
      : limit_(limit), token_(interval), burst_(burst) {
    // bucket_meter.h: a debt is cut where 2^60 units are missing, and T / gcd(L, T) of those make a token.
    const auto divisor = static_cast<__int128>(std::gcd(limit, static_cast<std::uint64_t>(interval)));
    most_missing_ = divisor << 60;
    largest_charge_ = divisor * ((__int128{1} << 59) + 1);
  }

  Acquisition try_acquire(Instant now, std::uint64_t weight) {
    const Bucket bucket = look(now);
    const std::uint64_t asked = std::max<std::uint64_t>(weight, 1);
    __int128 missing = bucket.missing;
    Acquisition answer;
    answer.admitted = asked <= burst_ && price(asked) <= capacity() - missing;
    if (!answer.admitted) answer.retry_after = wait(bucket, now, asked);
    if (answer.admitted && weight > 0) {
      missing += price(weight);
      bucket_ = {missing, bucket.at};
    }
    answer.remaining = missing < capacity() ? static_cast<std::uint64_t>((capacity() - missing) / token_) : 0;
    answer.reset_after = until(bucket, now, missing);
    return answer;
  }
  Reservation reserve(Instant now, std::uint64_t weight) {
    const Bucket bucket = look(now);
    if (weight == 0) return {wait(bucket, now, 1), false};
    const Duration waits = wait(bucket, now, weight);
    if (waits == forever || bucket.missing + price(weight) > most_missing_) return {forever, false};
    bucket_ = {bucket.missing + price(weight), bucket.at};
    return {waits, true};
  }
  void correct(Instant now, std::int64_t by) {
    if (by == 0) return;
    Bucket bucket = look(now);
    const __int128 sum = std::min(price(static_cast<std::uint64_t>(std::abs(by))), largest_charge_);
    bucket.missing =
        by > 0 ? std::min(bucket.missing + sum, most_missing_) : std::max<__int128>(bucket.missing - sum, 0);
    bucket_ = bucket;
  }

 private:
  struct Bucket {
    __int128 missing = 0;
    std::int64_t at = std::numeric_limits<std::int64_t>::min();
  };
  __int128 price(std::uint64_t tokens) const { return static_cast<__int128>(tokens) * token_; }
  __int128 capacity() const { return price(burst_); }
  Bucket look(Instant now) const {
    const std::int64_t at = std::max(bucket_.at, count(now));
    const __int128 came = (static_cast<__int128>(at) - bucket_.at) * limit_;
    return {std::max<__int128>(bucket_.missing - came, 0), at};
  }
  Duration wait(const Bucket& bucket, Instant now, std::uint64_t weight) const {
    return weight > burst_ ? forever : until(bucket, now, bucket.missing + price(weight) - capacity());
  }
  Duration until(const Bucket& bucket, Instant now, __int128 parts) const {
    if (parts <= 0) return Duration{};
    const __int128 whole = (parts + limit_ - 1) / limit_ + bucket.at - count(now);
    return whole >= forever.count() ? forever : Duration(static_cast<std::int64_t>(whole));
  }

  std::uint64_t limit_;
  std::int64_t token_;
  std::uint64_t burst_;
  __int128 most_missing_;
  __int128 largest_charge_;
  Bucket bucket_;
};

/// Whether bucket.h counts these terms exactly.
bool exact(std::uint64_t limit, std::int64_t interval, std::uint64_t burst) {
  const auto divisor = std::gcd(limit, static_cast<std::uint64_t>(interval));
  return static_cast<unsigned __int128>(burst) * (static_cast<std::uint64_t>(interval) / divisor) <=
             BucketTerms::max_burst &&
         limit / divisor <= BucketTerms::max_burst;
}

template <typename Bucket>
void walk(std::uint64_t number) {
  Steps steps(number);
  std::uint64_t limit = 0;
  std::uint64_t burst = 0;
  std::int64_t interval = 0;
  do {
    limit =
        steps.one_in(3) ? steps.between(1, 20) : steps.magnitude(1, std::numeric_limits<std::int64_t>::max());
    interval = static_cast<std::int64_t>(steps.one_in(2) ? steps.magnitude(1, 366ULL * 86400 * 1'000'000'000)
                                                         : 1'000'000'000 * steps.between(1, 100'000));
    burst = steps.one_in(3) ? steps.between(1, 10) : steps.magnitude(1, std::uint64_t{1} << 59);
  } while (!exact(limit, interval, burst));
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()) + ", walk " + std::to_string(number) + ": limit " +
               std::to_string(limit) + " per " + std::to_string(interval) + " ns, burst " +
               std::to_string(burst));

  OwnedLimit<Bucket> bucket{Bucket(limit, Duration(interval), burst)};
  BucketModel model(limit, interval, burst);
  const auto per_token = static_cast<std::int64_t>(static_cast<std::uint64_t>(interval) / limit) + 1;
  const std::int64_t typical =
      steps.one_in(2) ? per_token : std::min<std::int64_t>(interval, std::int64_t{1} << 50);
  std::int64_t now =
      steps.one_in(2) ? 0 : -static_cast<std::int64_t>(steps.magnitude(1, std::uint64_t{1} << 60));
  for (int step = 0; step < 2000 && !::testing::Test::HasFailure(); ++step) {
    now = steps.next_time(now, typical);
    const auto most = static_cast<std::int64_t>(std::min<std::uint64_t>(burst, std::uint64_t{1} << 60)) + 2;
    const std::int64_t by =
        static_cast<std::int64_t>(steps.between(0, static_cast<std::uint64_t>(2 * most))) - most;
    const std::uint64_t operation = steps.between(0, 99);
    const std::uint64_t weight = steps.weight(burst);
    SCOPED_TRACE("step " + std::to_string(step) + " at " + std::to_string(now) + ", weight " +
                 std::to_string(weight) + ", by " + std::to_string(by));
    expect_same_step(bucket, model, at(now), weight, operation, by);
  }
}

TEST(TokenBucket, AnswersAsExactFractionsDo) {
  for (std::uint64_t number = 0; number < 100 && !HasFailure(); ++number) walk<TokenBucket>(number);
}
TEST(LeakyBucket, AnswersAsExactFractionsDo) {
  for (std::uint64_t number = 1000; number < 1050 && !HasFailure(); ++number) walk<LeakyBucket>(number);
}

TEST(TokenBucket, TheBurstPassesAtOnceThenTheRate) {
  OwnedLimit<TokenBucket> bucket{TokenBucket(10, 1s, 3)};
  for (std::uint64_t left = 3; left-- > 0;) {
    const Acquisition answer = bucket.try_acquire(at(5s), 1);
    EXPECT_TRUE(answer.admitted);
    EXPECT_EQ(answer.remaining, left);
    EXPECT_EQ(answer.retry_after, 0s);
  }
  const Acquisition refused = bucket.try_acquire(at(5s), 1);
  EXPECT_FALSE(refused.admitted);
  EXPECT_EQ(refused.retry_after, 100ms);
  EXPECT_EQ(refused.reset_after, 300ms);
  EXPECT_FALSE(bucket.try_acquire(at(5s + 100ms - 1ns), 1).admitted);
  EXPECT_TRUE(bucket.try_acquire(at(5s + 100ms), 1).admitted);
}

TEST(TokenBucket, WeightZeroOnlyLooks) {
  OwnedLimit<TokenBucket> bucket{TokenBucket(1, 1s, 1)};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bucket.try_acquire(at(1s), 0).admitted);
  EXPECT_TRUE(bucket.try_acquire(at(1s), 1).admitted);
  EXPECT_FALSE(bucket.try_acquire(at(1s), 0).admitted);
  EXPECT_EQ(bucket.try_acquire(at(1s), 0).retry_after, 1s);
}

TEST(TokenBucket, TimeThatJumpsBackStandsStillAndGrantsNothingTwice) {
  OwnedLimit<TokenBucket> bucket{TokenBucket(10, 1s, 10)};
  EXPECT_TRUE(bucket.try_acquire(at(100s), 5).admitted);
  EXPECT_EQ(bucket.try_acquire(at(40s), 0).remaining, 5U);
  EXPECT_TRUE(bucket.try_acquire(at(40s), 5).admitted);
  EXPECT_FALSE(bucket.try_acquire(at(99s), 1).admitted);
  EXPECT_EQ(bucket.try_acquire(at(40s), 1).retry_after, 60s + 100ms);
  EXPECT_FALSE(bucket.try_acquire(at(100s), 1).admitted);
  EXPECT_TRUE(bucket.try_acquire(at(100s + 100ms), 1).admitted);
}

TEST(TokenBucket, IsFullAfterAnyGapThatFillsIt) {
  // So fast that the level's word wraps around every few seconds: whole turns must not read as no time at
  // all.
  const TokenBucket terms(1'000'000'000'000'000'000, 1s, 1'000'000'000'000'000);
  for (const Duration gap : std::vector<Duration>{1ms, 1s, 4611686018ns, 9223372036ns, 18446744073ns,
                                                  36893488147ns, 24h, 24h * 365 * 250}) {
    OwnedLimit<TokenBucket> bucket{terms};
    EXPECT_TRUE(bucket.try_acquire(at(1s), 1'000'000'000'000'000).admitted);
    EXPECT_EQ(bucket.try_acquire(at(1s + gap), 0).remaining, 1'000'000'000'000'000U) << gap.count();
  }
}

TEST(TokenBucket, ReservationsQueueUpBehindOneAnother) {
  OwnedLimit<TokenBucket> bucket{TokenBucket(10, 1s, 1)};
  for (int i = 0; i < 5; ++i) {
    const Reservation reservation = bucket.reserve(at(1s), 1);
    EXPECT_TRUE(reservation.claimed);
    EXPECT_EQ(reservation.wait, 100ms * i);
  }
  EXPECT_FALSE(bucket.try_acquire(at(1s + 400ms), 1).admitted);
  EXPECT_TRUE(bucket.try_acquire(at(1s + 500ms), 1).admitted);
  EXPECT_EQ(bucket.reserve(at(2s), 2).wait, forever);
  EXPECT_FALSE(bucket.reserve(at(2s), 2).claimed);
}

TEST(TokenBucket, ACostChargedAfterwardsIsADebt) {
  OwnedLimit<TokenBucket> bucket{TokenBucket(10, 1s, 10)};
  EXPECT_TRUE(bucket.try_acquire(at(1s), 1).admitted);
  bucket.correct(at(1s), 29);
  EXPECT_EQ(bucket.try_acquire(at(1s), 0).remaining, 0U);
  EXPECT_EQ(bucket.try_acquire(at(1s), 1).retry_after, 2100ms);
  bucket.give_back(at(1s), 25);
  EXPECT_EQ(bucket.try_acquire(at(1s), 0).remaining, 5U);
  bucket.give_back(at(1s), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(bucket.try_acquire(at(1s), 0).remaining, 10U);
}

TEST(TokenBucket, OneADayComesAfterExactlyADay) {
  OwnedLimit<TokenBucket> bucket{TokenBucket(1, 24h, 1)};
  EXPECT_TRUE(bucket.try_acquire(at(1ns), 1).admitted);
  EXPECT_FALSE(bucket.try_acquire(at(24h), 1).admitted);
  EXPECT_TRUE(bucket.try_acquire(at(24h + 1ns), 1).admitted);
  OwnedLimit<TokenBucket> yearly{TokenBucket(1, 24h * 366, 1)};
  EXPECT_TRUE(yearly.try_acquire(at(0s), 1).admitted);
  EXPECT_EQ(yearly.try_acquire(at(0s), 1).retry_after, 24h * 366);
  // Longer than 18 years does not fit exactly.
  OwnedLimit<TokenBucket> once{TokenBucket(1, 24h * 365 * 200, 1)};
  EXPECT_TRUE(once.try_acquire(at(0s), 1).admitted);
  EXPECT_GE(once.try_acquire(at(0s), 1).retry_after, 24h * 365 * 200);
  EXPECT_LE(once.try_acquire(at(0s), 1).retry_after, 24h * 365 * 200 + 100ns);
}

// Terms that no whole number of units fits: over any time, never more than the exact bucket, and hardly less.
TEST(TokenBucket, CoarseTermsStayWithinTheRate) {
  struct Terms {
    std::uint64_t limit;
    Duration interval;
    std::uint64_t burst;
  };
  for (const Terms& terms :
       std::vector<Terms>{{999'999'937, 1s, 999'999'937},
                          {std::numeric_limits<std::int64_t>::max(), 1s, 1'000'000},
                          {std::numeric_limits<std::int64_t>::max(), 1ns, std::uint64_t{1} << 59},
                          {std::numeric_limits<std::int64_t>::max(), 24h * 365 * 200, 1'000'000'007},
                          {1'000'000'007, 366 * 24h, std::uint64_t{1} << 59}}) {
    SCOPED_TRACE(std::to_string(terms.limit) + " per " + std::to_string(terms.interval.count()) +
                 " ns, burst " + std::to_string(terms.burst));
    OwnedLimit<TokenBucket> bucket{TokenBucket(terms.limit, terms.interval, terms.burst)};
    unsigned __int128 admitted = 0;
    std::int64_t now = 1;
    ASSERT_TRUE(bucket.try_acquire(at(now), terms.burst).admitted);
    for (int i = 0; i < 1000; ++i) {
      // As long as a quarter of the burst takes, give or take what does not divide.
      const unsigned __int128 step = static_cast<unsigned __int128>(terms.burst) *
                                     static_cast<std::uint64_t>(terms.interval.count()) / terms.limit / 4;
      now += static_cast<std::int64_t>(std::min<unsigned __int128>(step, std::uint64_t{1} << 52)) + i % 3;
      const std::uint64_t there = bucket.try_acquire(at(now), 0).remaining;
      if (there > 0) {
        EXPECT_TRUE(bucket.try_acquire(at(now), there).admitted);
        admitted += there;
      }
    }
    const unsigned __int128 most = static_cast<unsigned __int128>(now - 1) * terms.limit /
                                   static_cast<std::uint64_t>(terms.interval.count());
    EXPECT_LE(admitted, most + 1);
    if (static_cast<unsigned __int128>(terms.interval.count()) * terms.burst / terms.limit > 4) {
      EXPECT_GE(static_cast<double>(admitted) + 1, static_cast<double>(most) * (1 - 1e-9));
    }
  }
}

TEST(LeakyBucket, ShowsItsWater) {
  const LeakyBucket terms(10, 1s, 5);
  LeakyBucket::State state;
  EXPECT_TRUE(terms.try_acquire(state, at(1s), 4).admitted);
  EXPECT_EQ(terms.water(state, at(1s)), 4U);
  EXPECT_FALSE(terms.try_acquire(state, at(1s), 2).admitted);
  EXPECT_EQ(terms.water(state, at(1s + 1ns)), 4U);
  EXPECT_EQ(terms.water(state, at(1s + 100ms)), 3U);
  EXPECT_EQ(terms.water(state, at(10s)), 0U);
}

}  // namespace
}  // namespace weir::testing
