// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Ways to add the counts of a key set to counters in Redis and to learn the sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/span_clock.h"
#include "key_set.h"
#include "redis_server.h"
#include "weir/config.h"

namespace weir::bench {

/// One interval's counters. Each is synchronised in several passes; in the first none of them exists.
struct Interval {
  Ordinal ordinal = 0;
  std::uint64_t pass = 1;  ///< 1, 2, …
};

/// Length of the intervals, and how long their counters live: longer than any run.
inline constexpr Duration interval_length = std::chrono::minutes{1};
inline constexpr Duration counter_life = std::chrono::minutes{10};

/// What one pass has cost on the node's side.
struct Pass {
  Duration wall{};
  Duration caller_cpu{};  ///< of the thread that asks for it
  Duration other_cpu{};   ///< of what works for it: a thread or a program
  std::size_t keys = 0;   ///< that were added to, by all nodes together
};

class Contender {
 public:
  virtual ~Contender() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view description() const = 0;
  /// How many of a set's keys it is given: a slow one needs fewer to be measured well.
  virtual std::size_t most_keys() const { return SIZE_MAX; }
  /// Adds every count once and waits for every sum. Throws when a sum is wrong.
  virtual Pass synchronise(const KeySet& keys, Interval interval) = 0;
  /// Reads an interval's counters from the server. Throws unless they hold what all its passes have added.
  virtual void check(const KeySet& keys, Interval last) = 0;
};

/// weir's own store, exactly once. @param nodes  as many stores, each with all the keys, at the same time
std::unique_ptr<Contender> make_store_contender(RedisServer& server, StoreLayout layout, std::size_t nodes);
/// What a first version does: INCRBY and EXPIRE, each waited for.
std::unique_ptr<Contender> make_naive_contender(RedisServer& server);
/// INCRBY and EXPIRE, appended with redisAppendCommand: what hiredis offers.
std::unique_ptr<Contender> make_pipelined_contender(RedisServer& server);
/// redis-benchmark's INCRBY with the pipeline that suits it best: no TTL, random keys, answers not looked at.
std::unique_ptr<Contender> make_ceiling_contender(RedisServer& server);

}  // namespace weir::bench
