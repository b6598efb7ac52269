// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A real redis-server for one test: in a folder of its own, on a unix socket and on a loopback port, ended
/// by its process id.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "child_process.h"
#include "redis_client.h"

namespace weir {

class RedisServer {
 public:
  /// @param options  further arguments, e.g. {"--requirepass", "x"}. Nothing is persisted unless they say so.
  /// WEIR_REDIS_SERVER in the environment names another program that speaks the same, such as valkey-server.
  /// Fails the test (and says why) when the server does not come up.
  explicit RedisServer(std::vector<std::string> options = {});

  std::string unix_url() const { return "redis+unix://" + socket().string(); }
  std::string tcp_url() const { return "redis://127.0.0.1:" + std::to_string(port_); }
  std::filesystem::path socket() const { return folder() / "redis.sock"; }
  const std::filesystem::path& folder() const { return folder_.path(); }
  std::uint16_t port() const { return port_; }

  void start();
  /// SIGKILL, and waits for the end.
  void kill();
  void signal(int number) { process_.signal(number); }

  /// Runs a command over a connection of the test's own. Fails the test when the server does not answer.
  Answer command(std::initializer_list<std::string> words) { return client_.command(words); }
  Answer command(const std::vector<std::string>& words) { return client_.command(words); }
  RedisClient& client() { return client_; }
  /// The name and password to log in with before commands.
  void log_in_as(std::vector<std::string> words) { client_.log_in_as(std::move(words)); }

  std::vector<std::string> names(const std::string& pattern) { return client_.names(pattern); }
  /// The value of a plain counter (a string); 0 where there is none.
  std::uint64_t counter(const std::string& name);
  /// Ends all connections but the test's own, from the server's side.
  void kill_clients();
  std::string log() const;

 private:
  TestFolder folder_;
  std::uint16_t port_ = 0;
  std::vector<std::string> options_;
  ChildProcess process_;
  RedisClient client_;
};

/// A port of the loopback that is free, and that no other test is given while this one may need it.
std::uint16_t free_port();

/// The program to start: WEIR_REDIS_SERVER, or redis-server.
std::string redis_server_program();

}  // namespace weir
