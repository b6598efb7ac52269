// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Reads values out of one TOML table, with every mistake noted where it stands.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/findings.h"
#include "config/ranges.h"
#include "config/toml.h"
#include "config/words.h"

namespace weir {

/// The tables of a configuration, by name.
inline constexpr std::array<std::string_view, 4> config_tables{"node", "store", "ports", "rule"};

Location location_of(const toml::node& node);
/// Of what has no place of its own.
Location location_of(const toml::key& key);

/// Whether dotted keys alone have made a table, where it stands as the value of `key`.
bool is_dotted(const toml::key& key, const toml::node& node);

/// "a string", "a whole number", "a table" …
std::string_view type_name(const toml::node& node);

/// One table. Each reading function leaves `out` as it is when the key is absent or wrong, and makes the key
/// known to finish().
class TableReader {
 public:
  /// @param path   how Findings names the table
  /// @param title  how messages name it, e.g. "[store]"
  TableReader(const toml::table& table, std::string path, std::string title, Findings& findings);

  bool has(std::string_view key) const { return table_->contains(key); }
  std::string path_of(std::string_view key) const { return path_ + '.' + std::string(key); }

  /// Adds a mistake when the key is absent.
  void require(std::string_view key);

  void text(std::string_view key, std::string& out);
  void boolean(std::string_view key, bool& out);
  void duration(std::string_view key, Duration& out);

  template <std::integral Number>
  void integer(std::string_view key, IntegerRange range, Number& out) {
    if (const toml::node* node = take(key); node != nullptr) integer(*node, path_of(key), key, range, out);
  }

  /// A number that is a value by itself, or an element of an array.
  template <std::integral Number>
  void integer(const toml::node& node, const std::string& path, std::string_view key, IntegerRange range,
               Number& out) {
    std::int64_t value = 0;
    if (read_integer(node, path, key, range, value)) out = static_cast<Number>(value);
  }

  /// One of the words to_string() has for the values.
  template <typename Enum>
  void word(std::string_view key, std::span<const Enum> values, Enum& out) {
    std::string text;
    if (!take_text(key, text)) return;
    std::vector<std::string_view> words;
    for (const Enum value : values) {
      if (to_string(value) == text) {
        out = value;
        return;
      }
      words.push_back(to_string(value));
    }
    findings_->add(path_of(key), "unknown " + std::string(key) + ' ' + in_quotes(text) +
                                     suggestion(text, words, "there are"));
  }

  /// Calls `each` with every element of an array, its path and its index.
  using Element = std::function<void(const toml::node&, const std::string&)>;
  void array(std::string_view key, std::string_view of, const Element& each);
  /// Likewise; a value alone counts as an array of one.
  void one_or_array(std::string_view key, const Element& each);

  /// Adds a mistake when the key is an array without elements, which nobody would read as what it is without
  /// the key. @param instead  what that is, for people
  void refuse_empty_array(std::string_view key, std::string_view instead);

  const toml::table* subtable(std::string_view key);

  /// The value of a key, now known and located; nullptr when absent.
  const toml::node* take(std::string_view key);

  /// "<what> must be <demand>, not <found>"
  void wrong_type(const std::string& path, std::string_view what, std::string_view demand,
                  std::string_view found);

  /// A string; false and a mistake when it is something else. `what` names it in the message.
  bool read_text(const toml::node& node, const std::string& path, std::string_view what, std::string& out);

  /// Adds a mistake for every key that no call above has named.
  void finish();

 private:
  std::string unknown(const toml::key& key, const toml::node& node) const;
  bool take_text(std::string_view key, std::string& out);
  bool read_integer(const toml::node& node, const std::string& path, std::string_view key, IntegerRange range,
                    std::int64_t& out);
  void each_element(const toml::array& values, const std::string& path, const Element& each);

  const toml::table* table_;
  std::string path_;
  std::string title_;
  Findings* findings_;
  std::vector<std::string_view> known_;
};

}  // namespace weir
