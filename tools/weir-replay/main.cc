// SPDX-License-Identifier: BSD-3-Clause
// weir-replay: what would weir have done with a capture, or with a list of requests?
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture.h"
#include "command-line/written_file.h"
#include "csv_file.h"
#include "decision_table.h"
#include "options.h"
#include "replay.h"
#include "request_table.h"
#include "rule_replay.h"
#include "summary.h"
#include "weir/config.h"
#include "weir/throttle.h"

namespace weir::replay {
namespace {

/// Any fixed value: replays must repeat.
constexpr std::uint64_t hash_seed = 1;

void complain(const std::string& what) { std::fprintf(stderr, "weir-replay: %s\n", what.c_str()); }

void complain_of_overflow(std::uint64_t requests) {
  complain(std::to_string(requests) +
           " requests found no room for their keys and may have been limited together with others: raise "
           "[node] keys");
}

/// The configuration with counters of this process's own; nothing, and complaints, when it is wrong.
std::optional<Config> read_config(const std::string& path) {
  ConfigResult read = load_config(path);
  for (const ConfigError& error : read.errors) complain(error.to_string());
  if (!read) return std::nullopt;
  read.config.store = StoreConfig{};
  return std::move(read.config);
}

std::unique_ptr<Throttle> make_throttle(const Config& config, const std::string& path) {
  ThrottleOptions options;
  options.hash_seed = hash_seed;
  ThrottleResult made = Throttle::create(config, options);
  if (!made) complain(path + ": " + made.error);
  return std::move(made.throttle);
}

/// Leaves only the rule of that name, and lets it say what it would refuse.
bool choose_rule(Config& config, const std::string& name, const std::string& path) {
  std::string known;
  for (const Rule& rule : config.rules) {
    if (rule.name == name) {
      Rule chosen = rule;
      if (chosen.action == Action::observe) chosen.action = Action::drop;
      config.rules = {std::move(chosen)};
      return true;
    }
    known += (known.empty() ? "" : ", ") + rule.name;
  }
  complain(path + ": there is no rule '" + name + "'; " +
           (known.empty() ? "there are no rules at all" : "there are: " + known));
  return false;
}

int run_list(const Options& options) {
  std::optional<Config> config = read_config(options.config);
  if (!config || !choose_rule(*config, options.rule, options.config)) return exit_usage;
  std::unique_ptr<Throttle> throttle = make_throttle(*config, options.config);
  if (throttle == nullptr) return exit_usage;
  CsvFile list;
  if (const std::string wrong = list.open(options.list); !wrong.empty()) {
    complain(wrong);
    return exit_failure;
  }
  RuleReplay replay(std::move(throttle));
  DecisionTable table;
  const std::string to = options.requests.empty() ? "-" : options.requests;
  if (const std::string wrong = table.open(to, replay.rule().weight); !wrong.empty()) {
    complain(wrong);
    return exit_failure;
  }
  for (CsvRequest request; list.next(request);)
    table.add(request, replay.decide(request.time, request.key, request.weight));

  int status = exit_good;
  if (const std::string wrong = table.close(); !wrong.empty()) {
    complain(wrong);
    status = exit_failure;
  }
  if (!list.error().empty()) {
    complain(list.error() + "; the decisions cover what stands before it");
    status = exit_failure;
  }
  if (const std::uint64_t requests = replay.overflowed(); requests != 0) {
    complain_of_overflow(requests);
    status = exit_failure;
  }
  return status;
}

int run_capture(const Options& options) {
  std::unique_ptr<Throttle> throttle;
  if (!options.rules_free) {
    const std::optional<Config> config = read_config(options.config);
    if (config) throttle = make_throttle(*config, options.config);
    if (throttle == nullptr) return exit_usage;
  }
  Capture capture;
  if (const std::string wrong = capture.open(options.capture); !wrong.empty()) {
    complain(wrong);
    return exit_failure;
  }
  RequestTable table;
  const bool wants_table = !options.requests.empty();
  if (wants_table) {
    if (const std::string wrong = table.open(options.requests); !wrong.empty()) {
      complain(wrong);
      return exit_failure;
    }
  }

  Replay replay(std::move(throttle), [&](const Outcome& outcome) {
    if (wants_table) table.add(outcome);
  });
  while (const std::optional<Packet> packet = capture.next()) replay.play(*packet);

  int status = exit_good;
  const std::string text = summary(replay, options.top);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    complain("the summary could not be written");
    status = exit_failure;
  }
  if (wants_table) {
    if (const std::string wrong = table.close(); !wrong.empty()) {
      complain(wrong);
      status = exit_failure;
    }
  }
  if (!capture.error().empty()) {
    complain(capture.error() + "; the summary covers what stands before it");
    status = exit_failure;
  }
  // No failure: who captured a flood of keys sees what a node of this size does with them.
  if (const std::uint64_t requests = replay.overflowed(); requests != 0) complain_of_overflow(requests);
  return status;
}

int run(const Options& options) {
  const bool to_file = !options.requests.empty() && options.requests != "-";
  for (const std::string& read : {options.config, options.capture, options.list}) {
    if (!to_file || read.empty() || !command_line::writes_over(read, options.requests)) continue;
    complain("--requests would write over " + (read == "-" ? "the standard input" : read));
    return exit_usage;
  }
  return options.list.empty() ? run_capture(options) : run_list(options);
}

}  // namespace
}  // namespace weir::replay

int main(int argc, char** argv) try {
  using namespace weir::replay;
  const OptionsResult read = read_options(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  std::fputs(read.output.c_str(), stdout);
  std::fputs(read.error.c_str(), stderr);
  return read.exit ? *read.exit : run(read.options);
} catch (const std::exception& error) {
  std::fprintf(stderr, "weir-replay: %s\n", error.what());
  return weir::replay::exit_failure;
}
