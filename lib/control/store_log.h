// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which of the store's losses and returns are worth a line of the log: a store that comes and goes would
/// fill a disk in a night.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weir/time.h"

namespace weir {

/// Tells at once what happens now and then; of what happens all the time a line every ten seconds, with how
/// often it has. The last line is never wrong for longer than that. One thread.
class StoreLog {
 public:
  /// Lines that may come one after the other, and how long it takes until one more may.
  static constexpr unsigned lines_at_once = 4;
  static constexpr Duration between_lines = std::chrono::seconds{10};

  /// The store may have to be connected to: until it has been reached for once, it is lost from then on.
  void expect_by(MonotonicTime at) noexcept { expected_by_ = at; }

  /// To be told at the end of every span, changed or not: what was left out is made up for when its time has
  /// come.
  /// @param why  what is wrong with the store; empty: it only did not answer in time
  /// @return the line to be logged; mostly empty
  std::string line(bool reached, std::string_view why, MonotonicTime now);

 private:
  MonotonicTime expected_by_ = MonotonicTime::min();
  bool reached_ = true;
  bool told_ = true;                           // the latest change
  std::uint64_t losses_ = 0;                   // since the last line
  std::string why_;                            // the latest loss
  MonotonicTime next_ = MonotonicTime::min();  // when the lines told are paid for, at one per between_lines
};

}  // namespace weir
