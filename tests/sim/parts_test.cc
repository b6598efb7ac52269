// SPDX-License-Identifier: BSD-3-Clause
// The pieces of the simulator, each against what can be worked out by hand: a ruler must be right before it
// measures.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "arrivals.h"
#include "demand_source.h"
#include "event_queue.h"
#include "meter.h"
#include "network.h"
#include "node_clock.h"
#include "random.h"
#include "router.h"
#include "scenario_reader.h"
#include "server.h"
#include "sliding_sum.h"

namespace weir::sim {
namespace {

using namespace std::chrono_literals;

std::uint64_t seed() {
  const char* given = std::getenv("WEIR_TEST_SEED");
  const std::uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
  ::testing::Test::RecordProperty("seed", std::to_string(value));
  return value;
}

Rule rule_of(std::uint64_t limit, Algorithm algorithm = Algorithm::cooldown) {
  Rule rule;
  rule.name = "user";
  rule.limit = limit;
  rule.interval = 1s;
  rule.spans = 10;
  rule.cooldown = 200ms;
  rule.algorithm = algorithm;
  return rule;
}

TEST(SimRandom, TheSameSeedAndStreamDrawTheSame) {
  Random one(seed(), 3);
  Random same(seed(), 3);
  Random other(seed(), 4);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t drawn = one.next();
    EXPECT_EQ(drawn, same.next());
    differs = differs || drawn != other.next();
  }
  EXPECT_TRUE(differs);
}

TEST(SimRandom, DistributionsHaveTheirMeans) {
  Random random(seed());
  double exponential = 0;
  double normal = 0;
  double squares = 0;
  constexpr int draws = 200'000;
  for (int i = 0; i < draws; ++i) {
    exponential += random.exponential();
    const double value = random.normal();
    normal += value;
    squares += value * value;
  }
  EXPECT_NEAR(exponential / draws, 1, 0.02);
  EXPECT_NEAR(normal / draws, 0, 0.02);
  EXPECT_NEAR(squares / draws, 1, 0.02);
}

TEST(SimChooser, DrawsAfterTheWeights) {
  Random random(seed());
  const Chooser chooser({1, 0, 3, 4});
  std::vector<double> drawn(4);
  for (int i = 0; i < 80'000; ++i) ++drawn[chooser.draw(random)];
  EXPECT_NEAR(drawn[0], 10'000, 600);
  EXPECT_EQ(drawn[1], 0);
  EXPECT_NEAR(drawn[2], 30'000, 900);
  EXPECT_NEAR(drawn[3], 40'000, 900);
}

TEST(SimArrivals, RegularOnesComeAtEqualDistances) {
  Arrivals arrivals({{0s, 10s, 10, 10}}, false, Random(1));
  for (int i = 0; i < 100; ++i)
    EXPECT_NEAR(std::chrono::duration<double>(arrivals.next()).count(), 0.05 + 0.1 * i, 1e-6);
  EXPECT_EQ(arrivals.next(), Duration::max());
}

TEST(SimArrivals, ARampHasTheAreaUnderIt) {
  Demand demand;
  demand.shape = Demand::Shape::ramp;
  demand.rate = 100;
  demand.points = {{0s, 0}, {10s, 2}};
  Arrivals arrivals(rate_curve(demand, 20s), false, Random(1));
  int before_ten = 0;
  int after = 0;
  for (Duration at = arrivals.next(); at != Duration::max(); at = arrivals.next())
    ++(at < 10s ? before_ten : after);
  EXPECT_EQ(before_ten, 1000);
  EXPECT_EQ(after, 2000);
}

TEST(SimArrivals, PoissonOnesHaveTheRateAndItsIrregularity) {
  Arrivals arrivals({{0s, 1000s, 50, 50}}, true, Random(seed()));
  std::vector<double> per_second(1000);
  for (Duration at = arrivals.next(); at != Duration::max(); at = arrivals.next())
    ++per_second[static_cast<std::size_t>(at / 1s)];
  double sum = 0;
  double squares = 0;
  for (const double count : per_second) sum += count, squares += (count - 50) * (count - 50);
  EXPECT_NEAR(sum / 1000, 50, 1.5);
  EXPECT_NEAR(squares / 1000, 50, 12);  // the variance of a Poisson number is its mean
}

TEST(SimArrivals, OnOffAndPeriodsAreCutOut) {
  Demand demand;
  demand.shape = Demand::Shape::on_off;
  demand.rate = 10;
  demand.on = 1s;
  demand.off = 2s;
  demand.from = 3s;
  demand.until = 7s;
  const std::vector<RateSegment> curve = rate_curve(demand, 20s);
  ASSERT_EQ(curve.size(), 2U);
  EXPECT_EQ(curve[0].begin, 3s);
  EXPECT_EQ(curve[0].end, 4s);
  EXPECT_EQ(curve[1].begin, 6s);
  EXPECT_EQ(curve[1].end, 7s);
}

/// A regular stream of ten requests a second, over as many values of each header.
Scenario in_turn(const std::vector<std::size_t>& sizes) {
  Scenario scenario;
  scenario.duration = 1h;
  for (const std::size_t size : sizes)
    scenario.keys.push_back({.header = "key", .values = std::vector<std::string>(size), .zipf = 0});
  Demand demand;
  demand.arrivals = Demand::Arrivals::regular;
  demand.rate = 10;
  scenario.demands.push_back(demand);
  return scenario;
}

TEST(SimDemandSource, RegularStreamsTakeTurnsOverAllCombinationsOfKeys) {
  for (const std::vector<std::size_t>& sizes :
       {std::vector<std::size_t>{7}, {10, 10}, {10, 15}, {3, 4}, {12, 6}, {2, 6, 4}, {4, 6, 9, 10}}) {
    const Scenario scenario = in_turn(sizes);
    DemandSource source(scenario);
    std::size_t combinations = 1;
    for (const std::size_t size : sizes) combinations *= size;
    for (int round = 0; round < 3; ++round) {
      std::map<std::vector<std::uint32_t>, int> asked;
      for (std::size_t i = 0; i < combinations; ++i) ++asked[*source.take().values];
      EXPECT_EQ(asked.size(), combinations) << ::testing::PrintToString(sizes) << ", round " << round;
    }
  }
}

TEST(SimDemandSource, TheValuesOfOneHeaderAreAskedForInTurnWhateverTheOthers) {
  const std::vector<std::size_t> sizes{10, 4};
  const Scenario scenario = in_turn(sizes);
  DemandSource source(scenario);
  std::vector<std::vector<int>> asked{std::vector<int>(10), std::vector<int>(4)};
  for (int i = 0; i < 1000; ++i) {
    const std::vector<std::uint32_t> values = *source.take().values;
    for (std::size_t space = 0; space < sizes.size(); ++space) {
      ++asked[space].at(values[space]);
      // What is passed over once is made up for.
      const auto [least, most] = std::ranges::minmax(asked[space]);
      EXPECT_LE(most - least, 2) << "header " << space << ", request " << i;
    }
  }
}

TEST(SimDemandSource, AHeaderOfOneValueAloneKeepsTheOthersInTurn) {
  Scenario scenario = in_turn({10, 10});
  scenario.demands[0].key = 3;
  DemandSource source(scenario);
  for (std::uint32_t i = 0; i < 30; ++i)
    EXPECT_EQ(*source.take().values, (std::vector<std::uint32_t>{3, i % 10}));
}

TEST(SimNodeClock, TurnsTrueTimeIntoLocalTimeAndBack) {
  for (const std::int64_t drift : {0, 100'000, -100'000, 100'000'000, -100'000'000}) {
    const NodeClock clock(WallTime(1000s), 3ms, drift, {});
    for (const Duration at : {Duration{0}, Duration{1}, Duration{12'345'678'901}, Duration{3600s}}) {
      const MonotonicTime local = clock.monotonic(at);
      EXPECT_LE(clock.when(local), at) << drift;
      EXPECT_EQ(clock.monotonic(clock.when(local)), local) << drift;
      EXPECT_GT(clock.when(local + Duration{1}), clock.when(local) - Duration{1}) << drift;
      EXPECT_EQ(clock.at(at).monotonic, local);
    }
  }
}

TEST(SimNodeClock, JumpsMoveTheWallClockOnly) {
  const NodeClock clock(WallTime(1000s), 0s, 0, {{5s, -2s}, {7s, 10s}});
  EXPECT_EQ(clock.at(4s).wall, WallTime(1004s));
  EXPECT_EQ(clock.at(5s).wall, WallTime(1003s));
  EXPECT_EQ(clock.at(7s).wall, WallTime(1015s));
  EXPECT_EQ(clock.at(7s).monotonic - clock.at(4s).monotonic, 3s);
}

TEST(SimEventQueue, GivesTheEarliestAndOfOneMomentTheFirst) {
  EventQueue events;
  events.push(3ms, EventQueue::Kind::answer, 1);
  events.push(1ms, EventQueue::Kind::answer, 2);
  events.push(3ms, EventQueue::Kind::answer, 3);
  events.push(2ms, EventQueue::Kind::answer, 4);
  std::vector<std::uint32_t> order;
  while (!events.empty()) order.push_back(events.pop().subject);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{2, 4, 1, 3}));
}

TEST(SimSlidingSum, FindsTheWorstWindowOfAnyOffset) {
  SlidingSum sum(1s);
  // 100 at 0.9 s and 100 at 1.1 s: no aligned second has more than 100.
  for (int i = 0; i < 100; ++i) sum.add(900ms, 1);
  for (int i = 0; i < 100; ++i) sum.add(1100ms, 1);
  EXPECT_EQ(sum.largest(), 200U);
  sum.add(1900ms, 1);  // the window is open at its beginning
  EXPECT_EQ(sum.sum(), 101U);
}

TEST(SimSlidingSum, AgreesWithCountingAgain) {
  Random random(seed());
  SlidingSum sum(100ms);
  std::vector<Duration> times;
  Duration at{};
  std::uint64_t largest = 0;
  for (int i = 0; i < 2000; ++i) {
    at += Duration(static_cast<std::int64_t>(random.below(5'000'000)));
    times.push_back(at);
    sum.add(at, 1);
    std::uint64_t counted = 0;
    for (const Duration time : times) counted += time > at - 100ms;
    largest = std::max(largest, counted);
    ASSERT_EQ(sum.sum(), counted) << i;
  }
  EXPECT_EQ(sum.largest(), largest);
}

TEST(SimOrdinalCounts, KeepsSumsInAnyOrder) {
  OrdinalCounts counts;
  counts[5] += 3;
  counts[7] += 1;
  counts[2] += 9;
  counts[5] -= 4;
  EXPECT_EQ(counts.of(5), -1);
  EXPECT_EQ(counts.of(7), 1);
  EXPECT_EQ(counts.of(2), 9);
  EXPECT_EQ(counts.of(6), 0);
}

/// One count of one key on its way.
struct Batch {
  std::uint64_t sequence;
  std::uint64_t delta;
  std::uint64_t returned = 0;
  std::uint64_t raised_to = 0;
};

class SimServer : public ::testing::Test {
 protected:
  std::uint64_t apply(std::uint32_t sender, const Batch& batch, Duration now = 0s) {
    static constexpr std::string_view key = "user|ann";
    OutboxEntry entry;
    entry.name_size = key.size();
    entry.delta = batch.delta;
    entry.returned = batch.returned;
    entry.raised_to = batch.raised_to;
    server.apply(sender,
                 {.group = {.partition = partition_of(key), .interval = 1s, .ordinal = 4},
                  .sequence = batch.sequence,
                  .time_to_live = 2s,
                  .entries = std::span(&entry, 1),
                  .names = key},
                 now, outcomes);
    return outcomes.at(0).total;
  }
  Server server;
  Server::NameId name = server.intern("user|ann");
  std::vector<OutboxOutcome> outcomes;
};

TEST_F(SimServer, AppliesABatchOnceHoweverOftenItComes) {
  EXPECT_EQ(apply(0, {1, 5}), 5U);
  EXPECT_EQ(apply(0, {1, 5}), 5U);
  EXPECT_EQ(apply(0, {2, 3}), 8U);
  EXPECT_EQ(apply(0, {1, 5}), 8U);  // a copy that comes late
  EXPECT_EQ(apply(1, {1, 2}), 10U);
  EXPECT_EQ(server.ledger(name).of(4), 10);
}

TEST_F(SimServer, TakesOffWhatIsReturned) {
  apply(0, {1, 5});
  EXPECT_EQ(apply(0, {2, 1, 3}), 3U);
  EXPECT_EQ(server.ledger(name).of(4), 3);
}

TEST_F(SimServer, RaisesToTheLargest) {
  EXPECT_EQ(apply(0, {1, 0, 0, 70}), 70U);
  EXPECT_EQ(apply(1, {1, 0, 0, 50}), 70U);
  EXPECT_EQ(apply(1, {2, 0, 0, 90}), 90U);
}

TEST_F(SimServer, ForgetsCountersThatHaveExpiredButNotTheLedger) {
  apply(0, {1, 5});
  EXPECT_EQ(apply(0, {2, 0}, 1999ms), 5U);
  EXPECT_EQ(apply(0, {3, 0}, 2s), 0U);
  EXPECT_EQ(server.ledger(name).of(4), 5);
}

TEST_F(SimServer, CountsABatchThatAWipeHasTakenOnceInTheLedger) {
  apply(0, {1, 5});
  server.wipe();
  EXPECT_EQ(apply(0, {1, 5}), 5U);  // its answer was lost, so it is sent again
  EXPECT_EQ(server.ledger(name).of(4), 5);
  EXPECT_EQ(apply(0, {2, 2}), 7U);
  EXPECT_EQ(server.ledger(name).of(4), 7);
}

class SimNetwork : public ::testing::Test {
 protected:
  /// Plays the network until `end`.
  void play(StoreClient& client, Duration end) {
    while (!events.empty() && events.top().at < end) {
      const EventQueue::Event event = events.pop();
      network.now = event.at;
      if (event.kind == EventQueue::Kind::arrival) network.arrive(event.subject, event.at);
      if (event.kind == EventQueue::Kind::answer) network.answer(event.subject, event.at);
      if (event.kind == EventQueue::Kind::store_timer) client.timer(event.at);
    }
    network.now = end;
  }

  void write(StoreClient& client, std::uint64_t delta) {
    const MonotonicTime now = clock.monotonic(network.now);
    client.submit({{.key = 1,
                    .name = "user|ann",
                    .ordinal = 4,
                    .interval = 1s,
                    .delta = delta,
                    .time_to_live = 100s,
                    .expires = now + 100s,
                    .returned = 0,
                    .raised_to = 0,
                    .tag = 0}},
                  now);
  }

  StoreSpec spec;
  EventQueue events;
  Network network{spec, events};
  NodeClock clock{WallTime(1000s), 0s, 0, {}};
  RoundTrip round_trip{.kind = RoundTrip::Kind::constant, .least = 10ms, .most = 10ms, .sigma = 0};
  Server::NameId name = network.server().intern("user|ann");
};

TEST_F(SimNetwork, AnswersComeOneRoundTripAfterTheSubmission) {
  StoreClient client(network, 0, clock, round_trip, {}, Random(1));
  EXPECT_FALSE(client.figures().up);
  play(client, 20ms);
  EXPECT_TRUE(client.figures().up);
  write(client, 5);
  std::vector<CounterReply> replies;
  play(client, 30ms);
  client.collect(replies);
  EXPECT_TRUE(replies.empty());
  play(client, 31ms);
  client.collect(replies);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].delta, 5U);
  EXPECT_EQ(replies[0].total, 5U);
  EXPECT_EQ(client.figures().round_trip, 10ms);
}

TEST_F(SimNetwork, ALostAnswerIsAskedForAgainAndCountsOnce) {
  spec.loss_reply = 1;
  StoreClient client(network, 0, clock, round_trip, {}, Random(1));
  play(client, 20ms);
  write(client, 5);
  play(client, 1s);
  EXPECT_EQ(client.figures().pending, 5U);
  EXPECT_GT(client.figures().failures, 1U);
  EXPECT_EQ(network.server().ledger(name).of(4), 5);
  spec.loss_reply = 0;
  play(client, 2s);
  EXPECT_EQ(client.figures().pending, 0U);
  EXPECT_EQ(network.server().ledger(name).of(4), 5);
}

TEST_F(SimNetwork, ARequestThatOutlivesItsTimeoutMeetsTheMarker) {
  round_trip.least =
      150ms;  // longer than the timeout of 50 ms: each copy arrives when its sender has given up
  StoreClient client(network, 0, clock, round_trip, {}, Random(1));
  play(client, 200ms);
  write(client, 5);
  play(client, 900ms);
  EXPECT_EQ(client.figures().pending, 5U);
  round_trip.least = 10ms;
  play(client, 2s);
  EXPECT_EQ(client.figures().pending, 0U);
  EXPECT_EQ(network.server().ledger(name).of(4), 5);
}

TEST_F(SimNetwork, AnOutageIsNoticedAndHeals) {
  spec.outages = {{100ms, 1s}};
  StoreClient client(network, 0, clock, round_trip, {}, Random(1));
  play(client, 200ms);
  write(client, 5);
  play(client, 500ms);
  EXPECT_FALSE(client.figures().up);
  EXPECT_EQ(network.server().ledger(name).of(4), 0);
  play(client, 2s);
  EXPECT_TRUE(client.figures().up);
  EXPECT_EQ(client.figures().pending, 0U);
  EXPECT_EQ(network.server().ledger(name).of(4), 5);
}

constexpr Algorithm every_algorithm[] = {
    Algorithm::cooldown,     Algorithm::fixed_window, Algorithm::sliding_window, Algorithm::token_bucket,
    Algorithm::leaky_bucket, Algorithm::sliding_log,  Algorithm::shed,           Algorithm::strict};

/// The algorithms under which a rule keeps what `given` has changed in it; others leave it out.
std::vector<Algorithm> keepers(const Rule& given, auto Rule::*value) {
  std::vector<Algorithm> found;
  for (const Algorithm algorithm : every_algorithm) {
    std::vector<ConfigError> errors;
    const std::vector<Rule> changed = with_algorithm({given}, algorithm, errors);
    for (const ConfigError& error : errors) ADD_FAILURE() << error.to_string();
    EXPECT_EQ(changed.at(0).algorithm, algorithm);
    if (changed.at(0).*value == given.*value)
      found.push_back(algorithm);
    else
      EXPECT_EQ(changed.at(0).*value, Rule().*value) << to_string(algorithm);
  }
  return found;
}

TEST(SimWithAlgorithm, LeavesOutWhatTheAlgorithmCannotUseAndNothingElse) {
  using enum Algorithm;
  using Algorithms = std::vector<Algorithm>;
  Rule rule = rule_of(10);
  rule.debt = true;
  EXPECT_EQ(keepers(rule, &Rule::debt), (Algorithms{cooldown, fixed_window, shed}));
  rule = rule_of(10);
  rule.penalize = true;
  EXPECT_EQ(keepers(rule, &Rule::penalize), (Algorithms{cooldown, fixed_window}));
  rule = rule_of(10);
  rule.early_block = EarlyBlock::predictive;
  EXPECT_EQ(keepers(rule, &Rule::early_block),
            (Algorithms{cooldown, fixed_window, sliding_window, token_bucket, leaky_bucket, shed}));
  rule.on_store_failure = OnStoreFailure::open;
  EXPECT_EQ(
      keepers(rule, &Rule::on_store_failure),
      (Algorithms{cooldown, fixed_window, sliding_window, token_bucket, leaky_bucket, sliding_log, shed}));
  rule.hold_back = 0.2;
  EXPECT_EQ(keepers(rule, &Rule::hold_back), (Algorithms{cooldown, fixed_window, sliding_window, token_bucket,
                                                         leaky_bucket, sliding_log, shed}));
  rule.dephase = 1s;
  EXPECT_EQ(keepers(rule, &Rule::dephase), Algorithms{cooldown});
  rule.on_store_failure = OnStoreFailure::local;
  rule.local_rule = LocalRule::per_span;
  EXPECT_EQ(keepers(rule, &Rule::local_rule), Algorithms{cooldown});
  rule = rule_of(10, token_bucket);
  rule.burst = 20;
  EXPECT_EQ(keepers(rule, &Rule::burst), (Algorithms{token_bucket, leaky_bucket}));
  rule.warmup = 1s;
  EXPECT_EQ(keepers(rule, &Rule::warmup), Algorithms{token_bucket});
}

TEST(SimRouter, SendsNothingToClosedNodes) {
  for (const Spread::Kind kind :
       {Spread::Kind::even, Spread::Kind::zipf, Spread::Kind::one, Spread::Kind::moving}) {
    Router router({.kind = kind, .zipf = 1, .period = 1s}, 4, 3, Random(seed()));
    router.set(1, Router::State::closed);
    router.set(2, Router::State::losing);
    bool lost = false;
    for (int i = 0; i < 400; ++i) {
      const std::uint32_t node = router.route(static_cast<std::size_t>(i) % 3, i * 10ms, i % 2 == 0);
      EXPECT_TRUE(node == 0 || node == 3 || node == Router::nowhere);
      lost = lost || node == Router::nowhere;
    }
    EXPECT_TRUE(lost);
  }
}

TEST(SimRouter, MovesAKeyToTheNextNodeAfterEachPeriod) {
  Router router({.kind = Spread::Kind::moving, .zipf = 1, .period = 2s}, 3, 1, Random(1));
  EXPECT_EQ(router.route(0, 1s, false), 0U);
  EXPECT_EQ(router.route(0, 3s, false), 1U);
  EXPECT_EQ(router.route(0, 6s, false), 0U);
}

class SimMeter : public ::testing::Test {
 protected:
  void request(Duration at, bool admitted) {
    meter.add({.at = at,
               .key = 0,
               .units = 1,
               .admitted = admitted,
               .refused_here = !admitted,
               .ordinal = at / 1s});
  }
  Summary summary(Duration settle = 0s) const {
    Summary result;
    meter.summarise(settle, result);
    return result;
  }
  Meter meter{rule_of(10), 1, 4s, 200ms, 100ms};
};

TEST_F(SimMeter, MeasuresOvershootAndErrorByHand) {
  for (int i = 0; i < 12; ++i) request(i * 10ms, true);        // 12 of 12: 20 % over
  for (int i = 0; i < 20; ++i) request(1s + i * 10ms, i < 9);  // 9 of 20: 10 % under
  for (int i = 0; i < 5; ++i) request(2s + i * 10ms, true);    // all of a small demand
  const Summary all = summary();
  EXPECT_DOUBLE_EQ(all.overshoot_max_pct, 20);
  EXPECT_DOUBLE_EQ(all.offered, 37);
  EXPECT_DOUBLE_EQ(all.admitted, 26);
  EXPECT_DOUBLE_EQ(all.admission_error_pct, 100.0 * (26 - 25) / 25);
  const Summary steady = summary(1s);
  EXPECT_DOUBLE_EQ(steady.admission_error_pct, 100.0 * (14 - 15) / 15);
  EXPECT_DOUBLE_EQ(steady.overshoot_steady_max_pct, 0);
  EXPECT_NEAR(steady.utilization_pct, 100.0 * 14 / 30, 1e-9);
}

TEST_F(SimMeter, TellsFalseRefusalsFromThoseThatFollowAnExcess) {
  request(100ms, false);                                       // nothing has exceeded anything
  for (int i = 0; i < 11; ++i) request(1s + i * 1ms, i < 10);  // truly more than the limit
  request(2100ms, false);                                      // may still be that block
  for (int i = 0; i < 3; ++i) request(3100ms + i * 1ms, true);
  EXPECT_DOUBLE_EQ(summary().false_block_intervals_pct, 25);
}

TEST_F(SimMeter, LooksBackAsFarAsDephaseMayHaveKeptABlock) {
  Rule rule = rule_of(10);
  rule.dephase = 2s;
  meter = Meter(rule, 1, 7s, 200ms, 100ms);
  for (int i = 0; i < 11; ++i) request(i * 1ms, i < 10);
  for (int i = 1; i < 6; ++i) request(i * 1s, false);
  // The one block may have lasted 2.2 s, from the end of its interval at the latest; only second 5 is beyond.
  EXPECT_DOUBLE_EQ(summary().false_block_intervals_pct, 100.0 / 6);
}

TEST_F(SimMeter, TakesNoReactionWhereABlockOutOfPhaseMayStillRun) {
  Rule rule = rule_of(10);
  rule.dephase = 2s;
  meter = Meter(rule, 1, 4s, 200ms, 100ms);
  for (int i = 0; i < 11; ++i) request(i * 1ms, i < 10);
  for (int i = 0; i < 15; ++i) request(2s + i * 10ms, true);
  EXPECT_DOUBLE_EQ(summary().reaction_ms_p99, 0) << "of the first second alone";
}

TEST_F(SimMeter, MeasuresTheReactionWithinOneCooldownWhateverDephaseAdds) {
  Rule rule = rule_of(10);
  rule.dephase = 2s;
  meter = Meter(rule, 1, 4s, 200ms, 100ms);
  for (int i = 0; i < 15; ++i) request(i * 10ms, true);  // over at 100 ms, the last one at 140 ms
  request(150ms, false);
  request(360ms, true);  // where the key's block has ended
  EXPECT_DOUBLE_EQ(summary().reaction_ms_p99, 40);
  EXPECT_DOUBLE_EQ(summary().block_spread_ms_p99, 0);
}

TEST_F(SimMeter, MeasuresTheReactionFromTheExcessOn) {
  for (int i = 0; i < 15; ++i) request(i * 10ms, true);  // over at 100 ms, the last one at 140 ms
  request(150ms, false);
  request(170ms, true);  // a node that has not heard yet
  request(180ms, false);
  EXPECT_DOUBLE_EQ(summary().reaction_ms_p99, 70);
  EXPECT_DOUBLE_EQ(summary().block_spread_ms_p99, 20);
}

TEST_F(SimMeter, DoesNotTakeWhatOthersRefuseForDemand) {
  for (int i = 0; i < 8; ++i) request(i * 10ms, true);
  meter.add({.at = 500ms, .key = 0, .units = 100, .admitted = false, .refused_here = false, .ordinal = 0});
  EXPECT_DOUBLE_EQ(summary().admission_error_pct, 0);
  EXPECT_DOUBLE_EQ(summary().offered, 108);
}

}  // namespace
}  // namespace weir::sim
