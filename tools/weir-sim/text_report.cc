// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "config/durations.h"
#include "report.h"

namespace weir::sim {
namespace {

/// Columns as wide as their widest cell: the first one to the left, the others to the right.
class Table {
 public:
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  std::string text() const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()));
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string padding(widths[i] - row[i].size(), ' ');
        if (i == 0)
          text += i + 1 == row.size() ? row[i] : row[i] + padding;
        else
          text += "  " + padding + row[i];
      }
      text += '\n';
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string number(double value, int decimals) {
  if (std::isnan(value)) return "-";
  // A small negative error must not read "-0.00".
  if (std::abs(value) < 0.5 * std::pow(10, -decimals)) value = 0;
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

int decimals_of(const std::string& metric) {
  const auto found = std::ranges::find(metrics(), metric, &Metric::name);
  return found == metrics().end() ? 3 : found->decimals;
}

/// A gate's end: as short as it can be written.
std::string bound(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

std::string heading(const Scenario& scenario, const std::vector<Report>& reports) {
  std::string text = scenario.title + "\n";
  text += "seed " + std::to_string(scenario.seed) + ", " + std::to_string(scenario.nodes) +
          (scenario.nodes == 1 ? " node" : " nodes") + " with " + std::to_string(scenario.cores) +
          (scenario.cores == 1 ? " core" : " cores each") + ", " + format_duration(scenario.duration) +
          " of virtual time, the first " + format_duration(scenario.settle) + " not in the steady state\n";
  for (std::size_t i = 0; i < reports.front().run.rules.size(); ++i) {
    const Rule& rule = reports.front().run.rules[i];
    text += "rule " + rule.name + ": " + std::to_string(rule.limit) + " per " +
            format_duration(rule.interval) + " in " + std::to_string(rule.spans) + " spans, " +
            std::to_string(scenario.keys_of(i)) + (scenario.keys_of(i) == 1 ? " key" : " keys") +
            (i == scenario.measured ? ", measured" : "") + "\n";
  }
  return text;
}

std::string intervals(const Scenario& scenario, const std::vector<Report>& reports, std::size_t rows) {
  const Meter& first = reports.front().run.meters[scenario.measured];
  const std::size_t shown = std::min(rows, first.intervals());
  if (shown == 0) return {};
  Table table;
  std::vector<std::string> header{"interval", "limit", "offered"};
  for (const Report& report : reports) header.push_back(algorithm_of(report.run));
  table.add(std::move(header));
  for (std::size_t i = 0; i < shown; ++i) {
    const Duration begin = static_cast<std::int64_t>(i) * first.rule().interval;
    std::vector<std::string> row{format_duration(begin), std::to_string(first.rule().limit),
                                 std::to_string(first.record(0, i).offered)};
    for (const Report& report : reports)
      row.push_back(std::to_string(report.run.meters[scenario.measured].record(0, i).admitted));
    table.add(std::move(row));
  }
  std::string text = "admitted per interval, rule " + first.rule().name;
  if (first.keys() > 1) text += ", its first key";
  text += "\n" + table.text();
  if (shown < first.intervals())
    text += "... and " + std::to_string(first.intervals() - shown) + " intervals more\n";
  return text + "\n";
}

std::string summaries(const std::vector<Report>& reports) {
  std::string text;
  for (std::size_t rule = 0; rule < reports.front().run.rules.size(); ++rule) {
    Table table;
    std::vector<std::string> header{"summary of rule " + reports.front().run.rules[rule].name};
    for (const Report& report : reports) header.emplace_back(to_string(report.run.rules[rule].algorithm));
    table.add(std::move(header));
    for (const Metric& metric : metrics()) {
      std::vector<std::string> row{std::string(metric.name)};
      for (const Report& report : reports)
        row.push_back(number(report.run.summaries[rule].*metric.value, metric.decimals));
      table.add(std::move(row));
    }
    text += table.text() + "\n";
  }
  return text;
}

std::string gates(const Scenario& scenario, const std::vector<Report>& reports) {
  if (scenario.gates.empty()) return "no gates: the scenario has no [expect]\n";
  Table table;
  table.add({"gate", "rule", "algorithm", "least", "most", "measured", ""});
  for (const Report& report : reports) {
    for (const GateResult& result : report.gates) {
      const int decimals = decimals_of(result.gate.metric);
      table.add({result.gate.metric, result.gate.rule, algorithm_of(report.run), bound(result.gate.least),
                 bound(result.gate.most), number(result.value, decimals), result.good ? "ok" : "FAILED"});
    }
  }
  for (const Gate& gate : gates_not_applied(scenario, reports))
    table.add(
        {gate.metric, gate.rule, gate.algorithm, bound(gate.least), bound(gate.most), "-", "not applied"});
  return table.text();
}

}  // namespace

bool all_good(const std::vector<Report>& reports) noexcept {
  return std::ranges::all_of(
      reports, [](const Report& report) { return std::ranges::all_of(report.gates, &GateResult::good); });
}

std::vector<Gate> gates_not_applied(const Scenario& scenario, const std::vector<Report>& reports) {
  std::vector<Gate> gates;
  for (const Gate& gate : scenario.gates) {
    const std::size_t rule = rule_of(scenario, gate);
    const auto applies = [&](const Report& report) {
      return comes_to(gate, report.run.rules[rule].algorithm);
    };
    if (std::ranges::any_of(reports, applies)) continue;
    gates.push_back(gate);
    gates.back().rule = scenario.rules[rule].name;
    if (gate.algorithm.empty()) gates.back().algorithm = to_string(Algorithm::cooldown);
  }
  return gates;
}

std::string text_report(const Scenario& scenario, const std::vector<Report>& reports, std::size_t rows) {
  return heading(scenario, reports) + "\n" + intervals(scenario, reports, rows) + summaries(reports) +
         gates(scenario, reports);
}

}  // namespace weir::sim
