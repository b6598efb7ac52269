// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One worker's counts of one span. The worker that owns the table alone writes it; the controller drains it
/// after the flip and the grace period, when it alone owns it. So all members are plain: ownership passes
/// through RCU.
///
/// The problem: a decision at the speed of memory may touch one cache line. So a line holds just what common
/// decisions need, of seven keys: 32 bits of each key's hash, and what each may still be admitted without
/// asking ("ready"); and for which publication that holds. To admit is to subtract; what has been admitted
/// follows from what was drawn. (Hashes and credits lie in different halves, because a load that spans a
/// store still under way waits for it.) Everything else a key needs lies in an entry of its own and is
/// touched when a key is met for the first time in a span, has used up what was drawn, or is refused.
///
/// But a flood of what is refused is what an attack is made of. Who is blocked has nothing ready; so that
/// half of his line has room for saying so, and for counting what is refused until he is looked at more
/// closely or the span is drained: to refuse him touches one line, too (Lines::refuse()). Where his block has
/// been published, and so does not end before its time, what his line says lasts: it holds under whatever is
/// published next (refusal_that_lasts()), and a drain may leave it in place, and his entry open, for the
/// span that will be counted here next. So who goes on sending though he is blocked is looked up once in each
/// of a worker's tables and not in every span. Nor need it be told of him in every span: where many are left
/// so, a drain visits some of them, and what the lines of the others say waits for their turn.
///
/// Memory follows what is used (shared/filling_array.h): most keys of a node never need an entry. Entries lie
/// in the order in which keys come, and a key's place says by number which is its own; drains go through them
/// in that order. And most entries are of keys that are admitted, or refused now and then: what these need
/// has room in half a cache line, in 32 bits each. Only a key that is blocked, or sheds, or of which there is
/// more than that, has a rest beside its entry, for the span: its numbers move there and leave their room to
/// the block, so that a flood of a blocked key touches no more lines than any other. Where the kernel has no
/// memory for a rest, nothing is lost: what the entry cannot count any more is counted under the rule's
/// overflow, and a key whose terms it cannot hold is treated as one that has no entry.
///
/// So do lines, where most keys are expected to need none: there are few at first. Once the keys held are
/// more than half of what the lines are for, or a third where all of them are new, the controller makes the
/// lines at least twice as many and has every key placed anew, while it owns the table and after all that
/// others wait for (grow()). A span that brings more keys than there are places for counts the others under
/// their rule meanwhile, and the table it comes back to is larger. This node's decisions do not depend on
/// that; what other nodes know of such a key does. The lines of the rules' own keys lie behind all that there
/// will ever be and stay there.
///
/// Two keys of one line that share 32 bits of their hash would be taken for one by what looks at the line
/// alone, the common decision and Lines::refuse(): among a million keys there is one such pair in a thousand
/// runs, and nobody who does not know the hash's key can make one. Whatever looks further tells them apart;
/// and so that the one is not refused for as long as the other is blocked, however rarely that comes, each
/// key that is left open is looked at once in some seconds.
///
/// Keys stay from span to span, so that a key that comes back costs no insertion and its name is not built
/// again: a drain takes the counts and closes the entries, and keeps the keys. When places or names run short
/// it forgets them; between drains a new key may take the place of a closed one. But the heavy ones, those
/// that used the largest parts of their limits in the span, keep their places in either case: who sprays keys
/// drives out light ones only.
/// A key is looked for in its home line and the few after it, as long as these are full; it goes into the
/// first free place there, so insertion is bounded and moves nobody. A key that finds neither a free nor a
/// closed place has no entry, and the caller counts it under its rule's overflow; as where the kernel has no
/// memory. Rules whose keys have no dimensions need no search: each has a place of its own.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/huge_array.h"
#include "base/prefetch.h"
#include "base/single_writer_counter.h"
#include "limit/arithmetic.h"
#include "limit/share.h"
#include "shared/allowance_pool.h"
#include "shared/filling_array.h"
#include "shared/heaviness.h"
#include "shared/lane_search.h"
#include "shared/lanes.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

/// Two tables per worker, used in turns: while the worker counts in one, the controller drains the other.
inline constexpr unsigned tables_per_worker = 2;

/// What a worker knows of a key beyond its line. Half a cache line. Weights, of the running span. What has
/// two meanings is for SpanTable to read and write.
struct alignas(32) SpanEntry {
  struct Numbers {
    std::uint32_t drawn = 0;
    std::uint32_t allowance = 0;  ///< while a drain has left it open: until when it may stay so
  };
  union {
    Numbers numbers;              ///< where it has no rest
    MonotonicTime blocked_until;  ///< where it has one: of its EntryTerms
  };
  std::uint32_t cell_or_refused = 0;  ///< EntryTerms::cell; or the lower half of what is refused
  std::uint32_t refused_or_rest = 0;  ///< what is refused; or `rested` and the number of its rest
  std::uint32_t aside = 0;            ///< credit that is not ready
  std::uint32_t key_high = 0;         ///< the part of the hash that is not in the line
  std::uint32_t name_offset = 0;
  RuleIndex rule : 10 = 0;
  std::uint32_t lent : 22 = 0;  ///< what counts as not used of the worker's grant, see shared/grant_table.h;
                                ///< where that is too much for it, what is left is among what is drawn

  SpanEntry() noexcept : numbers{} {}

  static constexpr std::uint32_t rested = std::uint32_t{1} << 31;
  bool has_rest() const noexcept { return (refused_or_rest & rested) != 0; }

  static constexpr std::uint32_t most_lent = (std::uint32_t{1} << 22) - 1;
  static constexpr std::uint32_t kept_lent = most_lent / 2;  // at least a grant
};
static_assert(sizeof(SpanEntry) == 32);
static_assert(max_rules <= std::size_t{1} << 10);

