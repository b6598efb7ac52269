// SPDX-License-Identifier: BSD-3-Clause
// What the end of a span costs the controller, per key that was counted in it: turn/… is all of it, in a
// whole node (flip, drain, decide, publish, hand over to the store, take in its answers, publish again);
// engine/… tells the parts of it that lie behind the span table. In virtual time: nothing else runs, and
// spans are as long as the keys need.
//
// What the memory store does, on the same thread, is the store's: `store` tells it by itself, and it is left
// out of all other figures, the measured time among them. With Redis the controller only fills its commands.
//
// Every key is counted in every span, in another order each time, drawn by lot: what lies in the order in
// which keys were met first is not passed over in it. Of them `hot` in a hundred have more than may be kept
// back from the store and less than makes them worth watching: they are written in every span, and their
// answers taken in. The rest have one request each, and are written once in an interval. An interval's end
// may cost more than other spans: `median` and `worst` are of spans, and `border` is the median of the dearer
// of the two spans on either side of an interval's end; in ns per key.
//
// With several workers each of them counts every key, and limits are as many times higher: so that of each
// worker's every request the same is asked as of one alone. `worker` is the median in ns per key and worker.
//
// With several nodes all of them count every key, over one store. One is measured; the others end each span
// before it. It knows then of every written key what they count, and has a share of it. Hot keys have as much
// on all nodes together as is nearly their limit: each node's share of them is worked out, and told its
// worker, in every span. `nodes` is how many share the key most asked for, as the measured one has found out.
//
// meet/… is the same for the first interval of a node's life, in whose first span it meets all of its keys:
// `first` is that span, in ns per key.
//
// refuse/… is turn/… of keys that are all blocked, for longer than the run lasts, and go on: each comes once
// in each span, and is refused. There are no hot ones. In join/… a thousandth as many come beside them in
// each span, and are blocked in it.
//
// storm/… is the beginning of that: an interval in whose first span all keys are met, and in whose second all
// are blocked. `blocked` is this one, in ns per key, and `quiet` the median of those after it.
//
// Counters are checked against the number of requests at the end. `refused` and `overflowed` are of what was
// measured, the first of hot keys' requests alone: a run that refuses some of them measures something else.
// In refuse/… it is of all, and a run that admits some is none.
#include <benchmark/benchmark.h>
#include <time.h>
#include <weir/throttle.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/key_bytes.h"
#include "control/engine_writes.h"
#include "engine/engine.h"
#include "node/node_core.h"
#include "store/memory/memory_store.h"

namespace weir::bench {
namespace {

using namespace std::chrono_literals;
using Nanoseconds = std::chrono::duration<double, std::nano>;

constexpr std::uint32_t spans = 10;
constexpr Duration span_length = 100ms;
/// Weight of a hot key in a span. In an interval it is a tenth of the limit; what may be kept back is a
/// hundredth.
constexpr std::uint32_t hot_weight = 41;
constexpr std::uint64_t limit = 4000;  // for each worker
/// Of several nodes together, in an interval.
constexpr std::uint32_t near_limit = limit * 19 / 20;
/// By then the node has forgotten what it had to learn of all keys in its first second, when it did not know
/// yet how many nodes there are, and the memory of the store's counters is that of intervals which are over.
constexpr std::size_t warm_up = 8 * spans;
constexpr std::size_t measured = 4 * spans;
constexpr std::size_t burst = 32;
constexpr std::size_t most_keys = 10'000'000;
/// Primes: none of them divides a number of keys.
constexpr std::array<std::size_t, 4> strides = {982'451'653, 899'809'363, 776'531'401, 694'847'539};

enum class Demand : std::uint8_t { within_limits, blocked, joined };

struct Workload {
  Demand demand;
  std::size_t keys;
  std::size_t hot;  // of a hundred
  Algorithm algorithm;
  std::uint32_t nodes;
  std::uint32_t workers;

