// SPDX-License-Identifier: BSD-3-Clause
#include "csv_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iostream>
#include <limits>

namespace weir::replay {
namespace {

constexpr int end_of_file = std::char_traits<char>::eof();
constexpr std::int64_t nanoseconds_per_ms = 1'000'000;
constexpr std::size_t decimals = 6;

bool all_digits(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// What a file says, fit for a terminal.
std::string shown(std::string_view text) {
  constexpr std::size_t most = 40;
  std::string result = "'";
  for (const char c : text.substr(0, most)) result += c >= ' ' && c <= '~' ? c : '?';
  return result + (text.size() > most ? "…'" : "'");
}

}  // namespace

std::string CsvFile::open(const std::string& path) {
  if (path == "-") return read(std::cin, "standard input");
  errno = 0;
  file_.open(path, std::ios::binary);
  if (!file_) return path + ": " + std::strerror(errno != 0 ? errno : EIO);
  return read(file_, path);
}

std::string CsvFile::read(std::istream& in, const std::string& name) {
  in_ = &in;
  name_ = name;
  // Spreadsheets begin their files with a byte order mark.
  for (const char mark : {'\xef', '\xbb', '\xbf'}) {
    if (in_->peek() != static_cast<unsigned char>(mark)) break;
    in_->get();
  }
  const bool there = next_record();
  if (!error_.empty()) return error_;
  const std::vector<std::string> known{"time_ms", "key", "weight"};
  const bool good = there && (fields_.size() == 2 || fields_.size() == 3) &&
                    std::equal(fields_.begin(), fields_.end(), known.begin());
  if (!good) {
    fail("the first line must be the header time_ms,key or time_ms,key,weight");
    return error_;
  }
  columns_ = fields_.size();
  return {};
}

bool CsvFile::fail(const std::string& what) {
  if (error_.empty()) error_ = name_ + ':' + std::to_string(record_at_) + ": " + what;
  return false;
}

int CsvFile::take() {
  const int c = in_->get();
  if (c == '\n') ++line_;
  if (c != end_of_file) ++length_;
  return c;
}

/// Takes what stands behind a field. @param c  its first character
bool CsvFile::end_of_field(int c, bool& last) {
  last = c != ',';
  if (c == '\r' && in_->peek() == '\n') c = take();
  return c == ',' || c == '\n' || c == end_of_file;
}

/// The rest of a field that has begun with a quote, up to the quote that ends it.
bool CsvFile::quoted_field(std::string& field) {
  for (;;) {
    const int c = take();
    if (c == end_of_file) return fail("a quote that is opened here is not closed");
    if (length_ > max_record) return fail("the line is longer than 1 MiB; is a quote not closed?");
    if (c == '"' && in_->peek() != '"') return true;
    if (c == '"') take();
    field += static_cast<char>(c);
  }
}

bool CsvFile::next_field(std::string& field, bool& last) {
  field.clear();
  if (in_->peek() == '"') {
    take();
    if (!quoted_field(field)) return false;
    return end_of_field(take(), last) || fail("behind a quoted field must stand a comma or the line's end");
  }
  for (;;) {
    const int c = take();
    if (end_of_field(c, last)) return true;
    if (length_ > max_record) return fail("the line is longer than 1 MiB");
    if (c == '"') return fail("a field with a quote in it must be quoted as a whole, and its quotes doubled");
    field += static_cast<char>(c);
  }
}

/// The next line that is not blank; false at the end, and at a mistake.
bool CsvFile::next_record() {
  for (;;) {
    record_at_ = line_;
    length_ = 0;
    if (!error_.empty() || in_->peek() == end_of_file) break;
    fields_.clear();
    bool last = false;
    while (!last)
      if (!next_field(fields_.emplace_back(), last)) return false;
    if (fields_.size() > 1 || !fields_[0].empty()) return true;
  }
  if (in_->bad()) fail("cannot be read any further");
  return false;
}

bool CsvFile::parse_time(std::string_view text, WallTime& time) {
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  std::string_view fraction = text.substr(std::min(point + 1, text.size()));
  const bool form = !whole.empty() && all_digits(whole) && all_digits(fraction) &&
                    (point == text.size() || !fraction.empty());
  if (!form)
    return fail("time_ms must be a number of milliseconds since 1970, such as 1700000000000 or 0.25, not " +
                shown(text));
  while (fraction.ends_with('0')) fraction.remove_suffix(1);
  if (fraction.size() > decimals)
    return fail("time_ms of " + shown(text) + " is finer than a nanosecond (six decimals)");
  std::int64_t milliseconds = 0;
  const auto [end, wrong] = std::from_chars(whole.data(), whole.data() + whole.size(), milliseconds);
  if (wrong != std::errc{} || milliseconds > last_ms)
    return fail("time_ms must be from 0 to " + std::to_string(last_ms) + ", not " + shown(text));
  std::int64_t nanoseconds = 0;
  for (std::size_t i = 0; i < decimals; ++i)
    nanoseconds = nanoseconds * 10 + (i < fraction.size() ? fraction[i] - '0' : 0);
  time = WallTime(Duration(milliseconds * nanoseconds_per_ms + nanoseconds));
  return true;
}

bool CsvFile::step_to(WallTime time) {
  constexpr Duration most{last_ms * nanoseconds_per_ms};
  if (last_time_ && time > *last_time_) {
    const Duration step = time - *last_time_;
    if (step > most - forward_)
      return fail("time goes back and forth, and all steps forward come to more than " +
                  std::to_string(last_ms) + " ms");
    forward_ += step;
  }
  last_time_ = time;
  return true;
}

bool CsvFile::parse_weight(std::string_view text, std::uint32_t& weight) {
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), weight);
  if (wrong == std::errc{} && end == text.data() + text.size()) return true;
  return fail("weight must be a whole number from 0 to " +
              std::to_string(std::numeric_limits<std::uint32_t>::max()) + ", not " + shown(text));
}

bool CsvFile::next(CsvRequest& request) {
  if (!next_record()) return false;
  if (fields_.size() != columns_)
    return fail("there are " + std::to_string(fields_.size()) + " fields, and the header has " +
                std::to_string(columns_) + " (a key with a comma in it must be quoted)");
  if (!parse_time(fields_[0], request.time) || !step_to(request.time)) return false;
  request.key = fields_[1];
  request.weight = 1;
  return columns_ == 2 || parse_weight(fields_[2], request.weight);
}

std::string milliseconds_text(Duration duration) {
  const std::int64_t count = duration.count();
  std::string text = std::to_string(count / nanoseconds_per_ms);
  std::string fraction = std::to_string(count % nanoseconds_per_ms);
  fraction.insert(0, decimals - fraction.size(), '0');
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return fraction.empty() ? text : text + '.' + fraction;
}

}  // namespace weir::replay
