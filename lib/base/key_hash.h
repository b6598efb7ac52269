// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The number under which a worker counts a key. It is computed for every rule of every request, of bytes
/// that clients choose; who could choose bytes whose numbers are equal, or lie side by side in a table, could
/// make others pay.
///
/// A pseudo-random function like SipHash keeps that away from clients who learn its values. They learn next
/// to none: a key's number leaves the process nowhere, but for a few bits of it in the length of a block that
/// is spread by `dephase`. So it is enough that the function itself is drawn at random, and that is several
/// times cheaper, since its multiplications do not wait for each other:
///
///   NH (Black, Halevi, Krawczyk, Krovetz, Rogaway: "UMAC", 1999): sum over i of (m[2i] + k[2i]) (m[2i+1] +
///   k[2i+1])
///     modulo 2^128, of 64-bit words m of the bytes and k of the key. Two different texts of one length have
///     equal sums for at most one key in 2^64.
///   Multilinear (Lemire, Kaser: "Strongly universal string hashing is fast", 2014): the upper half of
///     a + b x + c y + d z modulo 2^128, of the sum's halves x and y and of the length and the rule, z, with
///     keys of 128 bits. Strongly universal: every pair of different inputs has every pair of values equally
///     often.
///
/// The words m are those of the key's fields, each taken from where its value lies: so a worker hashes a key
/// without writing its bytes together, which it needs for new keys alone. What the fields are (tags and
/// lengths) makes two words of its own; together with the size they tell which words stand at which place of
/// the sum, so that two different keys differ in a word of the sum or in its size.
///
/// Together: two given keys collide with a probability of at most 2 in 2^64, whatever their bytes. What is
/// left of linearity (texts in arithmetic progression have values nearly so) is broken by a last step that is
/// one to one and depends on the secret, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/key_bytes.h"
#include "base/keyed_hash.h"
#include "weir/rule.h"

namespace weir {

/// One function of the family, about 700 bytes. Immutable: any number of threads may use one at once, but
/// what a worker reads for each request had better be its own. Values are of one process: they depend on the
/// machine's byte order.
class KeyHash {
 public:
  class Fields;

  /// @param secret  random, unless a run must replay; all the words of the key are derived from it by SipHash
  explicit KeyHash(HashKey secret) noexcept;

  /// @param tweak  separates domains: the rule's index; below 2^48
  /// @param bytes  of a key; others are hashed as well, and as well told apart
  /// @pre bytes.size() <= KeyBytes::capacity
  std::uint64_t operator()(std::uint64_t tweak, std::span<const std::byte> bytes) const noexcept;

 private:
  static constexpr std::size_t block = 16;
  /// One for the fields' tags and lengths, and the fields' own, of which each has one more than it has whole
  /// ones.
  static constexpr std::size_t most_blocks = 1 + KeyBytes::capacity / block + max_dimensions;
  struct Wide {
    std::uint64_t low;
    std::uint64_t high;
  };
  __extension__ using Uint128 = unsigned __int128;

  std::uint64_t finish(Uint128 sum, std::uint64_t z) const noexcept {
    const auto x = static_cast<std::uint64_t>(sum);
    const auto y = static_cast<std::uint64_t>(sum >> 64);
    // Of a + b x + c y + d z the upper half alone is wanted, to which the keys' upper halves add nothing but
    // themselves.
    const auto times = [](const Wide& key, std::uint64_t word) {
      return static_cast<Uint128>(key.low) * word;
    };
    const Uint128 lower = times(outer_[1], x) + times(outer_[2], y) + times(outer_[3], z) + outer_[0].low;
    std::uint64_t value = static_cast<std::uint64_t>(lower >> 64) + outer_[0].high + outer_[1].high * x +
                          outer_[2].high * y + outer_[3].high * z;
    value ^= value >> 32;
    value *= last_;
    return value ^ value >> 32;
  }

  std::array<Wide, 4> outer_;
  std::uint64_t last_;  // odd
  std::array<Wide, most_blocks> inner_;
};

/// The fields of one key, added in order; value() is what the hash says of the bytes that a KeyBytes makes of
/// the same fields. At most max_dimensions fields, all together no longer than a key.
class KeyHash::Fields {
 public:
  explicit Fields(const KeyHash& hash) noexcept : hash_(hash), next_(&hash.inner_[1]) {}

