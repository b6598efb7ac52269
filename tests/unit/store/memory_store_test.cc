// SPDX-License-Identifier: BSD-3-Clause
#include "store/memory/memory_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace weir {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr MonotonicTime start{1000s};

CounterWrite write(std::string_view name, Ordinal ordinal, std::uint64_t delta) {
  return {.key = 7,
          .name = name,
          .ordinal = ordinal,
          .interval = 1s,
          .delta = delta,
          .time_to_live = 3s,
          .expires = start + 3s};
}

MemoryCounters::Id id(std::string_view name, Ordinal ordinal, Duration interval = 1s) {
  return {name, interval, ordinal};
}

TEST(MemoryStore, AddsAndRepliesWithTheSum) {
  const auto store = make_memory_store(std::make_shared<MemoryCounters>());
  store->submit({write("a", 1, 2), write("a", 1, 3), write("a", 2, 4)}, start);
  std::vector<CounterReply> replies;
  store->collect(replies);
  ASSERT_THAT(replies, SizeIs(3));
  EXPECT_EQ(replies[0].key, 7u);
  EXPECT_EQ(replies[0].delta, 2u);
  EXPECT_EQ(replies[0].total, 2u);
  EXPECT_EQ(replies[1].total, 5u);
  EXPECT_EQ(replies[2].ordinal, 2);
  EXPECT_EQ(replies[2].total, 4u);
  replies.clear();
  store->collect(replies);
  EXPECT_THAT(replies, IsEmpty()) << "each reply comes once";
}

TEST(MemoryStore, NodesOfOneProcessShareTheirCounters) {
  const auto counters = std::make_shared<MemoryCounters>();
  const auto first = make_memory_store(counters);
  const auto second = make_memory_store(counters);
  first->submit({write("a", 1, 2)}, start);
  second->submit({write("a", 1, 3)}, start);
  std::vector<CounterReply> replies;
  second->collect(replies);
  ASSERT_THAT(replies, SizeIs(1));
  EXPECT_EQ(replies[0].total, 5u);
}

TEST(MemoryStore, ADeltaOfNothingOnlyReads) {
  const auto counters = std::make_shared<MemoryCounters>();
  const auto store = make_memory_store(counters);
  store->submit({write("a", 1, 0)}, start);
  std::vector<CounterReply> replies;
  store->collect(replies);
  ASSERT_THAT(replies, SizeIs(1));
  EXPECT_EQ(replies[0].total, 0u);
  EXPECT_EQ(counters->size(start), 0u);
}

TEST(MemoryStore, ACounterLivesAsLongAsItsFirstWriteSaid) {
  const auto counters = std::make_shared<MemoryCounters>();
  EXPECT_EQ(counters->add(id("a", 1), 2, 3s, start), 2u);
  EXPECT_EQ(counters->add(id("a", 1), 2, 100s, start + 2s), 4u);
  EXPECT_EQ(counters->read(id("a", 1), start + 3s - 1ns), 4u);
  EXPECT_EQ(counters->read(id("a", 1), start + 3s), 0u);
  EXPECT_EQ(counters->size(start + 3s), 0u);
  EXPECT_EQ(counters->add(id("a", 1), 1, 3s, start + 3s), 1u) << "and then begins anew";
  EXPECT_EQ(counters->read(id("a", 1), start + 5s), 1u);
}

TEST(MemoryStore, TheSameOrdinalOfAnotherIntervalIsAnotherCounter) {
  MemoryCounters counters;
  counters.add(id("a", 1, 1s), 2, 3s, start);
  counters.add(id("a", 1, 60s), 5, 3s, start);
  EXPECT_EQ(counters.read(id("a", 1, 1s), start), 2u);
  EXPECT_EQ(counters.read(id("a", 1, 60s), start), 5u);
}

