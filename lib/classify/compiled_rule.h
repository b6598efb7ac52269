// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A rule as requests are held against it: what its match asks for, and where the parts of its key come from.
/// For the room's own use.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/short_text.h"
#include "classify/path_template.h"
#include "weir/request.h"
#include "weir/rule.h"

namespace weir {

/// Of ASCII.
constexpr char lower_case(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

/// The name of a header field, compared without regard to case eight bytes at a time.
class FieldName {
 public:
  FieldName() = default;
  explicit FieldName(std::string_view name) : size_(name.size()) {
    first_ = word_of(name, 0);
    if (size_ <= word_size) return;
    last_ = word_of(name, size_ - word_size);
    for (std::size_t at = word_size; at + word_size < size_; at += word_size)
      between_.push_back(word_of(name, at));
  }

  bool equals(std::string_view text) const noexcept {
    if (text.size() != size_) return false;
    if (size_ < word_size) return (word_of_short_text(text.data(), size_) | first_.fold) == first_.want;
    // The last word may overlap the one before.
    const Word& last = size_ == word_size ? first_ : last_;
    if ((((word_at(text, 0) | first_.fold) ^ first_.want) |
         ((word_at(text, size_ - word_size) | last.fold) ^ last.want)) != 0)
      return false;
    std::size_t at = word_size;
    for (const Word& expected : between_) {
      if ((word_at(text, at) | expected.fold) != expected.want) return false;
      at += word_size;
    }
    return true;
  }

 private:
  static constexpr std::size_t word_size = sizeof(std::uint64_t);
  struct Word {
    std::uint64_t want = 0;
    std::uint64_t fold = 0;  ///< the bit that makes a letter lower case
  };
  static Word word_of(std::string_view name, std::size_t at) {
    std::array<char, word_size> want{};
    std::array<char, word_size> fold{};
    for (std::size_t i = 0; i < std::min(name.size() - at, word_size); ++i) {
      want[i] = lower_case(name[at + i]);
      fold[i] = want[i] >= 'a' && want[i] <= 'z' ? 'a' - 'A' : '\0';
    }
    return {std::bit_cast<std::uint64_t>(want), std::bit_cast<std::uint64_t>(fold)};
  }
  static std::uint64_t word_at(std::string_view text, std::size_t at) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, word_size);
    return word;
  }
  Word first_;
  Word last_;  ///< of a name that is longer than a word
  std::vector<Word> between_;
  std::size_t size_ = 0;
};

/// "example.com" or "*.example.com".
class HostPattern {
 public:
  explicit HostPattern(std::string_view text) {
    std::string in_lower_case(text.starts_with("*.") ? text.substr(1) : text);
    std::transform(in_lower_case.begin(), in_lower_case.end(), in_lower_case.begin(), lower_case);
    if (in_lower_case.ends_with('.')) in_lower_case.pop_back();
    text_ = std::move(in_lower_case);
    any_subdomain_ = text.starts_with("*.");
  }

  bool matches(std::string_view host) const noexcept {
    if (text_.empty()) return true;
    return any_subdomain_ ? host.size() > text_.size() && host.ends_with(text_) : host == text_;
  }

 private:
  std::string text_;
  bool any_subdomain_ = false;
};

/// Where a dimension's value stands among those of a scratch; beyond them: nowhere.
inline std::uint8_t value_index(Dimension::Kind kind) noexcept {
  switch (kind) {
    case Dimension::Kind::method:
      return 0;
    case Dimension::Kind::host:
      return 1;
    case Dimension::Kind::path:
      return 2;
    default:
      return 3;
  }
}

struct CompiledDimension {
  Dimension::Kind kind;
  std::uint8_t value;  ///< as value_index() has it
  std::uint8_t ipv4_bits;
  std::uint8_t ipv6_bits;
  std::optional<std::size_t> segment;  ///< of a path variable
  FieldName field;                     ///< of a header
  std::string name;                    ///< likewise
};

struct CompiledRule {
  std::vector<std::string> methods;
  HostPattern host;
  std::optional<PathTemplate> path;
  std::vector<std::uint16_t> destination_ports;
  std::vector<CompiledDimension> key;
  bool applies_always = false;  ///< the match is empty
  bool key_of_texts = true;     ///< no dimension of the key is an address or a port
  RuleIndex first_alike = 0;  ///< the first rule with the same match: what is found out for one holds for all

  explicit CompiledRule(const Rule& rule)
      : methods(rule.match.methods), host(rule.match.host), destination_ports(rule.match.destination_ports) {
    if (!rule.match.path.empty()) path.emplace(rule.match.path);
    applies_always = methods.empty() && rule.match.host.empty() && !path && destination_ports.empty();
    for (const Dimension& dimension : rule.key) {
      CompiledDimension compiled{dimension.kind,
                                 value_index(dimension.kind),
                                 dimension.ipv4_bits,
                                 dimension.ipv6_bits,
                                 std::nullopt,
                                 {},
                                 {}};
      if (dimension.kind == Dimension::Kind::path_variable && path)
        compiled.segment = path->variable(dimension.name);
      using Kind = Dimension::Kind;
      static_assert(Kind::source_address < Kind::method && Kind::destination_address < Kind::method &&
                    Kind::destination_port < Kind::method);
      if (dimension.kind == Kind::header) {
        compiled.field = FieldName(dimension.name);
        compiled.name = dimension.name;
      }
      key_of_texts = key_of_texts && key.size() < max_dimensions && dimension.kind >= Kind::method;
      key.push_back(std::move(compiled));
    }
  }

  /// @param known  segments from the first one on that are known to match
  bool matches(std::string_view method, std::uint16_t destination_port, std::string_view request_host,
               RequestPath& request_path, std::size_t known) const noexcept {
    return (methods.empty() || std::find(methods.begin(), methods.end(), method) != methods.end()) &&
           (destination_ports.empty() || std::find(destination_ports.begin(), destination_ports.end(),
                                                   destination_port) != destination_ports.end()) &&
           host.matches(request_host) && (!path || path->matches(request_path, known));
  }
};

}  // namespace weir
