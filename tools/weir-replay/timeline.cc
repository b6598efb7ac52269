// SPDX-License-Identifier: BSD-3-Clause
#include "timeline.h"

#include <algorithm>

namespace weir::replay {
namespace {

using Wide = __int128;

/// How many intervals to walk at either edge of a pause: a key is forgotten in the third.
constexpr std::int64_t edge_intervals = 4;
/// How many spans to walk behind each boundary: the sum of an interval is read one span after it.
constexpr std::int64_t edge_spans = 3;

std::int64_t floor_divide(Wide value, std::int64_t by) noexcept {
  return static_cast<std::int64_t>(value / by - (value % by < 0 ? 1 : 0));
}

}  // namespace

Timeline::Timeline(std::span<const Rule> rules, std::int64_t longest_walk) : longest_walk_(longest_walk) {
  for (const Rule& rule : rules) {
    const Beat beat{rule.interval.count(), rule.spans};
    const auto same = [&](const Beat& other) {
      return other.interval == beat.interval && other.spans == beat.spans;
    };
    if (std::none_of(beats_.begin(), beats_.end(), same)) beats_.push_back(beat);
  }
}

void Timeline::add_spans(const Beat& beat, WallTime from, WallTime to) {
  // Spans are numbered from the epoch on: the n-th begins at ceil(n × interval / spans).
  const auto number_at = [&](WallTime at) {
    return floor_divide(static_cast<Wide>(at.time_since_epoch().count()) * beat.spans, beat.interval);
  };
  const auto add = [&](std::int64_t number) {
    const Wide scaled = static_cast<Wide>(number) * beat.interval + beat.spans - 1;
    const WallTime begin{Duration(floor_divide(scaled, beat.spans))};
    if (begin > from && begin <= to) due_.push_back(begin);
  };
  const std::int64_t first = number_at(from) + 1;
  const std::int64_t last = number_at(to);
  if (last - first < longest_walk_) {
    for (std::int64_t number = first; number <= last; ++number) add(number);
    return;
  }
  const auto add_edge = [&](std::int64_t number) {
    for (std::int64_t i = 0; i < edge_spans; ++i) add(number + i);
  };
  const auto boundary = [&](std::int64_t interval) { return interval * beat.spans; };
  const std::int64_t first_interval = floor_divide(first, beat.spans);
  const std::int64_t last_interval = floor_divide(last, beat.spans);
  add_edge(first);
  for (std::int64_t i = 1; i <= edge_intervals; ++i) add_edge(boundary(first_interval + i));
  for (std::int64_t i = 0; i < edge_intervals; ++i) add_edge(boundary(last_interval - i));
  add_edge(last - edge_spans + 1);
}

std::span<const WallTime> Timeline::due(WallTime from, WallTime to) {
  due_.clear();
  if (from == last_to_ && to < next_) {
    last_to_ = to;
    return due_;
  }
  for (const Beat& beat : beats_) add_spans(beat, from, to);
  std::sort(due_.begin(), due_.end());
  due_.erase(std::unique(due_.begin(), due_.end()), due_.end());

  last_to_ = to;
  next_ = WallTime::max();
  for (const Beat& beat : beats_) {
    const Wide number =
        floor_divide(static_cast<Wide>(to.time_since_epoch().count()) * beat.spans, beat.interval) + 1;
    const std::int64_t begin = floor_divide(number * beat.interval + beat.spans - 1, beat.spans);
    next_ = std::min(next_, WallTime(Duration(begin)));
  }
  return due_;
}

}  // namespace weir::replay
