// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What the controller tells the workers: an immutable snapshot, read through RCU. A worker loads it once per
/// burst; the controller builds the next one beside it, swaps the pointer, and reuses the old one after a
/// grace period.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/span_clock.h"
#include "shared/allowance_pool.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

/// One key that differs from its rule's default.
struct KeyState {
  std::uint64_t key = 0;  ///< keyed hash; 0: an empty place
  std::uint64_t allowance = 0;
  MonotonicTime blocked_until = never;
};

/// Rules with the same interval share their ordinals, and so their pools.
struct IntervalState {
  Ordinal ordinal = 0;
  MonotonicTime ends{};
  AllowancePool* running = nullptr;  ///< of this ordinal
  AllowancePool* ended = nullptr;    ///< of the one before: its refusals hold until they have been judged
};

/// Written by the controller before it is published, by nobody after.
class Publication {
 public:
  std::uint64_t generation = 0;
  WallTime began{};    ///< when the running span began: names the ordinals of what is counted in it
  bool judged = true;  ///< false: the span before has ended, but has not been decided upon yet
  std::vector<IntervalState> intervals;
  std::vector<std::uint64_t> default_allowance;  ///< by rule
  std::vector<std::uint8_t> table_of_worker;     ///< which of its two tables each worker counts in

  /// Empties the set of keys and makes room for `count` of them.
  void reset_keys(std::size_t count);
  /// @pre fewer keys than made room for, each once
  void add_key(const KeyState& state) noexcept;
  /// The key's entry, or nullptr: then its rule's default holds.
  const KeyState* find(std::uint64_t key) const noexcept {
    for (std::size_t i = key & mask_;; i = (i + 1) & mask_) {
      const KeyState& state = keys_[i];
      if (state.key == key) return &state;
      if (state.key == 0) return nullptr;
    }
  }

 private:
  std::vector<KeyState> keys_{1};  // open addressing, at most half full
  std::size_t mask_ = 0;
};

/// The pointer between the planes. Written by the controller, read by workers that are online.
class PublicationSlot {
 public:
  /// Release: whoever sees the pointer sees what it points to.
  void publish(const Publication* next) noexcept { current_.store(next, std::memory_order_release); }
  /// Acquire: pairs with publish(). nullptr before the first publication.
  const Publication* load() const noexcept { return current_.load(std::memory_order_acquire); }

 private:
  alignas(64) std::atomic<const Publication*> current_{nullptr};
};

}  // namespace weir
