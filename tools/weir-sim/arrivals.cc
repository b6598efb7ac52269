// SPDX-License-Identifier: BSD-3-Clause
#include "arrivals.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weir::sim {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

void add(std::vector<RateSegment>& curve, Duration begin, Duration end, double from, double to) {
  if (begin < end && (from > 0 || to > 0)) curve.push_back({begin, end, from, to});
}

/// The part of a segment within [from, until).
void add_part(std::vector<RateSegment>& curve, const RateSegment& whole, Duration from, Duration until) {
  const Duration begin = std::max(whole.begin, from);
  const Duration end = std::min(whole.end, until);
  if (begin >= end) return;
  const auto rate_at = [&](Duration at) {
    return std::lerp(whole.rate_begin, whole.rate_end,
                     seconds(at - whole.begin) / seconds(whole.end - whole.begin));
  };
  add(curve, begin, end, rate_at(begin), rate_at(end));
}

std::vector<RateSegment> whole_curve(const Demand& demand, Duration duration) {
  std::vector<RateSegment> curve;
  switch (demand.shape) {
    case Demand::Shape::constant:
    case Demand::Shape::poisson:
      add(curve, Duration{}, duration, demand.rate, demand.rate);
      break;
    case Demand::Shape::step:
      for (std::size_t i = 0; i < demand.points.size(); ++i) {
        const Duration end = i + 1 < demand.points.size() ? demand.points[i + 1].at : duration;
        const double rate = demand.rate * demand.points[i].factor;
        add(curve, demand.points[i].at, end, rate, rate);
      }
      break;
    case Demand::Shape::ramp:
      for (std::size_t i = 0; i < demand.points.size(); ++i) {
        const bool last = i + 1 == demand.points.size();
        const RatePoint& point = demand.points[i];
        const RatePoint& next = last ? point : demand.points[i + 1];
        add(curve, point.at, last ? duration : next.at, demand.rate * point.factor,
            demand.rate * next.factor);
      }
      break;
    case Demand::Shape::on_off:
      for (Duration at = demand.from; at < duration; at += demand.on + demand.off)
        add(curve, at, at + demand.on, demand.rate, demand.rate);
      break;
    case Demand::Shape::recorded:
      break;
  }
  return curve;
}

}  // namespace

std::vector<RateSegment> rate_curve(const Demand& demand, Duration duration) {
  std::vector<RateSegment> curve;
  for (const RateSegment& segment : whole_curve(demand, duration))
    add_part(curve, segment, demand.from, std::min(demand.until, duration));
  return curve;
}

Arrivals::Arrivals(std::vector<RateSegment> curve, bool poisson, Random random)
    : curve_(std::move(curve)),
      poisson_(poisson),
      random_(random),
      to_mark_(poisson ? random_.exponential() : 0.5) {}

Duration Arrivals::next() noexcept {
  for (; segment_ < curve_.size(); ++segment_, into_ = 0) {
    const RateSegment& segment = curve_[segment_];
    const double length = seconds(segment.end - segment.begin);
    const double slope = (segment.rate_end - segment.rate_begin) / length;
    const double rate = segment.rate_begin + slope * into_;
    const double left = length - into_;
    const double area = left * (rate + segment.rate_end) / 2;
    if (to_mark_ >= area) {
      to_mark_ -= area;
      continue;
    }
    // The root of slope / 2 x² + rate x = to_mark, in the form that bears a slope of 0.
    const double step = 2 * to_mark_ / (rate + std::sqrt(std::max(rate * rate + 2 * slope * to_mark_, 0.0)));
    into_ = std::min(into_ + step, length);
    to_mark_ = poisson_ ? random_.exponential() : 1.0;
    const auto offset = Duration(static_cast<std::int64_t>(into_ * 1e9));
    return std::min(segment.begin + offset, segment.end - Duration{1});
  }
  return Duration::max();
}

}  // namespace weir::sim
