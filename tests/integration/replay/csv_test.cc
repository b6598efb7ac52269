// SPDX-License-Identifier: BSD-3-Clause
// Lists of requests: their form, the table of decisions, and every algorithm against a model of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "csv_file.h"
#include "decision_table.h"
#include "program.h"
#include "rule_replay.h"
#include "weir/config.h"

namespace weir::replay {
namespace {

using namespace std::chrono_literals;
using test::Ran;
using test::Row;

/// A whole number of every interval used here after the epoch.
constexpr Duration start = 1'700'000'000s;

std::uint64_t seed() {
  const char* text = std::getenv("WEIR_TEST_SEED");
  return text == nullptr ? 20240611 : std::strtoull(text, nullptr, 10);
}

// ---- the list

struct List {
  std::vector<CsvRequest> requests;
  std::string error;
};

List read_list(const std::string& text) {
  std::istringstream in(text);
  List list;
  CsvFile file;
  list.error = file.read(in, "l.csv");
  for (CsvRequest request; list.error.empty() && file.next(request);) list.requests.push_back(request);
  if (list.error.empty()) list.error = file.error();
  return list;
}

TEST(CsvFile, ReadsTimesKeysAndWeights) {
  const List list = read_list("time_ms,key,weight\n0,a,1\n1700000000000.25,b c,0\n1.000001,,4294967295\n");
  ASSERT_EQ(list.error, "");
  ASSERT_EQ(list.requests.size(), 3u);
  EXPECT_EQ(list.requests[0].time.time_since_epoch(), 0ns);
  EXPECT_EQ(list.requests[0].key, "a");
  EXPECT_EQ(list.requests[0].weight, 1u);
  EXPECT_EQ(list.requests[1].time.time_since_epoch(), 1'700'000'000s + 250us);
  EXPECT_EQ(list.requests[1].key, "b c");
  EXPECT_EQ(list.requests[1].weight, 0u);
  EXPECT_EQ(list.requests[2].time.time_since_epoch(), 1ms + 1ns);
  EXPECT_EQ(list.requests[2].key, "");
  EXPECT_EQ(list.requests[2].weight, 4294967295u);
}

TEST(CsvFile, WithoutWeightsHasRequestsOfWeightOne) {
  const List list = read_list("time_ms,key\n1,a\n2,b");
  ASSERT_EQ(list.error, "");
  ASSERT_EQ(list.requests.size(), 2u);
  EXPECT_EQ(list.requests[1].key, "b") << "the last line needs no end";
  EXPECT_EQ(list.requests[1].weight, 1u);
}

TEST(CsvFile, ReadsQuotedFields) {
  const List list =
      read_list("\"time_ms\",\"key\"\n\"1\",\"a,b\"\n2,\"say \"\"hi\"\"\"\n3,\"two\r\nlines\"\n4,\"\"\n");
  ASSERT_EQ(list.error, "");
  ASSERT_EQ(list.requests.size(), 4u);
  EXPECT_EQ(list.requests[0].key, "a,b");
  EXPECT_EQ(list.requests[1].key, "say \"hi\"");
  EXPECT_EQ(list.requests[2].key, "two\r\nlines");
  EXPECT_EQ(list.requests[3].key, "");
}

TEST(CsvFile, BearsWhatSpreadsheetsAndEditorsWrite) {
  const List list = read_list("\xef\xbb\xbftime_ms,key\r\n1,a\r\n\r\n2,\"b\"\r\n\n");
  ASSERT_EQ(list.error, "");
  ASSERT_EQ(list.requests.size(), 2u);
  EXPECT_EQ(list.requests[0].key, "a");
  EXPECT_EQ(list.requests[1].key, "b");
}

TEST(CsvFile, TellsWhereAndWhatIsWrong) {
  const std::string long_key(2'000'000, 'x');
  const struct {
    std::string text;
    std::string error;
  } cases[] = {
      {"", "l.csv:1: the first line must be the header time_ms,key or time_ms,key,weight"},
      {"1,a\n", "l.csv:1: the first line must be the header time_ms,key or time_ms,key,weight"},
      {"key,time_ms\n", "l.csv:1: the first line must be the header time_ms,key or time_ms,key,weight"},
      {"time_ms,key,weight,colour\n",
       "l.csv:1: the first line must be the header time_ms,key or time_ms,key,weight"},
      {"time_ms,key\n1,a\n2,b,c\n",
       "l.csv:3: there are 3 fields, and the header has 2 (a key with a comma in it must be quoted)"},
      {"time_ms,key,weight\n1,a\n",
       "l.csv:2: there are 2 fields, and the header has 3 (a key with a comma in it must be quoted)"},
      {"time_ms,key\n1,\"a\n\nb\"\n-2,c\n",
       "l.csv:5: time_ms must be a number of milliseconds since 1970, such as 1700000000000 or 0.25, not "
       "'-2'"},
      {"time_ms,key\n1e3,c\n",
       "l.csv:2: time_ms must be a number of milliseconds since 1970, such as "
       "1700000000000 or 0.25, not '1e3'"},
      {"time_ms,key\n,c\n",
       "l.csv:2: time_ms must be a number of milliseconds since 1970, such as "
       "1700000000000 or 0.25, not ''"},
      {"time_ms,key\n1.,c\n",
       "l.csv:2: time_ms must be a number of milliseconds since 1970, such as "
       "1700000000000 or 0.25, not '1.'"},
      {"time_ms,key\n1.0000001,c\n",
       "l.csv:2: time_ms of '1.0000001' is finer than a nanosecond (six decimals)"},
      {"time_ms,key\n9000000000001,c\n",
       "l.csv:2: time_ms must be from 0 to 9000000000000, not '9000000000001'"},
      {"time_ms,key\n99999999999999999999,c\n",
       "l.csv:2: time_ms must be from 0 to 9000000000000, not '99999999999999999999'"},
      {"time_ms,key,weight\n1,c,-1\n",
       "l.csv:2: weight must be a whole number from 0 to 4294967295, not '-1'"},
      {"time_ms,key,weight\n1,c,1.5\n",
       "l.csv:2: weight must be a whole number from 0 to 4294967295, not '1.5'"},
      {"time_ms,key,weight\n1,c,\n", "l.csv:2: weight must be a whole number from 0 to 4294967295, not ''"},
      {"time_ms,key,weight\n1,c,4294967296\n",
       "l.csv:2: weight must be a whole number from 0 to 4294967295, not '4294967296'"},
      {"time_ms,key\n1,a\"b\n",
       "l.csv:2: a field with a quote in it must be quoted as a whole, and its quotes doubled"},
      {"time_ms,key\n1,\"a\"b\n", "l.csv:2: behind a quoted field must stand a comma or the line's end"},
      {"time_ms,key\n1,a\n2,\"b\n3,c\n", "l.csv:3: a quote that is opened here is not closed"},
      {"time_ms,key\n1," + long_key + "\n", "l.csv:2: the line is longer than 1 MiB"},
      {"time_ms,key\n1,\"" + long_key + "\"\n",
       "l.csv:2: the line is longer than 1 MiB; is a quote not closed?"},
      {"time_ms,key\n\x1b[2J,c\n",
       "l.csv:2: time_ms must be a number of milliseconds since 1970, such as "
       "1700000000000 or 0.25, not '?[2J'"},
  };
  for (const auto& one : cases) EXPECT_EQ(read_list(one.text).error, one.error) << one.text.substr(0, 100);
}

TEST(CsvFile, BrokenInTheMiddleIsReadUpToThere) {
  const List list = read_list("time_ms,key\n1,a\n2,b\nthree,c\n4,d\n");
  EXPECT_EQ(list.requests.size(), 2u);
  EXPECT_TRUE(list.error.starts_with("l.csv:4: ")) << list.error;
}

TEST(CsvFile, MayGoBackAndForthAsLongAsAMonotonicClockCanFollow) {
  const List whole = read_list("time_ms,key\n0,a\n9000000000000,a\n0,a\n0,a\n");
  EXPECT_EQ(whole.error, "");
  EXPECT_EQ(whole.requests.size(), 4u);
  // Where the list begins is no step.
  const List halves =
      read_list("time_ms,key\n5,a\n4500000000005,a\n0,a\n4500000000000,a\n7,a\n7.000001,a\n7,a\n");
  EXPECT_EQ(halves.error,
            "l.csv:7: time goes back and forth, and all steps forward come to more than 9000000000000 ms");
  EXPECT_EQ(halves.requests.size(), 5u);
}

TEST(CsvFile, OfAnyBytesGivesRequestsOrAnErrorWithItsLine) {
  std::mt19937_64 random(seed());
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed()));
  const std::string valid = "time_ms,key,weight\n1,a,1\n2.5,\"b,\"\"c\"\"\",0\r\n3,d,7\n";
  constexpr std::string_view pieces[] = {"\"", ",", "\n", "\r\n", "\"\"", "9", ".", "-", "\0", "\xff"};
  std::size_t broken = 0;
  for (int run = 0; run < 5000; ++run) {
    std::string text = valid;
    for (std::uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
      const std::size_t at = random() % (text.size() + 1);
      if (random() % 2 == 0)
        text.insert(at, pieces[random() % std::size(pieces)]);
      else
        text.erase(at, random() % 5);
    }
    const List list = read_list(text);
    EXPECT_LE(list.requests.size(), 64u);
    if (!list.error.empty()) {
      ++broken;
      EXPECT_TRUE(list.error.starts_with("l.csv:")) << list.error << "\n" << text;
    }
  }
  EXPECT_GT(broken, 100u);
  EXPECT_LT(broken, 5000u);
}

TEST(MillisecondsText, IsExactAndAsShortAsItCanBe) {
  EXPECT_EQ(milliseconds_text(0ns), "0");
  EXPECT_EQ(milliseconds_text(1ns), "0.000001");
  EXPECT_EQ(milliseconds_text(1500us), "1.5");
  EXPECT_EQ(milliseconds_text(20ms), "20");
  EXPECT_EQ(milliseconds_text(1'700'000'000s + 10us), "1700000000000.01");
}

// ---- the table

TEST(DecisionTable, EscapesWhatWouldBreakItsLines) {
  EXPECT_EQ(key_text("a b|,\"é"), "a b|,\"é");
  EXPECT_EQ(key_text("a\tb\nc\rd\\e"), "a\\tb\\nc\\rd\\\\e");
}

TEST(DecisionTable, SaysWhatAppliesAndMinusOneWhereNothingDoes) {
  std::ostringstream out;
  DecisionTable table;
  table.write_to(out, 3);
  CsvRequest request{.time = WallTime(1500us), .key = "a\tb", .weight = 2};
  Decision decision;
  decision.remaining = 7;
  decision.reset_after = 250ms;
  table.add(request, decision);
  decision.verdict = Verdict::block;
  decision.remaining = 0;
  decision.retry_after = 1us;
  table.add(request, decision);
  decision.retry_after = Duration::max();
  request.weight = 0;
  table.add(request, decision);
  EXPECT_EQ(table.close(), "");
  EXPECT_EQ(out.str(),
            "time_ms\tkey\tweight\tverdict\tremaining\tretry_after_ms\treset_after_ms\n"
            "1.5\ta\\tb\t6\tadmit\t2\t-1\t250\n"
            "1.5\ta\\tb\t6\tblock\t0\t0.001\t250\n"
            "1.5\ta\\tb\t0\tblock\t0\t-1\t250\n");
}

// ---- the program

using ReplayList = test::ReplayProgram;

const std::string rules = R"(
[[rule]]
name = "other"
limit = 1
interval = "1s"
[[rule]]
name = "login"
match = { path = "/login" }
key = ["src_ip"]
limit = 3
interval = "1s"
cooldown = "2s"
)";

TEST_F(ReplayList, IsDecidedByOneRuleAndWrittenToStandardOutput) {
  write("config.toml", rules);
  write("l.csv",
        "time_ms,key,weight\n5000,a,1\n5000.5,b,2\n5001,a,1\n5002,a,1\n5003,a,1\n7002.5,a,1\n7003,a,1\n");
  const Ran ran = run("--config config.toml --csv l.csv --rule login");
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.errors, "");
  EXPECT_EQ(ran.output,
            "time_ms\tkey\tweight\tverdict\tremaining\tretry_after_ms\treset_after_ms\n"
            "5000\ta\t1\tadmit\t2\t-1\t1000\n"
            "5000.5\tb\t2\tadmit\t1\t-1\t999.5\n"
            "5001\ta\t1\tadmit\t1\t-1\t999\n"
            "5002\ta\t1\tadmit\t0\t-1\t998\n"
            "5003\ta\t1\tblock\t0\t2000\t2000\n"
            "7002.5\ta\t1\tblock\t0\t0.5\t997.5\n"
            "7003\ta\t1\tadmit\t2\t-1\t997\n");
}

TEST_F(ReplayList, IsWrittenWhereAskedAndNothingElseIsSaid) {
  write("config.toml", rules);
  write("l.csv", "time_ms,key\n1,a\n");
  const Ran shown = run("-c config.toml --csv l.csv --rule other");
  const Ran ran = run("-c config.toml --csv - --rule other --requests out.tsv <l.csv");
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.output, "");
  EXPECT_EQ(test::read_file(path("out.tsv")), shown.output);
  EXPECT_EQ(test::parse_table(shown.output).size(), 1u);
}

