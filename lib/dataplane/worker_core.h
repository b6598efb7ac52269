// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The worker: find the request's keys, see whether each may admit it, charge all or none, count what was
/// offered.
///
/// Everything a worker writes is its own (its grants, its span table, its counters), but for one thing: the
/// cell it draws a key's allowance from, once per chunk. It reads the publication, the compiled rules, and
/// the clock it is given.
///
/// A key of which little is asked is admitted out of the worker's grant (shared/grant_table.h): one cache
/// line, whatever the span. When the grant is used up, or the publication wants each request looked at, the
/// key gets an entry in the span table: what is left of the grant becomes its first credit, and from then on
/// it draws from the key's cell. As long as it draws plenty, the grant is filled up again out of that, and so
/// the key's requests are found there.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/key_hash.h"
#include "base/keyed_hash.h"
#include "base/single_writer_counter.h"
#include "classify/classifier.h"
#include "classify/plain_classifier.h"
#include "dataplane/expected_way.h"
#include "dataplane/rule_terms.h"
#include "shared/bucket_cell.h"
#include "shared/correction_log.h"
#include "shared/grant_table.h"
#include "shared/log_cell.h"
#include "shared/publication.h"
#include "shared/quiescence.h"
#include "shared/refused_keys.h"
#include "shared/span_table.h"
#include "weir/decision.h"
#include "weir/key.h"
#include "weir/request.h"

namespace weir {

/// Requests of one rule, as one worker saw them. Written by the worker, read by anyone.
struct RuleCounters {
  SingleWriterCounter admitted;
  SingleWriterCounter others;   ///< that the rule applied to: refused by it or by another rule, or observed
  SingleWriterCounter blocked;  ///< those of the others that it has refused itself, or would have

  std::uint64_t offered() const noexcept { return admitted.read() + others.read(); }
};

/// What all workers of a node share, read-only for them but for the quiescent states. Outlives the workers.
struct DataPlane {
  const Classifier& classifier;
  std::span<const RuleTerms> terms;
  PublicationSlot& publication;
  Quiescence& quiescence;
  HashKey hash_key;
};

/// When a burst is decided. Asked for only where something depends on it: who reads a clock for that, reads
/// it then.
class BurstTime {
 public:
  // Both implicit: a time, or how it is found out.
  BurstTime(MonotonicTime now) noexcept : now_(now) {}
  BurstTime(MonotonicTime (*read)() noexcept) noexcept : read_(read) {}
  MonotonicTime operator()() noexcept {
    if (read_ != nullptr) now_ = std::exchange(read_, nullptr)();
    return now_;
  }

 private:
  MonotonicTime (*read_)() noexcept = nullptr;
  MonotonicTime now_{};
};

/// One thread at a time. See weir/throttle.h Worker for the contract of the public part. Shares no cache line
/// with whatever else is on the heap.
class alignas(64) WorkerCore {
 public:
  /// @param tables  this worker's own, tables_per_worker of them
  /// @param corrections  likewise, one with each table
  /// @param grants  this worker's own
  WorkerCore(const DataPlane& plane, unsigned index, std::span<SpanTable> tables,
             std::span<CorrectionLog> corrections, GrantTable& grants);
  // Its own keys point to a member.
  WorkerCore(const WorkerCore&) = delete;
  WorkerCore& operator=(const WorkerCore&) = delete;

  void online() noexcept;
  void offline() noexcept;
  void quiescent() noexcept {
    // To the controller whoever reports is online.
    if (!online_) [[unlikely]]
      return;
    plane_.quiescence.quiescent(index_);
    // Only after the report: what is loaded from here on is what the reported token promised. And not by its
    // address alone: the controller may have used the memory of the publication that this worker held until
    // the report for the very one that it finds now.
    const Publication* const published = plane_.publication.load();
    if (published != publication_ || published->generation != taken_up_) [[unlikely]]
      take_up();
  }

  Decision admit(const Request& request, MonotonicTime now) noexcept;
  void admit_burst(std::span<const Request> requests, MonotonicTime now, std::span<Decision> decisions,
                   Detail detail) noexcept;
  std::uint32_t admit_plain(std::span<const PlainFrame> frames,
                            std::span<const PlainFrame> next = {}) noexcept;
  void decide_plain(MonotonicTime now, PlainDecisions& decisions) noexcept;
  Key key(RuleIndex rule, std::string_view value) const noexcept;
  Key key(RuleIndex rule, const Request& request, KeyRoom& room) const noexcept;
  [[gnu::noinline]] void prefetch_keys(std::span<const Key> keys) const noexcept;
  void admit_keys(std::span<const Key> keys, BurstTime now, std::span<Verdict> verdicts,
                  const std::span<const Key>& next = {}) noexcept;
  Decision admit_key(RuleIndex rule, std::string_view value, std::uint32_t weight,
                     MonotonicTime now) noexcept;
  Instant span_began() const noexcept { return table_->began; }
  bool correct(const Key& key, std::int64_t by, Instant charged_in) noexcept;
  bool correct(const Request& request, std::int64_t by, Instant charged_in) noexcept;

