// SPDX-License-Identifier: BSD-3-Clause
#include "filter/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "frame_builder.h"

namespace weir::filter {
namespace {

test::Bytes hex(std::string_view digits) {
  test::Bytes bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  return bytes;
}

TEST(Checksum, IsTheOneOfTheExampleInRfc1071) {
  const test::Bytes bytes = hex("0001f203f4f5f6f7");
  EXPECT_EQ(checksum_finish(checksum_add(0, bytes)), static_cast<std::uint16_t>(~0xddf2));
}

TEST(Checksum, PadsAnOddByteWithZero) {
  EXPECT_EQ(checksum_finish(checksum_add(0, hex("0001f2"))),
            checksum_finish(checksum_add(0, hex("0001f200"))));
}

TEST(Checksum, IsTheSameHoweverTheBytesAreTakenTogether) {
  test::Bytes bytes;
  for (int i = 0; i < 1500; ++i) bytes.push_back(static_cast<std::byte>(i * 37 + i / 7));
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    const std::span<const std::byte> all = std::span(bytes).first(length);
    std::uint64_t by_words = 0;
    for (std::size_t at = 0; at < length; at += 2)
      by_words = checksum_add(by_words, all.subspan(at, std::min<std::size_t>(2, length - at)));
    ASSERT_EQ(checksum_finish(checksum_add(0, all)), checksum_finish(by_words)) << length;
  }
}

TEST(Checksum, OfNothingIsAllOnes) { EXPECT_EQ(checksum_finish(0), 0xffff); }

TEST(Checksum, FoldsTheCarryOfACarry) { EXPECT_EQ(checksum_finish(0x1ffff), static_cast<std::uint16_t>(~1)); }

TEST(Checksum, OfAnIpv4Header) {
  // A header printed in many places: checksum b861.
  EXPECT_EQ(ipv4_header_checksum(hex("450000730000400040110000c0a80001c0a800c7")), 0xb861);
  EXPECT_EQ(ipv4_header_checksum(hex("45000073000040004011b861c0a80001c0a800c7")), 0);
}

TEST(Checksum, OfATcpSegmentCoversThePseudoHeaderOfItsFamily) {
  for (const auto& [source, destination] :
       {std::pair{"192.0.2.1", "198.51.100.2"}, std::pair{"2001:db8::1", "2001:db8::2"}}) {
    const test::Bytes frame = test::FrameBuilder().ip(source, destination).tcp(1, 2).payload("odd").build();
    const Frame parsed = parse_frame(frame);
    ASSERT_EQ(parsed.kind, FrameKind::tcp);
    test::Bytes segment(frame.begin() + parsed.l4_offset, frame.end());
    EXPECT_EQ(tcp_checksum(parsed.source, parsed.destination, segment), 0);
    segment.back() ^= std::byte{1};
    EXPECT_NE(tcp_checksum(parsed.source, parsed.destination, segment), 0);
    segment.back() ^= std::byte{1};
    EXPECT_NE(tcp_checksum(parsed.source, test::address("::3"), segment), 0);
  }
}

}  // namespace
}  // namespace weir::filter
