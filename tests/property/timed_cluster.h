// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Whole nodes with clocks of their own, and a store that tells its time, in virtual time. What a node writes
/// takes a while to arrive and to be answered; counters live no longer than they should.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cluster.h"
#include "node/node_core.h"
#include "store/memory/memory_store.h"

namespace weir::testing {

/// The store's server: counters that die in time, and what is on its way to them.
class TimedServer {
 public:
  struct Batch {
    struct Write {
      CounterWrite write;
      std::string name;
    };
    std::vector<Write> writes;
    Duration arrives{};
    std::vector<CounterReply> replies;  // once it has arrived
    WallTime wall{};                    // likewise: what the store's clock said
    bool arrived = false;
  };

  static WallTime wall(Duration now) { return WallTime(1000s) + now; }

  void send(const std::shared_ptr<Batch>& batch) { under_way_.emplace(batch->arrives, batch); }
  void run_to(Duration now) {
    while (!under_way_.empty() && under_way_.begin()->first <= now) {
      apply(*under_way_.begin()->second);
      under_way_.erase(under_way_.begin());
    }
  }
  void apply(Batch& batch) {
    if (std::exchange(batch.arrived, true)) return;
    batch.wall = wall(batch.arrives);
    const MonotonicTime now(batch.arrives);
    for (const Batch::Write& each : batch.writes) {
      const CounterWrite& write = each.write;
      const MemoryCounters::Id id{each.name, write.interval, write.ordinal};
      const std::uint64_t total =
          write.raised_to > 0 ? counters.raise(id, write.raised_to, write.time_to_live, now)
                              : counters.add(id, write.delta, write.time_to_live, now, write.returned);
      batch.replies.push_back({write.key, write.ordinal, write.delta, total, write.returned, write.tag});
    }
  }

  MemoryCounters counters;
  bool tells_time = true;  ///< else nodes go by their own clocks

 private:
  std::multimap<Duration, std::shared_ptr<Batch>> under_way_;
};

/// One node's way there and back. Batches are answered in order.
class TimedStore final : public Store {
 public:
  /// @param now    true time
  /// @param most   the longest a batch takes each way
  /// @param local  the node's monotonic clock less true time
  TimedStore(TimedServer& server, const Duration& now, Duration most, Duration local, std::mt19937_64& random)
      : server_(server), now_(now), most_(most), local_(local), random_(random) {}

  void submit(const std::vector<CounterWrite>& writes, MonotonicTime) override {
    if (writes.empty()) return;
    Way& way = under_way_.emplace_back();
    way.batch = std::make_shared<TimedServer::Batch>();
    for (const CounterWrite& write : writes) way.batch->writes.push_back({write, std::string(write.name)});
    way.asked = now_;
    way.batch->arrives = std::max(now_ + some(), last_);
    way.answered = way.batch->arrives + some();
    last_ = way.batch->arrives;
    server_.send(way.batch);
  }
  void collect(std::vector<CounterReply>& replies) override {
    while (!under_way_.empty() && under_way_.front().answered <= now_) {
      const Way& way = under_way_.front();
      replies.insert(replies.end(), way.batch->replies.begin(), way.batch->replies.end());
      under_way_.erase(under_way_.begin());
    }
  }
  void on_ready(std::function<void()>) override {}
  StoreFigures figures() const override {
    StoreFigures figures;
    figures.up = true;
    return figures;
  }
  /// The answer that the next collect() takes in last is the latest there is.
  std::optional<StoreTime> time() const override {
    if (!server_.tells_time) return std::nullopt;
    for (const Way& way : under_way_)
      if (way.answered <= now_)
        time_ = {MonotonicTime(way.asked + local_), MonotonicTime(way.answered + local_), way.batch->wall,
                 time_.number + 1};
    return time_.number > 0 ? std::optional(time_) : std::nullopt;
  }
  bool flush(Duration) override {
    for (Way& way : under_way_) {
      if (!way.batch->arrived) way.batch->arrives = now_;
      server_.apply(*way.batch);
      way.answered = now_;
    }
    return true;
  }

