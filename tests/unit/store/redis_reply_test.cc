// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

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
       {"HTTP/1.1 400 Bad Request\r\n", "*1000000000\r\n", "*65537\r\n", "*2\r\n*65535\r\n", "*-7\r\n",
        "$-7\r\nx", ":12x\r\n", "*99999999999999999999\r\n"}) {
    RedisReplyReader reader;
    reader.feed(text);
    EXPECT_FALSE(reader.next()) << text;
    EXPECT_TRUE(reader.failed()) << text;
    EXPECT_FALSE(reader.feed("+OK\r\n")) << "for good";
  }
}

// A server speaks Redis' third protocol to those alone that have asked for it.
TEST(RedisReplyReader, RefusesTheKindsOfTheThirdProtocol) {
  for (const char* text :
       {",1.5\r\n", "#t\r\n", "(12345678901234567890\r\n", "=7\r\ntxt:abc\r\n", "%1\r\n:1\r\n:2\r\n",
        "~1\r\n:1\r\n", ">1\r\n+pubsub\r\n", "_\r\n", "=-1\r\n", "%-1\r\n", "~-1\r\n", ">-1\r\n"}) {
    for (const char* around : {"", "*1\r\n"}) {
      RedisReplyReader reader;
      reader.feed(std::string(around) + text);
      EXPECT_FALSE(reader.next()) << around << text;
      EXPECT_TRUE(reader.failed()) << around << text;
    }
  }
}

TEST(RedisReplyReader, RefusesArraysThatLieTooDeep) {
  const auto depth_that_fails = [](std::size_t most) {
    RedisReplyReader reader;
    for (std::size_t depth = 1; depth <= most; ++depth) {
      reader.feed("*1\r\n");
      if (!reader.next() && reader.failed()) return depth;
    }
    return std::size_t{0};
  };
  EXPECT_EQ(depth_that_fails(RedisReplyReader::max_elements), RedisReplyReader::max_depth + 1);
}

TEST(RedisReplyReader, ReadsArraysWithinArrays) {
  RedisReplyReader reader;
  ASSERT_TRUE(reader.feed("*1\r\n*3\r\n:0\r\n:5460\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n:1\r\n"));
  const auto reply = reader.next();
  ASSERT_TRUE(reply);
  ASSERT_THAT(reply->elements, SizeIs(1));
  ASSERT_THAT(reply->elements[0].elements, SizeIs(3));
  EXPECT_EQ(reply->elements[0].elements[2].elements[0].text, "127.0.0.1");
  EXPECT_EQ(reply->elements[0].elements[2].elements[1].integer, 7000);
  EXPECT_EQ(reader.next()->integer, 1);
}

TEST(RedisReplyReader, CountsTheElementsOfEachReplyByItself) {
  RedisReplyReader reader;
  std::string array = "*40000\r\n";
  for (int i = 0; i < 40000; ++i) array += ":1\r\n";
  for (int i = 0; i < 3; ++i) {
    reader.feed(array);
    ASSERT_TRUE(reader.next()) << i;
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

}  // namespace
}  // namespace weir
