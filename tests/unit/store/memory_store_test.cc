// SPDX-License-Identifier: BSD-3-Clause
#include "store/memory/memory_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace weir {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr MonotonicTime start{1000s};

CounterWrite write(std::string_view name, Ordinal ordinal, std::uint64_t delta) {
  return {
      .key = 7, .name = name, .ordinal = ordinal, .delta = delta, .time_to_live = 3s, .expires = start + 3s};
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
  EXPECT_EQ(counters->add("a", 1, 2, 3s, start), 2u);
  EXPECT_EQ(counters->add("a", 1, 2, 100s, start + 2s), 4u);
  EXPECT_EQ(counters->read("a", 1, start + 3s - 1ns), 4u);
  EXPECT_EQ(counters->read("a", 1, start + 3s), 0u);
  EXPECT_EQ(counters->size(start + 3s), 0u);
  EXPECT_EQ(counters->add("a", 1, 1, 3s, start + 3s), 1u) << "and then begins anew";
  EXPECT_EQ(counters->read("a", 1, start + 5s), 1u);
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
  counters.add("a", 1, ~std::uint64_t{0} - 1, 3s, start);
  EXPECT_EQ(counters.add("a", 1, 5, 3s, start), ~std::uint64_t{0});
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
    sum += counters->read("a", ordinal, start) + counters->read("b", ordinal, start);
  EXPECT_EQ(sum, std::uint64_t{threads} * rounds * 3);
}

}  // namespace
}  // namespace weir
