// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// DPDK devices: set up, started, and put away again. Main thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "filter/port_setup.h"
#include "filter/port_state.h"
#include "filter/queue_plan.h"
#include "filter/wiring.h"
#include "weir/config.h"

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
  /// @param plan    how many queues, and who polls them
  /// @param config  of it the descriptors per queue and direction, which the devices may adjust, and the MTU
  /// @param error   what went wrong, for people, when the result is null
  static std::unique_ptr<Ports> start(std::span<const PortPair> pairs, const QueuePlan& plan,
                                      const PortsConfig& config, std::string& error);
  ~Ports();
  Ports(const Ports&) = delete;
  Ports& operator=(const Ports&) = delete;

  const Wiring& wiring() const noexcept { return wiring_; }
  /// What they were like when all had been started, in the order of the pairs; no frames are counted yet.
  const std::vector<PortState>& at_start() const noexcept { return at_start_; }
  /// Asks the devices, in the order of the pairs; some need a while to answer. One thread at a time, while
  /// others poll.
  std::vector<PortState> states();
  /// Worth telling, not worth stopping for: e.g. a port that cannot be promiscuous.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  struct FreePool {
    void operator()(rte_mempool* pool) const noexcept;
  };
  Ports() = default;
  bool start_port(std::uint16_t port, std::uint16_t peer, const QueuePlan& plan, const PortsConfig& config,
                  std::string& error);
  rte_mempool* make_pool(std::uint16_t port, const QueuePlan& plan, std::uint16_t descriptors,
                         const FrameSize& frames, std::string& error);
  static bool set_up_queues(std::uint16_t port, std::uint16_t queues, std::uint16_t descriptors,
                            rte_mempool* pool, std::string& error);
  bool set_mtu(std::uint16_t port, std::uint16_t mtu, std::string& error);
  void compare_mtus(const PortPair& pair);

  std::vector<std::uint16_t> started_;
  std::vector<PortState> at_start_;
  std::vector<PortState> counted_from_;  // of the same ports
  std::vector<std::unique_ptr<rte_mempool, FreePool>> pools_;
  std::vector<std::string> warnings_;
  Wiring wiring_;
};

/// Mbufs one port needs: all its descriptors full, and what threads hold meanwhile.
std::uint32_t mbufs_per_port(const QueuePlan& plan, std::uint16_t descriptors) noexcept;

}  // namespace weir::filter
