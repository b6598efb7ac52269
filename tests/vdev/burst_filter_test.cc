// SPDX-License-Identifier: BSD-3-Clause
// The filter's heart on real mbufs, without ports: what becomes of every single frame and buffer.
#include "filter/burst_filter.h"

#include <gtest/gtest.h>
#include <rte_eal.h>
#include <rte_mempool.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iostream>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "frame_builder.h"

namespace weir::filter {
namespace {

using test::Bytes;
using test::FrameBuilder;

const std::string get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

/// DPDK's environment, once per process: it cannot be initialised twice.
class Environment : public testing::Environment {
 public:
  void SetUp() override {
    std::vector<std::string> arguments{"burst_filter_test",
                                       "--no-huge",
                                       "--no-shconf",
                                       "--no-pci",
                                       "--no-telemetry",
                                       "--lcores=0@0",
                                       "-m",
                                       "64",
                                       "--file-prefix",
                                       "weir_burst_" + std::to_string(getpid())};
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    ASSERT_GE(rte_eal_init(static_cast<int>(pointers.size()), pointers.data()), 0);
  }
  void TearDown() override { rte_eal_cleanup(); }
};

const auto* const environment = testing::AddGlobalTestEnvironment(new Environment);

class BurstFilterTest : public testing::Test {
 protected:
  static constexpr unsigned buffers = 511;
  static constexpr std::uint16_t clients = 3;  // port ids; any will do, no device is touched
  static constexpr std::uint16_t servers = 7;

  void SetUp() override {
    received_ = make_pool("received", buffers);
    crafted_ = make_pool("crafted", buffers);
    wiring_.ports[clients] = {servers, crafted_};
    wiring_.ports[servers] = {clients, crafted_};
  }

  void TearDown() override {
    // Whatever happened: no buffer is lost.
    release();
    EXPECT_EQ(rte_mempool_avail_count(received_), buffers);
    EXPECT_EQ(rte_mempool_avail_count(crafted_), buffers);
    filter_.reset();
    throttle_.reset();
    rte_mempool_free(received_);
    rte_mempool_free(crafted_);
  }

