// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "command-line/whole_number.h"

namespace weir::replay {

OptionsResult read_options(std::vector<std::string> arguments) {
  OptionsResult result;
  Options& options = result.options;
  CLI::App app(
      "Plays a capture, or a list of requests, through the classification and the engine of weir, in its own "
      "time, as\n"
      "one node with counters of its own ([store] of the configuration is not used), and tells what would "
      "have "
      "been limited.",
      "weir-replay");
  app.footer(
      "Captures: pcap and pcapng; Ethernet, raw IP, Linux cooked and BSD loopback.\n"
      "Lists: CSV with the header time_ms,key or time_ms,key,weight.\n"
      "Exit status: 0 good, 1 broken input or failed file, 2 wrong command line or configuration.");
  app.add_option("-c,--config", options.config, "configuration file (TOML)")->type_name("FILE");
  CLI::Option* const capture =
      app.add_option("--pcap", options.capture, "capture to play; '-' reads the standard input")
          ->type_name("FILE");
  CLI::Option* const list =
      app.add_option("--csv", options.list,
                     "list of requests to put to one rule; '-' reads the standard input")
          ->type_name("FILE")
          ->excludes(capture);
  CLI::Option* const rule =
      app.add_option("--rule", options.rule, "name of the rule for --csv")->type_name("NAME")->needs(list);
  app.add_option(
         "--requests", options.requests,
         "write one tab-separated line per request here; with --csv the default is the standard output")
      ->type_name("FILE");
  app.add_option("--top", options.top, "how many keys the summary of a capture shows")
      ->type_name("N")
      ->transform(command_line::whole_number())
      ->capture_default_str()
      ->excludes(list);
  CLI::Option* const free = app.add_flag("--rules-free", options.rules_free,
                                         "find the requests without any rule; --config is not read");
  list->needs(rule)->excludes(free);
  app.set_version_flag("--version", "weir-replay " WEIR_VERSION);

  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    app.parse(arguments);
    if (options.capture.empty() && options.list.empty()) throw CLI::RequiredError("--pcap or --csv");
    if (options.requests == "-" && options.list.empty())
      throw CLI::ValidationError("--requests",
                                 "the standard output has the summary of a capture; name a file");
    if (options.config.empty() && !options.list.empty()) throw CLI::RequiredError("--config");
    if (options.config.empty() && !options.rules_free) throw CLI::RequiredError("--config or --rules-free");
  } catch (const CLI::Success& success) {
    result.exit = exit_good;
    const bool version = success.get_name() == "CallForVersion";
    result.output = version ? std::string(success.what()) + "\n" : app.help();
  } catch (const CLI::ParseError& error) {
    result.exit = exit_usage;
    result.error =
        "weir-replay: " + std::string(error.what()) + "\nRun 'weir-replay --help' for the options.\n";
  }
  return result;
}

}  // namespace weir::replay
