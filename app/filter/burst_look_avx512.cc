// SPDX-License-Identifier: BSD-3-Clause
#if defined(__x86_64__)

// Before all others, which include it, too. GCC 12 takes the vectors that its own header leaves undefined,
// for results that replace them whole, for a mistake (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <cstddef>
#include <cstdint>

#include "filter/burst_look.h"

// From here on, and not by a flag for the whole file: what the headers above define stays code for every
// machine.
#if defined(__clang__)
#pragma clang attribute push(                                                                           \
    __attribute__((                                                                                     \
        target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi2,avx2,bmi,bmi2,lzcnt,popcnt"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi2,avx2,bmi,bmi2,lzcnt,popcnt")
#endif

#include "filter/burst_look_kernel.h"

namespace weir::filter {
namespace {

/// Fields of 16 frames.
class Fields {
 public:
  using Vector = __m512i;
  using Flags = __mmask16;
  static constexpr std::size_t lanes = 16;

  // Written out: one that the compiler makes is code for every machine.
  Fields() noexcept
      : choice_(_mm512_castsi128_si512(
            _mm_setr_epi16(in_headers(HeaderWords::type_at), in_headers(HeaderWords::version_at),
                           in_headers(HeaderWords::total_length_at), in_headers(HeaderWords::data_offset_at),
                           in_headers(HeaderWords::fragment_at), in_headers(HeaderWords::protocol_at),
                           in_mbuf(HeaderWords::data_length_at), in_mbuf(HeaderWords::segments_at)))) {}

  [[gnu::always_inline]] void get(rte_mbuf* const* mbufs, const std::byte** bytes, Vector& a, Vector& b,
                                  Vector& c, Vector& d) const noexcept {
    const Vector first = quarter(mbufs, bytes, 0);
    const Vector second = quarter(mbufs, bytes, 1);
    const Vector third = quarter(mbufs, bytes, 2);
    const Vector fourth = quarter(mbufs, bytes, 3);
    const Vector ab_low = _mm512_unpacklo_epi32(first, second);
    const Vector cd_low = _mm512_unpackhi_epi32(first, second);
    const Vector ab_high = _mm512_unpacklo_epi32(third, fourth);
    const Vector cd_high = _mm512_unpackhi_epi32(third, fourth);
    a = _mm512_unpacklo_epi64(ab_low, ab_high);
    b = _mm512_unpackhi_epi64(ab_low, ab_high);
    c = _mm512_unpacklo_epi64(cd_low, cd_high);
    d = _mm512_unpackhi_epi64(cd_low, cd_high);
  }
  Vector swapped(Vector lengths) const noexcept { return _mm512_shuffle_epi8(lengths, swap_); }

  static Vector all(std::uint32_t value) noexcept { return _mm512_set1_epi32(static_cast<int>(value)); }
  static Vector differs(Vector a, std::uint32_t from, std::uint32_t where) noexcept {
    return _mm512_and_si512(_mm512_xor_si512(a, all(from)), all(where));
  }
  static Vector either(Vector a, Vector b) noexcept { return _mm512_or_si512(a, b); }
  static Vector both(Vector a, Vector b) noexcept { return _mm512_and_si512(a, b); }
  static Vector sum(Vector a, Vector b) noexcept { return _mm512_add_epi32(a, b); }
  static Vector difference(Vector a, Vector b) noexcept { return _mm512_sub_epi32(a, b); }
  template <int count>
  static Vector down(Vector a) noexcept {
    return _mm512_srli_epi32(a, count);
  }
  static Flags plain(Vector odd, Vector header, Vector least, Vector offset, Vector end,
                     Vector there) noexcept {
    Flags flags = _mm512_testn_epi32_mask(odd, odd);
    flags = _mm512_mask_cmple_epi32_mask(flags, least, header);
    flags = _mm512_mask_cmple_epi32_mask(flags, offset, end);
    return _mm512_mask_cmple_epi32_mask(flags, end, there);
  }
  static Flags and_greater(Flags flags, Vector a, Vector b) noexcept {
    return _mm512_mask_cmpgt_epi32_mask(flags, a, b);
  }
  static std::uint32_t bits(Flags flags) noexcept { return _cvtmask16_u32(flags); }
  static void store(Flags flags, Vector offset, Vector length, PlainPayload* to) noexcept {
    const Vector low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const Vector high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    const Vector offsets = _mm512_maskz_mov_epi32(flags, offset);
    const Vector lengths = _mm512_maskz_mov_epi32(flags, length);
    _mm512_store_si512(to, _mm512_permutex2var_epi32(offsets, low, lengths));
    _mm512_store_si512(to + 8, _mm512_permutex2var_epi32(offsets, high, lengths));
  }

 private:
  /// Of the frames at `first`, and every fourth behind it.
  [[gnu::always_inline]] Vector quarter(rte_mbuf* const* mbufs, const std::byte** bytes,
                                        std::size_t first) const noexcept {
    Vector words = _mm512_castsi128_si512(words_of(mbufs[first], bytes[first]));
    words = _mm512_inserti32x4(words, words_of(mbufs[first + 4], bytes[first + 4]), 1);
    words = _mm512_inserti32x4(words, words_of(mbufs[first + 8], bytes[first + 8]), 2);
    return _mm512_inserti32x4(words, words_of(mbufs[first + 12], bytes[first + 12]), 3);
  }
  [[gnu::always_inline]] __m128i words_of(const rte_mbuf* mbuf, const std::byte*& bytes) const noexcept {
    bytes = headers_of(mbuf);
    constexpr __mmask16 read = (1U << HeaderWords::read / 4) - 1;
    const Vector headers = _mm512_maskz_loadu_epi32(read, bytes);
    return _mm512_castsi512_si128(_mm512_permutex2var_epi16(headers, choice_, _mm512_load_si512(mbuf)));
  }

  static constexpr short in_headers(std::size_t at) { return static_cast<short>(at / 2); }
  static constexpr short in_mbuf(std::size_t at) { return static_cast<short>(32 + at / 2); }
  static_assert(HeaderWords::data_length_at < 64 && HeaderWords::segments_at < 64);

  Vector choice_;
  // Of each lane the lower two bytes, the other way round; nothing else.
  Vector swap_ =
      _mm512_broadcast_i32x4(_mm_setr_epi8(1, 0, -1, -1, 5, 4, -1, -1, 9, 8, -1, -1, 13, 12, -1, -1));
};

}  // namespace

void look_at_burst_avx512(std::span<rte_mbuf* const> burst, BurstLook& look) noexcept {
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
