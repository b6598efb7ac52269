// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// All groups of counters that a node exchanges with the others (exchange_group.h), and what they may cost.
/// Pure: no I/O, no clock, no lock.
///
/// Bounds. A group is kept until its counters have expired. All groups together know at most so many
/// counters. What others have counted of keys that this node has never been asked for is left out first:
/// asked for one of those, a group reads the others' logs anew. If that is not enough, whole groups are
/// forgotten that have nothing under way, those that expire first before others: a group that is asked for
/// again begins a new log, and reads everything in the store, its own old log with the others'. So totals are
/// right whatever is forgotten; what it costs is reading.
///
/// Seeds. The one last seen in a partition is proposed for its next group, so that all nodes soon propose the
/// same and no one has to be told.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/exchange/exchange_group.h"
#include "store/outbox.h"

namespace weir {

class Exchange {
 public:
  /// A log's name: sixteen digits of its node's instance, and the log's number.
  static constexpr std::size_t writer_length = 24;

  /// @param instance      random hexadecimal digits that no other object has, at least sixteen
  /// @param seed          random text: what is proposed where none is known yet
  /// @param scatter       of tables: random
  /// @param max_counters  that are known at most, but for those of the batches under way
  Exchange(std::string instance, const std::string& seed, std::uint64_t scatter, std::size_t max_counters);

  using Progress = ExchangeGroup::Progress;

  /// Makes a batch the one under way of its group, to be sent now. @return its group; valid until the next
  /// change
  const ExchangeGroup& begin(const OutboxBatch& batch);
  /// The group that a batch is, or was, under way of; nullptr: there is none.
  const ExchangeGroup* find(const OutboxGroupId& group) const;
  /// A batch that is under way is to be sent again: what is still to be answered is of no use.
  void cancel(const OutboxBatch& batch);

  /// Takes in what the script has answered to a batch that is under way. When it is done, its group has the
  /// outcomes.
  Progress absorb(const OutboxBatch& batch, const ExchangeAnswer& answer);
  /// Takes in what was asked for. Of an answer that is late: wait.
  Progress absorb(const OutboxBatch& batch, std::span<const std::optional<std::string_view>> pieces,
                  std::uint64_t turn);

  /// Forgets the groups that have expired.
  /// @param is_out  whether a batch is still under way
  void expire(MonotonicTime now, const std::function<bool(const OutboxGroupId&, std::uint64_t)>& is_out);

  /// Counters known.
  std::size_t counters() const noexcept { return counters_; }
  std::size_t groups() const noexcept { return groups_.size(); }
  /// Pieces of others that were damaged, ever.
  std::uint64_t damaged() const noexcept { return damaged_; }

 private:
  struct Held {
    ExchangeGroup group;
    MonotonicTime expires = MonotonicTime::min();
  };
  using Groups = std::unordered_map<OutboxGroupId, Held, OutboxGroupIdHash>;

  Held* held(const OutboxBatch& batch);
  ExchangeGroup fresh(std::uint32_t partition);
  void make_room(Held& wanted, const OutboxBatch& batch);

  std::string instance_;
  std::array<std::string, store_partitions> seeds_;  // seen last, or to be proposed
  std::uint64_t scatter_;
  std::size_t max_counters_;
  std::size_t most_with_others_;  // from then on nothing of others is learnt that was not asked for
  std::uint64_t last_log_ = 0;
  Groups groups_;
  std::size_t counters_ = 0;
  std::uint64_t damaged_ = 0;
  MonotonicTime look_at_ = MonotonicTime::min();  // when expire() has something to do, at the earliest
};

}  // namespace weir
