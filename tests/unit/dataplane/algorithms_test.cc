// SPDX-License-Identifier: BSD-3-Clause
// What a worker makes of each algorithm's terms: verdicts, what remains, when to come again. Publications and
// windows are made by hand: no controller, no engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/worker_core.h"
#include "shared/bucket_cell.h"
#include "shared/log_cell.h"
#include "short_of_rests.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t any = std::numeric_limits<std::uint64_t>::max();

Rule rule_with(Algorithm algorithm, std::uint64_t limit) {
  Rule rule;
  rule.name = "user";
  rule.limit = limit;
  rule.interval = 1s;
  rule.spans = 10;
  rule.cooldown = 5s;
  rule.action = Action::drop;
  rule.algorithm = algorithm;
  return rule;
}

Dimension by_header(std::string name) { return {.kind = Dimension::Kind::header, .name = std::move(name)}; }

/// A data plane with its controller played by the test. All rules have the same windows.
struct Plane {
  explicit Plane(std::vector<Rule> with, unsigned workers = 1, std::uint64_t chunk = 0,
                 std::uint32_t keys = 64)
      : rules(std::move(with)), classifier(rules), quiescence(workers), slot(workers) {
    for (auto& pool : pools) pool = std::make_unique<AllowancePool>(keys, workers);
    for (const Rule& rule : rules) {
      logs.push_back(rule.algorithm == Algorithm::sliding_log
                         ? std::make_unique<LogPool>(rule.limit, rule.interval, 16)
                         : nullptr);
      terms.push_back({.limit = rule.limit,
                       .weight = rule.weight,
                       .window = 0,
                       .algorithm = rule.algorithm,
                       .action = rule.action,
                       .dense = rule.key.empty(),
                       .block = {rule.cooldown, rule.dephase},
                       .interval = rule.interval,
                       .spans = rule.spans,
                       .closeness = static_cast<std::uint16_t>(1 + rule.key.size()),
                       .chunk = chunk,
                       .too_heavy_counts = rule.algorithm == Algorithm::cooldown ? rule.limit + 1 : 0,
                       .logs = logs.back().get(),
                       .bucket = {rule.limit, rule.interval, rule.burst != 0 ? rule.burst : rule.limit}});
      // As the engine has it for keys of which nothing is known.
      KeyTerms usual{rule.limit, 0};
      if (is_bucket(rule.algorithm)) usual = {any, full_price};
      if (rule.algorithm == Algorithm::shed) usual.factor = admit_all;
      if (rule.algorithm == Algorithm::strict) usual.allowance = 0;
      defaults.push_back(usual);
    }
    for (unsigned i = 0; i < workers * tables_per_worker; ++i) tables.emplace_back(keys, rules.size());
    for (unsigned i = 0; i < workers; ++i)
      cores.push_back(std::make_unique<WorkerCore>(
          DataPlane{classifier, terms, slot, quiescence, HashKey{1, 2}}, i,
          std::span(tables).subspan(i * tables_per_worker, tables_per_worker), no_corrections, no_grants));
    table_of_worker.assign(workers, 0);
    publish();
    for (auto& core : cores) core->online();
  }

  /// All workers take it up.
  void publish(std::vector<KeyState> states = {}) {
    publish_only(std::move(states));
    for (auto& core : cores) core->quiescent();
  }
  /// None does, until it is quiescent by itself.
  void publish_only(std::vector<KeyState> states = {}) {
    auto next = std::make_unique<Publication>();
    next->generation = published.size() + 1;
    next->began = {WallTime(1000s) + (window_ends - MonotonicTime(11s)), window_ends - 1s};
    next->judged = judged;
    next->windows.push_back({.ends = window_ends,
                             .running = pools[0].get(),
                             .ended = pools[1].get(),
                             .settled = settled,
                             .slides = rules[0].algorithm == Algorithm::sliding_window,
                             .running_number = window,
                             .ended_number = window - 1,
                             .interval_number = window});
    next->defaults = defaults;
    next->light_keys = {light_keys};
    next->light_allowances.assign(rules.size(), light_allowance);
    for (const KeyTerms& usual : defaults)
      next->unknown_allowances.push_back(std::min(usual.allowance, unknown_allowance));
    next->table_of_worker = table_of_worker;
    next->grants.assign(rules.size(), 0);
    next->some_ungranted.assign(rules.size(), false);
    next->reserves.assign(rules.size(), 0);
    next->reserves_before.assign(rules.size(), 0);
    next->grant_turn_of_worker.assign(cores.size(), 0);
    next->reset_keys(states.size());
    for (const KeyState& state : states) next->append_key(state);
    next->index_keys();
    slot.publish(next.get());
    published.push_back(std::move(next));
  }

  /// The next window begins; a worker goes on in its old table unless it is among `flipped`.
  void turn(const std::vector<unsigned>& flipped) {
    std::swap(pools[1], pools[2]);
    std::swap(pools[0], pools[1]);
    window_ends += 1s;
    ++window;
    for (const unsigned worker : flipped) {
      table_of_worker[worker] ^= 1;
      tables[worker * tables_per_worker + table_of_worker[worker]].clear();
    }
  }

  bool admits(MonotonicTime now, const std::string& user = "ann", unsigned worker = 0, RuleIndex rule = 0,
              std::uint32_t weight = 1) {
    return decide(now, user, worker, rule, weight).verdict == Verdict::admit;
  }
  Decision decide(MonotonicTime now, const std::string& user = "ann", unsigned worker = 0, RuleIndex rule = 0,
                  std::uint32_t weight = 1) {
    return cores[worker]->admit_key(rule, user, weight, now);
  }
  int admitted_of(int requests, MonotonicTime now, unsigned worker = 0) {
    int admitted = 0;
    for (int i = 0; i < requests; ++i) admitted += admits(now, "ann", worker);
    return admitted;
  }
  /// The same in one burst.
  int admitted_of_burst(std::size_t requests, MonotonicTime now, unsigned worker = 0) {
    const std::vector<Key> keys(requests, cores[worker]->key(0, "ann"));
    std::vector<Verdict> verdicts(requests);
    cores[worker]->admit_keys(keys, now, verdicts, {});
    return static_cast<int>(std::count(verdicts.begin(), verdicts.end(), Verdict::admit));
  }
  /// By all rules, of a user named in a header.
  bool admits_request(MonotonicTime now, const std::string& user) {
    const Header header{"user", user};
    Request request;
    request.headers = std::span(&header, 1);
    return cores[0]->admit(request, now).verdict == Verdict::admit;
  }

  /// That the worker counts in.
  SpanTable& table(unsigned worker = 0) {
    return tables[worker * tables_per_worker + table_of_worker[worker]];
  }

  std::uint64_t key(const std::string& user = "ann", RuleIndex rule = 0) const {
    KeyBytes bytes;
    bytes.clear();
    bytes.add_text(user);
    return cores[0]->key_of(rule, bytes.bytes());
  }

  std::vector<Rule> rules;
  Classifier classifier;
  std::vector<RuleTerms> terms;
  std::vector<KeyTerms> defaults;
  std::uint64_t window = 1;  // its number
  KeyFilter light_keys;
  std::uint64_t light_allowance = any;
  std::uint64_t unknown_allowance = any;
  std::vector<std::unique_ptr<LogPool>> logs;
  Quiescence quiescence;
  PublicationSlot slot;
  std::array<std::unique_ptr<AllowancePool>, 3> pools;
  bool settled = true;
  bool judged = true;
  MonotonicTime window_ends{11s};
  std::vector<std::uint8_t> table_of_worker;
  GrantTable no_grants{0};
  std::vector<SpanTable> tables;
  std::vector<CorrectionLog> no_corrections;
  std::vector<std::unique_ptr<WorkerCore>> cores;
  std::vector<std::unique_ptr<Publication>> published;
};

constexpr MonotonicTime start{10s};

