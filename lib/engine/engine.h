// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The thinking: counts, time and the store's replies in; store writes, blocks and allowances out. No I/O, no
/// clock, no threads, so the same object code runs in a node, over a capture and in a simulator. Source: the
/// seeds' Concept and Extension as algorithm.md §3 words them; the numbers in comments are its steps.
///
/// One round, driven by the controller:
///     count(…) for every drained entry; step(now); tell_blocks(now); for_each_write(…) to the store;
///     reply(…) as answers come; sync_result(…) at the sync's deadline; for_each_override(…) whenever a
///     publication is built.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_filter.h"
#include "base/span_clock.h"
#include "engine/ledger.h"
#include "engine/light_keys.h"
#include "engine/quota.h"
#include "engine/rule_state.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

/// What one worker counted of one key in one span. Units of weight.
struct SpanCount {
  RuleIndex rule = no_rule;
  std::uint64_t key = 0;                   ///< keyed hash; names the key within this node
  std::span<const std::byte> key_bytes{};  ///< see base/key_bytes.h; where it has not been learned
  bool learned = false;                    ///< Engine::learn() has been told its name
  WallTime began{};                        ///< when the span began: names the ordinal
  /// When all of it had been counted; no later than `began`: in that span. Windows that slide hold it as of
  /// the last span that had ended by then. By the clock that the engine's last step() went by.
  WallTime counted_by{};
  std::uint64_t offered = 0;
  std::uint64_t admitted = 0;
  MonotonicTime refused_at = never;  ///< first refusal for want of allowance, if any
};

/// A key that has been refused by a worker and not exceeded its limit.
struct PardonedKey {
  std::uint64_t key = 0;
  RuleIndex rule = no_rule;

  bool operator==(const PardonedKey&) const = default;
};

/// A key of which a worker will tell by its hash alone.
struct LearnedKey {
  RuleIndex rule = no_rule;
  std::uint64_t key = 0;
  std::span<const std::byte> key_bytes;  ///< see base/key_bytes.h
};

/// What a counter of the store counts, as the replies tell it apart. (Of uses of the same counter the first
/// stands for both, where they are answered as one: see CounterWrite::tag.)
enum class CounterUse : std::uint8_t {
  counted,  ///< what the key's rule counts
  refused,  ///< refused requests of keys that are near their limit: with the admitted ones, the demand
  lease,    ///< what nodes have claimed of a strict limit
  members,  ///< one from each node that is alive
  held,     ///< the same counters as `counted`: what was kept back until its interval had ended
  blocked,  ///< no sum but the latest end of the key's blocks, in milliseconds of Unix time
};

/// Requests of a key that cost less in the end than was counted of them.
struct Refund {
  std::uint64_t key = 0;
  std::uint64_t amount = 0;  ///< weight
  WallTime charged{};        ///< when the span began that they were counted in
};

/// "Tell the store." What the controller hands on as a CounterWrite. delta and returned 0: only read.
struct EngineWrite {
  std::uint64_t key = 0;
  /// The counter's, but for its end. Valid until clear_writes().
  std::string_view name;
  std::string_view suffix{};  ///< its end: empty, or a literal that tells what beside the counts it is
  Ordinal ordinal = 0;
  Duration interval{};  ///< that the ordinal counts
  std::uint64_t delta = 0;
  Duration time_to_live{};  ///< the same for all counters of one interval
  std::uint64_t returned = 0;
  CounterUse use = CounterUse::counted;
  std::uint64_t raised_to = 0;  ///< not 0: a maximum instead of a sum
};

/// What the names of such counters end in.
constexpr std::string_view suffix_of(CounterUse use) noexcept {
  switch (use) {
    case CounterUse::refused: return "|~refused";
    case CounterUse::blocked: return "|~blocked";
    default: return {};
  }
}

/// What the store has answered to a write.
struct EngineReply {
  std::uint64_t key = 0;
  CounterUse use = CounterUse::counted;
  Ordinal ordinal = 0;
  std::uint64_t delta = 0;  ///< of this node's counts, applied
  std::uint64_t total = 0;  ///< everybody's
};

