// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The worker: find the request's keys, see whether each may admit it, charge all or none, count what was
/// offered.
///
/// Everything a worker writes is its own (its span table, its counters), but for one thing: the cell it draws
/// a key's allowance from, once per chunk. It reads the publication, the compiled rules, and the clock it is
/// given.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/key_hash.h"
#include "base/keyed_hash.h"
#include "base/single_writer_counter.h"
#include "classify/classifier.h"
#include "dataplane/rule_terms.h"
#include "shared/publication.h"
#include "shared/quiescence.h"
#include "shared/span_table.h"
#include "weir/decision.h"
#include "weir/key.h"
#include "weir/request.h"

namespace weir {

/// Requests of one rule, as one worker saw them. Written by the worker, read by anyone.
struct alignas(64) RuleCounters {
  SingleWriterCounter offered;
  SingleWriterCounter admitted;
  SingleWriterCounter blocked;
};

/// What all workers of a node share, read-only for them but for the quiescent states. Outlives the workers.
struct DataPlane {
  const Classifier& classifier;
  std::span<const RuleTerms> terms;
  const PublicationSlot& publication;
  Quiescence& quiescence;
  HashKey hash_key;
};

/// One thread at a time. See weir/throttle.h Worker for the contract of the public part. Shares no cache line
/// with whatever else is on the heap.
class alignas(64) WorkerCore {
 public:
  /// @param tables  this worker's own, tables_per_worker of them
  WorkerCore(const DataPlane& plane, unsigned index, std::span<SpanTable> tables);

  void online() noexcept;
  void offline() noexcept;
  void quiescent() noexcept;

  Decision admit(const Request& request, MonotonicTime now) noexcept;
  void admit_burst(std::span<const Request> requests, MonotonicTime now, std::span<Decision> decisions,
                   Detail detail) noexcept;
  Key key(RuleIndex rule, std::string_view value) const noexcept;
  void prefetch_keys(std::span<const Key> keys) const noexcept;
  void admit_keys(std::span<const Key> keys, MonotonicTime now, std::span<Verdict> verdicts) noexcept;
  Decision admit_key(RuleIndex rule, std::string_view value, std::uint32_t weight,
                     MonotonicTime now) noexcept;

  std::span<const RuleCounters> rule_counters() const noexcept { return counters_; }
  /// First touches that found no entry, or no cell of their own. Any thread.
  std::uint64_t overflowed() const noexcept { return overflowed_.read(); }
  /// The key under which a rule counts; never 0.
  std::uint64_t key_of(RuleIndex rule, std::span<const std::byte> bytes) const noexcept;

 private:
  static constexpr std::size_t burst_size = 32;

  /// One rule that applies to a request.
  struct PlannedKey {
    std::uint64_t key;
    SpanTable::Place place;  // where it has been seen, or nowhere; may have become another's since
    RuleIndex rule;
    bool dense;  // the one key of a rule without dimensions: its place is fixed
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
    MonotonicTime blocked_until = never;
  };

  void take_up_publication() noexcept;
  void catch_up() noexcept;
  void plan(const Request& request, Plan& plan) noexcept;
  void prefetch(const Plan& plan) const noexcept;
  void prefetch_beyond_line(std::uint64_t key, SpanTable::Place place, RuleIndex rule) const noexcept;
  void look_up(Plan& plan, std::uint64_t multiplier) const noexcept;
  template <typename NameOf>
  Decision decide(const Plan& plan, std::uint64_t multiplier, MonotonicTime now, Detail detail,
                  NameOf&& name_of) noexcept;
  template <typename NameOf>
  Decision decide_closely(const Plan& plan, std::uint64_t multiplier, MonotonicTime now, Detail detail,
                          NameOf&& name_of) noexcept;
  void count_admitted(RuleIndex rule, std::uint64_t requests) noexcept;
  void admit_keys_of_burst(std::span<const Key> keys, MonotonicTime now,
                           std::span<Verdict> verdicts) noexcept;
  bool take_ready(const Plan& plan, std::uint64_t multiplier) noexcept;

