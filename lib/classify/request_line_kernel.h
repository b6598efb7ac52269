// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The request lines of a burst, for the set with AVX-512: included as head_kernel.h is, by
/// head_scan_avx512.cc alone, in the region where the set is in force.
///
/// Eight requests at a time. A comparison makes a mask of 64 bytes, and the mask of one request is one word
/// of a vector: so what find_plain_line() does to the masks of one request is done to those of eight at once,
/// and request by request there is nothing but to load and to compare.
#pragma once

#include <immintrin.h>

#include "classify/frames_ahead.h"
#include "classify/head_scan.h"
#include "classify/scan_set.h"

// Whoever compiles this header alone, outside of such a region, need not be told how vectors are returned.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace weir {
namespace {

class RequestLines {
 public:
  /// Finds the requests with a plain request line that have so much behind it that 16 bytes can be read from
  /// the target's end on, and notes all frames' payloads.
  /// @param line_ends  room for all of a burst's frames: where one is found, the position of its '\n'
  /// @param others  bit i: frames[i] has less behind its target, and may have one
  /// @return bit i: frames[i] has one
  template <typename Next>
  static std::uint32_t find(const PlainFrame* frames, std::size_t count, PlainHeads& heads,
                            std::uint32_t* line_ends, std::uint32_t& others, Next& ahead) noexcept {
    RequestLines lines;
    others = 0;
    std::uint32_t found = 0;
    for (std::size_t at = 0; at < count; at += lanes) lines.find_windows(frames, count, at, heads);
    const std::size_t padded = (count + lanes - 1) / lanes * lanes;
    lines.compare_windows(padded, ahead);
    for (std::size_t at = 0; at < count; at += lanes) found |= lines.find_parts(at, heads, line_ends, others);
    return found & lines.with_version(padded);
  }

 private:
  static constexpr std::size_t lanes = 8;
  static constexpr std::size_t shortest = 16;
  static constexpr std::size_t longest = 0xffff;
  static constexpr std::size_t rest_of_line = 11;  // " HTTP/1.1" and its end
  alignas(64) static constexpr char zeros[64] = {};

  /// What a byte may be to a request line, a bit each: of the two halves of a byte each tells which ones are
  /// possible, and what both allow it is. None of this is beyond ASCII.
  enum Class : unsigned char {
    control = 1,
    space = 2,
    del = 4,
    hash = 8,
    question = 16,
    percent = 32,
    slash = 64,
    dot = 128,
  };
  alignas(16) static constexpr unsigned char by_lower_half[16] = {
      control | space, control,           control,       control | hash,
      control,         control | percent, control,       control,
      control,         control,           control,       control,
      control,         control,           control | dot, control | del | question | slash};
  alignas(16) static constexpr unsigned char by_upper_half[16] = {
      control, control, space | hash | percent | slash | dot, question, 0, 0, 0, del};

  RequestLines() noexcept {}

  static __m512i all_of(std::uint64_t word) noexcept {
    return _mm512_set1_epi64(static_cast<long long>(word));
  }
  static __m512i one_bit(__m512i masks) noexcept {
    return _mm512_and_si512(masks, _mm512_sub_epi64(_mm512_setzero_si512(), masks));
  }
  static __m512i without(__m512i masks, __m512i others) noexcept {
    return _mm512_andnot_si512(others, masks);
  }
  /// The lower half of each word.
  static void store(void* to, __m512i words) noexcept {
    _mm256_storeu_si256(static_cast<__m256i*>(to), _mm512_cvtepi64_epi32(words));
  }
  /// @param bit  one in each word
  static __m512i number_of(__m512i bit) noexcept {
    return _mm512_sub_epi64(all_of(63), _mm512_lzcnt_epi64(bit));
  }
  static __m512i below(__m512i bit) noexcept { return _mm512_sub_epi64(bit, all_of(1)); }
  static __m512i zeros_at() noexcept { return all_of(reinterpret_cast<std::uintptr_t>(zeros)); }