  const RuleCounters& rule_counters(RuleIndex rule) const noexcept { return of_rules_[rule].counters; }
  /// First touches that found no entry, or no cell of their own. Any thread.
  std::uint64_t overflowed() const noexcept { return overflowed_.read(); }
  /// The key under which a rule counts; never 0.
  std::uint64_t key_of(RuleIndex rule, std::span<const std::byte> bytes) const noexcept;

 private:
  static constexpr std::size_t burst_size = 32;
  /// Each burst asks for the lines of as many keys as it has, the last of those that it has been told of: so
  /// every key is asked for once, if always as many are told of. No more than so many: three bursts take as
  /// long as a line from memory does, and more would only push others out of the nearest cache.
  static constexpr std::size_t furthest_asked = 3 * burst_size;
  /// Bursts after one in which keys have been refused, in which they are looked for in that way first.
  static constexpr std::uint8_t flood_lasts = 16;

  /// Where a grant is less, filling it up again would save hardly any look at the entry.
  static constexpr std::uint32_t least_lent = 8;

  /// One rule that applies to a request.
  struct PlannedKey {
    std::uint64_t key;
    SpanTable::Place place;  // where it has been seen, or nowhere; may have become another's since
    RuleIndex rule;
    bool dense;  // the one key of a rule without dimensions: its place is fixed
    GrantTable::Place grant = GrantTable::nowhere;  // where its grant is, if it is enough
  };
  struct Plan {
    std::array<PlannedKey, max_rules_per_request> keys;
    std::size_t count = 0;
  };
  /// A planned key found: where it is counted, and where its allowance comes from.
  struct Touched {
    SpanTable::Place place = SpanTable::nowhere;
    SpanEntry* entry = nullptr;     // nullptr: counted under the rule's overflow
    AllowanceCell* cell = nullptr;  // nullptr: nothing to be drawn
    KeyTerms terms;
    std::uint64_t drawn = 0;  // for this request, beyond what the entry keeps in any case
    bool direct = false;      // what was drawn is this request's weight, and never was credit
    bool shares = false;      // the cell is other keys', too
    AllowanceCell* before =
        nullptr;  // what was drawn, was drawn from this bucket, too: see own_bucket_before()
    GrantTable::Place grant = GrantTable::nowhere;  // admitted out of it; then nothing is drawn
    MonotonicTime blocked_until = never;
    bool block_is_published = false;  // EntryTerms::block_is_published
  };

  /// What the common decision needs of a rule: its weight, what a worker may admit of each of its keys
  /// without asking, and how that is told in its grants.
  struct Grant {
    std::uint64_t weight = 1;  // of the rule
    std::uint32_t most = 0;
    ExpectedWay entries_first;  // nearly all of its keys have used up theirs, and have entries
    ExpectedWay one_by_one;     // more than a few could be used, but not at a glance (Lines::use of a burst)
    bool some_ungranted = false;  // is_ungranted() is to be asked of its keys
    std::uint8_t flood = 0;  // bursts in which some may still be refused as some have been, see flood_lasts
    // EntryTerms::allowance of those of its keys that have none of their own and for which there is no more
    // to do than to draw (usual_draws.cc); 0: there are none.
    std::uint32_t usual = 0;
    GrantWindow window;
  };
  /// A request that says nothing about its cost has that of its rules.
  static std::uint32_t times(const Request& request) noexcept {
    return request.weight == 0 ? 1 : request.weight;
  }
  static bool may_refuse_at_a_glance(const RuleTerms& terms) noexcept {
    return terms.algorithm == Algorithm::cooldown && terms.action != Action::observe;
  }
  /// What the common decision needs of the one key of a rule without dimensions.
  struct OwnKey {
    std::uint32_t* ready;  // its line's word, if that holds under the publication; or nothing_ready_
    std::int32_t weight;   // of the rule, if it is one that can be ready; else nothing is, of whatever weight
  };
  /// Of each rule, what a decision on its own key touches: in one line.
  struct alignas(64) OfRule {
    RuleCounters counters;
    OwnKey own;
  };
  struct Run;
  struct Settled;
  enum class Stage : std::uint8_t;

