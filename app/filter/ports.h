// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// DPDK devices: set up, started, and put away again. Main thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "filter/queue_plan.h"
#include "filter/wiring.h"

struct rte_mempool;

namespace weir::filter {

/// Ids of all ports there are, ascending.
std::vector<std::uint16_t> available_ports();

/// How many queues the ports of these pairs offer. A port that does not answer offers one; starting it will
/// tell why.
std::vector<PortQueues> queues_of(std::span<const PortPair> pairs);

/// The ports of all pairs, started and promiscuous. Destroying it stops and closes them; no thread may poll
/// by then.
class Ports {
 public:
  /// Configures and starts every port of every pair.
  /// @param plan         how many queues, and who polls them
  /// @param descriptors  per queue and direction; the devices may adjust it
  /// @param error        what went wrong, for people, when the result is null
  static std::unique_ptr<Ports> start(std::span<const PortPair> pairs, const QueuePlan& plan,
                                      std::uint16_t descriptors, std::string& error);
  ~Ports();
  Ports(const Ports&) = delete;
  Ports& operator=(const Ports&) = delete;

  const Wiring& wiring() const noexcept { return wiring_; }
  /// Worth telling, not worth stopping for: e.g. a port that cannot be promiscuous.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  struct FreePool {
    void operator()(rte_mempool* pool) const noexcept;
  };
  Ports() = default;
  bool start_port(std::uint16_t port, std::uint16_t peer, const QueuePlan& plan, std::uint16_t descriptors,
                  std::string& error);

  std::vector<std::uint16_t> started_;
  std::vector<std::unique_ptr<rte_mempool, FreePool>> pools_;
  std::vector<std::string> warnings_;
  Wiring wiring_;
};

/// Mbufs one port needs: all its descriptors full, and what threads hold meanwhile.
std::uint32_t mbufs_per_port(const QueuePlan& plan, std::uint16_t descriptors) noexcept;

}  // namespace weir::filter
