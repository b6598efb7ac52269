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
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "weir/request.h"
#include "weir/rule.h"

namespace weir {

/// The longest value kept whole; longer ones are kept as a prefix and a digest.
inline constexpr std::size_t max_value_bytes = 128;

/// How the fields are laid out.
namespace key_form {

enum Tag : std::uint8_t { absent = 0, text = 1, ipv4 = 2, ipv6 = 3, number = 4, digest = 5 };

inline constexpr std::size_t digest_bytes = 16;
/// The largest field that must still find room once a key has grown long: a digest without a prefix, or an
/// IPv6 prefix.
inline constexpr std::size_t reserved_per_field = 2 + digest_bytes;

template <std::size_t size>
void copy_ends(std::string_view from, std::uint8_t* to) noexcept {
  std::memcpy(to, from.data(), size);
  std::memcpy(to + from.size() - size, from.data() + from.size() - size, size);
}

/// Values are short, and of all lengths: two pieces of a fixed size that overlap cost less than a call of
/// memcpy, and fewer branches that nobody can foresee.
inline void copy_as_is(std::string_view from, std::uint8_t* to) noexcept {
  constexpr std::size_t piece = 16;
  if (from.size() >= piece) {
    copy_ends<piece>(from, to);
    for (std::size_t at = piece; at + piece < from.size(); at += piece)
      std::memcpy(to + at, from.data() + at, piece);
  } else if (from.size() >= 4) {
    // 4 to 7 bytes, or 8 to 15, at their two ends: the inner pair moves inwards by what there is beyond
    // seven.
    const std::size_t inner = from.size() / 8 * 4;
    std::memcpy(to, from.data(), 4);
    std::memcpy(to + inner, from.data() + inner, 4);
    std::memcpy(to + from.size() - 4 - inner, from.data() + from.size() - 4 - inner, 4);
    std::memcpy(to + from.size() - 4, from.data() + from.size() - 4, 4);
  } else if (!from.empty()) {
    // The first, the middle and the last one are all there are.
    to[0] = static_cast<std::uint8_t>(from.front());
    to[from.size() / 2] = static_cast<std::uint8_t>(from[from.size() / 2]);
    to[from.size() - 1] = static_cast<std::uint8_t>(from.back());
  }
}

/// The first bits of an address, the rest zeroed.
struct Prefix {
  std::array<std::uint8_t, 16> bytes;
  std::uint8_t length;  ///< of the whole address: 4 or 16 bytes
  std::uint8_t bits;    ///< at most 8 * length
};

/// @pre the address has a family
inline Prefix prefix_of(const IpAddress& address, std::uint8_t ipv4_bits, std::uint8_t ipv6_bits) noexcept {
  const bool is_ipv4 = address.family == IpAddress::Family::v4;
  Prefix prefix{address.bytes, static_cast<std::uint8_t>(is_ipv4 ? 4 : 16), is_ipv4 ? ipv4_bits : ipv6_bits};
  if (prefix.bits >= 8 * prefix.length) {
    prefix.bits = static_cast<std::uint8_t>(8 * prefix.length);
    return prefix;
  }
  std::uint8_t& last = prefix.bytes[prefix.bits / 8];
  last = static_cast<std::uint8_t>(last & (0xff00U >> prefix.bits % 8));
  for (std::size_t i = prefix.bits / 8 + std::size_t{1}; i < prefix.length; ++i) prefix.bytes[i] = 0;
  return prefix;
}

}  // namespace key_form

/// Builds one key's bytes in place, on the worker's path.
class KeyBytes {
 public:
  /// Enough for max_dimensions fields: three of them with the longest values, or all of ordinary size, are
  /// kept whole. A value that would leave too little room for the fields that may follow becomes a digest.
  static constexpr std::size_t capacity = 480;

  /// Fields beyond max_dimensions are ignored.
  void clear() noexcept { size_ = fields_ = 0; }
  void add_absent() noexcept {
    if (begin_field() != 0) bytes_[size_++] = key_form::absent;
  }
  [[gnu::always_inline]] void add_text(std::string_view value) noexcept {
    const std::size_t room = begin_field();
    if (value.size() > max_value_bytes || 2 + value.size() > room) [[unlikely]] {
      add_long<false>(value, room);
      return;
    }
    std::uint8_t* const to = &bytes_[size_];
    size_ = static_cast<std::uint16_t>(size_ + 2 + value.size());
    to[0] = key_form::text;
    to[1] = static_cast<std::uint8_t>(value.size());
    key_form::copy_as_is(value, to + 2);
  }
  /// As add_text, in lower case (ASCII).
  void add_text_lower(std::string_view value) noexcept;
  /// The first `bits` of an address, the rest zeroed. An address of no family is absent.
  void add_prefix(const IpAddress& address, std::uint8_t ipv4_bits, std::uint8_t ipv6_bits) noexcept;
  void add_number(std::uint16_t number) noexcept;

  std::span<const std::byte> bytes() const noexcept { return std::as_bytes(std::span(bytes_.data(), size_)); }

 private:
  /// Counts the field. @return the most it may take; 0: it is one too many
  std::size_t begin_field() noexcept {
    const std::size_t before = fields_;
    if (before >= max_dimensions) return 0;
    fields_ = static_cast<std::uint16_t>(before + 1);
    return capacity - size_ - (max_dimensions - 1 - before) * key_form::reserved_per_field;
  }
  /// A value of which a prefix and a digest are kept. @param room  as begin_field() said
  template <bool lowered>
  void add_long(std::string_view value, std::size_t room) noexcept;

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
/// The same, in place of what `name` was: who makes many of them allocates for the longest.
void make_key_name(std::string& name, std::string_view rule, std::span<const std::byte> bytes);

}  // namespace weir
