// SPDX-License-Identifier: BSD-3-Clause
// The store's time out of its answers: how wrong it may be, and what a correction does to the time.
#include "control/store_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr MonotonicTime start{100s};
constexpr WallTime epoch{5000s};  // what the store's clock reads at `start`

/// This node's own clocks: the wall clock is an hour off.
Instant own(Duration since_start) { return {epoch + 1h + since_start, start + since_start}; }

/// An answer whose way took `there` and `back`, read by the store at `at`.
StoreTime answer(std::uint64_t number, Duration at, Duration there = 1ms, Duration back = 1ms,
                 Duration set = 0ns) {
  return {
      .asked = start + at - there, .answered = start + at + back, .wall = epoch + at + set, .number = number};
}

StoreClock clock_that_heard(const StoreTime& sample) {
  StoreClock clock;
  clock.learn(sample, sample.answered);
  return clock;
}

TEST(StoreClock, FollowsTheNodesOwnClockUntilTheStoreHasTold) {
  const StoreClock clock;
  EXPECT_FALSE(clock.known());
  EXPECT_EQ(clock.at(own(5s)).wall, own(5s).wall);
  EXPECT_EQ(clock.at(own(5s)).monotonic, own(5s).monotonic);
  EXPECT_EQ(clock.uncertainty(own(5s).monotonic), 0ns);
  EXPECT_EQ(clock.until(own(6s).wall, own(5s)), 1s);
}

TEST(StoreClock, TheFirstAnswerIsTakenAtOnceInWhicheverDirection) {
  for (const Duration set : {Duration(-2h), Duration(-100ms), Duration{}, Duration(2h)}) {
    const StoreClock clock = clock_that_heard(answer(1, 0s, 1ms, 1ms, set));
    EXPECT_EQ(clock.at(own(1s)).wall, epoch + 1s + set);
    EXPECT_EQ(clock.at(own(1s)).monotonic, own(1s).monotonic);
  }
}

TEST(StoreClock, AnAnswerIsWrongByAtMostHalfTheRoundTrip) {
  for (const Duration there : {0ms, 1ms, 5ms, 10ms}) {
    const StoreClock clock = clock_that_heard(answer(1, 0s, there, 10ms - there));
    const Duration error = clock.at(own(10ms)).wall - (epoch + 10ms);
    EXPECT_LE(std::chrono::abs(error), 5ms);
    EXPECT_LE(std::chrono::abs(error), clock.uncertainty(own(10ms).monotonic));
    EXPECT_LT(clock.uncertainty(own(10ms).monotonic), 6ms);
  }
}

TEST(StoreClock, AJumpOfTheNodesOwnClockIsNotNoticed) {
  const StoreClock clock = clock_that_heard(answer(1, 0s));
  Instant jumped = own(1s);
  jumped.wall -= 24h;
  EXPECT_EQ(clock.at(jumped).wall, epoch + 1s);
}

TEST(StoreClock, TheMostCertainOfTheLastAnswersCounts) {
  StoreClock clock = clock_that_heard(answer(1, 0s, 1ms, 1ms));
  clock.learn(answer(2, 1s, 30ms, 2ms), start + 1002ms);
  EXPECT_EQ(clock.at(own(2s)).wall, epoch + 2s);
  EXPECT_LT(clock.uncertainty(start + 2s), 2ms);
}

TEST(StoreClock, ACorrectionWithinTheUncertaintyChangesNothing) {
  StoreClock clock = clock_that_heard(answer(1, 0s, 8ms, 2ms));  // 3 ms slow
  const WallTime before = clock.at(own(2s)).wall;
  clock.learn(answer(2, 1s, 2ms, 7ms),
              start + 1007ms);  // says 5.5 ms less, and may be wrong by 4.5 ms itself
  EXPECT_LE(std::chrono::abs(clock.at(own(2s)).wall - before), 6ms);
  StoreClock sure = clock_that_heard(answer(1, 0s, 1ms, 1ms));
  sure.learn(answer(2, 1s, 1100us, 900us), start + 1s + 900us);
  EXPECT_EQ(sure.at(own(2s)).wall, epoch + 2s);
}

TEST(StoreClock, AForwardCorrectionAppliesAtOnce) {
  StoreClock clock = clock_that_heard(answer(1, 0s));
  clock.learn(answer(2, 1s, 1ms, 1ms, 300ms), start + 1001ms);
  EXPECT_EQ(clock.at(own(1001ms)).wall, epoch + 1301ms);
}

