// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Who polls what: pure arithmetic over ports, queues and lcores, settled before any device is touched. Any
/// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weir::filter {

/// Two ports bridged both ways.
using PortPair = std::pair<std::uint16_t, std::uint16_t>;

/// The pairs to bridge, or why there are none.
struct PairsResult {
  std::vector<PortPair> pairs;
  std::string error;  ///< empty when all is well
};

/// @param configured  `[ports] pairs`; empty: the available ports in order, two by two
/// @param available   ids of the ports there are, ascending
PairsResult choose_pairs(std::span<const PortPair> configured, std::span<const std::uint16_t> available);

/// How many queues a port has to offer.
struct PortQueues {
  std::uint16_t port = 0;
  std::uint16_t receive = 1;
  std::uint16_t transmit = 1;
};

/// One queue of both ports of a pair. One thread alone receives from it and transmits to it.
struct QueueSet {
  PortPair ports;
  std::uint16_t queue = 0;

  bool operator==(const QueueSet&) const = default;
};

struct QueuePlan {
  std::uint16_t queues = 1;       ///< per port and direction
  bool by_configuration = false;  ///< the ports would have had more for these lcores
  /// Software distribution: one I/O lcore polls all ports and hands frames to the workers by flow.
  bool distribute = false;
  unsigned workers = 0;  ///< decision makers; the I/O lcore is not one of them
  /// What each worker polls; in software distribution a single entry: what the I/O lcore polls.
  std::vector<std::vector<QueueSet>> polled;

  /// Threads that poll: the workers and the I/O lcore.
  unsigned lcores() const noexcept { return workers + (distribute ? 1 : 0); }
};

/// Each worker gets queue i of every pair as long as the ports have queues. Where they have only one and
/// there are more lcores than pairs, one lcore distributes to the others.
/// @param lcores      threads that may poll, at least 1
/// @param configured  `[ports] queues`; 0: as many as there are lcores
/// @pre pairs and ports are not empty
QueuePlan plan_queues(std::span<const PortPair> pairs, std::span<const PortQueues> ports, unsigned lcores,
                      std::uint16_t configured);

/// What a plan comes to, for people, on one line.
/// @param lcores  those that may poll, in the order of the plan's threads, the I/O lcore first; none: it is
///                the main lcore alone
/// @param rules   how many there are
std::string plan_text(std::span<const PortPair> pairs, const QueuePlan& plan,
                      std::span<const unsigned> lcores, std::size_t rules);

}  // namespace weir::filter
