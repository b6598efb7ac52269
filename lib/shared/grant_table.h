// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One worker's standing grants: what it may admit of any key in a window without asking, and how much of
/// that it has used. A window is here the time that a grant is for: an interval of the rule, whole also where
/// its windows slide.
///
/// The problem: most keys never come near their limit, and there are millions of them. To draw for each of
/// them from the cell that workers share, to keep an entry of its own in every span, and to find all that
/// again when the span ends, costs several cache misses a key and span, to prove what is plain: that a key
/// of which little is used is far from its limit. So every worker has a small part of each key's limit in
/// every window by right, and what all workers have so is taken off what may be drawn from the cell
/// beforehand (Publication::reserve_of(); where windows slide, see below): the bound on what a node admits
/// holds, whoever uses his grant. A request within the grant costs one cache line: the key's tag in one half,
/// what has been used in the other.
///
/// A line's lane keeps two windows apart: the one that runs, and the one before, whose count the controller
/// may not have taken yet. The worker numbers the windows that it uses its grants in: the number's lowest bit
/// says which half of the lane is a window's, and the half begins with the next four; whatever is of another
/// window counts as nothing used. (A half that is exactly 32 turns old would be taken for the running one:
/// then less is granted, and nothing is counted wrongly.) Halves are words of their own: so the common
/// decision neither shifts nor masks.
///
/// Two keys of one line that share 32 bits of their hash are taken for one by the common decision, as in
/// shared/span_table.h; where they are of rules whose windows differ, what was used of the one may be
/// forgotten for the other's. Among a million keys there is such a pair in a thousand runs, and nobody who
/// does not know the hash's key can make one.
///
/// Protocol. The worker alone writes lines and whose their lanes are, at any time; the controller reads them
/// at any time. A lane is taken once, by a release store of its tag after whose it is has been written, and
/// the key's name (shared/name_log.h); and given up by nobody: only the controller makes the whole table
/// anew, without the keys that were idle, while the worker is known not to use it. What is used is one word,
/// its order relaxed: it is all there is to see. The controller keeps what it has seen and counts
/// differences; it takes a window's differences after the worker has reported that it left the span, so that
/// they are complete when the window is over.
///
/// A key that has used up its grant draws from its cell, and has an entry for that (shared/span_table.h). So
/// that its requests are found at the first look all the same, a part of what it has drawn goes back to its
/// lane, as if so much of the grant had not been used: it is lent. The entry keeps how much, and hands that
/// over with its span; the controller adds it to what it sees used. What has been lent since, in a span that
/// has not been handed over, makes that too little, never too much: it is counted with a later span then.
/// What is lent stays with its worker until the window ends, no more than a grant is: so what workers may
/// strand of a key that others ask for now is as much as ever, together a 64th of the limit.
///
/// Where windows slide, what is drawn is drawn for a span, by what the spans before have left of the limit.
/// Grants are of whole intervals all the same: were they of spans, all would have to be seen used before the
/// next span may begin. Let G be what all workers' grants come to in an interval. What may be drawn leaves
/// 3 G of what a sliding window has left (GrantTerms::kept()), and so none ever holds more than its limit:
/// of what has been admitted out of grants, or still may be, it holds at most so much that whoever draws does
/// not know of:
///   G  that was used in its first span, but seen with the harvest for the one before it, which ends
///      a little after that span: it is taken to have left;
///   G  that has been used since the span which was judged last, or is left in this interval: no more than
///      there was when that span ended, for what has been lent since is among what was drawn since;
///   G  that the next interval brings: it reaches no more than two.
/// (tests/property/grants_test.cc: with 2 G it is exceeded.)
///
/// A bucket outlives windows, and what is used of grants is never taken from it: the cells hold a smaller
/// bucket that fills more slowly (node/rule_plan.cc), and what that lacks the grants are. Windows are W
/// apart, and a worker takes one up late, but before the next one begins. So in any time t it uses one whole
/// grant for each window that it takes up, t / W + 2 at most; what is left of one when that begins; and as
/// much as it has given back to the bucket by a table that has not been drained by then. A bucket that is
/// smaller by 4 G and fills more slowly by G / W admits with them what the rule's own would, at most. (What
/// has been lent is no more than the grant that it fills up.)
///
/// Bytes of a key where there are a million, as many as the table is for, so that five of eight places are
/// taken: its share of the lines 13, the other half of its hash and its rule 10, what has been seen 6. Its
/// name is not kept: whoever is told of its uses remembers that, once for all workers
/// (engine/learned_names.h).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/huge_array.h"
#include "base/prefetch.h"
#include "limit/bucket_rule.h"
#include "limit/share.h"
#include "shared/grant_lines.h"
#include "shared/grant_window.h"
#include "shared/lane_search.h"
#include "shared/lanes.h"
#include "shared/name_log.h"
#include "shared/refused_keys.h"
#include "weir/rule.h"

