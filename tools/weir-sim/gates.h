// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Whether a run has kept what its scenario expects.
#pragma once

#include <string>
#include <vector>

#include "scenario.h"
#include "simulation.h"

namespace weir::sim {

struct GateResult {
  Gate gate;  ///< with the rule it was held against
  double value = 0;
  bool good = false;
};

/// The gates that apply to a run under `algorithm`, in the scenario's order. A figure that was not measured
/// fails.
std::vector<GateResult> check_gates(const Scenario& scenario, const RunResult& run);

/// "cooldown", or "mixed" where a run's rules differ.
std::string algorithm_of(const RunResult& run);

}  // namespace weir::sim
