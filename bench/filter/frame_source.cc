// SPDX-License-Identifier: BSD-3-Clause
#include "frame_source.h"

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace weir::bench {
namespace {

constexpr std::uint16_t descriptors = 512;  // of no meaning to these devices
constexpr unsigned answers = 511;           // on their way at a time: to two bursts, and more

void require(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what + ": " + rte_strerror(rte_errno));
}

std::uint16_t null_port(const std::string& name) {
  const std::string device = "net_null_" + name;
  const std::string arguments = "size=" + std::to_string(frame_length) + ",copy=0";
  require(rte_eal_hotplug_add("vdev", device.c_str(), arguments.c_str()) == 0, device);
  std::uint16_t port = 0;
  require(rte_eth_dev_get_port_by_name(device.c_str(), &port) == 0, device);
  return port;
}

// One thread at each end.
rte_ring* make_ring(const std::string& name, unsigned room) {
  rte_ring* const ring =
      rte_ring_create(name.c_str(), room, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
  require(ring != nullptr, "ring " + name);
  return ring;
}

std::uint16_t ring_port(const std::string& name, rte_ring* receive, rte_ring* transmit) {
  const int port = rte_eth_from_rings(name.c_str(), &receive, 1, &transmit, 1, 0);
  require(port >= 0, "net_ring " + name);
  return static_cast<std::uint16_t>(port);
}

void start_port(std::uint16_t port, rte_mempool* pool) {
  const rte_eth_conf conf{};
  const std::string name = "port " + std::to_string(port);
  require(rte_eth_dev_configure(port, 1, 1, &conf) == 0 &&
              rte_eth_rx_queue_setup(port, 0, descriptors, 0, nullptr, pool) == 0 &&
              rte_eth_tx_queue_setup(port, 0, descriptors, 0, nullptr) == 0 && rte_eth_dev_start(port) == 0,
          name + " does not start");
}

}  // namespace

FrameSource::FrameSource(std::string name, std::uint32_t mbufs)
    : name_(std::move(name)),
      memory_("frames_" + name_, mbufs),
      // One thread has them, which has no cache, as it is none of DPDK's.
      answers_(rte_pktmbuf_pool_create_by_ops(("answers_" + name_).c_str(), answers, 0, 0,
                                              RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY, "ring_sp_sc")) {
  require(answers_ != nullptr, "no pool for answers");
}

FrameSource::~FrameSource() {
  for (const std::uint16_t port : {set_.ports.first, set_.ports.second}) {
    rte_eth_dev_stop(port);
    rte_eth_dev_close(port);
  }
}

void FrameSource::start(std::uint16_t first, std::uint16_t second) {
  set_ = {.ports = {first, second}, .queue = 0};
  start_port(first, memory_.pool());
  start_port(second, memory_.pool());
  wiring_.ports[first] = {.peer = second, .pool = answers_.get()};
  wiring_.ports[second] = {.peer = first, .pool = answers_.get()};
}

void FrameSource::be_frame(rte_mbuf* mbuf) const noexcept {
  mbuf->data_len = frame_length;
  mbuf->pkt_len = frame_length;
  mbuf->port = set_.ports.first;
}

PortFigures FrameSource::figures() const {
  PortFigures sum;
  for (const std::uint16_t port : {set_.ports.first, set_.ports.second}) {
    rte_eth_stats stats{};
    rte_eth_stats_get(port, &stats);
    sum.received += stats.ipackets;
    sum.transmitted += stats.opackets;
  }
  return sum;
}

NullSource::NullSource(std::string name, std::uint32_t mbufs) : FrameSource(std::move(name), mbufs) {
  start(null_port(this->name() + "_a"), null_port(this->name() + "_b"));
}

LoopSource::LoopSource(std::string name, std::uint32_t frames)
    : FrameSource(std::move(name), frames), frames_(frames) {
  std::array<std::uint16_t, 2> ports{};
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const std::string end = this->name() + (i == 0 ? "_a" : "_b");
    rte_ring* const ring = make_ring(end, frames);
    ports[i] = ring_port(end, ring, ring);
  }
  start(ports[0], ports[1]);
}

void LoopSource::fill(Content content) {
  memory().fill(content);
  // A loop that leaves mbufs as they are has them say the wrong port; so all of them go round anew.
  std::array<rte_mbuf*, filter::burst_size> frames;
  for (const std::uint16_t port : {set().ports.first, set().ports.second}) {
    while (const std::uint16_t count = rte_eth_rx_burst(port, 0, frames.data(), filter::burst_size))
      rte_pktmbuf_free_bulk(frames.data(), count);
  }
  for (std::uint32_t i = 0; i < frames_; ++i) {
    const std::uint16_t port = i < frames_ / 2 ? set().ports.first : set().ports.second;
    rte_mbuf* mbuf = rte_pktmbuf_alloc(memory().pool());
    if (mbuf == nullptr) throw std::logic_error("loop source: frames have been lost");
    be_frame(mbuf);
    mbuf->port = port;
    if (rte_eth_tx_burst(port, 0, &mbuf, 1) != 1)
      throw std::logic_error("loop source: the ring is too small");
  }
}

OneWaySource::OneWaySource(std::string name, std::uint32_t mbufs, std::uint32_t room_in,
                           std::uint32_t room_out)
    : FrameSource(std::move(name), mbufs),
      in_(make_ring(this->name() + "_in", room_in)),
      out_(make_ring(this->name() + "_out", room_out)) {
  rte_ring* const idle = make_ring(this->name() + "_idle", 1);  // the other direction: always empty
  start(ring_port(this->name() + "_a", in_, idle), ring_port(this->name() + "_b", idle, out_));
}

FreshSource::FreshSource(std::string name, std::uint32_t frames, std::uint32_t helping)
    : OneWaySource(std::move(name), frames, helping, helping), helping_(helping), prepared_(helping) {}

void FreshSource::fill(Content content) { patterns_.emplace(make_frames(content, mbufs())); }

void FreshSource::prepare() {
  if (rte_pktmbuf_alloc_bulk(memory().pool(), prepared_.data(), helping_) != 0)
    throw std::logic_error("fresh source: frames have been lost");
  for (rte_mbuf* const mbuf : prepared_) {
    be_frame(mbuf);
    const std::span<const std::byte> frame = (*patterns_)[next_];
    std::memcpy(rte_pktmbuf_mtod(mbuf, void*), frame.data(), frame.size());
    next_ = (next_ + 1) % mbufs();
  }
}

void FreshSource::serve() noexcept {
  rte_ring_enqueue_bulk(in(), reinterpret_cast<void**>(prepared_.data()), helping_, nullptr);
}

std::uint32_t FreshSource::clear() noexcept {
  const unsigned count =
      rte_ring_dequeue_burst(out(), reinterpret_cast<void**>(prepared_.data()), helping_, nullptr);
  rte_pktmbuf_free_bulk(prepared_.data(), count);
  return count;
}

std::string FreshSource::end() {
  // Those of a helping that has been given up.
  rte_mbuf* frame = nullptr;
  for (rte_ring* const ring : {in(), out()})
    while (rte_ring_dequeue(ring, reinterpret_cast<void**>(&frame)) == 0) rte_pktmbuf_free(frame);
  return rte_mempool_full(memory().pool()) != 0 ? "" : "frames have been lost";
}

}  // namespace weir::bench
