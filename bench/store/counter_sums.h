// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What is on the server after a measurement: a fast result that is wrong is none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/span_clock.h"
#include "key_set.h"
#include "redis_server.h"
#include "weir/config.h"

namespace weir::bench {

/// The sum of an interval's counters that are strings, "user|203.0.113.57:29395653".
std::uint64_t sum_of_strings(RedisClient& client, const KeySet& keys, Ordinal ordinal);

/// The sum of an interval's counters that are fields of the store's hashes.
std::uint64_t sum_of_hashes(RedisClient& client, const std::string& prefix, Duration interval,
                            Ordinal ordinal);

/// The sum of an interval's counters that nodes exchange: all records of all logs.
std::uint64_t sum_of_logs(RedisClient& client, const std::string& prefix, Duration interval, Ordinal ordinal);

/// The sum of an interval's counters in a layout.
std::uint64_t sum_of(StoreLayout layout, RedisClient& client, const std::string& prefix, const KeySet& keys,
                     Duration interval, Ordinal ordinal);

/// Throws unless the sum on the server is what has been added to it.
void expect_sum(std::string_view contender, std::uint64_t stored, std::uint64_t added);

}  // namespace weir::bench
