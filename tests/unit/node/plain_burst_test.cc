// SPDX-License-Identifier: BSD-3-Clause
// A worker that admits what it can from plain frames and lays out the rest, held against one that lays out
// all.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "frame_builder.h"
#include "weir/config.h"
#include "weir/packet.h"
#include "weir/throttle.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using test::Bytes;
using test::FrameBuilder;

constexpr std::size_t burst_size = 32;

Instant at(Duration since_start) { return {WallTime(1000s) + since_start, MonotonicTime(50s) + since_start}; }

/// A node with one worker, its controller moved by the test.
class Node {
 public:
  Node(const std::string& rules, bool plain) : plain_(plain) {
    const ConfigResult parsed = parse_config(rules, "test");
    if (!parsed) throw std::runtime_error(parsed.errors.front().to_string());
    ThrottleResult made = Throttle::create(parsed.config, {.workers = 1, .hash_seed = 1, .log = {}});
    if (!made) throw std::runtime_error(made.error);
    throttle_ = std::move(made.throttle);
    advance(0ms);
    worker().online();
  }
  ~Node() { worker().offline(); }

  Worker& worker() { return throttle_->worker(0); }

  void advance(Duration now) {
    now_ = now;
    throttle_->advance(at(now));
  }
  void end_span(Duration now) {
    for (int step = 0; step < 3; ++step) {  // flip, drain, decide
      advance(now);
      worker().quiescent();
    }
  }

  /// @return bit i: the request in frames[i] was admitted
  std::uint32_t decide(std::span<const Bytes> frames) {
    std::vector<PlainFrame> plain;
    for (const Bytes& frame : frames) plain.push_back({frame.data(), plain_payload(frame)});
    std::uint32_t admitted = plain_ ? worker().admit_plain(plain) : 0;
    at_once += std::popcount(admitted);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      if ((admitted >> i & 1) != 0) continue;
      const Frame frame = parse_frame(frames[i]);
      HttpRequests requests(tcp_payload(frames[i], frame), throttle_->headers());
      ParsedRequest parsed;
      bool all = true;
      while (requests.next(parsed)) {
        set_endpoints(parsed.request, frame);
        all = worker().admit(parsed.request, at(now_).monotonic).verdict == Verdict::admit && all;
      }
      admitted |= std::uint32_t{all} << i;
    }
    return admitted;
  }

  std::vector<RuleFigures> rules() { return throttle_->figures().rules; }

  int at_once = 0;

 private:
  bool plain_;
  std::unique_ptr<Throttle> throttle_;
  Duration now_{};
};

Bytes request_of(const std::string& user, const std::string& path = "/items", unsigned source = 1) {
  return FrameBuilder()
      .ip("10.0.0." + std::to_string(source), "10.0.1.1")
      .tcp(40000, 80)
      .payload("GET " + path + " HTTP/1.1\r\nHost: h.example\r\nX-User: " + user + "\r\nAccept: */*\r\n\r\n")
      .build();
}

std::string rule(const std::string& name, const std::string& more, std::uint64_t limit) {
  return "[[rule]]\nname = \"" + name + "\"\nlimit = " + std::to_string(limit) +
         "\ninterval = \"1s\"\naction = \"drop\"\n" + more + "\n";
}

std::vector<Bytes> random_burst(std::mt19937& random, unsigned users) {
  std::vector<Bytes> frames;
  for (std::size_t i = 0; i < burst_size; ++i) {
    const std::string user = "user-" + std::to_string(random() % users);
    std::string path = "/items/" + std::to_string(random() % 4);
    if (random() % 8 == 0) path += "/%41";  // not plain
    frames.push_back(request_of(user, path, 1 + random() % 3));
  }
  return frames;
}

bool has_vectors() { return best_instruction_set() != InstructionSet::portable; }

class PlainBursts : public testing::TestWithParam<std::string> {};

