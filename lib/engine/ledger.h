// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What the engine remembers of each key: its counts of this interval and the one before, what it believes of
/// the key's traffic on other nodes, its block, its leases.
///
/// The problem: a node may have ten million keys, and most of them never come near their limit. So a key is
/// kept in layers. Its slot, one cache line, is all that a count and the end of a span touch of a key that is
/// far from its limit. Its past is looked at once per interval, and when the store is told of it. Its detail
/// is there only for keys of which more is known than their own counts: of which the store has told others'
/// counts, that come near their limit, that were refused, or whose rule needs more from the start. Layers
/// refer to each other by number.
///
/// Bytes of a key that is far from its limit: slot, past and its share of the index, 124. Its name, and its
/// detail where it has one, come on top.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/huge_array.h"
#include "base/prefetch.h"
#include "base/span_clock.h"
#include "engine/demand.h"
#include "engine/heard_spans.h"
#include "engine/learned_names.h"
#include "engine/lease.h"
#include "engine/name_pool.h"
#include "engine/span_blocks.h"
#include "limit/cooldown.h"
#include "limit/share.h"
#include "weir/rule.h"

namespace weir {

/// One counter of the store as this node knows it. In units of weight.
struct SharedCount {
  std::uint64_t acknowledged = 0;   ///< own counts that the store has said to have applied
  std::uint64_t total : 63 = 0;     ///< everybody's, by the store's latest reply
  std::uint64_t was_light : 1 = 0;  ///< when it was first told of: only what was kept back

  /// What others are known to have counted. A wiped store may know less than we told it: then nothing.
  std::uint64_t others() const noexcept { return total > acknowledged ? total - acknowledged : 0; }
};

/// One key's counts in one interval, on this node. In units of weight.
struct IntervalCounts {
  Ordinal ordinal = 0;
  std::uint64_t offered = 0;
  std::uint64_t admitted = 0;
};

/// Number of a slot, of a detail.
using SlotIndex = std::uint32_t;
inline constexpr std::uint32_t no_index = 0xffffffff;

/// What a count changes. One cache line.
struct alignas(64) KeySlot {
  std::uint64_t key = 0;  ///< keyed hash of rule and key bytes; 0: the slot is free
  IntervalCounts current;
  std::uint64_t unwritten = 0;        ///< counted in `current`, not yet given to the store
  std::uint64_t span_counting = 0;    ///< in the span that runs: strict: offered; judged by spans: counted
  std::uint64_t own_since_heard = 0;  ///< counted here, and the store has answered, but not learned from yet
  std::uint32_t detail = no_index;
  RuleIndex rule = no_rule;
  bool touched : 1 = false;      ///< in the rule's list of keys counted in this span
  bool watched : 1 = false;      ///< in the rule's list of keys to be asked for in every span
  bool refusal_due : 1 = false;  ///< in the list of refusals to judge
  bool read_due : 1 = false;     ///< the sum of the interval that has ended is to be asked for
  bool fresh : 1 = true;         ///< the store has not been asked what happened before this node saw the key
  bool fresh_due : 1 = false;    ///< in the list of keys to be asked for before their first span ends
  bool asked_blocks : 1 =
      false;                 ///< whether the key was blocked elsewhere before, or while it was away from here
  bool holding : 1 = false;  ///< in the rule's list of keys of which something is kept back
  bool heard : 1 = false;    ///< in the list of keys of which the store has told something new
  bool counted_lately : 1 = false;  ///< counted in the rule's running span, not only drained in it
  bool idle : 1 = false;            ///< `current` began without a count: see KeyDetail::last_counted
  bool contended : 1 = true;        ///< at the end of every span in `current`, …
  bool was_contended : 1 = true;    ///< …in the interval before
  bool told : 1 = false;            ///< the store has been told, or asked, something of `current`, …
  bool was_told : 1 = false;        ///< …of the interval before
  bool went_back : 1 = false;       ///< the clock did: the other interval is the one after `current`

