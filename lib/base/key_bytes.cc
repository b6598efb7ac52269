// SPDX-License-Identifier: BSD-3-Clause
#include "base/key_bytes.h"

#include <algorithm>
#include <cstring>

#include "base/keyed_hash.h"
#include "weir/rule.h"

namespace weir {
namespace {

using namespace key_form;

constexpr std::size_t max_digest_prefix = 32;
// Three long values stay whole, and eight fields of any length find room.
static_assert(3 * (2 + max_value_bytes) + (max_dimensions - 3) * reserved_per_field <= KeyBytes::capacity);
static_assert(max_value_bytes <= 255);

/// Fixed, because the names of keys must be equal on all nodes: it tells long values apart and is no secret.
/// (What is placed by a hash is placed by a keyed one of this process alone, see keyed_hash.) The bytes
/// "weir" and "key val".
constexpr HashKey digest_key{0x0000000072696577ULL, 0x6c61762079656bULL};

/// A value's digest is made block by block, each block's digest being the key of the next, so that a value of
/// any length can be lowered on the way in a buffer of this size.
constexpr std::size_t digest_block = 512;

constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

void copy_lower(std::string_view from, std::uint8_t* to) noexcept {
  for (const char c : from) *to++ = static_cast<std::uint8_t>(lower(c));
}

void copy(std::string_view from, std::uint8_t* to, bool lowered) noexcept {
  if (lowered)
    copy_lower(from, to);
  else
    copy_as_is(from, to);
}

Digest128 value_digest(std::string_view value, bool lowered) noexcept {
  std::array<std::uint8_t, digest_block> block;
  HashKey key = digest_key;
  for (;;) {
    const std::string_view part = value.substr(0, digest_block);
    copy(part, block.data(), lowered);
    const Digest128 result = digest128(key, std::as_bytes(std::span(block.data(), part.size())));
    if (part.size() == value.size()) return result;
    key = {result.low, result.high};
    value.remove_prefix(part.size());
  }
}

void store_little_endian(std::uint64_t word, std::uint8_t* to) noexcept {
  for (int i = 0; i < 8; ++i) to[i] = static_cast<std::uint8_t>(word >> (8 * i));
}

void append_hex(std::string& out, std::uint8_t byte, const char* digits) {
  out += digits[byte >> 4];
  out += digits[byte & 15];
}

void append_encoded(std::string& out, std::string_view value) {
  if (value == "-") {
    out += "%2D";
    return;
  }
  const auto is_plain = [](char c) { return c >= 0x20 && c <= 0x7e && c != '%' && c != '|' && c != '~'; };
  while (!value.empty()) {
    // Nearly always all of it.
    const auto plain = static_cast<std::size_t>(std::ranges::find_if_not(value, is_plain) - value.begin());
    out += value.substr(0, plain);
    value.remove_prefix(plain);
    if (value.empty()) return;
    out += '%';
    append_hex(out, static_cast<std::uint8_t>(value.front()), "0123456789ABCDEF");
    value.remove_prefix(1);
  }
}

/// Reads fields and never beyond the end: a read that finds too little yields nothing, and so do all after
/// it.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) noexcept
      : rest_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}

  bool at_end() const noexcept { return rest_.empty(); }

  bool take(std::size_t count, std::string_view& out) noexcept {
    if (rest_.size() < count) return false;
    out = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return true;
  }

  bool take_byte(std::uint8_t& out) noexcept {
    std::string_view one;
    if (!take(1, one)) return false;
    out = static_cast<std::uint8_t>(one[0]);
    return true;
  }

 private:
  std::string_view rest_;
};

bool append_text(std::string& out, Reader& in) {
  std::uint8_t length = 0;
  std::string_view value;
  if (!in.take_byte(length) || length > max_value_bytes || !in.take(length, value)) return false;
  append_encoded(out, value);
  return true;
}

bool append_prefix(std::string& out, Reader& in, IpAddress::Family family) {
  const std::size_t length = family == IpAddress::Family::v4 ? 4 : 16;
  std::uint8_t bits = 0;
  std::string_view bytes;
  if (!in.take_byte(bits) || bits > 8 * length || !in.take(length, bytes)) return false;
  IpAddress address;
  address.family = family;
  std::memcpy(address.bytes.data(), bytes.data(), bytes.size());
  out += address.to_string();
  if (bits < 8 * length) out += '/' + std::to_string(bits);
  return true;
}