// Where nothing is refused the order of a burst's decisions does not matter: both count the same.
TEST_P(PlainBursts, CountWhatRequestsThatAreLaidOutCount) {
  Node plain(GetParam(), true);
  Node laid_out(GetParam(), false);
  std::mt19937 random(7);
  Duration now{};
  for (int span = 0; span < 30; ++span) {
    for (int burst = 0; burst < 20; ++burst) {
      const std::vector<Bytes> frames = random_burst(random, 40);
      ASSERT_EQ(plain.decide(frames), ~std::uint32_t{0});
      ASSERT_EQ(laid_out.decide(frames), ~std::uint32_t{0});
    }
    now += 100ms;
    plain.end_span(now);
    laid_out.end_span(now);
    const auto rules = plain.rules();
    const auto expected = laid_out.rules();
    for (std::size_t i = 0; i < rules.size(); ++i) {
      ASSERT_EQ(rules[i].offered, expected[i].offered) << rules[i].name << ", span " << span;
      ASSERT_EQ(rules[i].admitted, expected[i].admitted) << rules[i].name << ", span " << span;
    }
  }
  if (has_vectors()) {
    EXPECT_GT(plain.at_once, 30 * 20 * 32 / 2) << "the common case is not taken";
  }
}

constexpr std::uint64_t plenty = 1'000'000;

INSTANTIATE_TEST_SUITE_P(
    Rules, PlainBursts,
    testing::Values(rule("user", "key = [\"header:x-user\", \"method\"]", plenty), rule("all", "", plenty),
                    // More is asked for than a grant has.
                    rule("user", "key = [\"header:x-user\"]\nweight = 3000", plenty),
                    rule("all", "", plenty) + rule("user", "key = [\"header:x-user\"]", plenty) +
                        rule("path", "key = [\"path\"]\nalgorithm = \"sliding-window\"", plenty),
                    rule("user", "key = [\"header:x-user\"]", plenty) +
                        rule("path", "key = [\"path\"]", plenty) +
                        rule("item", "match = { path = \"/items/{id}\" }\nkey = [\"path:id\"]", plenty) +
                        rule("host", "key = [\"host\"]", plenty),
                    rule("some", "match = { path = \"/items/1\" }\nkey = [\"src_ip\"]", plenty) +
                        rule("others", "match = { method = \"PUT\" }", plenty) +
                        rule("host", "match = { host = \"*.example\" }\nkey = [\"host\", \"dst_port\"]",
                             plenty)));

// Refused by one rule, charged to none; and no key gets more than its limit.
class PlainBurst : public testing::TestWithParam<std::uint64_t> {};

TEST_P(PlainBurst, AdmitsNoMoreThanTheLimitAndChargesAllRulesOrNone) {
  const std::uint64_t limit = GetParam();
  Node node(rule("all", "", 100 * limit) + rule("user", "key = [\"header:x-user\"]", limit) +
                rule("path", "key = [\"path\"]", 20 * limit),
            true);
  std::mt19937 random(8);
  std::array<std::uint64_t, 4> of_user{};
  for (std::uint64_t burst = 0; burst < limit / 2; ++burst) {
    std::vector<Bytes> frames;
    std::vector<std::size_t> users;
    for (std::size_t i = 0; i < burst_size; ++i) {
      users.push_back(random() % of_user.size());
      frames.push_back(request_of("user-" + std::to_string(users.back())));
    }
    const std::uint32_t admitted = node.decide(frames);
    for (std::size_t i = 0; i < frames.size(); ++i) of_user[users[i]] += admitted >> i & 1;
  }
  std::uint64_t all = 0;
  for (const std::uint64_t count : of_user) {
    EXPECT_EQ(count, limit);
    all += count;
  }
  for (const RuleFigures& figures : node.rules()) EXPECT_EQ(figures.admitted, all) << figures.name;
}

// Without a grant, and with one that ends within a burst.
INSTANTIATE_TEST_SUITE_P(Limits, PlainBurst, testing::Values(50, 3200));

