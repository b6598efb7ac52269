// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a replay prints at its end.
#pragma once

#include <cstddef>
#include <string>

#include "replay.h"

namespace weir::replay {

/// The tables of packets, requests, rules, and the `top` keys with the most requests offered. Fields are
/// separated by two spaces or more. The same replay gives the same bytes.
std::string summary(const Replay& replay, std::size_t top);

}  // namespace weir::replay
