// SPDX-License-Identifier: BSD-3-Clause
#include "program.h"

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <utility>

namespace weir::bench {

Program::Program(std::string name, const std::string& describe, Effort effort)
    : name_(std::move(name)), effort_(effort), app_(describe) {
  app_.add_option("--rounds", effort_.rounds, "turns of each contender")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app_.add_option("--seconds", effort_.seconds, "of each turn")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  app_.add_option("--seed", effort_.seed, "of the order of turns")->capture_default_str();
}

int Program::run(int argc, char** argv, const std::function<Result()>& measure) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_.exit(error) == 0 ? 0 : 2;
  }
  try {
    std::printf("%s\n", measure().dump(1).c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name_.c_str(), error.what());
    return 1;
  }
  return 0;
}

std::string user_name(std::size_t key) { return "user-" + std::to_string(key); }

std::vector<std::string> user_names(std::size_t keys) {
  std::vector<std::string> names(keys);
  for (std::size_t i = 0; i < keys; ++i) names[i] = user_name(i);
  return names;
}

std::unique_ptr<Throttle> make_throttle(std::string_view rules, std::size_t keys, unsigned workers) {
  constexpr std::size_t fewest = 1024;
  ConfigResult parsed = parse_config(rules, "bench");
  if (!parsed) throw std::runtime_error(parsed.errors.front().to_string());
  parsed.config.node.keys = static_cast<std::uint32_t>(std::max(keys, fewest));
  ThrottleResult made = Throttle::create(parsed.config, {.workers = workers, .hash_seed = 1, .log = {}});
  if (!made) throw std::runtime_error(made.error);
  return std::move(made.throttle);
}

}  // namespace weir::bench
