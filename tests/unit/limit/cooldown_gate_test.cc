// SPDX-License-Identifier: BSD-3-Clause
#include "limit/cooldown_gate.h"

#include <gtest/gtest.h>

#include <map>

#include "steps.h"

namespace weir::testing {
namespace {

using namespace std::chrono_literals;

TEST(CooldownGate, ReachingTheLimitIsNotExceedingIt) {
  CooldownGate gate(3, 1s, 10s);
  EXPECT_TRUE(gate.try_acquire(at(0s), 3).admitted);
  EXPECT_FALSE(gate.blocked(at(0s)));
  EXPECT_TRUE(gate.try_acquire(at(1s), 1).admitted);
}

TEST(CooldownGate, TheFirstRefusalBeginsTheCooldownAndTrafficDoesNotMoveItsEnd) {
  CooldownGate gate(3, 1s, 10s);
  EXPECT_TRUE(gate.try_acquire(at(500ms), 3).admitted);
  const Acquisition refused = gate.try_acquire(at(600ms), 1);
  EXPECT_FALSE(refused.admitted);
  EXPECT_EQ(refused.retry_after, 10s);
  for (Duration now = 700ms; now < 10600ms; now += 100ms) {
    EXPECT_FALSE(gate.try_acquire(at(now), 1).admitted);
    EXPECT_EQ(gate.peek(at(now)).retry_after, 10600ms - now);
  }
  EXPECT_TRUE(gate.try_acquire(at(10600ms), 1).admitted);
}

TEST(CooldownGate, AShortCooldownEndsInTheSameIntervalAndTheCountGoesOn) {
  CooldownGate gate(3, 1s, 100ms);
  EXPECT_TRUE(gate.try_acquire(at(0s), 2).admitted);
  EXPECT_FALSE(gate.try_acquire(at(100ms), 2).admitted);
  EXPECT_EQ(gate.try_acquire(at(150ms), 2).retry_after, 850ms);
  EXPECT_TRUE(gate.try_acquire(at(200ms), 1).admitted);
  EXPECT_FALSE(gate.try_acquire(at(300ms), 1).admitted);
  EXPECT_EQ(gate.try_acquire(at(300ms), 1).retry_after, 700ms);
}

TEST(CooldownGate, LookingAndReservingExceedNothing) {
  CooldownGate gate(3, 1s, 10s);
  EXPECT_TRUE(gate.try_acquire(at(0s), 3).admitted);
  EXPECT_FALSE(gate.peek(at(0s)).admitted);
  EXPECT_EQ(gate.peek(at(0s)).retry_after, 1s) << "the window's end: no block has begun";
  EXPECT_FALSE(gate.try_acquire(at(0s), 0).admitted);
  const Reservation reservation = gate.reserve(at(0s), 1);
  EXPECT_TRUE(reservation.claimed);
  EXPECT_EQ(reservation.wait, 1s);
  EXPECT_FALSE(gate.blocked(at(0s)));
  EXPECT_EQ(gate.peek(at(1s)).remaining, 2U);
}

TEST(CooldownGate, ACorrectionSettlesTheCountAndLeavesTheBlock) {
  CooldownGate gate(3, 1s, 10s);
  EXPECT_TRUE(gate.try_acquire(at(0s), 3).admitted);
  gate.give_back(at(0s), 2);
  EXPECT_TRUE(gate.try_acquire(at(0s), 2).admitted);
  EXPECT_FALSE(gate.try_acquire(at(0s), 1).admitted);
  gate.give_back(at(0s), 3);
  EXPECT_TRUE(gate.blocked(at(1s)));
  EXPECT_FALSE(gate.try_acquire(at(1s), 1).admitted);
}

TEST(CooldownGate, ADecisionNeedsNoMoreThanItsCountAndItsBlock) {
  for (std::uint64_t number = 0; number < 60 && !HasFailure(); ++number) {
    Steps steps(8000 + number);
    const std::uint64_t limit = steps.magnitude(1, 1000);
    const auto interval = static_cast<std::int64_t>(steps.magnitude(1, 86400ULL * 1'000'000'000));
    const auto cooldown = static_cast<std::int64_t>(steps.magnitude(1, 86400ULL * 1'000'000'000));
    CooldownGate gate(limit, Duration(interval), Duration(cooldown));
    std::map<std::int64_t, std::uint64_t> counts;
    std::int64_t ordinal = std::numeric_limits<std::int64_t>::min();
    std::int64_t until = std::numeric_limits<std::int64_t>::min();
    std::int64_t now = 0;
    for (int step = 0; step < 2000 && !HasFailure(); ++step) {
      now = steps.next_time(now, std::max<std::int64_t>(std::min(interval, cooldown) / 5, 1));
      const std::uint64_t weight = std::max<std::uint64_t>(steps.weight(limit), 1);
      bool expected = false;
      if (now >= until) {
        const std::int64_t current = std::max(ordinal, now / interval - (now % interval < 0));
        std::uint64_t& counted = counts[current];
        expected = weight <= limit && counted + weight <= limit;
        if (expected) {
          counted += weight;
          ordinal = current;
        } else {
          until = now + cooldown;
        }
      }
      const Acquisition answer = gate.try_acquire(at(now), weight);
      EXPECT_EQ(answer.admitted, expected)
          << "WEIR_TEST_SEED=" << seed() << ", walk " << number << ", step " << step << " at " << now;
      EXPECT_EQ(gate.blocked(at(now)), now < until);
      EXPECT_EQ(answer.retry_after == 0s, expected);
    }
  }
}

}  // namespace
}  // namespace weir::testing
