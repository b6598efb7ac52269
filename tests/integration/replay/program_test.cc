// SPDX-License-Identifier: BSD-3-Clause
// The program weir-replay, from its command line to its table.
#include "program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "capture_file.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using test::FrameBuilder;
using test::HttpText;
using test::PcapFile;
using test::PcapngFile;
using test::Ran;
using test::ReplayProgram;
using test::Row;
using test::summary_cells;
using test::summary_number;
using test::text_of;

using ReplayTable = ReplayProgram;
using ReplayLimit = ReplayProgram;
using ReplayTime = ReplayProgram;
using ReplayCapture = ReplayProgram;
using ReplayCommandLine = ReplayProgram;

/// A whole number of every interval used here after the epoch.
constexpr Duration start = 1'700'000'000s;

const std::string table_header =
    "time\tsrc\tsport\tdst\tdport\tprotocol\tmethod\thost\ttarget\trule\tkey\tweight\tverdict\n";

const std::string login_rule = R"(
[[rule]]
name = "login"
match = { path = "/login" }
key = ["src_ip"]
limit = 3
interval = "1s"
cooldown = "2s"
)";

FrameBuilder request(std::string_view target, const std::string& source = "203.0.113.7") {
  return FrameBuilder()
      .ip(source, "198.51.100.1")
      .tcp(40000, 80)
      .payload(HttpText("GET", target).host("h").str());
}

std::string verdicts(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows)
    text += row.at("verdict") == "admit" ? 'A' : row.at("verdict") == "block" ? 'B' : '?';
  return text;
}

TEST_F(ReplayTable, HasOneLinePerRequestWithAllColumns) {
  PcapFile file;
  file.packet(start + 7ns, FrameBuilder()
                               .ip("203.0.113.7", "198.51.100.1")
                               .tcp(40000, 8080)
                               .payload(HttpText("POST", "/login?x=1").host("Example.com:8080").str()));
  std::vector<Row> rows;
  const Ran ran = play(file.str(), login_rule, rows);
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_EQ(ran.errors, "");
  EXPECT_EQ(test::read_file(path("table.tsv")),
            table_header +
                "1700000000.000000007\t203.0.113.7\t40000\t198.51.100.1\t8080\thttp/1.1\tPOST\t"
                "Example.com:8080\t/login?x=1\tlogin\tlogin|203.0.113.7\t1\tadmit\n");
}

TEST_F(ReplayTable, NamesTheRuleTheKeyAndTheWeightCharged) {
  const std::string config = R"(
[[rule]]
name = "everything"
limit = 100
interval = "1s"
weight = 5
[[rule]]
name = "by-key"
match = { path = "/api/{tenant}/**" }
key = ["path:tenant", "header:x-api-key"]
limit = 1
interval = "1s"
)";
  const auto api = [](std::string_view target) {
    return FrameBuilder().payload(HttpText("GET", target).header("X-Api-Key", "k 1|").str());
  };
  PcapFile file;
  file.packet(start, api("/api/t1/x"))
      .packet(start + 1ms, api("/api/t1/y"))
      .packet(start + 2ms, api("/other"));
  std::vector<Row> rows;
  ASSERT_EQ(play(file.str(), config, rows).status, 0);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["rule"], "everything") << "admitted: the first that applied";
  EXPECT_EQ(rows[0]["key"], "everything");
  EXPECT_EQ(rows[0]["weight"], "5");
  EXPECT_EQ(rows[1]["rule"], "by-key") << "refused: the one that did it";
  EXPECT_EQ(rows[1]["key"], "by-key|t1|k 1%7C");
  EXPECT_EQ(rows[1]["weight"], "1");
  EXPECT_EQ(rows[1]["verdict"], "block");
  EXPECT_EQ(rows[2]["rule"], "everything");
}

TEST_F(ReplayTable, WritesDashesForWhatIsNotThere) {
  PcapFile file;
  file.packet(start, FrameBuilder().ip("2001:db8::1", "2001:db8::2").payload("GET /x HTTP/1.0\r\n\r\n"));
  std::vector<Row> rows;
  ASSERT_EQ(play(file.str(), login_rule, rows).status, 0);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["src"], "2001:db8::1");
  EXPECT_EQ(rows[0]["protocol"], "http/1.0");
  EXPECT_EQ(rows[0]["host"], "-");
  EXPECT_EQ(rows[0]["rule"], "-");
  EXPECT_EQ(rows[0]["key"], "-");
  EXPECT_EQ(rows[0]["weight"], "1");
  EXPECT_EQ(rows[0]["verdict"], "admit");
}

