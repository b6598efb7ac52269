// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The vector looks, but for the vectors. Included by the files that hold the code of one instruction set,
/// behind what asks for it.
#pragma once

#include <immintrin.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "filter/burst_look.h"

namespace weir::filter {
namespace {

/// Words of two bytes that tell a plain frame, in pairs: each pair is one field of the vectors. Addresses are
/// of the frame's first byte and of its mbuf.
///
///   type_and_version   12 type           14 version, header length; type of service
///   lengths            16 total length   46 data offset; flags
///   fragment           20 fragment       22 time to live; protocol
///   segment            data_len          nb_segs
struct HeaderWords {
  static constexpr std::size_t type_at = 12;
  static constexpr std::size_t version_at = 14;
  static constexpr std::size_t total_length_at = 16;
  static constexpr std::size_t fragment_at = 20;
  static constexpr std::size_t protocol_at = 22;
  static constexpr std::size_t data_offset_at = 46;
  /// So many bytes of a frame are read.
  static constexpr std::size_t read = 48;
  static constexpr std::size_t data_length_at = offsetof(rte_mbuf, data_len);
  static constexpr std::size_t segments_at = offsetof(rte_mbuf, nb_segs);
};

/// Where a frame is too short for its headers these are read instead, and are not plain.
alignas(64) constexpr std::array<std::byte, 64> no_headers{};

/// For each half of a byte a byte: a byte can begin a request where that of its lower half and that of its
/// upper half have a bit in common. Of bytes from 128 on none can.
struct BeginningHalves {
  alignas(16) std::array<std::uint8_t, 16> lower{};
  alignas(16) std::array<std::uint8_t, 16> upper{};
};
constexpr BeginningHalves beginning_halves = [] {
  BeginningHalves halves;
  for (unsigned upper = 0; upper < 8; ++upper) {
    halves.upper[upper] = static_cast<std::uint8_t>(1U << upper);
    for (unsigned lower = 0; lower < 16; ++lower)
      if (can_begin_request(static_cast<char>(upper << 4 | lower)))
        halves.lower[lower] = static_cast<std::uint8_t>(halves.lower[lower] | 1U << upper);
  }
  return halves;
}();

[[gnu::always_inline]] inline __m128i sixteen_of(const std::array<std::uint8_t, 16>& bytes) noexcept {
  return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes.data()));
}

/// Which of so many first bytes, at most 16, can begin a request.
template <std::size_t count>
[[gnu::always_inline]] inline std::uint32_t openings_in(__m128i firsts) noexcept {
  const __m128i uppers = _mm_and_si128(_mm_srli_epi16(firsts, 4), _mm_set1_epi8(0x0f));
  // A shuffle has 0 for bytes from 128 on.
  const __m128i common = _mm_and_si128(_mm_shuffle_epi8(sixteen_of(beginning_halves.lower), firsts),
                                       _mm_shuffle_epi8(sixteen_of(beginning_halves.upper), uppers));
  const __m128i none = _mm_cmpeq_epi8(common, _mm_setzero_si128());
  return ~static_cast<std::uint32_t>(_mm_movemask_epi8(none)) & ((std::uint32_t{1} << count) - 1);
}

[[gnu::always_inline]] inline int first_byte(const std::byte* frame, PlainPayload payload) noexcept {
  return std::to_integer<int>(frame[payload.offset]);
}
[[gnu::always_inline]] inline __m128i eight_first_bytes(const std::byte* const* frames,
                                                        const PlainPayload* payloads) noexcept {
  __m128i bytes = _mm_cvtsi32_si128(first_byte(frames[0], payloads[0]));
  bytes = _mm_insert_epi8(bytes, first_byte(frames[1], payloads[1]), 1);
  bytes = _mm_insert_epi8(bytes, first_byte(frames[2], payloads[2]), 2);
  bytes = _mm_insert_epi8(bytes, first_byte(frames[3], payloads[3]), 3);
  bytes = _mm_insert_epi8(bytes, first_byte(frames[4], payloads[4]), 4);
  bytes = _mm_insert_epi8(bytes, first_byte(frames[5], payloads[5]), 5);
  bytes = _mm_insert_epi8(bytes, first_byte(frames[6], payloads[6]), 6);
  return _mm_insert_epi8(bytes, first_byte(frames[7], payloads[7]), 7);
}

