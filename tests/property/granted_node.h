// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What tests of grants share: rules whose keys workers have grants of, and a node that is asked in every
/// way.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cluster.h"

namespace weir::testing {

using namespace std::chrono_literals;

inline Rule rule_of(const std::string& name, Algorithm algorithm, std::uint64_t limit) {
  Rule rule;
  rule.name = name;
  rule.key = {{.kind = Dimension::Kind::header, .name = name}};
  rule.limit = limit;
  rule.interval = 1s;
  rule.spans = 10;
  rule.cooldown = 500ms;
  rule.algorithm = algorithm;
  rule.action = Action::drop;
  rule.hold_back = 0;  // every span tells all, and nodes are not counted
  return rule;
}

/// One node in virtual time whose workers report, sleep and go away one by one.
class GrantedNode {
 public:
  GrantedNode(const std::vector<Rule>& rules, unsigned workers, std::uint32_t keys = 256)
      : workers_(workers), online_(workers, true), admitted_(rules.size()) {
    config_.node.keys = keys;
    config_.rules = rules;
    node_ = std::make_unique<NodeCore>(config_,
                                       ThrottleOptions{.workers = workers, .hash_seed = seed(), .log = {}},
                                       std::make_unique<CuttableStore>(counters, cut));
    node_->advance(now);
    for (unsigned i = 0; i < workers; ++i) node_->worker(i).online();
  }

  NodeCore& node() { return *node_; }
  Worker& worker(unsigned index) { return node_->worker(index); }
  unsigned workers() const { return workers_; }

