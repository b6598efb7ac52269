// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Where the partitions live: what clusters and sentinels answer, taken apart. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/redis_reply.h"
#include "store/redis/redis_url.h"

namespace weir {

/// Slots of a Redis Cluster.
inline constexpr std::uint32_t cluster_slots = 16384;

/// The slot of all names that carry this tag between braces: CRC-16/XMODEM modulo cluster_slots, as Redis
/// Cluster's specification has it.
std::uint32_t cluster_slot(std::string_view tag) noexcept;

/// A run of slots and who serves them.
struct SlotRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;  ///< inclusive
  RedisEndpoint master;
};

/// The answer to CLUSTER SLOTS; nothing when it is none.
/// @param asked  who answered: a node that does not know its own address leaves it to us
std::optional<std::vector<SlotRange>> parse_cluster_slots(const RedisReply& reply,
                                                          const RedisEndpoint& asked);

/// "MOVED 3999 127.0.0.1:6381", or "ASK …".
struct Redirection {
  enum class Kind : std::uint8_t { moved, ask };
  Kind kind = Kind::moved;
  RedisEndpoint to;
};

/// What an error redirects to; nothing when it does not.
/// @param asked  who answered
std::optional<Redirection> parse_redirection(const RedisReply& error, const RedisEndpoint& asked);

/// The answer to SENTINEL GET-MASTER-ADDR-BY-NAME; nothing when it is none, or the name is not known.
std::optional<RedisEndpoint> parse_master_address(const RedisReply& reply);

/// Whether the answer to ROLE is a master's.
bool is_master(const RedisReply& reply);

/// The answer to TIME: since the epoch.
std::optional<std::chrono::microseconds> parse_time(const RedisReply& reply);

}  // namespace weir
