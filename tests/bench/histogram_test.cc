// SPDX-License-Identifier: BSD-3-Clause
#include "latency/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace weir::bench {
namespace {

constexpr double parts[] = {0, 0.001, 0.5, 0.9, 0.99, 0.999, 1};

/// The smallest value that so many of all do not exceed, by sorting.
std::uint64_t exact_quantile(std::vector<std::uint64_t> values, double part) {
  std::sort(values.begin(), values.end());
  const auto wanted = static_cast<std::size_t>(part * static_cast<double>(values.size()) + 0.5);
  return values[std::max<std::size_t>(wanted, 1) - 1];
}

void expect_near_exact(const std::vector<std::uint64_t>& values) {
  const auto histogram = std::make_unique<Histogram>();
  for (const std::uint64_t value : values) histogram->add(value);
  EXPECT_EQ(histogram->total(), values.size());
  EXPECT_EQ(histogram->max(), *std::max_element(values.begin(), values.end()));
  for (const double part : parts) {
    const std::uint64_t exact = exact_quantile(values, part);
    const std::uint64_t told = histogram->quantile(part);
    EXPECT_GE(told, exact) << part;
    EXPECT_LE(static_cast<double>(told - exact), static_cast<double>(exact) / 64) << part;
  }
}

TEST(Histogram, TellsSmallValuesExactly) {
  Histogram histogram;
  for (std::uint64_t value = 0; value < 64; ++value) histogram.add(value);
  EXPECT_EQ(histogram.quantile(0.5), 31U);
  EXPECT_EQ(histogram.quantile(1), 63U);
}

TEST(Histogram, IsRightWithinItsFineness) {
  const char* const given = std::getenv("WEIR_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  std::cout << "WEIR_TEST_SEED=" << seed << '\n';
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> values;
  for (int i = 0; i < 20'000; ++i) values.push_back(random() >> (random() % 64));
  expect_near_exact(values);
}

TEST(Histogram, HasRoomForTheLargestValue) {
  expect_near_exact({1, std::numeric_limits<std::uint64_t>::max()});
  expect_near_exact({std::uint64_t{1} << 63, (std::uint64_t{1} << 63) - 1, 63, 64, 65});
}

TEST(Histogram, WeighsByValueWhatIsAbove) {
  Histogram histogram;
  for (int i = 0; i < 900; ++i) histogram.add(10);
  histogram.add(1000);
  EXPECT_NEAR(histogram.part_of_sum_above(100), 0.1, 0.002);
  EXPECT_EQ(histogram.part_of_sum_above(9), 1);
  EXPECT_EQ(histogram.part_of_sum_above(1000), 0);
}

TEST(Histogram, SaysNothingOfNothing) {
  EXPECT_EQ(Histogram().quantile(0.99), 0U);
  EXPECT_EQ(Histogram().part_of_sum_above(0), 0);
}

}  // namespace
}  // namespace weir::bench
