// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What benchmarks have in common that are programs of their own: a command line, turns in random order, and
/// one JSON document on standard output. Beside it, what they run: a node under rules as text, and the keys'
/// names.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "weir/throttle.h"
#include "weir/time.h"

namespace weir::bench {

using Result = nlohmann::json;
using Seconds = std::chrono::duration<double>;

/// How much is measured. What a program begins with are its defaults.
struct Effort {
  unsigned rounds = 5;     ///< turns of each contender
  double seconds = 0.5;    ///< of each turn
  std::uint64_t seed = 1;  ///< of the order of turns

  Duration time() const { return std::chrono::duration_cast<Duration>(Seconds(seconds)); }
};

/// A benchmark's main(). Exit status 0, 1 where it failed (and standard error says why), 2 for a mistake on
/// the command line.
class Program {
 public:
  /// @param name      as it stands before complaints
  /// @param describe  for --help
  Program(std::string name, const std::string& describe, Effort effort);

  /// For options of the benchmark's own.
  CLI::App& options() noexcept { return app_; }
  const Effort& effort() const noexcept { return effort_; }
  /// Reads the command line, measures, prints what that returns. What it throws is a failure.
  int run(int argc, char** argv, const std::function<Result()>& measure);

 private:
  std::string name_;
  Effort effort_;
  CLI::App app_;
};

/// Calls act(turn, round) for all turns of one round in random order, then for those of the next: what
/// disturbs the machine for a while then hits all alike.
template <typename Turn, typename Act>
void in_rounds(const Effort& effort, std::vector<Turn> turns, Act&& act) {
  std::mt19937_64 random(effort.seed);
  for (unsigned round = 0; round < effort.rounds; ++round) {
    std::shuffle(turns.begin(), turns.end(), random);
    for (const Turn& turn : turns) act(turn, round);
  }
}

/// "user-17"; at most user_name_size bytes below 10^10.
std::string user_name(std::size_t key);
inline constexpr std::size_t user_name_size = 15;
std::vector<std::string> user_names(std::size_t keys);

/// A node with a fixed seed. Throws where the rules are wrong, and where there is no memory.
/// @param rules    a configuration's text
/// @param keys     to have room for
/// @param workers  1 … 255
std::unique_ptr<Throttle> make_throttle(std::string_view rules, std::size_t keys, unsigned workers);

}  // namespace weir::bench
