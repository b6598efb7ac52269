// SPDX-License-Identifier: BSD-3-Clause
// What one decision costs: find the key, see whether it may pass, count it. Our contenders run with their
// controller at work, so flips, publications, first touches and draws are in their figures. Beside them, in
// the same run, the peers: rte_hash with counters, TBB's concurrent_hash_map, what tutorials write (a mutex
// around an unordered_map of windows), and DPDK's rte_meter. bench-scaling has them on several threads.
//
// Every contender's turn has a floor of its own, measured just before and after it on the same stream of
// requests: one prefetched read-modify-write of a random line for each, in as many lines as ours lie in,
// asked for in whichever of two ways is the quicker one. What others do to the machine meanwhile hits both,
// and their ratio is what a turn tells. A turn is as long as the rules' interval: so it has one interval's
// end.
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
#include "settling.h"
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
    contender_.take_part();
    do {
      contender_.between();
      const Duration began = thread_time();
      requests += step();
      taken += thread_time() - began;
    } while (taken < time);
    return static_cast<double>(taken.count()) * contender_.take_part() / static_cast<double>(requests);
  }
  /// Once around, not timed.
  void around() {
    std::size_t requests = 0;
    while (requests < stream_.size()) {
      contender_.between();
      requests += step();
    }
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

/// What a contender's time is held against, in all the ways in which it may be done: the quickest counts.
class Floors {
 public:
  explicit Floors(std::vector<std::unique_ptr<Contender>> ways) : ways_(std::move(ways)) {}

  /// Adds to what each way takes on a stream.
  void measure(const Stream& stream, Drawn drawn, Duration time) {
    sums_.resize(ways_.size());
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      Walk walk(*ways_[i], stream, drawn);
      walk.around();
      sums_[i] += walk.steady(time / ways_.size());
    }
    ++times_;
  }
  /// @return ns per request, and forgets
  double take() {
    const double sum = *std::ranges::min_element(sums_);
    sums_.clear();
    return sum / std::exchange(times_, 0);
  }
  void finish() {
    Result nothing;
    for (const auto& way : ways_) way->finish(nothing);
  }

 private:
  std::vector<std::unique_ptr<Contender>> ways_;
  std::vector<double> sums_;
  int times_ = 0;
};

/// All keys have been met, here and by the controller. On the measuring thread.
void meet_all(const Turn& turn, Contender& contender) {
  // A node meets so many new keys in a span as let it end in time.
  const MonotonicTime end = monotonic_now() + Settling::patience;
  for (bool has_met_all = false; !has_met_all;) {
    contender.begin();
    for (const Drawn drawn : turn.kind->streams) {
      Walk walk(contender, turn.workload->stream(drawn), drawn);
      walk.around();
      // Who has a controller is to be seen by it; of a million keys one in forty comes once in one stream,
      // and never in the other.
      if (contender.settles_in() > Duration{}) walk.steady(std::chrono::milliseconds{100});
    }
    // Who asks may wait for the controller, and nobody shall wait for a worker that does.
    contender.pause();
    has_met_all = contender.has_met_all();
    if (!has_met_all && monotonic_now() > end) throw Worthless("it does not settle with all keys");
  }
}

/// On the measuring thread.
void measure(const Turn& turn, Contender& contender, Floors& floors, Duration time, Result& figures) {
  const bool once = turn.kind->streams.front() == Drawn::once;
  if (!once) meet_all(turn, contender);
  // What has made way for the floor's lines, or belongs to a controller, is to be back.
  const Duration warm_up = std::max<Duration>(contender.settles_in(), std::chrono::milliseconds{200});
  const Duration floor_time = std::min<Duration>(time / 4, std::chrono::milliseconds{100});
  std::vector<Walk> walks;
  for (const Drawn drawn : turn.kind->streams)
    walks.emplace_back(contender, turn.workload->stream(drawn), drawn);
  // Where keys are so many that turns are repeated, each of them once is time enough.
  const unsigned repeats = once ? 1 : turn.repeats;
  for (unsigned repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t i = 0; i < walks.size(); ++i) {
      const Drawn drawn = turn.kind->streams[i];
      const Stream& stream = turn.workload->stream(drawn);
      floors.measure(stream, drawn, floor_time);
      double ns = 0;
      if (once) {
        ns = walks[i].anew(time);
      } else {
        contender.begin();
        walks[i].steady(std::min(warm_up, time));
        ns = walks[i].steady(time * contender.times_as_long());
        contender.pause();
      }
      floors.measure(stream, drawn, floor_time);
      figures.push_back(
          {{"drawn", name_of(drawn)}, {"repeat", repeat}, {"ns", ns}, {"floor_ns", floors.take()}});
    }
  }
}

/// @param processor  that the calling thread, and all that it makes, keep off
/// @return a run for each stream and repeat, or what was wrong
Result run(const Turn& turn, unsigned round, Duration time, int processor) {
  Result figures = Result::array();
  Result told = Result::object();
  const MonotonicTime began = monotonic_now();
  try {
    const std::unique_ptr<Contender> contender = turn.kind->make(*turn.workload);
    Floors floors(turn.kind->dense ? make_arrays(*turn.workload) : make_floors(*turn.workload));
    PinnedThread thread(processor, [&] { measure(turn, *contender, floors, time, figures); });
    thread.join();
    told["switches"] = thread.involuntary_switches();
    floors.finish();
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
      for (Result& each : run(turn, round, effort.time(), cpus.back())) runs.push_back(std::move(each));
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
                  {.rounds = 3, .seconds = 1});
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