// Of what a key has ready in its entry a part is lent to its grant, and several requests of a burst are the
// key's.
TEST(SeveralRulesInPlainBursts, AdmitNoMoreThanAnyLimitWhereverTheirKeysAreCounted) {
  std::mt19937 random(11);
  const auto pick = [&](auto... of) {
    const std::uint64_t all[] = {static_cast<std::uint64_t>(of)...};
    return all[random() % std::size(all)];
  };
  for (int run = 0; run < 30; ++run) {
    const unsigned users = 1 + random() % 3;
    const std::uint64_t limit = pick(131072, 150000, 200000, 250000, 300000);
    const std::uint64_t weight = pick(1, 10, 50, 200, 1000);
    const std::uint64_t other = pick(1, 1, 5, 50);
    const std::uint64_t path_limit = pick(1000000, 10000000000);
    const std::string kind = pick(0, 1) ? "\nalgorithm = \"fixed-window\"" : "";
    std::string rules =
        rule("user", "key = [\"header:x-user\"]\nweight = " + std::to_string(weight) + kind, limit) +
        rule("path", "key = [\"path\"]\nweight = " + std::to_string(other) + kind, path_limit);
    if (random() % 2) rules += rule("all", "", 100'000'000);
    Node node(rules, true);
    std::vector<std::uint64_t> of_user(users);
    std::uint64_t of_path = 0;
    for (int burst = 0; burst < 600; ++burst) {
      std::vector<Bytes> frames;
      std::vector<std::size_t> who;
      const std::size_t count = random() % 3 ? burst_size : 1 + random() % burst_size;
      for (std::size_t i = 0; i < count; ++i) {
        who.push_back(random() % users);
        frames.push_back(request_of("user-" + std::to_string(who.back())));
      }
      const std::uint32_t admitted = node.decide(frames);
      for (std::size_t i = 0; i < frames.size(); ++i)
        if (admitted >> i & 1) {
          of_user[who[i]] += weight;
          of_path += other;
        }
    }
    for (const std::uint64_t count : of_user) ASSERT_LE(count, limit) << "run " << run << "\n" << rules;
    ASSERT_LE(of_path, path_limit) << "run " << run << "\n" << rules;
  }
}

TEST(OnePlainBurst, LeavesToOthersWhatItDoesNotAdmit) {
  Node node(rule("user", "key = [\"header:x-user\"]", plenty), true);
  const auto payload = [](const std::string& text) { return FrameBuilder().payload(text).build(); };
  const std::string get = "GET / HTTP/1.1\r\nX-User: u\r\n\r\n";
  const std::vector<Bytes> frames{
      payload(get),
      payload(get + get),
      payload("POST / HTTP/1.1\r\nX-User: u\r\nContent-Length: 2\r\n\r\n{}"),
      payload("hello"),
      payload("GET http://h/ HTTP/1.1\r\nX-User: u\r\n\r\n"),
      FrameBuilder().vlan(3).payload(get).build(),
      payload(get.substr(0, get.size() - 2)),
  };
  node.decide(frames);  // all keys are met
  std::vector<PlainFrame> plain;
  for (const Bytes& frame : frames) plain.push_back({frame.data(), plain_payload(frame)});
  EXPECT_EQ(node.worker().admit_plain(plain), has_vectors() ? 0b1000001U : 0U);
}

TEST(OnePlainBurst, AdmitsNothingWhileTheWorkerIsOffline) {
  Node node(rule("all", "", plenty), true);
  const std::vector<Bytes> frames{request_of("u")};
  node.decide(frames);
  const PlainFrame plain{frames[0].data(), plain_payload(frames[0])};
  EXPECT_EQ(node.worker().admit_plain({&plain, 1}), has_vectors() ? 1U : 0U);
  node.worker().offline();
  EXPECT_EQ(node.worker().admit_plain({&plain, 1}), 0U);
  EXPECT_EQ(node.worker().admit_plain({}), 0U);
}

}  // namespace
}  // namespace weir
