// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Recorded demand: a table of requests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "scenario.h"

namespace weir::sim {

/// Reads lines "time_ms,key[,weight[,node]]" under a header of these words. Times ascend; keys new to `space`
/// are added to it. Empty lines are passed over.
/// @param file   what to call the text in messages
/// @param nodes  how many there are
/// @return empty, or the first mistake ("FILE:LINE:COLUMN: …")
std::string parse_recording(std::string_view text, const std::string& file, std::uint32_t nodes,
                            KeySpace& space, std::vector<RecordedRequest>& requests);

/// The whole of a file. @return empty, or why it cannot be read ("FILE: …")
std::string read_whole_file(const std::string& path, std::string& text);

}  // namespace weir::sim
