// SPDX-License-Identifier: BSD-3-Clause
// Whole nodes whose store is far away: its answers take longer than a span, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster.h"
#include "sanitized.h"
#include "store/outbox.h"
#include "user_rule.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using testing::Counters;
using testing::seed;
using testing::user_rule;

/// Shared counters so far away, behind the outbox of a real store. Half of the way is there, half is back.
class DistantStore final : public Store {
 public:
  /// @param now  true time, which all nodes go by
  DistantStore(Counters& counters, const MonotonicTime& now, Duration round_trip)
      : counters_(counters), now_(now), round_trip_(round_trip) {}

  void submit(const std::vector<CounterWrite>& writes, MonotonicTime now) override {
    outbox_.submit(writes, now);
    send();
  }
  /// What has arrived is counted, also where nobody collects the answer.
  void arrive() {
    for (Way& way : under_way_) {
      if (way.arrived || now_ < way.sent + round_trip_ / 2) continue;
      way.arrived = true;
      const auto batch = outbox_.out(way.group, way.sequence);
      ASSERT_TRUE(batch.has_value());
      for (const OutboxEntry& entry : batch->entries) {
        std::uint64_t& total = counters_[{std::string(batch->name(entry)), way.group.ordinal}];
        total += entry.delta;
        total -= std::min(total, entry.returned);
        total = std::max(total, entry.raised_to);
        way.outcomes.push_back({.applied = true, .total = total});
      }
    }
  }
  void collect(std::vector<CounterReply>& replies) override {
    while (!under_way_.empty() && under_way_.front().arrived &&
           now_ >= under_way_.front().sent + round_trip_) {
      const Way& way = under_way_.front();
      EXPECT_EQ(outbox_.answer(way.group, way.sequence, way.outcomes, replies), 0U);
      under_way_.pop_front();
    }
    send();
  }
  void on_ready(std::function<void()>) override {}
  StoreFigures figures() const override {
    StoreFigures figures;
    figures.up = true;
    figures.pending = outbox_.pending();
    figures.applied = outbox_.applied();
    figures.expired = outbox_.expired();
    return figures;
  }
  bool flush(Duration) override { return outbox_.empty(); }

 private:
  struct Way {
    OutboxGroupId group;
    std::uint64_t sequence;
    MonotonicTime sent;
    bool arrived = false;
    std::vector<OutboxOutcome> outcomes;
  };
  void send() {
    for (std::uint32_t partition = 0; partition < store_partitions; ++partition)
      while (const auto batch = outbox_.next(partition))
        under_way_.push_back(
            {.group = batch->group, .sequence = batch->sequence, .sent = now_, .outcomes = {}});
  }

  Counters& counters_;
  const MonotonicTime& now_;
  Duration round_trip_;
  Outbox outbox_{1000, 1000000};
  std::deque<Way> under_way_;
};

class DistantStoreUnder : public ::testing::TestWithParam<Algorithm> {};

/// What nodes that are so far away admit in an interval, as a multiple of the limit: each is offered the same
/// part of three times as much.
double admitted_by(Algorithm algorithm, const std::vector<Duration>& round_trips) {
  constexpr unsigned limit = 1000;
  Rule rule = user_rule(limit, algorithm);
  // What passes of the limit is to be seen, not what a block keeps from it.
  rule.cooldown = 1ms;
  std::vector<DistantStore*> stores;  // the nodes'
  const auto make_store = [&](Cluster& cluster, unsigned node) {
    auto store = std::make_unique<DistantStore>(cluster.counters, cluster.now.monotonic, round_trips[node]);
    stores.push_back(store.get());
    return store;
  };
  const auto nodes = static_cast<unsigned>(round_trips.size());
  Cluster cluster(rule, nodes, 1, seed(), 64, make_store);
  constexpr int settling = 5, measured = 20;
  unsigned next = 0;
  unsigned admitted = 0;
  for (int step = 0; step < 100 * (settling + measured); ++step) {
    if (step == 100 * settling) admitted = 0;
    for (unsigned i = 0; i < 3 * limit / 100; ++i) admitted += cluster.admit(next++ % nodes, 0, "ann");
    cluster.advance(10ms);
    for (DistantStore* store : stores) store->arrive();
  }
  return static_cast<double>(admitted) / limit / measured;
}

TEST_P(DistantStoreUnder, NodesAdmitAboutTheLimitHoweverManySpansItsAnswersTake) {
  for (const unsigned nodes : {2U, 4U, 10U})
    for (const Duration round_trip : {20ms, 90ms, 120ms, 150ms, 180ms, 220ms, 280ms, 350ms, 450ms}) {
      std::vector<Duration> round_trips;  // about the same
      for (unsigned i = 0; i < nodes; ++i) round_trips.push_back(round_trip + round_trip * i / nodes / 5);
      const double admitted = admitted_by(GetParam(), round_trips);
      EXPECT_GT(admitted, 0.95) << nodes << " nodes, " << round_trip / 1ms << " ms";
      // Within a span, or little longer, as near as ever.
      EXPECT_LT(admitted, round_trip < 100ms ? 1.05 : 1.4)
          << nodes << " nodes, " << round_trip / 1ms << " ms";
    }
}

TEST_P(DistantStoreUnder, NodesAdmitAboutTheLimitAlsoWhereOneOfThemIsNear) {
  for (const unsigned nodes : {2U, 4U})
    for (const Duration round_trip : {150ms, 280ms, 350ms, 450ms}) {
      std::vector<Duration> round_trips(nodes, round_trip);
      round_trips[0] = 20ms;
      const double admitted = admitted_by(GetParam(), round_trips);
      EXPECT_GT(admitted, 0.95) << nodes << " nodes, " << round_trip / 1ms << " ms";
      EXPECT_LT(admitted, 1.5) << nodes << " nodes, " << round_trip / 1ms << " ms";
    }
}

// The first ones are those that differ most.
constexpr std::array algorithms{Algorithm::sliding_window, Algorithm::token_bucket, Algorithm::fixed_window,
                                Algorithm::shed, Algorithm::cooldown};
INSTANTIATE_TEST_SUITE_P(Algorithms, DistantStoreUnder,
                         ::testing::ValuesIn(std::span(algorithms).first(testing::sanitized ? 2 : 5)),
                         [](const auto& tested) {
                           std::string name(to_string(tested.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace weir
