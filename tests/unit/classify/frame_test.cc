// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "frame_builder.h"
#include "weir/packet.h"

namespace weir {
namespace {

using test::address;
using test::Bytes;
using test::FrameBuilder;

const std::string get_request = "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n";

std::string payload_of(const Bytes& bytes) { return std::string(tcp_payload(bytes, parse_frame(bytes))); }

// What must be true of every frame, however it came about.
void expect_consistent(const Frame& frame, std::span<const std::byte> bytes) {
  ASSERT_LE(frame.vlan_tags, 2);
  ASSERT_LE(frame.l3_offset, bytes.size());
  if (frame.kind != FrameKind::tcp) {
    ASSERT_TRUE(tcp_payload(bytes, frame).empty());
    return;
  }
  ASSERT_GE(frame.l3_offset, 14);
  ASSERT_GE(frame.l4_offset, frame.l3_offset + 20);
  ASSERT_GE(frame.payload_offset, frame.l4_offset + 20);
  ASSERT_LE(std::size_t{frame.payload_offset} + frame.payload_length, bytes.size());
  ASSERT_NE(frame.source.family, IpAddress::Family::none);
  ASSERT_EQ(frame.source.family, frame.destination.family);
}

TEST(ParseFrame, FindsTheLayersOfTcpOverIpv4) {
  const Bytes bytes = FrameBuilder()
                          .ip("192.0.2.1", "198.51.100.2")
                          .tcp(40000, 8080)
                          .sequence(0xfedcba98)
                          .acknowledgment(0x89abcdef)
                          .flags(tcp_psh | tcp_ack)
                          .payload(get_request)
                          .build();
  const Frame frame = parse_frame(bytes);
  EXPECT_EQ(frame.kind, FrameKind::tcp);
  EXPECT_EQ(frame.vlan_tags, 0);
  EXPECT_EQ(frame.l3_offset, 14);
  EXPECT_EQ(frame.l4_offset, 34);
  EXPECT_EQ(frame.payload_offset, 54);
  EXPECT_EQ(frame.payload_length, get_request.size());
  EXPECT_EQ(frame.source, address("192.0.2.1"));
  EXPECT_EQ(frame.destination, address("198.51.100.2"));
  EXPECT_EQ(frame.source_port, 40000);
  EXPECT_EQ(frame.destination_port, 8080);
  EXPECT_EQ(frame.sequence, 0xfedcba98U);
  EXPECT_EQ(frame.acknowledgment, 0x89abcdefU);
  EXPECT_EQ(frame.tcp_flags, tcp_psh | tcp_ack);
  EXPECT_EQ(payload_of(bytes), get_request);
}

TEST(ParseFrame, FindsTheLayersOfTcpOverIpv6) {
  const Bytes bytes =
      FrameBuilder().ip("2001:db8::1", "2001:db8::2").tcp(1, 65535).payload(get_request).build();
  const Frame frame = parse_frame(bytes);
  EXPECT_EQ(frame.kind, FrameKind::tcp);
  EXPECT_EQ(frame.l3_offset, 14);
  EXPECT_EQ(frame.l4_offset, 54);
  EXPECT_EQ(frame.payload_offset, 74);
  EXPECT_EQ(frame.source, address("2001:db8::1"));
  EXPECT_EQ(frame.destination, address("2001:db8::2"));
  EXPECT_EQ(frame.source_port, 1);
  EXPECT_EQ(frame.destination_port, 65535);
  EXPECT_EQ(payload_of(bytes), get_request);
}

TEST(ParseFrame, LooksBehindOneAndTwoVlanTags) {
  const Bytes one = FrameBuilder().vlan(5).payload(get_request).build();
  EXPECT_EQ(parse_frame(one).vlan_tags, 1);
  EXPECT_EQ(parse_frame(one).l3_offset, 18);
  EXPECT_EQ(payload_of(one), get_request);
  const Bytes two = FrameBuilder().vlan(5, 0x88a8).vlan(6).payload(get_request).build();
  EXPECT_EQ(parse_frame(two).vlan_tags, 2);
  EXPECT_EQ(parse_frame(two).l3_offset, 22);
  EXPECT_EQ(payload_of(two), get_request);
}

TEST(ParseFrame, LooksBehindNoThirdVlanTag) {
  const Frame frame = parse_frame(FrameBuilder().vlan(5).vlan(6).vlan(7).payload(get_request).build());
  EXPECT_EQ(frame.kind, FrameKind::not_ip);
  EXPECT_EQ(frame.vlan_tags, 2);
}

TEST(ParseFrame, SkipsIpv4AndTcpOptions) {
  for (const std::size_t ip_options : {4u, 40u}) {
    for (const std::size_t tcp_options : {4u, 12u, 40u}) {
      const Bytes bytes =
          FrameBuilder().ipv4_options(ip_options).tcp_options(tcp_options).payload(get_request).build();
      EXPECT_EQ(parse_frame(bytes).l4_offset, 34 + ip_options);
      EXPECT_EQ(payload_of(bytes), get_request);
    }
  }
}

TEST(ParseFrame, SkipsIpv6ExtensionHeaders) {
  struct {
    const char* name;
    std::uint8_t kind;
    std::size_t bytes;
  } const extensions[] = {{"hop by hop", 0, 8}, {"hop by hop", 0, 64},           {"routing", 43, 24},
                          {"AH", 51, 12},       {"destination options", 60, 16}, {"AH", 51, 24}};
  for (const auto& extension : extensions) {
    const Bytes bytes = FrameBuilder()
                            .ip("2001:db8::1", "2001:db8::2")
                            .extension(extension.kind, extension.bytes)
                            .payload(get_request)
                            .build();
    EXPECT_EQ(parse_frame(bytes).kind, FrameKind::tcp) << extension.name;
    EXPECT_EQ(parse_frame(bytes).l4_offset, 54 + extension.bytes) << extension.name;
    EXPECT_EQ(payload_of(bytes), get_request) << extension.name;
  }
  const Bytes all = FrameBuilder()
                        .ip("2001:db8::1", "2001:db8::2")
                        .extension(0)
                        .extension(60, 16)
                        .extension(43)
                        .extension(51, 24)
                        .extension(60)
                        .payload(get_request)
                        .build();
  EXPECT_EQ(payload_of(all), get_request);
}

TEST(ParseFrame, LeavesEthernetPaddingOutOfThePayload) {
  EXPECT_EQ(payload_of(FrameBuilder().payload("").padding(6).build()), "");
  EXPECT_EQ(payload_of(FrameBuilder().payload("abc").padding(60).build()), "abc");
  EXPECT_EQ(payload_of(FrameBuilder().ip("2001:db8::1", "2001:db8::2").payload("abc").padding(60).build()),
            "abc");
}

TEST(ParseFrame, TellsFragmentsApart) {
  const auto kind_v4 = [](std::uint16_t offset, bool more) {
    return parse_frame(FrameBuilder().fragment(offset, more).payload(get_request).build()).kind;
  };
  EXPECT_EQ(kind_v4(0, true), FrameKind::fragment) << "the first one included";
  EXPECT_EQ(kind_v4(185, true), FrameKind::fragment);
  EXPECT_EQ(kind_v4(370, false), FrameKind::fragment) << "the last one included";
  EXPECT_EQ(parse_frame(FrameBuilder().dont_fragment().build()).kind, FrameKind::tcp);
  const auto kind_v6 = [](std::uint16_t offset, bool more) {
    return parse_frame(FrameBuilder()
                           .ip("2001:db8::1", "2001:db8::2")
                           .extension(0)
                           .fragment(offset, more)
                           .payload(get_request)
                           .build())
        .kind;
  };
  EXPECT_EQ(kind_v6(0, true), FrameKind::fragment);
  EXPECT_EQ(kind_v6(185, true), FrameKind::fragment);
  EXPECT_EQ(kind_v6(370, false), FrameKind::fragment);
  EXPECT_EQ(kind_v6(0, false), FrameKind::tcp) << "a fragment that is the whole packet is none";
}

TEST(ParseFrame, KnowsTheAddressesOfAFragment) {
  const Frame frame = parse_frame(FrameBuilder().ip("192.0.2.1", "192.0.2.2").fragment(1, true).build());
  EXPECT_EQ(frame.source, address("192.0.2.1"));
  EXPECT_EQ(frame.destination, address("192.0.2.2"));
}

TEST(ParseFrame, TellsOtherTransportsApart) {
  for (const int protocol : {1, 17, 50, 132}) {
    EXPECT_EQ(
        parse_frame(FrameBuilder().protocol(static_cast<std::uint8_t>(protocol)).payload("x").build()).kind,
        FrameKind::other_transport);
  }
  for (const int next : {17, 50, 58, 59, 135}) {
    EXPECT_EQ(parse_frame(FrameBuilder()
                              .ip("2001:db8::1", "2001:db8::2")
                              .extension(0)
                              .protocol(static_cast<std::uint8_t>(next))
                              .payload("x")
                              .build())
                  .kind,
              FrameKind::other_transport);
  }
}

TEST(ParseFrame, TellsOtherNetworksApart) {
  EXPECT_EQ(parse_frame(FrameBuilder().lie_ethertype(0x0806).build()).kind, FrameKind::not_ip) << "ARP";
  EXPECT_EQ(parse_frame(FrameBuilder().lie_ethertype(0x0100).build()).kind, FrameKind::not_ip)
      << "802.3 length";
  EXPECT_EQ(parse_frame(Bytes(60)).kind, FrameKind::not_ip) << "zeroes";
}

TEST(ParseFrame, CallsContradictionsMalformed) {
  const auto kind = [](const FrameBuilder& builder) { return parse_frame(builder.build()).kind; };
  const auto v4 = [] { return FrameBuilder().payload(get_request); };
  const auto v6 = [] { return FrameBuilder().ip("2001:db8::1", "2001:db8::2").payload(get_request); };
  EXPECT_EQ(kind(v4().lie_ip_version(6)), FrameKind::malformed);
  EXPECT_EQ(kind(v6().lie_ip_version(4)), FrameKind::malformed);
  EXPECT_EQ(kind(v4().lie_ipv4_header_words(4)), FrameKind::malformed);
  EXPECT_EQ(kind(v4().lie_ipv4_header_words(15).lie_ip_length(40)), FrameKind::malformed);
  EXPECT_EQ(kind(v4().lie_ip_length(0)), FrameKind::malformed);
  EXPECT_EQ(kind(v4().lie_ip_length(19)), FrameKind::malformed);
  EXPECT_EQ(kind(v4().lie_ip_length(39)), FrameKind::malformed) << "no room for TCP";
  EXPECT_EQ(kind(v4().lie_ip_length(static_cast<std::uint16_t>(41 + get_request.size()))),
            FrameKind::malformed);
  EXPECT_EQ(kind(v4().lie_ip_length(65535)), FrameKind::malformed);
  EXPECT_EQ(kind(v6().lie_ip_length(0)), FrameKind::malformed);
  EXPECT_EQ(kind(v6().lie_ip_length(19)), FrameKind::malformed);
  EXPECT_EQ(kind(v6().lie_ip_length(65535)), FrameKind::malformed);
  EXPECT_EQ(kind(v4().lie_tcp_header_words(4)), FrameKind::malformed);
  EXPECT_EQ(kind(FrameBuilder().payload("x").lie_tcp_header_words(6)), FrameKind::malformed);
  EXPECT_EQ(kind(v6().extension(0).lie_extension_length(255)), FrameKind::malformed);
  EXPECT_EQ(kind(v6().extension(51, 12).lie_extension_length(255)), FrameKind::malformed);
  EXPECT_EQ(kind(v6().extension(0).lie_ip_length(7)), FrameKind::malformed);
}

TEST(ParseFrame, HonoursAnIpLengthShorterThanTheFrame) {
  EXPECT_EQ(payload_of(FrameBuilder().payload(get_request).lie_ip_length(43).build()), "GET");
}

// Legal by every length, and `bytes` of extension headers long: 54 more are in front of the transport.
FrameBuilder far_away(std::size_t bytes) {
  FrameBuilder builder;
  builder.ip("2001:db8::1", "2001:db8::2");
  for (; bytes > 2048; bytes -= 2048) builder.extension(60, 2048);
  return builder.extension(60, bytes);
}

TEST(ParseFrame, RefusesATransportTooFarAwayForItsOffsets) {
  // 16 bits end between the beginning of TCP and of its payload; a little nearer they do not.
  EXPECT_EQ(parse_frame(far_away(65472).payload("x").build()).kind, FrameKind::malformed);
  EXPECT_EQ(payload_of(far_away(65448).payload("x").build()), "x");
  // And before any transport.
  EXPECT_EQ(parse_frame(far_away(65496).protocol(17).payload("x").build()).kind, FrameKind::malformed);
  EXPECT_EQ(parse_frame(far_away(65472).protocol(17).payload("x").build()).kind, FrameKind::other_transport);
}

std::vector<Bytes> valid_frames() {
  const auto v4 = [] { return FrameBuilder().payload(get_request); };
  const auto v6 = [] { return FrameBuilder().ip("2001:db8::1", "2001:db8::2").payload(get_request); };
  return {v4().build(),
          v4().vlan(1, 0x88a8).vlan(2).ipv4_options(40).tcp_options(40).build(),
          v4().fragment(0, true).build(),
          v6().build(),
          v6().vlan(1).extension(0).extension(43, 24).extension(60).extension(51, 12).tcp_options(12).build(),
          v6().extension(0).fragment(0, true).build(),
          v6().extension(0).fragment(0, false).build()};
}

TEST(ParseFrame, CallsEveryTruncationMalformedAndReadsNothingBeyond) {
  for (const Bytes& whole : valid_frames()) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      // A copy of its own, so that a sanitizer sees a read beyond the end.
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
      const Frame frame = parse_frame(cut);
      EXPECT_EQ(frame.kind, FrameKind::malformed) << length << " of " << whole.size();
      expect_consistent(frame, cut);
    }
  }
}

