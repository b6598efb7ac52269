// SPDX-License-Identifier: BSD-3-Clause
#include "random_faults.h"

#include <chrono>
#include <random>

namespace weir {
namespace {

using Random = std::mt19937_64;

/// What a replay or a late delivery is at most late by: about as long as a schedule lasts.
constexpr std::uint64_t late_us = 60'000;

std::size_t random_bytes(Random& random, Direction direction) {
  // A greeting and a batch are some 1000 and 300 bytes of requests, some 50 and 30 bytes of answers.
  switch (random() % 4) {
    case 0:
      return 0;
    case 1:
      return random() % 60;
    case 2:
      return random() % (direction == Direction::requests ? 600 : 120);
    default:
      return random() % (direction == Direction::requests ? 4000 : 400);
  }
}

FaultStep random_step(Random& random) {
  FaultStep step;
  step.direction = static_cast<Direction>(random() % 2);
  step.bytes = random_bytes(random, step.direction);
  step.kind = static_cast<FaultKind>(random() % fault_kinds);
  switch (step.kind) {
    case FaultKind::delay:
      step.time = std::chrono::microseconds{random() % 20'000};
      break;
    case FaultKind::drip:
      step.time = std::chrono::microseconds{100 + random() % 2'000};
      step.drips = 1 + random() % 20;
      break;
    case FaultKind::late:
    case FaultKind::replay:
      step.time = std::chrono::microseconds{random() % late_us};
      break;
    default:
      break;
  }
  return step;
}

}  // namespace

FaultSchedule random_faults(std::uint64_t seed, std::size_t connection) {
  std::seed_seq both{seed, seed >> 32, std::uint64_t{connection}};
  Random random(both);
  FaultSchedule schedule;
  for (std::uint64_t steps = random() % 5; steps > 0; --steps) schedule.push_back(random_step(random));
  return schedule;
}

}  // namespace weir
