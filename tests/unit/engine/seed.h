// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Where the randomness of a test comes from.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace weir::testing {

/// WEIR_TEST_SEED of the environment, else always the same. Whoever uses it prints it.
inline std::uint64_t test_seed() {
  const char* const given = std::getenv("WEIR_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

}  // namespace weir::testing
