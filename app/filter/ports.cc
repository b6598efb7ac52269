// SPDX-License-Identifier: BSD-3-Clause
#include "filter/ports.h"

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <bit>

#include "filter/distribute.h"
#include "filter/port_setup.h"

namespace weir::filter {
namespace {

constexpr unsigned mbuf_cache = 256;

/// A Toeplitz key that repeats every 16 bits gives both directions of a flow the same hash: swapping
/// addresses, or ports, swaps whole 16-bit units.
constexpr std::array<std::uint8_t, 64> symmetric_key = [] {
  std::array<std::uint8_t, 64> key{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = i % 2 == 0 ? 0x6d : 0x5a;
  return key;
}();

std::string port_text(std::uint16_t port) {
  char name[RTE_ETH_NAME_MAX_LEN] = "?";
  rte_eth_dev_get_name_by_port(port, name);
  return "port " + std::to_string(port) + " (" + name + ")";
}

std::string failure(std::uint16_t port, const char* what, int code) {
  return port_text(port) + ": cannot " + what + ": " + rte_strerror(code < 0 ? -code : code);
}

rte_eth_conf configuration(const rte_eth_dev_info& info, std::uint16_t queues,
                           std::vector<std::uint8_t>& key) {
  rte_eth_conf conf{};
  if (queues > 1) {
    const std::uint64_t hashed = hashed_fields(info.flow_type_rss_offloads);
    // A device that offers several queues but no RSS spreads in its own way (or its other side does).
    if (hashed != 0) {
      const std::size_t size = info.hash_key_size == 0 ? 40 : info.hash_key_size;
      key.resize(size);
      for (std::size_t i = 0; i < size; ++i) key[i] = symmetric_key[i % symmetric_key.size()];
      conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
      conf.rx_adv_conf.rss_conf.rss_hf = hashed;
      conf.rx_adv_conf.rss_conf.rss_key = key.data();
      conf.rx_adv_conf.rss_conf.rss_key_len = static_cast<std::uint8_t>(size);
    }
  }
  // Frames larger than a buffer come and go as chains.
  conf.rxmode.offloads = RTE_ETH_RX_OFFLOAD_SCATTER & info.rx_offload_capa;
  conf.txmode.offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS & info.tx_offload_capa;
  return conf;
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
                                    std::uint16_t descriptors, std::string& error) {
  std::unique_ptr<Ports> ports(new Ports);
  for (const PortPair& pair : pairs) {
    if (!ports->start_port(pair.first, pair.second, plan, descriptors, error) ||
        !ports->start_port(pair.second, pair.first, plan, descriptors, error))
      return nullptr;
  }
  return ports;
}

bool Ports::start_port(std::uint16_t port, std::uint16_t peer, const QueuePlan& plan,
                       std::uint16_t descriptors, std::string& error) {
  const std::uint16_t queues = plan.queues;
  const int socket = rte_eth_dev_socket_id(port);
  const std::uint32_t mbufs = mbufs_per_port(plan, descriptors);
  rte_mempool* const pool = rte_pktmbuf_pool_create(("weir_port_" + std::to_string(port)).c_str(), mbufs,
                                                    mbuf_cache, 0, RTE_MBUF_DEFAULT_BUF_SIZE, socket);
  if (pool == nullptr) {
    error = port_text(port) + ": no memory for " + std::to_string(mbufs) + " buffers of " +
            std::to_string(RTE_MBUF_DEFAULT_BUF_SIZE) + " bytes (" + rte_strerror(rte_errno) +
            "): give DPDK more (-m), or lower [ports] descriptors";
    return false;
  }
  pools_.emplace_back(pool);
  wiring_.ports[port] = {.peer = peer, .pool = pool};

  rte_eth_dev_info info{};
  if (const int code = rte_eth_dev_info_get(port, &info); code != 0) {
    error = failure(port, "ask the device what it offers", code);
    return false;
  }
  std::vector<std::uint8_t> key;
  const rte_eth_conf conf = configuration(info, queues, key);
  if (const int code = rte_eth_dev_configure(port, queues, queues, &conf); code != 0) {
    error = failure(port, ("configure " + std::to_string(queues) + " queues").c_str(), code);
    return false;
  }
  std::uint16_t receive_descriptors = descriptors;
  std::uint16_t transmit_descriptors = descriptors;
  if (const int code = rte_eth_dev_adjust_nb_rx_tx_desc(port, &receive_descriptors, &transmit_descriptors);
      code != 0) {
    error = failure(port, "adjust the number of descriptors", code);
    return false;
  }
  for (std::uint16_t queue = 0; queue < queues; ++queue) {
    const auto queue_socket = static_cast<unsigned>(socket);
    if (const int code =
            rte_eth_rx_queue_setup(port, queue, receive_descriptors, queue_socket, nullptr, pool);
        code != 0) {
      error = failure(port, ("set up receive queue " + std::to_string(queue)).c_str(), code);
      return false;
    }
    if (const int code = rte_eth_tx_queue_setup(port, queue, transmit_descriptors, queue_socket, nullptr);
        code != 0) {
      error = failure(port, ("set up transmit queue " + std::to_string(queue)).c_str(), code);
      return false;
    }
  }
  if (const int code = rte_eth_dev_start(port); code != 0) {
    error = failure(port, "start", code);
    return false;
  }
  started_.push_back(port);
  if (const int code = rte_eth_promiscuous_enable(port); code != 0)
    warnings_.push_back(failure(port, "receive frames for others (promiscuous mode)", code));
  return true;
}

Ports::~Ports() {
  for (const std::uint16_t port : started_) rte_eth_dev_stop(port);
  for (const std::uint16_t port : started_) rte_eth_dev_close(port);
}

}  // namespace weir::filter
