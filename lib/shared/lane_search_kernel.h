// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The loops of shared/lane_search.h, for a Comparison that says how eight tags are compared at once:
///   lanes_with(line, hash)   the line's lanes with the tag that the hash at this address begins with
///   found(lanes)             whether a key is among them that holds
///   offset_of_first(lanes)   of the first one's word, in bytes
///   may_be_beyond(line, lanes)  whether the key may be in the next line, as it is not in this one
///
/// To be included where the target is chosen, once in a file; all of it is this file's own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/prefetch.h"
#include "shared/lane_search.h"

namespace weir {
namespace {

inline std::uint64_t hash_at(const std::byte* hash) noexcept {
  std::uint64_t key;
  __builtin_memcpy(&key, hash, sizeof key);
  return key;
}

inline std::uintptr_t address_of(const std::byte* at) noexcept {
  return reinterpret_cast<std::uintptr_t>(at);
}

[[gnu::always_inline]] inline void ask_for_key(const TableLines& lines, std::uint64_t& hash) noexcept {
  const std::uint64_t key = number_of_key(hash);
  hash = key;
  prefetch_to_write(lines.first + home_of(key, lines.homes) * TableLines::line_bytes);
}

/// The key's word in a line behind its home, or nowhere. Seldom needed.
template <typename Comparison>
[[gnu::noinline]] std::byte* find_beyond(const Comparison& comparison, std::byte* line, std::size_t probed,
                                         const std::byte* hash) noexcept {
  for (std::size_t more = probed; more > 0; --more, line += TableLines::line_bytes) {
    const auto lanes = comparison.lanes_with(line, hash);
    if (comparison.found(lanes)) return line + TableLines::words_at + comparison.offset_of_first(lanes);
    if (!comparison.may_be_beyond(line, lanes)) break;
  }
  return nullptr;
}

/// The key's word, or nullptr.
template <typename Comparison>
[[gnu::always_inline]] inline std::byte* find_key(const Comparison& comparison, const TableLines& lines,
                                                  const std::byte* hash) noexcept {
  std::byte* const line = lines.first + home_of(hash_at(hash), lines.homes) * TableLines::line_bytes;
  const auto lanes = comparison.lanes_with(line, hash);
  if (comparison.found(lanes)) [[likely]]
    return line + TableLines::words_at + comparison.offset_of_first(lanes);
  return find_beyond(comparison, line, lines.probed, hash);
}

template <typename Comparison>
inline std::uint32_t find_keys(const Comparison& comparison, const TableLines& lines, const Hashes& keys,
                               std::byte** words) noexcept {
  std::uint32_t missing = 0;
  // What is written may be anything, so what does not change is kept here.
  const TableLines all = lines;
  const std::size_t count = keys.count;
  const std::size_t stride = keys.stride;
  const std::byte* hash = keys.first;
  for (std::size_t i = 0; i < count; ++i, hash += stride) {
    std::byte* const word = find_key(comparison, all, hash);
    if (word == nullptr) [[unlikely]]
      missing |= std::uint32_t{1} << i;
    else
      words[i] = word;
  }
  return missing;
}

/// @tparam ahead  whether there are next keys
/// @param serve  called with where a key's word is; whether that has served it
template <std::size_t stride, bool ahead, typename Comparison, typename Serve>
[[gnu::always_inline]] inline std::size_t serve_keys(const Comparison& comparison, const TableLines& lines,
                                                     const Hashes& keys, const Hashes& next,
                                                     std::uint8_t* others, const Serve& serve) noexcept {
  const TableLines all = lines;
  const std::byte* hash = keys.first;
  // By how far the next keys are away, and no numbers of keys: the loop has just enough registers.
  const std::uintptr_t to_next = ahead ? address_of(next.first) - address_of(keys.first) : 0;
  std::uint8_t* other = others;
  const auto serve_key = [&](std::size_t more) __attribute__((always_inline)) {
    const std::byte* const own = hash + more * stride;
    if constexpr (ahead)
      prefetch_to_write(
          all.first +
          home_of(hash_at(reinterpret_cast<const std::byte*>(address_of(own) + to_next)), all.homes) *
              TableLines::line_bytes);
    std::byte* const word = find_key(comparison, all, own);
    if (word != nullptr && serve(word)) [[likely]]
      return;
    *other++ = static_cast<std::uint8_t>(static_cast<std::size_t>(own - keys.first) / stride);
  };
  const std::byte* const end = hash + keys.count * stride;
  for (const std::byte* const fours = hash + keys.count / 4 * 4 * stride; hash != fours; hash += 4 * stride) {
    serve_key(0);
    serve_key(1);
    serve_key(2);
    serve_key(3);
  }
  for (; hash != end; hash += stride) serve_key(0);
  return static_cast<std::size_t>(other - others);
}

/// The same for the distances that there are between hashes: alone, or in keys.
template <typename Comparison, typename Serve>
[[gnu::always_inline]] inline std::size_t serve_keys(const Comparison& comparison, const TableLines& lines,
                                                     const Hashes& keys, const Hashes& next,
                                                     std::uint8_t* others, const Serve& serve) noexcept {
  constexpr std::size_t alone = sizeof(std::uint64_t);
  constexpr std::size_t in_keys = Hashes::in_keys;
  if (keys.stride == alone) return serve_keys<alone, false>(comparison, lines, keys, next, others, serve);
  if (next.count == 0) return serve_keys<in_keys, false>(comparison, lines, keys, next, others, serve);
  return serve_keys<in_keys, true>(comparison, lines, keys, next, others, serve);
}

// Relaxed: what is used is one word, which the worker alone writes and anyone may read
// (shared/grant_table.h). By the compiler's own functions: std::atomic's, compiled here, could become
// everybody's.
using Half [[gnu::may_alias]] = std::uint16_t;
/// @param last  the most that may have been used before
[[gnu::always_inline]] inline bool use_half(Half* used, std::uint32_t stamp, std::uint32_t weight,
                                            std::uint32_t last) noexcept {
  const std::uint32_t before = __atomic_load_n(used, __ATOMIC_RELAXED);
  // Of another window, closed, or not enough.
  if (before - stamp > last) return false;
  __atomic_store_n(used, static_cast<std::uint16_t>(before + weight), __ATOMIC_RELAXED);
  return true;
}

template <std::uint32_t half, typename Comparison>
inline std::size_t use_halves(const Comparison& comparison, const TableLines& lines, const Hashes& keys,
                              const Hashes& next, const GrantPortion& portion,
                              std::uint8_t* others) noexcept {
  const std::uint32_t stamp = portion.window.stamp;
  const std::uint32_t weight = portion.weight;
  const std::uint32_t last = portion.most - weight;
  return serve_keys(comparison, lines, keys, next, others, [=](std::byte* word) {
    return use_half(reinterpret_cast<Half*>(word) + half, stamp, weight, last);
  });
}

template <typename Comparison>
inline std::size_t use_grants(const Comparison& comparison, const TableLines& lines, const Hashes& keys,
                              const Hashes& next, const GrantPortion& portion,
                              std::uint8_t* others) noexcept {
  return portion.window.half == 0 ? use_halves<0>(comparison, lines, keys, next, portion, others)
                                  : use_halves<1>(comparison, lines, keys, next, portion, others);
}

template <typename Comparison>
inline std::size_t use_grants_of_rules(const Comparison& comparison, const TableLines& lines,
                                       const Hashes& keys, const RuleUse* uses,
                                       std::uint8_t* others) noexcept {
  const TableLines all = lines;
  std::uint8_t* other = others;
  const std::byte* hash = keys.first;
  for (std::size_t i = 0; i < keys.count; ++i, hash += Hashes::in_keys) {
    std::uint16_t rule;
    __builtin_memcpy(&rule, hash - Hashes::from_rule, sizeof rule);
    std::uint32_t times;
    __builtin_memcpy(&times, hash - Hashes::from_weight, sizeof times);
    const RuleUse& use = uses[rule];
    const std::uint64_t weight = std::uint64_t{times} * use.portion.weight;
    if (weight - 1 < use.portion.most) [[likely]] {
      std::byte* const word = find_key(comparison, all, hash);
      if (word != nullptr && use_half(reinterpret_cast<Half*>(word) + use.portion.window.half,
                                      use.portion.window.stamp, static_cast<std::uint32_t>(weight),
                                      use.portion.most - static_cast<std::uint32_t>(weight))) [[likely]] {
        __atomic_store_n(use.used, __atomic_load_n(use.used, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
        continue;
      }
    }
    *other++ = static_cast<std::uint8_t>(i);
  }
  return static_cast<std::size_t>(other - others);
}

template <typename Comparison>
inline std::size_t take_ready(const Comparison& comparison, const TableLines& lines, const Hashes& keys,
                              const Hashes& next, std::uint32_t weight, std::uint8_t* others) noexcept {
  // With TableLines::nothing_ready it is below 0.
  const auto needed = static_cast<std::int32_t>(weight);
  return serve_keys(comparison, lines, keys, next, others, [=](std::byte* word) {
    std::int32_t ready;
    __builtin_memcpy(&ready, word, sizeof ready);
    if (ready < needed) return false;
    ready -= needed;
    __builtin_memcpy(word, &ready, sizeof ready);
    return true;
  });
}

}  // namespace
}  // namespace weir
