// SPDX-License-Identifier: BSD-3-Clause
#include "base/keyed_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weir {
namespace {

// The published vectors: the key is the bytes 00 … 0f, the i-th message is the bytes 00 … i-1.
constexpr HashKey published_key{0x0706050403020100, 0x0f0e0d0c0b0a0908};

std::vector<std::byte> counting_bytes(std::size_t count, std::size_t from = 0) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(from + i);
  return bytes;
}

std::string hex_little_endian(std::uint64_t word) {
  std::string text;
  for (int i = 0; i < 8; ++i) {
    const auto byte = static_cast<unsigned>(word >> (8 * i) & 0xff);
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string hex(const Digest128& digest) {
  return hex_little_endian(digest.low) + hex_little_endian(digest.high);
}

TEST(Digest128, IsSipHash24WithTheAuthorsVectors) {
  const std::vector<std::pair<std::size_t, std::string>> vectors = {
      {0, "a3817f04ba25a8e66df67214c7550293"},  {1, "da87c1d86b99af44347659119b22fc45"},
      {2, "8177228da4a45dc7fca38bdef60affe4"},  {3, "9c70b60c5267a94e5f33b6b02985ed51"},
      {15, "5493e99933b0a8117e08ec0f97cfc3d9"}, {63, "5150d1772f50834a503e069a973fbd7c"},
  };
  for (const auto& [length, expected] : vectors) {
    EXPECT_EQ(hex(digest128(published_key, counting_bytes(length))), expected) << "of " << length << " bytes";
  }
}

TEST(KeyedHash, IsSipHash13OfTheTweakFollowedByTheBytes) {
  // The tweak stands for the first eight bytes of the message.
  constexpr std::uint64_t tweak = 0x0706050403020100;
  const std::vector<std::pair<std::size_t, std::string>> vectors = {
      {8, "8e9a298d11959036"},  {9, "e43d066cb38ea425"},  {15, "5699512a6dd820d3"},
      {16, "668b907d1add4fcc"}, {63, "a8b3bbb76290199d"},
  };
  for (const auto& [length, expected] : vectors) {
    EXPECT_EQ(hex_little_endian(keyed_hash(published_key, tweak, counting_bytes(length - 8, 8))), expected)
        << "of " << length << " bytes";
  }
}

TEST(KeyedHash, DependsOnKeyTweakAndEveryByte) {
  const auto bytes = counting_bytes(21);
  std::set<std::uint64_t> seen{keyed_hash({1, 2}, 3, bytes)};
  EXPECT_TRUE(seen.insert(keyed_hash({9, 2}, 3, bytes)).second);
  EXPECT_TRUE(seen.insert(keyed_hash({1, 9}, 3, bytes)).second);
  EXPECT_TRUE(seen.insert(keyed_hash({1, 2}, 9, bytes)).second);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto changed = bytes;
    changed[i] ^= std::byte{0x80};
    EXPECT_TRUE(seen.insert(keyed_hash({1, 2}, 3, changed)).second) << "byte " << i;
  }
  EXPECT_TRUE(seen.insert(keyed_hash({1, 2}, 3, counting_bytes(20))).second) << "length";
}

TEST(KeyedHash, DoesNotDependOnWhereTheBytesLie) {
  std::vector<std::byte> memory = counting_bytes(64);
  for (std::size_t shift = 0; shift < 8; ++shift) {
    const auto message = counting_bytes(19);
    std::copy(message.begin(), message.end(), memory.begin() + static_cast<std::ptrdiff_t>(shift));
    EXPECT_EQ(keyed_hash({1, 2}, 3, std::span(memory).subspan(shift, 19)), keyed_hash({1, 2}, 3, message));
  }
}

}  // namespace
}  // namespace weir
