// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What values the configuration allows: one place for the reader and the checks.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "config/durations.h"
#include "weir/time.h"

namespace weir {

/// Whole numbers, both ends included.
struct IntegerRange {
  std::int64_t least;
  std::int64_t most;

  constexpr bool contains(std::int64_t value) const { return value >= least && value <= most; }
  /// "<key> must be a whole number from 1 to 5"
  std::string demand(std::string_view key) const {
    std::string text = std::string(key) + " must be a whole number ";
    if (most == std::numeric_limits<std::int64_t>::max())
      return text + "of at least " + std::to_string(least);
    return text + "from " + std::to_string(least) + " to " + std::to_string(most);
  }
};

/// Durations, both ends included.
struct DurationRange {
  Duration least;
  Duration most;

  constexpr bool contains(Duration value) const { return value >= least && value <= most; }
  /// "<key> must be from 1ms to 10s"
  std::string demand(std::string_view key) const {
    return std::string(key) + " must be from " + format_duration(least) + " to " + format_duration(most);
  }
};

inline constexpr IntegerRange keys_range{64, 16 * 1024 * 1024};
inline constexpr DurationRange idle_sleep_range{Duration{0}, std::chrono::seconds{1}};
inline constexpr DurationRange statistics_range{Duration{0}, std::chrono::hours{24}};
inline constexpr DurationRange timeout_range{std::chrono::milliseconds{1}, std::chrono::seconds{10}};
inline constexpr DurationRange reconnect_range{std::chrono::milliseconds{10}, std::chrono::seconds{60}};
inline constexpr IntegerRange backlog_range{1024, 64 * 1024 * 1024};
inline constexpr IntegerRange descriptors_range{64, 32768};
inline constexpr IntegerRange queues_range{0, 1024};
/// What IPv4 asks of a link at the least, and what an IP packet can have.
inline constexpr IntegerRange mtu_range{68, 65535};
inline constexpr IntegerRange port_id_range{0, 65534};
inline constexpr IntegerRange tcp_port_range{1, 65535};
inline constexpr IntegerRange limit_range{1, std::numeric_limits<std::int64_t>::max()};
inline constexpr DurationRange interval_range{std::chrono::milliseconds{10}, std::chrono::hours{366 * 24}};
inline constexpr IntegerRange spans_range{2, 1000};
inline constexpr Duration shortest_span = std::chrono::milliseconds{1};
inline constexpr DurationRange cooldown_range{Duration{1}, std::chrono::hours{366 * 24}};
inline constexpr IntegerRange burst_range{1, std::numeric_limits<std::int64_t>::max()};
inline constexpr DurationRange warmup_range{Duration{0}, std::chrono::hours{24}};
inline constexpr DurationRange dephase_range{Duration{0}, std::chrono::hours{366 * 24}};
inline constexpr IntegerRange weight_range{0, std::numeric_limits<std::uint32_t>::max()};
inline constexpr std::size_t max_name_length = 64;
inline constexpr std::size_t max_prefix_length = 64;
inline constexpr std::size_t max_header_name_length = 64;

}  // namespace weir
