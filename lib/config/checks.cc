// SPDX-License-Identifier: BSD-3-Clause
#include "config/checks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "classify/path_template.h"
#include "config/combinations.h"
#include "config/dimensions.h"
#include "config/ranges.h"
#include "config/words.h"
#include "limit/bucket_rule.h"

namespace weir {
namespace {

std::string element(const std::string& path, std::size_t index) {
  return path + '[' + std::to_string(index) + ']';
}

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_name_character(char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; }

void check_range(const std::string& table, std::string_view key, std::uint64_t value, IntegerRange range,
                 Findings& findings) {
  const bool fits = value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!fits || !range.contains(static_cast<std::int64_t>(value)))
    findings.add(table + '.' + std::string(key), range.demand(key) + ", not " + std::to_string(value));
}

void check_range(const std::string& table, std::string_view key, Duration value, DurationRange range,
                 Findings& findings) {
  if (!range.contains(value))
    findings.add(table + '.' + std::string(key), range.demand(key) + ", not " + format_duration(value));
}

void check_node(const NodeConfig& node, Findings& findings) {
  if (node.name.size() > max_name_length)
    findings.add("node.name", "name must have at most " + std::to_string(max_name_length) + " characters");
  else if (!std::ranges::all_of(node.name, is_name_character))
    findings.add("node.name",
                 "name " + in_quotes(node.name) + " may only have letters, digits, '.', '_' and '-'");
  check_range("node", "keys", node.keys, keys_range, findings);
  check_range("node", "idle_sleep", node.idle_sleep, idle_sleep_range, findings);
  check_range("node", "statistics", node.statistics, statistics_range, findings);
}

void check_store(const StoreConfig& store, Findings& findings) {
  // The store takes the address apart; here only what it begins with is known. It may hold a password: never
  // shown.
  constexpr std::array<std::string_view, 8> schemes{
      "memory://",         "redis://",           "rediss://",        "redis+unix://",
      "redis+sentinel://", "rediss+sentinel://", "redis+cluster://", "rediss+cluster://"};
  if (std::ranges::none_of(schemes, [&](std::string_view scheme) { return store.url.starts_with(scheme); }))
    findings.add("store.url",
                 "url must be memory://, redis://[user:password@]host[:port][/db], "
                 "redis+unix://[user:password@]/path/to.sock[?db=N], "
                 "redis+sentinel://host[:port],…/master[/db] or redis+cluster://host[:port],…; with TLS rediss… "
                 "instead of redis…");
  check_range("store", "timeout", store.timeout, timeout_range, findings);
  check_range("store", "reconnect", store.reconnect, reconnect_range, findings);
  check_range("store", "backlog", store.backlog, backlog_range, findings);
  const auto is_prefix_character = [](char c) { return is_name_character(c) || c == ':'; };
  if (store.prefix.empty() || store.prefix.size() > max_prefix_length ||
      !std::ranges::all_of(store.prefix, is_prefix_character))
    findings.add("store.prefix", "prefix must have 1 to " + std::to_string(max_prefix_length) +
                                     " letters, digits, '.', '_', '-' and ':'");
}

void check_ports(const PortsConfig& ports, Findings& findings) {
  check_range("ports", "descriptors", ports.descriptors, descriptors_range, findings);
  if (!std::has_single_bit(ports.descriptors))
    findings.add("ports.descriptors",
                 "descriptors must be a power of two, not " + std::to_string(ports.descriptors));
  check_range("ports", "queues", ports.queues, queues_range, findings);
  // 0 is a program's way to leave it out.
  if (ports.mtu != 0) check_range("ports", "mtu", ports.mtu, mtu_range, findings);
  std::set<std::uint16_t> used;
  for (std::size_t i = 0; i < ports.pairs.size(); ++i) {
    const std::string path = element("ports.pairs", i);
    if (findings.faulty(path)) continue;
    const auto [first, second] = ports.pairs[i];
    if (first == second) findings.add(path, "pairs joins port " + std::to_string(first) + " with itself");
    for (const std::uint16_t port : {first, second})
      if (!port_id_range.contains(port))
        findings.add(path, "a port in pairs must be a number from 0 to 65534, not " + std::to_string(port));
      else if (!used.insert(port).second)
        findings.add(path, "pairs uses port " + std::to_string(port) + " twice");
  }
}

void check_name(const std::string& path, const std::string& name, std::map<std::string, std::size_t>& names,
                std::size_t index, Findings& findings) {
  if (findings.faulty(path)) return;
  if (name.empty() || name.size() > max_name_length || !std::ranges::all_of(name, is_name_character)) {
    findings.add(path, "name must have 1 to " + std::to_string(max_name_length) +
                           " letters, digits, '.', '_' and '-', not " + in_quotes(name));
    return;
  }
  const auto [other, added] = names.try_emplace(name, index);
  if (!added)
    findings.add(path, "name " + in_quotes(name) + " is taken by rule number " +
                           std::to_string(other->second + 1) + " already");
}

void check_method(const std::string& path, const std::string& method, Findings& findings) {
  constexpr std::array<std::string_view, 9> known{"GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                                  "CONNECT", "OPTIONS", "TRACE", "PATCH"};
  if (method.empty() || !std::ranges::all_of(method, is_token_character)) {
    findings.add(path, "method " + in_quotes(method) + " is not an HTTP method");
    return;
  }
  std::string upper = method;
  std::ranges::transform(upper, upper.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  if (upper != method && std::ranges::find(known, upper) != known.end())
    findings.add(path,
                 "methods are case-sensitive: write " + in_quotes(upper) + ", not " + in_quotes(method));
}

void check_host(const std::string& path, const std::string& host, Findings& findings) {
  if (host.empty() || findings.faulty(path)) return;
  std::string_view name = host;
  if (name.starts_with('[')) {
    const std::size_t end = name.find(']');
    const std::string_view address = name.substr(1, end == std::string_view::npos ? end : end - 1);
    const bool valid =
        end != std::string_view::npos && !address.empty() && std::ranges::all_of(address, [](char c) {
          return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == ':' || c == '.';
        });
    if (!valid)
      findings.add(path, "host " + in_quotes(host) + " is not an IPv6 address in brackets and lower case");
    else if (end + 1 != name.size())
      findings.add(path,
                   "host " + in_quotes(host) + " must not have a port: use port = … for the listener's port");
    return;
  }
  const std::size_t colon = name.find(':');
  if (colon != std::string_view::npos) {
    const bool digits =
        std::ranges::all_of(name.substr(colon + 1), [](char c) { return c >= '0' && c <= '9'; });
    findings.add(path, "host " + in_quotes(host) +
                           (digits ? " must not have a port: use port = … for the listener's port"
                                   : " must be a host name alone, such as \"api.example.com\""));
    return;
  }
  if (name.starts_with("*.")) name.remove_prefix(2);
  if (name.find('*') != std::string_view::npos) {
    findings.add(path,
                 "host " + in_quotes(host) + " may have '*' only as its first label: \"*.example.com\"");
    return;
  }
  const bool valid = !name.empty() && name.size() <= 253 && std::ranges::all_of(name, is_name_character) &&
                     !name.starts_with('.') && name.find("..") == std::string_view::npos;
  if (!valid)
    findings.add(path, "host " + in_quotes(host) +
                           " is not a host name; write it as in \"api.example.com\" or \"*.example.com\"");
  else if (name.ends_with('.') || std::ranges::any_of(name, [](char c) { return c >= 'A' && c <= 'Z'; }))
    findings.add(path, "host " + in_quotes(host) + " must be in lower case and without a dot at its end");
}

void check_match(const std::string& path, const Match& match, Findings& findings) {
  for (std::size_t i = 0; i < match.methods.size(); ++i) {
    const std::string at = element(path + ".method", i);
    if (!findings.faulty(at)) check_method(at, match.methods[i], findings);
  }
  check_host(path + ".host", match.host, findings);
  if (!match.path.empty() && !findings.faulty(path + ".path"))
    if (const auto error = check_path_template(match.path))
      findings.add(path + ".path", "path " + in_quotes(match.path) + ", character " +
                                       std::to_string(error->offset + 1) + ": " + error->message);
  for (std::size_t i = 0; i < match.destination_ports.size(); ++i)
    if (!tcp_port_range.contains(match.destination_ports[i]))
      findings.add(element(path + ".port", i),
                   tcp_port_range.demand("port") + ", not " + std::to_string(match.destination_ports[i]));
}

void check_variable(const std::string& at, const std::string& path, const Dimension& dimension,
                    const Match& match, Findings& findings) {
  if (findings.faulty(path + ".match.path")) return;
  if (match.path.empty()) {
    findings.add(at, in_quotes(format_dimension(dimension)) + " in key needs a match with a path that has {" +
                         dimension.name + "}");
    return;
  }
  const std::vector<std::string> variables = path_template_variables(match.path);
  if (std::ranges::find(variables, dimension.name) != variables.end()) return;
  const std::vector<std::string_view> views(variables.begin(), variables.end());
  findings.add(at, in_quotes(format_dimension(dimension)) + " in key: the path " + in_quotes(match.path) +
                       " has no {" + dimension.name + "}" +
                       (views.empty() ? std::string{} : suggestion(dimension.name, views, "it has")));
}

void check_key(const std::string& path, const Rule& rule, std::set<std::string>& headers,
               Findings& findings) {
  const std::string key = path + ".key";
  if (rule.key.size() > max_dimensions)
    findings.add(element(key, max_dimensions), "key has " + std::to_string(rule.key.size()) +
                                                   " dimensions; the most are " +
                                                   std::to_string(max_dimensions));
  std::set<std::string> seen;
  for (std::size_t i = 0; i < rule.key.size(); ++i) {
    const std::string at = element(key, i);
    if (findings.faulty(at)) continue;
    const Dimension& dimension = rule.key[i];
    if (const std::string error = check_dimension(dimension); !error.empty()) {
      findings.add(at, error);
      continue;
    }
    if (!seen.insert(format_dimension(dimension)).second) {
      findings.add(at, in_quotes(format_dimension(dimension)) + " is in key twice");
      continue;
    }
    if (dimension.kind == Dimension::Kind::path_variable)
      check_variable(at, path, dimension, rule.match, findings);
    if (dimension.kind == Dimension::Kind::header && headers.insert(dimension.name).second &&
        headers.size() > max_chosen_headers)
      findings.add(at, "the header " + in_quotes(dimension.name) +
                           " is one too many: all rules together may use " +
                           std::to_string(max_chosen_headers) + " different headers");
  }
}

void check_limit(const std::string& path, const Rule& rule, Findings& findings) {
  if (rule.limit == 0) findings.add(path + ".limit", limit_range.demand("limit") + ", not 0");
  check_range(path, "interval", rule.interval, interval_range, findings);
  check_range(path, "spans", rule.spans, spans_range, findings);
  if (!findings.faulty(path + ".interval") && !findings.faulty(path + ".spans") &&
      rule.interval / rule.spans < shortest_span)
    findings.add(path + ".spans", "spans must be at most " + std::to_string(rule.interval / shortest_span) +
                                      " for an interval of " + format_duration(rule.interval) +
                                      ": a span (interval / spans) lasts at least " +
                                      format_duration(shortest_span));
}

void check_algorithm(const std::string& path, const Rule& rule, Findings& findings) {
  check_combinations(path, rule, findings);
  // Other algorithms know no cooldown: what stands there means nothing.
  if (rule.algorithm == Algorithm::cooldown) {
    if (rule.cooldown <= Duration{0})
      findings.add(path + ".cooldown", "cooldown must be longer than 0");
    else
      check_range(path, "cooldown", rule.cooldown, cooldown_range, findings);
  }
  if (!(rule.hold_back >= 0 && rule.hold_back <= max_hold_back) && !findings.faulty(path + ".hold_back"))
    findings.add(path + ".hold_back", "hold_back must be a number from 0 to 0.5, the part of the limit that nodes "
                                      "may keep back from each other");
  // 0 is a program's way to leave it out.
  if (rule.burst != 0) check_range(path, "burst", rule.burst, burst_range, findings);
  check_range(path, "warmup", rule.warmup, warmup_range, findings);
  check_range(path, "dephase", rule.dephase, dephase_range, findings);
}

void check_weight(const std::string& path, const Rule& rule, Findings& findings) {
  const bool saves_up = is_bucket(rule.algorithm);
  const std::uint64_t most = saves_up ? burst_of(rule) : rule.limit;
  const std::string what = saves_up && rule.burst != 0 ? "burst" : "limit";
  if (rule.weight > most && !findings.faulty(path + "." + what) && !findings.faulty(path + ".weight"))
    findings.add(path + ".weight", "weight must be at most the " + what + ", " + std::to_string(most) +
                                       ", not " + std::to_string(rule.weight) +
                                       ": no request would ever be admitted");
}

}  // namespace

std::string rule_path(std::size_t index) { return element("rule", index); }

void check_values(const Config& config, Findings& findings) {
  check_node(config.node, findings);
  check_store(config.store, findings);
  check_ports(config.ports, findings);
  if (config.rules.size() > max_rules)
    findings.add(rule_path(max_rules), "there are " + std::to_string(config.rules.size()) +
                                           " rules; the most are " + std::to_string(max_rules));
  std::map<std::string, std::size_t> names;
  std::set<std::string> headers;
  for (std::size_t i = 0; i < config.rules.size(); ++i) {
    const std::string path = rule_path(i);
    const Rule& rule = config.rules[i];
    check_name(path + ".name", rule.name, names, i, findings);
    check_match(path + ".match", rule.match, findings);
    check_limit(path, rule, findings);
    check_algorithm(path, rule, findings);
    check_weight(path, rule, findings);
    check_key(path, rule, headers, findings);
  }
}

}  // namespace weir
