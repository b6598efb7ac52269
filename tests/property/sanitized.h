// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Whether tests run under a sanitizer. It looks for faults of memory, takes ten to thirty times as long, and
/// finds as much in a few of many like cases: the others are for the build without one.
#pragma once

#include "base/sanitized.h"

namespace weir::testing {

inline constexpr bool sanitized = WEIR_SANITIZED != 0;

}  // namespace weir::testing