TEST_F(ReplayTable, EncodesWhatWouldBreakItsLines) {
  PcapFile file;
  file.packet(start, FrameBuilder().payload("GET /\xc3\xa9%20 HTTP/1.1\r\nHost: a\tb\x01\r\n\r\n"));
  file.packet(start, FrameBuilder().payload("GET /x HTTP/1.1\r\nHost: -\r\n\r\n"));
  std::vector<Row> rows;
  ASSERT_EQ(play(file.str(), login_rule, rows).status, 0);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["target"], "/%C3%A9%20");
  EXPECT_EQ(rows[0]["host"], "a%09b%01");
  EXPECT_EQ(rows[1]["host"], "%2D") << "a dash that was sent";
}

TEST_F(ReplayTable, ListsPipelinedRequestsOneByOne) {
  PcapFile file;
  file.packet(start,
              FrameBuilder().payload(HttpText("GET", "/1").str() + HttpText("POST", "/2").body("abc").str() +
                                     HttpText("GET", "/3").str()));
  std::vector<Row> rows;
  const Ran ran = play(file.str(), login_rule, rows);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2]["target"], "/3");
  EXPECT_EQ(summary_number(ran.output, "requests"), 3u);
  EXPECT_EQ(summary_number(ran.output, "with requests"), 1u);
}

TEST_F(ReplayTable, WithoutRulesListsAllRequestsAsAdmitted) {
  PcapFile file;
  for (int i = 0; i < 10; ++i) file.packet(start, request("/login"));
  write("capture", file.str());
  const Ran ran = run("--rules-free --pcap capture --requests table.tsv");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  const auto rows = test::parse_table(test::read_file(path("table.tsv")));
  EXPECT_EQ(verdicts(rows), "AAAAAAAAAA");
  EXPECT_EQ(rows[0].at("rule"), "-");
  EXPECT_EQ(rows[0].at("weight"), "1");
  EXPECT_EQ(summary_number(ran.output, "requests"), 10u);
  EXPECT_EQ(ran.output.find("login"), std::string::npos);
}

// algorithm.md §3 for one node: the first L of an interval are admitted, the next one is the exceeding and
// begins the cooldown, which traffic neither shortens nor extends.
TEST_F(ReplayLimit, AdmitsTheLimitThenBlocksForTheCooldown) {
  PcapFile file;
  for (const Duration at : {100ms, 200ms, 300ms}) file.packet(start + at, request("/login"));
  for (const Duration at : {400ms, 900ms, 1000ms, 1500ms, 2399ms}) file.packet(start + at, request("/login"));
  file.packet(start + 2400ms - 1ns, request("/login"));
  for (const Duration at : {2400ms, 2500ms, 2600ms, 2700ms}) file.packet(start + at, request("/login"));
  std::vector<Row> rows;
  const Ran ran = play(file.str(), login_rule, rows);
  EXPECT_EQ(verdicts(rows),
            "AAA"
            "BBBBB"
            "B"
            "AAAB");
  EXPECT_EQ(summary_cells(ran.output, "login"), (std::vector<std::string>{"13", "6", "7", "1"}));
  EXPECT_EQ(summary_cells(ran.output, "login|203.0.113.7"),
            (std::vector<std::string>{"13", "6", "7", "blocked"}));
}

TEST_F(ReplayLimit, DoesNotTakeReachingTheLimitForExceedingIt) {
  PcapFile file;
  for (int interval = 0; interval < 20; ++interval) {
    for (int i = 0; i < 3; ++i) file.packet(start + interval * 1s + i * 300ms, request("/login"));
  }
  std::vector<Row> rows;
  const Ran ran = play(file.str(), login_rule, rows);
  EXPECT_EQ(verdicts(rows), std::string(60, 'A'));
  EXPECT_EQ(summary_cells(ran.output, "login|203.0.113.7"),
            (std::vector<std::string>{"60", "60", "0", "open"}));
}

TEST_F(ReplayLimit, BeginsAnIntervalExactlyAtItsBoundary) {
  PcapFile file;
  for (int i = 0; i < 3; ++i) file.packet(start + 1s - 1ns, request("/login"));
  for (int i = 0; i < 3; ++i) file.packet(start + 1s, request("/login"));
  std::vector<Row> rows;
  play(file.str(), login_rule, rows);
  EXPECT_EQ(verdicts(rows), "AAAAAA");
}

