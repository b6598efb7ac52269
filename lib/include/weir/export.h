// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which symbols the shared library shows, and which language its headers are in.
#pragma once

#if __cplusplus < 202002L
#error "weir needs C++20: compile with -std=c++20, or a later standard"
// There is no such file: compilers stop here instead of adding pages of errors.
#include "weir/that-is-compiled-as-C++20"
#endif

/// A function or class of the public face; everything else stays hidden in the shared library.
#define WEIR_API __attribute__((visibility("default")))
