// SPDX-License-Identifier: BSD-3-Clause
#include "config/durations.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace weir {
namespace {

using namespace std::chrono_literals;

TEST(Durations, HaveAUnit) {
  EXPECT_EQ(parse_duration("250ns").value, 250ns);
  EXPECT_EQ(parse_duration("100us").value, 100us);
  EXPECT_EQ(parse_duration("500ms").value, 500ms);
  EXPECT_EQ(parse_duration("1s").value, 1s);
  EXPECT_EQ(parse_duration("5m").value, 5min);
  EXPECT_EQ(parse_duration("1h").value, 1h);
  EXPECT_EQ(parse_duration("2d").value, 48h);
  EXPECT_EQ(parse_duration("0s").value, 0s);
}

TEST(Durations, MayBeDecimal) {
  EXPECT_EQ(parse_duration("1.5s").value, 1500ms);
  EXPECT_EQ(parse_duration("0.001ms").value, 1us);
  EXPECT_EQ(parse_duration("0.50s").value, 500ms);
  EXPECT_EQ(parse_duration("0.000000000005d").value, 432ns);
}

TEST(Durations, AreExactOrRefused) {
  for (const char* text : {"0.1ns", "1.0000000001s", "0.3333333333333333333333333d", "0.00000000000001h"})
    EXPECT_EQ(parse_duration(text).error, "of \"" + std::string(text) + "\" is finer than a nanosecond");
}

TEST(Durations, BeyondTheRangeAreRefused) {
  EXPECT_EQ(parse_duration("9223372036854775807ns").value, Duration::max());
  for (const char* text : {"9223372036854775808ns", "9223372036.854775808s", "106752d",
                           "99999999999999999999999999999999999999999999999999s"})
    EXPECT_EQ(parse_duration(text).error, "of \"" + std::string(text) + "\" is too long: at most 106751d");
}

TEST(Durations, OfAnotherFormAreRefused) {
  for (const char* text : {"", "s", "1", "1.", "1.s", ".5s", "1 s", " 1s", "1s ", "1S", "1m30s", "+1s",
                           "1e3s", "0x1s", "1,5s", "1sec", "1.5.5s"}) {
    const DurationResult result = parse_duration(text);
    EXPECT_FALSE(result) << text;
    EXPECT_NE(result.error.find("must be a number and one of the units"), std::string::npos) << result.error;
  }
  EXPECT_EQ(parse_duration("-1s").error, "must not be negative");
}

TEST(Durations, AreWrittenAsTheyAreRead) {
  EXPECT_EQ(format_duration(0s), "0s");
  EXPECT_EQ(format_duration(90s), "90s");
  EXPECT_EQ(format_duration(60s), "1m");
  EXPECT_EQ(format_duration(1500ms), "1500ms");
  EXPECT_EQ(format_duration(Duration::max()), "9223372036854775807ns");
  std::mt19937_64 random(7);
  for (int i = 0; i < 10000; ++i) {
    const Duration duration(static_cast<std::int64_t>(random() >> (1 + random() % 62)));
    const DurationResult read = parse_duration(format_duration(duration));
    ASSERT_TRUE(read) << format_duration(duration);
    ASSERT_EQ(read.value, duration);
  }
}

}  // namespace
}  // namespace weir