/// What an entry has no room for while it holds a block. Weights, of the running span.
struct alignas(32) EntryRest {
  std::uint64_t drawn = 0;
  std::uint64_t allowance = 0;
  MonotonicTime refused_at = never;
  std::uint32_t refused_high : 31 = 0;
  std::uint32_t block_is_published : 1 = false;
  std::uint32_t cell = 0;
};
static_assert(sizeof(EntryRest) == 32);

/// What an entry says of its key under a publication.
struct EntryTerms {
  std::uint32_t cell = 0;       ///< the number of the key's own, see SpanTable::cells; 0: not known yet
  std::uint64_t allowance = 0;  ///< KeyTerms::allowance; of a bucket its price, 0 when closed
  /// Or never. Of a rule that sheds, which never blocks, what it admits stands in its place: block_of().
  MonotonicTime blocked_until = never;
  bool block_is_published = false;  ///< then it does not end before its time

  AdmitFraction fraction() const noexcept { return std::bit_cast<AdmitFraction>(blocked_until); }
  static MonotonicTime block_of(AdmitFraction fraction) noexcept {
    return fraction < admit_all ? std::bit_cast<MonotonicTime>(fraction) : never;
  }
};
// Where nothing is said of it, all is admitted.
static_assert(std::bit_cast<AdmitFraction>(never) >= admit_all);

/// Counts of a rule's keys that found no entry.
struct OverflowCount {
  std::uint64_t offered = 0;
  std::uint64_t admitted = 0;

  /// What exceeds all numbers is not counted from zero again.
  void add(std::uint64_t more_offered, std::uint64_t more_admitted) noexcept {
    offered = saturated_sum(offered, more_offered);
    admitted = saturated_sum(admitted, more_admitted);
  }
};

/// One key as a drain sees it. Weights.
struct CountedKey {
  std::uint64_t key = 0;
  RuleIndex rule = no_rule;
  std::span<const std::byte> name;
  std::uint64_t offered = 0;
  std::uint64_t admitted = 0;
  std::uint64_t credit = 0;     ///< drawn from the cell and not used
  std::uint32_t lent = 0;       ///< SpanEntry::lent
  std::uint64_t allowance = 0;  ///< EntryTerms::allowance
  MonotonicTime refused_at = never;
  AllowanceCell* cell = nullptr;
};

/// Its counters are the worker's, and tables lie in a row: no two share a cache line.
class alignas(64) SpanTable {
 public:
  /// Names a place in the table. Holds until the worker inserts a key: then the place may be another's.
  using Place = std::uint32_t;
  static constexpr Place nowhere = 0xffffffff;
  /// Requests of less weight are admitted out of what is ready: need and chunk together fit into 31 bits.
  static constexpr std::uint64_t most_ready = AllowanceCell::usual_chunk;
  /// Keys that a drain hands over at once, at most.
  static constexpr std::size_t drained_together = 64;
  /// For a drain that leaves nothing open.
  static constexpr MonotonicTime keep_none = MonotonicTime::max();
  /// In which it is told of those that stay open.
  struct Turns {
    unsigned count = 1;  ///< each in one drain of so many; a power of two
    unsigned ahead = 0;  ///< of another table of the same keys, lest both tell of a key at the same time
  };

  /// Keys to have lines for at first, of so many, where most are expected to need none.
  static constexpr std::uint32_t few_of(std::uint32_t keys) noexcept {
    return std::min(keys, std::max(std::uint32_t{4096}, keys / 32));
  }
  /// Reserves addresses for all there will ever be.
  /// @param keys        to hold
  /// @param first_keys  that there are lines for at first
  SpanTable(std::uint32_t keys, std::size_t rules, std::uint32_t first_keys,
            InstructionSet set = best_instruction_set());
  /// With lines for all from the beginning.
  SpanTable(std::uint32_t keys, std::size_t rules) : SpanTable(keys, rules, keys) {}

  /// When the worker began to count here; names the ordinals. Worker, on taking the table up.
  Instant began{};
  /// The worker's turns of its grants (GrantWindow) that it then used, by window; none since the last drain.
  std::vector<std::uint32_t> grant_turns;
  /// The pools that each rule's keys are drawn from, as AllowancePool::cells(). Set by the worker with
  /// `began`.
  std::vector<AllowanceCell*> cells;
  /// Whether something has been counted since then beside the table, in the worker's grants.
  bool counted_beside = false;
  /// Whether a key that a drain has left open may have come since then. Whoever refuses by lines alone sets
  /// it, as the table does with a closer look.
  bool met_again = false;

  /// Has the kernel provide the memory that the first keys need, on the NUMA node of the calling thread;
  /// further pages come with each drain. The worker, before it first counts here.
  void touch_pages() noexcept;

