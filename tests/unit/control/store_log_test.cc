// SPDX-License-Identifier: BSD-3-Clause
// What is told of a store that comes and goes: all of it once, and little of it when it never ends.
#include "control/store_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr MonotonicTime start{100s};
constexpr std::string_view lost = "store lost: refused; going on locally, counts are kept";
constexpr std::string_view back = "store reached again";

/// Spans of 100 ms in which the store is lost and back in turn.
std::vector<std::string> flicker(StoreLog& log, Duration from, Duration to) {
  std::vector<std::string> lines;
  bool reached = false;
  for (Duration at = from; at < to; at += 100ms, reached = !reached)
    if (std::string line = log.line(reached, "refused", start + at); !line.empty()) lines.push_back(line);
  return lines;
}

TEST(StoreLog, ALossAndAReturnAreToldAtOnceAndOnce) {
  StoreLog log;
  EXPECT_EQ(log.line(true, "", start), "");
  EXPECT_EQ(log.line(false, "refused", start + 1s), lost);
  EXPECT_EQ(log.line(false, "refused", start + 2s), "");
  EXPECT_EQ(log.line(true, "", start + 3s), back);
  EXPECT_EQ(log.line(true, "", start + 4s), "");
}

TEST(StoreLog, AStoreThatHasYetToBeConnectedToIsLostOnlyWhenThatTakesTooLong) {
  StoreLog healthy;
  healthy.expect_by(start + 1s);
  EXPECT_EQ(healthy.line(false, "not connected yet", start), "");
  EXPECT_EQ(healthy.line(false, "not connected yet", start + 1s - 1ns), "");
  EXPECT_EQ(healthy.line(true, "", start + 1s), "");
  StoreLog away;
  away.expect_by(start + 1s);
  EXPECT_EQ(away.line(false, "refused", start), "");
  EXPECT_EQ(away.line(false, "refused", start + 1s), lost);
}

TEST(StoreLog, AStoreThatHasBeenReachedIsLostAtOnce) {
  StoreLog log;
  log.expect_by(start + 1s);
  EXPECT_EQ(log.line(true, "", start), "");
  EXPECT_EQ(log.line(false, "refused", start + 1ms), lost);
}

TEST(StoreLog, ALossWithoutAReasonIsThatNoAnswerCame) {
  StoreLog log;
  EXPECT_EQ(log.line(false, "", start), "store lost: no answer in time; going on locally, counts are kept");
}

TEST(StoreLog, AStoreThatComesAndGoesAllTheTimeIsALineEveryTenSeconds) {
  StoreLog log;
  EXPECT_EQ(flicker(log, 0s, 9s).size(), StoreLog::lines_at_once);
  EXPECT_EQ(flicker(log, 9s, 1h).size(), 359U);
}

TEST(StoreLog, WhatWasLeftOutIsCounted) {
  StoreLog log;
  flicker(log, 0s, 400ms);  // told: lost, back, lost, back
  EXPECT_EQ(log.line(false, "refused", start + 1s), "");
  EXPECT_EQ(log.line(true, "", start + 2s), "");
  EXPECT_EQ(log.line(false, "full", start + 3s), "");
  EXPECT_EQ(log.line(true, "", start + 4s), "");
  EXPECT_EQ(log.line(true, "", start + 10s),
            "store reached again, lost 2 times since the last message: full");
  EXPECT_EQ(log.line(false, "refused", start + 19s), "");
  EXPECT_EQ(log.line(true, "", start + 19500ms), "");
  EXPECT_EQ(log.line(false, "refused", start + 20s),
            "store lost (2 times since the last message): refused; going on locally, counts are kept");
  EXPECT_EQ(log.line(true, "", start + 20500ms), "");
  EXPECT_EQ(log.line(true, "", start + 30s), back);
  EXPECT_EQ(log.line(false, "full", start + 31s), "");
  EXPECT_EQ(log.line(true, "", start + 32s), "");
  EXPECT_EQ(log.line(true, "", start + 40s), "store reached again, lost once since the last message: full");
}

TEST(StoreLog, TheLastStateIsToldAlthoughNothingChangesAnyMore) {
  StoreLog log;
  flicker(log, 0s, 400ms);
  EXPECT_EQ(log.line(false, "refused", start + 500ms), "");
  EXPECT_EQ(log.line(false, "refused", start + 9900ms), "");
  EXPECT_EQ(log.line(false, "refused", start + 10s), lost);
}

TEST(StoreLog, AfterAQuietTimeChangesAreToldAtOnceAgain) {
  StoreLog log;
  flicker(log, 0s, 10s);
  EXPECT_EQ(flicker(log, 60s, 61s).size(), StoreLog::lines_at_once);
}

}  // namespace
}  // namespace weir