TEST_F(ReplayList, CountsWeightsAsTheRuleDoesAndRemainingInRequests) {
  write("config.toml", "[[rule]]\nname = \"r\"\nlimit = 100\ninterval = \"1s\"\nweight = 7\n");
  write("l.csv", "time_ms,key,weight\n0,a,1\n0,a,2\n");
  const auto rows = test::parse_table(run("--config config.toml --csv l.csv --rule r").output);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("weight"), "7");
  EXPECT_EQ(rows[0].at("remaining"), "13") << "93 / 7";
  EXPECT_EQ(rows[1].at("weight"), "14");
  EXPECT_EQ(rows[1].at("remaining"), "11");
}

TEST_F(ReplayList, LetsAnObservingRuleSayWhatItWouldRefuse) {
  write("config.toml", "[[rule]]\nname = \"r\"\nlimit = 1\ninterval = \"1s\"\naction = \"observe\"\n");
  write("l.csv", "time_ms,key\n0,a\n0,a\n");
  const auto rows = test::parse_table(run("--config config.toml --csv l.csv --rule r").output);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].at("verdict"), "block");
  EXPECT_EQ(rows[1].at("retry_after_ms"), "1000");
}

TEST_F(ReplayList, KeysAreAnyBytes) {
  write("config.toml", rules);
  write("l.csv", "time_ms,key\n0,\"tab\there, line\nthere, back\\slash\"\n0,\xff\xfe\n0,tab\n");
  const Ran ran = run("--config config.toml --csv l.csv --rule other");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  const auto table = test::parse_table(ran.output);
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(table[0].at("key"), "tab\\there, line\\nthere, back\\\\slash");
  EXPECT_EQ(table[1].at("key"), "\xff\xfe");
  for (const Row& row : table) EXPECT_EQ(row.at("verdict"), "admit") << "three different keys";
}