TEST_F(ReplayLimit, KeepsKeysApart) {
  PcapFile file;
  for (int i = 0; i < 4; ++i)
    file.packet(start + i * 1ms, request("/login")).packet(start + i * 1ms, request("/login", "203.0.113.8"));
  std::vector<Row> rows;
  play(file.str(), login_rule, rows);
  EXPECT_EQ(verdicts(rows), "AAAAAABB");
}

TEST_F(ReplayLimit, TellsHowManyRequestsFoundNoRoomForTheirKeys) {
  PcapFile file;
  for (int i = 0; i < 1000; ++i)
    file.packet(start, request("/login", "10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250)));
  std::vector<Row> rows;
  const Ran small = play(file.str(), "[node]\nkeys = 64\n" + login_rule, rows);
  EXPECT_EQ(small.status, 0) << "so does a node of that size";
  const std::uint64_t overflowed = summary_number(small.output, "without room for their keys");
  EXPECT_GT(overflowed, 0u);
  EXPECT_LE(overflowed, 1000u);
  EXPECT_EQ(small.errors, "weir-replay: " + std::to_string(overflowed) +
                              " requests found no room for their keys and may have been limited together "
                              "with others: raise [node] keys\n");

  const Ran large = play(file.str(), "[node]\nkeys = 4096\n" + login_rule, rows);
  EXPECT_EQ(large.status, 0);
  EXPECT_EQ(large.errors, "");
  EXPECT_EQ(summary_number(large.output, "without room for their keys"), 0u);
}

TEST_F(ReplayLimit, IsNotEvadedBySpellings) {
  PcapFile file;
  for (const auto target : {"/login", "//login", "/%6cogin?1", "/x/../login/", "/login/"})
    file.packet(start, request(target));
  std::vector<Row> rows;
  play(file.str(), login_rule, rows);
  EXPECT_EQ(verdicts(rows), "AAABB");
}

TEST_F(ReplayLimit, CountsWhatAnObservingRuleWouldHaveRefused) {
  PcapFile file;
  for (int i = 0; i < 5; ++i) file.packet(start + i * 1ms, request("/login"));
  std::vector<Row> rows;
  const Ran ran = play(file.str(), login_rule + "action = \"observe\"\n", rows);
  EXPECT_EQ(verdicts(rows), "AAAAA");
  EXPECT_EQ(summary_cells(ran.output, "login")[2], "2");
  EXPECT_EQ(summary_cells(ran.output, "login|203.0.113.7")[2], "2");
  EXPECT_EQ(summary_cells(ran.output, "login|203.0.113.7")[3], "blocked");
  EXPECT_EQ(summary_number(ran.output, "blocked"), 0u) << "no request was";
}

TEST_F(ReplayLimit, CountsWhatEachOfSeveralObservingRulesWouldHaveRefused) {
  const std::string config = R"(
[[rule]]
name = "drop"
key = ["src_ip"]
limit = 2
interval = "10ms"
cooldown = "5ms"
[[rule]]
name = "first"
key = ["src_ip"]
limit = 4
interval = "1s"
cooldown = "2s"
action = "observe"
[[rule]]
name = "second"
key = ["src_ip"]
limit = 3
interval = "1s"
cooldown = "2s"
action = "observe"
)";
  PcapFile file;
  for (const Duration at : {0ms, 1ms, 2ms, 20ms, 21ms, 40ms, 41ms}) file.packet(start + at, request("/"));
  std::vector<Row> rows;
  const Ran ran = play(file.str(), config, rows);
  EXPECT_EQ(verdicts(rows), "AABAAAA");
  using Cells = std::vector<std::string>;
  // Offered, admitted, blocked, keys blocked now; and of the only key its state.
  EXPECT_EQ(summary_cells(ran.output, "drop"), (Cells{"7", "6", "1", "0"}));
  EXPECT_EQ(summary_cells(ran.output, "drop|203.0.113.7"), (Cells{"7", "6", "1", "open"}));
  EXPECT_EQ(summary_cells(ran.output, "first"), (Cells{"7", "4", "2", "1"}));
  EXPECT_EQ(summary_cells(ran.output, "first|203.0.113.7"), (Cells{"7", "4", "2", "blocked"}));
  EXPECT_EQ(summary_cells(ran.output, "second"), (Cells{"7", "3", "3", "1"}));
  EXPECT_EQ(summary_cells(ran.output, "second|203.0.113.7"), (Cells{"7", "3", "3", "blocked"}));
}

TEST_F(ReplayLimit, ChargesNoRuleForWhatAnotherRefuses) {
  const std::string config = login_rule + "[[rule]]\nname = \"all\"\nlimit = 100\ninterval = \"1s\"\n";
  PcapFile file;
  for (int i = 0; i < 10; ++i) file.packet(start + i * 1ms, request("/login"));
  std::vector<Row> rows;
  const Ran ran = play(file.str(), config, rows);
  const auto cells = summary_cells(ran.output, "all");
  EXPECT_EQ(cells[0], "10");
  EXPECT_EQ(cells[1], "3");
  EXPECT_EQ(cells[2], "0");
}

TEST_F(ReplayLimit, DoesNotUseTheStoreOfTheConfiguration) {
  PcapFile file;
  for (int i = 0; i < 4; ++i) file.packet(start, request("/login"));
  std::vector<Row> rows;
  const Ran ran = play(file.str(), "[store]\nurl = \"redis://192.0.2.1:6379\"\n" + login_rule, rows);
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_EQ(verdicts(rows), "AAAB");
}

// The same, stated as a program of ten lines, against random traffic under several rules at once.
TEST_F(ReplayLimit, AgreesWithTheAlgorithmForOneNodeOnRandomTraffic) {
  constexpr unsigned seed = 31;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::string config = R"(
[[rule]]
name = "fast"
match = { path = "/fast" }
key = ["src_ip"]
limit = 5
interval = "70ms"
spans = 7
cooldown = "110ms"
[[rule]]
name = "slow"
match = { path = "/slow" }
key = ["src_ip"]
limit = 20
interval = "1s"
spans = 3
cooldown = "333ms"
)";
  struct Limit {
    std::uint64_t limit;
    Duration interval, cooldown;
  };
  const std::map<std::string, Limit> limits{{"/fast", {5, 70ms, 110ms}}, {"/slow", {20, 1s, 333ms}}};
  struct State {
    std::int64_t ordinal = -1;
    std::uint64_t admitted = 0;
    Duration blocked_until{};
  };
  std::map<std::pair<std::string, std::string>, State> states;
  std::string expected;
  PcapFile file;
  Duration now = start;
  for (int i = 0; i < 20000; ++i) {
    now += std::chrono::microseconds(random() % (random() % 500 == 0 ? 1'000'000 : 1500));
    const std::string target = random() % 2 == 0 ? "/fast" : "/slow";
    const std::string source = "10.0.0." + std::to_string(1 + random() % 12);
    file.packet(now, request(target, source));

    const Limit& limit = limits.at(target);
    State& state = states[{target, source}];
    if (const auto ordinal = now / limit.interval; ordinal != state.ordinal) {
      state.ordinal = ordinal;
      state.admitted = 0;
    }
    bool admit = now >= state.blocked_until;
    if (admit && state.admitted == limit.limit) {
      admit = false;
      state.blocked_until = now + limit.cooldown;
    }
    if (admit) ++state.admitted;
    expected += admit ? 'A' : 'B';
  }
  std::vector<Row> rows;
  const Ran ran = play(file.str(), config, rows);
  ASSERT_EQ(ran.status, 0) << ran.errors;
  const std::string found = verdicts(rows);
  ASSERT_EQ(found.size(), expected.size());
  const auto first = std::mismatch(found.begin(), found.end(), expected.begin());
  const auto at = static_cast<std::size_t>(first.first - found.begin());
  EXPECT_EQ(found, expected) << "first difference at request " << at << ", "
                             << rows[std::min(at, rows.size() - 1)]["time"];
  EXPECT_GT(std::count(expected.begin(), expected.end(), 'B'), 1000) << "or this shows little";

  // And the tables agree with one another.
  std::map<std::string, std::array<std::uint64_t, 3>> by_rule, by_key;
  for (const Row& row : rows) {
    const std::size_t which = row.at("verdict") == "admit" ? 1 : 2;
    for (auto* sums : {&by_rule[row.at("rule")], &by_key[row.at("key")]}) {
      ++(*sums)[0];
      ++(*sums)[which];
    }
  }
  const Ran all_keys = run("--config config.toml --pcap capture --top 1000");
  for (const auto& [sums_by, label] : {std::pair{by_rule, "rule"}, std::pair{by_key, "key"}}) {
    for (const auto& [name, sums] : sums_by) {
      const auto cells = summary_cells(all_keys.output, name);
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_EQ(cells[i], std::to_string(sums[i])) << label << " " << name;
    }
  }
  EXPECT_EQ(summary_number(ran.output, "requests"), rows.size());
  EXPECT_EQ(summary_number(ran.output, "admitted"),
            static_cast<std::uint64_t>(std::count(expected.begin(), expected.end(), 'A')));
}

