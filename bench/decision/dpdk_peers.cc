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
#include <atomic>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/huge_array.h"
#include "peers.h"

namespace weir::bench {

void prepare_peers(int processor) {
  // 22.11 logs to stdout, where the results belong.
  rte_openlog_stream(stderr);
  std::vector<std::string> words{"peers",
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

namespace {

// Heaps and tables have names, each its own.
std::string next_name() {
  static unsigned tables = 0;
  return "peer-" + std::to_string(tables++);
}

/// rte_hash brings comparisons for keys of 16 bytes and more. For shorter ones it calls memcmp, which takes
/// longer than this.
int differ(const void* key, const void* other, std::size_t) {
  std::uint64_t words[2];
  std::memcpy(&words[0], key, sizeof words[0]);
  std::memcpy(&words[1], other, sizeof words[1]);
  return words[0] != words[1];
}

}  // namespace

/// Without hugetlbfs, DPDK's own memory lies on small pages, and what would be measured is the address
/// translation. So the table gets a heap of its own, in memory like ours.
struct RteHash::Table {
  Table(std::size_t keys, std::uint8_t flags)
      : name(next_name()),
        memory((keys * bytes_per_key + smallest + page - 1) / page * page),
        counts(2 * keys) {
    if (rte_malloc_heap_create(name.c_str()) != 0 ||
        rte_malloc_heap_memory_add(name.c_str(), memory.data(), memory.size(), nullptr, 0, page) != 0)
      throw std::runtime_error(std::string("no heap for rte_hash: ") + rte_strerror(rte_errno));
    rte_hash_parameters parameters{};
    parameters.name = name.c_str();
    parameters.extra_flag = flags;
    parameters.entries = static_cast<std::uint32_t>(2 * keys);
    parameters.key_len = sizeof(std::uint64_t);
    parameters.socket_id = rte_malloc_heap_get_socket(name.c_str());
    hash = rte_hash_create(&parameters);
    if (hash == nullptr) throw std::runtime_error(std::string("rte_hash_create: ") + rte_strerror(rte_errno));
    rte_hash_set_cmp_func(hash, differ);
  }
  ~Table() {
    rte_hash_free(hash);
    rte_malloc_heap_memory_remove(name.c_str(), memory.data(), memory.size());
    rte_malloc_heap_destroy(name.c_str());
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  /// Calls place(found, i) with where the counter of the i-th key lies, or less than 0 where there is none
  /// yet, and adds up what it returns.
  template <typename Place>
  std::uint64_t look_up(std::span<const PlainKey> keys, Place&& place) {
    std::array<const void*, RTE_HASH_LOOKUP_BULK_MAX> pointers;
    std::array<hash_sig_t, RTE_HASH_LOOKUP_BULK_MAX> hashes;
    std::array<std::int32_t, RTE_HASH_LOOKUP_BULK_MAX> places;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      pointers[i] = &keys[i].hash;
      hashes[i] = signature(keys[i]);
    }
    rte_hash_lookup_with_hash_bulk(hash, pointers.data(), hashes.data(),
                                   static_cast<std::uint32_t>(keys.size()), places.data());
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (places[i] >= 0) __builtin_prefetch(&counts[static_cast<std::size_t>(places[i])], 1);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) sum += place(places[i], keys[i]);
    return sum;
  }
  /// @return where its counter lies
  std::int32_t add(const PlainKey& key) {
    const std::int32_t place = rte_hash_add_key_with_hash(hash, &key.hash, signature(key));
    if (place < 0) throw std::runtime_error("rte_hash is full");
    return place;
  }
  static hash_sig_t signature(const PlainKey& key) noexcept {
    return static_cast<hash_sig_t>(key.hash >> 32);
  }

  static constexpr std::size_t page = std::size_t{2} << 20;
  // Of two entries: what they and their signatures take, and as much again where sizes are rounded up.
  static constexpr std::size_t bytes_per_key = 128;
  static constexpr std::size_t smallest = std::size_t{4} << 20;
  std::string name;
  HugeArray<std::byte> memory;
  HugeArray<std::uint64_t> counts;
  rte_hash* hash = nullptr;
};

RteHash::RteHash(std::size_t keys, std::uint8_t flags) : table_(std::make_unique<Table>(keys, flags)) {}
RteHash::~RteHash() = default;

std::uint64_t RteHash::admit(std::span<const PlainKey> keys) {
  return table_->look_up(keys, [this](std::int32_t found, const PlainKey& key) -> std::uint64_t {
    const std::int32_t place = found < 0 ? table_->add(key) : found;
    return ++table_->counts[static_cast<std::size_t>(place)] <= limit;
  });
}

std::uint64_t RteHash::counted() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < table_->counts.size(); ++i) sum += table_->counts[i];
  return sum;
}

SharedRteHash::SharedRteHash(std::size_t keys) : RteHash(keys, RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY_LF) {}

std::uint64_t SharedRteHash::admit(std::span<const PlainKey> keys) {
  return table().look_up(keys, [this](std::int32_t found, const PlainKey& key) -> std::uint64_t {
    if (found < 0) {
      const std::lock_guard lock(adding_);
      found = table().add(key);
    }
    std::atomic_ref count(table().counts[static_cast<std::size_t>(found)]);
    return count.fetch_add(1, std::memory_order_relaxed) < limit;  // a count tells nothing else
  });
}

struct RteMeter::Meters {
  explicit Meters(std::size_t keys) : meters(keys) {}
  rte_meter_srtcm_profile profile;
  /// None on two lines.
  struct alignas(32) Meter : rte_meter_srtcm {};
  HugeArray<Meter> meters;
};

RteMeter::RteMeter(std::size_t keys) : meters_(std::make_unique<Meters>(keys)) {
  rte_meter_srtcm_params parameters{.cir = limit, .cbs = limit, .ebs = limit};
  if (rte_meter_srtcm_profile_config(&meters_->profile, &parameters) != 0)
    throw std::runtime_error("rte_meter_srtcm_profile_config failed");
  for (std::size_t i = 0; i < keys; ++i) rte_meter_srtcm_config(&meters_->meters[i], &meters_->profile);
}
RteMeter::~RteMeter() = default;

std::uint64_t RteMeter::admit(std::span<const PlainKey> keys, std::span<const PlainKey> next) {
  std::uint64_t admitted = 0;
  const std::uint64_t now = rte_rdtsc();
  for (const PlainKey& key : next) __builtin_prefetch(&meters_->meters[key.index], 1);
  for (const PlainKey& key : keys)
    admitted += rte_meter_srtcm_color_blind_check(&meters_->meters[key.index], &meters_->profile, now, 1) !=
                RTE_COLOR_RED;
  return admitted;
}

}  // namespace weir::bench