TEST(ParseFrame, IsConsistentForNoise) {
  constexpr unsigned seed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 50000; ++round) {
    Bytes bytes(random() % 128);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    if (bytes.size() > 14 && round % 2 == 0) {
      const bool is_ipv4 = round % 4 == 0;
      bytes[12] = static_cast<std::byte>(is_ipv4 ? 0x08 : 0x86);
      bytes[13] = static_cast<std::byte>(is_ipv4 ? 0x00 : 0xdd);
      bytes[14] = static_cast<std::byte>((is_ipv4 ? 0x40 : 0x60) | (random() & 15));
    }
    ASSERT_NO_FATAL_FAILURE(expect_consistent(parse_frame(bytes), bytes)) << "round " << round;
  }
}

// Frames without tags, the most frequent ones, are parsed on a way of their own.
TEST(ParseFrame, FindsTheSameWithAndWithoutAVlanTag) {
  constexpr unsigned seed = 31;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto valid = FrameBuilder().payload("GET / HTTP/1.1\r\n\r\n").build();
  constexpr std::size_t tag = 4;
  std::size_t tcp = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::vector<std::byte> plain(valid.begin(), valid.end());
    const std::size_t changes = random() % 3;
    for (std::size_t change = 0; change < changes; ++change)
      plain[14 + random() % (plain.size() - 14)] =
          static_cast<std::byte>(random() % 4 == 0 ? random() : random() % 16);
    if (random() % 4 == 0) plain.resize(14 + random() % (plain.size() - 13));
    std::vector<std::byte> tagged(plain.begin(), plain.begin() + 12);
    for (const unsigned byte : {0x81U, 0U, 0U, 1U}) tagged.push_back(static_cast<std::byte>(byte));
    tagged.insert(tagged.end(), plain.begin() + 12, plain.end());
    const Frame one = parse_frame(plain);
    const Frame other = parse_frame(tagged);
    const PlainPayload payload = plain_payload(plain);
    // Options are all that a frame may have here and not be plain.
    ASSERT_EQ(payload.offset != 0, one.kind == FrameKind::tcp && one.l4_offset == 34) << i;
    ASSERT_EQ(plain_payload(tagged).offset, 0U) << i;
    if (payload.offset != 0) {
      ASSERT_EQ(payload.offset, one.payload_offset) << i;
      ASSERT_EQ(payload.length, one.payload_length) << i;
      ASSERT_EQ(plain_tcp_flags(plain), one.tcp_flags) << i;
      Request from_bytes;
      Request from_frame;
      set_plain_endpoints(from_bytes, plain);
      set_endpoints(from_frame, one);
      ASSERT_EQ(from_bytes.source, from_frame.source) << i;
      ASSERT_EQ(from_bytes.destination, from_frame.destination) << i;
      ASSERT_EQ(from_bytes.source_port, from_frame.source_port) << i;
      ASSERT_EQ(from_bytes.destination_port, from_frame.destination_port) << i;
    }
    tcp += one.kind == FrameKind::tcp;
    ASSERT_EQ(one.kind, other.kind) << i;
    ASSERT_EQ(one.source, other.source) << i;
    ASSERT_EQ(one.destination, other.destination) << i;
    if (one.kind != FrameKind::tcp) continue;
    ASSERT_EQ(one.l3_offset + tag, other.l3_offset) << i;
    ASSERT_EQ(one.l4_offset + tag, other.l4_offset) << i;
    ASSERT_EQ(one.payload_offset + tag, other.payload_offset) << i;
    ASSERT_EQ(one.payload_length, other.payload_length) << i;
    ASSERT_EQ(one.tcp_flags, other.tcp_flags) << i;
    ASSERT_EQ(one.sequence, other.sequence) << i;
    ASSERT_EQ(one.acknowledgment, other.acknowledgment) << i;
    ASSERT_EQ(one.source_port, other.source_port) << i;
    ASSERT_EQ(one.destination_port, other.destination_port) << i;
  }
  EXPECT_GT(tcp, 10'000u);
}

TEST(RequestPayload, IsThatOfSegmentsWhosePayloadATcpTakes) {
  for (unsigned flags = 0; flags < 256; ++flags) {
    const bool acknowledges = (flags & 0x10) != 0;
    const bool opens = (flags & 0x02) != 0;
    const bool resets = (flags & 0x04) != 0;
    const Bytes bytes = FrameBuilder().flags(static_cast<std::uint8_t>(flags)).payload(get_request).build();
    const Frame frame = parse_frame(bytes);
    EXPECT_EQ(tcp_payload(bytes, frame), get_request) << flags;
    EXPECT_EQ(request_payload(bytes, frame), (acknowledges || opens) && !resets ? get_request : "") << flags;
  }
}

TEST(ParseFrame, IsConsistentForMutationsOfValidFrames) {
  constexpr unsigned seed = 12;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto frames = valid_frames();
  for (int round = 0; round < 100000; ++round) {
    Bytes bytes = frames[random() % frames.size()];
    for (unsigned i = 0; i <= random() % 4; ++i)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
    bytes.shrink_to_fit();
    ASSERT_NO_FATAL_FAILURE(expect_consistent(parse_frame(bytes), bytes)) << "round " << round;
  }
}

}  // namespace
}  // namespace weir
