// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which changes of a port's link are worth a line of the log: one that comes and goes would fill a disk in a
/// night.
#pragma once

#include <cstdint>
#include <string>

#include "filter/port_state.h"
#include "weir/time.h"

namespace weir::filter {

/// Tells at once what happens now and then; of what happens all the time a line every ten seconds, with how
/// often it has. One port's; one thread.
class LinkLog {
 public:
  /// Lines that may come one after the other, and how long it takes until one more may.
  static constexpr unsigned lines_at_once = 4;
  static constexpr Duration between_lines = std::chrono::seconds{10};

  /// @param first  what is known already
  explicit LinkLog(Link first) noexcept : link_(first) {}

  /// To be told at every look at the port, changed or not: what was left out is made up for when its time has
  /// come.
  /// @return the line to be logged; mostly empty
  std::string line(const PortState& port, MonotonicTime now);

 private:
  Link link_;
  bool told_ = true;                           // the latest change
  std::uint64_t losses_ = 0;                   // since the last line
  MonotonicTime next_ = MonotonicTime::min();  // when the lines told are paid for, at one per between_lines
};

}  // namespace weir::filter
