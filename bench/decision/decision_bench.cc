// SPDX-License-Identifier: BSD-3-Clause
// What one decision costs: find the key, see whether it may pass, count it. Our contenders run with their
// controller at work, so flips, publications, first touches and draws are in their figures. Beside them, in
// the same run, the peers: rte_hash with counters, TBB's concurrent_hash_map, what tutorials write (a mutex
// around an unordered_map of windows), and DPDK's rte_meter. bench-scaling has them on several threads.
//
// Every contender's turn has a floor of its own, measured just before it on the same stream of requests: one
// prefetched read-modify-write of a random line for each, in as many lines as ours lie in. What others do to
// the machine meanwhile hits both, and their ratio is what a turn tells.
//
// The measuring thread has the last processor; controllers have the others. Time is the measuring thread's
// own. Every result is used, and counters are checked against the
// number of requests at the end of each turn.
#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contender.h"
#include "floor_lines.h"
#include "peers.h"
#include "thread/pinned_thread.h"

namespace weir::bench {
namespace {

struct Options {
  std::vector<std::size_t> keys{1000, 100'000, 1'000'000};
  std::vector<std::string> contenders;
  unsigned repeats = 1;
};

/// Where in its stream a contender goes on, and what it has taken so far.
class Walk {
 public:
  Walk(Contender& contender, const Stream& stream, Drawn drawn)
      : contender_(contender), stream_(stream), drawn_(drawn) {}

  /// @return ns per request, over at least this time
  double steady(Duration time) {
    std::uint64_t requests = 0;
    Duration taken{};
    do {
      contender_.between();
      const Duration began = thread_time();
      requests += step();
      taken += thread_time() - began;
    } while (taken < time);
    return static_cast<double>(taken.count()) / static_cast<double>(requests);
  }
  /// Once around, not timed.
  void around() {
    std::size_t requests = 0;
    while (requests < stream_.size()) requests += step();
  }
  /// Times around, each from a new beginning, until the decisions have taken so long or all has taken so
  /// often as long. @return ns per request
  double anew(Duration time) {
    constexpr int patience = 4;
    const MonotonicTime end = monotonic_now() + patience * time;
    std::uint64_t requests = 0;
    Duration taken{};
    do {
      contender_.begin();
      at_ = 0;
      const Duration began = thread_time();
      contender_.decide(drawn_, 0, stream_.size());
      taken += thread_time() - began;
      requests += stream_.size();
      contender_.pause();
    } while (taken < time && monotonic_now() < end);
    return static_cast<double>(taken.count()) / static_cast<double>(requests);
  }

 private:
  /// Enough that looking at the clock costs nothing.
  static constexpr std::size_t chunk = 512 * burst;

  std::size_t step() {
    const std::size_t count = std::min(chunk, stream_.size() - at_);
    contender_.decide(drawn_, at_, count);
    at_ = (at_ + count) % stream_.size();
    return count;
  }

