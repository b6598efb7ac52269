// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The sought fields of a burst's plain requests, for the set with AVX-512: included as head_kernel.h is, by
/// head_scan_avx512.cc alone, in the region where the set is in force.
///
/// In passes over all requests. The ends of lines; from line to line, all names at once, a field a lane: a
/// lane takes the place of a line that begins as its name does, and since the lines are taken from the last
/// to the first, the first one stays. Then field by field what stands at those places, eight requests at
/// once, a request a lane: request by request there is nothing but to load and to compare.
#pragma once

#include <immintrin.h>

#include "classify/head_scan.h"
#include "classify/plain_heads_kernel.h"
#include "classify/scan_set.h"

// Whoever compiles this header alone, outside of such a region, need not be told how vectors are returned.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace weir {
namespace {

/// The first sixteen numbers of set bits; what is behind the last one means nothing.
[[gnu::always_inline]] inline __m256i numbers_of_bits(__mmask64 mask) noexcept {
  alignas(64) static constexpr unsigned char numbers[64] = {
      0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
      22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
      44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
  // The result's register is emptied first: a processor may wait for what it held, though nothing of it
  // stays.
  __m512i none;
  asm("vpxor %x0, %x0, %x0" : "=x"(none));
  return _mm256_cvtepu8_epi16(
      _mm512_castsi512_si128(_mm512_mask_compress_epi8(none, mask, _mm512_load_si512(numbers))));
}

class Fields {
 public:
  /// So many may be sought. The last lane looks for lines that begin as none does.
  static constexpr std::size_t most = 7;

  /// The work on a request, as Ahead has it: about the time that it takes.
  static std::size_t work(std::size_t length, std::size_t fields) noexcept {
    return static_cast<std::size_t>(work_on_lines(length) + work_on_names(length)) + fields * work_on_field;
  }

  /// Looks for the fields of requests that end as heads do.
  /// @param count  of frames
  /// @param requests  those with a plain request line
  /// @param line_ends  the positions of their '\n'
  /// @param others  by then, bit i: frames[i] has to be looked at more closely
  /// @return bit i: frames[i] is a plain request
  template <typename Set, typename Next>
  [[gnu::noinline]] static std::uint32_t find(PlainHeads& heads, std::size_t count, std::uint32_t requests,
                                              const std::uint32_t* line_ends, const SoughtFields& sought,
                                              std::uint32_t& others, Next& ahead) noexcept {
    Fields fields((count + lanes - 1) / lanes);
    others = fields.find_all_lines(heads, requests, line_ends, ahead);
    others |= fields.find_all_names(heads, requests & ~others, sought, ahead);
    const std::uint32_t heads_seen = requests & ~others;
    if (heads_seen == 0) return 0;
    for (std::size_t i = 0; i < sought.field_count; ++i)
      fields.compare_lines(heads, i, sought.fields[i], ahead);
    std::uint32_t not_plain = 0;
    for (std::size_t i = 0; i < sought.field_count; ++i) {
      std::uint32_t odd = fields.find_values(heads, i, sought.fields[i]);
      if ((sought.fields[i].roles & SoughtFields::is_host) != 0)
        not_plain |= fields.trim_hosts(heads, heads.values[PlainHeads::fields + i].data(), odd);
      for (odd &= heads_seen; odd != 0; odd &= odd - 1) {
        const unsigned frame = lowest(odd);
        if (!fields.find_value_among<Set>(heads, frame, sought, i)) not_plain |= std::uint32_t{1} << frame;
      }
    }
    return without_rare(heads_seen, not_plain);
  }

 private:
  static constexpr std::size_t lanes = 8;
  // Of each request, a field a lane: the end of the line before and the line's own; zeros: there is none.
  using Places = std::uint32_t[lanes];

  /// As HeadLines has them. Not initialised.
  struct alignas(64) Lines {
    static constexpr std::size_t at_once = 4;
    Lines() noexcept {}
    std::uint16_t* ends() noexcept { return positions + at_once; }
    const std::uint16_t* ends() const noexcept { return positions + at_once; }

    std::uint64_t count;
    /// Before the ends there is room for who goes through them backwards, several at once.
    std::uint16_t positions[at_once + HeadLines::most + 1 + window_size];
  };

  /// What is compared about one field. Not initialised.
  struct OfField {
    OfField() noexcept {}
    alignas(64) std::uint64_t wrong[burst_frames];  // bytes that are not the field's
    alignas(64) std::uint32_t places[burst_frames];
    alignas(64) std::uint16_t tails[burst_frames];  // the two bytes before the line's end
    __mmask8 there[burst_frames / lanes];           // by block, by request: there may be one
  };

  static std::int32_t work_on_lines(std::size_t length) noexcept {
    return static_cast<std::int32_t>(length / window_size) + 2;
  }
  static std::int32_t work_on_names(std::size_t length) noexcept {
    return static_cast<std::int32_t>(length / window_size) + 1;
  }
  static constexpr std::int32_t work_on_field = 1;

  explicit Fields(std::size_t blocks) noexcept : blocks_(blocks) {}

  static __m512i all_of(std::uint64_t word) noexcept {
    return _mm512_set1_epi64(static_cast<long long>(word));
  }
  /// Nothing stands there, before it neither.
  static __m512i nowhere() noexcept {
    alignas(64) static constexpr char zeros[3 * window_size] = {};
    return all_of(reinterpret_cast<std::uintptr_t>(zeros + window_size));
  }

  /// @return the requests that do not end as heads do, or have more than so many lines, or many short ones
  template <typename Next>
  [[gnu::noinline]] std::uint32_t find_all_lines(const PlainHeads& heads, std::uint32_t requests,
                                                 const std::uint32_t* line_ends, Next& all_ahead) noexcept {
    Next ahead = all_ahead;
    std::uint32_t others = 0;
    const __m512i newline = _mm512_set1_epi8('\n');
    const std::int32_t work = work_on_lines(heads.sizes[0]);  // one stands for all
    for (std::uint32_t rest = requests; rest != 0; rest &= rest - 1) {
      const unsigned frame = lowest(rest);
      if (!find_lines(heads.payloads[frame], heads.sizes[frame], line_ends[frame], newline, lines_[frame]))
          [[unlikely]]
        others |= std::uint32_t{1} << frame;
      ahead.step(work);
    }
    all_ahead = ahead;
    return others;
  }

  [[gnu::always_inline]] static bool find_lines(const char* data, std::size_t size, std::size_t line_end,
                                                __m512i newline, Lines& lines) noexcept {
    constexpr std::size_t empty_line = 2;
    constexpr int most_in_window = 16;
    if (!ends_as_head(data, size, window_size + empty_line)) [[unlikely]]
      return false;
    std::uint16_t* const ends = lines.ends();
    std::uint16_t* behind = ends;
    const auto take = [&](__mmask64 mask, std::size_t at) __attribute__((always_inline)) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(behind),
                          _mm256_add_epi16(numbers_of_bits(mask), _mm256_set1_epi16(static_cast<short>(at))));
      const auto count = static_cast<int>(_mm_popcnt_u64(mask));
      behind += count;
      return count <= most_in_window && behind <= ends + HeadLines::most;
    };
    const std::size_t last_window = size - empty_line - window_size;
    std::size_t at = line_end;
    for (; at < last_window; at += window_size)
      if (!take(_mm512_cmpeq_epi8_mask(newline, _mm512_loadu_si512(data + at)), at)) [[unlikely]]
        return false;
    // The last window is a whole one that begins earlier.
    const __m512i last = _mm512_loadu_si512(data + last_window);
    if (!take(_mm512_mask_cmpeq_epi8_mask(all << (at - last_window), newline, last), last_window))
        [[unlikely]]
      return false;
    lines.count = static_cast<std::uint64_t>(behind - ends) - 1;
    // Who looks before the first line finds what is no field, for so far before its end a request line goes
    // on with "P/1.1", '\r' and '\n'.
    constexpr std::size_t rest_of_line = 7;
    _mm_storel_epi64(reinterpret_cast<__m128i*>(lines.positions),
                     _mm_set1_epi16(static_cast<short>(line_end - rest_of_line)));
    return true;
  }

