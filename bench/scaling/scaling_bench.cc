// SPDX-License-Identifier: BSD-3-Clause
// Decisions of 1, 2, … workers that share one rule set and one controller: what another worker adds. Beside
// them, in the same run and in random order, what others take for several threads: rte_hash with a table for
// each thread (so that nobody knows a key's sum) and with one for all, TBB's concurrent_hash_map, and what
// tutorials write, one lock around one map. And what memory gives to several: the floor of bench-decision, a
// prefetched read-modify-write of a random line for each request, in each thread's own lines.
//
// Workers have a processor each; the controller runs where there is room. Two rates: by the clock on the
// wall, which on a machine that others use too measures them as well, and by each worker's own processor
// time: what it would have been with its processor to itself.
#include <weir/throttle.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "decision/floor_lines.h"
#include "decision/peers.h"
#include "decision/settling.h"
#include "decision/stream.h"
#include "decision/verdicts.h"
#include "program/program.h"
#include "thread/pinned_thread.h"

namespace weir::bench {
namespace {

struct Options {
  std::vector<std::size_t> keys{1000, 100'000, 1'000'000};
  std::vector<std::string> contenders;
  std::vector<unsigned> workers;
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
  /// Asked from time to time while they work: whether all keys have been met, and are dealt with as they
  /// shall be timed being. Main thread.
  virtual bool has_met_all() { return true; }
  /// After all workers have ended. @return what has been counted, in each way in which it has: all decisions
  virtual std::vector<std::uint64_t> counted() = 0;
  /// Of who has them: how many have ended so far, and how many of these too late.
  struct Spans {
    std::uint64_t ended = 0;
    std::uint64_t late = 0;
  };
  virtual std::optional<Spans> spans() const { return std::nullopt; }
};

/// Where a worker's requests begin: each elsewhere in the stream.
std::size_t start_of(unsigned worker, const Stream& stream) {
  return worker * 104'729 % (stream.size() / burst) * burst;
}

constexpr std::string_view rule =
    "[[rule]]\nname = \"user\"\nkey = [\"header:x-user\"]\nlimit = 1000000000000\ninterval = \"1s\"\n";

/// @tparam told  bursts ahead that a worker is told of
template <std::size_t told>
class Weir final : public Decider {
 public:
  Weir(unsigned workers, std::size_t keys, const Stream& stream)
      : stream_(stream), throttle_(make_throttle(rule, keys, workers)), told_admitted_(workers) {
    keys_.reserve(stream.all().size());
    for (const PlainKey& key : stream.all()) keys_.push_back(throttle_->worker(0).key(0, key.name()));
    throttle_->start();
  }
  void work(unsigned index, const std::atomic<bool>& stop, Done& done) override {
    Worker& worker = throttle_->worker(index);
    worker.online();
    std::array<Verdict, burst> verdicts;
    std::uint64_t admitted = 0;
    for (std::size_t at = start_of(index, stream_); !stop.load(std::memory_order_relaxed);) {
      worker.admit_keys(std::span(keys_).subspan(at, burst), verdicts,
                        std::span(keys_).subspan(at + burst, told * burst));
      admitted += admitted_of(verdicts);
      worker.quiescent();
      at = (at + burst) % stream_.size();
      done.add(burst);
    }
    worker.offline();
    told_admitted_[index] = admitted;
  }
  // A node meets so many new keys in a span as let it end in time; the others are counted under their rule.
  bool has_met_all() override {
    const Figures figures = throttle_->figures();
    settling_.look(figures, figures.rules.front().offered, figures.overflowed);
    return settling_.has_settled_for_an_interval();
  }
  std::vector<std::uint64_t> counted() override {
    throttle_->stop(std::chrono::seconds{1});
    const RuleFigures figures = throttle_->figures().rules.front();
    return {figures.offered, figures.admitted,
            std::accumulate(told_admitted_.begin(), told_admitted_.end(), std::uint64_t{0})};
  }
  std::optional<Spans> spans() const override {
    const Figures figures = throttle_->figures();
    return Spans{.ended = figures.spans, .late = figures.span_overruns};
  }

 private:
  const Stream& stream_;
  std::unique_ptr<Throttle> throttle_;
  OnHugePages<Key> keys_;                     // as those of the others
  std::vector<std::uint64_t> told_admitted_;  // by worker, once it has ended
  Settling settling_;
};

/// For each thread lines of its own.
class Lines final : public Decider {
 public:
  Lines(unsigned workers, std::size_t keys, const Stream& stream) : stream_(stream) {
    for (unsigned i = 0; i < workers; ++i) lines_.emplace_back(keys);
  }
  void work(unsigned index, const std::atomic<bool>& stop, Done& done) override {
    FloorLines& lines = lines_[index];
    for (std::size_t at = start_of(index, stream_); !stop.load(std::memory_order_relaxed);
         at = (at + burst) % stream_.size()) {
      for (const PlainKey& key : stream_.part(at + burst, burst)) lines.ask_for(key);
      for (const PlainKey& key : stream_.part(at, burst)) lines.write(key);
      done.add(burst);
    }
  }
  std::vector<std::uint64_t> counted() override {
    std::uint64_t sum = 0;
    for (const FloorLines& lines : lines_) sum += lines.counted();
    return {sum};
  }

