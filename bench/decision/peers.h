// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What others use to count per key, each as its own documentation shows it.
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

/// Sets up what peers need of DPDK, whose threads keep to `processor`. Throws where it cannot be.
void prepare_peers(int processor);

/// Limits so high that all is admitted, as in our own rules.
inline constexpr std::uint64_t limit = 1'000'000'000;

/// What tutorials write: one lock, one map from names to windows, the clock read for each request.
class MutexAndMap {
 public:
  explicit MutexAndMap(std::size_t) {}
  void admit(std::span<const PlainKey> keys) {
    for (const PlainKey& key : keys) {
      const std::lock_guard lock(mutex_);
      Window& window = windows_[std::string(key.name())];
      const auto now = std::chrono::steady_clock::now();
      if (now - window.began > std::chrono::seconds{1}) window = {0, now};
      admitted_ += ++window.count <= limit;
    }
  }
  std::uint64_t admitted() const { return admitted_; }

 private:
  struct Window {
    std::uint64_t count = 0;
    std::chrono::steady_clock::time_point began;
  };
  std::mutex mutex_;
  std::unordered_map<std::string, Window> windows_;
  std::uint64_t admitted_ = 0;
};

/// rte_hash over 64-bit keys with hashes made beforehand, looked up in bulk; counters beside it. On huge
/// pages, as ours.
class RteHash {
 public:
  explicit RteHash(std::size_t keys);
  ~RteHash();
  RteHash(const RteHash&) = delete;
  RteHash& operator=(const RteHash&) = delete;
  void admit(std::span<const PlainKey> keys);
  std::uint64_t admitted() const { return admitted_; }

 private:
  struct Table;
  std::unique_ptr<Table> table_;
  std::uint64_t admitted_ = 0;
};

/// rte_meter's single-rate three-colour marker: an array of meters, no search at all.
class RteMeter {
 public:
  explicit RteMeter(std::size_t keys);
  ~RteMeter();
  RteMeter(const RteMeter&) = delete;
  RteMeter& operator=(const RteMeter&) = delete;
  void admit(std::span<const PlainKey> keys);
  std::uint64_t admitted() const { return admitted_; }

 private:
  struct Meters;
  std::unique_ptr<Meters> meters_;
  std::uint64_t admitted_ = 0;
};

#ifdef WEIR_BENCH_TBB
/// TBB's concurrent_hash_map over 64-bit keys.
class TbbMap {
 public:
  explicit TbbMap(std::size_t keys);
  ~TbbMap();
  TbbMap(const TbbMap&) = delete;
  TbbMap& operator=(const TbbMap&) = delete;
  void admit(std::span<const PlainKey> keys);
  std::uint64_t admitted() const { return admitted_; }

 private:
  struct Map;
  std::unique_ptr<Map> map_;
  std::uint64_t admitted_ = 0;
};
#endif

}  // namespace weir::bench
