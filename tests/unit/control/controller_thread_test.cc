// SPDX-License-Identifier: BSD-3-Clause
#include "control/controller_thread.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <new>
#include <string_view>

namespace weir {
namespace {

void complain(std::string_view line) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

MonotonicTime never_comes() { return MonotonicTime::max(); }

TEST(ControllerThreadDeathTest, ThatCannotGoOnTellsWhyAndEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        // Ends with its thread, which does not end.
        ControllerThread thread([]() -> MonotonicTime { throw std::bad_alloc(); }, never_comes, true,
                                complain);
      },
      "the controller cannot go on, and ends the process: std::bad_alloc");
}

TEST(ControllerThreadDeathTest, EndsTheProcessAlsoWhereNobodyListens) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      { ControllerThread thread([]() -> MonotonicTime { throw std::bad_alloc(); }, never_comes, true, {}); },
      "std::bad_alloc");
}

}  // namespace
}  // namespace weir
