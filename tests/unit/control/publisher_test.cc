// SPDX-License-Identifier: BSD-3-Clause
// What is kept of publications while a worker does not come round.
#include "control/publisher.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "shared/publication.h"
#include "shared/quiescence.h"

namespace weir {
namespace {

constexpr unsigned workers = 6;
constexpr std::uint64_t keys = 1000;
/// What is left of one whose memory has been taken back.
constexpr std::size_t small = 64;

struct Publishing : ::testing::Test {
  /// Each tells of the same keys that they may have what is its generation; and of a window with that number.
  void publish() {
    ASSERT_TRUE(publisher.ready());
    std::unique_ptr<Publication> next = publisher.blank();
    const std::uint64_t generation = publisher.generation() + 1;
    next->windows.assign(1, WindowState{.running_number = generation});
    next->reset_keys(keys);
    for (std::uint64_t key = 1; key <= keys; ++key)
      next->append_key({.key = key << 32 | key, .terms = {.allowance = generation}});
    next->index_keys();
    publisher.publish(std::move(next));
  }
  const Publication* come_round(unsigned worker) {
    quiescence.quiescent(worker);
    return slot.take_up(worker);
  }
  static void expect_whole(const Publication& publication) {
    EXPECT_EQ(publication.keys(), keys);
    for (std::uint64_t key = 1; key <= keys; ++key) {
      const KeyState* const state = publication.find(key << 32 | key);
      ASSERT_NE(state, nullptr) << key;
      ASSERT_EQ(state->terms.allowance, publication.generation) << key;
    }
  }

  Quiescence quiescence{workers};
  PublicationSlot slot{workers};
  Publisher publisher{slot, quiescence};
};

TEST_F(Publishing, TakesNoMoreMemoryTheLongerAWorkerDoesNotComeRound) {
  quiescence.online(0);
  publish();
  slot.take_up(0);
  for (int i = 0; i < 10; ++i) publish();
  const std::size_t memory = publisher.memory();
  EXPECT_LE(memory, 4 * publisher.current()->memory());
  for (int i = 0; i < 1000; ++i) publish();
  EXPECT_EQ(publisher.waiting(), 1010U);
  EXPECT_LE(publisher.memory(), memory + 1000 * small);
}

TEST_F(Publishing, SharesASetOfBlockedKeysNoLongerThanAWorkerMayLookAtIt) {
  const auto blocked = std::make_shared<const BlockedKeys>();
  const auto publish_blocked = [&](std::shared_ptr<const BlockedKeys> set) {
    ASSERT_TRUE(publisher.ready());
    std::unique_ptr<Publication> next = publisher.blank();
    next->set_blocked(std::move(set), {});
    publisher.publish(std::move(next));
  };
  quiescence.online(0);
  publish_blocked(blocked);
  slot.take_up(0);
  for (int i = 0; i < 10; ++i) publish_blocked(nullptr);
  EXPECT_EQ(blocked.use_count(), 2);
  // Nor does any that nobody has taken up, however long the worker does not come round.
  for (int i = 0; i < 10; ++i) publish_blocked(blocked);
  EXPECT_LE(blocked.use_count(), 4);
  for (int i = 0; i < 10; ++i) publish_blocked(nullptr);
  EXPECT_LE(blocked.use_count(), 3);
  come_round(0);
  ASSERT_TRUE(publisher.ready());
  EXPECT_EQ(blocked.use_count(), 1);
}

TEST_F(Publishing, LeavesWhatAWorkerHasTakenUpWholeHoweverLongItKeepsIt) {
  quiescence.online(0);
  quiescence.online(1);
  publish();
  const Publication* const first = slot.take_up(0);
  publish();
  const Publication* const second = slot.take_up(1);
  ASSERT_NE(first, second);
  for (int i = 0; i < 100; ++i) publish();
  expect_whole(*first);
  expect_whole(*second);
  expect_whole(*publisher.current());
}

TEST_F(Publishing, LeavesTheWindowsOfAllThatAWorkerMayStillLookAt) {
  quiescence.online(0);
  publish();
  slot.take_up(0);
  publish();
  const Publication* const seen = slot.load();
  for (int i = 0; i < 100; ++i) publish();
  EXPECT_EQ(seen->keys(), 0U);
  EXPECT_EQ(seen->find(std::uint64_t{7} << 32 | 7), nullptr);
  ASSERT_EQ(seen->windows.size(), 1U);
  EXPECT_EQ(seen->windows[0].running_number, seen->generation);
}

TEST_F(Publishing, TakesBackWhatWasHeldOnceItsWorkerTakesUpAnother) {
  quiescence.online(0);
  quiescence.online(1);
  publish();
  slot.take_up(0);
  slot.take_up(1);
  for (int i = 0; i < 10; ++i) publish();
  const std::size_t memory = publisher.memory();
  come_round(0);
  const Publication* const held = come_round(0);
  for (int i = 0; i < 100; ++i) publish();
  expect_whole(*held);
  // The other one still holds the first.
  EXPECT_LE(publisher.memory(), memory + publisher.current()->memory() + 100 * small);
  come_round(1);
  slot.let_go(0);
  quiescence.offline(0);
  for (int i = 0; i < 100; ++i) publish();
  EXPECT_LE(publisher.memory(), memory + publisher.current()->memory() + 200 * small);
}

TEST_F(Publishing, KeepsFourSpareAtMostOnceAllHaveComeRoundWhoHeldOneEach) {
  for (unsigned worker = 0; worker < workers; ++worker) {
    quiescence.online(worker);
    publish();
    slot.take_up(worker);
  }
  publish();
  EXPECT_GE(publisher.memory(), workers * publisher.current()->memory());
  for (int i = 0; i < 10; ++i) {
    for (unsigned worker = 0; worker < workers; ++worker) come_round(worker);
    publish();
  }
  EXPECT_LE(publisher.memory(), 6 * publisher.current()->memory());
}

TEST_F(Publishing, EndsWhereTooManyWaitAndGoesOnOnceTheWorkerHasComeRound) {
  const auto publish_small = [&] { publisher.publish(publisher.blank()); };
  quiescence.online(0);
  publish_small();
  slot.take_up(0);
  for (std::size_t waiting = 0; waiting < Publisher::max_retired; ++waiting) {
    ASSERT_TRUE(publisher.ready());
    publish_small();
  }
  EXPECT_FALSE(publisher.ready());
  come_round(0);
  EXPECT_TRUE(publisher.ready());
  EXPECT_EQ(publisher.waiting(), 0U);
}

TEST_F(Publishing, GoesOnAsBeforeOnceTheWorkerHasComeRound) {
  quiescence.online(0);
  publish();
  slot.take_up(0);
  for (int i = 0; i < 100; ++i) publish();
  for (int i = 0; i < 10; ++i) {
    expect_whole(*come_round(0));
    publish();
    EXPECT_LE(publisher.waiting(), 2U);
  }
}

}  // namespace
}  // namespace weir
