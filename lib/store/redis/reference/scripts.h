// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The scripts of the limiters that live in Redis alone, and what they are called with.
///
/// Exactness. Lua's numbers are doubles, so every number in a script is a whole number below 2^53: times are
/// microseconds of the server's clock (2^53 of them end in the year 2255), and a bucket counts in units of
/// which a token has interval / gcd(limit, interval) and a microsecond generates limit / gcd(limit,
/// interval). A quotient of two such numbers, rounded down or up, is exact as well: where it is not whole, it
/// is further from the next whole number than a double's rounding reaches.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "weir/store_limiter.h"

namespace weir {

/// The largest limit and capacity: sums of two stay below 2^53.
inline constexpr std::uint64_t max_script_number = std::uint64_t{1} << 51;

/// A bucket's numbers. Immutable.
struct ScriptBucket {
  std::uint64_t token = 1;     ///< units of one token
  std::uint64_t rate = 1;      ///< units that one microsecond generates
  std::uint64_t capacity = 1;  ///< units of the full bucket
  std::uint64_t fills_in = 1;  ///< microseconds from empty to full, rounded up
  bool exact = false;          ///< false: the numbers are too large for a script

  /// @pre limit, interval and burst > 0
  static ScriptBucket of(std::uint64_t limit, Duration interval, std::uint64_t burst) noexcept;
};

/// The text of an algorithm's script (Lua). Its one key is the name of the state. Each answers with an array
/// of whole numbers:
///  - window, token-bucket, sliding-log: admitted (1 or 0), remaining, retry in µs (-1: never), reset in µs
///  - token-server: granted, left, µs until the window ends, the window's ordinal
std::string_view limiter_script(StoreAlgorithm algorithm) noexcept;

/// How many numbers every script answers with.
inline constexpr std::size_t script_answer_size = 4;

/// What a script is called with behind the name.
/// @param asked  weight: what the request costs; token-server: what is needed, 0 only asks
std::array<std::string, 5> limiter_arguments(const StoreLimiterTerms& terms, std::uint64_t asked);

}  // namespace weir
