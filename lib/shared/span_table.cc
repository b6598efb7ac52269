// SPDX-License-Identifier: BSD-3-Clause
#include "shared/span_table.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace weir {
namespace {

/// Lines that are the home of some key: 62 % full with as many keys as were asked for.
std::size_t home_lines(std::size_t keys, std::size_t keys_per_line) {
  return std::max<std::size_t>((keys * 8 / 5 + keys_per_line - 1) / keys_per_line, 8);
}

/// Of an entry that a drain has left open: until when it may stay so, in ticks that go round in two years, so
/// that it has room for it.
using Ticks = std::uint32_t;
constexpr Duration tick{std::int64_t{1} << 24};
/// For so long, at least, and at most for twice as long, keys may be left open without a look. A power of
/// two.
constexpr Ticks unseen = 512;

Ticks ticks_of(MonotonicTime time) { return static_cast<Ticks>(time.time_since_epoch() / tick); }
bool is_later(Ticks time, Ticks than) { return static_cast<std::int32_t>(time - than) > 0; }

// Those of a word together, lest it be told of all of them because one is to be looked at; each word at its
// time.
Ticks unseen_until(std::uint32_t word, MonotonicTime keep_until) {
  const Ticks least = ticks_of(keep_until) + unseen;
  return least + (word * 0x9e3779b9U / (0xffffffffU / unseen + 1) - least) % unseen;
}

}  // namespace

SpanTable::SpanTable(std::uint32_t keys, std::size_t rules, std::uint32_t first_keys, InstructionSet set)
    : cells(rules),
      most_homes_(home_lines(keys, keys_per_line)),
      rules_line_(lines_of(most_homes_)),
      search_(lane_search_of(set)),
      lines_(rules_line_ + (rules + keys_per_line - 1) / keys_per_line),
      numbers_(lines_.size() * lanes_per_line),
      entries_(lines_.size() * keys_per_line),
      rests_(entries_.size()),
      places_(entries_.size()),
      open_((entries_.size() + OpenNumbers::word_bits - 1) / OpenNumbers::word_bits),
      left_alone_(open_.size()),
      left_until_(open_.size()),
      heaviest_(keys / keys_per_heavy),
      names_of_a_span_(std::size_t{keys} * name_bytes_per_key + 512),
      names_(names_of_a_span_ + names_of_a_span_ / 2),
      overflow_(rules) {
  // A kernel that cannot provide pages for somebody else provides all of them at the start.
  homes_.add(can_provide_pages() ? std::min(home_lines(first_keys, keys_per_line), most_homes_)
                                 : most_homes_);
  lines_.take(lines_of(homes()));
  numbers_.take(lines_.used() * lanes_per_line);
  // What the controller writes while it owns the table; it allocates nothing then.
  heavy_.reserve(keys / keys_per_heavy + rules);
  kept_.reserve(heavy_.capacity());
  grant_turns.reserve(rules);
  names_.take(sizeof(NameLength));
}

void SpanTable::touch_pages() noexcept {
  lines_.prefer_this_node();
  numbers_.prefer_this_node();
  entries_.prefer_this_node();
  rests_.prefer_this_node();
  places_.prefer_this_node();
  open_.prefer_this_node();
  left_alone_.prefer_this_node();
  names_.prefer_this_node();
  lines_.begin_surely(0);
  lines_.begin_last(rules_line_);
  numbers_.begin_surely(0);
  numbers_.begin_last(rules_line_ * lanes_per_line);
  entries_.begin_surely(always_ahead);
  rests_.begin_surely(always_ahead);
  places_.begin_surely(always_ahead);
  names_.begin_surely(always_ahead * usual_name_bytes);
}

bool SpanTable::has_room_for(std::span<const std::byte> name) const noexcept {
  return name.empty() || names_.has_room_for(name.size() + sizeof(NameLength));
}

