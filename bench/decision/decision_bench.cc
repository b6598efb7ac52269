// SPDX-License-Identifier: BSD-3-Clause
// What one decision costs: classify, find the keys, draw, count. Beside it, in the same run, the floor (one random
// read-modify-write in a table of as many cache lines) and what tutorials write (a mutex around an unordered_map).
// Every result is used, and the counters are checked against the number of requests at the end.
#include <benchmark/benchmark.h>
#include <weir/throttle.h>

#include <array>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

constexpr std::size_t burst = 32;
constexpr std::size_t sequence_length = 1 << 16;

/// Uniform draws from `keys` keys, the same for every contender.
std::vector<std::uint32_t> key_sequence(std::size_t keys) {
  std::mt19937_64 random(42);
  std::vector<std::uint32_t> sequence(sequence_length);
  for (auto& key : sequence) key = static_cast<std::uint32_t>(random() % keys);
  return sequence;
}

std::vector<std::string> user_names(std::size_t keys) {
  std::vector<std::string> names(keys);
  for (std::size_t i = 0; i < keys; ++i) names[i] = "user-" + std::to_string(i);
  return names;
}

void check(benchmark::State& state, std::uint64_t counted, std::uint64_t expected) {
  if (counted != expected) state.SkipWithError("counters and requests differ: the result is worthless");
}

void decide_and_count(benchmark::State& state, std::string_view rules) {
  const auto keys = static_cast<std::size_t>(state.range(0));
  weir::ConfigResult parsed = weir::parse_config(rules, "bench");
  if (!parsed) return state.SkipWithError(parsed.errors.front().to_string().c_str());
  parsed.config.node.keys = static_cast<std::uint32_t>(std::max<std::size_t>(keys, 1024));
  const weir::ThrottleResult made = weir::Throttle::create(parsed.config, {.workers = 1, .hash_seed = 1, .log = {}});
  if (!made) return state.SkipWithError(made.error.c_str());
  made.throttle->start();

  const auto sequence = key_sequence(keys);
  const auto names = user_names(keys);
  std::vector<weir::Header> headers;
  for (const std::uint32_t key : sequence) headers.push_back({"x-user", names[key]});
  std::vector<weir::Request> requests(sequence.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].method = "GET";
    requests[i].target = "/items/17";
    requests[i].headers = std::span(&headers[i], 1);
  }

  weir::Worker& worker = made.throttle->worker(0);
  worker.online();
  std::array<weir::Decision, burst> decisions;
  std::uint64_t decided = 0;
  std::size_t at = 0;
  for (auto _ : state) {
    worker.admit_burst(std::span(requests).subspan(at, burst), weir::monotonic_now(), decisions);
    worker.quiescent();
    benchmark::DoNotOptimize(decisions);
    at = (at + burst) % requests.size();
    decided += burst;
  }
  worker.offline();
  made.throttle->stop(std::chrono::seconds{1});
  for (const weir::RuleFigures& rule : made.throttle->figures().rules) check(state, rule.offered, decided);
  state.SetItemsProcessed(static_cast<std::int64_t>(decided));
}

void one_rule(benchmark::State& state) {
  decide_and_count(state, R"([[rule]]
name = "user"
key = ["header:x-user"]
limit = 1000000000
interval = "1s"
)");
}

void three_rules(benchmark::State& state) {
  decide_and_count(state, R"([[rule]]
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
match = { path = "/items/{id}" }
limit = 1000000000000
interval = "1s"
)");
}

void floor_random_line(benchmark::State& state) {
  struct alignas(64) Line {
    std::uint64_t count = 0;
  };
  const auto sequence = key_sequence(static_cast<std::size_t>(state.range(0)));
  std::vector<Line> lines(static_cast<std::size_t>(state.range(0)));
  std::uint64_t touched = 0;
  std::size_t at = 0;
  for (auto _ : state) {
    for (std::size_t i = 0; i < burst; ++i) __builtin_prefetch(&lines[sequence[at + i]], 1);
    for (std::size_t i = 0; i < burst; ++i) ++lines[sequence[at + i]].count;
    at = (at + burst) % sequence.size();
    touched += burst;
  }
  std::uint64_t sum = 0;
  for (const Line& line : lines) sum += line.count;
  check(state, sum, touched);
  state.SetItemsProcessed(static_cast<std::int64_t>(touched));
}

void mutex_and_map(benchmark::State& state) {
  struct Window {
    std::uint64_t count = 0;
    std::chrono::steady_clock::time_point began;
  };
  std::mutex mutex;
  std::unordered_map<std::string, Window> windows;
  const auto sequence = key_sequence(static_cast<std::size_t>(state.range(0)));
  const auto names = user_names(static_cast<std::size_t>(state.range(0)));
  std::uint64_t decided = 0;
  std::uint64_t admitted = 0;
  std::size_t at = 0;
  for (auto _ : state) {
    for (std::size_t i = 0; i < burst; ++i) {
      const std::lock_guard lock(mutex);
      Window& window = windows["user|" + names[sequence[at + i]]];
      const auto now = std::chrono::steady_clock::now();
      if (now - window.began > std::chrono::seconds{1}) window = {0, now};
      admitted += ++window.count <= 1'000'000'000;
    }
    at = (at + burst) % sequence.size();
    decided += burst;
  }
  check(state, admitted, decided);
  state.SetItemsProcessed(static_cast<std::int64_t>(decided));
}

BENCHMARK(floor_random_line)->Arg(1000)->Arg(100'000)->Arg(1'000'000);
BENCHMARK(one_rule)->Arg(1000)->Arg(100'000)->Arg(1'000'000);
BENCHMARK(three_rules)->Arg(1000)->Arg(100'000);
BENCHMARK(mutex_and_map)->Arg(1000)->Arg(100'000);

}  // namespace

BENCHMARK_MAIN();