  bool admit(unsigned worker, RuleIndex rule, std::string_view value, std::uint32_t weight = 1) {
    const bool admitted =
        node_->worker(worker).admit_key(rule, value, weight, now.monotonic).verdict == Verdict::admit;
    if (admitted) admitted_[rule] += std::uint64_t{weight} * config_.rules[rule].weight;
    return admitted;
  }
  /// @return how many of so many requests of weight 1 were admitted
  std::uint64_t ask(unsigned worker, RuleIndex rule, std::string_view value, std::uint64_t times) {
    std::uint64_t admitted = 0;
    for (std::uint64_t i = 0; i < times; ++i) admitted += admit(worker, rule, value);
    return admitted;
  }
  /// The same by admit_keys().
  std::uint64_t ask_at_once(unsigned worker, RuleIndex rule, std::string_view value, std::size_t times) {
    const std::vector<Key> keys(times, node_->worker(worker).key(rule, value));
    return ask_for(worker, keys);
  }
  std::uint64_t ask_for(unsigned worker, const std::vector<Key>& keys) {
    std::vector<Verdict> verdicts(keys.size());
    node_->worker(worker).admit_keys(keys, now.monotonic, verdicts);
    std::uint64_t admitted = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (verdicts[i] != Verdict::admit) continue;
      admitted += keys[i].weight;
      admitted_[keys[i].rule()] += std::uint64_t{keys[i].weight} * config_.rules[keys[i].rule()].weight;
    }
    return admitted;
  }
  /// Requests that come under all rules.
  void ask_all_rules(unsigned worker, const std::vector<Request>& requests) {
    std::vector<Decision> decisions(requests.size());
    if (requests.size() == 1)
      decisions[0] = node_->worker(worker).admit(requests[0], now.monotonic);
    else
      node_->worker(worker).admit_burst(requests, now.monotonic, decisions);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (decisions[i].verdict != Verdict::admit) continue;
      for (std::size_t rule = 0; rule < admitted_.size(); ++rule)
        admitted_[rule] += std::uint64_t{std::max(requests[i].weight, 1U)} * config_.rules[rule].weight;
    }
  }

  /// Such requests in frames: what is not taken as it lies there is asked for as they are.
  /// @param headers  of each
  void ask_in_frames(unsigned worker, const std::vector<std::vector<Header>>& headers) {
    constexpr std::size_t before_payload = 54;
    std::vector<std::string> texts;
    std::vector<PlainFrame> frames;
    for (const std::vector<Header>& each : headers) {
      std::string& text = texts.emplace_back(before_payload, ' ');
      text += "GET / HTTP/1.1\r\n";
      for (const Header& header : each) text.append(header.name).append(": ").append(header.value) += "\r\n";
      text += "\r\n";
    }
    for (const std::string& text : texts)
      frames.push_back({reinterpret_cast<const std::byte*>(text.data()),
                        {before_payload, static_cast<std::uint32_t>(text.size() - before_payload)}});
    const std::uint32_t taken = node_->worker(worker).admit_plain(frames);
    std::vector<Request> others;
    for (std::size_t i = 0; i < headers.size(); ++i) {
      if ((taken >> i & 1) == 0) {
        others.emplace_back().headers = headers[i];
        continue;
      }
      ++taken_plain_;
      for (std::size_t rule = 0; rule < admitted_.size(); ++rule)
        admitted_[rule] += config_.rules[rule].weight;
    }
    if (!others.empty()) ask_all_rules(worker, others);
  }
  std::uint64_t taken_plain() const { return taken_plain_; }

  void report(unsigned worker) {
    if (online_[worker]) node_->worker(worker).quiescent();
  }
  void report_all() {
    for (unsigned i = 0; i < workers_; ++i) report(i);
  }
  void go(unsigned worker) {
    node_->worker(worker).offline();
    online_[worker] = false;
  }
  void come(unsigned worker) {
    node_->worker(worker).online();
    online_[worker] = true;
  }
  bool is_online(unsigned worker) const { return online_[worker]; }

  void round() { node_->advance(now); }
  /// A span, or several, as they go where everybody reports in time.
  void pass(Duration by) {
    now = now + by;
    for (int i = 0; i < 2; ++i) {
      round();
      report_all();
    }
    round();
  }
  /// To just after the beginning of the next second.
  void pass_second() {
    const auto since = now.wall.time_since_epoch() % 1s;
    pass(1s - since + 1ms);
  }

  std::uint64_t stored(const std::string& name) const {
    return stored(name, now.wall.time_since_epoch() / 1s);
  }
  std::uint64_t stored(const std::string& name, Ordinal ordinal) const {
    const auto found = counters.find({name, ordinal});
    return found == counters.end() ? 0 : found->second;
  }

  void stop() {
    cut = false;
    for (unsigned i = 0; i < workers_; ++i) go(i);
    EXPECT_TRUE(node_->finish(now, 1s));
  }
  /// After stop(): per rule, the store holds what was admitted.
  void expect_all_stored() const {
    std::vector<std::uint64_t> stored(admitted_.size());
    for_each_counter([&](std::size_t rule, const auto&, std::uint64_t count) { stored[rule] += count; });
    for (std::size_t rule = 0; rule < stored.size(); ++rule)
      EXPECT_EQ(stored[rule], admitted_[rule]) << config_.rules[rule].name;
  }
  /// And per key and window no more than the limit.
  void expect_sound() const {
    for_each_counter([&](std::size_t rule, const auto& counter, std::uint64_t count) {
      if (counter.first == config_.rules[rule].name + "|~") return;  // many keys' counts
      EXPECT_LE(count, config_.rules[rule].limit) << counter.first << ":" << counter.second;
    });
    expect_all_stored();
  }

  Counters counters;
  bool cut = false;
  Instant now{WallTime(1000s), MonotonicTime(10s)};

 private:
  template <typename Visitor>
  void for_each_counter(Visitor&& visit) const {
    for (const auto& [counter, count] : counters) {
      if (counter.first.find("|~") != std::string::npos && !counter.first.ends_with("|~")) continue;
      for (std::size_t rule = 0; rule < config_.rules.size(); ++rule) {
        const std::string& name = config_.rules[rule].name;
        if (counter.first == name || counter.first.starts_with(name + "|")) visit(rule, counter, count);
      }
    }
  }

  unsigned workers_;
  std::vector<bool> online_;
  std::vector<std::uint64_t> admitted_;  // weight, by rule
  std::uint64_t taken_plain_ = 0;        // requests
  Config config_;
  std::unique_ptr<NodeCore> node_;
};

}  // namespace weir::testing