  /// The other interval that is remembered: as a rule the one before.
  Ordinal previous_ordinal() const noexcept { return went_back ? current.ordinal + 1 : current.ordinal - 1; }
  Ordinal latest_ordinal() const noexcept { return went_back ? current.ordinal + 1 : current.ordinal; }
};
static_assert(sizeof(KeySlot) == 64);

/// More nodes are not told apart.
inline constexpr std::uint32_t most_nodes = (std::uint32_t{1} << 20) - 1;

/// What an interval's end needs of a key, and what keeping back does.
struct KeyPast {
  std::uint64_t offered = 0;  ///< in the interval before, …
  std::uint64_t admitted = 0;
  /// Own counts that the store has applied, of this interval and of the one before, while nobody else had
  /// counted anything that bears on the one that runs. With a detail: that have not been learned from yet.
  std::array<std::uint64_t, 2> alone{};
  std::uint64_t held = 0;                      ///< kept back of an interval that has ended, …
  std::uint32_t held_age : 8 = 0;              ///< …so many before `current`
  std::uint32_t first_nodes : 20 = 1;          ///< that were alive when the key was first seen, or what had
                                               ///< been learned of its share was forgotten
  std::uint32_t has_learned_name : 1 = false;  ///< `name` is a learned one
  std::uint32_t looks_back : 1 = false;    ///< asked what others counted in the first interval, and nothing
                                           ///< told yet
  std::uint32_t asked_before : 1 = false;  ///< it has been, of the interval before the first
  std::uint32_t reading : 1 = false;       ///< asked, while without detail, what the interval that its rule
                                           ///< has read last came to
  NamePool::Name name = NamePool::none;    ///< free slots: the number of the next free one
};
static_assert(sizeof(KeyPast) == 48);

/// The leases of a strict key.
struct KeyLeases {
  Lease running;
  Lease next;   ///< of the interval to come
  Lease ended;  ///< of the one that has ended

  bool any() const noexcept { return running.held || next.held || ended.held; }
  /// The lease of an interval; nullptr: none is held.
  Lease* of(Ordinal ordinal) noexcept {
    for (Lease* one : {&running, &next, &ended})
      if (one->held && one->ordinal == ordinal) return one;
    return nullptr;
  }
};

/// What is known of a key beyond its own counts.
struct KeyDetail {
  // What an answer of the store changes, and what telling the store and an interval's end read.
  std::array<SharedCount, 2> counted;    ///< of this interval and the one before: admitted, or offered where
                                         ///< the rule penalizes
  std::array<SharedCount, 2> refused;    ///< where it is shared: of keys whose demand comes near their limit
  std::uint64_t others_since_heard = 0;  ///< others' newly known demand, and…
  std::uint64_t others_admitted = 0;     ///< …the admitted part of it, for a bucket's charge
  HeardSpans heard;
  Ordinal reading_ordinal = 0;
  std::uint32_t next_free = no_index;
  bool reading : 1 = false;        ///< the store's answers for `reading_ordinal` tell the nodes
  bool settling : 1 = false;       ///< the sum of `reading_ordinal` has been asked for
  bool heard_ended : 1 = false;    ///< what is to be learned is of intervals that were over then, …
  bool heard_running : 1 = false;  ///< …of the one that ran, or of both
  bool overdrawn : 1 = false;      ///< in the running interval, by what was charged without being drawn
  bool looked_back = false;        ///< the answer to KeyPast::looks_back is a part of it
  bool owes = false;  ///< in the rule's list of keys with a debt, which is not forgotten until it leaves it
  bool was_full = false;  ///< before the first interval others had used up the limit
  DemandEstimate demand;
  double correction = 1;   ///< what shares are multiplied with, so that the sum comes to the limit
  TokenPrice price = 0;    ///< of a contended bucket; 0: it is not contended
  std::uint64_t debt = 0;  ///< admitted over the limit and not yet taken off
  Block block;
  NodesRatio nodes;  ///< cooldown: the seeds' ratio

  /// Told to the store, or about to be, and given back since: not told of what is counted next, in the same
  /// interval; of a bucket in any.
  std::uint64_t refunded = 0;
  std::uint64_t refused_unwritten = 0;  ///< refused in the running interval, not yet given to the store
  /// Sliding window: one for each span, by number modulo their number. And as the last what was counted
  /// before they were told apart, or by the clock before it was set: in `number` at the latest.
  std::span<SpanCounts> spans;

  MonotonicTime refused_at = never;  ///< earliest refusal not yet judged…
  Ordinal refused_ordinal = 0;       ///< …and the interval it happened in
  // What is seldom needed.
  Ordinal debt_paid_in = 0;           ///< with `owes`: the last interval that its debt has been held against
  Ordinal last_counted = 0;           ///< with KeySlot::idle: the interval it was last counted in
  std::uint64_t span_count = 0;       ///< cooldown per span: counted in the span that ended last
  std::uint64_t span_admitted = 0;    ///< warming up: admitted in the span that runs
  double cold_permits = 0;            ///< a bucket that warms up: what has piled up while it was not used
  std::int64_t warmed_span = -1;      ///< number of the span at whose end they were last brought forward
  std::unique_ptr<KeyLeases> leases;  ///< strict
};

/// One key, to be looked at. Valid until the ledger is next changed.
struct KeyView {
  const KeySlot& slot;
  const KeyPast& past;
  const KeyDetail& detail;  ///< a blank one where it has none
  const NamePool& names;