TEST_F(ReplayList, OfMoreKeysThanTheNodeHasRoomForIsSaidToBeDecidedWrongly) {
  std::string list = "time_ms,key\n";
  for (int key = 0; key < 1000; ++key) list += "0,k" + std::to_string(key) + "\n";
  write("l.csv", list);
  write("small.toml", "[node]\nkeys = 64\n" + rules);
  const Ran small = run("--config small.toml --csv l.csv --rule login");
  EXPECT_EQ(small.status, 1);
  EXPECT_TRUE(small.errors.starts_with("weir-replay: ")) << small.errors;
  EXPECT_TRUE(
      small.errors.ends_with(" requests found no room for their keys and may have been limited together with "
                             "others: raise [node] keys\n"))
      << small.errors;
  const auto table = test::parse_table(small.output);
  ASSERT_EQ(table.size(), 1000u);
  EXPECT_TRUE(std::ranges::any_of(table, [](const Row& row) { return row.at("verdict") == "block"; }));

  write("large.toml", "[node]\nkeys = 4096\n" + rules);
  const Ran large = run("--config large.toml --csv l.csv --rule login");
  EXPECT_EQ(large.status, 0);
  EXPECT_EQ(large.errors, "");
  for (const Row& row : test::parse_table(large.output)) EXPECT_EQ(row.at("remaining"), "2");
}

