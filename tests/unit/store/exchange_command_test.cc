// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/exchange_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "replies.h"
#include "store/exchange/exchange.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Status = ExchangeAnswer::Status;

const std::string writer(Exchange::writer_length, 'w');
constexpr OutboxGroupId group{3, 1s, 170, true};

std::string number(std::uint64_t value) {
  std::string bytes;
  for (int shift = 40; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

TEST(AnExchangeCall, IsOneCallOnOneHash) {
  const std::vector<std::string> summaries{"one", "two"};
  std::string output;
  ExchangeCommand("weir").append(
      output, {.group = group, .sequence = 12, .time_to_live = 2500us, .entries = {}, .names = {}},
      {.seed = "seed",
       .writer = writer,
       .generation = 2,
       .number = 7,
       .piece = "piece",
       .covered = 5,
       .summaries = summaries},
      "EVALSHA", "digest");
  EXPECT_EQ(output,
            "*13\r\n$7\r\nEVALSHA\r\n$6\r\ndigest\r\n$1\r\n1\r\n$19\r\nweir:{3}:x:1000:170\r\n$4\r\nseed\r\n$"
            "24\r\n" +
                writer +
                "\r\n$1\r\n2\r\n$1\r\n5\r\n$1\r\n7\r\n$1\r\n3\r\n$5\r\npiece\r\n$3\r\none\r\n$3\r\ntwo\r\n");
}

TEST(AnExchangeCall, WithoutSummariesSaysSo) {
  std::string output;
  ExchangeCommand("weir").append(
      output, {.group = group, .sequence = 1, .time_to_live = 1s, .entries = {}, .names = {}},
      {.seed = "seed", .writer = writer, .piece = {}, .covered = {}, .summaries = {}}, "EVAL", "text");
  EXPECT_TRUE(output.ends_with(writer + "\r\n$1\r\n0\r\n$2\r\n-1\r\n$1\r\n0\r\n$4\r\n1000\r\n$0\r\n\r\n"))
      << output;
}

TEST(AnExchangeQuestion, ReadsFields) {
  const std::vector<std::string> fields{"a:1", "b:22"};
  std::string output;
  ExchangeCommand("weir").append(
      output, {.group = group, .sequence = 1, .time_to_live = 1s, .entries = {}, .names = {}},
      ExchangeQuestion{.fields = fields, .turn = 3});
  EXPECT_EQ(output, "*4\r\n$5\r\nHMGET\r\n$19\r\nweir:{3}:x:1000:170\r\n$3\r\na:1\r\n$4\r\nb:22\r\n");
}

TEST(AnExchangeAnswer, SaysWhatTheLogsAre) {
  const std::string table = writer + number(1) + number(2) + number(3) + number(0x123456789abc) + number(5);
  const RedisReply reply = array({integer(1), text(table)});
  const auto answer = ExchangeCommand::answer(reply);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, Status::applied);
  ASSERT_THAT(answer->logs, SizeIs(1));
  EXPECT_EQ(answer->logs[0].writer, writer);
  EXPECT_EQ(answer->logs[0].generation, 1u);
  EXPECT_EQ(answer->logs[0].summaries, 2u);
  EXPECT_EQ(answer->logs[0].covered, 3u);
  EXPECT_EQ(answer->logs[0].next, 0x123456789abcu);
  EXPECT_EQ(answer->logs[0].largest, 5u);
  EXPECT_THAT(ExchangeCommand::answer(array({integer(1), text("")}))->logs, IsEmpty());
}

TEST(AnExchangeAnswer, SaysThatTheLogIsLostOrTheSeedAnother) {
  EXPECT_EQ(ExchangeCommand::answer(array({integer(0)}))->status, Status::lost);
  const RedisReply reply = array({integer(2), text("seed")});
  const auto answer = ExchangeCommand::answer(reply);
  EXPECT_EQ(answer->status, Status::other_seed);
  EXPECT_EQ(answer->seed, "seed");
}

TEST(AnExchangeAnswer, InAnotherFormIsNone) {
  EXPECT_FALSE(ExchangeCommand::answer(RedisReply()));
  EXPECT_FALSE(ExchangeCommand::answer(integer(1)));
  EXPECT_FALSE(ExchangeCommand::answer(array({})));
  EXPECT_FALSE(ExchangeCommand::answer(array({text("1"), text("")})));
  EXPECT_FALSE(ExchangeCommand::answer(array({integer(3), text("")})));
  EXPECT_FALSE(ExchangeCommand::answer(array({integer(1)})));
  EXPECT_FALSE(ExchangeCommand::answer(array({integer(1), integer(1)})));
  EXPECT_FALSE(ExchangeCommand::answer(array({integer(1), text(writer)}))) << "a table that is torn";
  EXPECT_FALSE(ExchangeCommand::answer(array({integer(2), text(std::string(257, 's'))})));
}

TEST(ExchangePieces, AreThereOrNot) {
  const RedisReply reply = array({text("a"), RedisReply(), text("")});
  const auto pieces = ExchangeCommand::pieces(reply);
  ASSERT_TRUE(pieces);
  EXPECT_THAT(*pieces, ElementsAre("a", std::nullopt, ""));
  EXPECT_FALSE(ExchangeCommand::pieces(text("a")));
  EXPECT_FALSE(ExchangeCommand::pieces(array({integer(1)})));
}

}  // namespace
}  // namespace weir
