// SPDX-License-Identifier: BSD-3-Clause
#include "config/findings.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace weir {
namespace {

/// The path of what a value is part of: "rule[2].match" of "rule[2].match.port"; "" of a table.
std::string_view parent(std::string_view path) {
  const std::size_t end = path.find_last_of(".[");
  return end == std::string_view::npos ? std::string_view{} : path.substr(0, end);
}

/// The table a value stands in: "rule[2]" of "rule[2].key[0]".
std::string_view table(std::string_view path) {
  const std::size_t end = path.rfind('.');
  return end == std::string_view::npos ? path : path.substr(0, end);
}

}  // namespace

void Findings::add(const std::string& path, const std::string& message) {
  if (faulty(path)) return;
  faulty_.insert(path);
  if (from_text_)
    add_at(location(path), message);
  else
    add_at({}, std::string(table(path)) + ": " + message);
}

void Findings::add_at(Location where, const std::string& message) {
  errors_.push_back({file_, where.line, where.column, message});
}

bool Findings::faulty(std::string_view path) const {
  for (; !path.empty(); path = parent(path))
    if (faulty_.contains(path)) return true;
  return false;
}

std::vector<ConfigError> Findings::take() {
  std::ranges::stable_sort(errors_, [](const ConfigError& a, const ConfigError& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  return std::exchange(errors_, {});
}

Location Findings::location(std::string_view path) const {
  for (; !path.empty(); path = parent(path))
    if (const auto found = locations_.find(path); found != locations_.end()) return found->second;
  return {};
}

}  // namespace weir
