// SPDX-License-Identifier: BSD-3-Clause
// How long a burst of 32 decisions takes by itself (the next one begins when it has ended), at its median and
// at its worst, with everything going on that may disturb a worker: span ends, publications, syncs with Redis
// over a unix socket, Redis dying, and no Redis there from the start; beside the same worker without any
// controller while it is timed. All turns of one run, in random order.
//
// The worker has a processor to itself and the controller and Redis have the others; on a machine that others
// use too, the times the processor was taken away are reported beside the figures.
#include <weir/throttle.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "decision/key_sequence.h"
#include "decision/settling.h"
#include "histogram.h"
#include "program/program.h"
#include "program/ticks.h"
#include "store/process.h"
#include "thread/pinned_thread.h"

namespace weir::bench {
namespace {

using namespace std::chrono_literals;

enum class StoreKind { none, memory, redis, dying, dead };

struct Scenario {
  const char* name;
  StoreKind store;
  Duration span;
};

constexpr Scenario scenarios[] = {
    {"alone", StoreKind::none, 100ms},           {"memory-100ms", StoreKind::memory, 100ms},
    {"memory-10ms", StoreKind::memory, 10ms},    {"redis-100ms", StoreKind::redis, 100ms},
    {"redis-10ms", StoreKind::redis, 10ms},      {"redis-dies-100ms", StoreKind::dying, 100ms},
    {"redis-dies-10ms", StoreKind::dying, 10ms}, {"redis-dead-100ms", StoreKind::dead, 100ms},
    {"redis-dead-10ms", StoreKind::dead, 10ms},
};

/// A Redis of our own, on a unix socket; it keeps nothing.
class Redis {
 public:
  Redis() {
    process_.emplace(std::vector<std::string>{"redis-server", "--port", "0", "--unixsocket", socket(),
                                              "--dir", folder_.path(), "--save", "", "--appendonly", "no"});
    for (int tries = 0; !std::filesystem::exists(socket()); ++tries) {
      if (!process_->running() || tries == 1000) throw std::runtime_error("redis-server does not start");
      std::this_thread::sleep_for(10ms);
    }
  }
  std::string url() const { return "redis+unix://" + socket(); }
  void die() { process_.reset(); }

 private:
  std::string socket() const { return folder_.path() / "redis.sock"; }
  TemporaryFolder folder_;
  std::optional<ChildProcess> process_;
};

/// Of a socket that nobody listens at.
constexpr const char* url_of_the_dead = "redis+unix:///nonexistent/redis.sock";

std::string rules(const Scenario& scenario, const std::string& url) {
  // hold_back = 0: every key is synchronised in every span, however far it is from its limit.
  const std::string interval = std::to_string(scenario.span / 1ms * 10) + "ms";
  return "[store]\nurl = \"" + url +
         "\"\n[[rule]]\nname = \"user\"\nkey = [\"header:x-user\"]\nlimit = 1000000000000\n"
         "hold_back = 0\nspans = 10\ninterval = \"" +
         interval + "\"\n";
}

/// Decides in a loop until told to stop; times each burst once it is told to.
class Loop {
 public:
  Loop(Worker& worker, const std::vector<Key>& keys) : worker_(worker), keys_(keys) {}

  void run() noexcept {
    worker_.online();
    while (!stop.load(std::memory_order_relaxed)) {
      const std::uint64_t began = ticks();
      step();
      const std::uint64_t took = ticks() - began;
      if (timed.load(std::memory_order_relaxed)) histogram_.add(took);
    }
    worker_.offline();
  }
  /// One burst: what a worker's loop does with it, the report at its end included.
  void step() noexcept {
    const std::size_t next = (at_ + burst) % sequence_length;
    worker_.admit_keys(std::span(keys_).subspan(at_, burst), verdicts_,
                       std::span(keys_).subspan(next, burst));
    worker_.quiescent();
    for (const Verdict verdict : verdicts_) admitted_ += verdict == Verdict::admit;
    decided_ += burst;
    at_ = next;
  }
  /// After run().
  const Histogram& histogram() const noexcept { return histogram_; }
  std::uint64_t decided() const noexcept { return decided_; }
  std::uint64_t refused() const noexcept { return decided_ - admitted_; }

  // Set by the main thread; they order nothing, the thread is joined before anything is read.
  std::atomic<bool> stop{false};
  std::atomic<bool> timed{false};

