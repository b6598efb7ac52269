// SPDX-License-Identifier: BSD-3-Clause
#include "exchange.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "store/outbox.h"
#include "wire.h"

namespace weir::bench {
namespace {

/// One key's place in a blob.
struct Slot {
  std::uint64_t hash = 0;  ///< of the name; 0: none
  std::uint64_t count = 0;
};

/// FNV-1a scatters badly in its low bits when names differ in their ends alone.
std::uint64_t hash_of(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  hash ^= hash >> 32;
  return (hash * 0x9e3779b97f4a7c15) | 1;
}

/// A node's table of its keys: open addressing, at most half full.
class Table {
 public:
  explicit Table(std::size_t keys) : slots_(std::bit_ceil(2 * keys)), mask_(slots_.size() - 1) {}

  void insert(std::uint64_t hash) { slot(hash).hash = hash; }
  void add(const Slot& other) { slot(other.hash).count += other.count; }
  void clear_counts() {
    for (Slot& slot : slots_) slot.count = 0;
  }
  std::uint64_t sum() const {
    std::uint64_t sum = 0;
    for (const Slot& slot : slots_) sum += slot.count;
    return sum;
  }

 private:
  Slot& slot(std::uint64_t hash) {
    std::size_t at = hash >> 16 & mask_;
    while (slots_[at].hash != 0 && slots_[at].hash != hash) at = (at + 1) & mask_;
    return slots_[at];
  }

  std::vector<Slot> slots_;
  std::size_t mask_;
};

std::string blob_name(std::uint32_t partition, std::size_t node) {
  return "weir:{" + std::to_string(partition) + "}:1000:1763739214:node-" + std::to_string(node);
}

double nanoseconds(Duration duration) { return std::chrono::duration<double, std::nano>(duration).count(); }

/// What the server and this thread have spent in between.
class Meter {
 public:
  explicit Meter(RedisServer& server)
      : server_(server), server_cpu_(server.figures().cpu), cpu_(thread_cpu()) {}
  double node() const { return nanoseconds(thread_cpu() - cpu_); }
  double server() const { return nanoseconds(server_.figures().cpu - server_cpu_); }

 private:
  RedisServer& server_;
  Duration server_cpu_;
  Duration cpu_;
};

class Exchange {
 public:
  Exchange(RedisServer& server, const KeySet& keys, std::size_t nodes)
      : server_(server), nodes_(nodes), table_(keys.size()), blobs_(store_partitions), sum_(keys.sum) {
    for (std::size_t key = 0; key < keys.size(); ++key) {
      const Slot slot{hash_of(keys.names[key]), keys.counts[key]};
      blobs_[partition_of(keys.names[key])].push_back(slot);
      table_.insert(slot.hash);
    }
    for (std::size_t i = 0; i < nodes; ++i) wires_.push_back(std::make_unique<Wire>(server.address()));
  }

  void write_all(ExchangeReading& reading) {
    const Meter meter(server_);
    for (std::size_t node = 0; node < nodes_; ++node) write(node);
    reading.node_send = meter.node();
    reading.server_set = meter.server();
  }

  void read_all(ExchangeReading& reading) {
    if (nodes_ == 1) return;
    const Meter meter(server_);
    for (std::size_t node = 0; node < nodes_; ++node) {
      table_.clear_counts();
      read(node, reading);
      if (table_.sum() != sum_ * (nodes_ - 1))
        throw std::runtime_error("exchange: a node has read a wrong sum");
    }
    reading.server_get = meter.server();
  }

  double bytes(std::uint64_t (Wire::*direction)() const noexcept) const {
    std::uint64_t sum = 0;
    for (const auto& wire : wires_) sum += (*wire.*direction)();
    return static_cast<double>(sum);
  }

 private:
  void write(std::size_t node) {
    std::string command;
    for (std::uint32_t partition = 0; partition < store_partitions; ++partition) {
      const std::vector<Slot>& blob = blobs_[partition];
      command.clear();
      append_command(
          command, {"SET", blob_name(partition, node),
                    std::string_view(reinterpret_cast<const char*>(blob.data()), blob.size() * sizeof(Slot)),
                    "PX", "600000"});
      wires_[node]->send(command);
    }
    for (std::uint32_t partition = 0; partition < store_partitions; ++partition)
      if (wires_[node]->read_line() != "+OK") throw std::runtime_error("exchange: SET failed");
  }

  void ask(std::size_t node, std::uint32_t partition) {
    std::string command;
    append_head(command, nodes_);
    append_word(command, "MGET");
    for (std::size_t other = 0; other < nodes_; ++other)
      if (other != node) append_word(command, blob_name(partition, other));
    wires_[node]->send(command);
  }

  void read(std::size_t node, ExchangeReading& reading) {
    Wire& wire = *wires_[node];
    std::vector<Slot> blob;
    std::string end(2, '\0');
    const Duration begin = thread_cpu();
    Duration merging{};
    ask(node, 0);
    for (std::uint32_t partition = 0; partition < store_partitions; ++partition) {
      // The server works on the next while this one is read.
      if (partition + 1 < store_partitions) ask(node, partition + 1);
      wire.read_line();
      for (std::size_t other = 1; other < nodes_; ++other) {
        const std::string head = wire.read_line();
        blob.resize(std::stoull(head.substr(1)) / sizeof(Slot));
        wire.read(reinterpret_cast<char*>(blob.data()), blob.size() * sizeof(Slot));
        wire.read(end.data(), end.size());
        const Duration merge = thread_cpu();
        for (const Slot& slot : blob) table_.add(slot);
        merging += thread_cpu() - merge;
      }
    }
    reading.node_merge += nanoseconds(merging);
    reading.node_receive += nanoseconds(thread_cpu() - begin - merging);
  }

  RedisServer& server_;
  std::size_t nodes_;
  Table table_;
  std::vector<std::vector<Slot>> blobs_;  // the same for all nodes: all are active on all keys
  std::uint64_t sum_;
  std::vector<std::unique_ptr<Wire>> wires_;
};

}  // namespace

ExchangeReading measure_exchange(RedisServer& server, const KeySet& keys, std::size_t nodes) {
  Exchange exchange(server, keys, nodes);
  ExchangeReading reading;
  // The first time the server has to find the memory.
  exchange.write_all(reading);
  const double bytes_before = exchange.bytes(&Wire::bytes_sent);
  reading = {};
  exchange.write_all(reading);
  exchange.read_all(reading);
  const double per = static_cast<double>(keys.size()) * static_cast<double>(nodes);
  reading.bytes_in = exchange.bytes(&Wire::bytes_sent) - bytes_before;
  reading.bytes_out = exchange.bytes(&Wire::bytes_received);
  for (double ExchangeReading::*figure :
       {&ExchangeReading::server_set, &ExchangeReading::server_get, &ExchangeReading::node_send,
        &ExchangeReading::node_receive, &ExchangeReading::node_merge, &ExchangeReading::bytes_in,
        &ExchangeReading::bytes_out})
    reading.*figure /= per;
  server.clear();
  return reading;
}

}  // namespace weir::bench
