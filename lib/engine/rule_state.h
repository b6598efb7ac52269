// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What the engine knows of a rule, and of the cluster.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/span_clock.h"
#include "engine/ledger.h"
#include "limit/bucket_rule.h"
#include "limit/cooldown.h"
#include "limit/share.h"
#include "weir/rule.h"

namespace weir {

struct RuleState {
  static constexpr Ordinal no_interval = std::numeric_limits<Ordinal>::min();

  explicit RuleState(const Rule& rule);

  /// Limits by shares of the demand, as all do but the seeds' algorithm and those that need none.
  bool by_shares() const noexcept {
    return algorithm == Algorithm::fixed_window || algorithm == Algorithm::sliding_window ||
           algorithm == Algorithm::token_bucket || algorithm == Algorithm::leaky_bucket ||
           algorithm == Algorithm::shed;
  }
  /// Learns what is offered elsewhere.
  bool hears() const noexcept { return by_shares() || algorithm == Algorithm::cooldown; }
  bool is_bucket() const noexcept { return weir::is_bucket(algorithm); }
  /// Whether what was admitted in an interval bears on the next one: a bucket's level, a window that slides.
  bool outlives_intervals() const noexcept { return is_bucket() || algorithm == Algorithm::sliding_window; }
  std::uint64_t counted(std::uint64_t offered, std::uint64_t admitted) const noexcept {
    return penalize ? offered : admitted;
  }
  std::uint64_t counted(const IntervalCounts& counts) const noexcept {
    return counted(counts.offered, counts.admitted);
  }
  /// Whether its keys have a detail from the start.
  bool needs_detail() const noexcept {
    return (algorithm == Algorithm::sliding_window && !has_light_keys()) || algorithm == Algorithm::strict ||
           warmup > Duration{} || judges_spans();
  }
  /// Whether its keys are kept by the span only where they use more than a little: see light_keys.h.
  bool has_light_keys() const noexcept {
    return algorithm == Algorithm::sliding_window && early_block == EarlyBlock::sound;
  }
  /// By the seeds' form of the local rule.
  bool judges_spans() const noexcept {
    return algorithm == Algorithm::cooldown && local_rule == LocalRule::per_span;
  }
  /// Whether nodes tell each other what they refuse: with what they admit it is the demand.
  bool tells_refused() const noexcept { return by_shares() && !penalize; }
  /// What piles up of a bucket's rate until it is cold (limit/token_bucket.h).
  double warm_permits() const noexcept {
    return static_cast<double>(limit) *
           (static_cast<double>(warmup.count()) / static_cast<double>(clock.interval().count()));
  }
  /// What a sliding window holds of a key that is not known by the span: in `number` at the latest.
  SpanCounts before_spans(const KeySlot& slot, const KeyPast& past) const noexcept;
  /// The limit less what the key owes.
  std::uint64_t limit_of(const KeyDetail& key) const noexcept { return limit - std::min(limit, key.debt); }
  /// A part of the limit, both in units of weight, in whole requests: a piece that is none is of no use to
  /// anybody.
  std::uint64_t whole_requests(double part, std::uint64_t key, std::int64_t window) const noexcept {
    return weight * weir::whole_requests(part / weight, key, window);
  }
  /// One of so many equal parts of what may be kept back of a key.
  std::uint64_t hold_of(std::uint64_t parts) const noexcept;
  /// Has that be done.
  void share_hold(std::uint64_t parts) noexcept {
    const std::uint64_t before = std::exchange(hold, hold_of(parts));
    holds_less = holds_less || hold < before;
  }
  /// Keys that are set aside are taken back so long before their blocks end, at least.
  void take_back_in_time(Duration margin) noexcept {
    leaves_refusals_alone =
        algorithm == Algorithm::cooldown && !penalize && clock.interval() / spans <= margin;
  }
  /// Whether nodes keep anything back at all.
  bool holds() const noexcept;
  /// A span's number among all since the epoch.
  std::int64_t number(SpanId id) const noexcept { return id.ordinal * spans + id.index; }
  /// The same among all that have passed, for which it does not matter that the clock is set.
  std::int64_t passed(SpanId id) const noexcept { return number(id) - set_by; }
  /// An interval's first and last span among those.
  std::int64_t first_of(Ordinal ordinal) const noexcept { return passed({ordinal, 0}); }
  std::int64_t last_of(Ordinal ordinal) const noexcept { return passed({ordinal, spans - 1}); }
  /// Whether the clock was set less than an interval ago.
  bool was_set_lately() const noexcept { return set_in > number(span) - spans; }
  /// Where a sliding window keeps what it holds of a span: by number modulo their number.
  std::size_t place_of(std::int64_t number) const noexcept {
    // From far before the epoch on: numbers that follow each other have places that do, also across it.
    return (static_cast<std::uint64_t>(number) ^ std::uint64_t{1} << 63) % spans;
  }
  /// The span a count belongs to. Counts that began together come together, and divisions are dear.
  SpanId span_of(WallTime began) noexcept {
    if (began != counts_began) {
      counts_began = began;
      counts_span = clock.span(began);
    }
    return counts_span;
  }
  /// The span that a window which slides holds a count as of: the last that had ended when all of it had been
  /// counted, but none before its own. Where the controller comes late, or the worker, spans go by meanwhile,
  /// and nobody can tell in which of them it was admitted: from the first of them on it would leave too soon.
  SpanId held_span_of(WallTime began, WallTime counted_by) noexcept {
    if (algorithm != Algorithm::sliding_window || counted_by <= began) return span_of(began);
    if (began != held_began || counted_by != held_counted_by) find_held_span(began, counted_by);
    return held_span;
  }
  /// Where what began in a span may be held beside that one: what was counted in it last.
  std::int64_t held_late_of(std::int64_t number) const noexcept {
    const LateSpan& late = late_spans[place_of(number)];
    return late.number == number ? late.held : number;
  }
  /// The clock has been set.
  void move_held(SpanId running, std::int64_t by) noexcept;
  /// An interval begins, or is come back to.
  void turn_to(Ordinal next) noexcept {
    if (next == span.ordinal) return;
    came_back_to = next == ran_before ? next : no_interval;
    ran_before = span.ordinal;
  }
  /// Whether an interval that is to begin has run before, so lately that what was drawn in it still is.
  bool has_run(Ordinal ordinal) const noexcept { return ordinal == ran_before || ordinal == came_back_to; }