TEST_F(ReplayList, ThatIsBrokenIsDecidedUpToThere) {
  write("config.toml", rules);
  write("l.csv", "time_ms,key\n0,a\nnow,a\n0,a\n");
  const Ran ran = run("--config config.toml --csv l.csv --rule other");
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(test::parse_table(ran.output).size(), 1u);
  EXPECT_TRUE(ran.errors.starts_with("weir-replay: l.csv:3: time_ms must be a number")) << ran.errors;
  EXPECT_TRUE(ran.errors.ends_with("; the decisions cover what stands before it\n")) << ran.errors;
}

TEST_F(ReplayList, ThatSwingsBetweenTheEndsOfTimeIsDecidedUpToTheSecondSwing) {
  write("config.toml", rules);
  std::string list = "time_ms,key\n";
  for (int swing = 0; swing < 5; ++swing) list += "0,a\n9000000000000,a\n";
  write("l.csv", list);
  const Ran ran = run("--config config.toml --csv l.csv --rule login");
  EXPECT_EQ(ran.status, 1);
  const auto table = test::parse_table(ran.output);
  EXPECT_EQ(table.size(), 3u);
  for (const Row& row : table) EXPECT_EQ(row.at("verdict"), "admit");
  EXPECT_EQ(ran.errors,
            "weir-replay: l.csv:5: time goes back and forth, and all steps forward come to more than "
            "9000000000000 ms; the decisions cover what stands before it\n");
}

TEST_F(ReplayList, SaysWhatIsWrongWithItsCommandLine) {
  write("config.toml", rules);
  write("l.csv", "time_ms,key\n0,a\n");
  write("empty.toml", "");
  write("bad.toml", "[[rule]]\nname = \"x\"\nlimit = 0\ninterval = \"1s\"\n");
  const struct {
    std::string arguments;
    int status;
    std::string message;
  } cases[] = {
      {"--config config.toml --csv l.csv --rule nope", 2,
       "config.toml: there is no rule 'nope'; there are: other, login"},
      {"--config empty.toml --csv l.csv --rule nope", 2,
       "empty.toml: there is no rule 'nope'; there are no rules at all"},
      {"--config bad.toml --csv l.csv --rule x", 2, "bad.toml:3:"},
      {"--config config.toml --csv l.csv", 2, "--rule"},
      {"--csv l.csv --rule other", 2, "--config is required"},
      {"--config config.toml --csv l.csv --rule other --pcap x", 2, "--pcap"},
      {"--csv l.csv --rule other --rules-free", 2, "--rules-free"},
      {"--config config.toml --csv l.csv --rule other --top 3", 2, "--top"},
      {"--config config.toml --pcap x --rule other", 2, "--csv"},
      {"--config config.toml --csv missing.csv --rule other", 1, "missing.csv: No such file"},
      {"--config config.toml --csv . --rule other", 1, ".:1: cannot be read"},
      {"--config config.toml --csv config.toml --rule other", 1, "config.toml:2: the first line must be"},
      {"--config config.toml --csv l.csv --rule other --requests missing/out.tsv", 1,
       "missing/out.tsv: No such file"},
  };
  for (const auto& one : cases) {
    const Ran ran = run(one.arguments);
    EXPECT_EQ(ran.status, one.status) << one.arguments;
    EXPECT_NE(ran.errors.find(one.message), std::string::npos) << one.arguments << ": " << ran.errors;
    EXPECT_EQ(ran.output, "") << one.arguments;
  }
}

TEST_F(ReplayList, NoticesThatItsDecisionsCannotBeWritten) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  write("config.toml", rules);
  write("l.csv", "time_ms,key\n0,a\n");
  const Ran to_file = run("--config config.toml --csv l.csv --rule other --requests /dev/full");
  EXPECT_EQ(to_file.status, 1);
  EXPECT_NE(to_file.errors.find("/dev/full: could not be written"), std::string::npos) << to_file.errors;
}

// ---- time

Rule limit_of(std::uint64_t limit, Duration interval, Algorithm algorithm) {
  Rule rule;
  rule.name = "r";
  rule.limit = limit;
  rule.interval = interval;
  rule.cooldown = interval;
  rule.algorithm = algorithm;
  rule.action = Action::drop;
  return rule;
}

std::unique_ptr<RuleReplay> replay_of(const Rule& rule,
                                      std::int64_t longest_walk = Timeline::default_longest_walk) {
  Config config;
  config.node.keys = 64;
  config.rules = {rule};
  ThrottleOptions options;
  options.hash_seed = 1;
  ThrottleResult made = Throttle::create(config, options);
  EXPECT_TRUE(made) << made.error;
  return made ? std::make_unique<RuleReplay>(std::move(made.throttle), longest_walk) : nullptr;
}