  explicit Workload(const benchmark::State& state, Demand of_keys = Demand::within_limits)
      : demand(of_keys),
        keys(static_cast<std::size_t>(state.range(0))),
        hot(static_cast<std::size_t>(state.range(1))),
        algorithm(static_cast<Algorithm>(state.range(2))),
        nodes(static_cast<std::uint32_t>(state.range(3))),
        workers(static_cast<std::uint32_t>(state.range(4))) {}
  bool is_hot(std::size_t key) const noexcept { return key % 100 < hot; }
  bool is_refused() const noexcept { return demand != Demand::within_limits; }
  std::uint64_t limit_of_key() const noexcept { return workers * (is_refused() ? 1 : limit); }
  /// That come in each span, and have not come before.
  std::size_t joining() const noexcept { return demand == Demand::joined ? keys / 1000 : 0; }
  /// That come at all.
  std::size_t all_keys() const noexcept { return keys + (warm_up + measured) * joining(); }
  std::size_t hot_keys() const noexcept { return keys / 100 * hot + std::min(keys % 100, hot); }
  /// Of a key's request on one worker.
  std::uint32_t weight(std::size_t key) const noexcept {
    if (!is_hot(key)) return 1;
    return nodes == 1 ? hot_weight : near_limit / spans / nodes;
  }
  /// Of one worker's requests.
  std::uint64_t weight() const noexcept {
    std::uint64_t sum = 0;
    for (std::size_t key = 0; key < keys; ++key) sum += weight(key);
    return sum;
  }
};

std::string name_of(std::size_t key) { return "user-" + std::to_string(key); }
Instant at(Duration since_start) { return {WallTime(1000s) + since_start, MonotonicTime(50s) + since_start}; }

/// Time that this thread takes for work(), whatever else goes on beside it.
template <typename Work>
Nanoseconds time(Work&& work) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
  };
  const auto before = now();
  work();
  return now() - before;
}

/// A store, and the time that it takes of its caller's thread.
class TimedStore final : public Store {
 public:
  TimedStore(std::unique_ptr<Store> store, Nanoseconds& spent) : store_(std::move(store)), spent_(spent) {}
  void submit(const std::vector<CounterWrite>& writes, MonotonicTime now) override {
    spent_ += bench::time([&] { store_->submit(writes, now); });
  }
  void collect(std::vector<CounterReply>& replies) override {
    spent_ += bench::time([&] { store_->collect(replies); });
  }
  void on_ready(std::function<void()> wake) override { store_->on_ready(std::move(wake)); }
  StoreFigures figures() const override { return store_->figures(); }
  std::optional<StoreTime> time() const override { return store_->time(); }
  bool flush(Duration patience) override { return store_->flush(patience); }

 private:
  std::unique_ptr<Store> store_;
  Nanoseconds& spent_;
};

void check(benchmark::State& state, bool holds, const char* what) {
  if (!holds) state.SkipWithError((std::string(what) + ": the result is worthless").c_str());
}
void check(benchmark::State& state, std::uint64_t counted, std::uint64_t expected) {
  check(state, counted == expected, "counters and requests differ");
}

/// A node whose workers and controller are driven by hand.
class Node {
 public:
  /// @param seed  of the orders in which its keys come
  Node(const Workload& load, std::shared_ptr<MemoryCounters> counters, std::uint64_t seed)
      : load_(load), order_(load.keys), random_(seed) {
    const std::string rules =
        "[[rule]]\nname = \"user\"\nkey = [\"header:x-user\"]\ninterval = \"1s\"\nlimit = " +
        std::to_string(load.limit_of_key()) + "\nalgorithm = \"" + std::string(to_string(load.algorithm)) +
        "\"\n" + (load.is_refused() ? "cooldown = \"24h\"\n" : "");
    ConfigResult parsed = parse_config(rules, "bench");
    parsed.config.node.keys = static_cast<std::uint32_t>(std::max<std::size_t>(load.all_keys(), 1024));
    node_ = std::make_unique<NodeCore>(
        parsed.config, ThrottleOptions{.workers = load.workers, .hash_seed = 1, .log = {}},
        std::make_unique<TimedStore>(make_memory_store(std::move(counters)), in_store_));
    node_->advance(at(0ms));
    for (unsigned worker = 0; worker < load.workers; ++worker) node_->worker(worker).online();
    names_.reserve(load.all_keys());
    requests_.reserve(load.keys);
    for (std::size_t key = 0; key < load.all_keys(); ++key) {
      names_.push_back(name_of(key));
      std::vector<Key>& requests = key < load.keys ? requests_ : joining_;
      requests.push_back(node_->worker(0).key(0, names_.back()));
      requests.back().weight = load.weight(key);
    }
    std::iota(order_.begin(), order_.end(), 0U);
  }

