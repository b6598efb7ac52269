// SPDX-License-Identifier: BSD-3-Clause
#include "store/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <regex>
#include <string>
#include <tuple>
#include <vector>

#include "store/inbox.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr MonotonicTime start{1000s};
constexpr std::size_t plenty = 100'000;

CounterWrite write(std::string_view name, Ordinal ordinal, std::uint64_t delta,
                   MonotonicTime expires = start + 10s) {
  return {.key = 7,
          .name = name,
          .ordinal = ordinal,
          .interval = 1s,
          .delta = delta,
          .time_to_live = 10s,
          .expires = expires};
}

/// A batch with what it refers to: it outlives the outbox's next change.
struct Sent {
  explicit Sent(const OutboxBatch& batch) : group(batch.group), sequence(batch.sequence) {
    for (const OutboxEntry& entry : batch.entries) {
      names.emplace_back(batch.name(entry));
      entries.push_back(entry);
    }
  }
  bool operator==(const Sent& other) const {
    return group == other.group && sequence == other.sequence && names == other.names;
  }
  OutboxGroupId group;
  std::uint64_t sequence;
  std::vector<std::string> names;
  std::vector<OutboxEntry> entries;
};

/// All that is to be sent now, over all partitions.
std::vector<Sent> batches(Outbox& outbox) {
  std::vector<Sent> result;
  for (std::uint32_t p = 0; p < store_partitions; ++p)
    while (const auto batch = outbox.next(p)) result.emplace_back(*batch);
  return result;
}

std::vector<CounterReply> answer(Outbox& outbox, const Sent& sent, std::uint64_t total = 1) {
  std::vector<CounterReply> replies;
  outbox.answer(sent.group, sent.sequence,
                std::vector<OutboxOutcome>(sent.entries.size(), OutboxOutcome{true, total}), replies);
  return replies;
}

TEST(Partition, IsAStableHashOfTheName) {
  // Nodes of all versions must agree: these values are part of the protocol.
  EXPECT_EQ(partition_of(""), 0xcbf29ce484222325u % 64);
  EXPECT_EQ(partition_of("a"), 0xaf63dc4c8601ec8cu % 64);
  EXPECT_EQ(partition_of("foobar"), 0x85944171f73967e8u % 64);
}