/// "This key's bucket holds less, or more, than its cell says."
struct BucketCharge {
  std::uint64_t key = 0;
  RuleIndex rule = no_rule;
  std::uint64_t tokens = 0;  ///< to be taken: what other nodes have admitted
  /// What is there is to be multiplied with this: where tokens become cheaper for a node, because its share
  /// has grown, it must not have more of them at once.
  double scale = 1;
};

/// Not thread-safe. Allocates for keys never seen before, and where more becomes known of one than its own
/// counts; both bounded by the number of keys.
class Engine {
 public:
  /// @param rules  valid; copied in part
  /// @param keys   ledger slots
  Engine(std::span<const Rule> rules, std::uint32_t keys);

  /// Adds a drained count to the ordinal in which its span began.
  void count(const SpanCount& count) { this->count(count, Ledger::none); }
  /// The same for many at once, which is faster; in no order.
  void count(std::span<const SpanCount> counts);

  /// One worker more holds each of these keys, whose counts may come without their names from now on: until
  /// as many workers do not any more as have been told of.
  void learn(std::span<const LearnedKey> keys);
  /// One worker less holds each of these keys.
  void unlearn(std::span<const std::uint64_t> keys);
  /// Whether workers should forget the keys that are idle: of so many the names are known.
  bool learned_crowded() const noexcept { return ledger_.learned_crowded(); }

  /// Adds counts whose keys found no room in a worker's table: they are written under the rule's own
  /// "rule|~", so that none is lost, and block nothing.
  /// @param count  of all such keys of a rule; names none
  void count_overflow(const SpanCount& count);

  /// Adds what has been admitted and turns out only now to have cost so much (or so much more) than it was
  /// counted for. `offered` is `admitted`.
  /// @return what has been added: no interval's sum becomes larger than 2^61
  std::uint64_t charge(SpanCount count);
  /// Takes back what was counted too much, as far as it was counted here, in an interval (of a sliding window:
  /// in a span) that still bears on what may be admitted. Of a bucket all of it, which must have been missing
  /// there. Of keys that are not known, nothing.
  /// @return how much was: so much more may be drawn in the window that it was counted in
  std::uint64_t refund(const Refund& refund);
  /// Whether the interval that was charged then may still be refunded. Not for buckets, which know of none.
  bool may_be_refunded(RuleIndex rule, WallTime charged) const noexcept;
  /// For who is about to do either, or count, with many keys in no order: has what is found first brought
  /// near; and then the rest.
  void prefetch(std::uint64_t key) const noexcept { ledger_.prefetch(key); }
  void prefetch_known(std::uint64_t key) const noexcept {
    if (const SlotIndex slot = ledger_.prefetch_slot(key); slot != Ledger::none) ledger_.prefetch_past(slot);
  }
  /// What a token costs this node, of a rule that is a bucket.
  TokenPrice price_of(RuleIndex rule, std::uint64_t key, Instant now) const noexcept;

  /// Judges refusals; for each rule whose span has ended by `now`, writes counts, applies the local rules,
  /// asks for the sum of an interval one span after its end. `end_all` ends all spans, for a clean stop.
  /// @param all_passed  every worker has taken up what was published before the last flip, and no count of
  ///                    before that flip is missing
  /// @param at  when the wall clock showed `now.wall`: earlier than `now.monotonic` where counts of the span
  ///            that has ended were waited for. It is by this that a clock is seen to have been set
  void step(Instant now, bool end_all, bool all_passed, MonotonicTime at);
  void step(Instant now, bool end_all = false, bool all_passed = true) {
    step(now, end_all, all_passed, now.monotonic);
  }

  /// Has the store remember the blocks begun since the last call, for nodes that come to the key later.
  void tell_blocks(Instant now);

  /// Calls visit(const EngineWrite&) for each write collected since the last clear_writes(), in their order.
  template <typename Visitor>
  void for_each_write(Visitor&& visit) const {
    for (std::size_t i = 0; i < collected_.size(); ++i) {
      // Keys come in no order, and nobody has read their names yet.
      if (i + Ledger::ahead < collected_.size() && !collected_[i + Ledger::ahead].apart)
        ledger_.prefetch_text(collected_[i + Ledger::ahead].name);
      visit(write_of(collected_[i]));
    }
  }
  bool has_writes() const noexcept { return !collected_.empty(); }
  void clear_writes() noexcept;

