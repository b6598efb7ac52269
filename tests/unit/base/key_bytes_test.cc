// SPDX-License-Identifier: BSD-3-Clause
#include "base/key_bytes.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/rule.h"

namespace weir {
namespace {

IpAddress address(const char* text) {
  IpAddress result;
  const bool is_ipv4 = inet_pton(AF_INET, text, result.bytes.data()) == 1;
  EXPECT_TRUE(is_ipv4 || inet_pton(AF_INET6, text, result.bytes.data()) == 1) << text;
  result.family = is_ipv4 ? IpAddress::Family::v4 : IpAddress::Family::v6;
  return result;
}

std::string bytes_of(const KeyBytes& key) {
  return {reinterpret_cast<const char*>(key.bytes().data()), key.bytes().size()};
}

std::string text_bytes(std::string_view value) {
  KeyBytes key;
  key.add_text(value);
  return bytes_of(key);
}

std::string text_name(std::string_view value) {
  KeyBytes key;
  key.add_text(value);
  return key_name("r", key.bytes());
}

std::string prefix_name(const char* text, std::uint8_t ipv4_bits, std::uint8_t ipv6_bits) {
  KeyBytes key;
  key.add_prefix(address(text), ipv4_bits, ipv6_bits);
  return key_name("r", key.bytes());
}

TEST(KeyName, IsTheRulesAloneWithoutDimensions) { EXPECT_EQ(key_name("login", KeyBytes{}.bytes()), "login"); }

TEST(KeyName, SeparatesValuesByBars) {
  KeyBytes key;
  key.add_prefix(address("203.0.113.7"), 32, 64);
  key.add_text("GET");
  key.add_number(8080);
  EXPECT_EQ(key_name("login", key.bytes()), "login|203.0.113.7|GET|8080");
}

TEST(KeyName, TellsAbsentFromEmptyAndFromADash) {
  KeyBytes absent;
  absent.add_absent();
  EXPECT_EQ(key_name("r", absent.bytes()), "r|-");
  EXPECT_EQ(text_name(""), "r|");
  EXPECT_EQ(text_name("-"), "r|%2D");
  EXPECT_EQ(text_name("a-b"), "r|a-b") << "only a lone dash looks like an absent value";
}

TEST(KeyName, EncodesWhatWouldMakeNamesAmbiguousOrUnprintable) {
  EXPECT_EQ(text_name("a|b"), "r|a%7Cb");
  EXPECT_EQ(text_name("100%"), "r|100%25");
  EXPECT_EQ(text_name("~user"), "r|%7Euser");
  EXPECT_EQ(text_name(std::string_view("\0\n\x7f\xc3\xa9", 5)), "r|%00%0A%7F%C3%A9");
  EXPECT_EQ(text_name("a b/c:{d}"), "r|a b/c:{d}");
}

TEST(KeyName, ShowsPrefixesShorterThanTheAddress) {
  EXPECT_EQ(prefix_name("10.1.2.3", 32, 64), "r|10.1.2.3");
  EXPECT_EQ(prefix_name("10.1.2.3", 16, 64), "r|10.1.0.0/16");
  EXPECT_EQ(prefix_name("10.1.255.3", 20, 64), "r|10.1.240.0/20");
  EXPECT_EQ(prefix_name("10.1.2.3", 0, 64), "r|0.0.0.0/0");
  EXPECT_EQ(prefix_name("2001:db8:1:2:3:4:5:6", 32, 64), "r|2001:db8:1:2::/64");
  EXPECT_EQ(prefix_name("2001:db8:1:2:3:4:5:6", 32, 128), "r|2001:db8:1:2:3:4:5:6");
  EXPECT_EQ(prefix_name("2001:db8:ffff::", 32, 33), "r|2001:db8:8000::/33");
}

TEST(KeyBytesPrefix, GivesNeighboursInOnePrefixOneKey) {
  EXPECT_EQ(prefix_name("10.1.2.3", 24, 64), prefix_name("10.1.2.200", 24, 64));
  EXPECT_NE(prefix_name("10.1.2.3", 24, 64), prefix_name("10.1.3.3", 24, 64));
}

TEST(KeyBytesPrefix, TakesTooManyBitsForTheWholeAddress) {
  EXPECT_EQ(prefix_name("10.1.2.3", 255, 64), "r|10.1.2.3");
  EXPECT_EQ(prefix_name("2001:db8::1", 32, 255), "r|2001:db8::1");
}

TEST(KeyBytesPrefix, TreatsNoAddressAsAbsent) {
  KeyBytes key;
  key.add_prefix(IpAddress{}, 32, 64);
  EXPECT_EQ(key_name("r", key.bytes()), "r|-");
}

TEST(KeyBytesText, KeepsUpTo128BytesWhole) {
  const std::string longest(128, 'x');
  EXPECT_EQ(text_name(longest), "r|" + longest);
}

TEST(KeyBytesText, KeepsLongerValuesAsPrefixAndDigest) {
  const std::string name = text_name(std::string(129, 'x'));
  EXPECT_EQ(name.substr(0, 2 + 32 + 1), "r|" + std::string(32, 'x') + "~");
  EXPECT_EQ(name.size(), 2u + 32 + 1 + 32);
  EXPECT_TRUE(std::all_of(name.end() - 32, name.end(), [](char c) { return std::isxdigit(c) != 0; }));
}

// The digest must be equal on all nodes, of all versions: a change of this name splits running clusters'
// counters.
TEST(KeyBytesText, DigestsAreFixedForAllNodes) {
  EXPECT_EQ(text_name(std::string(129, 'x')),
            "r|xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx~bdd523176d79d0068c51e90f8ad00c8c");
  EXPECT_EQ(text_name(std::string(5000, 'x')),
            "r|xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx~a2e887834c3dda642df1053c66336ca3");
}

TEST(KeyBytesText, TellsLongValuesApartByAnyByte) {
  for (const std::size_t length : {129u, 511u, 512u, 513u, 1024u, 3000u}) {
    const std::string value(length, 'x');
    EXPECT_NE(text_bytes(value), text_bytes(value + 'x')) << length;
    for (const std::size_t at : {std::size_t{40}, length / 2, length - 1}) {
      std::string changed = value;
      changed[at] = 'y';
      EXPECT_NE(text_bytes(value), text_bytes(changed)) << "byte " << at << " of " << length;
    }
  }
}

TEST(KeyBytesText, CannotBePassedOffAsADigest) {
  const std::string imitation = text_name(std::string(200, 'x')).substr(2);
  EXPECT_NE(text_name(imitation), "r|" + imitation);
}

TEST(KeyBytesText, LowersAsciiOnlyAndAtAnyLength) {
  for (const std::size_t length : {1u, 128u, 129u, 512u, 513u, 2000u}) {
    KeyBytes lowered;
    lowered.add_text_lower(std::string(length, 'X'));
    EXPECT_EQ(bytes_of(lowered), text_bytes(std::string(length, 'x'))) << length;
  }
  KeyBytes key;
  key.add_text_lower("EXAMPLE.com@[Z`\xc3\x89");
  EXPECT_EQ(bytes_of(key), text_bytes("example.com@[z`\xc3\x89"));
}

TEST(KeyBytesRoom, KeepsThreeLongestValuesWhole) {
  KeyBytes key;
  const std::string longest(128, 'x');
  for (int i = 0; i < 3; ++i) key.add_text(longest);
  EXPECT_EQ(key_name("r", key.bytes()), "r|" + longest + "|" + longest + "|" + longest);
}

std::string bytes_of_texts(const std::vector<std::string>& values) {
  KeyBytes key;
  for (const auto& value : values) key.add_text(value);
  return bytes_of(key);
}

TEST(KeyBytesRoom, FindsRoomForEveryFieldWhateverTheFirstOnesTake) {
  // Up to eight values that are kept whole as long as there is room, and then endless ones.
  for (std::size_t whole = 0; whole <= max_dimensions; ++whole) {
    std::vector<std::string> values;
    for (std::size_t i = 0; i < max_dimensions; ++i)
      values.emplace_back(i < whole ? 128 : 5000, static_cast<char>('a' + i));
    const std::string bytes = bytes_of_texts(values);
    const std::string name = key_name("r", std::as_bytes(std::span(bytes)));
    EXPECT_EQ(std::count(name.begin(), name.end(), '|'), static_cast<std::ptrdiff_t>(max_dimensions))
        << whole;
    EXPECT_EQ(name.find("%?"), std::string::npos) << whole;
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto changed = values;
      changed[i].back() = '!';
      EXPECT_NE(bytes, bytes_of_texts(changed)) << "field " << i << " counts, too";
    }
  }
}

TEST(KeyBytesRoom, FindsRoomForShortFieldsBehindLongestOnes) {
  KeyBytes key;
  for (int i = 0; i < 4; ++i) key.add_text(std::string(128, 'x'));
  key.add_prefix(address("2001:db8::1"), 32, 128);
  key.add_number(80);
  key.add_absent();
  key.add_text("");
  const std::string name = key_name("r", key.bytes());
  EXPECT_TRUE(name.ends_with("|2001:db8::1|80|-|")) << name;
}

TEST(KeyBytesRoom, IgnoresFieldsBeyondTheMostThereMayBe) {
  KeyBytes key;
  for (std::size_t i = 0; i < max_dimensions; ++i) key.add_text("x");
  const std::string before = bytes_of(key);
  key.add_text("y");
  key.add_absent();
  key.add_number(1);
  key.add_prefix(address("10.0.0.1"), 32, 64);
  EXPECT_EQ(bytes_of(key), before);
}

TEST(KeyBytes, StartsAfreshWhenCleared) {
  KeyBytes key;
  for (std::size_t i = 0; i < max_dimensions; ++i) key.add_text(std::string(300, 'x'));
  key.clear();
  EXPECT_TRUE(key.bytes().empty());
  key.add_text("y");
  EXPECT_EQ(bytes_of(key), text_bytes("y"));
}

// Random keys of random shapes: equal bytes, equal names and equal values must be the same thing.
TEST(KeyBytes, NeverGivesDifferentValuesOneKeyOrOneName) {
  constexpr unsigned seed = 20240607;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::vector<std::string> alphabet = {"",     "-",   "|", "%", "~", "a", "%2D", std::string(1, '\0'),
                                             "\x05", "\x01"};
  std::map<std::string, std::string> value_of_bytes;
  std::map<std::string, std::string> value_of_name;
  for (int round = 0; round < 20000; ++round) {
    KeyBytes key;
    std::string values;  // an unambiguous spelling, for comparison
    const unsigned fields = random() % 4;
    for (unsigned i = 0; i < fields; ++i) {
      if (random() % 8 == 0) {
        key.add_absent();
        values += "absent;";
        continue;
      }
      std::string value;
      const unsigned parts = random() % 64 == 0 ? 200 : random() % 4;
      for (unsigned p = 0; p < parts; ++p) value += alphabet[random() % alphabet.size()];
      key.add_text(value);
      values += std::to_string(value.size()) + ":" + value + ";";
    }
    const auto [by_bytes, new_bytes] = value_of_bytes.emplace(bytes_of(key), values);
    ASSERT_EQ(by_bytes->second, values);
    const auto [by_name, new_name] = value_of_name.emplace(key_name("r", key.bytes()), values);
    ASSERT_EQ(by_name->second, values) << by_name->first;
  }
}

TEST(KeyNameOfForeignBytes, ShowsWhatCouldBeReadAndThenAMark) {
  const auto name = [](std::string_view bytes) { return key_name("r", std::as_bytes(std::span(bytes))); };
  EXPECT_EQ(name("\x09"), "r|%?") << "unknown tag";
  EXPECT_EQ(name("\x01"), "r|%?") << "text without a length";
  EXPECT_EQ(name(std::string_view("\x00\x01\x05xy", 5)), "r|-|%?") << "text shorter than its length";
  EXPECT_EQ(name("\x01\xff" + std::string(255, 'x')), "r|%?") << "text longer than any";
  EXPECT_EQ(name("\x02\x20\x0a"), "r|%?") << "half an address";
  EXPECT_EQ(name("\x02\x21\x0a\x01\x02\x03"), "r|%?") << "more bits than an address has";
  EXPECT_EQ(name("\x04\x01"), "r|%?") << "half a number";
  EXPECT_EQ(name("\x05\x21" + std::string(49, 'x')), "r|%?") << "digest with too long a prefix";
  EXPECT_EQ(name("\x05\x01x" + std::string(15, 'x')), "r|%?") << "digest cut off";
}

TEST(KeyNameOfForeignBytes, IsSafeForEveryTruncationOfAKey) {
  KeyBytes key;
  key.add_text("abc");
  key.add_prefix(address("10.0.0.1"), 24, 64);
  key.add_prefix(address("2001:db8::1"), 24, 64);
  key.add_number(443);
  key.add_text(std::string(300, 'x'));
  key.add_absent();
  for (std::size_t length = 0; length <= key.bytes().size(); ++length) {
    // A copy of its own, so that a sanitizer sees a read beyond the end.
    const std::vector<std::byte> cut(key.bytes().begin(),
                                     key.bytes().begin() + static_cast<std::ptrdiff_t>(length));
    const std::string name = key_name("r", cut);
    EXPECT_TRUE(name.starts_with("r"));
  }
}

TEST(KeyNameOfForeignBytes, IsSafeForNoise) {
  constexpr unsigned seed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes(random() % 64);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random() % (round % 2 == 0 ? 256 : 7));
    const std::string name = key_name("r", bytes);
    EXPECT_TRUE(std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c <= 0x7e; })) << name;
  }
}

}  // namespace
}  // namespace weir
