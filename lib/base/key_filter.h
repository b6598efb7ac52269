// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A set of keys that may say yes of others too: a Bloom filter of two bits in one word.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/huge_allocator.h"
#include "base/prefetch.h"

namespace weir {

/// Written by one thread, then read by any. Empty at first.
class KeyFilter {
 public:
  /// Two bits that stand for a key; together, for several.
  using Bits = std::uint64_t;
  /// @param key  a hash, or the low 32 bits of it
  static Bits bits(std::uint32_t key) noexcept {
    return std::uint64_t{1} << (key & 63) | std::uint64_t{1} << (key >> 6 & 63);
  }

  void assign(std::span<const std::uint64_t> keys) {
    empty(keys.size());
    for (const std::uint64_t key : keys) add(key);
  }

  /// Holds what another one does. @param likely  how many will be added, if that is many
  void assign(const KeyFilter& other, std::size_t likely) {
    empty(std::max(likely, (other.words_.size() - 1) * keys_per_word));
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] = other.words_[i & (other.words_.size() - 1)];
  }

  /// Forgets all keys. @param likely  how many will be added, more or less: 16 bits for each
  void empty(std::size_t likely) {
    words_.assign(std::min(std::bit_ceil(likely / keys_per_word + 1), most_words), 0);
  }
  /// For who will add many: has what add() writes on its way.
  void prefetch(std::uint64_t key) const noexcept {
    prefetch_to_write(&words_[word(static_cast<std::uint32_t>(key))]);
  }
  void add(std::uint64_t key) noexcept {
    const auto low = static_cast<std::uint32_t>(key);
    words_[word(low)] |= bits(low);
  }
  /// @pre emptied for as many
  void add_all(const KeyFilter& other) noexcept {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }

  std::size_t memory() const noexcept { return words_.capacity() * sizeof(words_[0]); }

  /// Never false of a key that was assigned.
  bool may_hold(std::uint32_t key) const noexcept { return (words_[word(key)] & bits(key)) == bits(key); }

 private:
  static constexpr std::size_t keys_per_word = 4;
  static constexpr std::size_t most_words = std::size_t{1} << 20;  // more the low 32 bits do not tell apart

  std::size_t word(std::uint32_t key) const noexcept { return (key >> 12) & (words_.size() - 1); }

  std::vector<std::uint64_t, HugeAllocator<std::uint64_t>> words_{0};  // a power of two of them
};

}  // namespace weir