  /// Which intervals this worker has used its grants in. It counts them itself, because it may miss some: a
  /// half of a lane must not be used again before the controller has seen it, which it has when it hands over
  /// the other table.
  struct GrantClock {
    GrantWindow window;
    bool holds = false;        // not where what it used is not known, or in one that is over
    bool renewed = false;      // since the table was taken up
    std::uint32_t turn = 0;    // of `window`
    std::uint64_t number = 0;  // WindowState::interval_number that it stands for
    std::uint64_t latest = 0;  // the largest of them
    std::uint64_t since = 0;   // the first for which all that was used is known

    void turn_to(std::uint64_t running, bool other_table) noexcept;
  };

  struct RuleLook;
  struct ReadyLooks;
  struct EntryLook;

  void take_up() noexcept;
  void take_up_grants() noexcept;
  void forget_own_keys() noexcept;
  void learn_entries_first(RuleIndex rule, bool entries_first) noexcept;
  void tell_use(RuleIndex rule) noexcept;
  void begin_glances(const SpanTable& table, MonotonicTime began, MonotonicTime before) noexcept;
  // By itself: a key's first request under a publication needs it, and all others' code is not to grow by it.
  [[gnu::noinline]] std::uint32_t* refusal_that_lasts(SpanTable::Place place, std::uint64_t key) noexcept;
  /// Whether a key's requests are not to be admitted out of grants. Of rules that have no such key never: in
  /// an attack on one of them the others' keys are not to be taken for the attack's.
  bool is_ungranted(RuleIndex rule, std::uint64_t key) const noexcept {
    return rule_grants_[rule].some_ungranted &&
           ((refused_.any_of(rule) && refused_.may_hold(key)) ||
            (publication_->some_ungranted[rule] != 0 &&
             publication_->ungranted().may_hold(static_cast<std::uint32_t>(key))));
  }
  bool any_ungranted(RuleIndex rule, const Hashes& keys) const noexcept;
  std::uint32_t left_of(const Grant& grant, GrantTable::Place place) const noexcept {
    return grant.most - std::min(grant.most, grants_.used(place, grant.window));
  }
  /// Which table a rule's keys are looked for in first.
  bool is_granted_first(RuleIndex rule) const noexcept {
    return rule_grants_[rule].most > 0 && !rule_grants_[rule].entries_first.is_other();
  }
  bool find_grant(PlannedKey& planned, std::uint64_t weight) const noexcept;
  void use_grant(GrantTable::Place place, RuleIndex rule, std::uint64_t weight) noexcept;
  bool tells_of_all() const noexcept { return new_keys_left_ == Publication::all_new_keys; }
  bool has_grants(const PlannedKey& planned) const noexcept;
  bool is_known(const PlannedKey& planned) noexcept;
  bool may_tell_of(const PlannedKey& planned) noexcept;
  template <typename NameOf>
  GrantTable::Place grant_of(const PlannedKey& planned, NameOf&& name_of) noexcept;
  void use_up_grant(SpanTable::Place place, std::uint64_t key) noexcept;
  std::uint32_t granted_at_first(RuleIndex rule) const noexcept;
  void lend(SpanTable::Place place, std::uint64_t key, RuleIndex rule) noexcept;
  Touched granted(const PlannedKey& planned) const noexcept;
  void settle_at_price(SpanTable::Place place, std::uint64_t key, AllowanceCell& cell,
                       TokenPrice price) noexcept;
  std::uint64_t remaining_of_granted(const PlannedKey& planned, GrantTable::Place place,
                                     MonotonicTime now) const noexcept;
  std::uint64_t drawable_of_granted(const PlannedKey& planned, MonotonicTime now) const noexcept;
  std::uint64_t missing_of_granted(const PlannedKey& planned, MonotonicTime now) const noexcept;
  void catch_up() noexcept {
    if (publication_ != nullptr && plane_.publication.load() != publication_) [[unlikely]]
      catch_up_with_windows();
  }
  void catch_up_with_windows() noexcept;
  void plan(const Request& request, Plan& plan) noexcept;
  std::size_t find_keys(std::span<const Request> requests) noexcept;
  static bool has_heavy(std::span<const Request> requests) noexcept;
  std::uint32_t take_ready_of(std::span<const Request> requests) noexcept;
  std::uint32_t take_or_draw(std::span<const Request> burst, std::uint32_t requests,
                             MonotonicTime now) noexcept;
  void tell_admitted(std::span<const Request> burst, std::uint32_t requests,
                     std::span<Decision> decisions) const noexcept;
  void plan_found(std::size_t at, Plan& plan) const noexcept;
  void decide_each(std::span<const Request> requests, std::uint32_t left, MonotonicTime now,
                   std::span<Decision> decisions, Detail detail) noexcept;
  void prefetch_beyond_grant(std::uint64_t key, RuleIndex rule) const noexcept;
  void prefetch_beyond_line(std::uint64_t key, SpanTable::Place place, RuleIndex rule) const noexcept;
  void prefetch_beyond_lines(const Plan& plan, std::uint64_t multiplier) const noexcept;
  AllowancePool* ended_matters(const RuleTerms& terms) const noexcept;
  void prefetch_entries(const Plan& plan) const noexcept;
  void prefetch_entry(std::uint64_t key, SpanTable::Place place, RuleIndex rule) const noexcept;
  void look_up(Plan& plan, std::uint64_t multiplier) const noexcept;
  template <typename NameOf>
  Decision decide(const Plan& plan, std::uint64_t multiplier, MonotonicTime now, Detail detail,
                  NameOf&& name_of) noexcept;
  Decision refused(const PlannedKey& planned, std::uint64_t multiplier, MonotonicTime now,
                   Detail detail) noexcept;
  /// Whether draw() would refuse a request, as far as can be told without a write; false: it may, or it would
  /// not. (Where the block of another worker has left a grant open, that would still be used.)
  /// @pre the key's entry is settled
  bool is_known_refused(const PlannedKey& planned, std::uint64_t weight, MonotonicTime now) const noexcept {
    if (plane_.terms[planned.rule].algorithm == Algorithm::cooldown)
      return now < SpanTable::blocked_until(table_->entry(planned.place));
    return lacks_allowance(planned, weight, now);
  }
  /// (By value: who is asked whether it is blocked shall not need to be in memory for this.)
  bool lacks_allowance(PlannedKey planned, std::uint64_t weight, MonotonicTime now) const noexcept;
  bool is_used_up(SpanTable::Place place, std::uint64_t weight) const noexcept;
  bool may_be_granted(const PlannedKey& planned, std::uint64_t weight) const noexcept;
  bool is_empty(SpanTable::Place place, const BucketTerms& bucket, std::uint64_t weight,
                MonotonicTime now) const noexcept;
  void decide_plain(std::uint32_t requests, MonotonicTime now, PlainDecisions& decisions) noexcept;
  [[gnu::noinline]] void decide_plain(std::uint32_t requests, std::uint32_t shared, ReadyLooks& ready,
                                      MonotonicTime now, PlainDecisions& decisions) noexcept;
  void decide_plain(const Plan& plan, std::size_t at, MonotonicTime now, PlainDecisions& decisions) noexcept;
  [[gnu::noinline]] void look_closely(std::span<const EntryLook> looks, std::size_t at, MonotonicTime now,
                                      PlainDecisions& decisions) noexcept;
  void prefetch_entries(std::span<const EntryLook> looks) const noexcept;
  [[gnu::noinline]] void prefetch_to_look(const EntryLook& look, std::uint32_t requests) const noexcept;
  void prefetch_to_draw(RuleLook& look) const noexcept;
  std::uint32_t refuse_at_a_glance(EntryLook& look, std::uint32_t requests, MonotonicTime now,
                                   PlainDecisions& decisions) noexcept;
  void look_for_entries(const PlainKeys::OfRule& of_rule, std::uint32_t requests,
                        EntryLook& look) const noexcept;
  std::uint32_t settled(const EntryLook& look) const noexcept;
  std::uint32_t draw_as_usual(EntryLook& look, MonotonicTime now) noexcept;
  EntryLook* refused_by(std::span<EntryLook> looks, std::size_t at, MonotonicTime now) noexcept;
  bool refuses(const PlannedKey& planned, MonotonicTime now) const noexcept;
  bool has_enough(PlannedKey planned) const noexcept;
  Duration retry_after_refusal(const PlannedKey& planned, MonotonicTime now) const noexcept;
  template <std::size_t extent, typename NameOf>
  Decision decide_closely(std::span<const PlannedKey, extent> keys, std::uint64_t multiplier,
                          MonotonicTime now, Detail detail, NameOf&& name_of) noexcept;
  void count_admitted(RuleIndex rule, std::uint64_t requests) noexcept {
    of_rules_[rule].counters.admitted.add(requests);
  }
  void count_refused(RuleIndex rule, std::uint64_t requests) noexcept {
    RuleCounters& counters = of_rules_[rule].counters;
    counters.others.add(requests);
    counters.blocked.add(requests);
  }
  static std::uint64_t kind_of(const Key& key) noexcept;
  static std::size_t alike_in_front(std::span<const Key> keys) noexcept;
  static std::size_t own_in_front(std::span<const Key> keys) noexcept;
  static std::span<const Key> furthest_of(std::span<const Key> next, std::size_t count) noexcept;
  void admit_keys_of_burst(std::span<const Key> keys, BurstTime& now, std::span<Verdict> verdicts,
                           const std::span<const Key>& next) noexcept;
  [[gnu::noinline]] void admit_keys_of_bursts(std::span<const Key> keys, BurstTime& now,
                                              std::span<Verdict> verdicts,
                                              const std::span<const Key>& next) noexcept;
  std::size_t take_of_rules(std::span<const Key> keys, std::uint8_t* left) noexcept;
  [[gnu::noinline]] void learn_of_granted(std::span<const Key> keys,
                                          std::span<const std::uint8_t> left) noexcept;
  static bool take_own(OfRule& of_rule) noexcept;
  [[gnu::noinline]] bool take_own(const Key& key) noexcept;
  [[gnu::noinline]] void admit_keys_by_rule(std::span<const Key> keys, BurstTime& now,
                                            std::span<Verdict> verdicts) noexcept;
  void finish(Run& run) noexcept;
  Settled take_settled(Run& run) const noexcept;
  void refuse_known(Run& run, const Settled& settled, MonotonicTime now) noexcept;
  using EntryPlaces = std::array<SpanTable::Place, burst_size>;  // by request
  std::uint32_t usual_of(RuleIndex rule) const noexcept;
  void with_usual_draw(const RuleTerms& rule, MonotonicTime now, auto&& use) const noexcept;
  std::uint64_t draw_of(SpanTable::Place place, std::uint64_t key, RuleIndex rule, std::uint64_t weight,
                        MonotonicTime now, auto&& draw) noexcept;
  [[gnu::noinline]] void draw_as_usual(Run& run, MonotonicTime now) noexcept;
  std::uint32_t draw_as_usual(const PlainKeys::OfRule& of_rule, std::uint32_t requests,
                              const EntryPlaces& places, std::span<const Request> laid_out,
                              MonotonicTime now) noexcept;
  std::uint32_t draw_as_usual(std::span<const Request> burst, std::uint32_t requests,
                              MonotonicTime now) noexcept;
  template <typename Draw>
  void draw_as_usual(Run& run, MonotonicTime now, const Publication* current, Draw&& draw) noexcept;
  std::uint32_t take_or_draw_in_front(std::uint32_t requests, ReadyLooks& ready, MonotonicTime now) noexcept;
  [[gnu::noinline]] bool take_or_draw(ReadyLooks& ready, std::size_t at, MonotonicTime now) noexcept;
  bool some_draw(std::uint32_t requests) const noexcept;
  bool still_has_enough(const RuleLook& look, std::size_t at) const noexcept;
  SpanTable::Place place_of(const RuleLook& look, std::size_t at) const noexcept;
  bool may_draw_ahead(const RuleLook& look, std::size_t at) const noexcept;
  bool draw_ahead(RuleLook& look, std::size_t at, MonotonicTime now, std::uint64_t& drawn) noexcept;
  void undraw_ahead(const RuleLook& look, std::size_t at, std::uint64_t drawn) noexcept;
  AllowanceCell* usual_cell(std::uint64_t key, const RuleTerms& rule, MonotonicTime now) noexcept;
  void draw_from_buckets(Run& run, const Settled& settled, MonotonicTime now) noexcept;
  template <Stage stage>
  static Hashes hashes_of(const Run& run, std::array<std::uint64_t, burst_size>& room) noexcept;
  template <Stage stage>
  void admit_run(Run& run) noexcept;
  template <Stage stage>
  void admit_run_of_keys(Run& run) noexcept;
  template <Stage stage>
  static void serve(Run& run, auto&& serve) noexcept;
  template <Stage stage>
  void use_grants(Run& run) noexcept;
  template <Stage stage>
  void take_from_entries(Run& run) noexcept;
  Hashes take_next(Run& run) const noexcept;
  std::size_t use_grants(RuleIndex rule, const Hashes& keys, const Hashes& next, std::uint64_t weight,
                         std::size_t in_burst, std::uint8_t* left) noexcept;
  /// Whether each of a burst's keys may use its grant, if that is enough.
  enum class Usable : std::uint8_t { some, all };
  template <Usable usable, typename WeightOf>
  [[gnu::noinline]] std::size_t use_each_grant(RuleIndex rule, const Hashes& keys, WeightOf&& weight_of,
                                               std::uint8_t* left) noexcept;
  std::size_t take_from_entries(RuleIndex rule, const Hashes& keys, const Hashes& next, std::uint64_t weight,
                                bool lends, std::uint8_t* left) noexcept;
  static constexpr auto refuse_none = [](std::uint32_t&, std::size_t) { return false; };
  template <typename WeightOf, typename Refuse>
  [[gnu::noinline]] std::size_t take_from_each_entry(RuleIndex rule, const Hashes& keys, WeightOf&& weight_of,
                                                     bool lends, std::uint8_t* left,
                                                     Refuse&& refuse) noexcept;
  template <Stage stage>
  std::size_t take_or_refuse(Run& run, const Hashes& keys, bool lends, std::uint8_t* left) noexcept;
  template <Stage stage>
  void take_dense(Run& run) noexcept;
  template <Stage stage>
  [[gnu::noinline]] void take_each_dense(Run& run) noexcept;
  // By themselves: the common burst's code is not to grow by what it does not need.
  [[gnu::noinline]] void prefetch_beyond_grants(const Run& run) const noexcept;
  [[gnu::noinline]] void prefetch_beyond_lines(const Run& run) const noexcept;
  [[gnu::noinline]] void look_closely(const Run& run, MonotonicTime now) noexcept;
  bool take_ready(const Plan& plan, std::uint64_t multiplier) noexcept;
  void take_from_entry(const PlannedKey& planned, std::uint64_t weight) noexcept;
  bool has_ready(const PlannedKey& planned, std::uint64_t multiplier) const noexcept;
  Decision admitted(const Plan& plan, std::uint64_t multiplier, MonotonicTime now,
                    Detail detail) const noexcept;
  void forget_plain() noexcept;
  std::uint32_t take_ready_plain(std::uint32_t requests) noexcept;
  std::uint32_t take_ready_of_rule(const PlainKeys::OfRule& of_rule, std::uint32_t requests) noexcept;
  std::uint32_t take_from_grants(const PlainKeys::OfRule& of_rule, std::uint32_t requests) noexcept;
  std::uint32_t take_from_entries(const PlainKeys::OfRule& of_rule, std::uint32_t requests,
                                  bool lends) noexcept;
  static std::uint32_t served(const PlainKeys::OfRule& of_rule, std::uint32_t requests,
                              auto&& serve) noexcept;
  std::uint32_t take_dense(RuleIndex rule, std::uint32_t requests) noexcept;
  /// Whether a request may be admitted before an earlier one of its burst whose keys lack something.
  enum class Order : std::uint8_t { any, kept };
  std::uint32_t under_several(std::uint32_t requests) const noexcept;
  std::uint32_t take_ready_of_all(std::uint32_t requests, Order order) noexcept;
  void look_first(std::uint32_t requests, ReadyLooks& ready) noexcept;
  void look_first(const PlainKeys::OfRule& of_rule, std::uint32_t requests, RuleLook& look) noexcept;
  void look_for_ready(std::uint32_t requests, ReadyLooks& ready) noexcept;
  void count_taken(ReadyLooks& ready) noexcept;
  void learn_where_to_look(std::span<const RuleLook> looks, std::uint32_t taken) noexcept;
  void look_in_grants(RuleLook& look, std::uint32_t requests) const noexcept;
  void look_in_entries(RuleLook& look, std::uint32_t requests) const noexcept;
  /// Rules with keys that are served in a loop of their own.
  static constexpr std::size_t most_at_once = 3;
  static std::uint32_t take_at_first_look(std::span<RuleLook> looks, std::uint32_t requests) noexcept;
  using KeyedLooks = std::array<const RuleLook*, most_at_once>;
  template <std::size_t count>
  static std::uint32_t take_keyed(const KeyedLooks& looks, std::uint32_t requests) noexcept;
  template <std::size_t count, bool all_granted>
  static std::uint32_t take_of_each(const KeyedLooks& looks, std::uint32_t requests) noexcept;
  [[gnu::noinline]] void take_at_second_look(ReadyLooks& ready, Order order) noexcept;
  void lend_after(ReadyLooks& ready, std::uint32_t taken) noexcept;
  void look_again(std::uint32_t requests, ReadyLooks& ready, bool tells) noexcept;
  void look_again(RuleLook& look, std::uint32_t requests, std::uint64_t most, bool tells) noexcept;
  static void look_at_words(RuleLook& look, std::uint32_t requests, std::uint64_t most) noexcept;
  static void take_plenty(const RuleLook& look, std::uint32_t requests) noexcept;
  static bool take_one(std::span<const RuleLook> looks, std::size_t at) noexcept;
  static std::uint32_t alike(std::span<const RuleLook> looks, std::uint32_t requests) noexcept;