  template <typename NameOf>
  Touched touch(const PlannedKey& planned, NameOf&& name_of, MonotonicTime now) noexcept;
  template <typename NameOf>
  Touched touch_unknown(const PlannedKey& planned, NameOf&& name_of, MonotonicTime now) noexcept;
  Touched touch_without_entry(const PlannedKey& planned, MonotonicTime now) noexcept;
  Touched look_closely(SpanTable::Place place, const PlannedKey& planned, MonotonicTime now) noexcept;
  Touched touched_at(SpanTable::Place place, const RuleTerms& terms) const noexcept;
  void refresh(SpanTable::Place place, std::uint64_t key, MonotonicTime now) noexcept;
  KeyTerms terms_of(std::uint64_t key, RuleIndex rule, const WindowState& window,
                    MonotonicTime& blocked_until) const noexcept;
  MonotonicTime early_block(const AllowancePool::Place& place, std::uint64_t key, const RuleTerms& terms,
                            const WindowState& window) const noexcept;
  void carry_over(AllowanceCell& cell, std::uint64_t key, const RuleTerms& terms, MonotonicTime now) noexcept;

  bool window_is_known(std::uint16_t window) const noexcept;
  bool may_admit(Touched& touched, const PlannedKey& planned, std::uint64_t weight, const RuleTerms& terms,
                 MonotonicTime now) noexcept;
  std::uint64_t take_credit(SpanTable::Place place) noexcept;
  bool draw_window(Touched& touched, std::uint64_t weight) noexcept;
  void charge(Touched& touched, RuleIndex rule, std::uint64_t weight) noexcept;
  bool serves_ready(const Touched& touched, const RuleTerms& terms, MonotonicTime now) const noexcept;
  bool draw_bucket(Touched& touched, const PlannedKey& planned, std::uint64_t weight, const RuleTerms& terms,
                   MonotonicTime now) noexcept;
  bool sheds(const Touched& touched, const PlannedKey& planned, std::uint64_t weight) const noexcept;
  void refuse(Touched& touched, const PlannedKey& planned, const RuleTerms& terms,
              MonotonicTime now) noexcept;
  void undraw(const Touched& touched, const RuleTerms& terms, MonotonicTime now) noexcept;

  Decision peek(const PlannedKey& planned, std::span<const std::byte> name, MonotonicTime now) noexcept;
  void name_rule(Decision& decision, RuleIndex rule, std::uint64_t weight) const noexcept;
  void tell(Decision& decision, const PlannedKey& planned, const Touched& touched, std::uint64_t weight,
            MonotonicTime now) const noexcept;
  std::uint64_t remaining(const Touched& touched, const RuleTerms& terms, MonotonicTime now) const noexcept;
  Duration retry_after(const Touched& touched, const PlannedKey& planned, std::uint64_t weight,
                       std::uint64_t remaining, MonotonicTime now) const noexcept;
  Duration reset_after(const Touched& touched, const RuleTerms& terms, MonotonicTime now) const noexcept;

  DataPlane plane_;
  unsigned index_;
  std::span<SpanTable> tables_;
  SpanTable* table_;
  const Publication* publication_ = nullptr;
  std::uint32_t generation_ = 0;  // of publication_, as entries keep it; never 0
  // Of the span that table_ counts: what is counted in one window must be drawn from that window's pool,
  // also where the controller could not flip this worker at the window's end. Pools are never freed, only
  // cleared for later use.
  std::vector<WindowState> windows_;
  bool online_ = false;
  bool pages_touched_ = false;
  std::uint32_t spare_log_ = 0;  // taken from the pool of logs, and then another worker's was agreed on
  Classifier::Scratch scratch_;
  KeyBytes key_bytes_;
  KeyHash key_hash_;
  std::array<Plan, burst_size> plans_;
  std::vector<std::uint64_t> rule_keys_;  // of rules without dimensions
  std::vector<RuleCounters> counters_;
  SingleWriterCounter overflowed_;
};

}  // namespace weir
