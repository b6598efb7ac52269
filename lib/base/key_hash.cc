// SPDX-License-Identifier: BSD-3-Clause
#include "base/key_hash.h"

#include <algorithm>
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
  if (size >= block) [[likely]] {
    // The last block ends with the text and overlaps the one before: texts of one size still differ in a
    // block. Of short texts the last block is taken several times, each time with another part of the key,
    // rather than to ask how many there are.
    const std::size_t last = size - block;
    const auto add_block = [&](std::size_t number) {
      const std::byte* const at = data + std::min(number * block, last);
      add(inner_[number], load<std::uint64_t>(at), load<std::uint64_t>(at + 8));
    };
    add_block(0);
    add_block(1);
    add_block(2);
    for (std::size_t number = 3; number * block < size; ++number) add_block(number);
  } else if (size != 0) {
    const Short words = short_text(data, size);
    add(inner_[0], words.first, words.second);
  }
  const auto x = static_cast<std::uint64_t>(sum);
  const auto y = static_cast<std::uint64_t>(sum >> 64);
  const std::uint64_t z = tweak << 16 | size;
  // Of a + b x + c y + d z the upper half alone is wanted, to which the keys' upper halves add nothing but
  // themselves.
  const auto times = [](const Wide& key, std::uint64_t word) { return static_cast<Uint128>(key.low) * word; };
  const Uint128 lower = times(outer_[1], x) + times(outer_[2], y) + times(outer_[3], z) + outer_[0].low;
  std::uint64_t value = static_cast<std::uint64_t>(lower >> 64) + outer_[0].high + outer_[1].high * x +
                        outer_[2].high * y + outer_[3].high * z;
  value ^= value >> 32;
  value *= last_;
  return value ^ value >> 32;
}

}  // namespace weir
