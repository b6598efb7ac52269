// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// SIGINT, SIGTERM and SIGHUP, waited for rather than handled: no code runs in signal context. SIGHUP comes
/// when the terminal closes, or from somebody who expects a reload; under nohup(1) it stays ignored.
#pragma once

#include "weir/time.h"

namespace weir::filter {

/// Keeps these signals for wait_for_stop(). Call before any thread is made: threads inherit it. Also makes
/// writing to a closed pipe or connection an error instead of the program's end.
void hold_stop_signals() noexcept;

/// Waits at most this long for one of them. @return true when it came
bool wait_for_stop(Duration patience) noexcept;

/// From now on each of them ends the process at once, as soon as a thread that goes on has called it.
void release_stop_signals() noexcept;

}  // namespace weir::filter
