// SPDX-License-Identifier: BSD-3-Clause
#include "store/outbox.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <functional>
#include <utility>

namespace weir {
namespace {

constexpr std::size_t least_index = 64;
constexpr std::size_t most_spare = 4 * store_partitions;
constexpr std::size_t most_spare_entries = 32 * 1024;
constexpr std::size_t most_spare_names = 64 * most_spare_entries;
/// Entries that are done with are moved out of the way when they take so many bytes, and half of all.
constexpr std::size_t forget_at = 256 * 1024;
/// A group's names are found by 32 bits.
constexpr std::size_t most_names = std::numeric_limits<decltype(OutboxEntry::name_at)>::max();
/// An entry has at most four places in its group's index.
static_assert(sizeof(OutboxEntry) + 4 * sizeof(std::uint32_t) <= Backlog::bytes_beside_name);

std::uint64_t fnv1a(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

std::size_t slot_of(std::uint64_t hash, std::size_t slots) noexcept { return hash & (slots - 1); }

}  // namespace

std::uint32_t partition_of(std::string_view name) noexcept {
  return static_cast<std::uint32_t>(fnv1a(name) % store_partitions);
}

std::size_t OutboxGroupIdHash::operator()(const OutboxGroupId& id) const noexcept {
  return (static_cast<std::uint64_t>(id.ordinal) * store_partitions + id.partition) * 0x9e3779b97f4a7c15 ^
         (static_cast<std::uint64_t>(id.interval.count()) << 1 | (id.sums ? 1 : 0));
}

OutboxEntry* Outbox::Group::find(std::string_view name, std::uint64_t hash) noexcept {
  if (index.empty()) return nullptr;
  for (std::size_t slot = slot_of(hash, index.size()); index[slot] != 0;
       slot = (slot + 1) & (index.size() - 1)) {
    const std::size_t position = index[slot] - 1;
    OutboxEntry& entry = entries[position];
    if (position >= out_end && entry.hash == hash &&
        std::string_view(names).substr(entry.name_at, entry.name_size) == name)
      return &entry;
  }
  return nullptr;
}

OutboxEntry& Outbox::Group::append(std::string_view name, std::uint64_t hash) {
  if ((entries.size() + 1) * 2 > index.size()) reindex(std::max(least_index, index.size() * 2));
  OutboxEntry& entry = entries.emplace_back();
  entry.hash = hash;
  entry.name_at = static_cast<std::uint32_t>(names.size());
  entry.name_size = static_cast<std::uint32_t>(name.size());
  names.append(name);
  std::size_t slot = slot_of(hash, index.size());
  while (index[slot] != 0) slot = (slot + 1) & (index.size() - 1);
  index[slot] = static_cast<std::uint32_t>(entries.size());
  return entry;
}

void Outbox::Group::reindex(std::size_t slots) {
  index.assign(slots, 0);
  for (std::size_t position = out_end; position < entries.size(); ++position) {
    std::size_t slot = slot_of(entries[position].hash, slots);
    while (index[slot] != 0) slot = (slot + 1) & (slots - 1);
    index[slot] = static_cast<std::uint32_t>(position + 1);
  }
}

std::size_t Outbox::Group::names_before(std::size_t position) const noexcept {
  return position < entries.size() ? entries[position].name_at : names.size();
}

bool Outbox::Group::has_room_for(std::string_view name) const noexcept {
  return name.size() <= most_names - names.size();
}

void Outbox::Group::forget_done() {
  const std::size_t names_done = names_before(out_begin);
  const std::size_t done = out_begin * Backlog::bytes_beside_name + names_done;
  if (done < forget_at || done * 2 < entries.size() * Backlog::bytes_beside_name + names.size()) return;
  entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(out_begin));
  names.erase(0, names_done);
  for (OutboxEntry& entry : entries) entry.name_at -= static_cast<std::uint32_t>(names_done);
  out_end -= out_begin;
  out_begin = 0;
  reindex(std::max(least_index, std::bit_ceil(entries.size() * 2 + 2)));
}

void Outbox::Group::clear() noexcept {
  entries.clear();
  names.clear();
  std::ranges::fill(index, 0);
  out_begin = out_end = 0;
  out_sequence = 0;
  time_to_live = Duration{};
  expires = MonotonicTime::min();
  queued = false;
}

std::uint64_t Outbox::Group::weight() const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = out_begin; i < entries.size(); ++i) sum += entries[i].weight();
  return sum;
}

std::size_t Outbox::Group::changes() const noexcept {
  return static_cast<std::size_t>(std::count_if(entries.begin() + static_cast<std::ptrdiff_t>(out_begin),
                                                entries.end(), std::mem_fn(&OutboxEntry::changes)));
}

void Outbox::submit(std::span<const CounterWrite> writes, MonotonicTime now) {
  for (const CounterWrite& write : writes) {
    const std::uint64_t weight = write.weightless ? 0 : write.delta;
    submitted_ += weight;
    if (write.expires <= now)
      expired_ += weight;
    else
      add(write);
  }
}

Outbox::Group& Outbox::group_for(const OutboxGroupId& id) {
  std::unique_ptr<Group>& group = groups_[id];
  if (group == nullptr && !spare_.empty()) {
    group = std::move(spare_.back());
    spare_.pop_back();
  }
  if (group == nullptr) group = std::make_unique<Group>();
  return *group;
}

Outbox::Groups::iterator Outbox::drop(Groups::iterator group) {
  Group& dropped = *group->second;
  release(dropped, dropped.out_begin, dropped.entries.size());
  changes_ -= dropped.changes();
  if (spare_.size() < most_spare && dropped.entries.capacity() <= most_spare_entries &&
      dropped.names.capacity() <= most_spare_names) {
    dropped.clear();
    spare_.push_back(std::move(group->second));
  }
  return groups_.erase(group);
}

