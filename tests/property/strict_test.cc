// SPDX-License-Identifier: BSD-3-Clause
// `strict` (algorithm.md §6): all nodes together never admit more than the limit in any interval, whatever
// happens to the store, the nodes and their clocks; and what they do not use comes back.
#include <gtest/gtest.h>

#include <algorithm>
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
    one.core = std::make_unique<NodeCore>(
        config, ThrottleOptions{.workers = workers, .hash_seed = seed_ + node, .log = {}},
        std::make_unique<BadlyLinkedStore>(counters, one.link));
    one.core->advance(time(node));
    for (unsigned i = 0; i < workers; ++i) one.core->worker(i).online();
  }
  /// It dies as it stands: what it held and had not written is lost.
  void crash(std::size_t node) { nodes_[node]->core.reset(); }

  void advance(Duration by) {
    now_ += by;
    for (std::size_t node = 0; node < count(); ++node)
      for (int round = 0; alive(node) && round < 2; ++round) come_round(node);
  }
  /// Once: where a span has ended, workers know that then, but nobody has judged it yet.
  void come_round(std::size_t node) {
    nodes_[node]->core->advance(time(node));
    for (unsigned i = 0; i < workers; ++i) nodes_[node]->core->worker(i).quiescent();
  }

  void admit(std::size_t node, const std::string& user) {
    if (!alive(node)) return;
    const Header header{"user", user};
    Request request;
    request.headers = std::span(&header, 1);
    const Instant now = time(node);
    const bool passes = nodes_[node]
                            ->core->worker(static_cast<unsigned>(random() % workers))
                            .admit(request, now.monotonic)
                            .verdict == Verdict::admit;
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
                              {.links = true, .crashes = true, .clocks_differ = true, .clocks_jump = true}})),
                         case_name);
// A node that crashes takes what it held with it.
INSTANTIATE_TEST_SUITE_P(
    Strict, StrictQuota,
    ::testing::ValuesIn(cases({{},
                               {.links = true},
                               {.clocks_differ = true},
                               {.clocks_jump = true},
                               {.links = true, .clocks_differ = true, .clocks_jump = true}})),
    case_name);

}  // namespace
}  // namespace weir
