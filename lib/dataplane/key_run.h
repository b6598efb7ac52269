// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A burst's keys of one rule, on their way through the stages of a decision.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/worker_core.h"

namespace weir {

/// Which keys a stage looks at: at first all that are there, where they are all of the rule; else those that
/// are left.
enum class WorkerCore::Stage : std::uint8_t { first, second };

// A burst's keys of one rule go through stages, each a loop of its own over the keys that the one before has
// left: what it needs fits into registers, and all lines are asked for before any is waited for.
struct WorkerCore::Run {
  Run(std::span<const Key> burst, RuleIndex of, const std::vector<Grant>& grants, BurstTime& when,
      std::span<Verdict> say) noexcept
      : keys(burst), rule(of), rule_weight(grants[of].weight), now(when), verdicts(say) {}
  std::size_t admitted() const noexcept { return count - left - refused; }
  std::uint64_t weight(const Key& key) const noexcept { return rule_weight * key.weight; }
  /// The burst's keys of the rule, those decided on before it was the rule's turn, too.
  template <Stage stage>
  std::size_t in_burst() const noexcept {
    if (stage == Stage::first) return count;
    return static_cast<std::size_t>(
        std::ranges::count_if(keys, [this](const Key& key) { return key.rule() == rule; }));
  }
  /// Of a stage's keys, which one of the burst's it is.
  template <Stage stage>
  std::size_t at_of(std::size_t i) const noexcept {
    return stage == Stage::first ? i : at[i];
  }

  std::span<const Key> keys;  // the burst's
  RuleIndex rule;
  std::uint64_t rule_weight;
  BurstTime& now;
  std::span<Verdict> verdicts;                     // the burst's; all admit, until one is refused
  std::uint64_t weight_of_each;                    // what each key's request weighs; 0: not all the same
  std::size_t count;                               // keys of the rule
  const std::span<const Key>* next = nullptr;      // whose lines are to be asked for, if any
  std::size_t refused = 0;                         // keys that have been, and been counted as such
  std::size_t left = 0;                            // keys that no stage has decided on …
  std::array<std::uint8_t, burst_size> at;         // … and which
  std::array<SpanTable::Place, burst_size> place;  // of each of them, by its place in the burst
};

}  // namespace weir