TEST(RuleReplay, SetsTheWallClockBackWhileTheMonotonicClockStandsStill) {
  const auto replay = replay_of(limit_of(3, 1s, Algorithm::cooldown));
  ASSERT_NE(replay, nullptr);
  const auto at = [](Duration time) { return WallTime(start + time); };
  for (const std::uint64_t left : {2u, 1u, 0u}) EXPECT_EQ(replay->decide(at(5s), "a", 1).remaining, left);
  EXPECT_EQ(replay->decide(at(5400ms), "a", 1).retry_after, 1s) << "a block begins";
  // Four seconds back: the block is measured by the clock that stands still.
  EXPECT_EQ(replay->decide(at(1200ms), "a", 1).retry_after, 1s);
  EXPECT_EQ(replay->decide(at(1300ms), "a", 1).retry_after, 900ms);
  const Decision other = replay->decide(at(1300ms), "b", 1);
  EXPECT_EQ(other.remaining, 2u) << "and counting goes on in the interval of that time";
  EXPECT_EQ(other.reset_after, 700ms);
  EXPECT_EQ(replay->decide(at(2199ms), "a", 1).verdict, Verdict::block);
  EXPECT_EQ(replay->decide(at(2200ms), "a", 1).verdict, Verdict::admit);
}

TEST(RuleReplay, TakesPausesOfYearsInNoTime) {
  for (const Duration interval : {Duration{10ms}, Duration{1h}, Duration{366 * 24h}}) {
    const auto replay = replay_of(limit_of(2, interval, Algorithm::cooldown));
    ASSERT_NE(replay, nullptr);
    for (const Duration time : {Duration{0s}, start, start + 100 * 365 * 24h}) {
      std::string verdicts;
      for (int i = 0; i < 3; ++i)
        verdicts += replay->decide(WallTime(time), "a", 1).verdict == Verdict::admit ? 'A' : 'B';
      EXPECT_EQ(verdicts, "AAB") << time.count();
    }
  }
}

// ---- the algorithms, each against a model that shares no code with it

constexpr Duration never_again = Duration::max();

/// What a model allows the answer to be.
struct Expected {
  bool admit = true;
  std::uint64_t remaining = 0;
  Duration retry_least{}, retry_most{};  ///< of a block
  Duration reset_least{}, reset_most{};  ///< where a key is unused or blocked, two answers are right
};

/// One key under one limit: what is to be said to a request of this weight now? Weight 0 asks.
class Model {
 public:
  virtual ~Model() = default;
  virtual Expected ask(Duration now, std::uint64_t weight) = 0;
};

class CooldownModel final : public Model {
 public:
  CooldownModel(std::uint64_t limit, Duration interval, Duration cooldown)
      : limit_(limit), interval_(interval), cooldown_(cooldown) {}

  Expected ask(Duration now, std::uint64_t weight) override {
    if (now / interval_ != ordinal_) used_ = 0;
    ordinal_ = now / interval_;
    Expected expected;
    const bool blocked = now < blocked_until_;
    expected.admit = !blocked && used_ + std::max<std::uint64_t>(weight, 1) <= limit_;
    if (expected.admit) used_ += weight;
    if (!expected.admit && !blocked && weight > 0) blocked_until_ = now + cooldown_;
    expected.remaining = now < blocked_until_ ? 0 : limit_ - used_;
    const Duration rest = (ordinal_ + 1) * interval_ - now;
    // A block may end before its interval does, and the interval's limit is used up all the same.
    const bool fits = used_ + std::max<std::uint64_t>(weight, 1) <= limit_;
    const Duration block = std::max(blocked_until_ - now, Duration{});
    expected.retry_least = expected.retry_most = fits ? block : std::max(block, rest);
    expected.reset_least = std::max(block, used_ == 0 ? Duration{} : rest);
    expected.reset_most = std::max(block, rest);
    return expected;
  }

 private:
  std::uint64_t limit_;
  Duration interval_, cooldown_;
  std::int64_t ordinal_ = -1;
  std::uint64_t used_ = 0;
  Duration blocked_until_{};
};

class FixedWindowModel final : public Model {
 public:
  FixedWindowModel(std::uint64_t limit, Duration interval) : limit_(limit), interval_(interval) {}

  Expected ask(Duration now, std::uint64_t weight) override {
    if (now / interval_ != ordinal_) used_ = 0;
    ordinal_ = now / interval_;
    Expected expected;
    expected.admit = used_ + std::max<std::uint64_t>(weight, 1) <= limit_;
    if (expected.admit) used_ += weight;
    expected.remaining = limit_ - used_;
    const Duration rest = (ordinal_ + 1) * interval_ - now;
    expected.retry_least = expected.retry_most = expected.reset_most = rest;
    expected.reset_least = used_ == 0 ? Duration{} : rest;
    return expected;
  }

 private:
  std::uint64_t limit_;
  Duration interval_;
  std::int64_t ordinal_ = -1;
  std::uint64_t used_ = 0;
};

class SlidingWindowModel final : public Model {
 public:
  SlidingWindowModel(std::uint64_t limit, Duration interval, std::uint32_t spans)
      : limit_(limit), span_(interval / spans), spans_(spans) {}

  Expected ask(Duration now, std::uint64_t weight) override {
    const std::int64_t running = now / span_;
    const auto used_from = [&](std::int64_t first) {
      std::uint64_t used = 0;
      for (auto at = used_.lower_bound(first); at != used_.end(); ++at) used += at->second;
      return used;
    };
    std::int64_t first = running - spans_ + 1;  // the oldest span of the window
    Expected expected;
    const std::uint64_t asked = std::max<std::uint64_t>(weight, 1);
    expected.admit = used_from(first) + asked <= limit_;
    if (expected.admit) used_[running] += weight;
    expected.remaining = limit_ - used_from(first);
    // Never too early; and never later than when nothing of now is left in the window.
    while (used_from(first) + asked > limit_) ++first;
    expected.retry_least = std::max(Duration{1ns}, (first + spans_ - 1) * span_ - now);
    expected.retry_most = expected.reset_most = (running + spans_) * span_ - now;
    while (used_from(first) > 0) ++first;
    expected.reset_least = std::max(Duration{}, (first + spans_ - 1) * span_ - now);
    used_.erase(used_.begin(), used_.lower_bound(running - spans_ + 1));
    return expected;
  }

