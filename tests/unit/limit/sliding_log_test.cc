// SPDX-License-Identifier: BSD-3-Clause
// The sliding log against a list of all times, and its promise checked on every window.
#include <gtest/gtest.h>

#include <vector>

#include "limit/sliding_log.h"
#include "steps.h"

namespace weir::testing {
namespace {

using namespace std::chrono_literals;

/// A log with its memory.
class Log {
 public:
  Log(std::uint64_t limit, Duration interval) : log_(limit, interval), slots_(limit) {}
  Acquisition try_acquire(Instant now, std::uint64_t weight) {
    return log_.try_acquire(head_, slots_, now, weight);
  }
  Acquisition peek(Instant now) { return log_.peek(head_, slots_, now); }
  Reservation reserve(Instant now, std::uint64_t weight) { return log_.reserve(head_, slots_, now, weight); }
  void correct(Instant now, std::int64_t by) { log_.correct(head_, slots_, now, by); }
  void give_back(Instant now, std::uint64_t weight) { correct(now, handed_back(weight)); }
  void reset() { log_.reset(head_, slots_); }

 private:
  SlidingLog log_;
  SlidingLogHead head_;
  std::vector<SlidingLogSlot> slots_;
};

/// All times there have been, in order.
class LogModel {
 public:
  LogModel(std::uint64_t limit, std::int64_t interval) : limit_(limit), interval_(interval) {}

  Acquisition try_acquire(Instant now, std::uint64_t weight) {
    const std::uint64_t asked = std::max<std::uint64_t>(weight, 1);
    Acquisition answer;
    answer.admitted =
        asked <= limit_ && in_window(count(now)) <= limit_ && in_window(count(now)) + asked <= limit_;
    if (!answer.admitted) answer.retry_after = wait(count(now), asked);
    if (answer.admitted && weight > 0) add(count(now), weight);
    const std::uint64_t held = in_window(count(now));
    answer.remaining = limit_ - std::min(limit_, held);
    if (held > 0) answer.reset_after = Duration(latest_ + interval_ - count(now));
    return answer;
  }
  Reservation reserve(Instant now, std::uint64_t weight) {
    const Duration until = wait(count(now), std::max<std::uint64_t>(weight, 1));
    if (weight == 0 || until == forever) return {until, false};
    add(count(now) + until.count(), weight);
    return {until, true};
  }
  void correct(Instant now, std::int64_t by) {
    if (by > 0) add(count(now), static_cast<std::uint64_t>(by));
    if (by < 0 && (times_.empty() || latest_ - interval_ >= count(now))) return;
    for (std::size_t i = times_.size() - std::min(times_.size(), limit_); i < times_.size() && by < 0; ++i) {
      if (times_[i] + interval_ <= count(now)) continue;
      times_[i] = count(now) - interval_;
      ++by;
    }
  }

 private:
  std::uint64_t in_window(std::int64_t now) const {
    std::uint64_t held = 0;
    for (std::size_t i = times_.size(); i-- > 0 && times_[i] + interval_ > now;) ++held;
    return held;
  }
  Duration wait(std::int64_t now, std::uint64_t weight) const {
    if (weight > limit_) return forever;
    if (times_.size() + weight <= limit_) return Duration{};
    // The last of those that must have left.
    return Duration(std::max<std::int64_t>(times_[times_.size() + weight - limit_ - 1] + interval_ - now, 0));
  }
  void add(std::int64_t time, std::uint64_t weight) {
    latest_ = std::max(latest_, time);
    times_.insert(times_.end(), weight, latest_);
  }

