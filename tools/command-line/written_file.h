// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Files that the programs write where their command lines say.
#pragma once

#include <string>

namespace weir::command_line {

/// Whether a path that is to be written names the very file that is read, which then would be gone.
/// @param read  "-": the standard input
bool writes_over(const std::string& read, const std::string& written);

}  // namespace weir::command_line
