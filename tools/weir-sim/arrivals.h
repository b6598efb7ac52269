// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// When the requests of one stream come.
#pragma once

#include <cstddef>
#include <vector>

#include "random.h"
#include "scenario.h"
#include "weir/time.h"

namespace weir::sim {

/// A rate that changes linearly from begin to end.
struct RateSegment {
  Duration begin{};
  Duration end{};
  double rate_begin = 0;  ///< per second
  double rate_end = 0;
};

/// The rate of a stream over a scenario, as adjoining segments. Recordings have none.
std::vector<RateSegment> rate_curve(const Demand& demand, Duration duration);

/// The moments at which the area under the curve reaches the next mark: whole marks (from one half on, so
/// that none falls on an edge) for regular streams, marks at exponential distances for Poisson ones.
class Arrivals {
 public:
  Arrivals(std::vector<RateSegment> curve, bool poisson, Random random);

  /// The next arrival; Duration::max() when there is none any more.
  Duration next() noexcept;

 private:
  std::vector<RateSegment> curve_;
  bool poisson_;
  Random random_;
  double to_mark_;
  std::size_t segment_ = 0;
  double into_ = 0;  // seconds since the segment's beginning
};

}  // namespace weir::sim
