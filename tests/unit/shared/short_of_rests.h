// SPDX-License-Identifier: BSD-3-Clause
// A table in which no entry finds memory for a rest any more, as where the kernel has none.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>

#include "shared/span_table.h"

namespace weir::testing {

/// While it lives. The table is made for some thousand keys and has been drained; it counts those that have
/// taken the last rests. Where pages can be provided by the owner alone (can_provide_pages()).
class ShortOfRests {
 public:
  explicit ShortOfRests(SpanTable& table) : table_(table) { begin(); }
  ~ShortOfRests() { end(); }
  ShortOfRests(const ShortOfRests&) = delete;
  ShortOfRests& operator=(const ShortOfRests&) = delete;

  /// From now on the kernel has memory, once it is asked: with the next drain.
  void end() { ::mprotect(beyond_, bytes, PROT_READ | PROT_WRITE); }

 private:
  static constexpr std::uint32_t provided = 1024;
  static constexpr std::size_t bytes = provided * sizeof(EntryRest);

  void begin() {
    table_.touch_pages();
    block(2 * provided);  // more than are provided in any case, so that the next drain asks for more
    ASSERT_EQ(table_.rests(), 2 * provided);
    ASSERT_EQ(::mprotect(beyond_, bytes, PROT_READ), 0);
    table_.close();
    block(provided);
    const SpanTable::Place place = table_.insert(1, 0, {});
    ASSERT_FALSE(table_.block(table_.entry(place), MonotonicTime{}, MonotonicTime{}));
  }

  void block(std::uint32_t keys) {
    for (std::uint32_t i = 0; i < keys; ++i) {
      const SpanTable::Place place = table_.insert(random_() | 1, 0, {});
      ASSERT_NE(place, SpanTable::nowhere);
      table_.open(place);
      ASSERT_TRUE(table_.block(table_.entry(place), MonotonicTime{}, MonotonicTime{}));
      if (table_.rests() == 1)
        beyond_ = const_cast<EntryRest*>(&std::as_const(table_).rest(table_.entry(place))) + provided;
    }
  }

  SpanTable& table_;
  EntryRest* beyond_ = nullptr;  // what is provided in any case
  std::mt19937_64 random_{27};
};

}  // namespace weir::testing
