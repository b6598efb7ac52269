// SPDX-License-Identifier: BSD-3-Clause
#include "filter/reporter.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "filter/next_line.h"
#include "filter/output.h"
#include "filter/signals.h"

namespace weir::filter {
namespace {

/// A line that nobody reads is left out: the next one counts from the start, too.
constexpr Duration reader_patience = std::chrono::milliseconds{100};
/// The last words are worth waiting for, as long as for the last synchronisation.
constexpr Duration last_words_patience = std::chrono::seconds{2};
/// Devices are left alone for that long after each answer: some of them take their time, and all of them
/// something from the bus that frames come by.
constexpr Duration between_looks_at_ports = std::chrono::seconds{1};

}  // namespace

Reporter::Reporter(const Throttle& throttle, Ports& ports, std::span<const Counters> counters,
                   const Options& options)
    : throttle_(throttle),
      ports_(ports),
      counters_(counters),
      live_(options.live),
      terminal_(isatty(STDOUT_FILENO) == 1),
      shared_(!throttle.config().store.url.starts_with("memory:")),
      period_(options.live ? Duration{std::chrono::seconds{1}} : throttle.config().node.statistics),
      duration_(options.duration),
      start_(monotonic_now()),
      port_states_(ports.states()),
      before_(look()) {
  for (const PortState& port : ports.at_start()) link_logs_.emplace_back(port.link);
}

Snapshot Reporter::look() const {
  Snapshot snapshot;
  snapshot.totals = add_up(counters_);
  snapshot.figures = throttle_.figures();
  const std::vector<Rule>& rules = throttle_.config().rules;
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (rules[i].action == Action::observe) snapshot.observed += snapshot.figures.rules[i].blocked;
  snapshot.ports = port_states_;
  snapshot.unix_seconds =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  snapshot.uptime = monotonic_now() - start_;
  return snapshot;
}

void Reporter::look_at_ports() {
  port_states_ = ports_.states();
  const MonotonicTime now = monotonic_now();
  for (std::size_t i = 0; i < port_states_.size(); ++i)
    if (const std::string line = link_logs_[i].line(port_states_[i], now); !line.empty()) complain(line);
}

void Reporter::print(const Snapshot& now) {
  if (live_) {
    const std::string table =
        live_heading(before_, now, shared_) + rules_table(before_, now, throttle_.config().rules);
    show(terminal_ ? "\033[H\033[J" + table : table + "\n", reader_patience);
  } else {
    show(statistics_line(throttle_.config().node.name, before_, now, shared_), reader_patience);
  }
  before_ = now;
}

void Reporter::run() {
  MonotonicTime next_look = start_ + between_looks_at_ports;
  MonotonicTime next_print = start_ + period_;
  while (true) {
    const MonotonicTime now = monotonic_now();
    Duration wait = next_look - now;
    if (period_ > Duration::zero()) wait = std::min(wait, next_print - now);
    if (duration_ > Duration::zero()) wait = std::min(wait, start_ + duration_ - now);
    if (wait_for_stop(wait)) break;
    MonotonicTime later = monotonic_now();
    if (duration_ > Duration::zero() && later >= start_ + duration_) break;
    if (later >= next_look) {
      look_at_ports();
      later = monotonic_now();
      next_look = later + between_looks_at_ports;
    }
    if (period_ > Duration::zero() && later >= next_print) {
      print(look());
      next_print = next_line(next_print, later, period_);
    }
  }
  release_stop_signals();
  complain("stopping");
}

void Reporter::finish() {
  look_at_ports();
  Snapshot end = look();
  Snapshot begin;
  show("\n" + rules_table(begin, end, throttle_.config().rules) + total_lines(end), last_words_patience);
}

}  // namespace weir::filter