  void count() {
    std::array<Key, burst> some;
    for (unsigned worker = 0; worker < load_.workers; ++worker) {
      std::shuffle(order_.begin(), order_.end(), random_);
      for (std::size_t i = 0; i < order_.size(); i += burst) {
        const auto which = std::span(order_).subspan(i, std::min(burst, order_.size() - i));
        std::ranges::transform(which, some.begin(), [&](std::uint32_t key) { return requests_[key]; });
        count(node_->worker(worker), std::span(some).first(which.size()));
      }
    }
    const auto joining = std::span(joining_).subspan(joined_, load_.joining());
    // As often as it takes to be refused.
    for (unsigned i = 0; i <= load_.limit_of_key(); ++i)
      for (std::size_t at = 0; at < joining.size(); at += burst)
        count(node_->worker(0), joining.subspan(at, std::min(burst, joining.size() - at)));
    joined_ += joining.size();
  }

  /// What has been refused so far is not told.
  void begin_measuring() {
    measured_from_ = offered_;
    admitted_before_ = admitted_;
    refused_of_hot_ = 0;
    overflowed_ = node_->figures().overflowed;
  }

  struct Cost {
    Nanoseconds controller{}, store{};
  };

  /// What is done for one span. The workers pass as soon as they are asked to.
  Cost end_span() {
    now_ += span_length;
    const Nanoseconds in_store_before = in_store_;
    Nanoseconds all = time([&] { node_->advance(at(now_)); });
    for (unsigned worker = 0; worker < load_.workers; ++worker) node_->worker(worker).quiescent();
    all += time([&] { node_->advance(at(now_)); });
    const Nanoseconds in_store = in_store_ - in_store_before;
    return {all - in_store, in_store};
  }

  /// Whoever has no others beside him over his store, or none that count the same keys, takes himself to be
  /// alone.
  void check_nodes(benchmark::State& state) const {
    const double nodes = node_->top(1).front().nodes;
    check(state, std::abs(nodes - load_.nodes) < 0.2 * load_.nodes, "the nodes do not know of each other");
    state.counters["nodes"] = nodes;
  }

  void finish(benchmark::State& state) {
    for (unsigned worker = 0; worker < load_.workers; ++worker) node_->worker(worker).offline();
    // It stops by the machine's clock, which may show any time.
    const std::uint64_t blocked_keys = node_->figures().rules[0].blocked_keys;
    node_->stop(1s);
    const Figures figures = node_->figures();
    check(state, figures.rules[0].offered, offered_);
    check(state, figures.rules[0].admitted, admitted_);
    check(state, figures.counts_synced, weight_admitted_);
    const auto requests = static_cast<double>(offered_ - measured_from_);
    state.counters["overflowed"] = static_cast<double>(figures.overflowed - overflowed_) / requests;
    state.counters["bytes"] = static_cast<double>(node_->memory()) / static_cast<double>(load_.keys);
    if (load_.is_refused()) {
      // Keys that find no cell of their own are held to their limits, but never blocked.
      const double refused = 1 - static_cast<double>(admitted_ - admitted_before_) / requests;
      check(state, refused > 0.99, "keys were admitted");
      check(state, blocked_keys > load_.keys / 100 * 99, "keys were not blocked");
      state.counters["refused"] = refused;
      return;
    }
    const double of_hot = requests * static_cast<double>(load_.hot_keys()) / static_cast<double>(load_.keys);
    const double refused = static_cast<double>(refused_of_hot_) / of_hot;
    check(state, refused < 0.01, "hot keys were refused");
    state.counters["refused"] = refused;
  }

