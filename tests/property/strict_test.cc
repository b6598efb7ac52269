// SPDX-License-Identifier: BSD-3-Clause
// `strict` (algorithm.md §6): all nodes together never admit more than the limit in any interval, whatever
// happens to the store, the nodes and their clocks; and what they do not use comes back.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cluster.h"
#include "user_rule.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::Counters;
using testing::seed;
using testing::user_rule;

/// How one node's writes fare.
struct Link {
  bool cut = false;            ///< nothing arrives
  bool loses_answers = false;  ///< what arrives is applied, but its answer gets lost and is asked for again
};

/// Shared counters over a bad link. Every write is applied once; an answer that was lost is given again
/// later, with the counter as it is by then: others may have claimed since.
class BadlyLinkedStore : public Store {
 public:
  BadlyLinkedStore(Counters& counters, const Link& link) : counters_(counters), link_(link) {}

  void submit(const std::vector<CounterWrite>& writes, MonotonicTime) override {
    for (const CounterWrite& write : writes) {
      submitted_ += write.delta;
      waiting_.push_back({{write.key, write.ordinal, write.delta, 0, write.returned, write.tag},
                          std::string(write.name),
                          false});
    }
  }
  void collect(std::vector<CounterReply>& replies) override {
    if (link_.cut) return;
    for (Waiting& write : waiting_) {
      if (write.applied) continue;
      write.applied = true;
      std::uint64_t& total = counters_[{write.name, write.reply.ordinal}];
      total += write.reply.delta;
      total -= std::min(total, write.reply.returned);
    }
    if (link_.loses_answers) return;
    for (Waiting& write : waiting_) {
      write.reply.total = counters_[{write.name, write.reply.ordinal}];
      replies.push_back(write.reply);
    }
    waiting_.clear();
  }
  void on_ready(std::function<void()>) override {}
  StoreFigures figures() const override {
    StoreFigures figures;
    figures.up = !link_.cut;
    for (const Waiting& write : waiting_) figures.pending += write.reply.delta;
    figures.applied = submitted_ - figures.pending;
    return figures;
  }
  bool flush(Duration) override { return !link_.cut; }

 private:
  struct Waiting {
    CounterReply reply;
    std::string name;
    bool applied;
  };
  Counters& counters_;
  const Link& link_;
  std::uint64_t submitted_ = 0;
  std::deque<Waiting> waiting_;
};

/// Nodes that die and come back, each with a clock of its own.
class Nodes {
 public:
  static constexpr unsigned workers = 2;

  Nodes(const Rule& rule, unsigned count, std::uint64_t seed_value)
      : random(seed_value), rule_(rule), clock_(rule.interval, rule.spans), seed_(seed_value) {
    for (unsigned i = 0; i < count; ++i) nodes_.push_back(std::make_unique<One>());
    for (unsigned i = 0; i < count; ++i) start(i);
  }

  std::size_t count() const { return nodes_.size(); }
  Link& link(std::size_t node) { return nodes_[node]->link; }
  bool alive(std::size_t node) const { return nodes_[node]->core != nullptr; }
  /// What the node's clocks are ahead of everybody's. The monotonic one is nobody else's business.
  void set_clock(std::size_t node, Duration ahead) { nodes_[node]->ahead = ahead; }

  void start(std::size_t node) {
    Config config;
    config.node.keys = 64;
    config.rules.push_back(rule_);
    One& one = *nodes_[node];
    one.link = Link();
    one.stalled = {};
    one.core = std::make_unique<NodeCore>(
        config, ThrottleOptions{.workers = workers, .hash_seed = seed_ + node, .log = {}},
        std::make_unique<BadlyLinkedStore>(counters, one.link));
    one.core->advance(time(node));
    for (unsigned i = 0; i < workers; ++i) one.core->worker(i).online();
  }
  /// It dies as it stands: what it held and had not written is lost.
  void crash(std::size_t node) { nodes_[node]->core.reset(); }

