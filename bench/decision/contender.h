// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What decides, or passes for it: one interface for weir, the peers and the floors, so that one loop
/// measures them all.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"
#include "stream.h"

namespace weir::bench {

/// A turn whose counters do not add up. Its figures count for nothing, and the report says so.
class Worthless : public std::runtime_error {
  using runtime_error::runtime_error;
};

/// Made and finished by the main thread, used by the measuring thread in between.
class Contender {
 public:
  Contender() = default;
  virtual ~Contender() = default;
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  /// Requests are about to come: for the first time, after a pause, or from the beginning of a stream in
  /// which every key comes once. Not timed.
  virtual void begin() {}
  /// Decides on a part of one of the workload's streams, burst by burst. Nothing but this is timed.
  virtual void decide(Drawn drawn, std::size_t at, std::size_t count) = 0;
  /// Of the time that decide() has taken since this was last asked: which part of it the stream's requests
  /// have. Less than all where something else goes on between bursts.
  virtual double take_part() { return 1; }
  /// Between two parts of a stream, of some thousands of requests. Not timed.
  virtual void between() {}
  /// No requests come for a while.
  virtual void pause() {}
  /// How long decisions are to go on after begin() before they are timed. Some have threads that do their
  /// part by the clock.
  virtual Duration settles_in() const { return {}; }
  /// How many times as long as others' its timed part is: what goes on beside it comes round in so long.
  virtual unsigned times_as_long() const { return 1; }
  /// Asked from time to time before the first turn, all keys coming meanwhile: whether it has met them,
  /// and deals with them as it shall be timed doing.
  virtual bool has_met_all() { return true; }
  /// After the last request: compares the counters with the number of requests, and adds what is worth
  /// telling.
  virtual void finish(Result& told) = 0;
};

void expect_counted(std::uint64_t counted, std::uint64_t expected, const char* what = "counted");

/// A kind of contender: how it is called in the results, and of what.
struct Kind {
  std::string_view name;
  std::vector<Drawn> streams;  ///< measured on each of these
  std::unique_ptr<Contender> (*make)(Workload& workload);
  bool dense = false;  ///< of one key, which needs no search; its floor is an array
  /// Of more it would take too much memory, or too long to meet.
  std::size_t most_keys = std::numeric_limits<std::size_t>::max();
};

std::vector<Kind> weir_kinds();
std::vector<Kind> peer_kinds();

/// Prefetched read-modify-writes of the lines that the streams' keys fall on. Those of the next burst are
/// asked for in a row, before this one's are written, or one by one in between.
std::vector<std::unique_ptr<Contender>> make_floors(Workload& workload);
/// Both as contenders, and the same three bursts ahead.
std::vector<Kind> floor_kinds();
/// Increments of an array's elements, one after the other.
std::vector<std::unique_ptr<Contender>> make_arrays(Workload& workload);

/// Bytes that a node takes for each key, once it has met them all and its controller knows them.
double node_bytes_per_key();

}  // namespace weir::bench
