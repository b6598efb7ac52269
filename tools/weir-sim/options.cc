// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "command-line/whole_number.h"

namespace weir::sim {

OptionsResult read_options(std::vector<std::string> arguments) {
  OptionsResult result;
  Options& options = result.options;
  CLI::App app(
      "Runs the nodes of a scenario in virtual time, with the engine, the workers and the store client that "
      "run in\n"
      "production, and tells how well the limit was kept. The same scenario and seed give the same bytes.",
      "weir-sim");
  app.footer(
      "Exit status: 0 good, 1 a gate of the scenario failed or a file could not be written, 2 wrong command "
      "line\n"
      "or scenario, or no memory for it.");
  app.add_option("scenario", options.scenario, "scenario file (TOML)")->type_name("SCENARIO")->required();
  app.add_option("--seed", options.overrides.seed, "seed, instead of the scenario's")
      ->type_name("N")
      ->transform(command_line::whole_number());
  app.add_flag("--json", options.json, "JSON instead of text");
  app.add_option("--plot", options.plot, "draw offered, admitted and limit over time into this SVG file")
      ->type_name("FILE");
  // One value each: what follows must not be swallowed.
  app.add_option("--algorithm", options.overrides.algorithms,
                 "run all rules under this algorithm; may be repeated")
      ->type_name("NAME")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--set", options.overrides.settings,
                 "change a value of the scenario, such as nodes.count=64 or rule.limit=5; may be repeated")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--rows", options.rows, "how many intervals the text shows")
      ->type_name("N")
      ->transform(command_line::whole_number())
      ->capture_default_str();
  app.set_version_flag("--version", "weir-sim " WEIR_VERSION);

  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    app.parse(arguments);
  } catch (const CLI::Success& success) {
    result.exit = exit_good;
    const bool version = success.get_name() == "CallForVersion";
    result.output = version ? std::string(success.what()) + "\n" : app.help();
  } catch (const CLI::ParseError& error) {
    result.exit = exit_usage;
    result.error = "weir-sim: " + std::string(error.what()) + "\nRun 'weir-sim --help' for the options.\n";
  }
  return result;
}

}  // namespace weir::sim