  void advance(Duration by, int rounds = 2) {
    now_ += by;
    for (std::size_t node = 0; node < count(); ++node)
      for (int round = 0; alive(node) && round < rounds; ++round) come_round(node);
  }
  /// Once: where a span has ended, workers know that then, but nobody has judged it yet.
  void come_round(std::size_t node) {
    One& one = *nodes_[node];
    one.core->advance(time(node));
    for (unsigned i = 0; i < workers; ++i)
      if (!one.stalled[i]) one.core->worker(i).quiescent();
  }
  /// A worker that is stalled does not come round: it goes on by what it was told last.
  bool& stalled(std::size_t node, unsigned worker) { return nodes_[node]->stalled[worker]; }

  void admit(std::size_t node, const std::string& user) {
    admit(node, user, static_cast<unsigned>(random() % workers));
  }
  void admit(std::size_t node, const std::string& user, unsigned worker) {
    if (!alive(node)) return;
    const Header header{"user", user};
    Request request;
    request.headers = std::span(&header, 1);
    const Instant now = time(node);
    const bool passes =
        nodes_[node]->core->worker(worker).admit(request, now.monotonic).verdict == Verdict::admit;
    admitted[{"user|" + user, clock_.ordinal(now.wall)}] += passes;
  }

  void finish() {
    for (std::size_t node = 0; node < count(); ++node) {
      if (!alive(node)) continue;
      link(node) = Link();
      for (unsigned i = 0; i < workers; ++i) nodes_[node]->core->worker(i).offline();
      EXPECT_TRUE(nodes_[node]->core->finish(time(node), 1s));
    }
  }

  void expect_never_over(std::uint64_t limit) const {
    for (const auto& [counter, count] : admitted)
      EXPECT_LE(count, limit) << counter.first << ":" << counter.second;
  }
  /// The store holds what was admitted of each interval and not one more.
  void expect_all_came_back() const {
    for (const auto& [counter, held] : counters) {
      if (counter.first.starts_with('~')) continue;
      const auto found = admitted.find(counter);
      EXPECT_EQ(held, found == admitted.end() ? 0 : found->second) << counter.first << ":" << counter.second;
    }
    for (const auto& [counter, count] : admitted) {
      const auto found = counters.find(counter);
      EXPECT_EQ(found == counters.end() ? 0 : found->second, count) << counter.first << ":" << counter.second;
    }
  }
  std::uint64_t admitted_in_all() const {
    std::uint64_t sum = 0;
    for (const auto& [counter, count] : admitted) sum += count;
    return sum;
  }

  std::mt19937_64 random;
  Counters counters;
  Counters admitted;  // by the ordinal of the clock of the node that did

 private:
  struct One {
    Link link;  // outlives the core's store
    Duration ahead{};
    std::array<bool, workers> stalled{};
    std::unique_ptr<NodeCore> core;
  };
  Instant time(std::size_t node) const {
    return {WallTime(1000s) + now_ + nodes_[node]->ahead,
            MonotonicTime(10s) + now_ + 3s * static_cast<std::int64_t>(node)};
  }

  Rule rule_;
  SpanClock clock_;
  std::uint64_t seed_;
  std::vector<std::unique_ptr<One>> nodes_;
  Duration now_{};
};

/// What may go wrong.
struct Faults {
  bool links = false;
  bool crashes = false;
  bool clocks_differ = false;
  bool clocks_jump = false;
  bool workers_stall = false;
};

struct Case {
  std::uint64_t limit;
  unsigned nodes;
  Faults faults;
};

