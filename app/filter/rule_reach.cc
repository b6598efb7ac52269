// SPDX-License-Identifier: BSD-3-Clause
#include "filter/rule_reach.h"

namespace weir::filter {
namespace {

bool takes_every_request(const Match& match) {
  return match.methods.empty() && match.host.empty() && match.path.empty() && match.destination_ports.empty();
}

}  // namespace

std::string out_of_reach(std::span<const Rule> rules) {
  const std::string most = std::to_string(max_rules_per_request);
  std::size_t everywhere = 0;
  for (const Rule& rule : rules) {
    if (everywhere == max_rules_per_request)
      return "rule \"" + rule.name + "\": it would never apply: a request is counted by at most " + most +
             " rules, and " + most +
             " before this one apply to every request; give them a match, or leave some of them out";
    if (takes_every_request(rule.match)) ++everywhere;
  }
  return {};
}

}  // namespace weir::filter
