// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Nodes that count in the background while a test does things to their servers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "stored_counters.h"
#include "wait_until.h"
#include "watched_store.h"

namespace weir {

class Load {
 public:
  static constexpr std::size_t names = 200;  ///< enough for every partition to have some

  Load(const std::string& url, const StoreConfig& config, std::uint64_t seed, std::size_t nodes = 2)
      : random_(seed) {
    for (std::size_t i = 0; i < nodes; ++i) nodes_.push_back(std::make_unique<WatchedStore>(url, config));
    thread_ = std::thread([this] { run(); });
  }
  ~Load() { stop(); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  /// What has been acknowledged until now, by all nodes.
  std::uint64_t acknowledged() {
    const std::lock_guard lock(mutex_);
    std::uint64_t sum = 0;
    for (auto& node : nodes_) {
      node->collect();
      sum += node->replied();
    }
    return sum;
  }
  std::uint64_t submitted() {
    const std::lock_guard lock(mutex_);
    std::uint64_t sum = 0;
    for (auto& node : nodes_) sum += node->submitted();
    return sum;
  }
  bool any_up() {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(nodes_, [](const auto& node) { return node->figures().up; });
  }
  /// Where their one server has become unreachable: waits until every node has read all that the server had
  /// answered before, and taken note of it. (That a node is down does not tell: it may have been before, with
  /// an answer on its way.)
  [[nodiscard]] bool wait_until_cut_off() {
    for (auto& node : nodes_) {
      // One failure may tell the end of a connection before the last, the next that of the last; a third is a
      // server that was not reached.
      for (int failures = 0; failures < 3; ++failures) {
        const std::uint64_t before = failures_of(*node);
        if (!wait_until("a node to fail once more", [&] { return failures_of(*node) > before; }))
          return false;
      }
    }
    return true;
  }
  /// Submits no more.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    if (thread_.joinable()) thread_.join();
  }
  /// Lets the nodes count on until the store has acknowledged so much more.
  [[nodiscard]] bool wait_for_more(std::uint64_t weight) {
    const std::uint64_t before = acknowledged();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{2};
    while (acknowledged() < before + weight) {
      if (std::chrono::steady_clock::now() > deadline) {
        const std::lock_guard lock(mutex_);
        ADD_FAILURE() << "the nodes get no further: " << nodes_[0]->figures().error;
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{2});
    }
    return true;
  }
  /// Stops, and waits until everything is acknowledged.
  [[nodiscard]] bool finish() {
    stop();
    for (auto& node : nodes_)
      if (!node->wait_until_quiet()) return false;
    return true;
  }

  /// After finish(): lets every node ask for every counter, so that what has been lost and can be restored
  /// is.
  [[nodiscard]] bool ask_for_all() {
    for (auto& node : nodes_) {
      std::vector<CounterWrite> questions;
      std::uint64_t before = node->replies();
      for (const auto& [id, weight] : books_)
        questions.push_back({.name = id.name, .ordinal = id.ordinal, .interval = id.interval});
      node->submit(std::move(questions));
      if (!node->wait_until([&](const StoreFigures&) { return node->replies() >= before + books_.size(); }))
        return false;
    }
    return true;
  }
  /// The names that are counted.
  static std::vector<std::string> all_names() {
    std::vector<std::string> result;
    for (std::size_t i = 0; i < names; ++i) result.push_back("rule|" + std::to_string(i));
    return result;
  }

  /// To be used after stop().
  WatchedStore& node(std::size_t index) { return *nodes_[index]; }
  std::uint64_t failures() const {
    std::uint64_t sum = 0;
    for (const auto& node : nodes_) sum += node->figures().failures;
    return sum;
  }

  /// After finish(): what stands in the store is what was submitted, counter by counter.
  void expect_exactly(const StoredCounters& stored) const {
    const auto found = stored.all();
    for (const auto& [id, weight] : books_) {
      const auto value = found.find(id);
      EXPECT_EQ(value == found.end() ? 0 : value->second, static_cast<std::int64_t>(weight))
          << ::testing::PrintToString(id);
    }
    for (const auto& [id, value] : found)
      EXPECT_TRUE(books_.contains(id)) << ::testing::PrintToString(id) << " = " << value << ": nobody's";
  }
  /// After finish(), where the store may have lost something: no counter holds more than was submitted.
  /// @return what is missing, of all counters
  std::uint64_t expect_nothing_doubled(const StoredCounters& stored) const {
    const auto found = stored.all();
    std::uint64_t missing = 0;
    for (const auto& [id, weight] : books_) {
      const auto value = found.find(id);
      const auto stands = value == found.end() ? 0U : static_cast<std::uint64_t>(value->second);
      EXPECT_LE(stands, weight) << ::testing::PrintToString(id);
      missing += weight - std::min(stands, weight);
    }
    return missing;
  }

 private:
  void run() {
    for (Ordinal ordinal = 1000;; ++round_) {
      {
        const std::lock_guard lock(mutex_);
        if (stop_) return;
        for (auto& node : nodes_) {
          std::vector<std::pair<std::string, std::uint64_t>> deltas;
          for (int i = 0; i < 8; ++i) {
            deltas.emplace_back("rule|" + std::to_string(random_() % names), 1 + random_() % 4);
            books_[{deltas.back().first, ordinal + static_cast<Ordinal>(round_ / 500 % 3)}] +=
                deltas.back().second;
          }
          node->add(deltas, ordinal + static_cast<Ordinal>(round_ / 500 % 3));
          node->collect();
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }

  std::uint64_t failures_of(const WatchedStore& node) {
    const std::lock_guard lock(mutex_);
    return node.figures().failures;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<WatchedStore>> nodes_;
  std::mt19937_64 random_;
  std::uint64_t round_ = 0;
  std::map<CounterId, std::uint64_t> books_;  // what has been submitted
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weir
