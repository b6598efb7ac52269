// SPDX-License-Identifier: BSD-3-Clause
#include "rule_replay.h"

#include <chrono>
#include <utility>

namespace weir::replay {
namespace {

/// Monotonic time at the first request: any but the clock's origin will do.
constexpr MonotonicTime origin{std::chrono::seconds(1)};

}  // namespace

RuleReplay::RuleReplay(std::unique_ptr<Throttle> throttle, std::int64_t longest_walk)
    : throttle_(std::move(throttle)), timeline_(throttle_->config().rules, longest_walk) {}

RuleReplay::~RuleReplay() {
  if (worker_ != nullptr) worker_->offline();
}

void RuleReplay::drive(WallTime at) {
  if (at > now_.wall) now_.monotonic += at - now_.wall;
  now_.wall = at;
  // The first advance ends the span, the second one finds the worker past it.
  for (int i = 0; i < 2; ++i) {
    throttle_->advance(now_);
    worker_->quiescent();
  }
}

void RuleReplay::move_to(WallTime time) {
  if (worker_ == nullptr) {
    now_ = {time, origin};
    throttle_->advance(now_);
    worker_ = &throttle_->worker(0);
    worker_->online();
    return;
  }
  if (time < now_.wall) {
    drive(time);
    return;
  }
  for (const WallTime at : timeline_.due(now_.wall, time)) drive(at);
  now_ = now_ + (time - now_.wall);
}

Decision RuleReplay::decide(WallTime time, std::string_view key, std::uint32_t weight) {
  move_to(time);
  return worker_->admit_key(0, key, weight, now_.monotonic);
}

}  // namespace weir::replay
