// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The command line of weir-sim.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "scenario_reader.h"

namespace weir::sim {

/// Exit statuses of the program.
inline constexpr int exit_good = 0;
inline constexpr int exit_failure = 1;  ///< a gate failed, or something could not be written
inline constexpr int exit_usage = 2;    ///< the command line or the scenario is wrong, or too large

struct Options {
  std::string scenario;   ///< path
  Overrides overrides;    ///< --seed, --algorithm, --set
  bool json = false;      ///< JSON on the standard output instead of text
  std::string plot;       ///< path of the SVG; empty: none
  std::size_t rows = 20;  ///< intervals in the text
};

/// What to do with a command line: go on with `options`, or print something and exit.
struct OptionsResult {
  Options options;
  std::optional<int> exit;  ///< set: leave with this status after printing
  std::string output;       ///< for stdout (help, version)
  std::string error;        ///< for stderr
};

/// @param arguments  without the program's name
OptionsResult read_options(std::vector<std::string> arguments);

}  // namespace weir::sim
