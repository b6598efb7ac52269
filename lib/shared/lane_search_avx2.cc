// SPDX-License-Identifier: BSD-3-Clause
#include "shared/lane_search.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

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
    __m256i wanted = _mm256_set1_epi32(static_cast<int>(word_at(hash)));
    if constexpr (of_generation) wanted = _mm256_blend_epi32(wanted, generation_, 1 << last);
    const __m256i tags = _mm256_load_si256(reinterpret_cast<const __m256i*>(line));
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(tags, wanted))));
  }
  static bool found(unsigned lanes) noexcept { return of_generation ? lanes > 1 << last : lanes != 0; }
  static std::size_t offset_of_first(unsigned lanes) noexcept {
    return static_cast<std::size_t>(_tzcnt_u64(lanes)) * 4;
  }
  static bool may_be_beyond(const std::byte* line, unsigned lanes) noexcept {
    if constexpr (of_generation)
      return (lanes & ((1 << last) - 1)) == 0 && word_at(line + (last - 1) * 4) != 0;
    return word_at(line + last * 4) != 0;
  }

 private:
  static constexpr std::size_t last = 7;
  static std::uint32_t word_at(const std::byte* at) noexcept {
    std::uint32_t word;
    __builtin_memcpy(&word, at, sizeof word);
    return word;
  }

  __m256i generation_;
};

std::uint32_t find(const TableLines& lines, const Hashes& keys, std::byte** words) noexcept {
  return find_keys(EightAtOnce<false>(0), lines, keys, words);
}
std::uint32_t find_of_generation(const TableLines& lines, std::uint32_t generation, const Hashes& keys,
                                 std::byte** words) noexcept {
  return find_keys(EightAtOnce<true>(generation), lines, keys, words);
}
std::size_t use(const TableLines& lines, const Hashes& keys, const Hashes& next, const GrantPortion& portion,
                std::uint8_t* others) noexcept {
  return use_grants(EightAtOnce<false>(0), lines, keys, next, portion, others);
}
std::size_t take(const TableLines& lines, std::uint32_t generation, const Hashes& keys, const Hashes& next,
                 std::uint32_t weight, std::uint8_t* others) noexcept {
  return take_ready(EightAtOnce<true>(generation), lines, keys, next, weight, others);
}

}  // namespace

const LaneSearch lane_search_avx2{find, find_of_generation, use, take};

}  // namespace weir

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__