// In the home line and the few after it, the first free place; or else a closed key's.
SpanTable::Place SpanTable::place_for(std::uint64_t key) const noexcept {
  Place closed = nowhere;
  for (std::size_t at = home_of(key, homes()), last = at + probed_lines; at < last; ++at) {
    const Line& line = lines_[at];
    std::size_t taken = 0;
    while (taken < keys_per_line && line.tags[taken] != 0) ++taken;
    const unsigned idle = ~(line.open | line.heavy) & ((1U << taken) - 1);
    if (closed == nowhere && idle != 0) closed = place_at(at, static_cast<unsigned>(__builtin_ctz(idle)));
    if (taken < keys_per_line) return has_room_for_entry() ? place_at(at, taken) : closed;
  }
  return closed;
}

SpanTable::Place SpanTable::insert(std::uint64_t key, RuleIndex rule,
                                   std::span<const std::byte> name) noexcept {
  if (!has_room_for(name)) return nowhere;
  const Place place = place_for(key);
  if (place != nowhere)
    settle_in(place, key, rule, name);
  else if (has_room_for_entry())
    ++without_place_;
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
  return opened_ == left_open_ && !met_again && !counted_beside &&
         std::all_of(overflow_.begin(), overflow_.end(),
                     [](const OverflowCount& count) { return count.offered == 0; });
}

void SpanTable::open(Place place) noexcept {
  mark_open(line_of(place), place);
  line_of(place).stale |= static_cast<std::uint8_t>(bit(place));
}

// @return whether it has one by now; false: there is no memory for it
bool SpanTable::take_rest(SpanEntry& entry) noexcept {
  if (entry.has_rest()) return true;
  if (!rests_.has_room_for(1)) return false;
  const FillingArray<EntryRest>::Offset number = rests_.take(1);
  rests_[number] = {.drawn = entry.numbers.drawn,
                    .allowance = entry.numbers.allowance,
                    .refused_at = never,
                    .refused_high = 0,
                    .block_is_published = false,
                    .cell = entry.cell_or_refused};
  entry.cell_or_refused = entry.refused_or_rest;
  entry.refused_or_rest = SpanEntry::rested | number;
  entry.blocked_until = never;
  return true;
}

bool SpanTable::set_terms_of_rest(SpanEntry& entry, const EntryTerms& terms) noexcept {
  if (!take_rest(entry)) return false;
  rest(entry).cell = terms.cell;
  rest(entry).allowance = terms.allowance;
  rest(entry).block_is_published = terms.block_is_published;
  entry.blocked_until = terms.blocked_until;
  return true;
}

void SpanTable::carry_drawn(SpanEntry& entry, Place place, std::uint64_t more) noexcept {
  if (take_rest(entry)) {
    rest(entry).drawn += more;
    return;
  }
  const std::uint64_t admitted = entry.numbers.drawn + more - credit(place);
  overflow_[entry.rule].add(admitted, admitted);
  entry.numbers.drawn = credit(place);
}

void SpanTable::uncount_drawn(Place place, std::uint64_t drawn, std::uint64_t admitted) noexcept {
  SpanEntry& entry = this->entry(place);
  const bool has_been_carried = this->admitted(place) < admitted;
  line_of(place).ready[lane_of(place)] -= static_cast<std::uint32_t>(drawn - admitted);
  drop_drawn(entry, drawn - admitted);
  if (!has_been_carried) return drop_drawn(entry, admitted);
  overflow_[entry.rule].offered -= admitted;
  overflow_[entry.rule].admitted -= admitted;
}

void SpanTable::carry_refused(SpanEntry& entry, std::uint64_t weight) noexcept {
  if (!take_rest(entry)) {
    overflow_[entry.rule].add(weight, 0);
    return;
  }
  // There is room for 63 bits, and no store counts further.
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  const std::uint64_t before = this->refused(entry);
  const std::uint64_t refused = before + std::min(weight, most - before);
  rest(entry).refused_high = static_cast<std::uint32_t>(refused >> 32) & ~SpanEntry::rested;
  entry.cell_or_refused = static_cast<std::uint32_t>(refused);
}

CountedKey SpanTable::counted(std::uint32_t number) const noexcept {
  const Place place = places_[number];
  const SpanEntry& entry = entries_[number];
  const EntryTerms terms = this->terms(entry);
  // By the number: what the place says of it would be one more line to wait for.
  const std::uint32_t word = line_of(place).ready[lane_of(place)];
  const std::uint32_t credit = entry.aside + ready_in(word);
  const std::uint64_t in = drawn(entry) - credit;
  return {.key = std::uint64_t{entry.key_high} << 32 | line_of(place).tags[lane_of(place)],
          .rule = entry.rule,
          .name = name_at(entry.name_offset),
          .offered = in + refused(entry) + refused_in(word),
          .admitted = in,
          .credit = credit,
          .lent = entry.lent,
          .allowance = terms.allowance,
          .refused_at = refused_at(entry),
          .cell = terms.cell == 0 ? nullptr : cells[entry.rule] + terms.cell};
}

