// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The bytes that identify a key under its rule: what the hot path hashes and records, and what the control
/// plane turns into the name that people and the store see.
///
/// Form: one field per dimension, a tag byte, then by tag: absent: nothing; text: length byte and bytes;
/// ipv4: prefix length and 4 bytes; ipv6: prefix length and 16 bytes; number: 2 bytes, big endian; digest:
/// length byte, the first bytes of the value (at most 32), 16 bytes of digest. The form is unambiguous, so
/// different values never share a key (but for collisions of a 128-bit digest).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "weir/request.h"

namespace weir {

/// The longest value kept whole; longer ones are kept as a prefix and a digest.
inline constexpr std::size_t max_value_bytes = 128;

/// Builds one key's bytes in place, on the worker's path.
class KeyBytes {
 public:
  /// Enough for max_dimensions fields: three of them with the longest values, or all of ordinary size, are
  /// kept whole. A value that would leave too little room for the fields that may follow becomes a digest.
  static constexpr std::size_t capacity = 480;

  /// Fields beyond max_dimensions are ignored.
  void clear() noexcept { size_ = fields_ = 0; }
  void add_absent() noexcept;
  void add_text(std::string_view value) noexcept;
  /// As add_text, in lower case (ASCII).
  void add_text_lower(std::string_view value) noexcept;
  /// The first `bits` of an address, the rest zeroed. An address of no family is absent.
  void add_prefix(const IpAddress& address, std::uint8_t ipv4_bits, std::uint8_t ipv6_bits) noexcept;
  void add_number(std::uint16_t number) noexcept;

  std::span<const std::byte> bytes() const noexcept { return std::as_bytes(std::span(bytes_.data(), size_)); }

 private:
  /// Counts the field. @return the most it may take; 0: it is one too many
  std::size_t begin_field() noexcept;
  template <bool lowered>
  void add_value(std::string_view value) noexcept;

  std::array<std::uint8_t, capacity> bytes_;
  std::uint16_t size_ = 0;
  std::uint16_t fields_ = 0;
};

/// The key's name: "rule" alone without dimensions, else "rule|value|value…". Absent values read "-"; in
/// values,
/// '%', '|', '~', a lone "-", and everything outside printable ASCII are percent-encoded, so names are
/// unambiguous too. Prefixes shorter than the whole address read "10.1.0.0/16". A digest reads as the value's
/// first bytes, "~", and 32 hex digits. Bytes that no KeyBytes made yield what could be read, then "%?":
/// never a read beyond them. Allocates.
std::string key_name(std::string_view rule, std::span<const std::byte> bytes);

}  // namespace weir
