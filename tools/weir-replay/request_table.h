// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One tab-separated line per request.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

#include "replay.h"

namespace weir::replay {

/// "1700000000.000000007": seconds and nine decimals.
std::string time_text(WallTime time);

/// A field of the table: an empty one reads "-", a lone "-" and every byte that is not printable ASCII (tabs
/// and line ends among them) are percent-encoded.
std::string field_text(std::string_view value);

class RequestTable {
 public:
  /// Opens the file and writes the header. @return empty, or what went wrong
  std::string open(const std::string& path);
  void add(const Outcome& outcome);
  /// Writes what is left. @return empty, or what went wrong since open()
  std::string close();

 private:
  std::string path_;
  std::ofstream out_;
};

}  // namespace weir::replay
