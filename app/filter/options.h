// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The command line: `weir-filter [EAL options] -- [options]`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weir/time.h"

namespace weir::filter {

/// Exit statuses of the program.
inline constexpr int exit_good = 0;
inline constexpr int exit_failure = 1;  ///< DPDK, a port, memory or a thread failed
inline constexpr int exit_usage = 2;    ///< the command line or the configuration is wrong

struct Options {
  std::vector<std::string> eal;  ///< the program's name and what stands before "--"
  std::string config;            ///< path
  bool live = false;             ///< a table instead of statistics lines
  bool check = false;            ///< only validate the configuration
  Duration duration{};           ///< stop after this long; 0: run on
};

/// What to do with a command line: go on with `options`, or print something and exit.
struct OptionsResult {
  Options options;
  std::optional<int> exit;  ///< set: leave with this status after printing
  std::string output;       ///< for stdout (help, version)
  std::string error;        ///< for stderr
};

/// Reads a command line. Without "--" there are no EAL options and everything is the program's own.
OptionsResult read_options(std::span<const char* const> arguments);

}  // namespace weir::filter
