// SPDX-License-Identifier: BSD-3-Clause
#include "classify/normalise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace weir {
namespace {

using namespace std::string_literals;

std::string path(std::string_view target, std::size_t room = 2048) {
  std::vector<char> buffer(room);
  return std::string(normalise_path(target, buffer));
}

std::string host(std::string_view text) {
  std::array<char, 256> buffer;
  return std::string(normalise_host(text, buffer));
}

TEST(NormalisePath, LeavesNormalPathsInPlace) {
  std::array<char, 16> buffer;
  const std::string_view target = "/users/5";
  EXPECT_EQ(normalise_path(target, buffer).data(), target.data());
}

TEST(NormalisePath, CutsQueryAndFragment) {
  EXPECT_EQ(path("/login?x=1"), "/login");
  EXPECT_EQ(path("/login#x"), "/login");
  EXPECT_EQ(path("/login?a#b?c"), "/login");
  EXPECT_EQ(path("/a/..?/../b"), "/");
  EXPECT_EQ(path("/?"), "/");
}

TEST(NormalisePath, DecodesOnce) {
  EXPECT_EQ(path("/%6cogin"), "/login");
  EXPECT_EQ(path("/%6Cogin"), "/login");
  EXPECT_EQ(path("/%256cogin"), "/%6cogin");
  EXPECT_EQ(path("/caf%C3%A9"), "/caf\xc3\xa9");
  EXPECT_EQ(path("/a%3Fb%23c%25"), "/a?b#c%") << "decoded, these are ordinary characters";
  EXPECT_EQ(path("/a%00b"), "/a\0b"s);
}

TEST(NormalisePath, LeavesWhatIsNoEncodingAsItIs) {
  for (const auto text : {"/%", "/%2", "/%zz", "/%2z", "/a%", "/%%"}) EXPECT_EQ(path(text), text);
  EXPECT_EQ(path("/%%6cogin"), "/%login");
}

TEST(NormalisePath, MergesSlashes) {
  EXPECT_EQ(path("//login"), "/login");
  EXPECT_EQ(path("/a///b//"), "/a/b/");
  EXPECT_EQ(path("/a%2Fb%2f%2Fc"), "/a/b/c");
}

TEST(NormalisePath, ResolvesDots) {
  EXPECT_EQ(path("/./login"), "/login");
  EXPECT_EQ(path("/a/../login"), "/login");
  EXPECT_EQ(path("/a/b/../../login"), "/login");
  EXPECT_EQ(path("/a/./b/."), "/a/b/");
  EXPECT_EQ(path("/a/b/.."), "/a/");
  EXPECT_EQ(path("/a/.."), "/");
  EXPECT_EQ(path("/a//../b"), "/b");
  EXPECT_EQ(path("/%2e%2E/a/%2e/.%2e/login"), "/login");
  EXPECT_EQ(path("/a%2f..%2flogin"), "/login");
}

TEST(NormalisePath, StaysAtTheTop) {
  EXPECT_EQ(path("/.."), "/");
  EXPECT_EQ(path("/../../login"), "/login");
}

TEST(NormalisePath, LeavesOtherDotsAlone) {
  for (const auto text : {"/...", "/.a", "/a.", "/a..", "/..a/b", "/.well-known/x"})
    EXPECT_EQ(path(text), text);
}

TEST(NormalisePath, KnowsTheOtherFormsOfATarget) {
  EXPECT_EQ(path("http://example.com/login?x"), "/login");
  EXPECT_EQ(path("HTTP://example.com//a/../login"), "/login");
  EXPECT_EQ(path("http://example.com"), "/");
  EXPECT_EQ(path("http://example.com?x"), "/");
  EXPECT_EQ(path("*"), "*");
  EXPECT_EQ(path(""), "");
  EXPECT_EQ(path("login"), "/login") << "as if it began with a slash";
  EXPECT_EQ(path("?x"), "/");
  EXPECT_EQ(path("http:///login"), "/login") << "the authority is left out";
  EXPECT_EQ(path("http:/login"), "/http:/login") << "not the absolute form";
}

TEST(NormalisePath, CutsTheResolvedPathToTheRoomThereIs) {
  EXPECT_EQ(path("/abcdef", 4), "/abc");
  EXPECT_EQ(path("//abcdef", 4), "/abc");
  EXPECT_EQ(path("//abc/", 4), "/abc");
  EXPECT_EQ(path("//abc/d", 4), "/abc");
  EXPECT_EQ(path("//abc", 1), "/");
}

TEST(NormalisePath, LetsNoLongSegmentHideTheRest) {
  const std::string padding(5000, 'x');
  EXPECT_EQ(path("/" + padding + "/../login"), "/login");
  EXPECT_EQ(path("/a/" + padding + "/" + padding + "/../../../login"), "/login");
  EXPECT_EQ(path("/" + padding + "/./y/../../login"), "/login");
  EXPECT_EQ(path("/" + padding + "//../login"), "/login");
}

// The definition, spelt out with all the memory it wants.
std::string reference(std::string_view target) {
  if (target.empty() || target == "*") return std::string(target);
  target = target.substr(0, target.find_first_of("?#"));
  std::string decoded;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const auto is_hex = [&](std::size_t at) { return at < target.size() && std::isxdigit(target[at]) != 0; };
    if (target[i] == '%' && is_hex(i + 1) && is_hex(i + 2)) {
      decoded += static_cast<char>(std::stoi(std::string(target.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      decoded += target[i];
    }
  }
  std::vector<std::string> segments;
  bool slash = true;
  for (std::size_t begin = 0; begin <= decoded.size();) {
    const std::size_t end = std::min(decoded.find('/', begin), decoded.size());
    const std::string segment = decoded.substr(begin, end - begin);
    const bool last = end == decoded.size();
    if (segment == "..") {
      if (!segments.empty()) segments.pop_back();
    } else if (segment != "." && !segment.empty()) {
      segments.push_back(segment);
    }
    slash = !last || segment.empty() || segment == "." || segment == "..";
    begin = end + 1;
  }
  std::string result;
  for (const auto& segment : segments) result += "/" + segment;
  if (slash || result.empty()) result += "/";
  return result;
}

TEST(NormalisePath, AgreesWithItsDefinitionInAnyRoom) {
  constexpr unsigned seed = 17;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::string_view parts[] = {"/",   "/", "/",   ".", "..", "a",   "bb",  "%2e",
                                    "%2F", "%", "%41", "?", "#",  "ccc", "\xff"};
  for (int round = 0; round < 50000; ++round) {
    std::string target = "/";
    for (unsigned i = 0; i < random() % 24; ++i) target += parts[random() % (random() % 8 == 0 ? 15 : 11)];
    const std::string expected = reference(target);
    const std::size_t room = 1 + random() % 24;
    ASSERT_EQ(path(target), expected) << target;
    ASSERT_EQ(path(target, room), expected.substr(0, room)) << target << " in " << room;
    ASSERT_EQ(path(path(target, 4096), 4096).find("//"), std::string::npos);
  }
}

TEST(NormaliseHost, IsLowerCaseWithoutPortAndTrailingDot) {
  EXPECT_EQ(host("example.com"), "example.com");
  EXPECT_EQ(host("EXAMPLE.Com"), "example.com");
  EXPECT_EQ(host("example.com:8080"), "example.com");
  EXPECT_EQ(host("example.com:"), "example.com");
  EXPECT_EQ(host("example.com."), "example.com");
  EXPECT_EQ(host("Example.com.:80"), "example.com");
  EXPECT_EQ(host("example.com:@any"), "example.com") << "as nginx sees it";
  EXPECT_EQ(host("example.com.:80@any"), "example.com");
  EXPECT_EQ(host(""), "");
  EXPECT_EQ(host("."), "");
  EXPECT_EQ(host(":80"), "");
}

TEST(NormaliseHost, KeepsTheBracketsOfIpv6) {
  EXPECT_EQ(host("[2001:DB8::1]:80"), "[2001:db8::1]");
  EXPECT_EQ(host("[::1]"), "[::1]");
  EXPECT_EQ(host("[::1"), "[::1") << "unfinished: as it is";
}

// The end of a name tells whose it is.
TEST(NormaliseHost, KeepsTheEndOfWhatDoesNotFit) {
  EXPECT_EQ(host(std::string(300, 'A') + "B"), std::string(255, 'a') + "b");
  EXPECT_EQ(host(std::string(300, 'a') + "b.:80"), std::string(255, 'a') + "b");
  std::array<char, 3> little;
  EXPECT_EQ(normalise_host("a.bcd:1", little), "bcd");
}

TEST(NormaliseHost, LeavesNormalHostsInPlace) {
  std::array<char, 256> buffer;
  const std::string_view text = "example.com:80";
  EXPECT_EQ(normalise_host(text, buffer).data(), text.data());
}

TEST(SplitAbsolute, KnowsTheAbsoluteFormOnly) {
  EXPECT_EQ(split_absolute("http://h:1/a?b").authority, "h:1");
  EXPECT_EQ(split_absolute("http://h:1/a?b").rest, "/a?b");
  EXPECT_EQ(split_absolute("x+y-1.2://h").authority, "h");
  EXPECT_EQ(split_absolute("x+y-1.2://h").rest, "");
  for (const auto text : {"", "/", "/http://h/", "http:/h", "http//h", "1http://h", "://h", "h:443", "*"})
    EXPECT_EQ(split_absolute(text).authority, "") << text;
}

}  // namespace
}  // namespace weir
