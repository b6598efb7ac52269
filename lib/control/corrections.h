// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What requests turned out to cost more, or less, than they were charged (shared/correction_log.h), on its
/// way into the engine's counts and the workers' cells.
///
/// What is to be charged needs nobody but the key. What is to be handed back may have been charged by another
/// worker, whose table has yet to be drained: so that waits until all are, or have had their time; what is of
/// the span that runs until that ends; and what still has not been counted then, until it has been, as long
/// as it may bear on anything. When all have been, there may still be too little: of a grant that has been
/// filled up again less looks used than has been (shared/grant_table.h), until the span that runs then has
/// been drained, too. So much waits for that, and no longer; else who hands back more than he was charged had
/// it of what he is charged next. (A window that slides takes it from the span it was charged in alone, where
/// what comes so late is not: as much as that stays charged. Not of buckets: what is drawn from one is
/// missing in it at once.) And a sliding log is read from its oldest admission on to hand anything back: so
/// what a key's log is to be corrected by in a span comes to it as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "control/window_pools.h"
#include "engine/engine.h"
#include "limit/bucket.h"
#include "shared/correction_log.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

/// The controller's alone. What it is made of outlives it.
class Corrections {
 public:
  struct Parts {
    std::span<const Rule> rules;
    std::span<const std::uint16_t> window_of_rule;
    std::span<const BucketTerms> bucket_of_rule;
    std::span<const std::uint64_t> greatest_grants;  // of a key, by rule, of all workers together
    std::span<WindowPools> pools;
    std::size_t memory;  // that hand-backs may take which wait to be found in the counts
    Engine& engine;
  };
  /// What a worker has counted in a table.
  struct Drained {
    Instant began{};        ///< when it began to count there
    WallTime counted_by{};  ///< SpanCount::counted_by
  };
  /// What of the spans has been.
  struct Counted {
    bool all_drained = false;   ///< the tables of all that have ended
    MonotonicTime uncounted{};  ///< when the oldest one began in which some worker counts
    Instant running{};          ///< when the one began that runs
  };
  /// A key of which more than half is missing in its bucket, by what it was charged.
  struct Emptied {
    std::uint64_t key = 0;
    RuleIndex rule = no_rule;
  };

  explicit Corrections(const Parts& parts) noexcept
      : parts_(parts), most_waiting_(parts.memory / sizeof(Refunded)) {}

  /// Takes in what a worker has written down while it counted in a table that has been drained; empties the
  /// log.
  void take(CorrectionLog& log, const Drained& drained, Instant now);
  /// Hands back what is to be, after the logs of all workers that have been drained.
  void settle(Instant now, const Counted& counted);
  /// By what was taken in last.
  std::span<const Emptied> emptied() const noexcept { return emptied_; }

 private:
  struct Refunded {
    std::uint64_t key;
    std::uint64_t amount;
    Instant charged_in;
    RuleIndex rule;
    bool waited;  // all of its span has been counted before
  };
  struct Logged {
    std::uint64_t key;
    Instant charged_in;
    std::int64_t by;
    RuleIndex rule;
  };

  WindowPools& pools_of(RuleIndex rule) const noexcept { return parts_.pools[parts_.window_of_rule[rule]]; }
  void take(std::span<const Correction> some, const Drained& drained, Instant now);
  void charge(const Correction& correction, const Drained& drained, Instant now);
  std::uint64_t refund(const Refunded& refunded, Instant now);
  bool is_due(const Refunded& refunded, const Counted& counted) const noexcept;
  void limit_waited();
  bool may_bear_yet(const Refunded& refunded, MonotonicTime now) const noexcept;
  void correct_logs(MonotonicTime now);
  void correct_log(std::span<const Logged> of_key, MonotonicTime now);

  Parts parts_;
  std::size_t most_waiting_;
  std::vector<Refunded> refunds_;
  MonotonicTime uncounted_{};   // as settle() was told when all had been drained last
  std::vector<Logged> logged_;  // under sliding logs
  std::vector<Emptied> emptied_;
};

}  // namespace weir
