// SPDX-License-Identifier: BSD-3-Clause
#include "filter/options.h"

#include <gtest/gtest.h>

namespace weir::filter {
namespace {

OptionsResult read(std::vector<const char*> arguments) { return read_options(arguments); }

TEST(Options, BeforeTheSeparatorBelongToDpdk) {
  const OptionsResult result = read(
      {"weir-filter", "-l", "0,1", "--no-huge", "--", "--config", "a.toml", "--live", "--duration", "1.5"});
  ASSERT_FALSE(result.exit.has_value()) << result.error;
  EXPECT_EQ(result.options.eal, (std::vector<std::string>{"weir-filter", "-l", "0,1", "--no-huge"}));
  EXPECT_EQ(result.options.config, "a.toml");
  EXPECT_TRUE(result.options.live);
  EXPECT_FALSE(result.options.check);
  EXPECT_EQ(result.options.duration, std::chrono::milliseconds{1500});
}

TEST(Options, WithoutASeparatorAllBelongToTheProgram) {
  const OptionsResult result = read({"weir-filter", "--config", "a.toml", "--check"});
  ASSERT_FALSE(result.exit.has_value()) << result.error;
  EXPECT_EQ(result.options.eal, (std::vector<std::string>{"weir-filter"}));
  EXPECT_TRUE(result.options.check);
  EXPECT_EQ(result.options.duration, Duration::zero());
}

TEST(Options, HelpAndVersionNeedNoConfiguration) {
  const OptionsResult help = read({"weir-filter", "--help"});
  EXPECT_EQ(help.exit, exit_good);
  EXPECT_NE(help.output.find("--duration"), std::string::npos);
  EXPECT_EQ(help.error, "");
  const OptionsResult version = read({"weir-filter", "--", "--version"});
  EXPECT_EQ(version.exit, exit_good);
  EXPECT_EQ(version.output, "weir-filter " WEIR_VERSION "\n");
}

TEST(Options, ThatAreWrongAreRefusedWithAReason) {
  const auto refused = [](std::vector<const char*> arguments, std::string_view reason) {
    const OptionsResult result = read(std::move(arguments));
    EXPECT_EQ(result.exit, exit_usage);
    EXPECT_NE(result.error.find(reason), std::string::npos) << result.error;
    EXPECT_EQ(result.output, "");
  };
  refused({}, "--config is required");
  refused({"weir-filter"}, "--config is required");
  refused({"weir-filter", "--"}, "--config is required");
  refused({"weir-filter", "--config"}, "--config");
  refused({"weir-filter", "--", "--config", "a", "--what"}, "--what");
  refused({"weir-filter", "-l", "0", "--config", "a"}, "EAL options go before '--'");
  refused({"weir-filter", "--", "--config", "a", "--duration", "0"}, "--duration");
  refused({"weir-filter", "--", "--config", "a", "--duration", "nan"}, "--duration");
  refused({"weir-filter", "--", "--config", "a", "--duration", "1e300"}, "--duration");
}

}  // namespace
}  // namespace weir::filter
