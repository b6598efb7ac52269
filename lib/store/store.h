// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The shared counters, as the controller sees them: one counter per key, length of interval and ordinal. A
/// store never blocks its caller.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/span_clock.h"
#include "weir/time.h"

namespace weir {

/// "Add `delta` to the counter of this key and ordinal, take `returned` off it, and tell me the sum." Both 0
/// only read. Or: "raise the counter to `raised_to`": a maximum instead of a sum; a counter is one or the
/// other.
struct CounterWrite {
  std::uint64_t key = 0;  ///< the caller's handle for the key, returned in the reply
  std::string_view name;  ///< "rule|value"; read during submit() only
  Ordinal ordinal = 0;
  /// That the ordinal counts, > 0: the same ordinal of another interval is another counter. (A store may tell
  /// intervals apart by their milliseconds only, rounded up.)
  Duration interval{};
  std::uint64_t delta = 0;
  /// From the write that creates the counter; ≥ 2 intervals + 2 spans. The same for all writes of one
  /// interval, in milliseconds.
  Duration time_to_live{};
  MonotonicTime expires{};  ///< when the write has become pointless: the counter would have expired by then
  std::uint64_t returned = 0;   ///< what was claimed of it before and not used
  std::uint64_t raised_to = 0;  ///< not 0: the counter is to be at least this; `delta` and `returned` are 0
  /// The caller's mark, returned in the reply. Writes to one counter that wait together may be answered as
  /// one: with the least of theirs.
  std::uint8_t tag = 0;
  bool weightless = false;  ///< counts no requests (a node's sign of life): left out of the figures' sums
  /// The counter must be one value in the store, not a sum of the nodes' parts: it is a maximum, or quota is
  /// claimed of it and returned. The same for all writes of a counter, also for those that only read.
  bool undivided = false;
};

/// The store's answer to one write.
struct CounterReply {
  std::uint64_t key = 0;
  Ordinal ordinal = 0;
  std::uint64_t delta =
      0;  ///< what the store has applied of this node's counts with this reply, exactly once
  std::uint64_t total = 0;     ///< the counter's value after it
  std::uint64_t returned = 0;  ///< taken off it with this reply, exactly once
  std::uint8_t tag = 0;        ///< of the write
};

/// What the store's clock said, once. Nodes that share a store agree on ordinals by it.
struct StoreTime {
  MonotonicTime asked{};     ///< the store's clock was read after this …
  MonotonicTime answered{};  ///< … and before this, by the caller's clock
  WallTime wall{};           ///< what it said
  std::uint64_t number = 0;  ///< 1, 2, …: which answers have been seen already
};

/// How the store is doing. Weights, not requests, where it counts counts.
struct StoreFigures {
  bool up = false;
  std::uint64_t batches = 0;   ///< answered
  std::uint64_t failures = 0;  ///< batches or connections that failed, each attempt
  std::uint64_t pending = 0;   ///< weight submitted and neither acknowledged nor expired
  std::uint64_t applied = 0;   ///< weight acknowledged
  std::uint64_t expired = 0;   ///< weight given up because its counter had expired
  Duration round_trip{};       ///< of the last answered batch
  std::string error;           ///< why it is down; empty while up
};

/// Shared counters. submit(), collect() and figures() belong to one thread at a time, the controller's.
/// Conservation: every delta submitted is pending until it is in exactly one reply or counted as expired
/// (the figures have the sums of all but weightless ones).
class Store {
 public:
  virtual ~Store() = default;

  /// Takes over writes; counts that cannot be sent yet are kept (merged per key and ordinal) and sent later,
  /// each exactly once, unless expired before. Returns at once.
  virtual void submit(const std::vector<CounterWrite>& writes, MonotonicTime now) = 0;

  /// What time it is by the caller's clock, told as soon as that has been read: what the store says of its
  /// own time goes by it, and when counters expire. Who never tells is taken to have read it for submit().
  /// Any thread, concurrently with all the others.
  virtual void now_is(MonotonicTime now) { static_cast<void>(now); }

  /// Appends the replies that have come in since the last call. Returns at once.
  virtual void collect(std::vector<CounterReply>& replies) = 0;

  /// A function to be called (by any thread) when collect() has something, time() has for the first time, or
  /// up/down has changed.
  virtual void on_ready(std::function<void()> wake) = 0;

  virtual StoreFigures figures() const = 0;

  /// The latest answer about the store's clock. Nothing: none yet, or the store has no clock of its own.
  virtual std::optional<StoreTime> time() const { return std::nullopt; }

  /// Whether time() tells something as soon as the store is reached, also if it is asked for nothing.
  virtual bool has_clock() const { return false; }

  /// Tries for at most `patience` of real time to get everything pending acknowledged, and also what is
  /// returned or raised; replies are to be collected afterwards. Another thread may ask for figures()
  /// meanwhile. @return true when nothing of that is pending.
  virtual bool flush(Duration patience) = 0;
};

}  // namespace weir
