// SPDX-License-Identifier: BSD-3-Clause
// Fixed and sliding window against lists of what was admitted when.
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "limit/fixed_window.h"
#include "limit/shared_state.h"
#include "limit/sliding_window.h"
#include "steps.h"

namespace weir::testing {
namespace {

using namespace std::chrono_literals;

std::int64_t floor_division(__int128 value, std::int64_t by) {
  return static_cast<std::int64_t>(value / by - (value % by < 0 ? 1 : 0));
}
Duration to(Instant now, __int128 moment) {
  const __int128 left = moment - count(now);
  return left >= forever.count() ? forever
                                 : Duration(std::max<std::int64_t>(static_cast<std::int64_t>(left), 0));
}

/// What is taken of each window from the current one on; each holds at most the limit.
class FixedWindowModel {
 public:
  FixedWindowModel(std::uint64_t limit, std::int64_t interval) : limit_(limit), interval_(interval) {}

  Acquisition try_acquire(Instant now, std::uint64_t weight) {
    const std::deque<std::uint64_t> before = windows_;
    const std::int64_t ordinal = ordinal_;
    go(now);
    const std::uint64_t asked = std::max<std::uint64_t>(weight, 1);
    Acquisition answer;
    answer.admitted = windows_.size() <= 1 && asked <= limit_ && taken(0) <= limit_ - asked;
    if (!answer.admitted) answer.retry_after = wait(now, asked);
    if (answer.admitted && weight > 0) windows_.assign(1, taken(0) + weight);
    answer.remaining = limit_ - taken(0);
    answer.reset_after = windows_.empty()
                             ? Duration{}
                             : to(now, (static_cast<__int128>(ordinal_) + windows_.size()) * interval_);
    if (!answer.admitted || weight == 0) {
      windows_ = before;
      ordinal_ = ordinal;
    }
    return answer;
  }
  Reservation reserve(Instant now, std::uint64_t weight) {
    const std::deque<std::uint64_t> before = windows_;
    const std::int64_t ordinal = ordinal_;
    go(now);
    const Duration until = wait(now, std::max<std::uint64_t>(weight, 1));
    if (weight == 0 || weight > limit_) {
      windows_ = before;
      ordinal_ = ordinal;
      return {until, false};
    }
    const std::size_t place = find(weight);
    while (windows_.size() < place) windows_.push_back(limit_);
    for (std::size_t i = 0; i < place; ++i) windows_[i] = limit_;
    if (windows_.size() == place) windows_.push_back(0);
    windows_[place] += weight;
    return {until, true};
  }
  void correct(Instant now, std::int64_t by) {
    if (by == 0 || (by < 0 && floor_division(count(now), interval_) < ordinal_)) return;
    go(now);
    for (; by > 0; --by) {
      if (windows_.empty() || windows_.back() == limit_) windows_.push_back(0);
      ++windows_.back();
    }
    for (; by < 0 && !windows_.empty(); ++by)
      if (--windows_.back() == 0) windows_.pop_back();
  }

 private:
  std::uint64_t taken(std::size_t window) const { return window < windows_.size() ? windows_[window] : 0; }
  void go(Instant now) {
    const std::int64_t ordinal = std::max(ordinal_, floor_division(count(now), interval_));
    for (; ordinal_ < ordinal && !windows_.empty(); ++ordinal_) windows_.pop_front();
    ordinal_ = ordinal;
  }
  std::size_t find(std::uint64_t weight) const {
    const std::size_t last = windows_.empty() ? 0 : windows_.size() - 1;
    return taken(last) + weight <= limit_ ? last : last + 1;
  }
  Duration wait(Instant now, std::uint64_t weight) const {
    if (weight > limit_) return forever;
    const std::size_t place = find(weight);
    return place == 0 ? Duration{} : to(now, (static_cast<__int128>(ordinal_) + place) * interval_);
  }

