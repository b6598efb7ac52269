// SPDX-License-Identifier: BSD-3-Clause
#include "filter/statistics.h"

#include <gtest/gtest.h>

namespace weir::filter {
namespace {

Snapshot moment() {
  Snapshot snapshot;
  snapshot.totals = {.received = 1000,
                     .transmitted = 990,
                     .transmit_drops = 4,
                     .crafted = 20,
                     .consumed = 26,
                     .requests = 100,
                     .admitted = 84,
                     .blocked = 16,
                     .dropped = 6,
                     .absorbed = 10,
                     .malformed = 2,
                     .cut_heads = 8};
  snapshot.observed = 9;
  snapshot.figures.rules = {{"login", 60, 50, 10, 1}, {"search", 40, 34, 6, 0}};
  snapshot.figures.publication_generation = 7;
  snapshot.figures.overflowed = 5;
  snapshot.figures.keys = 12;
  snapshot.figures.store_up = true;
  snapshot.figures.store_round_trip = std::chrono::microseconds{250};
  snapshot.figures.counts_pending = 3;
  snapshot.figures.counts_synced = 81;
  snapshot.figures.counts_expired = 1;
  snapshot.ports = {
      {.port = 0, .name = "0000:3b:00.0", .link = Link::up, .missed = 0, .no_buffer = 0, .errors = 0},
      {.port = 1, .name = "0000:3b:00.1", .link = Link::down, .missed = 70, .no_buffer = 8, .errors = 0},
      {.port = 4, .name = "net_tap0", .missed = 0, .no_buffer = 1, .errors = 3, .unsent = 11}};
  snapshot.unix_seconds = 1700000000.25;
  snapshot.uptime = std::chrono::seconds{2};
  return snapshot;
}

std::vector<Rule> rules() {
  std::vector<Rule> rules(2);
  rules[0].name = "login";
  rules[0].limit = 20;
  rules[0].interval = std::chrono::seconds{1};
  rules[1].name = "search";
  rules[1].limit = 1000;
  rules[1].interval = std::chrono::milliseconds{500};
  return rules;
}

TEST(StatisticsLine, IsKeyValuePairs) {
  EXPECT_EQ(
      statistics_line("gateway-a", {}, moment(), true),
      "time=1700000000.250 node=gateway-a rx=1000 tx=990 pps=500 requests=100 admitted=84 blocked=16 "
      "observed=9 dropped=6 tx_drops=4 "
      "tx_errors=11 rx_missed=70 rx_no_buffer=9 rx_errors=3 rx_lost_at=1:78,4:4 links_down=1 malformed=2 "
      "cut_heads=8 generation=7 keys=12 overflowed=5 store=up sync_rtt_us=250 pending=3 expired=1 "
      "overruns=0 stalled=0\n");
}

TEST(StatisticsLine, KnowsThreeStatesOfTheStore) {
  Snapshot snapshot = moment();
  EXPECT_NE(statistics_line("a", {}, snapshot, false).find("store=none "), std::string::npos);
  snapshot.figures.store_up = false;
  EXPECT_NE(statistics_line("a", {}, snapshot, true).find("store=down "), std::string::npos);
}

TEST(StatisticsLine, HasNoRateWhenNoTimeHasPassed) {
  EXPECT_NE(statistics_line("a", moment(), moment(), true).find(" pps=0 "), std::string::npos);
}

TEST(StatisticsLine, SaysThatNoPortHasLostAnything) {
  Snapshot snapshot = moment();
  snapshot.ports.resize(1);
  EXPECT_NE(statistics_line("a", {}, snapshot, true)
                .find(" tx_errors=0 rx_missed=0 rx_no_buffer=0 rx_errors=0 rx_lost_at=none links_down=0 "),
            std::string::npos);
}

TEST(LiveHeading, HasALineForEachPortWhoseLinkIsDownOrThatHasLostSomething) {
  EXPECT_EQ(
      live_heading({}, moment(), true),
      "up 2 s, 500 packets/s, 100 requests, store up, 12 keys, 4 frames not sent for want of room\n"
      "port 1 (0000:3b:00.1): link down\n"
      "port 1 (0000:3b:00.1) has lost frames before they came here: 70 missed, 8 without a buffer, 0 broken\n"
      "port 4 (net_tap0) has lost frames before they came here: 0 missed, 1 without a buffer, 3 broken\n"
      "port 4 (net_tap0) has not sent 11 frames that it had taken\n");
}

TEST(RulesTable, ShowsARowPerRuleWithRateLimitAndState) {
  EXPECT_EQ(rules_table({}, moment(), rules()),
            "rule        offered     admitted      blocked     rate/s            limit  state\n"
            "login            60           50           10         30            20/1s  1 key blocked\n"
            "search           40           34            6         20       1000/500ms  open\n");
}

TEST(TotalLines, AreWhatAScriptReads) {
  EXPECT_EQ(total_lines(moment()),
            "total rule=login offered=60 admitted=50 blocked=10\n"
            "total rule=search offered=40 admitted=34 blocked=6\n"
            "total packets rx=1000 tx=990 crafted=20 consumed=26 tx_drops=4 dropped=6 absorbed=10 "
            "malformed=2 cut_heads=8 "
            "requests=100 admitted=84 blocked=16 observed=9\n"
            "total port=0 name=0000:3b:00.0 rx_missed=0 rx_no_buffer=0 rx_errors=0 tx_errors=0 link=up\n"
            "total port=1 name=0000:3b:00.1 rx_missed=70 rx_no_buffer=8 rx_errors=0 tx_errors=0 link=down\n"
            "total port=4 name=net_tap0 rx_missed=0 rx_no_buffer=1 rx_errors=3 tx_errors=11 link=unknown\n"
            "total store pending=3 synced=81 expired=1\n");
}

TEST(DurationText, UsesTheLargestUnitThatIsExact) {
  EXPECT_EQ(duration_text(std::chrono::seconds{90}), "90s");
  EXPECT_EQ(duration_text(std::chrono::milliseconds{1500}), "1500ms");
  EXPECT_EQ(duration_text(std::chrono::microseconds{50}), "50us");
  EXPECT_EQ(duration_text(Duration{7}), "7ns");
}

TEST(ShownUrl, HidesThePassword) {
  EXPECT_EQ(shown_url("redis://me:secret@host:6379/1"), "redis://me:***@host:6379/1");
  EXPECT_EQ(shown_url("redis://:secret@host"), "redis://:***@host");
  EXPECT_EQ(shown_url("redis://:sec@ret@host"), "redis://:***@host");
  EXPECT_EQ(shown_url("redis://host:6379"), "redis://host:6379");
  EXPECT_EQ(shown_url("memory://"), "memory://");
}

TEST(Description, TellsTheTermsOfEachAlgorithmAndNoOthers) {
  const auto described = [](auto change) {
    Config config;
    config.rules = {rules()[0]};
    config.rules[0].cooldown = std::chrono::seconds{3};
    change(config.rules[0]);
    const std::string text = description(config, 0, 0);
    const std::size_t begin = text.find(" spans; ") + 8;
    return text.substr(begin, text.find("; action") - begin);
  };
  EXPECT_EQ(described([](Rule& rule) { rule.algorithm = Algorithm::strict; }), "strict");
  EXPECT_EQ(described([](Rule& rule) { rule.algorithm = Algorithm::leaky_bucket; }),
            "leaky-bucket, burst 20");
  EXPECT_EQ(described([](Rule& rule) {
              rule.algorithm = Algorithm::token_bucket;
              rule.burst = 50;
              rule.warmup = std::chrono::seconds{10};
            }),
            "token-bucket, burst 50, warmup 10s");
  EXPECT_EQ(
      described([](Rule& rule) {
        rule.dephase = std::chrono::seconds{5};
        rule.hold_back = 0.25;
        rule.early_block = EarlyBlock::predictive;
        rule.local_rule = LocalRule::per_span;
        rule.debt = true;
        rule.penalize = true;
      }),
      "cooldown 3s, dephase 5s, hold_back 0.25, early_block predictive, local_rule per-span, debt, penalize");
}

TEST(Description, SaysThatWithoutRulesEverythingPasses) {
  EXPECT_TRUE(description({}, 0, 0).starts_with("no rules: every request passes\n"));
}

TEST(Description, TellsWhatEveryRuleDoes) {
  Config config;
  config.rules = rules();
  config.rules[0].match.methods = {"GET", "POST"};
  config.rules[0].match.path = "/login";
  config.rules[0].key = {{Dimension::Kind::source_address, 24, 56, ""},
                         {Dimension::Kind::header, 32, 64, "x-api-key"}};
  config.rules[0].cooldown = std::chrono::seconds{3};
  config.node.name = "gateway-a";
  config.ports.pairs = {{0, 1}, {2, 3}};
  const std::string text = description(config, 1 << 20, 1 << 19);
  EXPECT_NE(
      text.find("rule login: method GET,POST path /login; a key per src_ip/24/56, header:x-api-key; "
                "limit 20 per 1s in 10 spans; cooldown 3s; action reply-429; without the store: local\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("rule search: every request; one key for all;"), std::string::npos) << text;
  EXPECT_NE(
      text.find("node: gateway-a\nports: 0-1 2-3; 1024 descriptors per queue; as many queues as workers\n"),
      std::string::npos);
  config.ports.mtu = 9000;
  EXPECT_NE(description(config, 0, 0).find("; as many queues as workers; MTU 9000\n"), std::string::npos);
  EXPECT_NE(text.find("tables 1.0 MiB with one worker; each worker 0.5 MiB more"), std::string::npos) << text;
}

}  // namespace
}  // namespace weir::filter