  /// @param heads_seen  whose lines are known
  /// @return those of them that have a line that begins as none does, or a last one too short to compare
  template <typename Next>
  [[gnu::noinline]] std::uint32_t find_all_names(const PlainHeads& heads, std::uint32_t heads_seen,
                                                 const SoughtFields& sought, Next& all_ahead) noexcept {
    constexpr std::size_t last_lane = lanes - 1;
    constexpr __mmask8 last_only = 1 << last_lane;
    // Behind the last field nothing is equal. '\n' and '\r' differ from each other in three bits.
    const __m512i want =
        _mm512_mask_mov_epi64(_mm512_loadu_si512(sought.want.data()), last_only, all_of(0x0f));
    const __m512i fold =
        _mm512_mask_mov_epi64(_mm512_loadu_si512(sought.fold.data()), last_only, all_of(0x07));
    const __m512i care =
        _mm512_mask_mov_epi64(_mm512_loadu_si512(sought.care.data()), last_only, all_of(0xff));
    Next ahead = all_ahead;
    for (std::uint64_t rest = bits_below(blocks_ * lanes) & ~std::uint64_t{heads_seen}; rest != 0;
         rest &= rest - 1)
      _mm256_store_si256(reinterpret_cast<__m256i*>(places_[lowest(rest)]), _mm256_setzero_si256());
    __m512i of_all = _mm512_setzero_si512();
    const std::int32_t work = work_on_names(heads.sizes[0]);
    std::uint32_t others = 0;
    for (std::uint32_t rest = heads_seen; rest != 0; rest &= rest - 1) {
      const unsigned frame = lowest(rest);
      ahead.step(work);
      const Lines& lines = lines_[frame];
      const char* const data = heads.payloads[frame];
      const std::uint16_t* const first = lines.ends();
      const std::uint16_t* line = first + lines.count;
      __m512i places = _mm512_setzero_si512();
      const auto compare = [&](const std::uint16_t* ends) __attribute__((always_inline)) {
        const __m512i word = all_of(word_at(data + ends[0] + 1));
        const __m512i folded = _mm512_ternarylogic_epi64(word, fold, care, 0xa8);  // (a | b) & c
        std::uint64_t place;
        __builtin_memcpy(&place, ends, sizeof place);
        places = _mm512_mask_mov_epi64(places, _mm512_cmpeq_epi64_mask(folded, want), all_of(place));
      };
      if (line != first && line[-1] + 1 + sizeof(std::uint64_t) > heads.sizes[frame]) [[unlikely]] {
        others |= std::uint32_t{1} << frame;
        line = first;
      }
      while (line > first) {
        line -= Lines::at_once;
        compare(line + 3);
        compare(line + 2);
        compare(line + 1);
        compare(line);
      }
      of_all = _mm512_or_si512(of_all, places);
      _mm256_store_si256(reinterpret_cast<__m256i*>(places_[frame]), _mm512_cvtepi64_epi32(places));
    }
    all_ahead = ahead;
    if (_mm512_mask_test_epi64_mask(last_only, of_all, of_all) != 0) [[unlikely]]
      for (std::uint32_t rest = heads_seen; rest != 0; rest &= rest - 1)
        if (places_[lowest(rest)][last_lane] != 0) others |= rest & (0 - rest);
    return others;
  }

