// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A token bucket in an allowance cell, shared by a node's workers: one word, one compare-exchange per draw.
///
/// The problem: cells live in pools that are cleared as a whole, but a bucket outlives its pool's window. A
/// pool's window lasts at least as long as the bucket takes to fill, so what the pool before the last knew is
/// worth nothing; what the last one knows must move over, exactly once, while some workers still draw there.
/// So it moves at the key's first touch in the new pool: the old cell is closed (one bit, set for good; its
/// level is frozen with it), and the frozen level is put into the new cell unless that has one already. Every
/// worker that meets the key does the same and finds the same level, so nobody waits for anybody. A worker
/// that still held the old cell finds it closed and moves too. A key the old pool does not know is claimed
/// there first, for the same reason. (Not one that shares its cell: see WorkerCore::own_bucket_before().)
///
/// Word: the level of limit/bucket.h with its two low bits: 1 set, 2 closed. 0: a bucket never touched, full.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>

#include "limit/bucket.h"
#include "limit/share.h"
#include "shared/allowance_pool.h"

namespace weir {

class BucketCell {
 public:
  explicit BucketCell(AllowanceCell& cell) noexcept : level_(cell.drawn) {}

  /// Makes sure the cell has a level: its own, the one the ended pool's cell holds, or a full bucket's.
  /// @param ended   the key's cell in the pool before, or nullptr
  /// @param beside  another one of its key's there, which goes on by itself, or nullptr: where `ended` has no
  /// level it begins with this one's, but not in debt
  void take_over(AllowanceCell* ended, const BucketTerms& terms, MonotonicTime now,
                 const AllowanceCell* beside = nullptr) noexcept {
    // Relaxed throughout, as in AllowanceCell: the word is all there is to agree on.
    if (level_.load(std::memory_order_relaxed) != 0) return;
    const std::uint64_t generated = terms.generated(now);
    const auto level_in = [&](std::uint64_t word) { return terms.caught_up(word & ~marks, generated); };
    const std::uint64_t frozen =
        ended == nullptr ? 0 : ended->drawn.fetch_or(closed, std::memory_order_relaxed);
    std::uint64_t level = terms.full(generated);
    if ((frozen & set) != 0) {
      level = level_in(frozen);
    } else if (beside != nullptr && is_here(*beside)) {
      level = level_in(beside->drawn.load(std::memory_order_relaxed));
      if (terms.missing(level, generated) > terms.capacity()) level = generated & ~marks;
    }
    std::uint64_t untouched = 0;
    level_.compare_exchange_strong(untouched, level | set, std::memory_order_relaxed);
  }

  /// Whether the bucket is here: it has a level of its own.
  bool begun() const noexcept { return has_level(level_); }
  static bool begun(const AllowanceCell& cell) noexcept { return has_level(cell.drawn); }
  /// Whether it is here, and has not moved on.
  bool is_here() const noexcept { return has_open_level(level_); }
  static bool is_here(const AllowanceCell& cell) noexcept { return has_open_level(cell.drawn); }

  struct Draw {
    std::uint64_t taken = 0;      ///< tokens: 0 or at least what was needed
    std::uint64_t available = 0;  ///< units left, or there when it was refused
    bool closed = false;          ///< it is here no more: take it over in the pool that runs, draw again
  };

  /// Takes `need` tokens, and up to `more` further ones, at `price` each. What costs more than the bucket
  /// holds passes when it is full, and then only in so many of the bucket's fillings that it comes to the
  /// price: a node with a small share admits little, but never nothing.
  /// @param key  says in which ones; every node has its own hash of it
  /// @pre take_over(); need ≥ 1
  Draw draw(std::uint64_t key, std::uint64_t need, std::uint64_t more, TokenPrice price,
            const BucketTerms& terms, MonotonicTime now) noexcept {
    const std::uint64_t generated = terms.generated(now);
    // A request that could never pass must not pass as one that is merely dear for this node.
    if (need > terms.burst()) return {0, available(terms, now), false};
    const unsigned __int128 whole = at_price(terms.cost(need), price);
    std::uint64_t needed = cut(whole);
    if (whole > terms.capacity()) {
      const double part = static_cast<double>(terms.capacity()) / static_cast<double>(whole);
      // Numbers of levels begin anew too soon to tell one from the other.
      const std::int64_t filling = now.time_since_epoch() / terms.fills_in();
      if (whole_requests(part, key, filling) == 0) return {0, available(terms, now), false};
      needed = terms.capacity();
    }
    std::uint64_t word = level_.load(std::memory_order_relaxed);
    for (;;) {
      // Where nobody has begun one, the cell has been cleared under a worker that stalled, and is nobody's or
      // another key's by now.
      if ((word & marks) != set) return {.taken = 0, .available = 0, .closed = true};
      const std::uint64_t level = terms.caught_up(word & ~marks, generated);
      const std::uint64_t there = terms.available(level, generated);
      if (there < needed) return {0, there, false};
      std::uint64_t take = need;
      std::uint64_t cost = needed;
      if (const std::uint64_t larger = priced(terms.cost(need + more), price);
          more > 0 && larger <= there / 2) {
        take = need + more;
        cost = larger;
      }
      if (level_.compare_exchange_weak(word, (level + cost) | set, std::memory_order_relaxed,
                                       std::memory_order_relaxed))
        return {take, there > cost ? there - cost : 0, false};
    }
  }

