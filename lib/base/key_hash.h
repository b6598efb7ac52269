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
///   NH (Black, Halevi, Krawczyk, Krovetz, Rogaway: "UMAC", 1999), of 32-bit words m of the bytes and k of
///   the
///     key: sum over i of (m[2i] + k[2i]) (m[2i+1] + k[2i+1]) modulo 2^64. Two different texts of one length
///     have equal sums for at most one key in 2^32; taken twice, the second time with the key's words from
///     the fifth on ("Toeplitz"), for at most one in 2^64. A vector instruction makes two such products, and
///     more where vectors are longer.
///   Multilinear (Lemire, Kaser: "Strongly universal string hashing is fast", 2014): the upper half of
///     a + b x + c y + d z + e s + f t modulo 2^128, with keys of 128 bits, of the two sums x and y, of the
///     length and the rule, z, and of the fields' tags and lengths, s and t. Strongly universal: every pair
///     of different inputs has every pair of values equally often.
///
/// The words m are those of the key's fields, each taken from where its value lies: so a worker hashes a key
/// without writing its bytes together, which it needs for new keys alone. Tags, lengths and size tell which
/// words stand at which place of the sums, so that two different keys differ in one of them or in a word.
///
/// A field ends with zeros up to a whole number of pieces of 32 bytes, of which it has one at least, though
/// it be absent. The first piece of a field has a place of its own, by the field's number; what longer fields
/// have more of follows behind all of these, in order. Nearly all values have one piece: so neither a branch
/// depends on how long a value is, which no predictor could learn, nor on that where the next one stands.
///
/// Together: two given keys collide with a probability of at most 2 in 2^64, whatever their bytes. What is
/// left of linearity (texts in arithmetic progression have values nearly so) is broken by a last step that is
/// one to one and depends on the secret, too.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/key_bytes.h"
#include "base/keyed_hash.h"
#include "base/short_text.h"
#include "weir/rule.h"

namespace weir {

/// All bits of 32 bytes, and none of the next 32: from byte 32 - n on, what leaves the first n bytes of 32.
inline constexpr std::array<char, 64> key_hash_masks = [] {
  std::array<char, 64> masks{};
  for (std::size_t i = 0; i < masks.size() / 2; ++i) masks[i] = '\xff';
  return masks;
}();

/// One function of the family, less than 900 bytes. Immutable: any number of threads may use one at once, but
/// what a worker reads for each request had better be its own. Values are of one process: they depend on the
/// machine's byte order.
class KeyHash {
 public:
  class Fields;
  template <bool few>
  class Texts;
  /// How many texts Texts<true> has room for.
  static constexpr std::size_t most_of_few = 4;

  /// @param secret  random, unless a run must replay; all the words of the key are derived from it by SipHash
  explicit KeyHash(HashKey secret) noexcept;

  /// The words of the key, for those who hash with instructions that not every machine has: they must arrive
  /// at what Texts says.
  __extension__ using Uint128 = unsigned __int128;
  struct Words {
    /// What a field's content comes in, bytes.
    static constexpr std::size_t piece = 32;
    /// The first ones of the fields stand before all others.
    static constexpr std::size_t first_pieces = max_dimensions;
    static constexpr std::size_t most_pieces = first_pieces + KeyBytes::capacity / piece;
    /// By how much of the key the second sum is behind the first, bytes.
    static constexpr std::size_t shift = 16;

    [[gnu::always_inline]] std::uint64_t finish(std::uint64_t x, std::uint64_t y, std::uint64_t z,
                                                std::uint64_t shape_low,
                                                std::uint64_t shape_high) const noexcept {
      // Of the sum the upper half alone is wanted, to which the keys' upper halves add nothing but
      // themselves.
      Uint128 lower = static_cast<Uint128>(of_x.low) * x + start.low;
      lower += static_cast<Uint128>(of_y.low) * y;
      lower += static_cast<Uint128>(of_z.low) * z;
      lower += static_cast<Uint128>(of_shape_low.low) * shape_low;
      std::uint64_t value =
          start.high + of_x.high * x + of_y.high * y + of_z.high * z + of_shape_low.high * shape_low;
      if (shape_high != 0) {
        lower += static_cast<Uint128>(of_shape_high.low) * shape_high;
        value += of_shape_high.high * shape_high;
      }
      value += static_cast<std::uint64_t>(lower >> 64);
      value ^= value >> 32;
      value *= last;
      return value ^ value >> 32;
    }

