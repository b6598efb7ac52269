// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What one node holds of a strict key's quota in one interval.
///
/// The store's counter is what has been claimed of the limit. A node claims ahead of need by adding to it,
/// and the sum that comes back tells what it got: all of its claim, or the part of it that lay below the
/// limit; what lay beyond it gives back. Additions are applied one after the other, so the parts that nodes
/// got never overlap and never reach beyond the limit: whatever is delayed, lost or repeated, what nodes may
/// admit adds up to at most the limit. (The sum in a repeated answer may be larger than it was when the claim
/// was applied: then a node gets less than it might have had, never more.) A node that dies strands what it
/// held.
///
/// A store that is wiped, or comes back as it was some time ago, has lost claims. A node that holds more than
/// the sum says notices it, gives back what it has claimed just now, and claims anew what it holds. So no
/// node ever holds more than the limit, whatever the store forgets; and all together no more than the limit
/// once more each time: as much as is claimed before those that hold the rest have asked, or by who does not
/// notice, because as much as it holds itself has been claimed since.
///
/// Quota goes back only when no worker can draw on it any more: first the publication allows less, and after
/// all workers have taken that up, what they did not draw is given back; a span later, for what those drew of
/// the larger allowance who changed over to that span's tables first is in no count before. Where a worker
/// stands still that may be never: what is needed again meanwhile is allowed again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/span_clock.h"

namespace weir {

class Lease {
 public:
  Ordinal ordinal = 0;
  std::uint64_t granted = 0;   ///< what this node may admit in the interval
  std::uint64_t admitted = 0;  ///< of it, by the counts drained so far
  std::uint64_t asked = 0;     ///< claimed and not yet answered, …
  std::int64_t asked_in = 0;   ///< …in this span, by its number among all that have passed
  std::uint64_t owed = 0;      ///< to be given back with the next write
  std::uint64_t missing = 0;   ///< held, and to be claimed anew with the next write: the store has lost it
  std::uint64_t restored = 0;  ///< of `asked`: what has been claimed anew
  std::uint64_t lowered = 0;   ///< with `lowering`: what the publication allows while workers take it up
  std::uint64_t total = 0;     ///< claimed by all, by the latest answer
  bool lowering = false;
  bool heard = false;  ///< with `lowering`: all workers have taken it up, and drawn what they may have before
  bool used_up = false;  ///< the limit has been claimed whole, or may have been
  bool held = false;     ///< the lease is of `ordinal`; else it is blank

  /// What workers may draw.
  std::uint64_t allowance() const noexcept { return lowering ? std::min(lowered, granted) : granted; }

  void begin(Ordinal of) noexcept {
    *this = Lease();
    ordinal = of;
    held = true;
  }

  /// The store has applied a claim.
  void answered(std::uint64_t claim, std::uint64_t sum, std::uint64_t limit) noexcept {
    asked -= std::min(asked, claim);
    const std::uint64_t anew = std::min(restored, claim);
    restored -= anew;
    claim -= anew;
    const bool lost = sum < claim || sum - claim < granted;
    const std::uint64_t beyond = lost ? claim : sum > limit ? std::min(claim, sum - limit) : 0;
    granted += claim - beyond;
    owed += beyond;
    if (lost) missing = granted - std::min(granted, restored);
    total = std::max(sum, granted);
    used_up = lost || sum >= limit;
  }

  /// A claim goes out. @return with what is claimed anew
  std::uint64_t ask(std::uint64_t claim, std::int64_t span) noexcept {
    const std::uint64_t anew = std::exchange(missing, 0);
    restored += anew;
    claim += anew;
    asked += claim;
    if (claim > 0) asked_in = span;
    return claim;
  }
  /// There will be no answer; what was claimed anew is missing still. (If there is one after all, it tells of
  /// that, and what is claimed once more is new.)
  void give_up() noexcept {
    asked = 0;
    missing += std::exchange(restored, 0);
  }

  /// Gives back all that workers have not drawn. @pre none of them can draw any more
  void close() noexcept { keep(admitted); }

  /// Begins to lower what workers may draw.
  void lower(std::uint64_t to) noexcept {
    lowered = to;
    lowering = true;
    heard = false;
  }
  /// They need more again: as much as there still is, that may be had.
  void raise(std::uint64_t to) noexcept {
    lowered = std::max(lowered, to);
    lowering = lowering && lowered < granted;
  }
  /// A span has ended by whose end all workers had taken the lower allowance up; its counts are in
  /// `admitted`.
  void lowered_everywhere() noexcept {
    if (!lowering || !std::exchange(heard, true)) return;
    lowering = false;
    keep(std::max(lowered, admitted));
  }

 private:
  void keep(std::uint64_t what) noexcept {
    if (granted <= what) return;
    owed += granted - what;
    granted = what;
  }
};

}  // namespace weir
