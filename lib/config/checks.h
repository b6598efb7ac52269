// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What makes a configuration impossible, whoever put it together.
#pragma once

#include <string>

#include "config/findings.h"
#include "weir/config.h"

namespace weir {

/// The path under which rule number `index` is known to Findings: "rule[3]".
std::string rule_path(std::size_t index);

/// Adds every mistake in the values. Values that are faulty already are not looked at.
void check_values(const Config& config, Findings& findings);

}  // namespace weir
