// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a store still owes its shared counters. Pure: no I/O, no clock, no lock.
///
/// The problem: an answer that does not come leaves it unknown whether a batch was applied. A changed batch
/// could then neither be sent again (what had been applied would be added twice) nor be dropped (it would be
/// added never). So a batch, once cut, stays as it is, with its number, until it is answered or its counters
/// have expired; what comes in meanwhile waits behind it. One batch per partition is out at a time, and
/// partitions do not wait for each other.
///
/// Conservation, at any moment: submitted() = pending() + applied() + expired(), in units of weight, modulo
/// 2^64. What is returned travels in the same batches and is not part of these sums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "store/store.h"

namespace weir {

/// Partitions of the counters' names: constant, because every node and every version must find the same
/// counter.
inline constexpr std::uint32_t store_partitions = 16;

/// The partition of a name ("rule|value"): FNV-1a (64 bits) modulo store_partitions. The name alone decides,
/// so that a key's counters of all ordinals are neighbours.
std::uint32_t partition_of(std::string_view name) noexcept;

/// Merged counts on their way to one counter.
struct OutboxEntry {
  std::uint64_t key = 0;  ///< the caller's handle, the latest given
  std::string name;
  Ordinal ordinal = 0;
  std::uint64_t delta = 0;     ///< at most Outbox::max_delta
  std::uint64_t returned = 0;  ///< likewise; with a delta of 0 as well it only reads
  std::uint8_t tag = 0;        ///< the caller's mark, the latest given
  Duration time_to_live{};
  MonotonicTime expires{};
};

/// What goes out in one piece, and is applied in one piece.
struct OutboxBatch {
  std::uint32_t partition = 0;
  std::uint64_t sequence = 0;  ///< 1, 2, … per partition
  MonotonicTime expires{};     ///< when the last of its entries does
  std::vector<OutboxEntry> entries;
};

/// What became of one entry of an answered batch.
struct OutboxOutcome {
  bool applied = false;     ///< else refused for good: its counter cannot be added to
  std::uint64_t total = 0;  ///< of the counter; where applied
};

class Outbox {
 public:
  /// What one write may add: Redis counts in signed 64 bits. The excess is given up, as expired.
  static constexpr std::uint64_t max_delta = std::numeric_limits<std::int64_t>::max();

  /// @param batch_entries  the most entries of one batch, ≥ 1
  explicit Outbox(std::size_t batch_entries) noexcept : batch_entries_(batch_entries) {}

  /// Takes over writes, merging those that wait for the same counter. Expired ones count as expired at once.
  void submit(std::span<const CounterWrite> writes, MonotonicTime now);

  /// Gives up what has expired by `now`: waiting entries one by one, a batch that is out as a whole.
  void expire(MonotonicTime now);

  /// The batch of a partition that is to be sent (again): the one that is out, unchanged, else a new one cut
  /// from what waits, oldest first. Stays valid, and is not touched by submit(), until answer() or expire().
  /// @return nullptr when there is nothing to send
  const OutboxBatch* next(std::uint32_t partition);

  /// Whether next() has something, for any partition.
  bool ready() const noexcept;

  /// The batch that is out has been applied, exactly once. Appends the replies of the entries applied;
  /// refused ones count as expired.
  /// @param sequence  of the batch the answer belongs to; a number that is not out is ignored
  /// @pre outcomes.size() equals the batch's number of entries
  /// @return the entries refused
  std::size_t answer(std::uint32_t partition, std::uint64_t sequence, std::span<const OutboxOutcome> outcomes,
                     std::vector<CounterReply>& replies);

  std::uint64_t submitted() const noexcept { return submitted_; }
  std::uint64_t pending() const noexcept { return submitted_ - applied_ - expired_; }
  std::uint64_t applied() const noexcept { return applied_; }
  std::uint64_t expired() const noexcept { return expired_; }

  /// Entries waiting or out: what memory is spent on.
  std::size_t entries() const noexcept;

 private:
  struct CounterId {
    std::string_view name;  // of the entry in `waiting`
    Ordinal ordinal;
    bool operator==(const CounterId&) const = default;
  };
  struct CounterIdHash {
    std::size_t operator()(const CounterId& id) const noexcept;
  };
  using Entries = std::list<OutboxEntry>;
  struct Partition {
    Entries waiting;  // oldest first
    std::unordered_map<CounterId, Entries::iterator, CounterIdHash> index;
    OutboxBatch out;  // without entries: none is out
    std::uint64_t last_sequence = 0;
    MonotonicTime earliest = MonotonicTime::max();  // no waiting entry expires before it
  };

  void add(const CounterWrite& write);
  void expire_waiting(Partition& partition, MonotonicTime now);
  void expire_out(Partition& partition, MonotonicTime now);

  std::size_t batch_entries_;
  std::array<Partition, store_partitions> partitions_;
  std::uint64_t submitted_ = 0;
  std::uint64_t applied_ = 0;
  std::uint64_t expired_ = 0;
};

}  // namespace weir
