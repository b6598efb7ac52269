// SPDX-License-Identifier: BSD-3-Clause
#include "filter/egress.h"

#include <rte_ethdev.h>
#include <rte_pause.h>

namespace weir::filter {

Egress::Egress(std::span<const QueueSet> sets, Counters& counters) : counters_(counters) {
  for (const QueueSet& set : sets) {
    for (const std::uint16_t port : {set.ports.first, set.ports.second}) {
      lane_of_port_[port] = static_cast<std::uint16_t>(lanes_.size());
      lanes_.push_back({.port = port, .queue = set.queue, .count = 0, .frames = {}});
    }
  }
}

void Egress::send(std::span<rte_mbuf* const> frames) noexcept {
  for (rte_mbuf* const frame : frames) {
    Lane& lane = lanes_[lane_of_port_[frame->port]];
    lane.frames[lane.count++] = frame;
    if (lane.count == lane.frames.size()) flush(lane);
  }
  for (Lane& lane : lanes_)
    if (lane.count != 0) flush(lane);
}

void Egress::send_by(std::uint16_t port, std::span<rte_mbuf*> frames) noexcept {
  transmit(lanes_[lane_of_port_[port]], frames);
}

void Egress::flush(Lane& lane) noexcept {
  transmit(lane, std::span(lane.frames).first(lane.count));
  lane.count = 0;
}

void Egress::transmit(const Lane& lane, std::span<rte_mbuf*> frames) noexcept {
  const std::size_t count = frames.size();
  std::size_t sent = 0;
  for (unsigned attempt = 0; sent < count && attempt < hand_over_attempts; ++attempt) {
    if (attempt != 0) rte_pause();
    sent += rte_eth_tx_burst(lane.port, lane.queue, frames.data() + sent,
                             static_cast<std::uint16_t>(count - sent));
  }
  counters_.transmitted.add(sent);
  if (sent == count) return;
  counters_.transmit_drops.add(count - sent);
  rte_pktmbuf_free_bulk(frames.data() + sent, static_cast<unsigned>(count - sent));
}

}  // namespace weir::filter
