// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What people read, and what programs read.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "gates.h"
#include "scenario.h"
#include "simulation.h"

namespace weir::sim {

/// One run with its verdict.
struct Report {
  RunResult run;
  std::vector<GateResult> gates;
};

/// Whether every gate of every run was kept.
bool all_good(const std::vector<Report>& reports) noexcept;

/// The gates that none of the runs came to: with the rule that they are about, and the algorithm that they
/// want.
std::vector<Gate> gates_not_applied(const Scenario& scenario, const std::vector<Report>& reports);

/// A table of intervals (the first `rows` of each run; those of the hottest key), the summaries beside one
/// another, the gates.
std::string text_report(const Scenario& scenario, const std::vector<Report>& reports, std::size_t rows);

/// One JSON document: "intervals" (per run, rule, key), "summary" (of the first run), "summaries" (by
/// algorithm), "gates", "gates_not_applied".
std::string json_report(const Scenario& scenario, const std::vector<Report>& reports);

}  // namespace weir::sim
