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

namespace weir {
namespace {

constexpr MonotonicTime start{Duration(100'000'000'000)};

TEST(SharedLogPool, ThreadsThatMeetANewKeyAgreeOnOneLog) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  constexpr std::uint64_t limit = 5;
  constexpr std::size_t keys = 500;
  // A log that a thread took in vain stays with it: one for each, and the shared one.
  LogPool logs(limit, std::chrono::seconds{1}, keys + threads + 1);
  std::vector<AllowanceCell> old(keys);
  std::vector<AllowanceCell> next(keys);
  std::vector<std::atomic<std::uint64_t>> admitted(keys);
  std::barrier meet(threads);
  run_threads([&](unsigned index, std::mt19937_64& random) {
    std::uint32_t spare = 0;
    for (std::size_t key = 0; key < keys; ++key) {
      if (key % 8 == 0) meet.arrive_and_wait();
      // Half of them have not heard of the new window yet.
      const bool behind = (index + key) % 2 == 0;
      AllowanceCell& cell = behind ? old[key] : next[key];
      logs.take_over(cell, behind ? nullptr : &old[key], spare);
      for (unsigned i = 0; i < 2 + random() % 4; ++i) admitted[key] += logs.log(cell).try_acquire(start, 1);
    }
  });
  std::set<std::uint32_t> used;
  for (std::size_t key = 0; key < keys; ++key) {
    ASSERT_NE(old[key].log.load(), 0U);
    ASSERT_EQ(old[key].log.load(), next[key].log.load()) << key;
    ASSERT_NE(old[key].log.load(), logs.logs()) << "shared although there are enough";
    used.insert(old[key].log.load());
    // Four threads ask at least twice each.
    ASSERT_EQ(admitted[key], limit) << key;
  }
  EXPECT_EQ(used.size(), keys);
}

TEST(SharedLogPool, LogsAreFreedWhileOthersAreTakenAndNoneServesTwoKeysOrIsLost) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  constexpr std::uint64_t limit = 2;
  constexpr std::size_t keys = 20;  // in one window
  constexpr std::uint64_t windows = 300;
  // Those of three windows are in use at once.
  LogPool logs(limit, std::chrono::seconds{1}, 3 * keys + threads + 1);
  std::array<std::unique_ptr<AllowancePool>, 3> pools;  // running, ended, to be cleared
  for (auto& pool : pools) pool = std::make_unique<AllowancePool>(64, threads);
  std::barrier turn(threads);
  std::atomic<std::uint64_t> shared{0};
  const auto key_of = [](std::uint64_t window, std::size_t number) {
    return (window * keys + number + 1) * 0x9e3779b97f4a7c15;
  };
  run_threads([&](unsigned index, std::mt19937_64&) {
    std::uint32_t spare = 0;
    for (std::uint64_t window = 0; window < windows; ++window) {
      turn.arrive_and_wait();
      // The controller's thread frees the oldest pool's logs while workers already take some for the running
      // one.
      if (index == 0) {
        logs.free_idle(*pools[2], *pools[0], *pools[1]);
        pools[2]->clear();
      } else {
        for (std::size_t number = 0; number < keys; ++number) {
          const AllowancePool::Place place = pools[0]->claim(key_of(window, number), index);
          const AllowancePool::Place before = pools[1]->claim(key_of(window, number), index);
          logs.take_over(*place.cell, before.cell, spare);
          shared += place.cell->log.load() == logs.logs();
        }
      }
      turn.arrive_and_wait();
      if (index == 0) {
        std::set<std::uint32_t> used;
        for (std::size_t number = 0; number < keys; ++number)
          used.insert(pools[0]->find(key_of(window, number))->log.load());
        EXPECT_EQ(used.size(), keys) << "window " << window;
        std::swap(pools[1], pools[2]);
        std::swap(pools[0], pools[1]);
      }
      turn.arrive_and_wait();
    }
  });
  EXPECT_EQ(shared, 0U);
}

}  // namespace
}  // namespace weir
