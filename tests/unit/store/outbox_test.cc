// SPDX-License-Identifier: BSD-3-Clause
#include "store/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace weir {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr MonotonicTime start{1000s};

CounterWrite write(std::string_view name, Ordinal ordinal, std::uint64_t delta,
                   MonotonicTime expires = start + 10s) {
  return {
      .key = 7, .name = name, .ordinal = ordinal, .delta = delta, .time_to_live = 10s, .expires = expires};
}

/// All that is to be sent now, over all partitions.
std::vector<const OutboxBatch*> batches(Outbox& outbox) {
  std::vector<const OutboxBatch*> result;
  for (std::uint32_t p = 0; p < store_partitions; ++p)
    if (const OutboxBatch* batch = outbox.next(p); batch != nullptr) result.push_back(batch);
  return result;
}

std::vector<OutboxOutcome> all_applied(const OutboxBatch& batch, std::uint64_t total = 1) {
  return std::vector<OutboxOutcome>(batch.entries.size(), OutboxOutcome{true, total});
}

TEST(Partition, IsAStableHashOfTheName) {
  // Nodes of all versions must agree: these values are part of the protocol.
  EXPECT_EQ(partition_of(""), 0xcbf29ce484222325u % 16);
  EXPECT_EQ(partition_of("a"), 0xaf63dc4c8601ec8cu % 16);
  EXPECT_EQ(partition_of("foobar"), 0x85944171f73967e8u % 16);
}

TEST(Outbox, HasNothingToSendAtFirst) {
  Outbox outbox(8);
  EXPECT_FALSE(outbox.ready());
  EXPECT_THAT(batches(outbox), IsEmpty());
}

TEST(Outbox, MergesWhatWaitsForTheSameCounter) {
  Outbox outbox(8);
  outbox.submit({{write("a", 1, 2), write("a", 2, 3), write("a", 1, 5)}}, start);
  const auto out = batches(outbox);
  ASSERT_THAT(out, SizeIs(1));
  ASSERT_THAT(out[0]->entries, SizeIs(2));
  EXPECT_EQ(out[0]->entries[0].ordinal, 1);
  EXPECT_EQ(out[0]->entries[0].delta, 7u);
  EXPECT_EQ(out[0]->entries[1].ordinal, 2);
  EXPECT_EQ(out[0]->entries[1].delta, 3u);
}

TEST(Outbox, AMergedWriteKeepsTheLaterExpiryAndTheLatestHandle) {
  Outbox outbox(8);
  CounterWrite first = write("a", 1, 1, start + 10s);
  CounterWrite second = write("a", 1, 1, start + 5s);
  second.key = 8;
  outbox.submit({{first, second}}, start);
  outbox.expire(start + 7s);
  const auto out = batches(outbox);
  ASSERT_THAT(out, SizeIs(1));
  EXPECT_EQ(out[0]->entries[0].key, 8u);
  EXPECT_EQ(out[0]->entries[0].delta, 2u);
}

TEST(Outbox, ABatchThatIsOutStaysAsItIsUntilAnswered) {
  Outbox outbox(8);
  outbox.submit({{write("a", 1, 2)}}, start);
  const OutboxBatch* first = batches(outbox).at(0);
  EXPECT_EQ(first->sequence, 1u);
  outbox.submit({{write("a", 1, 100)}}, start);
  const OutboxBatch* again = batches(outbox).at(0);
  EXPECT_EQ(again->sequence, 1u);
  EXPECT_EQ(again->entries[0].delta, 2u);

  std::vector<CounterReply> replies;
  EXPECT_EQ(outbox.answer(first->partition, 1, all_applied(*first, 42), replies), 0u);
  ASSERT_THAT(replies, SizeIs(1));
  EXPECT_EQ(replies[0].key, 7u);
  EXPECT_EQ(replies[0].ordinal, 1);
  EXPECT_EQ(replies[0].delta, 2u);
  EXPECT_EQ(replies[0].total, 42u);

  const OutboxBatch* second = batches(outbox).at(0);
  EXPECT_EQ(second->sequence, 2u);
  EXPECT_EQ(second->entries[0].delta, 100u);
}

