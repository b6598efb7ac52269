// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// WEIR_FLATTEN: of a function whose calls shall all be put into it, as far down as there are definitions.
///
/// Under a sanitizer it asks for nothing: there each variable of what is put in is looked after, and GCC 12
/// takes more than two minutes for one file, where it takes seconds without.
#pragma once

#include "base/sanitized.h"

#if WEIR_SANITIZED
#define WEIR_FLATTEN
#else
#define WEIR_FLATTEN [[gnu::flatten]]
#endif
