// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What KeyHash says of the texts of a burst's keys, for the sets with AVX2, BMI and POPCNT: included as
/// head_kernel.h is, by the head_scan_*.cc alone, in the region where such a set is in force.
///
/// The requests go in blocks of eight. What is asked of a text's place (how long it is, its shape, its part
/// in the key's size) is asked of eight requests' at once, a request a lane; so is what a hash ends with. In
/// between, request by request, there is nothing but to load texts and to multiply them.
///
/// A set of operations Set has
///   Set::pieces_of(sizes)   of eight texts' sizes, what load_first() wants to know of each
///   Set::add_first(...)     the two sums over all texts' first pieces, see below
///   Set::part(data, size, readable)  the first `size` of 32 bytes, zeros behind them; of what is there
///                           `readable` bytes may be read
///   Set::finish(...)        what KeyHash::Words::finish() says, of eight
#pragma once

#include <immintrin.h>

#include "base/key_bytes.h"
#include "base/key_hash.h"
#include "classify/head_scan.h"
#include "classify/scan_set.h"

// Whoever compiles this header alone, outside of such a region, need not be told how vectors are returned.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace weir {
namespace {

inline __m256i load_vector(const void* words) noexcept {
  return _mm256_loadu_si256(static_cast<const __m256i*>(words));
}

/// The sums of KeyHash over pieces of 32 bytes: those of the words at bytes 0, 8, 16 and 24 side by side.
class WideSums {
 public:
  // Declared, since what the compiler makes by itself is for the baseline.
  WideSums() noexcept : x_(_mm256_setzero_si256()), y_(_mm256_setzero_si256()) {}

  [[gnu::always_inline]] void add(__m256i words, const char* key) noexcept {
    x_ = _mm256_add_epi64(x_, products(words, load_vector(key)));
    y_ = _mm256_add_epi64(y_, products(words, load_vector(key + KeyHash::Words::shift)));
  }
  [[gnu::always_inline]] void get(std::uint64_t& x, std::uint64_t& y) const noexcept {
    const __m256i pairs = _mm256_add_epi64(_mm256_unpacklo_epi64(x_, y_), _mm256_unpackhi_epi64(x_, y_));
    const __m128i both = _mm_add_epi64(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    x = static_cast<std::uint64_t>(_mm_cvtsi128_si64(both));
    y = static_cast<std::uint64_t>(_mm_extract_epi64(both, 1));
  }

 private:
  [[gnu::always_inline]] static __m256i products(__m256i words, __m256i key) noexcept {
    const __m256i sums = _mm256_add_epi32(words, key);
    return _mm256_mul_epu32(sums, _mm256_srli_epi64(sums, 32));
  }

  __m256i x_;
  __m256i y_;
};

/// What there is to know of the texts of eight requests' keys before their bytes are looked at. Not
/// initialised.
struct TextBlock {
  static constexpr std::size_t requests = 8;

  TextBlock() noexcept {}

