// SPDX-License-Identifier: BSD-3-Clause
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_meter.h>
#include <sched.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/huge_array.h"
#include "peers.h"

namespace weir::bench {

void prepare_peers(int processor) {
  // 22.11 logs to stdout, where the results belong.
  rte_openlog_stream(stderr);
  std::vector<std::string> words{"bench-decision",
                                 "--no-huge",
                                 "--no-pci",
                                 "--no-shconf",
                                 "--no-telemetry",
                                 "--log-level",
                                 "error",
                                 "-m",
                                 "64",
                                 "--lcores",
                                 "0@" + std::to_string(processor)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  // EAL binds the thread that calls it; what that thread creates later may go elsewhere.
  cpu_set_t own;
  sched_getaffinity(0, sizeof own, &own);
  if (rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) < 0)
    throw std::runtime_error(std::string("DPDK does not start: ") + rte_strerror(rte_errno));
  sched_setaffinity(0, sizeof own, &own);
}

/// Without hugetlbfs, DPDK's own memory lies on small pages, and what would be measured is the address
/// translation. So the table gets a heap of its own, in memory like ours.
struct RteHash::Table {
  explicit Table(std::size_t keys)
      : memory((keys * bytes_per_key + smallest + page - 1) / page * page), counts(2 * keys) {
    if (rte_malloc_heap_create(heap) != 0 ||
        rte_malloc_heap_memory_add(heap, memory.data(), memory.size(), nullptr, 0, page) != 0)
      throw std::runtime_error(std::string("no heap for rte_hash: ") + rte_strerror(rte_errno));
    rte_hash_parameters parameters{};
    parameters.name = "peer";
    parameters.entries = static_cast<std::uint32_t>(2 * keys);
    parameters.key_len = sizeof(std::uint64_t);
    parameters.socket_id = rte_malloc_heap_get_socket(heap);
    hash = rte_hash_create(&parameters);
    if (hash == nullptr) throw std::runtime_error(std::string("rte_hash_create: ") + rte_strerror(rte_errno));
  }
  ~Table() {
    rte_hash_free(hash);
    rte_malloc_heap_memory_remove(heap, memory.data(), memory.size());
    rte_malloc_heap_destroy(heap);
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  static constexpr const char* heap = "peer";
  static constexpr std::size_t page = std::size_t{2} << 20;
  // Of two entries: what they and their signatures take, and as much again where sizes are rounded up.
  static constexpr std::size_t bytes_per_key = 128;
  static constexpr std::size_t smallest = std::size_t{4} << 20;
  HugeArray<std::byte> memory;
  HugeArray<std::uint64_t> counts;
  rte_hash* hash = nullptr;
};

RteHash::RteHash(std::size_t keys) : table_(std::make_unique<Table>(keys)) {}
RteHash::~RteHash() = default;

void RteHash::admit(std::span<const PlainKey> keys) {
  std::array<const void*, RTE_HASH_LOOKUP_BULK_MAX> pointers;
  std::array<hash_sig_t, RTE_HASH_LOOKUP_BULK_MAX> hashes;
  std::array<std::int32_t, RTE_HASH_LOOKUP_BULK_MAX> places;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    pointers[i] = &keys[i].hash;
    hashes[i] = static_cast<hash_sig_t>(keys[i].hash >> 32);
  }
  rte_hash_lookup_with_hash_bulk(table_->hash, pointers.data(), hashes.data(),
                                 static_cast<std::uint32_t>(keys.size()), places.data());
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (places[i] >= 0) __builtin_prefetch(&table_->counts[static_cast<std::size_t>(places[i])], 1);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (places[i] < 0) places[i] = rte_hash_add_key_with_hash(table_->hash, pointers[i], hashes[i]);
    if (places[i] < 0) throw std::runtime_error("rte_hash is full");
    admitted_ += ++table_->counts[static_cast<std::size_t>(places[i])] <= limit;
  }
}

struct RteMeter::Meters {
  explicit Meters(std::size_t keys) : meters(keys) {}
  rte_meter_srtcm_profile profile;
  HugeArray<rte_meter_srtcm> meters;
};

RteMeter::RteMeter(std::size_t keys) : meters_(std::make_unique<Meters>(keys)) {
  rte_meter_srtcm_params parameters{.cir = limit, .cbs = limit, .ebs = limit};
  if (rte_meter_srtcm_profile_config(&meters_->profile, &parameters) != 0)
    throw std::runtime_error("rte_meter_srtcm_profile_config failed");
  for (std::size_t i = 0; i < keys; ++i) rte_meter_srtcm_config(&meters_->meters[i], &meters_->profile);
}
RteMeter::~RteMeter() = default;

void RteMeter::admit(std::span<const PlainKey> keys) {
  const std::uint64_t now = rte_rdtsc();
  for (const PlainKey& key : keys) __builtin_prefetch(&meters_->meters[key.index], 1);
  for (const PlainKey& key : keys)
    admitted_ += rte_meter_srtcm_color_blind_check(&meters_->meters[key.index], &meters_->profile, now, 1) !=
                 RTE_COLOR_RED;
}

}  // namespace weir::bench
