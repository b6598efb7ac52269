// SPDX-License-Identifier: BSD-3-Clause
#include "shared/filling_array.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

namespace weir {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// Of these bytes, those whose pages are there.
std::size_t resident(const std::byte* begin, std::size_t bytes) {
  constexpr std::size_t page = 4096;
  std::vector<unsigned char> there((bytes + page - 1) / page);
  EXPECT_EQ(::mincore(const_cast<std::byte*>(begin), bytes, there.data()), 0);
  std::size_t count = 0;
  for (const unsigned char each : there) count += each & 1;
  return count * page;
}

TEST(FillingBytes, UntilItBeginsThereIsRoomForAll) {
  FillingBytes bytes(1000);
  EXPECT_TRUE(bytes.has_room_for(1000));
  EXPECT_EQ(bytes.take(600), 0U);
  EXPECT_EQ(bytes.take(300), 600U);
  EXPECT_TRUE(bytes.has_room_for(100));
  EXPECT_FALSE(bytes.has_room_for(101));
  bytes.keep(600);
  EXPECT_EQ(bytes.take(1), 600U);
}

TEST(FillingBytes, WhatHasBeenProvidedIsThereAndCanBeUsed) {
  FillingBytes bytes(40 * mebibyte);
  bytes.begin(5 * mebibyte);
  ASSERT_TRUE(bytes.has_room_for(5 * mebibyte));
  EXPECT_GE(resident(bytes.at(0), bytes.size()), 5 * mebibyte);
  const FillingBytes::Offset taken = bytes.take(5 * mebibyte);
  std::memset(bytes.at(taken), 1, 5 * mebibyte);
}

TEST(FillingBytes, WhatHasNotBeenProvidedTakesNoMemoryUntilItIsTouched) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  FillingBytes bytes(40 * mebibyte);
  bytes.begin(5 * mebibyte);
  EXPECT_LE(bytes.provided(), 7 * mebibyte);
  const std::size_t before = resident(bytes.at(0), bytes.size());
  EXPECT_LE(before, 7 * mebibyte);
  ASSERT_TRUE(bytes.has_room_for(20 * mebibyte));
  *bytes.at(bytes.take(20 * mebibyte) + 19 * mebibyte) = std::byte{1};
  // Whoever comes there first waits for a small page, not for a huge one to be cleared.
  EXPECT_LE(resident(bytes.at(0), bytes.size()), before + 4096);
  EXPECT_EQ(bytes.memory(), 20 * mebibyte);
}

TEST(FillingBytes, WhereTheKernelHasNoMemoryThereIsRoomForNoMoreThanThereIsUntilItHasSome) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  FillingBytes bytes(40 * mebibyte);
  bytes.begin(mebibyte);
  const std::size_t there = bytes.provided();
  // Pages that nobody may write the kernel does not provide either.
  ASSERT_EQ(::mprotect(bytes.data() + there, bytes.size() - there, PROT_NONE), 0);
  bytes.provide_ahead(2 * mebibyte);
  EXPECT_EQ(bytes.provided(), there);
  EXPECT_TRUE(bytes.has_room_for(there));
  EXPECT_FALSE(bytes.has_room_for(there + 1));
  ASSERT_EQ(::mprotect(bytes.data() + there, bytes.size() - there, PROT_READ | PROT_WRITE), 0);
  bytes.provide_ahead(2 * mebibyte);
  EXPECT_GE(bytes.provided(), 2 * mebibyte);
  EXPECT_TRUE(bytes.has_room_for(bytes.size()));
}

TEST(FillingBytes, ThatTheKernelHasMemoryAgainShowsAlsoWhereNoMoreThanThereIsIsAskedFor) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  FillingBytes bytes(40 * mebibyte);
  bytes.begin(mebibyte);
  const std::size_t there = bytes.provided();
  ASSERT_EQ(::mprotect(bytes.data() + there, bytes.size() - there, PROT_NONE), 0);
  bytes.take(there);
  bytes.provide_ahead(1);
  bytes.keep(0);  // so few are used from now on
  bytes.provide_ahead(1000);
  EXPECT_FALSE(bytes.has_room_for(there + 1));
  ASSERT_EQ(::mprotect(bytes.data() + there, bytes.size() - there, PROT_READ | PROT_WRITE), 0);
  bytes.provide_ahead(1000);
  EXPECT_TRUE(bytes.has_room_for(bytes.size()));
  const std::size_t now_there = bytes.provided();
  bytes.provide_ahead(1000);
  EXPECT_EQ(bytes.provided(), now_there);
}

TEST(FillingArray, CountsElementsNotBytes) {
  FillingArray<std::uint64_t> numbers(mebibyte);
  numbers.begin(1000);
  EXPECT_GE(numbers.provided(), 1000U);
  EXPECT_EQ(numbers.memory(), numbers.provided() * sizeof(std::uint64_t));
  EXPECT_EQ(numbers.take(1000), 0U);
  numbers[999] = 7;
  EXPECT_EQ(*numbers.at(999), 7U);
  EXPECT_TRUE(numbers.has_room_for(mebibyte - 1000));
  EXPECT_FALSE(numbers.has_room_for(mebibyte - 999));
}

TEST(FillingBytes, MoreIsProvidedAheadOfWhatIsUsedUntilThereIsNoMore) {
  FillingBytes bytes(10 * mebibyte);
  bytes.begin(mebibyte);
  for (unsigned taken = 0; taken < 10; ++taken) {
    bytes.provide_ahead(mebibyte);
    ASSERT_TRUE(bytes.has_room_for(mebibyte)) << taken;
    std::memset(bytes.at(bytes.take(mebibyte)), 1, mebibyte);
  }
  bytes.provide_ahead(mebibyte);
  EXPECT_FALSE(bytes.has_room_for(1));
  for (std::size_t at = 0; at < bytes.size(); at += 1000)
    ASSERT_EQ(*bytes.at(static_cast<FillingBytes::Offset>(at)), std::byte{1}) << at;
}

TEST(FillingBytes, ReleasedItTakesNoMemoryUntilItBeginsAnew) {
  FillingBytes bytes(4 * mebibyte);
  bytes.begin(mebibyte);
  std::memset(bytes.at(bytes.take(mebibyte)), 1, mebibyte);
  bytes.release();
  EXPECT_EQ(resident(bytes.at(0), bytes.size()), 0U);
  EXPECT_EQ(bytes.provided(), 0U);
  EXPECT_FALSE(bytes.has_room_for(1));
  bytes.begin(mebibyte);
  ASSERT_TRUE(bytes.has_room_for(mebibyte));
  EXPECT_EQ(bytes.take(mebibyte), 0U);
  EXPECT_EQ(*bytes.at(0), std::byte{0});
}

TEST(FillingBytes, OfNothingThereIsNoRoom) {
  FillingBytes bytes(0);
  bytes.begin(100);
  bytes.provide_ahead(100);
  EXPECT_FALSE(bytes.has_room_for(1));
  EXPECT_TRUE(bytes.has_room_for(0));
}

TEST(FillingBytes, WithoutMemoryHaveNoRoomWhateverIsUsed) {
  FillingBytes bytes(8 * mebibyte);
  bytes.release();  // as if nothing could be provided
  bytes.take(2);
  EXPECT_FALSE(bytes.has_room_for(1));
  EXPECT_FALSE(bytes.has_room_for(100));
}

}  // namespace
}  // namespace weir