TEST(Outbox, AnAnswerToABatchThatIsNotOutIsIgnored) {
  Outbox outbox(8);
  outbox.submit({{write("a", 1, 2)}}, start);
  const OutboxBatch batch = *batches(outbox).at(0);
  std::vector<CounterReply> replies;
  outbox.answer(batch.partition, batch.sequence + 1, all_applied(batch), replies);
  EXPECT_THAT(replies, IsEmpty());
  outbox.answer(batch.partition, batch.sequence, all_applied(batch), replies);
  outbox.answer(batch.partition, batch.sequence, all_applied(batch), replies);
  EXPECT_THAT(replies, SizeIs(1)) << "a second answer counts nothing";
  EXPECT_EQ(outbox.applied(), 2u);
}

TEST(Outbox, PartitionsDoNotWaitForEachOther) {
  Outbox outbox(8);
  ASSERT_NE(partition_of("a"), partition_of("b"));
  outbox.submit({{write("a", 1, 1)}}, start);
  EXPECT_THAT(batches(outbox), SizeIs(1));
  outbox.submit({{write("b", 1, 1)}}, start);
  EXPECT_THAT(batches(outbox), SizeIs(2));
}

TEST(Outbox, ABatchIsBoundedAndTheOldestGoFirst) {
  Outbox outbox(3);
  std::vector<CounterWrite> writes;
  for (Ordinal ordinal = 0; ordinal < 7; ++ordinal) writes.push_back(write("a", ordinal, 1));
  outbox.submit(writes, start);
  std::vector<Ordinal> seen;
  std::vector<CounterReply> replies;
  for (const std::size_t size : {3u, 3u, 1u}) {
    const OutboxBatch* batch = batches(outbox).at(0);
    EXPECT_THAT(batch->entries, SizeIs(size));
    for (const OutboxEntry& entry : batch->entries) seen.push_back(entry.ordinal);
    outbox.answer(batch->partition, batch->sequence, all_applied(*batch), replies);
  }
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_FALSE(outbox.ready());
}

TEST(Outbox, WhatWaitsTooLongExpires) {
  Outbox outbox(8);
  outbox.submit({{write("a", 1, 2, start + 1s), write("a", 2, 3, start + 2s), write("a", 3, 0, start + 1s)}},
                start);
  outbox.expire(start + 1s);
  EXPECT_EQ(outbox.expired(), 2u);
  EXPECT_EQ(outbox.pending(), 3u);
  EXPECT_EQ(outbox.entries(), 1u) << "the read is not repeated past its expiry either";
  outbox.expire(start + 2s);
  EXPECT_EQ(outbox.expired(), 5u);
  EXPECT_FALSE(outbox.ready());
}

TEST(Outbox, WhatComesExpiredIsCountedSo) {
  Outbox outbox(8);
  outbox.submit({{write("a", 1, 2, start)}}, start);
  EXPECT_EQ(outbox.expired(), 2u);
  EXPECT_FALSE(outbox.ready());
}

TEST(Outbox, ABatchThatIsOutExpiresAsAWholeWhenItsLastEntryDoes) {
  Outbox outbox(8);
  outbox.submit({{write("a", 1, 2, start + 1s), write("a", 2, 3, start + 2s)}}, start);
  ASSERT_THAT(batches(outbox), SizeIs(1));
  outbox.expire(start + 1s);
  EXPECT_THAT(batches(outbox).at(0)->entries, SizeIs(2)) << "it may have been applied: it must not change";
  outbox.expire(start + 2s);
  EXPECT_EQ(outbox.expired(), 5u);
  EXPECT_THAT(batches(outbox), IsEmpty());
  outbox.submit({{write("a", 3, 1)}}, start);
  EXPECT_EQ(batches(outbox).at(0)->sequence, 2u) << "a number is never used twice";
}

