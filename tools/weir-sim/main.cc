// SPDX-License-Identifier: BSD-3-Clause
// weir-sim: how well would the nodes of a scenario keep their limit?
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "command-line/written_file.h"
#include "options.h"
#include "plot.h"
#include "report.h"
#include "scenario_reader.h"
#include "simulation.h"

namespace weir::sim {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

void complain(const std::string& what) { std::fprintf(stderr, "weir-sim: %s\n", what.c_str()); }

bool write_file(const std::string& path, const std::string& text) {
  std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "wbe"));
  if (file == nullptr || std::fwrite(text.data(), 1, text.size(), file.get()) != text.size()) return false;
  return std::fclose(file.release()) == 0;
}

int too_large() {
  complain("there is not enough memory for the nodes, keys and intervals of this scenario");
  return exit_usage;
}

int run(const Options& options) {
  const ScenarioResult read = load_scenario(options.scenario, options.overrides);
  for (const ConfigError& error : read.errors) complain(error.to_string());
  if (!read) {
    if (!options.overrides.settings.empty())
      complain("places of values given by --set are those in their own text");
    return exit_usage;
  }
  const Scenario& scenario = read.scenario;
  for (const std::string& input : {options.scenario, scenario.recording}) {
    if (options.plot.empty() || input.empty() || !command_line::writes_over(input, options.plot)) continue;
    complain("--plot would write over " + input);
    return exit_usage;
  }

  std::vector<Report> reports;
  const auto add = [&](const std::vector<Rule>& rules) {
    Report& report = reports.emplace_back(Report{simulate(scenario, rules), {}});
    report.gates = check_gates(scenario, report.run);
  };
  if (scenario.algorithms.empty()) add(scenario.rules);
  std::vector<ConfigError> none;  // the reader has seen them
  for (const Algorithm algorithm : scenario.algorithms) add(with_algorithm(scenario.rules, algorithm, none));

  int status = all_good(reports) ? exit_good : exit_failure;
  const std::string text =
      options.json ? json_report(scenario, reports) : text_report(scenario, reports, options.rows);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    complain("the report could not be written");
    status = exit_failure;
  }
  if (!options.plot.empty() && !write_file(options.plot, plot(scenario, reports))) {
    complain(options.plot + ": the plot could not be written");
    status = exit_failure;
  }
  return status;
}

}  // namespace
}  // namespace weir::sim

int main(int argc, char** argv) try {
  using namespace weir::sim;
  const OptionsResult read = read_options(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  std::fputs(read.output.c_str(), stdout);
  std::fputs(read.error.c_str(), stderr);
  return read.exit ? *read.exit : run(read.options);
} catch (const std::bad_alloc&) {
  return weir::sim::too_large();
} catch (const std::length_error&) {
  return weir::sim::too_large();
} catch (const std::exception& error) {
  std::fprintf(stderr, "weir-sim: %s\n", error.what());
  return weir::sim::exit_failure;
}
