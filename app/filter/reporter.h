// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Prints what happens until it is time to stop. Runs in the main thread, or beside a worker where there is
/// one lcore.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "filter/counters.h"
#include "filter/link_log.h"
#include "filter/options.h"
#include "filter/ports.h"
#include "filter/statistics.h"
#include "weir/throttle.h"

namespace weir::filter {

class Reporter {
 public:
  /// All references must outlive the reporter.
  Reporter(const Throttle& throttle, Ports& ports, std::span<const Counters> counters,
           const Options& options);

  /// Prints statistics until a signal to stop or the end of `--duration`. From then on a signal ends the
  /// process at once.
  void run();

  /// The table and totals at the end; workers and controller have stopped.
  void finish();

 private:
  Snapshot look() const;
  void look_at_ports();
  void print(const Snapshot& now);

  const Throttle& throttle_;
  Ports& ports_;
  std::span<const Counters> counters_;
  bool live_;
  bool terminal_;
  bool shared_;
  Duration period_;
  Duration duration_;
  MonotonicTime start_;
  std::vector<PortState> port_states_;
  std::vector<LinkLog> link_logs_;  // of the same ports
  Snapshot before_;
};

}  // namespace weir::filter
