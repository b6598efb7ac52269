// SPDX-License-Identifier: BSD-3-Clause
#include "shared/span_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weir {

SpanTable::SpanTable(std::uint32_t keys, std::size_t rules)
    : bucket_mask_(std::bit_ceil(std::max<std::size_t>(std::size_t{keys} * 5 / 4 / bucket_size, 2)) - 1),
      lines_(bucket_mask_ + 1),
      tags_(reinterpret_cast<std::uint64_t*>(lines_.data())),
      entries_(lines_.size() * bucket_size),
      order_(entries_.size()),
      names_(std::size_t{keys} * name_bytes_per_key + 512),
      overflow_(rules) {}

SpanEntry* SpanTable::find(std::uint64_t key) noexcept {
  for (const std::size_t bucket : {bucket_of(key), other_bucket_of(key)}) {
    const std::uint64_t* tags = &tags_[bucket * bucket_size];
    for (std::size_t i = 0; i < bucket_size; ++i)
      if (tags[i] == key) return &entries_[bucket * bucket_size + i];
  }
  return nullptr;
}

SpanEntry* SpanTable::insert(std::uint64_t key, RuleIndex rule, std::span<const std::byte> name) noexcept {
  const std::size_t room = names_.size() - names_used_;
  if (room < name.size() + sizeof(std::uint16_t)) return nullptr;

  const auto free_places = [&](std::size_t bucket) {
    return std::count(&tags_[bucket * bucket_size], &tags_[bucket * bucket_size] + bucket_size, 0U);
  };
  std::size_t bucket = bucket_of(key);
  const std::size_t other = other_bucket_of(key);
  const auto free_here = free_places(bucket);
  const auto free_there = free_places(other);
  if (free_here == 0 && free_there == 0) return nullptr;
  if (free_there > free_here) bucket = other;

  std::size_t place = bucket * bucket_size;
  while (tags_[place] != 0) ++place;
  tags_[place] = key;
  order_[used_++] = static_cast<std::uint32_t>(place);
  SpanEntry& entry = entries_[place];
  entry = SpanEntry{};
  entry.rule = rule;
  entry.name_offset = names_used_;
  const auto length = static_cast<std::uint16_t>(name.size());
  std::memcpy(&names_[names_used_], &length, sizeof length);
  if (!name.empty()) std::memcpy(&names_[names_used_ + sizeof length], name.data(), name.size());
  names_used_ += static_cast<std::uint32_t>(sizeof length + name.size());
  return &entry;
}

std::span<const std::byte> SpanTable::name(const SpanEntry& entry) const noexcept {
  std::uint16_t length;
  std::memcpy(&length, &names_[entry.name_offset], sizeof length);
  return std::span(names_).subspan(entry.name_offset + sizeof length, length);
}

void SpanTable::clear() noexcept {
  for (std::uint32_t i = 0; i < used_; ++i) tags_[order_[i]] = 0;
  used_ = 0;
  names_used_ = 0;
  std::fill(overflow_.begin(), overflow_.end(), OverflowCount{});
}

std::size_t SpanTable::memory() const noexcept {
  return lines_.size() * sizeof(Line) + entries_.size() * sizeof(SpanEntry) +
         order_.size() * sizeof(std::uint32_t) + names_.size() + overflow_.size() * sizeof(OverflowCount);
}

}  // namespace weir
