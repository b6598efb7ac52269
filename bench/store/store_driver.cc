// SPDX-License-Identifier: BSD-3-Clause
#include "store_driver.h"

#include <chrono>
#include <cstdio>
#include <stdexcept>

#include "contender.h"
#include "store/redis/redis_store.h"

namespace weir::bench {
namespace {

using std::chrono::steady_clock;

constexpr auto patience = std::chrono::seconds{60};

MonotonicTime now() { return MonotonicTime(steady_clock::now().time_since_epoch()); }

StoreConfig store_config(StoreLayout layout, const std::string& prefix) {
  StoreConfig config;
  config.layout = layout;
  config.prefix = prefix;
  // What is measured is how fast all is answered, not what becomes of a sync that is late.
  config.timeout = std::chrono::seconds{10};
  return config;
}

}  // namespace

StoreDriver::StoreDriver(const RedisUrl& url, StoreLayout layout, const std::string& prefix)
    : store_(make_redis_store(url, store_config(layout, prefix))) {
  store_->on_ready([this] {
    const std::lock_guard lock(mutex_);
    wake_ = true;
    woken_.notify_all();
  });
  std::unique_lock lock(mutex_);
  const auto up = [this, &lock] {
    lock.unlock();
    const bool is_up = store_->figures().up;
    lock.lock();
    return is_up;
  };
  const auto deadline = steady_clock::now() + patience;
  while (!up()) {
    if (steady_clock::now() > deadline) throw std::runtime_error("no store: " + store_->figures().error);
    woken_.wait_for(lock, std::chrono::milliseconds{10});
  }
}

StoreDriver::~StoreDriver() { store_->on_ready({}); }

void StoreDriver::prepare(const KeySet& keys, Ordinal ordinal) {
  writes_.clear();
  writes_.reserve(keys.size());
  replies_.clear();
  replies_.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i)
    writes_.push_back({.key = i,
                       .name = keys.names[i],
                       .ordinal = ordinal,
                       .interval = interval_length,
                       .delta = keys.counts[i],
                       .time_to_live = counter_life,
                       .expires = now() + counter_life});
}

void StoreDriver::submit() { store_->submit(writes_, now()); }

void StoreDriver::collect() {
  const std::uint64_t expired = store_->figures().expired;
  auto quiet_since = steady_clock::now();
  for (std::size_t known = 0;;) {
    store_->collect(replies_);
    if (replies_.size() == writes_.size()) return;
    if (replies_.size() != known) quiet_since = steady_clock::now();
    known = replies_.size();
    const StoreFigures figures = store_->figures();
    if (figures.expired != expired || steady_clock::now() - quiet_since > patience)
      throw std::runtime_error("the store has not done its work: " + std::to_string(known) + " of " +
                               std::to_string(writes_.size()) + " counters, " +
                               std::to_string(figures.failures) + " failures, error \"" + figures.error +
                               "\"");
    std::unique_lock lock(mutex_);
    woken_.wait_for(lock, std::chrono::seconds{1}, [this] { return wake_; });
    wake_ = false;
  }
}

void StoreDriver::check(const KeySet& keys, std::uint64_t least_passes, std::uint64_t most_passes) const {
  for (const CounterReply& reply : replies_) {
    const std::uint64_t count = keys.counts[reply.key];
    if (reply.delta != count || reply.total < least_passes * count || reply.total > most_passes * count)
      throw std::runtime_error(keys.names[reply.key] + " is " + std::to_string(reply.total) + " after " +
                               std::to_string(least_passes) + " to " + std::to_string(most_passes) +
                               " times " + std::to_string(count));
  }
}

}  // namespace weir::bench