bool append_number(std::string& out, Reader& in) {
  std::string_view bytes;
  if (!in.take(2, bytes)) return false;
  out += std::to_string(static_cast<std::uint8_t>(bytes[0]) << 8 | static_cast<std::uint8_t>(bytes[1]));
  return true;
}

bool append_digest(std::string& out, Reader& in) {
  std::uint8_t length = 0;
  std::string_view prefix;
  std::string_view hash;
  if (!in.take_byte(length) || length > max_digest_prefix || !in.take(length, prefix) ||
      !in.take(digest_bytes, hash)) {
    return false;
  }
  append_encoded(out, prefix);
  out += '~';
  for (const char c : hash) append_hex(out, static_cast<std::uint8_t>(c), "0123456789abcdef");
  return true;
}

bool append_field(std::string& out, Reader& in) {
  std::uint8_t tag = 0;
  if (!in.take_byte(tag)) return false;
  switch (tag) {
    case absent:
      out += '-';
      return true;
    case text:
      return append_text(out, in);
    case ipv4:
      return append_prefix(out, in, IpAddress::Family::v4);
    case ipv6:
      return append_prefix(out, in, IpAddress::Family::v6);
    case number:
      return append_number(out, in);
    case digest:
      return append_digest(out, in);
    default:
      return false;
  }
}

}  // namespace

template <bool lowered>
void KeyBytes::add_long(std::string_view value, std::size_t room) noexcept {
  if (room == 0) return;
  const std::string_view prefix = value.substr(0, std::min(max_digest_prefix, room - reserved_per_field));
  bytes_[size_++] = digest;
  bytes_[size_++] = static_cast<std::uint8_t>(prefix.size());
  copy(prefix, &bytes_[size_], lowered);
  size_ = static_cast<std::uint16_t>(size_ + prefix.size());
  const Digest128 hash = value_digest(value, lowered);
  store_little_endian(hash.low, &bytes_[size_]);
  store_little_endian(hash.high, &bytes_[size_ + 8]);
  size_ = static_cast<std::uint16_t>(size_ + digest_bytes);
}

template void KeyBytes::add_long<false>(std::string_view value, std::size_t room) noexcept;

void KeyBytes::add_text_lower(std::string_view value) noexcept {
  const std::size_t room = begin_field();
  if (value.size() > max_value_bytes || 2 + value.size() > room) {
    add_long<true>(value, room);
    return;
  }
  bytes_[size_++] = text;
  bytes_[size_++] = static_cast<std::uint8_t>(value.size());
  copy_lower(value, &bytes_[size_]);
  size_ = static_cast<std::uint16_t>(size_ + value.size());
}

void KeyBytes::add_prefix(const IpAddress& address, std::uint8_t ipv4_bits, std::uint8_t ipv6_bits) noexcept {
  if (address.family == IpAddress::Family::none) {
    add_absent();
    return;
  }
  if (begin_field() == 0) return;
  const Prefix prefix = prefix_of(address, ipv4_bits, ipv6_bits);
  bytes_[size_++] = prefix.length == 4 ? ipv4 : ipv6;
  bytes_[size_++] = prefix.bits;
  std::memcpy(&bytes_[size_], prefix.bytes.data(), prefix.length);
  size_ = static_cast<std::uint16_t>(size_ + prefix.length);
}

void KeyBytes::add_number(std::uint16_t value) noexcept {
  if (begin_field() == 0) return;
  bytes_[size_++] = number;
  bytes_[size_++] = static_cast<std::uint8_t>(value >> 8);
  bytes_[size_++] = static_cast<std::uint8_t>(value);
}

void make_key_name(std::string& name, std::string_view rule, std::span<const std::byte> bytes) {
  name = rule;
  Reader in(bytes);
  while (!in.at_end()) {
    name += '|';
    if (!append_field(name, in)) {
      name += "%?";
      break;
    }
  }
}

std::string key_name(std::string_view rule, std::span<const std::byte> bytes) {
  std::string name;
  make_key_name(name, rule, bytes);
  return name;
}

}  // namespace weir