TEST(AnyAlgorithm, ARequestThatIsHeavierThanAllThereCanBeNeverMayPass) {
  for (const Algorithm algorithm :
       {Algorithm::cooldown, Algorithm::fixed_window, Algorithm::sliding_window, Algorithm::shed,
        Algorithm::token_bucket, Algorithm::leaky_bucket, Algorithm::sliding_log, Algorithm::strict}) {
    Plane plane({rule_with(algorithm, 3)});
    const Decision refused = plane.decide(start, "ann", 0, 0, 4);
    EXPECT_EQ(refused.verdict, Verdict::block) << static_cast<int>(algorithm);
    EXPECT_EQ(refused.retry_after, forever) << static_cast<int>(algorithm);
    EXPECT_LT(plane.decide(start + 1ms, "bob", 0, 0, 3).retry_after, Duration(2s))
        << static_cast<int>(algorithm);
  }
}

TEST(AnyAlgorithm, WhatIsTooHeavyEverToBeAdmittedIsNoDemandAndExceedsALimitThatBlocks) {
  constexpr std::uint32_t heaviest = std::numeric_limits<std::uint32_t>::max();
  for (const Algorithm algorithm : {Algorithm::cooldown, Algorithm::fixed_window, Algorithm::sliding_window,
                                    Algorithm::shed, Algorithm::token_bucket, Algorithm::strict}) {
    SCOPED_TRACE(static_cast<int>(algorithm));
    Rule rule = rule_with(algorithm, heaviest);
    rule.weight = heaviest;
    Plane plane({rule});
    EXPECT_FALSE(plane.admits(start, "ann", 0, 0, heaviest));
    EXPECT_FALSE(plane.admits(start, "ann", 0, 0, heaviest));
    Key key = plane.cores[0]->key(0, "ann");
    key.weight = heaviest;
    std::array<Verdict, 2> verdicts;
    plane.cores[0]->admit_keys(std::array{key, key}, start, verdicts, {});
    const std::uint64_t counted = algorithm == Algorithm::cooldown ? std::uint64_t{heaviest} + 1 : 0;
    EXPECT_EQ(plane.tables[0].find(plane.key())->offered, 4 * counted);
  }
}

// Fixed window.

TEST(FixedWindowWorker, AdmitsTheLimitAndThenNothingUntilTheWindowEnds) {
  Plane plane({rule_with(Algorithm::fixed_window, 3)});
  EXPECT_EQ(plane.decide(start).remaining, 2U);
  EXPECT_EQ(plane.admitted_of(9, start), 2);
  const Decision refused = plane.decide(start + 300ms);
  EXPECT_EQ(refused.verdict, Verdict::block);
  EXPECT_EQ(refused.remaining, 0U);
  EXPECT_EQ(refused.retry_after, Duration(700ms));
  EXPECT_EQ(refused.reset_after, Duration(700ms));
  plane.turn({0});
  plane.publish();
  EXPECT_EQ(plane.admitted_of(9, start + 1s), 3);
}

TEST(FixedWindowWorker, ARefusalBlocksNothingLater) {
  Plane plane({rule_with(Algorithm::fixed_window, 3)});
  EXPECT_EQ(plane.admitted_of(9, start), 3);
  EXPECT_EQ(plane.tables[0].find(plane.key())->refused_at, never);
  plane.publish({{.key = plane.key(), .terms = {5, 0}}});  // others gave some back
  EXPECT_EQ(plane.admitted_of(9, start), 2);
}

// Sliding window.

TEST(SlidingWindowWorker, WhatWasDrawnInTheSpanBeforeIsTakenOffUntilItHasBeenJudged) {
  Plane plane({rule_with(Algorithm::sliding_window, 5)});
  EXPECT_EQ(plane.admitted_of(3, start), 3);
  plane.turn({0});
  plane.settled = false;
  plane.publish();
  EXPECT_EQ(plane.admitted_of(9, start + 1s), 2);
  plane.settled = true;
  plane.publish({{.key = plane.key(), .terms = {4, 0}}});  // one span has left
  EXPECT_EQ(plane.admitted_of(9, start + 1s), 2);
}

TEST(SlidingWindowWorker, RetriesWhenItsOldestSpanLeavesIfThatIsEnough) {
  Plane plane({rule_with(Algorithm::sliding_window, 10)});
  plane.publish({{.key = plane.key(), .terms = {0, 0}, .opens_at = start + 300ms, .opens_by = 2}});
  EXPECT_EQ(plane.decide(start).retry_after, Duration(300ms));
  EXPECT_EQ(plane.decide(start, "ann", 0, 0, 2).retry_after, Duration(300ms));
  // For three it takes longer; how long is not known, but no longer than until all spans have left.
  EXPECT_EQ(plane.decide(start, "ann", 0, 0, 3).retry_after, Duration(1s + 9 * 100ms));
}

TEST(SlidingWindowWorker, WhoComesBackWhenHeWasToldComesNoNanosecondTooEarly) {
  Rule rule = rule_with(Algorithm::sliding_window, 1);
  rule.spans = 3;
  Plane plane({rule});
  // Until the span's end, and two thirds of a second from there on.
  EXPECT_EQ(plane.decide(start).reset_after, Duration(1s + 666'666'667ns));
  EXPECT_EQ(plane.decide(start).retry_after, Duration(1s + 666'666'667ns));
}

TEST(SlidingWindowWorker, ResetsWhenTheRunningSpanHasLeft) {
  Plane plane({rule_with(Algorithm::sliding_window, 10)});
  EXPECT_EQ(plane.decide(start + 950ms).reset_after, Duration(50ms + 9 * 100ms));
}

// What happens in the middle of a worker's call, when it asks what time it is.
std::function<void()> meanwhile;
MonotonicTime read_clock() noexcept {
  std::exchange(meanwhile, [] {})();
  return start;
}
int admitted_of_burst(Plane& plane, std::size_t requests) {
  const std::vector<Key> keys(requests, plane.cores[0]->key(0, "ann"));
  std::vector<Verdict> verdicts(requests);
  plane.cores[0]->admit_keys(keys, read_clock, verdicts, {});
  return static_cast<int>(std::ranges::count(verdicts, Verdict::admit));
}

TEST(SlidingWindowWorker, WhatIsDrawnWhileTheSpanEndsIsThereForThoseWhoAreInTheNextOne) {
  Plane plane({rule_with(Algorithm::sliding_window, 10)}, 2);
  plane.settled = false;
  meanwhile = [&] {
    plane.turn({0, 1});
    plane.publish_only();
    EXPECT_EQ(plane.admitted_of(7, start, 1), 7);
  };
  EXPECT_EQ(admitted_of_burst(plane, 5), 3);
  // It counts where it has begun.
  EXPECT_EQ(plane.tables[0].admitted(plane.tables[0].locate(plane.key())), 3U);
  EXPECT_EQ(plane.admitted_of(1, start, 1), 0);
}

TEST(SlidingWindowWorker, NobodyIsRefusedBecauseTheSpanEndsMeanwhile) {
  Plane plane({rule_with(Algorithm::sliding_window, 10)}, 2);
  plane.settled = false;
  plane.admitted_of(2, start);
  meanwhile = [&] {
    plane.turn({0, 1});
    plane.publish_only();
    EXPECT_EQ(plane.admitted_of(3, start, 1), 3);
  };
  EXPECT_EQ(admitted_of_burst(plane, 5), 5);
}

TEST(SlidingWindowWorker, NothingIsDrawnForASpanWhoseNextHasEndedToo) {
  Plane plane({rule_with(Algorithm::sliding_window, 10)}, 2);
  meanwhile = [&] {
    for (int i = 0; i < 2; ++i) {
      plane.turn({1});
      plane.publish_only();
    }
    EXPECT_EQ(plane.admitted_of(7, start, 1), 7);
  };
  EXPECT_EQ(admitted_of_burst(plane, 5), 0);
}

