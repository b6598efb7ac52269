// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What others use to count per key, each as its own documentation shows it. admit() counts each of some
/// requests and tells how many of them are within the limit; counted() is how many the counters hold.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "stream.h"

namespace weir::bench {

/// Sets up what peers need of DPDK, whose threads keep to `processor`. Throws where it cannot be. Binds the
/// calling thread to nothing.
void prepare_peers(int processor);

/// Limits so high that all is admitted, as in our own rules.
inline constexpr std::uint64_t limit = 1'000'000'000;

/// What tutorials write: one lock, one map from names to windows, made for so many keys, the clock read for
/// each request. Any thread.
class MutexAndMap {
 public:
  explicit MutexAndMap(std::size_t keys) { windows_.reserve(keys); }
  std::uint64_t admit(std::span<const PlainKey> keys) {
    std::uint64_t admitted = 0;
    for (const PlainKey& key : keys) {
      const std::lock_guard lock(mutex_);
      Window& window = windows_[std::string(key.name())];
      const auto now = std::chrono::steady_clock::now();
      if (now - window.began > std::chrono::seconds{1}) window = {0, now};
      admitted += ++window.count <= limit;
      ++counted_;
    }
    return admitted;
  }
  /// @pre nobody admits
  std::uint64_t counted() const { return counted_; }

 private:
  struct Window {
    std::uint64_t count = 0;
    std::chrono::steady_clock::time_point began;
  };
  std::mutex mutex_;
  std::unordered_map<std::string, Window> windows_;
  std::uint64_t counted_ = 0;  // windows begin anew
};

/// rte_hash over 64-bit keys with hashes made beforehand and a comparison for just their length, looked up in
/// bulk; counters beside it. On huge pages, as ours.
class RteHash {
 public:
  explicit RteHash(std::size_t keys) : RteHash(keys, 0) {}
  ~RteHash();
  RteHash(const RteHash&) = delete;
  RteHash& operator=(const RteHash&) = delete;
  std::uint64_t admit(std::span<const PlainKey> keys);
  /// @pre nobody admits
  std::uint64_t counted() const;

 protected:
  struct Table;
  RteHash(std::size_t keys, std::uint8_t flags);
  Table& table() noexcept { return *table_; }

 private:
  std::unique_ptr<Table> table_;
};

/// The same for several threads: read without a lock (RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY_LF, the fastest
/// that rte_hash has for it), atomic counters, and a lock around what adds a key.
class SharedRteHash : public RteHash {
 public:
  explicit SharedRteHash(std::size_t keys);
  std::uint64_t admit(std::span<const PlainKey> keys);

 private:
  std::mutex adding_;
};

/// rte_meter's single-rate three-colour marker: an array of meters, no search at all. It keeps no count.
class RteMeter {
 public:
  explicit RteMeter(std::size_t keys);
  ~RteMeter();
  RteMeter(const RteMeter&) = delete;
  RteMeter& operator=(const RteMeter&) = delete;
  /// @param next  keys that come next: their meters are asked for meanwhile
  std::uint64_t admit(std::span<const PlainKey> keys, std::span<const PlainKey> next);

 private:
  struct Meters;
  std::unique_ptr<Meters> meters_;
};

#ifdef WEIR_BENCH_TBB
/// TBB's concurrent_hash_map over 64-bit keys. Any thread.
class TbbMap {
 public:
  explicit TbbMap(std::size_t keys);
  ~TbbMap();
  TbbMap(const TbbMap&) = delete;
  TbbMap& operator=(const TbbMap&) = delete;
  std::uint64_t admit(std::span<const PlainKey> keys);
  /// @pre nobody admits
  std::uint64_t counted() const;

 private:
  struct Map;
  std::unique_ptr<Map> map_;
};
#endif

}  // namespace weir::bench
