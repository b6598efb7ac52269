// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A Redis store and what a controller does with it, for tests: submits, collects, waits. It keeps books of
/// its own about what it has submitted and what has been answered.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
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

/// The store at a URL. Fails the test when the URL is none.
inline std::unique_ptr<Store> open_store(const std::string& url, const StoreConfig& config) {
  const RedisUrlResult parsed = parse_redis_url(url);
  EXPECT_TRUE(parsed) << url << ": " << parsed.error;
  return make_redis_store(parsed.url, config);
}

class WatchedStore {
 public:
  explicit WatchedStore(const std::string& url, const StoreConfig& config = quick_config())
      : store_(open_store(url, config)) {
    store_->on_ready([this] {
      const std::lock_guard lock(mutex_);
      ++wakes_;
      woken_.notify_all();
    });
  }
  ~WatchedStore() { store_->on_ready({}); }
  WatchedStore(const WatchedStore&) = delete;
  WatchedStore& operator=(const WatchedStore&) = delete;

  void add(const std::string& name, Ordinal ordinal, std::uint64_t delta,
           Duration time_to_live = std::chrono::minutes{10}) {
    add({{name, delta}}, ordinal, time_to_live);
  }
  void add(const std::vector<std::pair<std::string, std::uint64_t>>& deltas, Ordinal ordinal,
           Duration time_to_live = std::chrono::minutes{10}) {
    std::vector<CounterWrite> writes;
    for (const auto& [name, delta] : deltas)
      writes.push_back({.name = name, .ordinal = ordinal, .delta = delta, .time_to_live = time_to_live});
    submit(std::move(writes));
  }

  /// Keys are filled in; intervals (1 s), times to live (10 min) and expiries (after the time to live) where
  /// there are none.
  void submit(std::vector<CounterWrite> writes) {
    const MonotonicTime at = now();
    for (CounterWrite& write : writes) {
      if (write.interval == Duration{}) write.interval = std::chrono::seconds{1};
      if (write.time_to_live == Duration{}) write.time_to_live = std::chrono::minutes{10};
      if (write.expires == MonotonicTime{}) write.expires = at + write.time_to_live;
      write.key = key_of(std::string(write.name), write.interval);
      submitted_ += write.delta;
      returning_ += write.returned;
      Counter& counter = counters_[{write.key, write.ordinal}];
      counter.raised_to = std::max(counter.raised_to, write.raised_to);
    }
    store_->submit(writes, at);
  }

  /// Collects what has come, and checks that every count is pending, applied or expired.
  void collect() {
    std::vector<CounterReply> replies;
    store_->collect(replies);
    for (const CounterReply& reply : replies) {
      replied_ += reply.delta;
      returned_ += reply.returned;
      Counter& counter = counters_[{reply.key, reply.ordinal}];
      counter.added += reply.delta;
      counter.returned += reply.returned;
      counter.total = reply.total;
      ++counter.replies;
      ++replies_;
    }
    const StoreFigures figures = store_->figures();
    EXPECT_EQ(figures.pending + figures.applied + figures.expired, submitted_);
    EXPECT_LE(replied_, figures.applied);
    EXPECT_LE(returned_, returning_);
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
      wait_for_wake(std::chrono::milliseconds{10});
    }
  }
  /// Until the store wakes its controller, or for so long.
  void wait_for_wake(Duration at_most) {
    std::unique_lock lock(mutex_);
    woken_.wait_for(lock, at_most, [this] { return wakes_ != seen_; });
    seen_ = wakes_;
  }
  [[nodiscard]] bool wait_until_up() {
    return wait_until([](const StoreFigures& figures) { return figures.up; });
  }
  /// Until nothing is pending, and every reply to a count, to what was returned (where none of it can have
  /// expired) and to what was raised has been collected.
  [[nodiscard]] bool wait_until_quiet() {
    return wait_until([this](const StoreFigures& figures) {
      return figures.pending == 0 && figures.applied == replied_ && returned_ == returning_ &&
             std::ranges::all_of(counters_, [](const auto& entry) {
               return entry.second.raised_to == 0 || entry.second.total >= entry.second.raised_to;
             });
    });
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

  /// What the replies have told about a counter.
  struct Counter {
    std::uint64_t total = 0;      ///< the latest
    std::uint64_t added = 0;      ///< of this node's counts
    std::uint64_t returned = 0;   ///< by this node
    std::uint64_t raised_to = 0;  ///< submitted by this node, the most
    std::uint64_t replies = 0;
  };
  Counter counter(const std::string& name, Ordinal ordinal,
                  Duration interval = std::chrono::seconds{1}) const {
    const auto found = counters_.find({key_of(name, interval), ordinal});
    return found == counters_.end() ? Counter{} : found->second;
  }
  std::uint64_t total(const std::string& name, Ordinal ordinal) const { return counter(name, ordinal).total; }

 private:
  static std::uint64_t key_of(const std::string& name, Duration interval) {
    return std::hash<std::string>{}(name + ' ' + std::to_string(interval.count()));
  }

  std::mutex mutex_;
  std::condition_variable woken_;
  std::uint64_t wakes_ = 0;
  std::uint64_t seen_ = 0;
  std::uint64_t submitted_ = 0;
  std::uint64_t replied_ = 0;
  std::uint64_t returning_ = 0;  // submitted to be returned
  std::uint64_t returned_ = 0;
  std::uint64_t replies_ = 0;
  std::map<std::pair<std::uint64_t, Ordinal>, Counter> counters_;
  std::unique_ptr<Store> store_;  // last: its thread uses the above
};

}  // namespace weir
