// SPDX-License-Identifier: BSD-3-Clause
#include "base/whole_number.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace weir {
namespace {

TEST(WholeNumber, IsWhatItsDigitsSay) {
  EXPECT_EQ(whole_number<std::uint16_t>("0"), 0);
  EXPECT_EQ(whole_number<std::uint16_t>("007"), 7);
  EXPECT_EQ(whole_number<std::int64_t>("-42"), -42);
}

TEST(WholeNumber, GoesUpToWhatItsTypeHoldsAndNoFurther) {
  EXPECT_EQ(whole_number<std::uint16_t>("65535"), 65535);
  EXPECT_FALSE(whole_number<std::uint16_t>("65536"));
  EXPECT_EQ(whole_number<std::uint8_t>("255"), 255);
  EXPECT_FALSE(whole_number<std::uint8_t>("256"));
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(whole_number<std::int64_t>(std::to_string(most)), most);
  EXPECT_EQ(whole_number<std::int64_t>(std::to_string(least)), least);
  EXPECT_FALSE(whole_number<std::int64_t>("9223372036854775808"));
}

TEST(WholeNumber, IsNothingWhereThereIsAnythingElse) {
  for (const std::string_view text : {"", "-", "+1", " 1", "1 ", "1.0", "1e3", "0x10", "a", "1a"})
    EXPECT_FALSE(whole_number<std::int64_t>(text)) << '"' << text << '"';
  EXPECT_FALSE(whole_number<std::int64_t>(std::string_view("1\0", 2)));
  EXPECT_FALSE(whole_number<std::uint32_t>("-1")) << "of a type without a sign";
}

}  // namespace
}  // namespace weir
