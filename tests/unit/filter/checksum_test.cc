// SPDX-License-Identifier: BSD-3-Clause
#include "filter/checksum.h"

#include <gtest/gtest.h>
#include <rte_byteorder.h>

#include "frame_builder.h"

namespace weir::filter {
namespace {

test::Bytes hex(std::string_view digits) {
  test::Bytes bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  return bytes;
}

/// In host byte order.
std::uint16_t number(std::uint16_t in_memory) { return rte_be_to_cpu_16(in_memory); }

std::uint16_t checksum(std::span<const std::byte> bytes) { return number(ChecksumSum(bytes).checksum()); }

/// As RFC 1071 defines it: word after word, each carry added at the lower end.
std::uint16_t by_words(std::span<const std::byte> bytes) {
  std::uint32_t sum = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 2) {
    sum += std::to_integer<std::uint32_t>(bytes[at]) << 8;
    if (at + 1 < bytes.size()) sum += std::to_integer<std::uint32_t>(bytes[at + 1]);
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<std::uint16_t>(~sum);
}

TEST(Checksum, IsTheOneOfTheExampleInRfc1071) {
  EXPECT_EQ(checksum(hex("0001f203f4f5f6f7")), static_cast<std::uint16_t>(~0xddf2));
}

TEST(Checksum, PadsAnOddByteWithZero) { EXPECT_EQ(checksum(hex("0001f2")), checksum(hex("0001f200"))); }

TEST(Checksum, IsThatOfItsWordsHoweverManyAndHoweverTheyCarry) {
  for (const auto& byte_at :
       {+[](int i) { return i * 37 + i / 7; }, +[](int) { return 0xff; },
        +[](int i) { return i % 2 == 0 ? 0xff : 0xfe; }, +[](int i) { return i % 8 == 0 ? 1 : 0xff; }}) {
    test::Bytes bytes;
    for (int i = 0; i < 1500; ++i) bytes.push_back(static_cast<std::byte>(byte_at(i)));
    for (std::size_t length = 0; length <= bytes.size(); ++length) {
      const std::span<const std::byte> all = std::span(bytes).first(length);
      ASSERT_EQ(checksum(all), by_words(all)) << length;
    }
  }
}

TEST(Checksum, IsTheSameHoweverTheWordsAreTakenTogether) {
  test::Bytes bytes;
  for (int i = 0; i < 101; ++i) bytes.push_back(static_cast<std::byte>(255 - i * 3));
  const std::span<const std::byte> all(bytes);
  for (std::size_t first = 0; first <= all.size(); first += 2) {
    ChecksumSum sum(all.first(first));
    sum.add(ChecksumSum(all.subspan(first)));
    ASSERT_EQ(number(sum.checksum()), by_words(all)) << first;
  }
}

TEST(Checksum, OfNothingIsAllOnes) { EXPECT_EQ(checksum({}), 0xffff); }

TEST(Checksum, OfAnIpv4Header) {
  // A header printed in many places: checksum b861.
  EXPECT_EQ(checksum(hex("450000730000400040110000c0a80001c0a800c7")), 0xb861);
  EXPECT_EQ(checksum(hex("45000073000040004011b861c0a80001c0a800c7")), 0);
}

}  // namespace
}  // namespace weir::filter
