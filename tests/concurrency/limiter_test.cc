// SPDX-License-Identifier: BSD-3-Clause
// Several threads share one limiter: together they get what one thread would get, and never more.
#include "weir/limiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "limit/shared_state.h"
#include "limit/sliding_log.h"
#include "limit/sliding_window.h"
#include "limit/strict_pool.h"
#include "run_threads.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

Instant at(Duration since_epoch) { return {WallTime(since_epoch), MonotonicTime(since_epoch)}; }

constexpr Algorithm counting[] = {Algorithm::cooldown,     Algorithm::fixed_window, Algorithm::sliding_window,
                                  Algorithm::token_bucket, Algorithm::leaky_bucket, Algorithm::sliding_log};

TEST(SharedLimiter, AtOneMomentAllThreadsTogetherGetExactlyTheLimit) {
  for (const Algorithm algorithm : counting)
    for (const std::uint64_t limit : {1U, 3U, 1000U}) {
      SCOPED_TRACE(std::string(to_string(algorithm)) + ", limit " + std::to_string(limit));
      const LimiterResult made = Limiter::create({.algorithm = algorithm, .limit = limit, .interval = 1s});
      ASSERT_TRUE(made) << made.error;
      std::atomic<std::uint64_t> admitted{0};
      run_threads([&](unsigned, std::mt19937_64&) {
        for (int i = 0; i < 2000; ++i) admitted += made.limiter->try_acquire(at(10s), 1).admitted;
      });
      EXPECT_EQ(admitted, limit);
      EXPECT_EQ(made.limiter->peek(at(10s)).remaining, 0U);
    }
}

// Rounds: within one, all threads see the same moment; so one thread that asks until it is refused gets the
// same.
TEST(SharedLimiter, RoundByRoundThreadsGetWhatOneThreadGets) {
  constexpr int rounds = 300;
  // More than the limit: whoever comes last alone can take what a thread held up in mid-step kept from the
  // others.
  constexpr int asked = 60;
  for (const Algorithm algorithm : counting) {
    SCOPED_TRACE(to_string(algorithm));
    const LimiterTerms terms{.algorithm = algorithm, .limit = 40, .interval = 1s};
    const LimiterResult shared = Limiter::create(terms);
    const LimiterResult alone = Limiter::create(terms);
    std::mt19937_64 random(seed());
    std::vector<Duration> moments;
    Duration now = 5s;
    for (int round = 0; round < rounds; ++round) {
      now += Duration(std::uniform_int_distribution<std::int64_t>(0, 400'000'000)(random));
      // Now and then a clock that went back.
      moments.push_back(random() % 10 == 0 ? now - 300ms : now);
    }
    std::vector<std::atomic<int>> admitted(rounds);
    std::barrier next(threads);
    run_threads([&](unsigned, std::mt19937_64&) {
      for (int round = 0; round < rounds; ++round) {
        next.arrive_and_wait();
        for (int i = 0; i < asked; ++i)
          admitted[static_cast<std::size_t>(round)] +=
              shared.limiter->try_acquire(at(moments[static_cast<std::size_t>(round)]), 1).admitted;
      }
    });
    for (int round = 0; round < rounds; ++round) {
      int expected = 0;
      for (unsigned i = 0; i < asked * threads; ++i)
        expected += alone.limiter->try_acquire(at(moments[static_cast<std::size_t>(round)]), 1).admitted;
      ASSERT_EQ(admitted[static_cast<std::size_t>(round)], expected)
          << "WEIR_TEST_SEED=" << seed() << ", round " << round;
    }
  }
}

TEST(SharedLimiter, WarmingUpTogetherGrantsWhatOneThreadWouldGet) {
  const LimiterTerms terms{.limit = 1000, .interval = 1s, .burst = 20, .warmup = 2s};
  const LimiterResult shared = Limiter::create(terms);
  const LimiterResult alone = Limiter::create(terms);
  std::atomic<int> admitted{0};
  std::barrier next(threads);
  run_threads([&](unsigned, std::mt19937_64&) {
    for (Duration now{}; now < 4s; now += 5ms) {
      next.arrive_and_wait();
      for (int i = 0; i < 10; ++i) admitted += shared.limiter->try_acquire(at(now), 1).admitted;
    }
  });
  int expected = 0;
  for (Duration now{}; now < 4s; now += 5ms)
    for (unsigned i = 0; i < 10 * threads; ++i) expected += alone.limiter->try_acquire(at(now), 1).admitted;
  EXPECT_EQ(admitted, expected);
}

