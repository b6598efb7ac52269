// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Whether tests run under a sanitizer. It looks for faults of memory, takes ten to thirty times as long, and
/// finds as much in a few of many like cases: the others are for the build without one.
#pragma once

namespace weir::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace weir::testing
