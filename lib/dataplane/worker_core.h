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

#include "base/keyed_hash.h"
#include "base/single_writer_counter.h"
#include "classify/classifier.h"
#include "dataplane/rule_terms.h"
#include "shared/publication.h"
#include "shared/quiescence.h"
#include "shared/span_table.h"
#include "weir/decision.h"
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

/// One thread at a time. See weir/throttle.h Worker for the contract of the public part.
class WorkerCore {
 public:
  /// @param tables  this worker's own, tables_per_worker of them
  WorkerCore(const DataPlane& plane, unsigned index, std::span<SpanTable> tables);

  void online() noexcept;
  void offline() noexcept;
  void quiescent() noexcept;

  Decision admit(const Request& request, MonotonicTime now) noexcept;
  void admit_burst(std::span<const Request> requests, MonotonicTime now,
                   std::span<Decision> decisions) noexcept;
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
    RuleIndex rule;
    std::uint64_t key;
  };
  struct Plan {
    std::array<PlannedKey, max_rules_per_request> keys;
    std::size_t count = 0;
  };
  /// A planned key found: where it is counted, and where its allowance comes from.
  struct Touched {
    SpanEntry* entry = nullptr;     // nullptr: counted under the rule's overflow
    AllowanceCell* cell = nullptr;  // nullptr: nothing to be drawn
    KeyTerms terms;
    std::uint64_t drawn = 0;  // for this request, beyond what the entry keeps in any case
    MonotonicTime blocked_until = never;
  };

  void take_up_publication() noexcept;
  void plan(const Request& request, Plan& plan) noexcept;
  template <typename NameOf>
  Decision decide(const Plan& plan, std::uint64_t multiplier, MonotonicTime now, NameOf&& name_of) noexcept;

  template <typename NameOf>
  Touched touch(const PlannedKey& planned, NameOf&& name_of, MonotonicTime now) noexcept;
  void refresh(SpanEntry& entry, std::uint64_t key, MonotonicTime now) noexcept;
  KeyTerms terms_of(std::uint64_t key, RuleIndex rule, const WindowState& window,
                    MonotonicTime& blocked_until) const noexcept;
  MonotonicTime early_block(const AllowancePool::Place& place, std::uint64_t key, const RuleTerms& terms,
                            const WindowState& window) const noexcept;
  void carry_over(AllowanceCell& cell, std::uint64_t key, const RuleTerms& terms, MonotonicTime now) noexcept;

  bool may_admit(Touched& touched, const PlannedKey& planned, std::uint64_t weight, const RuleTerms& terms,
                 MonotonicTime now) noexcept;
  bool draw_window(Touched& touched, std::uint64_t weight) noexcept;
  bool draw_bucket(Touched& touched, const PlannedKey& planned, std::uint64_t weight, const RuleTerms& terms,
                   MonotonicTime now) noexcept;
  bool sheds(const Touched& touched, const PlannedKey& planned, std::uint64_t weight) const noexcept;
  void refuse(Touched& touched, const PlannedKey& planned, const RuleTerms& terms,
              MonotonicTime now) noexcept;
  void undraw(const Touched& touched, const RuleTerms& terms, MonotonicTime now) noexcept;

  Decision peek(const PlannedKey& planned, std::span<const std::byte> name, MonotonicTime now) noexcept;
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
  // Of the span that table_ counts: what is counted in one window must be drawn from that window's pool,
  // also where the controller could not flip this worker at the window's end. Pools are never freed, only
  // cleared for later use.
  std::vector<WindowState> windows_;
  bool online_ = false;
  std::uint32_t spare_log_ = 0;  // taken from the pool of logs, and then another worker's was agreed on
  Classifier::Scratch scratch_;
  KeyBytes key_bytes_;
  std::array<Plan, burst_size> plans_;
  std::vector<RuleCounters> counters_;
  SingleWriterCounter overflowed_;
};

}  // namespace weir