 private:
  /// @param some  at most a burst
  void count(Worker& worker, std::span<const Key> some) {
    std::array<Verdict, burst> verdicts;
    worker.admit_keys(some, at(now_).monotonic, verdicts);
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (verdicts[i] != Verdict::admit) {
        refused_of_hot_ += some[i].weight > 1;
        continue;
      }
      ++admitted_;
      weight_admitted_ += some[i].weight;
    }
    offered_ += some.size();
  }

  const Workload load_;
  Nanoseconds in_store_{};
  std::unique_ptr<NodeCore> node_;
  std::vector<std::string> names_;
  std::vector<Key> requests_;         // by number of the key
  std::vector<std::uint32_t> order_;  // in which they come, numbers of their keys
  std::mt19937_64 random_;
  std::vector<Key> joining_;  // of keys that come later, …
  std::size_t joined_ = 0;    // …of which so many have
  Duration now_{};
  std::uint64_t offered_ = 0;
  std::uint64_t admitted_ = 0;
  std::uint64_t weight_admitted_ = 0;
  // Of what is measured; and before.
  std::uint64_t refused_of_hot_ = 0;
  std::uint64_t measured_from_ = 0;
  std::uint64_t admitted_before_ = 0;
  std::uint64_t overflowed_ = 0;
};

/// All nodes over one store.
class Cluster {
 public:
  explicit Cluster(const Workload& load) {
    const auto counters = std::make_shared<MemoryCounters>();
    for (std::uint32_t i = 0; i < load.nodes; ++i)
      nodes_.push_back(std::make_unique<Node>(load, counters, i + 1));
  }

  void count() {
    for (const auto& node : nodes_) node->count();
  }
  void begin_measuring() {
    for (const auto& node : nodes_) node->begin_measuring();
  }
  /// @return what it costs the last node, when all others have told the store
  Node::Cost end_span() {
    Node::Cost cost;
    for (const auto& node : nodes_) cost = node->end_span();
    return cost;
  }
  /// @pre an interval has passed in which all of them counted
  void check_nodes(benchmark::State& state) const {
    for (const auto& node : nodes_) node->check_nodes(state);
  }
  /// What is told is the last node's.
  void finish(benchmark::State& state) {
    for (const auto& node : nodes_) node->finish(state);
  }

 private:
  std::vector<std::unique_ptr<Node>> nodes_;
};

/// @param costs  of spans, one after the other
void tell_spread(benchmark::State& state, const Workload& load, std::vector<Nanoseconds>& costs) {
  const auto keys = static_cast<double>(load.keys);
  const auto middle = [](std::vector<Nanoseconds>& some) {
    std::sort(some.begin(), some.end());
    return some[some.size() / 2].count();
  };
  std::vector<Nanoseconds> borders;
  for (std::size_t last = spans - 1; last < costs.size(); last += spans)
    borders.push_back(std::max(costs[last], costs[(last + 1) % costs.size()]));
  state.counters["border"] = middle(borders) / keys;
  state.counters["median"] = middle(costs) / keys;
  state.counters["worker"] = state.counters["median"] / load.workers;
  state.counters["worst"] = costs.back().count() / keys;
}

/// What spans cost whose time is told.
struct Costs {
  std::vector<Nanoseconds> controller;
  std::vector<Nanoseconds> store;
};
Costs end_spans(benchmark::State& state, Cluster& cluster) {
  Costs costs;
  for (auto _ : state) {
    cluster.count();
    const Node::Cost cost = cluster.end_span();
    state.SetIterationTime(cost.controller.count() / 1e9);
    costs.controller.push_back(cost.controller);
    costs.store.push_back(cost.store);
  }
  return costs;
}

void take_turns(benchmark::State& state, const Workload& load) {
  Cluster cluster(load);
  for (std::size_t span = 0; span < warm_up; ++span) {
    cluster.count();
    cluster.end_span();
  }
  cluster.begin_measuring();
  Costs costs = end_spans(state, cluster);
  const Nanoseconds in_store = std::accumulate(costs.store.begin(), costs.store.end(), Nanoseconds{});
  state.counters["store"] =
      in_store.count() / static_cast<double>(load.keys) / static_cast<double>(state.iterations());
  tell_spread(state, load, costs.controller);
  cluster.check_nodes(state);
  cluster.finish(state);
}

void turn(benchmark::State& state) { take_turns(state, Workload(state)); }
void refuse(benchmark::State& state) { take_turns(state, Workload(state, Demand::blocked)); }
void join(benchmark::State& state) { take_turns(state, Workload(state, Demand::joined)); }

