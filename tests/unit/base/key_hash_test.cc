// SPDX-License-Identifier: BSD-3-Clause
#include "base/key_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace weir {
namespace {

constexpr HashKey secret{0x0706050403020100, 0x0f0e0d0c0b0a0908};

std::vector<std::byte> counting_bytes(std::size_t count, std::size_t from = 0) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(from + i);
  return bytes;
}

TEST(KeyHash, DependsOnTheSecretTheRuleAndEveryByte) {
  const KeyHash hash(secret);
  for (std::size_t length = 0; length <= KeyBytes::capacity; ++length) {
    const std::vector<std::byte> bytes = counting_bytes(length);
    std::set<std::uint64_t> seen{hash(3, bytes)};
    EXPECT_TRUE(seen.insert(KeyHash({secret.k0 + 1, secret.k1})(3, bytes)).second) << length;
    EXPECT_TRUE(seen.insert(KeyHash({secret.k0, secret.k1 + 1})(3, bytes)).second) << length;
    EXPECT_TRUE(seen.insert(hash(4, bytes)).second) << length;
    for (std::size_t i = 0; i < length; ++i) {
      std::vector<std::byte> changed = bytes;
      changed[i] ^= std::byte{1};
      EXPECT_TRUE(seen.insert(hash(3, changed)).second) << "byte " << i << " of " << length;
    }
  }
}

// Field by field where the values lie, or the bytes of the whole key: it is one number.
TEST(KeyHash, OfFieldsIsThatOfTheirBytes) {
  constexpr unsigned seed = 5;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const KeyHash hash(secret);
  for (int i = 0; i < 20'000; ++i) {
    KeyBytes key;
    key.clear();
    KeyHash::Fields fields(hash);
    const std::size_t count = random() % (max_dimensions + 1);
    for (std::size_t field = 0; field < count; ++field) {
      std::string value(random() % (random() % 4 == 0 ? 100 : 40), '\0');
      for (char& c : value) c = static_cast<char>(random());
      if (random() % 4 == 0) {
        key.add_absent();
        fields.add_absent();
      } else {
        key.add_text(value);
        // What may be read behind the value is not part of it. In memory of exactly that size, so that a
        // sanitizer sees a read beyond its end.
        const std::size_t behind = random() % 3 == 0 ? random() % 70 : 0;
        const auto with_more = std::make_unique<char[]>(value.size() + behind);
        std::copy(value.begin(), value.end(), with_more.get());
        std::fill_n(with_more.get() + value.size(), behind, static_cast<char>(random()));
        fields.add_text({with_more.get(), value.size()}, value.size() + behind);
      }
    }
    ASSERT_EQ(fields.size(), key.bytes().size());
    ASSERT_EQ(fields.value(7), hash(7, key.bytes())) << "key " << i;
  }
}

// What differs in how its fields are made up differs, though the values' bytes be the same.
TEST(KeyHash, TellsTheMakeUpOfKeysApart) {
  const KeyHash hash(secret);
  std::set<std::uint64_t> seen;
  std::size_t keys = 0;
  // Two bytes of value among up to four fields, each absent or a text.
  for (int count = 0; count <= 4; ++count) {
    for (int make_up = 0; make_up < 1 << (2 * count); ++make_up) {
      KeyBytes key;
      key.clear();
      for (int field = 0; field < count; ++field) {
        const int length = make_up >> (2 * field) & 3;
        if (length == 0)
          key.add_absent();
        else
          key.add_text(std::string(static_cast<std::size_t>(length - 1), 'a'));
      }
      ++keys;
      seen.insert(hash(0, key.bytes()));
    }
  }
  EXPECT_EQ(seen.size(), keys);
}

TEST(KeyHash, TellsTextsOfZerosApartByTheirLength) {
  const KeyHash hash(secret);
  std::set<std::uint64_t> seen;
  for (std::size_t length = 0; length <= KeyBytes::capacity; ++length)
    EXPECT_TRUE(seen.insert(hash(0, std::vector<std::byte>(length))).second) << length;
}

TEST(KeyHash, IsTheSameWhereverTheBytesLieAndReadsNoOthers) {
  const KeyHash hash(secret);
  for (std::size_t length = 0; length <= 100; ++length) {
    // In memory of exactly its size, so that a sanitizer sees a read beyond its end.
    const auto exact = std::make_unique<std::byte[]>(length);
    const std::vector<std::byte> bytes = counting_bytes(length);
    std::copy(bytes.begin(), bytes.end(), exact.get());
    const std::uint64_t expected = hash(1, std::span(exact.get(), length));
    for (std::size_t shift = 0; shift < 9; ++shift) {
      std::vector<std::byte> moved = counting_bytes(length + shift, 256 - shift);
      EXPECT_EQ(hash(1, std::span(moved).subspan(shift)), expected)
          << length << " bytes, shifted by " << shift;
    }
  }
}

// Numbers in a row, the texts that clients choose most easily, fill a table's buckets as chance would: by the
// upper bits, by the lower ones, and for any secret. With n balls in n buckets the share of empty ones is
// 1/e.
TEST(KeyHash, SpreadsTextsInArithmeticProgression) {
  constexpr unsigned bits = 14;
  constexpr std::uint64_t keys = 1 << bits;
  for (std::uint64_t number = 0; number < 20; ++number) {
    const KeyHash hash({number, ~number});
    for (const std::uint64_t step :
         {std::uint64_t{1}, std::uint64_t{256}, std::uint64_t{1} << 32, std::uint64_t{1} << 48}) {
      std::vector<bool> low(keys);
      std::vector<bool> high(keys);
      for (std::uint64_t i = 0; i < keys; ++i) {
        std::array<std::uint64_t, 3> text{7, i * step, 9};
        const std::uint64_t value = hash(0, std::as_bytes(std::span(text)));
        low[value % keys] = true;
        high[value >> (64 - bits)] = true;
      }
      for (const std::vector<bool>& filled : {low, high}) {
        const auto empty = static_cast<double>(std::count(filled.begin(), filled.end(), false)) / keys;
        EXPECT_NEAR(empty, std::exp(-1.0), 0.02) << "secret " << number << ", step " << step;
      }
    }
  }
}

TEST(KeyHash, ChangesHalfOfItsBitsWithEachBit) {
  const KeyHash hash(secret);
  std::array<std::uint64_t, 64> flips{};
  constexpr std::size_t texts = 2000;
  for (std::size_t i = 0; i < texts; ++i) {
    std::array<std::uint64_t, 4> text{i, i * i, 5, ~i};
    const std::uint64_t before = hash(0, std::as_bytes(std::span(text)));
    text[i % 4] ^= std::uint64_t{1} << (i % 61);
    const std::uint64_t changed = before ^ hash(0, std::as_bytes(std::span(text)));
    for (std::size_t bit = 0; bit < 64; ++bit) flips[bit] += changed >> bit & 1;
  }
  for (std::size_t bit = 0; bit < 64; ++bit)
    EXPECT_NEAR(static_cast<double>(flips[bit]) / texts, 0.5, 0.06) << "bit " << bit;
}

}  // namespace
}  // namespace weir
