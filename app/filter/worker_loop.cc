// SPDX-License-Identifier: BSD-3-Clause
#include "filter/worker_loop.h"

#include <rte_ethdev.h>

#include "filter/egress.h"
#include "filter/idle.h"

namespace weir::filter {
namespace {

std::uint16_t forward_burst(const WorkerSeat& seat, Egress& egress, std::uint16_t port,
                            std::uint16_t queue) noexcept {
  std::array<rte_mbuf*, burst_size> burst;
  const std::uint16_t count = rte_eth_rx_burst(port, queue, burst.data(), burst_size);
  if (count == 0) return 0;
  seat.counters.received.add(count);
  Outgoing out;
  const std::span received = std::span{burst}.first(count);
  if (!seat.filter.pass_without_time(received, out)) seat.filter.process_rest(received, monotonic_now(), out);
  if (out.one_port)
    egress.send_by(out.frames[0]->port, std::span{out.frames}.first(out.count));
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
      found += forward_burst(seat, egress, set.ports.first, set.queue);
      found += forward_burst(seat, egress, set.ports.second, set.queue);
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
