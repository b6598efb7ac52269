// SPDX-License-Identifier: BSD-3-Clause
#include "filter/burst_look.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// From here on, and not by a flag for the whole file: what the headers above define stays code for every
// machine.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,lzcnt,popcnt")
#endif

#include "filter/burst_look_kernel.h"

namespace weir::filter {
namespace {

/// Fields of 8 frames.
class Fields {
 public:
  using Vector = __m256i;
  using Flags = __m256i;
  static constexpr std::size_t lanes = 8;

  // Written out: one that the compiler makes is code for every machine.
  Fields() noexcept
      : swap_(_mm256_broadcastsi128_si256(
            _mm_setr_epi8(1, 0, -1, -1, 5, 4, -1, -1, 9, 8, -1, -1, 13, 12, -1, -1))) {}

  [[gnu::always_inline]] void get(rte_mbuf* const* mbufs, const std::byte** bytes, Vector& a, Vector& b,
                                  Vector& c, Vector& d) const noexcept {
    const Vector first = quarter(mbufs, bytes, 0);
    const Vector second = quarter(mbufs, bytes, 1);
    const Vector third = quarter(mbufs, bytes, 2);
    const Vector fourth = quarter(mbufs, bytes, 3);
    const Vector ab_low = _mm256_unpacklo_epi32(first, second);
    const Vector cd_low = _mm256_unpackhi_epi32(first, second);
    const Vector ab_high = _mm256_unpacklo_epi32(third, fourth);
    const Vector cd_high = _mm256_unpackhi_epi32(third, fourth);
    a = _mm256_unpacklo_epi64(ab_low, ab_high);
    b = _mm256_unpackhi_epi64(ab_low, ab_high);
    c = _mm256_unpacklo_epi64(cd_low, cd_high);
    d = _mm256_unpackhi_epi64(cd_low, cd_high);
  }
  Vector swapped(Vector lengths) const noexcept { return _mm256_shuffle_epi8(lengths, swap_); }

  static Vector all(std::uint32_t value) noexcept { return _mm256_set1_epi32(static_cast<int>(value)); }
  static Vector differs(Vector a, std::uint32_t from, std::uint32_t where) noexcept {
    return _mm256_and_si256(_mm256_xor_si256(a, all(from)), all(where));
  }
  static Vector either(Vector a, Vector b) noexcept { return _mm256_or_si256(a, b); }
  static Vector both(Vector a, Vector b) noexcept { return _mm256_and_si256(a, b); }
  static Vector sum(Vector a, Vector b) noexcept { return _mm256_add_epi32(a, b); }
  static Vector difference(Vector a, Vector b) noexcept { return _mm256_sub_epi32(a, b); }
  template <int count>
  static Vector down(Vector a) noexcept {
    return _mm256_srli_epi32(a, count);
  }
  static Flags plain(Vector odd, Vector header, Vector least, Vector offset, Vector end,
                     Vector there) noexcept {
    const Vector wrong = either(_mm256_cmpgt_epi32(least, header),
                                either(_mm256_cmpgt_epi32(offset, end), _mm256_cmpgt_epi32(end, there)));
    return _mm256_cmpeq_epi32(either(odd, wrong), _mm256_setzero_si256());
  }
  static Flags and_greater(Flags flags, Vector a, Vector b) noexcept {
    return both(flags, _mm256_cmpgt_epi32(a, b));
  }
  static std::uint32_t bits(Flags flags) noexcept {
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(flags)));
  }
  static void store(Flags flags, Vector offset, Vector length, PlainPayload* to) noexcept {
    const Vector offsets = both(flags, offset);
    const Vector lengths = both(flags, length);
    const Vector low = _mm256_unpacklo_epi32(offsets, lengths);
    const Vector high = _mm256_unpackhi_epi32(offsets, lengths);
    _mm256_store_si256(reinterpret_cast<Vector*>(to), _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_store_si256(reinterpret_cast<Vector*>(to + 4), _mm256_permute2x128_si256(low, high, 0x31));
  }

 private:
  /// Of the frame at `first`, and the fourth behind it.
  [[gnu::always_inline]] static Vector quarter(rte_mbuf* const* mbufs, const std::byte** bytes,
                                               std::size_t first) noexcept {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(words_of(mbufs[first], bytes[first])),
                                   words_of(mbufs[first + 4], bytes[first + 4]), 1);
  }
  [[gnu::always_inline]] static __m128i words_of(const rte_mbuf* mbuf, const std::byte*& bytes) noexcept {
    bytes = headers_of(mbuf);
    // The words from the type on are where they should be; others take the places of those between.
    __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + HeaderWords::type_at));
    std::int16_t data_offset = 0;
    std::memcpy(&data_offset, bytes + HeaderWords::data_offset_at, sizeof data_offset);
    words = _mm_insert_epi16(words, data_offset, 3);
    words = _mm_insert_epi16(words, mbuf->data_len, 6);
    return _mm_insert_epi16(words, mbuf->nb_segs, 7);
  }

  // Of each lane the lower two bytes, the other way round; nothing else.
  Vector swap_;
};

}  // namespace

void look_at_burst_avx2(std::span<rte_mbuf* const> burst, BurstLook& look) noexcept {
  look_at_burst<Fields>(burst, look);
  _mm256_zeroupper();
}

}  // namespace weir::filter

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
