// SPDX-License-Identifier: BSD-3-Clause
#include "shared/lane_search.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// From here on, and not by a flag for the whole file: what the headers above define stays code for every
// machine.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2")
#endif

#include "shared/lane_search_kernel.h"

namespace weir {
namespace {

/// A bit for each lane.
template <bool of_generation>
class EightAtOnce {
 public:
  explicit EightAtOnce(std::uint32_t generation) noexcept
      : generation_(_mm256_set1_epi32(static_cast<int>(generation))) {}

  unsigned lanes_with(const std::byte* line, const std::byte* hash) const noexcept {
    int tag;
    std::memcpy(&tag, hash, sizeof tag);
    __m256i wanted = _mm256_set1_epi32(tag);
    if constexpr (of_generation) wanted = _mm256_blend_epi32(wanted, generation_, 1 << 7);
    const __m256i tags = _mm256_load_si256(reinterpret_cast<const __m256i*>(line));
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(tags, wanted))));
  }
  static bool found(unsigned lanes) noexcept { return of_generation ? lanes > 1 << 7 : lanes != 0; }
  static std::size_t offset_of_first(unsigned lanes) noexcept {
    return static_cast<std::size_t>(_tzcnt_u64(lanes)) * 4;
  }

 private:
  __m256i generation_;
};

std::uint32_t find(const HomeLines& lines, const Hashes& keys, std::byte** words) noexcept {
  return find_at_home(EightAtOnce<false>(0), lines, keys, words);
}
std::uint32_t find_of_generation(const HomeLines& lines, std::uint32_t generation, const Hashes& keys,
                                 std::byte** words) noexcept {
  return find_at_home(EightAtOnce<true>(generation), lines, keys, words);
}

}  // namespace

const LaneSearch lane_search_avx2{find, find_of_generation};

}  // namespace weir

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__
