// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Counts as nodes exchange them: records, one after the other, each the counter's id (8 bytes, the least
/// significant first) and what is added to it (1 to 10 bytes: seven bits each, the least significant first,
/// the top bit says that more follow). What others have written may be anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir {

/// Something added to a counter.
struct ExchangeRecord {
  std::uint64_t id = 0;     ///< a keyed hash of its name
  std::uint64_t delta = 0;  ///< at most 2^63 − 1
  bool operator==(const ExchangeRecord&) const = default;
};

/// The most bytes of one record.
inline constexpr std::size_t max_record_size = 8 + 9;

/// @pre record.delta < 2^63
inline void append_record(std::string& output, const ExchangeRecord& record) {
  char bytes[max_record_size];
  std::size_t size = 0;
  for (int shift = 0; shift < 64; shift += 8) bytes[size++] = static_cast<char>(record.id >> shift & 0xff);
  std::uint64_t rest = record.delta;
  for (; rest >= 0x80; rest >>= 7) bytes[size++] = static_cast<char>(0x80 | (rest & 0x7f));
  bytes[size++] = static_cast<char>(rest);
  output.append(bytes, size);
}

/// Reads records from bytes that may be anything.
class RecordReader {
 public:
  explicit RecordReader(std::string_view bytes) noexcept : rest_(bytes) {}

  /// The next record; nothing at the end, or where what follows is none.
  std::optional<ExchangeRecord> next() noexcept {
    if (rest_.size() < 9) return std::nullopt;
    ExchangeRecord record;
    for (std::size_t i = 0; i < 8; ++i) record.id |= byte(i) << 8 * i;
    for (std::size_t i = 8; i < rest_.size() && i < max_record_size; ++i) {
      record.delta |= (byte(i) & 0x7f) << 7 * (i - 8);
      if (byte(i) >= 0x80) continue;
      rest_.remove_prefix(i + 1);
      return record;
    }
    return std::nullopt;
  }

  /// Whether all was records. Otherwise the bytes are damaged.
  bool at_end() const noexcept { return rest_.empty(); }

 private:
  std::uint64_t byte(std::size_t at) const noexcept { return static_cast<unsigned char>(rest_[at]); }

  std::string_view rest_;
};

}  // namespace weir