TEST_F(ReplayTime, RunsTwiceToTheSameBytes) {
  PcapFile file;
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i)
    file.packet(start + i * 1ms, request("/login", "10.0." + std::to_string(random() % 8) + ".1"));
  std::vector<Row> rows;
  const Ran first = play(file.str(), login_rule, rows);
  const std::string first_table = test::read_file(path("table.tsv"));
  const Ran second = play(file.str(), login_rule, rows);
  EXPECT_EQ(first.output, second.output);
  EXPECT_EQ(first_table, test::read_file(path("table.tsv")));
}

TEST_F(ReplayTime, NeverGoesBack) {
  PcapFile file;
  for (const Duration at : {5000ms, 5001ms, 5002ms, 5003ms}) file.packet(start + at, request("/login"));
  // An hour ago: no new interval, no end of the block.
  file.packet(start - 3600s, request("/login")).packet(start + 5004ms, request("/login"));
  file.packet(start + 7003ms, request("/login"));
  std::vector<Row> rows;
  const Ran ran = play(file.str(), login_rule, rows);
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_EQ(verdicts(rows), "AAABBBA");
  EXPECT_EQ(rows[4]["time"], "1699996400.000000000") << "the packet's own time, as it stands in the capture";
  EXPECT_NE(ran.output.find("steps back at 1 packets"), std::string::npos) << ran.output;
}

