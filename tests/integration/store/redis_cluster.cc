// SPDX-License-Identifier: BSD-3-Clause
#include "redis_cluster.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "wait_until.h"

namespace weir {
namespace {

/// One line of CLUSTER NODES.
struct NodeLine {
  std::string id;
  std::string address;
  std::string flags;
  std::string master;
  std::string pinged;  // when, where there is no answer yet; else 0
  std::string epoch;
  std::vector<std::pair<unsigned, unsigned>> slots;

  bool is(const char* flag) const { return flags.find(flag) != std::string::npos; }
  bool has(unsigned slot) const {
    return std::ranges::any_of(
        slots, [slot](const auto& range) { return range.first <= slot && slot <= range.second; });
  }
};

std::vector<NodeLine> node_lines(const std::string& text) {
  std::vector<NodeLine> result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    NodeLine node;
    std::string word;
    // id address flags master ping pong epoch link slots…
    words >> node.id >> node.address >> node.flags >> node.master >> node.pinged >> word >> node.epoch >>
        word;
    while (words >> word) {
      if (word.front() == '[') continue;  // on the move
      const std::size_t dash = word.find('-');
      const auto first = static_cast<unsigned>(std::stoul(word));
      const auto last =
          dash == std::string::npos ? first : static_cast<unsigned>(std::stoul(word.substr(dash + 1)));
      node.slots.emplace_back(first, last);
    }
    result.push_back(std::move(node));
  }
  return result;
}

void expect_ok(const Answer& answer, const std::string& what) {
  EXPECT_FALSE(answer.is_error()) << what << ": " << answer.text;
}

}  // namespace

RedisCluster::RedisCluster(Replicas replicas, std::vector<std::string> options) {
  const std::size_t count = replicas == Replicas::none ? masters : 2 * masters;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::string> words{"--cluster-enabled", "yes", "--cluster-port", std::to_string(free_port()),
                                   // Long enough for a busy machine not to take the living for dead.
                                   "--cluster-node-timeout", "4000",
                                   // Replicas take over however long they have been without their master.
                                   "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay",
                                   "0"};
    words.insert(words.end(), options.begin(), options.end());
    nodes_.push_back(std::make_unique<RedisServer>(words));
    ids_.push_back(node(i).command({"CLUSTER", "MYID"}).text);
    up_.push_back(true);
    // Different from the first: else they would have to find that out among themselves, by their timeouts.
    expect_ok(node(i).command({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)}), "SET-CONFIG-EPOCH");
  }
  for (std::size_t i = 0; i < masters; ++i)
    expect_ok(node(i).command({"CLUSTER", "ADDSLOTSRANGE", std::to_string(slots * i / masters),
                               std::to_string(slots * (i + 1) / masters - 1)}),
              "ADDSLOTSRANGE");
  for (std::size_t i = 1; i < count; ++i) {
    const Answer bus = node(i).command({"CONFIG", "GET", "cluster-port"});
    expect_ok(
        node(0).command({"CLUSTER", "MEET", "127.0.0.1", std::to_string(node(i).port()), bus.elements.at(1)}),
        "MEET");
  }
  for (std::size_t i = masters; i < count; ++i) {
    // It must have heard of its master first.
    wait_until("a replica to know its master", [&] {
      return !node(i).command({"CLUSTER", "REPLICATE", ids_[i - masters]}).is_error();
    });
  }
  wait_until_well();
  for (std::size_t i = masters; i < count; ++i)
    wait_until("a replica to be in step", [&] {
      return node(i).command({"INFO", "replication"}).text.find("master_link_status:up") != std::string::npos;
    });
}

