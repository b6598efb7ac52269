// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// For how many keys each of a node's tables is made, by what its rules need.
///
/// `keys` of the configuration are all that are known at once. Where workers have standing grants of all of
/// them (shared/grant_table.h), few need more at a time: an entry in a span table those that a worker meets
/// within one span after they have used up its grant, and blocked ones; a cell those that do so within one
/// window. Where they are more after all, the heaviest keep entries and cells; others draw from their cells,
/// request by request, or share cells, and are counted as overflowed.
#pragma once

#include <cstdint>

#include "weir/config.h"

namespace weir {

/// Keys of each worker's grants: none where no limit is large enough to be divided so.
std::uint32_t granted_keys(const Config& config, unsigned workers);
/// Keys of each span table.
std::uint32_t counted_keys(const Config& config, unsigned workers);
/// Keys of each pool of cells.
std::uint32_t drawn_keys(const Config& config, unsigned workers);

}  // namespace weir