TEST(SlidingWindowWorker, WhoHasNotReportedSinceTheSpanEndedCountsInTheNextOneAtItsNextCall) {
  Plane plane({rule_with(Algorithm::sliding_window, 10)}, 2);
  plane.admitted_of(2, start);
  plane.turn({0, 1});
  plane.settled = false;
  plane.publish_only();
  EXPECT_EQ(plane.admitted_of(7, start, 1), 7);
  EXPECT_EQ(plane.admitted_of(5, start), 1);
  ASSERT_NE(plane.tables[1].locate(plane.key()), SpanTable::nowhere);
  EXPECT_EQ(plane.tables[1].admitted(plane.tables[1].locate(plane.key())), 1U);
}

KeyFilter filter_of(std::uint64_t key) {
  KeyFilter filter;
  filter.assign({&key, 1});
  return filter;
}

TEST(SlidingWindowWorker, ALightKeyHasALittleLess) {
  Plane plane({rule_with(Algorithm::sliding_window, 10)});
  plane.light_keys = filter_of(plane.key());
  plane.light_allowance = 8;
  plane.publish();
  EXPECT_EQ(plane.admitted_of(9, start), 8);
  plane.turn({0});
  plane.settled = false;
  plane.publish();
  EXPECT_EQ(plane.admitted_of(9, start + 1s), 0);  // it was light before it drew these eight
}

TEST(SlidingWindowWorker, WhatIsPublishedOfAKeyHoldsForALightOne) {
  Plane plane({rule_with(Algorithm::sliding_window, 10)});
  plane.light_keys = filter_of(plane.key());
  plane.light_allowance = 3;
  plane.publish({{.key = plane.key(), .terms = {7, 0}}});
  EXPECT_EQ(plane.admitted_of(9, start), 7);
}

TEST(SlidingWindowWorker, KeysOfOtherAlgorithmsAreNotLight) {
  Plane plane({rule_with(Algorithm::fixed_window, 10)});
  plane.light_keys = filter_of(plane.key());
  plane.light_allowance = 3;
  plane.publish();
  EXPECT_EQ(plane.admitted_of(9, start), 9);
}

TEST(SlidingWindowWorker, AKeyOfWhichNothingIsKnownHasWhatIsPublishedOfSuch) {
  Plane plane({rule_with(Algorithm::sliding_window, 10)});
  plane.unknown_allowance = 2;
  plane.publish();
  EXPECT_EQ(plane.admitted_of(9, start), 2);
}

TEST(SlidingWindowWorker, WhatWasGivenBackThoughItWasNeverDrawnIsNoReasonToRefuse) {
  Plane plane({rule_with(Algorithm::sliding_window, 10)});
  plane.pools[0]->claim(plane.key(), AllowancePool::controller).cell->give_back(3);
  plane.turn({0});
  plane.settled = false;
  plane.publish();
  EXPECT_EQ(plane.admitted_of(20, start), 10);
}

// Token and leaky bucket.

class Bucket : public ::testing::TestWithParam<Algorithm> {};

TEST_P(Bucket, AdmitsItsBurstAndThenItsRate) {
  Plane plane({rule_with(GetParam(), 10)});
  EXPECT_EQ(plane.admitted_of(50, start), 10);
  EXPECT_FALSE(plane.admits(start + 100ms - 1ns));
  EXPECT_EQ(plane.admitted_of(50, start + 100ms), 1);
  EXPECT_EQ(plane.admitted_of(50, start + 600ms), 5);
}

TEST_P(Bucket, TellsWhatRemainsWhenTheNextTokenComesAndWhenItIsFull) {
  Plane plane({rule_with(GetParam(), 10)});
  const Decision first = plane.decide(start, "ann", 0, 0, 4);
  EXPECT_EQ(first.remaining, 6U);
  EXPECT_EQ(first.reset_after, Duration(400ms));
  EXPECT_TRUE(plane.admits(start, "ann", 0, 0, 6));
  const Decision refused = plane.decide(start);
  EXPECT_EQ(refused.verdict, Verdict::block);
  EXPECT_EQ(refused.retry_after, Duration(100ms));
  EXPECT_EQ(refused.reset_after, Duration(1s));
  EXPECT_EQ(plane.decide(start, "ann", 0, 0, 3).retry_after, Duration(300ms));
}

// What other nodes have admitted is taken whether it is there or not.
TEST_P(Bucket, InDebtTellsWhenThatIsPaid) {
  Plane plane({rule_with(GetParam(), 10)});
  EXPECT_TRUE(plane.admits(start, "ann", 0, 0, 10));
  BucketCell(*plane.pools[0]->find(plane.key())).charge(5, plane.terms[0].bucket, start);
  const Decision refused = plane.decide(start, "ann", 0, 0, 2);
  EXPECT_EQ(refused.verdict, Verdict::block);
  EXPECT_EQ(refused.remaining, 0U);
  EXPECT_EQ(refused.retry_after, Duration(700ms));
  EXPECT_EQ(refused.reset_after, Duration(1500ms));
  EXPECT_EQ(plane.decide(start + 600ms, "ann", 0, 0, 2).retry_after, Duration(100ms));
  EXPECT_TRUE(plane.admits(start + 700ms, "ann", 0, 0, 2));
}

TEST_P(Bucket, ARequestLargerThanItNeverPasses) {
  Plane plane({rule_with(GetParam(), 10)});
  const Decision refused = plane.decide(start, "ann", 0, 0, 11);
  EXPECT_EQ(refused.verdict, Verdict::block);
  EXPECT_EQ(refused.retry_after, Duration::max());
}

TEST_P(Bucket, AtFourTimesThePriceAQuarterPasses) {
  Plane plane({rule_with(GetParam(), 40)});
  plane.publish({{.key = plane.key(), .terms = {any, 4 * full_price}}});
  const Decision first = plane.decide(start);
  EXPECT_EQ(first.remaining, 9U);
  EXPECT_EQ(plane.admitted_of(100, start), 9);
  EXPECT_EQ(plane.decide(start).retry_after, Duration(100ms));  // four tokens at 40 a second
  EXPECT_EQ(plane.admitted_of(100, start + 500ms), 5);
}

TEST_P(Bucket, IsNotFullAgainAfterItsWindowHasTurned) {
  Plane plane({rule_with(GetParam(), 10)});
  EXPECT_EQ(plane.admitted_of(50, start + 900ms), 10);
  plane.turn({0});
  plane.publish();
  EXPECT_FALSE(plane.admits(start + 999ms));
  EXPECT_EQ(plane.admitted_of(50, start + 1400ms), 5);
  EXPECT_EQ(plane.tables[1].find(plane.key())->admitted, 5U);
}

TEST_P(Bucket, AWorkerLeftInTheOldWindowFollowsTheBucketToTheNewOne) {
  Plane plane({rule_with(GetParam(), 10)}, 2);
  EXPECT_EQ(plane.admitted_of(3, start + 900ms, 0), 3);
  EXPECT_EQ(plane.admitted_of(3, start + 900ms, 1), 3);
  plane.turn({0});
  plane.publish();  // worker 1 has taken it up, but counts in its old table
  EXPECT_EQ(plane.admitted_of(2, start + 900ms, 0), 2);
  EXPECT_EQ(plane.admitted_of(50, start + 900ms, 1), 2);
  EXPECT_FALSE(plane.admits(start + 900ms, "ann", 0));
}

TEST_P(Bucket, AWorkerThatHasNotHeardOfTheTurnFollowsTheBucketAllTheSame) {
  Plane plane({rule_with(GetParam(), 10)}, 2);
  EXPECT_EQ(plane.admitted_of(3, start + 900ms, 0), 3);
  EXPECT_EQ(plane.admitted_of(3, start + 900ms, 1), 3);
  plane.turn({0});
  plane.publish_only();
  plane.cores[0]->quiescent();
  EXPECT_EQ(plane.admitted_of(1, start + 900ms, 0), 1);
  EXPECT_TRUE(plane.admits(start + 900ms, "ann", 1));
  plane.cores[1]->quiescent();
  EXPECT_EQ(plane.admitted_of(50, start + 900ms, 1), 2);
}

