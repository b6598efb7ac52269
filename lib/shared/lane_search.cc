// SPDX-License-Identifier: BSD-3-Clause
#include "shared/lane_search.h"

#include <cstring>

#include "shared/lane_search_kernel.h"
#include "shared/lanes.h"

namespace weir {
namespace {

/// As everywhere: four at once, or one.
template <bool of_generation>
class AsLanes {
 public:
  explicit AsLanes(std::uint32_t generation) noexcept : generation_(generation) {}

  struct Found {
    Lanes lanes;
    bool holds;
  };
  Found lanes_with(const std::byte* line, const std::byte* hash) const noexcept {
    const Lanes lanes = Lanes::with(line, word_at(hash));
    if constexpr (of_generation) return {lanes.of_seven(), word_at(line + last * 4) == generation_};
    return {lanes, true};
  }
  static bool found(const Found& in) noexcept { return in.holds && !in.lanes.none(); }
  static std::size_t offset_of_first(const Found& in) noexcept { return in.lanes.first() * 4; }
  static bool may_be_beyond(const std::byte* line, const Found& in) noexcept {
    return in.lanes.none() && word_at(line + (of_generation ? last - 1 : last) * 4) != 0;
  }

 private:
  static constexpr std::size_t last = Lanes::per_line - 1;
  static std::uint32_t word_at(const std::byte* at) noexcept {
    std::uint32_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
  }

  std::uint32_t generation_;
};

void ask(const TableLines& lines, std::uint64_t* hashes, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) ask_for_key(lines, hashes[i]);
}
std::uint32_t find(const TableLines& lines, const Hashes& keys, std::byte** words) noexcept {
  return find_keys(AsLanes<false>(0), lines, keys, words);
}
std::uint32_t find_of_generation(const TableLines& lines, std::uint32_t generation, const Hashes& keys,
                                 std::byte** words) noexcept {
  return find_keys(AsLanes<true>(generation), lines, keys, words);
}
std::size_t use(const TableLines& lines, const Hashes& keys, const Hashes& next, const GrantPortion& portion,
                std::uint8_t* others) noexcept {
  return use_grants(AsLanes<false>(0), lines, keys, next, portion, others);
}
std::size_t use_of_rules(const TableLines& lines, const Hashes& keys, const RuleUse* uses,
                         std::uint8_t* others) noexcept {
  return use_grants_of_rules(AsLanes<false>(0), lines, keys, uses, others);
}
std::size_t take(const TableLines& lines, std::uint32_t generation, const Hashes& keys, const Hashes& next,
                 std::uint32_t weight, std::uint8_t* others) noexcept {
  return take_ready(AsLanes<true>(generation), lines, keys, next, weight, others);
}

}  // namespace

const LaneSearch lane_search_portable{ask, find, find_of_generation, use, use_of_rules, take};

const LaneSearch& lane_search_of([[maybe_unused]] InstructionSet set) noexcept {
#if defined(__x86_64__)
  if (set >= InstructionSet::avx2 && has_instruction_set(InstructionSet::avx2)) return lane_search_avx2;
#endif
  return lane_search_portable;
}

}  // namespace weir
