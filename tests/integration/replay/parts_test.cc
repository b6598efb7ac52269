// SPDX-License-Identifier: BSD-3-Clause
// The parts of weir-replay, where running the whole program would be too slow to try as much.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture.h"
#include "capture_file.h"
#include "replay.h"
#include "request_table.h"
#include "summary.h"
#include "timeline.h"
#include "weir/config.h"

namespace weir::replay {
namespace {

using namespace std::chrono_literals;
using test::FrameBuilder;
using test::HttpText;
using test::PcapFile;
using test::PcapngFile;

constexpr Duration start = 1'700'000'000s;
constexpr std::int64_t every_span = std::numeric_limits<std::int64_t>::max();

Rule rule(Duration interval, std::uint32_t spans) {
  Rule result;
  result.interval = interval;
  result.spans = spans;
  return result;
}

std::vector<Duration> due(Timeline& timeline, Duration from, Duration to) {
  std::vector<Duration> times;
  for (const WallTime at : timeline.due(WallTime(from), WallTime(to))) times.push_back(at.time_since_epoch());
  return times;
}

using Times = std::vector<Duration>;

TEST(Timeline, ListsTheSpanEndsBehindFromUpToTo) {
  Timeline timeline(std::vector<Rule>{rule(1s, 4)});
  EXPECT_EQ(due(timeline, 0s, 1s), (Times{250ms, 500ms, 750ms, 1s}));
  EXPECT_EQ(due(timeline, 1s, 1s), Times{});
  EXPECT_EQ(due(timeline, 1s, 1249ms), Times{});
  EXPECT_EQ(due(timeline, 1249ms, 1250ms), Times{1250ms});
  EXPECT_EQ(due(timeline, 1250ms, 1251ms), Times{});
}

TEST(Timeline, MergesTheRules) {
  Timeline timeline(std::vector<Rule>{rule(1s, 2), rule(1s, 2), rule(900ms, 3)});
  EXPECT_EQ(due(timeline, 0s, 1s), (Times{300ms, 500ms, 600ms, 900ms, 1s}));
}

TEST(Timeline, BeginsSpansAsTheNodeDoesWhereTheyDoNotDivideTheInterval) {
  Timeline timeline(std::vector<Rule>{rule(1s, 3)});
  EXPECT_EQ(due(timeline, 0s, 1s), (Times{333333334ns, 666666667ns, 1s}));
}

TEST(Timeline, HasNothingDueWithoutRules) {
  Timeline timeline(std::vector<Rule>{});
  EXPECT_EQ(due(timeline, 0s, 10s), Times{});
  EXPECT_EQ(due(timeline, 10s, 20s), Times{});
}

TEST(Timeline, LeavesOutTheMiddleOfALongPause) {
  Timeline timeline(std::vector<Rule>{rule(10ms, 10), rule(1s, 4)});
  const auto times = due(timeline, start, start + 30 * 365 * 24h);
  EXPECT_LT(times.size(), 200u);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_EQ(times.front(), start + 1ms);
  EXPECT_EQ(times.back(), start + 30 * 365 * 24h);
}

// Many steps must list the same moments as one, whatever was remembered from one call to the next.
TEST(Timeline, ListsEverySpanEndOnceInStepsOfAnySize) {
  constexpr unsigned seed = 3;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::vector<Rule> rules{rule(1s, 7), rule(770ms, 3)};
  Timeline whole(rules, every_span);
  const auto expected = due(whole, start, start + 60s);
  Timeline stepped(rules, every_span);
  Times found;
  for (Duration at = start; at < start + 60s;) {
    const Duration next = std::min<Duration>(start + 60s, at + std::chrono::microseconds(random() % 200'000));
    for (const Duration one : due(stepped, at, next)) found.push_back(one);
    at = next;
  }
  EXPECT_EQ(found, expected);
}

/// A capture in a file of its own.
class CaptureOf {
 public:
  explicit CaptureOf(std::string_view bytes)
      : path_(testing::TempDir() + "weir-capture-" + std::to_string(getpid())) {
    std::ofstream(path_, std::ios::binary) << bytes;
    error = capture.open(path_);
  }
  ~CaptureOf() { std::filesystem::remove(path_); }
  CaptureOf(const CaptureOf&) = delete;
  CaptureOf& operator=(const CaptureOf&) = delete;

  Capture capture;
  std::string error;

 private:
  std::string path_;
};

std::string table_and_summary(std::string_view bytes, const Config& config, std::int64_t longest_walk) {
  CaptureOf file(bytes);
  EXPECT_EQ(file.error, "");
  ThrottleOptions options;
  options.hash_seed = 1;
  ThrottleResult made = Throttle::create(config, options);
  EXPECT_TRUE(made) << made.error;
  std::string text;
  Replay replay(
      std::move(made.throttle),
      [&](const Outcome& outcome) {
        text += time_text(outcome.time) + " " + std::string(outcome.key) +
                (outcome.verdict == Verdict::admit ? " admit\n" : " block\n");
      },
      longest_walk);
  while (const auto packet = file.capture.next()) replay.play(*packet);
  return text + summary(replay, 1000);
}

TEST(ReplayPauses, LeftOutGiveTheSameResultAsEverySpanWalked) {
  const ConfigResult config = parse_config(R"(
[node]
keys = 64
[[rule]]
name = "fast"
key = ["src_ip"]
limit = 3
interval = "20ms"
spans = 10
cooldown = "30ms"
[[rule]]
name = "slow"
key = ["src_ip"]
limit = 12
interval = "3s"
spans = 3
cooldown = "5s"
[[rule]]
name = "observed"
limit = 20
interval = "500ms"
cooldown = "7s"
penalize = true
action = "observe"
)",
                                           "test");
  ASSERT_TRUE(config);
  for (unsigned seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    PcapFile file;
    Duration now = start;
    for (int i = 0; i < 400; ++i) {
      const auto pause = random() % 20 == 0 ? random() % 40'000'000 : random() % 5'000;
      now += std::chrono::microseconds(pause);
      file.packet(now, FrameBuilder()
                           .ip("10.0.0." + std::to_string(1 + random() % 4), "10.1.0.1")
                           .payload(HttpText("GET", "/").str()));
    }
    const std::string walked = table_and_summary(file.str(), config.config, every_span);
    EXPECT_EQ(table_and_summary(file.str(), config.config, Timeline::default_longest_walk), walked);
    EXPECT_EQ(table_and_summary(file.str(), config.config, 1), walked);
    EXPECT_NE(walked.find("block\n"), std::string::npos);
  }
}

std::string small_capture(bool is_pcapng) {
  const auto frame = FrameBuilder().payload(HttpText("GET", "/").host("h").str());
  if (is_pcapng) return PcapngFile().packet(start, frame).packet(start + 1s, frame).str();
  return PcapFile().packet(start, frame).packet(start + 1s, frame).str();
}

TEST(CaptureFile, CutOffAnywhereIsReadUpToThereAndSaidToBeBroken) {
  for (const bool is_pcapng : {false, true}) {
    const std::string whole = small_capture(is_pcapng);
    std::size_t good = 0;
    for (std::size_t length = 0; length <= whole.size(); ++length) {
      CaptureOf file(std::string_view(whole).substr(0, length));
      if (!file.error.empty()) continue;
      std::size_t packets = 0;
      while (const auto packet = file.capture.next()) {
        ++packets;
        EXPECT_EQ(parse_frame(packet->frame).kind, FrameKind::tcp);
      }
      if (file.capture.error().empty()) {
        ++good;
      } else {
        EXPECT_NE(file.capture.error().find("packet " + std::to_string(packets + 1) + ": "),
                  std::string::npos)
            << file.capture.error();
      }
    }
    EXPECT_EQ(good, 3u) << "without packets, with one, and whole";
  }
}

TEST(CaptureFile, WithBytesChangedAnywhereDoesNoHarm) {
  constexpr unsigned seed = 37;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  Config config;
  config.node.keys = 64;
  Rule& only = config.rules.emplace_back(rule(1s, 10));
  only.name = "all";
  only.limit = 1;
  only.cooldown = 1s;
  for (const bool is_pcapng : {false, true}) {
    const std::string whole = small_capture(is_pcapng);
    for (int round = 0; round < 1500; ++round) {
      std::string bytes = whole;
      for (unsigned i = 0; i <= random() % 3; ++i)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      CaptureOf file(bytes);
      if (!file.error.empty()) continue;
      ThrottleOptions options;
      options.hash_seed = 1;
      ThrottleResult made = Throttle::create(config, options);
      ASSERT_TRUE(made) << made.error;
      std::uint64_t requests = 0;
      Replay replay(std::move(made.throttle), [&](const Outcome&) { ++requests; });
      while (const auto packet = file.capture.next()) replay.play(*packet);
      EXPECT_EQ(replay.tally().requests, requests);
      EXPECT_FALSE(summary(replay, 10).empty());
    }
  }
}

TEST(TimeText, HasNineDecimals) {
  EXPECT_EQ(time_text(WallTime(0ns)), "0.000000000");
  EXPECT_EQ(time_text(WallTime(start + 7ns)), "1700000000.000000007");
  EXPECT_EQ(time_text(WallTime(start + 999999999ns)), "1700000000.999999999");
}

}  // namespace
}  // namespace weir::replay
