// SPDX-License-Identifier: BSD-3-Clause
#include "config/toml_table.h"

#include <algorithm>
#include <utility>

#include "config/durations.h"

namespace weir {

Location location_of(const toml::node& node) {
  const toml::source_position& begin = node.source().begin;
  return {static_cast<std::uint32_t>(begin.line), static_cast<std::uint32_t>(begin.column)};
}

Location location_of(const toml::key& key) {
  const toml::source_position& begin = key.source().begin;
  return {static_cast<std::uint32_t>(begin.line), static_cast<std::uint32_t>(begin.column)};
}

bool is_dotted(const toml::key& key, const toml::node& node) {
  // Any other table begins with a bracket or a brace.
  return node.is_table() && key.source().begin == node.source().begin;
}

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      return "a date or time";
    case toml::node_type::none:
      break;
  }
  return "nothing";
}

TableReader::TableReader(const toml::table& table, std::string path, std::string title, Findings& findings)
    : table_(&table), path_(std::move(path)), title_(std::move(title)), findings_(&findings) {
  findings_->locate(path_, location_of(table));
}

const toml::node* TableReader::take(std::string_view key) {
  known_.push_back(key);
  const toml::node* node = table_->get(key);
  if (node != nullptr) findings_->locate(path_of(key), location_of(*node));
  return node;
}

void TableReader::require(std::string_view key) {
  if (!has(key))
    findings_->add(path_of(key), title_ + " lacks the key " + in_quotes(key) + ", which has no default");
}

void TableReader::wrong_type(const std::string& path, std::string_view what, std::string_view demand,
                             std::string_view found) {
  findings_->add(path, std::string(what) + " must be " + std::string(demand) + ", not " + std::string(found));
}

bool TableReader::read_text(const toml::node& node, const std::string& path, std::string_view what,
                            std::string& out) {
  const auto* value = node.as_string();
  if (value == nullptr) {
    wrong_type(path, what, "a string", type_name(node));
    return false;
  }
  out = value->get();
  return true;
}

bool TableReader::take_text(std::string_view key, std::string& out) {
  const toml::node* node = take(key);
  return node != nullptr && read_text(*node, path_of(key), key, out);
}

void TableReader::text(std::string_view key, std::string& out) { take_text(key, out); }

void TableReader::boolean(std::string_view key, bool& out) {
  const toml::node* node = take(key);
  if (node == nullptr) return;
  if (const auto* value = node->as_boolean())
    out = value->get();
  else
    wrong_type(path_of(key), key, "true or false", type_name(*node));
}

void TableReader::duration(std::string_view key, Duration& out) {
  const toml::node* node = take(key);
  if (node == nullptr) return;
  const auto* value = node->as_string();
  if (value == nullptr) {
    wrong_type(path_of(key), key, "a duration in quotes, such as \"500ms\"", type_name(*node));
    return;
  }
  if (const DurationResult result = parse_duration(value->get()))
    out = result.value;
  else
    findings_->add(path_of(key), std::string(key) + ' ' + result.error);
}

bool TableReader::read_integer(const toml::node& node, const std::string& path, std::string_view key,
                               IntegerRange range, std::int64_t& out) {
  const auto* value = node.as_integer();
  if (value == nullptr) {
    wrong_type(path, key, "a whole number", type_name(node));
    return false;
  }
  if (!range.contains(value->get())) {
    findings_->add(path, range.demand(key) + ", not " + std::to_string(value->get()));
    return false;
  }
  out = value->get();
  return true;
}

void TableReader::each_element(const toml::array& values, const std::string& path, const Element& each) {
  std::size_t index = 0;
  for (const toml::node& value : values) {
    const std::string at = path + '[' + std::to_string(index++) + ']';
    findings_->locate(at, location_of(value));
    each(value, at);
  }
}

void TableReader::array(std::string_view key, std::string_view of, const Element& each) {
  const toml::node* node = take(key);
  if (node == nullptr) return;
  if (const toml::array* values = node->as_array())
    each_element(*values, path_of(key), each);
  else
    wrong_type(path_of(key), key, of, type_name(*node));
}

void TableReader::one_or_array(std::string_view key, const Element& each) {
  const toml::node* node = take(key);
  if (node == nullptr) return;
  if (const toml::array* values = node->as_array())
    each_element(*values, path_of(key), each);
  else
    each(*node, path_of(key) + "[0]");
}

void TableReader::refuse_empty_array(std::string_view key, std::string_view instead) {
  const toml::array* values = table_->get_as<toml::array>(key);
  if (values != nullptr && values->empty())
    findings_->add(path_of(key),
                   std::string(key) + " must not be empty; leave it out to " + std::string(instead));
}

const toml::table* TableReader::subtable(std::string_view key) {
  const toml::node* node = take(key);
  if (node == nullptr) return nullptr;
  if (node->as_table() == nullptr)
    wrong_type(path_of(key), key, "a table, such as { path = \"/login\" }", type_name(*node));
  return node->as_table();
}

std::string TableReader::unknown(const toml::key& key, const toml::node& node) const {
  const std::string what = "unknown key " + in_quotes(key.str()) + " in " + title_;
  const bool is_of_file = std::ranges::find(config_tables, key.str()) != config_tables.end();
  if (!is_of_file || !is_dotted(key, node)) return what + suggestion(key.str(), known_, "there are");
  const std::string name(key.str());
  const std::string below = what + ": what stands below its line belongs to it";
  if (title_ == '[' + name + ']' || title_ == "[[" + name + "]]")
    return below + " already; leave \"" + name + ".\" out";
  // An element of an array cannot be given by dotted keys.
  if (name == "rule") return below + "; the keys of [[rule]] have their own place";
  return below + "; the keys of [" + name + "] have their own place, or stand above all tables";
}

void TableReader::finish() {
  for (const auto& [key, node] : *table_)
    if (std::ranges::find(known_, key.str()) == known_.end())
      findings_->add_at(location_of(key), unknown(key, node));
}

}  // namespace weir