  template <typename NameOf>
  Touched touch(const PlannedKey& planned, std::uint64_t weight, NameOf&& name_of,
                MonotonicTime now) noexcept;
  template <typename NameOf>
  Touched touch_entry(const PlannedKey& planned, NameOf&& name_of, MonotonicTime now) noexcept;
  template <typename NameOf>
  Touched touch_unknown(const PlannedKey& planned, NameOf&& name_of, MonotonicTime now) noexcept;
  Touched touch_without_entry(const PlannedKey& planned, const AllowancePool::Place& pooled,
                              MonotonicTime now) noexcept;
  Touched look_closely(SpanTable::Place place, const PlannedKey& planned, MonotonicTime now) noexcept;
  Touched touched_at(SpanTable::Place place, const RuleTerms& terms) const noexcept;
  Touched refresh(SpanTable::Place place, const PlannedKey& planned, MonotonicTime now) noexcept;
  KeyTerms terms_of(std::uint64_t key, RuleIndex rule, const KeyState* state, const WindowState& window,
                    bool own_cell) const noexcept;
  MonotonicTime early_block(const AllowancePool::Place& place, std::uint64_t key, const RuleTerms& terms,
                            const WindowState& window) const noexcept;
  MonotonicTime block_of(MonotonicTime published, const AllowancePool::Place& place, std::uint64_t key,
                         const RuleTerms& terms, MonotonicTime now) const noexcept;
  void carry_over(const AllowancePool::Place& place, std::uint64_t key, const RuleTerms& terms,
                  const WindowState& window, MonotonicTime now) noexcept;
  void carry_on(Touched& touched, std::uint64_t key, const RuleTerms& terms, MonotonicTime now) noexcept;