namespace weir {

/// Whether keys of a rule may be admitted out of grants: where a window's admissions are one sum, or a bucket
/// may be divided, and a key that little is asked of needs nothing else looked at. (Not logs, where the
/// moment of each request matters; nor buckets that warm up; nor strict limits, which are leased; nor where
/// an estimate may refuse what a window that slides has left.)
inline bool may_be_granted(const Rule& rule) noexcept {
  return !rule.key.empty() &&
         (rule.algorithm == Algorithm::cooldown || rule.algorithm == Algorithm::fixed_window ||
          rule.algorithm == Algorithm::shed || (is_bucket(rule.algorithm) && rule.warmup == Duration{}) ||
          (rule.algorithm == Algorithm::sliding_window && rule.early_block == EarlyBlock::sound));
}

/// What grants are a part of: as much as a node may admit of a key in an interval, or of a bucket at once.
/// @param allowance, price  of a key, by the rule's default; the price of buckets only
std::uint64_t grantable(const Rule& rule, std::uint64_t allowance, TokenPrice price) noexcept;
/// The same of a node that has the limit for itself.
inline std::uint64_t grantable(const Rule& rule) noexcept { return grantable(rule, rule.limit, full_price); }

/// What each of a node's workers may have of a key by right, in each interval: together no more than a 64th
/// of what the node may admit, as much as they might strand by drawing chunks. Where windows slide, so much
/// is kept for three times what they have, and a bucket holds so much less for four times; but the only
/// worker of one is to have it to the last token. 0: too little to divide.
/// @param all  grantable()
std::uint32_t standing_grant(const Rule& rule, std::uint64_t all, unsigned workers) noexcept;

/// What a harvest finds of a key. Weight.
struct GrantUse {
  std::uint64_t key = 0;
  RuleIndex rule = no_rule;
  std::uint32_t admitted = 0;  ///< since the harvest before
};

/// What the worker writes per decision lies in its lines; see the file's comment for who may do what.
class alignas(64) GrantTable {
 public:
  using Place = std::uint32_t;
  static constexpr Place nowhere = 0xffffffff;
  /// No grant is larger. Weight.
  static constexpr std::uint32_t most = 2047;

  /// Reserves all there will ever be.
  /// @param keys  to hold; 0: there are no grants
  explicit GrantTable(std::uint32_t keys, InstructionSet set = best_instruction_set());

  // The worker:

  /// Has the kernel provide the memory, on the NUMA node of the calling thread, before it is first used.
  void touch_pages() noexcept;
  void prefetch(std::uint64_t key) const noexcept { prefetch_to_write(&lines_[home_of(key, homes_)]); }

  /// The lines by themselves, for a loop over a burst: what the loop writes cannot make the compiler read
  /// their address anew for every key.
  class Lines;
  Lines lines() const noexcept;

