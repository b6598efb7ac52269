// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Several whole nodes on shared counters, in virtual time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "node/node_core.h"

namespace weir::testing {

using namespace std::chrono_literals;

/// The counters of all nodes, kept for ever, so that the end of a run can be held against what was admitted.
using Counters = std::map<std::pair<std::string, Ordinal>, std::uint64_t>;

/// Shared counters behind a link that can be cut: what is written meanwhile waits, and arrives once.
class CuttableStore : public Store {
 public:
  CuttableStore(Counters& counters, const bool& cut) : counters_(counters), cut_(cut) {}

  void submit(const std::vector<CounterWrite>& writes, MonotonicTime) override {
    for (const CounterWrite& write : writes) {
      submitted_ += write.delta;
      waiting_.push_back({write.key, write.tag, std::string(write.name), write.ordinal, write.delta,
                          write.returned, write.raised_to});
    }
  }
  void collect(std::vector<CounterReply>& replies) override {
    if (cut_) return;
    for (const Waiting& write : waiting_) {
      std::uint64_t& total = counters_[{write.name, write.ordinal}];
      total += write.delta;
      total -= std::min(total, write.returned);
      total = std::max(total, write.raised_to);
      replies.push_back({.key = write.key,
                         .ordinal = write.ordinal,
                         .delta = write.delta,
                         .total = total,
                         .returned = write.returned,
                         .tag = write.tag});
    }
    waiting_.clear();
  }
  void on_ready(std::function<void()>) override {}
  StoreFigures figures() const override {
    StoreFigures figures;
    figures.up = !cut_;
    for (const Waiting& write : waiting_) figures.pending += write.delta;
    figures.applied = submitted_ - figures.pending;
    return figures;
  }
  bool flush(Duration) override { return !cut_; }

 private:
  struct Waiting {
    std::uint64_t key;
    std::uint8_t tag;
    std::string name;
    Ordinal ordinal;
    std::uint64_t delta;
    std::uint64_t returned;
    std::uint64_t raised_to;
  };
  Counters& counters_;
  const bool& cut_;
  std::uint64_t submitted_ = 0;
  std::vector<Waiting> waiting_;
};

inline std::uint64_t seed() {
  const char* given = std::getenv("WEIR_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
}

struct Cluster {
  /// Each node's, by its number.
  using MakeStore = std::function<std::unique_ptr<Store>(Cluster&, unsigned)>;

  Cluster(
      const Rule& rule, unsigned node_count, unsigned worker_count, std::uint64_t seed_value,
      std::uint32_t keys = 256,
      const MakeStore& make_store =
          [](Cluster& cluster, unsigned) {
            return std::make_unique<CuttableStore>(cluster.counters, *cluster.cut);
          })
      : Cluster(std::vector{rule}, node_count, worker_count, seed_value, keys, make_store) {}

  /// @param rules  what is admitted is counted in intervals of the first one
  Cluster(
      const std::vector<Rule>& rules, unsigned node_count, unsigned worker_count, std::uint64_t seed_value,
      std::uint32_t keys = 256,
      const MakeStore& make_store =
          [](Cluster& cluster, unsigned) {
            return std::make_unique<CuttableStore>(cluster.counters, *cluster.cut);
          })
      : random(seed_value),
        clock(rules.front().interval, rules.front().spans),
        cut(std::make_unique<bool>(false)),
        workers(worker_count) {
    Config config;
    config.node.keys = keys;
    config.rules = rules;
    for (unsigned i = 0; i < node_count; ++i)
      nodes.push_back(std::make_unique<NodeCore>(
          config, ThrottleOptions{.workers = workers, .hash_seed = seed_value + i, .log = {}},
          make_store(*this, i)));
    for (auto& node : nodes) {
      node->advance(now);
      for (unsigned i = 0; i < workers; ++i) node->worker(i).online();
    }
  }

  void advance(Duration by) {
    now = now + by;
    for (auto& node : nodes)
      for (int round = 0; round < 2; ++round) {
        node->advance(now);
        for (unsigned i = 0; i < workers; ++i) node->worker(i).quiescent();
      }
  }

  bool admit(unsigned node, unsigned worker, const std::string& user) {
    const Header header{"user", user};
    Request request;
    request.headers = std::span(&header, 1);
    const bool admitted = nodes[node]->worker(worker).admit(request, now.monotonic).verdict == Verdict::admit;
    const std::pair<std::string, Ordinal> counter{"user|" + user, clock.ordinal(now.wall)};
    offered[counter] += 1;
    admitted_by_all[counter] += admitted;
    admitted_by_node[{node, counter}] += admitted;
    return admitted;
  }

  void finish() {
    *cut = false;
    for (auto& node : nodes) {
      for (unsigned i = 0; i < workers; ++i) node->worker(i).offline();
      EXPECT_TRUE(node->finish(now, 1s));
    }
  }

  /// After quiescence the store holds exactly what was admitted, each count in its own interval.
  void expect_conservation(const Counters& counted) const {
    for (const auto& [counter, count] : counted) {
      const auto stored = counters.find(counter);
      EXPECT_EQ(stored == counters.end() ? 0 : stored->second, count)
          << counter.first << ":" << counter.second;
    }
    std::uint64_t sum_counted = 0;
    std::uint64_t sum_stored = 0;
    for (const auto& [counter, count] : counted) sum_counted += count;
    // The nodes' own affairs: heartbeats, and what they tell each other of the demand.
    const auto own_affair = [](const std::string& name) {
      return name.starts_with('~') || name.ends_with("|~refused") || name.ends_with("|~blocked");
    };
    for (const auto& [counter, count] : counters)
      if (!own_affair(counter.first)) sum_stored += count;
    EXPECT_EQ(sum_stored, sum_counted);
  }

  void expect_no_node_over(std::uint64_t limit) const {
    for (const auto& [counter, count] : admitted_by_node)
      EXPECT_LE(count, limit) << "node " << counter.first << ", " << counter.second.first;
  }

  std::mt19937_64 random;
  SpanClock clock;
  Counters counters;
  std::unique_ptr<bool> cut;
  std::vector<std::unique_ptr<NodeCore>> nodes;
  unsigned workers;
  Instant now{WallTime(1000s), MonotonicTime(10s)};
  Counters offered;
  Counters admitted_by_all;
  std::map<std::pair<unsigned, std::pair<std::string, Ordinal>>, std::uint64_t> admitted_by_node;
};

}  // namespace weir::testing