void meet(benchmark::State& state) {
  const Workload load(state);
  Cluster cluster(load);
  std::vector<Nanoseconds> costs = end_spans(state, cluster).controller;
  state.counters["first"] = costs.front().count() / static_cast<double>(load.keys);
  tell_spread(state, load, costs);
  cluster.finish(state);
}

void storm(benchmark::State& state) {
  const Workload load(state, Demand::blocked);
  Cluster cluster(load);
  cluster.count();
  cluster.end_span();
  cluster.begin_measuring();
  const auto [controller, store] = end_spans(state, cluster);
  const auto keys = static_cast<double>(load.keys);
  state.counters["blocked"] = controller.front().count() / keys;
  state.counters["store"] = store.front().count() / keys;
  std::vector<Nanoseconds> after(controller.begin() + 1, controller.end());
  std::sort(after.begin(), after.end());
  state.counters["quiet"] = after[after.size() / 2].count() / keys;
  cluster.finish(state);
}

/// The engine and the memory store, driven as the controller drives them.
class EngineRound {
 public:
  struct Cost {
    Nanoseconds count{}, step{}, overrides{}, store{}, replies{};
    Nanoseconds without_store() const noexcept { return count + step + overrides + replies; }
  };

  explicit EngineRound(const Workload& load) : load_(load) {
    Rule rule;
    rule.name = "user";
    rule.limit = limit;
    rule.interval = spans * span_length;
    rule.spans = spans;
    rule.cooldown = rule.interval;
    rule.algorithm = load.algorithm;
    engine_ = std::make_unique<Engine>(std::span(&rule, 1), static_cast<std::uint32_t>(2 * load.keys));
    engine_->step(at(now_));
    store_ = make_memory_store(counters_);
    for (std::size_t key = 0; key < load.keys; ++key) {
      KeyBytes bytes;
      bytes.clear();
      bytes.add_text(name_of(most_keys + key));  // all equally long
      name_length_ = bytes.bytes().size();
      bytes_.insert(bytes_.end(), bytes.bytes().begin(), bytes.bytes().end());
    }
  }

  void end_span(Cost& cost) {
    cost.count += time([&] { count(); });
    now_ += span_length;
    cost.step += time([&] {
      engine_->step(at(now_));
      engine_->tell_blocks(at(now_));
    });
    cost.overrides += time([&] {
      // By its address, behind which all counts as read; newer releases take no reference to what is const.
      engine_->for_each_override(at(now_), [&](const KeyOverride& key) { benchmark::DoNotOptimize(&key); });
    });
    cost.store += time([&] { write(); });
    cost.replies += time([&] { read(); });
  }

  void finish(benchmark::State& state, std::uint64_t turns) {
    engine_->step(at(now_), true);
    write();
    check(state, store_->figures().applied, turns * load_.weight());
    state.counters["bytes"] = static_cast<double>(engine_->memory()) / static_cast<double>(load_.keys);
  }

 private:
  void count() {
    std::array<SpanCount, burst> counts;
    // Clients come in another order in every span: a stride that shares no factor with their number, so that
    // finding the next one touches nothing.
    std::size_t key = 0;
    const std::size_t stride = strides[turn_++ % strides.size()] % load_.keys;
    for (std::size_t i = 0; i < load_.keys; i += burst) {
      const std::size_t end = std::min(i + burst, load_.keys);
      for (std::size_t j = i; j < end; ++j) {
        key = key + stride < load_.keys ? key + stride : key + stride - load_.keys;
        const std::uint32_t weight = load_.weight(key);
        counts[j - i] = {.rule = 0,
                         // Spread as a keyed hash is.
                         .key = (key + 1) * 0x9e3779b97f4a7c15,
                         .key_bytes = std::span(bytes_).subspan(key * name_length_, name_length_),
                         .began = at(now_).wall,
                         .offered = weight,
                         .admitted = weight,
                         .refused_at = never};
      }
      engine_->count(std::span(counts).first(end - i));
    }
  }
  void write() { writes_.submit(*engine_, *store_, at(now_).monotonic); }
  void read() {
    replies_.clear();
    store_->collect(replies_);
    std::array<EngineReply, 8 * burst> some;
    for (std::size_t i = 0; i < replies_.size(); i += some.size()) {
      const std::size_t count = std::min(some.size(), replies_.size() - i);
      for (std::size_t j = 0; j < count; ++j) {
        const CounterReply& reply = replies_[i + j];
        some[j] = {.key = reply.key,
                   .use = static_cast<CounterUse>(reply.tag),
                   .ordinal = reply.ordinal,
                   .delta = reply.delta,
                   .total = reply.total};
      }
      engine_->take_replies(std::span(some).first(count), at(now_));
    }
    engine_->learn();
    engine_->clear_charges();
  }

