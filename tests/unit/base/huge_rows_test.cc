// SPDX-License-Identifier: BSD-3-Clause
#include "base/huge_rows.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

namespace weir::testing {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

struct Counts {
  std::int64_t number = -1;
  std::uint64_t count = 0;
};

TEST(HugeRows, AreAsTheirTypeBeginsAndKeepWhatIsWrittenAndTheirPlace) {
  constexpr std::size_t width = 11;
  struct Case {
    std::size_t likely, count;
  };
  // More than were thought likely; and so many that several lots are mapped.
  for (const auto& [likely, count] : {Case{1, 1000}, Case{100, 1000}, Case{1'000'000, 150'000}}) {
    HugeRows<Counts> rows(width, likely);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      wrong += rows.add() != i;
      for (std::size_t at = 0; at < width; ++at) {
        Counts& counts = rows[i][at];
        wrong += counts.number != -1 || counts.count != 0;
        counts = {static_cast<std::int64_t>(i), at};
      }
    }
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t at = 0; at < width; ++at)
        wrong += rows[i][at].number != static_cast<std::int64_t>(i) || rows[i][at].count != at;
    EXPECT_EQ(wrong, 0U) << likely;
    EXPECT_EQ(rows.size(), count);
    EXPECT_EQ(rows.memory(), count * width * sizeof(Counts));
  }
}

TEST(HugeRows, BeginOnAHugePageWhereThereMayBeMany) {
  HugeRows<Counts> rows(1, 1'000'000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(rows[rows.add()]) % huge_page, 0U);
}

TEST(HugeRows, DestroyWhatTheyHold) {
  HugeRows<std::string> rows(2, 10);
  for (int i = 0; i < 100; ++i) {
    std::string* const row = rows[rows.add()];
    EXPECT_TRUE(row[0].empty());
    row[0] = row[1] = std::string(100, 'a');  // on the heap: a leak would be told
  }
  HugeRows<std::string> moved(std::move(rows));
  EXPECT_EQ(moved[99][1], std::string(100, 'a'));
}

}  // namespace
}  // namespace weir::testing