  void prefetch(std::uint64_t key) const noexcept { prefetch_to_write(&lines_[home_of(key, homes())]); }
  /// Where the place's entry is, which prefetch_entry() needs to know.
  void prefetch_number(Place place) const noexcept { prefetch_to_read(&numbers_[place]); }
  /// The same of a key whose line has not come yet, if it is in its home line, as nearly always.
  void prefetch_number_of(std::uint64_t key) const noexcept {
    static_assert(64 % (lanes_per_line * sizeof(numbers_[0])) == 0);  // a line's numbers come together
    prefetch_number(place_at(home_of(key, homes()), 0));
  }
  void prefetch_entry(Place place) const noexcept { prefetch_to_write(&entries_[numbers_[place]]); }
  /// The same for who is to look at the key under this publication: set_aside() touches the entries of all
  /// open keys of the line that have something ready, if that was for an earlier one.
  void prefetch_to_look(Place place, std::uint32_t generation) const noexcept {
    prefetch_entry(place);
    const Line& line = line_of(place);
    if (line.generation == generation) return;
    for (unsigned open = line.open & ~line.lasting & ~bit(place); open != 0; open &= open - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(open));
      if (line.ready[lane] != 0) prefetch_entry(static_cast<Place>(place - lane_of(place) + lane));
    }
  }

  /// The lines by themselves, for a loop over a burst: what the loop writes cannot make the compiler read
  /// their address anew for every key.
  class Lines;
  Lines lines() noexcept;

  /// The place of the key, or of one that shares its line and 32 bits of its hash; open or closed; or
  /// nowhere.
  /// @param key  here as everywhere: a hash whose low 32 bits are not 0
  Place locate(std::uint64_t key) const noexcept;
  /// Where the one key of a rule without dimensions is, once it is inserted. Always the same.
  Place place_of_rule(RuleIndex rule) const noexcept {
    return place_at(rules_line_ + rule / keys_per_line, rule % keys_per_line);
  }
  /// Whether the place is this key's. Touches the entry.
  bool holds(Place place, std::uint64_t key) const noexcept {
    return line_of(place).tags[lane_of(place)] == tag_of(key) && entry(place).key_high == key >> 32;
  }

  /// A closed place for the key, its name recorded. @pre locate() is nowhere
  Place insert(std::uint64_t key, RuleIndex rule, std::span<const std::byte> name) noexcept;
  /// The same for the one key of a rule without dimensions. @pre its place does not hold the key
  Place insert_rule(std::uint64_t key, RuleIndex rule, std::span<const std::byte> name) noexcept;
  /// The key has been met in this span; its terms are stale. @pre closed
  void open(Place place) noexcept;
  bool is_open(Place place) const noexcept { return (line_of(place).open & bit(place)) != 0; }
  /// open(), set_aside() and set_terms() in one, of a key of which there is no more to be said than which its
  /// cell is, and its allowance.
  /// @param still_holds  as set_aside() has it
  /// @pre closed
  template <typename StillHolds>
  void open_with(Place place, std::uint32_t generation, StillHolds&& still_holds, std::uint32_t cell,
                 std::uint32_t allowance) noexcept {
    Line& line = line_of(place);
    if (line.generation != generation) bring_up(place, generation, still_holds);
    mark_open(line, place);
    SpanEntry& entry = this->entry(place);
    entry.cell_or_refused = cell;
    entry.numbers.allowance = allowance;
  }
  /// Whether the key is open and has nothing ready, and all that its next request needs is to draw: what its
  /// entry says of its cell and allowance holds under the publication, and there is no more to it.
  bool only_draws(Place place, std::uint32_t generation) const noexcept {
    const SpanEntry& entry = this->entry(place);
    return seems_settled(place, generation) && line_of(place).ready[lane_of(place)] == 0 &&
           entry.aside == 0 && entry.lent == 0 && !entry.has_rest() && entry.numbers.allowance != 0;
  }
  /// Counts what was drawn: so much of it is admitted, the rest is ready.
  /// @pre only_draws(), or opened with open_with()
  void count_drawn(Place place, std::uint64_t drawn, std::uint64_t admitted) noexcept {
    // Before the sum, which is carried as what is no credit.
    line_of(place).ready[lane_of(place)] += static_cast<std::uint32_t>(drawn - admitted);
    add_drawn(entry(place), place, drawn);
  }
  /// As if it had not been. @pre count_drawn(), wherever it has been carried
  void uncount_drawn(Place place, std::uint64_t drawn, std::uint64_t admitted) noexcept;

  /// Whether as much is ready under the publication. By the line alone.
  /// @param generation  Publication::mark()
  bool has_ready(Place place, std::uint64_t key, std::uint64_t weight,
                 std::uint32_t generation) const noexcept {
    const Line& line = line_of(place);
    return line.tags[lane_of(place)] == tag_of(key) && line.generation == generation &&
           is_ready(line.ready[lane_of(place)], weight);
  }
  /// What the key's line says of it, as Lines::has() and Lines::take() take it.
  std::uint32_t& word(Place place) noexcept { return line_of(place).ready[lane_of(place)]; }
  /// Admits out of what is ready. @pre has_ready()
  void take_ready(Place place, std::uint64_t weight) noexcept {
    line_of(place).ready[lane_of(place)] -= static_cast<std::uint32_t>(weight);
  }

  /// From now on the key's line says that it is refused, until it is looked at more closely.
  /// @param lasts  under whatever is published next, too; else under this publication
  /// @pre it is open, nothing of it is ready
  void refuse_from_now_on(Place place, bool lasts) noexcept {
    Line& line = line_of(place);
    line.ready[lane_of(place)] = refused_here;
    if (lasts) line.lasting |= static_cast<std::uint8_t>(bit(place));
  }
  /// Of a key that was not found under the publication: its word, if its line says for longer than a
  /// publication that it is refused; the line holds for this one then. Else nullptr.
  /// @param place        as locate() has it, or place_of_rule()
  /// @param still_holds  as set_aside() has it
  template <typename StillHolds>
  std::uint32_t* refusal_that_lasts(Place place, std::uint64_t key, std::uint32_t generation,
                                    StillHolds&& still_holds) noexcept {
    if (place == nowhere || !lasts(place)) return nullptr;
    Line& line = line_of(place);
    if (line.tags[lane_of(place)] != tag_of(key)) return nullptr;
    // Another key of the line may have come just before. And where others have something ready their entries
    // would be waited for: it is they who will be looked at.
    if (line.generation != generation && !has_ready_but_lasting(line))
      bring_up(place, generation, still_holds);
    return &line.ready[lane_of(place)];
  }
  /// Whether the place's line says that it is refused whatever is published next.
  bool lasts(Place place) const noexcept { return (line_of(place).lasting & bit(place)) != 0; }
  /// Until then what a drain has left in place holds: keys' lines that say that they are refused.
  MonotonicTime kept_until() const noexcept { return kept_until_; }

  /// Whether the key is open, and what its entry says of it holds under the publication.
  bool is_settled(Place place, std::uint64_t key, std::uint32_t generation) const noexcept {
    return seems_settled(place, generation) && holds(place, key);
  }

  /// The same by the line alone, where the place is the key's as a rule: to foresee what a look will need.
  bool seems_settled(Place place, std::uint32_t generation) const noexcept {
    const Line& line = line_of(place);
    return line.generation == generation && (line.open & ~line.stale & bit(place)) != 0;
  }
  /// Begins a closer look at an open key: its credit is no longer ready but aside, and its line holds for
  /// this publication: keys of it whose terms may have changed since are stale.
  /// @param still_holds  called with the generation that the line was for, and the low bits of a key's hash
  template <typename StillHolds>
  void set_aside(Place place, std::uint32_t generation, StillHolds&& still_holds) noexcept;
  /// Whether the key's terms are to be looked up again.
  bool is_stale(Place place) const noexcept { return (line_of(place).stale & bit(place)) != 0; }
  /// They have been: it is not stale any more.
  /// @return false: there is no memory for them; it is as stale as it was
  bool set_terms(Place place, const EntryTerms& terms) noexcept {
    SpanEntry& entry = this->entry(place);
    if (entry.has_rest() || terms.blocked_until != never || terms.allowance >> 32 != 0) [[unlikely]] {
      if (!set_terms_of_rest(entry, terms)) return false;
    } else {
      entry.cell_or_refused = terms.cell;
      entry.numbers.allowance = static_cast<std::uint32_t>(terms.allowance);
    }
    line_of(place).stale &= static_cast<std::uint8_t>(~bit(place));
    return true;
  }
  /// Ends a closer look: the next requests may be served from what is aside.
  void make_ready(Place place) noexcept {
    line_of(place).ready[lane_of(place)] += std::exchange(entry(place).aside, 0);
  }
  /// What is drawn and not used.
  std::uint32_t credit(Place place) const noexcept { return entry(place).aside + ready(place); }
  // During a closer look:
  void add_credit(Place place, std::uint64_t drawn) noexcept {
    SpanEntry& entry = this->entry(place);
    entry.aside += static_cast<std::uint32_t>(drawn);
    add_drawn(entry, place, static_cast<std::uint32_t>(drawn));
  }
  /// Takes credit back without its having been admitted.
  void drop_credit(Place place, std::uint64_t credit) noexcept {
    SpanEntry& entry = this->entry(place);
    entry.aside -= static_cast<std::uint32_t>(credit);
    drop_drawn(entry, credit);
  }
  /// Admits out of the credit. @pre there is as much
  void charge(Place place, std::uint64_t weight) noexcept {
    entry(place).aside -= static_cast<std::uint32_t>(weight);
  }

  /// Counts what was admitted without having been credit.
  void count_admitted(Place place, std::uint64_t weight) noexcept { add_drawn(entry(place), place, weight); }
  /// Counts what was offered and not charged, by whichever rule it was refused.
  void count_refused(SpanEntry& entry, std::uint64_t weight) noexcept {
    const std::uint64_t refused = (entry.has_rest() ? entry.cell_or_refused : entry.refused_or_rest) + weight;
    if (refused >= SpanEntry::rested) [[unlikely]]
      return carry_refused(entry, weight);
    (entry.has_rest() ? entry.cell_or_refused : entry.refused_or_rest) = static_cast<std::uint32_t>(refused);
  }
  /// The key is blocked, since the first refusal for want of allowance in this span.
  /// @return false: there is no memory for that
  bool block(SpanEntry& entry, MonotonicTime now, MonotonicTime until) noexcept {
    if (!take_rest(entry)) return false;
    if (rest(entry).refused_at == never) rest(entry).refused_at = now;
    rest(entry).block_is_published = false;
    entry.blocked_until = until;
    return true;
  }

  std::span<const std::byte> name(Place place) const noexcept { return name_at(entry(place).name_offset); }
  SpanEntry& entry(Place place) noexcept { return entries_[numbers_[place]]; }
  const SpanEntry& entry(Place place) const noexcept { return entries_[numbers_[place]]; }
  // Of an entry:
  /// Of it, what is not credit has been admitted.
  std::uint64_t drawn(const SpanEntry& entry) const noexcept {
    if (entry.has_rest()) [[unlikely]]
      return rest(entry).drawn;
    return entry.numbers.drawn;
  }
  /// Offered and not charged, but for what its line says (Lines::refuse()): that comes with the next closer
  /// look.
  std::uint64_t refused(const SpanEntry& entry) const noexcept {
    if (entry.has_rest()) [[unlikely]]
      return std::uint64_t{rest(entry).refused_high} << 32 | entry.cell_or_refused;
    return entry.refused_or_rest;
  }
  EntryTerms terms(const SpanEntry& entry) const noexcept {
    if (entry.has_rest()) [[unlikely]]
      return {rest(entry).cell, rest(entry).allowance, entry.blocked_until,
              rest(entry).block_is_published != 0};
    return {entry.cell_or_refused, entry.numbers.allowance, never};
  }
  /// EntryTerms::blocked_until
  static MonotonicTime blocked_until(const SpanEntry& entry) noexcept {
    return entry.has_rest() ? entry.blocked_until : never;
  }
  /// First refusal for want of allowance in this span, or never.
  MonotonicTime refused_at(const SpanEntry& entry) const noexcept {
    return entry.has_rest() ? rest(entry).refused_at : never;
  }
  /// What is ready is lent to the key's grant.
  /// @param credit  of what is ready
  /// @param lent    what GrantTable::fill() said
  void lend(Place place, std::uint32_t credit, std::uint32_t lent) noexcept {
    SpanEntry& entry = this->entry(place);
    line_of(place).ready[lane_of(place)] -= credit;
    drop_drawn(entry, credit);
    std::uint32_t in_span = entry.lent + lent;
    // What would not fit has been drawn and admitted, which comes to the same. Not all of it: who counts
    // takes what is lent together with what he saw used before.
    if (in_span > SpanEntry::most_lent) [[unlikely]] {
      add_drawn(entry, place, in_span - SpanEntry::kept_lent);
      in_span = SpanEntry::kept_lent;
    }
    entry.lent = in_span & SpanEntry::most_lent;
  }
  /// @pre it has one
  const EntryRest& rest(const SpanEntry& entry) const noexcept {
    return rests_[entry.refused_or_rest & ~SpanEntry::rested];
  }
  /// Entries that have one.
  std::uint32_t rests() const noexcept { return rests_.used(); }
  std::uint32_t ready(Place place) const noexcept { return ready_in(line_of(place).ready[lane_of(place)]); }
  /// But for what `lent` says.
  std::uint64_t admitted(Place place) const noexcept { return drawn(entry(place)) - credit(place); }
  OverflowCount& overflow(RuleIndex rule) noexcept { return overflow_[rule]; }

  /// Calls visit(const CountedKey&) for each open entry, in the order in which their keys first came.
  template <typename Visitor>
  void for_each(Visitor&& visit) const {
    for_each_open(true, [&](std::uint32_t number) { visit(counted(number)); });
  }
  std::span<const OverflowCount> overflows() const noexcept { return overflow_; }
  /// Open entries, including those that a drain has left so.
  std::uint32_t size() const noexcept { return opened_; }
  /// Those that the last drain has left so.
  std::uint32_t left_open() const noexcept { return left_open_; }
  /// Whether nothing has been counted, under no name; but for refusals that wait for their turn (drain()).
  bool empty() const noexcept;
  /// The drain, in three steps. First: calls take(std::span<const CountedKey>) with what was counted in open
  /// entries, in the order in which their keys first came, few at once, and closes them; but for those whose
  /// lines have refused something in this span and say what lasts.
  /// @param limits  of each rule; heavy is who used much of it. Empty: who used much
  /// @param keep_until  those stay open whose blocks last until then at least
  /// @param turns   of whom it is told in this drain among those that the last one has left open and nobody
  ///                has looked at since: refusals are all that there is to tell of them, and may wait. Of
  ///                all where room is short; and of whose blocks do not last
  /// @param take    that it throws ends the program: half of the table would be counted twice
  template <typename Take>
  void drain(std::span<const std::uint64_t> limits, MonotonicTime keep_until, Turns turns,
             Take&& take) noexcept;
  /// Second: forgets the counts that are no entry's, and the light keys too if there is little room left; has
  /// provided what the keys to come are likely to need. @pre drain()
  void renew() noexcept;
  /// Third, which takes its time (50 ms where there are a million keys, as the last of at most five times):
  /// more lines, if those that there are may soon be too few. Once the worker has been online. @pre renew(),
  /// nothing counted since. Where the last drain has not told of all, it waits for one that does, the next
  /// @param expected  keys that may need a place in one span, whether they have been here before or not
  /// @return whether there are more now
  bool grow(std::uint32_t expected = 0) noexcept;
  /// All, where nobody asks what was counted.
  void close(std::span<const std::uint64_t> limits = {}) noexcept {
    drain(limits, keep_none, {}, [](std::span<const CountedKey>) {});
    renew();
    grow();
  }
  /// Forgets all; there remain as many lines.
  void clear() noexcept;

  /// The key's counts, if it is open.
  std::optional<CountedKey> find(std::uint64_t key) const noexcept;

  /// What has been provided so far; of a table whose pages nobody has touched: what may be.
  std::size_t memory() const noexcept;

 private:
  static constexpr std::size_t keys_per_line = 7;
  static constexpr std::size_t lanes_per_line = 8;  // the last is no key's: places count it, entries do not
  static constexpr std::size_t probed_lines = 8;
  // Of a span's new keys; half as much again is kept of keys from before.
  static constexpr std::size_t name_bytes_per_key = 64;
  // What is provided in any case: room for so many new keys, for names as they are.
  static constexpr std::size_t always_ahead = 1024;
  static constexpr std::size_t usual_name_bytes = 32;
  static constexpr std::uint32_t drain_ahead = 32;
  // At most so many of the keys asked for are heavy: the others find room beside them.
  static constexpr std::uint32_t keys_per_heavy = 8;
  // So few are looked at in no time. Else who is heavy matters while half of the places are taken, and as
  // many drains after it as make a spray that comes and goes no better than one that stays.
  static constexpr std::uint32_t always_weighed = 4096;
  static constexpr unsigned wary_drains = 1000;

  struct alignas(64) Line {
    std::uint32_t tags[keys_per_line];   ///< 0: free
    std::uint32_t generation;            ///< of the publication that what is ready holds for
    std::uint32_t ready[keys_per_line];  ///< weight; or `refused_here` and the weight that has been refused
    std::uint8_t open;                   ///< a bit for each key met in this span
    std::uint8_t stale;                  ///< …whose terms are to be looked up again
    std::uint8_t heavy;                  ///< a bit for each key whose place no other may take
    /// …that is open and refused here, whatever is published next. Its entry says until when: in its rest,
    /// or, where it has none, as what a drain has left open.
    std::uint8_t lasting;
  };
  static_assert(sizeof(Line) == TableLines::line_bytes && offsetof(Line, ready) == TableLines::words_at &&
                offsetof(Line, generation) == TableLines::words_at - sizeof(std::uint32_t));
  using OpenBits = std::uint64_t;
  struct HeavyKey {
    std::uint64_t key;
    std::uint32_t name_offset;
    RuleIndex rule;
    bool of_rule;  ///< without dimensions
  };
  using NameLength = std::uint16_t;

  /// In place of what is ready: nothing is, and what the other bits say has been refused.
  static constexpr std::uint32_t refused_here = TableLines::nothing_ready;

  static std::uint32_t tag_of(std::uint64_t key) noexcept { return static_cast<std::uint32_t>(key); }
  static std::uint32_t ready_in(std::uint32_t word) noexcept { return word < refused_here ? word : 0; }
  static std::uint32_t refused_in(std::uint32_t word) noexcept {
    return word < refused_here ? 0 : word - refused_here;
  }
  /// A weight of 0 is nobody's common case, and must not pass where the key has not been looked at.
  static bool is_ready(std::uint32_t word, std::uint64_t weight) noexcept {
    return weight - 1 < ready_in(word);
  }
  /// Places are taken in order and never freed but all at once: what is not in a line with a free place is
  /// not beyond it either.
  static bool is_full(const Line& line) noexcept { return line.tags[keys_per_line - 1] != 0; }

  Line& line_of(Place place) noexcept { return lines_[place / lanes_per_line]; }
  const Line& line_of(Place place) const noexcept { return lines_[place / lanes_per_line]; }
  static std::size_t lane_of(Place place) noexcept { return place % lanes_per_line; }
  static unsigned bit(Place place) noexcept { return 1U << lane_of(place); }
  std::size_t homes() const noexcept { return homes_.read(); }
  static std::size_t lines_of(std::size_t homes) noexcept { return homes + probed_lines - 1; }
  /// How many keys so many lines are for.
  static std::size_t keys_of(std::size_t homes) noexcept { return homes * keys_per_line * 5 / 8; }
  static Place place_at(std::size_t line, std::size_t lane) noexcept {
    return static_cast<Place>(line * lanes_per_line + lane);
  }
  std::uint32_t held() const noexcept { return entries_.used(); }
  /// Calls visit() with the number of each open entry, in order.
  /// @param all  those that are left alone, too
  template <typename Visitor>
  void for_each_open(bool all, Visitor&& visit) const;
  class OpenNumbers;

  bool has_room_for_entry() const noexcept { return entries_.has_room_for(1) && places_.has_room_for(1); }
  bool has_room_for(std::span<const std::byte> name) const noexcept;
  /// Whether a span's new keys, as many as the table was made for, might find no room for theirs.
  bool names_are_short() const noexcept { return names_.size() - names_.used() < names_of_a_span_; }
  /// Whether light keys are about to be forgotten, for want of room for others.
  bool is_short() const noexcept { return names_are_short() || held() > entries_.size() / 4 * 3; }
  std::uint32_t new_keys() const noexcept { return held() - std::min(held(), held_before_); }
  std::size_t lines_wanted() const noexcept;
  bool may_need_lines(std::size_t keys) const noexcept {
    return keys > keys_of(homes()) && homes() < most_homes_;
  }
  Place place_for(std::uint64_t key) const noexcept;
  bool provide_lines(std::size_t homes) noexcept;
  void empty_lines() noexcept;
  void place_anew(std::size_t homes) noexcept;
  void provide_for(std::size_t new_keys, std::size_t rests) noexcept;
  template <typename StillHolds>
  void bring_up(Place place, std::uint32_t generation, StillHolds&& still_holds) noexcept;
  void put_aside(Place place) noexcept;
  void end_lasting(Place place) noexcept;
  static bool has_ready_but_lasting(const Line& line) noexcept {
    for (unsigned others = line.open & ~line.lasting; others != 0; others &= others - 1)
      if (line.ready[std::countr_zero(others)] != 0) return true;
    return false;
  }
  bool is_blocked_until(const SpanEntry& entry, MonotonicTime then) const noexcept;
  void call_up(MonotonicTime keep_until, Turns turns) noexcept;
  void close_entry(std::uint32_t number) noexcept;
  void keep_refused(std::uint32_t number, MonotonicTime keep_until) noexcept;
  void forget_open() noexcept;
  void forget_counts() noexcept;
  EntryRest& rest(const SpanEntry& entry) noexcept {
    return rests_[entry.refused_or_rest & ~SpanEntry::rested];
  }
  bool take_rest(SpanEntry& entry) noexcept;
  bool set_terms_of_rest(SpanEntry& entry, const EntryTerms& terms) noexcept;
  void add_drawn(SpanEntry& entry, Place place, std::uint64_t more) noexcept {
    std::uint32_t drawn;
    if (entry.has_rest() || __builtin_add_overflow(entry.numbers.drawn, more, &drawn)) [[unlikely]]
      return carry_drawn(entry, place, more);
    entry.numbers.drawn = drawn;
  }
  /// @pre there is as much
  void drop_drawn(SpanEntry& entry, std::uint64_t less) noexcept {
    if (entry.has_rest()) [[unlikely]]
      rest(entry).drawn -= less;
    else
      entry.numbers.drawn -= static_cast<std::uint32_t>(less);
  }
  void carry_drawn(SpanEntry& entry, Place place, std::uint64_t more) noexcept;
  void carry_refused(SpanEntry& entry, std::uint64_t weight) noexcept;
  bool begin_weighing() noexcept;
  void weigh(std::uint32_t number, const CountedKey& key, std::span<const std::uint64_t> limits) noexcept;
  void mark_heaviest() noexcept;
  void mark_heavy(std::uint32_t number) noexcept;
  void forget_light() noexcept;
  void hold(Place place, std::uint64_t key, RuleIndex rule, std::uint32_t name_offset) noexcept;
  void settle_in(Place place, std::uint64_t key, RuleIndex rule, std::span<const std::byte> name) noexcept;
  CountedKey counted(std::uint32_t number) const noexcept;
  void mark_open(Line& line, Place place) noexcept;
  bool is_of_rule(Place place) const noexcept { return place / lanes_per_line >= rules_line_; }
  std::uint32_t keep_name(std::uint32_t offset) noexcept;
  std::span<const std::byte> name_at(std::uint32_t offset) const noexcept;

  // Lines that are the home of some key. The owner's; a worker that is offline reads it, too, and asks for
  // lines that it does not look at then.
  SingleWriterCounter homes_;
  std::size_t most_homes_;
  std::size_t rules_line_;  // the first of the rules' own
  const LaneSearch& search_;
  // A few more than homes are used, for those that begin near the end; and the last, which are the rules'
  // own.
  FillingArray<Line> lines_;
  FillingArray<std::uint32_t> numbers_;  // of entries, by place
  FillingArray<SpanEntry> entries_;
  FillingArray<EntryRest> rests_;  // in the order in which they were needed; none between drain and span
  FillingArray<Place> places_;     // by number of their entry
  HugeArray<OpenBits> open_;       // a bit for each entry
  // …that a drain has left open and nobody has looked at since; and by the word until when all of them may
  // stay so, as their entries have it.
  HugeArray<OpenBits> left_alone_;
  HugeArray<std::uint32_t> left_until_;
  std::uint32_t opened_ = 0;
  std::uint32_t left_open_ = 0;  // by the last drain, …
  std::uint32_t untold_ = 0;     // …of which it has not told
  std::uint32_t drains_ = 0;
  MonotonicTime kept_until_ = keep_none;
  std::uint32_t held_before_ = 0;     // at the last drain
  std::uint64_t without_place_ = 0;   // how often a key found no place in its lines since then
  bool may_grow_ = true;              // not where the kernel had no memory, until the next drain
  std::size_t wanted_ = 0;            // keys that there should be lines for, as far as the last drain tells
  unsigned wary_ = 0;                 // drains to come in which keys are weighed
  std::vector<std::uint32_t> heavy_;  // entries' numbers
  Heaviest<std::uint32_t> heaviest_;  // entries' numbers, while they are weighed
  std::vector<HeavyKey> kept_;        // while the table is made anew
  SingleWriterCounter weighed_;       // at most so many in each of these three so far. The controller's
  std::size_t names_of_a_span_;
  FillingBytes names_;  // at the beginning is the empty name
  std::vector<OverflowCount> overflow_;
};