  /// The place of the key, or of one that shares its line and 32 bits of its hash; or nowhere.
  /// @param key  here as everywhere: a hash whose low 32 bits are not 0
  Place locate(std::uint64_t key) const noexcept;
  /// Whether the place is this key's. Touches more than its line.
  bool holds(Place place, std::uint64_t key) const noexcept {
    return key_highs_[index_of(place)] == key >> 32;
  }
  /// What holds() will read of the key, if it is in its home line, as nearly always.
  void prefetch_holder(std::uint64_t key) const noexcept {
    static_assert(64 % (keys_per_line * sizeof(key_highs_[0])) == 0);  // a line's come together
    prefetch_to_read(&key_highs_[home_of(key, homes_) * keys_per_line]);
  }
  /// Which of the logs the names of new keys go to.
  /// @param turn  of its span tables
  void write_names_to(std::size_t turn) noexcept { written_ = turn; }
  /// A place for the key, or nowhere: there is no room. @pre locate() is nowhere
  Place insert(std::uint64_t key, RuleIndex rule, std::span<const std::byte> name) noexcept;
  /// locate(), and insert() where that is nowhere, in one search.
  /// @param name_of  called for the name where there is room
  template <typename NameOf>
  Place locate_or_insert(std::uint64_t key, RuleIndex rule, NameOf&& name_of) noexcept {
    for (std::size_t line = home_of(key, homes_), last = line + probed_lines; line < last; ++line) {
      if (const Lanes lanes = Lanes::with(&lines_[line], tag_of(key)); !lanes.none())
        return place_at(line, lanes.first());
      if (!is_full(lines_[line])) return insert_into(line, key, rule, name_of());
    }
    return nowhere;
  }

  /// What has been used in the window; more than any grant once the place is closed.
  std::uint32_t used(Place place, const GrantWindow& window) const noexcept {
    return used_in(half(place, window).load(std::memory_order_relaxed), window);
  }
  /// Uses so much of the grant. @pre used() + weight is at most `most`
  void use(Place place, std::uint32_t weight, const GrantWindow& window) noexcept {
    std::atomic<std::uint16_t>& half = this->half(place, window);
    const std::uint32_t used = used_in(half.load(std::memory_order_relaxed), window);
    half.store(of_window(used + weight, window), std::memory_order_relaxed);
  }
  /// Nothing more is admitted out of the grant in this window. @return what had been used
  /// @pre is not closed
  std::uint32_t close(Place place, const GrantWindow& window) noexcept {
    std::atomic<std::uint16_t>& half = this->half(place, window);
    const std::uint32_t used = used_in(half.load(std::memory_order_relaxed), window);
    half.store(of_window(used | closed, window), std::memory_order_relaxed);
    return used;
  }
  /// Fills a grant up again, closed or not, so that no more than this counts as used.
  /// @return how much less than before: for take_lent()
  /// @pre may_be_filled()
  std::uint32_t fill(Place place, std::uint32_t used, const GrantWindow& window) noexcept {
    const std::uint32_t before = this->used(place, window) & most;
    half(place, window).store(of_window(used, window), std::memory_order_relaxed);
    return before - used;
  }
  /// Whether more is used; a grant may have been closed before.
  bool may_be_filled(Place place, std::uint32_t used, const GrantWindow& window) const noexcept {
    return (this->used(place, window) & most) > used;
  }

  /// Keys that the worker has refused since it took up its span table. Written by the worker, read by the
  /// controller when it ends the span.
  SharedRefusedKeys refused;

  // The controller:

  /// The names of keys that have come while the worker counted in one of its span tables: before the tags of
  /// these.
  NameLog& names(std::size_t turn) noexcept { return names_[turn]; }
  /// For a key that has been lent to: what has been used since the harvest before, as far as it is not what
  /// the worker has lent since.
  /// @param lent  by the entry of the span that has been handed over
  std::uint32_t take_lent(std::uint64_t key, std::uint32_t lent, const GrantWindow& window) noexcept;
  /// Has what that reads brought near.
  void prefetch_lent(std::uint64_t key) const noexcept {
    const std::size_t line = home_of(key, homes_);
    prefetch_to_read(&lines_[line]);
    prefetch_to_write(&seen_[line * keys_per_line]);
  }
  /// Calls visit(const GrantUse&) for each key of which more has been used than the harvest before saw, in
  /// the windows that the worker's span lay in. In the order of places. That visit() throws ends the program.
  /// @param windows  by rule
  /// @return keys it was called for
  template <typename Visitor>
  std::uint32_t harvest(std::span<const GrantWindow> windows, Visitor&& visit) noexcept {
    std::uint32_t visited = 0;
    for (std::size_t group = 0; group < groups(); ++group)
      visited += harvest_group(group, windows, [&](std::size_t, const GrantUse& use) { visit(use); });
    return visited;
  }
  /// The same for some lines, so that those of several tables can be looked at side by side. Calls
  /// visit(line, const GrantUse&), with the line's number in the group.
  template <typename Visitor>
  std::uint32_t harvest_group(std::size_t group, std::span<const GrantWindow> windows,
                              Visitor&& visit) noexcept;
  static constexpr std::size_t lines_per_group = 64;
  std::size_t groups() const noexcept { return in_use_.size(); }
  /// Whether new keys may soon find no room.
  bool crowded() const noexcept { return held_.load(std::memory_order_relaxed) > places() / 4 * 3; }
  /// Places taken. Any thread.
  std::uint32_t held() const noexcept { return held_.load(std::memory_order_relaxed); }
  /// Of a rule: in which of the worker's turns whoever has been asked for is not idle. In this one, and in
  /// the next.
  struct RecentTurns {
    std::uint32_t turn = 0;
    bool and_before = false;  ///< in the one before, too: this one may just have begun
  };
  /// Forgets the keys of which nothing has been used in their rule's recent turns: whatever they used earlier
  /// has been harvested, in windows that are over. What the others have used stays. While the worker is known
  /// not to use the table.
  /// @param recent     by rule
  /// @param forgotten  called with each key that has been; that it throws ends the program
  template <typename Forgotten>
  void forget_idle(std::span<const RecentTurns> recent, Forgotten&& forgotten) noexcept;

  /// Of names under way, what has been provided so far.
  std::size_t memory() const noexcept;

 private:
  static constexpr std::size_t keys_per_line = Lanes::per_line;
  static_assert(keys_per_line == grants_per_line);
  // Were three of four places taken, one key in 20,000 would find all of these full.
  static constexpr std::size_t probed_lines = 12;
  static constexpr std::uint32_t closed = 0x800;
  static_assert(closed > most);
  // Numbers of a line's places, which are so the numbers of its words; the second eight are no places.
  static constexpr std::size_t words_per_line = 16;

  struct alignas(64) Line {
    std::atomic<std::uint32_t> tags[keys_per_line];  ///< 0: free
    std::atomic<std::uint16_t> used[keys_per_line][2];
  };
  static_assert(sizeof(Line) == TableLines::line_bytes && offsetof(Line, used) == TableLines::words_at);
  /// What is used in both windows of a lane.
  using Halves = std::array<std::uint16_t, 2>;
  /// A key on its way to another place.
  struct Moving {
    std::uint32_t tag;
    Halves used;
    Halves seen;
    std::uint32_t key_high;
    RuleIndex rule;
  };