/// The first bytes of so many payloads, 8 or 16, side by side. @param payloads  without offset: any byte
template <std::size_t count>
[[gnu::always_inline]] inline __m128i first_bytes(const std::byte* const* frames,
                                                  const PlainPayload* payloads) noexcept {
  static_assert(count == 8 || count == 16);
  if constexpr (count == 8)
    return eight_first_bytes(frames, payloads);
  else
    return _mm_unpacklo_epi64(eight_first_bytes(frames, payloads),
                              eight_first_bytes(frames + 8, payloads + 8));
}

/// @tparam Fields  what the instruction set does with vectors of one field of several frames
template <typename Fields>
[[gnu::always_inline]] inline void look_at_burst(std::span<rte_mbuf* const> burst, BurstLook& look) noexcept {
  using Vector = typename Fields::Vector;
  using Flags = typename Fields::Flags;
  constexpr std::size_t lanes = Fields::lanes;
  static_assert(burst_size % lanes == 0);

  const std::size_t count = burst.size();
  // Another core's mbufs are far away, and what is to be read lies behind them.
#pragma GCC unroll 4
  for (const rte_mbuf* const mbuf : burst) rte_prefetch0(mbuf);
  rte_mbuf* const* mbufs = burst.data();
  std::array<rte_mbuf*, burst_size> filled_up;
  if (count % lanes != 0) [[unlikely]] {
    for (std::size_t i = 0; i < burst_size; ++i) filled_up[i] = mbufs[i < count ? i : 0];
    mbufs = filled_up.data();
  }
  const Fields fields;
  std::uint32_t all_plain = 0;
  std::uint32_t all_filled = 0;
  for (std::size_t begin = 0; begin < count; begin += lanes) {
    Vector type_and_version;
    Vector lengths;
    Vector fragment;
    Vector segment;
    fields.get(mbufs + begin, look.bytes.data() + begin, type_and_version, lengths, fragment, segment);
    // Bytes as they lie in the frame, the first one lowest.
    const Vector odd = Fields::either(
        Fields::differs(type_and_version, 0x00450008, 0x00ffffff),
        Fields::either(Fields::differs(fragment, 0x06000000, 0xff00ff3f),  // the time to live left out
                       Fields::differs(segment, 0x00010000, 0xffff0000)));
    const Vector total = fields.swapped(lengths);
    const Vector header = Fields::both(Fields::template down<18>(lengths), Fields::all(0x3c));
    const Vector offset = Fields::sum(header, Fields::all(14 + 20));
    const Vector end = Fields::sum(total, Fields::all(14));
    const Vector there = Fields::both(segment, Fields::all(0xffff));
    const Flags plain = Fields::plain(odd, header, Fields::all(20), offset, end, there);
    const Flags filled = Fields::and_greater(plain, end, offset);
    Fields::store(filled, offset, Fields::difference(end, offset), look.payloads.data() + begin);
    all_plain |= Fields::bits(plain) << begin;
    all_filled |= Fields::bits(filled) << begin;
  }
  // Vectors of these have been written just now; by the time that the last one is, they can be read in
  // pieces.
  std::uint32_t opening = 0;
  for (std::size_t begin = 0; begin < count && all_filled >> begin != 0; begin += lanes)
    opening |= openings_in<lanes>(first_bytes<lanes>(look.bytes.data() + begin, look.payloads.data() + begin))
               << begin;
  const auto of_burst = static_cast<std::uint32_t>((std::uint64_t{1} << count) - 1);
  look.odd = ~all_plain & of_burst;
  look.opening = opening & all_filled & of_burst;
}

/// Where a frame's headers may be read.
[[gnu::always_inline]] inline const std::byte* headers_of(const rte_mbuf* mbuf) noexcept {
  if (mbuf->data_len < HeaderWords::read) [[unlikely]]
    return no_headers.data();
  return rte_pktmbuf_mtod(mbuf, const std::byte*);
}

}  // namespace
}  // namespace weir::filter
