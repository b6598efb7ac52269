// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One tab-separated line per decision of a rule.
#pragma once

#include <cstdint>
#include <fstream>
#include <ostream>
#include <string>
#include <string_view>

#include "csv_file.h"
#include "weir/decision.h"

namespace weir::replay {

/// A key as the table has it: "\t", "\n", "\r" and "\\" stand for the characters that would break its lines.
std::string key_text(std::string_view key);

class DecisionTable {
 public:
  /// Opens the file and writes the header.
  /// @param path         "-" for the standard output
  /// @param rule_weight  what one request of weight 1 costs under the rule
  /// @return empty, or what went wrong
  std::string open(const std::string& path, std::uint32_t rule_weight);
  /// As open(), to a stream that outlives this object.
  void write_to(std::ostream& out, std::uint32_t rule_weight);
  void add(const CsvRequest& request, const Decision& decision);
  /// Writes what is left. @return empty, or what went wrong since open()
  std::string close();

 private:
  std::ofstream file_;
  std::ostream* out_ = nullptr;
  std::string name_;
  std::uint32_t rule_weight_ = 1;
};

}  // namespace weir::replay
