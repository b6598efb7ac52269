// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Rules that no request ever comes to. The library takes them: whoever makes keys himself
/// (Worker::admit_key()) may ask under any rule. Here all that is decided are requests. Any thread.
#pragma once

#include <span>
#include <string>

#include "weir/rule.h"

namespace weir::filter {

/// Which rule could never apply, and why: the first one behind as many rules without a match as a request may
/// have. Empty: each may.
std::string out_of_reach(std::span<const Rule> rules);

}  // namespace weir::filter
