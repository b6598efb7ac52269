// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One key of a sliding-log rule in an allowance cell, shared by a node's workers: which log it has, or the
/// bucket that it draws from as long as it has none.
///
/// A cell names its key's log by index (LogName), and at the key's first touch in a new pool its cell there
/// gets the log that the old pool's cell has. Both cells agree by one compare-exchange each, first the old
/// one, so workers in different windows find the same log.
///
/// A key without a log draws from a bucket that never admits more than the limit in any window, and half of
/// it lastingly (one request, where two come to more than the limit): it is refused early rather than never,
/// and what others ask for is nothing to it. Where it gets a log after all, that knows nothing of what has
/// been admitted before. So both are asked until all of that is an interval ago: in the window in which it
/// gets the log and in the one after it, which is as long as that at least.
///
/// Keys that share a cell share its bucket, which goes on in the cell that they share in the next window. A
/// key that had a cell of its own in the window before asks that one, too: what it drew there, the shared one
/// does not know.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "shared/bucket_cell.h"
#include "shared/log_pool.h"

namespace weir {

class LogCell {
 public:
  /// @param before  the key's own cell in the ended pool, if it shares this one; else nullptr
  LogCell(AllowanceCell& cell, LogPool& logs, AllowanceCell* before = nullptr) noexcept
      : cell_(cell), logs_(logs), before_(before != nullptr && was_used(*before) ? before : nullptr) {}

  /// Whether the key has been here: take_over() would change nothing.
  bool begun() const noexcept {
    const LogName name = read(cell_);
    return name.used() && (!name.asks_bucket() || BucketCell(cell_).begun());
  }
  /// Whether the key has come in the window of the cell's pool.
  static bool was_used(const AllowanceCell& cell) noexcept { return read(cell).used(); }
  static bool is_shared(const AllowanceCell& cell) noexcept {
    return read(cell).word() == LogName::shared_bucket().word();
  }

  /// Makes sure that the cell says how its key is admitted: as the ended pool's cell does; else by a log of
  /// its own, while there are plenty. Any worker.
  /// @param own    whether the cell is the key's own
  /// @param ended  where the key is in the pool before, or the one that it would share there if it shares
  /// this one; without a cell: there is none
  /// @param spare  the caller's, of this pool alone: a log it took and then did not need, or LogPool::none
  void take_over(bool own, const AllowancePool::Place& ended, std::uint32_t& spare,
                 MonotonicTime now) noexcept {
    LogName name = read(cell_);
    if (!name.known()) name = own ? follow(ended, spare) : agree(cell_, LogName::shared_bucket());
    // Relaxed, as all of it: an index is all there is to agree on; the log's own words carry their order.
    if (!name.used()) cell_.log.fetch_and(~LogName::unused, std::memory_order_relaxed);
    if (name.asks_bucket()) BucketCell(cell_).take_over(ended.cell, logs_.bucket(), now);
  }

  /// For who has been refused for want of a log: it has one from now on, if any is free. Any worker, while
  /// the cell's window runs.
  /// @pre take_over()
  void ask_for_log(std::uint32_t& spare) noexcept {
    const LogName name = read(cell_);
    if (!name.may_have_log()) return;
    const std::uint32_t log = spare != LogPool::none ? spare : logs_.take(true);
    if (log == LogPool::none) return;
    std::uint32_t known = name.word();
    const bool named = cell_.log.compare_exchange_strong(known, LogName::of(log, asked_besides).word(),
                                                         std::memory_order_relaxed);
    spare = named ? LogPool::none : log;
  }

  struct Draw {
    bool taken = false;
    bool closed = false;  ///< its bucket has moved to the next pool: take it over there, draw again
  };
  /// Admits a request, if there is room for it.
  /// @pre take_over()
  Draw draw(std::uint64_t key, MonotonicTime now, std::uint64_t weight) noexcept {
    const Draw drawn = draw_here(key, now, weight);
    if (!drawn.taken || before_ == nullptr || LogCell(*before_, logs_).draw(key, now, weight).taken)
      return drawn;
    give_back_here(now, weight);
    return {};
  }

  /// Puts back what was drawn at `now`, and not used.
  void give_back(MonotonicTime now, std::uint64_t weight) noexcept {
    if (before_ != nullptr) LogCell(*before_, logs_).give_back(now, weight);
    give_back_here(now, weight);
  }

  /// Takes what has been admitted without being drawn, or (below 0) puts back what was charged too much: as
  /// far as it has not come back by itself since. (A log that has been asked for less than an interval may
  /// not know of it: then its bucket alone.)
  /// @param at  when that was charged; else now
  void correct(MonotonicTime at, MonotonicTime now, std::int64_t by) noexcept {
    const LogName name = read(cell_);
    const auto weight =
        std::min(by < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(by) : static_cast<std::uint64_t>(by),
                 logs_.limit());
    const BucketTerms& terms = logs_.bucket();
    if (by < 0) {
      if (name.asks_bucket())
        BucketCell(cell_).fill_up(not_come_back(weight, at, now), full_price, terms, now);
      else if (name.has_log())
        logs_.log(name.log()).give_back(at, weight);
      return;
    }
    if (name.asks_bucket()) BucketCell(cell_).charge(weight, terms, now);
    if (name.has_log()) logs_.log(name.log()).charge(now, weight);
  }

