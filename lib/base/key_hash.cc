// SPDX-License-Identifier: BSD-3-Clause
#include "base/key_hash.h"

#include <cstring>

namespace weir {
namespace {

__extension__ using Uint128 = unsigned __int128;

template <typename Word>
std::uint64_t load(const std::byte* bytes) noexcept {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

/// Two words that tell texts of one size, 1 to 15, apart.
struct Short {
  std::uint64_t first;
  std::uint64_t second;
};

Short short_text(const std::byte* bytes, std::size_t size) noexcept {
  if (size >= 8) return {load<std::uint64_t>(bytes), load<std::uint64_t>(bytes + size - 8)};
  if (size >= 4) return {load<std::uint32_t>(bytes), load<std::uint32_t>(bytes + size - 4)};
  return {load<std::uint8_t>(bytes) | load<std::uint8_t>(bytes + size / 2) << 8,
          load<std::uint8_t>(bytes + size - 1)};
}

}  // namespace

KeyHash::KeyHash(HashKey secret) noexcept {
  std::uint64_t count = 0;
  const auto next = [&] {
    const std::uint64_t number = count++;
    // The tweak keeps these words apart from everything else that is hashed under the same secret.
    constexpr std::uint64_t key_words = 0x73'64'72'6f'77'79'65'6bULL;
    return keyed_hash(secret, key_words, std::as_bytes(std::span(&number, 1)));
  };
  const auto fill = [&](Wide& wide) {
    wide.low = next();
    wide.high = next();
  };
  for (Wide& wide : outer_) fill(wide);
  last_ = next() | 1;
  for (Wide& wide : inner_) fill(wide);
}

std::uint64_t KeyHash::operator()(std::uint64_t tweak, std::span<const std::byte> bytes) const noexcept {
  const std::byte* const data = bytes.data();
  const std::size_t size = bytes.size();
  Uint128 sum = 0;
  const auto add = [&](const Wide& key, std::uint64_t first, std::uint64_t second) {
    sum += static_cast<Uint128>(first + key.low) * (second + key.high);
  };
  if (size >= block) {
    // The last block ends with the text and overlaps the one before: texts of one size still differ in a
    // block.
    const Wide* key = inner_.data();
    std::size_t at = 0;
    for (; size - at > block; at += block)
      add(*key++, load<std::uint64_t>(data + at), load<std::uint64_t>(data + at + 8));
    add(*key, load<std::uint64_t>(data + size - block), load<std::uint64_t>(data + size - 8));
  } else if (size != 0) {
    const Short words = short_text(data, size);
    add(inner_[0], words.first, words.second);
  }
  const auto times = [](const Wide& key, std::uint64_t word) {
    return static_cast<Uint128>(key.low) * word + (static_cast<Uint128>(key.high * word) << 64);
  };
  const Uint128 whole = (static_cast<Uint128>(outer_[0].high) << 64 | outer_[0].low) +
                        times(outer_[1], static_cast<std::uint64_t>(sum)) +
                        times(outer_[2], static_cast<std::uint64_t>(sum >> 64)) +
                        times(outer_[3], tweak << 16 | size);
  auto value = static_cast<std::uint64_t>(whole >> 64);
  value ^= value >> 32;
  value *= last_;
  return value ^ value >> 32;
}

}  // namespace weir
