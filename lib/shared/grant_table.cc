// SPDX-License-Identifier: BSD-3-Clause
#include "shared/grant_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace weir {
namespace {

/// Lines that are the home of some key: half full with as many keys as were asked for. Were they 62 % full a
/// decision would take a tenth longer, because more keys are not in their home line, for 9 bytes a key less.
std::size_t home_lines(std::uint32_t keys, std::size_t keys_per_line) {
  return std::max<std::size_t>((std::size_t{keys} * 2 + keys_per_line - 1) / keys_per_line, 1);
}

}  // namespace

std::uint32_t standing_grant(std::uint64_t allowance, unsigned workers) noexcept {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(allowance / (64 * std::uint64_t{workers}), GrantTable::most));
}

GrantTable::GrantTable(std::uint32_t keys, InstructionSet set)
    : homes_(home_lines(keys, keys_per_line)),
      search_(lane_search_of(set)),
      lines_(homes_ + probed_lines - 1),
      holders_(lines_.size() * keys_per_line),
      labels_(holders_.size()),
      in_use_((lines_.size() + 63) / 64),
      seen_(holders_.size()),
      names_{FillingBytes(std::size_t{keys} * name_bytes_per_key),
             FillingBytes(std::size_t{keys} * name_bytes_per_key)} {
  names_[1].release();
}

void GrantTable::touch_pages() noexcept {
  lines_.touch_pages();
  holders_.touch_pages();
  labels_.touch_pages();
  in_use_.touch_pages();
  for (FillingBytes& names : names_) names.prefer_this_node();
  names_[naming_].begin_surely(first_names);
}

// Of names, twice as many as have come since it was last called; but no more than the keys to come will need
// if theirs are a quarter longer.
void GrantTable::provide_for_names() noexcept {
  if (held() == 0) return;
  const std::size_t used = names().used();
  const std::size_t came = used - std::min(used, std::exchange(names_used_before_, used));
  const std::size_t keys = names().size() / name_bytes_per_key;
  const std::size_t to_come = keys - std::min<std::size_t>(keys, held());
  names_[naming_].provide_ahead(std::max(std::min(2 * came, to_come * used / held() * 5 / 4), first_names));
}

GrantTable::Place GrantTable::insert(std::uint64_t key, RuleIndex rule,
                                     std::span<const std::byte> name) noexcept {
  for (std::size_t line = home_of(key, homes_), last = line + probed_lines; line < last; ++line)
    if (!is_full(lines_[line])) return insert_into(line, key, rule, name);
  return nowhere;
}

// @pre the line is not full
GrantTable::Place GrantTable::insert_into(std::size_t at, std::uint64_t key, RuleIndex rule,
                                          std::span<const std::byte> name) noexcept {
  FillingBytes& names = names_[naming_];
  if (!names.has_room_for(bytes_of(name.size())) || name.size() > UINT16_MAX) return nowhere;
  Line& line = lines_[at];
  const Place place = place_at(at, free_lane(line));
  holders_[index_of(place)] = {static_cast<std::uint32_t>(key >> 32), record(name, names)};
  labels_[index_of(place)] = Label(rule, name.size());
  // Release: who sees the tag sees whose it is.
  line.tags[place % words_per_line].store(tag_of(key), std::memory_order_release);
  // What follows only says where to look, and how much room there is: relaxed.
  note_held(at);
  return place;
}

// Room that a name takes.
std::size_t GrantTable::bytes_of(std::size_t length) noexcept {
  return length + (length < Label::long_name ? 0 : sizeof(NameLength));
}

// @pre there is room
FillingBytes::Offset GrantTable::record(std::span<const std::byte> name, FillingBytes& names) noexcept {
  const FillingBytes::Offset offset = names.take(bytes_of(name.size()));
  std::byte* at = names.at(offset);
  if (name.size() >= Label::long_name) {
    const auto length = static_cast<NameLength>(name.size());
    std::memcpy(at, &length, sizeof length);
    at += sizeof length;
  }
  if (!name.empty()) std::memcpy(at, name.data(), name.size());
  return offset;
}

