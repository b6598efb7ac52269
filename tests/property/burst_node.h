// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What tests of bursts share: a node in virtual time, held against another one that is asked in another way,
/// and rules of all kinds for both.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cluster.h"

namespace weir::testing {

using namespace std::chrono_literals;

/// One node in virtual time.
class BurstNode {
 public:
  explicit BurstNode(const std::vector<Rule>& rules, std::uint32_t keys = 256, unsigned workers = 1)
      : workers_(workers) {
    config_.node.keys = keys;
    config_.rules = rules;
    node_ = std::make_unique<NodeCore>(config_,
                                       ThrottleOptions{.workers = workers, .hash_seed = seed(), .log = {}},
                                       std::make_unique<CuttableStore>(counters_, cut_));
    node_->advance(now_);
    for (unsigned i = 0; i < workers_; ++i) worker(i).online();
  }
  Worker& worker(unsigned index = 0) { return node_->worker(index); }
  MonotonicTime now() const { return now_.monotonic; }
  void pass(Duration by) {
    now_ = now_ + by;
    for (int i = 0; i < 3; ++i) {
      node_->advance(now_);
      for (unsigned of = 0; of < workers_; ++of) worker(of).quiescent();
    }
  }
  /// Time passes, and the workers do not come round meanwhile.
  void pass_unseen(Duration by) {
    now_ = now_ + by;
    node_->advance(now_);
  }
  /// Time passes, and nobody comes round meanwhile.
  void wait(Duration by) { now_ = now_ + by; }
  void expect_same_figures(const BurstNode& other) const {
    const Figures figures = node_->figures();
    const Figures others = other.node_->figures();
    for (std::size_t rule = 0; rule < figures.rules.size(); ++rule) {
      EXPECT_EQ(figures.rules[rule].offered, others.rules[rule].offered) << figures.rules[rule].name;
      EXPECT_EQ(figures.rules[rule].admitted, others.rules[rule].admitted) << figures.rules[rule].name;
      EXPECT_EQ(figures.rules[rule].blocked, others.rules[rule].blocked) << figures.rules[rule].name;
    }
    EXPECT_EQ(counters_, other.counters_);
    EXPECT_EQ(offered_by_key(), other.offered_by_key());
  }

 private:
  std::map<std::string, std::uint64_t> offered_by_key() const {
    std::map<std::string, std::uint64_t> offered;
    for (const KeyFigures& key : node_->top(config_.node.keys)) offered[key.name] = key.offered;
    return offered;
  }