  /// Where the payloads are, and how long. A frame that is not there, or too short or too long for a request
  /// line, has its window elsewhere, and nothing in it: so nothing is asked for below.
  [[gnu::always_inline]] void find_windows(const PlainFrame* frames, std::size_t count, std::size_t at,
                                           PlainHeads& heads) noexcept {
    static_assert(sizeof(PlainFrame) == 16 && sizeof(PlainHeads::Value) == 4);
    const std::size_t left = count - at;
    const __mmask16 words_there =
        left < lanes ? static_cast<__mmask16>(bits_below(2 * left)) : static_cast<__mmask16>(0xffff);
    const __m512i first = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(words_there), frames + at);
    const __m512i second =
        _mm512_maskz_loadu_epi64(static_cast<__mmask8>(words_there >> 8), frames + at + lanes / 2);
    const __m512i bytes =
        _mm512_permutex2var_epi64(first, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), second);
    const __m512i payloads =
        _mm512_permutex2var_epi64(first, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), second);
    const __m512i sizes = _mm512_srli_epi64(payloads, 32);
    const __m512i data = _mm512_add_epi64(bytes, _mm512_and_si512(payloads, all_of(0xffffffff)));
    _mm512_storeu_si512(&heads.payloads[at], data);
    store(&heads.sizes[at], sizes);
    const __mmask8 of_size =
        _mm512_cmple_epu64_mask(_mm512_sub_epi64(sizes, all_of(shortest)), all_of(longest - shortest));
    _mm512_store_si512(&from_[at], _mm512_mask_mov_epi64(zeros_at(), of_size, data));
    // A shift by more than there are bits leaves none.
    const __m512i beyond = _mm512_sllv_epi64(all_of(all), _mm512_maskz_mov_epi64(of_size, sizes));
    _mm512_store_si512(&windows_[at], without(all_of(all), beyond));
  }

  /// Of each request's first 64 bytes. @param count  all lanes of the last ones'
  template <typename Next>
  [[gnu::always_inline]] void compare_windows(std::size_t count, Next& ahead) noexcept {
    const auto table = [](const unsigned char* classes) {
      return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(classes)));
    };
    const auto each = [](int classes) { return _mm512_set1_epi8(static_cast<char>(classes)); };
    const __m512i lower = table(by_lower_half);
    const __m512i upper = table(by_upper_half);
    const __m512i half = _mm512_set1_epi8(0x0f);
    ahead.beside(
        count, Ahead::of_pass, [&](std::size_t i) __attribute__((always_inline)) {
          const __m512i window = _mm512_maskz_loadu_epi8(windows_[i], from_[i]);
          _mm_storel_epi64(reinterpret_cast<__m128i*>(&firsts_[i]), _mm512_castsi512_si128(window));
          // Of a byte beyond ASCII there is nothing in the first table.
          const __m512i upper_halves = _mm512_and_si512(_mm512_srli_epi16(window, 4), half);
          const __m512i classes =
              _mm512_and_si512(_mm512_shuffle_epi8(lower, window), _mm512_shuffle_epi8(upper, upper_halves));
          stops_[i] = _mm512_test_epi8_mask(classes, each(control | space | del));
          marks_[i] = _mm512_test_epi8_mask(classes, each(question | hash));
          percents_[i] = _mm512_test_epi8_mask(classes, each(percent));
          slashes_[i] = _mm512_test_epi8_mask(classes, each(slash));
          dots_[i] = _mm512_test_epi8_mask(classes, each(dot));
        });
  }

  /// What find_plain_line() does, but for the version.
  [[gnu::always_inline]] std::uint32_t find_parts(std::size_t at, PlainHeads& heads, std::uint32_t* line_ends,
                                                  std::uint32_t& others) noexcept {
    const __m512i in_window = _mm512_load_si512(&windows_[at]);
    const __m512i sizes =
        _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(&heads.sizes[at])));
    const __m512i stops = _mm512_and_si512(_mm512_load_si512(&stops_[at]), in_window);
    const __m512i method_bit = one_bit(stops);
    const __m512i target_bit = one_bit(without(stops, method_bit));
    const __m512i method_end = number_of(method_bit);
    const __m512i target_end = number_of(target_bit);
    // Room for a line's rest, of which there is more where there is any other line.
    __mmask8 found = _mm512_test_epi64_mask(target_bit, target_bit);
    const __mmask8 readable = _mm512_cmpge_epu64_mask(_mm512_sub_epi64(sizes, target_end), all_of(shortest));
    others |= std::uint32_t{static_cast<__mmask8>(found & ~readable)} << at;
    found &= readable;
    _mm512_store_si512(&versions_[at],
                       _mm512_mask_add_epi64(zeros_at(), found, _mm512_load_si512(&from_[at]), target_end));

    // The method: one to seven of 'A' to 'Z', and a space.
    const __m512i firsts = _mm512_load_si512(&firsts_[at]);
    const __m512i capitals = _mm512_movm_epi8(
        _mm512_cmple_epu8_mask(_mm512_sub_epi8(firsts, _mm512_set1_epi8('A')), _mm512_set1_epi8('Z' - 'A')));
    const __m512i bits = _mm512_slli_epi64(method_end, 3);
    const __m512i method_bytes = below(_mm512_sllv_epi64(all_of(1), bits));
    const __m512i behind_method = _mm512_and_si512(_mm512_srlv_epi64(firsts, bits), all_of(0xff));
    found = _mm512_mask_cmple_epu64_mask(found, _mm512_sub_epi64(method_end, all_of(1)), all_of(6));
    found = _mm512_mask_cmpeq_epi64_mask(found, behind_method, all_of(' '));
    found = _mm512_mask_testn_epi64_mask(found, without(method_bytes, capitals), method_bytes);

    // The path. A method has none of the bytes that are looked for here.
    const __m512i all_slashes = _mm512_load_si512(&slashes_[at]);
    const __m512i percents = _mm512_load_si512(&percents_[at]);
    const __m512i marks = _mm512_or_si512(_mm512_load_si512(&marks_[at]), percents);
    const __m512i path_bit = one_bit(_mm512_or_si512(marks, target_bit));
    const __m512i path = below(path_bit);
    const __m512i path_end = number_of(path_bit);
    const __m512i begin = _mm512_add_epi64(method_end, all_of(1));
    const __m512i slashes = _mm512_srlv_epi64(_mm512_and_si512(all_slashes, path), begin);
    const __m512i odd =
        _mm512_and_si512(_mm512_slli_epi64(all_slashes, 1),
                         _mm512_and_si512(path, _mm512_or_si512(all_slashes, _mm512_load_si512(&dots_[at]))));
    found = _mm512_mask_testn_epi64_mask(found, odd, odd);
    found = _mm512_mask_test_epi64_mask(found, slashes, all_of(1));
    found = _mm512_mask_testn_epi64_mask(found, percents, path_bit);

    // Without the slash at the end, but not without the only one.
    const __m512i last = _mm512_sub_epi64(path_end, _mm512_add_epi64(begin, all_of(1)));
    const __m512i last_is_slash =
        _mm512_and_si512(_mm512_srlv_epi64(without(slashes, all_of(1)), last), all_of(1));
    const __m512i end = _mm512_sub_epi64(path_end, last_is_slash);
    store(&heads.values[PlainHeads::method][at], _mm512_slli_epi64(method_end, 16));
    store(&heads.values[PlainHeads::path][at], _mm512_or_si512(begin, _mm512_slli_epi64(end, 16)));
    _mm512_storeu_si512(&heads.slashes[at], slashes);
    store(line_ends + at, _mm512_add_epi64(target_end, all_of(rest_of_line - 1)));
    return std::uint32_t{found} << at;
  }

  /// Four requests at a time. @param count  all lanes of the last ones'
  [[gnu::always_inline]] std::uint32_t with_version(std::size_t count) noexcept {
    constexpr std::size_t at_once = 4;
    const __m512i version = _mm512_broadcast_i32x4(
        _mm_setr_epi8(' ', 'H', 'T', 'T', 'P', '/', '1', '.', '1', '\r', '\n', 0, 0, 0, 0, 0));
    // "0" and "1" differ in one bit.
    const __m512i minor =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, '0' ^ '1', 0, 0, 0, 0, 0, 0, 0));
    constexpr __mmask64 of_rests = ((std::uint64_t{1} << rest_of_line) - 1) * 0x0001'0001'0001'0001;
    const auto rest = [&](std::size_t i) __attribute__((always_inline)) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(versions_[i]));
    };
    alignas(64) std::uint16_t wrong[burst_frames];
    for (std::size_t i = 0; i < count; i += at_once) {
      __m512i rests = _mm512_castsi128_si512(rest(i));
      rests = _mm512_inserti32x4(rests, rest(i + 1), 1);
      rests = _mm512_inserti32x4(rests, rest(i + 2), 2);
      rests = _mm512_inserti32x4(rests, rest(i + 3), 3);
      const std::uint64_t differ =
          _mm512_mask_cmpneq_epi8_mask(of_rests, _mm512_or_si512(rests, minor), version);
      __builtin_memcpy(wrong + i, &differ, sizeof differ);
    }
    const __m512i all_wrong = _mm512_load_si512(wrong);
    return _mm512_testn_epi16_mask(all_wrong, all_wrong);
  }

  // By frame.
  alignas(64) const char* from_[burst_frames];       // where a payload begins
  alignas(64) std::uint64_t windows_[burst_frames];  // bit i: the payload has a byte i
  alignas(64) std::uint64_t firsts_[burst_frames];   // its first eight bytes
  alignas(64) std::uint64_t stops_[burst_frames];    // bytes that no target contains
  alignas(64) std::uint64_t marks_[burst_frames];    // '?' and '#'
  alignas(64) std::uint64_t percents_[burst_frames];
  alignas(64) std::uint64_t slashes_[burst_frames];
  alignas(64) std::uint64_t dots_[burst_frames];
  alignas(64) const char* versions_[burst_frames];  // where a target ends
};

}  // namespace
}  // namespace weir

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
