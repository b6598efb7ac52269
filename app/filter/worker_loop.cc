// SPDX-License-Identifier: BSD-3-Clause
#include "filter/worker_loop.h"

#include <rte_ethdev.h>

#include "filter/egress.h"
#include "filter/idle.h"

namespace weir::filter {
namespace {

std::uint16_t forward_burst(const WorkerSeat& seat, Egress& egress, const QueueSet& set, Side side) noexcept {
  const auto [from, to] = side == Side::first ? set.ports : PortPair{set.ports.second, set.ports.first};
  std::array<rte_mbuf*, burst_size> burst;
  const std::uint16_t count = rte_eth_rx_burst(from, set.queue, burst.data(), burst_size);
  if (count == 0) return 0;
  seat.counters.received.add(count);
  const std::span received = std::span{burst}.first(count);
  if (seat.filter.passes_without_time(received, side)) {
    egress.send_by(to, received);
    return count;
  }
  // From here on frames are asked for it, and not every driver (net_ring) has said it.
  for (rte_mbuf* const mbuf : received) mbuf->port = from;
  Outgoing out;
  if (seat.filter.passes_in_time(received, monotonic_now(), out))
    egress.send_by(to, received);
  else
    egress.send(std::span{out.frames}.first(out.count));
  return count;
}

}  // namespace

void run_to_completion(const WorkerSeat& seat) noexcept {
  Egress egress(seat.sets, seat.counters);
  Idle idle(seat.idle_sleep);
  seat.worker.online();
  while (!seat.stop.load(std::memory_order_relaxed)) {
    unsigned found = 0;
    for (const QueueSet& set : seat.sets) {
      found += forward_burst(seat, egress, set, Side::first);
      found += forward_burst(seat, egress, set, Side::second);
    }
    seat.worker.quiescent();
    if (idle.due(found != 0)) {
      seat.worker.offline();
      idle.rest();
      seat.worker.online();
    }
  }
  seat.worker.offline();
}

}  // namespace weir::filter
