// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A scenario as values: what is offered, to which nodes, through what network, with which faults. All times
/// are true time, counted from the scenario's beginning, which is the beginning of an interval of every rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "weir/config.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir::sim {

/// One request of a recording. `key` is an index into KeySpace::values.
struct RecordedRequest {
  Duration at{};
  std::uint32_t key = 0;
  std::uint32_t weight = 1;
  std::int32_t node = -1;  ///< -1: as the spread says
};

/// From `at` on, `factor` times the stream's rate.
struct RatePoint {
  Duration at{};
  double factor = 1;
};

/// `[[demand]]`: one stream of requests; several are added up.
struct Demand {
  enum class Shape : std::uint8_t { constant, poisson, step, ramp, on_off, recorded };
  enum class Arrivals : std::uint8_t {
    regular,  ///< at equal distances
    poisson,  ///< independent of each other
  };
  Shape shape = Shape::poisson;
  Arrivals arrivals = Arrivals::poisson;
  double rate = 0;                ///< requests per second, all keys together, at factor 1
  std::vector<RatePoint> points;  ///< step and ramp
  Duration on{};
  Duration off{};
  Duration from{};
  Duration until = Duration::max();
  std::uint32_t weight_least = 1;
  std::uint32_t weight_most = 1;
  std::int64_t key = -1;  ///< ≥ 0: only this value of the first [[keys]]
  std::vector<RecordedRequest> recording;
};

/// `[[keys]]`: the values of one header of the requests.
struct KeySpace {
  std::string header;
  std::vector<std::string> values;
  double zipf = 0;  ///< exponent of the popularity; 0: uniform
};

/// `[spread]`: which node a request comes to.
struct Spread {
  enum class Kind : std::uint8_t {
    even,    ///< regular streams in turn, others by lot
    zipf,    ///< node i with weight (i + 1)^-zipf
    one,     ///< each key to one node, for ever
    moving,  ///< each key to one node, to the next one after each period
  };
  Kind kind = Kind::even;
  double zipf = 1;
  Duration period = std::chrono::seconds{5};
};

/// How long a question takes to the store and back.
struct RoundTrip {
  enum class Kind : std::uint8_t { constant, uniform, lognormal };
  Kind kind = Kind::constant;
  Duration least = std::chrono::milliseconds{1};  ///< constant; lognormal: the median
  Duration most = std::chrono::milliseconds{1};   ///< uniform
  double sigma = 0.5;                             ///< lognormal: standard deviation of the logarithm
};

struct Period {
  Duration from{};
  Duration to{};
  bool contains(Duration at) const noexcept { return from <= at && at < to; }
};

/// `[store]` and the network to it.
struct StoreSpec {
  RoundTrip round_trip;
  double loss_request =
      0;                  ///< a round's requests are cut off on their way: the store sees only the first ones
  double loss_reply = 0;  ///< its replies are: everything was applied, and the node does not know
  std::vector<Period> outages;
  std::vector<Duration> wipes;
  Duration timeout = std::chrono::milliseconds{50};
  Duration reconnect = std::chrono::milliseconds{200};
};

/// Nodes at one distance from the store.
struct Region {
  std::string name;
  std::uint32_t nodes = 0;
  RoundTrip round_trip;
};

struct ClockJump {
  std::uint32_t node = 0;
  Duration at{};
  Duration by{};
};

/// `[clocks]`. What is random is drawn evenly from ± the bound.
struct ClockSpec {
  Duration offset_max{};
  double drift_ppm_max = 0;
  std::vector<Duration> offsets;  ///< explicit, by node; the others are random
  std::vector<double> drifts_ppm;
  std::vector<ClockJump> jumps;  ///< of the wall clock
};

/// `[[event]]`
struct ScenarioEvent {
  enum class Kind : std::uint8_t {
    crash,    ///< the process is gone, with what it had not sent
    restart,  ///< a crashed node is there again, knowing nothing
    join,     ///< the node is not there before
    leave,    ///< stops cleanly: sends what it has
    pause,    ///< the process is stopped for a while, its network goes on
    cut,      ///< no way to the store for a while
  };
  Kind kind = Kind::crash;
  Duration at{};
  Duration length{};  ///< pause, cut
  std::vector<std::uint32_t> nodes;
  bool traffic_lost = false;  ///< requests for a node that is away are lost, instead of going to the others
};

/// A range a figure must lie in. Both ends are allowed.
struct Gate {
  std::string metric;
  std::string rule;       ///< empty: the measured one
  std::string algorithm;  ///< empty: every run
  double least = 0;
  double most = 0;
};

struct Scenario {
  std::string title;
  Duration duration{};
  Duration settle{};  ///< not part of the steady state
  std::uint64_t seed = 1;
  std::vector<Rule> rules;
  std::vector<Algorithm> algorithms;  ///< of the runs; empty: one run of the rules as they are
  std::size_t measured = 0;           ///< the rule the summary is about
  std::uint32_t nodes = 1;
  std::uint32_t cores = 1;
  std::uint32_t node_keys = 0;  ///< NodeConfig::keys
  std::vector<Demand> demands;
  std::vector<KeySpace> keys;
  /// By rule: the [[keys]] its key is made of, in order.
  std::vector<std::vector<std::size_t>> spaces_of_rule;
  Spread spread;
  StoreSpec store;
  std::vector<Region> regions;
  ClockSpec clocks;
  std::vector<ScenarioEvent> events;
  std::vector<Gate> gates;
  Duration plot_bucket{};  ///< 0: chosen
  std::string recording;   ///< path of the recorded demand's file; empty: there is none

  /// How many different keys a rule can meet; the largest number where they are more.
  std::size_t keys_of(std::size_t rule) const noexcept {
    std::size_t count = 1;
    for (const std::size_t space : spaces_of_rule[rule])
      if (__builtin_mul_overflow(count, keys[space].values.size(), &count))
        return std::numeric_limits<std::size_t>::max();
    return count;
  }
};

}  // namespace weir::sim
