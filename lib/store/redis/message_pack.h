// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// As much of MessagePack as batches need: a script takes two packed arrays apart in half the time that Redis
/// needs for as many arguments, and packs its answer likewise. Source: the format's specification,
/// github.com/msgpack/msgpack/blob/master/spec.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace weir {

/// Appends `value`'s bytes, the most significant first.
template <typename Unsigned>
void pack_bytes(std::string& output, Unsigned value) {
  for (int shift = (sizeof value - 1) * 8; shift >= 0; shift -= 8)
    output += static_cast<char>(value >> shift & 0xff);
}

/// The head of an array. @pre elements < 2^16, more than none: Redis takes an empty array for a map
inline void pack_array(std::string& output, std::size_t elements) {
  output += '\xdc';
  pack_bytes(output, static_cast<std::uint16_t>(elements));
}

/// An integer, as short as it gets.
inline void pack_integer(std::string& output, std::int64_t value) {
  const auto fits = [value]<typename Narrow>(Narrow) {
    return value >= std::numeric_limits<Narrow>::min() && value <= std::numeric_limits<Narrow>::max();
  };
  if (value >= -32 && value < 128) {
    output += static_cast<char>(value);
  } else if (fits(std::int8_t{})) {
    output += '\xd0';
    pack_bytes(output, static_cast<std::uint8_t>(value));
  } else if (fits(std::int16_t{})) {
    output += '\xd1';
    pack_bytes(output, static_cast<std::uint16_t>(value));
  } else if (fits(std::int32_t{})) {
    output += '\xd2';
    pack_bytes(output, static_cast<std::uint32_t>(value));
  } else {
    output += '\xd3';
    pack_bytes(output, static_cast<std::uint64_t>(value));
  }
}

/// Any bytes.
inline void pack_string(std::string& output, std::string_view text) {
  if (text.size() < 32) {
    output += static_cast<char>(0xa0 | text.size());
  } else if (text.size() < 256) {
    output += '\xd9';
    pack_bytes(output, static_cast<std::uint8_t>(text.size()));
  } else if (text.size() < 65536) {
    output += '\xda';
    pack_bytes(output, static_cast<std::uint16_t>(text.size()));
  } else {
    output += '\xdb';
    pack_bytes(output, static_cast<std::uint32_t>(text.size()));
  }
  output += text;
}

/// One element that a script has packed.
struct Packed {
  enum class Type : std::uint8_t { nothing, integer, string };
  Type type = Type::nothing;  ///< nothing: nil, true, false, or no integer
  std::int64_t integer = 0;
  std::string_view text;  ///< of the bytes that are read
};

/// Reads what a script has packed, from bytes that may be anything. Nothing: they are not that, or at their
/// end.
class PackedReader {
 public:
  explicit PackedReader(std::string_view bytes) noexcept : rest_(bytes) {}

  bool at_end() const noexcept { return rest_.empty(); }

  /// The head of an array: its number of elements.
  std::optional<std::size_t> array() noexcept {
    const auto head = take<std::uint8_t>();
    if (!head) return std::nullopt;
    if ((*head & 0xf0) == 0x90) return *head & 0x0f;
    if (*head == 0xdc) return take<std::uint16_t>();
    if (*head == 0xdd) return take<std::uint32_t>();
    return std::nullopt;
  }

  std::optional<Packed> next() noexcept {
    const auto head = take<std::uint8_t>();
    if (!head) return std::nullopt;
    if (*head < 0x80) return Packed{Packed::Type::integer, *head, {}};
    if (*head >= 0xe0) return Packed{Packed::Type::integer, static_cast<std::int8_t>(*head), {}};
    if ((*head & 0xe0) == 0xa0) return string(*head & 0x1f);
    switch (*head) {
      case 0xc0:
      case 0xc2:
      case 0xc3:
        return Packed{};
      case 0xca:
        return take<std::uint32_t>() ? std::optional(Packed{}) : std::nullopt;
      case 0xcb:
        return take<std::uint64_t>() ? std::optional(Packed{}) : std::nullopt;
      case 0xcc:
        return integer<std::uint8_t>();
      case 0xcd:
        return integer<std::uint16_t>();
      case 0xce:
        return integer<std::uint32_t>();
      case 0xcf:
        return integer<std::uint64_t>();
      case 0xd0:
        return integer<std::int8_t>();
      case 0xd1:
        return integer<std::int16_t>();
      case 0xd2:
        return integer<std::int32_t>();
      case 0xd3:
        return integer<std::int64_t>();
      case 0xd9:
        return string(take<std::uint8_t>());
      case 0xda:
        return string(take<std::uint16_t>());
      case 0xdb:
        return string(take<std::uint32_t>());
      default:
        return std::nullopt;
    }
  }

 private:
  template <typename Unsigned>
  std::optional<Unsigned> take() noexcept {
    if (rest_.size() < sizeof(Unsigned)) return std::nullopt;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(Unsigned); ++i)
      value = value << 8 | static_cast<unsigned char>(rest_[i]);
    rest_.remove_prefix(sizeof(Unsigned));
    return static_cast<Unsigned>(value);
  }

  template <typename Integer>
  std::optional<Packed> integer() noexcept {
    const auto bits = take<std::make_unsigned_t<Integer>>();
    if (!bits) return std::nullopt;
    if constexpr (std::is_same_v<Integer, std::uint64_t>)
      if (*bits > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    return Packed{Packed::Type::integer, static_cast<std::int64_t>(static_cast<Integer>(*bits)), {}};
  }

  std::optional<Packed> string(std::optional<std::size_t> size) noexcept {
    if (!size || rest_.size() < *size) return std::nullopt;
    const Packed packed{Packed::Type::string, 0, rest_.substr(0, *size)};
    rest_.remove_prefix(*size);
    return packed;
  }

  std::string_view rest_;
};

}  // namespace weir
