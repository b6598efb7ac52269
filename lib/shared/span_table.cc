// SPDX-License-Identifier: BSD-3-Clause
#include "shared/span_table.h"

#include <algorithm>
#include <cstring>

#include "shared/heaviness.h"

namespace weir {
namespace {

/// Lines that are the home of some key: 62 % full with as many keys as were asked for.
std::size_t home_lines(std::size_t keys, std::size_t keys_per_line) {
  return std::max<std::size_t>((keys * 8 / 5 + keys_per_line - 1) / keys_per_line, 8);
}

}  // namespace

SpanTable::SpanTable(std::uint32_t keys, std::size_t rules, std::uint32_t at_first)
    : rule_lines_((rules + keys_per_line - 1) / keys_per_line),
      homes_(0),
      lines_(rule_lines_ + home_lines(keys, keys_per_line) + probed_lines - 1),
      home_lines_(&lines_[rule_lines_]),
      numbers_(lines_.size() * lanes_per_line),
      entries_(lines_.size() * keys_per_line),
      places_(entries_.size()),
      open_((entries_.size() + OpenNumbers::word_bits - 1) / OpenNumbers::word_bits),
      names_of_a_span_(std::size_t{keys} * name_bytes_per_key + 512),
      names_(names_of_a_span_ + names_of_a_span_ / 2),
      overflow_(rules) {
  // What the controller writes while it owns the table; it allocates nothing then.
  heavy_.reserve(keys / keys_per_heavy + rules);
  kept_.reserve(heavy_.capacity());
  grant_turns.reserve(rules);
  names_.take(sizeof(NameLength));
  use_lines(homes_for(at_first));
}

void SpanTable::touch_pages() noexcept {
  lines_.prefer_this_node();
  numbers_.prefer_this_node();
  entries_.prefer_this_node();
  places_.prefer_this_node();
  open_.prefer_this_node();
  names_.prefer_this_node();
  lines_.begin_surely(0);
  numbers_.begin_surely(0);
  entries_.begin_surely(always_ahead);
  places_.begin_surely(always_ahead);
  names_.begin_surely(always_ahead * usual_name_bytes);
}

// All, if those that are left would be fewer: an annex has room for many.
std::size_t SpanTable::homes_for(std::size_t keys) const noexcept {
  const std::size_t homes = home_lines(keys, keys_per_line);
  return homes > all_homes() / 2 ? all_homes() : homes;
}

void SpanTable::use_lines(std::size_t homes) noexcept {
  homes_ = homes;
  lines_.keep(static_cast<std::uint32_t>(lines_end()));
  numbers_.keep(static_cast<std::uint32_t>(lines_end() * lanes_per_line));
}

bool SpanTable::has_annex() const noexcept {
  return lines_end() < lines_.size() && lines_.has_room_for(lines_.size() - lines_end()) &&
         numbers_.has_room_for(numbers_.size() - lines_end() * lanes_per_line);
}

SpanTable::Place SpanTable::locate_in_annex(std::uint64_t key) const noexcept {
  const std::size_t first = lines_end() + home(key, annex_homes());
  for (std::size_t line = first; line < first + probed_lines; ++line) {
    if (const Lanes lanes = Lanes::with(&lines_[line], tag_of(key)); !lanes.none_of_seven())
      return place_at(line, lanes.first());
    if (!is_full(lines_[line])) break;
  }
  return nowhere;
}

bool SpanTable::has_room_for(std::span<const std::byte> name) const noexcept {
  return name.empty() || names_.has_room_for(name.size() + sizeof(NameLength));
}

// In the line and the few after it, up to the first free place.
SpanTable::Room SpanTable::room_from(std::size_t first_line) const noexcept {
  Room room;
  for (std::size_t line = first_line; line < first_line + probed_lines; ++line) {
    unsigned free = 0;
    for (std::size_t lane = 0; lane < keys_per_line; ++lane)
      free |= static_cast<unsigned>(lines_[line].tags[lane] == 0) << lane;
    const unsigned idle = ~(free | lines_[line].open | lines_[line].heavy) & 0x7fU;
    if (room.closed == nowhere && idle != 0)
      room.closed = place_at(line, static_cast<unsigned>(__builtin_ctz(idle)));
    if (free != 0) {
      room.free = place_at(line, static_cast<unsigned>(__builtin_ctz(free)));
      break;
    }
  }
  return room;
}

SpanTable::Place SpanTable::place_for(std::uint64_t key) const noexcept {
  Room room = room_from(rule_lines_ + home(key, homes_));
  // Only where the annex has no room either, a closed key's place: the lines in use are full long before the
  // table is, and who is heavy is not known then.
  if (room.free == nowhere && has_room_for_entry() && has_annex())
    if (const Room annex = room_from(lines_end() + home(key, annex_homes()));
        annex.free != nowhere || room.closed == nowhere)
      room = annex;
  return room.free != nowhere && has_room_for_entry() ? room.free : room.closed;
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
  if (line_of(place).tags[lane_of(place)] == 0 && !has_room_for_entry()) return nowhere;
  settle_in(place, key, rule, name);
  return place;
}

void SpanTable::hold(Place place, std::uint64_t key, RuleIndex rule, std::uint32_t name_offset) noexcept {
  Line& line = line_of(place);
  if (line.tags[lane_of(place)] == 0) {
    numbers_[place] = entries_.take(1);
    places_[places_.take(1)] = place;
    in_annex_ += is_in_annex(place) ? 1 : 0;
  }
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
  const std::uint32_t number = numbers_[place];
  open_[number / OpenNumbers::word_bits] |= OpenBits{1} << number % OpenNumbers::word_bits;
  ++opened_;
}

CountedKey SpanTable::counted(std::uint32_t number) const noexcept {
  const Place place = places_[number];
  const SpanEntry& entry = entries_[number];
  const std::uint32_t credit = credit_of(number);
  const std::uint64_t in = entry.drawn - credit;
  return {.key = std::uint64_t{entry.key_high} << 32 | line_of(place).tags[lane_of(place)],
          .rule = entry.rule,
          .name = name_at(entry.name_offset),
          .offered = in + entry.refused,
          .admitted = in,
          .credit = credit,
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

unsigned SpanTable::heaviness_of(std::uint32_t number, std::span<const std::uint64_t> limits) const noexcept {
  const SpanEntry& entry = entries_[number];
  return heaviness(entry.drawn - credit_of(number) + entry.lent + entry.refused,
                   limits.empty() ? 1 : limits[entry.rule]);
}

void SpanTable::mark_heavy(std::uint32_t number) noexcept {
  set_heavy(places_[number]);
  heavy_.push_back(number);
}

// The heaviest, as far as there is room for all who are as heavy.
void SpanTable::mark_heaviest(std::span<const std::uint64_t> limits) noexcept {
  HeavinessCensus census;
  for_each_open([&](std::uint32_t number) { census.add(heaviness_of(number, limits)); });
  const unsigned least = census.least(heavy_.capacity() - overflow_.size());
  for_each_open([&](std::uint32_t number) {
    // The places of rules without dimensions are nobody else's anyway.
    if (is_of_rule(places_[number]) || heaviness_of(number, limits) >= least) mark_heavy(number);
  });
}

// The heavy keys' names move to the beginning, in their order, so that none is written over before it moves.
void SpanTable::forget_light() noexcept {
  kept_.clear();
  for (const std::uint32_t number : heavy_) {
    const Place place = places_[number];
    const SpanEntry& entry = entries_[number];
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
    mark_heavy(numbers_[place]);
  }
}

void SpanTable::close(std::span<const std::uint64_t> limits) noexcept {
  // A span's new keys must find room, as many as the table was made for.
  const bool names_short = names_.size() - names_.used() < names_of_a_span_;
  const bool places_short = held() > entries_.size() / 4 * 3;
  for (const std::uint32_t number : heavy_) line_of(places_[number]).heavy = 0;
  heavy_.clear();
  if (names_short || held() > entries_.size() / 2)
    wary_ = wary_drains;
  else if (wary_ > 0)
    --wary_;
  if (wary_ > 0 || opened_ <= always_weighed) mark_heaviest(limits);
  const std::uint32_t met = held();
  const std::uint32_t new_keys = met - std::min(met, held_before_);
  if (names_short || places_short)
    forget_light();
  else
    close_open();
  // (A worker that has not been online yet may come right now: at first it is the one who provides.)
  if (met > 0) provide_for(new_keys, met);
  held_before_ = held();
}

void SpanTable::close_open() noexcept {
  for_each_open([&](std::uint32_t number) {
    Line& line = line_of(places_[number]);
    line.ready[lane_of(places_[number])] = 0;
    line.open = line.stale = 0;
    SpanEntry closed;
    SpanEntry& entry = entries_[number];
    closed.key_high = entry.key_high;
    closed.name_offset = entry.name_offset;
    closed.rule = entry.rule;
    entry = closed;
  });
  forget_counts();
}

void SpanTable::forget_counts() noexcept {
  const std::size_t words = (held() + OpenNumbers::word_bits - 1) / OpenNumbers::word_bits;
  std::memset(open_.data(), 0, words * sizeof(OpenBits));
  opened_ = 0;
  grant_turns.clear();
  counted_beside = false;
  std::fill(overflow_.begin(), overflow_.end(), OverflowCount{});
}

// Room for twice as many new keys as have come since the last drain, but for no more than the table is made
// for. (Names are as long as those that are here, or a quarter longer.) And lines for all that there were,
// even if the light ones have just been forgotten: as many will come again.
void SpanTable::provide_for(std::size_t new_keys, std::size_t met) noexcept {
  const std::size_t keys = entries_.size() / 8 * 5;
  const std::size_t to_come =
      std::max(std::min(2 * new_keys, keys - std::min<std::size_t>(keys, held())), always_ahead);
  entries_.provide_ahead(to_come);
  entries_.gather();
  places_.provide_ahead(to_come);
  names_.provide_ahead(to_come * (names_.used() / std::max<std::size_t>(held(), 1) + 1) * 5 / 4);
  const std::size_t well_filled = homes_ * keys_per_line / 8 * 5;
  if (homes_ < all_homes() && (in_annex_ > 0 || met > well_filled))
    spread(homes_for(std::max(well_filled, met) / 2 * 3));
}

// Puts all keys where they belong among so many lines, if the kernel provides these. @pre all are closed
void SpanTable::spread(std::size_t homes) noexcept {
  const std::size_t end = rule_lines_ + homes + probed_lines - 1;
  lines_.provide_ahead(end - lines_.used());
  numbers_.provide_ahead(end * lanes_per_line - numbers_.used());
  if (lines_.provided() < end || numbers_.provided() < end * lanes_per_line) return;
  lines_.gather();
  numbers_.gather();
  // Until a key has its new place, its tag is kept instead.
  for (std::uint32_t number = 0; number < held(); ++number) {
    if (number + drain_ahead < held()) prefetch_to_read(&line_of(places_[number + drain_ahead]));
    const Place place = places_[number];
    if (is_of_rule(place)) continue;
    places_[number] = line_of(place).tags[lane_of(place)];
    if (is_in_annex(place)) line_of(place).tags[lane_of(place)] = line_of(place).heavy = 0;
  }
  clear_lines();
  use_lines(homes);
  const auto key_of = [&](std::uint32_t number) {
    return std::uint64_t{entries_[number].key_high} << 32 | places_[number];
  };
  for (std::uint32_t number = 0; number < held();) {
    if (number + drain_ahead < held()) prefetch(key_of(number + drain_ahead));
    if (!is_of_rule_itself(number)) {
      const Place place = room_from(rule_lines_ + home(key_of(number), homes_)).free;
      if (place == nowhere) [[unlikely]] {
        forget(number);
        continue;
      }
      line_of(place).tags[lane_of(place)] = places_[number];
      numbers_[place] = number;
      places_[number] = place;
    }
    ++number;
  }
  for (const std::uint32_t number : heavy_) set_heavy(places_[number]);
}

// Whether the entry is that of a rule without dimensions. Also where places are not known.
bool SpanTable::is_of_rule_itself(std::uint32_t number) const noexcept {
  const Place own = place_of_rule(entries_[number].rule);
  return line_of(own).tags[lane_of(own)] != 0 && numbers_[own] == number;
}

// A key that has no place any more; the last one's entry is moved there. While lines are empty but for those
// before.
void SpanTable::forget(std::uint32_t number) noexcept {
  const std::uint32_t last = held() - 1;
  if (is_of_rule_itself(last)) numbers_[places_[last]] = number;
  entries_[number] = entries_[last];
  places_[number] = places_[last];
  entries_.keep(last);
  places_.keep(last);
  std::erase(heavy_, number);
  std::replace(heavy_.begin(), heavy_.end(), last, number);
}

// But those of the annex: there only the lines that hold a key take memory.
void SpanTable::clear_lines() noexcept {
  std::memset(static_cast<void*>(home_lines_), 0, (lines_end() - rule_lines_) * sizeof(Line));
  in_annex_ = 0;
}

void SpanTable::clear() noexcept {
  std::memset(static_cast<void*>(lines_.data()), 0, rule_lines_ * sizeof(Line));
  for (std::uint32_t number = 0; in_annex_ > 0 && number < held(); ++number)
    if (is_in_annex(places_[number])) line_of(places_[number]) = Line{};
  clear_lines();
  forget_counts();
  entries_.keep(0);
  places_.keep(0);
  held_before_ = 0;
  heavy_.clear();
  names_.keep(sizeof(NameLength));  // the empty one
}

std::optional<CountedKey> SpanTable::find(std::uint64_t key) const noexcept {
  Place place = locate(key);
  for (std::size_t rule = 0; rule < overflow_.size(); ++rule)
    if (holds(place_of_rule(static_cast<RuleIndex>(rule)), key))
      place = place_of_rule(static_cast<RuleIndex>(rule));
  if (place == nowhere || !is_open(place) || !holds(place, key)) return std::nullopt;
  return counted(numbers_[place]);
}

std::size_t SpanTable::memory() const noexcept {
  return lines_.memory() + numbers_.memory() + entries_.memory() + places_.memory() +
         entries_.provided() / 8 + names_.memory() + overflow_.size() * sizeof(OverflowCount);
}

}  // namespace weir