TEST(MemoryStore, RaisingKeepsTheLargestAndCreatesTheCounterWithItsTimeToLive) {
  const auto counters = std::make_shared<MemoryCounters>();
  const auto store = make_memory_store(counters);
  std::vector<CounterReply> replies;
  for (const std::uint64_t to : {50u, 40u, 60u}) {
    CounterWrite raise = write("a", 1, 0);
    raise.raised_to = to;
    store->submit({raise}, start);
  }
  store->collect(replies);
  ASSERT_THAT(replies, SizeIs(3));
  EXPECT_EQ(replies[0].total, 50u);
  EXPECT_EQ(replies[1].total, 50u);
  EXPECT_EQ(replies[2].total, 60u);
  EXPECT_EQ(counters->read(id("a", 1), start + 3s - 1ns), 60u);
  EXPECT_EQ(counters->read(id("a", 1), start + 3s), 0u);
  EXPECT_EQ(store->figures().applied, 0u) << "what is raised is no weight";
}

TEST(MemoryStore, TellsTheTimeOnlyWhereItHasAClock) {
  const auto without = make_memory_store(std::make_shared<MemoryCounters>());
  without->submit({write("a", 1, 1)}, start);
  EXPECT_FALSE(without->time().has_value());
  WallTime wall(5000s);
  const auto store = make_memory_store(std::make_shared<MemoryCounters>(), [&] { return wall; });
  EXPECT_FALSE(store->time().has_value()) << "nothing has been asked yet";
  store->submit({write("a", 1, 1)}, start);
  wall += 1s;
  store->submit({write("a", 1, 1)}, start + 1s);
  const std::optional<StoreTime> time = store->time();
  ASSERT_TRUE(time.has_value());
  EXPECT_EQ(time->wall, WallTime(5001s));
  EXPECT_EQ(time->asked, start + 1s);
  EXPECT_EQ(time->answered, start + 1s);
  EXPECT_EQ(time->number, 2u);
}

TEST(MemoryStore, ExpiredWritesAreCountedAndNotApplied) {
  const auto counters = std::make_shared<MemoryCounters>();
  const auto store = make_memory_store(counters);
  store->submit({write("a", 1, 2)}, start + 3s);
  std::vector<CounterReply> replies;
  store->collect(replies);
  EXPECT_THAT(replies, IsEmpty());
  EXPECT_EQ(store->figures().expired, 2u);
  EXPECT_EQ(counters->size(start), 0u);
}

TEST(MemoryStore, IsAlwaysUpAndOwesNothing) {
  const auto store = make_memory_store(std::make_shared<MemoryCounters>());
  EXPECT_TRUE(store->figures().up);
  store->submit({write("a", 1, 2)}, start);
  EXPECT_TRUE(store->flush(0s));
  const StoreFigures figures = store->figures();
  EXPECT_EQ(figures.pending, 0u);
  EXPECT_EQ(figures.applied, 2u);
  EXPECT_EQ(figures.batches, 1u);
  EXPECT_EQ(figures.failures, 0u);
  EXPECT_EQ(figures.error, "");
}

TEST(MemoryStore, WakesItsCallerWhenThereAreReplies) {
  const auto store = make_memory_store(std::make_shared<MemoryCounters>());
  int wakes = 0;
  store->on_ready([&] { ++wakes; });
  store->submit({}, start);
  EXPECT_EQ(wakes, 0);
  store->submit({write("a", 1, 2)}, start);
  EXPECT_EQ(wakes, 1);
}

TEST(MemoryStore, ACounterStopsAtItsLargestValue) {
  MemoryCounters counters;
  counters.add(id("a", 1), ~std::uint64_t{0} - 1, 3s, start);
  EXPECT_EQ(counters.add(id("a", 1), 5, 3s, start), ~std::uint64_t{0});
}

TEST(MemoryStore, CountersMayBeUsedByManyThreads) {
  const auto counters = std::make_shared<MemoryCounters>();
  constexpr int threads = 4;
  constexpr int rounds = 2000;
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&] {
      const auto store = make_memory_store(counters);
      for (int i = 0; i < rounds; ++i) store->submit({write("a", i % 7, 1), write("b", i % 5, 2)}, start);
    });
  for (std::thread& thread : running) thread.join();
  std::uint64_t sum = 0;
  for (Ordinal ordinal = 0; ordinal < 7; ++ordinal)
    sum += counters->read(id("a", ordinal), start) + counters->read(id("b", ordinal), start);
  EXPECT_EQ(sum, std::uint64_t{threads} * rounds * 3);
}

}  // namespace
}  // namespace weir
