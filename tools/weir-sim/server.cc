// SPDX-License-Identifier: BSD-3-Clause
#include "server.h"

#include <algorithm>

namespace weir::sim {

Server::NameId Server::intern(std::string_view name) {
  if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
  const auto id = static_cast<NameId>(ledgers_.size());
  ids_.emplace(name, id);
  ledgers_.emplace_back();
  return id;
}

void Server::apply(std::uint64_t sender, const OutboxBatch& batch, Duration now,
                   std::vector<OutboxOutcome>& outcomes) {
  bury(now);
  if (added_by_.size() <= sender) added_by_.resize(sender + 1);
  auto group = groups_.find(batch.group);
  if (group != groups_.end() && group->second.dies <= now) {
    groups_.erase(group);
    group = groups_.end();
  }
  const auto marker_of = [&](const Group& of) {
    const auto marker = of.markers.find(sender);
    return marker == of.markers.end() ? 0 : marker->second;
  };
  const bool again = group != groups_.end() && marker_of(group->second) >= batch.sequence;
  // Sent again after a wipe that took the first copy with it: it counts for the counters, and has been
  // counted here.
  bool in_ledger = false;
  if (const auto wiped = wiped_.find(batch.group); wiped != wiped_.end())
    if (const auto number = wiped->second.find(sender); number != wiped->second.end())
      in_ledger = number->second >= batch.sequence;

  outcomes.clear();
  for (const OutboxEntry& entry : batch.entries) {
    ++operations_;
    const NameId id = intern(batch.name(entry));
    const std::int64_t change =
        static_cast<std::int64_t>(entry.delta) - static_cast<std::int64_t>(entry.returned);
    if (!again && (change != 0 || entry.raised_to > 0)) {
      if (group == groups_.end()) group = groups_.try_emplace(batch.group).first;
      Group& hash = group->second;
      // The marker must not die before its batch can come again.
      if (!hash.markers.contains(sender)) hash.dies = std::max(hash.dies, now + batch.time_to_live);
      hash.markers[sender] = batch.sequence;
      std::int64_t& value = hash.counters[id];
      value = std::max(value + change, static_cast<std::int64_t>(entry.raised_to));
      if (!in_ledger) ledgers_[id][batch.group.ordinal] += change;
      if (!in_ledger && id < counted_) added_by_[sender] += change;
    }
    std::int64_t value = 0;
    if (group != groups_.end())
      if (const auto counter = group->second.counters.find(id); counter != group->second.counters.end())
        value = counter->second;
    outcomes.push_back({true, static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0))});
  }
}

// For the memory's sake: what is dead is dead for apply() anyway.
void Server::bury(Duration now) {
  if (now < buried_ + std::chrono::seconds{1}) return;
  buried_ = now;
  std::erase_if(groups_, [&](const auto& group) { return group.second.dies <= now; });
}

void Server::wipe() {
  for (const auto& [id, group] : groups_)
    for (const auto& [sender, sequence] : group.markers) {
      std::uint64_t& highest = wiped_[id][sender];
      highest = std::max(highest, sequence);
    }
  groups_.clear();
}

std::int64_t Server::added_by(std::uint64_t sender) const noexcept {
  return sender < added_by_.size() ? added_by_[sender] : 0;
}

}  // namespace weir::sim