TEST_F(ReplayTime, JumpsOverPausesOfYears) {
  PcapFile file;
  const auto burst = [&](Duration at) {
    for (int i = 0; i < 5; ++i) file.packet(at + i * 1us, request("/login"));
  };
  burst(1s);
  burst(start);
  burst(start + 10 * 365 * 24h);
  const std::string config = R"(
[[rule]]
name = "login"
match = { path = "/login" }
key = ["src_ip"]
limit = 3
interval = "10ms"
spans = 10
[[rule]]
name = "year"
limit = 1000
interval = "366d"
spans = 1000
)";
  std::vector<Row> rows;
  const Ran ran = play(file.str(), config, rows);
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_EQ(verdicts(rows), "AAABBAAABBAAABB");
}

TEST_F(ReplayCapture, ReadsPcapngAsPcap) {
  PcapFile pcap;
  PcapngFile pcapng;
  for (int i = 0; i < 5; ++i) {
    pcap.packet(start + i * 100ms + 1ns, request("/login"));
    pcapng.packet(start + i * 100ms + 1ns, request("/login"));
  }
  std::vector<Row> from_pcap, from_pcapng;
  const Ran first = play(pcap.str(), login_rule, from_pcap);
  const Ran second = play(pcapng.str(), login_rule, from_pcapng);
  EXPECT_EQ(second.status, 0) << second.errors;
  EXPECT_EQ(from_pcap, from_pcapng);
  EXPECT_EQ(verdicts(from_pcapng), "AAABB");
  EXPECT_EQ(first.output, second.output);
}

TEST_F(ReplayCapture, ReadsOtherLinkTypesAsEthernet) {
  const std::string frame = text_of(request("/login").build());
  const std::string packet = frame.substr(14);
  const std::string packet6 =
      text_of(
          FrameBuilder().ip("2001:db8::1", "2001:db8::2").payload(HttpText("GET", "/login").str()).build())
          .substr(14);
  const std::string cooked = "\0\0\0\1\0\6\2\0\0\0\0\1\0\0"s;
  const std::string cooked2 = "\0\0\0\0\0\2\0\1\0\6\2\0\0\0\0\1\0\0"s;
  struct {
    std::uint32_t type;
    std::string bytes;
    const char* source;
  } const cases[] = {
      {101, packet, "203.0.113.7"},
      {101, packet6, "2001:db8::1"},
      {228, packet, "203.0.113.7"},
      {229, packet6, "2001:db8::1"},
      {0, "\2\0\0\0"s + packet, "203.0.113.7"},
      {113, cooked + "\x08\x00"s + packet, "203.0.113.7"},
      {113, cooked + "\x86\xdd"s + packet6, "2001:db8::1"},
      {276, "\x08\x00"s + cooked2 + packet, "203.0.113.7"},
      {276, "\x86\xdd"s + cooked2 + packet6, "2001:db8::1"},
  };
  for (const auto& one : cases) {
    std::vector<Row> rows;
    const Ran ran = play(PcapFile(one.type).packet(start, one.bytes).str(), login_rule, rows);
    EXPECT_EQ(ran.status, 0) << one.type << ": " << ran.errors;
    ASSERT_EQ(rows.size(), 1u) << one.type;
    EXPECT_EQ(rows[0]["src"], one.source) << one.type;
    for (const std::size_t length : {0u, 3u, 13u, 39u}) {
      const Ran cut =
          play(PcapFile(one.type).packet(start, one.bytes.substr(0, length), 60).str(), login_rule, rows);
      ASSERT_EQ(cut.status, 0) << one.type << " of " << length;
      EXPECT_TRUE(rows.empty());
    }
  }
}