  /// "rule|value"
  std::string_view name() const noexcept { return names.text(past.name); }
  /// This node's part of the key's traffic, in (0, 1].
  double share() const noexcept {
    return slot.detail != no_index ? detail.demand.share() : 1.0 / past.first_nodes;
  }
  /// Own counts of `current` that the store has applied, without what has been given back of them.
  std::uint64_t acknowledged() const noexcept {
    if (slot.detail == no_index) return past.alone[0];
    const std::uint64_t applied = detail.counted[0].acknowledged;
    return applied - std::min(applied, detail.refunded);
  }
};

/// A fixed number of slots, found by the key's hash. Slots and index are reserved once, on huge pages; they,
/// names and details take memory as keys come, and keep it for later ones. Beside them the names of keys that
/// have none: of those that workers will tell of by their hash alone.
class Ledger {
 public:
  static constexpr SlotIndex none = no_index;
  /// How many keys ahead what they touch is fetched: slots lie at random. Of what one names where the next
  /// is, each is asked for so many keys before that.
  static constexpr std::size_t ahead = 16;

  explicit Ledger(std::uint32_t capacity);

  SlotIndex find(std::uint64_t key) const noexcept;
  /// For keys that will be looked for soon, far apart in time: has what find() reads first brought near;
  /// the slot of what is then found, most probably the key's; and that slot's detail.
  void prefetch(std::uint64_t key) const noexcept { prefetch_to_read(&index_[home(key)]); }
  SlotIndex prefetch_slot(std::uint64_t key) const noexcept {
    std::size_t i = home(key);
    while (!index_[i].is_free() && index_[i].tag != tag_of(key)) i = next(i);
    if (index_[i].is_free()) return none;
    prefetch_slot(index_[i].slot());
    return index_[i].slot();
  }
  void prefetch_slot(SlotIndex slot) const noexcept { prefetch_to_write(&slots_[slot]); }
  void prefetch_detail(SlotIndex slot) const noexcept;
  /// What telling the store of a key reads, and what an answer changes.
  void prefetch_known(SlotIndex slot) const noexcept {
    prefetch_detail(slot);
    prefetch_past(slot);
  }
  /// What a sliding window holds of a span, by its place among the key's. Reads the detail.
  void prefetch_span(SlotIndex slot, std::size_t place) const noexcept {
    if (slots_[slot].detail == no_index) return;
    if (const auto& spans = detail_at(slots_[slot].detail).spans; place < spans.size())
      prefetch_to_write(&spans[place]);
  }
  /// Where a detail says that these are.
  void prefetch_spans(SlotIndex slot) const noexcept {
    if (slots_[slot].detail != no_index) prefetch_to_read(&detail_at(slots_[slot].detail).spans);
  }
  /// All that a sliding window holds. Reads the detail.
  void prefetch_all_spans(SlotIndex slot) const noexcept {
    if (slots_[slot].detail == no_index) return;
    prefetch_lines_to_read(std::as_bytes(detail_at(slots_[slot].detail).spans));
  }
  void prefetch_past(SlotIndex slot) const noexcept {
    const KeyPast* const past = &pasts_[slot];
    prefetch_to_write(past);
    // Every other one ends in the next line.
    prefetch_to_write(reinterpret_cast<const std::byte*>(past + 1) - 1);
  }
  /// For who goes through keys, and tells the store of each: has what those to come touch on its way.
  void prefetch_to_tell(std::span<const SlotIndex> keys, std::size_t at) const noexcept {
    if (at + 2 * ahead < keys.size()) prefetch_slot(keys[at + 2 * ahead]);
    if (at + ahead < keys.size()) prefetch_known(keys[at + ahead]);
  }

  /// One worker more holds a key of which it tells by its hash alone from now on.
  void learn(std::uint64_t key, std::string_view name);
  /// One worker less does.
  void unlearn(std::uint64_t key);
  /// Of a key that a worker holds; of others empty. Valid until learn() or unlearn().
  std::string_view learned_name(std::uint64_t key) const noexcept {
    const LearnedNames::Learned* const learned = learned_.find(key);
    return learned == nullptr ? std::string_view() : names_.text(learned->name);
  }
  bool has_learned(std::uint64_t key) const noexcept { return learned_.find(key) != nullptr; }
  void prefetch_learned(std::uint64_t key) const noexcept { learned_.prefetch(key); }
  std::uint32_t learned() const noexcept { return learned_.size(); }
  /// Whether so many are known that workers should forget those that are idle: more than there are slots for.
  bool learned_crowded() const noexcept { return learned_.size() > capacity_ / 4 * 3; }

  /// A fresh slot for a key that has none, or `none` when all are taken. @pre key != 0
  /// @param name  of a key that has not been learned
  SlotIndex insert(std::uint64_t key, std::string_view name, std::uint32_t nodes);
  /// The key is forgotten. Its name can still be read until release_names(): writes may be under way with it.
  void erase(SlotIndex slot);
  void release_names() noexcept;