  /// How much there is.
  struct Room {
    std::uint64_t remaining = 0;  ///< may be admitted now
    Duration reset_after{};       ///< until that is all it ever may
  };
  Room look(MonotonicTime now) const noexcept {
    const LogName name = read(cell_);
    Room room{.remaining = logs_.limit()};
    const auto add = [&](std::uint64_t remaining, Duration reset_after) {
      room = {std::min(room.remaining, remaining), std::max(room.reset_after, reset_after)};
    };
    if (before_ != nullptr) {
      const Room there = LogCell(*before_, logs_).look(now);
      add(there.remaining, there.reset_after);
    }
    if (name.has_log()) {
      const Acquisition seen = logs_.log(name.log()).look(now);
      add(seen.remaining, seen.reset_after);
    }
    if (name.asks_bucket()) {
      const BucketTerms& terms = logs_.bucket();
      add(terms.tokens(BucketCell(cell_).available(terms, now)),
          terms.time_for(BucketCell(cell_).missing(terms, now)));
    }
    return room;
  }

  /// How long until a request of this weight may be admitted; 0: it may be now.
  /// @pre weight is at most the limit
  Duration retry_after(MonotonicTime now, std::uint64_t weight) const noexcept {
    const LogName name = read(cell_);
    Duration longest{};
    if (before_ != nullptr) longest = LogCell(*before_, logs_).retry_after(now, weight);
    if (name.has_log()) longest = std::max(longest, logs_.log(name.log()).retry_after(now, weight));
    if (!name.asks_bucket() || weight == 0) return longest;
    const BucketTerms& terms = logs_.bucket();
    // What is more than the bucket ever holds needs a log.
    if (weight > terms.burst()) return std::max(longest, terms.fills_in());
    const std::uint64_t missing = BucketCell(cell_).missing(terms, now);
    const std::uint64_t room = terms.capacity() - terms.cost(weight);
    return std::max(longest, terms.time_for(missing - std::min(missing, room)));
  }

 private:
  /// For how many windows the bucket is asked beside a log that knows nothing of what it has admitted.
  static constexpr std::uint32_t asked_besides = 2;

  static LogName read(const AllowanceCell& cell) noexcept {
    return LogName(cell.log.load(std::memory_order_relaxed));
  }

  Draw draw_here(std::uint64_t key, MonotonicTime now, std::uint64_t weight) noexcept {
    if (weight == 0) return {.taken = true};
    const LogName name = read(cell_);
    if (!name.known()) return {};  // the cell's pool has been cleared under a worker that did not come round
    BucketCell bucket(cell_);
    if (name.asks_bucket()) {
      const BucketCell::Draw drawn = bucket.draw(key, weight, 0, full_price, logs_.bucket(), now);
      if (drawn.taken == 0) return {.closed = drawn.closed};
    }
    if (!name.has_log() || logs_.log(name.log()).try_acquire(now, weight)) return {.taken = true};
    if (name.asks_bucket()) bucket.give_back(weight, full_price, logs_.bucket());
    return {};
  }

  void give_back_here(MonotonicTime now, std::uint64_t weight) noexcept {
    const LogName name = read(cell_);
    if (name.asks_bucket()) BucketCell(cell_).give_back(weight, full_price, logs_.bucket());
    if (name.has_log()) logs_.log(name.log()).give_back(now, weight);
  }

  // Of so many tokens drawn from a bucket those that it would still lack, had it been full without them.
  std::uint64_t not_come_back(std::uint64_t tokens, MonotonicTime at, MonotonicTime now) const noexcept {
    const BucketTerms& terms = logs_.bucket();
    // Whatever somebody says when it was: differences may be larger than a duration.
    const auto since = static_cast<__int128>(now.time_since_epoch().count()) - at.time_since_epoch().count();
    if (since >= terms.fills_in().count()) return 0;
    const std::uint64_t cost = terms.cost(std::min(tokens, terms.burst()));
    const std::uint64_t come = since <= 0 ? 0 : terms.generated(now) - terms.generated(at);
    return terms.tokens(cost - std::min(cost, come));
  }

  // Of a cell of the key's own that says nothing yet. @return what it says then
  LogName follow(const AllowancePool::Place& ended, std::uint32_t& spare) noexcept {
    if (ended.cell == nullptr) return agree_on_new(cell_, 0, 0, spare);
    // What it has drawn from there, nobody knows.
    if (!ended.own) return agree_on_new(cell_, asked_besides, 0, spare);
    LogName before = read(*ended.cell);
    if (!before.known()) before = agree_on_new(*ended.cell, 0, LogName::unused, spare);
    return before.has_log() ? agree(cell_, before.next()) : agree_on_new(cell_, asked_besides, 0, spare);
  }

  // On a log, if there are plenty; else on the bucket alone.
  LogName agree_on_new(AllowanceCell& cell, std::uint32_t bucket_too, std::uint32_t mark,
                       std::uint32_t& spare) noexcept {
    const std::uint32_t log = spare != LogPool::none ? spare : logs_.take(false);
    const LogName name((log == LogPool::none ? LogName::bucket_only() : LogName::of(log, bucket_too)).word() |
                       mark);
    const LogName agreed = agree(cell, name);
    spare = agreed.word() == name.word() ? LogPool::none : log;
    return agreed;
  }

  static LogName agree(AllowanceCell& cell, LogName name) noexcept {
    std::uint32_t known = 0;
    return cell.log.compare_exchange_strong(known, name.word(), std::memory_order_relaxed) ? name
                                                                                           : LogName(known);
  }

  AllowanceCell& cell_;
  LogPool& logs_;
  AllowanceCell* before_;
};

}  // namespace weir