  unsigned workers_;
  Counters counters_;
  bool cut_ = false;
  Config config_;
  std::unique_ptr<NodeCore> node_;
  Instant now_{WallTime(1000s), MonotonicTime(10s)};
};

inline Rule rule_of(std::string name, std::uint64_t limit, std::vector<Dimension> key,
                    std::string path = {}) {
  Rule rule;
  rule.name = std::move(name);
  rule.key = std::move(key);
  rule.match.path = std::move(path);
  rule.limit = limit;
  rule.interval = 200ms;
  rule.cooldown = 60ms;
  rule.hold_back = 0;
  return rule;
}

/// A window that slides, but not beside grants: of these, what is left at the end of a span may be used in
/// the next one, and how much that is depends on which of a burst's requests came first.
inline void without_grants(Rule& rule) {
  rule.algorithm = Algorithm::sliding_window;
  rule.early_block = EarlyBlock::predictive;
}

inline const Dimension by_user{.kind = Dimension::Kind::header, .name = "x-user"};
inline const Dimension by_host{.kind = Dimension::Kind::host, .name = {}};
inline const Dimension by_path{.kind = Dimension::Kind::path, .name = {}};

/// Up to 16 rules, nearly all of them under nearly every request, or each under few.
inline std::vector<Rule> random_rules(std::mt19937_64& random) {
  const auto pick = [&](auto... of) {
    const std::uint64_t all[] = {static_cast<std::uint64_t>(of)...};
    return all[random() % std::size(all)];
  };
  const std::vector<std::vector<Dimension>> keys{{},        {by_user},          {by_user},         {by_host},
                                                 {by_path}, {by_user, by_host}, {by_user, by_path}};
  const bool each_under_few = random() % 5 == 0;
  const bool any_algorithm = random() % 3 == 0;
  std::vector<Rule> rules;
  for (std::size_t i = 0, count = pick(1, 2, 2, 3, 3, 4, 5, 8, 16); i < count; ++i) {
    rules.push_back(rule_of("rule-" + std::to_string(i),
                            pick(1, 2, 10, 64, 200, 640, 1300, 3200, 6400, 64000, 131072, 1000000),
                            keys[random() % keys.size()]));
    Rule& rule = rules.back();
    rule.interval = std::chrono::milliseconds(pick(200, 200, 500));
    rule.weight = static_cast<std::uint32_t>(
        random() % 20 == 0 ? pick(0, 0, 100, 2047, 2048, 5000, 0xffffffff) : pick(1, 1, 1, 1, 2, 3, 7, 33));
    rule.algorithm = any_algorithm
                         ? static_cast<Algorithm>(random() % (static_cast<int>(Algorithm::shed) + 1))
                         : static_cast<Algorithm>(pick(static_cast<int>(Algorithm::cooldown),
                                                       static_cast<int>(Algorithm::fixed_window),
                                                       static_cast<int>(Algorithm::sliding_window)));
    if (rule.algorithm == Algorithm::sliding_window) without_grants(rule);
    if (rule.algorithm == Algorithm::sliding_log) rule.limit = std::min<std::uint64_t>(rule.limit, 4096);
    if (is_bucket(rule.algorithm) && random() % 3 == 0) rule.burst = rule.limit / 2 + 1;
    if (rule.algorithm == Algorithm::token_bucket && random() % 4 == 0) rule.warmup = 100ms;
    if (rule.algorithm == Algorithm::cooldown && random() % 4 == 0) rule.dephase = 20ms;
    if (rule.algorithm != Algorithm::strict && rule.algorithm != Algorithm::sliding_log) {
      rule.debt = random() % 8 == 0;
      rule.penalize = random() % 8 == 0;
    }
    if (random() % 8 == 0) rule.action = Action::observe;
    if (each_under_few)
      rule.match.path = "/items/" + std::to_string(i);
    else if (random() % 3 == 0)
      rule.match.path = random() % 2 == 0 ? "/items/*" : "/items/" + std::to_string(random() % 4);
    else if (random() % 4 == 0)
      rule.match.host = "example.com";
  }
  return rules;
}

/// Under all requests or many of them: limits of which some are such that nearly every request is drawn for,
/// and some that nobody reaches.
inline std::vector<Rule> rules_of_which_some_draw(std::mt19937_64& random) {
  const std::vector<std::vector<Dimension>> keys{{by_user}, {by_path}, {by_host}, {by_user, by_path}, {}};
  std::vector<Rule> rules;
  for (std::size_t i = 0, count = 2 + random() % 3; i < count; ++i) {
    const std::uint64_t limit = std::array{1, 2, 10, 30, 64, 200, 1'000'000, 1'000'000}[random() % 8];
    rules.push_back(rule_of("rule-" + std::to_string(i), limit, keys[random() % keys.size()]));
    Rule& rule = rules.back();
    rule.algorithm = std::array{Algorithm::cooldown, Algorithm::fixed_window, Algorithm::token_bucket,
                                Algorithm::leaky_bucket, Algorithm::cooldown}[random() % 5];
    if (is_bucket(rule.algorithm) && random() % 2 == 0) rule.burst = rule.limit / 2 + 1;
    if (random() % 6 == 0) rule.weight = std::array{0, 2, 7}[random() % 3];
    if (random() % 6 == 0) rule.match.path = "/items/" + std::to_string(random() % 4);
    if (random() % 8 == 0) rule.action = Action::observe;
  }
  return rules;
}

/// One that all requests of a user fall under, of any algorithm, and that they soon exceed.
inline Rule random_rule_by_user(std::mt19937_64& random) {
  Rule rule = random_rules(random).front();
  rule.key = {by_user};
  rule.match = {};
  rule.limit = std::min<std::uint64_t>(rule.limit, 6'400);
  if (rule.burst > 0) rule.burst = rule.limit / 2 + 1;
  return rule;
}

/// The rules, and one that has enough for all: under several rules each request that lacks something is
/// looked at closely, whatever is known of its keys. @pre they have one interval: so spans are as long as
/// before
inline std::vector<Rule> and_plenty(std::vector<Rule> rules) {
  Rule plenty = rule_of("plenty", 1'000'000'000'000, {});
  plenty.interval = rules.front().interval;
  rules.push_back(plenty);
  return rules;
}

}  // namespace weir::testing
