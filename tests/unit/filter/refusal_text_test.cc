// SPDX-License-Identifier: BSD-3-Clause
#include "filter/refusal_text.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::filter {
namespace {

Rule rule_named(std::string name) {
  Rule rule;
  rule.name = std::move(name);
  rule.limit = 20;
  rule.interval = std::chrono::seconds{60};
  return rule;
}

std::string written(RefusalText& text, std::uint64_t seconds, bool head = false) {
  std::array<std::byte, 1024> out;
  const RefusalText::Written response = text.write(seconds, head, out);
  const std::span<const std::byte> bytes(out.data(), response.length);
  EXPECT_EQ(response.sum.checksum(), ChecksumSum(bytes).checksum());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(WholeSeconds, RoundUpAndAreAtLeastOne) {
  EXPECT_EQ(whole_seconds(Duration{-5}), 1U);
  EXPECT_EQ(whole_seconds(Duration{0}), 1U);
  EXPECT_EQ(whole_seconds(Duration{1}), 1U);
  EXPECT_EQ(whole_seconds(std::chrono::seconds{1}), 1U);
  EXPECT_EQ(whole_seconds(std::chrono::seconds{1} + Duration{1}), 2U);
  EXPECT_EQ(whole_seconds(std::chrono::milliseconds{2999}), 3U);
  EXPECT_EQ(whole_seconds(Duration::max()), 9223372037U);
}

TEST(RefusalText, IsThatOfTheRequestWhateverTheOneBeforeWasToldAndWhicheverMethodItHad) {
  RefusalText text(rule_named("login"));
  std::array<std::string, 2> alone;
  for (const bool head : {false, true}) {
    RefusalText of_its_own(rule_named("login"));
    alone[head ? 1 : 0] = written(of_its_own, 7, head);
  }
  EXPECT_NE(alone[0], alone[1]);
  EXPECT_TRUE(alone[0].starts_with(alone[1]));
  for (const std::uint64_t before : {1U, 7U, 8U, 7000U})
    for (const bool head_before : {false, true})
      for (const bool head : {false, true}) {
        EXPECT_EQ(written(text, before, head_before).find("Retry-After: " + std::to_string(before) + "\r\n"),
                  std::string("HTTP/1.1 429 Too Many Requests\r\n").size());
        EXPECT_EQ(written(text, 7, head), alone[head ? 1 : 0]) << before << ' ' << head_before;
      }
}

TEST(RefusalText, HasTheLengthOfItsBodyInItsHead) {
  RefusalText text(rule_named("a-longer-name"));
  for (const std::uint64_t seconds : {9ULL, 10ULL, 99'999ULL, 10'000'000'000ULL}) {
    const std::string response = written(text, seconds);
    const std::size_t body = response.find("\r\n\r\n") + 4;
    EXPECT_NE(response.find("\r\nContent-Length: " + std::to_string(response.size() - body) + "\r\n"),
              std::string::npos)
        << response;
  }
}

TEST(RefusalText, ThatDoesNotFitIsNotWritten) {
  RefusalText text(rule_named("login"));
  const std::string whole = written(text, 3);
  std::array<std::byte, 1024> out{};
  EXPECT_EQ(text.write(3, false, std::span(out).first(whole.size())).length, whole.size());
  out = {};
  EXPECT_EQ(text.write(3, false, std::span(out).first(whole.size() - 1)).length, 0U);
  EXPECT_EQ(out[0], std::byte{0});
}

}  // namespace
}  // namespace weir::filter
