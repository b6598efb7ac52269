// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What forwards frames between two ports: weir-filter's own worker loop under several sets of rules, a loop
/// that only receives and sends, which all others are compared with, and floors: the same loop where it reads
/// what a filter has to read, and does nothing with it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "classify/workload.h"
#include "filter/counters.h"
#include "filter/queue_plan.h"
#include "filter/wiring.h"

namespace weir::bench {

/// One way to forward. The main thread makes one for each run and ends it; in between one thread is in run().
class Contender {
 public:
  virtual ~Contender() = default;
  /// Forwards until `stop`. What was received by then has been sent, or counted as dropped.
  virtual void run(const std::atomic<bool>& stop) noexcept = 0;
  /// After run(): what does not add up between ports, frames and rules; empty when all does.
  virtual std::string complaint() = 0;

  /// Frames, counted by the thread in run(). Any thread may read.
  const filter::Counters& counters() const noexcept { return counters_; }

 protected:
  filter::Counters& own_counters() noexcept { return counters_; }

 private:
  filter::Counters counters_;
};

/// Makes a contender for one run.
struct ContenderKind {
  std::string name;
  Content content = Content::get_200;  ///< of the frames it is given
  std::string rules;                   ///< TOML; empty: without weir
  std::size_t lines_read = 0;          ///< of each frame, where there are no rules
  unsigned frames_before = 8;          ///< of each key, at least, before anything is measured
  bool refuses = false;                ///< nearly all, once the controller knows all keys
  bool one_rule_each = false;          ///< of several, applies to each request
};

/// All there are. The first is the loop without rules and without weir.
std::span<const ContenderKind> contender_kinds();

/// @param set, wiring  of two ports; both outlive the contender
/// Throws when the rules make no throttle. Its controller is at work from here on.
std::unique_ptr<Contender> make_contender(const ContenderKind& kind, const filter::QueueSet& set,
                                          const filter::Wiring& wiring);

}  // namespace weir::bench
