// SPDX-License-Identifier: BSD-3-Clause
#include "shared/span_table.h"

#include <algorithm>
#include <cstring>

#include "shared/heaviness.h"

namespace weir {
namespace {

/// Lines that are the home of some key: 62 % full with as many keys as were asked for.
std::size_t home_lines(std::uint32_t keys, std::size_t keys_per_line) {
  return std::max<std::size_t>((std::size_t{keys} * 8 / 5 + keys_per_line - 1) / keys_per_line, 8);
}

}  // namespace

SpanTable::SpanTable(std::uint32_t keys, std::size_t rules)
    : homes_(home_lines(keys, keys_per_line)),
      lines_(homes_ + probed_lines - 1 + (rules + keys_per_line - 1) / keys_per_line),
      entries_(lines_.size() * keys_per_line),
      order_(entries_.size()),
      names_of_a_span_(std::size_t{keys} * name_bytes_per_key + 512),
      names_(names_of_a_span_ + names_of_a_span_ / 2),
      overflow_(rules) {
  // What the controller writes while it owns the table; it allocates nothing then.
  heavy_.reserve(keys / keys_per_heavy + rules);
  kept_.reserve(heavy_.capacity());
  grant_turns.reserve(rules);
  names_.take(sizeof(NameLength));
}

void SpanTable::touch_pages() noexcept {
  lines_.touch_pages();
  entries_.touch_pages();
  order_.touch_pages();
  names_.prefer_this_node();
  names_.begin_surely(names_of_a_span_);
}

bool SpanTable::has_room_for(std::span<const std::byte> name) const noexcept {
  return name.empty() || names_.has_room_for(name.size() + sizeof(NameLength));
}

SpanTable::Place SpanTable::place_for(std::uint64_t key) const noexcept {
  const std::size_t first = home(key, homes_);
  Place closed = nowhere;
  for (std::size_t line = first; line < first + probed_lines; ++line) {
    if (!is_full(lines_[line])) {
      std::size_t lane = 0;
      while (lines_[line].tags[lane] != 0) ++lane;
      return place_at(line, lane);
    }
    const unsigned idle = ~(lines_[line].open | lines_[line].heavy) & 0x7fU;
    if (closed == nowhere && idle != 0) closed = place_at(line, static_cast<unsigned>(__builtin_ctz(idle)));
  }
  return closed;
}

SpanTable::Place SpanTable::insert(std::uint64_t key, RuleIndex rule,
                                   std::span<const std::byte> name) noexcept {
  if (!has_room_for(name)) return nowhere;
  const Place place = place_for(key);
  if (place != nowhere) settle_in(place, key, rule, name);
  return place;
}

SpanTable::Place SpanTable::insert_rule(std::uint64_t key, RuleIndex rule,
                                        std::span<const std::byte> name) noexcept {
  if (!has_room_for(name)) return nowhere;
  const Place place = place_of_rule(rule);
  settle_in(place, key, rule, name);
  return place;
}

void SpanTable::hold(Place place, std::uint64_t key, RuleIndex rule, std::uint32_t name_offset) noexcept {
  Line& line = line_of(place);
  if (line.tags[lane_of(place)] == 0) ++held_;
  line.tags[lane_of(place)] = tag_of(key);
  line.ready[lane_of(place)] = 0;
  SpanEntry& entry = this->entry(place) = SpanEntry{};
  entry.key_high = static_cast<std::uint32_t>(key >> 32);
  entry.rule = rule % max_rules;
  entry.name_offset = name_offset;
}

void SpanTable::settle_in(Place place, std::uint64_t key, RuleIndex rule,
                          std::span<const std::byte> name) noexcept {
  if (name.empty()) return hold(place, key, rule, 0);
  const auto length = static_cast<NameLength>(name.size());
  const FillingBytes::Offset offset = names_.take(sizeof length + name.size());
  hold(place, key, rule, offset);
  std::memcpy(names_.at(offset), &length, sizeof length);
  std::memcpy(names_.at(offset) + sizeof length, name.data(), name.size());
}

// Where a name that was recorded before the table was cleared lies from now on. @pre told in their order
std::uint32_t SpanTable::keep_name(std::uint32_t offset) noexcept {
  if (offset == 0) return 0;
  const std::size_t bytes = sizeof(NameLength) + name_at(offset).size();
  const FillingBytes::Offset kept = names_.take(bytes);
  std::memmove(names_.at(kept), names_.at(offset), bytes);
  return kept;
}

bool SpanTable::empty() const noexcept {
  return opened_ == 0 && !counted_beside &&
         std::all_of(overflow_.begin(), overflow_.end(),
                     [](const OverflowCount& count) { return count.offered == 0; });
}

void SpanTable::open(Place place) noexcept {
  line_of(place).open |= static_cast<std::uint8_t>(bit(place));
  line_of(place).stale |= static_cast<std::uint8_t>(bit(place));
  order_[opened_++] = place;
}

CountedKey SpanTable::counted(Place place) const noexcept {
  const SpanEntry& entry = this->entry(place);
  const std::uint64_t in = admitted(place);
  return {.key = std::uint64_t{entry.key_high} << 32 | line_of(place).tags[lane_of(place)],
          .rule = entry.rule,
          .name = name_at(entry.name_offset),
          .offered = in + entry.refused,
          .admitted = in,
          .credit = credit(place),
          .lent = entry.lent,
          .allowance = entry.allowance,
          .refused_at = entry.refused_at,
          .cell = entry.cell};
}

std::span<const std::byte> SpanTable::name_at(std::uint32_t offset) const noexcept {
  NameLength length;
  std::memcpy(&length, names_.at(offset), sizeof length);
  return {names_.at(offset) + sizeof length, length};
}

unsigned SpanTable::heaviness_at(Place place, std::span<const std::uint64_t> limits) const noexcept {
  const SpanEntry& entry = this->entry(place);
  return heaviness(admitted(place) + entry.lent + entry.refused, limits.empty() ? 1 : limits[entry.rule]);
}

void SpanTable::mark_heavy(Place place) noexcept {
  line_of(place).heavy |= static_cast<std::uint8_t>(bit(place));
  heavy_.push_back(place);
}

// The heaviest, as far as there is room for all who are as heavy.
void SpanTable::mark_heaviest(std::span<const std::uint64_t> limits) noexcept {
  HeavinessCensus census;
  for (std::uint32_t i = 0; i < opened_; ++i) {
    if (i + drain_ahead < opened_) prefetch_both(order_[i + drain_ahead]);
    census.add(heaviness_at(order_[i], limits));
  }
  const unsigned least = census.least(heavy_.capacity() - overflow_.size());
  for (std::uint32_t i = 0; i < opened_; ++i) {
    if (i + drain_ahead < opened_) prefetch_both(order_[i + drain_ahead]);
    const Place place = order_[i];
    // The places of rules without dimensions are nobody else's anyway.
    if (is_of_rule(place) || heaviness_at(place, limits) >= least) mark_heavy(place);
  }
}

// The heavy keys' names move to the beginning, in their order, so that none is written over before it moves.
void SpanTable::forget_light() noexcept {
  kept_.clear();
  for (const Place place : heavy_) {
    const SpanEntry& entry = this->entry(place);
    kept_.push_back({std::uint64_t{entry.key_high} << 32 | line_of(place).tags[lane_of(place)],
                     entry.name_offset, entry.rule, is_of_rule(place)});
  }
  std::sort(kept_.begin(), kept_.end(),
            [](const HeavyKey& a, const HeavyKey& b) { return a.name_offset < b.name_offset; });
  clear();
  for (const HeavyKey& kept : kept_) {
    const Place place = kept.of_rule ? place_of_rule(kept.rule) : place_for(kept.key);
    // New keys' names must find room, however long these are.
    const bool fits = names_.used() + name_at(kept.name_offset).size() + sizeof(NameLength) <=
                      names_.size() - names_of_a_span_;
    if (place == nowhere || !fits) continue;
    hold(place, kept.key, kept.rule, keep_name(kept.name_offset));
    mark_heavy(place);
  }
}

void SpanTable::close(std::span<const std::uint64_t> limits) noexcept {
  grant_turns.clear();
  counted_beside = false;
  // A span's new keys must find room, as many as the table was made for.
  const bool names_short = names_.size() - names_.used() < names_of_a_span_;
  const bool places_short = held_ > entries_.size() / 4 * 3;
  for (const Place place : heavy_) line_of(place).heavy = 0;
  heavy_.clear();
  if (names_short || held_ > entries_.size() / 2)
    wary_ = wary_drains;
  else if (wary_ > 0)
    --wary_;
  if (wary_ > 0 || opened_ <= always_weighed) mark_heaviest(limits);
  if (names_short || places_short) return forget_light();
  // (Forgetting leaves what has been provided. And a worker that has not been online yet may come right now:
  // at first it is the one who provides.)
  if (held_ > 0) names_.provide_ahead(names_of_a_span_);
  for (std::uint32_t i = 0; i < opened_; ++i) {
    if (i + drain_ahead < opened_) prefetch_both(order_[i + drain_ahead]);
    Line& line = line_of(order_[i]);
    line.ready[lane_of(order_[i])] = 0;
    line.open = line.stale = 0;
    SpanEntry closed;
    SpanEntry& entry = this->entry(order_[i]);
    closed.key_high = entry.key_high;
    closed.name_offset = entry.name_offset;
    closed.rule = entry.rule;
    entry = closed;
  }
  opened_ = 0;
  std::fill(overflow_.begin(), overflow_.end(), OverflowCount{});
}

void SpanTable::clear() noexcept {
  std::memset(static_cast<void*>(lines_.data()), 0, lines_.bytes());
  opened_ = held_ = 0;
  grant_turns.clear();
  counted_beside = false;
  heavy_.clear();
  names_.keep(sizeof(NameLength));  // the empty one
  std::fill(overflow_.begin(), overflow_.end(), OverflowCount{});
}

std::optional<CountedKey> SpanTable::find(std::uint64_t key) const noexcept {
  Place place = locate(key);
  for (std::size_t rule = 0; rule < overflow_.size(); ++rule)
    if (holds(place_of_rule(static_cast<RuleIndex>(rule)), key))
      place = place_of_rule(static_cast<RuleIndex>(rule));
  if (place == nowhere || !is_open(place) || !holds(place, key)) return std::nullopt;
  return counted(place);
}

std::size_t SpanTable::memory() const noexcept {
  return lines_.bytes() + entries_.bytes() + order_.bytes() + names_.provided() +
         overflow_.size() * sizeof(OverflowCount);
}

}  // namespace weir
