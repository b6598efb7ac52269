// SPDX-License-Identifier: BSD-3-Clause
#define TOML_IMPLEMENTATION
#include "config/toml.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weir {
namespace {

struct TomlAssertion {};

// Each dot of a dotted key and each bracket opens a table or an array within another one, and toml++ walks
// them recursively. It bounds the brackets by itself, but neither the dots nor what both come to.
constexpr std::size_t max_depth = 256;

/// Behind the string that begins at `begin`, as toml++ reads it. What its line does not close ends there.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  const std::string three(3, quote);
  const bool multi_line = text.substr(begin).starts_with(three);
  for (std::size_t at = begin + (multi_line ? 3 : 1); at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (!multi_line) {
      if (text[at] == quote) return at + 1;
      if (text[at] == '\n') return at;
    } else if (text.substr(at).starts_with(three)) {
      // Of up to five quotes the last three close it.
      at += three.size();
      for (int more = 0; more < 2 && at < text.size() && text[at] == quote; ++more) ++at;
      return at;
    }
  }
  return text.size();
}

Location location_at(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const std::size_t line_break = before.rfind('\n');
  const std::size_t line_begin = line_break == std::string_view::npos ? 0 : line_break + 1;
  return {static_cast<std::uint32_t>(std::ranges::count(before, '\n') + 1),
          static_cast<std::uint32_t>(at - line_begin + 1)};
}

/// Where a key or a value is nested too deeply, its tables by dots and by brackets together.
std::optional<Location> too_deep(std::string_view text) {
  std::vector<std::size_t> around{0};  // how deep each open bracket's elements are, the innermost last
  std::size_t depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    switch (text[at]) {
      case '"':
      case '\'':
        at = end_of_string(text, at) - 1;
        break;
      case '#':
        at = std::min(text.find('\n', at), text.size()) - 1;
        break;
      case '.':
        ++depth;
        break;
      case '[':
      case '{':
        around.push_back(++depth);
        break;
      case ']':
      case '}':
        if (around.size() > 1) around.pop_back();
        depth = around.back();
        break;
      case ',':
        depth = around.back();
        break;
      case '\n':
        if (around.size() == 1) depth = 0;
        break;
      default:
        break;
    }
    if (depth > max_depth) return location_at(text, at);
  }
  return std::nullopt;
}

}  // namespace

void toml_assertion_failed(const char* what) {
  // "[[[" leads here (toml++ 3.3 and 3.4); what follows checks the same again and reports it properly.
  if (std::string_view(what) == "is_bare_key_character(*cp) || is_string_delimiter(*cp)") return;
  throw TomlAssertion{};
}

TomlResult parse_toml(std::string_view text) {
  if (const auto where = too_deep(text))
    return {{}, *where, "nested more deeply than any configuration is, or an earlier bracket is not closed"};
  try {
    // Without the file's name: toml++ would keep a reference to it with every value.
    toml::parse_result parsed = toml::parse(text, std::string_view{});
    if (parsed) return {std::move(parsed).table(), {}, {}};
    const toml::parse_error& error = parsed.error();
    const toml::source_position& begin = error.source().begin;
    return {{},
            {static_cast<std::uint32_t>(begin.line), static_cast<std::uint32_t>(begin.column)},
            std::string(error.description())};
  } catch (const TomlAssertion&) {
    return {
        {}, {1, 1}, "this is not TOML, in a way that its reader cannot tell; look for unbalanced brackets"};
  }
}

}  // namespace weir
