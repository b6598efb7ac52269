// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which symbols the shared library shows.
#pragma once

/// A function or class of the public face; everything else stays hidden in the shared library.
#define WEIR_API __attribute__((visibility("default")))