// Weights and corrections from all sides: what is charged and handed back adds up.
TEST(SharedLimiter, WhatIsTakenAndHandedBackAddsUp) {
  for (const Algorithm algorithm : counting) {
    if (algorithm == Algorithm::cooldown) continue;  // its blocks depend on who asks first
    SCOPED_TRACE(to_string(algorithm));
    const LimiterResult made = Limiter::create({.algorithm = algorithm, .limit = 1000, .interval = 1s});
    std::atomic<std::int64_t> held{0};
    run_threads([&](unsigned, std::mt19937_64& random) {
      for (int i = 0; i < 3000; ++i) {
        const std::uint64_t weight = random() % 50 + 1;
        if (made.limiter->try_acquire(at(10s), weight).admitted) {
          held += static_cast<std::int64_t>(weight);
          if (random() % 8 != 0) {
            made.limiter->correct(at(10s), -static_cast<std::int64_t>(weight));
            held -= static_cast<std::int64_t>(weight);
          }
        }
        EXPECT_LE(made.limiter->peek(at(10s)).remaining, 1000U);
      }
    });
    const std::uint64_t free = 1000U - static_cast<std::uint64_t>(held.load());
    // The log passes over what others are writing at that moment, and then takes less back.
    if (algorithm == Algorithm::sliding_log) {
      EXPECT_LE(made.limiter->peek(at(10s)).remaining, free);
    } else {
      EXPECT_EQ(made.limiter->peek(at(10s)).remaining, free);
    }
  }
}

TEST(SharedLimiter, NoTwoReservationsClaimTheSameMoment) {
  constexpr std::size_t each = 500;
  for (const Algorithm algorithm :
       {Algorithm::fixed_window, Algorithm::token_bucket, Algorithm::leaky_bucket, Algorithm::sliding_log}) {
    SCOPED_TRACE(to_string(algorithm));
    // One per 100 ms, by whichever algorithm.
    const LimiterResult made = Limiter::create({.algorithm = algorithm, .limit = 1, .interval = 100ms});
    std::vector<std::vector<Duration>> waits(threads);
    run_threads([&](unsigned index, std::mt19937_64&) {
      while (waits[index].size() < each) {
        const Reservation reservation = made.limiter->reserve(at(10s), 1);
        // The log cannot tell what another thread is just about to write.
        if (reservation.claimed) waits[index].push_back(reservation.wait);
      }
    });
    std::vector<Duration> all;
    for (const std::vector<Duration>& of_thread : waits)
      all.insert(all.end(), of_thread.begin(), of_thread.end());
    std::sort(all.begin(), all.end());
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], 100ms * static_cast<std::int64_t>(i));
  }
}

/// A clock that all threads push on, each reading it before its request: so requests arrive with times that
/// are out of order by as much as a thread is held up.
class RacingClock {
 public:
  Duration next(std::mt19937_64& random, std::int64_t most) {
    return Duration(now_.fetch_add(std::uniform_int_distribution<std::int64_t>(0, most)(random)));
  }

 private:
  std::atomic<std::int64_t> now_{1'000'000};
};

