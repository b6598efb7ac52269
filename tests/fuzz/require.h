// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdlib>

/// What must hold for every input; unlike assert() in every kind of build.
inline void require(bool condition) {
  if (!condition) std::abort();
}
