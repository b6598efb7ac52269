// SPDX-License-Identifier: BSD-3-Clause
// Decisions of 1, 2, … workers that share one rule set and one controller: what another worker adds. Beside
// them, in the same run and in random order, what tutorials write: one lock around one map. And what one more
// worker takes of memory, for each key there is room for.
//
// Workers have a processor each; the controller runs where there is room. Two rates: by the clock on the
// wall, which on a machine that others use too measures them as well, and by each worker's own processor
// time: what it would have been with its processor to itself.
#include <weir/throttle.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "decision/key_sequence.h"
#include "decision/peers.h"
#include "program/program.h"
#include "thread/pinned_thread.h"

namespace weir::bench {
namespace {

struct Options {
  std::vector<std::size_t> keys{1000, 100'000, 1'000'000};
  unsigned workers = 0;
};

/// Decisions made so far. Writer: one worker. Reader: the main thread, while it goes on and after its end.
struct alignas(64) Done {
  std::atomic<std::uint64_t> count{0};
  void add(std::uint64_t more) noexcept {
    // One writer, and nothing else is told by it.
    count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  std::uint64_t read() const noexcept { return count.load(std::memory_order_relaxed); }
};

/// What decides: for each worker's thread a loop.
class Decider {
 public:
  virtual ~Decider() = default;
  /// Decides burst after burst, from its own place in the sequence, until `stop`; counts into `done`.
  virtual void work(unsigned worker, const std::atomic<bool>& stop, Done& done) = 0;
  /// After all workers have ended. @return what has been counted
  virtual std::uint64_t counted() = 0;
};

constexpr std::size_t start_of(unsigned worker) {
  return worker * 104'729 % (sequence_length / burst) * burst;
}

constexpr std::string_view rule =
    "[[rule]]\nname = \"user\"\nkey = [\"header:x-user\"]\nlimit = 1000000000000\ninterval = \"1s\"\n";

/// What a node takes, as its tables tell it, when all keys have been met twice and stay within their grants,
/// by one worker or by each of two, within two seconds of virtual time: so in either case it has come to know
/// as much of them.
std::size_t memory_of(unsigned workers, std::size_t keys) {
  constexpr std::size_t spans = 10;
  const std::unique_ptr<Throttle> throttle = make_throttle(rule, keys, workers);
  Instant now{WallTime(std::chrono::hours{1}), MonotonicTime(std::chrono::hours{1})};
  throttle->advance(now);
  std::array<Verdict, burst> verdicts;
  for (unsigned time = 0; time < 2; ++time) {
    Worker& worker = throttle->worker(time % workers);
    worker.online();
    for (std::size_t span = 0; span < spans; ++span) {
      for (std::size_t i = keys * span / spans; i < keys * (span + 1) / spans; ++i) {
        const std::string name = std::to_string(i);
        const std::array<Key, 1> key{worker.key(0, name)};
        worker.admit_keys(key, now.monotonic, verdicts);
      }
      now = now + std::chrono::milliseconds{100};
      for (int part = 0; part < 3; ++part) {  // flip, drain, decide
        throttle->advance(now);
        worker.quiescent();
      }
    }
    worker.offline();
  }
  return throttle->memory();
}

class Weir final : public Decider {
 public:
  Weir(unsigned workers, const std::vector<std::string>& names) {
    throttle_ = make_throttle(rule, names.size(), workers);
    for (const std::uint32_t key : key_sequence(names.size(), Distribution::uniform))
      keys_.push_back(throttle_->worker(0).key(0, names[key]));
    throttle_->start();
  }
  void work(unsigned index, const std::atomic<bool>& stop, Done& done) override {
    Worker& worker = throttle_->worker(index);
    worker.online();
    std::array<Verdict, burst> verdicts;
    for (std::size_t at = start_of(index); !stop.load(std::memory_order_relaxed);) {
      const std::size_t next = (at + burst) % sequence_length;
      worker.prefetch(std::span(keys_).subspan(next, burst));
      worker.admit_keys(std::span(keys_).subspan(at, burst), verdicts);
      worker.quiescent();
      at = next;
      done.add(burst);
    }
    worker.offline();
  }
  std::uint64_t counted() override {
    throttle_->stop(std::chrono::seconds{1});
    return throttle_->figures().rules.front().admitted;
  }

 private:
  std::unique_ptr<Throttle> throttle_;
  std::vector<Key> keys_;
};

class Tutorial final : public Decider {
 public:
  Tutorial(unsigned, const std::vector<std::string>& names) : map_(names.size()) {
    for (const std::uint32_t key : key_sequence(names.size(), Distribution::uniform)) keys_.emplace_back(key);
  }
  void work(unsigned index, const std::atomic<bool>& stop, Done& done) override {
    for (std::size_t at = start_of(index); !stop.load(std::memory_order_relaxed);
         at = (at + burst) % sequence_length) {
      map_.admit(std::span(keys_).subspan(at, burst));
      done.add(burst);
    }
  }
  std::uint64_t counted() override { return map_.admitted(); }

