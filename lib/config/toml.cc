// SPDX-License-Identifier: BSD-3-Clause
#define TOML_IMPLEMENTATION
#include "config/toml.h"

#include <optional>
#include <utility>

namespace weir {
namespace {

struct TomlAssertion {};

// Each dot of a dotted key opens a table within a table, and toml++ walks them recursively.
constexpr std::size_t max_dots_in_line = 256;

/// Where a line has so many dots that its key could be nested too deeply; text in quotes does not count.
std::optional<Location> too_deep(std::string_view text) {
  Location here{1, 0};
  std::size_t dots = 0;
  char quote = '\0';
  for (const char c : text) {
    ++here.column;
    if (c == '\n') {
      here = {here.line + 1, 0};
      dots = 0;
      quote = '\0';
    } else if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '.' && ++dots > max_dots_in_line) {
      return here;
    }
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
    return {{}, *where, "more dots in one line than any key of a configuration has"};
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