  std::uint64_t limit_;
  std::int64_t interval_;
  std::int64_t ordinal_ = std::numeric_limits<std::int64_t>::min();
  std::deque<std::uint64_t> windows_;
};

TEST(FixedWindow, AnswersAsAListOfWindowsDoes) {
  for (std::uint64_t number = 0; number < 60 && !HasFailure(); ++number) {
    Steps steps(3000 + number);
    const std::uint64_t limit = steps.magnitude(1, 1000);
    const auto interval = static_cast<std::int64_t>(steps.magnitude(1, 366ULL * 86400 * 1'000'000'000));
    SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()) + ", walk " + std::to_string(number) +
                 ": limit " + std::to_string(limit) + " per " + std::to_string(interval) + " ns");
    OwnedLimit<FixedWindow> window{FixedWindow(limit, Duration(interval))};
    FixedWindowModel model(limit, interval);
    std::int64_t now =
        static_cast<std::int64_t>(steps.magnitude(1, std::uint64_t{1} << 59)) - (std::int64_t{1} << 58);
    for (int step = 0; step < 2000 && !HasFailure(); ++step) {
      now = steps.next_time(now, std::max<std::int64_t>(interval / 5, 1));
      const std::uint64_t operation = steps.between(0, 99);
      const std::uint64_t weight = steps.weight(limit);
      const std::int64_t by =
          static_cast<std::int64_t>(steps.between(0, 4 * limit)) - static_cast<std::int64_t>(2 * limit);
      SCOPED_TRACE("step " + std::to_string(step) + " at " + std::to_string(now) + ", weight " +
                   std::to_string(weight) + ", by " + std::to_string(by));
      expect_same_step(window, model, at(now), weight, operation, by);
    }
  }
}

TEST(FixedWindow, ADebtIsTakenOffTheWindowsThatFollow) {
  OwnedLimit<FixedWindow> window{FixedWindow(10, 1s)};
  EXPECT_TRUE(window.try_acquire(at(500ms), 10).admitted);
  window.correct(at(500ms), 14);
  EXPECT_EQ(window.try_acquire(at(1s), 0).remaining, 0U);
  EXPECT_EQ(window.try_acquire(at(1s), 1).retry_after, 1s);
  EXPECT_EQ(window.try_acquire(at(2s), 0).remaining, 6U);
  EXPECT_EQ(window.try_acquire(at(3s), 0).remaining, 10U);
}

TEST(FixedWindow, WhatIsHandedBackAfterItsWindowHasEndedFreesNothingInTheNext) {
  OwnedLimit<FixedWindow> window{FixedWindow(10, 1s)};
  EXPECT_TRUE(window.try_acquire(at(500ms), 10).admitted);
  EXPECT_TRUE(window.try_acquire(at(1s), 10).admitted);
  window.give_back(at(500ms), 10);
  EXPECT_EQ(window.try_acquire(at(1500ms), 0).remaining, 0U);
  window.give_back(at(1s), 10);
  EXPECT_EQ(window.try_acquire(at(1500ms), 0).remaining, 10U);
}

TEST(FixedWindow, WhatIsChargedAfterItsWindowHasEndedIsTakenOffTheOneThatRuns) {
  OwnedLimit<FixedWindow> window{FixedWindow(10, 1s)};
  EXPECT_TRUE(window.try_acquire(at(500ms), 1).admitted);
  EXPECT_TRUE(window.try_acquire(at(1s), 1).admitted);
  window.correct(at(500ms), 4);
  EXPECT_EQ(window.try_acquire(at(1500ms), 0).remaining, 5U);
}

TEST(FixedWindow, TheLargestLimitDoesNotOverflow) {
  constexpr std::uint64_t limit = std::numeric_limits<std::int64_t>::max();
  OwnedLimit<FixedWindow> window{FixedWindow(limit, 1s)};
  EXPECT_TRUE(window.try_acquire(at(0s), limit).admitted);
  EXPECT_FALSE(window.try_acquire(at(0s), limit).admitted);
  EXPECT_EQ(window.reserve(at(0s), limit).wait, 1s);
  EXPECT_EQ(window.reserve(at(0s), limit).wait, forever)
      << "three times the limit is more than can be counted";
  window.correct(at(0s), std::numeric_limits<std::int64_t>::max());
  window.correct(at(0s), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(window.try_acquire(at(0s), 1).retry_after, 2s);
  EXPECT_TRUE(window.try_acquire(at(3s), limit).admitted);
  EXPECT_EQ(window.try_acquire(at(3s), limit + 1).retry_after, forever);
  OwnedLimit<FixedWindow> ages{FixedWindow(1, Duration::max())};
  EXPECT_TRUE(ages.try_acquire(at(5s), 1).admitted);
  EXPECT_EQ(ages.try_acquire(at(5s), 1).retry_after, Duration::max() - 5s);
}

// The border burst of the seeds: 100 per minute; 100 requests between 0:50 and 1:00, 100 between 1:00 and
// 1:10.
template <typename Window>
std::uint64_t border_burst(Window& window) {
  std::uint64_t admitted = 0;
  for (Duration now = 50s; now < 70s; now += 100ms) admitted += window.try_acquire(at(now), 1).admitted;
  return admitted;
}

TEST(FixedWindow, TheBorderBurstPassesTwice) {
  OwnedLimit<FixedWindow> window{FixedWindow(100, 1min)};
  EXPECT_EQ(border_burst(window), 200U);
}

TEST(SlidingWindow, TheBorderBurstPassesOnce) {
  std::vector<SlidingWindowCell> cells(6);
  SlidingWindow window(100, 1min, cells);
  EXPECT_EQ(border_burst(window), 100U);
}

TEST(SlidingWindow, AsPreciseAsItsSpans) {
  // The seeds' second example: 20 per second from 0:05 on. 100 pass until 0:10, the next at 1:00, as the span
  // of 0:00 leaves.
  std::vector<SlidingWindowCell> cells(6);
  SlidingWindow window(100, 1min, cells);
  std::vector<Duration> admitted;
  for (Duration now = 5s; now < 65s; now += 50ms)
    if (window.try_acquire(at(now), 1).admitted) admitted.push_back(now);
  ASSERT_EQ(admitted.size(), 200U);
  EXPECT_EQ(admitted[99], 9950ms);
  EXPECT_EQ(admitted[100], 60s);
}

/// Every admission with the span it was counted in.
class SlidingWindowModel {
 public:
  SlidingWindowModel(std::uint64_t limit, std::int64_t interval, std::int64_t spans)
      : limit_(limit), interval_(interval), spans_(spans) {}

  Acquisition try_acquire(Instant now, std::uint64_t weight) {
    const std::int64_t span = std::max(latest_, number(now));
    if (weight > 0) latest_ = span;
    const std::uint64_t asked = std::max<std::uint64_t>(weight, 1);
    Acquisition answer;
    answer.admitted = asked <= limit_ && total(span) <= limit_ && total(span) + asked <= limit_;
    if (answer.admitted && weight > 0) admitted_.push_back({span, weight});
    if (!answer.admitted) {
      answer.retry_after = forever;
      if (asked <= limit_) {
        std::int64_t later = span;
        while (total(later) + asked > limit_) ++later;
        answer.retry_after = to(now, begin(later));
      }
    }
    answer.remaining = limit_ - std::min(limit_, total(span));
    std::int64_t empty = span;
    while (total(empty) > 0) ++empty;
    answer.reset_after = empty == span ? Duration{} : to(now, begin(empty));
    return answer;
  }
  Reservation reserve(Instant now, std::uint64_t weight) {
    const Acquisition answer = try_acquire(now, weight);
    return {answer.retry_after, answer.admitted && weight > 0};
  }
  void correct(Instant now, std::int64_t by) {
    if (by == 0) return;
    latest_ = std::max(latest_, number(now));
    if (by > 0) admitted_.push_back({latest_, static_cast<std::uint64_t>(by)});
    const auto is_later = [&](const Entry& entry) { return entry.span > number(now); };
    const auto is_older = [&](const Entry& a, const Entry& b) {
      return is_later(a) != is_later(b) ? is_later(a) : a.span < b.span;
    };
    while (by < 0 && !admitted_.empty()) {
      auto newest = std::max_element(admitted_.begin(), admitted_.end(), is_older);
      if (is_later(*newest) || newest->span <= latest_ - spans_) return;
      const std::uint64_t part = std::min(static_cast<std::uint64_t>(-by), newest->weight);
      newest->weight -= part;
      by += static_cast<std::int64_t>(part);
      if (newest->weight == 0) admitted_.erase(newest);
    }
  }

 private:
  struct Entry {
    std::int64_t span;
    std::uint64_t weight;
  };
  std::int64_t number(Instant now) const {
    return floor_division(static_cast<__int128>(count(now)) * spans_, interval_);
  }
  __int128 begin(std::int64_t span) const {
    const __int128 product = static_cast<__int128>(span) * interval_;
    return product / spans_ + (product % spans_ > 0);
  }
  std::uint64_t total(std::int64_t span) const {
    std::uint64_t sum = 0;
    for (const Entry& entry : admitted_)
      if (entry.span > span - spans_) sum += entry.weight;
    return sum;
  }

  std::uint64_t limit_;
  std::int64_t interval_;
  std::int64_t spans_;
  std::int64_t latest_ = std::numeric_limits<std::int64_t>::min() / 2;
  std::vector<Entry> admitted_;
};

TEST(SlidingWindow, AnswersAsAListOfAdmissionsDoes) {
  for (std::uint64_t number = 0; number < 60 && !HasFailure(); ++number) {
    Steps steps(4000 + number);
    const std::uint64_t limit = steps.magnitude(1, 300);
    const auto spans = static_cast<std::int64_t>(steps.between(1, 20));
    const auto interval = static_cast<std::int64_t>(
        steps.magnitude(static_cast<std::uint64_t>(spans), 366ULL * 86400 * 1'000'000'000));
    SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()) + ", walk " + std::to_string(number) +
                 ": limit " + std::to_string(limit) + " per " + std::to_string(interval) + " ns in " +
                 std::to_string(spans));
    std::vector<SlidingWindowCell> cells(static_cast<std::size_t>(spans));
    SlidingWindow window(limit, Duration(interval), cells);
    SlidingWindowModel model(limit, interval, spans);
    std::int64_t now =
        static_cast<std::int64_t>(steps.magnitude(1, std::uint64_t{1} << 59)) - (std::int64_t{1} << 58);
    for (int step = 0; step < 1500 && !HasFailure(); ++step) {
      now = steps.next_time(now, std::max<std::int64_t>(interval / spans / 3, 1));
      const std::uint64_t operation = steps.between(0, 99);
      const std::uint64_t weight = steps.weight(limit);
      const std::int64_t by =
          static_cast<std::int64_t>(steps.between(0, 2 * limit)) - static_cast<std::int64_t>(limit);
      SCOPED_TRACE("step " + std::to_string(step) + " at " + std::to_string(now) + ", weight " +
                   std::to_string(weight) + ", by " + std::to_string(by));
      expect_same_step(window, model, at(now), weight, operation, by);
    }
  }
}

TEST(SlidingWindow, WhatIsHandedBackIsOfTheSpanOfItsRequest) {
  std::vector<SlidingWindowCell> cells(10);
  SlidingWindow window(10, 1s, cells);
  EXPECT_TRUE(window.try_acquire(at(0s), 5).admitted);
  EXPECT_TRUE(window.try_acquire(at(500ms), 5).admitted);
  window.give_back(at(0s), 2);
  EXPECT_EQ(window.peek(at(500ms)).remaining, 2U);
  EXPECT_EQ(window.peek(at(1s)).remaining, 5U) << "what came later is still in the window";
  EXPECT_TRUE(window.try_acquire(at(1s), 5).admitted);
  window.give_back(at(0s), 3);
  EXPECT_EQ(window.peek(at(1s)).remaining, 0U) << "it has left the window";
}

TEST(SlidingWindow, TimeThatJumpsBackFindsTheLatestSpanStillRunning) {
  std::vector<SlidingWindowCell> cells(10);
  SlidingWindow window(10, 1s, cells);
  EXPECT_TRUE(window.try_acquire(at(100s), 6).admitted);
  EXPECT_TRUE(window.try_acquire(at(10s), 4).admitted);
  EXPECT_FALSE(window.try_acquire(at(20s), 1).admitted);
  EXPECT_EQ(window.try_acquire(at(20s), 1).retry_after, 81s);
  EXPECT_TRUE(window.try_acquire(at(101s), 10).admitted);
}

TEST(SlidingWindow, TheLargestNumbersDoNotOverflow) {
  constexpr std::uint64_t limit = std::numeric_limits<std::int64_t>::max();
  std::vector<SlidingWindowCell> cells(2);
  SlidingWindow window(limit, 2ns, cells);
  EXPECT_TRUE(window.try_acquire(at(std::numeric_limits<std::int64_t>::max() - 10), limit).admitted);
  EXPECT_FALSE(window.try_acquire(at(std::numeric_limits<std::int64_t>::max() - 10), 1).admitted);
  for (int i = 0; i < 3; ++i)
    window.correct(at(std::numeric_limits<std::int64_t>::max() - 10),
                   std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(window.peek(at(std::numeric_limits<std::int64_t>::max() - 9)).remaining, 0U);
  EXPECT_EQ(window.peek(at(std::numeric_limits<std::int64_t>::max() - 8)).remaining, limit);
  EXPECT_TRUE(window.try_acquire(at(std::numeric_limits<std::int64_t>::max() - 8), limit).admitted);
}

}  // namespace
}  // namespace weir::testing