class SpanTable::Lines {
 public:
  void prefetch(std::uint64_t key) const noexcept { prefetch_to_write(&lines[home_of(key, homes)]); }
  /// For who looks for keys of both tables in turns.
  TableLines all() const noexcept { return {reinterpret_cast<std::byte*>(lines), homes, probed_lines}; }
  /// As AskForKeys has it.
  void ask_for(std::uint64_t* hashes, std::size_t count) const noexcept { search->ask(all(), hashes, count); }
  /// What is ready of the key under the publication, or `otherwise`: it has no place, or its line is not of
  /// the publication.
  /// @param place  set to the key's place, or nowhere, where it is `otherwise`
  std::uint32_t& ready_of(std::uint64_t key, std::uint32_t generation, std::uint32_t& otherwise,
                          Place& place) const noexcept {
    const std::size_t first = home_of(key, homes);
    std::size_t line = first;
    // The eighth lane of the half is the generation.
    Lanes lanes = Lanes::with(&lines[line], tag_of(key));
    while (lanes.none_of_seven()) [[unlikely]] {
        if (!is_full(lines[line]) || line + 1 == first + probed_lines) {
          place = nowhere;
          return otherwise;
        }
        lanes = Lanes::with(&lines[++line], tag_of(key));
      }
    if (lines[line].generation != generation) [[unlikely]] {
      place = place_at(line, lanes.first());
      return otherwise;
    }
    return lanes.first_of(lines[line].ready);
  }
  /// The same of a burst's keys: where what is ready of each is, or `otherwise`.
  void find(const Hashes& keys, std::uint32_t generation, std::uint32_t& otherwise,
            std::byte** ready) const noexcept {
    for (std::uint32_t missing = search->find_of_generation(all(), generation, keys, ready); missing != 0;
         missing &= missing - 1)
      ready[std::countr_zero(missing)] = reinterpret_cast<std::byte*>(&otherwise);
  }
  /// As TakeReady has it.
  std::size_t take(const Hashes& keys, const Hashes& next, std::uint32_t generation, std::uint32_t weight,
                   std::uint8_t* others) const noexcept {
    return search->take(all(), generation, keys, next, weight, others);
  }
  /// The same where the place is known, if it is the key's.
  std::uint32_t& ready_at(Place place, std::uint64_t key, std::uint32_t generation,
                          std::uint32_t& otherwise) const noexcept {
    Line& line = lines[place / lanes_per_line];
    const bool holds = line.tags[lane_of(place)] == tag_of(key) && line.generation == generation;
    return holds ? line.ready[lane_of(place)] : otherwise;
  }
  /// Whether as much is ready.
  static bool has(std::uint32_t ready, std::uint64_t weight) noexcept { return is_ready(ready, weight); }
  /// The common decision: takes `weight` of what is ready, if it is that much. @return whether it has been
  static bool take(std::uint32_t& ready, std::uint64_t weight) noexcept {
    const bool enough = is_ready(ready, weight);
    if (enough) [[likely]]
      ready -= static_cast<std::uint32_t>(weight);
    return enough;
  }
  /// Whether what weighs as much may be taken by take_usual().
  static bool is_usual(std::uint64_t weight) noexcept { return weight - 1 < most_ready - 1; }
  /// The same in fewer instructions. @pre is_usual()
  static bool take_usual(std::uint32_t& ready, std::int32_t weight) noexcept {
    static_assert(refused_here == std::uint32_t{1} << 31);
    const auto word = static_cast<std::int32_t>(ready);  // what is refused has a negative one
    if (word < weight) [[unlikely]]
      return false;
    ready = static_cast<std::uint32_t>(word - weight);
    return true;
  }
  /// Whether what has this word is refused.
  static bool refuses(std::uint32_t word) noexcept { return (word & refused_here) != 0; }
  /// Counts as refused what weighs as much, unless that is more than there is room for, or nothing.
  /// @pre refuses() @return whether it has been
  static bool refuse(std::uint32_t& word, std::uint64_t weight) noexcept {
    if (weight - 1 >= ~word) [[unlikely]]
      return false;
    word += static_cast<std::uint32_t>(weight);
    return true;
  }
  /// Whether the place that this word is of is the key's still: another one may have been inserted there.
  bool is_of(const std::uint32_t& ready, std::uint64_t key) const noexcept {
    const Place place = place_of(ready);
    return lines[place / lanes_per_line].tags[lane_of(place)] == tag_of(key);
  }
  /// Whose it is. @param ready  of a place
  Place place_of(const std::uint32_t& ready) const noexcept {
    const auto line = static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&ready) -
                                               reinterpret_cast<const std::byte*>(lines)) /
                      sizeof(Line);
    return place_at(line, static_cast<std::size_t>(&ready - lines[line].ready));
  }

 private:
  friend class SpanTable;
  Lines(Line* first, std::size_t count, const LaneSearch& by) noexcept
      : lines(first), homes(count), search(&by) {}

  Line* lines;
  std::size_t homes;
  const LaneSearch* search;
};

