// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The store's server: what the script of the Redis client does there, and a second ledger that wipes do not
/// touch, so that the end of a run can be held against what the workers counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ordinal_counts.h"
#include "store/outbox.h"

namespace weir::sim {

class Server {
 public:
  using NameId = std::uint32_t;

  /// Numbers a name. The names of a scenario's keys come first, in order, so that their ids are known.
  NameId intern(std::string_view name);

  /// Applies a batch as the script does, at most once per sender and number; later copies only read.
  /// @param sender  of the batch, one number per store object
  void apply(std::uint64_t sender, const OutboxBatch& batch, Duration now,
             std::vector<OutboxOutcome>& outcomes);

  /// Forgets every counter and marker, as after a restart without persistence.
  void wipe();

  /// What has been added to a name's counters, less what was given back; never wiped, never expired.
  const OrdinalCounts& ledger(NameId name) const noexcept { return ledgers_[name]; }
  std::size_t names() const noexcept { return ledgers_.size(); }

  /// Added by one sender to the first names, as many as set_counted() says, less what it gave back.
  std::int64_t added_by(std::uint64_t sender) const noexcept;
  void set_counted(NameId names) noexcept { counted_ = names; }

  std::uint64_t operations() const noexcept { return operations_; }

 private:
  /// One hash of the store: the counters of a group, and beside them, living and dying with them, the number
  /// of each sender's last batch.
  struct Group {
    Duration dies{};
    std::unordered_map<NameId, std::int64_t> counters;
    std::unordered_map<std::uint64_t, std::uint64_t> markers;  // by sender
  };
  struct GroupHash {
    std::size_t operator()(const OutboxGroupId& id) const noexcept {
      const auto interval = static_cast<std::uint64_t>(id.interval.count());
      return std::hash<std::uint64_t>{}(
          (static_cast<std::uint64_t>(id.ordinal) * 1'000'003 + interval) * store_partitions + id.partition);
    }
  };

  void bury(Duration now);

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };

  std::unordered_map<std::string, NameId, Hash, std::equal_to<>> ids_;
  std::vector<OrdinalCounts> ledgers_;  // by name
  std::unordered_map<OutboxGroupId, Group, GroupHash> groups_;
  /// What a wipe has taken: by group, of each sender the highest number.
  std::unordered_map<OutboxGroupId, std::unordered_map<std::uint64_t, std::uint64_t>, GroupHash> wiped_;
  std::vector<std::int64_t> added_by_;  // by sender
  Duration buried_{};
  NameId counted_ = 0;
  std::uint64_t operations_ = 0;
};

}  // namespace weir::sim