 private:
  struct Way {
    std::shared_ptr<TimedServer::Batch> batch;
    Duration asked{};
    Duration answered{};
  };
  Duration some() {
    return Duration(static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most_.count())));
  }

  TimedServer& server_;
  const Duration& now_;
  Duration most_;
  Duration local_;
  std::mt19937_64& random_;
  std::vector<Way> under_way_;
  Duration last_{};
  mutable StoreTime time_;
};

class TimedCluster {
 public:
  static constexpr unsigned workers = 2;

  TimedCluster(const Rule& rule, unsigned count, Duration most_way, std::uint64_t seed_value)
      : random(seed_value),
        rule_(rule),
        clock_(rule.interval, rule.spans),
        most_way_(most_way),
        seed_(seed_value) {
    nodes_.resize(count);
  }

  std::size_t count() const { return nodes_.size(); }
  bool alive(std::size_t node) const { return nodes_[node].core != nullptr; }
  void set_clock(std::size_t node, Duration ahead) { nodes_[node].ahead = ahead; }
  Duration now() const { return now_; }
  WallTime wall() const { return TimedServer::wall(now_); }
  /// A moment of a node's own clocks.
  Instant own(std::size_t node) const {
    return {wall() + nodes_[node].ahead, MonotonicTime(now_ + local(node))};
  }
  /// The time that a node goes by.
  WallTime time_of(std::size_t node) const { return nodes_[node].core->time(own(node)).wall; }

  void start(std::size_t node) {
    Config config;
    config.node.keys = 64;
    config.rules.push_back(rule_);
    nodes_[node].core = std::make_unique<NodeCore>(
        config, ThrottleOptions{.workers = workers, .hash_seed = seed_ + node + 1000 * lives_++, .log = {}},
        std::make_unique<TimedStore>(server, now_, most_way_, local(node), random));
    nodes_[node].core->advance(own(node));
    for (unsigned i = 0; i < workers; ++i) nodes_[node].core->worker(i).online();
  }
  /// A clean stop.
  void stop(std::size_t node) {
    for (unsigned i = 0; i < workers; ++i) nodes_[node].core->worker(i).offline();
    EXPECT_TRUE(nodes_[node].core->finish(own(node), 1s));
    nodes_[node].core.reset();
  }

  void advance(Duration by) {
    now_ += by;
    server.run_to(now_);
    for (std::size_t node = 0; node < count(); ++node) {
      if (!alive(node)) continue;
      for (int round = 0; round < 3; ++round) {
        nodes_[node].core->advance(own(node));
        for (unsigned i = 0; i < workers; ++i) nodes_[node].core->worker(i).quiescent();
      }
    }
  }

  /// How long a node's block of its busiest key still lasts.
  Duration blocked_for(std::size_t node) const {
    const std::vector<KeyFigures> top = nodes_[node].core->top(1);
    return top.empty() ? Duration{} : top.front().blocked_for;
  }

  bool admit(std::size_t node, const std::string& user) {
    if (!alive(node)) return false;
    const Header header{"user", user};
    Request request;
    request.headers = std::span(&header, 1);
    const bool passes = nodes_[node]
                            .core->worker(static_cast<unsigned>(random() % workers))
                            .admit(request, own(node).monotonic)
                            .verdict == Verdict::admit;
    const Ordinal ordinal = clock_.ordinal(time_of(node));
    admitted[{"user|" + user, ordinal}] += passes;
    ++offered[{"user|" + user, ordinal}];
    return passes;
  }

  std::mt19937_64 random;
  TimedServer server;
  Counters admitted;  // by the ordinal that the node was in
  Counters offered;

 private:
  struct One {
    Duration ahead{};
    std::unique_ptr<NodeCore> core;
  };
  /// Monotonic clocks begin with their machines.
  static Duration local(std::size_t node) { return 10s + 3s * static_cast<std::int64_t>(node); }

  Rule rule_;
  SpanClock clock_;
  Duration most_way_;
  std::uint64_t seed_;
  std::uint64_t lives_ = 0;
  std::vector<One> nodes_;
  Duration now_{};
};

}  // namespace weir::testing