TEST_F(ReplayCapture, RefusesOtherLinkTypesWithAReason) {
  std::vector<Row> rows;
  write("config.toml", login_rule);
  write("capture", PcapFile(105).packet(start, "x").str());
  const Ran ran = run("--config config.toml --pcap capture");
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.errors.find("capture: link type 802.11 is not supported; Ethernet,"), std::string::npos)
      << ran.errors;
}

TEST_F(ReplayCapture, TellsPacketsOfAllKindsApart) {
  PcapFile file;
  file.packet(start, request("/login"));
  file.packet(start, FrameBuilder());
  file.packet(start, FrameBuilder().payload("\x16\x03\x01 not a request"));
  file.packet(start, request("/login").flags(tcp_rst | tcp_ack));  // which no server answers
  file.packet(start, FrameBuilder().fragment(0, true).payload("x"));
  file.packet(start, FrameBuilder().protocol(17).payload("x"));
  file.packet(start, FrameBuilder().protocol(1).payload("x"));
  file.packet(start, FrameBuilder().lie_ethertype(0x0806));
  for (int i = 0; i < 3; ++i) file.packet(start, FrameBuilder().lie_ip_length(9000));
  file.packet(start, "");
  std::vector<Row> rows;
  const Ran ran = play(file.str(), login_rule, rows);
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_EQ(rows.size(), 1u);
  EXPECT_EQ(summary_number(ran.output, "packets"), 12u);
  EXPECT_EQ(summary_number(ran.output, "tcp"), 4u);
  EXPECT_EQ(summary_number(ran.output, "with requests"), 1u);
  EXPECT_EQ(summary_number(ran.output, "with other payload"), 2u);
  EXPECT_EQ(summary_number(ran.output, "without payload"), 1u);
  EXPECT_EQ(summary_number(ran.output, "fragment"), 1u);
  EXPECT_EQ(summary_number(ran.output, "other transport"), 2u);
  EXPECT_EQ(summary_number(ran.output, "not IP"), 1u);
  EXPECT_EQ(summary_number(ran.output, "malformed"), 4u);
  EXPECT_EQ(summary_number(ran.output, "truncated by the capture"), 0u);
}

TEST_F(ReplayCapture, FindsRequestsInPacketsThatWereNotCapturedWhole) {
  const std::string frame = text_of(request("/login").build());
  const std::size_t head = 54;
  const std::size_t line = frame.find("\r\n") + 2;
  PcapFile file;
  file.packet(start, std::string_view(frame).substr(0, frame.size() - 1),
              frame.size());                                                  // the headers' end is missing
  file.packet(start, std::string_view(frame).substr(0, line), frame.size());  // just the request line
  file.packet(start, std::string_view(frame).substr(0, line - 1), frame.size());  // less
  file.packet(start, std::string_view(frame).substr(0, head), frame.size());
  file.packet(start, std::string_view(frame).substr(0, 20), frame.size());
  std::vector<Row> rows;
  const Ran ran = play(file.str(), login_rule, rows);
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_EQ(rows.size(), 2u);
  EXPECT_EQ(summary_number(ran.output, "truncated by the capture"), 5u);
  EXPECT_EQ(summary_number(ran.output, "with cut-off headers"), 2u);
}

TEST_F(ReplayCapture, OfNothingButAHeaderIsGood) {
  std::vector<Row> rows;
  for (const std::string& file : {PcapFile().str(), PcapngFile().str()}) {
    const Ran ran = play(file, login_rule, rows);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    EXPECT_NE(ran.output.find("packets: none"), std::string::npos);
    EXPECT_TRUE(rows.empty());
  }
}