std::string RedisCluster::url(std::size_t nodes) const {
  std::string text = "redis+cluster://";
  for (std::size_t i = 0; i < std::min(nodes, nodes_.size()); ++i)
    text += (i == 0 ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(nodes_[i]->port());
  return text;
}

void RedisCluster::kill(std::size_t index) {
  up_[index] = false;
  node(index).kill();
}

void RedisCluster::start(std::size_t index) {
  node(index).start();
  up_[index] = true;
}

void RedisCluster::hang(std::size_t index) {
  up_[index] = false;
  node(index).signal(SIGSTOP);
}

void RedisCluster::go_on(std::size_t index) {
  node(index).signal(SIGCONT);
  up_[index] = true;
}

bool RedisCluster::is_master(std::size_t index) {
  if (!up_[index]) return false;
  const Answer role = node(index).command({"ROLE"});
  return !role.elements.empty() && role.elements[0] == "master";
}

std::vector<RedisClient*> RedisCluster::master_clients() {
  std::vector<RedisClient*> result;
  for (std::size_t i = 0; i < size(); ++i)
    if (is_master(i)) result.push_back(&node(i).client());
  return result;
}

unsigned RedisCluster::slot_of(const std::string& key) {
  for (std::size_t i = 0; i < size(); ++i)
    if (up_[i]) return static_cast<unsigned>(node(i).command({"CLUSTER", "KEYSLOT", key}).integer);
  return 0;
}

std::size_t RedisCluster::owner(unsigned slot) {
  // Who says so himself: what the others say may be old.
  for (std::size_t i = 0; i < size(); ++i) {
    if (!up_[i]) continue;
    for (const NodeLine& line : node_lines(node(i).command({"CLUSTER", "NODES"}).text))
      if (line.is("myself") && line.is("master") && line.has(slot)) return i;
  }
  ADD_FAILURE() << "no node has slot " << slot;
  return 0;
}

bool RedisCluster::all_know(unsigned slot, std::size_t owner) {
  for (std::size_t i = 0; i < size(); ++i) {
    if (!up_[i]) continue;
    for (const NodeLine& line : node_lines(node(i).command({"CLUSTER", "NODES"}).text))
      if (line.has(slot) != (line.id == ids_[owner])) return false;
  }
  return true;
}

void RedisCluster::begin_move(unsigned slot, std::size_t to) {
  // A new owner that has not heard of the epochs of the others could lose the slot again, and delete what it
  // holds; and so it does once in 100,000 moves where something of the last move is still on its way between
  // the nodes: as it seems because Redis before 7.4 tells of others by their slots of then and their epoch of
  // now (redis/redis#12344). redis-cli is too slow for either.
  wait_until_well();
  wait_for_messages();
  const std::size_t from = owner(slot);
  const std::string number = std::to_string(slot);
  expect_ok(node(to).command({"CLUSTER", "SETSLOT", number, "IMPORTING", ids_[from]}), "IMPORTING");
  expect_ok(node(from).command({"CLUSTER", "SETSLOT", number, "MIGRATING", ids_[to]}), "MIGRATING");
}

std::size_t RedisCluster::move_names(unsigned slot, std::size_t to, std::size_t at_most) {
  RedisServer& from = node(owner(slot));
  const Answer names =
      from.command({"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), std::to_string(at_most)});
  if (names.elements.empty()) return 0;
  std::vector<std::string> words{"MIGRATE", "127.0.0.1", std::to_string(node(to).port()), "", "0",
                                 "60000",   "KEYS"};
  words.insert(words.end(), names.elements.begin(), names.elements.end());
  expect_ok(from.command(words), "MIGRATE");
  return names.elements.size();
}

void RedisCluster::end_move(unsigned slot, std::size_t to) {
  const std::size_t from = owner(slot);
  const std::string number = std::to_string(slot);
  // The new owner first: else nobody would have it for a moment.
  expect_ok(node(to).command({"CLUSTER", "SETSLOT", number, "NODE", ids_[to]}), "SETSLOT at the new owner");
  expect_ok(node(from).command({"CLUSTER", "SETSLOT", number, "NODE", ids_[to]}), "SETSLOT at the old owner");
  for (std::size_t i = 0; i < size(); ++i)
    if (i != to && i != from && is_master(i))
      expect_ok(node(i).command({"CLUSTER", "SETSLOT", number, "NODE", ids_[to]}), "SETSLOT");
  // What a node had heard before could still take it back for a moment.
  wait_until("all nodes to know a slot's owner", [&] { return all_know(slot, to); });
}

void RedisCluster::move(unsigned slot, std::size_t to) {
  if (owner(slot) == to) return;
  begin_move(slot, to);
  while (move_names(slot, to, 100) > 0) {
  }
  end_move(slot, to);
}

void RedisCluster::fail_over_to(std::size_t replica) {
  wait_until("a failover by hand", [&] {
    // Refused as long as the master is not known, or not connected to.
    node(replica).command({"CLUSTER", "FAILOVER"});
    return is_master(replica);
  });
  wait_until_well();
}

void RedisCluster::wait_for_takeover_by(std::size_t replica) {
  wait_until("a replica to take over", [&] { return is_master(replica); });
  wait_until_well();
}

/// Until all has arrived that the nodes had sent to each other when this was called. To compare what they
/// count as sent and as received does not do: what was under way when they had to connect anew never arrives.
void RedisCluster::wait_for_messages() {
  wait_until_each_hears_of_all();
  // What they have been asked by then they answer over the connection that they were asked on.
  for (std::size_t i = 0; i < size(); ++i)
    wait_until("the nodes to have answered each other", [&] {
      if (!up_[i]) return true;
      const std::vector<NodeLine> lines = node_lines(node(i).command({"CLUSTER", "NODES"}).text);
      return std::ranges::none_of(lines, [&](const NodeLine& line) {
        const auto id = std::ranges::find(ids_, line.id);
        return id != ids_.end() && up_[static_cast<std::size_t>(id - ids_.begin())] && line.pinged != "0";
      });
    });
  // And what the answers made them tell.
  wait_until_each_hears_of_all();
}

/// By messages of their own: between two nodes they come in the order in which they were sent.
void RedisCluster::wait_until_each_hears_of_all() {
  std::set<std::string> up;
  for (std::size_t i = 0; i < size(); ++i)
    if (up_[i]) up.insert(ids_[i]);
  wait_until("each node to hear of all others", [&] {
    const std::string round = std::to_string(++published_) + ' ';
    std::vector<RedisClient> listeners;
    for (std::size_t i = 0; i < size(); ++i) {
      if (!up_[i]) continue;
      expect_ok(listeners.emplace_back(node(i).socket()).command({"SUBSCRIBE", "hear"}), "SUBSCRIBE");
    }
    for (std::size_t i = 0; i < size(); ++i)
      if (up_[i]) expect_ok(node(i).command({"PUBLISH", "hear", round + ids_[i]}), "PUBLISH");
    for (RedisClient& listener : listeners)
      for (std::set<std::string> unheard = up; !unheard.empty();) {
        const Answer told = listener.next(std::chrono::seconds{1});
        if (told.type == 0) return false;  // lost: where two were about to connect anew
        if (told.elements.size() == 3 && told.elements[2].starts_with(round))
          unheard.erase(told.elements[2].substr(round.size()));
      }
    return true;
  });
}

/// Who has which slots, as one node sees it, in a form that can be compared.
std::string RedisCluster::view(std::size_t index) {
  std::map<std::string, std::string> by_id;
  std::set<std::string> epochs;
  for (const NodeLine& line : node_lines(node(index).command({"CLUSTER", "NODES"}).text)) {
    if (line.is("handshake")) return {};
    std::string& text = by_id[line.id];
    // Two with the same epoch: one of them is about to change its.
    if (line.is("master") && !epochs.insert(line.epoch).second) return {};
    text = line.is("master") ? "master of " + line.epoch : "replica of " + line.master;
    for (const auto& [first, last] : line.slots)
      text += ' ' + std::to_string(first) + '-' + std::to_string(last);
  }
  if (by_id.size() != size()) return {};
  std::string all;
  for (const auto& [id, text] : by_id) all += id + ' ' + text + '\n';
  return all;
}

bool RedisCluster::wait_until_well() {
  const bool well = wait_until("the cluster to be well", [&] {
    std::string agreed;
    for (std::size_t i = 0; i < size(); ++i) {
      if (!up_[i]) continue;
      const std::string state = node(i).command({"CLUSTER", "INFO"}).text;
      const std::string seen = view(i);
      if (state.find("cluster_state:ok") == std::string::npos || seen.empty()) return false;
      if (!agreed.empty() && agreed != seen) return false;
      agreed = seen;
    }
    return true;
  });
  for (std::size_t i = 0; !well && i < size(); ++i)
    if (up_[i]) ADD_FAILURE() << "as node " << i << " sees it:\n" << view(i);
  return well;
}

void RedisCluster::announce(std::size_t index, std::uint16_t port) {
  expect_ok(node(index).command({"CONFIG", "SET", "cluster-announce-port", std::to_string(port)}),
            "announce");
  const std::string address = "127.0.0.1:" + std::to_string(port) + '@';
  for (std::size_t i = 0; i < size(); ++i)
    wait_until("the nodes to tell the new port", [&] {
      return !up_[i] || node(i).command({"CLUSTER", "NODES"}).text.find(address) != std::string::npos;
    });
}

}  // namespace weir
