// SPDX-License-Identifier: BSD-3-Clause
#include "config/durations.h"

#include <array>
#include <cstdint>
#include <limits>

#include "config/words.h"

namespace weir {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t nanoseconds;
};

constexpr std::array<Unit, 7> units{{{"d", 86'400'000'000'000},
                                     {"h", 3'600'000'000'000},
                                     {"m", 60'000'000'000},
                                     {"s", 1'000'000'000},
                                     {"ms", 1'000'000},
                                     {"us", 1'000},
                                     {"ns", 1}}};

// A day is 2^16 × 3^3 × 5^11 nanoseconds: whole nanoseconds of it never take more decimal places than this,
// and the exact arithmetic below has room for them.
constexpr std::size_t max_fraction = 18;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view take_digits(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length])) ++length;
  const std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  return digits;
}

const Unit* find_unit(std::string_view name) {
  for (const Unit& unit : units)
    if (unit.name == name) return &unit;
  return nullptr;
}

DurationResult failure(std::string message) { return {{}, std::move(message)}; }

DurationResult too_long(std::string_view text) {
  return failure("of " + in_quotes(text) + " is too long: at most 106751d");
}

}  // namespace

DurationResult parse_duration(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with('-')) return failure("must not be negative");
  const std::string_view whole = take_digits(rest);
  std::string_view fraction;
  bool valid = !whole.empty();
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    fraction = take_digits(rest);
    valid = valid && !fraction.empty();
  }
  const Unit* unit = find_unit(rest);
  if (!valid || unit == nullptr)
    return failure(
        "must be a number and one of the units ns, us, ms, s, m, h, d, such as \"500ms\" or \"1.5s\", not " +
        in_quotes(text));

  while (fraction.ends_with('0')) fraction.remove_suffix(1);
  constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  __int128 value = 0;
  for (const char digit : whole) {
    value = value * 10 + (digit - '0');
    if (value * unit->nanoseconds > limit) return too_long(text);
  }
  value *= unit->nanoseconds;
  if (fraction.size() > max_fraction) return failure("of " + in_quotes(text) + " is finer than a nanosecond");
  __int128 part = 0;
  __int128 scale = 1;
  for (const char digit : fraction) {
    part = part * 10 + (digit - '0');
    scale *= 10;
  }
  part *= unit->nanoseconds;
  if (part % scale != 0) return failure("of " + in_quotes(text) + " is finer than a nanosecond");
  value += part / scale;
  if (value > limit) return too_long(text);
  return {Duration(static_cast<std::int64_t>(value)), {}};
}

std::string format_duration(Duration duration) {
  const std::int64_t value = duration.count();
  if (value == 0) return "0s";
  for (const Unit& unit : units)
    if (value % unit.nanoseconds == 0)
      return std::to_string(value / unit.nanoseconds) + std::string(unit.name);
  return {};
}

}  // namespace weir
