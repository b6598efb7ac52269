// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What goes together in one rule: the keys that only some algorithms know, and the values they cannot bear.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "config/findings.h"
#include "weir/rule.h"

namespace weir {

/// The keys that mean nothing at all outside of some algorithms, whatever their value.
inline constexpr std::array<std::string_view, 6> keys_of_some_algorithms{"cooldown", "dephase", "local_rule",
                                                                         "burst",    "warmup",  "hold_back"};

/// Why a rule of this algorithm cannot have the key, and what to do; empty: it can.
/// @param key  one of keys_of_some_algorithms
std::string foreign_key(std::string_view key, Algorithm algorithm);

/// Adds what does not go together in the values of the rule known as `path`. A value that is its field's
/// default counts as not given, and so does any cooldown, because a rule's default follows its interval.
void check_combinations(const std::string& path, const Rule& rule, Findings& findings);

}  // namespace weir
