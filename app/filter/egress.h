// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The way out: frames sorted by port and sent with patience that ends. A port that takes nothing must not
/// stop a worker.
#pragma once

#include <rte_config.h>
#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "filter/counters.h"
#include "filter/queue_plan.h"
#include "filter/wiring.h"

namespace weir::filter {

/// Attempts to hand a frame on, to a device or to another thread's ring, before it is given up and counted.
inline constexpr unsigned hand_over_attempts = 64;

/// One thread's transmit queues, at most one per port.
class Egress {
 public:
  /// @param sets      the queues this thread alone transmits to
  /// @param counters  must outlive this
  Egress(std::span<const QueueSet> sets, Counters& counters);

  /// Sends frames, in order per port, each by the port in `mbuf->port`. Takes them all over: what a device
  /// still refuses after a bounded number of attempts is freed and counted as transmit_drops.
  /// @pre each port is in one of the sets
  void send(std::span<rte_mbuf* const> frames) noexcept;
  /// The same with frames that all leave by one port.
  void send_by(std::uint16_t port, std::span<rte_mbuf*> frames) noexcept;

 private:
  struct Lane {
    std::uint16_t port = 0;
    std::uint16_t queue = 0;
    std::size_t count = 0;
    std::array<rte_mbuf*, max_outgoing> frames{};
  };
  void flush(Lane& lane) noexcept;
  void transmit(const Lane& lane, std::span<rte_mbuf*> frames) noexcept;

  std::vector<Lane> lanes_;
  std::array<std::uint16_t, RTE_MAX_ETHPORTS> lane_of_port_{};
  Counters& counters_;
};

}  // namespace weir::filter
