// SPDX-License-Identifier: BSD-3-Clause
#include "store/outbox.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace weir {
namespace {

std::uint64_t fnv1a(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

}  // namespace

std::uint32_t partition_of(std::string_view name) noexcept {
  return static_cast<std::uint32_t>(fnv1a(name) % store_partitions);
}

std::size_t Outbox::CounterIdHash::operator()(const CounterId& id) const noexcept {
  // Odd multiplier: successive ordinals of one name must not collide.
  return std::hash<std::string_view>{}(id.name) + static_cast<std::uint64_t>(id.ordinal) * 0x9e3779b97f4a7c15;
}

void Outbox::submit(std::span<const CounterWrite> writes, MonotonicTime now) {
  for (const CounterWrite& write : writes) {
    submitted_ += write.delta;
    if (write.expires <= now)
      expired_ += write.delta;
    else
      add(write);
  }
}

void Outbox::add(const CounterWrite& write) {
  Partition& partition = partitions_[partition_of(write.name)];
  auto found = partition.index.find({write.name, write.ordinal});
  if (found == partition.index.end()) {
    OutboxEntry& entry = partition.waiting.emplace_back();
    entry.name = write.name;
    entry.ordinal = write.ordinal;
    entry.expires = write.expires;
    const auto last = std::prev(partition.waiting.end());
    found = partition.index.emplace(CounterId{last->name, last->ordinal}, last).first;
  }
  OutboxEntry& entry = *found->second;
  entry.key = write.key;
  entry.tag = write.tag;
  entry.returned += std::min(write.returned, max_delta - entry.returned);
  const std::uint64_t taken = std::min(write.delta, max_delta - entry.delta);
  entry.delta += taken;
  expired_ += write.delta - taken;
  entry.time_to_live = std::max(entry.time_to_live, write.time_to_live);
  entry.expires = std::max(entry.expires, write.expires);
  partition.earliest = std::min(partition.earliest, write.expires);
}

void Outbox::expire(MonotonicTime now) {
  for (Partition& partition : partitions_) {
    expire_out(partition, now);
    if (partition.earliest <= now) expire_waiting(partition, now);
  }
}

void Outbox::expire_out(Partition& partition, MonotonicTime now) {
  if (partition.out.entries.empty() || partition.out.expires > now) return;
  for (const OutboxEntry& entry : partition.out.entries) expired_ += entry.delta;
  partition.out.entries.clear();
}

void Outbox::expire_waiting(Partition& partition, MonotonicTime now) {
  partition.earliest = MonotonicTime::max();
  for (auto entry = partition.waiting.begin(); entry != partition.waiting.end();) {
    if (entry->expires > now) {
      partition.earliest = std::min(partition.earliest, entry->expires);
      ++entry;
      continue;
    }
    expired_ += entry->delta;
    partition.index.erase({entry->name, entry->ordinal});
    entry = partition.waiting.erase(entry);
  }
}

const OutboxBatch* Outbox::next(std::uint32_t index) {
  Partition& partition = partitions_[index];
  OutboxBatch& out = partition.out;
  if (!out.entries.empty()) return &out;
  if (partition.waiting.empty()) return nullptr;
  out.partition = index;
  out.sequence = ++partition.last_sequence;
  out.expires = MonotonicTime::min();
  while (!partition.waiting.empty() && out.entries.size() < batch_entries_) {
    OutboxEntry& first = partition.waiting.front();
    out.expires = std::max(out.expires, first.expires);
    partition.index.erase({first.name, first.ordinal});
    out.entries.push_back(std::move(first));
    partition.waiting.pop_front();
  }
  return &out;
}

bool Outbox::ready() const noexcept {
  return std::ranges::any_of(partitions_, [](const Partition& partition) {
    return !partition.out.entries.empty() || !partition.waiting.empty();
  });
}

std::size_t Outbox::answer(std::uint32_t index, std::uint64_t sequence,
                           std::span<const OutboxOutcome> outcomes, std::vector<CounterReply>& replies) {
  OutboxBatch& out = partitions_[index].out;
  if (out.entries.empty() || out.sequence != sequence) return 0;
  assert(outcomes.size() == out.entries.size());
  std::size_t refused = 0;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const OutboxEntry& entry = out.entries[i];
    if (outcomes[i].applied) {
      applied_ += entry.delta;
      replies.push_back({.key = entry.key,
                         .ordinal = entry.ordinal,
                         .delta = entry.delta,
                         .total = outcomes[i].total,
                         .returned = entry.returned,
                         .tag = entry.tag});
    } else {
      expired_ += entry.delta;
      ++refused;
    }
  }
  out.entries.clear();
  return refused;
}

std::size_t Outbox::entries() const noexcept {
  std::size_t sum = 0;
  for (const Partition& partition : partitions_)
    sum += partition.out.entries.size() + partition.waiting.size();
  return sum;
}

}  // namespace weir
