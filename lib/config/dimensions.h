// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The dimensions of a key as the configuration writes them: "src_ip/24/56", "header:x-api-key", "path:id" …
#pragma once

#include <string>
#include <string_view>

#include "weir/rule.h"

namespace weir {

/// A dimension, or why there is none.
struct DimensionResult {
  Dimension value;
  std::string error;  ///< empty: `value` is good

  explicit operator bool() const noexcept { return error.empty(); }
};

/// Reads one dimension. Header names come out in lower case.
DimensionResult parse_dimension(std::string_view text);

/// The mistake in a dimension's values, if any; whether a path variable exists is not this function's to
/// know.
std::string check_dimension(const Dimension& dimension);

/// The shortest form that parse_dimension reads back as the same value.
std::string format_dimension(const Dimension& dimension);

/// A character HTTP allows in methods and header names.
bool is_token_character(char c);

}  // namespace weir