inline SpanTable::Lines SpanTable::lines() noexcept { return Lines(lines_.data(), homes(), search_); }

inline SpanTable::Place SpanTable::locate(std::uint64_t key) const noexcept {
  for (std::size_t line = home_of(key, homes()), last = line + probed_lines - 1;; ++line) {
    if (const Lanes lanes = Lanes::with(&lines_[line], tag_of(key)); !lanes.none_of_seven())
      return place_at(line, lanes.first());
    if (!is_full(lines_[line]) || line == last) return nowhere;
  }
}

inline void SpanTable::put_aside(Place place) noexcept {
  Line& line = line_of(place);
  if (lasts(place)) [[unlikely]]
    end_lasting(place);
  if (line.ready[lane_of(place)] == 0) return;
  SpanEntry& own = entry(place);
  const std::uint32_t word = std::exchange(line.ready[lane_of(place)], 0);
  own.aside += ready_in(word);
  if (const std::uint32_t refused = refused_in(word); refused > 0) [[unlikely]]
    count_refused(own, refused);
}

// The place's line holds for this publication from now on. @pre it does not
template <typename StillHolds>
void SpanTable::bring_up(Place place, std::uint32_t generation, StillHolds&& still_holds) noexcept {
  Line& line = line_of(place);
  for (unsigned open = line.open; open != 0; open &= open - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(open));
    if (still_holds(line.generation, line.tags[lane])) continue;
    line.stale |= static_cast<std::uint8_t>(1U << lane);
    const auto other = static_cast<Place>(place - lane_of(place) + lane);
    if (!lasts(other)) put_aside(other);
  }
  line.generation = generation;
}

