// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Calls one script in Redis and waits for its answer: connects when there is something to call, logs in,
/// makes the script known, and does so again after whatever went wrong.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "store/redis/redis_connection.h"
#include "store/redis/redis_reply.h"
#include "store/redis/redis_url.h"

namespace weir {

/// A script's answer, or why there is none.
struct ScriptReply {
  RedisReply reply;
  std::string error;  ///< empty: `reply` is no error. Fit for a log line

  explicit operator bool() const noexcept { return error.empty(); }
};

/// One thread at a time.
class ScriptClient {
 public:
  /// @param script  outlives this object
  ScriptClient(RedisUrl url, std::string_view script) : url_(std::move(url)), script_(script) {}

  /// Calls the script with one key. A call that failed is not repeated: it may have been applied.
  /// @param timeout  for all of it, but for the resolution of the server's name
  ScriptReply call(std::string_view key, std::span<const std::string> arguments,
                   std::chrono::nanoseconds timeout);

 private:
  using TimePoint = RedisConnection::TimePoint;

  /// Empty, or why there is no connection.
  std::string connect(std::chrono::nanoseconds timeout);
  std::string ask(std::span<const std::string_view> words, TimePoint deadline, RedisReply& reply);
  ScriptReply failure(std::string why);

  RedisUrl url_;
  std::string_view script_;
  std::string digest_;  // of the script, as Redis computes it
  std::optional<RedisConnection> connection_;
};

}  // namespace weir
