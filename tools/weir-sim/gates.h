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

/// The rule that a gate is about, by its number.
std::size_t rule_of(const Scenario& scenario, const Gate& gate);

/// Whether a run in which the gate's rule has this algorithm comes to the gate.
bool comes_to(const Gate& gate, Algorithm algorithm);

/// The gates that apply to a run under `algorithm`, in the scenario's order. A figure that was not measured
/// fails.
std::vector<GateResult> check_gates(const Scenario& scenario, const RunResult& run);

/// "cooldown", or "mixed" where a run's rules differ.
std::string algorithm_of(const RunResult& run);

}  // namespace weir::sim
