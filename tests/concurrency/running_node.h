// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "node/node_core.h"
#include "node/system_clock.h"
#include "store/memory/memory_store.h"
#include "weir/config.h"

namespace weir::testing {

using namespace std::chrono_literals;

/// One rule per header "user", spans of one millisecond: as many flips and publications per second as weir
/// allows.
inline Config fast_config(std::uint64_t limit, Duration interval = 20ms) {
  Config config;
  config.node.keys = 4096;
  Rule rule;
  rule.name = "user";
  rule.key = {{.kind = Dimension::Kind::header, .name = "user"}};
  rule.limit = limit;
  rule.interval = interval;
  rule.spans = static_cast<std::uint32_t>(interval / 1ms);
  rule.cooldown = interval;
  rule.action = Action::drop;
  rule.hold_back = 0;  // every span tells all, and nodes are not counted
  config.rules.push_back(rule);
  return config;
}

/// Requests of `keys` users, as workers see them.
class Users {
 public:
  explicit Users(std::size_t keys) : names_(keys), headers_(keys), requests_(keys) {
    for (std::size_t i = 0; i < keys; ++i) {
      names_[i] = "u" + std::to_string(i);
      headers_[i] = {"user", names_[i]};
      requests_[i].method = "GET";
      requests_[i].target = "/";
      requests_[i].headers = std::span(&headers_[i], 1);
    }
  }
  const Request& operator[](std::size_t i) const { return requests_[i]; }
  std::span<const Request> all() const { return requests_; }

 private:
  std::vector<std::string> names_;
  std::vector<Header> headers_;
  std::vector<Request> requests_;
};

/// A store that is always there and never forgets: what each counter was given, by name and ordinal.
class RecordingStore : public Store {
 public:
  void submit(const std::vector<CounterWrite>& writes, MonotonicTime) override {
    for (const CounterWrite& write : writes) {
      const auto found = totals.find({std::string(write.name), write.ordinal});
      std::uint64_t total = found == totals.end() ? 0 : found->second;
      if (write.delta > 0) total = totals[{std::string(write.name), write.ordinal}] += write.delta;
      replies_.push_back({.key = write.key,
                          .ordinal = write.ordinal,
                          .delta = write.delta,
                          .total = std::max(total, write.raised_to),
                          .tag = write.tag});
    }
  }
  void collect(std::vector<CounterReply>& replies) override {
    replies.insert(replies.end(), replies_.begin(), replies_.end());
    replies_.clear();
  }
  void on_ready(std::function<void()>) override {}
  StoreFigures figures() const override {
    StoreFigures figures;
    figures.up = true;
    return figures;
  }
  bool flush(Duration) override { return true; }

  std::uint64_t sum() const {
    std::uint64_t all = 0;
    for (const auto& [counter, total] : totals) all += total;
    return all;
  }

  /// Whether a counter is one of the node's own affairs: heartbeats, and what nodes tell each other of the
  /// demand.
  static bool is_of_node(std::string_view name) {
    return name.starts_with('~') || name.ends_with("|~refused");
  }
  /// What has been admitted.
  std::uint64_t sum_of_keys() const {
    std::uint64_t all = 0;
    for (const auto& [counter, total] : totals)
      if (!is_of_node(counter.first)) all += total;
    return all;
  }

  std::map<std::pair<std::string, Ordinal>, std::uint64_t> totals;

 private:
  std::vector<CounterReply> replies_;
};

/// Runs `work(worker, index)` on one thread per worker, each online while it runs.
inline void run_workers(NodeCore& node, unsigned workers,
                        const std::function<void(Worker&, unsigned)>& work) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < workers; ++i)
    threads.emplace_back([&, i] {
      Worker& worker = node.worker(i);
      worker.online();
      work(worker, i);
      worker.offline();
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace weir::testing