template <typename StillHolds>
void SpanTable::set_aside(Place place, std::uint32_t generation, StillHolds&& still_holds) noexcept {
  if (line_of(place).generation != generation) bring_up(place, generation, still_holds);
  put_aside(place);
}

/// Goes through the numbers of open entries.
class SpanTable::OpenNumbers {
 public:
  /// @param all  those that are left alone, too
  OpenNumbers(const SpanTable& table, bool all) noexcept
      : open_(table.open_.data()),
        left_alone_(all ? nullptr : table.left_alone_.data()),
        words_((table.held() + word_bits - 1) / word_bits) {
    if (words_ > 0) left_ = bits_of(0);
  }
  static constexpr std::uint32_t none = 0xffffffff;
  std::uint32_t next() noexcept {
    while (left_ == 0) {
      if (word_ + 1 >= words_) return none;
      left_ = bits_of(++word_);
    }
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(left_));
    left_ &= left_ - 1;
    return word_ * word_bits + bit;
  }
  static constexpr std::uint32_t word_bits = 64;

 private:
  OpenBits bits_of(std::uint32_t word) const noexcept {
    return left_alone_ == nullptr ? open_[word] : open_[word] & ~left_alone_[word];
  }

  const OpenBits* open_;
  const OpenBits* left_alone_;
  std::uint32_t words_;
  std::uint32_t word_ = 0;
  OpenBits left_ = 0;
};

