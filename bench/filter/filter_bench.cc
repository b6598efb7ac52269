// SPDX-License-Identifier: BSD-3-Clause
// weir-filter from end to end, one worker: its own loop between two ports, under several sets of rules,
// beside a loop that only receives and sends, with and without reading the frames. Every run is checked:
// frames in = frames out + dropped, by our count and by the ports', and the rules have counted each request.
//
// Sources of frames, none of which is a traffic generator on the worker's core:
//   null-4096, null-16384: net_null that copies nothing, over a FIFO pool of so many mbufs filled beforehand.
//
//   loop: net_ring in a loop, frames go round. The ceiling, for nothing is allocated or freed.
//
//   cloned: a generator on another core attaches mbufs to prepared frames, without end. The check that the
//   sources above flatter nobody: here mbufs come from another core. How long the worker asked in vain is
//   measured, told and taken off: where it is much, the generator was the limit.
//
//   fresh: the frames themselves written by another core just before, which is what a device's frames are
//   like that lie in no cache of the worker's. A generator that copies would be the limit; so the time runs
//   from the moment so many frames are there until the last has left.
//
// The time of all but the last is the worker's thread's own: the machine may be lent to others meanwhile.
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <rte_pause.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cloned_source.h"
#include "contenders.h"
#include "frame_source.h"
#include "thread/pinned_thread.h"
#include "weir/throttle.h"

namespace weir::bench {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::uint32_t loop_frames = 4096;
constexpr std::uint32_t frames_of_others = 4096;
// Short enough that most helpings are through before the system gives either processor to others.
constexpr std::uint32_t helping = 512;

std::vector<std::string> source_names() { return {"null-4096", "null-16384", "loop", "cloned", "fresh"}; }

struct Options {
  std::vector<std::string> sources = source_names();
  std::vector<std::string> contenders;
  unsigned rounds = 3;
  double seconds = 0.5;
  std::uint64_t seed = 1;
  unsigned memory_mb = 256;
};

/// Requests of a stretch of frames.
struct Decided {
  std::uint64_t admitted = 0;
  std::uint64_t refused = 0;

