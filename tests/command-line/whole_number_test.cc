// SPDX-License-Identifier: BSD-3-Clause
#include "command-line/whole_number.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weir::command_line {
namespace {

class WholeNumber : public testing::Test {
 protected:
  /// What "--number" was taken for; nothing where it was refused, with the reason.
  template <typename Number>
  std::optional<Number> read(const std::string& text, CLI::Validator validator) {
    CLI::App app("reads a number");
    Number number{};
    app.add_option("--number", number)->transform(std::move(validator));
    reason.clear();
    try {
      app.parse(std::vector<std::string>{"--number=" + text});
    } catch (const CLI::ParseError& error) {
      reason = error.what();
      return std::nullopt;
    }
    return number;
  }
  std::string reason;
};

TEST_F(WholeNumber, IsTakenAsItStands) {
  for (const std::uint64_t number :
       {0ULL, 1ULL, 20261121ULL, 9223372036854775808ULL, 18446744073709551615ULL})
    EXPECT_EQ(read<std::uint64_t>(std::to_string(number), whole_number()), number) << reason;
  EXPECT_EQ(read<std::uint16_t>("65535", whole_number(65535)), 65535) << reason;
}

TEST_F(WholeNumber, WithLeadingZeroesIsDecimal) {
  EXPECT_EQ(read<std::uint64_t>("010", whole_number()), 10U) << reason;
  EXPECT_EQ(read<std::uint64_t>("0009", whole_number()), 9U) << reason;
}

TEST_F(WholeNumber, ThatDoesNotFitIsRefused) {
  EXPECT_FALSE(read<std::uint64_t>("18446744073709551616", whole_number()));
  EXPECT_EQ(reason,
            "--number: must be a whole number from 0 to 18446744073709551615, not '18446744073709551616'");
  EXPECT_FALSE(read<std::uint64_t>("99999999999999999999", whole_number()));
  EXPECT_FALSE(read<std::uint16_t>("65536", whole_number(65535)));
  EXPECT_EQ(reason, "--number: must be a whole number from 0 to 65535, not '65536'");
}

TEST_F(WholeNumber, IsDigitsAndNothingElse) {
  for (const char* text : {"-1", "-0", "+1", "1.0", "1e3", "0x10", "1 ", " 1", "1,2", "many", "1_000"})
    EXPECT_FALSE(read<std::uint64_t>(text, whole_number())) << "'" << text << "'";
}

TEST_F(WholeNumber, IsNoEmptyText) {
  CLI::App app("reads a number");
  std::uint64_t number = 7;
  app.add_option("--number", number)->transform(whole_number());
  EXPECT_THROW(app.parse(std::vector<std::string>{"", "--number"}), CLI::ParseError) << number;
}

}  // namespace
}  // namespace weir::command_line
