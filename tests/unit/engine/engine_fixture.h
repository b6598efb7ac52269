// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/key_bytes.h"
#include "engine/engine.h"

namespace weir::testing {

using namespace std::chrono_literals;

inline Rule rule_of(std::uint64_t limit, Duration interval = 1s, std::uint32_t spans = 10) {
  Rule rule;
  rule.name = "login";
  rule.limit = limit;
  rule.interval = interval;
  rule.spans = spans;
  rule.cooldown = interval;
  rule.hold_back = 0;  // so that every count shows
  return rule;
}

inline std::string full_name(const EngineWrite& write) {
  return std::string(write.name).append(write.suffix);
}

/// The shared counters, as a map: what the store would hold.
using Counters = std::map<std::pair<std::string, Ordinal>, std::uint64_t>;

/// One engine with a clock in the test's hands. Time 0 is the beginning of ordinal 1000 of a one-second rule.
class EngineNode {
 public:
  explicit EngineNode(std::vector<Rule> rules, std::uint32_t keys = 1024) : engine(rules, keys) {
    engine.step(at(0ms));
  }
  explicit EngineNode(const Rule& rule) : EngineNode(std::vector<Rule>{rule}) {}

  static Instant at(Duration since_start) {
    return {WallTime(1000s) + since_start, MonotonicTime(50s) + since_start};
  }

  /// A worker's count of one key, in the span that began at `began`.
  void count(Duration began, std::uint64_t offered, std::uint64_t admitted, MonotonicTime refused_at = never,
             const std::string& value = "a", RuleIndex rule = 0) {
    KeyBytes key;
    key.clear();
    key.add_text(value);
    engine.count({.rule = rule,
                  .key = key_of(value, rule),
                  .key_bytes = key.bytes(),
                  .began = at(began).wall,
                  .offered = offered,
                  .admitted = admitted,
                  .refused_at = refused_at});
  }
  void count(Duration began, std::uint64_t admitted) { count(began, admitted, admitted); }

  /// The same of a worker that tells of the key by its hash alone.
  void count_learned(Duration began, std::uint64_t admitted, const std::string& value) {
    engine.count({.rule = 0,
                  .key = key_of(value),
                  .learned = true,
                  .began = at(began).wall,
                  .offered = admitted,
                  .admitted = admitted});
  }
  void learn(const std::string& value) {
    KeyBytes key;
    key.clear();
    key.add_text(value);
    const LearnedKey learned{.rule = 0, .key = key_of(value), .key_bytes = key.bytes()};
    engine.learn({&learned, 1});
  }
  void unlearn(const std::string& value) { engine.unlearn(std::array{key_of(value)}); }

  static std::uint64_t key_of(const std::string& value = "a", RuleIndex rule = 0) {
    return std::hash<std::string>{}(value)*31 + rule + 1;
  }

  /// Ends spans and returns what the engine wants written, by name and ordinal; of blocks only `pending`
  /// tells.
  std::vector<std::pair<std::pair<std::string, Ordinal>, std::uint64_t>> step(Duration now) {
    return step(at(now));
  }
  std::vector<std::pair<std::pair<std::string, Ordinal>, std::uint64_t>> step(Instant now) {
    engine.step(now);
    engine.tell_blocks(now);
    std::vector<std::pair<std::pair<std::string, Ordinal>, std::uint64_t>> written;
    engine.for_each_write([&](const EngineWrite& write) {
      pending.push_back({write.key, write.use, full_name(write), write.ordinal, write.delta,
                         write.returned, write.raised_to});
      if (write.use != CounterUse::blocked)
        written.push_back({{full_name(write), write.ordinal}, write.delta});
    });
    engine.clear_writes();
    return written;
  }

  /// Has the store apply and answer everything written so far.
  void sync(Counters& counters, Duration now) {
    for (const Pending& write : pending) {
      std::uint64_t& total = counters[{write.name, write.ordinal}];
      total += write.delta;
      total -= std::min(total, write.returned);
      total = std::max(total, write.raised_to);
      engine.reply({.key = write.key,
                    .use = write.use,
                    .ordinal = write.ordinal,
                    .delta = write.delta,
                    .total = total},
                   at(now));
    }
    pending.clear();
    engine.learn();
    engine.sync_result(true, at(now));
  }

  KeyOverride state(Duration now, const std::string& value = "a", RuleIndex rule = 0) const {
    KeyOverride found = engine.default_of(rule);
    found.key = key_of(value, rule);
    engine.for_each_override(at(now), [&](const KeyOverride& override) {
      if (override.key == found.key) found = override;
    });
    return found;
  }
  bool blocked(Duration now, const std::string& value = "a", RuleIndex rule = 0) const {
    return at(now).monotonic < state(now, value, rule).blocked_until;
  }
  double nodes(const std::string& value = "a", RuleIndex rule = 0) const {
    double found = 0;
    engine.for_each_key([&](const KeyView& key) {
      if (key.slot.key == key_of(value, rule)) found = engine.nodes_of(key);
    });
    return found;
  }

  struct Pending {
    std::uint64_t key;
    CounterUse use;
    std::string name;
    Ordinal ordinal;
    std::uint64_t delta;
    std::uint64_t returned;
    std::uint64_t raised_to;
  };
  Engine engine;
  std::vector<Pending> pending;
};

}  // namespace weir::testing