  /// Refusals that proved wrong: the workers' chunks had been divided unluckily. Their marks are to be taken
  /// back.
  std::span<const PardonedKey> pardoned() const noexcept { return pardoned_; }

  /// Takes in an answer of the store.
  void reply(const EngineReply& reply, Instant now);
  /// The same for many at once, which is faster.
  void take_replies(std::span<const EngineReply> replies, Instant now);
  /// Draws conclusions from the replies so far. Call after the last of those that came together.
  void learn();

  /// What the buckets of workers are to be charged since the last clear_charges().
  std::span<const BucketCharge> charges() const noexcept { return charges_; }
  void clear_charges() noexcept { charges_.clear(); }

  /// Whether the last sync came back in time. While it does not, `on_store_failure` decides.
  void sync_result(bool reached, Instant now);

  /// What a key without override may be admitted on this node.
  KeyOverride default_of(RuleIndex rule) const noexcept { return default_quota(rules_[rule], cluster_); }

  /// Whether keys of a rule were counted, in the interval that runs at `now` or the one before, of which it
  /// is not known what they have used: there was no room for them, here or in a worker's table.
  bool has_strays(RuleIndex rule, WallTime now) const noexcept {
    return rules_[rule].strayed >= rules_[rule].clock.ordinal(now) - 1;
  }

  /// Keys of a rule that have used a little may be admitted that little less than a key without override, and
  /// are not visited one by one. Whether a rule has such, what they may be admitted, and which they are at
  /// `now`: rules with the same interval and spans have the same ones.
  bool has_light_keys(RuleIndex rule) const noexcept { return rules_[rule].has_light_keys(); }
  KeyOverride light_quota_of(RuleIndex rule) const noexcept {
    KeyOverride quota = default_of(rule);
    quota.allowance = LightKeys::allowance(quota.allowance);
    quota.left = LightKeys::allowance(quota.left);
    return quota;
  }
  void copy_light_keys(RuleIndex rule, WallTime now, KeyFilter& to) const {
    light_keys_[clock_of_rule_[rule]].copy_to(to, rules_[rule].clock.ordinal(now));
  }

  /// Calls visit(const KeyOverride&) for every other key that has an active block or an allowance of its own
  /// at `now`, and has not been set aside. In the order of their slots.
  /// @param slides_at  the like of windows that slide: where the clock has been set, what they hold goes by
  ///                   the clock as it was until step() has moved it along. All other quotas are of the
  ///                   interval whose pool workers draw from, and that is another one at once
  template <typename Visitor>
  void for_each_override(Instant now, WallTime slides_at, Visitor&& visit) const {
    RuleIndex rule = no_rule;
    KeyOverride usual;  // of `rule`
    std::optional<RuleMoment> at;
    // Slots lie in order, what is known of them does not.
    constexpr std::size_t together = 32;
    std::array<SlotIndex, together> some;
    // While the store is away, shares tell, and no two keys are alike.
    const bool looks_at_each = !cluster_.store_reached && some_by_shares_;
    for (SlotIndex next = 0; next < ledger_.end();) {
      std::size_t count = 0;
      for (; next < ledger_.end() && count < together; ++next) {
        if (!looks_at_each && (next = next_differing(next)) >= ledger_.end()) break;
        if (is_aside(next) || (looks_at_each && !goes_by_share_or_differs(next))) continue;
        ledger_.prefetch_detail(next);
        some[count++] = next;
      }
      for (const SlotIndex slot : std::span(some).first(count)) ledger_.prefetch_all_spans(slot);
      for (const SlotIndex slot : std::span(some).first(count)) {
        const KeyView key = ledger_.view(ledger_[slot]);
        if (key.slot.key == 0) continue;
        if (key.slot.rule != rule) {
          rule = key.slot.rule;
          usual = default_of(rule);
          const bool slides = rules_[rule].algorithm == Algorithm::sliding_window;
          at.emplace(rules_[rule], Instant{slides ? slides_at : now.wall, now.monotonic});
        }
        KeyOverride quota = quota_of(rules_[rule], key, cluster_, *at, usual);
        quota.slot = slot;
        if (quota.blocked_until != never || quota.allowance != usual.allowance ||
            quota.factor != usual.factor)
          visit(quota);
      }
    }
  }
  template <typename Visitor>
  void for_each_override(Instant now, Visitor&& visit) const {
    for_each_override(now, now.wall, visit);
  }