TEST(Partition, OfTheCounterInTheReadmeIsTheOneItIsLookedForIn) {
  const char* const root = std::getenv("WEIR_SOURCE_ROOT");
  ASSERT_NE(root, nullptr);
  std::ifstream file(std::string(root) + "/README.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::smatch found;
  ASSERT_TRUE(std::regex_search(text, found, std::regex("hget 'weir:\\{(\\d+)\\}:[^']*' '([^']*)'")));
  EXPECT_EQ(std::to_string(partition_of(found[2].str())), found[1].str()) << found[2];
}

TEST(Outbox, HasNothingToSendAtFirst) {
  Outbox outbox(8, plenty);
  EXPECT_TRUE(outbox.empty());
  EXPECT_THAT(batches(outbox), IsEmpty());
}

TEST(Outbox, MergesWhatWaitsForTheSameCounter) {
  Outbox outbox(8, plenty);
  outbox.submit({{write("a", 1, 2), write("a", 2, 3), write("a", 1, 5)}}, start);
  const auto out = batches(outbox);
  ASSERT_THAT(out, SizeIs(2));
  EXPECT_EQ(out[0].group.ordinal, 1);
  EXPECT_EQ(out[0].entries[0].delta, 7u);
  EXPECT_EQ(out[1].group.ordinal, 2);
  EXPECT_EQ(out[1].entries[0].delta, 3u);
}

TEST(Outbox, CountersOfOnePartitionIntervalAndOrdinalGoTogether) {
  Outbox outbox(8, plenty);
  std::vector<std::string> names;
  for (int i = 0; names.size() < 2; ++i)
    if (const std::string name = "r|" + std::to_string(i); partition_of(name) == 5) names.push_back(name);
  CounterWrite longer = write(names[1], 1, 4);
  longer.interval = 2s;
  outbox.submit({{write(names[0], 1, 1), write(names[1], 1, 2), write(names[1], 2, 3), longer}}, start);
  const auto out = batches(outbox);
  ASSERT_THAT(out, SizeIs(3));
  EXPECT_THAT(out[0].names, ElementsAre(names[0], names[1]));
  EXPECT_EQ(out[1].group, (OutboxGroupId{5, 1s, 2}));
  EXPECT_EQ(out[2].group, (OutboxGroupId{5, 2s, 1})) << "the same ordinal of another interval";
}

// Of two groups in one place of the store the later batch's number would stand for the earlier batch, too.
TEST(Outbox, IntervalsThatTheStoreNamesAlikeMakeOneGroup) {
  Outbox outbox(8, plenty);
  CounterWrite shorter = write("a", 1, 4);
  shorter.interval = 1s - 3ns;
  CounterWrite longer = write("a", 1, 8);
  longer.interval = 1s + 1ns;
  outbox.submit({{write("a", 1, 1), shorter, longer}}, start);
  const auto out = batches(outbox);
  ASSERT_THAT(out, SizeIs(2));
  EXPECT_EQ(out[0].entries[0].delta, 5u);
  EXPECT_EQ(out[0].group.interval, 1000ms);
  EXPECT_EQ(out[1].group.interval, 1001ms);
}

TEST(Outbox, PlainSumsGoByThemselvesWhereTheStoreWantsThat) {
  CounterWrite claimed = write("quota", 1, 5);
  claimed.undivided = true;
  CounterWrite returned = write("old", 1, 0);
  returned.returned = 3;
  CounterWrite raised = write("peak", 1, 0);
  raised.raised_to = 7;
  const std::vector<CounterWrite> writes{write("sum", 1, 1), claimed, returned, raised, write("asked", 1, 0)};
  Outbox apart(8, plenty, {}, 100);
  apart.submit(writes, start);
  for (const Sent& sent : batches(apart))
    for (const std::string& name : sent.names)
      EXPECT_EQ(sent.group.sums, name == "sum" || name == "asked") << name;
  Outbox together(8, plenty);
  together.submit(writes, start);
  for (const Sent& sent : batches(together)) EXPECT_FALSE(sent.group.sums);
}

TEST(Outbox, ABatchOfPlainSumsHasABoundOfItsOwn) {
  Outbox outbox(2, plenty, {}, 5);
  for (int i = 0; i < 2000; ++i) {
    const std::string name = "r|" + std::to_string(i);
    CounterWrite claim = write(name, 2, 1);
    claim.undivided = true;
    outbox.submit({{write(name, 1, 1), claim}}, start);
  }
  for (const Sent& sent : batches(outbox)) EXPECT_THAT(sent.entries, SizeIs(sent.group.sums ? 5 : 2));
}

TEST(Outbox, AMergedWriteKeepsTheLaterExpiryTheLatestHandleAndTheLeastTag) {
  Outbox outbox(8, plenty);
  CounterWrite first = write("a", 1, 1, start + 10s);
  CounterWrite second = write("a", 1, 1, start + 5s);
  CounterWrite third = second;
  first.tag = 4;
  second.tag = 3;
  third.key = 8;
  third.tag = 5;
  outbox.submit({{first, second, third}}, start);
  outbox.expire(start + 7s);
  const auto out = batches(outbox);
  ASSERT_THAT(out, SizeIs(1));
  EXPECT_EQ(out[0].entries[0].key, 8u);
  EXPECT_EQ(out[0].entries[0].tag, 3u);
  EXPECT_EQ(out[0].entries[0].delta, 3u);
}

TEST(Outbox, ABatchThatIsOutStaysAsItIsUntilAnswered) {
  Outbox outbox(8, plenty);
  outbox.submit({{write("a", 1, 2)}}, start);
  const Sent first = batches(outbox).at(0);
  outbox.submit({{write("a", 1, 100)}}, start);
  EXPECT_THAT(batches(outbox), IsEmpty()) << "it is on its way, and what has come since waits behind it";
  outbox.retry(first.group, first.sequence);
  const Sent again = batches(outbox).at(0);
  EXPECT_EQ(again, first);
  EXPECT_EQ(again.entries[0].delta, 2u);

  const auto replies = answer(outbox, first, 42);
  ASSERT_THAT(replies, SizeIs(1));
  EXPECT_EQ(replies[0].key, 7u);
  EXPECT_EQ(replies[0].ordinal, 1);
  EXPECT_EQ(replies[0].delta, 2u);
  EXPECT_EQ(replies[0].total, 42u);

  const Sent second = batches(outbox).at(0);
  EXPECT_GT(second.sequence, first.sequence);
  EXPECT_EQ(second.entries[0].delta, 100u);
}

TEST(Outbox, ABatchThatIsOutCanBeLookedAtByItsNumber) {
  Outbox outbox(8, plenty);
  outbox.submit({{write("a", 1, 2)}}, start);
  const Sent sent = batches(outbox).at(0);
  ASSERT_TRUE(outbox.out(sent.group, sent.sequence));
  EXPECT_EQ(Sent(*outbox.out(sent.group, sent.sequence)), sent);
  EXPECT_FALSE(outbox.out(sent.group, sent.sequence + 1));
  EXPECT_FALSE(outbox.out({sent.group.partition, 2s, 1}, sent.sequence));
}

TEST(Outbox, AnAnswerToABatchThatIsNotOutIsIgnored) {
  Outbox outbox(8, plenty);
  outbox.submit({{write("a", 1, 2)}}, start);
  Sent sent = batches(outbox).at(0);
  ++sent.sequence;
  EXPECT_THAT(answer(outbox, sent), IsEmpty());
  --sent.sequence;
  EXPECT_THAT(answer(outbox, sent), SizeIs(1));
  EXPECT_THAT(answer(outbox, sent), IsEmpty()) << "a second answer counts nothing";
  EXPECT_EQ(outbox.applied(), 2u);
  outbox.retry(sent.group, sent.sequence);
  EXPECT_THAT(batches(outbox), IsEmpty()) << "nor does a late loss";
}

TEST(Outbox, GroupsDoNotWaitForEachOther) {
  Outbox outbox(8, plenty);
  ASSERT_NE(partition_of("a"), partition_of("b"));
  outbox.submit({{write("a", 1, 1)}}, start);
  EXPECT_THAT(batches(outbox), SizeIs(1));
  outbox.submit({{write("b", 1, 1), write("a", 2, 1), write("a", 1, 1)}}, start);
  EXPECT_THAT(batches(outbox), SizeIs(2));
}

TEST(Outbox, ABatchIsBoundedAndTheOldestGoFirst) {
  Outbox outbox(3, plenty);
  std::vector<std::string> names;
  for (int i = 0; names.size() < 7; ++i)
    if (const std::string name = "r|" + std::to_string(i); partition_of(name) == 9) names.push_back(name);
  std::vector<CounterWrite> writes;
  for (const std::string& name : names) writes.push_back(write(name, 1, 1));
  outbox.submit(writes, start);
  std::vector<std::string> seen;
  for (const std::size_t size : {3u, 3u, 1u}) {
    const Sent sent = batches(outbox).at(0);
    EXPECT_THAT(sent.entries, SizeIs(size));
    seen.insert(seen.end(), sent.names.begin(), sent.names.end());
    answer(outbox, sent);
  }
  EXPECT_EQ(seen, names);
  EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, WhatWaitsTooLongExpiresWithItsGroup) {
  Outbox outbox(8, plenty);
  outbox.submit({{write("a", 1, 2, start + 1s), write("a", 2, 3, start + 2s), write("a", 3, 0, start + 1s)}},
                start);
  EXPECT_EQ(outbox.next_expiry(), start + 1s);
  outbox.expire(start + 1s);
  EXPECT_EQ(outbox.expired(), 2u);
  EXPECT_EQ(outbox.pending(), 3u);
  EXPECT_EQ(outbox.entries(), 1u) << "the read is not repeated past its expiry either";
  EXPECT_EQ(outbox.next_expiry(), start + 2s);
  outbox.expire(start + 2s);
  EXPECT_EQ(outbox.expired(), 5u);
  EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, WhatComesExpiredIsCountedSo) {
  Outbox outbox(8, plenty);
  outbox.submit({{write("a", 1, 2, start)}}, start);
  EXPECT_EQ(outbox.expired(), 2u);
  EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, ABatchThatIsOutExpiresWithItsGroupAndItsNumberIsNeverUsedAgain) {
  Outbox outbox(1, plenty);
  std::vector<std::string> names;
  for (int i = 0; names.size() < 2; ++i)
    if (const std::string name = "r|" + std::to_string(i); partition_of(name) == 9) names.push_back(name);
  outbox.submit({{write(names[0], 1, 2, start + 1s), write(names[1], 1, 3, start + 2s)}}, start);
  const Sent sent = batches(outbox).at(0);
  outbox.expire(start + 1s);
  outbox.retry(sent.group, sent.sequence);
  EXPECT_EQ(batches(outbox).at(0), sent) << "it may have been applied: it must not change";
  outbox.expire(start + 2s);
  EXPECT_EQ(outbox.expired(), 5u);
  EXPECT_THAT(batches(outbox), IsEmpty());
  EXPECT_THAT(answer(outbox, sent), IsEmpty());
  outbox.submit({{write(names[0], 1, 1)}}, start);
  EXPECT_GT(batches(outbox).at(0).sequence, sent.sequence);
}

TEST(Outbox, AGroupThatHasExpiredAndComesBackIsSentOnce) {
  Outbox outbox(8, plenty);
  outbox.submit({{write("a", 1, 2, start + 1s)}}, start);
  outbox.expire(start + 1s);
  outbox.submit({{write("a", 1, 3)}}, start + 1s);
  const auto out = batches(outbox);
  ASSERT_THAT(out, SizeIs(1));
  EXPECT_EQ(out[0].entries[0].delta, 3u);
}

TEST(Outbox, RefusedEntriesExpireAndTheOthersAreApplied) {
  Outbox outbox(8, plenty);
  std::vector<std::string> names;
  for (int i = 0; names.size() < 2; ++i)
    if (const std::string name = "r|" + std::to_string(i); partition_of(name) == 9) names.push_back(name);
  CounterWrite second = write(names[1], 1, 3);
  second.key = 8;
  outbox.submit({{write(names[0], 1, 2), second}}, start);
  const Sent sent = batches(outbox).at(0);
  std::vector<CounterReply> replies;
  EXPECT_EQ(outbox.answer(sent.group, sent.sequence, {{{false, 0}, {true, 9}}}, replies), 1u);
  ASSERT_THAT(replies, SizeIs(1));
  EXPECT_EQ(replies[0].key, 8u);
  EXPECT_EQ(outbox.expired(), 2u);
  EXPECT_EQ(outbox.applied(), 3u);
  EXPECT_EQ(outbox.pending(), 0u);
}

TEST(Outbox, NeverAddsMoreThanASignedNumberHolds) {
  Outbox outbox(8, plenty);
  outbox.submit({{write("a", 1, Outbox::max_delta - 1), write("a", 1, 10)}}, start);
  EXPECT_EQ(batches(outbox).at(0).entries[0].delta, Outbox::max_delta);
  EXPECT_EQ(outbox.expired(), 9u);
  EXPECT_EQ(outbox.submitted(), outbox.pending() + outbox.applied() + outbox.expired());
}

TEST(Outbox, RaisesToTheLargestAndCountsNothing) {
  Outbox outbox(8, plenty);
  CounterWrite raise = write("a", 1, 0);
  for (const std::uint64_t to : {5u, 9u, 7u}) {
    raise.raised_to = to;
    outbox.submit({{raise}}, start);
  }
  EXPECT_EQ(batches(outbox).at(0).entries[0].raised_to, 9u);
  EXPECT_EQ(outbox.submitted(), 0u);
}

TEST(Outbox, WhatCountsNoRequestsIsSentAndLeftOutOfTheSums) {
  Outbox outbox(8, plenty);
  CounterWrite sign = write("~nodes", 1, 1);
  sign.weightless = true;
  outbox.submit({{sign, write("a", 1, 5)}}, start);
  EXPECT_EQ(outbox.submitted(), 5u);
  std::uint64_t sent_weight = 0;
  for (const Sent& sent : batches(outbox)) {
    sent_weight += sent.entries.at(0).delta;
    EXPECT_THAT(answer(outbox, sent), SizeIs(1));
  }
  EXPECT_EQ(sent_weight, 6u);
  EXPECT_EQ(outbox.applied(), 5u);
  outbox.submit({{sign}}, start);
  outbox.expire(start + 10s);
  EXPECT_EQ(outbox.expired(), 0u);
  EXPECT_EQ(outbox.pending(), 0u);
}

TEST(Outbox, KeepsNoMoreThanItMayAndCountsTheRestAsExpired) {
  Outbox outbox(8, 3);
  outbox.submit({{write("a", 1, 1), write("b", 1, 2), write("c", 1, 4), write("d", 1, 8), write("a", 1, 16)}},
                start);
  EXPECT_EQ(outbox.entries(), 3u);
  EXPECT_EQ(outbox.expired(), 8u) << "what merges takes no room";
  for (const Sent& sent : batches(outbox)) answer(outbox, sent);
  EXPECT_EQ(outbox.applied(), 23u);
  EXPECT_EQ(outbox.entries(), 0u);
  outbox.submit({{write("d", 1, 8)}}, start);
  EXPECT_EQ(outbox.pending(), 8u) << "there is room again";
}

/// @param size  of the name, in bytes
std::string long_name(int number, std::size_t size) {
  std::string name = "r|" + std::to_string(number) + '|';
  name.resize(size, 'x');
  return name;
}

/// Submits a count of one for each of so many names.
void fill(Outbox& outbox, int count, std::size_t name_size) {
  for (int i = 0; i < count; ++i) {
    const std::string name = long_name(i, name_size);
    outbox.submit({{write(name, 1, 1)}}, start);
  }
}

TEST(Outbox, KeepsAsManyAsItMayWhereNamesAreShort) {
  Outbox outbox(8, 1000);
  fill(outbox, 1200, Backlog::bytes_each - Backlog::bytes_beside_name);
  EXPECT_EQ(outbox.entries(), 1000u);
  EXPECT_EQ(outbox.expired(), 200u);
}

// Clients choose the names: what waits must not take the more memory the longer they are.
TEST(Outbox, KeepsFewerWhereNamesAreLong) {
  Outbox outbox(8, 1000);
  constexpr std::size_t as_ten = 10 * Backlog::bytes_each - Backlog::bytes_beside_name;
  fill(outbox, 150, as_ten);
  EXPECT_EQ(outbox.entries(), 100u);
  EXPECT_EQ(outbox.expired(), 50u);
  fill(outbox, 1, as_ten);
  EXPECT_EQ(outbox.expired(), 50u) << "what merges takes no room";
  fill(outbox, 1, 8);
  EXPECT_EQ(outbox.expired(), 51u) << "nor is there any for a short one";

  while (!outbox.empty())
    for (const Sent& sent : batches(outbox)) answer(outbox, sent);
  EXPECT_EQ(outbox.applied(), 101u);
  fill(outbox, 150, as_ten);
  EXPECT_EQ(outbox.entries(), 100u) << "what is answered leaves its room";
  outbox.expire(start + 10s);
  EXPECT_EQ(outbox.entries(), 0u);
  fill(outbox, 150, as_ten);
  EXPECT_EQ(outbox.entries(), 100u) << "and so does what has expired";
}

TEST(Outbox, WhatIsAnsweredLeavesTheRoomOfItsOwnName) {
  Outbox outbox(1, 10);
  int number = 0;
  const auto submit = [&](std::size_t size) {
    std::string name;
    do name = long_name(number++, size - Backlog::bytes_beside_name);
    while (partition_of(name) != 9);
    outbox.submit({{write(name, 1, 1)}}, start);
  };
  submit(400);
  submit(600);
  EXPECT_EQ(outbox.entries(), 2u);
  answer(outbox, batches(outbox).at(0));
  submit(401);
  EXPECT_EQ(outbox.entries(), 1u);
  submit(400);
  EXPECT_EQ(outbox.entries(), 2u);
  answer(outbox, batches(outbox).at(0));
  submit(601);
  EXPECT_EQ(outbox.entries(), 1u);
  submit(600);
  EXPECT_EQ(outbox.entries(), 2u);
  EXPECT_EQ(outbox.submitted(), outbox.pending() + outbox.applied() + outbox.expired());
}

TEST(Outbox, ALongQueueIsSentWholeWhileMoreKeepsComing) {
  // More than what is done with is kept for, so that it is moved out of the way several times.
  Outbox outbox(512, plenty);
  std::vector<std::string> names;
  for (int i = 0; names.size() < 20'000; ++i)
    if (std::string name = "r|" + std::to_string(i); partition_of(name) == 9)
      names.push_back(std::move(name));
  std::map<std::string, std::uint64_t> sent_of;
  std::uint64_t submitted = 0;
  const auto submit = [&](std::size_t from, std::size_t to) {
    std::vector<CounterWrite> writes;
    for (std::size_t i = from; i < to; ++i) writes.push_back(write(names[i], 1, 1 + i % 3));
    for (const CounterWrite& one : writes) submitted += one.delta;
    outbox.submit(writes, start);
  };
  submit(0, 12'000);
  for (std::size_t round = 0; !outbox.empty(); ++round) {
    if (round < 16) submit(500 * round, 500 * round + 1000);
    for (const Sent& sent : batches(outbox)) {
      for (std::size_t i = 0; i < sent.entries.size(); ++i) sent_of[sent.names[i]] += sent.entries[i].delta;
      answer(outbox, sent);
    }
    ASSERT_LT(round, 1000u);
  }
  std::uint64_t sum = 0;
  for (const auto& [name, count] : sent_of) sum += count;
  EXPECT_EQ(sum, submitted);
  EXPECT_EQ(outbox.applied(), submitted);
}

TEST(Inbox, HandsOverWritesWithTheirNames) {
  Inbox inbox(10);
  {
    const std::string first = "a name that is gone when it is read";
    const std::string second = "b";
    inbox.submit({{write(first, 1, 2), write(second, 2, 3)}}, start);
  }
  Arrivals arrived;
  inbox.swap(arrived);
  const auto writes = arrived.writes();
  ASSERT_THAT(writes, SizeIs(2));
  EXPECT_EQ(writes[0].name, "a name that is gone when it is read");
  EXPECT_EQ(writes[1].name, "b");
  EXPECT_EQ(arrived.time(), start);
  EXPECT_EQ(inbox.submitted(), 5u);
}

CounterWrite returning(std::string_view name, std::uint64_t returned, MonotonicTime expires = start + 10s) {
  CounterWrite one = write(name, 1, 0, expires);
  one.returned = returned;
  return one;
}
CounterWrite raising(std::string_view name, std::uint64_t raised_to, MonotonicTime expires = start + 10s) {
  CounterWrite one = write(name, 1, 0, expires);
  one.raised_to = raised_to;
  return one;
}

TEST(Outbox, KnowsHowManyEntriesReturnOrRaiseSomethingUntilTheyAreAnsweredOrExpire) {
  Outbox outbox(1, plenty);
  outbox.submit({{write("a", 1, 5), returning("b", 2), returning("b", 3), raising("c", 1), write("c", 1, 0)}},
                start);
  EXPECT_EQ(outbox.changes(), 2u);
  for (const Sent& sent : batches(outbox)) {
    const std::size_t before = outbox.changes();
    outbox.retry(sent.group, sent.sequence);
    EXPECT_EQ(outbox.changes(), before);
    answer(outbox, sent);
    EXPECT_EQ(outbox.changes(), before - (sent.names[0] == "a" ? 0 : 1));
  }
  EXPECT_EQ(outbox.changes(), 0u);
  outbox.submit({{returning("b", 2), raising("c", 1)}}, start);
  outbox.expire(start + 10s);
  EXPECT_EQ(outbox.changes(), 0u);
}

TEST(Inbox, KnowsHowManyWritesWaitThatReturnOrRaiseSomething) {
  Inbox inbox(3);
  inbox.submit({{write("a", 1, 2), returning("b", 2), raising("b", 3), raising("no room", 1)}}, start);
  EXPECT_EQ(inbox.changes(), 2u);
  Arrivals arrived;
  inbox.swap(arrived);
  EXPECT_EQ(inbox.changes(), 0u);
}

TEST(Inbox, TakesNoMoreThanItMayAndCountsTheRestAsExpired) {
  Inbox inbox(2);
  inbox.submit({{write("a", 1, 2), write("b", 2, 3), write("c", 1, 4)}}, start);
  EXPECT_EQ(inbox.expired(), 4u);
  Arrivals arrived;
  inbox.swap(arrived);
  EXPECT_THAT(arrived.writes(), SizeIs(2));
  inbox.submit({{write("c", 1, 4)}}, start);
  EXPECT_EQ(inbox.expired(), 4u) << "there is room again";
}

TEST(Inbox, TakesFewerWhereNamesAreLong) {
  Inbox inbox(10);
  constexpr std::size_t as_five = 5 * Backlog::bytes_each - Backlog::bytes_beside_name;
  const std::string first = long_name(1, as_five);
  const std::string second = long_name(2, as_five);
  inbox.submit({{write(first, 1, 2), write(second, 1, 3), write("a", 1, 4)}}, start);
  EXPECT_EQ(inbox.expired(), 4u);
  Arrivals arrived;
  inbox.swap(arrived);
  EXPECT_THAT(arrived.writes(), SizeIs(2));
  inbox.submit({{write(first, 1, 2), write(second, 1, 3)}}, start);
  EXPECT_EQ(inbox.expired(), 4u) << "there is room again";
}

// ---- any schedule at all

std::uint64_t seed() {
  const char* text = std::getenv("WEIR_TEST_SEED");
  return text == nullptr ? 20240611 : std::strtoull(text, nullptr, 10);
}

using CounterName = std::pair<std::string, Ordinal>;

/// The other end, as redis_store.h has it: each group's counters and marker in one place.
struct Receiver {
  std::map<CounterName, std::uint64_t> counters;
  std::map<std::pair<std::uint32_t, Ordinal>, std::uint64_t> markers;

  std::vector<OutboxOutcome> apply(const Sent& batch) {
    std::vector<OutboxOutcome> outcomes;
    std::uint64_t& marker = markers[{batch.group.partition, batch.group.ordinal}];
    const bool again = marker >= batch.sequence;
    if (!again) marker = batch.sequence;
    for (std::size_t i = 0; i < batch.entries.size(); ++i) {
      std::uint64_t& counter = counters[{batch.names[i], batch.group.ordinal}];
      if (!again) counter += batch.entries[i].delta;
      outcomes.push_back({true, counter});
    }
    return outcomes;
  }
};

TEST(OutboxProperty, UnderAnyScheduleEveryCountIsPendingAppliedOrExpiredAndNoneIsAppliedTwice) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed()));
  std::mt19937_64 random(seed());
  std::uint64_t lost_answers = 0;
  std::uint64_t late_copies = 0;
  for (int run = 0; run < 200; ++run) {
    SCOPED_TRACE("seed " + std::to_string(seed()) + ", run " + std::to_string(run));
    Outbox outbox(1 + random() % 5, random() % 4 == 0 ? 1 + random() % 20 : plenty);
    Receiver receiver;
    std::map<CounterName, std::uint64_t> submitted;
    std::map<CounterName, std::uint64_t> replied;
    std::uint64_t submitted_sum = 0;
    std::uint64_t replied_sum = 0;
    std::vector<Sent> copies;  // sent earlier and still in the network
    std::vector<Sent> lost;    // sent, and known to have got no answer
    MonotonicTime now = start;

    const auto check = [&] {
      ASSERT_EQ(outbox.submitted(), submitted_sum);
      ASSERT_EQ(outbox.applied(), replied_sum);
      ASSERT_EQ(outbox.pending() + outbox.applied() + outbox.expired(), submitted_sum);
      ASSERT_LE(outbox.changes(), outbox.entries());
    };
    for (int step = 0; step < 300; ++step) {
      switch (random() % 9) {
        case 0:
        case 1: {
          std::vector<CounterWrite> writes;
          std::vector<std::string> names(1 + random() % 6);
          for (std::string& name : names) {
            name = "rule|" + std::to_string(random() % 12);
            CounterWrite one = write(name, static_cast<Ordinal>(random() % 3), random() % 4);
            if (one.delta == 0 && random() % 2 == 0) one.returned = 1 + random() % 3;
            one.expires = now + Duration(static_cast<std::int64_t>(random() % 40'000'000'000));
            if (random() % 20 == 0) one.expires = now;
            submitted[{name, one.ordinal}] += one.delta;
            submitted_sum += one.delta;
            writes.push_back(one);
          }
          outbox.submit(writes, now);
          break;
        }
        case 2:
          now += Duration(static_cast<std::int64_t>(random() % 3'000'000'000));
          outbox.expire(now);
          break;
        case 3:
          // An old copy arrives late, perhaps after its successors.
          if (!copies.empty()) {
            const std::size_t which = random() % copies.size();
            receiver.apply(copies[which]);
            ++late_copies;
            if (random() % 2 == 0) copies.erase(copies.begin() + static_cast<std::ptrdiff_t>(which));
          }
          break;
        case 4:
          for (const Sent& sent : lost) outbox.retry(sent.group, sent.sequence);
          lost.clear();
          break;
        default: {
          const auto batch = outbox.next(static_cast<std::uint32_t>(random() % store_partitions));
          if (!batch) break;
          ASSERT_FALSE(batch->entries.empty());
          const Sent sent(*batch);
          const std::uint64_t fate = random() % 4;
          if (fate == 0) {  // the request is lost, or late
            copies.push_back(sent);
            lost.push_back(sent);
            break;
          }
          const std::vector<OutboxOutcome> outcomes = receiver.apply(sent);
          if (fate == 1) {  // the answer is lost
            ++lost_answers;
            lost.push_back(sent);
            break;
          }
          std::vector<CounterReply> replies;
          outbox.answer(sent.group, sent.sequence, outcomes, replies);
          ASSERT_EQ(replies.size(), sent.entries.size());
          for (std::size_t i = 0; i < replies.size(); ++i) {
            replied[{sent.names[i], replies[i].ordinal}] += replies[i].delta;
            replied_sum += replies[i].delta;
          }
          break;
        }
      }
      check();
      if (HasFatalFailure()) return;
      for (const auto& [name, total] : receiver.counters)
        ASSERT_LE(total, submitted[name]) << "counted twice";
      for (const auto& [name, total] : replied)
        ASSERT_LE(total, receiver.counters[name]) << "acknowledged unapplied";
    }
    // Quiet at last: everything that has not expired arrives.
    for (const Sent& sent : lost) outbox.retry(sent.group, sent.sequence);
    std::vector<CounterReply> replies;
    while (!outbox.empty()) {
      const auto out = batches(outbox);
      ASSERT_FALSE(out.empty()) << "what is out and lost has been given back";
      for (const Sent& sent : out) outbox.answer(sent.group, sent.sequence, receiver.apply(sent), replies);
    }
    ASSERT_EQ(outbox.pending(), 0u);
    ASSERT_EQ(outbox.entries(), 0u);
    ASSERT_EQ(outbox.changes(), 0u);
    ASSERT_EQ(outbox.applied() + outbox.expired(), submitted_sum);
    std::uint64_t held = 0;
    for (const auto& [name, total] : receiver.counters) held += total;
    ASSERT_GE(held, outbox.applied());
    ASSERT_LE(held, outbox.applied() + outbox.expired()) << "what was given up may have been applied, once";
  }
  EXPECT_GT(lost_answers, 0u);
  EXPECT_GT(late_copies, 0u);
}

}  // namespace
}  // namespace weir