  Decided operator-(const Decided& earlier) const noexcept {
    return {admitted - earlier.admitted, refused - earlier.refused};
  }
  bool nearly_all_refused() const noexcept { return admitted <= refused / 1000; }
  std::string told() const {
    return std::to_string(admitted) + " requests were admitted and " + std::to_string(refused) + " refused";
  }
};

/// A contender at work on a thread and a processor of its own.
class Running {
 public:
  Running(Contender& contender, int cpu)
      : contender_(contender), thread_(cpu, [&contender, this] { contender.run(stop_); }) {}
  ~Running() { end(); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void end() {
    stop_.store(true, std::memory_order_relaxed);  // orders nothing: the thread is joined
    thread_.join();
  }
  std::uint64_t frames() const { return contender_.counters().received.read(); }
  Decided decided() const {
    const filter::Counters& counters = contender_.counters();
    return {counters.admitted.read(), counters.blocked.read() + counters.absorbed.read()};
  }
  Duration cpu() { return thread_.cpu(); }
  /// Times the processor was taken away. After end().
  long switches() const { return thread_.involuntary_switches(); }

 private:
  Contender& contender_;
  std::atomic<bool> stop_{false};
  PinnedThread thread_;
};

using Result = nlohmann::json;

/// A turn that does not add up. Its figures count for nothing, and the report says so.
class Worthless : public std::runtime_error {
  using runtime_error::runtime_error;
};

/// Sleeps until the worker has forwarded so many frames and worked so long since this moment.
void wait_for(Running& running, std::uint64_t frames, Duration cpu) {
  const std::uint64_t enough = running.frames() + frames;
  const Duration end = running.cpu() + cpu;
  while (running.frames() < enough || running.cpu() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
}

/// The kernel provides the tables' memory, all keys are met for the first time, caches fill; and what is to
/// be refused is, for longer than a span, so that the controller knows of it, too.
void warm_up(const FrameSource& source, const ContenderKind& kind, Running& running, Duration time) {
  wait_for(running, std::uint64_t{kind.frames_before} * source.mbufs(), time / 4);
  if (!kind.refuses) return;
  constexpr std::chrono::milliseconds longer_than_a_span{150};
  constexpr std::chrono::seconds patience{10};
  Decided stretch;
  for (const Duration end = running.cpu() + patience; running.cpu() < end;) {
    const Decided before = running.decided();
    wait_for(running, 4 * source.mbufs(), longer_than_a_span);
    stretch = running.decided() - before;
    if (stretch.nearly_all_refused()) return;
  }
  throw Worthless("however long it goes on, not all are refused: at last " + stretch.told());
}

/// Frames that come without end: over some time of the worker's, so many.
Result timed(Running& running, Duration time) {
  const std::uint64_t frames = running.frames();
  const Duration cpu = running.cpu();
  const MonotonicTime began = monotonic_now();
  wait_for(running, 1, time);
  const std::uint64_t done = running.frames() - frames;
  const Seconds worked = running.cpu() - cpu;
  return {{"frames", done},
          {"ns_per_frame", worked.count() * 1e9 / static_cast<double>(done)},
          {"cpu_share", worked / Seconds(monotonic_now() - began)}};
}

Result measure(FrameSource& source, const ContenderKind& kind, Running& running, Duration time) {
  warm_up(source, kind, running, time);
  const Decided before = running.decided();
  Result result = timed(running, time);
  const Decided decided = running.decided() - before;
  if (kind.refuses && !decided.nearly_all_refused())
    throw Worthless("not all were refused: " + decided.told());
  return result;
}

/// The same, without the time of polls in vain. Not all of them are timed, but all are counted, so that those
/// in which others had the processor are in the sum as what they would have been.
Result measure(ClonedSource& source, const ContenderKind& kind, Running& running, Duration time) {
  source.begin();
  warm_up(source, kind, running, time);
  const VainPolls before = source.vain_polls();
  Result result = timed(running, time);
  const VainPolls polls = source.vain_polls() - before;
  const auto frames = result["frames"].get<double>();
  const auto all = result["ns_per_frame"].get<double>();
  // Where no two came together the worker waited for nothing.
  const double waited =
      polls.timed == 0 ? 0 : polls.seconds_each() * 1e9 * static_cast<double>(polls.all) / frames;
  if (waited >= all) throw Worthless("polls in vain took more than all of the time");
  result["ns_per_frame"] = all - waited;
  result["ns_per_frame_and_waiting"] = all;
  result["waited"] = waited / all;
  return result;
}

/// Helpings of frames: the median of the times from there to gone.
Result measure(FreshSource& source, const ContenderKind& kind, Running& running, Duration time) {
  std::vector<double> each;
  std::vector<double> making;
  const auto per_frame = [&](Duration took) { return Seconds(took).count() * 1e9 / source.helping(); };
  const auto give = [&] {
    const MonotonicTime start = monotonic_now();
    source.prepare();
    const MonotonicTime prepared = monotonic_now();
    source.serve();
    while (source.arrived() < source.helping()) {
      // A frame that is gone for good would be waited for for ever.
      if (monotonic_now() - prepared > std::chrono::seconds(10))
        throw Worthless(std::to_string(source.helping() - source.arrived()) + " frames do not arrive");
      rte_pause();
    }
    const MonotonicTime gone = monotonic_now();
    source.clear();
    making.push_back(per_frame(prepared - start));
    each.push_back(per_frame(gone - prepared));
  };
  // All keys are met for the first time.
  for (std::uint32_t met = 0; met < kind.frames_before / 4 * source.mbufs(); met += source.helping()) give();
  making.clear();
  each.clear();
  for (const MonotonicTime end = monotonic_now() + time; monotonic_now() < end || each.size() < 3;) give();
  const auto median = [](std::vector<double>& values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                     values.end());
    return values[values.size() / 2];
  };
  return {{"frames", running.frames()},
          {"ns_per_frame", median(each)},
          {"ns_per_frame_made", median(making)},
          {"helpings", each.size()}};
}

/// @return a run's figures, or what was wrong
template <typename Source>
Result run(Source& source, const ContenderKind& kind, const std::vector<int>& cpus, Duration time) {
  source.fill(kind.content);
  const PortFigures before = source.figures();
  const std::unique_ptr<Contender> contender = make_contender(kind, source.set(), source.wiring());
  Running running(*contender, cpus.back());
  Result result;
  std::string wrong;
  const auto complain = [&](const std::string& what) {
    if (!what.empty()) wrong += (wrong.empty() ? "" : "; ") + what;
  };
  try {
    result = measure(source, kind, running, time);
  } catch (const Worthless& worthless) {
    complain(worthless.what());
  }
  running.end();
  complain(source.end());
  complain(contender->complaint());
  const PortFigures after = source.figures();
  if (after.received - before.received != contender->counters().received.read() ||
      after.transmitted - before.transmitted != contender->counters().transmitted.read())
    complain("the ports have counted other numbers of frames");
  if (!wrong.empty()) result = {{"wrong", wrong}};
  result["source"] = source.name();
  result["contender"] = kind.name;
  // Of the whole turn.
  result["received"] = contender->counters().received.read();
  result["dropped"] = contender->counters().transmit_drops.read();
  result["refused"] = contender->counters().dropped.read();
  result["requests"] = contender->counters().requests.read();
  result["switches"] = running.switches();
  return result;
}

void start_eal(unsigned memory_mb, int cpu) {
  // 22.11 logs to stdout, where the results belong.
  rte_openlog_stream(stderr);
  std::vector<std::string> words{"bench-filter",
                                 "--no-huge",
                                 "--no-pci",
                                 "--no-shconf",
                                 "--no-telemetry",
                                 "--log-level",
                                 "error",
                                 "--lcores",
                                 "0@" + std::to_string(cpu),
                                 "-m",
                                 std::to_string(memory_mb)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  if (rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) < 0)
    throw std::runtime_error(std::string("DPDK does not start: ") + rte_strerror(rte_errno));
}

Result run_all(const Options& options) {
  const std::vector<int> cpus = processors();
  if (cpus.size() < 2)
    std::fprintf(stderr, "bench-filter: one processor alone: the controller takes turns with the worker\n");
  start_eal(options.memory_mb, cpus.front());

  struct Turn {
    std::function<Result(const ContenderKind&)> run;
    bool makes_frames;  // as many as are asked for, however many have come back
  };
  std::vector<Turn> turns;
  const auto time = std::chrono::duration_cast<Duration>(Seconds(options.seconds));
  const auto add = [&](auto source, bool makes_frames = false) {
    turns.push_back(
        {[source, &cpus, time](const ContenderKind& kind) { return run(*source, kind, cpus, time); },
         makes_frames});
  };
  for (const std::string& name : options.sources) {
    if (name == "loop")
      add(std::make_shared<LoopSource>(name, loop_frames));
    else if (name == "cloned")
      add(std::make_shared<ClonedSource>(name, frames_of_others, cpus.front()));
    else if (name == "fresh")
      add(std::make_shared<FreshSource>(name, frames_of_others, helping));
    else
      add(std::make_shared<NullSource>(name, static_cast<std::uint32_t>(std::stoul(name.substr(5)))), true);
  }

  std::mt19937_64 random(options.seed);
  Result results = Result::array();
  for (unsigned round = 0; round < options.rounds; ++round) {
    std::vector<std::pair<const Turn*, const ContenderKind*>> order;
    for (const Turn& turn : turns)
      for (const ContenderKind& kind : contender_kinds())
        if (options.contenders.empty() || std::find(options.contenders.begin(), options.contenders.end(),
                                                    kind.name) != options.contenders.end())
          if (turn.makes_frames || !kind.refuses) order.emplace_back(&turn, &kind);
    std::shuffle(order.begin(), order.end(), random);
    for (const auto& [turn, kind] : order) results.push_back(turn->run(*kind));
  }
  return results;
}

int program(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Forwards frames with weir-filter's own loop, and beside it with one that only receives and sends, or "
      "reads the frames, too.");
  app.add_option("--sources", options.sources, "where frames come from; all when none is named")
      ->delimiter(',')
      ->check(CLI::IsMember(source_names()));
  std::vector<std::string> names;
  for (const ContenderKind& kind : contender_kinds()) names.push_back(kind.name);
  app.add_option("--contenders", options.contenders, "all when none is named")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.footer(
      "What refuses all requests keeps their frames, and so takes turns where the source makes others: "
      "null-*.");
  app.add_option("--rounds", options.rounds, "turns of each contender")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "of each turn")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the order of turns")->capture_default_str();
  app.add_option("--memory", options.memory_mb, "of DPDK, MB")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Result results = run_all(options);
  std::printf("%s\n", Result{{"runs", results}}.dump(1).c_str());
  rte_eal_cleanup();
  return 0;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) try {
  return weir::bench::program(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench-filter: %s\n", error.what());
  return 1;
}
