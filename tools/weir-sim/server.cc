// SPDX-License-Identifier: BSD-3-Clause
#include "server.h"

#include <algorithm>

namespace weir::sim {

Server::NameId Server::intern(std::string_view name) {
  if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
  const auto id = static_cast<NameId>(names_.size());
  ids_.emplace(name, id);
  names_.emplace_back();
  return id;
}

void Server::apply(std::uint64_t sender, const OutboxBatch& batch, Duration marker_life, Duration now,
                   std::vector<OutboxOutcome>& outcomes) {
  Marker& marker = markers_[sender * store_partitions + batch.partition];
  const bool again = marker.dies > now && marker.sequence >= batch.sequence;
  if (!again) marker = {batch.sequence, now + marker_life};
  // Sent again after a wipe that took the first copy with it: it counts for the counters, and has been
  // counted here.
  const auto wiped = wiped_.find(sender * store_partitions + batch.partition);
  const bool in_ledger = wiped != wiped_.end() && wiped->second >= batch.sequence;
  if (added_by_.size() <= sender) added_by_.resize(sender + 1);

  outcomes.clear();
  for (const OutboxEntry& entry : batch.entries) {
    ++operations_;
    const NameId id = intern(entry.name);
    Name& name = names_[id];
    // Counters of one name are made in about the order they die in.
    std::erase_if(name.counters, [&](const Counter& counter) { return counter.dies <= now; });
    auto counter = std::ranges::find(name.counters, entry.ordinal, &Counter::ordinal);
    const std::int64_t change =
        static_cast<std::int64_t>(entry.delta) - static_cast<std::int64_t>(entry.returned);
    if (!again && change != 0) {
      if (counter == name.counters.end())
        counter = name.counters.insert(counter, {entry.ordinal, 0, now + entry.time_to_live});
      counter->value += change;
      if (!in_ledger) name.ledger[entry.ordinal] += change;
      if (!in_ledger && id < known_) added_by_[sender] += change;
    }
    const std::int64_t value = counter == name.counters.end() ? 0 : counter->value;
    outcomes.push_back({true, static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0))});
  }
}

void Server::wipe() {
  for (Name& name : names_) name.counters.clear();
  for (const auto& [place, marker] : markers_) wiped_[place] = std::max(wiped_[place], marker.sequence);
  markers_.clear();
}

std::int64_t Server::added_by(std::uint64_t sender) const noexcept {
  return sender < added_by_.size() ? added_by_[sender] : 0;
}

}  // namespace weir::sim
