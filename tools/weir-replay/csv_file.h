// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Reads lists of requests: text with the header `time_ms,key` or `time_ms,key,weight`, quoted as RFC 4180
/// has it.
#pragma once

#include <cstdint>
#include <fstream>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/time.h"

namespace weir::replay {

/// One request of a list.
struct CsvRequest {
  WallTime time;
  std::string key;           ///< any bytes
  std::uint32_t weight = 1;  ///< 0: asks without charging
};

class CsvFile {
 public:
  /// The longest line, with all its quotes; a quoted field may have line ends of its own.
  static constexpr std::size_t max_record = std::size_t{1} << 20;
  /// The latest time: a wall clock of 64-bit nanoseconds ends in 2262, and rules look years ahead. It
  /// bounds the sum of all steps forward, too: a monotonic clock takes each of them, and none back.
  static constexpr std::int64_t last_ms = 9'000'000'000'000;

  /// Opens the list and reads its header.
  /// @param path  "-" for the standard input
  /// @return empty, or why it cannot be read ("FILE: …", "FILE:1: …")
  std::string open(const std::string& path);

  /// As open(), from a stream that outlives this object and is called `name` in messages.
  std::string read(std::istream& in, const std::string& name);

  /// The next request. False: at the end, and where the list is broken; see error().
  bool next(CsvRequest& request);

  /// What is wrong with the list ("FILE:7: …"); empty: nothing.
  const std::string& error() const noexcept { return error_; }

 private:
  bool next_record();
  bool next_field(std::string& field, bool& last);
  bool quoted_field(std::string& field);
  bool end_of_field(int c, bool& last);
  int take();
  bool fail(const std::string& what);
  bool parse_time(std::string_view text, WallTime& time);
  bool step_to(WallTime time);
  bool parse_weight(std::string_view text, std::uint32_t& weight);

  std::ifstream file_;
  std::istream* in_ = nullptr;
  std::string name_;
  std::vector<std::string> fields_;
  std::size_t columns_ = 0;      ///< of the header; 0: not read yet
  std::size_t length_ = 0;       ///< bytes of the record so far
  std::uint64_t line_ = 1;       ///< where reading stands, 1-based
  std::uint64_t record_at_ = 1;  ///< where the record began
  std::string error_;
  std::optional<WallTime> last_time_;
  /// All steps forward from one request to the next.
  Duration forward_{};
};

/// A time in milliseconds, as lists have it: exact, without zeroes at the end of a fraction ("1.5").
std::string milliseconds_text(Duration duration);

}  // namespace weir::replay