    alignas(64) char inner[most_pieces * piece + shift];
    struct Wide {
      std::uint64_t low;
      std::uint64_t high;
    };
    Wide start;
    Wide of_x;
    Wide of_y;
    Wide of_z;
    Wide of_shape_low;
    Wide of_shape_high;
    std::uint64_t last;  // odd
  };
  const Words& words() const noexcept { return words_; }

  /// @param tweak  separates domains: the rule's index; below 2^48
  /// @param bytes  of a key; others are hashed as well, and as well told apart
  /// @pre bytes.size() <= KeyBytes::capacity
  std::uint64_t operator()(std::uint64_t tweak, std::span<const std::byte> bytes) const noexcept;

 private:
  class Sum;

  Words words_;
};

/// The two sums over the words of the fields' contents.
class KeyHash::Sum {
 public:
  explicit Sum(const KeyHash& hash) noexcept
      : key_(hash.words_.inner), key_of_more_(hash.words_.inner + Words::first_pieces * piece) {}

  /// Of a field without content.
  [[gnu::always_inline]] void add_nothing() noexcept {
    add_piece(Half{}, Half{}, key_);
    key_ += piece;
  }
  /// @param readable  how many bytes may be read from the first one on
  [[gnu::always_inline]] void add(const char* data, std::size_t size, std::size_t readable) noexcept {
    const char* key = key_;
    key_ += piece;
    if (size > piece) [[unlikely]] {
      for (; size > piece; data += piece, size -= piece, readable -= piece) {
        add_piece(half_at(data), half_at(data + half), key);
        key = key_of_more_;
        key_of_more_ += piece;
      }
    }
    if (readable < piece) return add_last(data, size, key);
    const char* const mask = key_hash_masks.data() + (piece - size);
    add_piece(half_at(data) & half_at(mask), half_at(data + half) & half_at(mask + half), key);
  }

  std::uint64_t x() const noexcept { return x_[0] + x_[1]; }
  std::uint64_t y() const noexcept { return y_[0] + y_[1]; }

 private:
  static constexpr std::size_t piece = Words::piece;
  static constexpr std::size_t shift = Words::shift;
  static constexpr std::size_t half = piece / 2;
  // Of GCC and clang, for every machine: where it has vectors, they are its own.
  using Half [[gnu::vector_size(half), gnu::may_alias]] = std::uint64_t;
  using Lanes [[gnu::vector_size(half), gnu::may_alias]] = std::uint32_t;

  static std::uint64_t word_at(const char* bytes) noexcept {
    std::uint64_t word;
    std::memcpy(&word, bytes, sizeof word);
    return word;
  }
  static Half half_at(const char* bytes) noexcept {
    Half words;
    std::memcpy(&words, bytes, sizeof words);
    return words;
  }
  /// A text's end, shorter than a piece, no byte behind which may be read.
  [[gnu::always_inline]] void add_last(const char* data, std::size_t size, const char* key) noexcept {
    constexpr std::size_t word = sizeof(std::uint64_t);
    if (size < word) return add_piece(Half{word_of_short_text(data, size)}, Half{}, key);
    const std::uint64_t rest = word_of_text_rest(data, size);
    if (size < half) return add_piece(Half{word_at(data), rest}, Half{}, key);
    if (size < half + word) return add_piece(half_at(data), Half{rest}, key);
    add_piece(half_at(data), Half{word_at(data + half), rest}, key);
  }
  [[gnu::always_inline]] static Half products(Half words, const char* key) noexcept {
    const auto sums =
        reinterpret_cast<Half>(reinterpret_cast<Lanes>(words) + reinterpret_cast<Lanes>(half_at(key)));
#if defined(__SSE2__)
    // Which compilers do not see in the line below.
    return reinterpret_cast<Half>(
        _mm_mul_epu32(reinterpret_cast<__m128i>(sums), reinterpret_cast<__m128i>(sums >> 32)));
#else
    return (sums & 0xffffffff) * (sums >> 32);
#endif
  }
  [[gnu::always_inline]] void add_piece(Half first, Half second, const char* key) noexcept {
    x_ += products(first, key) + products(second, key + half);
    y_ += products(first, key + shift) + products(second, key + shift + half);
  }