inline void SpanTable::mark_open(Line& line, Place place) noexcept {
  line.open |= static_cast<std::uint8_t>(bit(place));
  const std::uint32_t number = numbers_[place];
  open_[number / OpenNumbers::word_bits] |= OpenBits{1} << number % OpenNumbers::word_bits;
  ++opened_;
}

template <typename Visitor>
void SpanTable::for_each_open(bool all, Visitor&& visit) const {
  OpenNumbers ahead(*this, all);
  // Entries lie in a row, but not all are open; and their lines lie at random.
  const auto prefetch_next = [&] {
    const std::uint32_t next = ahead.next();
    if (next == OpenNumbers::none) return;
    prefetch_to_write(&lines_[places_[next] / lanes_per_line]);
    prefetch_to_write(&entries_[next]);
  };
  for (std::uint32_t i = 0; i < drain_ahead; ++i) prefetch_next();
  OpenNumbers nearer(*this, all);
  // Which rest is an entry's it says only once it has come.
  const auto prefetch_next_rest = [&] {
    if (rests() == 0) return;
    const std::uint32_t next = nearer.next();
    if (next != OpenNumbers::none && entries_[next].has_rest()) prefetch_to_read(&rest(entries_[next]));
  };
  for (std::uint32_t i = 0; i < drain_ahead / 2; ++i) prefetch_next_rest();
  OpenNumbers numbers(*this, all);
  for (std::uint32_t number = numbers.next(); number != OpenNumbers::none; number = numbers.next()) {
    prefetch_next();
    prefetch_next_rest();
    visit(number);
  }
}

