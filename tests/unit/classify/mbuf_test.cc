// SPDX-License-Identifier: BSD-3-Clause
#include "weir/mbuf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frame_builder.h"
#include "weir/packet.h"

namespace weir {
namespace {

using test::Bytes;
using test::FrameBuilder;

/// An mbuf chain made by hand: the accessors need neither a pool nor the EAL.
class Chain {
 public:
  /// @param cuts  where the segments end, ascending; the last one ends with the bytes
  Chain(const Bytes& bytes, std::vector<std::size_t> cuts) {
    cuts.push_back(bytes.size());
    std::size_t begin = 0;
    for (const std::size_t end : cuts) {
      const auto at = [&](std::size_t offset) { return bytes.begin() + static_cast<std::ptrdiff_t>(offset); };
      storage_.emplace_back(at(begin), at(end));
      storage_.back().shrink_to_fit();
      rte_mbuf& segment = segments_.emplace_back();
      segment.buf_addr = storage_.back().data();
      segment.data_off = 0;
      segment.data_len = static_cast<std::uint16_t>(end - begin);
      segment.next = nullptr;
      if (segments_.size() > 1) segments_[segments_.size() - 2].next = &segment;
      begin = end;
    }
    segments_.front().nb_segs = static_cast<std::uint16_t>(segments_.size());
    segments_.front().pkt_len = static_cast<std::uint32_t>(bytes.size());
  }
  const rte_mbuf* get() const { return &segments_.front(); }

 private:
  std::deque<rte_mbuf> segments_;
  std::deque<Bytes> storage_;
};

const Bytes& frame_with_options() {
  static const Bytes bytes =
      FrameBuilder()
          .vlan(3)
          .ip("2001:db8::1", "2001:db8::2")
          .extension(0)
          .tcp_options(12)
          .payload("POST /login?x HTTP/1.1\r\nHost: example.com\r\nX-Api-Key: k\r\n\r\n")
          .build();
  return bytes;
}

std::string reading_of(std::span<const std::byte> bytes) {
  const Frame frame = parse_frame(bytes);
  HeaderSelection selection;
  selection.add("x-api-key");
  HttpRequests requests(tcp_payload(bytes, frame), selection);
  ParsedRequest parsed;
  if (!requests.next(parsed)) return "no request";
  set_endpoints(parsed.request, frame);
  std::string text = parsed.request.source.to_string() + " " + parsed.request.destination.to_string();
  for (const std::string_view part : {parsed.request.method, parsed.request.target, parsed.request.host})
    text.append(" ").append(part);
  for (const Header& header : parsed.request.headers)
    text.append(" ").append(header.name).append("=").append(header.value);
  return text;
}

TEST(FrameBytes, OfOneSegmentAreReadInPlace) {
  const Chain chain(frame_with_options(), {});
  std::array<std::byte, 1> scratch;
  const auto bytes = frame_bytes(chain.get(), scratch);
  EXPECT_EQ(static_cast<const void*>(bytes.data()), chain.get()->buf_addr);
  EXPECT_EQ(bytes.size(), frame_with_options().size());
}

TEST(FrameBytes, SplitAnywhereReadAsInOnePiece) {
  const Bytes& flat = frame_with_options();
  const std::string expected = reading_of(flat);
  ASSERT_EQ(expected, "2001:db8::1 2001:db8::2 POST /login?x example.com X-Api-Key=k");
  std::array<std::byte, 2048> scratch;
  for (std::size_t cut = 0; cut <= flat.size(); ++cut) {
    const Chain chain(flat, {cut});
    const auto bytes = frame_bytes(chain.get(), scratch);
    ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), flat.begin(), flat.end())) << "cut at " << cut;
    ASSERT_EQ(reading_of(bytes), expected) << "cut at " << cut;
  }
}

TEST(FrameBytes, OfManySegmentsReadAsInOnePiece) {
  const Bytes& flat = frame_with_options();
  for (const std::size_t step : {1u, 7u, 16u}) {
    std::vector<std::size_t> cuts;
    for (std::size_t at = step; at < flat.size(); at += step) cuts.push_back(at);
    const Chain chain(flat, cuts);
    std::array<std::byte, 2048> scratch;
    EXPECT_EQ(reading_of(frame_bytes(chain.get(), scratch)), reading_of(flat)) << "segments of " << step;
  }
}

TEST(FrameBytes, BeyondTheScratchAreCutOffAndNothingIsReadBeyondThem) {
  const Bytes& flat = frame_with_options();
  const Chain chain(flat, {20, 90});
  for (std::size_t room = 0; room < flat.size(); ++room) {
    Bytes scratch(room);
    scratch.shrink_to_fit();
    const auto bytes = frame_bytes(chain.get(), scratch);
    ASSERT_EQ(bytes.size(), room);
    ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), flat.begin()));
    ASSERT_EQ(parse_frame(bytes).kind, FrameKind::malformed) << "its length contradicts the bytes at hand";
  }
}

}  // namespace
}  // namespace weir
