// SPDX-License-Identifier: BSD-3-Clause
#include "classify/head_scan.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// From here on, and not by a flag for the whole file: what the headers above define stays code for every
// machine.
#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx2,bmi,bmi2,lzcnt,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx2,bmi,bmi2,lzcnt,popcnt")
#endif

#include "classify/head_kernel.h"
#include "classify/head_kernel_bits.h"

namespace weir {
namespace {

/// 64 bytes. What is not there is not read, and zero.
class Bytes {
 public:
  static constexpr std::size_t least = 1;
  static constexpr std::size_t most = 63;
  static bool holds(std::size_t size, std::size_t) noexcept { return size <= most; }

  explicit Bytes(const char* data) noexcept : bytes_(_mm512_loadu_si512(data)) {}
  /// @pre size < 64
  Bytes(const char* data, std::size_t size) noexcept
      : bytes_(_mm512_maskz_loadu_epi8(bits_below(size), data)) {}

  std::uint64_t equal(char byte) const noexcept { return equal_in(byte); }
  std::uint64_t either(char a, char b) const noexcept { return equal_in(a) | equal_in(b); }
  std::uint64_t any(char a, char b, char c) const noexcept {
    return _kor_mask64(_kor_mask64(equal_in(a), equal_in(b)), equal_in(c));
  }
  std::uint64_t not_of_target() const noexcept {
    return _kor_mask64(_mm512_cmple_epu8_mask(bytes_, all_of(0x20)), equal_in(0x7f));
  }
  std::uint64_t capitals() const noexcept {
    return _mm512_cmple_epu8_mask(_mm512_sub_epi8(bytes_, _mm512_set1_epi8('A')),
                                  _mm512_set1_epi8('Z' - 'A'));
  }
  std::uint64_t not_of_host() const noexcept {
    // '@', 'A' to 'Z' and '[' stand side by side.
    return _mm512_cmple_epu8_mask(_mm512_sub_epi8(bytes_, _mm512_set1_epi8('@')),
                                  _mm512_set1_epi8('[' - '@'));
  }

 private:
  // Loaded, and only four bytes of it: or else GCC builds it anew for each use, in two instructions.
  static __m512i all_of(char byte) noexcept {
    return _mm512_set1_epi32(static_cast<int>(byte_four_times[static_cast<unsigned char>(byte)]));
  }
  __mmask64 equal_in(char byte) const noexcept { return _mm512_cmpeq_epi8_mask(bytes_, all_of(byte)); }

  __m512i bytes_;
};

struct Pieces {
  [[gnu::always_inline]] static __m256i part(const char* data, std::size_t size, std::size_t) noexcept {
    return _mm256_maskz_loadu_epi8(_bzhi_u32(~0U, static_cast<unsigned>(size)), data);
  }
};

struct Avx512 : InBits {
  using Sums = WideSums<Pieces>;
  using Texts = KeyTexts;
  // Compilers do this by themselves, but GCC 12 forgets it where a function it calls leaves registers alone;
  // the next instruction of the old encoding then waits a hundred cycles.
  static void leave() noexcept { _mm256_zeroupper(); }
  using Whole = Bytes;
  using Part = Bytes;
  using Short = Bytes;
  using Front = Bytes;
  using Byte = char;
};

}  // namespace

constinit const Scans scans_avx512 = scans_with<Avx512>();

}  // namespace weir

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