  bool window_is_known(std::uint16_t window) const noexcept;
  bool window_runs(std::uint16_t window) const noexcept;
  bool stays_drawn(std::uint16_t window) const noexcept;
  bool may_admit(Touched& touched, const PlannedKey& planned, std::uint64_t weight, const RuleTerms& terms,
                 MonotonicTime now) noexcept;
  bool draw(Touched& touched, const PlannedKey& planned, std::uint64_t weight, const RuleTerms& terms,
            MonotonicTime now) noexcept;
  std::uint64_t take_credit(SpanTable::Place place) noexcept;
  bool draw_window(Touched& touched, std::uint64_t key, std::uint64_t weight) noexcept;
  bool draw_sliding_window(Touched& touched, std::uint64_t key, std::uint64_t weight,
                           std::uint16_t window) noexcept;
  bool draw_in_next_span(Touched& touched, std::uint64_t key, std::uint64_t weight,
                         std::uint16_t window) noexcept;
  void charge(Touched& touched, RuleIndex rule, std::uint64_t weight) noexcept;
  bool serves_ready(const Touched& touched, const RuleTerms& terms, MonotonicTime now) const noexcept;
  bool refuses_for_long(const Touched& touched, const PlannedKey& planned) const noexcept;
  bool end_look(const Touched& touched, const PlannedKey& planned, MonotonicTime now) noexcept;
  bool draw_bucket(Touched& touched, const PlannedKey& planned, std::uint64_t weight, const RuleTerms& terms,
                   MonotonicTime now) noexcept;
  bool draw_log(Touched& touched, std::uint64_t key, std::uint64_t weight, const RuleTerms& terms,
                MonotonicTime now) noexcept;
  bool sheds(const Touched& touched, const PlannedKey& planned, std::uint64_t weight) const noexcept;
  void refuse(Touched& touched, const PlannedKey& planned, std::uint64_t weight, MonotonicTime now) noexcept;
  void undraw(const Touched& touched, std::uint64_t key, const RuleTerms& terms, MonotonicTime now) noexcept;
  static bool settles_it(const RuleTerms& terms) noexcept;
  bool observes_refusal(Touched& touched, RuleIndex rule, Decision& decision) noexcept;
  AllowanceCell* own_bucket_before(const Touched& touched, std::uint64_t key,
                                   const RuleTerms& terms) const noexcept;
  LogCell log_of(const Touched& touched, std::uint64_t key, const RuleTerms& terms) const noexcept;
  LogCell running_log_of(Touched& touched, std::uint64_t key, const RuleTerms& terms,
                         MonotonicTime now) noexcept;
  bool log_has_room(Touched& touched, std::uint64_t key, std::uint64_t weight, const RuleTerms& terms,
                    MonotonicTime now) noexcept;

