// SPDX-License-Identifier: BSD-3-Clause
// What one decision costs: find the key, see whether it may pass, count it. Our contenders run with their
// controller at work, so flips, publications, first touches and draws are in their figures. Beside them, in
// the same run, the floor (one prefetched read-modify-write of a random line, in a table of as many lines as
// ours has) and the peers: rte_hash with counters, TBB's concurrent_hash_map, what tutorials write (a mutex
// around an unordered_map of windows), and DPDK's rte_meter.
//
// Every result is used, and the counters are checked against the number of requests at the end. Compare
// within one run only: --benchmark_enable_random_interleaving=true --benchmark_repetitions=9 (tools/bench
// does).
#include <benchmark/benchmark.h>
#include <weir/throttle.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/huge_array.h"
#include "key_sequence.h"
#include "peers.h"

namespace weir::bench {
namespace {

Distribution distribution_of(const benchmark::State& state) {
  return state.range(1) == 0 ? Distribution::uniform : Distribution::zipf;
}

std::vector<std::string> user_names(std::size_t keys) {
  std::vector<std::string> names(keys);
  for (std::size_t i = 0; i < keys; ++i) names[i] = "user-" + std::to_string(i);
  return names;
}

void check(benchmark::State& state, std::uint64_t counted, std::uint64_t expected,
           const char* what = "counted") {
  if (counted == expected) return;
  const std::string message = std::string(what) + " " + std::to_string(counted) + " of " +
                              std::to_string(expected) + " requests: the result is worthless";
  state.SkipWithError(message.c_str());
}

/// A node with one worker, and its controller at work.
class Node {
 public:
  Node(benchmark::State& state, std::string_view rules, std::size_t keys) : state_(state) {
    ConfigResult parsed = parse_config(rules, "bench");
    parsed.config.node.keys = static_cast<std::uint32_t>(std::max<std::size_t>(keys, 1024));
    throttle_ =
        std::move(Throttle::create(parsed.config, {.workers = 1, .hash_seed = 1, .log = {}}).throttle);
    throttle_->start();
    worker().online();
  }
  Worker& worker() { return throttle_->worker(0); }
  /// Counters against requests: each rule has seen all of them, and as a rule has had room for their keys.
  void finish(std::uint64_t requests) {
    worker().offline();
    throttle_->stop(std::chrono::seconds{1});
    const Figures figures = throttle_->figures();
    for (const RuleFigures& rule : figures.rules) {
      check(state_, rule.offered, requests, "offered");
      // Where both are wrong, the first says more.
      if (rule.offered == requests) check(state_, rule.admitted, requests, "admitted");
    }
    state_.counters["overflowed"] = static_cast<double>(figures.overflowed) / static_cast<double>(requests);
    state_.counters["overruns"] = static_cast<double>(figures.span_overruns);
    state_.SetItemsProcessed(static_cast<std::int64_t>(state_.iterations() * burst));
  }

 private:
  benchmark::State& state_;
  std::unique_ptr<Throttle> throttle_;
};

/// Calls step(at) for each burst of the sequence: once around before the clock runs, then as long as it does.
/// @return requests, those before included
template <typename Step>
std::uint64_t run(benchmark::State& state, Step&& step) {
  std::size_t at = 0;
  std::uint64_t requests = 0;
  const auto one = [&] {
    step(at);
    at = (at + burst) % sequence_length;
    requests += burst;
  };
  for (std::size_t i = 0; i < sequence_length / burst; ++i) one();
  for (auto _ : state) one();
  return requests;
}
std::size_t next(std::size_t at) { return (at + burst) % sequence_length; }

constexpr std::string_view user_rule = R"([[rule]]
name = "user"
key = ["header:x-user"]
limit = 1000000000
interval = "1s"
)";
constexpr std::string_view three_rules = R"([[rule]]
name = "all"
limit = 1000000000000
interval = "1s"
[[rule]]
name = "user"
key = ["header:x-user"]
limit = 1000000000
interval = "1s"
[[rule]]
name = "items"
key = ["path"]
limit = 1000000000000
interval = "1s"
)";

/// One key per request, which the pipeline has at hand.
void weir_key(benchmark::State& state) {
  const auto keys = static_cast<std::size_t>(state.range(0));
  Node node(state, user_rule, keys);
  const std::vector<std::string> names = user_names(keys);
  std::vector<Key> requests;
  for (const std::uint32_t key : key_sequence(keys, distribution_of(state)))
    requests.push_back(node.worker().key(0, names[key]));
  std::array<Verdict, burst> verdicts;
  node.finish(run(state, [&](std::size_t at) {
    node.worker().prefetch(std::span(requests).subspan(next(at), burst));
    node.worker().admit_keys(std::span(requests).subspan(at, burst), monotonic_now(), verdicts);
    node.worker().quiescent();
    benchmark::DoNotOptimize(verdicts);
  }));
}

