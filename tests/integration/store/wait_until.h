// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Waiting for what servers do in their own time.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

namespace weir {

/// Asks every few milliseconds, for two minutes at most. False, and a failure of the test: in vain.
inline bool wait_until(const std::string& what, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{2};
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "waited in vain: " << what;
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return true;
}

}  // namespace weir
