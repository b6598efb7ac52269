// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A master, two replicas and three sentinels that watch them, for one test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "redis_server.h"

namespace weir {

class RedisSentinels {
 public:
  static constexpr std::size_t count = 3;
  static constexpr const char* master_name = "weir";

  /// Returns when every sentinel knows the others and the replicas, and the replicas are in step.
  /// @param options           further arguments of every server
  /// @param sentinel_options  further lines of every sentinel's configuration, such as "requirepass x"
  /// @param password          that the test's own connections log in with, where one is wanted
  explicit RedisSentinels(std::vector<std::string> options = {},
                          const std::vector<std::string>& sentinel_options = {}, std::string password = {});

  /// "redis+sentinel://…/weir", with all sentinels or the first few.
  std::string url(std::size_t sentinels = count) const;

  RedisServer& server(std::size_t index) { return *servers_[index]; }
  /// The server that sentinels (most of them) call the master.
  std::size_t master();
  /// Until another server than this is the master, says so itself, and most sentinels agree. From then on
  /// they wait for a minute before they replace one that does not answer.
  /// @pre no sentinel is dead
  /// @return it
  std::size_t wait_for_another_master(std::size_t than);
  /// Until the server replicates the master, and has what it has.
  void wait_until_in_step(std::size_t replica);

  /// Asks for a failover of a master that is well, and waits for it.
  std::size_t fail_over();

  void kill_sentinel(std::size_t index);
  void start_sentinel(std::size_t index);
  void signal_sentinel(std::size_t index, int number) { sentinels_[index]->process.signal(number); }
  RedisClient& sentinel(std::size_t index) { return sentinels_[index]->client; }
  std::uint16_t sentinel_port(std::size_t index) const { return sentinels_[index]->port; }

 private:
  struct Sentinel {
    explicit Sentinel(std::uint16_t own_port) : folder("sentinel"), port(own_port), client(own_port) {}
    TestFolder folder;
    std::uint16_t port;
    ChildProcess process;
    RedisClient client;
  };

  std::string password_;
  std::vector<std::unique_ptr<RedisServer>> servers_;
  std::vector<std::unique_ptr<Sentinel>> sentinels_;
};

}  // namespace weir