  static rte_mempool* make_pool(const char* name, unsigned count) {
    rte_mempool* const pool =
        rte_pktmbuf_pool_create(name, count, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    EXPECT_NE(pool, nullptr);
    return pool;
  }

  /// A filter under one rule with a limit of so many in a very long interval.
  void limit(std::uint64_t requests, Action action, const std::vector<Dimension>& key = {}) {
    Rule rule;
    rule.name = "all";
    rule.limit = requests;
    rule.action = action;
    rule.key = key;
    apply({rule});
  }

  /// A filter under these rules, in very long intervals.
  void apply(const std::vector<Rule>& rules) {
    Config config;
    config.rules = rules;
    for (Rule& rule : config.rules) {
      rule.interval = std::chrono::hours{8760};
      rule.cooldown = std::chrono::seconds{10};
    }
    config.node.keys = 64;
    ThrottleResult made = Throttle::create(config, {.workers = 1, .hash_seed = 1, .log = {}});
    ASSERT_TRUE(made) << made.error;
    throttle_ = std::move(made.throttle);
    now_ = monotonic_now();
    Worker& worker = throttle_->worker(0);
    filter_ = std::make_unique<BurstFilter>(*throttle_, worker, wiring_, counters_, 1);
    // The controller's first publication is what a worker decides by.
    throttle_->advance(instant());
    worker.online();
    worker.quiescent();
    throttle_->advance(instant());
  }

  Instant instant() const { return {WallTime{std::chrono::hours{24 * 20000}}, now_}; }

  /// A frame in buffers of at most `piece` bytes.
  rte_mbuf* frame_in_mbuf(const Bytes& bytes, std::uint16_t port = clients, std::size_t piece = 2048) {
    rte_mbuf* head = nullptr;
    for (std::size_t at = 0; head == nullptr || at < bytes.size(); at += piece) {
      rte_mbuf* const mbuf = rte_pktmbuf_alloc(received_);
      if (mbuf == nullptr) throw std::bad_alloc();
      const auto length = static_cast<std::uint16_t>(std::min(piece, bytes.size() - at));
      std::memcpy(rte_pktmbuf_append(mbuf, length), bytes.data() + at, length);
      if (head == nullptr)
        head = mbuf;
      else
        EXPECT_EQ(rte_pktmbuf_chain(head, mbuf), 0);
    }
    head->port = port;
    return head;
  }

  static Bytes request(std::uint16_t port, const std::string& payload = get) {
    return FrameBuilder().tcp(port, 80).sequence(100).acknowledgment(200).payload(payload).build();
  }

  void process(const std::vector<rte_mbuf*>& burst) {
    release();
    const std::uint64_t crafted = counters_.crafted.read();
    const std::uint64_t consumed = counters_.consumed.read();
    filter_->process(burst, now_, out_);
    EXPECT_EQ(out_.count,
              burst.size() + (counters_.crafted.read() - crafted) - (counters_.consumed.read() - consumed));
  }

  /// A burst that comes from one of two sides. @return whether it needed no time
  bool process_from(Side side, const std::vector<rte_mbuf*>& burst) {
    release();
    const bool passes = filter_->passes_without_time(burst, side);
    if (passes || filter_->passes_in_time(burst, now_, out_)) filter_->pass_all(burst, out_);
    return passes;
  }

  void release() {
    for (std::size_t i = 0; i < out_.count; ++i) rte_pktmbuf_free(out_.frames[i]);
    out_.count = 0;
  }

  rte_mempool* received_ = nullptr;
  rte_mempool* crafted_ = nullptr;
  Wiring wiring_;
  Counters counters_;
  std::unique_ptr<Throttle> throttle_;
  std::unique_ptr<BurstFilter> filter_;
  Outgoing out_;
  MonotonicTime now_;
};

TEST_F(BurstFilterTest, AdmittedRequestsLeaveByThePeerPortInOrderInTheirOwnBuffers) {
  limit(100, Action::reply_429);
  std::vector<rte_mbuf*> burst;
  for (std::uint16_t i = 0; i < burst_size; ++i)
    burst.push_back(
        frame_in_mbuf(request(static_cast<std::uint16_t>(1000 + i)), i % 2 == 0 ? clients : servers));
  process(burst);
  ASSERT_EQ(out_.count, burst.size());
  for (std::size_t i = 0; i < burst.size(); ++i) {
    EXPECT_EQ(out_.frames[i], burst[i]);
    EXPECT_EQ(out_.frames[i]->port, i % 2 == 0 ? servers : clients);
  }
  EXPECT_EQ(counters_.admitted.read(), burst_size);
}

TEST_F(BurstFilterTest, FramesThatCannotCarryARequestNeedNoTimeToPass) {
  limit(1, Action::reply_429);
  const Bytes answer = request(1000, "\x16\x03\x01 not HTTP");
  const Bytes bare = request(1000, "");
  const Bytes tagged = FrameBuilder().vlan(5).tcp(1000, 80).payload("").build();
  Bytes malformed = bare;
  malformed[17] = std::byte{255};  // more bytes than there are
  std::vector<rte_mbuf*> burst{frame_in_mbuf(answer), frame_in_mbuf(bare),
                               frame_in_mbuf(request(1000, "{}"), clients, 40), frame_in_mbuf(tagged),
                               frame_in_mbuf(malformed)};
  release();
  ASSERT_TRUE(filter_->passes_without_time(burst));
  filter_->pass_all(burst, out_);
  ASSERT_EQ(out_.count, burst.size());
  for (std::size_t i = 0; i < burst.size(); ++i) {
    EXPECT_EQ(out_.frames[i], burst[i]);
    EXPECT_EQ(out_.frames[i]->port, servers);
  }
  EXPECT_EQ(counters_.malformed.read(), 1U);
  EXPECT_EQ(counters_.requests.read(), 0U);

  // Two ports, and a request among the others.
  burst = {frame_in_mbuf(bare), frame_in_mbuf(bare, servers)};
  release();
  ASSERT_TRUE(filter_->passes_without_time(burst));
  filter_->pass_all(burst, out_);
  EXPECT_EQ(out_.frames[0]->port, servers);
  EXPECT_EQ(out_.frames[1]->port, clients);
  burst = {frame_in_mbuf(bare), frame_in_mbuf(request(1000))};
  release();
  ASSERT_FALSE(filter_->passes_without_time(burst));
  ASSERT_TRUE(filter_->passes_in_time(burst, now_, out_));
  EXPECT_EQ(out_.count, 0U);
  filter_->pass_all(burst, out_);
  EXPECT_EQ(counters_.requests.read(), 1U);
}

TEST_F(BurstFilterTest, WhatIsOfConcernIsSoWhateverTheBurstsBeforeWere) {
  // Bursts are looked at in one way or another, by what was in the one before.
  for (const char* const before : {"", get.c_str()}) {
    limit(1, Action::drop, {Dimension{}});
    process({frame_in_mbuf(request(1, before)), frame_in_mbuf(request(2, before))});
    const std::uint64_t requests = counters_.requests.read();
    const std::uint64_t admitted = counters_.admitted.read();
    const std::uint64_t malformed = counters_.malformed.read();
    const auto from = [](int client) {
      FrameBuilder builder;
      builder.ip("192.0.2." + std::to_string(client), "198.51.100.1").tcp(1000, 80);
      return builder;
    };
    Bytes lying = from(9).payload(get).build();
    lying[17] = std::byte{255};
    const std::vector<rte_mbuf*> burst{
        frame_in_mbuf(from(1).payload("").build()),
        frame_in_mbuf(from(1).vlan(5).payload(get).build()),
        frame_in_mbuf(from(1).payload(get).build()),  // the second of one client
        frame_in_mbuf(from(2).payload(get).build(), clients, 40),
        frame_in_mbuf(lying),
        frame_in_mbuf(from(3).payload("\x16\x03\x01").build()),
        frame_in_mbuf(from(3).payload(get).build()),
        frame_in_mbuf(from(2).payload(get).build()),  // and of another
        frame_in_mbuf(from(4).vlan(5).payload("").build()),
    };
    process(burst);
    EXPECT_EQ(counters_.requests.read() - requests, 5U) << before;
    EXPECT_EQ(counters_.admitted.read() - admitted, 3U) << before;
    EXPECT_EQ(counters_.malformed.read() - malformed, 1U) << before;
    EXPECT_EQ(out_.count, burst.size() - 2) << before;
  }
}

TEST_F(BurstFilterTest, ARequestInASegmentThatNoServersTcpTakesIsNone) {
  constexpr std::uint8_t nothing = 0;
  const std::vector<std::uint8_t> dropped{
      nothing, tcp_psh, tcp_fin | tcp_psh, tcp_rst, tcp_rst | tcp_ack, tcp_rst | tcp_syn, 0xe0};
  // Bursts are looked at in one way or another, by what was in the one before.
  for (const char* const before : {"", get.c_str()}) {
    limit(2, Action::reset, {Dimension{}});
    const auto frame_of = [](std::uint8_t flags, bool tagged) {
      FrameBuilder builder;
      builder.ip("192.0.2.9", "198.51.100.1").tcp(1000, 80).flags(flags).payload(get);
      if (tagged) builder.vlan(5);
      return builder.build();
    };
    process({frame_in_mbuf(request(1, before)), frame_in_mbuf(request(2, before))});
    const std::uint64_t requests = counters_.requests.read();
    std::vector<rte_mbuf*> burst;
    for (const std::uint8_t flags : dropped) {
      burst.push_back(frame_in_mbuf(frame_of(flags, false)));
      burst.push_back(frame_in_mbuf(frame_of(flags, true)));
      burst.push_back(frame_in_mbuf(frame_of(flags, false), clients, 40));
    }
    process(burst);
    EXPECT_TRUE(std::ranges::equal(std::span(out_.frames).first(out_.count), burst)) << before;
    EXPECT_EQ(counters_.requests.read(), requests) << before;
    // And whom they said they were from has lost nothing.
    process({frame_in_mbuf(frame_of(tcp_syn, false)), frame_in_mbuf(frame_of(tcp_ack, true))});
    EXPECT_EQ(counters_.requests.read(), requests + 2) << before;
    EXPECT_EQ(counters_.blocked.read(), 0U) << before;
  }
}

TEST_F(BurstFilterTest, ARequestThatLacksAHeaderBecauseItsHeadIsCutIsCounted) {
  const std::string head = "GET /items/1 HTTP/1.1\r\nHost: a\r\nCookie: " + std::string(80, 'c');
  // What stands behind the cookie, and whether it is told as lacking.
  const std::vector<std::pair<std::string, bool>> ends{{"\r\nX-User: u\r\n\r\n", false},
                                                       {"\r\n\r\n", false},
                                                       {"\r\nX-User: u\r\nCookie: c", false},
                                                       {"\r\nX-User: u", false},
                                                       {"\r\nX-Us", true},
                                                       {"\r\nX-Usen: u\r\nCookie: c", true},
                                                       {"", true}};
  for (const std::size_t room : {std::size_t{2048}, std::size_t{40}}) {
    limit(100, Action::drop, {{Dimension::Kind::header, 32, 64, "x-user"}});
    for (const auto& [end, lacking] : ends) {
      const std::uint64_t before = counters_.cut_heads.read();
      process({frame_in_mbuf(request(1000, head + end), clients, room)});
      EXPECT_EQ(counters_.cut_heads.read() - before, lacking ? 1U : 0U) << room << " " << end;
    }
    // Nobody asks for what is cut.
    limit(100, Action::drop, {{Dimension::Kind::path, 32, 64, {}}});
    const std::uint64_t before = counters_.cut_heads.read();
    process({frame_in_mbuf(request(1000, head), clients, room)});
    EXPECT_EQ(counters_.cut_heads.read(), before);
  }
}

TEST_F(BurstFilterTest, AFloodFromOneSideOfWhatIsNotPlainLeavesTheRequestsOfTheOtherAsQuickAsTheyWere) {
  if (best_instruction_set() == InstructionSet::portable) GTEST_SKIP() << "without vectors none is quick";
  limit(1000, Action::drop, {Dimension{}});
  const auto burst_of = [&](int requests, int client, std::uint16_t port, bool plain) {
    FrameBuilder builder;
    builder.ip("192.0.2." + std::to_string(client), "198.51.100.1").tcp(1000, 80).payload(get);
    if (!plain) builder.vlan(5);
    std::vector<rte_mbuf*> burst;
    for (int i = 0; i < requests; ++i) burst.push_back(frame_in_mbuf(builder.build(), port));
    return burst;
  };
  const auto is_quick = [&] { return process_from(Side::second, burst_of(2, 1, servers, true)); };
  EXPECT_FALSE(is_quick()) << "the key has come for the first time";
  EXPECT_TRUE(is_quick());
  for (int i = 0; i < 45; ++i) process_from(Side::first, burst_of(25, 2, clients, false));
  EXPECT_EQ(counters_.blocked.read(), 125U);
  EXPECT_TRUE(is_quick());
}

TEST_F(BurstFilterTest, ARuleSeesTheAddressesAndPortsOfEveryKindOfFrame) {
  Dimension source;
  source.kind = Dimension::Kind::source_address;
  Dimension port;
  port.kind = Dimension::Kind::destination_port;
  limit(1, Action::drop, {source, port});
  std::uint64_t admitted = 0;
  for (const bool again : {false, true}) {
    for (const bool tagged : {false, true}) {
      for (const std::size_t piece : {std::size_t{2048}, std::size_t{40}}) {
        for (const std::uint16_t to : {80, 81}) {
          // One address for each kind of frame, so that none can count for another.
          const int host = 1 + 2 * static_cast<int>(tagged) + static_cast<int>(piece == 40);
          FrameBuilder builder;
          builder.ip("192.0.2." + std::to_string(host), "198.51.100.1").tcp(1000, to).payload(get);
          if (tagged) builder.vlan(5);
          process({frame_in_mbuf(builder.build(), clients, piece)});
          admitted += again ? 0 : 1;
          EXPECT_EQ(counters_.admitted.read(), admitted) << host << ' ' << to;
        }
      }
    }
  }
}

TEST_F(BurstFilterTest, FramesOfAClosingFlowAreOfConcernUntilItExpires) {
  limit(1, Action::reply_429);
  process({frame_in_mbuf(request(999)), frame_in_mbuf(request(1000))});
  const Bytes bare = request(1000, "");
  now_ += ClosingFlows::lifetime - Duration{1};
  process({frame_in_mbuf(bare)});
  EXPECT_EQ(out_.count, 0U);
  EXPECT_EQ(counters_.absorbed.read(), 1U);
  now_ += Duration{1};
  process({frame_in_mbuf(bare)});
  EXPECT_EQ(out_.count, 1U);
  // From here on without a look at the time.
  const std::vector<rte_mbuf*> burst{frame_in_mbuf(bare)};
  release();
  EXPECT_TRUE(filter_->passes_without_time(burst));
  filter_->pass_all(burst, out_);
}

TEST_F(BurstFilterTest, AFlowThatClosesIsNoConcernOfOtherFlows) {
  limit(1, Action::reply_429, {Dimension{}});
  const auto frame_of = [](int client) {
    FrameBuilder builder;
    builder.ip("192.0.2." + std::to_string(client), "198.51.100.1").tcp(1000, 80).acknowledgment(900);
    return builder;
  };
  process({frame_in_mbuf(frame_of(1).payload(get).build()), frame_in_mbuf(frame_of(1).payload(get).build())});
  ASSERT_EQ(counters_.blocked.read(), 1U);
  const Bytes bare = frame_of(2).build();
  const Bytes tagged = frame_of(2).vlan(5).build();
  const std::vector<rte_mbuf*> others{frame_in_mbuf(bare), frame_in_mbuf(bare, clients, 40),
                                      frame_in_mbuf(tagged)};
  release();
  EXPECT_TRUE(filter_->passes_without_time(others));
  filter_->pass_all(others, out_);

  // Side by side with its own segments, in whatever kind of frame they come.
  const Bytes own = frame_of(1).build();
  rte_mbuf* const request = frame_in_mbuf(frame_of(2).payload(get).build());
  process({frame_in_mbuf(own), request, frame_in_mbuf(own, clients, 40),
           frame_in_mbuf(frame_of(1).vlan(5).build()), frame_in_mbuf(tagged)});
  EXPECT_EQ(counters_.admitted.read(), 2U);
  EXPECT_EQ(counters_.absorbed.read(), 3U);
  ASSERT_EQ(out_.count, 2U);
  EXPECT_EQ(out_.frames[0], request);
}

// Whatever comes behind a refused request in its very burst: an acknowledgment, a tagged one, and a request
// that would be dropped, as the first one was not.
TEST_F(BurstFilterTest, WhatComesBehindARequestInTheBurstThatRefusesItIsOfItsClosingFlow) {
  Rule answered;
  answered.name = "answered";
  answered.limit = 1;
  answered.key = {Dimension{}};
  Rule dropped = answered;
  dropped.name = "dropped";
  dropped.match.methods = {"DELETE"};
  dropped.action = Action::drop;
  answered.match.methods = {"GET"};
  apply({answered, dropped});
  const auto frame_of = [](int client, const std::string& payload) {
    FrameBuilder builder;
    builder.ip("192.0.2." + std::to_string(client), "198.51.100.1").tcp(1000, 80).acknowledgment(900);
    builder.payload(payload);
    return builder;
  };
  const std::string remove = "DELETE / HTTP/1.1\r\n\r\n";
  for (const std::string& method : {get, remove})
    for (const int client : {1, 2}) process({frame_in_mbuf(frame_of(client, method).build())});
  ASSERT_EQ(counters_.admitted.read(), 4U);

  rte_mbuf* const others = frame_in_mbuf(frame_of(3, get).build());
  rte_mbuf* const others_acknowledgment = frame_in_mbuf(frame_of(2, "").build());
  process({frame_in_mbuf(frame_of(2, remove).build()), frame_in_mbuf(frame_of(1, get).build()),
           frame_in_mbuf(frame_of(1, "").build()), others, frame_in_mbuf(frame_of(1, remove).build()),
           frame_in_mbuf(frame_of(2, remove).build()), others_acknowledgment,
           frame_in_mbuf(frame_of(1, "").vlan(5).build())});
  EXPECT_EQ(counters_.admitted.read(), 5U);
  EXPECT_EQ(counters_.blocked.read(), 4U);
  EXPECT_EQ(counters_.dropped.read(), 2U);   // of the second client
  EXPECT_EQ(counters_.absorbed.read(), 3U);  // of the first one
  std::vector<rte_mbuf*> passed;
  for (rte_mbuf* const mbuf : std::span(out_.frames).first(out_.count))
    if (mbuf->pool == received_) passed.push_back(mbuf);
  EXPECT_EQ(passed, (std::vector{others, others_acknowledgment}));
}

TEST_F(BurstFilterTest, AWholeBurstCanBeRefusedWithTwoAnswersEach) {
  limit(1, Action::reply_429);
  process({frame_in_mbuf(request(999))});
  std::vector<rte_mbuf*> burst;
  for (std::uint16_t i = 0; i < burst_size; ++i)
    burst.push_back(frame_in_mbuf(request(static_cast<std::uint16_t>(1000 + i))));
  process(burst);
  ASSERT_EQ(out_.count, max_outgoing);
  for (std::size_t i = 0; i < out_.count; ++i)
    EXPECT_EQ(out_.frames[i]->port, i % 2 == 0 ? clients : servers);
  EXPECT_EQ(counters_.blocked.read(), burst_size);
  EXPECT_EQ(counters_.dropped.read(), 0U);
}

TEST_F(BurstFilterTest, WithoutMemoryForAnAnswerTheRequestIsDroppedAndCounted) {
  limit(1, Action::reply_429);
  process({frame_in_mbuf(request(999))});
  release();
  for (const unsigned left : {0U, 1U}) {  // one buffer is not enough for two ends either
    std::vector<rte_mbuf*> hoard(buffers - left);
    ASSERT_EQ(rte_pktmbuf_alloc_bulk(crafted_, hoard.data(), static_cast<unsigned>(hoard.size())), 0);
    const std::uint64_t dropped = counters_.dropped.read();
    process({frame_in_mbuf(request(1000))});
    EXPECT_EQ(out_.count, 0U);
    EXPECT_EQ(counters_.dropped.read(), dropped + 1);
    rte_pktmbuf_free_bulk(hoard.data(), static_cast<unsigned>(hoard.size()));
  }
  // With memory again, the client that sent its request once more is answered: nothing was left half done.
  process({frame_in_mbuf(request(1000))});
  EXPECT_EQ(out_.count, 2U);
}

TEST_F(BurstFilterTest, WithoutMemoryForAnAcknowledgmentTheSegmentIsAbsorbedAllTheSame) {
  limit(1, Action::reply_429);
  process({frame_in_mbuf(request(999)), frame_in_mbuf(request(1000))});
  release();
  std::vector<rte_mbuf*> hoard(buffers);
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(crafted_, hoard.data(), buffers), 0);
  const Bytes fin = FrameBuilder()
                        .tcp(1000, 80)
                        .sequence(100 + static_cast<std::uint32_t>(get.size()))
                        .acknowledgment(900)
                        .flags(tcp_ack | tcp_fin)
                        .payload("")
                        .build();
  process({frame_in_mbuf(fin)});
  EXPECT_EQ(out_.count, 0U);
  EXPECT_EQ(counters_.absorbed.read(), 1U);
  rte_pktmbuf_free_bulk(hoard.data(), buffers);
}

TEST_F(BurstFilterTest, ARequestIsFoundHoweverItsFrameIsCutIntoBuffers) {
  limit(1'000'000, Action::drop);
  const Bytes bytes = request(1000, get + "GET /b HTTP/1.1\r\nHost: b\r\n\r\n");
  std::uint64_t expected = 0;
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    process({frame_in_mbuf(bytes, clients, piece), frame_in_mbuf(bytes, clients, piece)});
    expected += 4;
    ASSERT_EQ(counters_.requests.read(), expected) << piece;
    ASSERT_EQ(out_.count, 2U);
  }
}

TEST_F(BurstFilterTest, AClosingFlowIsForgottenInTime) {
  limit(1, Action::reply_429);
  process({frame_in_mbuf(request(999)), frame_in_mbuf(request(1000))});
  const Bytes bare =
      FrameBuilder().tcp(1000, 80).sequence(130).acknowledgment(900).flags(tcp_ack).payload("").build();
  process({frame_in_mbuf(bare)});
  EXPECT_EQ(out_.count, 0U);
  now_ += ClosingFlows::lifetime;
  process({frame_in_mbuf(bare)});
  EXPECT_EQ(out_.count, 1U);
}

/// All that shows of what became of a burst.
class Transcript {
 public:
  void add(const Outgoing& out) {
    for (const rte_mbuf* const mbuf : std::span(out.frames).first(out.count)) {
      std::string bytes(rte_pktmbuf_pkt_len(mbuf), '\0');
      const void* const read =
          rte_pktmbuf_read(mbuf, 0, static_cast<std::uint32_t>(bytes.size()), bytes.data());
      bytes.assign(static_cast<const char*>(read), bytes.size());
      frames.emplace_back(mbuf->port, bytes);
    }
  }
  std::vector<std::pair<std::uint16_t, std::string>> frames;
  std::vector<std::array<std::uint64_t, 7>> counts;
};

// What is cut into buffers is laid out request by request; what lies there as a whole is mostly decided on as
// it lies. In a flood, most of it refused, and while flows are closing.
TEST_F(BurstFilterTest, ARefusedRequestIsTreatedAlikeInOneBufferAndInSeveral) {
  const unsigned seed = 5;
  std::cout << "seed " << seed << '\n';
  const std::string head = "HEAD" + get.substr(3);
  for (const Action action : {Action::reply_429, Action::reset, Action::drop, Action::observe}) {
    std::array<Transcript, 2> transcripts;
    for (const bool whole : {true, false}) {
      Transcript& transcript = transcripts[whole ? 0 : 1];
      std::mt19937 random(seed);
      if (throttle_ != nullptr) throttle_->worker(0).offline();
      limit(3, action, {Dimension{}});
      for (int round = 0; round < 300; ++round) {
        // Of each client at most one frame in a burst: what is not decided on at once comes later.
        std::vector<rte_mbuf*> burst;
        for (int client = 1; client <= 24; ++client) {
          if (random() % 3 == 0) continue;
          FrameBuilder builder;
          builder.ip("192.0.2." + std::to_string(client), "198.51.100.1")
              .tcp(static_cast<std::uint16_t>(1000 + random() % 50), 80)
              .sequence(100)
              .acknowledgment(200 + random() % 2);
          builder.payload(random() % 8 == 0 ? "" : random() % 8 == 0 ? head : get);
          burst.push_back(frame_in_mbuf(builder.build(), clients, whole ? 2048 : 40));
        }
        if (burst.empty()) continue;
        const auto counts = [&] {
          return std::array{counters_.requests.read(), counters_.admitted.read(), counters_.blocked.read(),
                            counters_.dropped.read(),  counters_.crafted.read(),  counters_.absorbed.read(),
                            counters_.consumed.read()};
        };
        const auto before = counts();
        process(burst);
        auto after = counts();
        for (std::size_t i = 0; i < after.size(); ++i) after[i] -= before[i];
        transcript.counts.push_back(after);
        transcript.add(out_);
        now_ += std::chrono::milliseconds(10);
        // (A limit for a year: but blocks end, after ten seconds.)
        for (int step = 0; step < 3 && round % 10 == 0; ++step) {
          throttle_->advance(instant());
          throttle_->worker(0).quiescent();
        }
      }
    }
    ASSERT_EQ(transcripts[0].counts, transcripts[1].counts);
    ASSERT_EQ(transcripts[0].frames, transcripts[1].frames);
    std::uint64_t refused = 0;
    for (const auto& counts : transcripts[0].counts) refused += counts[2];
    EXPECT_EQ(refused > 1000, action != Action::observe) << refused;
  }
}

TEST_F(BurstFilterTest, NoFrameAndNoBufferIsLostWhateverComes) {
  const unsigned seed = 1;
  std::cout << "seed " << seed << '\n';
  std::mt19937 random(seed);
  const auto below = [&random](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  for (const Action action : {Action::reply_429, Action::reset, Action::drop, Action::observe}) {
    if (throttle_ != nullptr) throttle_->worker(0).offline();
    limit(200, action);
    for (int round = 0; round < 500; ++round) {
      std::vector<rte_mbuf*> burst;
      const std::size_t count = 1 + below(burst_size);
      for (std::size_t i = 0; i < count; ++i) {
        const bool ipv6 = below(2) == 0;
        FrameBuilder builder;
        builder.ip(ipv6 ? "2001:db8::1" : "192.0.2.1", ipv6 ? "2001:db8::2" : "192.0.2.2")
            .tcp(static_cast<std::uint16_t>(1000 + below(100)), 80)
            .sequence(static_cast<std::uint32_t>(below(400)))
            .acknowledgment(static_cast<std::uint32_t>(below(400)))
            .flags(static_cast<std::uint8_t>(below(4) == 0 ? below(32) : std::size_t{tcp_ack}))
            .tcp_options(4 * below(11))
            .payload(below(3) == 0 ? std::string(below(600), 'x') : get);
        if (below(4) == 0) builder.vlan(5);
        Bytes bytes = builder.build();
        if (below(3) == 0) bytes.resize(1 + below(bytes.size()));
        for (std::size_t flips = below(3) == 0 ? below(6) : 0; flips > 0; --flips)
          bytes[below(bytes.size())] = static_cast<std::byte>(below(256));
        burst.push_back(frame_in_mbuf(bytes, below(2) == 0 ? clients : servers, below(3) == 0 ? 40 : 2048));
      }
      process(burst);
    }
  }
}

}  // namespace
}  // namespace weir::filter
