// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A set of keys that may say yes of others too: a Bloom filter of two bits in one word.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir {

/// Written by one thread, then read by any.
class KeyFilter {
 public:
  /// Two bits that stand for a key; together, for several.
  using Bits = std::uint64_t;
  /// @param key  a hash, or the low 32 bits of it
  static Bits bits(std::uint32_t key) noexcept {
    return std::uint64_t{1} << (key & 63) | std::uint64_t{1} << (key >> 6 & 63);
  }

  void assign(std::span<const std::uint64_t> keys) {
    words_.assign(std::bit_ceil(keys.size() / 4 + 1), 0);
    for (const std::uint64_t key : keys) {
      const auto low = static_cast<std::uint32_t>(key);
      words_[word(low)] |= bits(low);
    }
  }

  /// Never false of a key that was assigned.
  bool may_hold(std::uint32_t key) const noexcept { return (words_[word(key)] & bits(key)) == bits(key); }

 private:
  std::size_t word(std::uint32_t key) const noexcept { return (key >> 12) & (words_.size() - 1); }

  std::vector<std::uint64_t> words_{0};  // a power of two of them
};

}  // namespace weir
