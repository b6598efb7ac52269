// SPDX-License-Identifier: BSD-3-Clause
// The referee of the end-to-end runs must itself be shown to see each fault.
#include "play.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <utility>

namespace weir::traffic {
namespace {

using namespace std::chrono_literals;

/// A wire in memory, with a hand on it: `touch` may change, drop, keep or answer each frame.
class PlayOnAWire : public testing::Test {
 protected:
  using Wire = std::deque<std::pair<Side, Frame>>;  // where it goes
  std::function<bool(Side to, Frame& frame, Wire& wire)> touch = [](Side, Frame&, Wire&) { return true; };

  void run() {
    for (Moment now{}; now < 3s || !play.quiet(); now += 1ms) {
      if (now < 3s) play.arrive(now);
      while (!wire.empty()) {
        auto [to, frame] = std::move(wire.front());
        wire.pop_front();
        if (touch(to, frame, wire)) play.receive(to, frame, now);
      }
      play.give_up(now);
    }
  }
  CrowdFigures all() const {
    CrowdFigures sum;
    for (std::size_t i = 0; i < play.cast().size(); ++i) {
      const CrowdFigures& one = play.figures(i);
      sum.sent += one.sent;
      sum.arrived += one.arrived;
      sum.answered += one.answered;
      sum.limited += one.limited;
      sum.reset += one.reset;
      sum.unanswered += one.unanswered;
    }
    return sum;
  }
  static Packet parsed(const Frame& frame) {
    bool good = false;
    const auto packet = read(frame, good);
    EXPECT_TRUE(packet && good);
    return packet.value_or(Packet{});
  }
  static bool is_request(const Frame& frame) {
    const Packet packet = parsed(frame);
    return packet.payload.starts_with("GET /") || packet.payload.starts_with("POST /");
  }