template <typename Take>
void SpanTable::drain(std::span<const std::uint64_t> limits, MonotonicTime keep_until, Turns turns,
                      Take&& take) noexcept {
  const bool weighs = begin_weighing();
  call_up(keep_until, turns);
  std::array<CountedKey, drained_together> keys;
  std::size_t count = 0;
  // All that is to be done with an entry while it and its line are near.
  for_each_open(false, [&](std::uint32_t number) {
    // Made where it is to be: what has just been written in pieces is slow to copy.
    const CountedKey& key = *::new (&keys[count]) CountedKey(counted(number));
    const bool lasts = this->lasts(places_[number]);
    // Of one that the last drain has left open nothing need have been seen since.
    const bool has_come = !lasts || (key.offered | key.credit | key.lent) != 0;
    if (has_come && weighs) weigh(number, key, limits);
    if (lasts && key.offered != key.admitted && is_blocked_until(entries_[number], keep_until)) [[unlikely]]
      keep_refused(number, keep_until);
    else
      close_entry(number);
    count += has_come;
    if (count == keys.size()) take(std::span<const CountedKey>(keys).first(std::exchange(count, 0)));
  });
  take(std::span<const CountedKey>(keys).first(count));
  kept_until_ = left_open_ > 0 ? keep_until : keep_none;
  mark_heaviest();
}

}  // namespace weir