void GrantTable::note_held(std::size_t line) noexcept {
  held_.store(held() + 1, std::memory_order_relaxed);
  std::atomic<std::uint64_t>& group = in_use_[line / 64];
  group.store(group.load(std::memory_order_relaxed) | std::uint64_t{1} << line % 64,
              std::memory_order_relaxed);
}

std::uint32_t GrantTable::take_lent(std::uint64_t key, std::uint32_t lent,
                                    const GrantWindow& window) noexcept {
  for (std::size_t line = home_of(key, homes_), last = line + probed_lines; line < last; ++line) {
    for (std::size_t lane = 0; lane < keys_per_line; ++lane) {
      // The worker lent to it before it handed over the span, so it is there: relaxed.
      if (lines_[line].tags[lane].load(std::memory_order_relaxed) != tag_of(key)) continue;
      std::uint16_t& seen = seen_[line * keys_per_line + lane][window.half];
      const std::uint32_t before = used_in(seen, window);
      const std::uint32_t now = used_in(counted(lines_[line], lane)[window.half], window);
      const bool complete = now + lent >= before;
      seen = of_window(complete ? now : before - lent, window);
      return complete ? now + lent - before : 0;
    }
  }
  return 0;
}

// Line after line is emptied, and the keys that stay are put where they would be if they had come now: into
// the line where they were or one before it, which have room by then.
void GrantTable::forget_idle(std::span<const std::uint32_t> turns) noexcept {
  FillingBytes& kept = names_[naming_ ^ 1];
  kept.begin(names().used());
  if (!kept.has_room_for(names().used())) return kept.release();  // there is no memory now
  // Nobody else looks: relaxed.
  held_.store(0, std::memory_order_relaxed);
  for (std::size_t group = 0; group < in_use_.size(); ++group) {
    std::uint64_t lines = in_use_[group].load(std::memory_order_relaxed);
    in_use_[group].store(0, std::memory_order_relaxed);
    for (; lines != 0; lines &= lines - 1)
      empty_line(group * 64 + static_cast<unsigned>(std::countr_zero(lines)), turns, kept);
  }
  names_[naming_].release();
  naming_ ^= 1;
}

void GrantTable::empty_line(std::size_t at, std::span<const std::uint32_t> turns,
                            FillingBytes& names) noexcept {
  Line& line = lines_[at];
  std::array<Moving, keys_per_line> staying;
  std::size_t count = 0;
  for (std::size_t lane = 0; lane < keys_per_line; ++lane) {
    const std::size_t index = at * keys_per_line + lane;
    const std::uint32_t tag = line.tags[lane].load(std::memory_order_relaxed);
    if (tag == 0) break;
    const Halves used = halves(line, lane);
    const GrantWindow running(turns[labels_[index].rule()]);
    const GrantWindow next(turns[labels_[index].rule()] + 1);
    if (used_in(used[running.half], running) != 0 || used_in(used[next.half], next) != 0)
      staying[count++] = {tag, used, seen_[index], holders_[index], labels_[index]};
    line.tags[lane].store(0, std::memory_order_relaxed);
    for (std::atomic<std::uint16_t>& half : line.used[lane]) half.store(0, std::memory_order_relaxed);
    seen_[index] = {};
  }
  for (const Moving& key : std::span(staying).first(count)) settle(key, at, names);
}

void GrantTable::settle(const Moving& key, std::size_t last, FillingBytes& names) noexcept {
  std::size_t at = home_of(std::uint64_t{key.holder.key_high} << 32 | key.tag, homes_);
  while (at < last && is_full(lines_[at])) ++at;
  const std::size_t lane = free_lane(lines_[at]);
  const std::size_t index = at * keys_per_line + lane;
  holders_[index] = {key.holder.key_high, record(name_of(key.holder, key.label), names)};
  labels_[index] = key.label;
  seen_[index] = key.seen;
  for (std::size_t half = 0; half < key.used.size(); ++half)
    lines_[at].used[lane][half].store(key.used[half], std::memory_order_relaxed);
  lines_[at].tags[lane].store(key.tag, std::memory_order_relaxed);
  note_held(at);
}

std::size_t GrantTable::memory() const noexcept {
  return lines_.bytes() + holders_.bytes() + labels_.bytes() + names_[0].memory() + names_[1].memory() +
         in_use_.bytes() + seen_.bytes();
}

}  // namespace weir
