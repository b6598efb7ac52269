// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <iomanip>
#include <sstream>
#include <string>

#include "config/dimensions.h"
#include "config/durations.h"
#include "weir/config.h"

namespace weir {

inline std::string toml_string(const std::string& text) { return '"' + text + '"'; }
inline std::string toml_string(Duration duration) { return toml_string(format_duration(duration)); }

/// A configuration with every value written out that its rules may have, to compare it and to read it again.
inline std::string toml_text(const Config& config) {
  std::string text = "[node]\nname = " + toml_string(config.node.name) +
                     "\nkeys = " + std::to_string(config.node.keys) +
                     "\nbusy_controller = " + (config.node.busy_controller ? "true" : "false") +
                     "\nidle_sleep = " + toml_string(config.node.idle_sleep) +
                     "\nstatistics = " + toml_string(config.node.statistics) +
                     "\n[store]\nurl = " + toml_string(config.store.url) +
                     "\ntimeout = " + toml_string(config.store.timeout) +
                     "\nreconnect = " + toml_string(config.store.reconnect) +
                     "\nprefix = " + toml_string(config.store.prefix) + "\n[ports]\n";
  if (!config.ports.pairs.empty()) {
    text += "pairs = [";
    for (const auto& [first, second] : config.ports.pairs)
      text += '[' + std::to_string(first) + ',' + std::to_string(second) + "],";
    text += "]\n";
  }
  text += "descriptors = " + std::to_string(config.ports.descriptors) +
          "\nqueues = " + std::to_string(config.ports.queues) + '\n';
  if (config.ports.mtu != 0) text += "mtu = " + std::to_string(config.ports.mtu) + '\n';
  for (const Rule& rule : config.rules) {
    text += "[[rule]]\nname = " + toml_string(rule.name) + "\n";
    if (!rule.match.methods.empty()) {
      text += "match.method = [";
      for (const std::string& method : rule.match.methods) text += toml_string(method) + ',';
      text += "]\n";
    }
    if (!rule.match.destination_ports.empty()) {
      text += "match.port = [";
      for (const std::uint16_t port : rule.match.destination_ports) text += std::to_string(port) + ',';
      text += "]\n";
    }
    if (!rule.match.host.empty()) text += "match.host = " + toml_string(rule.match.host) + '\n';
    if (!rule.match.path.empty()) text += "match.path = " + toml_string(rule.match.path) + '\n';
    text += "key = [";
    for (const Dimension& dimension : rule.key) text += toml_string(format_dimension(dimension)) + ',';
    text += "]\nlimit = " + std::to_string(rule.limit) + "\ninterval = " + toml_string(rule.interval) +
            "\nspans = " + std::to_string(rule.spans) +
            "\nalgorithm = " + toml_string(std::string(to_string(rule.algorithm))) +
            "\nearly_block = " + toml_string(std::string(to_string(rule.early_block))) +
            "\ndebt = " + (rule.debt ? "true" : "false") + "\nweight = " + std::to_string(rule.weight) +
            "\npenalize = " + (rule.penalize ? "true" : "false") +
            "\non_store_failure = " + toml_string(std::string(to_string(rule.on_store_failure))) +
            "\naction = " + toml_string(std::string(to_string(rule.action))) + '\n';
    if (rule.algorithm == Algorithm::cooldown)
      text += "cooldown = " + toml_string(rule.cooldown) + "\ndephase = " + toml_string(rule.dephase) +
              "\nlocal_rule = " + toml_string(std::string(to_string(rule.local_rule))) + '\n';
    // As exactly as a double is.
    if (rule.algorithm != Algorithm::strict) {
      std::ostringstream fraction;
      fraction << std::setprecision(17) << std::showpoint << rule.hold_back;
      text += "hold_back = " + fraction.str() + '\n';
    }
    if (rule.burst != 0) text += "burst = " + std::to_string(rule.burst) + '\n';
    if (rule.algorithm == Algorithm::token_bucket) text += "warmup = " + toml_string(rule.warmup) + '\n';
  }
  return text;
}

}  // namespace weir
