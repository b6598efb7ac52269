// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/batch_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "replies.h"
#include "store/redis/message_pack.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::SizeIs;
using Type = RedisReply::Type;

const std::string instance(instance_length, 'b');

/// The words of a command in Redis' protocol.
std::vector<std::string> words(const std::string& command) {
  std::vector<std::string> result;
  std::size_t at = command.find("\r\n") + 2;
  while (at < command.size()) {
    EXPECT_EQ(command[at], '$');
    const std::size_t end = command.find("\r\n", at);
    const std::size_t size = std::stoul(command.substr(at + 1, end - at - 1));
    result.push_back(command.substr(end + 2, size));
    EXPECT_EQ(command.substr(end + 2 + size, 2), "\r\n");
    at = end + 2 + size + 2;
  }
  EXPECT_EQ(command.substr(0, command.find("\r\n")), "*" + std::to_string(result.size()));
  return result;
}

/// A packed array's elements, strings in quotes.
std::vector<std::string> unpacked(std::string_view bytes) {
  PackedReader reader(bytes);
  std::vector<std::string> result;
  const auto elements = reader.array();
  EXPECT_TRUE(elements);
  for (std::size_t i = 0; i < elements.value_or(0); ++i) {
    const auto element = reader.next();
    if (!element) break;
    result.push_back(element->type == Packed::Type::string    ? '"' + std::string(element->text) + '"'
                     : element->type == Packed::Type::integer ? std::to_string(element->integer)
                                                              : "nothing");
  }
  EXPECT_TRUE(reader.at_end());
  return result;
}

class ABatch : public ::testing::Test {
 protected:
  void add(std::string_view name, OutboxEntry entry) {
    entry.name_at = static_cast<std::uint32_t>(names_.size());
    entry.name_size = static_cast<std::uint32_t>(name.size());
    names_ += name;
    entries_.push_back(entry);
  }
  std::vector<std::string> sent(StoreLayout layout) const {
    std::string output;
    BatchCommand(layout, "weir", instance)
        .append(output,
                {.group = {3, 1s, 170},
                 .sequence = 12,
                 .time_to_live = 2500us,
                 .entries = entries_,
                 .names = names_},
                "EVALSHA", "digest");
    return words(output);
  }

 private:
  std::string names_;
  std::vector<OutboxEntry> entries_;
};

