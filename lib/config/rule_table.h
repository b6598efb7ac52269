// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One `[[rule]]`.
#pragma once

#include <cstddef>

#include "config/toml_table.h"
#include "weir/rule.h"

namespace weir {

/// Reads rule number `index`. Mistakes in form are added here, those in values are left to check_values().
Rule read_rule(const toml::table& table, std::size_t index, Findings& findings);

}  // namespace weir
