// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The server that is measured: one started for the purpose, or one that is there already; and a connection
/// to ask it how it is doing.
#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "process.h"
#include "store/redis/redis_url.h"

namespace weir::bench {

struct FreeReply {
  void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

/// A connection that throws whatever goes wrong. One thread at a time.
class RedisClient {
 public:
  explicit RedisClient(const RedisUrl& url);

  Reply command(std::span<const std::string> words);
  Reply command(std::initializer_list<std::string> words) {
    return command(std::span(words.begin(), words.size()));
  }
  /// For what is to be pipelined.
  redisContext* context() const noexcept { return context_.get(); }
  /// The next answer to what was appended.
  Reply answer();

 private:
  struct FreeContext {
    void operator()(redisContext* context) const noexcept { redisFree(context); }
  };
  Reply checked(void* reply);
  std::unique_ptr<redisContext, FreeContext> context_;
};

/// What the server has spent since it was started.
struct ServerFigures {
  Duration cpu{};
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
};

class RedisServer {
 public:
  /// @param url  of an existing server; empty: starts one of its own, on a unix socket, that persists nothing
  explicit RedisServer(const std::string& url);

  const std::string& url() const noexcept { return url_; }
  const RedisUrl& address() const noexcept { return address_; }
  RedisClient& client() { return *client_; }
  std::string version();
  ServerFigures figures();
  /// Empties a server of our own. One that was there before keeps what others have in it.
  void clear();

 private:
  TemporaryFolder folder_;
  std::string url_;
  RedisUrl address_;
  std::optional<ChildProcess> process_;
  std::optional<RedisClient> client_;
};

}  // namespace weir::bench