  /// The key is not to be visited until it is taken back: of a block that lasts nothing new is to be said.
  /// Also while keys are visited.
  /// @param slot  of its KeyOverride
  void set_aside(SlotIndex slot) noexcept { aside_[slot / 64] |= std::uint64_t{1} << slot % 64; }
  /// @pre before its block has ended, or before keys are counted after that
  void take_back(SlotIndex slot) noexcept { aside_[slot / 64] &= ~(std::uint64_t{1} << slot % 64); }

  /// So long before their blocks end, at least, keys are taken back, as long as nobody is late.
  void take_back_in_time(Duration margin) noexcept {
    for (RuleState& rule : rules_) rule.take_back_in_time(margin);
  }

  /// What a key may be admitted on this node.
  KeyOverride quota_for(const KeyView& key, Instant now) const noexcept {
    const RuleState& rule = rules_[key.slot.rule];
    return quota_of(rule, key, cluster_, RuleMoment(rule, now), default_of(key.slot.rule));
  }

  /// Calls visit(const KeyView&) for every key in the ledger.
  template <typename Visitor>
  void for_each_key(Visitor&& visit) const {
    for (SlotIndex i = 0; i < ledger_.end(); ++i)
      if (ledger_[i].key != 0) visit(ledger_.view(ledger_[i]));
  }
  /// The same key again. @pre the ledger has not been changed since it was visited
  KeyView key_in(const KeySlot& slot) const noexcept { return ledger_.view(slot); }

  /// What has been counted of a key in the interval of the span that ended last; or in the one that runs, if
  /// something has been already.
  IntervalCounts latest_counts(const KeySlot& slot) const noexcept {
    return slot.current.ordinal >= told_ordinal(rules_[slot.rule]) ? slot.current : IntervalCounts();
  }

  /// Nodes that are alive, by their heartbeats in the store; 1 where no rule asks for it.
  std::uint32_t nodes() const noexcept { return cluster_.nodes; }
  /// The nodes that a key's traffic is effectively spread over: the inverse of this node's share.
  double nodes_of(const KeyView& key) const noexcept;

  const SpanClock& clock(RuleIndex rule) const noexcept { return rules_[rule].clock; }
  std::uint32_t keys() const noexcept { return ledger_.size(); }
  /// Places for keys that for_each_key() looks at: as many as have been known at once, ever.
  std::uint32_t places() const noexcept { return ledger_.end(); }
  /// Keys that may be known at once.
  std::uint32_t capacity() const noexcept { return ledger_.capacity(); }
  /// Keys of which workers may tell by their hash alone.
  std::uint32_t learned() const noexcept { return ledger_.learned(); }
  /// Counts that found the ledger full (or came without a name, and none had been learned): written to the
  /// store, but not limited across nodes.
  std::uint64_t strays() const noexcept { return strays_; }
  /// Keys that were new, ever; those that found the ledger full among them, as often as they were counted.
  std::uint64_t met() const noexcept { return ledger_.inserted() + strays_; }
  std::size_t memory() const noexcept { return ledger_.memory(); }

 private:
  /// What makes an EngineWrite. Small: of a million keys there are as many at once.
  struct Collected {
    std::uint64_t key = 0;
    std::uint64_t amount = 0;  ///< delta; of a block what it is raised to
    Ordinal ordinal = 0;
    std::uint32_t name = NamePool::none;  ///< the ledger's; or a number in `apart_`
    RuleIndex rule = no_rule;
    CounterUse use = CounterUse::counted;
    bool apart = false;  ///< `name` is
  };
  static_assert(sizeof(Collected) == 32);
  /// What few writes have.
  struct Apart {
    std::string name;  ///< of a counter that is no known key's
    std::uint64_t returned = 0;
  };

  RuleIndex index_of(const RuleState& rule) const noexcept {
    return static_cast<RuleIndex>(&rule - rules_.data());
  }
  EngineWrite write_of(const Collected& collected) const noexcept;
  std::uint32_t set_apart(std::string name, std::uint64_t returned = 0);
  /// What makes counts of a rule in a span light ones.
  struct LightCounts {
    RuleIndex rule = no_rule;
    WallTime began{};
    WallTime counted_by{};
    Ordinal ordinal = 0;
    bool possible = false;    ///< whether there are any
    std::uint64_t hold = 0;   ///< what may be kept back of a key
    std::uint64_t least = 0;  ///< that has been admitted of it in the interval before the count, …
    std::uint64_t most = 0;   ///< …and with it

