// SPDX-License-Identifier: BSD-3-Clause
// What a device has counted since the start, of what it tells it has counted.
#include "filter/port_state.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace weir::filter {
namespace {

/// Of what could not be sent as many as were broken.
PortState with(std::uint64_t missed, std::uint64_t no_buffer, std::uint64_t errors) {
  return {.port = 1,
          .name = "net_tap0",
          .missed = missed,
          .no_buffer = no_buffer,
          .errors = errors,
          .unsent = errors};
}

/// Counts what a device tells, since a start when it told `base`.
void expect_counts(PortState& base, PortState told, PortState counted) {
  count_since(base, told);
  EXPECT_EQ(told.missed, counted.missed);
  EXPECT_EQ(told.no_buffer, counted.no_buffer);
  EXPECT_EQ(told.errors, counted.errors);
  EXPECT_EQ(told.unsent, counted.unsent);
}

TEST(PortCounts, AreThoseSinceTheStart) {
  PortState base = with(70, 8, 3);
  expect_counts(base, with(70, 8, 3), with(0, 0, 0));
  expect_counts(base, with(75, 8, 13), with(5, 0, 10));
  expect_counts(base, with(76, 9, 13), with(6, 1, 10));
}

TEST(PortCounts, BeginAnewWhenSomebodySetsThemBack) {
  PortState base = with(70, 8, 3);
  expect_counts(base, with(75, 9, 4), with(5, 1, 1));
  expect_counts(base, with(0, 0, 0), with(0, 0, 0));
  expect_counts(base, with(2, 7, 1), with(2, 7, 1));
  expect_counts(base, with(100, 10, 4), with(100, 10, 4));
}

TEST(PortCounts, BeginAnewEachByItself) {
  PortState base = with(70, 8, 3);
  expect_counts(base, with(75, 1, 4), with(5, 1, 1));
  expect_counts(base, with(75, 20, 5), with(5, 20, 2));
}

}  // namespace
}  // namespace weir::filter
