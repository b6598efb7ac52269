// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What the engine remembers of each key: its counts of this interval and the one before, what it believes of
/// the key's traffic on other nodes, its block, its leases. A fixed number of slots, found by the key's hash;
/// memory is allocated once (a slot's name and its spans grow to fit).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/span_clock.h"
#include "engine/demand.h"
#include "engine/lease.h"
#include "limit/cooldown.h"
#include "limit/share.h"
#include "weir/rule.h"

namespace weir {

/// One counter of the store as this node knows it. In units of weight.
struct SharedCount {
  std::uint64_t acknowledged = 0;  ///< own counts that the store has said to have applied
  std::uint64_t total = 0;         ///< everybody's, by the store's latest reply

  /// What others are known to have counted. A wiped store may know less than we told it: then nothing.
  std::uint64_t others() const noexcept { return total > acknowledged ? total - acknowledged : 0; }
};

/// One key's counts in one interval, on this node. In units of weight.
struct IntervalCounts {
  Ordinal ordinal = 0;
  std::uint64_t offered = 0;
  std::uint64_t admitted = 0;
  SharedCount counted;    ///< what the rule counts: admitted, or offered where it penalizes
  SharedCount refused;    ///< where it is shared: of keys whose demand comes near their limit
  bool contended = true;  ///< at the end of every span in it
  bool told = false;      ///< the store has been told, or asked, something of it
};

/// What was admitted in one span, for windows that slide.
struct SpanCounts {
  std::int64_t number = -1;  ///< of all spans since the epoch
  std::uint64_t own = 0;
  std::uint64_t others = 0;
};

struct KeySlot {
  std::uint64_t key = 0;  ///< keyed hash of rule and key bytes; 0: the slot is free
  RuleIndex rule = no_rule;
  bool touched = false;       ///< in the rule's list of keys counted in this span
  bool watched = false;       ///< in the rule's list of keys to be asked for in every span
  bool refusal_due = false;   ///< in the list of refusals to judge
  bool read_due = false;      ///< the sum of the interval that has ended is to be asked for
  bool reading = false;       ///< the store's answers for `reading_ordinal` tell the nodes
  bool settling = false;      ///< the sum of `reading_ordinal` has been asked for
  bool fresh = true;          ///< the store has not been asked what happened before this node saw the key
  bool fresh_due = false;     ///< in the list of keys to be asked for before their first span ends
  bool looks_back = false;    ///< asked what others counted in the first interval, and nothing told yet
  bool looked_back = false;   ///< the answer to that is among what was heard
  bool asked_before = false;  ///< it has been, of the interval before the first
  bool asked_blocks =
      false;              ///< whether the key was blocked elsewhere before, or while it was away from here
  bool holding = false;   ///< in the rule's list of keys of which something is kept back
  bool was_full = false;  ///< then others had used up the limit
  bool heard = false;     ///< in the list of keys of which the store has told something new
  std::string name;       ///< "rule|value"
  IntervalCounts current;
  IntervalCounts previous;
  std::uint64_t unwritten = 0;  ///< counted in `current`, not yet given to the store
  std::uint64_t held = 0;       ///< kept back of `held_ordinal`, an interval that has ended
  Ordinal held_ordinal = 0;
  std::uint64_t refused_unwritten = 0;  ///< refused in `current`, likewise
  std::uint64_t span_count = 0;         ///< counted in the span that ended last…
  std::uint64_t span_counting = 0;      ///< …and in the one that runs
  std::uint64_t span_offered = 0;       ///< offered in the span that runs, …
  std::uint64_t span_admitted = 0;      ///< …and admitted
  std::int64_t counted_span = -1;       ///< number of the span it was last counted in
  Ordinal last_counted = 0;             ///< the interval it was last counted in
  NodesRatio nodes;                     ///< cooldown: the seeds' ratio
  Block block;
  MonotonicTime refused_at = never;  ///< earliest refusal not yet judged…
  Ordinal refused_ordinal = 0;       ///< …and the interval it happened in
  Ordinal reading_ordinal = 0;

