// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// toml++, set up for us; nobody else includes it. Its implementation is compiled into toml.cc, so that the
/// library needs no toml++ at run time, whichever way the system packages it; its namespace is ours, so that
/// who embeds the library may have a toml++ set up otherwise in the same program; and a parser that finds
/// itself in a state it holds impossible must not end the process (its assertions do fail on some broken
/// files), nor go on.
#pragma once

#include <string>
#include <string_view>

#include "config/findings.h"

namespace weir {

/// Ends the parsing of a file that has led toml++ astray, by an exception that parse_toml() catches.
void toml_assertion_failed(const char* what);

}  // namespace weir

// NDEBUG makes toml++ drop its assertions, or promise them to the compiler.
#pragma push_macro("NDEBUG")
#pragma push_macro("toml")
#undef NDEBUG
#undef TOML_HEADER_ONLY
#undef TOML_SHARED_LIB
#undef TOML_EXCEPTIONS
#undef TOML_ENABLE_FORMATTERS
#undef TOML_ASSERT
#define TOML_HEADER_ONLY 0
#define TOML_SHARED_LIB 0
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ASSERT(expression) ((expression) ? void() : ::weir::toml_assertion_failed(#expression))
#define toml weir_toml
#include <toml++/toml.h>
#pragma pop_macro("toml")
#pragma pop_macro("NDEBUG")

namespace weir {

namespace toml = ::weir_toml;

/// A parsed file, or the first place where it is not TOML.
struct TomlResult {
  toml::table root;
  Location where;
  std::string error;  ///< empty: `root` is good

  explicit operator bool() const noexcept { return error.empty(); }
};

/// Never throws on bad input.
TomlResult parse_toml(std::string_view text);

}  // namespace weir