  const char* key_;          // of the next field's first piece
  const char* key_of_more_;  // of the next piece of a longer one
  Half x_{};
  Half y_{};
};

/// The fields of one key, added in order; value() is what the hash says of the bytes that a KeyBytes makes of
/// the same fields. At most max_dimensions fields, all together no longer than a key.
class KeyHash::Fields {
 public:
  explicit Fields(const KeyHash& hash) noexcept : hash_(hash), sum_(hash) {}

  /// Of the key's bytes so far.
  std::size_t size() const noexcept { return size_; }

  [[gnu::always_inline]] void add_absent() noexcept {
    begin(key_form::absent, 0, 1);
    sum_.add_nothing();
  }
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
  /// @param readable  how many bytes may be read from the value's first one on: with more of them behind its
  ///                  end it costs less
  /// @pre value.size() <= max_value_bytes and value.size() <= readable
  [[gnu::always_inline]] void add_text(std::string_view value, std::size_t readable) noexcept {
    begin(key_form::text, static_cast<std::uint8_t>(value.size()), 2 + value.size());
    sum_.add(value.data(), value.size(), readable);
  }
  [[gnu::always_inline]] void add_text(std::string_view value) noexcept { add_text(value, value.size()); }
  /// A field as it stands in a key. @param head  how many bytes stand before the
  /// content: the tag, and what `second` says
  void add(std::uint8_t tag, std::uint8_t second, std::size_t head,
           std::span<const std::byte> content) noexcept {
    begin(tag, second, head + content.size());
    sum_.add(reinterpret_cast<const char*>(content.data()), content.size(), content.size());
  }
  [[gnu::always_inline]] std::uint64_t value(std::uint64_t tweak) noexcept {
    return hash_.words_.finish(sum_.x(), sum_.y(), tweak << 16 | size_, shape_low_, shape_high_);
  }

 private:
  [[gnu::always_inline]] void begin(std::uint8_t tag, std::uint8_t second, std::size_t size) noexcept {
    shape_high_ = shape_high_ << 16 | shape_low_ >> 48;
    shape_low_ = shape_low_ << 16 | static_cast<std::uint64_t>(second << 8 | tag);
    size_ += size;
  }
  const KeyHash& hash_;
  Sum sum_;
  // A tag and what follows it for each field, the last one lowest. Absent fields are zeros: how many there
  // are before the first other one, the size tells.
  std::uint64_t shape_low_ = 0;
  std::uint64_t shape_high_ = 0;
  std::size_t size_ = 0;
};

/// The same for keys of texts alone, which most are. @tparam few  no more than `most_of_few`
template <bool few>
class KeyHash::Texts {
 public:
  explicit Texts(const KeyHash& hash) noexcept : hash_(hash), sum_(hash) {}
  std::size_t size() const noexcept { return size_; }
  [[gnu::always_inline]] void add_absent() noexcept {
    begin(0, 1);
    sum_.add_nothing();
  }
  /// As Fields::add_text().
  [[gnu::always_inline]] void add_text(const char* data, std::size_t size, std::size_t readable) noexcept {
    begin(size << 8 | key_form::text, 2 + size);
    sum_.add(data, size, readable);
  }
  [[gnu::always_inline]] std::uint64_t value(std::uint64_t tweak) noexcept {
    return hash_.words_.finish(sum_.x(), sum_.y(), tweak << 16 | size_, shape_low_, shape_high_);
  }

 private:
  [[gnu::always_inline]] void begin(std::uint64_t tag, std::size_t size) noexcept {
    if constexpr (!few) shape_high_ = shape_high_ << 16 | shape_low_ >> 48;
    shape_low_ = shape_low_ << 16 | tag;
    size_ += size;
  }

  const KeyHash& hash_;
  Sum sum_;
  std::uint64_t shape_low_ = 0;
  std::uint64_t shape_high_ = 0;
  std::size_t size_ = 0;
};

}  // namespace weir
