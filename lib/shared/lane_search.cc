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

  Lanes lanes_with(const std::byte* line, const std::byte* hash) const noexcept {
    std::uint32_t tag;
    std::memcpy(&tag, hash, sizeof tag);
    if constexpr (of_generation) {
      std::uint32_t generation;
      std::memcpy(&generation, line + HomeLines::words_at - sizeof generation, sizeof generation);
      return generation == generation_ ? Lanes::with(line, tag).of_seven() : Lanes::of_none();
    }
    return Lanes::with(line, tag);
  }
  static bool found(Lanes lanes) noexcept { return !lanes.none(); }
  static std::size_t offset_of_first(Lanes lanes) noexcept { return lanes.first() * 4; }

 private:
  std::uint32_t generation_;
};

std::uint32_t find(const HomeLines& lines, const Hashes& keys, std::byte** words) noexcept {
  return find_at_home(AsLanes<false>(0), lines, keys, words);
}
std::uint32_t find_of_generation(const HomeLines& lines, std::uint32_t generation, const Hashes& keys,
                                 std::byte** words) noexcept {
  return find_at_home(AsLanes<true>(generation), lines, keys, words);
}

}  // namespace

const LaneSearch lane_search_portable{find, find_of_generation};

const LaneSearch& lane_search_of([[maybe_unused]] InstructionSet set) noexcept {
#if defined(__x86_64__)
  if (set >= InstructionSet::avx2 && has_instruction_set(InstructionSet::avx2)) return lane_search_avx2;
#endif
  return lane_search_portable;
}

}  // namespace weir
