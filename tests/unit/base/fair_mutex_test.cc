// SPDX-License-Identifier: BSD-3-Clause
#include "base/fair_mutex.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace weir {
namespace {

void wait_for(const FairMutex& mutex, std::uint64_t asking) {
  while (mutex.asking() != asking) std::this_thread::yield();
}

TEST(FairMutex, IsHadByWhoWaitsBeforeWhoComesBackAtOnce) {
  FairMutex mutex;
  for (int round = 0; round < 100; ++round) {
    bool had = false;
    mutex.lock();
    std::thread other([&] {
      const std::lock_guard lock(mutex);
      had = true;
    });
    wait_for(mutex, 2);
    mutex.unlock();
    mutex.lock();
    EXPECT_TRUE(had);
    mutex.unlock();
    other.join();
  }
}

TEST(FairMutex, IsHadInTheOrderInWhichItWasAskedFor) {
  constexpr std::uint64_t threads = 8;
  FairMutex mutex;
  std::vector<std::uint64_t> order;
  std::vector<std::thread> others;
  mutex.lock();
  for (std::uint64_t i = 0; i < threads; ++i) {
    others.emplace_back([&, i] {
      const std::lock_guard lock(mutex);
      order.push_back(i);
    });
    wait_for(mutex, i + 2);
  }
  mutex.unlock();
  for (std::thread& other : others) other.join();
  EXPECT_EQ(order, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(mutex.asking(), 0U);
}

}  // namespace
}  // namespace weir
