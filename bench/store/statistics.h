// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Figures out of repeated measurements, and how they are shown.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace weir::bench {

/// The upper one of an even number. @pre not empty
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The median of a member of all readings.
template <typename Reading>
double median_of(const std::vector<Reading>& readings, double Reading::*member) {
  std::vector<double> values;
  for (const Reading& reading : readings) values.push_back(reading.*member);
  return median(std::move(values));
}

/// For JSON: four digits are more than any of these figures means.
inline double rounded(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return std::strtod(text.data(), nullptr);
}

}  // namespace weir::bench
