// SPDX-License-Identifier: BSD-3-Clause
// weir-replay: what would weir have done with a capture?
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture.h"
#include "options.h"
#include "replay.h"
#include "request_table.h"
#include "summary.h"
#include "weir/config.h"
#include "weir/throttle.h"

namespace weir::replay {
namespace {

/// Any fixed value: replays must repeat.
constexpr std::uint64_t hash_seed = 1;

void complain(const std::string& what) { std::fprintf(stderr, "weir-replay: %s\n", what.c_str()); }

std::unique_ptr<Throttle> make_throttle(const std::string& path) {
  ConfigResult read = load_config(path);
  for (const ConfigError& error : read.errors) complain(error.to_string());
  if (!read) return nullptr;
  read.config.store = StoreConfig{};  // one node alone, with counters in its own memory
  ThrottleOptions options;
  options.hash_seed = hash_seed;
  ThrottleResult made = Throttle::create(read.config, options);
  if (!made) complain(path + ": " + made.error);
  return std::move(made.throttle);
}

int run(const Options& options) {
  std::unique_ptr<Throttle> throttle;
  if (!options.rules_free) {
    throttle = make_throttle(options.config);
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
  return status;
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