TEST(StoreClock, ASmallBackwardCorrectionIsMadeGoodAtHalfSpeed) {
  StoreClock clock = clock_that_heard(answer(1, 0s));
  const MonotonicTime heard = start + 1001ms;
  clock.learn(answer(2, 1s, 1ms, 1ms, -300ms), heard);
  EXPECT_EQ(clock.at(own(1001ms)).wall, epoch + 1001ms) << "it does not go back";
  EXPECT_EQ(clock.at(own(1201ms)).wall, epoch + 1101ms) << "half speed";
  EXPECT_GE(clock.uncertainty(heard), 300ms);
  EXPECT_EQ(clock.at(own(1601ms)).wall, epoch + 1301ms) << "caught up";
  EXPECT_EQ(clock.at(own(2s)).wall, epoch + 1700ms);
  WallTime last = clock.at(own(1001ms)).wall;
  for (Duration at = 1002ms; at < 2s; at += 1ms) {
    EXPECT_GT(clock.at(own(at)).wall, last);
    last = clock.at(own(at)).wall;
  }
}

TEST(StoreClock, WhatIsBeingMadeGoodIsNotCorrectedAgain) {
  StoreClock clock = clock_that_heard(answer(1, 0s));
  clock.learn(answer(2, 1s, 1ms, 1ms, -300ms), start + 1001ms);
  for (std::uint64_t number = 3; number < 9; ++number)
    clock.learn(answer(number, 1s + Duration(100ms) * (number - 2), 1ms, 1ms, -300ms),
                start + 1001ms + Duration(100ms) * (number - 2));
  EXPECT_EQ(clock.at(own(1601ms)).wall, epoch + 1301ms);
}

TEST(StoreClock, ALargeBackwardCorrectionIsAStep) {
  StoreClock clock = clock_that_heard(answer(1, 0s));
  clock.learn(answer(2, 1s, 1ms, 1ms, -90s), start + 1001ms);
  EXPECT_EQ(clock.at(own(1001ms)).wall, epoch + 1001ms - 90s);
}

TEST(StoreClock, UntilCountsThatTheTimePassesSlowly) {
  StoreClock clock = clock_that_heard(answer(1, 0s));
  EXPECT_EQ(clock.until(epoch + 1500ms, own(1s)), 500ms);
  EXPECT_EQ(clock.until(epoch, own(1s)), 0ns);
  clock.learn(answer(2, 1s, 1ms, 1ms, -300ms), start + 1001ms);
  for (const Duration target : {1ms, 200ms, 300ms, 301ms, 900ms}) {
    const Duration wait = clock.until(epoch + 1001ms + target, own(1001ms));
    EXPECT_EQ(clock.at(own(1001ms + wait)).wall, epoch + 1001ms + target) << target.count();
  }
}

TEST(StoreClock, AnAnswerCountsOnce) {
  StoreClock clock = clock_that_heard(answer(1, 0s));
  clock.learn(answer(1, 50s, 1ms, 1ms, 10s), start + 50s);
  EXPECT_EQ(clock.at(own(60s)).wall, epoch + 60s);
}

TEST(StoreClock, AnAnswerGetsLessCertainAsItAges) {
  const StoreClock clock = clock_that_heard(answer(1, 0s));
  EXPECT_LT(clock.uncertainty(start + 1s), 2ms);
  EXPECT_GE(clock.uncertainty(start + 1000s), 200ms);  // 200 parts of a million
}

// Two nodes with clocks of their own pace, answers that take random times either way, now and then none.
TEST(StoreClock, NodesAgreeWithinTheirUncertainties) {
  const char* given = std::getenv("WEIR_TEST_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
  for (std::uint64_t seed = first; seed < first + 50; ++seed) {
    SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto up_to = [&](Duration most) {
      return Duration(static_cast<std::int64_t>(random() % most.count()));
    };
    struct Node {
      StoreClock clock;
      std::int64_t ppm = 0;
      std::uint64_t number = 0;
      MonotonicTime at(Duration true_time) const { return start + true_time + true_time / 1'000'000 * ppm; }
    };
    Node nodes[2];
    for (Node& node : nodes) node.ppm = static_cast<std::int64_t>(random() % 301) - 150;
    WallTime last[2] = {WallTime::min(), WallTime::min()};
    for (Duration now = 0s; now < 20s; now += 20ms) {
      for (Node& node : nodes) {
        if (node.number > 0 && random() % 5 == 0) continue;
        const Duration there = up_to(20ms);
        const Duration back = up_to(20ms);
        node.clock.learn({.asked = node.at(now),
                          .answered = node.at(now + there + back),
                          .wall = epoch + now + there,
                          .number = ++node.number},
                         node.at(now + there + back));
      }
      const Duration then = now + 41ms;
      WallTime walls[2];
      Duration doubt{};
      for (int i = 0; i < 2; ++i) {
        const MonotonicTime here = nodes[i].at(then);
        walls[i] = nodes[i].clock.at({WallTime(), here}).wall;
        EXPECT_LE(std::chrono::abs(walls[i] - (epoch + then)), nodes[i].clock.uncertainty(here));
        EXPECT_GE(walls[i], last[i]) << "a clock that is never set does not go back";
        last[i] = walls[i];
        doubt += nodes[i].clock.uncertainty(here);
      }
      EXPECT_LE(std::chrono::abs(walls[0] - walls[1]), doubt);
      EXPECT_LE(std::chrono::abs(walls[0] - walls[1]), 45ms) << "about a round trip";
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace weir