  SpanClock clock;
  std::string name;
  std::string overflow_name;
  std::uint64_t limit;
  std::uint64_t burst;  ///< buckets
  /// What one request costs; at least 1. Which of them have said that they cost several times as much counts
  /// do not tell: these are taken for as many requests.
  std::uint32_t weight;
  std::uint32_t spans;
  BlockTerms block;
  Duration time_to_live;  ///< what this rule needs; the engine raises it to what its interval's rules need
  Algorithm algorithm;
  EarlyBlock early_block;
  OnStoreFailure on_store_failure;
  LocalRule local_rule;
  Duration warmup;
  bool penalize;
  bool debt;
  double hold_back;
  /// Ends of blocks are counted by intervals of their greatest length: an end lies in the running one or the
  /// next. In whole milliseconds, by which stores name them.
  SpanClock block_clock;
  Duration block_time_to_live;

  /// What this node may keep back of a key; 0 until it knows how many others may.
  std::uint64_t hold = 0;
  bool holds_less = false;  ///< than before, and what it has kept beyond that is not written yet
  std::uint64_t light = 0;  ///< what a light key has used in an interval at most
  /// The latest interval in which keys were counted that nobody remembers by name.
  Ordinal strayed = std::numeric_limits<Ordinal>::min();
  /// The span that began when it was noticed that the clock had been set.
  std::int64_t set_in = before_all;
  std::int64_t set_by = 0;  ///< by how many spans the clock has been set so far
  /// Until then, among all spans that have passed, each key is looked at once since the store was found
  /// again: what it had been asked of blocks may have been given up.
  std::int64_t asks_again_until = std::numeric_limits<std::int64_t>::min();
  /// Whether it is of no use to look at a key that is set aside when a span ends in which it was refused.
  bool leaves_refusals_alone = false;
  bool started = false;
  bool span_ends = false;               // in the step that is under way
  SpanId span;                          // the span now running
  Ordinal ran_before = no_interval;     // the interval before it, as they came
  Ordinal came_back_to = no_interval;   // the running one, where that had run before the one before it
  Ordinal charged_in = no_interval;     // the latest one in which keys were charged what nobody had drawn
  WallTime counts_began{};              // of the latest count…
  SpanId counts_span = clock.span({});  // …and the span that lies in
  WallTime held_began{};                // of the latest count that a window holds, …
  WallTime held_counted_by{};           // …and when all of it had been counted
  SpanId held_span = clock.span({});
  std::int64_t held_latest = before_all;  // the latest span that has got counts late
  std::vector<SlotIndex> touched;         // counted since the last span's end
  std::vector<SlotIndex> last_touched;    // counted in the span that ended last
  std::vector<SlotIndex> watched;         // to be asked for in every span, counted or not
  std::vector<SlotIndex> told;            // the store was told something of their running interval
  std::vector<SlotIndex> indebted;        // with KeyDetail::owes
  std::vector<SlotIndex> awaiting_read;
  bool reads = false;         // the sum of the interval that has ended is to be asked for, …
  Ordinal reads_ordinal = 0;  // …which is this one
  /// Of which something is kept back, by the span in which it is written once its interval has ended.
  std::vector<std::vector<SlotIndex>> holding;

 private:
  static constexpr std::int64_t before_all = SpanCounts::before_all;
  /// A span in which the controller or a worker was late, by numbers.
  struct LateSpan {
    std::int64_t number = before_all;
    std::int64_t held = before_all;  ///< what it has got late is held as of this one
  };

  void find_held_span(WallTime began, WallTime counted_by) noexcept;

  std::vector<LateSpan> late_spans;  // under windows that slide; at place_of()
};

/// What bears on every key.
struct Cluster {
  bool store_reached = true;
  /// That were alive a moment ago, this one included. Where the store has been away, or has forgotten some:
  /// no fewer than were known before, until all can have told of themselves in a whole period again.
  std::uint32_t nodes = 1;
  bool counted = false;  ///< `nodes` has been counted over a whole period
  bool founded = false;  ///< there was none before the period in which this one began
};

}  // namespace weir