  /// Of the key's bytes so far.
  std::size_t size() const noexcept { return size_; }

  [[gnu::always_inline]] void add_absent() noexcept { begin(key_form::absent, 0, 1); }
  void add_prefix(const IpAddress& address, std::uint8_t ipv4_bits, std::uint8_t ipv6_bits) noexcept {
    if (address.family == IpAddress::Family::none) return add_absent();
    const key_form::Prefix prefix = key_form::prefix_of(address, ipv4_bits, ipv6_bits);
    add(prefix.length == 4 ? key_form::ipv4 : key_form::ipv6, prefix.bits, 2,
        std::as_bytes(std::span(prefix.bytes).first(prefix.length)));
  }
  void add_number(std::uint16_t number) noexcept {
    const std::array<std::uint8_t, 2> bytes{static_cast<std::uint8_t>(number >> 8),
                                            static_cast<std::uint8_t>(number)};
    add(key_form::number, 0, 1, std::as_bytes(std::span(bytes)));
  }
  /// @pre value.size() <= max_value_bytes
  [[gnu::always_inline]] void add_text(std::string_view value) noexcept {
    begin(key_form::text, static_cast<std::uint8_t>(value.size()), 2 + value.size());
    add_content(value.data(), value.size());
  }
  /// A field as it stands in a key. @param head  how many bytes stand before the content: the tag, and what
  /// `second` says
  void add(std::uint8_t tag, std::uint8_t second, std::size_t head,
           std::span<const std::byte> content) noexcept {
    begin(tag, second, head + content.size());
    add_content(reinterpret_cast<const char*>(content.data()), content.size());
  }
  [[gnu::always_inline]] std::uint64_t value(std::uint64_t tweak) noexcept {
    add_block(hash_.inner_[0], shape_low_, shape_high_);
    return hash_.finish(sum_, tweak << 16 | size_);
  }

 private:
  template <typename Word>
  static std::uint64_t load(const char* bytes) noexcept {
    Word word;
    std::memcpy(&word, bytes, sizeof word);
    return word;
  }

  [[gnu::always_inline]] void begin(std::uint8_t tag, std::uint8_t second, std::size_t size) noexcept {
    shape_high_ = shape_high_ << 16 | shape_low_ >> 48;
    shape_low_ = shape_low_ << 16 | static_cast<std::uint64_t>(second << 8 | tag);
    size_ += size;
  }
  [[gnu::always_inline]] void add_block(const Wide& key, std::uint64_t first, std::uint64_t second) noexcept {
    sum_ += static_cast<Uint128>(first + key.low) * (second + key.high);
  }
  [[gnu::always_inline]] void add_content(const char* data, std::size_t size) noexcept {
    if (size >= block) {
      // The last block ends with the text and overlaps the one before: texts of one size still differ in a
      // block.
      add_block(next_[0], load<std::uint64_t>(data), load<std::uint64_t>(data + 8));
      add_block(next_[1], load<std::uint64_t>(data + size - 16), load<std::uint64_t>(data + size - 8));
      next_ += 2;
      for (std::size_t at = block; at + block < size; at += block)
        add_block(*next_++, load<std::uint64_t>(data + at), load<std::uint64_t>(data + at + 8));
    } else if (size >= 4) {
      // 4 to 7 bytes, or 8 to 15, at their two ends: the inner pair moves inwards by what there is beyond
      // seven.
      const std::size_t inner = size / 8 * 4;
      const char* const last = data + size - 4;
      add_block(*next_++, load<std::uint32_t>(data) | load<std::uint32_t>(data + inner) << 32,
                load<std::uint32_t>(last - inner) | load<std::uint32_t>(last) << 32);
    } else if (size != 0) {
      add_block(*next_++, load<std::uint8_t>(data) | load<std::uint8_t>(data + size / 2) << 8,
                load<std::uint8_t>(data + size - 1));
    }
  }

  const KeyHash& hash_;
  const Wide* next_;
  Uint128 sum_ = 0;
  // A tag and what follows it for each field, the last one lowest. Absent fields are zeros: how many there
  // are before the first other one, the size tells.
  std::uint64_t shape_low_ = 0;
  std::uint64_t shape_high_ = 0;
  std::size_t size_ = 0;
};

}  // namespace weir