TEST_F(ABatch, IsOneCallOnOneHash) {
  add("login|10.0.0.1", {.delta = 5});
  add("all", {});
  add("x", {.delta = 2, .returned = 7});
  add("y", {.raised_to = 1234567890123});
  add("z", {.delta = 1'000'000'000'000'000});
  const auto command = sent(StoreLayout::hash);
  ASSERT_THAT(command, SizeIs(8));
  EXPECT_THAT(std::vector(command.begin(), command.begin() + 6),
              ElementsAre("EVALSHA", "digest", "1", "weir:{3}:1000:170", "12", "3"));
  EXPECT_THAT(unpacked(command[6]), ElementsAre("5", "0", "-5", "\">1234567890123\"", "\"1000000000000000\""))
      << "what a script's number would not hold is text";
  EXPECT_THAT(unpacked(command[7]), ElementsAre("\"~applied:" + instance + '"', "\"login|10.0.0.1\"",
                                                "\"all\"", "\"x\"", "\"y\"", "\"z\""));
}

TEST_F(ABatch, HasAMarkerThatIsLongEnoughToMakeTheHashATable) {
  add("a", {.delta = 1});
  const auto command = sent(StoreLayout::hash);
  EXPECT_GT(unpacked(command.at(7)).at(0).size() - 2, 64u) << "hash-max-listpack-value";
}

TEST_F(ABatch, InTheLiteralFormIsOneCallOnItsMarkerAndEachCounter) {
  add("login|10.0.0.1", {.delta = 5});
  add("all", {});
  add("y", {.raised_to = 7});
  EXPECT_THAT(sent(StoreLayout::plain),
              ElementsAre("EVALSHA", "digest", "4", "weir:{3}:1000:170:applied:" + instance,
                          "login|10.0.0.1:170", "all:170", "y:170", "12", "60003", "3", "5", "0", ">7"));
}

TEST_F(ABatch, InTheLiteralFormNamesThePrefixWithWhatIsOfNoRule) {
  add("~nodes", {.delta = 1});
  add("login|~refused", {.delta = 2});
  const auto command = sent(StoreLayout::plain);
  ASSERT_THAT(command, SizeIs(11));
  EXPECT_EQ(command[4], "weir:~nodes:170") << "other nodes' rules may be others";
  EXPECT_EQ(command[5], "login|~refused:170");
}

TEST(BatchOutcomes, OfAHashAreOnePerEntry) {
  const BatchCommand command(StoreLayout::hash, "weir", instance);
  std::string packed;
  pack_array(packed, 5);
  pack_integer(packed, 5);
  pack_string(packed, "9007199254740993");
  packed += '\xc2';
  pack_string(packed, "abc");
  pack_integer(packed, -3);
  const auto outcomes = command.outcomes(text(packed), 5);
  ASSERT_TRUE(outcomes);
  ASSERT_THAT(*outcomes, SizeIs(5));
  EXPECT_TRUE((*outcomes)[0].applied);
  EXPECT_EQ((*outcomes)[0].total, 5u);
  EXPECT_EQ((*outcomes)[1].total, 9007199254740993u) << "beyond what a double holds";
  EXPECT_FALSE((*outcomes)[2].applied);
  EXPECT_FALSE((*outcomes)[3].applied);
  EXPECT_EQ((*outcomes)[4].total, 0u) << "more given back than is there is nothing counted";
}

TEST(BatchOutcomes, OfAHashInAnotherFormAreNone) {
  const BatchCommand command(StoreLayout::hash, "weir", instance);
  EXPECT_FALSE(command.outcomes(RedisReply(), 1)) << "nil";
  EXPECT_FALSE(command.outcomes(integer(1), 1));
  EXPECT_FALSE(command.outcomes(array({integer(1)}), 1));
  for (const std::string& packed : {""s, "\x91"s, "\x92\x01"s, "\x90"s, "\x01"s, "\x91\x01\x01"s, "\x91\xc1"s,
                                    "\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xff"s,
                                    "\x91\xd9\x05"
                                    "ab"s,
                                    "\x91\xcd\x01"s, "\x81\x01\x01"s})
    EXPECT_FALSE(command.outcomes(text(packed), 1)) << ::testing::PrintToString(packed);
}

TEST(BatchOutcomes, SurviveAnyBytes) {
  const BatchCommand command(StoreLayout::hash, "weir", instance);
  std::mt19937_64 random(20240611);
  for (int run = 0; run < 100'000; ++run) {
    std::string packed = random() % 2 == 0 ? "\x93"s : ""s;
    for (std::size_t length = random() % 24; length > 0; --length) packed += static_cast<char>(random());
    const auto outcomes = command.outcomes(text(packed), 3);
    if (outcomes) {
      ASSERT_THAT(*outcomes, SizeIs(3));
    }
  }
}

TEST(BatchOutcomes, InTheLiteralFormAreOnePerEntry) {
  const BatchCommand command(StoreLayout::plain, "weir", instance);
  const auto outcomes = command.outcomes(array({integer(5), RedisReply{}, text("9007199254740993"),
                                                text("WRONGTYPE x", Type::error), text("abc"), integer(-3)}),
                                         6);
  ASSERT_TRUE(outcomes);
  EXPECT_EQ((*outcomes)[0].total, 5u);
  EXPECT_EQ((*outcomes)[1].total, 0u) << "nothing there is nothing counted";
  EXPECT_EQ((*outcomes)[2].total, 9007199254740993u);
  EXPECT_FALSE((*outcomes)[3].applied);
  EXPECT_FALSE((*outcomes)[4].applied);
  EXPECT_EQ((*outcomes)[5].total, 0u);
  EXPECT_FALSE(command.outcomes(array({integer(1)}), 2)) << "too few";
  EXPECT_FALSE(command.outcomes(array({integer(1)}), 0)) << "too many";
  EXPECT_FALSE(command.outcomes(array({text("OK", Type::status)}), 1));
}

TEST(MessagePack, BringsEveryIntegerBack) {
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> values{0, 1, -1, least, most, least + 1};
  for (int bit = 0; bit < 63; ++bit)
    for (const std::int64_t near : {-2, -1, 0, 1})
      for (const std::int64_t sign : {-1, 1}) values.push_back(sign * ((std::int64_t{1} << bit) + near));
  std::string packed;
  pack_array(packed, values.size());
  for (const std::int64_t value : values) pack_integer(packed, value);
  PackedReader reader(packed);
  ASSERT_EQ(reader.array(), values.size());
  for (const std::int64_t value : values) {
    const auto element = reader.next();
    ASSERT_TRUE(element);
    ASSERT_EQ(element->integer, value);
  }
  EXPECT_TRUE(reader.at_end());
}

TEST(MessagePack, BringsStringsOfEveryLengthBack) {
  for (const std::size_t size : {0u, 31u, 32u, 255u, 256u, 65535u, 65536u}) {
    std::string packed;
    const std::string value(size, '\xff');
    pack_string(packed, value);
    const auto element = PackedReader(packed).next();
    ASSERT_TRUE(element) << size;
    EXPECT_EQ(element->text, value) << size;
  }
}

}  // namespace
}  // namespace weir
