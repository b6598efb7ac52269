// SPDX-License-Identifier: BSD-3-Clause
#include "weir/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "config_text.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::vector<std::string> errors_of(std::string_view text) {
  std::vector<std::string> texts;
  for (const ConfigError& error : parse_config(text, "c.toml").errors) texts.push_back(error.to_string());
  return texts;
}

/// A rule that is good but for the lines given; they begin at line 5.
std::vector<std::string> rule_errors(std::string_view lines) {
  return errors_of("[[rule]]\nname = \"a\"\nlimit = 5\ninterval = \"1s\"\n" + std::string(lines));
}

constexpr std::array every_algorithm{
    Algorithm::cooldown,     Algorithm::fixed_window, Algorithm::sliding_window, Algorithm::token_bucket,
    Algorithm::leaky_bucket, Algorithm::sliding_log,  Algorithm::shed,           Algorithm::strict};

std::string example_text() {
  const char* root = std::getenv("WEIR_SOURCE_ROOT");
  std::ifstream file(std::filesystem::path(root == nullptr ? "." : root) / "tests/unit/config/example.toml");
  EXPECT_TRUE(file) << "set WEIR_SOURCE_ROOT to the checkout";
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// ---- what is accepted

TEST(Config, AnEmptyFileIsANodeWithoutRulesAndWithDefaults) {
  const ConfigResult result = parse_config("", "c.toml");
  ASSERT_TRUE(result);
  EXPECT_THAT(result.config.node.name, Not(IsEmpty()));
  EXPECT_EQ(result.config.node.keys, 65536u);
  EXPECT_FALSE(result.config.node.busy_controller);
  EXPECT_EQ(result.config.node.idle_sleep, 0s);
  EXPECT_EQ(result.config.node.statistics, 1s);
  EXPECT_EQ(result.config.store.url, "memory://");
  EXPECT_EQ(result.config.store.timeout, 50ms);
  EXPECT_EQ(result.config.store.reconnect, 200ms);
  EXPECT_EQ(result.config.store.prefix, "weir");
  EXPECT_EQ(result.config.store.layout, StoreLayout::hash);
  EXPECT_EQ(result.config.store.backlog, 4194304u);
  EXPECT_THAT(result.config.ports.pairs, IsEmpty());
  EXPECT_EQ(result.config.ports.descriptors, 1024u);
  EXPECT_EQ(result.config.ports.queues, 0u);
  EXPECT_EQ(result.config.ports.mtu, 0u) << "stands for what the ports have";
  EXPECT_THAT(result.config.rules, IsEmpty());
}

TEST(Config, ARuleNeedsOnlyNameLimitAndInterval) {
  const ConfigResult result =
      parse_config("[[rule]]\nname = \"a\"\nlimit = 5\ninterval = \"2s\"\n", "c.toml");
  ASSERT_TRUE(result) << result.errors[0].to_string();
  ASSERT_THAT(result.config.rules, SizeIs(1));
  const Rule& rule = result.config.rules[0];
  EXPECT_EQ(rule.name, "a");
  EXPECT_EQ(rule.limit, 5u);
  EXPECT_EQ(rule.interval, 2s);
  EXPECT_EQ(rule.spans, 10u);
  EXPECT_EQ(rule.cooldown, 2s) << "the default is the interval";
  EXPECT_THAT(rule.key, IsEmpty());
  EXPECT_THAT(rule.match.methods, IsEmpty());
  EXPECT_THAT(rule.match.destination_ports, IsEmpty());
  EXPECT_EQ(rule.match.host, "");
  EXPECT_EQ(rule.match.path, "");
  EXPECT_EQ(rule.algorithm, Algorithm::cooldown);
  EXPECT_EQ(rule.burst, 0u) << "stands for the limit";
  EXPECT_EQ(rule.warmup, 0s);
  EXPECT_EQ(rule.early_block, EarlyBlock::sound);
  EXPECT_FALSE(rule.debt);
  EXPECT_EQ(rule.dephase, 0s);
  EXPECT_EQ(rule.weight, 1u);
  EXPECT_FALSE(rule.penalize);
  EXPECT_EQ(rule.on_store_failure, OnStoreFailure::local);
  EXPECT_EQ(rule.local_rule, LocalRule::cumulative);
  EXPECT_EQ(rule.action, Action::reply_429);
}

TEST(Config, TheExampleFileMeansWhatItSays) {
  const ConfigResult result = parse_config(example_text(), "example.toml");
  ASSERT_TRUE(result) << result.errors[0].to_string();
  const Config& config = result.config;
  EXPECT_EQ(config.node.name, "gateway-1");
  EXPECT_EQ(config.node.idle_sleep, 50us);
  EXPECT_EQ(config.store.url, "redis://weir:s3cr%40t@redis.example.net:6379/2");
  EXPECT_THAT(config.ports.pairs, ElementsAre(std::pair{0, 1}, std::pair{2, 3}));
  ASSERT_THAT(config.rules, SizeIs(4));

  const Rule& login = config.rules[0];
  EXPECT_THAT(login.match.methods, ElementsAre("POST"));
  EXPECT_EQ(login.match.host, "api.example.com");
  EXPECT_EQ(login.match.path, "/login");
  EXPECT_THAT(login.match.destination_ports, ElementsAre(80, 8080));
  EXPECT_THAT(login.key, ElementsAre(Dimension{Dimension::Kind::source_address, 32, 56, ""}));
  EXPECT_EQ(login.cooldown, 10s);

  const Rule& user = config.rules[1];
  EXPECT_THAT(user.match.methods, ElementsAre("GET", "HEAD"));
  EXPECT_THAT(user.key, ElementsAre(Dimension{Dimension::Kind::header, 32, 64, "x-api-key"},
                                    Dimension{Dimension::Kind::path_variable, 32, 64, "id"}));
  EXPECT_EQ(user.interval, 1min);
  EXPECT_EQ(user.spans, 20u);
  EXPECT_EQ(user.early_block, EarlyBlock::sound);
  EXPECT_FALSE(user.debt);
  EXPECT_EQ(user.dephase, 0s);

  EXPECT_EQ(config.rules[2].algorithm, Algorithm::token_bucket);
  EXPECT_EQ(config.rules[2].burst, 200u);
  EXPECT_EQ(config.rules[2].warmup, 5s);
  EXPECT_EQ(config.rules[2].early_block, EarlyBlock::predictive);

  EXPECT_EQ(config.rules[3].interval, 1500ms);
  EXPECT_EQ(config.rules[3].algorithm, Algorithm::shed);
  EXPECT_TRUE(config.rules[3].debt);
  EXPECT_EQ(config.rules[3].action, Action::observe);
}

TEST(Config, TheExampleFileRoundTrips) {
  const ConfigResult first = parse_config(example_text(), "example.toml");
  ASSERT_TRUE(first);
  const std::string written = toml_text(first.config);
  const ConfigResult second = parse_config(written, "written.toml");
  ASSERT_TRUE(second) << second.errors[0].to_string() << "\n" << written;
  EXPECT_EQ(toml_text(second.config), written);
}

TEST(Config, EveryWordOfEveryChoiceIsUnderstood) {
  for (const Action action : {Action::drop, Action::reset, Action::reply_429, Action::observe})
    for (const OnStoreFailure failure : {OnStoreFailure::local, OnStoreFailure::open, OnStoreFailure::closed})
      for (const LocalRule local : {LocalRule::cumulative, LocalRule::per_span}) {
        if (local == LocalRule::per_span && failure != OnStoreFailure::local) continue;
        Config config;
        config.node.name = "n";
        config.rules.push_back({.name = "a",
                                .match = {},
                                .key = {},
                                .limit = 1,
                                .interval = 1s,
                                .cooldown = 1s,
                                .on_store_failure = failure,
                                .local_rule = local,
                                .action = action});
        const ConfigResult read = parse_config(toml_text(config), "c.toml");
        ASSERT_TRUE(read) << read.errors[0].to_string();
        EXPECT_EQ(read.config.rules[0].action, action);
        EXPECT_EQ(read.config.rules[0].on_store_failure, failure);
        EXPECT_EQ(read.config.rules[0].local_rule, local);
      }
}

TEST(Config, EveryAlgorithmIsUnderstood) {
  for (const Algorithm algorithm : every_algorithm) {
    const std::string word(to_string(algorithm));
    const ConfigResult read = parse_config(
        "[[rule]]\nname = \"a\"\nlimit = 5\ninterval = \"1s\"\nalgorithm = \"" + word + '"', "c.toml");
    ASSERT_TRUE(read) << read.errors[0].to_string();
    EXPECT_EQ(read.config.rules[0].algorithm, algorithm) << word;
    EXPECT_THAT(check_config(read.config), IsEmpty()) << word;
  }
}

TEST(Config, EveryKeyOfTheStoreIsRead) {
  const ConfigResult read = parse_config(
      "[store]\nurl = \"rediss+cluster://a,b\"\nlayout = \"plain\"\nbacklog = 5000\n"
      "password_file = \"/p\"\npassword_env = \"P\"\nca_file = \"/ca\"\ncertificate_file = \"/c\"\n"
      "private_key_file = \"/k\"\nserver_name = \"redis.example\"\n"
      "[[rule]]\nname = \"a\"\nlimit = 5\ninterval = \"1s\"\n",
      "c.toml");
  ASSERT_TRUE(read) << read.errors[0].to_string();
  const StoreConfig& store = read.config.store;
  EXPECT_EQ(store.url, "rediss+cluster://a,b");
  EXPECT_EQ(store.layout, StoreLayout::plain);
  EXPECT_EQ(store.backlog, 5000u);
  EXPECT_EQ(store.password_file, "/p");
  EXPECT_EQ(store.password_env, "P");
  EXPECT_EQ(store.ca_file, "/ca");
  EXPECT_EQ(store.certificate_file, "/c");
  EXPECT_EQ(store.private_key_file, "/k");
  EXPECT_EQ(store.server_name, "redis.example");
}

TEST(Config, EveryLayoutIsRead) {
  for (const StoreLayout layout : {StoreLayout::hash, StoreLayout::plain, StoreLayout::exchange}) {
    const ConfigResult read = parse_config("[store]\nlayout = \"" + std::string(to_string(layout)) +
                                               "\"\n[[rule]]\nname = \"a\"\nlimit = 5\ninterval = \"1s\"\n",
                                           "c.toml");
    ASSERT_TRUE(read) << read.errors[0].to_string();
    EXPECT_EQ(read.config.store.layout, layout);
  }
}

TEST(Config, EveryKeyOfAnAlgorithmIsRead) {
  const ConfigResult read = parse_config(
      "[[rule]]\nname = \"a\"\nlimit = 5\ninterval = \"1s\"\n"
      "algorithm = \"cooldown\"\ncooldown = \"3s\"\ndephase = \"500ms\"\nearly_block = \"predictive\"\n"
      "debt = true\nlocal_rule = \"per-span\"\nhold_back = 0.25\n"
      "[[rule]]\nname = \"b\"\nlimit = 5\ninterval = \"1s\"\n"
      "algorithm = \"token-bucket\"\nburst = 9\nwarmup = \"2s\"\n"
      "[[rule]]\nname = \"c\"\nlimit = 5\ninterval = \"1s\"\n"
      "algorithm = \"leaky-bucket\"\nburst = 9223372036854775807\nhold_back = 0\n"
      "[[rule]]\nname = \"d\"\nlimit = 5\ninterval = \"1s\"\npenalize = true\n",
      "c.toml");
  ASSERT_TRUE(read) << read.errors[0].to_string();
  const Rule& blocks = read.config.rules[0];
  EXPECT_EQ(blocks.cooldown, 3s);
  EXPECT_EQ(blocks.dephase, 500ms);
  EXPECT_EQ(blocks.early_block, EarlyBlock::predictive);
  EXPECT_TRUE(blocks.debt);
  EXPECT_FALSE(blocks.penalize);
  EXPECT_TRUE(read.config.rules[3].penalize);
  EXPECT_EQ(blocks.local_rule, LocalRule::per_span);
  EXPECT_EQ(blocks.hold_back, 0.25);
  EXPECT_EQ(read.config.rules[1].hold_back, 0.01);
  EXPECT_EQ(read.config.rules[2].hold_back, 0.0);
  EXPECT_EQ(read.config.rules[1].burst, 9u);
  EXPECT_EQ(read.config.rules[1].warmup, 2s);
  EXPECT_EQ(read.config.rules[2].burst, 9223372036854775807u);
}

TEST(Config, EveryDimensionIsUnderstood) {
  using Kind = Dimension::Kind;
  const ConfigResult result = parse_config(
      "[[rule]]\nname = \"a\"\nlimit = 1\ninterval = \"1s\"\nmatch = { path = \"/{a}\" }\n"
      "key = [\"src_ip\", \"dst_ip/24\", \"dst_port\", \"method\", \"host\", \"path\", \"path:a\", "
      "\"header:X-Api-Key\"]",
      "c.toml");
  ASSERT_TRUE(result) << result.errors[0].to_string();
  EXPECT_THAT(
      result.config.rules[0].key,
      ElementsAre(Dimension{Kind::source_address, 32, 64, ""},
                  Dimension{Kind::destination_address, 24, 64, ""},
                  Dimension{Kind::destination_port, 32, 64, ""}, Dimension{Kind::method, 32, 64, ""},
                  Dimension{Kind::host, 32, 64, ""}, Dimension{Kind::path, 32, 64, ""},
                  Dimension{Kind::path_variable, 32, 64, "a"}, Dimension{Kind::header, 32, 64, "x-api-key"}));
}

TEST(Config, HostsAreTakenWithoutRegardToCaseAndFinalDot) {
  const ConfigResult result = parse_config(
      "[[rule]]\nname = \"a\"\nlimit = 1\ninterval = \"1s\"\nmatch.host = \"API.Example.COM.\"", "c.toml");
  ASSERT_TRUE(result) << result.errors[0].to_string();
  EXPECT_EQ(result.config.rules[0].match.host, "api.example.com");
}

TEST(Config, AKeyWithoutDimensionsIsOneForAllRequests) {
  const ConfigResult result =
      parse_config("[[rule]]\nname = \"a\"\nlimit = 5\ninterval = \"1s\"\nkey = []", "c.toml");
  ASSERT_TRUE(result) << result.errors[0].to_string();
  EXPECT_THAT(result.config.rules[0].key, IsEmpty());
}

TEST(Config, AnMtuOfThePortsIsRead) {
  for (const std::uint16_t mtu : {68, 9000, 65535}) {
    const ConfigResult result = parse_config("[ports]\nmtu = " + std::to_string(mtu), "c.toml");
    ASSERT_TRUE(result) << result.errors[0].to_string();
    EXPECT_EQ(result.config.ports.mtu, mtu);
  }
}

// ---- what is refused, and where

TEST(ConfigErrors, SyntaxIsToldWithLineAndColumn) {
  const auto errors = errors_of("[node]\nname = \n");
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_THAT(errors[0], StartsWith("c.toml:2:8: "));
}

TEST(ConfigErrors, EveryMistakeIsToldInTheOrderOfTheFile) {
  EXPECT_THAT(
      errors_of("[node]\nkeys = 1\n\n[store]\ntimeout = 5\n\n[[rule]]\nlimit = 0\ninterval = \"1s\"\n"),
      ElementsAre("c.toml:2:8: keys must be a whole number from 64 to 16777216, not 1",
                  "c.toml:5:11: timeout must be a duration in quotes, such as \"500ms\", not a whole number",
                  "c.toml:7:1: [[rule]] lacks the key \"name\", which has no default",
                  "c.toml:8:9: limit must be a whole number of at least 1, not 0"));
}

TEST(ConfigErrors, UnknownKeysAreToldAtTheKey) {
  EXPECT_THAT(errors_of("[node]\n  kesy = 100\n"),
              ElementsAre("c.toml:2:3: unknown key \"kesy\" in [node]; did you mean \"keys\"?"));
  EXPECT_THAT(
      errors_of("[store]\npass = \"x\"\n"),
      ElementsAre("c.toml:2:1: unknown key \"pass\" in [store]; there are: url, timeout, reconnect, prefix, "
                  "layout, backlog, "
                  "password_file, password_env, ca_file, certificate_file, private_key_file, server_name"));
  EXPECT_THAT(errors_of("[ports]\npair = []\n"),
              ElementsAre("c.toml:2:1: unknown key \"pair\" in [ports]; did you mean \"pairs\"?"));
  EXPECT_THAT(rule_errors("limits = 7"),
              ElementsAre("c.toml:5:1: unknown key \"limits\" in [[rule]]; did you mean \"limit\"?"));
  EXPECT_THAT(rule_errors("match = { hosts = \"a\" }"),
              ElementsAre("c.toml:5:11: unknown key \"hosts\" in match; did you mean \"host\"?"));
}

TEST(ConfigErrors, UnknownTablesAreTold) {
  EXPECT_THAT(errors_of("\n[nodes]\n"),
              ElementsAre("c.toml:2:2: unknown table \"nodes\"; did you mean \"node\"?"));
  EXPECT_THAT(
      errors_of("[[limits]]\nx = 1\n"),
      ElementsAre("c.toml:1:3: unknown table \"limits\"; there are the tables: node, store, ports, rule"));
  EXPECT_THAT(
      errors_of("limit = 3\n"),
      ElementsAre("c.toml:1:1: unknown key \"limit\"; there are the tables: node, store, ports, rule"));
}

TEST(ConfigErrors, TablesOfTheWrongFormAreTold) {
  EXPECT_THAT(errors_of("[rule]\nname = \"a\"\n"),
              ElementsAre("c.toml:1:1: rule must be an array of tables: write [[rule]], not [rule]"));
  EXPECT_THAT(errors_of("[[node]]\n"),
              ElementsAre("c.toml:1:1: node must be a table: write [node], not [[node]]"));
  EXPECT_THAT(errors_of("store = 3\n"),
              ElementsAre("c.toml:1:9: store must be a table: write [store], not a whole number"));
  EXPECT_THAT(errors_of("rule = [1]\n"),
              ElementsAre("c.toml:1:9: a rule must be a table: write [[rule]], not a whole number"));
  EXPECT_THAT(rule_errors("match = \"/login\""),
              ElementsAre("c.toml:5:9: match must be a table, such as { path = \"/login\" }, not a string"));
}

TEST(ConfigErrors, DottedAndQuotedKeysAreLocatedAsAllOthers) {
  EXPECT_THAT(errors_of("node . 'keys' = 1\nports.quues = 4\nstore.\"url\".x = 3\n\"node\".name.first = 1\n"),
              ElementsAre("c.toml:1:17: keys must be a whole number from 64 to 16777216, not 1",
                          "c.toml:2:7: unknown key \"quues\" in [ports]; did you mean \"queues\"?",
                          "c.toml:3:7: url must be a string, not a table",
                          "c.toml:4:8: name must be a string, not a table"));
  EXPECT_THAT(rule_errors("\"match\".'mehtod' = \"GET\"\nmatch.\"port\" = [0]"),
              ElementsAre("c.toml:5:9: unknown key \"mehtod\" in match; did you mean \"method\"?",
                          "c.toml:6:17: port must be a whole number from 1 to 65535, not 0"));
}

TEST(ConfigErrors, ARuleThatIsNoElementOfAnArrayIsToldInTheFormItHas) {
  EXPECT_THAT(
      errors_of("rule.name = \"a\"\nrule.limit = 4\n"),
      ElementsAre("c.toml:1:1: rule must be an array of tables: write [[rule]], and its keys below it "
                  "without \"rule.\""));
  EXPECT_THAT(errors_of("rule.match.path = \"/\"\n"), ElementsAre(HasSubstr("without \"rule.\"")));
  EXPECT_THAT(
      errors_of("rule = { name = \"a\" }\n"),
      ElementsAre("c.toml:1:8: rule must be an array of tables: write [[rule]], and its keys below it "
                  "without braces"));
}

TEST(ConfigErrors, ADottedKeyBelowAnotherTablesHeaderIsToldWhereItBelongs) {
  EXPECT_THAT(
      errors_of("[ports]\nports.queues = 2\n"),
      ElementsAre("c.toml:2:1: unknown key \"ports\" in [ports]: what stands below its line belongs to "
                  "it already; leave \"ports.\" out"));
  EXPECT_THAT(
      errors_of("[node]\nstore.url = \"memory://\"\n"),
      ElementsAre("c.toml:2:1: unknown key \"store\" in [node]: what stands below its line belongs to "
                  "it; the keys of [store] have their own place, or stand above all tables"));
  EXPECT_THAT(
      errors_of("[ports]\nrule.name = \"a\"\n"),
      ElementsAre("c.toml:2:1: unknown key \"rule\" in [ports]: what stands below its line belongs to "
                  "it; the keys of [[rule]] have their own place"));
  EXPECT_THAT(rule_errors("node.name = \"b\""),
              ElementsAre(HasSubstr("unknown key \"node\" in [[rule]]: what stands below its line")));
  EXPECT_THAT(rule_errors("rule.weight = 1"), ElementsAre(HasSubstr("already; leave \"rule.\" out")));
}

TEST(ConfigErrors, ADottedKeyInQuotesIsToldToBeOneName) {
  EXPECT_THAT(errors_of("\"node.keys\" = 500\n"),
              ElementsAre("c.toml:1:1: unknown key \"node.keys\": in quotes it is one name; write it without "
                          "them"));
}

TEST(ConfigErrors, ValuesOfTheWrongTypeAreTold) {
  EXPECT_THAT(errors_of("[node]\nname = 5"),
              ElementsAre("c.toml:2:8: name must be a string, not a whole number"));
  EXPECT_THAT(errors_of("[node]\nbusy_controller = \"yes\""),
              ElementsAre("c.toml:2:19: busy_controller must be true or false, not a string"));
  EXPECT_THAT(rule_errors("spans = 2.5"),
              ElementsAre("c.toml:5:9: spans must be a whole number, not a number with a fraction"));
  EXPECT_THAT(
      rule_errors("key = \"src_ip\""),
      ElementsAre("c.toml:5:7: key must be an array of dimensions, such as [\"src_ip\"], not a string"));
  EXPECT_THAT(rule_errors("key = [\"src_ip\", 5]"),
              ElementsAre("c.toml:5:18: a dimension in key must be a string, not a whole number"));
  EXPECT_THAT(rule_errors("match.method = [\"GET\", 1979-05-27]"),
              ElementsAre("c.toml:5:24: method must be a string, not a date or time"));
}

TEST(ConfigErrors, AListOfWhatMayMatchIsNotEmpty) {
  EXPECT_THAT(rule_errors("match.method = []"),
              ElementsAre("c.toml:5:16: method must not be empty; leave it out to match every method"));
  EXPECT_THAT(rule_errors("match = { path = \"/\", port = [ ] }"),
              ElementsAre("c.toml:5:30: port must not be empty; leave it out to match every port"));
  EXPECT_THAT(errors_of("[ports]\npairs = []"),
              ElementsAre("c.toml:2:9: pairs must not be empty; leave it out to pair all ports in order"));
}

TEST(ConfigErrors, RequiredKeysAreToldAtTheRule) {
  EXPECT_THAT(errors_of("[[rule]]\nname = \"a\"\nlimit = 1\ninterval = \"1s\"\n\n[[rule]]\n"),
              ElementsAre("c.toml:6:1: [[rule]] lacks the key \"name\", which has no default",
                          "c.toml:6:1: [[rule]] lacks the key \"limit\", which has no default",
                          "c.toml:6:1: [[rule]] lacks the key \"interval\", which has no default"));
}

TEST(ConfigErrors, NodeValuesAreChecked) {
  EXPECT_THAT(errors_of("[node]\nname = \"a b\""),
              ElementsAre("c.toml:2:8: name \"a b\" may only have letters, digits, '.', '_' and '-'"));
  EXPECT_THAT(errors_of("[node]\nname = \"\""),
              ElementsAre("c.toml:2:8: name must not be empty; leave it out for the host's name"));
  EXPECT_THAT(errors_of("[node]\nname = \"" + std::string(65, 'n') + "\""),
              ElementsAre("c.toml:2:8: name must have at most 64 characters"));
  EXPECT_THAT(errors_of("[node]\nkeys = 16777217"),
              ElementsAre("c.toml:2:8: keys must be a whole number from 64 to 16777216, not 16777217"));
  EXPECT_THAT(errors_of("[node]\nidle_sleep = \"2s\""),
              ElementsAre("c.toml:2:14: idle_sleep must be from 0s to 1s, not 2s"));
  EXPECT_THAT(errors_of("[node]\nstatistics = \"2d\""),
              ElementsAre("c.toml:2:14: statistics must be from 0s to 1d, not 2d"));
}

TEST(ConfigErrors, StoreValuesAreChecked) {
  EXPECT_THAT(errors_of("[store]\ntimeout = \"0s\"\nreconnect = \"2m\"\nprefix = \"a{b}\""),
              ElementsAre("c.toml:2:11: timeout must be from 1ms to 10s, not 0s",
                          "c.toml:3:13: reconnect must be from 10ms to 1m, not 2m",
                          "c.toml:4:10: prefix must have 1 to 64 letters, digits, '.', '_', '-' and ':'"));
  EXPECT_THAT(errors_of("[store]\nprefix = \"\""), SizeIs(1));
  EXPECT_THAT(errors_of("[store]\nbacklog = 1023\nlayout = \"hsah\""),
              ElementsAre("c.toml:2:11: backlog must be a whole number from 1024 to 67108864, not 1023",
                          "c.toml:3:10: unknown layout \"hsah\"; did you mean \"hash\"?"));
  EXPECT_THAT(errors_of("[store]\nlayout = \"xxxxxxxx\""),
              ElementsAre("c.toml:2:10: unknown layout \"xxxxxxxx\"; there are: hash, plain, exchange"));
}

TEST(ConfigErrors, AStoreAddressIsNeverShown) {
  const auto errors = errors_of("[store]\nurl = \"redisss://user:hunter2@host\"");
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_THAT(errors[0], StartsWith("c.toml:2:7: url must be memory://, redis://"));
  EXPECT_THAT(errors[0], Not(HasSubstr("hunter2")));
}

TEST(ConfigErrors, AnAddressThatHasGotIntoAnotherValueIsNotShownEither) {
  EXPECT_THAT(errors_of("[store]\nprefix = \"x\"\ntimeout = \"redis://u:hunter2@host\""),
              ElementsAre(AllOf(HasSubstr("not \"***@host\""), Not(HasSubstr("hunter2")))));
}

TEST(ConfigErrors, PortsAreChecked) {
  EXPECT_THAT(
      errors_of("[ports]\npairs = [[0, 0], [1, 2], [3, 1], [4], 5, [6, -1], [7, 70000]]\n"),
      ElementsAre(
          "c.toml:2:10: pairs joins port 0 with itself", "c.toml:2:26: pairs uses port 1 twice",
          "c.toml:2:34: an element of pairs must be two port numbers, such as [0, 1], not an array "
          "of another size",
          "c.toml:2:39: an element of pairs must be two port numbers, such as [0, 1], not a whole number",
          "c.toml:2:42: a port in pairs must be a whole number from 0 to 65534, not -1",
          "c.toml:2:51: a port in pairs must be a whole number from 0 to 65534, not 70000"));
  EXPECT_THAT(errors_of("[ports]\ndescriptors = 1000"),
              ElementsAre("c.toml:2:15: descriptors must be a power of two, not 1000"));
  EXPECT_THAT(errors_of("[ports]\ndescriptors = 32"),
              ElementsAre("c.toml:2:15: descriptors must be a whole number from 64 to 32768, not 32"));
  EXPECT_THAT(errors_of("[ports]\nqueues = -1"),
              ElementsAre("c.toml:2:10: queues must be a whole number from 0 to 1024, not -1"));
  EXPECT_THAT(errors_of("[ports]\nmtu = 67"),
              ElementsAre("c.toml:2:7: mtu must be a whole number from 68 to 65535, not 67"));
  EXPECT_THAT(errors_of("[ports]\nmtu = 65536"),
              ElementsAre("c.toml:2:7: mtu must be a whole number from 68 to 65535, not 65536"));
  EXPECT_THAT(errors_of("[ports]\nmtu = 0"), SizeIs(1)) << "left out it is what the ports have";
  EXPECT_THAT(
      errors_of("[ports]\npairs = 5"),
      ElementsAre("c.toml:2:9: pairs must be an array of pairs, such as [[0, 1]], not a whole number"));
}

TEST(ConfigErrors, RuleNamesAreChecked) {
  EXPECT_THAT(
      errors_of("[[rule]]\nname = \"a|b\"\nlimit = 1\ninterval = \"1s\""),
      ElementsAre("c.toml:2:8: name must have 1 to 64 letters, digits, '.', '_' and '-', not \"a|b\""));
  EXPECT_THAT(errors_of("[[rule]]\nname = \"\"\nlimit = 1\ninterval = \"1s\""), SizeIs(1));
  const std::string rule = "[[rule]]\nname = \"twice\"\nlimit = 1\ninterval = \"1s\"\n";
  EXPECT_THAT(errors_of(rule + rule),
              ElementsAre("c.toml:6:8: name \"twice\" is taken by rule number 1 already"));
}

TEST(ConfigErrors, LimitsAndTimesAreChecked) {
  EXPECT_THAT(errors_of("[[rule]]\nname = \"a\"\nlimit = -3\ninterval = \"1s\""),
              ElementsAre("c.toml:3:9: limit must be a whole number of at least 1, not -3"));
  EXPECT_THAT(errors_of("[[rule]]\nname = \"a\"\nlimit = 3\ninterval = \"9ms\""),
              ElementsAre("c.toml:4:12: interval must be from 10ms to 366d, not 9ms"));
  EXPECT_THAT(errors_of("[[rule]]\nname = \"a\"\nlimit = 3\ninterval = \"0s\""),
              ElementsAre("c.toml:4:12: interval must be from 10ms to 366d, not 0s"));
  EXPECT_THAT(rule_errors("spans = 1"),
              ElementsAre("c.toml:5:9: spans must be a whole number from 2 to 1000, not 1"));
  EXPECT_THAT(rule_errors("spans = 1001"), SizeIs(1));
  EXPECT_THAT(rule_errors("cooldown = \"0s\""), ElementsAre("c.toml:5:12: cooldown must be longer than 0"));
  EXPECT_THAT(rule_errors("cooldown = \"367d\""),
              ElementsAre("c.toml:5:12: cooldown must be from 1ns to 366d, not 367d"));
  EXPECT_THAT(rule_errors("weight = -1"),
              ElementsAre("c.toml:5:10: weight must be a whole number from 0 to 4294967295, not -1"));
  EXPECT_THAT(rule_errors("weight = 4294967296"), SizeIs(1));
  EXPECT_THAT(rule_errors("penalize = 1"),
              ElementsAre("c.toml:5:12: penalize must be true or false, not a whole number"));
}

TEST(ConfigErrors, ASpanLastsAtLeastAMillisecond) {
  EXPECT_THAT(
      errors_of("[[rule]]\nname = \"a\"\nlimit = 3\ninterval = \"50ms\"\nspans = 51"),
      ElementsAre(
          "c.toml:5:9: spans must be at most 50 for an interval of 50ms: a span (interval / spans) lasts "
          "at least 1ms"));
  EXPECT_THAT(errors_of("[[rule]]\nname = \"a\"\nlimit = 3\ninterval = \"50ms\"\nspans = 50"), IsEmpty());
}

TEST(ConfigErrors, DurationsAreChecked) {
  const auto cooldown = [](const std::string& text) { return rule_errors("cooldown = \"" + text + '"'); };
  EXPECT_THAT(cooldown("-1s"), ElementsAre("c.toml:5:12: cooldown must not be negative"));
  EXPECT_THAT(
      cooldown("5"),
      ElementsAre(
          "c.toml:5:12: cooldown must be a number and one of the units ns, us, ms, s, m, h, d, such as "
          "\"500ms\" or \"1.5s\", not \"5\""));
  EXPECT_THAT(cooldown("106752d"),
              ElementsAre("c.toml:5:12: cooldown of \"106752d\" is too long: at most 106751d"));
  EXPECT_THAT(cooldown("0.5ns"),
              ElementsAre("c.toml:5:12: cooldown of \"0.5ns\" is finer than a nanosecond"));
}

TEST(ConfigErrors, WordsThatAreNoneAreTold) {
  EXPECT_THAT(rule_errors("action = \"reply429\""),
              ElementsAre("c.toml:5:10: unknown action \"reply429\"; did you mean \"reply-429\"?"));
  EXPECT_THAT(
      rule_errors("action = \"explode\""),
      ElementsAre("c.toml:5:10: unknown action \"explode\"; there are: drop, reset, reply-429, observe"));
  EXPECT_THAT(rule_errors("on_store_failure = \"close\""),
              ElementsAre("c.toml:5:20: unknown on_store_failure \"close\"; did you mean \"closed\"?"));
  EXPECT_THAT(rule_errors("local_rule = \"span\""),
              ElementsAre("c.toml:5:14: unknown local_rule \"span\"; there are: cumulative, per-span"));
  EXPECT_THAT(rule_errors("algorithm = \"cooldwn\""),
              ElementsAre("c.toml:5:13: unknown algorithm \"cooldwn\"; did you mean \"cooldown\"?"));
  EXPECT_THAT(rule_errors("algorithm = 7"),
              ElementsAre("c.toml:5:13: algorithm must be a string, not a whole number"));
}

TEST(ConfigErrors, ARequestMayNotWeighMoreThanEverThereIs) {
  EXPECT_THAT(rule_errors("weight = 5"), IsEmpty());
  EXPECT_THAT(rule_errors("weight = 6"),
              ElementsAre("c.toml:5:10: weight must be at most the limit, 5, not 6: no request would ever be "
                          "admitted"));
  EXPECT_THAT(rule_errors("algorithm = \"token-bucket\"\nweight = 6"), SizeIs(1)) << "the limit is its burst";
  EXPECT_THAT(rule_errors("algorithm = \"leaky-bucket\"\nburst = 9\nweight = 9"), IsEmpty());
  EXPECT_THAT(rule_errors("algorithm = \"leaky-bucket\"\nburst = 4\nweight = 5"),
              ElementsAre("c.toml:7:10: weight must be at most the burst, 4, not 5: no request would ever be "
                          "admitted"));
}

TEST(ConfigErrors, ValuesOfTheAlgorithmsAreChecked) {
  const auto bucket = [](const std::string& line) {
    return rule_errors("algorithm = \"token-bucket\"\n" + line);
  };
  EXPECT_THAT(bucket("burst = 0"),
              ElementsAre("c.toml:6:9: burst must be a whole number of at least 1, not 0"));
  EXPECT_THAT(bucket("burst = 9223372036854775807"), IsEmpty());
  EXPECT_THAT(bucket("burst = \"many\""),
              ElementsAre("c.toml:6:9: burst must be a whole number, not a string"));
  EXPECT_THAT(bucket("warmup = \"25h\""), ElementsAre("c.toml:6:10: warmup must be from 0s to 1d, not 25h"));
  EXPECT_THAT(bucket("warmup = \"1d\""), IsEmpty());
  EXPECT_THAT(rule_errors("dephase = \"367d\""),
              ElementsAre("c.toml:5:11: dephase must be from 0s to 366d, not 367d"));
  EXPECT_THAT(rule_errors("dephase = \"366d\""), IsEmpty());
  for (const std::string value : {"-0.01", "0.51", "2", "nan", "inf"})
    EXPECT_THAT(
        rule_errors("hold_back = " + value),
        ElementsAre("c.toml:5:13: hold_back must be a number from 0 to 0.5, the part of the limit that nodes "
                    "may keep back from each other"))
        << value;
  EXPECT_THAT(rule_errors("hold_back = 0.5"), IsEmpty());
  EXPECT_THAT(rule_errors("hold_back = \"1%\""),
              ElementsAre("c.toml:5:13: hold_back must be a number from 0 to 0.5, not a string"));
  EXPECT_THAT(rule_errors("debt = 1"),
              ElementsAre("c.toml:5:8: debt must be true or false, not a whole number"));
  EXPECT_THAT(rule_errors("early_block = \"predict\""),
              ElementsAre("c.toml:5:15: unknown early_block \"predict\"; did you mean \"predictive\"?"));
  EXPECT_THAT(rule_errors("early_block = \"never\""),
              ElementsAre("c.toml:5:15: unknown early_block \"never\"; there are: sound, predictive"));
}

TEST(ConfigErrors, AnAlgorithmThatIsNoneIsToldOnceWhateverElseTheRuleHas) {
  EXPECT_THAT(rule_errors("algorithm = \"bucket\"\nburst = 3\nwarmup = \"1s\"\ndebt = true"), SizeIs(1));
}

TEST(ConfigErrors, KeysOfAnotherAlgorithmAreTold) {
  EXPECT_THAT(
      rule_errors("burst = 10"),
      ElementsAre("c.toml:5:9: burst belongs to the algorithms token-bucket and leaky-bucket, and this "
                  "rule has cooldown: leave burst out, or choose one of them"));
  EXPECT_THAT(rule_errors("algorithm = \"leaky-bucket\"\nwarmup = \"0s\""),
              ElementsAre("c.toml:6:10: warmup belongs to the algorithm token-bucket, and this rule has "
                          "leaky-bucket: leave warmup out, or choose algorithm = \"token-bucket\""))
      << "also with the value it has when it is left out";
  EXPECT_THAT(
      rule_errors("algorithm = \"shed\"\ncooldown = \"5s\"\ndephase = \"1s\"\nlocal_rule = \"cumulative\""),
      ElementsAre("c.toml:6:12: cooldown belongs to the algorithm cooldown, and this rule has shed: "
                  "leave cooldown out, or choose algorithm = \"cooldown\"",
                  "c.toml:7:11: dephase belongs to the algorithm cooldown, and this rule has shed: "
                  "leave dephase out, or choose algorithm = \"cooldown\"",
                  "c.toml:8:14: local_rule belongs to the algorithm cooldown, and this rule has shed: "
                  "leave local_rule out, or choose algorithm = \"cooldown\""));
  EXPECT_THAT(
      rule_errors("penalize = true\nalgorithm = \"token-bucket\""),
      ElementsAre("c.toml:5:12: penalize belongs to the algorithms cooldown and fixed-window, and this "
                  "rule has token-bucket: leave penalize out, or choose one of them"));
  EXPECT_THAT(rule_errors("debt = true\nalgorithm = \"token-bucket\""),
              ElementsAre("c.toml:5:8: debt belongs to the algorithms cooldown, fixed-window and shed; "
                          "token-bucket needs none, because a bucket pays back by itself what was admitted "
                          "too much: leave debt out"));
  EXPECT_THAT(rule_errors("debt = true\nalgorithm = \"sliding-window\""),
              ElementsAre(HasSubstr("because the window still counts what was admitted too much")));
  EXPECT_THAT(
      rule_errors("algorithm = \"strict\"\nhold_back = 0.1"),
      ElementsAre(HasSubstr("strict is exact because all of its claims are told: leave hold_back out")));
  EXPECT_THAT(rule_errors("debt = true\nalgorithm = \"strict\""),
              ElementsAre(HasSubstr("because it never admits too much")));
  EXPECT_THAT(
      rule_errors("debt = true\npenalize = true"),
      ElementsAre(HasSubstr("c.toml:5:8: debt is what was admitted over the limit, and with penalize")));
}

/// Which algorithms take a line.
std::vector<Algorithm> takers(const std::string& line) {
  std::vector<Algorithm> takers;
  for (const Algorithm algorithm : every_algorithm) {
    const auto errors = rule_errors("algorithm = \"" + std::string(to_string(algorithm)) + "\"\n" + line);
    EXPECT_LE(errors.size(), 1u);
    for (const std::string& error : errors) EXPECT_THAT(error, StartsWith("c.toml:6:")) << line;
    if (errors.empty()) takers.push_back(algorithm);
  }
  return takers;
}

TEST(ConfigErrors, EveryKeyBelongsToTheAlgorithmsThatKnowIt) {
  using enum Algorithm;
  EXPECT_THAT(takers("cooldown = \"1s\""), ElementsAre(cooldown));
  EXPECT_THAT(takers("dephase = \"1s\""), ElementsAre(cooldown));
  EXPECT_THAT(takers("local_rule = \"per-span\""), ElementsAre(cooldown));
  EXPECT_THAT(takers("burst = 7"), ElementsAre(token_bucket, leaky_bucket));
  EXPECT_THAT(takers("warmup = \"1s\""), ElementsAre(token_bucket));
  EXPECT_THAT(takers("debt = true"), ElementsAre(cooldown, fixed_window, shed));
  EXPECT_THAT(takers("debt = false"), ElementsAreArray(every_algorithm));
  EXPECT_THAT(takers("hold_back = 0.01"), ElementsAre(cooldown, fixed_window, sliding_window, token_bucket,
                                                      leaky_bucket, sliding_log, shed));
  EXPECT_THAT(takers("penalize = true"), ElementsAre(cooldown, fixed_window));
  EXPECT_THAT(takers("penalize = false"), ElementsAreArray(every_algorithm));
  EXPECT_THAT(takers("early_block = \"predictive\""),
              ElementsAre(cooldown, fixed_window, sliding_window, token_bucket, leaky_bucket, shed));
  EXPECT_THAT(takers("early_block = \"sound\""), ElementsAreArray(every_algorithm));
  EXPECT_THAT(
      takers("on_store_failure = \"open\""),
      ElementsAre(cooldown, fixed_window, sliding_window, token_bucket, leaky_bucket, sliding_log, shed));
  EXPECT_THAT(takers("on_store_failure = \"closed\""), ElementsAreArray(every_algorithm));
  EXPECT_THAT(takers("spans = 101"),
              ElementsAre(cooldown, fixed_window, token_bucket, leaky_bucket, sliding_log, shed, strict));
}

TEST(ConfigErrors, ExactAlgorithmsTakeNoEstimatesAndNoGambles) {
  EXPECT_THAT(
      rule_errors("early_block = \"predictive\"\nalgorithm = \"sliding-log\""),
      ElementsAre("c.toml:5:15: early_block = \"predictive\" is an estimate, and sliding-log is exact: "
                  "leave early_block out"));
  EXPECT_THAT(rule_errors("on_store_failure = \"open\"\nalgorithm = \"strict\""),
              ElementsAre("c.toml:5:20: on_store_failure = \"open\" would let strict exceed its limit: write "
                          "\"local\", which spends the leases at hand, or \"closed\", or choose another "
                          "algorithm"));
}

TEST(ConfigErrors, AFormOfTheLocalRuleGoesWithTheLocalRuleAlone) {
  const std::string per_span = "local_rule = \"per-span\"\n";
  EXPECT_THAT(rule_errors(per_span + "on_store_failure = \"local\""), IsEmpty());
  EXPECT_THAT(
      rule_errors(per_span + "on_store_failure = \"closed\""),
      ElementsAre("c.toml:5:14: local_rule = \"per-span\" is a form of on_store_failure = \"local\", and "
                  "this rule has \"closed\": leave local_rule out, or write on_store_failure = "
                  "\"local\""));
  EXPECT_THAT(rule_errors(per_span + "on_store_failure = \"open\""),
              ElementsAre(HasSubstr("and this rule has \"open\": leave local_rule out")));
  EXPECT_THAT(rule_errors("local_rule = \"cumulative\"\non_store_failure = \"open\""), IsEmpty());
  EXPECT_THAT(rule_errors(per_span + "on_store_failure = \"close\""), SizeIs(1)) << "told once";
  EXPECT_THAT(rule_errors(per_span + "on_store_failure = \"open\"\nalgorithm = \"shed\""),
              ElementsAre(HasSubstr("local_rule belongs to the algorithm cooldown")));
}

TEST(ConfigErrors, AlgorithmsThatRememberAreBounded) {
  const auto log = [](const std::string& limit) {
    return errors_of("[[rule]]\nname = \"a\"\nlimit = " + limit +
                     "\ninterval = \"1s\"\nalgorithm = \"sliding-log\"");
  };
  EXPECT_THAT(log("4096"), IsEmpty());
  EXPECT_THAT(log("4097"),
              ElementsAre("c.toml:3:9: limit must be at most 4096 with sliding-log, which remembers every "
                          "admission, not 4097; sliding-window takes any limit"));
  EXPECT_THAT(rule_errors("algorithm = \"sliding-window\"\nspans = 100"), IsEmpty());
  EXPECT_THAT(rule_errors("algorithm = \"sliding-window\"\nspans = 101"),
              ElementsAre("c.toml:6:9: spans must be at most 100 with sliding-window, which remembers every "
                          "span, not 101"));
}

TEST(ConfigErrors, MethodsAreChecked) {
  EXPECT_THAT(rule_errors("match.method = \"get\""),
              ElementsAre("c.toml:5:16: methods are case-sensitive: write \"GET\", not \"get\""));
  EXPECT_THAT(rule_errors("match.method = [\"GET\", \"P OST\", \"\"]"),
              ElementsAre("c.toml:5:24: method \"P OST\" is not an HTTP method",
                          "c.toml:5:33: method \"\" is not an HTTP method"));
  EXPECT_THAT(rule_errors("match.method = \"purge\""), IsEmpty()) << "own methods may be in any case";
}

TEST(ConfigErrors, HostsAreChecked) {
  EXPECT_THAT(
      rule_errors("match.host = \"example.com:80\""),
      ElementsAre(
          "c.toml:5:14: host \"example.com:80\" must not have a port: use port = … for the listener's "
          "port"));
  EXPECT_THAT(rule_errors("match.host = \"[::1]:80\""), ElementsAre(HasSubstr("must not have a port")));
  EXPECT_THAT(rule_errors("match.host = \"[::1]\""), IsEmpty());
  EXPECT_THAT(rule_errors("match.host = \"[xyz]\""),
              ElementsAre(HasSubstr("is not an IPv6 address in brackets")));
  EXPECT_THAT(rule_errors("match.host = \"http://example.com\""),
              ElementsAre(HasSubstr("must be a host name alone")));
  EXPECT_THAT(
      rule_errors("match.host = \"a.*.com\""),
      ElementsAre("c.toml:5:14: host \"a.*.com\" may have '*' only as its first label: \"*.example.com\""));
  EXPECT_THAT(rule_errors("match.host = \"*\""), ElementsAre(HasSubstr("only as its first label")));
  EXPECT_THAT(rule_errors("match.host = \"a..b\""), ElementsAre(HasSubstr("is not a host name")));
  EXPECT_THAT(rule_errors("match.host = \"a b\""), ElementsAre(HasSubstr("is not a host name")));
  EXPECT_THAT(rule_errors("match.host = \"\""),
              ElementsAre("c.toml:5:14: host must not be empty; leave it out to match every host"));
}

TEST(ConfigErrors, PathTemplatesAreChecked) {
  EXPECT_THAT(rule_errors("match.path = \"login\""),
              ElementsAre(StartsWith("c.toml:5:14: path \"login\", character 1: ")));
  EXPECT_THAT(rule_errors("match.path = \"/users/{id\""),
              ElementsAre(StartsWith("c.toml:5:14: path \"/users/{id\", character 8: ")));
  EXPECT_THAT(rule_errors("match.path = \"\""),
              ElementsAre("c.toml:5:14: path must not be empty; leave it out to match every path"));
}

TEST(ConfigErrors, MatchedPortsAreChecked) {
  EXPECT_THAT(rule_errors("match.port = 0"),
              ElementsAre("c.toml:5:14: port must be a whole number from 1 to 65535, not 0"));
  EXPECT_THAT(rule_errors("match.port = [80, 65536, \"a\"]"),
              ElementsAre("c.toml:5:19: port must be a whole number from 1 to 65535, not 65536",
                          "c.toml:5:26: port must be a whole number, not a string"));
}

TEST(ConfigErrors, DimensionsAreChecked) {
  EXPECT_THAT(rule_errors("key = [\"scr_ip\"]"),
              ElementsAre("c.toml:5:8: unknown dimension \"scr_ip\" in key; did you mean \"src_ip\"?"));
  EXPECT_THAT(
      rule_errors("key = [\"colour\"]"),
      ElementsAre(
          "c.toml:5:8: unknown dimension \"colour\" in key; there are: src_ip, dst_ip, dst_port, method, "
          "host, path, path:…, header:…"));
  EXPECT_THAT(
      rule_errors("key = [\"src_ip/33\"]"),
      ElementsAre(
          "c.toml:5:8: in key \"src_ip/33\" the IPv4 prefix length after the first '/' must be a number "
          "from 0 to 32 (an IPv6 prefix length follows a second '/': \"src_ip/32/64\")"));
  EXPECT_THAT(
      rule_errors("key = [\"dst_ip/32/129\"]"),
      ElementsAre(
          "c.toml:5:8: in key \"dst_ip/32/129\" the IPv6 prefix length after the second '/' must be a "
          "number from 0 to 128"));
  EXPECT_THAT(rule_errors("key = [\"src_ip/\"]"), SizeIs(1));
  EXPECT_THAT(rule_errors("key = [\"src_ip/24/\"]"), SizeIs(1));
  EXPECT_THAT(
      rule_errors("key = [\"header:\"]"),
      ElementsAre("c.toml:5:8: \"header:\" in key lacks a header's name, such as \"header:x-api-key\""));
  EXPECT_THAT(
      rule_errors("key = [\"header:a b\"]"),
      ElementsAre("c.toml:5:8: the header name \"a b\" in key has characters that no header name may have"));
  EXPECT_THAT(rule_errors("key = [\"header:" + std::string(65, 'x') + "\"]"), SizeIs(1));
  EXPECT_THAT(rule_errors("key = [\"src_ip\", \"src_ip/32/64\"]"),
              ElementsAre("c.toml:5:18: \"src_ip\" is in key twice"));
}

TEST(ConfigErrors, PathVariablesMustExist) {
  EXPECT_THAT(
      rule_errors("key = [\"path:\"]"),
      ElementsAre("c.toml:5:8: \"path:\" in key lacks the name of a path variable, such as \"path:id\""));
  EXPECT_THAT(rule_errors("key = [\"path:id\"]"),
              ElementsAre("c.toml:5:8: \"path:id\" in key needs a match with a path that has {id}"));
  EXPECT_THAT(
      rule_errors("match.path = \"/users/{user}\"\nkey = [\"path:id\"]"),
      ElementsAre("c.toml:6:8: \"path:id\" in key: the path \"/users/{user}\" has no {id}; it has: user"));
  EXPECT_THAT(rule_errors("match.path = \"/users\"\nkey = [\"path:id\"]"),
              ElementsAre("c.toml:6:8: \"path:id\" in key: the path \"/users\" has no {id}"));
  EXPECT_THAT(rule_errors("match.path = \"users\"\nkey = [\"path:id\"]"),
              ElementsAre(HasSubstr("character 1")))
      << "a template that is wrong is told once";
}

TEST(ConfigErrors, AKeyHasAtMostEightDimensions) {
  EXPECT_THAT(
      rule_errors(
          "key = [\"header:a\", \"header:b\", \"header:c\", \"header:d\", \"header:e\", \"header:f\", "
          "\"header:g\", \"header:h\", \"header:i\"]"),
      ElementsAre("c.toml:5:104: key has 9 dimensions; the most are 8"));
}

TEST(ConfigErrors, AllRulesTogetherUseAtMostSixteenHeaders) {
  std::string text;
  for (int i = 0; i < 17; ++i)
    text += "[[rule]]\nname = \"r" + std::to_string(i) +
            "\"\nlimit = 1\ninterval = \"1s\"\nkey = [\"header:h" + std::to_string(i) + "\"]\n";
  EXPECT_THAT(errors_of(text),
              ElementsAre("c.toml:85:8: the header \"h16\" is one too many: all rules together may use "
                          "16 different headers"));
}

TEST(ConfigErrors, ThereAreAtMost1024Rules) {
  std::string text;
  for (std::size_t i = 0; i <= max_rules; ++i)
    text += "[[rule]]\nname = \"r" + std::to_string(i) + "\"\nlimit = 1\ninterval = \"1s\"\n";
  EXPECT_THAT(errors_of(text), ElementsAre("c.toml:4097:1: there are 1025 rules; the most are 1024"));
}

TEST(ConfigErrors, WhatIsShownOfTheFileCannotHarmATerminal) {
  const auto errors = errors_of("[node]\nname = \"\\u001b[2J" + std::string(1000, 'x') + "\"");
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_THAT(errors[0], Not(HasSubstr("\x1b")));
  EXPECT_LT(errors[0].size(), 200u);
  const auto method = rule_errors("match.method = \"\\u001b[2J\"");
  ASSERT_THAT(method, SizeIs(1));
  EXPECT_THAT(method[0], HasSubstr("\\x1b[2J"));
}

TEST(ConfigErrors, BracketsThatLeadTheParserAstrayAreToldWithTheirPlace) {
  for (const char* text : {"\n[[[1]]]", "\n[[[a]]]", "\n[[[]]", "\n[[="}) {
    const auto errors = errors_of(text);
    ASSERT_THAT(errors, SizeIs(1)) << text;
    EXPECT_THAT(errors[0], StartsWith("c.toml:2:3: ")) << text;
  }
}

constexpr std::size_t without_end = 1'000'000;

std::string repeated(std::string_view what, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += what;
  return text;
}

TEST(ConfigErrors, AKeyNestedWithoutEndIsRefused) {
  const std::string key = "a" + repeated(".a", without_end);
  EXPECT_THAT(errors_of(key + " = 1"), ElementsAre(StartsWith("c.toml:1:514: nested more deeply")));
  EXPECT_THAT(errors_of("[node]\n[" + key + "]"),
              ElementsAre(StartsWith("c.toml:2:513: nested more deeply")));
  EXPECT_THAT(errors_of("a = {" + key + " = 1}"), ElementsAre(HasSubstr("nested more deeply")));
}

TEST(ConfigErrors, AKeyNestedWithoutEndBehindAStringIsRefused) {
  const std::string more = repeated(".a", without_end);
  for (const char* key :
       {R"("\"")", R"("\\")", R"('\')", R"("\\\"")", R"("'")", R"('"')", R"("#")", R"("")", "''"})
    EXPECT_THAT(errors_of(key + more + " = 1"), ElementsAre(HasSubstr("nested more deeply"))) << key;
  for (const char* value : {R"("""""")", R"("""a"""")", R"("""a""""")", R"(""""a""")", R"("""a\"""")",
                            R"("""\\""")", "''''''", "'''a''''", "'''a'''''", "''''a'''", R"('''\''')",
                            "\"\"\"\n\"\"\"", "\"\"\"a\\\n'\"\"\"", "'''\n\"'''"})
    EXPECT_THAT(errors_of("a = {s = " + std::string(value) + ", a" + more + " = 1}"),
                ElementsAre(HasSubstr("nested more deeply")))
        << value;
}

// The sanitizers see to it that none of them is one that the parser promises the compiler not to come.
TEST(ConfigErrors, CharactersBeyondAsciiOutsideOfQuotesAndCommentsAreRefused) {
  for (const char* character :
       {"\u00a9", "\u00e9", "\u03d5", "\u0490", "\u16a0", "\u2045", "\u4e00", "\U0001f600"})
    for (const char* space : {"", " ", "\t"}) {
      const std::string text = space + std::string(character) + space;
      EXPECT_THAT(errors_of("[node]\nkeys = 1024" + text), Not(IsEmpty())) << text;
      EXPECT_THAT(errors_of(text + "\n[node]"), Not(IsEmpty())) << text;
      EXPECT_THAT(errors_of("a" + text + " = 1"), Not(IsEmpty())) << text;
      EXPECT_THAT(errors_of("a = [-\"" + text), Not(IsEmpty())) << text;
    }
  EXPECT_THAT(errors_of("\ufeff[node]\nkeys = 1024  # caf\u00e9\n"), IsEmpty());
  EXPECT_THAT(errors_of("[node]\n\"caf\u00e9\" = 1"), ElementsAre(HasSubstr("caf\u00e9")));
}

TEST(ConfigErrors, AnArrayNestedWithoutEndIsRefused) {
  for (const char* open : {"[", "[\n", "a={", "[{a=", "{a=[\n", "{a.a=[\n"})
    EXPECT_THAT(errors_of("a = " + repeated(open, without_end)), SizeIs(1)) << open;
}

TEST(ConfigErrors, KeysNestedDeeplyWithinOneAnotherOverSeveralLinesAreRefused) {
  const std::string open = "{a" + repeated(".a", 200) + " = [\n";
  EXPECT_THAT(errors_of("a = " + repeated(open, 100) + repeated("]}", 100)),
              ElementsAre(StartsWith("c.toml:2:")));
}

TEST(ConfigErrors, DotsThatNestNothingAreNotCounted) {
  const std::string dots(300, '.');
  EXPECT_THAT(errors_of("# " + dots + "\n[node] # \"" + dots), IsEmpty());
  EXPECT_THAT(errors_of("a = \"\\\"" + dots + "\""), ElementsAre(HasSubstr("unknown key")));
  EXPECT_THAT(errors_of("a = '''\n" + dots + "'\n''' # ]"), ElementsAre(HasSubstr("unknown key")));
  EXPECT_THAT(errors_of("a = [" + repeated("1.5, ", 300) + "]"), ElementsAre(HasSubstr("unknown key")));
  EXPECT_THAT(errors_of("a = [" + repeated("{a.b = [1.5]},\n", 300) + "]"),
              ElementsAre(HasSubstr("unknown table")));
  EXPECT_THAT(errors_of(repeated("a.a = [\n]\n", 300)), ElementsAre(HasSubstr("cannot redefine")));
}

TEST(ConfigErrors, AnErrorReadsFileLineColumnMessage) {
  EXPECT_EQ((ConfigError{"weir.toml", 3, 14, "no"}.to_string()), "weir.toml:3:14: no");
  EXPECT_EQ((ConfigError{"weir.toml", 0, 0, "no"}.to_string()), "weir.toml: no");
  EXPECT_EQ((ConfigError{"", 0, 0, "no"}.to_string()), "no");
}

// ---- files

class ConfigFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "weir-config-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(ConfigFile, IsReadAsItsText) {
  const std::string path = (folder_ / "c.toml").string();
  std::ofstream(path) << "[node]\nname = \"n\"\nkeys = 3\n";
  const ConfigResult result = load_config(path);
  ASSERT_THAT(result.errors, SizeIs(1));
  EXPECT_EQ(result.errors[0].to_string(),
            path + ":3:8: keys must be a whole number from 64 to 16777216, not 3");
}

TEST_F(ConfigFile, ThatDoesNotExistIsAnErrorOfTheFile) {
  const ConfigResult result = load_config("no/such/file.toml");
  ASSERT_THAT(result.errors, SizeIs(1));
  EXPECT_EQ(result.errors[0].to_string(),
            "no/such/file.toml: cannot open the file: No such file or directory");
}

TEST_F(ConfigFile, ThatIsADirectoryIsAnErrorOfTheFile) {
  const ConfigResult result = load_config(folder_.string());
  ASSERT_THAT(result.errors, SizeIs(1));
  EXPECT_EQ(result.errors[0].to_string(), folder_.string() + ": cannot read the file: Is a directory");
}

TEST_F(ConfigFile, ThatNeverEndsIsRefused) {
  const ConfigResult result = load_config("/dev/zero");
  ASSERT_THAT(result.errors, SizeIs(1));
  EXPECT_EQ(result.errors[0].to_string(), "/dev/zero: the configuration is larger than 16 MiB");
}

// ---- values put together by a program

TEST(CheckConfig, GoodValuesHaveNoErrors) {
  Config config;
  EXPECT_THAT(check_config(config), IsEmpty());
  config.rules.push_back({.name = "a", .match = {}, .key = {}, .limit = 1, .interval = 1s, .cooldown = 1s});
  EXPECT_THAT(check_config(config), IsEmpty());
}

TEST(CheckConfig, NamesThePlaceInsteadOfALine) {
  Config config;
  config.node.keys = 1;
  config.rules.resize(1);
  config.rules[0].name = "a";
  config.rules[0].interval = 1s;
  config.rules[0].match.path = "login";
  std::vector<std::string> texts;
  for (const ConfigError& error : check_config(config)) {
    EXPECT_EQ(error.line, 0u);
    texts.push_back(error.to_string());
  }
  EXPECT_THAT(texts, ElementsAre("node: keys must be a whole number from 64 to 16777216, not 1",
                                 StartsWith("rule[0].match: path \"login\", character 1: "),
                                 "rule[0]: limit must be a whole number of at least 1, not 0",
                                 "rule[0]: cooldown must be longer than 0"));
}

TEST(CheckConfig, RefusesWhatTheReaderCouldNotWrite) {
  Config config;
  config.rules.push_back({.name = "a",
                          .match = {{"GET"}, "UPPER.example.com", "", {0}},
                          .key = {{Dimension::Kind::header, 32, 64, "X-Upper"},
                                  {Dimension::Kind::source_address, 33, 64, ""},
                                  {Dimension::Kind::source_address, 32, 129, ""}},
                          .limit = 1,
                          .interval = -1s,
                          .cooldown = -1s});
  std::vector<std::string> texts;
  for (const ConfigError& error : check_config(config)) texts.push_back(error.to_string());
  EXPECT_THAT(
      texts,
      ElementsAre(
          "rule[0].match: host \"UPPER.example.com\" must be in lower case and without a dot at its end",
          "rule[0].match: port must be a whole number from 1 to 65535, not 0",
          "rule[0]: interval must be from 10ms to 366d, not -1s", "rule[0]: cooldown must be longer than 0",
          "rule[0]: the header name \"X-Upper\" in key must be in lower case",
          "rule[0]: an IPv4 prefix length in key must be from 0 to 32",
          "rule[0]: an IPv6 prefix length in key must be from 0 to 128"));
}

TEST(CheckConfig, TakesAnMtuThatIsLeftOutAndNoneThatIsTooSmall) {
  Config config;
  config.node.name = "n";
  EXPECT_THAT(check_config(config), IsEmpty());
  config.ports.mtu = 67;
  ASSERT_THAT(check_config(config), SizeIs(1));
  EXPECT_EQ(check_config(config)[0].to_string(),
            "ports: mtu must be a whole number from 68 to 65535, not 67");
}

TEST(CheckConfig, TakesEveryAlgorithmWithDefaults) {
  for (const Algorithm algorithm : every_algorithm) {
    Config config;
    config.rules.push_back({.name = "a",
                            .match = {},
                            .key = {},
                            .limit = 1,
                            .interval = 1s,
                            .cooldown = algorithm == Algorithm::cooldown ? Duration{1s} : Duration{},
                            .algorithm = algorithm});
    EXPECT_THAT(check_config(config), IsEmpty()) << to_string(algorithm);
    config.rules[0].cooldown = 5s;
    EXPECT_THAT(check_config(config), IsEmpty()) << "a cooldown is not looked at: " << to_string(algorithm);
  }
}

TEST(CheckConfig, RefusesWhatDoesNotGoTogetherAsTheReaderDoes) {
  Config config;
  config.rules.push_back({.name = "a",
                          .match = {},
                          .key = {},
                          .limit = 1,
                          .interval = 1s,
                          .algorithm = Algorithm::strict,
                          .burst = 1,
                          .warmup = 1s,
                          .early_block = EarlyBlock::predictive,
                          .debt = true,
                          .dephase = 1s,
                          .penalize = true,
                          .on_store_failure = OnStoreFailure::open,
                          .local_rule = LocalRule::per_span});
  config.rules.push_back({.name = "b",
                          .match = {},
                          .key = {},
                          .limit = max_sliding_log_limit + 1,
                          .interval = 1s,
                          .algorithm = Algorithm::sliding_log});
  config.rules.push_back({.name = "c",
                          .match = {},
                          .key = {},
                          .limit = 1,
                          .interval = 1s,
                          .spans = max_sliding_window_spans + 1,
                          .algorithm = Algorithm::sliding_window});
  config.rules.push_back({.name = "d",
                          .match = {},
                          .key = {},
                          .limit = 1,
                          .interval = 1s,
                          .algorithm = Algorithm::token_bucket,
                          .burst = ~std::uint64_t{0},
                          .warmup = -1s});
  config.rules.push_back(
      {.name = "e", .match = {}, .key = {}, .limit = 1, .interval = 1s, .cooldown = 1s, .dephase = -1s});
  std::vector<std::string> texts;
  for (const ConfigError& error : check_config(config)) texts.push_back(error.to_string());
  EXPECT_THAT(
      texts,
      ElementsAre(StartsWith("rule[0]: dephase belongs to the algorithm cooldown, "),
                  StartsWith("rule[0]: local_rule belongs to the algorithm cooldown, "),
                  StartsWith("rule[0]: burst belongs to the algorithms token-bucket and leaky-bucket, "),
                  StartsWith("rule[0]: warmup belongs to the algorithm token-bucket, "),
                  StartsWith("rule[0]: penalize belongs to the algorithms cooldown and fixed-window, "),
                  StartsWith("rule[0]: debt belongs to the algorithms cooldown, fixed-window and shed; "),
                  StartsWith("rule[0]: early_block = \"predictive\" is an estimate, "),
                  StartsWith("rule[0]: on_store_failure = \"open\" would let strict exceed its limit: "),
                  StartsWith("rule[1]: limit must be at most 4096 with sliding-log, "),
                  StartsWith("rule[2]: spans must be at most 100 with sliding-window, "),
                  "rule[3]: burst must be a whole number of at least 1, not 18446744073709551615",
                  "rule[3]: warmup must be from 0s to 1d, not -1s",
                  "rule[4]: dephase must be from 0s to 366d, not -1s"));
}

// ---- any file at all

std::uint64_t seed() {
  const char* text = std::getenv("WEIR_TEST_SEED");
  return text == nullptr ? 20240611 : std::strtoull(text, nullptr, 10);
}

/// One small change, of the kind that editors, typists and broken disks make.
void mutate(std::string& text, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) {
    return static_cast<std::size_t>(random() % std::max<std::size_t>(n, 1));
  };
  static constexpr std::string_view pieces[] = {"[[rule]]", "[",     "]",    "{",     "}",
                                                "\"",       "'''",   "=",    ".",     ",",
                                                "\n",       "-1",    "1e99", "0x",    "inf",
                                                "\\u",      "{id}",  "%",    "limit", "/",
                                                "\t",       "\"s\"", "**",   "true",  "1979-05-27T07:32:00Z"};
  const std::size_t at = below(text.size());
  switch (random() % 5) {
    case 0:
      text.erase(at, 1 + below(16));
      break;
    case 1:
      text.insert(at, 1, static_cast<char>(random()));
      break;
    case 2:
      text.insert(at, pieces[below(std::size(pieces))]);
      break;
    case 3:
      if (!text.empty()) text[at] = static_cast<char>(random());
      break;
    case 4:
      text.insert(at, text.substr(below(text.size()), below(64)));
      break;
  }
}

TEST(ConfigProperty, AnyMutationOfAFileGivesAConfigurationOrErrorsWithTheirPlaces) {
  std::mt19937_64 random(seed());
  const std::string valid = example_text();
  RecordProperty("seed", std::to_string(seed()));
  std::size_t good = 0;
  std::size_t bad = 0;
  for (int run = 0; run < 4000; ++run) {
    std::string text = valid;
    for (std::size_t changes = 1 + random() % 6; changes > 0; --changes) mutate(text, random);
    SCOPED_TRACE("seed " + std::to_string(seed()) + ", run " + std::to_string(run) + ", text:\n" + text);
    const ConfigResult result = parse_config(text, "c.toml");
    if (result) {
      ++good;
      EXPECT_THAT(check_config(result.config), IsEmpty());
      const ConfigResult again = parse_config(toml_text(result.config), "again.toml");
      ASSERT_TRUE(again) << again.errors[0].to_string();
    } else {
      ++bad;
      for (const ConfigError& error : result.errors) {
        ASSERT_GT(error.line, 0u) << error.message;
        ASSERT_GT(error.column, 0u) << error.message;
        ASSERT_FALSE(error.message.empty());
        ASSERT_THAT(error.message, Not(HasSubstr("s3cr%40t@")));
      }
    }
  }
  std::printf("seed %llu: %zu read, %zu refused\n", static_cast<unsigned long long>(seed()), good, bad);
  EXPECT_GT(good, 0u);
  EXPECT_GT(bad, 0u);
}

}  // namespace
}  // namespace weir