  alignas(64) std::uint64_t x[requests];  ///< the two sums
  alignas(64) std::uint64_t y[requests];
  alignas(32) std::uint32_t begins[TextKeys::most][requests];
  alignas(32) std::uint32_t sizes[TextKeys::most][requests];
  alignas(32) std::uint32_t pieces[TextKeys::most][requests];  ///< as pieces_of() says
  /// As KeyHash has them, two and two: of the key's last text the lower half of the first word.
  alignas(32) std::uint32_t shapes[TextKeys::most / 2][requests];
  alignas(32) std::uint32_t key_sizes[requests];
  std::size_t count;       ///< of requests: the first ones
  std::uint32_t too_long;  ///< bit i: a text of request i is too long, or all of them together
  std::uint32_t more;      ///< bit i: a text of request i has more than one piece. Others may be told so, too
  bool near_end;           ///< a text begins less than a piece before its payload's end
};

/// Where the values of one text stand, and the payloads they stand in: from the block's first request on.
struct TextPlaces {
  const PlainHeads::Value* values[TextKeys::most];
  const char* const* payloads;
  const std::uint32_t* payload_sizes;
};

template <typename Set>
[[gnu::always_inline]] inline void note_texts(const TextPlaces& places, std::size_t at, std::size_t count,
                                              const TextKeys& keys, TextBlock& block) noexcept {
  static_assert(sizeof(PlainHeads::Value) == 4);
  static_assert(key_form::text == 1);
  const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i there = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), number);
  const __m256i one = _mm256_set1_epi32(key_form::text);
  const __m256i low_half = _mm256_set1_epi32(0xffff);
  // Before which a whole piece can be read.
  const __m256i last_begin =
      _mm256_sub_epi32(load_vector(places.payload_sizes + at), _mm256_set1_epi32(KeyHash::Words::piece));
  __m256i key_sizes = _mm256_set1_epi32(static_cast<int>(2 * keys.count));
  __m256i all_sizes = _mm256_setzero_si256();
  __m256i near_end = _mm256_setzero_si256();
  __m256i shape = _mm256_setzero_si256();
  for (std::size_t i = 0; i < keys.count; ++i) {
    const __m256i value = _mm256_and_si256(load_vector(places.values[i] + at), there);
    const __m256i begin = _mm256_and_si256(value, low_half);
    const __m256i end = _mm256_srli_epi32(value, 16);
    const __m256i absent = _mm256_cmpeq_epi32(end, _mm256_setzero_si256());
    const __m256i size = _mm256_andnot_si256(absent, _mm256_sub_epi32(end, begin));
    // Of a text that is there, its size and two more; of all others a byte.
    key_sizes = _mm256_add_epi32(key_sizes, _mm256_add_epi32(size, absent));
    all_sizes = _mm256_or_si256(all_sizes, size);
    near_end = _mm256_or_si256(near_end, _mm256_cmpgt_epi32(begin, last_begin));
    const __m256i here = _mm256_andnot_si256(absent, _mm256_or_si256(_mm256_slli_epi32(size, 8), one));
    const std::size_t from_last = keys.count - 1 - i;
    if (from_last % 2 != 0) {
      shape = _mm256_slli_epi32(here, 16);
    } else {
      _mm256_store_si256(reinterpret_cast<__m256i*>(block.shapes[from_last / 2]),
                         _mm256_or_si256(shape, here));
      shape = _mm256_setzero_si256();
    }
    _mm256_store_si256(reinterpret_cast<__m256i*>(block.begins[i]), begin);
    _mm256_store_si256(reinterpret_cast<__m256i*>(block.sizes[i]), size);
    _mm256_store_si256(reinterpret_cast<__m256i*>(block.pieces[i]), Set::pieces_of(size));
  }
  // Two words of 32 bits are one of what KeyHash sums up.
  const std::size_t shape_words = (keys.count + 1) / 2;
  if (shape_words % 2 != 0)
    _mm256_store_si256(reinterpret_cast<__m256i*>(block.shapes[shape_words]), _mm256_setzero_si256());
  _mm256_store_si256(reinterpret_cast<__m256i*>(block.key_sizes), key_sizes);
  const auto mask_of = [](__m256i each) {
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(each)));
  };
  const auto beyond = [&](std::size_t limit) {
    return _mm256_cmpgt_epi32(all_sizes, _mm256_set1_epi32(static_cast<int>(limit - 1)));
  };
  // As Classifier has it: behind three of the longest values there may not be room for another. (Here it is
  // the last one that counts, too.) As long as the longest that is kept as it is is taken for longer.
  static_assert((max_value_bytes & (max_value_bytes - 1)) == 0);
  constexpr int most = 2 * (2 + max_value_bytes);
  __m256i too_long = beyond(max_value_bytes);
  if (keys.count > 3)
    too_long = _mm256_or_si256(too_long, _mm256_cmpgt_epi32(key_sizes, _mm256_set1_epi32(most)));
  block.count = count;
  block.too_long = mask_of(too_long);
  block.more = mask_of(beyond(KeyHash::Words::piece));
  block.near_end = mask_of(_mm256_and_si256(near_end, there)) != 0;
}

/// The sums over what stands behind the first pieces.
template <typename Set>
[[gnu::noinline]] void add_more(const TextPlaces& places, std::size_t at, std::size_t count,
                                const KeyHash::Words& words, TextBlock& block) noexcept {
  constexpr std::size_t piece = KeyHash::Words::piece;
  // Of what is too long nobody wants the hash, and there is no key for it.
  for (std::uint32_t rest = block.more & ~block.too_long; rest != 0; rest &= rest - 1) {
    const unsigned request = lowest(rest);
    const char* key = words.inner + KeyHash::Words::first_pieces * piece;
    WideSums sums;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t begin = block.begins[i][request];
      std::size_t size = block.sizes[i][request];
      const char* data = places.payloads[at + request] + begin;
      std::size_t readable = places.payload_sizes[at + request] - begin;
      while (size > piece) {
        data += piece;
        size -= piece;
        readable -= piece;
        sums.add(size > piece ? load_vector(data) : Set::part(data, size, readable), key);
        key += piece;
      }
    }
    std::uint64_t x;
    std::uint64_t y;
    sums.get(x, y);
    block.x[request] += x;
    block.y[request] += y;
  }
}

