// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <nlohmann/json.hpp>

#include "report.h"

namespace weir::sim {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no word for "not measured" but null. A millionth is more than any figure means.
Json figure(double value) {
  if (!std::isfinite(value)) return nullptr;
  const double rounded = std::round(value * 1e6) / 1e6;
  if (rounded == std::floor(rounded) && std::abs(rounded) < 9e15) return static_cast<std::int64_t>(rounded);
  return rounded;
}

Json summary_of(const Scenario& scenario, const RunResult& run, std::size_t rule) {
  Json json;
  for (const Metric& metric : metrics())
    json[std::string(metric.name)] = figure(run.summaries[rule].*metric.value);
  json["seed"] = scenario.seed;
  json["nodes"] = scenario.nodes;
  json["virtual_s"] = figure(std::chrono::duration<double>(scenario.duration).count());
  return json;
}

std::string key_of(const Scenario& scenario, std::size_t rule, std::size_t key) {
  std::string name;
  std::size_t rest = scenario.keys_of(rule);
  for (const std::size_t space : scenario.spaces_of_rule[rule]) {
    rest /= scenario.keys[space].values.size();
    name += (name.empty() ? "" : "|") + scenario.keys[space].values[key / rest];
    key %= rest;
  }
  return name;
}

void add_intervals(const Scenario& scenario, const RunResult& run, Json& intervals) {
  for (std::size_t rule = 0; rule < run.meters.size(); ++rule) {
    const Meter& meter = run.meters[rule];
    for (std::size_t key = 0; key < meter.keys(); ++key) {
      bool seen = false;
      for (std::size_t i = 0; i < meter.intervals() && !seen; ++i) seen = meter.record(key, i).offered > 0;
      if (!seen) continue;
      for (std::size_t i = 0; i < meter.intervals(); ++i) {
        const IntervalRecord& record = meter.record(key, i);
        const Duration begin = static_cast<std::int64_t>(i) * meter.rule().interval;
        intervals.push_back({{"algorithm", to_string(meter.rule().algorithm)},
                             {"rule", meter.rule().name},
                             {"key", key_of(scenario, rule, key)},
                             {"begin_s", figure(std::chrono::duration<double>(begin).count())},
                             {"limit", meter.rule().limit},
                             {"offered", record.offered},
                             {"admitted", record.admitted}});
      }
    }
  }
}

Json gate_of(const Gate& gate, const std::string& algorithm) {
  return {{"metric", gate.metric},
          {"rule", gate.rule},
          {"algorithm", algorithm},
          {"least", figure(gate.least)},
          {"most", figure(gate.most)}};
}

void add_gates(const Report& report, Json& gates) {
  for (const GateResult& result : report.gates) {
    gates.push_back(gate_of(result.gate, algorithm_of(report.run)));
    gates.back()["measured"] = figure(result.value);
    gates.back()["good"] = result.good;
  }
}

}  // namespace

std::string json_report(const Scenario& scenario, const std::vector<Report>& reports) {
  Json json;
  json["scenario"] = scenario.title;
  json["intervals"] = Json::array();
  json["summary"] = summary_of(scenario, reports.front().run, scenario.measured);
  json["summaries"] = Json::object();
  json["rules"] = Json::array();
  json["gates"] = Json::array();
  json["gates_not_applied"] = Json::array();
  for (const Report& report : reports) {
    add_intervals(scenario, report.run, json["intervals"]);
    json["summaries"][algorithm_of(report.run)] = summary_of(scenario, report.run, scenario.measured);
    for (std::size_t rule = 0; rule < report.run.rules.size(); ++rule)
      json["rules"].push_back({{"rule", report.run.rules[rule].name},
                               {"algorithm", to_string(report.run.rules[rule].algorithm)},
                               {"summary", summary_of(scenario, report.run, rule)}});
    add_gates(report, json["gates"]);
  }
  for (const Gate& gate : gates_not_applied(scenario, reports))
    json["gates_not_applied"].push_back(gate_of(gate, gate.algorithm));
  json["good"] = all_good(reports);
  // Headers' values come from scenarios and recordings, which may hold any bytes.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weir::sim
