// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Reads a scenario from TOML, with every mistake named where it stands.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenario.h"
#include "weir/config.h"

namespace weir::sim {

/// What the command line changes in a scenario.
struct Overrides {
  std::optional<std::uint64_t> seed;
  std::vector<std::string> algorithms;  ///< words of the configuration; replaces the scenario's list
  std::vector<std::string> settings;    ///< "nodes.count=64"; "rule.limit=5" sets it in every [[rule]]
};

/// A scenario, or every mistake found in it.
struct ScenarioResult {
  Scenario scenario;                ///< valid only without errors
  std::vector<ConfigError> errors;  ///< in the order of the file

  explicit operator bool() const noexcept { return errors.empty(); }
};

/// @param file  what to call the text in messages; recordings are looked for beside it
ScenarioResult parse_scenario(std::string_view text, const std::string& file, const Overrides& overrides);

/// A file that cannot be read is an error at line 0.
ScenarioResult load_scenario(const std::string& path, const Overrides& overrides);

/// The scenario's rules under another algorithm: what the algorithm cannot use is left out.
/// @param errors  gets what the algorithm cannot bear
std::vector<Rule> with_algorithm(const std::vector<Rule>& rules, Algorithm algorithm,
                                 std::vector<ConfigError>& errors);

}  // namespace weir::sim