std::span<const std::byte> SpanTable::name_at(std::uint32_t offset) const noexcept {
  NameLength length;
  std::memcpy(&length, names_.at(offset), sizeof length);
  return {names_.at(offset) + sizeof length, length};
}

void SpanTable::mark_heavy(std::uint32_t number) noexcept {
  line_of(places_[number]).heavy |= static_cast<std::uint8_t>(bit(places_[number]));
  heavy_.push_back(number);
}

// @return whether the keys that were counted are to be weighed
bool SpanTable::begin_weighing() noexcept {
  for (const std::uint32_t number : heavy_) line_of(places_[number]).heavy = 0;
  heavy_.clear();
  // Others are to find room beside them, also while there are few lines.
  heaviest_.clear(keys_of(homes()) / keys_per_heavy);
  if (names_are_short() || held() > entries_.size() / 2)
    wary_ = wary_drains;
  else if (wary_ > 0)
    --wary_;
  // A single span may bring more keys than few lines have places, and they are weighed the sooner.
  const bool weighs = wary_ > 0 || opened_ <= always_weighed || homes() < most_homes_;
  const std::size_t weighed = std::min<std::size_t>(opened_, heavy_.capacity());
  if (weighs && weighed > weighed_.read()) weighed_.add(weighed - weighed_.read());
  return weighs;
}

void SpanTable::weigh(std::uint32_t number, const CountedKey& key,
                      std::span<const std::uint64_t> limits) noexcept {
  // The places of rules without dimensions are nobody else's anyway.
  if (is_of_rule(places_[number]))
    mark_heavy(number);
  else
    heaviest_.add(number, heaviness(key.offered + key.lent, limits.empty() ? 1 : limits[key.rule]));
}

