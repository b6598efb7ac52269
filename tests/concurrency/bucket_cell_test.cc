// SPDX-License-Identifier: BSD-3-Clause
// Many threads draw from one bucket while its pools turn under them: together they never get more than one
// bucket would give, however far behind a thread's window or clock is.
#include "shared/bucket_cell.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "run_threads.h"

namespace weir {
namespace {

constexpr std::uint64_t key = 0x9ae16a3b2f90404f;

/// Virtual time that all threads push on, and the windows it passes through. As with the controller's grace
/// period, no window begins while a thread is still in the one before the last: then time stands still for a
/// while.
class Windows {
 public:
  Windows(std::int64_t window_ns, std::size_t count) : window_ns_(window_ns), cells(count + 2) {
    // Relaxed, here and below: time is a number; cells carry their own agreement.
    for (auto& window : entered_) window.store(1, std::memory_order_relaxed);
  }

  MonotonicTime now() const { return MonotonicTime(Duration(now_.load(std::memory_order_relaxed))); }
  std::size_t window(MonotonicTime at) const {
    return static_cast<std::size_t>(at.time_since_epoch().count() / window_ns_);
  }

  MonotonicTime push(std::int64_t by) {
    std::size_t slowest = std::numeric_limits<std::size_t>::max();
    // Acquire: what a thread drew before it left a window happened before time goes on.
    for (auto& window : entered_) slowest = std::min(slowest, window.load(std::memory_order_acquire));
    const std::int64_t end = slowest > cells.size() ? std::numeric_limits<std::int64_t>::max()
                                                    : static_cast<std::int64_t>(slowest + 2) * window_ns_ - 1;
    std::int64_t seen = now_.load(std::memory_order_relaxed);
    while (!now_.compare_exchange_weak(seen, std::max(seen, std::min(seen + by, end)),
                                       std::memory_order_relaxed)) {
    }
    if (seen >= end) std::this_thread::yield();  // for those who are behind
    return now();
  }
  void enter(unsigned thread, std::size_t window) {
    entered_[thread].store(window, std::memory_order_release);
  }
  void leave(unsigned thread) { enter(thread, std::numeric_limits<std::size_t>::max()); }

 private:
  std::int64_t window_ns_;
  std::atomic<std::int64_t> now_{window_ns_};
  std::array<std::atomic<std::size_t>, threads> entered_;

 public:
  std::vector<AllowanceCell> cells;  // one for each window's pool
};

struct Load {
  std::uint64_t burst;
  bool gives_back;
  bool touches_rarely;  // so that a key's first touch in a window is often somebody's last in the one before
};

class TurningPools : public ::testing::TestWithParam<Load> {};

TEST_P(TurningPools, GiveAllThreadsTogetherNoMoreThanOneBucket) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  const Load load = GetParam();
  constexpr std::size_t windows = 10'000;
  // A token every microsecond; a window is as long as the bucket takes to fill.
  const BucketTerms terms(1'000'000, std::chrono::seconds{1}, load.burst);
  const auto window_ns = static_cast<std::int64_t>(1000 * load.burst);
  Windows time(window_ns, windows);
  const MonotonicTime begun = time.now();
  std::atomic<std::uint64_t> taken{0};
  run_threads([&](unsigned index, std::mt19937_64& random) {
    std::size_t window = 1;
    std::uint64_t own = 0;
    for (;;) {
      const MonotonicTime now =
          time.push(static_cast<std::int64_t>(random() % (load.touches_rarely ? window_ns / 2 : 1000)));
      const std::size_t latest = time.window(now);
      if (latest > windows) break;
      // Some are slow to take the new window up, and go on in the old one.
      if (latest > window && random() % 4 == 0) time.enter(index, window = latest);
      BucketCell bucket(time.cells[window]);
      bucket.take_over(&time.cells[window - 1], terms, now);
      const std::uint64_t need = random() % std::min<std::uint64_t>(load.burst, 3) + 1;
      const BucketCell::Draw draw = bucket.draw(key, need, random() % 4, full_price, terms, now);
      if (draw.closed) {
        EXPECT_EQ(draw.taken, 0U);
        time.enter(index, window = latest);
        continue;
      }
      EXPECT_TRUE(draw.taken == 0 || draw.taken >= need);
      own += draw.taken;
      if (load.gives_back && draw.taken > 0 && random() % 4 == 0) {
        bucket.give_back(draw.taken, full_price, terms);
        // Where the bucket has moved on meanwhile this was in vain: counted as taken, it would only hide a
        // fault.
        own -= draw.taken;
      }
    }
    time.leave(index);
    taken += own;
  });
  const auto elapsed = static_cast<std::uint64_t>((time.now() - begun).count());
  EXPECT_LE(taken, load.burst + elapsed / 1000 + 1);
  // It is not that nobody gets anything: where requests come often enough, all of the rate is used.
  if (!load.touches_rarely && !load.gives_back) {
    EXPECT_GE(taken, elapsed / 1000 / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(BucketCell, TurningPools,
                         ::testing::Values(Load{1, false, false}, Load{2, false, true},
                                           Load{20, false, false}, Load{20, false, true},
                                           Load{100, true, false}, Load{100, false, true}),
                         [](const auto& tested) {
                           return "burst_" + std::to_string(tested.param.burst) +
                                  (tested.param.gives_back ? "_giving_back" : "") +
                                  (tested.param.touches_rarely ? "_rarely" : "");
                         });

// At one moment, all threads at their first touch of a new window's cell: the old level is there once.
TEST(MovingBucket, IsTakenOverOnceByAllWhoMeetIt) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  constexpr std::size_t rounds = 2000;
  constexpr MonotonicTime now{Duration(1'000'000'000)};
  const BucketTerms terms(1000, std::chrono::seconds{1}, 1000);
  std::vector<AllowanceCell> cells(rounds + 1);
  BucketCell(cells[0]).take_over(nullptr, terms, now);
  std::atomic<std::uint64_t> taken{0};
  std::barrier next(threads);
  run_threads([&](unsigned index, std::mt19937_64&) {
    std::uint64_t own = 0;
    for (std::size_t round = 1; round <= rounds; ++round) {
      next.arrive_and_wait();
      // One thread is late each time, and draws where the bucket was.
      const std::size_t late = (round + index) % threads == 0 ? 1 : 0;
      BucketCell bucket(cells[round - late]);
      if (late == 0) bucket.take_over(&cells[round - 1], terms, now);
      own += bucket.draw(key, 1, 0, full_price, terms, now).taken;
    }
    taken += own;
  });
  EXPECT_EQ(taken, 1000U);
}

}  // namespace
}  // namespace weir