  /// Of eight requests.
  [[gnu::always_inline]] __m256i places_of(std::size_t at, std::size_t index) const noexcept {
    const auto two = [&](std::size_t i) { return _mm512_load_si512(places_[at + i]); };
    const __m512i of_four =
        _mm512_add_epi32(_mm512_setr_epi32(0, 8, 16, 24, 0, 8, 16, 24, 0, 0, 0, 0, 0, 0, 0, 0),
                         _mm512_set1_epi32(static_cast<int>(index)));
    const __m512i low = _mm512_permutex2var_epi32(two(0), of_four, two(2));
    const __m512i high = _mm512_permutex2var_epi32(two(4), of_four, two(6));
    return _mm512_castsi512_si256(_mm512_mask_mov_epi32(low, 0xf0, high));
  }

  /// Whether the lines are the field, as nearly all are: "name: value\r\n".
  template <typename Next>
  [[gnu::noinline]] void compare_lines(const PlainHeads& heads, std::size_t index,
                                       const SoughtFields::Field& field, Next& ahead) noexcept {
    const std::size_t blocks = blocks_;
    const std::size_t frames = blocks * lanes;
    constexpr std::size_t behind_name = 3;  // the colon, the space and what begins the value
    const std::size_t length = field.length;
    const __m256i colon = _mm256_set1_epi32(static_cast<int>(length + 1));
    const bool in_window = length + behind_name <= window_size;
    OfField& of = of_fields_[index];
    for (std::size_t block = 0; block < blocks; ++block) {
      const __m256i places = places_of(block * lanes, index);
      const __m256i begins = _mm256_and_si256(places, _mm256_set1_epi32(0xffff));
      const __m256i ends = _mm256_srli_epi32(places, 16);
      const __mmask8 there = _mm256_test_epi32_mask(places, places);
      // Before the end there is at least the colon, and from the beginning on at least the line's end.
      __mmask8 fits = _mm256_mask_cmpgt_epi32_mask(there, ends, _mm256_add_epi32(begins, colon));
      if (!in_window) fits = 0;
      const __m512i payloads = _mm512_loadu_si512(&heads.payloads[block * lanes]);
      _mm512_store_si512(&from_[block * lanes],
                         _mm512_mask_add_epi64(nowhere(), fits, payloads, _mm512_cvtepu32_epi64(begins)));
      _mm512_store_si512(&behind_[block * lanes],
                         _mm512_mask_add_epi64(nowhere(), fits, payloads, _mm512_cvtepu32_epi64(ends)));
      of.there[block] = there;
      _mm256_store_si256(reinterpret_cast<__m256i*>(&of.places[block * lanes]), places);
    }
    // Of the name and the space each byte is to be equal, of the value's first one no more is asked than that
    // it is above the space: its complement is below that of the space then.
    const __mmask64 known = in_window ? all >> (window_size - length - behind_name) : 0;
    const __mmask64 value = known & ~(known >> 1);
    const __m512i name = _mm512_maskz_loadu_epi8(known, field.front.data());
    const __mmask64 letters =
        _mm512_cmple_epu8_mask(_mm512_sub_epi8(name, _mm512_set1_epi8('a')), _mm512_set1_epi8('z' - 'a'));
    const __m512i fold = _mm512_maskz_set1_epi8(letters, 'a' - 'A');
    const __m512i want = _mm512_mask_set1_epi8(name, value, static_cast<char>(0xff));
    const __m512i most_wrong = _mm512_maskz_set1_epi8(value, static_cast<char>(0xff ^ (' ' + 1)));
    ahead.beside(
        frames, work_on_field, [&](std::size_t i) __attribute__((always_inline)) {
          const __m512i line = _mm512_maskz_loadu_epi8(known, from_[i] + 1);
          const __m512i wrong = _mm512_ternarylogic_epi64(line, fold, want, 0x56);  // (a | b) ^ c
          of.wrong[i] = _mm512_cmpgt_epu8_mask(wrong, most_wrong);
          __builtin_memcpy(&of.tails[i], behind_[i] - 2, sizeof of.tails[i]);
        });
  }