 private:
  Worker& worker_;
  std::span<const Key> keys_;
  std::array<Verdict, burst> verdicts_{};
  std::size_t at_ = 0;
  std::uint64_t decided_ = 0;
  std::uint64_t admitted_ = 0;
  Histogram histogram_;
};

Instant now() { return {WallTime(std::chrono::system_clock::now().time_since_epoch()), monotonic_now()}; }

/// Does a controller's part for some time, as it comes due.
void end_spans(Throttle& throttle, Duration time) {
  for (const MonotonicTime end = monotonic_now() + time; monotonic_now() < end;) {
    throttle.advance(now());
    std::this_thread::sleep_for(1ms);
  }
}

/// Slow is a burst that takes so many times the median.
constexpr std::uint64_t slow = 10;

Result quantiles(const Histogram& histogram, double ns_per_tick) {
  Result curve = Result::array();
  for (const double part : {0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 0.99999})
    curve.push_back({part, static_cast<double>(histogram.quantile(part)) * ns_per_tick});
  return curve;
}

/// @return a run's figures, or what was wrong
Result run(const Scenario& scenario, std::size_t key_count, Duration time, int processor) {
  const bool with_redis = scenario.store == StoreKind::redis || scenario.store == StoreKind::dying;
  std::optional<Redis> redis;
  if (with_redis) redis.emplace();
  const std::vector<std::string> names = user_names(key_count);
  const std::string url = with_redis                          ? redis->url()
                          : scenario.store == StoreKind::dead ? url_of_the_dead
                                                              : "memory://";
  const std::unique_ptr<Throttle> made = make_throttle(rules(scenario, url), key_count, 1);
  Throttle& throttle = *made;
  std::vector<Key> keys;
  for (const std::uint32_t key : key_sequence(key_count, Distribution::zipf))
    keys.push_back(throttle.worker(0).key(0, names[key]));

  const auto loop = std::make_unique<Loop>(throttle.worker(0), keys);
  // Either has published before the worker comes online, as it asks for.
  if (scenario.store != StoreKind::none)
    throttle.start();
  else
    throttle.advance(now());

  PinnedThread thread(processor, [&] { loop->run(); });
  const auto pass = [&](Duration some) {
    if (scenario.store == StoreKind::none)
      end_spans(throttle, some);
    else
      std::this_thread::sleep_for(some);
  };
  pass(std::max<Duration>(500ms, 5 * scenario.span));
  // A node meets so many new keys in a span as let it end in time.
  Settling settling;
  for (const MonotonicTime end = monotonic_now() + Settling::patience;
       !settling.has_settled() && monotonic_now() < end; pass(2 * scenario.span)) {
    const Figures figures = throttle.figures();
    settling.look(figures, figures.rules.front().offered, figures.overflowed);
  }
  const Figures before = throttle.figures();
  const std::uint64_t ticks_before = ticks();
  const MonotonicTime began = monotonic_now();
  const Duration cpu_before = thread.cpu();
  if (scenario.store == StoreKind::none) {
    // While it is timed there is no controller; in between there is, or windows would end, and what is at
    // hand would be used up: that is slower than anything a controller does.
    for (const MonotonicTime end = began + time; monotonic_now() < end;) {
      end_spans(throttle, scenario.span * 3 / 10);
      loop->timed.store(true, std::memory_order_relaxed);
      std::this_thread::sleep_for(scenario.span * 7 / 10);
      loop->timed.store(false, std::memory_order_relaxed);
    }
  } else {
    loop->timed.store(true, std::memory_order_relaxed);
    const bool dies = scenario.store == StoreKind::dying;
    std::this_thread::sleep_for(dies ? time / 10 : time);
    if (dies) {
      redis->die();
      std::this_thread::sleep_for(time * 9 / 10);
    }
  }
  const Seconds wall = monotonic_now() - began;
  const Seconds cpu = thread.cpu() - cpu_before;
  const double ns_per_tick = wall.count() * 1e9 / static_cast<double>(ticks() - ticks_before);
  loop->stop.store(true, std::memory_order_relaxed);
  thread.join();
  const Figures after = throttle.figures();
  if (scenario.store != StoreKind::none) throttle.stop(100ms);
  // Worth nothing, but no reason to throw the others away.
  const auto wrong = [&](const char* what) -> Result {
    return {{"scenario", scenario.name}, {"wrong", what}};
  };
  if (!settling.has_settled()) return wrong("it does not settle with all keys");
  if (with_redis && after.store_syncs == 0) return wrong("no sync with Redis was seen");
  if ((scenario.store == StoreKind::dying || scenario.store == StoreKind::dead) && after.store_up)
    return wrong("the store is said to be up, and is dead");

  return {{"scenario", scenario.name},
          {"bursts", loop->histogram().total()},
          {"decided", loop->decided()},  // timed or not
          {"refused", loop->refused()},  // under a limit out of reach: for want of what the controller brings
          {"quantiles", quantiles(loop->histogram(), ns_per_tick)},
          {"max_ns", static_cast<double>(loop->histogram().max()) * ns_per_tick},
          {"slow_time", loop->histogram().part_of_sum_above(slow * loop->histogram().quantile(0.5))},
          {"cpu_share", cpu / wall},
          {"switches", thread.involuntary_switches()},
          {"spans", after.spans - before.spans},
          {"overruns", after.span_overruns - before.span_overruns},
          {"publications", after.publication_generation - before.publication_generation},
          {"syncs", after.store_syncs - before.store_syncs},
          {"store_failures", after.store_failures - before.store_failures}};
}

Result run_all(std::size_t keys, bool without_redis, const Effort& effort) {
  // All threads made from here on, the controller's and the store's, keep off the worker's processor.
  const std::vector<int> cpus = processors();
  keep_off(cpus.back());
  std::vector<Scenario> turns;
  for (const Scenario& scenario : scenarios)
    if (!without_redis || (scenario.store != StoreKind::redis && scenario.store != StoreKind::dying))
      turns.push_back(scenario);
  Result runs = Result::array();
  in_rounds(effort, turns, [&](const Scenario& scenario, unsigned round) {
    Result result = run(scenario, keys, effort.time(), cpus.back());
    result["round"] = round;
    runs.push_back(std::move(result));
  });
  return {{"processors", cpus.size()}, {"keys", keys}, {"runs", runs}};
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  using namespace weir::bench;
  std::size_t keys = 10'000;
  bool without_redis = false;
  Program program(
      "bench-latency",
      "How long bursts of 32 decisions take: without a controller, and with all that may disturb a worker.",
      {.rounds = 5, .seconds = 2});
  program.options()
      .add_option("--keys", keys, "drawn by Zipf's law")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  program.options().add_flag("--without-redis", without_redis, "leave out what needs redis-server");
  return program.run(argc, argv, [&] { return run_all(keys, without_redis, program.effort()); });
}
