// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The store's server: what the script of the Redis client does there, and a second ledger that wipes do not
/// touch, so that the end of a run can be held against what the workers counted.
#pragma once

#include <cstdint>
#include <map>
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
  /// @param sender       of the batch, one number per store object
  /// @param marker_life  of the sender's marker, from `now` on
  void apply(std::uint64_t sender, const OutboxBatch& batch, Duration marker_life, Duration now,
             std::vector<OutboxOutcome>& outcomes);

  /// Forgets every counter and marker, as after a restart without persistence.
  void wipe();

  /// What has been added to a name's counters, less what was given back; never wiped, never expired.
  const OrdinalCounts& ledger(NameId name) const noexcept { return names_[name].ledger; }
  std::size_t names() const noexcept { return names_.size(); }

  /// Added by one sender to the names below `known`, less what it gave back.
  std::int64_t added_by(std::uint64_t sender) const noexcept;
  void set_known(NameId names) noexcept { known_ = names; }

  std::uint64_t operations() const noexcept { return operations_; }

 private:
  struct Counter {
    Ordinal ordinal;
    std::int64_t value;
    Duration dies;
  };
  struct Name {
    std::vector<Counter> counters;  // those alive, oldest first, and some that have died
    OrdinalCounts ledger;
  };
  struct Marker {
    std::uint64_t sequence = 0;
    Duration dies{};
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };

  std::unordered_map<std::string, NameId, Hash, std::equal_to<>> ids_;
  std::vector<Name> names_;
  std::unordered_map<std::uint64_t, Marker> markers_;  // by sender and partition
  std::unordered_map<std::uint64_t, std::uint64_t>
      wiped_;                           // the same places: the highest number a wipe has taken
  std::vector<std::int64_t> added_by_;  // by sender
  NameId known_ = 0;
  std::uint64_t operations_ = 0;
};

}  // namespace weir::sim
