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

/// Four keys at once, but for the last ones.
void ask(const TableLines& lines, std::uint64_t* hashes, std::size_t count) noexcept {
  constexpr std::size_t at_once = 4;
  const __m256i tag = _mm256_set1_epi64x(0xffffffff);
  const __m256i homes = _mm256_set1_epi64x(static_cast<long long>(lines.homes));
  const __m256i first = _mm256_set1_epi64x(static_cast<long long>(address_of(lines.first)));
  std::size_t i = 0;
  for (; i + at_once <= count; i += at_once) {
    auto* const four = reinterpret_cast<__m256i*>(hashes + i);
    __m256i keys = _mm256_loadu_si256(four);
    const __m256i no_tag = _mm256_cmpeq_epi64(_mm256_and_si256(keys, tag), _mm256_setzero_si256());
    keys = _mm256_sub_epi64(keys, no_tag);  // one more where it is so
    _mm256_storeu_si256(four, keys);
    // home_of(), of halves: neither the products nor the sum reach 2^64.
    const __m256i carried = _mm256_srli_epi64(_mm256_mul_epu32(keys, homes), 32);
    const __m256i product = _mm256_mul_epu32(_mm256_srli_epi64(keys, 32), homes);
    const __m256i home = _mm256_srli_epi64(_mm256_add_epi64(product, carried), 32);
    const __m256i at = _mm256_add_epi64(first, _mm256_slli_epi64(home, 6));
    static_assert(TableLines::line_bytes == 1 << 6);
    alignas(32) std::uintptr_t addresses[at_once];
    _mm256_store_si256(reinterpret_cast<__m256i*>(addresses), at);
#pragma GCC unroll 4
    for (const std::uintptr_t address : addresses) prefetch_to_write(reinterpret_cast<const void*>(address));
  }
  for (; i < count; ++i) ask_for_key(lines, hashes[i]);
}
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
std::size_t use_of_rules(const TableLines& lines, const Hashes& keys, const RuleUse* uses,
                         std::uint8_t* others) noexcept {
  return use_grants_of_rules(EightAtOnce<false>(0), lines, keys, uses, others);
}
std::size_t take(const TableLines& lines, std::uint32_t generation, const Hashes& keys, const Hashes& next,
                 std::uint32_t weight, std::uint8_t* others) noexcept {
  return take_ready(EightAtOnce<true>(generation), lines, keys, next, weight, others);
}

}  // namespace

const LaneSearch lane_search_avx2{ask, find, find_of_generation, use, use_of_rules, take};

}  // namespace weir

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__