void Outbox::release(const Group& group, std::size_t from, std::size_t to) noexcept {
  backlog_.remove(to - from, group.names_before(to) - group.names_before(from));
}

void Outbox::queue(const OutboxGroupId& id, Group& group) {
  if (std::exchange(group.queued, true)) return;
  ready_[id.partition].push_back(id);
}

void Outbox::add(const CounterWrite& write) {
  const std::uint64_t hash = keyed_hash(hash_key_, 0, std::as_bytes(std::span(write.name)));
  const bool sum = sums_entries_ > 0 && !write.undivided && write.returned == 0 && write.raised_to == 0;
  const OutboxGroupId id{partition_of(write.name),
                         std::chrono::ceil<std::chrono::milliseconds>(write.interval), write.ordinal, sum};
  const auto known = groups_.find(id);
  OutboxEntry* found = known == groups_.end() ? nullptr : known->second->find(write.name, hash);
  if (found == nullptr && (!backlog_.has_room_for(write.name.size()) ||
                           (known != groups_.end() && !known->second->has_room_for(write.name)))) {
    if (!write.weightless) expired_ += write.delta;
    return;
  }
  Group& group = known == groups_.end() ? group_for(id) : *known->second;
  if (found == nullptr) {
    found = &group.append(write.name, hash);
    found->tag = write.tag;
    backlog_.add(write.name.size());
  }
  OutboxEntry& entry = *found;
  entry.key = write.key;
  entry.tag = std::min(entry.tag, write.tag);
  entry.weightless = write.weightless;
  const bool changed = entry.changes();
  entry.returned += std::min(write.returned, max_delta - entry.returned);
  entry.raised_to = std::max(entry.raised_to, std::min(write.raised_to, max_delta));
  changes_ += !changed && entry.changes();
  const std::uint64_t taken = std::min(write.delta, max_delta - entry.delta);
  entry.delta += taken;
  if (!write.weightless) expired_ += write.delta - taken;
  group.time_to_live = std::max(group.time_to_live, write.time_to_live);
  group.expires = std::max(group.expires, write.expires);
  if (group.out_sequence == 0) queue(id, group);
}

void Outbox::expire(MonotonicTime now) {
  for (auto group = groups_.begin(); group != groups_.end();) {
    if (group->second->expires > now) {
      ++group;
      continue;
    }
    expired_ += group->second->weight();
    // While its server is away nobody takes it out.
    if (group->second->queued) std::erase(ready_[group->first.partition], group->first);
    group = drop(group);
  }
}

MonotonicTime Outbox::next_expiry() const noexcept {
  MonotonicTime next = MonotonicTime::max();
  for (const auto& [id, group] : groups_) next = std::min(next, group->expires);
  return next;
}

OutboxBatch Outbox::view(const OutboxGroupId& id, const Group& group) const {
  return {.group = id,
          .sequence = group.out_sequence,
          .time_to_live = group.time_to_live,
          .expires = group.expires,
          .entries = std::span(group.entries).subspan(group.out_begin, group.out_end - group.out_begin),
          .names = group.names};
}

std::optional<OutboxBatch> Outbox::next(std::uint32_t partition) {
  std::deque<OutboxGroupId>& ready = ready_[partition];
  while (!ready.empty()) {
    const OutboxGroupId id = ready.front();
    ready.pop_front();
    const auto found = groups_.find(id);
    // A group that has expired is gone; what has taken its name since is queued by itself.
    if (found == groups_.end() || !std::exchange(found->second->queued, false)) continue;
    Group& group = *found->second;
    if (group.out_sequence == 0) {
      const std::size_t most = id.sums ? sums_entries_ : batch_entries_;
      group.out_end = std::min(group.out_begin + most, group.entries.size());
      group.out_sequence = ++last_sequence_;
    }
    return view(id, group);
  }
  return std::nullopt;
}

void Outbox::retry(const OutboxGroupId& id, std::uint64_t sequence) {
  const auto found = groups_.find(id);
  if (found != groups_.end() && found->second->out_sequence == sequence) queue(id, *found->second);
}

std::optional<OutboxBatch> Outbox::out(const OutboxGroupId& id, std::uint64_t sequence) const {
  const auto found = groups_.find(id);
  if (found == groups_.end() || found->second->out_sequence != sequence) return std::nullopt;
  return view(id, *found->second);
}

std::size_t Outbox::answer(const OutboxGroupId& id, std::uint64_t sequence,
                           std::span<const OutboxOutcome> outcomes, std::vector<CounterReply>& replies) {
  const auto found = groups_.find(id);
  if (found == groups_.end() || found->second->out_sequence != sequence) return 0;
  Group& group = *found->second;
  assert(outcomes.size() == group.out_end - group.out_begin);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const OutboxEntry& entry = group.entries[group.out_begin + i];
    changes_ -= entry.changes();
    if (outcomes[i].applied) {
      applied_ += entry.weight();
      replies.push_back({.key = entry.key,
                         .ordinal = id.ordinal,
                         .delta = entry.delta,
                         .total = outcomes[i].total,
                         .returned = entry.returned,
                         .tag = entry.tag});
    } else {
      expired_ += entry.weight();
      ++refused;
    }
  }
  release(group, group.out_begin, group.out_end);
  group.out_begin = group.out_end;
  group.out_sequence = 0;
  if (group.out_begin == group.entries.size()) {
    drop(found);
    return refused;
  }
  group.forget_done();
  queue(id, group);
  return refused;
}

}  // namespace weir
