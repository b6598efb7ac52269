// SPDX-License-Identifier: BSD-3-Clause
#include "shared/grant_table.h"

#include <algorithm>
#include <cstring>

namespace weir {
namespace {

/// Lines that are the home of some key: 75 % full with as many keys as were asked for.
std::size_t home_lines(std::uint32_t keys, std::size_t keys_per_line) {
  return std::max<std::size_t>((std::size_t{keys} * 4 / 3 + keys_per_line - 1) / keys_per_line, 1);
}

}  // namespace

std::uint32_t standing_grant(std::uint64_t allowance, unsigned workers) noexcept {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(allowance / (64 * std::uint64_t{workers}), GrantTable::most));
}

GrantTable::GrantTable(std::uint32_t keys)
    : homes_(home_lines(keys, keys_per_line)),
      lines_(homes_ + probed_lines - 1),
      holders_(lines_.size() * keys_per_line),
      labels_(holders_.size()),
      names_(std::size_t{keys} * name_bytes_per_key),
      in_use_((lines_.size() + 63) / 64),
      seen_(holders_.size()) {}

void GrantTable::touch_pages() noexcept {
  lines_.touch_pages();
  holders_.touch_pages();
  labels_.touch_pages();
  in_use_.touch_pages();
  names_.touch_pages(names_ahead());
}

// A quarter of what all names may take: as short as names mostly are, all keys may come within one span. Once
// there are some, no more than the keys to come will need if their names are half as long again.
std::size_t GrantTable::names_ahead() const noexcept {
  const std::size_t quarter = names_.size() / 4;
  if (held() == 0) return quarter;
  const std::size_t keys = names_.size() / name_bytes_per_key;
  const std::size_t to_come = std::max(keys - std::min<std::size_t>(keys, held()), keys / 64);
  return std::min(quarter, to_come * (names_.used() / held() + 1) * 3 / 2);
}

void GrantTable::provide_for_names() noexcept {
  if (held() > 0) names_.provide_ahead(names_ahead());
}

GrantTable::Place GrantTable::insert(std::uint64_t key, RuleIndex rule,
                                     std::span<const std::byte> name) noexcept {
  const bool is_long = name.size() >= Label::long_name;
  const std::size_t bytes = name.size() + (is_long ? sizeof(NameLength) : 0);
  if (!names_.has_room_for(bytes) || name.size() > UINT16_MAX) return nowhere;
  for (std::size_t at = home(key, homes_), last = at + probed_lines; at < last; ++at) {
    Line& line = lines_[at];
    if (is_full(line)) continue;
    std::size_t lane = 0;
    while (line.tags[lane].load(std::memory_order_relaxed) != 0) ++lane;
    const Place place = place_at(at, lane);
    const FillingBytes::Offset offset = names_.take(bytes);
    std::byte* recorded = names_.at(offset);
    if (is_long) {
      const auto length = static_cast<NameLength>(name.size());
      std::memcpy(recorded, &length, sizeof length);
      recorded += sizeof length;
    }
    if (!name.empty()) std::memcpy(recorded, name.data(), name.size());
    holders_[index_of(place)] = {static_cast<std::uint32_t>(key >> 32), offset};
    labels_[index_of(place)] = Label(rule, name.size());
    // Release: who sees the tag sees whose it is.
    line.tags[lane].store(tag_of(key), std::memory_order_release);
    // What follows only says where to look, and how much room there is: relaxed.
    held_.store(held_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    std::atomic<std::uint64_t>& group = in_use_[at / 64];
    group.store(group.load(std::memory_order_relaxed) | std::uint64_t{1} << at % 64,
                std::memory_order_relaxed);
    return place;
  }
  return nowhere;
}

void GrantTable::clear() noexcept {
  // Nobody else looks: relaxed.
  for (std::size_t line = 0; line < lines_.size(); ++line)
    for (std::size_t lane = 0; lane < keys_per_line; ++lane) {
      lines_[line].tags[lane].store(0, std::memory_order_relaxed);
      for (std::atomic<std::uint16_t>& half : lines_[line].used[lane])
        half.store(0, std::memory_order_relaxed);
    }
  for (std::size_t group = 0; group < in_use_.size(); ++group)
    in_use_[group].store(0, std::memory_order_relaxed);
  std::fill_n(seen_.data(), seen_.size(), std::array<std::uint16_t, 2>{});
  names_.keep(0);
  held_.store(0, std::memory_order_relaxed);
}

std::size_t GrantTable::memory() const noexcept {
  return lines_.bytes() + holders_.bytes() + labels_.bytes() + names_.provided() + in_use_.bytes() +
         seen_.bytes();
}

}  // namespace weir