 private:
  std::uint64_t limit_;
  Duration span_;
  std::int64_t spans_;
  std::map<std::int64_t, std::uint64_t> used_;
};

/// Tokens are counted in parts of 1 / interval in ns: whole numbers, whatever the rate.
class TokenBucketModel final : public Model {
 public:
  using Parts = __int128;

  TokenBucketModel(std::uint64_t limit, Duration interval, std::uint64_t burst)
      : rate_(static_cast<Parts>(limit)),
        token_(interval.count()),
        full_(static_cast<Parts>(burst) * token_),
        there_(full_) {}

  Expected ask(Duration now, std::uint64_t weight) override {
    there_ = std::min(full_, there_ + (now - at_).count() * rate_);
    at_ = now;
    Expected expected;
    const Parts asked = static_cast<Parts>(std::max<std::uint64_t>(weight, 1)) * token_;
    expected.admit = asked <= there_;
    if (expected.admit) there_ -= static_cast<Parts>(weight) * token_;
    expected.remaining = static_cast<std::uint64_t>(there_ / token_);
    expected.retry_least = expected.retry_most = asked > full_ ? never_again : until(asked);
    expected.reset_least = expected.reset_most = std::max(Duration{}, until(full_));
    return expected;
  }

 private:
  Duration until(Parts parts) const {
    return Duration(static_cast<std::int64_t>((std::max<Parts>(parts - there_, 0) + rate_ - 1) / rate_));
  }

  Parts rate_;  // per nanosecond
  Parts token_;
  Parts full_;
  Parts there_;
  Duration at_{};
};

/// The same from the other side, as a meter: what has been poured in drains at the rate.
class LeakyBucketModel final : public Model {
 public:
  using Parts = __int128;

  LeakyBucketModel(std::uint64_t limit, Duration interval, std::uint64_t burst)
      : rate_(static_cast<Parts>(limit)), drop_(interval.count()), brim_(static_cast<Parts>(burst) * drop_) {}

  Expected ask(Duration now, std::uint64_t weight) override {
    level_ = std::max<Parts>(0, level_ - (now - at_).count() * rate_);
    at_ = now;
    Expected expected;
    const Parts asked = static_cast<Parts>(std::max<std::uint64_t>(weight, 1)) * drop_;
    expected.admit = level_ + asked <= brim_;
    if (expected.admit) level_ += static_cast<Parts>(weight) * drop_;
    expected.remaining = static_cast<std::uint64_t>((brim_ - level_) / drop_);
    expected.retry_least = expected.retry_most = asked > brim_ ? never_again : until(brim_ - asked);
    expected.reset_least = expected.reset_most = std::max(Duration{}, until(0));
    return expected;
  }

 private:
  Duration until(Parts level) const {
    return Duration(static_cast<std::int64_t>((std::max<Parts>(level_ - level, 0) + rate_ - 1) / rate_));
  }

  Parts rate_;
  Parts drop_;
  Parts brim_;
  Parts level_ = 0;
  Duration at_{};
};

class SlidingLogModel final : public Model {
 public:
  SlidingLogModel(std::uint64_t limit, Duration interval) : limit_(limit), interval_(interval) {}

  Expected ask(Duration now, std::uint64_t weight) override {
    while (!admitted_.empty() && admitted_.front() + interval_ <= now) admitted_.pop_front();
    Expected expected;
    const std::uint64_t asked = std::max<std::uint64_t>(weight, 1);
    expected.admit = admitted_.size() + asked <= limit_;
    if (expected.admit) admitted_.insert(admitted_.end(), weight, now);
    expected.remaining = limit_ - admitted_.size();
    if (asked > limit_)
      expected.retry_least = expected.retry_most = never_again;
    else if (!expected.admit)
      expected.retry_least = expected.retry_most =
          admitted_[admitted_.size() + asked - limit_ - 1] + interval_ - now;
    expected.reset_least = expected.reset_most =
        admitted_.empty() ? Duration{} : admitted_.back() + interval_ - now;
    return expected;
  }

 private:
  std::uint64_t limit_;
  Duration interval_;
  std::deque<Duration> admitted_;  // one for each unit of weight
};

struct Case {
  std::string name;
  Rule rule;
  std::function<std::unique_ptr<Model>(const Rule&)> model;
};

void PrintTo(const Case& that, std::ostream* out) { *out << that.name; }

Rule with(Rule rule, const std::function<void(Rule&)>& change) {
  change(rule);
  return rule;
}