// The heaviest, as far as there is room for all who are as heavy.
void SpanTable::mark_heaviest() noexcept {
  for (const auto& heavy : heaviest_.chosen()) mark_heavy(heavy.thing);
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

// As many new ones may come twice over; and of those that found no place nobody knows how many they were.
std::size_t SpanTable::lines_wanted() const noexcept {
  const std::size_t known = held() + std::max(2 * std::size_t{new_keys()}, std::size_t{held()});
  return without_place_ > 0 ? std::max(known, 4 * keys_of(homes())) : known;
}

void SpanTable::renew() noexcept {
  const std::uint32_t new_keys = this->new_keys();
  wanted_ = lines_wanted();
  may_grow_ = true;
  const std::size_t rests = rests_.used();
  if (is_short())
    forget_light();
  else
    forget_counts();
  // (A worker that has not been online yet may come right now: at first it is the one who provides.)
  if (held() > 0) provide_for(new_keys, rests);
  held_before_ = held();
}

bool SpanTable::grow(std::uint32_t expected) noexcept {
  const std::size_t wanted = std::max<std::size_t>(std::exchange(wanted_, 0), expected);
  if (wanted <= keys_of(homes()) || !may_grow_) return false;
  if (untold_ > 0) {
    wanted_ = wanted;  // which the next drain sees
    return false;
  }
  const std::size_t homes =
      std::min(std::max(home_lines(wanted, keys_per_line), 2 * this->homes()), most_homes_);
  if (homes == this->homes()) return false;
  may_grow_ = provide_lines(homes);
  if (may_grow_) place_anew(homes);
  return may_grow_;
}

// @return false: the kernel has no memory now
bool SpanTable::provide_lines(std::size_t homes) noexcept {
  const std::size_t more = homes - this->homes();
  lines_.provide_ahead(more);
  numbers_.provide_ahead(more * lanes_per_line);
  if (!lines_.has_room_for(more) || !numbers_.has_room_for(more * lanes_per_line)) return false;
  lines_.gather();
  numbers_.gather();
  return true;
}

// Nothing has been counted, so what only the lines know of entries' keys they keep meanwhile: `aside` the
// tag, `refused_or_rest` whether it is heavy. (What was left open is closed: it will be looked at once more.)
// A key that finds its lines full of others, though there are more lines, is forgotten or takes the place of
// a light one, as when it comes for the first time: nothing is counted of either.
void SpanTable::place_anew(std::size_t homes) noexcept {
  const std::uint32_t count = held();
  for (std::uint32_t number = 0; number < count; ++number) {
    if (number + drain_ahead < count)
      prefetch_to_read(&lines_[places_[number + drain_ahead] / lanes_per_line]);
    const Place place = places_[number];
    entries_[number].aside = line_of(place).tags[lane_of(place)];
    entries_[number].refused_or_rest = line_of(place).heavy & bit(place);
  }
  empty_lines();
  forget_open();
  const std::size_t more = homes - this->homes();
  homes_.add(more);
  lines_.take(more);
  numbers_.take(more * lanes_per_line);
  entries_.keep(0);
  places_.keep(0);
  heavy_.clear();
  const auto key_of = [](const SpanEntry& entry) {
    return std::uint64_t{entry.key_high} << 32 | entry.aside;
  };
  for (std::uint32_t number = 0; number < count; ++number) {
    if (number + drain_ahead < count) {
      prefetch(key_of(entries_[number + drain_ahead]));
      prefetch_number_of(key_of(entries_[number + drain_ahead]));
    }
    const SpanEntry entry = entries_[number];
    const Place place = is_of_rule(places_[number]) ? places_[number] : place_for(key_of(entry));
    if (place == nowhere) continue;
    hold(place, key_of(entry), entry.rule, entry.name_offset);
    if (entry.refused_or_rest != 0) mark_heavy(numbers_[place]);
  }
  held_before_ = held();
}

// Those that have been used: others may not have any pages.
void SpanTable::empty_lines() noexcept {
  std::memset(static_cast<void*>(lines_.data()), 0, lines_.used() * sizeof(Line));
  std::memset(static_cast<void*>(lines_.data() + rules_line_), 0,
              (lines_.size() - rules_line_) * sizeof(Line));
}

// A key that a drain has left open, or whose line would have it left open, is looked at.
void SpanTable::end_lasting(Place place) noexcept {
  met_again = true;
  line_of(place).lasting &= static_cast<std::uint8_t>(~bit(place));
  const std::uint32_t number = numbers_[place];
  left_alone_[number / OpenNumbers::word_bits] &= ~(OpenBits{1} << number % OpenNumbers::word_bits);
}

// Of those that the drain before has left open: whom this one is to tell of, they are left alone no more.
// All, if their lines are about to go; else whose turn it is, and who may not stay open for as long as
// others.
void SpanTable::call_up(MonotonicTime keep_until, Turns turns) noexcept {
  const std::uint32_t turn = ++drains_ + turns.ahead;
  const bool any = std::exchange(left_open_, 0) > 0;
  untold_ = 0;
  if (!any) return;
  const bool all = keep_until == keep_none || is_short() || may_need_lines(std::max(wanted_, lines_wanted()));
  const Ticks then = all ? 0 : ticks_of(keep_until);
  for (std::uint32_t word = 0; word * OpenNumbers::word_bits < held(); ++word) {
    const bool in_turn = (word ^ turn) % turns.count == 0;
    if (all || in_turn || !is_later(left_until_[word], then))
      left_alone_[word] = 0;
    else
      untold_ += static_cast<std::uint32_t>(std::popcount(left_alone_[word]));
  }
  left_open_ = untold_;
}

void SpanTable::close_entry(std::uint32_t number) noexcept {
  const Place place = places_[number];
  Line& line = line_of(place);
  const auto others = static_cast<std::uint8_t>(~bit(place));
  line.ready[lane_of(place)] = 0;
  line.open &= others;
  line.stale &= others;
  line.lasting &= others;
  open_[number / OpenNumbers::word_bits] &= ~(OpenBits{1} << number % OpenNumbers::word_bits);
  SpanEntry closed;
  SpanEntry& entry = entries_[number];
  closed.key_high = entry.key_high;
  closed.name_offset = entry.name_offset;
  closed.rule = entry.rule;
  entry = closed;
}

// @pre its key's line says what lasts
bool SpanTable::is_blocked_until(const SpanEntry& entry, MonotonicTime then) const noexcept {
  if (then == keep_none) return false;
  if (entry.has_rest()) return rest(entry).block_is_published != 0 && entry.blocked_until >= then;
  // Not looked at since a drain has left it open.
  return is_later(entry.numbers.allowance, ticks_of(then));
}

// Its counts have been taken. What its line says goes on; for all else it is as one that has just been met.
void SpanTable::keep_refused(std::uint32_t number, MonotonicTime keep_until) noexcept {
  const Place place = places_[number];
  Line& line = line_of(place);
  SpanEntry& entry = entries_[number];
  const std::uint32_t word = number / OpenNumbers::word_bits;
  Ticks until = entry.numbers.allowance;
  if (entry.has_rest()) {
    until = ticks_of(std::min(entry.blocked_until, keep_until + 2 * unseen * tick));
    if (const Ticks look = unseen_until(word, keep_until); is_later(until, look)) until = look;
  }
  close_entry(number);
  const OpenBits own = OpenBits{1} << number % OpenNumbers::word_bits;
  open_[word] |= own;
  if (left_alone_[word] == 0 || is_later(left_until_[word], until)) left_until_[word] = until;
  left_alone_[word] |= own;
  entry.numbers.allowance = until;
  line.ready[lane_of(place)] = refused_here;
  for (std::uint8_t* const bits : {&line.open, &line.stale, &line.lasting})
    *bits |= static_cast<std::uint8_t>(bit(place));
  ++left_open_;
}

// Of no entry anything is known any more, nor whether it is open. @pre the lines are emptied
void SpanTable::forget_open() noexcept {
  const std::size_t words = (held() + OpenNumbers::word_bits - 1) / OpenNumbers::word_bits;
  std::memset(open_.data(), 0, words * sizeof(OpenBits));
  if (left_open_ > 0) std::memset(left_alone_.data(), 0, words * sizeof(OpenBits));
  opened_ = left_open_ = untold_ = 0;
  kept_until_ = keep_none;
}

void SpanTable::forget_counts() noexcept {
  opened_ = left_open_;
  rests_.keep(0);
  without_place_ = 0;
  grant_turns.clear();
  counted_beside = false;
  met_again = false;
  std::fill(overflow_.begin(), overflow_.end(), OverflowCount{});
}

// Room for twice as many new keys as have come since the last drain, but for no more than the table is made
// for. (Names are as long as those that are here, or a quarter longer.) And for as many rests as were needed
// in this span, or few: where more are needed there is time to touch them, as who is blocked has no hurry.
void SpanTable::provide_for(std::size_t new_keys, std::size_t rests) noexcept {
  const std::size_t keys = entries_.size() / 8 * 5;
  const std::size_t to_come =
      std::max(std::min(2 * new_keys, keys - std::min<std::size_t>(keys, held())), always_ahead);
  entries_.provide_ahead(to_come);
  entries_.gather();
  rests_.provide_ahead(std::max(rests, always_ahead));
  rests_.gather();
  places_.provide_ahead(to_come);
  names_.provide_ahead(to_come * (names_.used() / held() + 1) * 5 / 4);
}

void SpanTable::clear() noexcept {
  empty_lines();
  forget_open();
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
  const std::size_t weighed =
      entries_.provided() < entries_.size() ? weighed_.read() : heavy_.capacity();  // as the entries have it
  const std::size_t rules_lines = lines_.provided() < lines_.size() ? lines_.size() - rules_line_ : 0;
  return lines_.memory() + numbers_.memory() +
         rules_lines * (sizeof(Line) + lanes_per_line * sizeof(numbers_[0])) + entries_.memory() +
         rests_.memory() + places_.memory() + names_.memory() +
         entries_.provided() / OpenNumbers::word_bits * (2 * sizeof(OpenBits) + sizeof(left_until_[0])) +
         overflow_.size() * sizeof(OverflowCount) +
         weighed * (sizeof(heavy_[0]) + sizeof(heaviest_.chosen()[0]) + sizeof(kept_[0]));
}

}  // namespace weir
