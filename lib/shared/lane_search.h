// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A burst's keys looked for in their home lines, which is where nearly all are: the search of both tables,
/// as fast as the processor has instructions for.
///
/// The problem: to find a key is most of what the common decision costs, and a processor that can compare
/// eight tags at once needs a third fewer instructions for it than one that compares four. Which one it is
/// shows when the program runs. So the loop over a burst is made once for each, apart from the tables, and
/// what it does not find where it should be is left to their own search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "weir/packet.h"

namespace weir {

/// The line that is a key's home. Hashes are as good at the top as at the bottom, so any number will do.
inline std::size_t home_of(std::uint64_t hash, std::size_t homes) noexcept {
  return static_cast<std::size_t>(static_cast<unsigned __int128>(hash) * homes >> 64);
}

/// The lines of a table (shared/lanes.h): eight tags, then a word of 32 bits for each lane.
struct HomeLines {
  static constexpr std::size_t line_bytes = 64;
  static constexpr std::size_t words_at = 32;

  std::byte* first;
  std::size_t homes;  ///< lines that are the home of some key
};

/// The hashes of a burst's keys, at most 32, wherever these are. The low 32 bits of each, its tag, are not 0.
struct Hashes {
  const std::byte* first;
  std::size_t stride;  ///< from one to the next, in bytes
  std::size_t count;

  std::uint64_t operator[](std::size_t i) const noexcept {
    std::uint64_t hash;
    std::memcpy(&hash, first + i * stride, sizeof hash);
    return hash;
  }
};

/// Where keys are, if in their home lines.
/// @param words  set to where the key's word is, if it is found
/// @return bit i: it is not
using FindAtHome = std::uint32_t (*)(const HomeLines& lines, const Hashes& keys, std::byte** words) noexcept;
/// The same where a line's eighth tag is no key's, but tells what the line holds for: another than
/// `generation`, and its keys are not found.
using FindAtHomeOfGeneration = std::uint32_t (*)(const HomeLines& lines, std::uint32_t generation,
                                                 const Hashes& keys, std::byte** words) noexcept;

struct LaneSearch {
  FindAtHome find;
  FindAtHomeOfGeneration find_of_generation;
};

/// That of a set, or of the next smaller one that there is. Any thread.
const LaneSearch& lane_search_of(InstructionSet set) noexcept;

extern const LaneSearch lane_search_portable;
#if defined(__x86_64__)
extern const LaneSearch lane_search_avx2;
#endif

}  // namespace weir