std::vector<Case> cases() {
  const auto cooldown = [](const Rule& rule) -> std::unique_ptr<Model> {
    return std::make_unique<CooldownModel>(rule.limit, rule.interval, rule.cooldown);
  };
  const auto fixed = [](const Rule& rule) -> std::unique_ptr<Model> {
    return std::make_unique<FixedWindowModel>(rule.limit, rule.interval);
  };
  const auto sliding = [](const Rule& rule) -> std::unique_ptr<Model> {
    return std::make_unique<SlidingWindowModel>(rule.limit, rule.interval, rule.spans);
  };
  const auto token = [](const Rule& rule) -> std::unique_ptr<Model> {
    return std::make_unique<TokenBucketModel>(rule.limit, rule.interval,
                                              rule.burst == 0 ? rule.limit : rule.burst);
  };
  const auto leaky = [](const Rule& rule) -> std::unique_ptr<Model> {
    return std::make_unique<LeakyBucketModel>(rule.limit, rule.interval,
                                              rule.burst == 0 ? rule.limit : rule.burst);
  };
  const auto log = [](const Rule& rule) -> std::unique_ptr<Model> {
    return std::make_unique<SlidingLogModel>(rule.limit, rule.interval);
  };
  return {
      {"Cooldown", with(limit_of(12, 1s, Algorithm::cooldown), [](Rule& r) { r.cooldown = 700ms; }),
       cooldown},
      {"CooldownThatEndsBeforeItsInterval",
       with(limit_of(12, 1s, Algorithm::cooldown), [](Rule& r) { r.cooldown = 150ms; }), cooldown},
      {"CooldownOfSmallLimit",
       with(limit_of(1, 100ms, Algorithm::cooldown), [](Rule& r) { r.cooldown = 333ms; }), cooldown},
      {"FixedWindow", limit_of(12, 1s, Algorithm::fixed_window), fixed},
      {"FixedWindowOfSmallLimit", limit_of(5, 100ms, Algorithm::fixed_window), fixed},
      {"SlidingWindow", limit_of(12, 1s, Algorithm::sliding_window), sliding},
      {"SlidingWindowOfTwoSpans",
       with(limit_of(10, 200ms, Algorithm::sliding_window), [](Rule& r) { r.spans = 2; }), sliding},
      {"SlidingWindowOfAHundredSpans",
       with(limit_of(40, 1s, Algorithm::sliding_window), [](Rule& r) { r.spans = 100; }), sliding},
      {"TokenBucket", limit_of(12, 1s, Algorithm::token_bucket), token},
      {"TokenBucketOfASmallBurst",
       with(limit_of(7, 1s, Algorithm::token_bucket), [](Rule& r) { r.burst = 3; }), token},
      {"TokenBucketOfALargeBurst",
       with(limit_of(30, 1s, Algorithm::token_bucket), [](Rule& r) { r.burst = 200; }), token},
      {"TokenBucketOfOneADay", with(limit_of(1, 24h, Algorithm::token_bucket), [](Rule& r) { r.burst = 4; }),
       token},
      {"LeakyBucket", limit_of(12, 1s, Algorithm::leaky_bucket), leaky},
      {"LeakyBucketOfASmallBurst",
       with(limit_of(7, 1s, Algorithm::leaky_bucket), [](Rule& r) { r.burst = 3; }), leaky},
      {"SlidingLog", limit_of(12, 1s, Algorithm::sliding_log), log},
      {"SlidingLogOfASmallLimit", limit_of(3, 50ms, Algorithm::sliding_log), log},
  };
}

class ReplayAlgorithm : public testing::TestWithParam<Case> {};

std::string text_of(Duration duration) {
  return duration == never_again ? "never" : milliseconds_text(duration) + " ms";
}

/// A list of requests that meets the rule often at its limit, sometimes exactly at a boundary, sometimes
/// after a long pause.
std::vector<CsvRequest> requests_for(const Case& that, std::size_t count, std::mt19937_64& random) {
  std::vector<CsvRequest> requests;
  // Long pauses are so rare that what has been saved up is used up in between.
  const std::uint64_t largest = std::max<std::uint64_t>({that.rule.limit, that.rule.burst, 6});
  const auto below = [&](std::int64_t bound) {
    return Duration(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound)));
  };
  Duration now = start + below(1'000'000'000);
  const std::int64_t span = that.rule.interval.count() / that.rule.spans;
  // Three keys share the requests: each is offered somewhat more than twice its limit.
  const std::int64_t pause = that.rule.interval.count() / static_cast<std::int64_t>(7 * that.rule.limit);
  for (std::size_t i = 0; i < count; ++i) {
    if (random() % (6 * largest) == 0)
      now += below(4 * that.rule.interval.count());
    else if (const std::uint64_t kind = random() % 40;
             kind == 0)  // a span's first nanosecond, or its last one
      now = Duration((now.count() / span + 1) * span - static_cast<std::int64_t>(random() % 2));
    else if (kind > 2)  // else the same moment again
      now += below(2 * pause);
    const std::uint64_t most = std::min<std::uint64_t>(
        that.rule.burst == 0 ? that.rule.limit : std::min(that.rule.burst, that.rule.limit), 4);
    const std::uint64_t weight = random() % 10 == 0 ? 0 : random() % 5 == 0 ? 1 + random() % most : 1;
    requests.push_back({.time = WallTime(now),
                        .key = std::string(1, static_cast<char>('a' + random() % 3)),
                        .weight = static_cast<std::uint32_t>(weight)});
  }
  return requests;
}

