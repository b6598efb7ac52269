// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a store still owes its shared counters. Pure: no I/O, no clock, no lock.
///
/// The problem: an answer that does not come leaves it unknown whether a batch was applied. A changed batch
/// could then neither be sent again (what had been applied would be added twice) nor be dropped (it would be
/// added never). So a batch, once cut, stays as it is, with its number, until it is answered or its counters
/// have expired; what comes in meanwhile waits behind it.
///
/// Counters of one partition, interval and ordinal make a group: they are created, sent and expire together,
/// and lie in one place of the store. One batch per group is out at a time; groups do not wait for each
/// other. Where the store wants it, plain sums make groups of their own.
///
/// Conservation, at any moment: submitted() = pending() + applied() + expired(), in units of weight, modulo
/// 2^64. What is returned, raised or weightless travels in the same batches and is not part of these sums.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/keyed_hash.h"
#include "store/backlog.h"
#include "store/store.h"

namespace weir {

/// Partitions of the counters: constant, because every node and every version must find the same counter.
/// Enough for the nodes of a large cluster to have about as many each, and for batches of one partition to be
/// short beside those of all; few enough for a small configuration.
inline constexpr std::uint32_t store_partitions = 64;

/// The partition of a name ("rule|value"): FNV-1a (64 bits) modulo store_partitions. The name alone decides.
std::uint32_t partition_of(std::string_view name) noexcept;

/// Which counters go together: exactly those that a store keeps in one place. Two groups in one place would
/// share what it remembers of the latest batch, and one's number would stand for the other's batches.
struct OutboxGroupId {
  std::uint32_t partition = 0;
  std::chrono::milliseconds interval{};  ///< rounded up, as the place is named
  Ordinal ordinal = 0;
  bool sums = false;  ///< of plain sums alone, apart from the others
  bool operator==(const OutboxGroupId&) const = default;
};
struct OutboxGroupIdHash {
  std::size_t operator()(const OutboxGroupId& id) const noexcept;
};

/// Merged counts on their way to one counter.
struct OutboxEntry {
  std::uint64_t key = 0;        ///< the caller's handle, the latest given
  std::uint64_t delta = 0;      ///< at most Outbox::max_delta
  std::uint64_t returned = 0;   ///< likewise; with a delta of 0 as well it only reads
  std::uint64_t raised_to = 0;  ///< the largest given; not 0: raises instead
  std::uint64_t hash = 0;       ///< of the name, keyed
  std::uint32_t name_at = 0;    ///< in the group's names
  std::uint32_t name_size = 0;
  std::uint8_t tag = 0;     ///< the caller's mark, the least given
  bool weightless = false;  ///< left out of the sums

  std::uint64_t weight() const noexcept { return weightless ? 0 : delta; }
  /// Whether it is more than what weight() says, or a question.
  bool changes() const noexcept { return returned != 0 || raised_to != 0; }
};

/// What goes out in one piece, and is applied in one piece. Valid until the outbox is next changed.
struct OutboxBatch {
  OutboxGroupId group;
  std::uint64_t sequence = 0;  ///< grows from batch to batch, over all groups
  Duration time_to_live{};     ///< of the group's counters, from their creation
  MonotonicTime expires{};     ///< when the last of them will have expired
  std::span<const OutboxEntry> entries;
  std::string_view names;

  std::string_view name(const OutboxEntry& entry) const noexcept {
    return names.substr(entry.name_at, entry.name_size);
  }
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
  /// @param max_entries    the most that are kept, fewer where names are long (store/backlog.h); what would
  ///                       be more is given up, as expired
  /// @param hash_key       nobody else's: clients choose parts of the names
  /// @param sums_entries   the most entries of one batch of plain sums, in groups of their own; 0: plain sums
  ///                       go with the others
  Outbox(std::size_t batch_entries, std::size_t max_entries, HashKey hash_key = {},
         std::size_t sums_entries = 0)
      : batch_entries_(batch_entries),
        sums_entries_(sums_entries),
        backlog_(max_entries),
        hash_key_(hash_key) {}

  /// Takes over writes, merging those that wait for the same counter. Expired ones count as expired at once.
  void submit(std::span<const CounterWrite> writes, MonotonicTime now);