TEST(Outbox, RefusedEntriesExpireAndTheOthersAreApplied) {
  Outbox outbox(8);
  outbox.submit({{write("a", 1, 2), write("a", 2, 3)}}, start);
  const OutboxBatch* batch = batches(outbox).at(0);
  std::vector<CounterReply> replies;
  EXPECT_EQ(outbox.answer(batch->partition, batch->sequence, {{{false, 0}, {true, 9}}}, replies), 1u);
  ASSERT_THAT(replies, SizeIs(1));
  EXPECT_EQ(replies[0].ordinal, 2);
  EXPECT_EQ(outbox.expired(), 2u);
  EXPECT_EQ(outbox.applied(), 3u);
  EXPECT_EQ(outbox.pending(), 0u);
}

TEST(Outbox, NeverAddsMoreThanASignedNumberHolds) {
  Outbox outbox(8);
  outbox.submit({{write("a", 1, Outbox::max_delta - 1), write("a", 1, 10)}}, start);
  EXPECT_EQ(batches(outbox).at(0)->entries[0].delta, Outbox::max_delta);
  EXPECT_EQ(outbox.expired(), 9u);
  EXPECT_EQ(outbox.submitted(), outbox.pending() + outbox.applied() + outbox.expired());
}

// ---- any schedule at all

std::uint64_t seed() {
  const char* text = std::getenv("WEIR_TEST_SEED");
  return text == nullptr ? 20240611 : std::strtoull(text, nullptr, 10);
}

using CounterName = std::pair<std::string, Ordinal>;

/// The other end: applies a batch once per number, and may be wiped of nothing.
struct Receiver {
  std::map<CounterName, std::uint64_t> counters;
  std::map<std::uint32_t, std::uint64_t> markers;

  std::vector<OutboxOutcome> apply(const OutboxBatch& batch) {
    std::vector<OutboxOutcome> outcomes;
    const bool again = markers[batch.partition] >= batch.sequence;
    if (!again) markers[batch.partition] = batch.sequence;
    for (const OutboxEntry& entry : batch.entries) {
      std::uint64_t& counter = counters[{entry.name, entry.ordinal}];
      if (!again) counter += entry.delta;
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
    Outbox outbox(1 + random() % 5);
    Receiver receiver;
    std::map<CounterName, std::uint64_t> submitted;
    std::map<CounterName, std::uint64_t> replied;
    std::uint64_t submitted_sum = 0;
    std::uint64_t replied_sum = 0;
    std::vector<OutboxBatch> copies;  // sent earlier and still in the network
    MonotonicTime now = start;

    const auto check = [&] {
      ASSERT_EQ(outbox.submitted(), submitted_sum);
      ASSERT_EQ(outbox.applied(), replied_sum);
      ASSERT_EQ(outbox.pending() + outbox.applied() + outbox.expired(), submitted_sum);
    };
    for (int step = 0; step < 300; ++step) {
      switch (random() % 8) {
        case 0:
        case 1: {
          std::vector<CounterWrite> writes;
          std::vector<std::string> names(1 + random() % 6);
          for (std::string& name : names) {
            name = "rule|" + std::to_string(random() % 12);
            CounterWrite one = write(name, static_cast<Ordinal>(random() % 3), random() % 4);
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
        default: {
          const OutboxBatch* batch = outbox.next(static_cast<std::uint32_t>(random() % store_partitions));
          if (batch == nullptr) break;
          ASSERT_FALSE(batch->entries.empty());
          const std::uint64_t fate = random() % 4;
          if (fate == 0) {  // the request is lost, or late
            copies.push_back(*batch);
            break;
          }
          const std::vector<OutboxOutcome> outcomes = receiver.apply(*batch);
          if (fate == 1) {  // the answer is lost
            ++lost_answers;
            break;
          }
          std::vector<CounterReply> replies;
          const OutboxBatch sent = *batch;
          outbox.answer(sent.partition, sent.sequence, outcomes, replies);
          ASSERT_EQ(replies.size(), sent.entries.size());
          for (std::size_t i = 0; i < replies.size(); ++i) {
            replied[{sent.entries[i].name, replies[i].ordinal}] += replies[i].delta;
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
    std::vector<CounterReply> replies;
    while (outbox.ready())
      for (const OutboxBatch* batch : batches(outbox)) {
        const OutboxBatch sent = *batch;
        outbox.answer(sent.partition, sent.sequence, receiver.apply(sent), replies);
      }
    ASSERT_EQ(outbox.pending(), 0u);
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
