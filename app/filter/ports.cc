// SPDX-License-Identifier: BSD-3-Clause
#include "filter/ports.h"

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <bit>
#include <cerrno>
#include <utility>

#include "filter/distribute.h"

namespace weir::filter {
namespace {

constexpr unsigned mbuf_cache = 256;

std::string name_of(std::uint16_t port) {
  char name[RTE_ETH_NAME_MAX_LEN] = "?";
  rte_eth_dev_get_name_by_port(port, name);
  return name;
}

std::string port_text(std::uint16_t port) { return filter::port_text(port, name_of(port)); }

std::string failure(std::uint16_t port, const char* what, int code) {
  return port_text(port) + ": cannot " + what + ": " + rte_strerror(code < 0 ? -code : code);
}

/// 0: it does not say.
std::uint16_t mtu_of(std::uint16_t port) {
  std::uint16_t mtu = 0;
  return rte_eth_dev_get_mtu(port, &mtu) == 0 ? mtu : std::uint16_t{0};
}

rte_eth_conf configuration(const rte_eth_dev_info& info, std::uint16_t queues, std::uint16_t mtu) {
  rte_eth_conf conf{};
  conf.rxmode.mtu = mtu;
  // A device that offers several queues but no RSS spreads in its own way (or its other side does).
  if (queues > 1 && hashed_fields(info.flow_type_rss_offloads) != 0) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf = symmetric_hash(info);
  }
  // Frames larger than a buffer come and go as chains.
  conf.rxmode.offloads = RTE_ETH_RX_OFFLOAD_SCATTER & info.rx_offload_capa;
  conf.txmode.offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS & info.tx_offload_capa;
  return conf;
}

/// As it is now, but for what it has counted.
PortState state_of(std::uint16_t port) {
  PortState state{.port = port, .name = name_of(port), .mtu = mtu_of(port)};
  rte_eth_link link{};
  if (rte_eth_link_get_nowait(port, &link) == 0) {
    state.link = link.link_status == RTE_ETH_LINK_UP ? Link::up : Link::down;
    const bool known = state.link == Link::up && link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN;
    state.megabits = known ? link.link_speed : RTE_ETH_SPEED_NUM_NONE;
  }
  return state;
}

/// Adds what the device has counted since it was started, by us or by whoever had it before.
/// @return false: it does not say
bool add_counts(PortState& state) {
  rte_eth_stats counts{};
  if (rte_eth_stats_get(state.port, &counts) != 0) return false;
  state.missed = counts.imissed;
  state.no_buffer = counts.rx_nombuf;
  state.errors = counts.ierrors;
  state.unsent = counts.oerrors;
  return true;
}

}  // namespace

std::vector<std::uint16_t> available_ports() {
  std::vector<std::uint16_t> ports;
  std::uint16_t port = 0;
  RTE_ETH_FOREACH_DEV(port) ports.push_back(port);
  return ports;
}

std::vector<PortQueues> queues_of(std::span<const PortPair> pairs) {
  std::vector<PortQueues> queues;
  for (const PortPair& pair : pairs) {
    for (const std::uint16_t port : {pair.first, pair.second}) {
      rte_eth_dev_info info{};
      if (rte_eth_dev_info_get(port, &info) != 0) info.max_rx_queues = info.max_tx_queues = 1;
      queues.push_back({port, info.max_rx_queues, info.max_tx_queues});
    }
  }
  return queues;
}

std::uint32_t mbufs_per_port(const QueuePlan& plan, std::uint16_t descriptors) noexcept {
  // A frame received by one port waits in a transmit queue of the other, so both kinds of descriptors count.
  std::uint32_t mbufs = 2U * plan.queues * descriptors;
  mbufs += plan.lcores() * (mbuf_cache * 3 / 2 + static_cast<std::uint32_t>(max_outgoing));
  // All rings full at once would take many times as much: a pool run dry then only makes them look shorter.
  if (plan.distribute) mbufs += Distributor::ring_size;
  return std::bit_ceil(mbufs) - 1;  // the size a mempool holds best
}

void Ports::FreePool::operator()(rte_mempool* pool) const noexcept { rte_mempool_free(pool); }

std::unique_ptr<Ports> Ports::start(std::span<const PortPair> pairs, const QueuePlan& plan,
                                    const PortsConfig& config, std::string& error) {
  std::unique_ptr<Ports> ports(new Ports);
  for (const PortPair& pair : pairs) {
    if (!ports->start_port(pair.first, pair.second, plan, config, error) ||
        !ports->start_port(pair.second, pair.first, plan, config, error))
      return nullptr;
    ports->compare_mtus(pair);
  }
  for (const std::uint16_t port : ports->started_) {
    ports->at_start_.push_back(state_of(port));
    // What a device that does not say has counted before is taken for nothing.
    static_cast<void>(add_counts(ports->counted_from_.emplace_back(ports->at_start_.back())));
  }
  return ports;
}