  /// Puts tokens back that were drawn and not used. @return false: the bucket has moved on, without them
  bool give_back(std::uint64_t tokens, TokenPrice price, const BucketTerms& terms) noexcept {
    return change([&](std::uint64_t level) { return level - priced(terms.cost(tokens), price); });
  }

  /// The same, as far as the bucket lacks them.
  /// @return how many it has taken back; nothing: it has moved on
  std::optional<std::uint64_t> fill_up(std::uint64_t tokens, TokenPrice price, const BucketTerms& terms,
                                       MonotonicTime now) noexcept {
    const std::uint64_t generated = terms.generated(now);
    const std::uint64_t whole = priced(terms.cost(tokens), price);
    std::uint64_t units = 0;
    const bool here = change([&](std::uint64_t level) {
      level = terms.caught_up(level, generated);
      units = std::min(whole, terms.missing(level, generated));
      return level - units;
    });
    if (!here) return std::nullopt;
    if (units == whole) return units == 0 ? 0 : tokens;
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(terms.tokens(units)) * full_price /
                                      price);
  }

  /// Takes tokens whether they are there or not, down to one whole bucket of debt: what others have admitted,
  /// or what a request has cost beyond its weight.
  void charge(std::uint64_t tokens, const BucketTerms& terms, MonotonicTime now,
              TokenPrice price = full_price) noexcept {
    const std::uint64_t generated = terms.generated(now);
    change([&](std::uint64_t level) {
      level = terms.caught_up(level, generated);
      // To the deepest debt. A worker whose clock is ahead may have drawn what is not there yet.
      const auto room = static_cast<std::int64_t>(generated + terms.capacity() - level);
      return level + std::min(priced(terms.cost(tokens), price),
                              static_cast<std::uint64_t>(std::max(room, std::int64_t{0})));
    });
  }

  /// Multiplies what there is; what goes beyond a full bucket is gone.
  void scale(double by, const BucketTerms& terms, MonotonicTime now) noexcept {
    const std::uint64_t generated = terms.generated(now);
    change([&](std::uint64_t level) {
      const std::uint64_t there = terms.available(terms.caught_up(level, generated), generated);
      const double scaled = std::min(static_cast<double>(there) * by, static_cast<double>(terms.capacity()));
      // A debt stays what it is.
      return there == 0 ? level : generated - (static_cast<std::uint64_t>(scaled) & ~marks);
    });
  }

  /// Units there are at `now`.
  std::uint64_t available(const BucketTerms& terms, MonotonicTime now) const noexcept {
    return left_at(level_.load(std::memory_order_relaxed), terms, now);
  }
  static std::uint64_t available(const AllowanceCell& cell, const BucketTerms& terms,
                                 MonotonicTime now) noexcept {
    return left_at(cell.drawn.load(std::memory_order_relaxed), terms, now);
  }

  /// Units that it lacks at `now` to be full; in debt more than it holds.
  std::uint64_t missing(const BucketTerms& terms, MonotonicTime now) const noexcept {
    return missing_at(level_.load(std::memory_order_relaxed), terms, now);
  }
  static std::uint64_t missing(const AllowanceCell& cell, const BucketTerms& terms,
                               MonotonicTime now) noexcept {
    return missing_at(cell.drawn.load(std::memory_order_relaxed), terms, now);
  }

  /// What a cost is at a price, never beyond what differences of levels can tell.
  static constexpr std::uint64_t priced(std::uint64_t cost, TokenPrice price) noexcept {
    return cut(at_price(cost, price));
  }

 private:
  static constexpr std::uint64_t set = 1;
  static constexpr std::uint64_t closed = 2;
  static constexpr std::uint64_t marks = set | closed;
  static_assert(BucketTerms::unit == marks + 1);

  static constexpr unsigned __int128 at_price(std::uint64_t cost, TokenPrice price) noexcept {
    return static_cast<unsigned __int128>(cost) * price / full_price;
  }
  static constexpr std::uint64_t cut(unsigned __int128 whole) noexcept {
    constexpr std::uint64_t most = BucketTerms::max_burst * BucketTerms::unit;
    return whole > most ? most : static_cast<std::uint64_t>(whole) & ~marks;
  }

  static bool has_level(const std::atomic<std::uint64_t>& level) noexcept {
    return (level.load(std::memory_order_relaxed) & set) != 0;
  }
  static bool has_open_level(const std::atomic<std::uint64_t>& level) noexcept {
    return (level.load(std::memory_order_relaxed) & marks) == set;
  }
  static std::uint64_t left_at(std::uint64_t word, const BucketTerms& terms, MonotonicTime now) noexcept {
    return terms.capacity() - std::min(missing_at(word, terms, now), terms.capacity());
  }
  static std::uint64_t missing_at(std::uint64_t word, const BucketTerms& terms, MonotonicTime now) noexcept {
    if ((word & set) == 0) return 0;
    const std::uint64_t generated = terms.generated(now);
    return terms.missing(terms.caught_up(word & ~marks, generated), generated);
  }

  /// @return false: the bucket has moved on
  template <typename Change>
  bool change(Change&& next) noexcept {
    std::uint64_t word = level_.load(std::memory_order_relaxed);
    for (;;) {
      // A bucket that has moved on is its next cell's business; one never touched is full.
      if ((word & closed) != 0) return false;
      if ((word & set) == 0) return true;
      if (level_.compare_exchange_weak(word, next(word & ~marks) | set, std::memory_order_relaxed,
                                       std::memory_order_relaxed))
        return true;
    }
  }

  std::atomic<std::uint64_t>& level_;
};

}  // namespace weir