TEST_F(ReplayCapture, ThatIsNoneIsRefusedWithAReason) {
  write("config.toml", login_rule);
  struct {
    std::string bytes;
    std::string reason;
  } const cases[] = {
      {"", "capture: truncated dump file"},
      {"abc", "capture: truncated dump file"},
      {std::string(100, 'x'), "capture: unknown file format"},
      {PcapFile().str().substr(0, 20), "capture: truncated dump file"},
  };
  for (const auto& one : cases) {
    write("capture", one.bytes);
    const Ran ran = run("--config config.toml --pcap capture");
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.errors.find(one.reason), std::string::npos) << ran.errors;
    EXPECT_EQ(ran.output, "");
  }
  const Ran missing = run("--config config.toml --pcap missing");
  EXPECT_EQ(missing.status, 1);
  EXPECT_NE(missing.errors.find("missing: No such file"), std::string::npos) << missing.errors;
}

TEST_F(ReplayCapture, BrokenInTheMiddleIsSummarisedUpToThere) {
  PcapFile file;
  for (int i = 0; i < 5; ++i) file.packet(start + i * 1ms, request("/login"));
  std::vector<Row> rows;
  const Ran ran = play(std::string_view(file.str()).substr(0, file.str().size() - 1), login_rule, rows);
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.errors.find("capture: packet 5: truncated dump file"), std::string::npos) << ran.errors;
  EXPECT_EQ(verdicts(rows), "AAAB");
  EXPECT_EQ(summary_cells(ran.output, "login")[0], "4");
}

TEST_F(ReplayCapture, WithImpossibleValuesIsBroken) {
  const std::string good = text_of(request("/login").build());
  const std::string before = PcapFile().packet(start, good).str();
  const auto with = [&](std::uint64_t nanoseconds, std::uint64_t captured, std::uint64_t on_wire) {
    return before +
           test::Blob().u32(1'700'000'001).u32(nanoseconds).u32(captured).u32(on_wire).bytes(good).str();
  };
  const std::string cases[] = {with(1'000'000'000, good.size(), good.size()), with(0, 0xffffffff, 0xffffffff),
                               with(0, 300'000, 300'000), with(0, good.size(), 0xffffffff)};
  for (const std::string& file : cases) {
    std::vector<Row> rows;
    const Ran ran = play(file, login_rule, rows);
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.errors.find("capture: packet 2: "), std::string::npos) << ran.errors;
    EXPECT_EQ(rows.size(), 1u);
  }
}

TEST_F(ReplayCommandLine, ExplainsItself) {
  const Ran help = run("--help");
  EXPECT_EQ(help.status, 0);
  for (const auto option :
       {"--config", "--pcap", "--requests", "--rules-free", "--top", "--csv", "--rule", "--version"})
    EXPECT_NE(help.output.find(option), std::string::npos) << option;
  const Ran version = run("--version");
  EXPECT_EQ(version.status, 0);
  EXPECT_TRUE(version.output.starts_with("weir-replay 0.")) << version.output;
}

TEST_F(ReplayCommandLine, SaysWhatIsWrong) {
  write("capture", PcapFile().str());
  write("config.toml", login_rule);
  write("bad.toml", "[[rule]]\nname = \"x\"\nlimit = 0\ninterval = \"1s\"\n");
  struct {
    std::string arguments;
    std::string message;
  } const cases[] = {
      {"", "--pcap or --csv is required"},
      {"--pcap capture", "--config or --rules-free is required"},
      {"--pcap capture --config", "--config"},
      {"--pcap capture --rules-free --frobnicate", "--frobnicate"},
      {"--pcap capture --rules-free extra", "extra"},
      {"--pcap capture --rules-free --top many", "many"},
      {"--pcap capture --rules-free --top -1", "--top"},
      {"--pcap capture --rules-free --top=-1", "--top: must be a whole number"},
      {"--pcap capture --rules-free --top 99999999999999999999", "--top: must be a whole number"},
      {"--pcap capture --rules-free --top ''", "--top: must be a whole number"},
      {"--pcap capture --rules-free --requests -", "the standard output has the summary"},
      {"--pcap capture --config missing.toml", "missing.toml"},
      {"--pcap capture --config bad.toml", "bad.toml:3:"},
  };
  for (const auto& one : cases) {
    const Ran ran = run(one.arguments);
    EXPECT_EQ(ran.status, 2) << one.arguments;
    EXPECT_NE(ran.errors.find(one.message), std::string::npos) << one.arguments << ": " << ran.errors;
    EXPECT_EQ(ran.output, "") << one.arguments;
  }
  const Ran unwritable = run("--pcap capture --config config.toml --requests missing/table.tsv");
  EXPECT_EQ(unwritable.status, 1);
  EXPECT_NE(unwritable.errors.find("missing/table.tsv: No such file"), std::string::npos)
      << unwritable.errors;
}

TEST_F(ReplayCommandLine, NoticesThatTheTableCannotBeWritten) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  PcapFile file;
  for (int i = 0; i < 3; ++i) file.packet(start, request("/login"));
  write("capture", file.str());
  const Ran ran = run("--pcap capture --rules-free --requests /dev/full");
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.errors.find("/dev/full: could not be written"), std::string::npos) << ran.errors;
}