  /// @return bit i: that of frames[i] is not spelt so
  [[gnu::noinline]] std::uint32_t find_values(PlainHeads& heads, std::size_t index,
                                              const SoughtFields::Field& field) noexcept {
    const std::size_t blocks = blocks_;
    const OfField& of = of_fields_[index];
    // The value begins two behind the colon, and ends before '\r'.
    const __m256i inner = _mm256_set1_epi32(static_cast<int>(field.length + 3 - (1U << 16)));
    PlainHeads::Value* const values = heads.values[PlainHeads::fields + index].data();
    std::uint32_t odd = 0;
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t at = block * lanes;
      const __m512i wrong = _mm512_load_si512(&of.wrong[at]);
      const __m128i tails = _mm_xor_si128(_mm_load_si128(reinterpret_cast<const __m128i*>(&of.tails[at])),
                                          _mm_set1_epi16('\r' << 8));
      const __m128i from_visible = _mm_sub_epi16(tails, _mm_set1_epi16(' ' + 1));
      const __mmask8 usual =
          static_cast<__mmask8>(_mm512_testn_epi64_mask(wrong, wrong) &
                                _mm_cmple_epu16_mask(from_visible, _mm_set1_epi16(0xff - (' ' + 1))));
      odd |= static_cast<std::uint32_t>(of.there[block] & ~usual) << at;
      const __m256i places = _mm256_load_si256(reinterpret_cast<const __m256i*>(&of.places[at]));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(values + at),
                          _mm256_maskz_add_epi32(of.there[block], places, inner));
    }
    return odd;
  }

  /// Leaves of values the hosts that they name.
  /// @param odd  whose values are not known yet; those not of one window are added
  /// @return bit i: the host of frames[i] is not plain
  [[gnu::noinline]] std::uint32_t trim_hosts(const PlainHeads& heads, PlainHeads::Value* values,
                                             std::uint32_t& odd) noexcept {
    const std::size_t blocks = blocks_;
    const std::size_t frames = blocks * lanes;
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t at = block * lanes;
      const __m256i places = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + at));
      const __m256i begins = _mm256_and_si256(places, _mm256_set1_epi32(0xffff));
      const __m256i sizes = _mm256_sub_epi32(_mm256_srli_epi32(places, 16), begins);
      const auto known = static_cast<__mmask8>(_mm256_test_epi32_mask(places, places) & ~(odd >> at));
      const __mmask8 small = _mm256_mask_cmplt_epu32_mask(known, sizes, _mm256_set1_epi32(window_size));
      odd |= static_cast<std::uint32_t>(known & ~small) << at;
      const __m512i end_bits = _mm512_maskz_sllv_epi64(small, all_of(1), _mm512_cvtepu32_epi64(sizes));
      _mm512_store_si512(&end_bits_[at], end_bits);
      _mm512_store_si512(&windows_[at], _mm512_maskz_sub_epi64(small, end_bits, all_of(1)));
      _mm512_store_si512(&from_[at],
                         _mm512_mask_add_epi64(nowhere(), small, _mm512_loadu_si512(&heads.payloads[at]),
                                               _mm512_cvtepu32_epi64(begins)));
    }
    const __m512i colon = _mm512_set1_epi8(':');
    const __m512i dot = _mm512_set1_epi8('.');
    // '@', 'A' to 'Z' and '[' stand side by side.
    const __m512i first_odd = _mm512_set1_epi8('@');
    const __m512i odd_behind = _mm512_set1_epi8('[' - '@');
    NothingAhead().beside(
        frames, 0, [&](std::size_t i) __attribute__((always_inline)) {
          const __m512i host = _mm512_maskz_loadu_epi8(windows_[i], from_[i]);
          colons_[i] = _mm512_cmpeq_epi8_mask(host, colon);
          dots_[i] = _mm512_cmpeq_epi8_mask(host, dot);
          odd_bytes_[i] = _mm512_cmple_epu8_mask(_mm512_sub_epi8(host, first_odd), odd_behind);
        });
    std::uint32_t not_plain = 0;
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t at = block * lanes;
      const __m512i end_bits = _mm512_load_si512(&end_bits_[at]);
      const __m512i odd_bytes = _mm512_load_si512(&odd_bytes_[at]);
      not_plain |= std::uint32_t{_mm512_test_epi64_mask(odd_bytes, odd_bytes)} << at;
      // Up to a port, and without a dot before that.
      __m512i ends = _mm512_or_si512(end_bits, _mm512_load_si512(&colons_[at]));
      ends = _mm512_and_si512(ends, _mm512_sub_epi64(_mm512_setzero_si512(), ends));
      const __m512i dots = _mm512_load_si512(&dots_[at]);
      const __m512i last = _mm512_srli_epi64(ends, 1);
      ends = _mm512_mask_mov_epi64(ends, _mm512_test_epi64_mask(dots, last), last);
      const __m256i sizes = _mm512_cvtepi64_epi32(_mm512_sub_epi64(all_of(63), _mm512_lzcnt_epi64(ends)));
      const __mmask8 known = _mm512_test_epi64_mask(end_bits, end_bits);
      const __mmask8 named = _mm256_test_epi32_mask(sizes, sizes);
      const __m256i begins = _mm256_and_si256(
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + at)), _mm256_set1_epi32(0xffff));
      const __m256i hosts =
          _mm256_mask_or_epi32(begins, named, begins, _mm256_slli_epi32(_mm256_add_epi32(begins, sizes), 16));
      _mm256_mask_storeu_epi32(values + at, known, hosts);
    }
    return not_plain;
  }

  /// The value of a field that is not spelt as most are. @return false: a host that is not plain
  template <typename Set>
  [[gnu::noinline]] bool find_value_among(PlainHeads& heads, unsigned frame, const SoughtFields& sought,
                                          std::size_t index) const noexcept {
    HeadLines lines;
    lines.data = heads.payloads[frame];
    lines.size = heads.sizes[frame];
    lines.count = static_cast<std::uint32_t>(lines_[frame].count);
    lines.cut = false;
    __builtin_memcpy(lines.ends, lines_[frame].ends(), (lines.count + 1) * sizeof lines.ends[0]);
    find_names<Set>(lines, sought);
    return find_value_closely<Set>(lines, sought, index, heads.values[PlainHeads::fields + index][frame]);
  }

  std::size_t blocks_;
  // By frame.
  alignas(64) Places places_[burst_frames];
  alignas(64) const char* from_[burst_frames];
  alignas(64) const char* behind_[burst_frames];
  alignas(64) std::uint64_t end_bits_[burst_frames];
  alignas(64) std::uint64_t windows_[burst_frames];
  alignas(64) std::uint64_t colons_[burst_frames];
  alignas(64) std::uint64_t dots_[burst_frames];
  alignas(64) std::uint64_t odd_bytes_[burst_frames];
  OfField of_fields_[most];
  Lines lines_[burst_frames];
};

}  // namespace
}  // namespace weir

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
