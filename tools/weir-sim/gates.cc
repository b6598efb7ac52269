// SPDX-License-Identifier: BSD-3-Clause
#include "gates.h"

#include <algorithm>

namespace weir::sim {
namespace {

double value_of(const Summary& summary, const std::string& name) {
  const auto found = std::ranges::find(metrics(), name, &Metric::name);
  return found == metrics().end() ? not_measured : summary.*found->value;
}

}  // namespace

std::size_t rule_of(const Scenario& scenario, const Gate& gate) {
  if (gate.rule.empty()) return scenario.measured;
  return static_cast<std::size_t>(std::ranges::find(scenario.rules, gate.rule, &Rule::name) -
                                  scenario.rules.begin());
}

bool comes_to(const Gate& gate, Algorithm algorithm) {
  // The bound is cooldown's; under other algorithms there is nothing to hold against it.
  if (gate.metric.starts_with("cooldown_") && algorithm != Algorithm::cooldown) return false;
  return gate.algorithm.empty() || gate.algorithm == to_string(algorithm);
}

std::vector<GateResult> check_gates(const Scenario& scenario, const RunResult& run) {
  std::vector<GateResult> results;
  for (const Gate& gate : scenario.gates) {
    const std::size_t rule = rule_of(scenario, gate);
    if (!comes_to(gate, run.rules[rule].algorithm)) continue;
    // What is said for one algorithm goes before what is said for all.
    const auto more_special = [&](const Gate& other) {
      return other.metric == gate.metric && other.rule == gate.rule &&
             other.algorithm == to_string(run.rules[rule].algorithm);
    };
    if (gate.algorithm.empty() && std::ranges::any_of(scenario.gates, more_special)) continue;
    GateResult result{gate, value_of(run.summaries[rule], gate.metric), false};
    result.gate.rule = run.rules[rule].name;
    result.good = result.value >= gate.least && result.value <= gate.most;
    results.push_back(std::move(result));
  }
  return results;
}

std::string algorithm_of(const RunResult& run) {
  const Algorithm first = run.rules.front().algorithm;
  const bool same = std::ranges::all_of(run.rules, [&](const Rule& rule) { return rule.algorithm == first; });
  return same ? std::string(to_string(first)) : "mixed";
}

}  // namespace weir::sim
