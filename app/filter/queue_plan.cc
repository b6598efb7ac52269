// SPDX-License-Identifier: BSD-3-Clause
#include "filter/queue_plan.h"

#include <algorithm>
#include <set>

namespace weir::filter {
namespace {

std::string list_of(std::span<const std::uint16_t> ports) {
  if (ports.empty()) return "none";
  std::string text;
  for (const std::uint16_t port : ports) {
    if (!text.empty()) text += ", ";
    text += std::to_string(port);
  }
  return text;
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
  unsigned queues = configured != 0 ? configured : lcores;
  queues = std::min(queues, lcores);
  for (const PortQueues& port : ports)
    queues = std::min<unsigned>(queues, std::min(port.receive, port.transmit));
  queues = std::max(queues, 1U);

  QueuePlan plan;
  plan.queues = static_cast<std::uint16_t>(queues);
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

}  // namespace weir::filter