  static std::uint32_t tag_of(std::uint64_t key) noexcept { return static_cast<std::uint32_t>(key); }
  /// What a half says of the window: nothing used where it is of another one.
  static std::uint32_t used_in(std::uint32_t half, const GrantWindow& window) noexcept {
    return window.runs(half) ? half ^ window.stamp : 0;
  }
  static std::uint16_t of_window(std::uint32_t used, const GrantWindow& window) noexcept {
    return static_cast<std::uint16_t>(used | window.stamp);
  }
  /// Lanes are taken in order and never given up: what is not in a line with a free lane is not beyond it.
  static bool is_full(const Line& line) noexcept {
    return line.tags[keys_per_line - 1].load(std::memory_order_relaxed) != 0;
  }
  static Place place_at(std::size_t line, std::size_t lane) noexcept {
    return static_cast<Place>(line * words_per_line + lane);
  }
  /// Where what belongs to a place lies beside the lines.
  static std::size_t index_of(Place place) noexcept {
    return place / words_per_line * keys_per_line + place % words_per_line;
  }
  const std::atomic<std::uint16_t>& half(Place place, const GrantWindow& window) const noexcept {
    return lines_[place / words_per_line].used[place % words_per_line][window.half];
  }
  std::atomic<std::uint16_t>& half(Place place, const GrantWindow& window) noexcept {
    return lines_[place / words_per_line].used[place % words_per_line][window.half];
  }
  static Halves halves(const Line& line, std::size_t lane) noexcept {
    return {line.used[lane][0].load(std::memory_order_relaxed),
            line.used[lane][1].load(std::memory_order_relaxed)};
  }
  /// The same, but for whether they are closed.
  static Halves counted(const Line& line, std::size_t lane) noexcept {
    Halves halves = GrantTable::halves(line, lane);
    for (std::uint16_t& half : halves) half &= static_cast<std::uint16_t>(~closed);
    return halves;
  }
  /// The lanes in which something else is used than has been seen: a bit for each. Two lanes at a time, and
  /// without a branch for each, for nobody can foresee which lanes of a line are taken.
  std::uint32_t changed(std::size_t line) const noexcept {
    // Relaxed, and four halves in one: only where to look. What is found there is read by itself.
    using TwoLanes [[gnu::may_alias]] = std::uint64_t;
    static_assert(sizeof(TwoLanes) == 2 * sizeof(lines_[0].used[0]) && offsetof(Line, used) % 8 == 0);
    constexpr TwoLanes counts = ~(TwoLanes{closed} * 0x0001'0001'0001'0001);
    const auto* const now = reinterpret_cast<const TwoLanes*>(lines_[line].used);
    const auto* const seen = reinterpret_cast<const TwoLanes*>(&seen_[line * keys_per_line]);
    static_assert(std::endian::native == std::endian::little);
    std::uint32_t lanes = 0;
    for (std::size_t two = 0; two < keys_per_line / 2; ++two) {
      const TwoLanes differs = (__atomic_load_n(now + two, __ATOMIC_RELAXED) & counts) ^ seen[two];
      const std::uint32_t low = static_cast<std::uint32_t>(differs) != 0;
      const std::uint32_t high = (differs >> 32) != 0;
      lanes |= (low | high << 1) << 2 * two;
    }
    return lanes;
  }
  std::uint32_t places() const noexcept { return static_cast<std::uint32_t>(key_highs_.size()); }
  Place insert_into(std::size_t line, std::uint64_t key, RuleIndex rule,
                    std::span<const std::byte> name) noexcept;
  static std::size_t free_lane(const Line& line) noexcept {
    std::size_t lane = 0;
    while (line.tags[lane].load(std::memory_order_relaxed) != 0) ++lane;
    return lane;
  }
  void note_held(std::size_t line) noexcept;
  std::size_t empty_line(std::size_t at, std::array<Moving, keys_per_line>& held) noexcept;
  static bool is_idle(const Moving& key, const RecentTurns& recent) noexcept;
  static std::uint64_t key_of(const Moving& key) noexcept {
    return std::uint64_t{key.key_high} << 32 | key.tag;
  }
  void settle(const Moving& key, std::size_t last) noexcept;

  std::size_t homes_;
  const LaneSearch& search_;
  HugeArray<Line> lines_;  // a few more than homes, for those that begin near the end
  // Written once, before the tag.
  HugeArray<std::uint32_t> key_highs_;
  HugeArray<RuleIndex> rules_;
  HugeArray<std::atomic<std::uint64_t>> in_use_;  // a bit for each line that holds a key. The worker writes
  HugeArray<Halves> seen_;                        // of what is used. The controller's
  std::array<NameLog, 2> names_;                  // in turns with the worker's span tables
  alignas(64) std::size_t written_ = 0;           // which of them the worker writes to
  std::atomic<std::uint32_t> held_{0};
};

class GrantTable::Lines {
 public:
  void prefetch(std::uint64_t key) const noexcept { prefetch_to_write(&lines[home_of(key, homes)]); }
  /// As GrantTable::locate().
  Place locate(std::uint64_t key) const noexcept {
    const Found found = find(key);
    return found.lanes.none() ? nowhere : place_at(found.line, found.lanes.first());
  }
  /// For who looks for keys of both tables in turns.
  TableLines all() const noexcept { return {reinterpret_cast<std::byte*>(lines), homes, probed_lines}; }
  /// As AskForKeys has it.
  void ask_for(std::uint64_t* hashes, std::size_t count) const noexcept { search->ask(all(), hashes, count); }
  /// What has been used of a key in a window, as it lies in its lane.
  using Half = std::atomic<std::uint16_t>;
  /// Where the halves of a burst's keys are; `otherwise` where one has no place.
  void find(const Hashes& keys, std::byte* otherwise, std::byte** halves) const noexcept {
    for (std::uint32_t missing = search->find(all(), keys, halves); missing != 0; missing &= missing - 1)
      halves[std::countr_zero(missing)] = otherwise;
  }
  /// As UseGrants has it.
  std::size_t use(const Hashes& keys, const Hashes& next, const GrantPortion& portion,
                  std::uint8_t* others) const noexcept {
    return search->use(all(), keys, next, portion, others);
  }
  /// As UseGrantsOfRules has it.
  std::size_t use_of_rules(const Hashes& keys, const RuleUse* uses, std::uint8_t* others) const noexcept {
    return search->use_of_rules(all(), keys, uses, others);
  }
  /// One that is nobody's, of which nothing is left to use: for keys that are not to use their grant.
  static std::uint16_t used_up(const GrantWindow& window) noexcept { return of_window(closed, window); }
  /// What has been used in the window; more than any grant once it is closed.
  static std::uint32_t used(const Half& half, const GrantWindow& window) noexcept {
    return used_in(half.load(std::memory_order_relaxed), window);
  }
  /// Whether something has been used in the window, so that it could be used at a glance.
  static bool runs(const Half& half, const GrantWindow& window) noexcept {
    return window.runs(half.load(std::memory_order_relaxed));
  }
  /// Uses `weight` of the grant, if it is that much. Without a branch on that, which could not be foreseen.
  /// @param weight  1 … grant, or nothing of what is used up
  /// @param grant   what the worker may admit of the key in the window, all in all
  /// @return whether it has been
  static bool use(Half& half, std::uint32_t weight, std::uint32_t grant, const GrantWindow& window) noexcept {
    const std::uint32_t before = half.load(std::memory_order_relaxed);
    const std::uint32_t after = in_window(before, window) + weight;
    const bool enough = after <= window.stamp + grant;
    half.store(static_cast<std::uint16_t>(enough ? after : before), std::memory_order_relaxed);
    return enough;
  }
  /// The same in two steps, for who must know of several keys before he uses any: what a half becomes, and
  /// may become if it is no more than the window's stamp and the grant.
  static std::uint32_t after_use(const Half& half, std::uint32_t weight, const GrantWindow& window) noexcept {
    return in_window(half.load(std::memory_order_relaxed), window) + weight;
  }
  static void set(Half& half, std::uint32_t after) noexcept {
    half.store(static_cast<std::uint16_t>(after), std::memory_order_relaxed);
  }

