// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <string>

#include "weir/request.h"
#include "weir/rule.h"

namespace weir {
namespace {

std::string respelled(const char* text) {
  IpAddress address;
  if (inet_pton(AF_INET, text, address.bytes.data()) == 1) {
    address.family = IpAddress::Family::v4;
  } else if (inet_pton(AF_INET6, text, address.bytes.data()) == 1) {
    address.family = IpAddress::Family::v6;
  } else {
    ADD_FAILURE() << text << " is no address";
  }
  return address.to_string();
}

TEST(IpAddressText, WritesIpv4AsDottedQuad) {
  EXPECT_EQ(respelled("203.0.113.7"), "203.0.113.7");
  EXPECT_EQ(respelled("0.0.0.0"), "0.0.0.0");
  EXPECT_EQ(respelled("255.255.255.255"), "255.255.255.255");
}

TEST(IpAddressText, WritesIpv6AsRfc5952Says) {
  EXPECT_EQ(respelled("::"), "::");
  EXPECT_EQ(respelled("::1"), "::1");
  EXPECT_EQ(respelled("1::"), "1::");
  EXPECT_EQ(respelled("2001:DB8::1"), "2001:db8::1") << "lower case";
  EXPECT_EQ(respelled("2001:0db8:0000:0000:0000:0000:0002:0001"), "2001:db8::2:1") << "no leading zeros";
  EXPECT_EQ(respelled("2001:db8:0:1:1:1:1:1"), "2001:db8:0:1:1:1:1:1") << "one zero group is not shortened";
  EXPECT_EQ(respelled("2001:0:0:1:0:0:0:1"), "2001:0:0:1::1") << "the longest run";
  EXPECT_EQ(respelled("2001:db8:0:0:1:0:0:1"), "2001:db8::1:0:0:1") << "the first of equals";
  EXPECT_EQ(respelled("fe80:1:2:3:4:5:0:0"), "fe80:1:2:3:4:5::");
  EXPECT_EQ(respelled("1:2:3:4:5:6:7:8"), "1:2:3:4:5:6:7:8");
  EXPECT_EQ(respelled("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
}

TEST(IpAddressText, WritesNoAddressAsADash) { EXPECT_EQ(IpAddress{}.to_string(), "-"); }

TEST(RuleWords, AreThoseOfTheConfiguration) {
  EXPECT_EQ(to_string(Action::drop), "drop");
  EXPECT_EQ(to_string(Action::reset), "reset");
  EXPECT_EQ(to_string(Action::reply_429), "reply-429");
  EXPECT_EQ(to_string(Action::observe), "observe");
  EXPECT_EQ(to_string(Algorithm::cooldown), "cooldown");
  EXPECT_EQ(to_string(OnStoreFailure::local), "local");
  EXPECT_EQ(to_string(OnStoreFailure::open), "open");
  EXPECT_EQ(to_string(OnStoreFailure::closed), "closed");
  EXPECT_EQ(to_string(LocalRule::cumulative), "cumulative");
  EXPECT_EQ(to_string(LocalRule::per_span), "per-span");
}

}  // namespace
}  // namespace weir