  std::uint64_t limit_;
  std::int64_t interval_;
  std::int64_t latest_ = std::numeric_limits<std::int64_t>::min();
  std::vector<std::int64_t> times_;
};

TEST(SlidingLog, AnswersAsAListOfAllTimesDoes) {
  for (std::uint64_t number = 0; number < 60 && !HasFailure(); ++number) {
    Steps steps(5000 + number);
    const std::uint64_t limit = steps.magnitude(1, 100);
    const auto interval = static_cast<std::int64_t>(steps.magnitude(1, 366ULL * 86400 * 1'000'000'000));
    SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()) + ", walk " + std::to_string(number) +
                 ": limit " + std::to_string(limit) + " per " + std::to_string(interval) + " ns");
    Log log(limit, Duration(interval));
    LogModel model(limit, interval);
    std::int64_t now =
        static_cast<std::int64_t>(steps.magnitude(1, std::uint64_t{1} << 59)) - (std::int64_t{1} << 58);
    for (int step = 0; step < 1500 && !HasFailure(); ++step) {
      now = steps.next_time(now, std::max<std::int64_t>(interval / 5, 1));
      const std::uint64_t operation = steps.between(0, 99);
      const std::uint64_t weight = steps.weight(limit);
      const std::int64_t by =
          static_cast<std::int64_t>(steps.between(0, 2 * limit)) - static_cast<std::int64_t>(limit);
      SCOPED_TRACE("step " + std::to_string(step) + " at " + std::to_string(now) + ", weight " +
                   std::to_string(weight) + ", by " + std::to_string(by));
      expect_same_step(log, model, at(now), weight, operation, by);
    }
  }
}

TEST(SlidingLog, NoWindowHoldsMoreThanTheLimitByAnyClock) {
  for (std::uint64_t number = 0; number < 40; ++number) {
    Steps steps(6000 + number);
    const std::uint64_t limit = steps.between(1, 12);
    constexpr std::int64_t interval = 1000;
    Log log(limit, Duration(interval));
    std::vector<std::int64_t> admitted;
    std::int64_t now = 0;
    for (int step = 0; step < 3000; ++step) {
      now = std::max<std::int64_t>(now + static_cast<std::int64_t>(steps.between(0, 300)) - 120, 0);
      const std::uint64_t weight = steps.between(1, std::min<std::uint64_t>(limit, 3));
      if (log.try_acquire(at(now), weight).admitted) admitted.insert(admitted.end(), weight, now);
    }
    std::sort(admitted.begin(), admitted.end());
    for (std::size_t i = limit; i < admitted.size(); ++i)
      ASSERT_GE(admitted[i] - admitted[i - limit], interval)
          << "WEIR_TEST_SEED=" << seed() << ", walk " << number << ", limit " << limit;
    EXPECT_GT(admitted.size(), limit);
  }
}

TEST(SlidingLog, ARequestExactlyOneIntervalAfterTheOldestIsAdmitted) {
  Log log(2, 10s);
  EXPECT_TRUE(log.try_acquire(at(0s), 1).admitted);
  EXPECT_TRUE(log.try_acquire(at(3s), 1).admitted);
  const Acquisition refused = log.try_acquire(at(4s), 1);
  EXPECT_FALSE(refused.admitted);
  EXPECT_EQ(refused.retry_after, 6s);
  EXPECT_EQ(refused.reset_after, 9s);
  EXPECT_FALSE(log.try_acquire(at(10s - 1ns), 1).admitted);
  EXPECT_TRUE(log.try_acquire(at(10s), 1).admitted);
  EXPECT_EQ(log.try_acquire(at(10s), 1).retry_after, 3s);
  EXPECT_FALSE(log.try_acquire(at(10s), 3).admitted);
  EXPECT_EQ(log.try_acquire(at(10s), 3).retry_after, forever);
}

TEST(SlidingLog, TheBorderBurstPassesOnce) {
  Log log(100, 1min);
  int admitted = 0;
  for (Duration now = 50s; now < 70s; now += 100ms) admitted += log.try_acquire(at(now), 1).admitted;
  EXPECT_EQ(admitted, 100);
  EXPECT_FALSE(log.try_acquire(at(110s - 1ns), 1).admitted);
  EXPECT_TRUE(log.try_acquire(at(110s), 1).admitted);
}

TEST(SlidingLog, AReservationIsNotOvertaken) {
  Log log(2, 10s);
  EXPECT_TRUE(log.try_acquire(at(0s), 2).admitted);
  const Reservation reservation = log.reserve(at(4s), 1);
  EXPECT_TRUE(reservation.claimed);
  EXPECT_EQ(reservation.wait, 6s);
  EXPECT_EQ(log.reserve(at(4s), 2).wait, 16s);
  EXPECT_FALSE(log.try_acquire(at(10s), 1).admitted);
  EXPECT_EQ(log.reserve(at(10s), 3).wait, forever);
}

TEST(SlidingLog, AChargeOverTheLimitClosesOneInterval) {
  Log log(3, 10s);
  log.correct(at(1s), 100);
  EXPECT_EQ(log.peek(at(1s)).retry_after, 10s);
  EXPECT_EQ(log.peek(at(11s)).remaining, 3U);
}

TEST(SlidingLog, WhatIsHandedBackMayBeUsedAtOnce) {
  Log log(3, 10s);
  EXPECT_TRUE(log.try_acquire(at(0s), 3).admitted);
  log.give_back(at(1s), 1);
  EXPECT_EQ(log.peek(at(1s)).remaining, 1U);
  EXPECT_TRUE(log.try_acquire(at(1s), 1).admitted);
  EXPECT_FALSE(log.try_acquire(at(1s), 1).admitted);
  log.give_back(at(1s), 1000);
  EXPECT_EQ(log.peek(at(1s)).remaining, 3U);
}

TEST(SlidingLog, WhatHasLeftTheWindowFreesNothingWhenItIsHandedBack) {
  Log log(1, 10s);
  EXPECT_TRUE(log.try_acquire(at(0s), 1).admitted);
  EXPECT_TRUE(log.try_acquire(at(10s), 1).admitted);
  log.give_back(at(0s), 1);
  EXPECT_FALSE(log.try_acquire(at(10s), 1).admitted);
}

TEST(SlidingLog, AResetForgetsEverything) {
  Log log(3, 10s);
  EXPECT_TRUE(log.try_acquire(at(100s), 3).admitted);
  log.reset();
  EXPECT_TRUE(log.try_acquire(at(5s), 3).admitted);
  EXPECT_FALSE(log.try_acquire(at(5s), 1).admitted);
}

TEST(SlidingLog, ZeroedMemoryIsAnUnusedLog) {
  alignas(64) std::byte memory[5 * sizeof(SlidingLogSlot)] = {};
  static_assert(sizeof(SlidingLogSlot) == 16 && sizeof(SlidingLogHead) == 16);
  auto* head = reinterpret_cast<SlidingLogHead*>(memory);
  const std::span<SlidingLogSlot> slots(reinterpret_cast<SlidingLogSlot*>(memory) + 1, 4);
  const SlidingLog log(4, 1s);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(log.admit(*head, slots, MonotonicTime(5ns), 1));
  EXPECT_FALSE(log.admit(*head, slots, MonotonicTime(5ns), 1));
}

TEST(SlidingLog, AClaimedSlotNotYetWrittenIsNotTakenForAnOldOne) {
  // As after a thread has claimed the numbers 2 and 3 and stalled before it wrote them: both slots still show
  // the admissions of long ago.
  std::vector<SlidingLogSlot> slots(2);
  SlidingLogHead head;
  const SlidingLog log(2, 10s);
  EXPECT_TRUE(log.admit(head, slots, MonotonicTime(0s), 2));
  SlidingLogMark mark = head.read();
  ASSERT_TRUE(head.exchange(mark, {biased(std::int64_t{100'000'000'000}), 4}));
  EXPECT_FALSE(log.admit(head, slots, MonotonicTime(100s), 1));
  EXPECT_FALSE(log.admit(head, slots, MonotonicTime(1000s), 1));
  const Acquisition refused = log.try_acquire(head, slots, at(1000s), 1);
  EXPECT_FALSE(refused.admitted);
  EXPECT_EQ(refused.retry_after, 1ns);
  EXPECT_FALSE(log.reserve(head, slots, at(1000s), 1).claimed);
}

}  // namespace
}  // namespace weir::testing
