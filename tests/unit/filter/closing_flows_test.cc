// SPDX-License-Identifier: BSD-3-Clause
#include "filter/closing_flows.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "frame_builder.h"

namespace weir::filter {
namespace {

constexpr std::uint32_t request_at = 0xfffffff0;  // so that everything happens across the wrap
constexpr std::uint32_t reply_at = 5000;
constexpr std::uint32_t request_length = 100;
constexpr std::uint32_t reply_length = 400;
constexpr std::uint32_t next_byte = request_at + request_length;
constexpr MonotonicTime start{std::chrono::hours{1}};

Frame segment(std::uint32_t sequence, std::uint32_t acknowledgment, std::size_t length,
              std::uint8_t flags = tcp_ack, std::uint16_t port = 4000) {
  return parse_frame(test::FrameBuilder()
                         .tcp(port, 80)
                         .sequence(sequence)
                         .acknowledgment(acknowledgment)
                         .flags(flags)
                         .payload(std::string(length, 'x'))
                         .build());
}

Frame request() { return segment(request_at, reply_at, request_length); }

class ClosingStepTest : public testing::Test {
 protected:
  ClosingFlow flow = closing_flow(request(), reply_length);
  static constexpr std::uint32_t end_of_reply = reply_at + reply_length + 1;
};

TEST_F(ClosingStepTest, AFlowStartsBehindTheRequestAndTheReplyWithItsFin) {
  EXPECT_EQ(flow.request_sequence, request_at);
  EXPECT_EQ(flow.reply_sequence, reply_at);
  EXPECT_EQ(flow.next_from_client, next_byte);
  EXPECT_EQ(flow.next_to_client, end_of_reply);
}

TEST_F(ClosingStepTest, ABareAcknowledgmentIsAbsorbed) {
  EXPECT_EQ(closing_step(flow, segment(next_byte, end_of_reply, 0)), ClosingStep::absorb);
  EXPECT_EQ(closing_step(flow, segment(next_byte, reply_at, 0)), ClosingStep::absorb);
  EXPECT_EQ(flow.next_from_client, next_byte);
}

TEST_F(ClosingStepTest, AFinIsAcknowledged) {
  EXPECT_EQ(closing_step(flow, segment(next_byte, end_of_reply, 0, tcp_ack | tcp_fin)),
            ClosingStep::acknowledge);
  EXPECT_EQ(flow.next_from_client, next_byte + 1);
  // and again when our acknowledgment was lost
  EXPECT_EQ(closing_step(flow, segment(next_byte, end_of_reply, 0, tcp_ack | tcp_fin)),
            ClosingStep::acknowledge);
  EXPECT_EQ(flow.next_from_client, next_byte + 1);
}

TEST_F(ClosingStepTest, DataInOrderMovesTheAcknowledgmentAndAGapDoesNot) {
  EXPECT_EQ(closing_step(flow, segment(next_byte, end_of_reply, 50)), ClosingStep::acknowledge);
  EXPECT_EQ(flow.next_from_client, next_byte + 50);
  EXPECT_EQ(closing_step(flow, segment(next_byte + 90, end_of_reply, 50)), ClosingStep::acknowledge);
  EXPECT_EQ(flow.next_from_client, next_byte + 50);
  EXPECT_EQ(closing_step(flow, segment(next_byte + 40, end_of_reply, 50)),
            ClosingStep::acknowledge);  // overlapping
  EXPECT_EQ(flow.next_from_client, next_byte + 90);
}

// The 429 may be lost. Then the request must come again, and so must not be acknowledged with what stands
// behind it.
TEST_F(ClosingStepTest, DataBehindTheRequestIsNotAcknowledgedBeforeTheClientHasSeenTheReply) {
  EXPECT_EQ(closing_step(flow, segment(next_byte, reply_at, 50)), ClosingStep::absorb);
  EXPECT_EQ(closing_step(flow, segment(next_byte + 50, reply_at, 0, tcp_ack | tcp_fin)), ClosingStep::absorb);
  EXPECT_EQ(flow.next_from_client, next_byte + 51);
  EXPECT_EQ(closing_step(flow, segment(next_byte, reply_at, 50)), ClosingStep::absorb);
  EXPECT_EQ(closing_step(flow, request()), ClosingStep::repeat_reply);
  // It need not send again then what has arrived.
  EXPECT_EQ(closing_step(flow, segment(next_byte + 51, end_of_reply, 0)), ClosingStep::acknowledge);
  EXPECT_EQ(closing_step(flow, segment(next_byte + 51, end_of_reply, 0)), ClosingStep::absorb);
}

TEST_F(ClosingStepTest, ARequestSentAgainGetsItsReplyAgain) {
  EXPECT_EQ(closing_step(flow, request()), ClosingStep::repeat_reply);
  // together with data behind it, or with older data that was never acknowledged
  EXPECT_EQ(closing_step(flow, segment(request_at, reply_at, request_length + 60)),
            ClosingStep::repeat_reply);
  EXPECT_EQ(flow.next_from_client, next_byte + 60);
  EXPECT_EQ(closing_step(flow, segment(request_at - 10, reply_at, 20)), ClosingStep::repeat_reply);
}

TEST_F(ClosingStepTest, ARequestSentAgainAlthoughTheReplyArrivedIsOnlyAcknowledged) {
  EXPECT_EQ(closing_step(flow, segment(request_at, end_of_reply, request_length)), ClosingStep::acknowledge);
}

// It is what the client sends again first, if the server has not acknowledged it.
TEST_F(ClosingStepTest, DataBeforeTheRequestBringsTheReplyAgainToWhomHasNotSeenIt) {
  EXPECT_EQ(closing_step(flow, segment(request_at - 20, reply_at, 20)), ClosingStep::repeat_reply);
  EXPECT_EQ(closing_step(flow, segment(request_at - 20, end_of_reply, 20)), ClosingStep::acknowledge);
  EXPECT_EQ(closing_step(flow, segment(request_at - 20, reply_at - 100, 20)), ClosingStep::absorb)
      << "sent before the client had all that stands before the reply";
}

TEST_F(ClosingStepTest, ANewConnectionOrAResetEndsIt) {
  EXPECT_EQ(closing_step(flow, segment(7, 0, 0, tcp_syn)), ClosingStep::forget);
  EXPECT_EQ(closing_step(flow, segment(next_byte, 0, 0, tcp_rst)), ClosingStep::forget);
}

// Else a single made-up frame would cut off a connection whose ends are known, whatever that carries.
TEST_F(ClosingStepTest, ARequestMadeUpByWhoDoesNotKnowTheSequenceNumbersHoldsNothingUp) {
  constexpr std::uint32_t far = 1U << 21;
  for (const std::size_t length : {std::size_t{0}, std::size_t{50}}) {
    for (const std::uint32_t away : {far, 0x80000000U, 0U - far}) {
      EXPECT_EQ(closing_step(flow, segment(next_byte + away, end_of_reply, length)), ClosingStep::forget)
          << away;
      EXPECT_EQ(closing_step(flow, segment(next_byte, end_of_reply + away, length)), ClosingStep::forget)
          << away;
    }
  }
  EXPECT_EQ(flow.next_from_client, next_byte);
}

TEST_F(ClosingStepTest, WhatAClientMayHaveOnItsWayIsItsOwn) {
  constexpr std::uint32_t window = 1U << 19;
  EXPECT_EQ(closing_step(flow, segment(next_byte + window, end_of_reply, 50)), ClosingStep::acknowledge);
  EXPECT_EQ(closing_step(flow, segment(next_byte - window, end_of_reply, 50)), ClosingStep::acknowledge);
  EXPECT_EQ(closing_step(flow, segment(next_byte, end_of_reply + window, 50)), ClosingStep::acknowledge);
  EXPECT_EQ(closing_step(flow, segment(next_byte, end_of_reply - window, 50)), ClosingStep::absorb);
}

TEST(ClosingFlows, AreFoundByTheirOwnSegmentsOnly) {
  ClosingFlows flows(64, 1);
  EXPECT_EQ(flows.find(request(), start), nullptr);
  flows.insert(closing_flow(request(), reply_length), request(), start);
  ASSERT_NE(flows.find(segment(1, 2, 3), start), nullptr);
  EXPECT_EQ(flows.find(segment(1, 2, 3, tcp_ack, 4001), start), nullptr);
  const Frame back = parse_frame(test::FrameBuilder().ip("10.0.0.2", "10.0.0.1").tcp(80, 4000).build());
  EXPECT_EQ(flows.find(back, start), nullptr);
}

TEST(ClosingFlows, EndWithTheirLifetime) {
  ClosingFlows flows(64, 1);
  flows.insert(closing_flow(request(), reply_length), request(), start);
  EXPECT_NE(flows.find(request(), start + ClosingFlows::lifetime - Duration{1}), nullptr);
  EXPECT_EQ(flows.find(request(), start + ClosingFlows::lifetime), nullptr);
}

TEST(ClosingFlows, CanBeErased) {
  ClosingFlows flows(64, 1);
  flows.insert(closing_flow(request(), reply_length), request(), start);
  ClosingFlows::erase(*flows.find(request(), start));
  EXPECT_EQ(flows.find(request(), start), nullptr);
}

TEST(ClosingFlows, OfTheSameConnectionReplaceEachOther) {
  ClosingFlows flows(64, 1);
  flows.insert(closing_flow(request(), reply_length), request(), start);
  flows.insert(closing_flow(segment(77, 88, 9), reply_length), request(), start + Duration{1});
  ASSERT_NE(flows.find(request(), start), nullptr);
  EXPECT_EQ(flows.find(request(), start)->request_sequence, 77U);
  ClosingFlows::erase(*flows.find(request(), start));
  EXPECT_EQ(flows.find(request(), start), nullptr);  // there was only one
}

TEST(ClosingFlows, StayWithinTheirMemoryAndTheOldestGoesFirst) {
  ClosingFlows flows(4, 1);  // a single set
  ASSERT_EQ(flows.capacity(), 4U);
  const auto insert = [&](std::uint16_t port, Duration after) {
    const Frame frame = segment(1, 2, 3, tcp_ack, port);
    flows.insert(closing_flow(frame, reply_length), frame, start + after);
  };
  for (std::uint16_t i = 0; i < 6; ++i) insert(static_cast<std::uint16_t>(100 + i), Duration{i});
  for (std::uint16_t i = 0; i < 6; ++i) {
    const bool kept =
        flows.find(segment(1, 2, 3, tcp_ack, static_cast<std::uint16_t>(100 + i)), start) != nullptr;
    EXPECT_EQ(kept, i >= 2) << i;
  }
}

TEST(ClosingFlows, AreToldByTheirPlainFramesAsWellAsByTheirParsedOnes) {
  ClosingFlows flows(4, 1);
  for (const bool ipv6 : {false, true}) {
    test::FrameBuilder builder;
    builder.ip(ipv6 ? "2001:db8::1" : "192.0.2.1", ipv6 ? "2001:db8::2" : "192.0.2.2")
        .tcp(4000, 80)
        .payload("x");
    const test::Bytes bytes = builder.build();
    const Frame frame = parse_frame(bytes);
    EXPECT_FALSE(flows.may_hold(frame));
    flows.insert(closing_flow(frame, reply_length), frame, start);
    EXPECT_TRUE(flows.may_hold(frame));
    EXPECT_TRUE(flows.may_hold(parse_frame(builder.vlan(5).build())));
    if (!ipv6) {
      EXPECT_TRUE(flows.may_hold(bytes.data()));
    }
  }
}

TEST(ClosingFlows, AreSeldomTakenForOthersHoweverManyThereAre) {
  constexpr std::size_t capacity = 1024;
  constexpr std::size_t others = 4096;
  ClosingFlows flows(capacity, 1);
  std::vector<test::Bytes> frames;
  for (std::size_t i = 0; i < 2 * capacity + others; ++i)
    frames.push_back(test::FrameBuilder()
                         .ip("10.0." + std::to_string(i / 256) + "." + std::to_string(i % 256), "10.1.0.1")
                         .tcp(static_cast<std::uint16_t>(40000 + i % 16), 80)
                         .build());
  // Twice as many as there is room for, so that there is no free slot.
  for (std::size_t i = 0; i < 2 * capacity; ++i) {
    const Frame frame = parse_frame(frames[i]);
    flows.insert(closing_flow(frame, reply_length), frame, start);
    ASSERT_TRUE(flows.may_hold(frames[i].data()));
    // Also beside one that looks like it.
    ASSERT_NE(flows.find(frame, start), nullptr) << i;
    ASSERT_EQ(flows.find(frame, start)->client, frame.source) << i;
  }
  std::size_t held = 0;
  for (std::size_t i = 0; i < 2 * capacity; ++i) {
    if (flows.find(parse_frame(frames[i]), start) == nullptr) continue;
    ++held;
    EXPECT_TRUE(flows.may_hold(frames[i].data())) << i;
  }
  EXPECT_GT(held, capacity * 9 / 10);
  std::size_t taken = 0;
  for (std::size_t i = 2 * capacity; i < frames.size(); ++i) {
    taken += flows.may_hold(frames[i].data()) ? 1 : 0;
    EXPECT_EQ(flows.find(parse_frame(frames[i]), start), nullptr) << i;
  }
  EXPECT_GT(taken, 0U);
  EXPECT_LT(taken, others / 32);
}

TEST(ClosingFlows, AreIdleUntilTheFirstAndAgainWhenTheLastHasExpired) {
  ClosingFlows flows(4, 1);
  EXPECT_TRUE(flows.idle());
  flows.insert(closing_flow(request(), reply_length), request(), start);
  EXPECT_FALSE(flows.idle());
  flows.expire(start + ClosingFlows::lifetime - Duration{1});
  EXPECT_FALSE(flows.idle());
  EXPECT_NE(flows.find(request(), start + ClosingFlows::lifetime - Duration{1}), nullptr);
  flows.expire(start + ClosingFlows::lifetime);
  EXPECT_TRUE(flows.idle());
  EXPECT_EQ(flows.find(request(), start), nullptr);
}

}  // namespace
}  // namespace weir::filter
