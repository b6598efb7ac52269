// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "store/redis/batch_script.h"

namespace weir {
namespace {

using ::testing::SizeIs;
using Type = RedisReply::Type;

TEST(RedisReplyReader, ReadsEveryKindOfReply) {
  RedisReplyReader whole;
  using namespace std::string_view_literals;
  ASSERT_TRUE(whole.feed(
      "+OK\r\n-ERR no\r\n:42\r\n$3\r\na\0b\r\n$-1\r\n*3\r\n:1\r\n-WRONGTYPE x\r\n$-1\r\n*0\r\n"sv));
  EXPECT_EQ(whole.next()->text, "OK");
  const auto error = whole.next();
  EXPECT_TRUE(error->is_error());
  EXPECT_TRUE(error->is_error("ERR"));
  EXPECT_FALSE(error->is_error("ER"));
  EXPECT_EQ(whole.next()->integer, 42);
  EXPECT_EQ(whole.next()->text, "a\0b"sv);
  EXPECT_EQ(whole.next()->type, Type::nil);
  const auto array = whole.next();
  ASSERT_THAT(array->elements, SizeIs(3));
  EXPECT_EQ(array->elements[0].integer, 1);
  EXPECT_TRUE(array->elements[1].is_error("WRONGTYPE"));
  EXPECT_EQ(array->elements[2].type, Type::nil);
  EXPECT_EQ(whole.next()->type, Type::array);
  EXPECT_FALSE(whole.next());
  EXPECT_FALSE(whole.failed());
}

TEST(RedisReplyReader, ReadsRepliesThatComeByteByByte) {
  RedisReplyReader reader;
  for (const char c : std::string_view("*2\r\n$2\r\nab\r\n:7\r")) {
    ASSERT_TRUE(reader.feed({&c, 1}));
    ASSERT_FALSE(reader.next());
  }
  ASSERT_TRUE(reader.feed("\n"));
  EXPECT_THAT(reader.next()->elements, SizeIs(2));
}

TEST(RedisReplyReader, RefusesWhatIsNotTheProtocolOrOutOfBounds) {
  for (const char* text :
       {"HTTP/1.1 400 Bad Request\r\n", "*1000000000\r\n", "*4097\r\n", "*1\r\n*1\r\n:1\r\n", "*-7\r\n",
        "$-7\r\nx", ":12x\r\n", "*99999999999999999999\r\n"}) {
    RedisReplyReader reader;
    reader.feed(text);
    EXPECT_FALSE(reader.next()) << text;
    EXPECT_TRUE(reader.failed()) << text;
    EXPECT_FALSE(reader.feed("+OK\r\n")) << "for good";
  }
}

TEST(RedisReplyReader, RefusesAReplyWithoutEnd) {
  RedisReplyReader reader;
  const std::string piece(64 * 1024, 'x');
  ASSERT_TRUE(reader.feed("$536870000\r\n"));
  int pieces = 0;
  while (reader.feed(piece)) {
    ASSERT_FALSE(reader.next());
    ASSERT_LT(++pieces, 1000);
  }
  EXPECT_TRUE(reader.failed());
}

TEST(RedisReplyReader, SurvivesAnyBytes) {
  std::mt19937_64 random(20240611);
  const std::string alphabet = "*$:+-\r\n0123456789a";
  for (int run = 0; run < 20'000; ++run) {
    RedisReplyReader reader;
    std::string text;
    for (std::size_t length = random() % 64; length > 0; --length)
      text += random() % 3 == 0 ? std::string("\r\n") : std::string(1, alphabet[random() % alphabet.size()]);
    reader.feed(text);
    while (const auto reply = reader.next())
      ASSERT_LE(reply->elements.size(), RedisReplyReader::max_elements);
  }
}

RedisReply integer(std::int64_t value) {
  RedisReply reply;
  reply.type = Type::integer;
  reply.integer = value;
  return reply;
}

RedisReply text(Type type, std::string value) {
  RedisReply reply;
  reply.type = type;
  reply.text = std::move(value);
  return reply;
}

TEST(BatchOutcomes, AreOnePerEntry) {
  RedisReply reply;
  reply.type = Type::array;
  reply.elements = {integer(5),
                    RedisReply{},
                    text(Type::string, "9007199254740993"),
                    text(Type::error, "WRONGTYPE x"),
                    text(Type::string, "abc"),
                    integer(-3)};
  const auto outcomes = batch_outcomes(reply, 6);
  ASSERT_TRUE(outcomes);
  ASSERT_THAT(*outcomes, SizeIs(6));
  EXPECT_TRUE((*outcomes)[0].applied);
  EXPECT_EQ((*outcomes)[0].total, 5u);
  EXPECT_EQ((*outcomes)[1].total, 0u) << "nothing there is nothing counted";
  EXPECT_EQ((*outcomes)[2].total, 9007199254740993u) << "beyond what a double holds";
  EXPECT_FALSE((*outcomes)[3].applied);
  EXPECT_FALSE((*outcomes)[4].applied);
  EXPECT_EQ((*outcomes)[5].total, 0u);
}

TEST(BatchOutcomes, OfAnotherFormAreNone) {
  RedisReply reply;
  EXPECT_FALSE(batch_outcomes(reply, 0)) << "nil";
  reply.type = Type::array;
  reply.elements = {integer(1)};
  EXPECT_FALSE(batch_outcomes(reply, 2)) << "too few";
  EXPECT_FALSE(batch_outcomes(reply, 0)) << "too many";
  reply.elements = {text(Type::status, "OK")};
  EXPECT_FALSE(batch_outcomes(reply, 1));
  EXPECT_FALSE(batch_outcomes(integer(1), 1));
}

TEST(BatchCommand, NamesCountersByPartitionNameAndOrdinal) {
  using namespace std::chrono_literals;
  OutboxBatch batch;
  batch.partition = 3;
  batch.sequence = 12;
  batch.entries.resize(2);
  batch.entries[0] = {.key = 1, .name = "login|10.0.0.1", .ordinal = 170, .delta = 5, .time_to_live = 1500us};
  batch.entries[1] = {.key = 2, .name = "all", .ordinal = -1, .time_to_live = 2s};
  const BatchCommand command("EVALSHA", "digest", batch, "weir", "beef", 90s);
  EXPECT_THAT(command.words(), ::testing::ElementsAre("EVALSHA", "digest", "3", "weir:{3}:applied:beef",
                                                      "weir:{3}:login|10.0.0.1:170", "weir:{3}:all:-1", "12",
                                                      "90000", "5", "2", "0", "2000"));
}

}  // namespace
}  // namespace weir
