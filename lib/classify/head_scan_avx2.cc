// SPDX-License-Identifier: BSD-3-Clause
#include "classify/head_scan.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// From here on, and not by a flag for the whole file: what the headers above define stays code for every
// machine.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,lzcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,lzcnt")
#endif

#include "classify/head_kernel.h"

namespace weir {
namespace {

/// 32 bytes.
class Half {
 public:
  explicit Half(const char* data) noexcept
      : bytes_(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(data))) {}
  static Half of_16(const char* data) noexcept {
    return Half(_mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data))));
  }
  static Half of_word(std::uint64_t word) noexcept {
    return Half(_mm256_zextsi128_si256(_mm_cvtsi64_si128(static_cast<long long>(word))));
  }

  std::uint64_t equal(char byte) const noexcept {
    return mask(_mm256_cmpeq_epi8(bytes_, _mm256_set1_epi8(byte)));
  }
  std::uint64_t not_of_target() const noexcept {
    return mask(_mm256_or_si256(at_most(bytes_, 0x20), _mm256_cmpeq_epi8(bytes_, _mm256_set1_epi8(0x7f))));
  }
  std::uint64_t capitals() const noexcept {
    return mask(at_most(_mm256_sub_epi8(bytes_, _mm256_set1_epi8('A')), 'Z' - 'A'));
  }

 private:
  explicit Half(__m256i bytes) noexcept : bytes_(bytes) {}
  static __m256i at_most(__m256i bytes, char most) noexcept {
    return _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, _mm256_set1_epi8(most)), bytes);
  }
  static std::uint64_t mask(__m256i bytes) noexcept {
    return static_cast<std::uint32_t>(_mm256_movemask_epi8(bytes));
  }

  __m256i bytes_;
};

using Avx2 = InHalves<Half>;

}  // namespace

constinit const Scans scans_avx2 = scans_with<Avx2>();

}  // namespace weir

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
