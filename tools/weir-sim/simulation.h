// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One run: the nodes of a scenario, in virtual time, under one set of rules.
///
/// What runs is the production code: one NodeCore per node, its workers, its controller, its outbox. What is
/// simulated is the world: time, requests, the network, the server, and the processes' coming and going. The
/// world is one queue of events; a request that comes at the moment of an event comes after it. Workers are
/// taken to pass between two steps of their controller at once, as bursts of microseconds do against spans of
/// milliseconds.
#pragma once

#include <cstdint>
#include <vector>

#include "meter.h"
#include "metrics.h"
#include "scenario.h"

namespace weir::sim {

/// What a run has shown.
struct RunResult {
  std::vector<Rule> rules;
  std::vector<Meter> meters;       ///< by rule
  std::vector<Summary> summaries;  ///< by rule
};

/// @param scenario  without mistakes
/// @param rules     the scenario's, or what with_algorithm() made of them
RunResult simulate(const Scenario& scenario, const std::vector<Rule>& rules);

}  // namespace weir::sim
