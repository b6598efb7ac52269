// SPDX-License-Identifier: BSD-3-Clause
// What is told of a link that comes and goes: all of it once, and little of it when it never ends.
#include "filter/link_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::filter {
namespace {

using namespace std::chrono_literals;

constexpr MonotonicTime start{100s};

PortState with(Link link, std::uint32_t megabits = 10000) {
  return {.port = 1, .name = "0000:3b:00.1", .link = link, .megabits = link == Link::up ? megabits : 0};
}

/// Looks every second at a link that is down and up in turn.
std::vector<std::string> flicker(LinkLog& log, Duration from, Duration to) {
  std::vector<std::string> lines;
  Link link = Link::down;
  for (Duration at = from; at < to; at += 1s, link = link == Link::up ? Link::down : Link::up)
    if (std::string line = log.line(with(link), start + at); !line.empty()) lines.push_back(line);
  return lines;
}

TEST(LinkLog, AChangeIsToldAtOnceAndOnce) {
  LinkLog log(Link::up);
  EXPECT_EQ(log.line(with(Link::up), start), "");
  EXPECT_EQ(log.line(with(Link::down), start + 1s), "port 1 (0000:3b:00.1): link down");
  EXPECT_EQ(log.line(with(Link::down), start + 2s), "");
  EXPECT_EQ(log.line(with(Link::up), start + 3s), "port 1 (0000:3b:00.1): link up, 10 Gbit/s");
  EXPECT_EQ(log.line(with(Link::up), start + 4s), "");
}

TEST(LinkLog, WhatWasKnownBeforeIsNotToldAgain) {
  LinkLog log(Link::down);
  EXPECT_EQ(log.line(with(Link::down), start), "");
  EXPECT_EQ(log.line(with(Link::up, 0), start + 1s), "port 1 (0000:3b:00.1): link up");
}

TEST(LinkLog, ALinkThatComesAndGoesAllTheTimeIsALineEveryTenSeconds) {
  LinkLog log(Link::up);
  EXPECT_EQ(flicker(log, 0s, 9s).size(), LinkLog::lines_at_once);
  EXPECT_EQ(flicker(log, 9s, 1h).size(), 359U);
}

TEST(LinkLog, WhatWasLeftOutIsCounted) {
  LinkLog log(Link::up);
  flicker(log, 0s, 4s);  // told: down, up, down, up
  EXPECT_EQ(log.line(with(Link::down), start + 5s), "");
  EXPECT_EQ(log.line(with(Link::up), start + 6s), "");
  EXPECT_EQ(log.line(with(Link::up), start + 10s),
            "port 1 (0000:3b:00.1): link up, 10 Gbit/s; it has been lost once since the last message");
  EXPECT_EQ(log.line(with(Link::down), start + 11s), "");
  EXPECT_EQ(log.line(with(Link::up), start + 12s), "");
  EXPECT_EQ(log.line(with(Link::down), start + 20s),
            "port 1 (0000:3b:00.1): link down; it has been lost 2 times since the last message");
}

TEST(LinkText, HasTheSpeedInTheUnitThatPeopleUse) {
  const auto speed = [](std::uint32_t megabits) { return link_text(with(Link::up, megabits)); };
  EXPECT_EQ(speed(100), "link up, 100 Mbit/s");
  EXPECT_EQ(speed(1000), "link up, 1 Gbit/s");
  EXPECT_EQ(speed(2500), "link up, 2.5 Gbit/s");
  EXPECT_EQ(speed(40000), "link up, 40 Gbit/s");
  EXPECT_EQ(speed(1050), "link up, 1.05 Gbit/s");
  EXPECT_EQ(speed(0), "link up") << "the device does not say";
  EXPECT_EQ(link_text(with(Link::unknown)), "link unknown");
}

}  // namespace
}  // namespace weir::filter
