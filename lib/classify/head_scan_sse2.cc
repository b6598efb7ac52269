// SPDX-License-Identifier: BSD-3-Clause
#include "classify/head_scan.h"

#if defined(__x86_64__)

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>

#include "classify/head_kernel.h"

namespace weir {
namespace {

/// 32 bytes, in two registers.
class Half {
 public:
  explicit Half(const char* data) noexcept : low_(load(data)), high_(load(data + 16)) {}
  static Half of_16(const char* data) noexcept { return {load(data), _mm_setzero_si128()}; }
  static Half of_word(std::uint64_t word) noexcept {
    return {_mm_cvtsi64_si128(static_cast<long long>(word)), _mm_setzero_si128()};
  }

  std::uint64_t equal(char byte) const noexcept {
    const __m128i bytes = _mm_set1_epi8(byte);
    return mask(_mm_cmpeq_epi8(low_, bytes), _mm_cmpeq_epi8(high_, bytes));
  }
  std::uint64_t either(char a, char b) const noexcept { return equal(a) | equal(b); }
  std::uint64_t any(char a, char b, char c) const noexcept { return equal(a) | equal(b) | equal(c); }
  std::uint64_t not_of_target() const noexcept {
    const __m128i del = _mm_set1_epi8(0x7f);
    return mask(_mm_or_si128(at_most(low_, 0x20), _mm_cmpeq_epi8(low_, del)),
                _mm_or_si128(at_most(high_, 0x20), _mm_cmpeq_epi8(high_, del)));
  }
  std::uint64_t capitals() const noexcept {
    const __m128i first = _mm_set1_epi8('A');
    return mask(at_most(_mm_sub_epi8(low_, first), 'Z' - 'A'),
                at_most(_mm_sub_epi8(high_, first), 'Z' - 'A'));
  }
  std::uint64_t not_of_host() const noexcept {
    // '@', 'A' to 'Z' and '[' stand side by side.
    const __m128i first = _mm_set1_epi8('@');
    return mask(at_most(_mm_sub_epi8(low_, first), '[' - '@'),
                at_most(_mm_sub_epi8(high_, first), '[' - '@'));
  }

 private:
  Half(__m128i low, __m128i high) noexcept : low_(low), high_(high) {}
  static __m128i load(const char* data) noexcept {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
  }
  static __m128i at_most(__m128i bytes, char most) noexcept {
    return _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(most)), bytes);
  }
  static std::uint64_t mask(__m128i low, __m128i high) noexcept {
    return static_cast<std::uint32_t>(_mm_movemask_epi8(low)) |
           static_cast<std::uint64_t>(_mm_movemask_epi8(high)) << 16;
  }

  __m128i low_;
  __m128i high_;
};

/// See scan_set.h.
class EmptyLines {
 public:
  bool between(const char* data, const char* last_window) const noexcept {
    __m128i found = in_window(last_window);
    for (; data < last_window; data += window_size) found = _mm_or_si128(found, in_window(data));
    return _mm_movemask_epi8(found) != 0;
  }

 private:
  static __m128i in_window(const char* data) noexcept {
    __m128i found = _mm_setzero_si128();
    for (const char* at = data; at != data + window_size; at += sizeof found) {
      const __m128i ends = _mm_cmpeq_epi8(load(at), _mm_set1_epi8('\n'));
      const __m128i controls = _mm_cmpgt_epi8(_mm_set1_epi8('\r' + 1), load(at + 1));
      found = _mm_or_si128(found, _mm_and_si128(ends, controls));
    }
    return found;
  }
  static __m128i load(const char* data) noexcept {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
  }
};

struct Sse2 : OneByOne {
  static void leave() noexcept {}
  using Whole = InHalves<Half>::Whole;
  using Part = InHalves<Half>::Part;
  using Short = Part;
  using Front = InHalves<Half>::Front;
  using Byte = char;
  using EmptyLines = weir::EmptyLines;
};

}  // namespace

constinit const Scans scans_sse2 = scans_with<Sse2>(nullptr);

}  // namespace weir

#endif
