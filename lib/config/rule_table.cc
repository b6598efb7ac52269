// SPDX-License-Identifier: BSD-3-Clause
#include "config/rule_table.h"

#include <algorithm>
#include <array>

#include "config/checks.h"
#include "config/dimensions.h"

namespace weir {
namespace {

constexpr std::array actions{Action::drop, Action::reset, Action::reply_429, Action::observe};
constexpr std::array store_failures{OnStoreFailure::local, OnStoreFailure::open, OnStoreFailure::closed};
constexpr std::array local_rules{LocalRule::cumulative, LocalRule::per_span};
constexpr std::array algorithms{Algorithm::cooldown};

/// Algorithms of the design that later versions bring.
constexpr std::array<std::string_view, 7> later_algorithms{
    "fixed-window", "sliding-window", "token-bucket", "leaky-bucket", "sliding-log", "shed", "strict"};

bool takes_burst(std::string_view algorithm) {
  return algorithm == "token-bucket" || algorithm == "leaky-bucket";
}

void read_algorithm(TableReader& reader, const toml::table& table, Rule& rule, Findings& findings) {
  const auto* value = table.get_as<std::string>("algorithm");
  const std::string_view text = value == nullptr ? std::string_view{} : std::string_view(value->get());
  if (std::ranges::find(later_algorithms, text) == later_algorithms.end()) {
    reader.word<Algorithm>("algorithm", algorithms, rule.algorithm);
  } else {
    reader.take("algorithm");
    findings.add(reader.path_of("algorithm"),
                 "algorithm " + in_quotes(text) +
                     " is not in this version yet; there is: " + std::string(to_string(Algorithm::cooldown)));
  }
  if (reader.take("burst") != nullptr && !takes_burst(text))
    findings.add(reader.path_of("burst"),
                 "burst belongs to token-bucket and leaky-bucket, which this version does not have yet");
}

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
  reader.finish();
  return match;
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
  read_algorithm(reader, table, rule, findings);
  reader.integer("weight", weight_range, rule.weight);
  reader.boolean("penalize", rule.penalize);
  reader.word<OnStoreFailure>("on_store_failure", store_failures, rule.on_store_failure);
  reader.word<LocalRule>("local_rule", local_rules, rule.local_rule);
  reader.word<Action>("action", actions, rule.action);
  reader.finish();
  return rule;
}

}  // namespace weir