/// Twelve seconds of a demand that swells and fades, over three users, while faults come and go.
void run(Nodes& nodes, const Case& given) {
  const Faults& faults = given.faults;
  const auto one_in = [&](std::uint64_t n) { return nodes.random() % n == 0; };
  const auto skew = [&] { return Duration(static_cast<std::int64_t>(nodes.random() % 2'000'000'000)) - 1s; };
  if (faults.clocks_differ)
    for (std::size_t node = 0; node < nodes.count(); ++node) nodes.set_clock(node, skew());
  nodes.advance(10ms);
  double demand = 1;
  for (int step = 0; step < 1200; ++step) {
    if (step % 100 == 0) demand = std::exp2(static_cast<double>(nodes.random() % 7) - 3);  // × limit
    for (std::size_t node = 0; node < nodes.count(); ++node) {
      if (faults.links && one_in(60)) nodes.link(node).cut = !nodes.link(node).cut;
      if (faults.links && one_in(30)) nodes.link(node).loses_answers = !nodes.link(node).loses_answers;
      if (faults.clocks_jump && one_in(300)) nodes.set_clock(node, skew());
      for (unsigned worker = 0; faults.workers_stall && worker < Nodes::workers; ++worker) {
        bool& stalled = nodes.stalled(node, worker);
        if (one_in(stalled ? 6 : 12)) stalled = !stalled;
        // Who has not heard that the next interval has begun would draw from the one that is over.
        if (step % 100 >= 90) stalled = false;
      }
      if (!faults.crashes) continue;
      if (nodes.alive(node) && one_in(400))
        nodes.crash(node);
      else if (!nodes.alive(node) && one_in(40))
        nodes.start(node);
    }
    nodes.advance(0ms);  // so that each node has seen what its clock says
    const double mean = demand * static_cast<double>(given.limit) / 100;
    const int requests = std::poisson_distribution<int>(mean)(nodes.random);
    for (int i = 0; i < requests; ++i)
      nodes.admit(nodes.random() % nodes.count(), one_in(2) ? "ann" : one_in(2) ? "bob" : "cho");
    nodes.advance(10ms);
  }
}

std::string case_name(const ::testing::TestParamInfo<Case>& tested) {
  const Case& given = tested.param;
  std::string name = "limit_" + std::to_string(given.limit) + "_nodes_" + std::to_string(given.nodes);
  if (given.faults.links) name += "_links";
  if (given.faults.crashes) name += "_crashes";
  if (given.faults.clocks_differ) name += "_clocks_differ";
  if (given.faults.clocks_jump) name += "_clocks_jump";
  if (given.faults.workers_stall) name += "_workers_stall";
  return name;
}

std::vector<Case> cases(const std::vector<Faults>& all_faults) {
  std::vector<Case> all;
  for (const Faults& faults : all_faults)
    for (const std::uint64_t limit : {1U, 7U, 300U})
      for (const unsigned nodes : {1U, 4U}) all.push_back({limit, nodes, faults});
  return all;
}

class StrictLimit : public ::testing::TestWithParam<Case> {};

TEST_P(StrictLimit, IsNeverExceededByAllNodesTogether) {
  for (std::uint64_t round = 0; round < 4; ++round) {
    SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed() + round));
    const Case& given = GetParam();
    Nodes nodes(user_rule(given.limit, Algorithm::strict), given.nodes, seed() + round);
    run(nodes, given);
    nodes.finish();
    nodes.expect_never_over(given.limit);
    // Of a small limit little may be asked for, and by nobody twice where quota is held.
    if (given.limit >= 300) {
      EXPECT_GT(nodes.admitted_in_all(), given.limit);
    }
    if (HasFailure()) return;
  }
}

// Who floods the tables with keys gains nothing: what is drawn on a lease counts on it, also where the key
// has found no room in a worker's table.
TEST(StrictFlood, KeysWithoutRoomStayWithinTheLimit) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  constexpr std::uint64_t limit = 400;
  Nodes nodes(user_rule(limit, Algorithm::strict), 3, seed());
  for (int step = 0; step < 600; ++step) {
    // Sixty-four keys fit into a table. Every other fifth of a second a flood fills one node's before `ann`
    // comes.
    if (step / 20 % 2 == 1)
      for (int i = 0; i < 1000; ++i) nodes.admit(0, "user" + std::to_string(i));
    for (int i = 0; i < 8; ++i) nodes.admit(nodes.random() % nodes.count(), "ann");
    nodes.advance(10ms);
  }
  nodes.finish();
  nodes.expect_never_over(limit);
  nodes.expect_all_came_back();
  EXPECT_GT(nodes.admitted_in_all(), limit);
}

