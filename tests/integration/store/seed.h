// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Where the randomness of a test comes from.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace weir {

/// WEIR_TEST_SEED of the environment, else always the same. Whoever uses it prints it.
inline std::uint64_t test_seed() {
  const char* text = std::getenv("WEIR_TEST_SEED");
  return text == nullptr ? 20240611 : std::strtoull(text, nullptr, 10);
}

/// A number of the environment, else `otherwise`.
inline std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace weir
