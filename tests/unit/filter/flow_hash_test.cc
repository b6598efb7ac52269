// SPDX-License-Identifier: BSD-3-Clause
#include "filter/flow_hash.h"

#include <gtest/gtest.h>

#include <array>

#include "frame_builder.h"

namespace weir::filter {
namespace {

Frame frame_of(const std::string& source, std::uint16_t source_port, const std::string& destination,
               std::uint16_t destination_port) {
  return parse_frame(test::FrameBuilder().ip(source, destination).tcp(source_port, destination_port).build());
}

TEST(FlowHash, IsTheSameForBothDirections) {
  EXPECT_EQ(flow_hash(frame_of("10.0.0.1", 4000, "10.0.0.2", 80), 5),
            flow_hash(frame_of("10.0.0.2", 80, "10.0.0.1", 4000), 5));
  EXPECT_EQ(flow_hash(frame_of("2001:db8::1", 4000, "2001:db8::2", 80), 5),
            flow_hash(frame_of("2001:db8::2", 80, "2001:db8::1", 4000), 5));
}

TEST(FlowHash, TellsFlowsApart) {
  const std::uint64_t hash = flow_hash(frame_of("10.0.0.1", 4000, "10.0.0.2", 80), 5);
  EXPECT_NE(hash, flow_hash(frame_of("10.0.0.1", 4001, "10.0.0.2", 80), 5));
  EXPECT_NE(hash, flow_hash(frame_of("10.0.0.3", 4000, "10.0.0.2", 80), 5));
  EXPECT_NE(hash, flow_hash(frame_of("10.0.0.1", 80, "10.0.0.2", 4000), 5));  // ports swapped alone
  EXPECT_NE(hash, flow_hash(frame_of("10.0.0.1", 4000, "10.0.0.2", 80), 6));  // another seed
}

TEST(FlowHash, SpreadsNeighboursOverWorkers) {
  std::array<int, 4> workers{};
  for (unsigned port = 1024; port < 1024 + 4000; ++port)
    ++workers[flow_hash(frame_of("10.0.0.1", static_cast<std::uint16_t>(port), "10.0.0.2", 80), 0) % 4];
  for (const int flows : workers) {
    EXPECT_GT(flows, 850);
    EXPECT_LT(flows, 1150);
  }
}

TEST(FlowHash, OfFragmentsDependsOnAddressesOnly) {
  const auto fragment = [](std::uint16_t offset) {
    return parse_frame(test::FrameBuilder().ip("10.0.0.1", "10.0.0.2").fragment(offset, true).build());
  };
  ASSERT_EQ(fragment(0).kind, FrameKind::fragment);
  EXPECT_EQ(flow_hash(fragment(0), 1), flow_hash(fragment(8), 1));
}

TEST(FlowHash, OfFramesWithoutFlowIsOneNumber) {
  Frame frame;
  frame.kind = FrameKind::malformed;
  frame.source_port = 7;
  EXPECT_EQ(flow_hash(frame, 1), flow_hash(parse_frame({}), 1));
}

}  // namespace
}  // namespace weir::filter
