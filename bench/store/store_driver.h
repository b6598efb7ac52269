// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A store, and as much of a controller as it takes to synchronise a key set with it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "key_set.h"
#include "redis_server.h"
#include "store/store.h"
#include "weir/config.h"

namespace weir::bench {

/// One thread at a time.
class StoreDriver {
 public:
  /// Waits until the store is up. Throws when it does not come up.
  StoreDriver(const RedisUrl& url, StoreLayout layout, const std::string& prefix);
  ~StoreDriver();
  StoreDriver(const StoreDriver&) = delete;
  StoreDriver& operator=(const StoreDriver&) = delete;

  /// Makes the writes of one pass: the controller's work, not the store's. `keys` must outlive submit().
  void prepare(const KeySet& keys, Ordinal ordinal);
  void submit();
  /// Waits for all replies to what was submitted. Throws when the store gives counts up, or does not answer.
  void collect();
  /// Throws unless each reply told, for each key, a sum of between so many and so many passes.
  void check(const KeySet& keys, std::uint64_t least_passes, std::uint64_t most_passes) const;

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  bool wake_ = false;  // guarded by the mutex
  std::unique_ptr<Store> store_;
  std::vector<CounterWrite> writes_;
  std::vector<CounterReply> replies_;
};

}  // namespace weir::bench
