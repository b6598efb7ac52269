// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "node/node_core.h"
#include "store/memory/memory_store.h"
#include "weir/config.h"

namespace weir::testing {

using namespace std::chrono_literals;

/// A node with one worker, in the test's own time. Its spans last 100 ms.
class TimedNode {
 public:
  explicit TimedNode(const std::string& config, std::size_t most_told = default_most_told,
                     WallTime begin = WallTime(1000s))
      : now_{begin, MonotonicTime(10s)},
        core_(parsed(config), {.workers = 1, .hash_seed = 1, .log = {}},
              make_memory_store(std::make_shared<MemoryCounters>()), most_told) {
    core_.advance(now_);
    worker().online();
  }
  ~TimedNode() { worker().offline(); }

  NodeCore& core() { return core_; }
  const NodeCore& core() const { return core_; }
  Worker& worker() { return core_.worker(0); }
  Instant now() const { return now_; }

  /// @return how many of so many requests of a key are admitted
  std::uint32_t admit(RuleIndex rule, std::string_view key, std::uint32_t requests) {
    std::uint32_t admitted = 0;
    for (; requests > 0; --requests)
      admitted += worker().admit_key(rule, key, 1, now_.monotonic).verdict == Verdict::admit;
    return admitted;
  }

  /// The span that runs ends, and is judged, and worker and controller know.
  /// @param late  after its end the controller comes round
  void end_span(Duration late = {}) {
    now_ = now_ + (100ms - now_.wall.time_since_epoch() % 100ms) + late;
    core_.advance(now_);
    worker().quiescent();
    core_.advance(now_);
    worker().quiescent();
  }
  void end_spans(int count) {
    for (; count > 0; --count) end_span();
  }

 private:
  static Config parsed(const std::string& config) {
    ConfigResult result = parse_config(config, "test");
    for (const ConfigError& error : result.errors) ADD_FAILURE() << error.to_string();
    return std::move(result.config);
  }

  Instant now_;
  NodeCore core_;
};

}  // namespace weir::testing