// Else what it draws there would be forgotten with the next window, which asks this one.
TEST_P(Bucket, AWorkerThatHasNotHeardOfTheTurnTakesTheBucketAlongWhereNobodyHasYet) {
  for (const bool by_bursts : {false, true}) {
    Plane plane({rule_with(GetParam(), 10)}, 2);
    const auto admitted_of = [&](int times) {
      return by_bursts ? plane.admitted_of_burst(times, start + 900ms, 1)
                       : plane.admitted_of(times, start + 900ms, 1);
    };
    EXPECT_EQ(admitted_of(3), 3);
    plane.turn({0});
    plane.publish_only();
    plane.cores[0]->quiescent();
    EXPECT_EQ(admitted_of(4), 4);
    plane.pools[2]->clear();  // the next one
    plane.turn({0});
    plane.publish_only();
    plane.cores[0]->quiescent();
    EXPECT_EQ(plane.admitted_of(50, start + 900ms, 0), 3);
  }
}

TEST_P(Bucket, AWorkerLeftInTheOldWindowTellsWhatIsInTheNewOne) {
  Plane plane({rule_with(GetParam(), 10)}, 2);
  EXPECT_EQ(plane.admitted_of(3, start + 900ms, 1), 3);
  plane.turn({0});
  plane.publish();
  EXPECT_EQ(plane.admitted_of(2, start + 900ms, 0), 2);
  const auto look = [&] { return plane.decide(start + 900ms, "ann", 1, 0, 0); };
  EXPECT_EQ(look().remaining, 5U);
  EXPECT_EQ(look().reset_after, Duration(500ms));
  EXPECT_EQ(plane.admitted_of(1, start + 900ms, 1), 1);
  EXPECT_EQ(look().remaining, 4U);
  EXPECT_EQ(plane.admitted_of(4, start + 900ms, 0), 4);
  EXPECT_EQ(look().remaining, 0U);
  EXPECT_EQ(look().retry_after, Duration(100ms));
}

TEST_P(Bucket, AWorkerThatHasNotHeardOfTheTurnTellsWhatIsInTheNewWindowToo) {
  Plane plane({rule_with(GetParam(), 10)}, 2);
  EXPECT_EQ(plane.admitted_of(3, start + 900ms, 1), 3);
  plane.turn({0});
  plane.publish_only();
  plane.cores[0]->quiescent();
  EXPECT_EQ(plane.admitted_of(2, start + 900ms, 0), 2);
  const Decision looked = plane.decide(start + 900ms, "ann", 1, 0, 0);
  EXPECT_EQ(looked.remaining, 5U);
  EXPECT_EQ(looked.reset_after, Duration(500ms));
}

/// The next window begins, in which new keys have taken all cells before anybody else comes.
void turn_into_a_crowd(Plane& plane) {
  plane.turn({0});
  for (std::uint64_t i = 1; i < 5000; ++i)
    plane.pools[0]->claim(i * 0x9e3779b97f4a7c15, AllowancePool::controller);
  plane.publish();
}
/// Somebody who shares this one's cell then.
std::string who_shares_with(Plane& plane, const std::string& user) {
  AllowanceCell* const shared = plane.pools[0]->shared_one(plane.key(user));
  for (int i = 0;; ++i)
    if (std::string other = std::to_string(i); plane.pools[0]->shared_one(plane.key(other)) == shared)
      return other;
}

TEST_P(Bucket, WhoFindsNoCellOfHisOwnAnyMoreHasNoneThatOthersHaveBegun) {
  Plane plane({rule_with(GetParam(), 8)});
  EXPECT_EQ(plane.admitted_of(9, start + 900ms), 8);
  turn_into_a_crowd(plane);
  const std::string other = who_shares_with(plane, "ann");
  EXPECT_TRUE(plane.admits(start + 1100ms, other));
  EXPECT_EQ(plane.admitted_of(9, start + 1100ms), 1) << "1.6 tokens have come";
  const Decision refused = plane.decide(start + 1100ms);
  EXPECT_EQ(refused.remaining, 0U);
  EXPECT_EQ(refused.retry_after, Duration(50ms));
  EXPECT_EQ(refused.reset_after, Duration(925ms));
  int admitted = 0;
  for (int i = 0; i < 9; ++i) admitted += plane.admits(start + 1100ms, other);
  EXPECT_EQ(admitted, 6) << "what is refused to one is not taken from those he shares with";
}

TEST_P(Bucket, WhoSharesACellThatNobodyHasBegunBringsHisLevel) {
  Plane plane({rule_with(GetParam(), 8)});
  EXPECT_EQ(plane.admitted_of(9, start + 900ms), 8);
  turn_into_a_crowd(plane);
  int admitted = 0;
  for (Duration at = 1000ms; at <= 1900ms; at += 50ms) admitted += plane.admitted_of(9, start + at);
  EXPECT_EQ(admitted, 8) << "as many as have come";
  plane.pools[2]->clear();
  plane.turn({0});
  plane.publish();
  EXPECT_EQ(plane.admitted_of(9, start + 1900ms), 0);
}

TEST_P(Bucket, WhoComesToASharedCellFirstTakesNothingFromThoseWhoHaveDrawnThereBefore) {
  Plane plane({rule_with(GetParam(), 8)});
  EXPECT_EQ(plane.admitted_of(9, start + 900ms), 8);
  const std::string other = who_shares_with(plane, "ann");
  // As where the pool before was crowded, too.
  BucketCell(*plane.pools[0]->shared_one(plane.key()))
      .take_over(nullptr, plane.terms[0].bucket, start + 900ms);
  turn_into_a_crowd(plane);
  EXPECT_EQ(plane.admitted_of(9, start + 900ms), 0);
  int admitted = 0;
  for (int i = 0; i < 9; ++i) admitted += plane.admits(start + 900ms, other);
  EXPECT_EQ(admitted, 8);
}

TEST_P(Bucket, OfWhoFindsNoCellOfHisOwnAnyMoreLosesNothingWhereAnotherRuleRefuses) {
  Rule all = rule_with(Algorithm::fixed_window, 3);
  all.name = "all";
  Rule rule = rule_with(GetParam(), 8);
  rule.key = {by_header("user")};
  Plane plane({rule, all});
  const auto admitted = [&] {
    int count = 0;
    for (int i = 0; i < 9; ++i) count += plane.admits_request(start + 900ms, "ann");
    return count;
  };
  EXPECT_EQ(admitted(), 3);
  turn_into_a_crowd(plane);
  EXPECT_EQ(admitted(), 3);
  EXPECT_EQ(plane.admitted_of(9, start + 900ms), 2);
}

// Tokens that were drawn ahead while they cost one each are no more where they cost four.
TEST_P(Bucket, WhatAWorkerHasDrawnGoesBackForWhatItCost) {
  Plane plane({rule_with(GetParam(), 1000)}, 1, 100);
  const auto costs = [&](TokenPrice price) {
    plane.publish({{.key = plane.key(), .terms = {any, price}, .rule = 0}});
    return plane.decide(start, "ann", 0, 0, 0).remaining;
  };
  EXPECT_TRUE(plane.admits(start));
  EXPECT_EQ(costs(4 * full_price), 999U / 4);
  EXPECT_TRUE(plane.admits(start));
  EXPECT_EQ(costs(full_price), 995U);
}

TEST_P(Bucket, SeveralWorkersDrawAheadAndTogetherGetTheBurst) {
  Plane plane({rule_with(GetParam(), 1000)}, 4, 3);
  EXPECT_EQ(plane.decide(start).remaining, 999U);  // three of them drawn, and still its own to admit
  std::uint64_t admitted = 1;
  for (int i = 0; i < 4000; ++i) admitted += plane.admits(start, "ann", static_cast<unsigned>(i % 4));
  EXPECT_EQ(admitted, 1000U);
}