TEST_P(ReplayAlgorithm, AgreesWithItsModelOnRandomTraffic) {
  const Case& that = GetParam();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed()));
  std::mt19937_64 random(seed());
  const auto replay = replay_of(that.rule);
  ASSERT_NE(replay, nullptr);
  std::map<std::string, std::unique_ptr<Model>> models;
  std::size_t blocked = 0;
  std::size_t admitted = 0;
  std::size_t number = 0;
  for (const CsvRequest& request : requests_for(that, 4000, random)) {
    ++number;
    std::unique_ptr<Model>& model = models[request.key];
    if (model == nullptr) model = that.model(that.rule);
    const Expected expected = model->ask(request.time.time_since_epoch(), request.weight);
    const Decision found = replay->decide(request.time, request.key, request.weight);
    ++(expected.admit ? admitted : blocked);

    const auto where = [&] {
      return "request " + std::to_string(number) + " at " +
             milliseconds_text(request.time.time_since_epoch()) + " ms, key " + request.key + ", weight " +
             std::to_string(request.weight) + ", seed " + std::to_string(seed());
    };
    ASSERT_EQ(found.verdict == Verdict::admit, expected.admit) << where();
    ASSERT_EQ(found.remaining, expected.remaining)
        << where() << (expected.admit ? ", admitted" : ", blocked");
    if (!expected.admit) {
      ASSERT_TRUE(found.retry_after >= expected.retry_least && found.retry_after <= expected.retry_most)
          << where() << ": retry after " << text_of(found.retry_after) << " instead of "
          << text_of(expected.retry_least) << " to " << text_of(expected.retry_most);
    }
    ASSERT_TRUE(found.reset_after >= expected.reset_least && found.reset_after <= expected.reset_most)
        << where() << ": reset after " << text_of(found.reset_after) << " instead of "
        << text_of(expected.reset_least) << " to " << text_of(expected.reset_most);
  }
  EXPECT_GT(blocked, 200u) << "or this shows little";
  EXPECT_GT(admitted, 200u);
}

/// The table itself, so that columns are compared as they are written.
std::string table_of(const Rule& rule, const std::vector<CsvRequest>& requests, std::int64_t longest_walk) {
  const auto replay = replay_of(rule, longest_walk);
  if (replay == nullptr) return {};
  std::ostringstream out;
  DecisionTable table;
  table.write_to(out, rule.weight);
  for (const CsvRequest& request : requests)
    table.add(request, replay->decide(request.time, request.key, request.weight));
  EXPECT_EQ(table.close(), "");
  return out.str();
}

/// The first line in which two tables differ.
std::string first_difference(const std::string& one, const std::string& other) {
  const auto lines = test::split(one, '\n');
  const auto others = test::split(other, '\n');
  for (std::size_t i = 0; i < std::max(lines.size(), others.size()); ++i) {
    const std::string left = i < lines.size() ? lines[i] : "nothing";
    const std::string right = i < others.size() ? others[i] : "nothing";
    if (left != right) return "line " + std::to_string(i + 1) + ": " + left + " instead of " + right;
  }
  return {};
}

TEST_P(ReplayAlgorithm, SaysTheSameTwiceAndWhetherOrNotPausesAreLeftOut) {
  const Case& that = GetParam();
  std::mt19937_64 random(seed());
  const std::vector<CsvRequest> requests = requests_for(that, 500, random);
  constexpr std::int64_t every_span = std::numeric_limits<std::int64_t>::max();
  const std::string walked = table_of(that.rule, requests, every_span);
  EXPECT_EQ(first_difference(table_of(that.rule, requests, every_span), walked), "") << "twice";
  for (const std::int64_t longest : {Timeline::default_longest_walk, std::int64_t{1}})
    EXPECT_EQ(first_difference(table_of(that.rule, requests, longest), walked), "")
        << "pauses of more than " << longest << " spans left out, seed " << seed();
}

INSTANTIATE_TEST_SUITE_P(Replay, ReplayAlgorithm, testing::ValuesIn(cases()),
                         [](const auto& that) { return that.param.name; });

// Shedding and leasing have no model that answers request by request, but what they promise can be counted.

std::vector<std::uint64_t> admitted_by_interval(const Rule& rule, double demand, std::size_t intervals) {
  const auto replay = replay_of(rule);
  if (replay == nullptr) return {};
  std::vector<std::uint64_t> admitted(intervals);
  const auto gap = Duration(static_cast<std::int64_t>(static_cast<double>(rule.interval.count()) /
                                                      (demand * static_cast<double>(rule.limit))));
  for (Duration now{}; now < rule.interval * static_cast<std::int64_t>(intervals); now += gap)
    if (replay->decide(WallTime(start + now), "a", 1).verdict == Verdict::admit)
      ++admitted[static_cast<std::size_t>(now / rule.interval)];
  return admitted;
}

TEST(ReplayShed, AdmitsTheLimitUnderAnyOverload) {
  const Rule rule = limit_of(200, 1s, Algorithm::shed);
  for (const double demand : {1.2, 2.0, 10.0}) {
    const auto admitted = admitted_by_interval(rule, demand, 12);
    std::uint64_t sum = 0;
    for (std::size_t i = 2; i < admitted.size(); ++i) {
      sum += admitted[i];
      EXPECT_LE(admitted[i], rule.limit) << demand;
    }
    EXPECT_NEAR(static_cast<double>(sum) / 10, static_cast<double>(rule.limit), 0.05 * 200) << demand;
  }
  const auto honest = admitted_by_interval(rule, 0.7, 12);
  for (const std::uint64_t count : honest)
    EXPECT_NEAR(static_cast<double>(count), 140, 1) << "nothing is shed";
}

TEST(ReplayStrict, NeverAdmitsMoreThanTheLimitAndUsesIt) {
  const Rule rule = limit_of(200, 1s, Algorithm::strict);
  for (const double demand : {1.2, 2.0, 10.0}) {
    const auto admitted = admitted_by_interval(rule, demand, 12);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < admitted.size(); ++i) {
      if (i >= 2) sum += admitted[i];
      EXPECT_LE(admitted[i], rule.limit) << demand;
    }
    EXPECT_GE(static_cast<double>(sum) / 10, 0.95 * static_cast<double>(rule.limit)) << demand;
  }
}

}  // namespace
}  // namespace weir::replay