// The sliding log's promise, with threads that are late by a random while: no window of length T holds more
// than the limit, by the times the requests came with.
TEST(SharedSlidingLog, NoWindowEverHoldsMoreThanTheLimit) {
  struct Terms {
    std::uint64_t limit;
    std::int64_t late;  // how far back a thread's clock may be
    bool hands_back;
  };
  constexpr std::int64_t interval = 10'000;
  for (const Terms& terms :
       {Terms{1, 0, false}, Terms{2, 500, false}, Terms{5, 20'000, false}, Terms{64, 3000, false},
        Terms{200, 0, false}, Terms{3, 0, true}, Terms{5, 3000, true}, Terms{64, 500, true}}) {
    SCOPED_TRACE("limit " + std::to_string(terms.limit) + ", late by " + std::to_string(terms.late));
    const SlidingLog log(terms.limit, Duration(interval));
    SlidingLogHead head;
    std::vector<SlidingLogSlot> slots(terms.limit);
    RacingClock clock;
    std::atomic<std::uint64_t> numbers{0};
    std::vector<std::vector<std::int64_t>> admitted(threads);
    run_threads([&](unsigned index, std::mt19937_64& random) {
      for (int i = 0; i < 20'000; ++i) {
        const std::int64_t late = std::uniform_int_distribution<std::int64_t>(0, terms.late)(random);
        const Duration now = clock.next(random, 200) - Duration(random() % 3 == 0 ? late : 0);
        const std::uint64_t weight = random() % std::min<std::uint64_t>(terms.limit, 3) + 1;
        if (!log.admit(head, slots, MonotonicTime(now), weight)) continue;
        numbers += weight;
        // Some turn out not to be needed: they do not count, and others may come in their place.
        if (terms.hands_back && random() % 4 == 0)
          log.correct(head, slots, at(now), -static_cast<std::int64_t>(weight));
        else
          admitted[index].insert(admitted[index].end(), weight, now.count());
      }
    });
    std::vector<std::int64_t> all;
    for (const std::vector<std::int64_t>& of_thread : admitted)
      all.insert(all.end(), of_thread.begin(), of_thread.end());
    std::sort(all.begin(), all.end());
    for (std::size_t i = terms.limit; i < all.size(); ++i)
      ASSERT_GE(all[i] - all[i - terms.limit], interval) << "WEIR_TEST_SEED=" << seed();
    EXPECT_GT(all.size(), 10 * terms.limit);
    EXPECT_EQ(head.read().count, numbers);
  }
}

// The sliding window counts a late request in the latest span, so each admission is counted in a span no
// earlier than its own time's and no later than the latest time begun. Over the whole run: a limit for each N
// spans that went by.
TEST(SharedSlidingWindow, AdmitsNoMoreThanALimitPerWindow) {
  constexpr std::uint64_t limit = 30;
  constexpr std::int64_t interval = 10'000;
  for (const std::size_t spans : {1U, 2U, 10U, 100U}) {
    SCOPED_TRACE(std::to_string(spans) + " spans");
    std::vector<SlidingWindowCell> cells(spans);
    SlidingWindow window(limit, Duration(interval), cells);
    RacingClock clock;
    std::atomic<std::uint64_t> admitted{0};
    std::atomic<std::int64_t> last{0};
    run_threads([&](unsigned, std::mt19937_64& random) {
      for (int i = 0; i < 20'000; ++i) {
        const Duration now = clock.next(random, 60);
        const std::uint64_t weight = random() % 3 + 1;
        if (window.try_acquire(at(now), weight).admitted) admitted += weight;
        if (random() % 16 == 0) window.peek(at(now));
        std::int64_t seen = last.load();
        while (seen < now.count() && !last.compare_exchange_weak(seen, now.count())) {
        }
      }
    });
    const auto windows = static_cast<std::uint64_t>((last.load() - 1'000'000) / interval + 2);
    EXPECT_LE(admitted, windows * limit);
    EXPECT_GT(admitted, windows * limit / 4);
    // Nothing has leaked into the head: when all spans have left, all is free again.
    window.try_acquire(at(Duration(last.load() + interval)), limit + 1);
    EXPECT_EQ(window.peek(at(Duration(last.load() + 3 * interval))).remaining, limit);
  }
}

TEST(SharedBucket, AdmitsNoMoreThanItsRateWhateverTheThreadsClocks) {
  constexpr std::uint64_t burst = 20;
  const LimiterResult made = Limiter::create({.limit = 1000, .interval = 10ms, .burst = burst});
  RacingClock clock;
  std::atomic<std::uint64_t> admitted{0};
  std::atomic<std::int64_t> last{0};
  run_threads([&](unsigned, std::mt19937_64& random) {
    for (int i = 0; i < 20'000; ++i) {
      const Duration now = clock.next(random, 3000) - Duration(random() % 5 == 0 ? random() % 100'000 : 0);
      if (made.limiter->try_acquire(at(now), 1).admitted) ++admitted;
      std::int64_t seen = last.load();
      while (seen < now.count() && !last.compare_exchange_weak(seen, now.count())) {
      }
    }
  });
  // From the earliest time any thread can have asked with.
  const auto elapsed = static_cast<std::uint64_t>(last.load() - (1'000'000 - 100'000));
  EXPECT_LE(admitted, burst + elapsed / 10'000 + 1);
  EXPECT_GT(admitted, elapsed / 10'000 / 4);
}

TEST(SharedShed, ThreadsTogetherGetTheLimit) {
  const LimiterResult made = Limiter::create({.algorithm = Algorithm::shed, .limit = 1000, .interval = 1s});
  std::atomic<std::uint64_t> admitted{0};
  std::barrier next(threads);
  run_threads([&](unsigned, std::mt19937_64&) {
    // 8000 per second and thread for 11 s; the first second is for the estimate.
    for (Duration now{}; now < 11s; now += 1ms) {
      next.arrive_and_wait();
      for (int i = 0; i < 8; ++i) {
        const bool passes = made.limiter->try_acquire(at(now), 1).admitted;
        if (now >= 1s) admitted += passes;
      }
    }
  });
  EXPECT_NEAR(static_cast<double>(admitted.load()), 10'000, 500);
}

TEST(SharedStrictPool, WhatIsSpentNeverExceedsWhatWasLeased) {
  constexpr std::uint64_t periods = 60;
  StrictPool pool;
  std::vector<std::atomic<std::uint64_t>> spent(periods + 1);
  std::vector<std::uint64_t> leased(periods + 1);
  std::atomic<std::uint64_t> handed_back_in_all{0};
  run_threads([&](unsigned index, std::mt19937_64& random) {
    if (index == 0) {
      // The controller: several grants a period.
      std::uint64_t grant = 0;
      for (std::uint64_t period = 1; period <= periods; ++period)
        for (int i = 0; i < 5; ++i) {
          leased[period] += pool.fill({period, ++grant, random() % 100, MonotonicTime(1h)});
          if (period < periods && random() % 4 == 0) leased[period] -= pool.drain();
          std::this_thread::yield();
        }
      return;
    }
    while (pool.period() < periods || pool.quota() > 0) {
      StrictChunk chunk = pool.draw(MonotonicTime(1s), random() % 3 + 1, threads - 1);
      const std::uint64_t period = chunk.period;
      std::uint64_t used = 0;
      while (random() % 4 != 0 && chunk.try_spend(MonotonicTime(1s), 1)) ++used;
      spent[period] += used;
      handed_back_in_all += pool.put_back(chunk);
      if (chunk.period == 0 && pool.period() == periods && pool.quota() < 3) {
        // What is left is less than it asks for.
        if (pool.try_acquire(at(1s), 1).admitted) ++spent[periods];
      }
    }
  });
  for (std::uint64_t period = 1; period <= periods; ++period)
    EXPECT_LE(spent[period], leased[period]) << "period " << period << ", WEIR_TEST_SEED=" << seed();
  EXPECT_EQ(spent[0], 0U);
  EXPECT_GT(handed_back_in_all, 0U);
}

TEST(SharedState, SixteenBytesAreExchangedWhole) {
  // Both words always the same: a torn exchange would mix two threads' values.
  struct Pair {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
  };
  SharedValue<Pair> shared;
  run_threads([&](unsigned, std::mt19937_64&) {
    for (int i = 0; i < 50'000; ++i) {
      Pair seen = shared.read();
      do {
        ASSERT_EQ(seen.first, seen.second);
      } while (!shared.exchange(seen, {seen.first + 1, seen.second + 1}));
    }
  });
  EXPECT_EQ(shared.read().first, 50'000U * threads);
}

}  // namespace
}  // namespace weir
