// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A Redis Cluster for one test: three masters, each with a replica if wanted, on the loopback. Slots can be
/// moved step by step, so that a test can stop half way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "redis_server.h"

namespace weir {

class RedisCluster {
 public:
  static constexpr std::size_t masters = 3;
  static constexpr unsigned slots = 16384;

  enum class Replicas : std::uint8_t { none, one_each };

  /// Returns when every node says that the cluster is well.
  /// @param options  further arguments of every server
  explicit RedisCluster(Replicas replicas = Replicas::none, std::vector<std::string> options = {});

  /// All nodes' addresses, or those of the first few.
  std::string url(std::size_t nodes = SIZE_MAX) const;
  /// 0 … 2 begin as masters; 3 … 5, where there are replicas, as theirs, in the same order.
  RedisServer& node(std::size_t index) { return *nodes_[index]; }
  std::size_t size() const { return nodes_.size(); }

  /// Ends a node, as RedisServer::kill().
  void kill(std::size_t index);
  /// Starts it again, with what the cluster has told it before.
  void start(std::size_t index);
  /// Stops a node where it is, so that it answers nobody, until it is to go on.
  void hang(std::size_t index);
  void go_on(std::size_t index);
  bool is_up(std::size_t index) const { return up_[index]; }
  bool is_master(std::size_t index);
  /// Connections to all nodes that are masters now: what StoredCounters reads.
  std::vector<RedisClient*> master_clients();

  unsigned slot_of(const std::string& key);
  /// The master that has a slot, as it says itself. That there is none fails the test
  std::size_t owner(unsigned slot);

  // A move in steps. Whoever asks the old owner for a name that has moved is told ASK, and, for several names
  // of which some have moved, TRYAGAIN; after the end MOVED.
  void begin_move(unsigned slot, std::size_t to);
  /// Moves at most so many names. @return how many it has moved
  std::size_t move_names(unsigned slot, std::size_t to, std::size_t at_most);
  void end_move(unsigned slot, std::size_t to);
  /// All of it.
  void move(unsigned slot, std::size_t to);

  /// Makes a replica the master, without loss, and waits until it is.
  void fail_over_to(std::size_t replica);
  /// Until a replica has found its master dead and become one itself.
  void wait_for_takeover_by(std::size_t replica);
  /// Until all nodes that are up say that the cluster is well and agree on who has which slots.
  bool wait_until_well();
  /// Lets the others tell another port of this node: one of a network in front of it. Waits until they do.
  void announce(std::size_t index, std::uint16_t port);

 private:
  std::string view(std::size_t index);
  bool all_know(unsigned slot, std::size_t owner);
  void wait_for_messages();
  void wait_until_each_hears_of_all();

  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::vector<std::string> ids_;
  std::vector<bool> up_;
  std::uint64_t published_ = 0;
};

}  // namespace weir
