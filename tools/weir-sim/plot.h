// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Offered, admitted and limit over time, as a picture.
#pragma once

#include <string>
#include <vector>

#include "report.h"
#include "scenario.h"

namespace weir::sim {

/// An SVG document: one panel per run below one another, of the measured rule's first key. Same runs, same
/// bytes.
std::string plot(const Scenario& scenario, const std::vector<Report>& reports);

}  // namespace weir::sim
