// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The mistakes found so far, and where in the file each value stands. Values are named by their path, such
/// as "rule[2].match.port[0]"; so the same check serves a configuration read from TOML and one put together
/// by a program.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "weir/config.h"

namespace weir {

/// A place in the file, 1-based; 0: none.
struct Location {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

class Findings {
 public:
  /// For a configuration without a text: messages begin with the table's path instead.
  Findings() = default;
  explicit Findings(std::string_view file) : file_(file), from_text_(true) {}

  /// Remembers where a value stands.
  void locate(const std::string& path, Location where) { locations_[path] = where; }

  /// A mistake in a value. The first one counts; further ones in the same value, or in a part of a value that
  /// is faulty as a whole, are not added.
  void add(const std::string& path, const std::string& message);

  /// A mistake at a place that is no value of the configuration.
  void add_at(Location where, const std::string& message);

  /// Whether the value, or what it is part of, has a mistake already.
  bool faulty(std::string_view path) const;

  /// The mistakes in the order of the file. Leaves none behind.
  std::vector<ConfigError> take();

 private:
  Location location(std::string_view path) const;

  std::string file_;
  bool from_text_ = false;
  std::map<std::string, Location, std::less<>> locations_;
  std::set<std::string, std::less<>> faulty_;
  std::vector<ConfigError> errors_;
};

}  // namespace weir
