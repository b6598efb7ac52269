// SPDX-License-Identifier: BSD-3-Clause
#include "filter/queue_plan.h"

#include <algorithm>
#include <set>

namespace weir::filter {
namespace {

template <typename Number>
std::string list_of(std::span<const Number> numbers) {
  if (numbers.empty()) return "none";
  std::string text;
  for (const Number number : numbers) {
    if (!text.empty()) text += ", ";
    text += std::to_string(number);
  }
  return text;
}

/// "lcore 1", "lcores 1, 2"
std::string lcores_text(std::span<const unsigned> lcores) {
  return (lcores.size() == 1 ? "lcore " : "lcores ") + list_of(lcores);
}

/// What one thread polls, each queue of a pair being one of either port: "2 receive queues", "2 to 4 receive
/// queues".
std::string queues_polled(const QueuePlan& plan) {
  const auto [fewest, most] = std::ranges::minmax_element(plan.polled, {}, &std::vector<QueueSet>::size);
  std::string text = std::to_string(2 * fewest->size());
  if (fewest->size() != most->size()) text += " to " + std::to_string(2 * most->size());
  return text + " receive queues";
}

}  // namespace

PairsResult choose_pairs(std::span<const PortPair> configured, std::span<const std::uint16_t> available) {
  PairsResult result;
  if (configured.empty()) {
    if (available.empty()) {
      result.error =
          "no ports: bind two NICs to DPDK, or give two --vdev options before '--' (DPDK ports: none)";
    } else if (available.size() % 2 != 0) {
      result.error = "an odd number of ports cannot be paired (DPDK ports: " + list_of(available) +
                     "): add one, or name the pairs in [ports] pairs";
    } else {
      for (std::size_t i = 0; i < available.size(); i += 2)
        result.pairs.emplace_back(available[i], available[i + 1]);
    }
    return result;
  }
  std::set<std::uint16_t> used;
  for (const PortPair& pair : configured) {
    for (const std::uint16_t port : {pair.first, pair.second}) {
      if (!std::ranges::binary_search(available, port)) {
        result.error = "[ports] pairs names port " + std::to_string(port) +
                       ", which does not exist (DPDK ports: " + list_of(available) + ")";
        return result;
      }
      if (!used.insert(port).second) {
        result.error = "[ports] pairs names port " + std::to_string(port) + " twice";
        return result;
      }
    }
    result.pairs.push_back(pair);
  }
  return result;
}

QueuePlan plan_queues(std::span<const PortPair> pairs, std::span<const PortQueues> ports, unsigned lcores,
                      std::uint16_t configured) {
  unsigned offered = lcores;
  for (const PortQueues& port : ports)
    offered = std::min<unsigned>(offered, std::min(port.receive, port.transmit));
  offered = std::max(offered, 1U);
  const unsigned queues = configured != 0 ? std::min<unsigned>(configured, offered) : offered;

  QueuePlan plan;
  plan.queues = static_cast<std::uint16_t>(queues);
  plan.by_configuration = queues < offered;
  plan.distribute = queues == 1 && lcores > pairs.size();
  plan.workers =
      plan.distribute ? lcores - 1 : std::min(lcores, static_cast<unsigned>(pairs.size()) * queues);
  plan.polled.resize(plan.distribute ? 1 : plan.workers);
  unsigned next = 0;
  for (const PortPair& pair : pairs)
    for (unsigned queue = 0; queue < queues; ++queue)
      plan.polled[next++ % plan.polled.size()].push_back({pair, static_cast<std::uint16_t>(queue)});
  return plan;
}

std::string plan_text(std::span<const PortPair> pairs, const QueuePlan& plan,
                      std::span<const unsigned> lcores, std::size_t rules) {
  std::string text = "ports";
  for (const auto& [first, second] : pairs)
    text += ' ' + std::to_string(first) + '-' + std::to_string(second);
  text += "; queues per port: " + std::to_string(plan.queues) + "; workers: " + std::to_string(plan.workers);
  const auto busy = lcores.first(std::min<std::size_t>(lcores.size(), plan.lcores()));
  if (lcores.empty())
    text += " (the main lcore), polling " + queues_polled(plan);
  else if (plan.distribute)
    text += " (" + lcores_text(busy.subspan(1)) + "), and lcore " + std::to_string(lcores.front()) +
            ", which polls " + queues_polled(plan) + ", distributes to them by flow, and sends";
  else
    text += " (" + lcores_text(busy) + "), " + (busy.size() == 1 ? "" : "each ") + "polling " +
            queues_polled(plan);
  text += "; rules: " + std::to_string(rules);
  if (busy.size() < lcores.size())
    text +=
        "; lcores without work: " + list_of(lcores.subspan(busy.size())) +
        (plan.by_configuration ? " ([ports] queues = " + std::to_string(plan.queues) + " leaves them none)"
                               : " (the ports have no more queues)");
  return text;
}

}  // namespace weir::filter
