// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The thinking: counts, time and the store's replies in; store writes, blocks and allowances out. No I/O, no
/// clock, no threads, so the same object code runs in a node, over a capture and in a simulator. Source: the
/// seeds' Concept and Extension as algorithm.md §3 words them; the numbers in comments are its steps.
///
/// One round, driven by the controller:
///     count(…) for every drained entry; step(now); take writes() to the store; reply(…) as answers come;
///     sync_result(…) at the sync's deadline; for_each_override(…) whenever a publication is built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/span_clock.h"
#include "engine/ledger.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

/// What one worker counted of one key in one span. Units of weight.
struct SpanCount {
  RuleIndex rule = no_rule;
  std::uint64_t key = 0;                 ///< keyed hash; names the key within this node
  std::span<const std::byte> key_bytes;  ///< see base/key_bytes.h
  WallTime began{};                      ///< when the span began: names the ordinal
  std::uint64_t offered = 0;
  std::uint64_t admitted = 0;
  MonotonicTime refused_at = never;  ///< first refusal for want of allowance, if any
};

/// "Tell the store." What the controller hands on as a CounterWrite. delta 0: only read.
struct EngineWrite {
  std::uint64_t key = 0;
  std::string_view name;  ///< valid until the next count() or step()
  Ordinal ordinal = 0;
  std::uint64_t delta = 0;
  Duration time_to_live{};
};

/// What a publication says of one key that differs from its rule's default.
struct KeyOverride {
  std::uint64_t key = 0;
  std::uint64_t allowance = 0;  ///< this node, this interval, all workers together
  MonotonicTime blocked_until = never;
};

/// Not thread-safe. Allocates only for keys never seen before.
class Engine {
 public:
  /// @param rules  valid; copied in part
  /// @param keys   ledger slots
  Engine(std::span<const Rule> rules, std::uint32_t keys);

  /// Adds a drained count to the ordinal in which its span began.
  void count(const SpanCount& count);

  /// Adds counts whose keys found no room in a worker's table: they are written under the rule's own
  /// "rule|~", so that none is lost, and block nothing.
  void count_overflow(RuleIndex rule, WallTime began, std::uint64_t offered, std::uint64_t admitted);

  /// Judges refusals; for each rule whose span has ended by `now`, writes counts, applies the local rules,
  /// asks for the sum of an interval one span after its end. `end_all` ends all spans, for a clean stop.
  void step(Instant now, bool end_all = false);

  /// Writes collected since the last clear_writes().
  std::span<const EngineWrite> writes() const noexcept { return writes_; }
  void clear_writes() noexcept;

  /// Refusals that proved wrong: the workers' chunks had been divided unluckily. Their marks are to be taken
  /// back.
  std::span<const std::uint64_t> pardoned() const noexcept { return pardoned_; }

  /// The store has applied `delta` of this node's counts and says `total` for everybody's.
  void reply(std::uint64_t key, Ordinal ordinal, std::uint64_t delta, std::uint64_t total, Instant now);

  /// Whether the last sync came back in time. While it does not, `on_store_failure` decides.
  void sync_result(bool reached, Instant now);

  /// What a key without override may be admitted in an interval on this node.
  std::uint64_t default_allowance(RuleIndex rule) const noexcept;

  /// Calls visit(const KeyOverride&) for every key that has an active block or an allowance of its own at
  /// `now`.
  template <typename Visitor>
  void for_each_override(Instant now, Visitor&& visit) const {
    for (Ledger::SlotIndex i = 0; i < ledger_.end(); ++i) {
      if (ledger_[i].key == 0) continue;
      const KeyOverride override = override_of(ledger_[i], now);
      if (override.blocked_until != never || override.allowance != default_allowance(ledger_[i].rule))
        visit(override);
    }
  }

  /// Calls visit(const KeySlot&) for every key in the ledger.
  template <typename Visitor>
  void for_each_key(Visitor&& visit) const {
    for (Ledger::SlotIndex i = 0; i < ledger_.end(); ++i)
      if (ledger_[i].key != 0) visit(ledger_[i]);
  }

  const SpanClock& clock(RuleIndex rule) const noexcept { return rules_[rule].clock; }
  std::uint32_t keys() const noexcept { return ledger_.size(); }
  /// Counts that found the ledger full: written to the store, but not limited across nodes.
  std::uint64_t strays() const noexcept { return strays_; }
  std::size_t memory() const noexcept { return ledger_.memory(); }

 private:
  struct RuleState {
    SpanClock clock;
    std::string name;
    std::uint64_t limit;
    std::uint32_t spans;
    Duration cooldown;
    Duration time_to_live;
    OnStoreFailure on_store_failure;
    LocalRule local_rule;
    bool penalize;
    bool started = false;
    SpanId span;                                  // the span now running
    std::vector<Ledger::SlotIndex> touched;       // counted since the last span's end
    std::vector<Ledger::SlotIndex> last_touched;  // counted in the span that ended last
    std::vector<Ledger::SlotIndex> awaiting_read;
    std::string overflow_name;
  };

  std::uint64_t counted(const RuleState& rule, std::uint64_t offered, std::uint64_t admitted) const noexcept {
    return rule.penalize ? offered : admitted;
  }
  std::uint64_t counted(const RuleState& rule, const IntervalCounts& counts) const noexcept {
    return counted(rule, counts.offered, counts.admitted);
  }
  NodesRatio nodes_for(const RuleState& rule, const KeySlot& slot) const noexcept;
  KeyOverride override_of(const KeySlot& slot, Instant now) const noexcept;
  void roll(RuleState& rule, KeySlot& slot, Ordinal to);
  void write(const RuleState& rule, const KeySlot& slot, Ordinal ordinal, std::uint64_t delta);
  void write_stray(const RuleState& rule, std::uint64_t key, std::string name, Ordinal ordinal,
                   std::uint64_t delta);
  void judge_refusals();
  void end_span(RuleState& rule, SpanId next, Instant now);
  void apply_local_rules(RuleState& rule, Instant now);
  void forget_idle(RuleIndex rule, MonotonicTime now);

  std::vector<RuleState> rules_;
  Ledger ledger_;
  std::vector<EngineWrite> writes_;
  std::deque<std::string> stray_names_;  // stable addresses for writes without a slot
  std::vector<Ledger::SlotIndex> refusals_;
  std::vector<std::uint64_t> pardoned_;
  std::uint64_t strays_ = 0;
  bool store_reached_ = true;
};

}  // namespace weir