  const Workload load_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<MemoryCounters> counters_ = std::make_shared<MemoryCounters>();
  std::unique_ptr<Store> store_;
  std::vector<std::byte> bytes_;
  std::size_t name_length_ = 0;
  WritesOnTheirWay writes_;
  std::vector<CounterReply> replies_;
  Duration now_{};
  std::size_t turn_ = 0;
};

void engine(benchmark::State& state) {
  const Workload load(state);
  EngineRound round(load);
  EngineRound::Cost cost;
  for (std::size_t span = 0; span < warm_up; ++span) round.end_span(cost);
  cost = {};
  std::vector<Nanoseconds> costs;
  for (auto _ : state) {
    EngineRound::Cost one;
    round.end_span(one);
    state.SetIterationTime(one.without_store().count() / 1e9);
    costs.push_back(one.without_store());
    cost.count += one.count;
    cost.step += one.step;
    cost.overrides += one.overrides;
    cost.store += one.store;
    cost.replies += one.replies;
  }
  const double counted = static_cast<double>(load.keys) * static_cast<double>(state.iterations());
  state.counters["count"] = cost.count.count() / counted;
  state.counters["step"] = cost.step.count() / counted;
  state.counters["overrides"] = cost.overrides.count() / counted;
  state.counters["store"] = cost.store.count() / counted;
  state.counters["replies"] = cost.replies.count() / counted;
  tell_spread(state, load, costs);
  round.finish(state, warm_up + state.iterations());
}

struct Setting {
  std::int64_t nodes;
  std::int64_t workers;
};
void each_load(benchmark::internal::Benchmark* bench, std::initializer_list<Setting> settings) {
  bench->ArgNames({"keys", "hot", "algorithm", "nodes", "workers"});
  for (const Algorithm algorithm :
       {Algorithm::fixed_window, Algorithm::token_bucket, Algorithm::cooldown, Algorithm::sliding_window})
    for (const std::size_t keys :
         {std::size_t{1000}, std::size_t{100'000}, std::size_t{1'000'000}, most_keys})
      for (const int hot : {1, 10, 100})
        for (const auto& [nodes, workers] : settings)
          bench->Args({static_cast<std::int64_t>(keys), hot, static_cast<int>(algorithm), nodes, workers});
  bench->UseManualTime()->Iterations(measured)->Unit(benchmark::kMillisecond);
}
void each_load_of_one(benchmark::internal::Benchmark* bench) { each_load(bench, {{1, 1}}); }
void each_load_of_several(benchmark::internal::Benchmark* bench) {
  each_load(bench, {{1, 1}, {2, 1}, {1, 4}, {1, 15}});
}
void each_blocked_load(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"keys", "hot", "algorithm", "nodes", "workers"});
  for (const std::size_t keys : {std::size_t{1000}, std::size_t{100'000}, std::size_t{1'000'000}})
    for (const int workers : {1, 4})
      bench->Args({static_cast<std::int64_t>(keys), 0, static_cast<int>(Algorithm::cooldown), 1, workers});
  bench->UseManualTime()->Iterations(measured)->Unit(benchmark::kMillisecond);
}
BENCHMARK(turn)->Apply(each_load_of_several);
BENCHMARK(refuse)->Apply(each_blocked_load);
BENCHMARK(join)->Apply(each_blocked_load);
BENCHMARK(storm)->Apply(each_blocked_load)->Iterations(spans - 1);
BENCHMARK(meet)->Apply(each_load_of_several)->Iterations(spans);
BENCHMARK(engine)->Apply(each_load_of_one);

}  // namespace
}  // namespace weir::bench

BENCHMARK_MAIN();