    bool are_of(const SpanCount& count) const noexcept {
      return count.rule == rule && count.began == began && count.counted_by == counted_by;
    }
    static bool may_be(const SpanCount& count) noexcept {
      return count.offered == count.admitted && count.refused_at == never;
    }
  };
  /// Whether nothing is known of a key but its own counts, and it is among those of which some are kept back.
  /// (Of one that is watched, or idle, more is known.)
  static bool is_kept_back(const KeySlot& slot) noexcept {
    return slot.holding && slot.detail == no_index && !slot.touched;
  }
  LightCounts light_counts(const SpanCount& count);
  bool count_lightly(const LightCounts& light, const SpanCount& count, KeySlot& slot) noexcept;
  bool turn_lightly(const LightCounts& light, const SpanCount& count, KeySlot& slot);
  bool is_of_lasting_block(const RuleState& rule, const KeySlot& slot, Ordinal ordinal,
                           const SpanCount& count) const noexcept;
  void count(const SpanCount& count, SlotIndex likely);
  KeySlot* slot_for(const SpanCount& count, Ordinal ordinal);
  KeyDetail& own_detail(KeySlot& slot) {
    return slot.detail == no_index ? make_detail(slot) : ledger_.own_detail(slot);
  }
  KeyDetail& make_detail(KeySlot& slot);
  void drop_detail(const RuleState& rule, KeySlot& slot, Ordinal running);
  void slide(const RuleState& rule, KeySlot& slot, SpanId span, SpanId held, std::uint64_t admitted);
  void add_light_key(const RuleState& rule, std::uint64_t key, Ordinal ordinal);
  void find_light_keys(std::size_t group);
  bool window_says_nothing(const RuleState& rule, const KeySlot& slot, const KeyDetail& detail,
                           SpanId next) const noexcept;
  bool window_holds(const RuleState& rule, const KeyDetail& detail, SpanId next) const noexcept;
  void roll(RuleState& rule, KeySlot& slot, Ordinal to);
  void write(const RuleState& rule, KeySlot& slot, Ordinal ordinal, std::uint64_t delta,
             CounterUse use = CounterUse::counted);
  void write_refused(const RuleState& rule, KeySlot& slot, Ordinal ordinal);
  void write_refused(const RuleState& rule, const KeySlot& slot, Ordinal ordinal, std::uint64_t delta);
  void write_lease(const RuleState& rule, KeySlot& slot, Lease& lease, std::uint64_t claim);
  void write_lease_question(const RuleState& rule, const KeySlot& slot, const Lease& lease);
  void begin_lease(const RuleState& rule, const KeySlot& slot, Lease& lease, Ordinal of);
  void write_stray(const RuleState& rule, std::uint64_t key, std::string name, Ordinal ordinal,
                   std::uint64_t delta);
  void refund_to_bucket(const RuleState& rule, KeySlot& slot, std::uint64_t amount);
  void set_against_next(KeySlot& slot, std::uint64_t amount);
  std::uint64_t without_refunded(KeySlot& slot, std::uint64_t units) noexcept;
  std::uint64_t take_from_window(const RuleState& rule, KeySlot& slot, SpanId span,
                                 std::uint64_t amount) noexcept;
  void judge_refusals();
  void end_span(RuleState& rule, SpanId next, Instant now, bool end_all, bool all_passed);
  void begin_span(RuleState& rule, SpanId next);
  void pay_debts(RuleState& rule, Ordinal next);
  void pay_unread(const RuleState& rule, KeySlot& slot, Ordinal until);
  bool is_to_be_read(const RuleState& rule, const KeySlot& slot) const noexcept;
  void book_debt(KeySlot& slot, Ordinal ordinal, std::uint64_t admitted);
  void note_told(KeySlot& slot, Ordinal ordinal);
  void await_read(RuleState& rule, KeySlot& slot);
  void await_reads(RuleState& rule, Ordinal next);
  void read_ended(RuleState& rule, Instant now);
  void begin_reading(KeySlot& slot, Ordinal ordinal);
  void write_counts(RuleState& rule, KeySlot& slot, Instant now);
  bool ends_lightly(const RuleState& rule, const KeySlot& slot) const noexcept;
  void end_lightly(RuleState& rule, KeySlot& slot);
  void tell(RuleState& rule, KeySlot& slot, Instant now);
  bool may_hold(const RuleState& rule, const KeySlot& slot, const KeyDetail& detail) const noexcept;
  void hold(RuleState& rule, KeySlot& slot);
  void keep_over(const RuleState& rule, KeySlot& slot);
  void write_kept(const RuleState& rule, KeySlot& slot);
  void age_held(const RuleState& rule, KeySlot& slot, Ordinal by);
  void write_held(RuleState& rule, SpanId next, bool end_all);
  void write_held(RuleState& rule, std::uint32_t place, Ordinal running, bool everything);
  void write_beyond_hold(RuleState& rule);
  void share_holds(std::uint64_t parts);
  void share_light() noexcept;
  void ask_first(const RuleState& rule, KeySlot& slot);
  void ask_blocks(const RuleState& rule, KeySlot& slot, Instant now);
  void ask_blocks_again(const RuleState& rule, KeySlot& slot, Instant now);
  bool may_have_begun_blocks(const RuleState& rule, const KeySlot& slot, std::uint64_t counted) const noexcept;
  void ask_for_fresh(Instant now);
  void begin_block(const RuleState& rule, KeySlot& slot, MonotonicTime at);
  void write_block(const RuleState& rule, const KeySlot& slot, Ordinal ordinal, std::uint64_t raised_to);
  void take_over_block(const RuleState& rule, KeySlot& slot, WallTime end, Instant now);
  Ordinal last_counted(const KeySlot& slot) const noexcept;
  IntervalCounts previous(const KeySlot& slot) const noexcept;
  std::uint64_t offered_in(const KeySlot& slot, Ordinal ordinal) const noexcept {
    return counts_in(slot, ordinal).offered;
  }
  IntervalCounts counts_in(const KeySlot& slot, Ordinal ordinal) const noexcept;
  bool asked_for_lately(const RuleState& rule, const KeySlot& slot) const noexcept;
  void lease_ahead(RuleState& rule, KeySlot& slot, SpanId next, bool all_passed);
  void end_leases(RuleState& rule, KeySlot& slot);
  bool worth_watching(const RuleState& rule, const KeySlot& slot, Instant now) const noexcept;
  void keep_watching(RuleState& rule, Instant now);
  void warm(const RuleState& rule, KeyDetail& key);
  void watch(RuleState& rule, SlotIndex index);
  void apply_local_rules(RuleState& rule, Instant now);
  bool says_nothing(const RuleState& rule, const KeySlot& slot, SpanId next,
                    MonotonicTime now) const noexcept;
  bool is_out_of_date(const RuleState& rule, const KeySlot& slot, SpanId next,
                      MonotonicTime now) const noexcept;
  void forget_traffic(KeySlot& slot);
  void forget_idle(std::size_t clock, Instant now);
  void forget_idle(std::size_t clock, SlotIndex from, SlotIndex to, SpanId next, MonotonicTime now);
  bool is_by_clock_before(const RuleState& rule, std::int64_t number) const noexcept;
  SpanCounts& held_as_of_now(const RuleState& rule, KeyDetail& detail) const noexcept;
  void move_windows(const RuleState& rule, SpanId to, std::int64_t by);
  void note_stray(RuleState& rule, Ordinal ordinal, Ordinal held) const noexcept;
  void notice_set(RuleState& rule, SpanId running, Duration set);
  void beat(Instant now);
  bool is_far(const RuleState& rule, const KeySlot& slot) const noexcept;
  bool is_light(const RuleState& rule, std::uint64_t total) const noexcept;
  bool others_made_full(const RuleState& rule, const KeySlot& slot, const EngineReply& reply) const noexcept;
  bool tells_nothing(const RuleState& rule, const KeySlot& slot, const EngineReply& reply) const noexcept;
  bool is_before(const RuleState& rule, const KeySlot& slot, Ordinal ordinal) const noexcept;
  void hear_before(const RuleState& rule, KeySlot& slot, Ordinal ordinal, std::uint64_t others);
  /// What learn() has to learn of a key.
  struct News {
    std::int64_t last = 0;    ///< the last span that it is of, among all that have passed
    std::uint32_t spans = 0;  ///< how many spans have not been heard of before
    std::uint64_t own = 0;    ///< counted here, and answered, meanwhile
  };
  News take_news(const RuleState& rule, KeySlot& slot, KeyDetail& detail) noexcept;
  /// The interval of what the store was told of last: of the span that has just ended.
  static Ordinal told_ordinal(const RuleState& rule) noexcept {
    return rule.span.ordinal - (rule.span.index == 0 ? 1 : 0);
  }
  void add_news(KeySlot& slot, const EngineReply& reply, std::uint64_t others);
  void hear(const RuleState& rule, KeySlot& slot, Ordinal ordinal, std::uint64_t others, bool admitted);
  void hear(KeySlot& slot);
  void let_differ(const KeySlot& slot) noexcept { set_differs(ledger_.index_of(slot), true); }
  void set_differs(SlotIndex slot, bool may) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << slot % 64;
    may_differ_[slot / 64] = (may_differ_[slot / 64] & ~bit) | (may ? bit : 0);
  }
  bool goes_by_share_or_differs(SlotIndex slot) const noexcept {
    const KeySlot& key = ledger_[slot];
    return key.key != 0 && (rules_[key.rule].by_shares() || (may_differ_[slot / 64] >> slot % 64 & 1) != 0);
  }
  bool is_aside(SlotIndex slot) const noexcept { return aside_[slot / 64] >> slot % 64 & 1; }
  /// The first slot from `slot` on whose quota may differ, and which has not been set aside; beyond them all:
  /// there is none.
  SlotIndex next_differing(SlotIndex slot) const noexcept {
    std::size_t word = slot / 64;
    const auto differing = [&] { return may_differ_[word] & ~aside_[word]; };
    std::uint64_t bits = differing() >> slot % 64 << slot % 64;
    while (bits == 0 && ++word < may_differ_.size()) bits = differing();
    return bits == 0 ? no_index
                     : static_cast<SlotIndex>(word * 64 + static_cast<unsigned>(std::countr_zero(bits)));
  }
  void charge_bucket(const RuleState& rule, const KeySlot& slot, KeyDetail& detail, const News& news);
  void settle_interval(const RuleState& rule, KeySlot& slot, bool running);

  std::vector<RuleState> rules_;
  // Those of the same interval and spans, whose spans end together, and which of these a rule is among.
  std::vector<std::vector<RuleIndex>> rules_by_clock_;
  std::vector<std::size_t> clock_of_rule_;
  bool some_by_shares_ = false;
  Ledger ledger_;
  // A bit for each slot: whether anything has happened to the key that may make its quota another than its
  // rule's default. So that a publication costs what the keys near their limits cost, not all there are.
  std::vector<std::uint64_t> may_differ_;
  std::vector<std::uint64_t> aside_;             // a bit for each slot: set_aside()
  std::vector<LightKeys> light_keys_;    // by clock; of rules that have such
  Cluster cluster_;
  std::vector<Collected> collected_;
  std::vector<Apart> apart_;
  std::vector<BucketCharge> charges_;
  std::string name_;             // of a key that is met
  std::vector<SlotIndex> near_;  // counted in the span that ends, and perhaps to be watched
  std::vector<SlotIndex> refusals_;
  std::vector<SlotIndex> heard_;
  std::vector<SpanCounts> moved_;  // of one key, when the clock has been set
  std::vector<SlotIndex> fresh_;   // to be asked for before their first span ends
  std::vector<SlotIndex> blocks_;  // begun, and the store does not know
  std::vector<PardonedKey> pardoned_;
  std::uint64_t strays_ = 0;
  bool refunds_ = false;  // there have been some: of a key without, nobody need look for it
  bool counts_members_ = false;
  Duration heartbeat_lives_{};
  Instant last_step_{};
  bool stepped_ = false;
  bool beating_ = false;
  MonotonicTime beat_at_;   // when the last heartbeat was written, …
  Ordinal beat_ = 0;        // …its period, …
  Ordinal absent_ = 0;      // …and the last one before in which this node sent none
  Ordinal whole_from_ = 0;  // the first of whose heartbeats none can have been late or lost, for all it knows
};

}  // namespace weir