  Decision peek(const PlannedKey& planned, std::span<const std::byte> name, MonotonicTime now) noexcept;
  bool correct(Correction correction) noexcept;
  /// Of the table that it counts in.
  CorrectionLog& correction_log() noexcept;
  void name_rule(Decision& decision, RuleIndex rule, std::uint64_t weight) const noexcept;
  void tell(Decision& decision, const PlannedKey& planned, const Touched& touched, std::uint64_t weight,
            MonotonicTime now) const noexcept;
  std::uint64_t remaining(const Touched& touched, const PlannedKey& planned,
                          MonotonicTime now) const noexcept;
  std::uint64_t room(const Touched& touched, const PlannedKey& planned, MonotonicTime now) const noexcept;
  Duration retry_after(const Touched& touched, const PlannedKey& planned, std::uint64_t weight,
                       std::uint64_t remaining, MonotonicTime now) const noexcept;
  Duration reset_after(const Touched& touched, const PlannedKey& planned, MonotonicTime now) const noexcept;
  BucketCell bucket_of(const Touched& touched, const PlannedKey& planned) const noexcept;
  std::uint64_t missing_of(const Touched& touched, const PlannedKey& planned,
                           MonotonicTime now) const noexcept;

  DataPlane plane_;
  Duration shortest_span_;  // that a table may be counted in, if all are in time
  Duration lasted_{};       // the span before the one that runs; or that, if it is less
  // Keys that are blocked until then at least are refused by their lines alone as long as it is not then:
  // whose block ends when is nobody's question. The table is another one by then, as a rule, since every
  // span's end has it drained; where it is not, the entries are asked again. What a drain has left in the
  // table's lines holds until then, too.
  MonotonicTime glances_end_ = never;
  unsigned index_;
  std::span<SpanTable> tables_;
  SpanTable* table_;
  std::span<CorrectionLog> corrections_;
  GrantTable& grants_;
  const Publication* publication_ = nullptr;
  std::uint64_t taken_up_ = 0;    // the generation of publication_
  std::uint32_t generation_ = 0;  // the one that its terms are from, as lines keep it: its mark(); never 0
  // Of the span that table_ counts: what is counted in one window must be drawn from that window's pool,
  // also where the controller could not flip this worker at the window's end. Pools are never freed, only
  // cleared for later use.
  std::vector<WindowState> windows_;
  std::vector<GrantClock> grant_clocks_;  // by window
  std::vector<Grant> rule_grants_;        // under the publication
  std::vector<RuleUse> uses_;             // of these, by keys that need no closer look
  std::size_t rules_learned_ = 0;         // whose Grant::entries_first has learned something
  // Keys that it has refused and that have not been judged yet, and what the publication says of other
  // workers'.
  RefusedKeys refused_;
  RefusedKeys refused_before_;                               // while it counted in its other table
  bool judgement_due_ = false;                               // of these
  bool leaves_grants_alone_ = false;                         // Publication::grant_turn_of_worker
  std::uint64_t blocks_begun_ = 0;                           // by what it has refused
  std::uint32_t new_keys_left_ = Publication::all_new_keys;  // that it may tell of in this span
  std::uint64_t last_unknown_ = 0;  // the key of which is_known() has last said so, of this publication
  bool online_ = false;
  bool pages_touched_ = false;
  // Most of a burst's frames are refused: of the next one these are looked for first.
  ExpectedWay refusals_first_;
  std::uint32_t plain_left_ = 0;              // of a burst of frames: what decide_plain() may decide on
  std::span<const PlainFrame> plain_frames_;  // as long as something is left
  // By window, each of which has the logs of one rule, if any: taken from those, and then another worker's
  // was agreed on.
  std::vector<std::uint32_t> spare_logs_;
  Classifier::Scratch scratch_;
  KeyBytes key_bytes_;
  KeyHash key_hash_;
  PlainKeys plain_;                                // or those of a burst of requests
  ExpectedWay some_lack_;                          // under several rules, some of what they ask for
  std::array<RuleIndex, burst_size> first_rules_;  // that apply to each request of a burst
  std::array<Plan, burst_size> plans_;
  std::vector<std::uint64_t> rule_keys_;  // of rules without dimensions
  std::uint32_t nothing_ready_ = 0;
  std::vector<OfRule> of_rules_;
  SingleWriterCounter overflowed_;
};

}  // namespace weir
