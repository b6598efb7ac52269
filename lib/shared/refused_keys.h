// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Keys that have been refused and not been judged yet: as long as they are not, no worker admits them out of
/// its grants.
///
/// The problem: an attack brings many of them in a span, and whoever is taken for one of them loses his
/// grant, so that his request costs as much as forty others. So they are spread over as many words as tell a
/// few hundred from all others; and keys of rules of which nobody has been refused are not asked for at all.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/key_filter.h"
#include "weir/rule.h"

namespace weir {

/// May say yes of other keys of the same rules, too.
class RefusedKeys {
 public:
  using Bits = KeyFilter::Bits;
  static constexpr std::size_t words = 64;

  /// Of a rule, in a word for all; may be another one's, too, where there are more than 64.
  static Bits bit_of(RuleIndex rule) noexcept { return Bits{1} << rule % 64; }
  static std::size_t word_of(std::uint64_t key) noexcept { return (key >> 12) % words; }
  static Bits bits_of(std::uint64_t key) noexcept { return KeyFilter::bits(static_cast<std::uint32_t>(key)); }

  void add(RuleIndex rule, std::uint64_t key) noexcept {
    rules_ |= bit_of(rule);
    keys_[word_of(key)] |= bits_of(key);
  }
  void add_all(const RefusedKeys& other) noexcept {
    if (!other.any()) return;
    rules_ |= other.rules_;
    for (std::size_t i = 0; i < words; ++i) keys_[i] |= other.keys_[i];
  }
  bool any() const noexcept { return rules_ != 0; }
  bool any_of(RuleIndex rule) const noexcept { return (rules_ & bit_of(rule)) != 0; }
  /// Never false of a key that was added. @pre any_of() its rule
  bool may_hold(std::uint64_t key) const noexcept {
    return (keys_[word_of(key)] & bits_of(key)) == bits_of(key);
  }

 private:
  friend class SharedRefusedKeys;

  Bits rules_ = 0;
  std::array<Bits, words> keys_{};
};

/// Those of one worker. Written by it, read by it and by the controller. Relaxed throughout: a hint, the
/// refusals themselves are in the span table; what is seen of a key without its rule, or of a rule without
/// its key, is as if it had been refused a moment later.
class SharedRefusedKeys {
 public:
  void add(RuleIndex rule, std::uint64_t key) noexcept {
    add_bits(keys_[RefusedKeys::word_of(key)], RefusedKeys::bits_of(key));
    add_bits(rules_, RefusedKeys::bit_of(rule));
  }
  void clear() noexcept {
    if (!any()) return;
    rules_.store(0, std::memory_order_relaxed);
    for (std::atomic<RefusedKeys::Bits>& word : keys_) word.store(0, std::memory_order_relaxed);
  }
  bool any() const noexcept { return rules_.load(std::memory_order_relaxed) != 0; }
  void add_to(RefusedKeys& all) const noexcept {
    if (!any()) return;
    all.rules_ |= rules_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < RefusedKeys::words; ++i)
      all.keys_[i] |= keys_[i].load(std::memory_order_relaxed);
  }

 private:
  // There is one writer: load and store.
  static void add_bits(std::atomic<RefusedKeys::Bits>& word, RefusedKeys::Bits bits) noexcept {
    word.store(word.load(std::memory_order_relaxed) | bits, std::memory_order_relaxed);
  }

  std::atomic<RefusedKeys::Bits> rules_{0};
  std::array<std::atomic<RefusedKeys::Bits>, RefusedKeys::words> keys_{};
};

}  // namespace weir