 private:
  const Stream& stream_;
  std::deque<FloorLines> lines_;
};

/// A peer for all threads together, or for each thread one.
template <typename Peer, bool for_each>
class Peers final : public Decider {
 public:
  Peers(unsigned workers, std::size_t keys, const Stream& stream) : stream_(stream) {
    for (unsigned i = 0; i < (for_each ? workers : 1); ++i) peers_.push_back(std::make_unique<Peer>(keys));
  }
  void work(unsigned index, const std::atomic<bool>& stop, Done& done) override {
    Peer& peer = *peers_[for_each ? index : 0];
    for (std::size_t at = start_of(index, stream_); !stop.load(std::memory_order_relaxed);
         at = (at + burst) % stream_.size())
      done.add(peer.admit(stream_.part(at, burst)));  // all are admitted
  }
  std::vector<std::uint64_t> counted() override {
    std::uint64_t sum = 0;
    for (const std::unique_ptr<Peer>& peer : peers_) sum += peer->counted();
    return {sum};
  }

 private:
  const Stream& stream_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

struct Kind {
  std::string_view name;
  std::unique_ptr<Decider> (*make)(unsigned workers, std::size_t keys, const Stream& stream);
  bool by_zipf = false;  ///< of keys drawn by Zipf's law, too: ours, what it is held against, and the floor
};

template <typename Made>
std::unique_ptr<Decider> make(unsigned workers, std::size_t keys, const Stream& stream) {
  return std::make_unique<Made>(workers, keys, stream);
}

constexpr Kind kinds[] = {
    {"floor", make<Lines>, true},
    {"weir_key", make<Weir<1>>, true},
    {"weir_key_far", make<Weir<Stream::furthest_ahead>>},
    {"rte_hash_each", make<Peers<RteHash, true>>},
    {"rte_hash_shared", make<Peers<SharedRteHash, false>>},
#ifdef WEIR_BENCH_TBB
    {"tbb_map", make<Peers<TbbMap, false>>},
#endif
    {"mutex_and_map", make<Peers<MutexAndMap, false>>, true},
};

Result run(Decider& decider, const Stream& stream, unsigned workers, Duration time) {
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
  wait_for(stream.size(), time / 4);
  const auto end_all = [&] {
    stop.store(true, std::memory_order_relaxed);  // orders nothing: the threads are joined
    for (const std::unique_ptr<PinnedThread>& thread : threads) thread->join();
  };
  const MonotonicTime patience_ends = monotonic_now() + Settling::patience;
  while (!decider.has_met_all()) {
    if (monotonic_now() > patience_ends) {
      end_all();
      return {{"workers", workers}, {"wrong", "it does not settle with all keys"}};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{200});
  }

  const std::optional<Decider::Spans> spans_before = decider.spans();
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
  const std::optional<Decider::Spans> spans = decider.spans();
  end_all();
  long switches = 0;
  std::uint64_t decided = 0;
  for (unsigned i = 0; i < workers; ++i) {
    switches += threads[i]->involuntary_switches();
    decided += done[i].read();
  }
  // Worth nothing, but no reason to throw the others away.
  for (const std::uint64_t counted : decider.counted())
    if (counted != decided)
      return {
          {"workers", workers},
          {"wrong", "counted " + std::to_string(counted) + " of " + std::to_string(decided) + " decisions"}};
  Result result{
      {"workers", workers}, {"per_second_wall", by_wall}, {"per_second_cpu", by_cpu}, {"switches", switches}};
  if (spans && spans_before) {
    result["spans"] = spans->ended - spans_before->ended;
    result["overruns"] = spans->late - spans_before->late;
  }
  return result;
}

/// Twice as many and again, as far as each has a processor; and as many as leave the controller one.
std::vector<unsigned> usual_workers(unsigned cpus) {
  std::vector<unsigned> workers;
  for (unsigned count = 1; count <= cpus; count *= 2) workers.push_back(count);
  if (cpus > 1 && !std::has_single_bit(cpus - 1)) workers.push_back(cpus - 1);
  return workers;
}

Result run_all(const Options& options, const Effort& effort) {
  const auto cpus = static_cast<unsigned>(processors().size());
  const std::vector<unsigned> counts = options.workers.empty() ? usual_workers(cpus) : options.workers;
  struct Turn {
    const Kind* kind;
    unsigned workers;
    Workload* workload;
    Drawn drawn;
  };
  prepare_peers(processors().front());
  std::deque<Workload> workloads;
  std::vector<Turn> turns;
  for (const std::size_t keys : options.keys) {
    Workload& workload = workloads.emplace_back(keys);
    for (const unsigned workers : counts)
      for (const Kind& kind : kinds)
        if (options.contenders.empty() ||
            std::ranges::find(options.contenders, kind.name) != options.contenders.end()) {
          turns.push_back({&kind, workers, &workload, Drawn::uniform});
          if (kind.by_zipf) turns.push_back({&kind, workers, &workload, Drawn::zipf});
        }
  }
  Result runs = Result::array();
  in_rounds(effort, turns, [&](const Turn& turn, unsigned round) {
    const Stream& stream = turn.workload->stream(turn.drawn);
    const std::unique_ptr<Decider> decider = turn.kind->make(turn.workers, turn.workload->keys(), stream);
    Result result = run(*decider, stream, turn.workers, effort.time());
    result["contender"] = turn.kind->name;
    result["keys"] = turn.workload->keys();
    result["drawn"] = name_of(turn.drawn);
    result["round"] = round;
    runs.push_back(std::move(result));
  });
  return {{"processors", cpus}, {"runs", runs}};
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
      ->check(CLI::Range(burst, std::size_t{16'000'000}));
  program.options()
      .add_option(
          "--workers", options.workers,
          "numbers of workers, such as 1,2,4; else twice as many and again, up to one per processor, and "
          "one per processor but the controller's")
      ->delimiter(',')
      ->check(CLI::Range(1, 255));
  std::vector<std::string> names;
  for (const Kind& kind : kinds) names.emplace_back(kind.name);
  program.options()
      .add_option("--contenders", options.contenders, "all when none is named")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  return program.run(argc, argv, [&] { return run_all(options, program.effort()); });
}
