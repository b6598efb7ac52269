// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A real redis-server for one test: in a folder of its own, on a unix socket and on a loopback port, ended
/// by its process id.
#pragma once

#include <hiredis.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace weir {

/// What redis-server answered, as plainly as tests need it.
struct Answer {
  int type = 0;
  std::string text;
  long long integer = 0;
  std::vector<std::string> elements;
};

class RedisServer {
 public:
  /// @param options  further arguments, e.g. {"--requirepass", "x"}. Nothing is persisted unless they say so.
  /// Fails the test (and says why) when the server does not come up.
  explicit RedisServer(std::vector<std::string> options = {});
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  std::string unix_url() const { return "redis+unix://" + socket().string(); }
  std::string tcp_url() const { return "redis://127.0.0.1:" + std::to_string(port_); }
  std::filesystem::path socket() const { return folder_ / "redis.sock"; }
  std::uint16_t port() const { return port_; }

  void start();
  /// SIGKILL, and waits for the end.
  void kill();
  void signal(int number);

  /// Runs a command over a connection of the test's own. Fails the test when the server does not answer.
  Answer command(std::initializer_list<std::string> words) {
    return command(std::vector<std::string>(words));
  }
  Answer command(const std::vector<std::string>& words);
  /// The name and password to log in with before commands.
  void log_in_as(std::vector<std::string> words) {
    login_ = std::move(words);
    client_.reset();
  }

  /// The value of a counter; 0 where there is none.
  std::uint64_t counter(const std::string& name);
  std::vector<std::string> names(const std::string& pattern);
  /// Ends all connections but the test's own, from the server's side.
  void kill_clients();

 private:
  struct Free {
    void operator()(redisContext* context) const noexcept { redisFree(context); }
  };
  bool ready();
  bool connect();
  std::string log() const;

  std::filesystem::path folder_;
  std::uint16_t port_ = 0;
  std::vector<std::string> options_;
  std::vector<std::string> login_;
  pid_t process_ = -1;
  std::unique_ptr<redisContext, Free> client_;
};

/// A port that was free a moment ago.
std::uint16_t free_port();

}  // namespace weir
