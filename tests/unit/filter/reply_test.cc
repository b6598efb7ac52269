// SPDX-License-Identifier: BSD-3-Clause
#include "filter/reply.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "filter/checksum.h"
#include "frame_builder.h"

namespace weir::filter {
namespace {

using test::address;
using test::Bytes;
using test::FrameBuilder;

const std::string get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

FrameBuilder request() {
  return FrameBuilder()
      .ip("192.0.2.1", "198.51.100.2")
      .tcp(40000, 80)
      .sequence(0xffffffff)
      .acknowledgment(7000)
      .flags(tcp_psh | tcp_ack)
      .payload(get);
}

/// Of a frame's TCP segment with its pseudo header (RFC 9293, 3.1; RFC 8200, 8.1): 0 where the right one
/// stands in it.
std::uint16_t tcp_checksum(const Frame& frame, std::span<const std::byte> segment) {
  Bytes all;
  for (const IpAddress* const address : {&frame.source, &frame.destination}) {
    const std::size_t size = address->family == IpAddress::Family::v4 ? 4 : 16;
    const auto bytes = std::as_bytes(std::span(address->bytes)).first(size);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  for (const std::size_t word : {std::size_t{6}, segment.size()})
    for (const unsigned shift : {8U, 0U}) all.push_back(static_cast<std::byte>(word >> shift));
  all.insert(all.end(), segment.begin(), segment.end());
  return ChecksumSum(all).checksum();
}

/// A crafted frame, taken apart and found right.
struct Crafted {
  Bytes bytes;
  Frame frame;
  std::string payload;
};

Crafted checked(std::span<const std::byte> out, std::size_t length) {
  Crafted crafted;
  EXPECT_NE(length, 0U);
  crafted.bytes.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(length));
  crafted.frame = parse_frame(crafted.bytes);
  EXPECT_EQ(crafted.frame.kind, FrameKind::tcp);
  crafted.payload = tcp_payload(crafted.bytes, crafted.frame);
  const std::span<const std::byte> all(crafted.bytes);
  EXPECT_EQ(std::size_t{crafted.frame.payload_offset} + crafted.frame.payload_length, length);  // no padding
  EXPECT_EQ(tcp_checksum(crafted.frame, all.subspan(crafted.frame.l4_offset)), 0);
  if (crafted.frame.source.family == IpAddress::Family::v4) {
    EXPECT_EQ(ChecksumSum(all.subspan(crafted.frame.l3_offset, 20)).checksum(), 0);
  }
  const std::size_t lifetime_at = crafted.frame.source.family == IpAddress::Family::v4 ? 8 : 7;
  EXPECT_EQ(std::to_integer<int>(all[crafted.frame.l3_offset + lifetime_at]), 64);
  return crafted;
}

template <typename Craft>
Crafted craft_from(const Bytes& bytes, const Craft& craft) {
  std::array<std::byte, max_crafted_frame> out;
  const Frame frame = parse_frame(bytes);
  EXPECT_EQ(frame.kind, FrameKind::tcp);
  return checked(out, craft(Segment{bytes, frame}, std::span<std::byte>(out)));
}

std::string_view mac_of(const Bytes& bytes, std::size_t at) {
  return {reinterpret_cast<const char*>(bytes.data()) + at, 6};
}

Rule rule_named(std::string name, std::uint64_t limit, Duration interval) {
  Rule rule;
  rule.name = std::move(name);
  rule.limit = limit;
  rule.interval = interval;
  return rule;
}

TEST(SequenceEnd, CountsSynAndFin) {
  EXPECT_EQ(sequence_end(parse_frame(request().build())),
            0xffffffff + static_cast<std::uint32_t>(get.size()));
  EXPECT_EQ(sequence_end(parse_frame(request().payload("").flags(tcp_syn).build())), 0U);
  EXPECT_EQ(sequence_end(parse_frame(request().payload("").flags(tcp_syn | tcp_fin).build())), 1U);
}

TEST(ResetToClient, ComesFromTheServerAndAcknowledgesTheRequest) {
  const Bytes bytes = request().build();
  const Crafted crafted = craft_from(bytes, craft_reset_to_client);
  EXPECT_EQ(crafted.frame.tcp_flags, tcp_rst | tcp_ack);
  EXPECT_EQ(crafted.frame.sequence, 7000U);
  EXPECT_EQ(crafted.frame.acknowledgment, static_cast<std::uint32_t>(get.size()) - 1);
  EXPECT_EQ(crafted.frame.source, address("198.51.100.2"));
  EXPECT_EQ(crafted.frame.destination, address("192.0.2.1"));
  EXPECT_EQ(crafted.frame.source_port, 80);
  EXPECT_EQ(crafted.frame.destination_port, 40000);
  EXPECT_EQ(mac_of(crafted.bytes, 0), mac_of(bytes, 6));
  EXPECT_EQ(mac_of(crafted.bytes, 6), mac_of(bytes, 0));
  EXPECT_EQ(crafted.payload, "");
}

TEST(ResetToServer, ComesFromTheClientAtTheRequestsSequence) {
  const Bytes bytes = request().build();
  const Crafted crafted = craft_from(bytes, craft_reset_to_server);
  EXPECT_EQ(crafted.frame.tcp_flags, tcp_rst);
  EXPECT_EQ(crafted.frame.sequence, 0xffffffffU);
  EXPECT_EQ(crafted.frame.acknowledgment, 0U);
  EXPECT_EQ(crafted.frame.source, address("192.0.2.1"));
  EXPECT_EQ(crafted.frame.destination_port, 80);
  EXPECT_EQ(mac_of(crafted.bytes, 0), mac_of(bytes, 0));
  EXPECT_EQ(mac_of(crafted.bytes, 6), mac_of(bytes, 6));
}

TEST(Reply429, IsACompleteResponseWithRateLimitFields) {
  RefusalText text(rule_named("login", 20, std::chrono::milliseconds{1500}));
  const Crafted crafted =
      craft_from(request().build(), [&](const Segment& segment, std::span<std::byte> out) {
        return craft_reply_429(segment, {&text, 3, false}, out).frame_length;
      });
  EXPECT_EQ(crafted.frame.tcp_flags, tcp_psh | tcp_ack | tcp_fin);
  EXPECT_EQ(crafted.frame.sequence, 7000U);
  EXPECT_EQ(crafted.frame.acknowledgment, static_cast<std::uint32_t>(get.size()) - 1);
  EXPECT_EQ(crafted.payload,
            "HTTP/1.1 429 Too Many Requests\r\n"
            "Retry-After: 3\r\n"
            "RateLimit-Policy: \"login\";q=20;w=2\r\n"
            "RateLimit: \"login\";r=0;t=3\r\n"
            "RateLimit-Limit: 20\r\n"
            "RateLimit-Remaining: 0\r\n"
            "RateLimit-Reset: 3\r\n"
            "Content-Type: text/plain\r\n"
            "Content-Length: 75\r\n"
            "Connection: close\r\n"
            "\r\n"
            "Too many requests: the limit of rule \"login\" is reached. Try again in 3 s.\n");
}

TEST(Reply429, ToHeadKeepsItsContentLengthAndHasNoBody) {
  RefusalText text(rule_named("login", 20, std::chrono::seconds{1}));
  const Crafted crafted =
      craft_from(request().build(), [&](const Segment& segment, std::span<std::byte> out) {
        return craft_reply_429(segment, {&text, 3, true}, out).frame_length;
      });
  EXPECT_TRUE(crafted.payload.ends_with("\r\n\r\n"));
  EXPECT_NE(crafted.payload.find("Content-Length: 75\r\n"), std::string::npos);
}

TEST(Reply429, FitsWithTheLongestNameAndNumbers) {
  RefusalText text(rule_named(std::string(64, 'n'), UINT64_MAX, Duration::max()));
  const Bytes bytes = request().ip("2001:db8::1", "2001:db8::2").vlan(1).vlan(2).tcp_options(12).build();
  const Crafted crafted = craft_from(bytes, [&](const Segment& segment, std::span<std::byte> out) {
    return craft_reply_429(segment, {&text, UINT64_MAX, false}, out).frame_length;
  });
  EXPECT_TRUE(crafted.payload.ends_with(" s.\n"));
}

TEST(EveryCraftedFrame, KeepsIpv6AndVlanTagsAndLeavesExtensionsAndOptionsBehind) {
  RefusalText text(rule_named("r", 1, std::chrono::seconds{1}));
  const Bytes bytes = request()
                          .ip("2001:db8::1", "2001:db8::2")
                          .vlan(0x2007, 0x88a8)
                          .vlan(9)
                          .extension(60, 16)
                          .tcp_options(8)
                          .build();
  const auto reply = [&](const Segment& segment, std::span<std::byte> out) {
    return craft_reply_429(segment, {&text, 1, false}, out).frame_length;
  };
  const auto acknowledge = [](const Segment& segment, std::span<std::byte> out) {
    return craft_acknowledgment(segment, 1, 2, out);
  };
  for (const Crafted& crafted :
       {craft_from(bytes, reply), craft_from(bytes, acknowledge), craft_from(bytes, craft_reset_to_client),
        craft_from(bytes, craft_reset_to_server)}) {
    EXPECT_EQ(crafted.frame.vlan_tags, 2);
    EXPECT_TRUE(std::equal(crafted.bytes.begin() + 12, crafted.bytes.begin() + 22, bytes.begin() + 12));
    EXPECT_EQ(crafted.frame.l4_offset, 22 + 40);
    EXPECT_EQ(crafted.frame.payload_offset, crafted.frame.l4_offset + 20);
    EXPECT_EQ(crafted.frame.source.family, IpAddress::Family::v6);
  }
}

TEST(EveryCraftedFrame, LeavesIpv4OptionsAndPaddingBehind) {
  const Bytes bytes = request().ipv4_options(12).padding(30).build();
  const Crafted crafted = craft_from(bytes, craft_reset_to_client);
  EXPECT_EQ(crafted.frame.l4_offset, 14 + 20);
  EXPECT_EQ(crafted.bytes.size(), 14U + 20 + 20);
}

/// The request with its TCP options replaced.
Bytes with_options(std::initializer_list<int> options) {
  Bytes bytes = request().tcp_options(options.size()).build();
  const Frame frame = parse_frame(bytes);
  std::ranges::transform(options, bytes.begin() + frame.l4_offset + 20,
                         [](int value) { return static_cast<std::byte>(value); });
  return bytes;
}

TEST(Timestamps, AreSentBackTheOtherWayRound) {
  const Bytes bytes = with_options({1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2});
  const Crafted crafted = craft_from(bytes, [](const Segment& segment, std::span<std::byte> out) {
    return craft_acknowledgment(segment, 100, 200, out);
  });
  EXPECT_EQ(crafted.frame.sequence, 100U);
  EXPECT_EQ(crafted.frame.acknowledgment, 200U);
  EXPECT_EQ(crafted.frame.tcp_flags, tcp_ack);
  ASSERT_EQ(crafted.frame.payload_offset - crafted.frame.l4_offset, 32);
  const Bytes expected = test::to_bytes(std::string_view("\x01\x01\x08\x0a\0\0\0\x02\0\0\0\x01", 12));
  EXPECT_TRUE(
      std::equal(expected.begin(), expected.end(), crafted.bytes.begin() + crafted.frame.l4_offset + 20));
}

TEST(Timestamps, AreFoundAmongOtherOptions) {
  const Bytes bytes = with_options({2, 4, 5, 0xb4, 8, 10, 9, 9, 9, 9, 8, 8, 8, 8, 0, 0});
  const Crafted crafted = craft_from(bytes, [](const Segment& segment, std::span<std::byte> out) {
    return craft_acknowledgment(segment, 1, 2, out);
  });
  EXPECT_EQ(crafted.frame.payload_offset - crafted.frame.l4_offset, 32);
}

TEST(Timestamps, ThatLieAreIgnored) {
  for (const auto& options :
       {std::initializer_list<int>{8, 10, 1, 1},                          // beyond the header
        std::initializer_list<int>{1, 1, 1, 8},                           // no length
        std::initializer_list<int>{3, 0, 8, 10},                          // an option of length 0
        std::initializer_list<int>{3, 1, 8, 10},                          // or 1
        std::initializer_list<int>{5, 200, 8, 10},                        // or too long
        std::initializer_list<int>{0, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0},  // after the end
        std::initializer_list<int>{8, 4, 1, 1}}) {                        // of a wrong length
    const Bytes bytes = with_options(options);
    const Crafted crafted = craft_from(bytes, [](const Segment& segment, std::span<std::byte> out) {
      return craft_acknowledgment(segment, 1, 2, out);
    });
    EXPECT_EQ(crafted.frame.payload_offset - crafted.frame.l4_offset, 20);
  }
}

TEST(EveryCraftedFrame, ThatDoesNotFitIsNotMade) {
  RefusalText text(rule_named("login", 20, std::chrono::seconds{1}));
  const Bytes bytes = request().build();
  const Frame frame = parse_frame(bytes);
  const Segment segment{bytes, frame};
  std::array<std::byte, max_crafted_frame> out;
  const auto [whole, payload_length] = craft_reply_429(segment, {&text, 1, false}, out);
  EXPECT_EQ(payload_length, whole - 14 - 20 - 20);
  ASSERT_NE(whole, 0U);
  EXPECT_EQ(craft_reply_429(segment, {&text, 1, false}, std::span(out).first(whole)).frame_length, whole);
  EXPECT_EQ(craft_reply_429(segment, {&text, 1, false}, std::span(out).first(whole - 1)).frame_length, 0U);
  EXPECT_EQ(craft_reset_to_client(segment, {}), 0U);
  EXPECT_EQ(craft_reset_to_server(segment, std::span(out).first(53)), 0U);
}

}  // namespace
}  // namespace weir::filter