 private:
  friend class GrantTable;
  /// A half as it would be had it been used in the window before.
  static std::uint32_t in_window(std::uint32_t half, const GrantWindow& window) noexcept {
    return window.runs(half) ? half : window.stamp;
  }
  Lines(Line* first, std::size_t count, const LaneSearch& by) noexcept
      : lines(first), homes(count), search(&by) {}
  struct Found {
    std::size_t line;
    Lanes lanes;  // none: nowhere
  };
  Found find(std::uint64_t key) const noexcept {
    std::size_t line = home_of(key, homes);
    Lanes lanes = Lanes::with(&lines[line], tag_of(key));
    for (const std::size_t last = line + probed_lines - 1; lanes.none();) [[unlikely]] {
        if (!is_full(lines[line]) || line == last) break;
        lanes = Lanes::with(&lines[++line], tag_of(key));
      }
    return {line, lanes};
  }

  Line* lines;
  std::size_t homes;
  const LaneSearch* search;
};

inline GrantTable::Lines GrantTable::lines() const noexcept {
  return Lines(const_cast<Line*>(lines_.data()), homes_, search_);
}

inline GrantTable::Place GrantTable::locate(std::uint64_t key) const noexcept { return lines().locate(key); }

// Line after line is emptied, and the keys that stay are put where they would be if they had come now: into
// the line where they were or one before it, which have room by then.
template <typename Forgotten>
void GrantTable::forget_idle(std::span<const RecentTurns> recent, Forgotten&& forgotten) noexcept {
  // Nobody else looks: relaxed.
  held_.store(0, std::memory_order_relaxed);
  for (std::size_t group = 0; group < in_use_.size(); ++group) {
    std::uint64_t lines = in_use_[group].load(std::memory_order_relaxed);
    in_use_[group].store(0, std::memory_order_relaxed);
    for (; lines != 0; lines &= lines - 1) {
      const std::size_t at = group * lines_per_group + static_cast<unsigned>(std::countr_zero(lines));
      std::array<Moving, keys_per_line> held;
      for (const Moving& key : std::span(held).first(empty_line(at, held)))
        if (is_idle(key, recent[key.rule]))
          forgotten(key_of(key));
        else
          settle(key, at);
    }
  }
}

template <typename Visitor>
std::uint32_t GrantTable::harvest_group(std::size_t group, std::span<const GrantWindow> windows,
                                        Visitor&& visit) noexcept {
  std::uint32_t visited = 0;
  if (held() == 0) return visited;  // its worker may not have touched it yet
  for (std::uint64_t used = in_use_[group].load(std::memory_order_relaxed); used != 0; used &= used - 1) {
    const auto line_of_group = static_cast<unsigned>(std::countr_zero(used));
    const std::size_t at = group * lines_per_group + line_of_group;
    const Line& line = lines_[at];
    for (std::uint32_t lanes = changed(at); lanes != 0; lanes &= lanes - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
      const std::size_t index = at * keys_per_line + lane;
      Halves& seen = seen_[index];
      // Acquire: pairs with insert(). What is used may show before the tag does: then another time.
      const std::uint32_t tag = line.tags[lane].load(std::memory_order_acquire);
      if (tag == 0) continue;
      const RuleIndex rule = rules_[index];
      const GrantWindow& window = windows[rule];
      const std::uint16_t half =
          line.used[lane][window.half].load(std::memory_order_relaxed) & static_cast<std::uint16_t>(~closed);
      if (!window.runs(half)) continue;
      const std::uint32_t count = used_in(half, window);
      const std::uint32_t before = used_in(seen[window.half], window);
      if (count < before) continue;  // it has been lent to since: take_lent() will know
      seen[window.half] = half;
      if (count == before) continue;
      ++visited;
      visit(line_of_group, GrantUse{.key = std::uint64_t{key_highs_[index]} << 32 | tag,
                                    .rule = rule,
                                    .admitted = count - before});
    }
  }
  return visited;
}

}  // namespace weir