  SlotIndex index_of(const KeySlot& slot) const noexcept {
    return static_cast<SlotIndex>(&slot - slots_.data());
  }
  KeySlot& operator[](SlotIndex slot) noexcept { return slots_[slot]; }
  const KeySlot& operator[](SlotIndex slot) const noexcept { return slots_[slot]; }
  KeyPast& past(const KeySlot& slot) noexcept { return pasts_[index_of(slot)]; }
  const KeyPast& past(const KeySlot& slot) const noexcept { return pasts_[index_of(slot)]; }
  /// What is known of a key; a blank detail where it has none.
  const KeyDetail& detail(const KeySlot& slot) const noexcept {
    return slot.detail == no_index ? blank_ : detail_at(slot.detail);
  }
  /// nullptr where it has none.
  KeyDetail* detail_if_any(const KeySlot& slot) noexcept {
    return slot.detail == no_index ? nullptr : &detail_at(slot.detail);
  }
  /// Makes one where there is none. References to others stay valid.
  KeyDetail& own_detail(KeySlot& slot) {
    return slot.detail == no_index ? make_detail(slot) : detail_at(slot.detail);
  }
  /// Has a detail without spans hold so many, all of them blank.
  void make_spans(KeyDetail& detail, std::size_t count) { detail.spans = spans_.take(count); }
  /// Has a key go on without its detail. @pre that says nothing that matters
  void drop_detail(KeySlot& slot) noexcept;
  std::string_view name(const KeySlot& slot) const noexcept { return text(name_of(slot)); }
  /// A key's name by a number, as long as it is valid.
  NamePool::Name name_of(const KeySlot& slot) const noexcept { return past(slot).name; }
  std::string_view text(NamePool::Name name) const noexcept { return names_.text(name); }
  void prefetch_text(NamePool::Name name) const noexcept { names_.prefetch(name); }
  KeyView view(const KeySlot& slot) const noexcept { return {slot, past(slot), detail(slot), names_}; }

  /// What a key's share is taken to be before anything is learned of it.
  double first_share(const KeySlot& slot) const noexcept { return 1.0 / past(slot).first_nodes; }
  std::uint32_t size() const noexcept { return size_; }
  /// Keys that have been given a slot, ever.
  std::uint64_t inserted() const noexcept { return inserted_; }
  bool full() const noexcept { return size_ == capacity_; }
  std::uint32_t capacity() const noexcept { return capacity_; }
  /// Slots ever used: all live ones are below.
  std::uint32_t end() const noexcept { return end_; }
  /// Of all slots with their index, of the names and details made so far.
  std::size_t memory() const noexcept;

 private:
  /// Where a key is. With a part of its hash, so that a search touches the slots of other keys only by
  /// chance: of ten million keys, which share a home with few others, one in some hundred.
  struct Entry {
    std::uint32_t after_slot;  // one more than its number; 0: nothing is here
    std::uint32_t tag;
    bool is_free() const noexcept { return after_slot == 0; }
    SlotIndex slot() const noexcept { return after_slot - 1; }
  };
  static constexpr std::size_t entries_of(std::size_t capacity) noexcept {
    return capacity + capacity / 2 + 1;
  }

  std::size_t home(std::uint64_t key) const noexcept { return home_of(tag_of(key)); }
  /// A tag says so by itself: who makes room in the index need not look at other keys' slots.
  std::size_t home_of(std::uint32_t tag) const noexcept {
    return static_cast<std::size_t>(std::uint64_t{tag} * index_.size() >> 32);
  }
  std::size_t next(std::size_t entry) const noexcept { return entry + 1 == index_.size() ? 0 : entry + 1; }
  std::size_t distance(std::size_t from, std::size_t to) const noexcept {
    return to >= from ? to - from : to + index_.size() - from;
  }
  static std::uint32_t tag_of(std::uint64_t key) noexcept { return static_cast<std::uint32_t>(key >> 32); }
  KeyDetail& detail_at(std::uint32_t index) noexcept { return *details_[index]; }
  const KeyDetail& detail_at(std::uint32_t index) const noexcept { return *details_[index]; }
  KeyDetail& make_detail(KeySlot& slot);
  void free_detail(std::uint32_t index) noexcept;

  std::uint32_t capacity_;
  HugeArray<KeySlot> slots_;
  HugeArray<KeyPast> pasts_;
  HugeArray<Entry> index_;  // linear probing, two thirds full at most
  NamePool names_;
  LearnedNames learned_;
  std::vector<NamePool::Name> erased_names_;
  HugeRows<KeyDetail> details_;
  SpanBlocks spans_;
  KeyDetail blank_;
  std::uint32_t free_detail_ = no_index;
  SlotIndex free_ = none;
  std::uint32_t end_ = 0;
  std::uint32_t size_ = 0;
  std::uint64_t inserted_ = 0;
};

}  // namespace weir