 private:
  MutexAndMap map_;
  std::vector<PlainKey> keys_;
};

Result run(Decider& decider, unsigned workers, Duration time) {
  const std::vector<int> cpus = processors();
  std::vector<Done> done(workers);
  std::atomic<bool> stop{false};
  std::vector<std::unique_ptr<PinnedThread>> threads;
  // From the last processor down: the controller's thread then finds the first one free, where there is one.
  for (unsigned i = 0; i < workers; ++i)
    threads.push_back(std::make_unique<PinnedThread>(cpus[cpus.size() - 1 - i % cpus.size()],
                                                     [&, i] { decider.work(i, stop, done[i]); }));

  // All have met all their keys; and the time is long enough of each one's own.
  const auto all_past = [&](const std::vector<std::uint64_t>& decisions, const std::vector<Duration>& cpu) {
    for (unsigned i = 0; i < workers; ++i)
      if (done[i].read() < decisions[i] || threads[i]->cpu() < cpu[i]) return false;
    return true;
  };
  const auto wait_for = [&](std::uint64_t decisions, Duration cpu) {
    std::vector<std::uint64_t> enough;
    std::vector<Duration> long_enough;
    for (unsigned i = 0; i < workers; ++i) {
      enough.push_back(done[i].read() + decisions);
      long_enough.push_back(threads[i]->cpu() + cpu);
    }
    while (!all_past(enough, long_enough)) std::this_thread::sleep_for(std::chrono::milliseconds{2});
  };
  wait_for(sequence_length / 4, time / 4);

  std::vector<std::uint64_t> before;
  std::vector<Duration> cpu_before;
  for (unsigned i = 0; i < workers; ++i) {
    before.push_back(done[i].read());
    cpu_before.push_back(threads[i]->cpu());
  }
  const MonotonicTime began = monotonic_now();
  wait_for(burst, time);
  const Seconds wall = monotonic_now() - began;
  double by_wall = 0;
  double by_cpu = 0;
  for (unsigned i = 0; i < workers; ++i) {
    const auto decisions = static_cast<double>(done[i].read() - before[i]);
    by_wall += decisions / wall.count();
    by_cpu += decisions / Seconds(threads[i]->cpu() - cpu_before[i]).count();
  }
  stop.store(true, std::memory_order_relaxed);  // orders nothing: the threads are joined
  long switches = 0;
  std::uint64_t decided = 0;
  for (unsigned i = 0; i < workers; ++i) {
    threads[i]->join();
    switches += threads[i]->involuntary_switches();
    decided += done[i].read();
  }
  if (decider.counted() != decided)
    throw std::runtime_error("counters and decisions differ: the result is worthless");
  return {
      {"workers", workers}, {"per_second_wall", by_wall}, {"per_second_cpu", by_cpu}, {"switches", switches}};
}

Result run_all(const Options& options, const Effort& effort) {
  const auto cpus = static_cast<unsigned>(processors().size());
  const unsigned most = options.workers == 0 ? cpus : options.workers;
  struct Turn {
    bool weir;
    unsigned workers;
    std::size_t keys;
  };
  std::vector<Turn> turns;
  for (const std::size_t keys : options.keys)
    for (unsigned workers = 1; workers <= most; workers *= 2)
      for (const bool weir : {true, false}) turns.push_back({weir, workers, keys});
  Result runs = Result::array();
  in_rounds(effort, turns, [&](const Turn& turn, unsigned) {
    const std::vector<std::string> names = user_names(turn.keys);
    std::unique_ptr<Decider> decider;
    if (turn.weir)
      decider = std::make_unique<Weir>(turn.workers, names);
    else
      decider = std::make_unique<Tutorial>(turn.workers, names);
    Result result = run(*decider, turn.workers, effort.time());
    result["contender"] = turn.weir ? "weir_key" : "mutex_and_map";
    result["keys"] = turn.keys;
    runs.push_back(std::move(result));
  });
  Result memory = Result::array();
  for (const std::size_t keys : options.keys) {
    const std::size_t one = memory_of(1, keys);
    const std::size_t two = memory_of(2, keys);
    memory.push_back(
        {{"keys", keys},
         {"bytes_per_key_and_worker", static_cast<double>(two - one) / static_cast<double>(keys)}});
  }
  return {{"processors", cpus}, {"runs", runs}, {"memory", memory}};
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  using namespace weir::bench;
  Options options;
  Program program("bench-scaling",
                  "Decisions per second of 1, 2, 4, … workers that share one rule set and one controller.",
                  {.rounds = 5, .seconds = 0.5});
  program.options()
      .add_option("--keys", options.keys, "numbers of keys, such as 1000,1000000")
      ->delimiter(',')
      ->check(CLI::Range(1, 16'000'000));
  program.options()
      .add_option("--workers", options.workers, "at most; 0: one per processor")
      ->check(CLI::Range(0, 255))
      ->capture_default_str();
  return program.run(argc, argv, [&] { return run_all(options, program.effort()); });
}