TEST_F(ReplayCommandLine, WritesNoTableOverWhatItReads) {
  const std::string capture = PcapFile().packet(start, request("/login")).str();
  const std::string list = "time_ms,key\n0,a\n";
  const auto write_all = [&] {
    write("capture", capture);
    write("config.toml", login_rule);
    write("list.csv", list);
  };
  write_all();
  std::filesystem::create_symlink("capture", path("symbolic"));
  std::filesystem::create_hard_link(path("capture"), path("hard"));
  const struct {
    std::string arguments;
    std::string read;
  } cases[] = {
      {"--rules-free --pcap capture --requests capture", "capture"},
      {"--rules-free --pcap capture --requests ./capture", "capture"},
      {"--rules-free --pcap capture --requests symbolic", "capture"},
      {"--rules-free --pcap capture --requests hard", "capture"},
      {"--rules-free --pcap - --requests capture <capture", "the standard input"},
      {"--config config.toml --pcap capture --requests config.toml", "config.toml"},
      {"--config config.toml --csv list.csv --rule login --requests list.csv", "list.csv"},
      {"--config config.toml --csv - --rule login --requests list.csv <list.csv", "the standard input"},
  };
  for (const auto& one : cases) {
    const Ran ran = run(one.arguments);
    EXPECT_EQ(ran.status, 2) << one.arguments;
    EXPECT_EQ(ran.output, "") << one.arguments;
    EXPECT_NE(ran.errors.find("--requests would write over " + one.read), std::string::npos)
        << one.arguments << ": " << ran.errors;
    EXPECT_EQ(test::read_file(path("capture")), capture) << one.arguments;
    EXPECT_EQ(test::read_file(path("config.toml")), login_rule) << one.arguments;
    EXPECT_EQ(test::read_file(path("list.csv")), list) << one.arguments;
    write_all();
  }
  // What is no file has nothing that could be lost.
  EXPECT_EQ(run("--config config.toml --csv - --rule login --requests /dev/null </dev/null").status, 1);
  EXPECT_EQ(run("--rules-free --pcap capture --requests table.tsv").status, 0);
}

TEST_F(ReplayCommandLine, ReadsTheStandardInput) {
  write("capture", PcapFile().packet(start, request("/login")).str());
  const Ran ran = run("--rules-free --pcap - <capture");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_EQ(summary_number(ran.output, "requests"), 1u);
}

TEST_F(ReplayCommandLine, ShowsAsManyKeysAsAsked) {
  PcapFile file;
  for (int i = 0; i < 30; ++i)
    for (int k = 0; k <= i; ++k) file.packet(start, request("/login", "10.0.0." + std::to_string(1 + i)));
  write("capture", file.str());
  write("config.toml", login_rule);
  const auto keys_shown = [](const std::string& text) {
    std::size_t count = 0;
    for (const auto& line : test::split(text, '\n')) count += line.starts_with("login|") ? 1 : 0;
    return count;
  };
  const Ran twenty = run("--config config.toml --pcap capture");
  EXPECT_EQ(keys_shown(twenty.output), 20u);
  EXPECT_NE(twenty.output.find("10 more keys"), std::string::npos);
  EXPECT_LT(twenty.output.find("login|10.0.0.30 "), twenty.output.find("login|10.0.0.29 "))
      << "the heaviest first";
  EXPECT_EQ(keys_shown(run("--config config.toml --pcap capture --top 3").output), 3u);
  EXPECT_EQ(keys_shown(run("--config config.toml --pcap capture --top 0").output), 0u);
}

}  // namespace
}  // namespace weir
