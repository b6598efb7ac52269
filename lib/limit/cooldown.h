// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The arithmetic of the seeds' throttle ("Decentralized Request Throttling", Concept and Extension): when a
/// limit is exceeded, how much one node may still admit, and how long a block lasts. Pure values; exact
/// integer arithmetic, so that reaching a limit is never mistaken for exceeding it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "weir/time.h"

namespace weir {

/// The effective number of nodes seen by one key: everybody's count over this node's own, in the last
/// interval that has ended. Kept as a ratio; its inverse is this node's share of the key's traffic.
class NodesRatio {
 public:
  /// One node: nothing is known of others.
  constexpr NodesRatio() noexcept = default;
  /// @pre own > 0. Others' counts of less than nothing (a wiped store) read as none.
  constexpr NodesRatio(std::uint64_t own, std::uint64_t others) noexcept
      : all_(others > std::numeric_limits<std::uint64_t>::max() - own
                 ? std::numeric_limits<std::uint64_t>::max()
                 : own + others),
        own_(own) {}

  constexpr double value() const noexcept { return static_cast<double>(all_) / static_cast<double>(own_); }

  /// count × nodes > limit
  constexpr bool exceeds(std::uint64_t count, std::uint64_t limit) const noexcept {
    return static_cast<unsigned __int128>(count) * all_ > static_cast<unsigned __int128>(limit) * own_;
  }

  /// span count × nodes > limit / spans
  constexpr bool exceeds_in_span(std::uint64_t span_count, std::uint64_t limit,
                                 std::uint32_t spans) const noexcept {
    return exceeds(span_count > std::numeric_limits<std::uint64_t>::max() / spans
                       ? std::numeric_limits<std::uint64_t>::max()
                       : span_count * spans,
                   limit);
  }

  /// The largest count that does not exceed the limit by exceeds(), but at least 1: a node that may admit
  /// nothing counts nothing, and would never learn that its share has grown.
  constexpr std::uint64_t allowance(std::uint64_t limit) const noexcept {
    const auto share = static_cast<unsigned __int128>(limit) * own_ / all_;
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(share));
  }

  constexpr bool is_one() const noexcept { return all_ == own_; }

 private:
  std::uint64_t all_ = 1;
  std::uint64_t own_ = 1;
};

/// What one node may admit of a key in one interval, given what others are known to have counted.
/// Others' part is a proof (sound), the node's share an estimate (predictive); the smaller one holds.
constexpr std::uint64_t node_allowance(std::uint64_t limit, std::uint64_t others,
                                       const NodesRatio& nodes) noexcept {
  return std::min(limit - std::min(limit, others), nodes.allowance(limit));
}

/// How long a rule's blocks last. A block of a key lasts the cooldown and, where blocks are to end out of
/// phase, up to `dephase` more: always the same for one key on one node, because it follows from the key's hash,
/// which each node keys for itself.
struct BlockTerms {
  Duration cooldown{};
  Duration dephase{};

  constexpr Duration length(std::uint64_t key) const noexcept {
    const auto later = static_cast<unsigned __int128>(dephase.count()) * (key >> 32) >> 32;
    const Duration rest = Duration::max() - cooldown;
    return cooldown + std::min(Duration(static_cast<std::int64_t>(later)), rest);
  }
};

/// A key's block. It ends one cooldown after it began: traffic neither shortens nor extends it.
class Block {
 public:
  constexpr bool active(MonotonicTime now) const noexcept { return now < until_; }
  constexpr MonotonicTime until() const noexcept { return until_; }

  /// Begins a block unless one is active at `at`. @return whether it has begun
  constexpr bool begin(MonotonicTime at, Duration cooldown) noexcept {
    if (active(at)) return false;
    until_ = at > MonotonicTime::max() - cooldown ? MonotonicTime::max() : at + cooldown;
    return true;
  }

 private:
  MonotonicTime until_ = never;
};

}  // namespace weir
