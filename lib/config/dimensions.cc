// SPDX-License-Identifier: BSD-3-Clause
#include "config/dimensions.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/whole_number.h"
#include "config/ranges.h"
#include "config/words.h"

namespace weir {
namespace {

using Kind = Dimension::Kind;

struct Word {
  std::string_view text;
  Kind kind;
};

/// Dimensions that are a word alone.
constexpr std::array plain{Word{"dst_port", Kind::destination_port}, Word{"method", Kind::method},
                           Word{"host", Kind::host}, Word{"path", Kind::path}};
constexpr std::array addresses{Word{"src_ip", Kind::source_address},
                               Word{"dst_ip", Kind::destination_address}};
constexpr std::array named{Word{"path:", Kind::path_variable}, Word{"header:", Kind::header}};

constexpr std::array<std::string_view, 8> known{"src_ip", "dst_ip", "dst_port", "method",
                                                "host",   "path",   "path:…",   "header:…"};
constexpr std::uint8_t ipv4_length = 32;
constexpr std::uint8_t ipv6_length = 128;

DimensionResult failure(std::string message) { return {{}, std::move(message)}; }

std::optional<std::uint8_t> prefix_length(std::string_view text, std::uint8_t most) {
  const auto value = whole_number<std::uint8_t>(text);
  return value && *value <= most ? value : std::nullopt;
}

DimensionResult parse_address(std::string_view text, const Word& word) {
  DimensionResult result;
  result.value.kind = word.kind;
  std::string_view rest = text.substr(word.text.size());
  if (rest.empty()) return result;
  rest.remove_prefix(1);
  const std::size_t slash = rest.find('/');
  const auto ipv4 = prefix_length(rest.substr(0, slash), ipv4_length);
  if (!ipv4)
    return failure("in key " + in_quotes(text) +
                   " the IPv4 prefix length after the first '/' must be a number from 0 to 32" +
                   " (an IPv6 prefix length follows a second '/': \"" + std::string(word.text) + "/32/64\")");
  result.value.ipv4_bits = *ipv4;
  if (slash == std::string_view::npos) return result;
  const auto ipv6 = prefix_length(rest.substr(slash + 1), ipv6_length);
  if (!ipv6)
    return failure("in key " + in_quotes(text) +
                   " the IPv6 prefix length after the second '/' must be a number from 0 to 128");
  result.value.ipv6_bits = *ipv6;
  return result;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool is_token_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
}

DimensionResult parse_dimension(std::string_view text) {
  for (const Word& word : plain)
    if (text == word.text) return {{.kind = word.kind, .name = {}}, {}};
  for (const Word& word : addresses)
    if (text == word.text || (text.starts_with(word.text) && text[word.text.size()] == '/'))
      return parse_address(text, word);
  for (const Word& word : named) {
    if (!text.starts_with(word.text)) continue;
    Dimension dimension{.kind = word.kind, .name = std::string(text.substr(word.text.size()))};
    if (word.kind == Kind::header) std::ranges::transform(dimension.name, dimension.name.begin(), lower);
    if (std::string error = check_dimension(dimension); !error.empty()) return failure(std::move(error));
    return {std::move(dimension), {}};
  }
  return failure("unknown dimension " + in_quotes(text) + " in key" + suggestion(text, known, "there are"));
}

std::string check_dimension(const Dimension& dimension) {
  switch (dimension.kind) {
    case Kind::source_address:
    case Kind::destination_address:
      if (dimension.ipv4_bits > ipv4_length) return "an IPv4 prefix length in key must be from 0 to 32";
      if (dimension.ipv6_bits > ipv6_length) return "an IPv6 prefix length in key must be from 0 to 128";
      return {};
    case Kind::destination_port:
    case Kind::method:
    case Kind::host:
    case Kind::path:
      return {};
    case Kind::path_variable:
      if (dimension.name.empty())
        return "\"path:\" in key lacks the name of a path variable, such as \"path:id\"";
      return {};
    case Kind::header:
      if (dimension.name.empty())
        return "\"header:\" in key lacks a header's name, such as \"header:x-api-key\"";
      if (dimension.name.size() > max_header_name_length)
        return "the header name " + in_quotes(dimension.name) + " in key is longer than " +
               std::to_string(max_header_name_length) + " characters";
      if (!std::ranges::all_of(dimension.name, is_token_character))
        return "the header name " + in_quotes(dimension.name) +
               " in key has characters that no header name may have";
      if (std::ranges::any_of(dimension.name, [](char c) { return lower(c) != c; }))
        return "the header name " + in_quotes(dimension.name) + " in key must be in lower case";
      return {};
  }
  return "key has a dimension of an unknown kind";
}

std::string format_dimension(const Dimension& dimension) {
  for (const Word& word : plain)
    if (dimension.kind == word.kind) return std::string(word.text);
  for (const Word& word : named)
    if (dimension.kind == word.kind) return std::string(word.text) + dimension.name;
  for (const Word& word : addresses) {
    if (dimension.kind != word.kind) continue;
    const Dimension defaults;
    std::string text(word.text);
    if (dimension.ipv4_bits == defaults.ipv4_bits && dimension.ipv6_bits == defaults.ipv6_bits) return text;
    text += '/' + std::to_string(dimension.ipv4_bits);
    if (dimension.ipv6_bits != defaults.ipv6_bits) text += '/' + std::to_string(dimension.ipv6_bits);
    return text;
  }
  return {};
}

}  // namespace weir
