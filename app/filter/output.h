// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What the program says, on both streams, without waiting for a reader who has stopped to read: a terminal
/// held with Ctrl-S, a pipe into something that hangs. Nothing of that may reach the controller, which tells
/// of the store, or keep a signal from ending the program. Any thread.
#pragma once

#include <string_view>

#include "weir/time.h"

namespace weir::filter {

/// Where one of the three standard descriptors is closed, has it lead nowhere: else the next file that the
/// program opens, DPDK's shared memory perhaps, would be what it writes its lines to. First of all in main().
void open_standard_descriptors() noexcept;

/// A line on standard error, after the program's name. Where there is no room for it, it is left out, and the
/// next line that finds room says how many were.
void complain(std::string_view message);

/// Text on standard output.
/// @param patience  for how long the reader may take nothing of it before the rest is left out
void show(std::string_view text, Duration patience);

}  // namespace weir::filter