// Workers draw from another pool as soon as they know of the other interval, before anybody has judged the
// span that the clock has left; and what they draw there counts in an interval of which nothing is claimed.
TEST(StrictWhoseClockIsSet, TakesNoQuotaIntoAnotherInterval) {
  for (const Duration by : std::initializer_list<Duration>{300ms, 1300ms, 1h + 300ms, -1500ms, -5500ms}) {
    SCOPED_TRACE(by / 1ms);
    constexpr std::uint64_t limit = 1000;
    Nodes nodes(user_rule(limit, Algorithm::strict), 2, seed());
    for (int step = 0; step < 180; ++step) {
      for (int i = 0; step >= 100 && i < 20; ++i) nodes.admit(0, "ann");
      nodes.advance(10ms);
    }
    ASSERT_GT((nodes.admitted[{"user|ann", 1001}]), limit / 2)
        << "of the interval that the clock leaves it held much";
    for (std::size_t node = 0; node < nodes.count(); ++node) nodes.set_clock(node, by);
    nodes.come_round(0);
    for (std::uint64_t i = 0; i < 2 * limit; ++i) nodes.admit(0, "ann");
    nodes.advance(0ms);
    for (int step = 0; step < 60; ++step) {
      for (int i = 0; i < 40; ++i) nodes.admit(1, "ann");
      nodes.advance(10ms);
    }
    nodes.finish();
    nodes.expect_never_over(limit);
    EXPECT_GT(nodes.admitted_in_all(), limit);
  }
}

// While workers change over, two tables are counted in: what those draw from a lease that are early shows
// only at the next span's end, when the late ones have drawn on it by what they were told before.
TEST(StrictWhoseWorkerIsLate, GivesNothingBackThatTheOtherOneHasDrawn) {
  constexpr std::uint64_t limit = 1000;
  constexpr std::uint64_t of_others = 648;
  Nodes nodes(user_rule(limit, Algorithm::strict), 1, seed());
  std::uint64_t& claimed = nodes.counters[{"user|ann", 1000}];
  std::uint64_t& admitted = nodes.admitted[{"user|ann", 1000}];
  claimed = of_others;
  for (int i = 0; i < 200; ++i) nodes.admit(0, "ann");
  for (int step = 0; step < 19; ++step) nodes.advance(10ms);
  ASSERT_EQ(claimed, limit) << "it holds all that the others do not";
  // So little has been asked for since that it will hold less; of its workers one does not hear of that …
  nodes.advance(10ms, 1);
  nodes.stalled(0, 1) = true;
  nodes.come_round(0);
  for (int step = 0; step < 9; ++step) nodes.advance(10ms);
  // … before the other one counts in the next span.
  nodes.advance(10ms, 1);
  for (int i = 0; i < 500; ++i) nodes.admit(0, "ann", 0);
  const std::uint64_t early = admitted;
  ASSERT_LT(early, limit - of_others) << "it has been told of less";
  for (int i = 0; i < 500; ++i) nodes.admit(0, "ann", 1);
  ASSERT_GT(admitted, early) << "and it has not";
  nodes.stalled(0, 1) = false;
  for (int step = 0; step < 30; ++step) {
    nodes.advance(step == 0 ? 0ms : 10ms);
    ASSERT_GE(claimed, of_others + admitted) << "10 ms times " << step << " later";
  }
  nodes.finish();
  EXPECT_EQ(claimed, of_others + admitted);
}

class StrictQuota : public ::testing::TestWithParam<Case> {};

TEST_P(StrictQuota, ComesBackWhereItIsNotUsed) {
  for (std::uint64_t round = 0; round < 4; ++round) {
    SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed() + round));
    const Case& given = GetParam();
    Nodes nodes(user_rule(given.limit, Algorithm::strict), given.nodes, seed() + round);
    run(nodes, given);
    nodes.finish();
    nodes.expect_all_came_back();
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Strict, StrictLimit,
                         ::testing::ValuesIn(cases(
                             {{},
                              {.links = true},
                              {.crashes = true},
                              {.clocks_differ = true},
                              {.clocks_jump = true},
                              {.workers_stall = true},
                              {.links = true, .workers_stall = true},
                              {.links = true, .crashes = true, .clocks_differ = true, .clocks_jump = true}})),
                         case_name);
// A node that crashes takes what it held with it.
INSTANTIATE_TEST_SUITE_P(
    Strict, StrictQuota,
    ::testing::ValuesIn(cases({{},
                               {.links = true},
                               {.clocks_differ = true},
                               {.clocks_jump = true},
                               {.workers_stall = true},
                               {.links = true, .clocks_differ = true, .clocks_jump = true}})),
    case_name);

}  // namespace
}  // namespace weir
