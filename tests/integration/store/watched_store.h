// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A Redis store and what a controller does with it, for tests: submits, collects, waits.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "store/redis/redis_store.h"

namespace weir {

inline MonotonicTime now() { return MonotonicTime(std::chrono::steady_clock::now().time_since_epoch()); }

/// Short enough for faults to show soon, long enough for a busy machine.
inline StoreConfig quick_config() {
  StoreConfig config;
  config.timeout = std::chrono::milliseconds{500};
  config.reconnect = std::chrono::milliseconds{10};
  return config;
}

class WatchedStore {
 public:
  explicit WatchedStore(const std::string& url, const StoreConfig& config = quick_config()) {
    const RedisUrlResult parsed = parse_redis_url(url);
    EXPECT_TRUE(parsed) << parsed.error;
    store_ = make_redis_store(parsed.url, config);
    store_->on_ready([this] {
      const std::lock_guard lock(mutex_);
      ++wakes_;
      woken_.notify_all();
    });
  }

  void add(const std::string& name, Ordinal ordinal, std::uint64_t delta,
           Duration time_to_live = std::chrono::minutes{10}) {
    add({{name, delta}}, ordinal, time_to_live);
  }
  void add(const std::vector<std::pair<std::string, std::uint64_t>>& deltas, Ordinal ordinal,
           Duration time_to_live = std::chrono::minutes{10}) {
    std::vector<CounterWrite> writes;
    for (const auto& [name, delta] : deltas) {
      writes.push_back({.key = std::hash<std::string>{}(name),
                        .name = name,
                        .ordinal = ordinal,
                        .delta = delta,
                        .time_to_live = time_to_live,
                        .expires = now() + time_to_live});
      submitted_ += delta;
    }
    store_->submit(writes, now());
  }

  /// Collects what has come, and checks that every count is pending, applied or expired.
  void collect() {
    std::vector<CounterReply> replies;
    store_->collect(replies);
    for (const CounterReply& reply : replies) {
      replied_ += reply.delta;
      totals_[{reply.key, reply.ordinal}] = reply.total;
      ++replies_;
    }
    const StoreFigures figures = store_->figures();
    EXPECT_EQ(figures.pending + figures.applied + figures.expired, submitted_);
  }

  /// Waits until something is so; looks again at each wake, and now and then because not all figures wake.
  [[nodiscard]] bool wait_until(const std::function<bool(const StoreFigures&)>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
    for (;;) {
      collect();
      const StoreFigures figures = store_->figures();
      if (condition(figures)) return true;
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "waited in vain; up=" << figures.up << " failures=" << figures.failures
                      << " pending=" << figures.pending << " applied=" << figures.applied
                      << " expired=" << figures.expired << " error=" << figures.error;
        return false;
      }
      std::unique_lock lock(mutex_);
      woken_.wait_for(lock, std::chrono::milliseconds{10}, [this] { return wakes_ != seen_; });
      seen_ = wakes_;
    }
  }
  [[nodiscard]] bool wait_until_up() {
    return wait_until([](const StoreFigures& figures) { return figures.up; });
  }
  /// Until nothing is pending, and every reply has been collected.
  [[nodiscard]] bool wait_until_quiet() {
    return wait_until(
        [this](const StoreFigures& figures) { return figures.pending == 0 && figures.applied == replied_; });
  }
  /// Until the store is down for a reason that contains `words`.
  [[nodiscard]] bool wait_until_down(const std::string& words) {
    return wait_until([&](const StoreFigures& figures) {
      return !figures.up && figures.failures > 0 && figures.error.find(words) != std::string::npos;
    });
  }

  StoreFigures figures() const { return store_->figures(); }
  Store& store() { return *store_; }
  std::uint64_t submitted() const { return submitted_; }
  std::uint64_t replied() const { return replied_; }
  std::uint64_t replies() const { return replies_; }
  std::uint64_t total(const std::string& name, Ordinal ordinal) const {
    const auto found = totals_.find({std::hash<std::string>{}(name), ordinal});
    return found == totals_.end() ? 0 : found->second;
  }

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  std::uint64_t wakes_ = 0;
  std::uint64_t seen_ = 0;
  std::uint64_t submitted_ = 0;
  std::uint64_t replied_ = 0;
  std::uint64_t replies_ = 0;
  std::map<std::pair<std::uint64_t, Ordinal>, std::uint64_t> totals_;
  std::unique_ptr<Store> store_;  // last: its thread uses the above
};

}  // namespace weir
