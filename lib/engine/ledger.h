// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What the engine remembers of each key: its counts of this interval and the one before, the nodes seen by
/// it, its block. A fixed number of slots, found by the key's hash; memory is allocated once (a slot's name
/// grows to fit).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/span_clock.h"
#include "limit/cooldown.h"
#include "weir/rule.h"

namespace weir {

/// One key's counts in one interval, on this node. In units of weight.
struct IntervalCounts {
  Ordinal ordinal = 0;
  std::uint64_t offered = 0;
  std::uint64_t admitted = 0;
  std::uint64_t acknowledged = 0;  ///< own counts that the store has said to have applied
  std::uint64_t total = 0;         ///< everybody's, by the store's latest reply

  /// What others are known to have counted. A wiped store may know less than we told it: then nothing.
  std::uint64_t others() const noexcept { return total > acknowledged ? total - acknowledged : 0; }
};

struct KeySlot {
  std::uint64_t key = 0;  ///< keyed hash of rule and key bytes; 0: the slot is free
  RuleIndex rule = no_rule;
  bool touched = false;      ///< in the rule's list of keys counted in this span
  bool refusal_due = false;  ///< in the list of refusals to judge
  bool read_due = false;     ///< the sum of the interval that has ended is to be asked for
  bool reading = false;      ///< the store's answers for `reading_ordinal` tell the nodes
  std::string name;          ///< "rule|value"
  IntervalCounts current;
  IntervalCounts previous;
  std::uint64_t unwritten = 0;   ///< counted in `current`, not yet given to the store
  std::uint64_t span_count = 0;  ///< counted in the span that ended last
  NodesRatio nodes;
  Block block;
  MonotonicTime refused_at = never;  ///< earliest refusal not yet judged…
  Ordinal refused_ordinal = 0;       ///< …and the interval it happened in
  Ordinal reading_ordinal = 0;
  std::uint32_t next_free = 0;
};

class Ledger {
 public:
  using SlotIndex = std::uint32_t;
  static constexpr SlotIndex none = 0xffffffff;

  explicit Ledger(std::uint32_t capacity);

  SlotIndex find(std::uint64_t key) const noexcept;
  /// A fresh slot for a key that has none, or `none` when all are taken. @pre key != 0
  SlotIndex insert(std::uint64_t key) noexcept;
  void erase(SlotIndex slot) noexcept;

  KeySlot& operator[](SlotIndex slot) noexcept { return slots_[slot]; }
  const KeySlot& operator[](SlotIndex slot) const noexcept { return slots_[slot]; }
  std::uint32_t size() const noexcept { return size_; }
  /// Slots ever used: all live ones are below.
  std::uint32_t end() const noexcept { return used_; }
  std::size_t memory() const noexcept;

 private:
  std::size_t home(std::uint64_t key) const noexcept { return key & mask_; }

  std::vector<KeySlot> slots_;
  std::vector<SlotIndex> index_;  // linear probing, at most half full
  std::size_t mask_ = 0;
  SlotIndex free_ = none;
  std::uint32_t used_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace weir