TEST_P(Bucket, ARuleThatIsClosedAdmitsNothing) {
  Plane plane({rule_with(GetParam(), 10)});
  plane.defaults[0].allowance = 0;
  plane.publish();
  const Decision refused = plane.decide(start);
  EXPECT_EQ(refused.verdict, Verdict::block);
  EXPECT_EQ(refused.remaining, 0U);
  EXPECT_EQ(refused.retry_after, Duration(100ms));
}

TEST_P(Bucket, DecidesOnBurstsAsOnEachOfTheirRequests) {
  constexpr std::uint64_t seed = 11;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::vector<std::string> users{"ann", "bob", "cid", "dan", "eve", "fay"};
  Plane bursts({rule_with(GetParam(), 40)});
  Plane singles({rule_with(GetParam(), 40)});
  const auto expect_equal_counts = [&] {
    for (const std::string& user : users) {
      const auto found = bursts.tables[bursts.table_of_worker[0]].find(bursts.key(user));
      const auto expected = singles.tables[singles.table_of_worker[0]].find(singles.key(user));
      ASSERT_EQ(found.has_value(), expected.has_value());
      if (!found) continue;
      EXPECT_EQ(found->offered, expected->offered);
      EXPECT_EQ(found->admitted, expected->admitted);
      EXPECT_EQ(found->credit, expected->credit);
    }
  };
  const auto publish = [&](const std::vector<KeyState>& states) {
    bursts.publish(states);
    singles.publish(states);
  };
  MonotonicTime now = start;
  std::size_t admitted = 0;
  std::size_t refused = 0;
  for (int turn = 0; turn < 400; ++turn) {
    now += Duration(1ms) * (random() % 40);
    if (now >= bursts.window_ends) {
      expect_equal_counts();
      bursts.turn({0});
      singles.turn({0});
      publish({});
    } else if (random() % 8 == 0) {
      const std::uint64_t closed = random() % 2 * any;
      publish({{.key = bursts.key(users[random() % 3]), .terms = {any, full_price * (1 + random() % 4)}},
               {.key = bursts.key(users[3 + random() % 3]), .terms = {closed, full_price}}});
    }
    std::vector<Key> keys;
    for (std::size_t i = 1 + random() % 40; i > 0; --i) {
      keys.push_back(bursts.cores[0]->key(0, users[random() % users.size()]));
      keys.back().weight = random() % 2 == 0 ? 1 : static_cast<std::uint32_t>(random() % 4);
    }
    std::vector<Verdict> verdicts(keys.size());
    bursts.cores[0]->admit_keys(keys, now, verdicts, {});
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys[i].weight == 0) continue;  // tells of the end of the burst
      const Decision expected = singles.decide(now, std::string(keys[i].value), 0, 0, keys[i].weight);
      ASSERT_EQ(verdicts[i], expected.verdict) << "turn " << turn << ", key " << i;
      ++(verdicts[i] == Verdict::admit ? admitted : refused);
    }
  }
  expect_equal_counts();
  EXPECT_GT(admitted, 500U);
  EXPECT_GT(refused, 500U);
}

TEST_P(Bucket, ABurstFollowsTheBucketToTheNewWindow) {
  Plane plane({rule_with(GetParam(), 10)}, 2);
  EXPECT_EQ(plane.admitted_of_burst(3, start + 900ms, 0), 3);
  EXPECT_EQ(plane.admitted_of_burst(3, start + 900ms, 1), 3);
  plane.turn({0});
  plane.publish_only();
  plane.cores[0]->quiescent();
  EXPECT_EQ(plane.admitted_of_burst(2, start + 900ms, 0), 2);
  EXPECT_EQ(plane.admitted_of_burst(1, start + 900ms, 1), 1);  // though it has not heard of it
  plane.cores[1]->quiescent();
  // It counts in its old table still, so its entry names the cell that the bucket has left.
  EXPECT_EQ(plane.admitted_of_burst(9, start + 900ms, 1), 1);
  EXPECT_EQ(plane.admitted_of_burst(9, start + 900ms, 0), 0);
}

TEST_P(Bucket, ABurstPassesWhereTheRuleOnlyObservesAndWhatWouldNotIsCounted) {
  Rule rule = rule_with(GetParam(), 10);
  rule.action = Action::observe;
  Plane plane({rule});
  EXPECT_EQ(plane.admitted_of_burst(1, start), 1);
  EXPECT_EQ(plane.admitted_of_burst(20, start), 20);
  EXPECT_EQ(plane.tables[0].find(plane.key())->offered, 21U);
  EXPECT_EQ(plane.tables[0].find(plane.key())->admitted, 10U);
}

INSTANTIATE_TEST_SUITE_P(Worker, Bucket, ::testing::Values(Algorithm::token_bucket, Algorithm::leaky_bucket),
                         [](const auto& tested) {
                           return is_bucket(tested.param) && tested.param == Algorithm::token_bucket
                                      ? "token"
                                      : "leaky";
                         });

// Rules without grants.

/// Bursts are held against what comes of the same requests, one after the other.
class WithoutGrants : public ::testing::TestWithParam<Algorithm> {
 protected:
  static Rule rule(std::uint64_t limit = 40) {
    Rule rule = rule_with(GetParam(), limit);
    rule.key = {by_header("user")};
    rule.cooldown = 150ms;
    return rule;
  }
  static KeyTerms terms(std::uint64_t limit, std::uint64_t part) {
    return is_bucket(GetParam()) ? KeyTerms{any, full_price * part} : KeyTerms{limit / part, 0};
  }
  /// The span ends; keys stay known.
  static void flip(Plane& plane) {
    for (unsigned worker = 0; worker < plane.cores.size(); ++worker) {
      plane.table_of_worker[worker] ^= 1;
      plane.table(worker).close();
    }
  }
  static void end_window(Plane& plane) {
    plane.turn({});
    plane.pools[0]->clear();
    flip(plane);
  }
};
INSTANTIATE_TEST_SUITE_P(Under, WithoutGrants,
                         ::testing::Values(Algorithm::cooldown, Algorithm::fixed_window,
                                           Algorithm::token_bucket, Algorithm::leaky_bucket),
                         [](const auto& tested) {
                           return std::string(tested.param == Algorithm::cooldown       ? "cooldown"
                                              : tested.param == Algorithm::fixed_window ? "fixed_window"
                                              : tested.param == Algorithm::token_bucket ? "token_bucket"
                                                                                        : "leaky_bucket");
                         });

