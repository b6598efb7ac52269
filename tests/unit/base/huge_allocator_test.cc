// SPDX-License-Identifier: BSD-3-Clause
#include "base/huge_allocator.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <vector>

namespace weir::testing {
namespace {

struct alignas(64) Line {
  std::uint64_t number;
};
using Lines = std::vector<Line, HugeAllocator<Line>>;

std::uintptr_t address(const Lines& lines) { return reinterpret_cast<std::uintptr_t>(lines.data()); }

TEST(HugeAllocator, KeepsAVectorsContentFromSmallPagesToHugeOnesAndBack) {
  Lines lines;
  constexpr std::uint64_t many = 3 * huge_page / sizeof(Line);
  for (std::uint64_t i = 0; i < many; ++i) lines.push_back({i});
  for (std::uint64_t i = 0; i < many; ++i) ASSERT_EQ(lines[i].number, i);
  lines.resize(100);
  lines.shrink_to_fit();
  for (std::uint64_t i = 0; i < lines.size(); ++i) ASSERT_EQ(lines[i].number, i);
}

TEST(HugeAllocator, HasWhatFillsAHugePageBeginOnOne) {
  for (const std::size_t pages : {1U, 2U, 5U}) {
    const Lines lines(pages * huge_page / sizeof(Line) + 1);
    EXPECT_EQ(address(lines) % huge_page, 0U);
  }
}

TEST(HugeAllocator, AlignsWhatIsSmall) {
  for (const std::size_t size : {1U, 2U, 100U}) EXPECT_EQ(address(Lines(size)) % alignof(Line), 0U);
}

TEST(HugeAllocator, IsAsGoodAsOneOfAnotherType) {
  EXPECT_TRUE(HugeAllocator<Line>() == HugeAllocator<std::uint64_t>());
  EXPECT_FALSE(HugeAllocator<Line>() != HugeAllocator<Line>());
}

TEST(HugeAllocator, ReportsThatThereIsNotSoMuchMemory) {
  HugeAllocator<Line> allocator;
  constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
  for (const std::size_t count : {all, all / sizeof(Line), all / sizeof(Line) / 2})
    EXPECT_THROW(static_cast<void>(allocator.allocate(count)), std::bad_alloc) << count;
}

}  // namespace
}  // namespace weir::testing
