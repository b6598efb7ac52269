// SPDX-License-Identifier: BSD-3-Clause
#include "filter/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <string_view>

namespace weir::filter {
namespace {

constexpr double shortest_seconds = 0.001;
constexpr double longest_seconds = 1e9;

}  // namespace

OptionsResult read_options(std::span<const char* const> arguments) {
  OptionsResult result;
  const auto separator = std::ranges::find(arguments, std::string_view{"--"});
  const bool separated = separator != arguments.end();
  const auto own_begin = separated ? separator + 1 : arguments.begin() + (arguments.empty() ? 0 : 1);

  if (arguments.empty())
    result.options.eal.emplace_back("weir-filter");
  else if (separated)
    result.options.eal.assign(arguments.begin(), separator);
  else
    result.options.eal.assign(arguments.begin(), arguments.begin() + 1);
  // CLI11 wants the arguments in reverse.
  std::vector<std::string> own(own_begin, arguments.end());
  std::ranges::reverse(own);

  CLI::App app(
      "Limits HTTP requests on the wire between pairs of DPDK ports. What a request may do is decided by the "
      "rules of\n"
      "the configuration; everything that is not a refused request passes untouched and in order.",
      "weir-filter [EAL options] --");
  app.footer(
      "EAL options are DPDK's own (weir-filter --help shows none of them; see dpdk-testpmd --help). Two "
      "cores are\n"
      "usual: '-l 0,1' runs statistics and control on core 0 and one worker on core 1; each further core is "
      "a worker.\n"
      "Exit status: 0 good, 1 failure of DPDK, a port, memory or a thread, 2 wrong command line or "
      "configuration.");
  double seconds = 0;
  app.add_option("--config", result.options.config, "configuration file (TOML)")
      ->type_name("FILE")
      ->required();
  app.add_flag("--live", result.options.live, "redraw a table of the rules every second");
  CLI::Option* const duration =
      app.add_option("--duration", seconds,
                     "stop after this long; default: run until SIGINT, SIGTERM or SIGHUP")
          ->type_name("SECONDS");
  app.add_flag("--check", result.options.check, "validate the configuration, say what it does, and exit");
  app.set_version_flag("--version", "weir-filter " WEIR_VERSION);

  try {
    app.parse(own);
    // Written so that "nan" fails too.
    if (duration->count() != 0 && !(seconds >= shortest_seconds && seconds <= longest_seconds))
      throw CLI::ValidationError("--duration", "not between 0.001 and 1000000000 seconds");
  } catch (const CLI::Success& success) {
    result.exit = exit_good;
    const bool version = success.get_name() == "CallForVersion";
    result.output = version ? std::string(success.what()) + "\n" : app.help();
  } catch (const CLI::ParseError& error) {
    result.exit = exit_usage;
    result.error = std::string(error.what()) + "\n";
    if (!separated && error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError))
      result.error += "EAL options go before '--': weir-filter [EAL options] -- --config FILE\n";
    result.error += "Run 'weir-filter --help' for the options.\n";
  }
  result.options.duration = Duration{std::llround(seconds * 1e9)};
  return result;
}

}  // namespace weir::filter
