// SPDX-License-Identifier: BSD-3-Clause
#include "base/keyed_hash.h"

#include <bit>
#include <cstring>

namespace weir {
namespace {

struct SipState {
  std::uint64_t v0, v1, v2, v3;

  explicit SipState(HashKey key) noexcept
      : v0(0x736f6d6570736575ULL ^ key.k0),
        v1(0x646f72616e646f6dULL ^ key.k1),
        v2(0x6c7967656e657261ULL ^ key.k0),
        v3(0x7465646279746573ULL ^ key.k1) {}

  void round() noexcept {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }

  template <int rounds>
  void absorb(std::uint64_t word) noexcept {
    v3 ^= word;
    for (int i = 0; i < rounds; ++i) round();
    v0 ^= word;
  }

  template <int rounds>
  std::uint64_t squeeze() noexcept {
    for (int i = 0; i < rounds; ++i) round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

std::uint64_t load_little_endian(const std::byte* bytes, std::size_t count) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

template <int rounds>
void absorb_message(SipState& state, std::span<const std::byte> bytes, std::size_t length_already) noexcept {
  const std::size_t whole = bytes.size() / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) state.absorb<rounds>(load_little_endian(&bytes[i], 8));
  std::uint64_t last = static_cast<std::uint64_t>(bytes.size() + length_already) << 56;
  if (whole != bytes.size()) last |= load_little_endian(&bytes[whole], bytes.size() - whole);
  state.absorb<rounds>(last);
}

}  // namespace

std::uint64_t keyed_hash(HashKey key, std::uint64_t tweak, std::span<const std::byte> bytes) noexcept {
  SipState state(key);
  state.absorb<1>(tweak);
  absorb_message<1>(state, bytes, sizeof tweak);
  state.v2 ^= 0xff;
  return state.squeeze<3>();
}

Digest128 digest128(HashKey key, std::span<const std::byte> bytes) noexcept {
  SipState state(key);
  state.v1 ^= 0xee;
  absorb_message<2>(state, bytes, 0);
  state.v2 ^= 0xee;
  Digest128 digest;
  digest.low = state.squeeze<4>();
  state.v1 ^= 0xdd;
  digest.high = state.squeeze<4>();
  return digest;
}

}  // namespace weir