/// @param requests  how many, and no more than there are frames in a burst
/// @param hashes  room for all of a burst's frames; what is not asked for may be written over
/// @return bit i: that of request i has a text too long
template <typename Set>
[[gnu::always_inline]] inline std::uint32_t hash_places(const TextPlaces& places, std::size_t requests,
                                                        const TextKeys& keys, const KeyHash::Words& words,
                                                        std::uint64_t* hashes) noexcept {
  // In passes: a vector is read from words that were written one by one, and waits until they have reached
  // the cache; and a hash is one long chain, of which several are under way at once.
  TextBlock blocks[burst_frames / TextBlock::requests];
  TextBlock* const last = blocks + (requests + TextBlock::requests - 1) / TextBlock::requests;
  std::uint32_t too_long = 0;
  std::size_t at = 0;
  for (TextBlock* block = blocks; block != last; ++block, at += TextBlock::requests) {
    const std::size_t left = requests - at;
    note_texts<Set>(places, at, left < TextBlock::requests ? left : TextBlock::requests, keys, *block);
    too_long |= block->too_long << at;
  }
  at = 0;
  for (TextBlock* block = blocks; block != last; ++block, at += TextBlock::requests) {
    Set::add_first(places, at, keys.count, words, *block);
    if (block->more != 0) [[unlikely]]
      add_more<Set>(places, at, keys.count, words, *block);
  }
  const typename Set::Finish finish(words, keys.tweak);
  for (const TextBlock* block = blocks; block != last; ++block, hashes += TextBlock::requests)
    finish.all_of(*block, keys.count, hashes);
  return too_long;
}

/// Some of a burst's requests, or their places: without gaps.
template <typename Set>
[[gnu::noinline]] std::uint32_t hash_some(const PlainHeads& heads, std::uint32_t requests,
                                          const TextKeys& keys, const KeyHash::Words& words,
                                          std::uint64_t* hashes) noexcept {
  PlainHeads::Value values[TextKeys::most][burst_frames];
  const char* payloads[burst_frames];
  std::uint32_t payload_sizes[burst_frames];
  std::uint64_t found[burst_frames];
  TextPlaces places;
  for (std::size_t i = 0; i < keys.count; ++i) places.values[i] = values[i];
  places.payloads = payloads;
  places.payload_sizes = payload_sizes;
  std::size_t count = 0;
  for (std::uint32_t rest = requests; rest != 0; rest &= rest - 1, ++count) {
    const unsigned frame = lowest(rest);
    payloads[count] = heads.payloads[frame];
    payload_sizes[count] = heads.sizes[frame];
    for (std::size_t i = 0; i < keys.count; ++i) values[i][count] = heads.values[keys.values[i]][frame];
  }
  const std::uint32_t too_long = hash_places<Set>(places, count, keys, words, found);
  count = 0;
  for (std::uint32_t rest = requests; rest != 0; rest &= rest - 1, ++count)
    hashes[lowest(rest)] = found[count];
  return _pdep_u32(too_long, requests);
}

template <typename Set>
std::uint32_t hash_texts(const PlainHeads& heads, std::uint32_t requests, const TextKeys& keys,
                         const KeyHash::Words& words, std::uint64_t* hashes) noexcept {
  // Most bursts have nothing but requests, to all of which a rule applies.
  if ((requests & (requests + 1)) != 0) return hash_some<Set>(heads, requests, keys, words, hashes);
  TextPlaces places;
  for (std::size_t i = 0; i < keys.count; ++i) places.values[i] = heads.values[keys.values[i]].data();
  places.payloads = heads.payloads.data();
  places.payload_sizes = heads.sizes.data();
  return hash_places<Set>(places, static_cast<std::size_t>(__builtin_popcount(requests)), keys, words,
                          hashes);
}

}  // namespace
}  // namespace weir

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
