// SPDX-License-Identifier: BSD-3-Clause
#include "config/rule_table.h"

#include <algorithm>
#include <array>

#include "config/checks.h"
#include "config/combinations.h"
#include "config/dimensions.h"

namespace weir {
namespace {

constexpr std::array actions{Action::drop, Action::reset, Action::reply_429, Action::observe};
constexpr std::array store_failures{OnStoreFailure::local, OnStoreFailure::open, OnStoreFailure::closed};
constexpr std::array local_rules{LocalRule::cumulative, LocalRule::per_span};
constexpr std::array early_blocks{EarlyBlock::sound, EarlyBlock::predictive};
constexpr std::array algorithms{Algorithm::cooldown,     Algorithm::fixed_window, Algorithm::sliding_window,
                                Algorithm::token_bucket, Algorithm::leaky_bucket, Algorithm::sliding_log,
                                Algorithm::shed,         Algorithm::strict};

/// In the form rules are compared in: lower case, without the dot at the end of an absolute name.
std::string normalised_host(std::string host) {
  std::ranges::transform(host, host.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (host.size() > 1 && host.ends_with('.') && !host.ends_with("..")) host.pop_back();
  return host;
}

Match read_match(const toml::table& table, const std::string& path, Findings& findings) {
  Match match;
  TableReader reader(table, path, "match", findings);
  reader.one_or_array("method", [&](const toml::node& node, const std::string& at) {
    reader.read_text(node, at, "method", match.methods.emplace_back());
  });
  reader.refuse_empty_array("method", "match every method");
  reader.text("host", match.host);
  if (table.contains("host") && match.host.empty())
    findings.add(reader.path_of("host"), "host must not be empty; leave it out to match every host");
  match.host = normalised_host(std::move(match.host));
  reader.text("path", match.path);
  if (table.contains("path") && match.path.empty())
    findings.add(reader.path_of("path"), "path must not be empty; leave it out to match every path");
  reader.one_or_array("port", [&](const toml::node& node, const std::string& at) {
    // Stays at a valid port where the number is none, so that the check of values does not tell it again.
    reader.integer(node, at, "port", tcp_port_range, match.destination_ports.emplace_back(std::uint16_t{1}));
  });
  reader.refuse_empty_array("port", "match every port");
  reader.finish();
  return match;
}

/// A part of the limit. Its range is checked with the other values.
void read_hold_back(TableReader& reader, Rule& rule) {
  const toml::node* node = reader.take("hold_back");
  if (node == nullptr) return;
  if (const auto* fraction = node->as_floating_point())
    rule.hold_back = fraction->get();
  else if (const auto* whole = node->as_integer())
    rule.hold_back = static_cast<double>(whole->get());
  else
    reader.wrong_type(reader.path_of("hold_back"), "hold_back", "a number from 0 to 0.5", type_name(*node));
}

/// A key that is written down is meant, also with the value it would have without.
void refuse_foreign_keys(const TableReader& reader, Algorithm algorithm, Findings& findings) {
  if (findings.faulty(reader.path_of("algorithm"))) return;
  for (const std::string_view key : keys_of_some_algorithms) {
    if (!reader.has(key)) continue;
    if (const std::string message = foreign_key(key, algorithm); !message.empty())
      findings.add(reader.path_of(key), message);
  }
}

}  // namespace

Rule read_rule(const toml::table& table, std::size_t index, Findings& findings) {
  Rule rule;
  TableReader reader(table, rule_path(index), "[[rule]]", findings);
  for (const std::string_view key : {"name", "limit", "interval"}) reader.require(key);

  reader.text("name", rule.name);
  if (const toml::table* match = reader.subtable("match"))
    rule.match = read_match(*match, reader.path_of("match"), findings);
  reader.array("key", "an array of dimensions, such as [\"src_ip\"]",
               [&](const toml::node& node, const std::string& at) {
                 Dimension& dimension = rule.key.emplace_back();
                 std::string text;
                 if (!reader.read_text(node, at, "a dimension in key", text)) return;
                 DimensionResult result = parse_dimension(text);
                 if (result)
                   dimension = std::move(result.value);
                 else
                   findings.add(at, result.error);
               });
  reader.integer("limit", limit_range, rule.limit);
  reader.duration("interval", rule.interval);
  reader.integer("spans", spans_range, rule.spans);
  rule.cooldown = rule.interval;
  reader.duration("cooldown", rule.cooldown);
  // The default follows an interval that is wrong: told once, there.
  if (!reader.has("cooldown")) rule.cooldown = std::max(rule.cooldown, Duration{1});
  reader.word<Algorithm>("algorithm", algorithms, rule.algorithm);
  reader.integer("burst", burst_range, rule.burst);
  reader.duration("warmup", rule.warmup);
  reader.word<EarlyBlock>("early_block", early_blocks, rule.early_block);
  read_hold_back(reader, rule);
  reader.boolean("debt", rule.debt);
  reader.duration("dephase", rule.dephase);
  reader.integer("weight", weight_range, rule.weight);
  reader.boolean("penalize", rule.penalize);
  reader.word<OnStoreFailure>("on_store_failure", store_failures, rule.on_store_failure);
  reader.word<LocalRule>("local_rule", local_rules, rule.local_rule);
  reader.word<Action>("action", actions, rule.action);
  reader.finish();
  refuse_foreign_keys(reader, rule.algorithm, findings);
  return rule;
}

}  // namespace weir