  Wire wire;
  Play play{default_cast(), 1, 1, [this](Side from, const Frame& frame) {
              wire.emplace_back(from == Side::clients ? Side::servers : Side::clients, frame);
            }};
};

TEST_F(PlayOnAWire, AGoodWireCarriesEverythingAndAllIsAnswered) {
  run();
  EXPECT_GT(all().sent, 2000u);
  EXPECT_EQ(all().arrived, all().sent);
  EXPECT_EQ(all().answered, all().sent);
  EXPECT_GT(play.packets().sent, all().sent);
  EXPECT_EQ(play.packets().arrived, play.packets().sent);
  EXPECT_EQ(play.packets().lost + play.packets().reordered + play.packets().altered, 0u);
}

TEST_F(PlayOnAWire, ALostPacketIsSeen) {
  int count = 0;
  touch = [&](Side, Frame& frame, Wire&) { return is_request(frame) || ++count != 1000; };
  run();
  EXPECT_EQ(play.packets().lost, 1u);
  EXPECT_EQ(play.packets().arrived, play.packets().sent - 1);
}

TEST_F(PlayOnAWire, ALostRequestIsUnansweredAndNotALostPacket) {
  int count = 0;
  touch = [&](Side, Frame& frame, Wire&) { return !is_request(frame) || ++count != 100; };
  run();
  EXPECT_EQ(play.packets().lost, 0u);
  EXPECT_EQ(all().unanswered, 1u);
  EXPECT_EQ(all().arrived, all().sent - 1);
}

TEST_F(PlayOnAWire, AChangedByteIsSeen) {
  int count = 0;
  touch = [&](Side, Frame& frame, Wire&) {
    if (++count == 1000) frame[22] ^= 1;  // the time to live
    return true;
  };
  run();
  EXPECT_EQ(play.packets().altered, 1u);
}

TEST_F(PlayOnAWire, AnOvertakingPacketIsSeen) {
  Frame kept;
  touch = [&](Side to, Frame& frame, Wire& rest) {
    // The client's acknowledgment of the handshake is followed by its request.
    const Packet packet = parsed(frame);
    if (kept.empty() && packet.kind == Kind::tcp && packet.flags == Flag::ack) {
      kept = frame;
      return false;
    }
    if (kept.size() > 1 && is_request(frame)) {
      rest.emplace_front(to, kept);
      kept.assign(1, 0);
    }
    return true;
  };
  run();
  EXPECT_EQ(play.packets().reordered, 1u);
  EXPECT_EQ(play.packets().lost, 0u);
}

/// What a filter does that refuses every `POST`, with `mistake` to spoil the two packets it makes.
auto refuse_posts(std::string text, std::function<void(Packet& reply, Packet& reset)> mistake = {}) {
  return [text = std::move(text), mistake = std::move(mistake)](Side to, Frame& frame,
                                                                std::deque<std::pair<Side, Frame>>& wire) {
    bool good = false;
    const Packet request = read(frame, good).value_or(Packet{});
    if (to != Side::servers || !request.payload.starts_with("POST /")) return true;
    Packet reply;
    reply.source = request.destination;
    reply.destination = request.source;
    reply.source_port = request.destination_port;
    reply.destination_port = request.source_port;
    reply.sequence = request.acknowledgment;
    reply.acknowledgment = request.sequence + static_cast<std::uint32_t>(request.payload.size());
    reply.flags = Flag::ack | Flag::psh | Flag::fin;
    reply.payload = text;
    reply.from_clients = false;
    Packet reset = request;
    reset.payload = {};
    reset.flags = Flag::rst | Flag::ack;
    if (mistake) mistake(reply, reset);
    // In place of the request, so before whatever follows it.
    wire.emplace_front(Side::clients, build(reply));
    wire.emplace_front(Side::servers, build(reset));
    return false;
  };
}

constexpr auto refusal = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nRateLimit: r;r=0\r\n\r\n";

TEST_F(PlayOnAWire, ARefusalReachesTheClientAndTheServer) {
  touch = refuse_posts(refusal);
  run();
  const CrowdFigures& noisy = play.figures(0);
  EXPECT_GT(noisy.sent, 200u);
  EXPECT_EQ(noisy.limited, noisy.sent);
  EXPECT_EQ(noisy.arrived, 0u);
  EXPECT_EQ(play.packets().server_resets, all().limited);
  EXPECT_EQ(play.packets().bad_replies + play.packets().altered + play.packets().lost, 0u);
}

TEST_F(PlayOnAWire, ARefusalWithoutItsHeaderFieldsIsBad) {
  touch = refuse_posts("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\n\r\n");
  run();
  EXPECT_GT(all().limited, 0u);
  EXPECT_EQ(play.packets().bad_replies, all().limited);
}

TEST_F(PlayOnAWire, ARefusalWithAWrongSequenceNumberIsBad) {
  touch = refuse_posts(refusal, [](Packet& reply, Packet&) { ++reply.sequence; });
  run();
  EXPECT_GT(all().limited, 0u);
  EXPECT_EQ(play.packets().bad_replies, all().limited);
}

TEST_F(PlayOnAWire, AServersResetWithAWrongSequenceNumberIsBad) {
  touch = refuse_posts(refusal, [](Packet&, Packet& reset) { --reset.sequence; });
  run();
  EXPECT_GT(play.packets().server_resets, 0u);
  EXPECT_EQ(play.packets().bad_replies, play.packets().server_resets);
}

TEST_F(PlayOnAWire, AServerThatIsNotToldOfTheRefusalIsSeen) {
  const auto refuse = refuse_posts(refusal);
  touch = [&](Side to, Frame& frame, Wire& rest) {
    const std::size_t before = rest.size();
    const bool pass = refuse(to, frame, rest);
    if (rest.size() != before) rest.pop_front();  // the reset
    return pass;
  };
  run();
  EXPECT_EQ(play.packets().bad_replies, all().limited);
  EXPECT_GT(all().limited, 0u);
}

TEST_F(PlayOnAWire, AClientWhoseGoodbyeNobodyAnswersIsSeen) {
  const auto refuse = refuse_posts(refusal);
  touch = [&](Side to, Frame& frame, Wire& rest) {
    const Packet packet = parsed(frame);
    return refuse(to, frame, rest) && !(to == Side::clients && packet.flags == Flag::rst);
  };
  run();
  EXPECT_EQ(play.packets().bad_replies, all().limited);
  EXPECT_GT(all().limited, 0u);
}

TEST(Wire, WhatIsBuiltIsReadBack) {
  Packet packet;
  packet.source = 0x01020304;
  packet.destination = 0x05060708;
  packet.source_port = 1234;
  packet.destination_port = 80;
  packet.sequence = 0xfffffff0;
  packet.acknowledgment = 7;
  packet.flags = Flag::psh | Flag::ack;
  packet.payload = "odd";
  Frame frame = build(packet);
  bool good = false;
  const auto back = read(frame, good);
  ASSERT_TRUE(back);
  EXPECT_TRUE(good);
  EXPECT_EQ(back->source, packet.source);
  EXPECT_EQ(back->sequence, packet.sequence);
  EXPECT_EQ(back->flags, packet.flags);
  EXPECT_EQ(back->payload, packet.payload);
  frame[54] ^= 1;
  EXPECT_TRUE(read(frame, good));
  EXPECT_FALSE(good);
  for (std::size_t length = 0; length < frame.size(); ++length) {
    const auto cut = read(std::span(frame).first(length), good);
    EXPECT_EQ(cut.has_value(), length >= 14 + 20 + 20 + 3) << length;
  }
}

}  // namespace
}  // namespace weir::traffic