  /// Gives up the groups that have expired by `now`, also what is out of them.
  void expire(MonotonicTime now);

  /// When expire() will next find something, if nothing changes.
  MonotonicTime next_expiry() const noexcept;

  /// A batch of the partition that is to be sent (again), and becomes the one that is out of its group: the
  /// one that retry() gave back, unchanged, else a new one cut from what waits, oldest first.
  std::optional<OutboxBatch> next(std::uint32_t partition);

  /// The batch that is out of the group has not been answered: next() is to give it again. A number that is
  /// not out is ignored.
  void retry(const OutboxGroupId& group, std::uint64_t sequence);

  /// The batch that is out; nothing when that number is not. For a second sending of it as it is.
  std::optional<OutboxBatch> out(const OutboxGroupId& group, std::uint64_t sequence) const;

  /// The batch that is out has been applied, exactly once. Appends the replies of the entries applied;
  /// refused ones count as expired.
  /// @param sequence  of the batch the answer belongs to; a number that is not out is ignored
  /// @pre outcomes.size() equals the batch's number of entries
  /// @return the entries refused
  std::size_t answer(const OutboxGroupId& group, std::uint64_t sequence,
                     std::span<const OutboxOutcome> outcomes, std::vector<CounterReply>& replies);

  /// Whether anything is waiting or out.
  bool empty() const noexcept { return groups_.empty(); }

  std::uint64_t submitted() const noexcept { return submitted_; }
  std::uint64_t pending() const noexcept { return submitted_ - applied_ - expired_; }
  std::uint64_t applied() const noexcept { return applied_; }
  std::uint64_t expired() const noexcept { return expired_; }

  /// Entries waiting or out: what memory is spent on.
  std::size_t entries() const noexcept { return backlog_.counters(); }
  /// Those of them that return or raise something.
  std::size_t changes() const noexcept { return changes_; }

 private:
  // One group's entries in the order they came: [0, out_begin) are done with, [out_begin, out_end) are out,
  // the rest waits. The index finds those that wait, by name: open addressing, at most half full, positions
  // + 1.
  struct Group {
    std::vector<OutboxEntry> entries;
    std::string names;
    std::vector<std::uint32_t> index;
    std::size_t out_begin = 0;
    std::size_t out_end = 0;
    std::uint64_t out_sequence = 0;  // 0: none is out
    Duration time_to_live{};
    MonotonicTime expires = MonotonicTime::min();  // when the last of its counters does
    bool queued = false;                           // in its partition's `ready_`

    OutboxEntry* find(std::string_view name, std::uint64_t hash) noexcept;
    bool has_room_for(std::string_view name) const noexcept;
    OutboxEntry& append(std::string_view name, std::uint64_t hash);  // where it has room for the name
    std::size_t names_before(std::size_t position) const noexcept;   // bytes of the entries before that
    void reindex(std::size_t slots);
    void forget_done();
    void clear() noexcept;
    std::uint64_t weight() const noexcept;  // of all that is waiting or out
    std::size_t changes() const noexcept;   // likewise
  };
  using Groups = std::unordered_map<OutboxGroupId, std::unique_ptr<Group>, OutboxGroupIdHash>;

  void add(const CounterWrite& write);
  Group& group_for(const OutboxGroupId& id);
  Groups::iterator drop(Groups::iterator group);
  void release(const Group& group, std::size_t from, std::size_t to) noexcept;  // entries [from, to)
  void queue(const OutboxGroupId& id, Group& group);
  OutboxBatch view(const OutboxGroupId& id, const Group& group) const;

  std::size_t batch_entries_;
  std::size_t sums_entries_;
  Backlog backlog_;  // of all that is waiting or out
  HashKey hash_key_;
  Groups groups_;
  std::vector<std::unique_ptr<Group>> spare_;  // their memory is wanted again with the next interval
  std::array<std::deque<OutboxGroupId>, store_partitions> ready_;
  std::uint64_t last_sequence_ = 0;
  std::size_t changes_ = 0;
  std::uint64_t submitted_ = 0;
  std::uint64_t applied_ = 0;
  std::uint64_t expired_ = 0;
};

}  // namespace weir