  Contender& contender_;
  const Stream& stream_;
  const Drawn drawn_;
  std::size_t at_ = 0;
};

struct Turn {
  const Kind* kind;
  Workload* workload;
  unsigned repeats;
};

/// On the measuring thread.
void measure(const Turn& turn, Contender& contender, Contender& floor, Duration time, Result& figures) {
  const auto walk = [&](Contender& who, Drawn drawn) {
    return Walk(who, turn.workload->stream(drawn), drawn);
  };
  const bool once = turn.kind->streams.front() == Drawn::once;
  if (!once) {
    // All keys have been met, here and by the controller.
    contender.begin();
    // A node meets so many new keys in a span as let it end in time.
    bool has_met_all = false;
    for (int patience = 60; patience > 0 && !has_met_all; --patience) {
      for (const Drawn drawn : turn.kind->streams) {
        walk(contender, drawn).around();
        // Of a million keys one in forty comes once in one stream, and never in the other.
        walk(contender, drawn).steady(2 * contender.settles_in());
      }
      // Who asks may wait for the controller, and nobody shall wait for a worker that does.
      contender.pause();
      has_met_all = contender.has_met_all();
      contender.begin();
    }
    contender.pause();
    if (!has_met_all) throw Worthless("it does not settle with all keys");
  }
  struct Walks {
    Drawn drawn;
    Walk floor, contender;
  };
  std::vector<Walks> walks;
  for (const Drawn drawn : turn.kind->streams)
    walks.push_back({drawn, walk(floor, drawn), walk(contender, drawn)});
  // Where keys are so many that turns are repeated, each of them once is time enough.
  const unsigned repeats = once ? 1 : turn.repeats;
  for (unsigned repeat = 0; repeat < repeats; ++repeat) {
    for (Walks& on : walks) {
      on.floor.around();
      const double floor_ns = on.floor.steady(time / 2);
      double ns = 0;
      if (once) {
        ns = on.contender.anew(time);
      } else {
        contender.begin();
        on.contender.steady(std::max<Duration>(contender.settles_in(), std::chrono::milliseconds{1}));
        ns = on.contender.steady(time);
        contender.pause();
      }
      figures.push_back(
          {{"drawn", name_of(on.drawn)}, {"repeat", repeat}, {"ns", ns}, {"floor_ns", floor_ns}});
    }
  }
}

/// @return a run for each stream and repeat, or what was wrong
Result run(const Turn& turn, unsigned round, Duration time) {
  Result figures = Result::array();
  Result told = Result::object();
  const MonotonicTime began = monotonic_now();
  try {
    const std::unique_ptr<Contender> contender = turn.kind->make(*turn.workload);
    const std::unique_ptr<Contender> floor =
        turn.kind->dense ? make_array(*turn.workload) : make_floor(*turn.workload);
    PinnedThread thread(processors().back(), [&] { measure(turn, *contender, *floor, time, figures); });
    thread.join();
    told["switches"] = thread.involuntary_switches();
    Result nothing;
    floor->finish(nothing);
    contender->finish(told);
  } catch (const Worthless& wrong) {
    figures = Result::array({{{"wrong", wrong.what()}}});
  }
  const Seconds took = monotonic_now() - began;
  for (Result& each : figures) {
    each.update(told);
    each["turn_seconds"] = took.count();
    each["contender"] = turn.kind->name;
    each["keys"] = turn.workload->keys();
    each["round"] = round;
  }
  return figures;
}

/// Bytes that may still be had without taking others' memory; nothing where the kernel does not tell.
std::optional<double> memory_available() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  double kilobytes = 0;
  while (file >> word)
    if (word == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
  return std::nullopt;
}

/// Of the turn that takes most: the streams, as others read them and as ours does; and a node, with room for
/// what it needs more while its notes grow.
double memory_needed(std::size_t keys, double node_bytes) {
  constexpr double while_growing = 1.4;
  double streams = 0;
  for (const Drawn drawn : {Drawn::uniform, Drawn::zipf, Drawn::once})
    streams += static_cast<double>(Stream::length(keys, drawn)) * sizeof(PlainKey);
  return 2 * streams + static_cast<double>(keys) * node_bytes * while_growing;
}

Result run_all(const Options& options, const Effort& effort) {
  // All threads made from here on but the measuring ones, the controllers' that is, keep off its processor.
  const std::vector<int> cpus = processors();
  keep_off(cpus.back());
  prepare_peers(cpus.front());

  std::vector<Kind> kinds = weir_kinds();
  for (const auto& others : {floor_kinds(), peer_kinds()})
    kinds.insert(kinds.end(), others.begin(), others.end());
  std::erase_if(kinds, [&](const Kind& kind) {
    return !options.contenders.empty() && std::find(options.contenders.begin(), options.contenders.end(),
                                                    kind.name) == options.contenders.end();
  });
  const double node_bytes = node_bytes_per_key();
  Result runs = Result::array();
  Result left_out = Result::array();
  Result floor_bytes = Result::object();
  const auto measure_size = [&](std::size_t keys, bool dense) {
    Workload workload(keys);
    std::vector<Turn> turns;
    for (const Kind& kind : kinds)
      if (kind.dense == dense && keys <= kind.most_keys) turns.push_back({&kind, &workload, options.repeats});
    in_rounds(effort, turns, [&](const Turn& turn, unsigned round) {
      for (Result& each : run(turn, round, effort.time())) runs.push_back(std::move(each));
    });
  };
  measure_size(1, true);
  for (const std::size_t keys : options.keys) {
    floor_bytes[std::to_string(keys)] = FloorLines::bytes_per_key(keys);
    const double needed = memory_needed(keys, node_bytes);
    const double available = memory_available().value_or(std::numeric_limits<double>::infinity());
    if (needed > available)
      left_out.push_back({{"keys", keys}, {"bytes_needed", needed}, {"bytes_available", available}});
    else
      measure_size(keys, false);
  }
  return {{"processors", cpus.size()},
          {"floor_bytes_per_key", floor_bytes},
          {"node_bytes_per_key", node_bytes},
          {"runs", runs},
          {"left_out", left_out}};
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  using namespace weir::bench;
  Options options;
  Program program("bench-decision", "What a decision costs, beside its floor and its peers.",
                  {.rounds = 3, .seconds = 0.25});
  std::vector<std::string> names;
  for (const auto& kinds : {weir_kinds(), floor_kinds(), peer_kinds()})
    for (const Kind& kind : kinds) names.emplace_back(kind.name);
  program.options()
      .add_option("--keys", options.keys, "numbers of keys, such as 1000,1000000")
      ->delimiter(',')
      ->check(CLI::Range(burst, std::size_t{16'000'000}));
  program.options()
      .add_option("--contenders", options.contenders, "all when none is named")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  program.options()
      .add_option("--repeats", options.repeats,
                  "of floor and contender, one after the other, in each turn of those that go on")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  return program.run(argc, argv, [&] { return run_all(options, program.effort()); });
}
