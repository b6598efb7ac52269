// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A worker that does everything itself, from the receive queue to the transmit queue (run to completion).
#pragma once

#include <atomic>
#include <span>

#include "filter/burst_filter.h"
#include "filter/counters.h"
#include "filter/queue_plan.h"
#include "weir/throttle.h"
#include "weir/time.h"

namespace weir::filter {

/// What one worker's thread needs. The main thread builds it and waits for the thread before taking it apart.
struct WorkerSeat {
  Worker& worker;
  BurstFilter& filter;
  Counters& counters;
  std::span<const QueueSet> sets;  ///< to poll; unused in software distribution
  Duration idle_sleep{};
  const std::atomic<bool>& stop;  ///< written by the main thread
};

/// Polls until told to stop; what was received by then has been sent or counted. Leaves the worker offline.
void run_to_completion(const WorkerSeat& seat) noexcept;

}  // namespace weir::filter
