// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Threads that begin together, each with random numbers of its own.
#pragma once

#include <barrier>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

namespace weir {

inline constexpr unsigned threads = 4;

/// Of all random numbers of a test; WEIR_TEST_SEED, if it is set.
inline std::uint64_t seed() {
  const char* given = std::getenv("WEIR_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
}

/// Runs `work(thread index, its random numbers)` in all threads, started together.
template <typename Work>
void run_threads(Work&& work) {
  std::barrier start(threads);
  std::vector<std::thread> running;
  for (unsigned index = 0; index < threads; ++index)
    running.emplace_back([&, index] {
      std::mt19937_64 random(seed() + 1 + index);
      start.arrive_and_wait();
      work(index, random);
    });
  for (std::thread& thread : running) thread.join();
}

}  // namespace weir
