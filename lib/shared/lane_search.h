// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A burst's keys looked for in the lines of a table, and served out of their words: the common decision of
/// both tables, as fast as the processor has instructions for.
///
/// The problem: to find a key is most of what the common decision costs, and a processor that can compare
/// eight tags at once needs a third fewer instructions for it than one that compares four. Which one it is
/// shows when the program runs. So the loops over a burst are made once for each, apart from the tables.
///
/// Loops that serve do so at a glance: a key that lacks anything is left to who looks closer. So what is
/// foreseen is a branch, and nothing waits for what is stored of the key before; to choose what to store, on
/// top of searching, took half as long again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/prefetch.h"
#include "shared/grant_window.h"
#include "weir/packet.h"

namespace weir {

/// The line that is a key's home. Hashes are as good at the top as at the bottom, so any number will do.
inline std::size_t home_of(std::uint64_t hash, std::size_t homes) noexcept {
  return static_cast<std::size_t>(static_cast<unsigned __int128>(hash) * homes >> 64);
}

/// The key's number in a table, of which the tag is not 0: that marks free lanes.
inline std::uint64_t number_of_key(std::uint64_t hash) noexcept {
  return static_cast<std::uint32_t>(hash) == 0 ? hash | 1 : hash;
}

/// The lines of a table (shared/lanes.h): eight tags, then a word of 32 bits for each lane. A key is in its
/// home line or in one of those behind it; not beyond one whose last lane is free, as lanes are taken in
/// order.
struct TableLines {
  static constexpr std::size_t line_bytes = 64;
  static constexpr std::size_t words_at = 32;
  /// Of a word that something is taken of (TakeReady): with this bit there is nothing, whatever the others
  /// say.
  static constexpr std::uint32_t nothing_ready = std::uint32_t{1} << 31;

  std::byte* first;
  std::size_t homes;   ///< lines that are the home of some key; fewer than 2^32
  std::size_t probed;  ///< lines in which a key may be
};

inline void prefetch_home_of(std::uint64_t hash, const TableLines& lines) noexcept {
  prefetch_to_write(lines.first + home_of(hash, lines.homes) * TableLines::line_bytes);
}

/// The hashes of a burst's keys, at most 32. The low 32 bits of each, its tag, are not 0. In keys, what each
/// weighs (32 bits) and its rule (16 bits) lie before it, at these distances.
struct Hashes {
  static constexpr std::size_t in_keys = 32;  // sizeof(Key)
  static constexpr std::size_t from_weight = 8;
  static constexpr std::size_t from_rule = 4;

  const std::byte* first;
  std::size_t stride;  ///< from one to the next, in bytes: alone, 8, or in_keys
  std::size_t count;

  static Hashes none() noexcept { return {nullptr, in_keys, 0}; }
  static Hashes alone(const std::uint64_t* hashes, std::size_t count) noexcept {
    return {reinterpret_cast<const std::byte*>(hashes), sizeof *hashes, count};
  }
  std::uint64_t operator[](std::size_t i) const noexcept {
    std::uint64_t hash;
    std::memcpy(&hash, first + i * stride, sizeof hash);
    return hash;
  }
};

/// Makes numbers of hashes (number_of_key()), and asks for the keys' home lines, which will be written.
using AskForKeys = void (*)(const TableLines& lines, std::uint64_t* hashes, std::size_t count) noexcept;
/// Where keys are.
/// @param words  set to where the key's word is, if it is found
/// @return bit i: it is not
using FindKeys = std::uint32_t (*)(const TableLines& lines, const Hashes& keys, std::byte** words) noexcept;
/// The same where a line's eighth tag is no key's, but tells what the line holds for: another than
/// `generation`, and its keys are not found.
using FindKeysOfGeneration = std::uint32_t (*)(const TableLines& lines, std::uint32_t generation,
                                               const Hashes& keys, std::byte** words) noexcept;

/// What is to be used of the grant of each of a burst's keys. Weights.
struct GrantPortion {
  std::uint32_t weight;  ///< 1 … most
  std::uint32_t most;    ///< what a grant is
  GrantWindow window;
};
/// Uses keys' grants, in order, where a half is of the window and what is left is enough.
/// @param next    keys whose home lines are to be asked for meanwhile: none, or, in keys, as many as `keys`.
/// A processor takes only so many prefetches in a row; between decisions they cost next to nothing
/// @param others  set to the numbers of the other keys, in order; room for all
/// @return how many these are
using UseGrants = std::size_t (*)(const TableLines& lines, const Hashes& keys, const Hashes& next,
                                  const GrantPortion& portion, std::uint8_t* others) noexcept;
/// What a request uses of a key's grant under one of several rules.
struct alignas(32) RuleUse {
  /// Of a request that weighs no more than its rule, which may be anything. most: 0: nothing is used.
  GrantPortion portion;
  std::uint64_t* used = nullptr;  ///< counts requests that have: SingleWriterCounter::word()
};
/// The same of keys of several rules, in any order, each as often as it weighs.
/// @param keys  in keys
/// @param uses  by rule
using UseGrantsOfRules = std::size_t (*)(const TableLines& lines, const Hashes& keys, const RuleUse* uses,
                                         std::uint8_t* others) noexcept;
/// Takes `weight`, 1 or more and below TableLines::nothing_ready, of keys' words in lines of a generation, in
/// order, where there is as much.
/// @param next, others  as above
using TakeReady = std::size_t (*)(const TableLines& lines, std::uint32_t generation, const Hashes& keys,
                                  const Hashes& next, std::uint32_t weight, std::uint8_t* others) noexcept;

struct LaneSearch {
  AskForKeys ask;
  FindKeys find;
  FindKeysOfGeneration find_of_generation;
  UseGrants use;
  UseGrantsOfRules use_of_rules;
  TakeReady take;
};

/// That of a set, or of the next smaller one that there is. Any thread.
const LaneSearch& lane_search_of(InstructionSet set) noexcept;

extern const LaneSearch lane_search_portable;
#if defined(__x86_64__)
extern const LaneSearch lane_search_avx2;
#endif

}  // namespace weir
