// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The command line of weir-replay.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace weir::replay {

/// Exit statuses of the program.
inline constexpr int exit_good = 0;
inline constexpr int exit_failure = 1;  ///< the input is broken, or something could not be read or written
inline constexpr int exit_usage = 2;    ///< the command line or the configuration is wrong

struct Options {
  std::string config;       ///< path; empty with rules_free
  std::string capture;      ///< path, "-" for the standard input; empty with a list
  std::string list;         ///< path of a list of requests, "-" for the standard input; empty with a capture
  std::string rule;         ///< the rule a list is put to
  std::string requests;     ///< path of the table of requests; empty: none, or a list's to standard output
  std::size_t top = 20;     ///< keys in the summary
  bool rules_free = false;  ///< classify only
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

}  // namespace weir::replay
