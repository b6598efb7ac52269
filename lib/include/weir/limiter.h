// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One limit in one process: the algorithms of a rule without workers, controller or store.
///
/// For callers who have a single thing to limit (a client's calls to a paid service, the log lines of one
/// module) and want an answer from any thread:
///
///     weir::LimiterResult made = weir::Limiter::create({.algorithm = weir::Algorithm::token_bucket,
///                                                       .limit = 100, .interval = std::chrono::seconds{1}});
///     if (!made) { … made.error says what to change … }
///     if (made.limiter->try_acquire(now, 1).admitted) …
///
/// Time is the caller's: every call takes the moment it is made at. A clock that goes back makes the limiter
/// stand still until the clock has caught up; nothing is granted twice.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weir/export.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

/// The answer to one request.
struct Acquisition {
  bool admitted = false;
  /// Requests of weight 1 that would be admitted at this moment after this one.
  std::uint64_t remaining = 0;
  /// 0 when admitted; else until the same request would be admitted if no other came: ≥ 1 ns; `forever`:
  /// never. Under `shed`, of what weighs more than a span's part of the limit: until it has the best odds.
  Duration retry_after{};
  /// Until everything may be admitted again that an unused limiter admits, if no request came; 0: it is so
  /// now.
  Duration reset_after{};
};

/// How long a caller who paces itself has to wait.
struct Reservation {
  /// From `now` to when the request may go; `forever`: it never may, and nothing has been claimed.
  Duration wait{};
  /// Whether that moment is the caller's: the request has been charged and need not ask again. Otherwise ask
  /// again after `wait`.
  bool claimed = false;
};

/// What to limit to. Invalid combinations are refused by Limiter::create().
struct LimiterTerms {
  Algorithm algorithm = Algorithm::token_bucket;  ///< any but `strict`, which needs a store to lease from
  std::uint64_t limit = 0;  ///< weight per interval; 1 … 2^63 − 1; sliding_log: at most max_sliding_log_limit
  Duration interval{};      ///< ≥ 1 ns
  std::uint32_t spans = 10;  ///< 2 … 1000, each ≥ 1 ns; sliding_window and shed
  std::uint64_t burst =
      0;                ///< 0: the limit; up to 2^59, larger ones are cut to it; token_bucket, leaky_bucket
  Duration warmup{};    ///< 0: none; at most 3 days; token_bucket
  Duration cooldown{};  ///< 0: the interval; cooldown
};

class LimiterCore;  // the algorithm and its state
struct LimiterResult;

/// A limiter. Thread-safe; after create() its functions neither block nor allocate nor throw.
class WEIR_API Limiter {
 public:
  /// Checks the terms and allocates all memory.
  static LimiterResult create(const LimiterTerms& terms);
  ~Limiter();
  Limiter(const Limiter&) = delete;
  Limiter& operator=(const Limiter&) = delete;

  /// Decides on one request and charges it if it is admitted.
  /// @param now     the caller's clocks: wall for aligned windows, monotonic for all else
  /// @param weight  what it costs; 0: peek()
  Acquisition try_acquire(Instant now, std::uint64_t weight) noexcept;
  /// What try_acquire(now, 1) would answer, `remaining` counted before it. Changes nothing. Under `cooldown`
  /// its waits are those of who does not ask: asking beyond the limit begins a block, and waits for that.
  Acquisition peek(Instant now) const noexcept;
  /// How long to wait until a request may go, claiming that moment where the algorithm can: buckets, fixed
  /// windows and the sliding log. Weight 0 asks about weight 1 and claims nothing.
  Reservation reserve(Instant now, std::uint64_t weight) noexcept;
  /// Settles a cost that is known only afterwards: what was charged too much is handed back (negative), what
  /// was charged too little is charged now (positive), into debt if need be. Handing back more than was
  /// charged leaves the limiter unused, not better.
  /// `shed` keeps no account of weights: one more or one less request of about this weight passes.
  /// @param now  handing back: the time the request came with, so that what has left the window since frees
  ///             nothing that others hold; of a reservation, and charging: the time of this call. What was
  ///             charged later (positive) is handed back with the time of that charge. Under fixed_window
  ///             nothing that is handed back after its window has ended frees anything, also not of the debt
  ///             that it left. Which holds, too, where another thread's clock had begun the next window
  ///             before the request came, or the wall clock was set back: it was charged in that one.
  ///             Buckets do not remember what has flowed in since: they fill up by what is handed back,
  ///             up to the burst, however long ago it was taken
  /// @param by   in units of weight; 0: changes nothing
  void correct(Instant now, std::int64_t by) noexcept;

  /// For create(): nobody else can make a core.
  explicit Limiter(std::unique_ptr<LimiterCore> core) noexcept;

 private:
  std::unique_ptr<LimiterCore> core_;
};

/// A limiter, or why there is none.
struct LimiterResult {
  std::unique_ptr<Limiter> limiter;
  std::string error;  ///< empty when `limiter` is set

  explicit operator bool() const noexcept { return limiter != nullptr; }
};

}  // namespace weir
