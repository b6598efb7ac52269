// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What the program prints, as text: pure functions of figures, so that every line can be tested. Any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "filter/counters.h"
#include "filter/port_state.h"
#include "weir/config.h"
#include "weir/throttle.h"
#include "weir/time.h"

namespace weir::filter {

/// Everything known at one moment.
struct Snapshot {
  Totals totals;
  Figures figures;
  /// Requests that rules with action observe would have refused, once for each of them.
  std::uint64_t observed = 0;
  std::vector<PortState> ports;
  double unix_seconds = 0;  ///< when
  Duration uptime{};        ///< since the workers started
};

/// "500ms", "1s", "90s"…: a duration as the configuration would write it.
std::string duration_text(Duration duration);

/// A store's URL fit to be shown: without its password.
std::string shown_url(std::string_view url);

/// One line of key=value pairs, with its newline.
/// @param node    what tells this node's lines from others'; has no blanks, by what names may have
/// @param before  the previous moment, for rates
/// @param shared  whether there is a store to be up or down
std::string statistics_line(const std::string& node, const Snapshot& before, const Snapshot& now,
                            bool shared);

/// Heading and one row per rule, with newlines.
std::string rules_table(const Snapshot& before, const Snapshot& now, std::span<const Rule> rules);

/// One line of what passes, for the top of the live table, and one for each port whose link is down, or that
/// has lost something.
std::string live_heading(const Snapshot& before, const Snapshot& now, bool shared);

/// The lines a script reads at the end: "total rule=…", "total packets …", "total port=…",
/// "total store …".
std::string total_lines(const Snapshot& end);

/// What a configuration does, for --check.
/// @param table_memory   bytes of the library's tables with one worker
/// @param worker_memory  bytes each worker needs in the filter itself
std::string description(const Config& config, std::size_t table_memory, std::size_t worker_memory);

}  // namespace weir::filter
