// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// When the next statistics line is due: pure arithmetic, so that a machine which is busy can be tested. Any
/// thread.
#pragma once

#include <chrono>

#include "weir/time.h"

namespace weir::filter {

/// A whole number of periods after the last line was due, so that what each is late by does not add up; but
/// not within half a period from now: what was missed while the machine was busy is not made up for, and
/// rates over next to no time say nothing.
/// @param due  when the line was that has been printed now
/// @pre due <= now, period > 0
constexpr MonotonicTime next_line(MonotonicTime due, MonotonicTime now, Duration period) noexcept {
  return due + period * ((now - due + period / 2) / period + 1);
}

}  // namespace weir::filter
