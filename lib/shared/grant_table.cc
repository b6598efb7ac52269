// SPDX-License-Identifier: BSD-3-Clause
#include "shared/grant_table.h"

#include <algorithm>

namespace weir {

std::uint64_t grantable(const Rule& rule, std::uint64_t allowance, TokenPrice price) noexcept {
  if (!is_bucket(rule.algorithm) || allowance == 0) return allowance;
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(burst_of(rule)) * full_price / price);
}

std::uint32_t standing_grant(const Rule& rule, std::uint64_t all, unsigned workers) noexcept {
  if (is_bucket(rule.algorithm) && workers == 1) return 0;
  const std::uint64_t parts = rule.algorithm == Algorithm::sliding_window ? 3 * 64
                              : is_bucket(rule.algorithm)                 ? 4 * 64
                                                                          : 64;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(all / (parts * workers), GrantTable::most));
}

GrantTable::GrantTable(std::uint32_t keys, InstructionSet set)
    : homes_(grant_home_lines(keys)),
      search_(lane_search_of(set)),
      lines_(homes_ + probed_lines - 1),
      key_highs_(lines_.size() * keys_per_line),
      rules_(key_highs_.size()),
      in_use_((lines_.size() + lines_per_group - 1) / lines_per_group),
      seen_(key_highs_.size()),
      names_{NameLog(keys), NameLog(keys)} {}

void GrantTable::touch_pages() noexcept {
  lines_.touch_pages();
  key_highs_.touch_pages();
  rules_.touch_pages();
  in_use_.touch_pages();
  for (NameLog& names : names_) names.touch_pages();
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
  if (!names_[written_].has_room_for(name)) return nowhere;
  Line& line = lines_[at];
  const Place place = place_at(at, free_lane(line));
  key_highs_[index_of(place)] = static_cast<std::uint32_t>(key >> 32);
  rules_[index_of(place)] = rule;
  names_[written_].add(key, rule, name);
  // Release: who sees the tag sees whose it is, and finds its name.
  line.tags[place % words_per_line].store(tag_of(key), std::memory_order_release);
  // What follows only says where to look, and how much room there is: relaxed.
  note_held(at);
  return place;
}

void GrantTable::note_held(std::size_t line) noexcept {
  held_.store(held() + 1, std::memory_order_relaxed);
  std::atomic<std::uint64_t>& group = in_use_[line / lines_per_group];
  group.store(group.load(std::memory_order_relaxed) | std::uint64_t{1} << line % lines_per_group,
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

// @return how many keys it held
std::size_t GrantTable::empty_line(std::size_t at, std::array<Moving, keys_per_line>& held) noexcept {
  Line& line = lines_[at];
  std::size_t count = 0;
  // Nobody else looks: relaxed.
  for (std::size_t lane = 0; lane < keys_per_line; ++lane) {
    const std::size_t index = at * keys_per_line + lane;
    const std::uint32_t tag = line.tags[lane].load(std::memory_order_relaxed);
    if (tag == 0) break;
    held[count++] = {tag, halves(line, lane), seen_[index], key_highs_[index], rules_[index]};
    line.tags[lane].store(0, std::memory_order_relaxed);
    for (std::atomic<std::uint16_t>& half : line.used[lane]) half.store(0, std::memory_order_relaxed);
    seen_[index] = {};
  }
  return count;
}

bool GrantTable::is_idle(const Moving& key, const RecentTurns& recent) noexcept {
  const auto used = [&](const GrantWindow& window) { return used_in(key.used[window.half], window) != 0; };
  return !used(GrantWindow(recent.turn)) && !used(GrantWindow(recent.turn + 1)) &&
         !(recent.and_before && used(GrantWindow(recent.turn - 1)));
}

void GrantTable::settle(const Moving& key, std::size_t last) noexcept {
  std::size_t at = home_of(key_of(key), homes_);
  while (at < last && is_full(lines_[at])) ++at;
  const std::size_t lane = free_lane(lines_[at]);
  const std::size_t index = at * keys_per_line + lane;
  key_highs_[index] = key.key_high;
  rules_[index] = key.rule;
  seen_[index] = key.seen;
  for (std::size_t half = 0; half < key.used.size(); ++half)
    lines_[at].used[lane][half].store(key.used[half], std::memory_order_relaxed);
  lines_[at].tags[lane].store(key.tag, std::memory_order_relaxed);
  note_held(at);
}

std::size_t GrantTable::memory() const noexcept {
  return lines_.bytes() + key_highs_.bytes() + rules_.bytes() + names_[0].memory() + names_[1].memory() +
         in_use_.bytes() + seen_.bytes();
}

}  // namespace weir