TEST_P(WithoutGrants, KeysAreDecidedUponInBurstsAsOneAfterTheOtherSpanAfterSpan) {
  std::size_t admitted = 0;
  std::size_t refused = 0;
  std::size_t compared = 0;
  for (std::uint64_t run = 0; run < 60; ++run) {
    SCOPED_TRACE(::testing::Message() << "run " << run);
    std::mt19937_64 random(run);
    const unsigned workers = 1 + random() % 2;
    const std::uint64_t chunk = is_bucket(GetParam()) ? random() % 3 : 0;
    const std::uint64_t limit = random() % 3 == 0 ? 400 : 40;
    const bool draws_ahead = chunk > 0 || limit / 64 / workers > 1;
    Rule rule = WithoutGrants::rule(limit);
    if (random() % 6 == 0) rule.action = Action::observe;
    Plane bursts({rule}, workers, chunk);
    Plane singles({rule}, workers, chunk);
    std::vector<std::string> users;
    for (std::size_t i = 0, count = std::array{2, 12, 50}[random() % 3]; i < count; ++i)
      users.push_back("user-" + std::to_string(i));
    MonotonicTime now = start;
    std::vector<std::uint8_t> told = bursts.table_of_worker;
    for (int turn = 0; turn < 150; ++turn) {
      now += Duration(1ms) * (random() % 40);
      const auto both = [&](auto&& act) {
        act(bursts);
        act(singles);
      };
      const bool ends = now >= bursts.window_ends;
      if (ends)
        both([](Plane& plane) { end_window(plane); });
      else if (random() % 3 == 0)
        both([](Plane& plane) { flip(plane); });
      std::vector<KeyState> states;
      for (const std::string& user : users)
        if (random() % 8 == 0)
          states.push_back({.key = bursts.key(user), .terms = terms(limit, 1 + random() % 3)});
      if (GetParam() == Algorithm::cooldown && !states.empty()) states[0].blocked_until = now + 70ms;
      // A table that a worker is given has been drained.
      if (ends || bursts.table_of_worker != told || random() % 3 == 0)
        both([&](Plane& plane) { plane.publish(states); });
      told = bursts.table_of_worker;
      const auto worker = static_cast<unsigned>(random() % workers);
      std::vector<Key> keys;
      for (std::size_t i = 1 + random() % 40; i > 0; --i) {
        keys.push_back(bursts.cores[worker]->key(0, users[random() % users.size()]));
        // Of what has been drawn ahead, who needs no more than that is served first.
        if (!draws_ahead) keys.back().weight = static_cast<std::uint32_t>(1 + random() % 3);
      }
      std::vector<Verdict> verdicts(keys.size());
      bursts.cores[worker]->admit_keys(keys, now, verdicts);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const Decision expected = singles.decide(now, std::string(keys[i].value), worker, 0, keys[i].weight);
        ASSERT_EQ(verdicts[i], expected.verdict) << "turn " << turn << ", key " << i;
        ++(verdicts[i] == Verdict::admit ? admitted : refused);
      }
      for (const std::string& user : users) {
        const std::uint64_t key = bursts.key(user);
        const auto found = bursts.table(worker).find(key);
        const auto expected = singles.table(worker).find(key);
        ASSERT_EQ(found.has_value(), expected.has_value()) << user;
        if (!found) continue;
        ++compared;
        EXPECT_EQ(found->offered, expected->offered) << user;
        EXPECT_EQ(found->admitted, expected->admitted) << user;
        EXPECT_EQ(found->credit, expected->credit) << user;
        EXPECT_EQ(found->refused_at, expected->refused_at) << user;
        EXPECT_EQ(bursts.pools[0]->find(key)->drawn.load(), singles.pools[0]->find(key)->drawn.load())
            << user;
      }
      const auto counters_of = [&](const Plane& plane) {
        const RuleCounters& of = plane.cores[worker]->rule_counters(0);
        return std::array{of.offered(), of.admitted.read(), of.blocked.read()};
      };
      EXPECT_EQ(counters_of(bursts), counters_of(singles));
      ASSERT_FALSE(HasFailure()) << "turn " << turn;
    }
  }
  EXPECT_GT(admitted, 20'000U);
  EXPECT_GT(refused, 2'000U);
  EXPECT_GT(compared, 50'000U);
}

TEST_P(WithoutGrants, WhatAnotherWorkerHasLeftIsAllThereIsForAKeysFirstRequestInASpan) {
  Plane plane({rule()}, 2);
  EXPECT_EQ(plane.admitted_of_burst(5, start, 0), 5);
  EXPECT_EQ(plane.admitted_of_burst(5, start, 1), 5);
  flip(plane);
  plane.publish();
  flip(plane);
  plane.publish();
  EXPECT_EQ(plane.admitted_of_burst(5, start, 0), 5);
  EXPECT_EQ(plane.admitted_of_burst(32, start, 1), 25);
  EXPECT_EQ(plane.admitted_of_burst(1, start, 0), 0);
}

// Sliding log.

TEST(SlidingLogWorker, NeverAdmitsMoreThanTheLimitInAnyIntervalAcrossWindows) {
  Plane plane({rule_with(Algorithm::sliding_log, 3)});
  EXPECT_TRUE(plane.admits(start + 700ms));
  EXPECT_TRUE(plane.admits(start + 800ms));
  EXPECT_TRUE(plane.admits(start + 900ms));
  plane.turn({0});
  plane.publish();
  EXPECT_EQ(plane.admitted_of(9, start + 1699ms), 0);
  EXPECT_EQ(plane.admitted_of(9, start + 1700ms), 1);
  EXPECT_EQ(plane.admitted_of(9, start + 1850ms), 1);
}

TEST(SlidingLogWorker, TellsWhatRemainsAndWhenTheOldestOnesLeave) {
  Plane plane({rule_with(Algorithm::sliding_log, 3)});
  EXPECT_EQ(plane.decide(start).remaining, 2U);
  EXPECT_EQ(plane.decide(start + 100ms).remaining, 1U);
  const Decision third = plane.decide(start + 200ms);
  EXPECT_EQ(third.remaining, 0U);
  EXPECT_EQ(third.reset_after, Duration(1s));
  const Decision refused = plane.decide(start + 300ms);
  EXPECT_EQ(refused.verdict, Verdict::block);
  EXPECT_EQ(refused.retry_after, Duration(700ms));
  EXPECT_EQ(plane.decide(start + 300ms, "ann", 0, 0, 2).retry_after, Duration(800ms));
}

TEST(SlidingLogWorker, WorkersInDifferentWindowsWriteTheSameLog) {
  Plane plane({rule_with(Algorithm::sliding_log, 4)}, 2);
  EXPECT_TRUE(plane.admits(start + 900ms, "ann", 0));
  plane.turn({0});
  plane.publish_only();
  plane.cores[0]->quiescent();
  EXPECT_EQ(plane.admitted_of(2, start + 900ms, 1), 2);
  EXPECT_EQ(plane.admitted_of(9, start + 900ms, 0), 1);
  EXPECT_FALSE(plane.admits(start + 900ms, "ann", 1));
}

TEST(SlidingLogWorker, WhatIsAdmittedBeforeAWorkerHasHeardOfTheNextWindowIsKnownInTheOneAfterIt) {
  for (const bool scarce : {false, true}) {
    Plane plane({rule_with(Algorithm::sliding_log, 4)}, 2);
    while (scarce && plane.logs[0]->take(true) != LogPool::none) {
    }
    plane.turn({0});
    plane.publish_only();
    plane.cores[0]->quiescent();
    EXPECT_EQ(plane.admitted_of(9, start + 1050ms, 1), scarce ? 2 : 4);
    // Nobody comes in the window to which these belong.
    plane.pools[2]->clear();
    plane.turn({0, 1});
    plane.publish();
    EXPECT_EQ(plane.admitted_of(9, start + 2049ms), scarce ? 2 : 0);
  }
}

TEST(SlidingLogWorker, WhoFindsNoCellOfHisOwnAnyMoreHasNoMoreThanHisLimitAllTheSame) {
  Plane plane({rule_with(Algorithm::sliding_log, 8)});
  EXPECT_EQ(plane.admitted_of(9, start + 900ms), 8);
  plane.turn({0});
  for (std::uint64_t i = 1; i < 5000; ++i)
    plane.pools[0]->claim(i * 0x9e3779b97f4a7c15, AllowancePool::controller);
  plane.publish();
  EXPECT_EQ(plane.admitted_of(9, start + 1100ms), 0);
  EXPECT_GT(plane.admitted_of(9, start + 1900ms), 0);
}

TEST(SlidingLogWorker, WhoNeedsALogGetsOneAlsoWhereOtherRulesAreAsked) {
  Rule other = rule_with(Algorithm::fixed_window, 100);
  other.name = "all";
  Rule rule = rule_with(Algorithm::sliding_log, 8);
  rule.key = {by_header("user")};
  Plane plane({rule, other});
  while (plane.logs[0]->take(false) != LogPool::none) {
  }
  int admitted = 0;
  for (int i = 0; i < 9; ++i) admitted += plane.admits_request(start, "ann");
  EXPECT_EQ(admitted, 4);
  std::size_t with_log = 0;
  plane.pools[0]->for_each_cell(
      [&](const AllowanceCell& cell) { with_log += LogName(cell.log.load()).has_log(); });
  EXPECT_EQ(with_log, 1U);
}

// Shed.

TEST(ShedWorker, AdmitsTheFractionToWithinOneRequestAtAnyTime) {
  for (const double fraction : {0.03, 0.25, 0.5, 0.9}) {
    SCOPED_TRACE(fraction);
    Plane plane({rule_with(Algorithm::shed, 100'000)});
    plane.publish({{.key = plane.key(), .terms = {100'000, fraction_of(fraction, 1)}}});
    int admitted = 0;
    for (int offered = 1; offered <= 2000; ++offered) {
      admitted += plane.admits(start);
      ASSERT_NEAR(admitted, offered * fraction, 1) << offered;
    }
  }
}

TEST(ShedWorker, OfKeysWithOneRequestEachTheFractionPasses) {
  Plane plane({rule_with(Algorithm::shed, 1000)});
  std::vector<KeyState> states;
  constexpr int keys = 40;
  for (int i = 0; i < keys; ++i)
    states.push_back({.key = plane.key("user" + std::to_string(i)), .terms = {1000, admit_all / 4}});
  int admitted = 0;
  int windows = 0;
  for (; windows < 10; ++windows) {
    plane.turn({0});
    for (auto& pool : {plane.pools[0].get()}) pool->clear();
    plane.publish(states);
    for (int i = 0; i < keys; ++i) admitted += plane.admits(start, "user" + std::to_string(i));
  }
  // Of a binomial count: four standard deviations.
  EXPECT_NEAR(admitted, windows * keys / 4.0, 4 * std::sqrt(windows * keys * 0.25 * 0.75));
}

TEST(ShedWorker, StopsAtTheAllowanceAndRetriesAfterASpan) {
  Plane plane({rule_with(Algorithm::shed, 3)});
  EXPECT_EQ(plane.admitted_of(9, start), 3);
  EXPECT_EQ(plane.decide(start).retry_after, Duration(100ms));
}

// Strict.

TEST(StrictWorker, AdmitsWhatIsLeasedAndNothingOfItself) {
  Plane plane({rule_with(Algorithm::strict, 100)});
  const Decision without = plane.decide(start);
  EXPECT_EQ(without.verdict, Verdict::block);
  EXPECT_EQ(without.retry_after, Duration(100ms));
  plane.publish({{.key = plane.key(), .terms = {3, 0}, .opens_at = start + 40ms, .opens_by = 100}});
  EXPECT_EQ(plane.admitted_of(9, start), 3);
  EXPECT_EQ(plane.decide(start).retry_after, Duration(40ms));
}

TEST(StrictWorker, ALeaseThatIsLoweredIsObeyedByTheNextRequest) {
  Plane plane({rule_with(Algorithm::strict, 100)});
  plane.publish({{.key = plane.key(), .terms = {50, 0}}});
  EXPECT_EQ(plane.admitted_of(5, start), 5);
  plane.publish({{.key = plane.key(), .terms = {7, 0}}});
  EXPECT_EQ(plane.admitted_of(9, start), 2);
}

// It is late, and has taken up its table too late for the controller to see that.
TEST(StrictWorker, WhatIsLeasedOfTheNextIntervalIsNotDrawnInTheLastOne) {
  Plane plane({rule_with(Algorithm::strict, 100)});
  plane.publish({{.key = plane.key(), .terms = {5, 0}}});
  EXPECT_EQ(plane.admitted_of(9, start), 5);
  plane.turn({});
  plane.publish({{.key = plane.key(), .terms = {9, 0}}});
  EXPECT_EQ(plane.admitted_of(20, start), 0);
  plane.turn({0});
  plane.publish({{.key = plane.key(), .terms = {9, 0}}});
  EXPECT_EQ(plane.admitted_of(20, start), 9);
}

TEST(StrictWorker, AKeyThatFindsNoRoomInTheTableDrawsNothingOnItsLease) {
  Plane plane({rule_with(Algorithm::strict, 100)});
  for (int i = 0; i < 1000; ++i) plane.admits(start, "user" + std::to_string(i));
  ASSERT_FALSE(plane.tables[0].find(plane.key()));
  plane.publish({{.key = plane.key(), .terms = {50, 0}}});
  EXPECT_FALSE(plane.admits(start));
  ASSERT_FALSE(plane.tables[0].find(plane.key()));
  EXPECT_EQ(plane.tables[0].overflows()[0].admitted, 0U);
}

// All of them.

class EveryAlgorithm : public ::testing::TestWithParam<Algorithm> {
 protected:
  /// A rule for all requests together, or for each user, with quota where it has to be leased.
  static void lease(Plane& plane, std::uint64_t quota) {
    for (std::size_t i = 0; i < plane.rules.size(); ++i)
      if (plane.rules[i].algorithm == Algorithm::strict) plane.defaults[i].allowance = quota;
    plane.publish();
  }
};

TEST_P(EveryAlgorithm, LookingTakesNothing) {
  Plane plane({rule_with(GetParam(), 10)});
  lease(plane, 10);
  for (int i = 0; i < 20; ++i) {
    const Decision seen = plane.decide(start, "ann", 0, 0, 0);
    EXPECT_EQ(seen.verdict, Verdict::admit);
    EXPECT_EQ(seen.remaining, 10U);
  }
  EXPECT_EQ(plane.admitted_of(50, start), 10);
  const Decision seen = plane.decide(start, "ann", 0, 0, 0);
  EXPECT_EQ(seen.verdict, Verdict::block);
  EXPECT_EQ(seen.remaining, 0U);
  EXPECT_EQ(plane.tables[0].find(plane.key())->offered, 50U);
}

TEST_P(EveryAlgorithm, AParentIsNotChargedForWhatItsChildRefuses) {
  Rule parent = rule_with(GetParam(), 10);
  parent.name = "parent";
  Rule child = rule_with(Algorithm::fixed_window, 2);
  child.key = {by_header("user")};
  Plane plane({parent, child});
  lease(plane, 10);
  int admitted = 0;
  for (const std::string user : {"ann", "bob", "cho", "dee"})
    for (int i = 0; i < 50; ++i) admitted += plane.admits_request(start, user);
  EXPECT_EQ(admitted, 8);
  // What is left of the parent is there for others.
  for (const std::string user : {"eve", "fay", "gil"})
    for (int i = 0; i < 50; ++i) admitted += plane.admits_request(start, user);
  EXPECT_EQ(admitted, 10);
}

TEST_P(EveryAlgorithm, AChildIsNotChargedForWhatItsParentRefuses) {
  Rule child = rule_with(GetParam(), 10);
  child.key = {by_header("user")};
  Rule parent = rule_with(Algorithm::fixed_window, 4);
  parent.name = "parent";
  Plane plane({child, parent});
  lease(plane, 10);
  int admitted = 0;
  for (int i = 0; i < 50; ++i) admitted += plane.admits_request(start, "ann");
  EXPECT_EQ(admitted, 4);
  const Header header{"user", "ann"};
  Request request;
  request.headers = std::span(&header, 1);
  Classifier::Scratch scratch;
  KeyBytes bytes;
  plane.classifier.match(request, scratch);
  plane.classifier.make_key(0, request, scratch, bytes);
  const std::optional<CountedKey> entry = plane.tables[0].find(plane.cores[0]->key_of(0, bytes.bytes()));
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->admitted, 4U);
  if (is_bucket(GetParam())) {
    const BucketTerms& bucket = plane.terms[0].bucket;
    EXPECT_EQ(bucket.tokens(BucketCell(*entry->cell).available(bucket, start)) + entry->credit, 6U);
  } else if (GetParam() == Algorithm::sliding_log) {
    EXPECT_EQ(LogCell(*entry->cell, *plane.logs[0]).look(start).remaining, 6U);
  } else {
    EXPECT_EQ(entry->cell->drawn.load() - entry->credit, 4U);
  }
}

TEST_P(EveryAlgorithm, ObservingRefusesNothingAndCountsWhatItWouldHaveAdmitted) {
  Rule rule = rule_with(GetParam(), 10);
  rule.action = Action::observe;
  Plane plane({rule});
  lease(plane, 10);
  EXPECT_EQ(plane.admitted_of(50, start), 50);
  EXPECT_EQ(plane.tables[0].find(plane.key())->admitted, 10U);
  EXPECT_EQ(plane.tables[0].find(plane.key())->offered, 50U);
}

TEST_P(EveryAlgorithm, AHeavyRequestTakesItsWeightOrNothing) {
  Plane plane({rule_with(GetParam(), 10)});
  lease(plane, 10);
  EXPECT_TRUE(plane.admits(start, "ann", 0, 0, 7));
  EXPECT_FALSE(plane.admits(start, "ann", 0, 0, 4));
  EXPECT_TRUE(plane.admits(start, "ann", 0, 0, 3));
  EXPECT_EQ(plane.tables[0].find(plane.key())->admitted, 10U);
}

INSTANTIATE_TEST_SUITE_P(Worker, EveryAlgorithm,
                         ::testing::Values(Algorithm::fixed_window, Algorithm::sliding_window,
                                           Algorithm::token_bucket, Algorithm::leaky_bucket,
                                           Algorithm::sliding_log, Algorithm::shed, Algorithm::strict),
                         [](const auto& tested) {
                           std::string name(to_string(tested.param));
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

// Entries that need more room than others, see shared/span_table.h.

constexpr std::uint64_t four_gib = std::uint64_t{1} << 32;
constexpr std::uint32_t some_keys = 8192;

TEST(SlidingWindowWorker, AdmitsAllOfALimitBeyond32BitsAndNoMore) {
  Plane plane({rule_with(Algorithm::sliding_window, 2 * four_gib + 5)});
  constexpr std::uint32_t heavy = std::uint32_t{1} << 31;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(plane.admits(start, "ann", 0, 0, heavy)) << i;
  EXPECT_FALSE(plane.admits(start, "ann", 0, 0, heavy));
  EXPECT_EQ(plane.admitted_of(10, start), 5);
  EXPECT_EQ(plane.tables[0].find(plane.key())->admitted, 2 * four_gib + 5);
  EXPECT_EQ(plane.tables[0].find(plane.key())->offered, 2 * four_gib + heavy + 10);
}

TEST(CooldownWorker, WhoWasRefusedAsAnIntervalEndedIsSoByAllWorkersUntilThatHasBeenJudged) {
  Plane plane({rule_with(Algorithm::cooldown, 1)}, 2);
  EXPECT_TRUE(plane.admits(start));
  EXPECT_FALSE(plane.admits(start + 999ms));
  plane.judged = false;
  plane.turn({0, 1});
  plane.publish();
  EXPECT_FALSE(plane.admits(start + 1s, "ann", 1));
  EXPECT_TRUE(plane.admits(start + 1s, "bob", 1));
  plane.judged = true;  // and pardoned
  plane.publish();
  EXPECT_TRUE(plane.admits(start + 1s, "ann", 1));
}

TEST(CooldownWorker, ABlockThatHasEndedIsNoneAndTakesNoMemory) {
  Plane plane({rule_with(Algorithm::cooldown, 100)});
  for (const Duration ended : {0ns, 1ns, 3'000'000'000ns}) {
    plane.publish({{.key = plane.key(), .terms = {100, 0}, .blocked_until = start - ended}});
    EXPECT_TRUE(plane.admits(start));
  }
  // Nor one that a worker's mark tells of.
  AllowanceCell* const cell = plane.pools[0]->find(plane.key());
  ASSERT_NE(cell, nullptr);
  cell->refused_at.store((start - 5s).time_since_epoch().count());
  plane.publish();
  EXPECT_TRUE(plane.admits(start));
  EXPECT_EQ(plane.tables[0].rests(), 0U);
  cell->refused_at.store((start - 5s + 1ns).time_since_epoch().count());
  plane.publish();
  EXPECT_FALSE(plane.admits(start));
  plane.publish({{.key = plane.key(), .terms = {100, 0}, .blocked_until = start + 1ns}});
  EXPECT_FALSE(plane.admits(start));
  EXPECT_EQ(plane.tables[0].rests(), 1U);
}

TEST(WithoutMemoryForARest, AnAllowanceBeyond32BitsIsAdmittedExactly) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  for (const Algorithm algorithm :
       {Algorithm::fixed_window, Algorithm::sliding_window, Algorithm::cooldown}) {
    Plane plane({rule_with(algorithm, 2 * four_gib)}, 1, 0, some_keys);
    const testing::ShortOfRests shortage(plane.tables[0]);
    constexpr std::uint32_t heavy = std::uint32_t{1} << 30;
    std::uint64_t admitted = 0;
    for (int i = 0; i < 12; ++i) admitted += plane.admits(start, "ann", 0, 0, heavy) ? heavy : 0;
    EXPECT_EQ(admitted, 2 * four_gib);
    EXPECT_EQ(plane.tables[0].overflows()[0].admitted, admitted);
    EXPECT_EQ(plane.tables[0].overflows()[0].offered, 12 * std::uint64_t{heavy});
  }
}

TEST(WithoutMemoryForARest, ABlockOfThePublicationIsObeyedAndWhatItRefusesIsCounted) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  Plane plane({rule_with(Algorithm::cooldown, 100)}, 1, 0, some_keys);
  const testing::ShortOfRests shortage(plane.tables[0]);
  EXPECT_EQ(plane.admitted_of(10, start), 10);
  plane.publish({{.key = plane.key(), .terms = {100, 0}, .blocked_until = start + 10ms}});
  EXPECT_EQ(plane.admitted_of(7, start + 9ms), 0);
  EXPECT_EQ(plane.tables[0].overflows()[0].offered, 7U);
  EXPECT_EQ(plane.decide(start + 9ms).retry_after, Duration(1ms));
  EXPECT_EQ(plane.admitted_of(200, start + 10ms), 90);
  EXPECT_EQ(plane.tables[0].find(plane.key())->admitted, 100U);
  EXPECT_EQ(plane.tables[0].find(plane.key())->offered + plane.tables[0].overflows()[0].offered, 218U);
}

TEST(WithoutMemoryForARest, AKeyThatUsesUpItsLimitIsRefusedThoughItIsNotBlocked) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  Plane plane({rule_with(Algorithm::cooldown, 5)}, 1, 0, some_keys);
  const testing::ShortOfRests shortage(plane.tables[0]);
  EXPECT_EQ(plane.admitted_of(50, start), 5);
  const std::optional<CountedKey> counted = plane.tables[0].find(plane.key());
  EXPECT_EQ(counted->admitted, 5U);
  EXPECT_EQ(counted->offered, 50U);
  EXPECT_EQ(counted->refused_at, never);
  EXPECT_EQ(plane.tables[0].overflows()[0].offered, 0U);
}

TEST(WithoutMemoryForARest, OfAKeyThatIsShedTheFractionPasses) {
  if (!can_provide_pages()) GTEST_SKIP() << "this kernel provides all pages at once";
  for (const double fraction : {0.0, 0.03, 0.25, 0.5, 0.9}) {
    SCOPED_TRACE(fraction);
    Plane plane({rule_with(Algorithm::shed, 100'000)}, 1, 0, some_keys);
    const testing::ShortOfRests shortage(plane.tables[0]);
    plane.publish({{.key = plane.key(), .terms = {100'000, fraction_of(fraction, 1)}}});
    constexpr int requests = 2000;
    const int admitted = plane.admitted_of(requests, start);
    EXPECT_NEAR(admitted, requests * fraction, requests / 100.0);
    EXPECT_EQ(plane.tables[0].overflows()[0].admitted, static_cast<std::uint64_t>(admitted));
    EXPECT_EQ(plane.tables[0].overflows()[0].offered, static_cast<std::uint64_t>(requests));
  }
}

}  // namespace
}  // namespace weir
