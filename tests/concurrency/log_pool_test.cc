// SPDX-License-Identifier: BSD-3-Clause
// Threads that meet a new key in the same moment, some of them still in the old window, agree on one log for
// it.
#include "shared/log_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "run_threads.h"
#include "shared/log_cell.h"

namespace weir {
namespace {

constexpr MonotonicTime start{Duration(100'000'000'000)};

LogName name_of(const AllowanceCell& cell) { return LogName(cell.log.load()); }

TEST(SharedLogPool, ThreadsThatMeetANewKeyAgreeOnOneLog) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  constexpr std::uint64_t limit = 5;
  constexpr std::size_t keys = 500;
  // A log that a thread took in vain stays with it: one for each.
  LogPool logs(limit, std::chrono::seconds{1}, keys + threads);
  std::vector<AllowanceCell> old(keys);
  std::vector<AllowanceCell> next(keys);
  std::vector<std::atomic<std::uint64_t>> admitted(keys);
  std::barrier meet(threads);
  run_threads([&](unsigned index, std::mt19937_64& random) {
    std::uint32_t spare = LogPool::none;
    for (std::size_t key = 0; key < keys; ++key) {
      if (key % 8 == 0) meet.arrive_and_wait();
      // Half of them have not heard of the new window yet.
      const bool behind = (index + key) % 2 == 0;
      AllowanceCell& cell = behind ? old[key] : next[key];
      LogCell(cell, logs).take_over(true, {behind ? nullptr : &old[key], true}, spare, start);
      for (unsigned i = 0; i < 2 + random() % 4; ++i)
        admitted[key] += LogCell(cell, logs).draw(key, start, 1).taken;
    }
  });
  std::set<std::uint32_t> used;
  for (std::size_t key = 0; key < keys; ++key) {
    ASSERT_TRUE(name_of(old[key]).has_log()) << "none although there are enough";
    ASSERT_TRUE(name_of(next[key]).has_log());
    ASSERT_EQ(name_of(old[key]).log(), name_of(next[key]).log()) << key;
    used.insert(name_of(old[key]).log());
    // Four threads ask at least twice each.
    ASSERT_EQ(admitted[key], limit) << key;
  }
  EXPECT_EQ(used.size(), keys);
}

// Keys that have no log at first, get one as soon as one of them is refused, and are met in the old window
// and in the new one at once. All requests of a window come in its first moment.
TEST(SharedLogPool, NoKeyHasMoreThanItsLimitWhileItGetsALog) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  constexpr std::uint64_t limit = 6;
  constexpr std::size_t keys = 200;
  constexpr std::size_t windows = 5;
  LogPool logs(limit, std::chrono::seconds{1}, 9 * keys);
  while (logs.take(false) != LogPool::none) {
  }
  std::array<std::vector<AllowanceCell>, windows + 1> cells;
  for (auto& window : cells) window = std::vector<AllowanceCell>(keys);
  std::array<std::vector<std::atomic<std::uint64_t>>, windows> admitted;
  for (auto& window : admitted) window = std::vector<std::atomic<std::uint64_t>>(keys);
  std::barrier meet(threads);
  run_threads([&](unsigned index, std::mt19937_64& random) {
    std::uint32_t spare = LogPool::none;
    for (std::size_t window = 0; window < windows; ++window) {
      const MonotonicTime now = start + window * std::chrono::seconds{1};
      const auto draw = [&](std::size_t of, std::size_t key) {
        LogCell cell(cells[of + 1][key], logs);
        if (!cell.begun()) cell.take_over(true, {&cells[of][key], true}, spare, now);
        return cell.draw(key, now, 1);
      };
      meet.arrive_and_wait();
      for (std::size_t key = 0; key < keys; ++key) {
        if (key % 8 == 0) meet.arrive_and_wait();
        for (unsigned i = 0; i < 4; ++i) {
          const bool behind = window > 0 && (index + key) % 2 == 0 && random() % 2 == 0;
          LogCell::Draw drawn = draw(window - behind, key);
          if (drawn.closed) drawn = draw(window, key);
          admitted[window][key] += drawn.taken;
          if (!drawn.taken && !behind) LogCell(cells[window + 1][key], logs).ask_for_log(spare);
        }
      }
    }
  });
  for (std::size_t window = 0; window < windows; ++window)
    for (std::size_t key = 0; key < keys; ++key) {
      ASSERT_LE(admitted[window][key], limit) << window << ' ' << key;
      ASSERT_GE(admitted[window][key], limit / 2) << window << ' ' << key;
    }
  for (std::size_t key = 0; key < keys; ++key) {
    ASSERT_TRUE(name_of(cells[windows][key]).has_log());
    ASSERT_FALSE(name_of(cells[windows][key]).asks_bucket());
    ASSERT_EQ(admitted[windows - 1][key], limit);
  }
}

TEST(SharedLogPool, LogsAreFreedWhileOthersAreTakenAndNoneServesTwoKeysOrIsLost) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  constexpr std::uint64_t limit = 2;
  constexpr std::size_t keys = 20;  // in one window
  constexpr std::uint64_t windows = 300;
  // Those of three windows are in use at once.
  LogPool logs(limit, std::chrono::seconds{1}, 3 * keys + threads);
  std::array<std::unique_ptr<AllowancePool>, 3> pools;  // running, ended, to be cleared
  for (auto& pool : pools) pool = std::make_unique<AllowancePool>(64, threads);
  std::barrier turn(threads);
  std::atomic<std::uint64_t> without{0};
  const auto key_of = [](std::uint64_t window, std::size_t number) {
    return (window * keys + number + 1) * 0x9e3779b97f4a7c15;
  };
  run_threads([&](unsigned index, std::mt19937_64&) {
    std::uint32_t spare = LogPool::none;
    for (std::uint64_t window = 0; window < windows; ++window) {
      turn.arrive_and_wait();
      // The controller's thread frees the oldest pool's logs while workers already take some for the running
      // one.
      if (index == 0) {
        logs.free_idle(*pools[2], *pools[0], *pools[1], start);
        pools[2]->clear();
      } else {
        for (std::size_t number = 0; number < keys; ++number) {
          const AllowancePool::Place place = pools[0]->claim(key_of(window, number), index);
          const AllowancePool::Place before = pools[1]->claim(key_of(window, number), index);
          LogCell(*place.cell, logs).take_over(true, before, spare, start);
          without += !name_of(*place.cell).has_log();
        }
      }
      turn.arrive_and_wait();
      if (index == 0) {
        std::set<std::uint32_t> used;
        for (std::size_t number = 0; number < keys; ++number)
          used.insert(name_of(*pools[0]->find(key_of(window, number))).log());
        EXPECT_EQ(used.size(), keys) << "window " << window;
        std::swap(pools[1], pools[2]);
        std::swap(pools[0], pools[1]);
      }
      turn.arrive_and_wait();
    }
  });
  EXPECT_EQ(without, 0U);
}

}  // namespace
}  // namespace weir
