// SPDX-License-Identifier: BSD-3-Clause
#include "shared/grant_table.h"

#include <algorithm>
#include <cstring>

namespace weir {
namespace {

/// Lines that are the home of some key: 62 % full with as many keys as were asked for.
std::size_t home_lines(std::uint32_t keys, std::size_t keys_per_line) {
  return std::max<std::size_t>((std::size_t{keys} * 8 / 5 + keys_per_line - 1) / keys_per_line, 1);
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
      names_(std::size_t{keys} * name_bytes_per_key),
      in_use_((lines_.size() + 63) / 64),
      seen_(holders_.size()) {}

void GrantTable::touch_pages() noexcept {
  lines_.touch_pages();
  holders_.touch_pages();
  names_.touch_pages();
  in_use_.touch_pages();
}

GrantTable::Place GrantTable::insert(std::uint64_t key, RuleIndex rule,
                                     std::span<const std::byte> name) noexcept {
  const std::uint32_t offset = names_used_.load(std::memory_order_relaxed);
  if (names_.size() - offset < name.size() || name.size() > UINT16_MAX) return nowhere;
  for (std::size_t at = home(key, homes_), last = at + probed_lines; at < last; ++at) {
    Line& line = lines_[at];
    if (is_full(line)) continue;
    std::size_t lane = 0;
    while (line.tags[lane].load(std::memory_order_relaxed) != 0) ++lane;
    const Place place = place_at(at, lane);
    if (!name.empty()) std::memcpy(&names_[offset], name.data(), name.size());
    holders_[index_of(place)] = {static_cast<std::uint32_t>(key >> 32), offset,
                                 static_cast<std::uint16_t>(name.size()), rule};
    // Release: who sees the tag sees whose it is.
    line.tags[lane].store(tag_of(key), std::memory_order_release);
    // What follows only says where to look, and how much room there is: relaxed.
    names_used_.store(offset + static_cast<std::uint32_t>(name.size()), std::memory_order_relaxed);
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
  names_used_.store(0, std::memory_order_relaxed);
  held_.store(0, std::memory_order_relaxed);
}

std::size_t GrantTable::memory() const noexcept {
  return lines_.bytes() + holders_.bytes() + names_.bytes() + in_use_.bytes() + seen_.bytes();
}

}  // namespace weir