bool Ports::start_port(std::uint16_t port, std::uint16_t peer, const QueuePlan& plan,
                       const PortsConfig& config, std::string& error) {
  rte_eth_dev_info info{};
  rte_eth_dev_info faced{};
  for (const auto& [asked, answer] : {std::pair{port, &info}, std::pair{peer, &faced}})
    if (const int code = rte_eth_dev_info_get(asked, answer); code != 0) {
      error = failure(asked, "ask the device what it offers", code);
      return false;
    }
  const bool chained = (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER) != 0 &&
                       (faced.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
  const FrameSize frames = frame_size(config.mtu, mtu_of(port), info, chained);
  if (!frames.error.empty()) {
    error = port_text(port) + ": " + frames.error;
    return false;
  }
  rte_mempool* const pool = make_pool(port, plan, config.descriptors, frames, error);
  if (pool == nullptr) return false;
  wiring_.ports[port] = {.peer = peer, .pool = pool};

  const rte_eth_conf conf = configuration(info, plan.queues, frames.mtu);
  if (const int code = rte_eth_dev_configure(port, plan.queues, plan.queues, &conf); code != 0) {
    const std::string what =
        "configure " + std::to_string(plan.queues) + " queues and an MTU of " + std::to_string(frames.mtu);
    error = failure(port, what.c_str(), code);
    return false;
  }
  if (!set_up_queues(port, plan.queues, config.descriptors, pool, error)) return false;
  if (config.mtu != 0 && !set_mtu(port, config.mtu, error)) return false;
  if (const int code = rte_eth_dev_start(port); code != 0) {
    error = failure(port, "start", code);
    return false;
  }
  started_.push_back(port);
  if (const int code = rte_eth_promiscuous_enable(port); code != 0)
    warnings_.push_back(failure(port, "receive frames for others (promiscuous mode)", code));
  return true;
}

rte_mempool* Ports::make_pool(std::uint16_t port, const QueuePlan& plan, std::uint16_t descriptors,
                              const FrameSize& frames, std::string& error) {
  const std::uint32_t mbufs = mbufs_per_port(plan, descriptors);
  rte_mempool* const pool =
      rte_pktmbuf_pool_create(("weir_port_" + std::to_string(port)).c_str(), mbufs, mbuf_cache, 0,
                              frames.buffer_size, rte_eth_dev_socket_id(port));
  if (pool == nullptr)
    error = port_text(port) + ": no memory for " + std::to_string(mbufs) + " buffers of " +
            std::to_string(frames.buffer_size) + " bytes (" + rte_strerror(rte_errno) +
            "): give DPDK more (-m), or lower [ports] descriptors" +
            (frames.buffer_size > RTE_MBUF_DEFAULT_BUF_SIZE ? " or mtu" : "");
  else
    pools_.emplace_back(pool);
  return pool;
}

bool Ports::set_up_queues(std::uint16_t port, std::uint16_t queues, std::uint16_t descriptors,
                          rte_mempool* pool, std::string& error) {
  std::uint16_t receive_descriptors = descriptors;
  std::uint16_t transmit_descriptors = descriptors;
  if (const int code = rte_eth_dev_adjust_nb_rx_tx_desc(port, &receive_descriptors, &transmit_descriptors);
      code != 0) {
    error = failure(port, "adjust the number of descriptors", code);
    return false;
  }
  const auto socket = static_cast<unsigned>(rte_eth_dev_socket_id(port));
  for (std::uint16_t queue = 0; queue < queues; ++queue) {
    if (const int code = rte_eth_rx_queue_setup(port, queue, receive_descriptors, socket, nullptr, pool);
        code != 0) {
      error = failure(port, ("set up receive queue " + std::to_string(queue)).c_str(), code);
      return false;
    }
    if (const int code = rte_eth_tx_queue_setup(port, queue, transmit_descriptors, socket, nullptr);
        code != 0) {
      error = failure(port, ("set up transmit queue " + std::to_string(queue)).c_str(), code);
      return false;
    }
  }
  return true;
}

/// Not every driver goes by what it has been configured with.
bool Ports::set_mtu(std::uint16_t port, std::uint16_t mtu, std::string& error) {
  const std::string what = "set its MTU to " + std::to_string(mtu);
  const int code = rte_eth_dev_set_mtu(port, mtu);
  if (code == 0) return true;
  if (code == -ENOTSUP) {
    warnings_.push_back(failure(port, what.c_str(), code) +
                        ": see to it that what lies behind it carries such frames");
    return true;
  }
  error = failure(port, what.c_str(), code) + ": choose another [ports] mtu, or leave it out";
  return false;
}

void Ports::compare_mtus(const PortPair& pair) {
  const std::uint16_t first = mtu_of(pair.first);
  const std::uint16_t second = mtu_of(pair.second);
  if (first == second) return;
  warnings_.push_back(port_text(pair.first) + " has an MTU of " + std::to_string(first) + ", and " +
                      port_text(pair.second) + ", which it faces, of " + std::to_string(second) +
                      ": longer frames are lost between them; [ports] mtu sets both");
}

std::vector<PortState> Ports::states() {
  std::vector<PortState> states;
  for (PortState& base : counted_from_) {
    PortState now = state_of(base.port);
    if (add_counts(now)) count_since(base, now);
    states.push_back(std::move(now));
  }
  return states;
}

Ports::~Ports() {
  for (const std::uint16_t port : started_) rte_eth_dev_stop(port);
  for (const std::uint16_t port : started_) rte_eth_dev_close(port);
}

}  // namespace weir::filter