  DemandEstimate demand;
  std::uint64_t offered_since_heard = 0;  ///< offered until the last write, since the store was last heard
  std::uint64_t others_since_heard = 0;   ///< others' newly known demand, and…
  std::uint64_t others_admitted = 0;      ///< …the admitted part of it, for a bucket's charge
  std::int64_t heard_span = -1;           ///< number of the span at whose end it was last learned from
  double correction = 1;          ///< what shares are multiplied with, so that the sum comes to the limit
  TokenPrice price = 0;           ///< of a contended bucket; 0: it is not contended
  double cold_permits = 0;        ///< a bucket that warms up: what has piled up while it was not used
  std::int64_t warmed_span = -1;  ///< number of the span at whose end they were last brought forward
  std::uint64_t debt = 0;         ///< admitted over the limit and not yet taken off
  std::vector<SpanCounts> spans;  ///< sliding window: one for each span, by number modulo their number
  Lease lease;                    ///< strict: of the running interval…
  Lease next_lease;               ///< …of the one to come
  Lease ended_lease;              ///< …and of the one that has ended
  std::uint32_t next_free = 0;

  /// The lease of an interval; nullptr: none is held.
  Lease* lease_of(Ordinal ordinal) noexcept {
    for (Lease* one : {&lease, &next_lease, &ended_lease})
      if (one->held && one->ordinal == ordinal) return one;
    return nullptr;
  }
  /// What was offered here in one of the two intervals that are remembered; else 0.
  std::uint64_t offered_in(Ordinal ordinal) const noexcept {
    return ordinal == current.ordinal ? current.offered : ordinal == previous.ordinal ? previous.offered : 0;
  }
};

class Ledger {
 public:
  using SlotIndex = std::uint32_t;
  static constexpr SlotIndex none = 0xffffffff;

  explicit Ledger(std::uint32_t capacity);

  SlotIndex find(std::uint64_t key) const noexcept;
  /// Has what find() reads first brought near.
  void prefetch(std::uint64_t key) const noexcept { __builtin_prefetch(&index_[home(key)]); }
  /// Has what a count changes in the slot brought near.
  void prefetch_slot(SlotIndex slot) const noexcept {
    const auto* const lines = reinterpret_cast<const std::byte*>(&slots_[slot]);
    for (std::size_t line = 0; line < counted_bytes; line += 64) __builtin_prefetch(lines + line, 1);
  }
  /// A fresh slot for a key that has none, or `none` when all are taken. @pre key != 0
  SlotIndex insert(std::uint64_t key) noexcept;
  void erase(SlotIndex slot) noexcept;

  SlotIndex index_of(const KeySlot& slot) const noexcept {
    return static_cast<SlotIndex>(&slot - slots_.data());
  }
  KeySlot& operator[](SlotIndex slot) noexcept { return slots_[slot]; }
  const KeySlot& operator[](SlotIndex slot) const noexcept { return slots_[slot]; }
  std::uint32_t size() const noexcept { return size_; }
  std::uint32_t capacity() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }
  /// Slots ever used: all live ones are below.
  std::uint32_t end() const noexcept { return used_; }
  std::size_t memory() const noexcept;

 private:
  /// Where a key is. With a part of its hash, so that a search touches the slots of other keys only by
  /// chance.
  struct Entry {
    SlotIndex slot = none;
    std::uint32_t tag = 0;
  };
  static constexpr std::size_t counted_bytes = 448;  // of a slot: the estimates and leases lie behind

  std::size_t home(std::uint64_t key) const noexcept { return key & mask_; }
  static std::uint32_t tag_of(std::uint64_t key) noexcept { return static_cast<std::uint32_t>(key >> 32); }

  std::vector<KeySlot> slots_;
  std::vector<Entry> index_;  // linear probing, at most half full
  std::size_t mask_ = 0;
  SlotIndex free_ = none;
  std::uint32_t used_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace weir
