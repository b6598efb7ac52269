// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Numbers on the programs' command lines.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace weir::command_line {

/// For Option::transform(): takes decimal digits and nothing else, of a number up to `most`. CLI11 by itself
/// makes large numbers of negative ones, the largest of those that do not fit, and 0 of an empty text.
CLI::Validator whole_number(std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

}  // namespace weir::command_line