/// One key of a rule without dimensions.
void weir_dense(benchmark::State& state) {
  Node node(state, "[[rule]]\nname = \"all\"\nlimit = 1000000000000\ninterval = \"1s\"\n", 1024);
  const std::vector<Key> requests(sequence_length, node.worker().key(0, ""));
  std::array<Verdict, burst> verdicts;
  node.finish(run(state, [&](std::size_t at) {
    node.worker().admit_keys(std::span(requests).subspan(at, burst), monotonic_now(), verdicts);
    node.worker().quiescent();
    benchmark::DoNotOptimize(verdicts);
  }));
}

/// Whole requests, matched against rules and their keys hashed: what admit_burst() adds to the above.
void weir_request(benchmark::State& state, std::string_view rules) {
  const auto keys = static_cast<std::size_t>(state.range(0));
  Node node(state, rules, keys);
  const std::vector<std::string> names = user_names(keys);
  std::vector<Header> headers;
  for (const std::uint32_t key : key_sequence(keys, distribution_of(state)))
    headers.push_back({"x-user", names[key]});
  std::vector<Request> requests(headers.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].method = "GET";
    requests[i].target = "/items/17";
    requests[i].headers = std::span(&headers[i], 1);
  }
  std::array<Decision, burst> decisions;
  node.finish(run(state, [&](std::size_t at) {
    node.worker().admit_burst(std::span(requests).subspan(at, burst), monotonic_now(), decisions,
                              Detail::refusals);
    node.worker().quiescent();
    benchmark::DoNotOptimize(decisions);
  }));
}

std::vector<PlainKey> plain_keys(const std::vector<std::string>& names, Distribution distribution) {
  std::vector<PlainKey> keys;
  for (const std::uint32_t key : key_sequence(names.size(), distribution))
    keys.push_back({names[key], (key + 1) * 0x9e3779b97f4a7c15, key});
  return keys;
}

/// As many random lines as our table has: seven keys to a line, five eighths full.
void floor_lines(benchmark::State& state) {
  struct alignas(64) Line {
    std::uint64_t count = 0;
  };
  const auto names = user_names(static_cast<std::size_t>(state.range(0)));
  std::vector<PlainKey> requests = plain_keys(names, distribution_of(state));
  HugeArray<Line> lines(names.size() * 8 / 5 / 7 + 1);
  for (PlainKey& key : requests) key.hash = (key.hash >> 32) * lines.size() >> 32;
  const std::uint64_t touched = run(state, [&](std::size_t at) {
    for (std::size_t i = 0; i < burst; ++i) __builtin_prefetch(&lines[requests[next(at) + i].hash], 1);
    for (std::size_t i = 0; i < burst; ++i) ++lines[requests[at + i].hash].count;
  });
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) sum += lines[i].count;
  check(state, sum, touched);
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * burst));
}

void floor_array(benchmark::State& state) {
  std::array<std::uint64_t, 64> counts{};
  const std::uint64_t touched = run(state, [&](std::size_t at) {
    for (std::size_t i = 0; i < burst; ++i) {
      benchmark::DoNotOptimize(counts.data());
      ++counts[(at + i) % counts.size()];
    }
  });
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts) sum += count;
  check(state, sum, touched);
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * burst));
}

template <typename Peer>
void peer(benchmark::State& state) {
  const auto names = user_names(static_cast<std::size_t>(state.range(0)));
  const std::vector<PlainKey> requests = plain_keys(names, distribution_of(state));
  Peer contender(names.size());
  const std::uint64_t requested =
      run(state, [&](std::size_t at) { contender.admit(std::span(requests).subspan(at, burst)); });
  check(state, contender.admitted(), requested);
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * burst));
}

void each_size(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"keys", "zipf"});
  for (const int zipf : {0, 1})
    for (const int keys : {1000, 100'000, 1'000'000}) bench->Args({keys, zipf});
}
BENCHMARK(floor_lines)->Apply(each_size);
BENCHMARK(weir_key)->Apply(each_size);
BENCHMARK(floor_array);
BENCHMARK(weir_dense);
BENCHMARK_CAPTURE(weir_request, one_rule, user_rule)->Apply(each_size);
BENCHMARK_CAPTURE(weir_request, three_rules, three_rules)->Apply(each_size);
BENCHMARK(peer<MutexAndMap>)->Name("mutex_and_map")->Apply(each_size);
BENCHMARK(peer<RteHash>)->Name("rte_hash")->Apply(each_size);
BENCHMARK(peer<RteMeter>)->Name("rte_meter")->Apply(each_size);
#ifdef WEIR_BENCH_TBB
BENCHMARK(peer<TbbMap>)->Name("tbb_concurrent_hash_map")->Apply(each_size);
#endif

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  if (!weir::bench::prepare_peers()) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
