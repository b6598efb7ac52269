// SPDX-License-Identifier: BSD-3-Clause
// The worker against publications made by hand: no controller, no engine.
#include "dataplane/worker_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weir {
namespace {

using namespace std::chrono_literals;

Rule rule_of(std::string name, std::uint64_t limit, std::vector<Dimension> key = {}) {
  Rule rule;
  rule.name = std::move(name);
  rule.limit = limit;
  rule.interval = 1s;
  rule.cooldown = 5s;
  rule.action = Action::drop;
  rule.key = std::move(key);
  return rule;
}

Dimension by_header(std::string name) { return {.kind = Dimension::Kind::header, .name = std::move(name)}; }

Rule window_of(std::uint64_t limit) {
  Rule rule = rule_of("window", limit, {by_header("user")});
  rule.algorithm = Algorithm::fixed_window;
  return rule;
}

/// A data plane with its controller played by the test.
struct Plane {
  explicit Plane(std::vector<Rule> with, unsigned workers = 1, std::uint32_t keys = 64)
      : rules(std::move(with)),
        classifier(rules),
        quiescence(workers),
        slot(workers),
        running(keys, workers),
        ended(keys, workers),
        later(keys, workers) {
    for (const Rule& rule : rules)
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
                       .chunk = 0,
                       .too_heavy_counts = rule.algorithm == Algorithm::cooldown ? rule.limit + 1 : 0,
                       .logs = nullptr,
                       .bucket = {}});
    for (unsigned i = 0; i < workers * tables_per_worker; ++i) tables.emplace_back(keys, rules.size());
    for (unsigned i = 0; i < workers; ++i) {
      grants.push_back(std::make_unique<GrantTable>(keys));
      cores.push_back(
          std::make_unique<WorkerCore>(DataPlane{classifier, terms, slot, quiescence, HashKey{1, 2}}, i,
                                       std::span(tables).subspan(i * tables_per_worker, tables_per_worker),
                                       no_corrections, *grants.back()));
    }
    publish(0);
    for (auto& core : cores) core->online();
  }

  void publish(std::uint8_t table, std::vector<KeyState> states = {}, bool judged = true,
               bool next_interval = false, std::uint64_t holds_since = Publication::nothing_holds,
               const std::vector<std::uint64_t>& changed = {}) {
    auto next = std::make_unique<Publication>();
    next->generation = published.size() + 1;
    next->began = {WallTime(1000s), began};
    next->judged = judged;
    next->holds_since = holds_since;
    next->set_changed(changed);
    if (next_interval)
      next->windows.push_back({.ends = MonotonicTime(2s), .running = &later, .ended = &running});
    else
      next->windows.push_back({.ends = MonotonicTime(1s), .running = &running, .ended = &ended});
    for (const Rule& rule : rules) next->defaults.push_back({rule.limit, 0});
    next->table_of_worker.assign(cores.size(), table);
    next->grants.assign(rules.size(), grant);
    next->reserves.assign(rules.size(), grant * cores.size());
    next->reserves_before.assign(rules.size(), 0);
    next->grant_turn_of_worker.assign(cores.size(), grant_turn);
    next->refused = refused;
    next->new_keys = new_keys;
    next->reset_keys(states.size());
    std::vector<std::uint64_t> ungranted;
    next->some_ungranted.assign(rules.size(), lasting != nullptr);
    for (const KeyState& state : states) {
      next->append_key(state);
      if (state.ungranted_since == KeyState::granted) continue;
      ungranted.push_back(state.key);
      next->some_ungranted[state.rule] = true;
    }
    next->index_keys();
    next->set_blocked(lasting, lasting_at);
    next->set_ungranted(ungranted);
    slot.publish(next.get());
    published.push_back(std::move(next));
    for (auto& core : cores) core->quiescent();
  }

  /// The next window begins, 1, 2, …; three pools take turns. No worker takes it up by this. @return its pool
  AllowancePool& begin_window(std::uint64_t number) {
    const std::array<AllowancePool*, 3> pools{&running, &later, &ended};
    auto next = std::make_unique<Publication>(*published.back());
    next->generation += 1;
    next->windows = {{.ends = MonotonicTime(2s),
                      .running = pools[number % 3],
                      .ended = pools[(number - 1) % 3],
                      .settled = true,
                      .running_number = number,
                      .ended_number = number - 1,
                      .interval_number = number}};
    slot.publish(next.get());
    published.push_back(std::move(next));
    return *pools[number % 3];
  }

  std::uint64_t key(RuleIndex rule, const Request& request) {
    Classifier::Scratch scratch;
    KeyBytes bytes;
    classifier.match(request, scratch);
    classifier.make_key(rule, request, scratch, bytes);
    return cores[0]->key_of(rule, bytes.bytes());
  }

  /// Of a rule with one dimension.
  std::uint64_t key_of(std::string_view value, RuleIndex rule = 0) const {
    KeyBytes bytes;
    bytes.clear();
    bytes.add_text(value);
    return cores[0]->key_of(rule, bytes.bytes());
  }

  /// Whether the key's line alone tells the first worker, in its first table, that it is refused.
  bool refuses_at_a_glance(std::uint64_t key) {
    std::uint32_t nothing = 0;
    return SpanTable::Lines::refuses(
        tables[0].lines().ready_at(tables[0].locate(key), key, published.back()->mark(), nothing));
  }

  std::vector<Rule> rules;
  Classifier classifier;
  std::vector<RuleTerms> terms;
  Quiescence quiescence;
  PublicationSlot slot;
  AllowancePool running;
  AllowancePool ended;
  AllowancePool later;  // of the next interval
  std::vector<SpanTable> tables;
  std::vector<CorrectionLog> no_corrections;
  std::vector<std::unique_ptr<GrantTable>> grants;
  std::vector<std::unique_ptr<WorkerCore>> cores;
  std::vector<std::unique_ptr<Publication>> published;
  // Of what is published next:
  MonotonicTime began{};
  std::uint32_t grant = 0;  // of each worker, of each key, in all rules
  std::uint32_t grant_turn = 0;
  RefusedKeys refused;
  std::uint32_t new_keys = Publication::all_new_keys;
  std::shared_ptr<const BlockedKeys> lasting;  // keys of which no more is said
  MonotonicTime lasting_at{};
};

Request get(std::string_view target = "/") {
  Request request;
  request.method = "GET";
  request.target = target;
  return request;
}

TEST(Worker, AdmitsUpToTheLimitAndRefusesFromThereOn) {
  Plane plane({rule_of("all", 3)});
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(plane.cores[0]->admit(get(), MonotonicTime(1ms)).verdict, Verdict::admit);
  const Decision refused = plane.cores[0]->admit(get(), MonotonicTime(2ms));
  EXPECT_EQ(refused.verdict, Verdict::block);
  EXPECT_EQ(refused.rule, 0);
  EXPECT_EQ(refused.action, Action::drop);
  EXPECT_EQ(refused.retry_after, Duration(5s));
  EXPECT_EQ(refused.limit, 3U);
}

TEST(Worker, ARefusedRequestMayPassWhenTheBlockHasEndedAndTheIntervalHasRoomForIt) {
  Rule rule = rule_of("user", 3, {by_header("user")});
  rule.cooldown = 300ms;
  Plane plane({rule});
  const auto decide = [&](const char* user, std::uint32_t weight, Duration at) {
    return plane.cores[0]->admit_key(0, user, weight, MonotonicTime(at));
  };
  EXPECT_EQ(decide("ann", 2, 1ms).verdict, Verdict::admit);
  EXPECT_EQ(decide("ann", 2, 2ms).retry_after, Duration(998ms)) << "the interval ends after the block";
  EXPECT_EQ(decide("ann", 2, 102ms).retry_after, Duration(898ms));
  EXPECT_EQ(decide("ann", 1, 102ms).retry_after, Duration(200ms)) << "there is room for one";
  EXPECT_EQ(decide("ann", 1, 302ms).verdict, Verdict::admit);
  EXPECT_EQ(decide("bob", 3, 900ms).verdict, Verdict::admit);
  EXPECT_EQ(decide("bob", 1, 900ms).retry_after, Duration(300ms)) << "the block ends after the interval";
}

TEST(Worker, NothingIsResetBeforeABlockEnds) {
  Plane plane({rule_of("all", 1)});
  EXPECT_EQ(plane.cores[0]->admit(get(), MonotonicTime(1ms)).reset_after, Duration(999ms));
  EXPECT_EQ(plane.cores[0]->admit(get(), MonotonicTime(1ms)).reset_after, Duration(5s));
  EXPECT_EQ(plane.cores[0]->admit(get(), MonotonicTime(11ms)).reset_after, Duration(5s - 10ms));
}

TEST(Worker, TellsWhatRemainsAndWhenTheIntervalEnds) {
  Plane plane({rule_of("all", 3)});
  const Decision first = plane.cores[0]->admit(get(), MonotonicTime(100ms));
  EXPECT_EQ(first.remaining, 2U);
  EXPECT_EQ(first.reset_after, Duration(900ms));
  EXPECT_EQ(plane.cores[0]->admit(get(), MonotonicTime(100ms)).remaining, 1U);
}

TEST(Worker, ManyWorkersTogetherAdmitExactlyTheLimitAlsoWhenItIsSmallerThanTheirNumber) {
  for (const std::uint64_t limit : {1U, 3U, 10U, 1000U}) {
    Plane plane({rule_of("all", limit)}, 8);
    std::uint64_t admitted = 0;
    for (std::uint64_t i = 0; i < 3 * limit + 8; ++i)
      admitted += plane.cores[i % 8]->admit(get(), MonotonicTime(1ms)).verdict == Verdict::admit;
    EXPECT_LE(admitted, limit);
    EXPECT_GE(admitted, limit - limit / 64);
  }
}

TEST(Worker, ARefusalByOneWorkerHoldsForAllOfThem) {
  Plane plane({rule_of("all", 1)}, 2);
  plane.cores[0]->admit(get(), MonotonicTime(1ms));
  EXPECT_EQ(plane.cores[0]->admit(get(), MonotonicTime(1ms)).verdict, Verdict::block);
  EXPECT_EQ(plane.cores[1]->admit(get(), MonotonicTime(2ms)).retry_after, Duration(5s - 1ms));
}

TEST(Worker, ARefusalHoldsAcrossTheIntervalsEndUntilItHasBeenJudged) {
  Plane plane({rule_of("all", 1)});
  const std::uint64_t key = plane.key(0, get());
  plane.ended.claim(key, 0).cell->refused_at.store(MonotonicTime(900ms).time_since_epoch().count());
  plane.ended.note_refusal(key);
  plane.publish(1, {}, false);
  EXPECT_EQ(plane.cores[0]->admit(get(), MonotonicTime(1001ms)).verdict, Verdict::block);
  plane.publish(1, {}, true);  // judged, and pardoned
  EXPECT_EQ(plane.cores[0]->admit(get(), MonotonicTime(1002ms)).verdict, Verdict::admit);
}

TEST(Worker, ObeysABlockUntilItEnds) {
  Plane plane({rule_of("all", 100)});
  plane.publish(0, {{.key = plane.key(0, get()), .terms = {100, 0}, .blocked_until = MonotonicTime(3s)}});
  EXPECT_EQ(plane.cores[0]->admit(get(), MonotonicTime(3s - 1ns)).verdict, Verdict::block);
  EXPECT_EQ(plane.cores[0]->admit(get(), MonotonicTime(3s)).verdict, Verdict::admit);
}

TEST(Worker, ObeysAPardonThoughItsNeighboursInTheTableHaveTakenUpThePublicationBefore) {
  Plane plane({rule_of("user", 100)}, 1, 8);
  const auto admit = [&](const std::string& user) {
    return plane.cores[0]->admit_key(0, user, 1, MonotonicTime(1ms)).verdict;
  };
  KeyBytes bytes;
  bytes.clear();
  bytes.add_text("ann");
  const std::uint64_t ann = plane.cores[0]->key_of(0, bytes.bytes());
  plane.publish(0, {{.key = ann, .terms = {100, 0}, .blocked_until = MonotonicTime(3s)}});
  EXPECT_EQ(admit("ann"), Verdict::block);
  const auto line_of = [&](std::uint64_t key) { return plane.tables[0].locate(key) / 8; };
  std::string neighbour;
  for (int i = 0; neighbour.empty(); ++i) {
    const std::string user = "user" + std::to_string(i);
    admit(user);
    bytes.clear();
    bytes.add_text(user);
    if (line_of(plane.cores[0]->key_of(0, bytes.bytes())) == line_of(ann)) neighbour = user;
  }
  EXPECT_EQ(admit("ann"), Verdict::block);
  plane.publish(0);
  admit(neighbour);
  EXPECT_EQ(admit("ann"), Verdict::admit);
}

TEST(Worker, TakesUpALoweredAllowanceWithinTheSpan) {
  Plane plane({rule_of("all", 100)});
  for (int i = 0; i < 10; ++i) plane.cores[0]->admit(get(), MonotonicTime(1ms));
  plane.publish(0, {{.key = plane.key(0, get()), .terms = {12, 0}}});
  int admitted = 0;
  for (int i = 0; i < 10; ++i)
    admitted += plane.cores[0]->admit(get(), MonotonicTime(2ms)).verdict == Verdict::admit;
  EXPECT_EQ(admitted, 2);
}

TEST(Worker, CountsOfferedAndAdmittedApart) {
  Plane plane({rule_of("all", 3)});
  for (int i = 0; i < 5; ++i) plane.cores[0]->admit(get(), MonotonicTime(1ms));
  const std::optional<CountedKey> entry = plane.tables[0].find(plane.key(0, get()));
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->offered, 5U);
  EXPECT_EQ(entry->admitted, 3U);
  EXPECT_EQ(entry->refused_at, MonotonicTime(1ms));
  EXPECT_EQ(plane.cores[0]->rule_counters(0).offered(), 5U);
  EXPECT_EQ(plane.cores[0]->rule_counters(0).admitted.read(), 3U);
  EXPECT_EQ(plane.cores[0]->rule_counters(0).blocked.read(), 2U);
}

TEST(Worker, MovesToItsOtherTableAtTheNextQuiescentState) {
  Plane plane({rule_of("all", 100)});
  plane.cores[0]->admit(get(), MonotonicTime(1ms));
  plane.publish(1);
  plane.cores[0]->admit(get(), MonotonicTime(2ms));
  EXPECT_EQ(plane.tables[0].find(plane.key(0, get()))->offered, 1U);
  EXPECT_EQ(plane.tables[1].find(plane.key(0, get()))->offered, 1U);
  EXPECT_EQ(plane.tables[1].began.wall, WallTime(1000s));
}

TEST(Worker, HoldsWhatItHasTakenUpUntilItComesRoundOrGoesOffline) {
  Plane plane({window_of(1)});
  WorkerCore& worker = *plane.cores[0];
  const Publication& first = *plane.published.back();
  plane.begin_window(1);
  const Publication& second = *plane.published.back();
  EXPECT_TRUE(plane.slot.is_held(first));
  EXPECT_FALSE(plane.slot.is_held(second));
  worker.quiescent();
  EXPECT_FALSE(plane.slot.is_held(first));
  EXPECT_TRUE(plane.slot.is_held(second));
  worker.offline();
  EXPECT_FALSE(plane.slot.is_held(second));
  worker.online();
  EXPECT_TRUE(plane.slot.is_held(second));
}

TEST(Worker, ThatReportsThoughItIsOfflineIsNotWaitedFor) {
  Plane plane({window_of(1)});
  WorkerCore& worker = *plane.cores[0];
  worker.offline();
  worker.quiescent();
  EXPECT_TRUE(plane.quiescence.passed(0, plane.quiescence.start()));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(worker.admit(get(), MonotonicTime(1ms)).verdict, Verdict::admit);
  worker.online();
  EXPECT_FALSE(plane.quiescence.passed(0, plane.quiescence.start()));
  worker.quiescent();
  EXPECT_EQ(plane.tables[0].size(), 0U) << "nothing was counted meanwhile";
}

TEST(Worker, TakesUpAPublicationThatLiesWhereTheOneItHeldWas) {
  Plane plane({rule_of("all", 100)});
  plane.cores[0]->admit(get(), MonotonicTime(1ms));
  Publication& reused = *plane.published.back();
  reused.generation += 5;
  reused.table_of_worker = {1};
  plane.slot.publish(&reused);
  plane.cores[0]->quiescent();
  plane.cores[0]->admit(get(), MonotonicTime(2ms));
  EXPECT_EQ(plane.tables[0].find(plane.key(0, get()))->offered, 1U);
  ASSERT_TRUE(plane.tables[1].find(plane.key(0, get())));
  EXPECT_EQ(plane.tables[1].find(plane.key(0, get()))->offered, 1U);
}

TEST(Worker, LeftInItsTableAtAnIntervalsEndItGoesOnDrawingFromThatTablesInterval) {
  Plane plane({rule_of("all", 3)});
  for (int i = 0; i < 2; ++i) plane.cores[0]->admit(get(), MonotonicTime(1ms));
  plane.publish(0, {}, true, true);
  int admitted = 0;
  for (int i = 0; i < 5; ++i)
    admitted += plane.cores[0]->admit(get(), MonotonicTime(2ms)).verdict == Verdict::admit;
  EXPECT_EQ(admitted, 1);  // all five are counted in the ended interval
  plane.publish(1, {}, true, true);
  EXPECT_EQ(plane.tables[0].find(plane.key(0, get()))->admitted, 3U);
}

TEST(Worker, ThatHasNotComeRoundForTwoWindowsDrawsNothingAlsoWhereItsPoolServesALaterOne) {
  Plane plane({window_of(100)});
  const auto admits = [&](const char* user) {
    return plane.cores[0]->admit_key(0, user, 1, MonotonicTime(1ms)).verdict == Verdict::admit;
  };
  EXPECT_TRUE(admits("ann"));
  for (std::uint64_t window = 1; window <= 4; ++window) {
    plane.begin_window(window);
    EXPECT_EQ(admits(window == 1   ? "bob"
                     : window == 2 ? "cho"
                     : window == 3 ? "dee"
                                   : "eve"),
              window == 1)
        << window;
  }
  plane.cores[0]->offline();
}

/// A worker that may tell of few new keys in a span.
struct NewKeys : ::testing::Test {
  static std::uint64_t key_of(const Plane& plane, const std::string& user) {
    KeyBytes bytes;
    bytes.clear();
    bytes.add_text(user);
    return plane.cores[0]->key_of(0, bytes.bytes());
  }
  static int admitted(Plane& plane, const std::string& user, int times = 1) {
    int admitted = 0;
    for (int i = 0; i < times; ++i)
      admitted += plane.cores[0]->admit_key(0, user, 1, MonotonicTime(1ms)).verdict == Verdict::admit;
    return admitted;
  }
  static bool tells_of(const Plane& plane, std::size_t table, const std::string& user) {
    return plane.tables[table].find(key_of(plane, user)).has_value();
  }
};

TEST_F(NewKeys, BeyondTheirNumberAreCountedAsThoseThatFindNoRoomAndKeepTheirLimits) {
  Plane plane({window_of(50)});
  plane.new_keys = 2;
  plane.publish(1);
  for (const char* user : {"ann", "bob", "cho", "dee"}) EXPECT_EQ(admitted(plane, user, 60), 50) << user;
  EXPECT_TRUE(tells_of(plane, 1, "ann"));
  EXPECT_TRUE(tells_of(plane, 1, "bob"));
  EXPECT_FALSE(tells_of(plane, 1, "cho"));
  EXPECT_EQ(plane.tables[1].overflows()[0].offered, 120U);
  EXPECT_EQ(plane.tables[1].overflows()[0].admitted, 100U);
}

TEST_F(NewKeys, AreToldOfAgainInTheNextSpanButNotAfterThePublicationsOfTheSame) {
  Plane plane({window_of(640)});
  plane.new_keys = 1;
  plane.publish(1);
  admitted(plane, "ann");
  plane.publish(1);
  admitted(plane, "bob");
  EXPECT_FALSE(tells_of(plane, 1, "bob"));
  plane.publish(0);
  admitted(plane, "bob");
  EXPECT_TRUE(tells_of(plane, 0, "bob"));
}

TEST_F(NewKeys, ThatAreGrantedSomethingAreNoLongerNew) {
  Plane plane({window_of(640)});
  plane.grant = 5;
  plane.publish(1);
  EXPECT_EQ(admitted(plane, "ann"), 1);
  plane.new_keys = 1;
  plane.publish(0);
  admitted(plane, "bob");
  EXPECT_EQ(plane.grants[0]->held(), 2U);
  admitted(plane, "cho");
  EXPECT_EQ(plane.grants[0]->held(), 2U);
  EXPECT_EQ(admitted(plane, "ann", 10), 10);
  EXPECT_EQ(admitted(plane, "bob", 10), 10);
  EXPECT_TRUE(tells_of(plane, 0, "ann"));
  EXPECT_TRUE(tells_of(plane, 0, "bob"));
  EXPECT_FALSE(tells_of(plane, 0, "cho"));
}

TEST_F(NewKeys, AreNoneThatDrewInTheWindowBeforeOrThatTheControllerNames) {
  Plane plane({window_of(50)});
  plane.ended.claim(key_of(plane, "ann"), 0);
  plane.new_keys = 0;
  plane.publish(1, {{.key = key_of(plane, "bob"), .terms = {10, 0}}});
  for (const char* user : {"ann", "bob", "cho"}) admitted(plane, user);
  EXPECT_TRUE(tells_of(plane, 1, "ann"));
  EXPECT_TRUE(tells_of(plane, 1, "bob"));
  EXPECT_FALSE(tells_of(plane, 1, "cho"));
}

TEST_F(NewKeys, AreNoneAsSoonAsTheControllerNamesThem) {
  Plane plane({window_of(50)});
  plane.new_keys = 0;
  plane.publish(1);
  admitted(plane, "cho");
  EXPECT_FALSE(tells_of(plane, 1, "cho"));
  plane.publish(1, {{.key = key_of(plane, "cho"), .terms = {10, 0}}});
  admitted(plane, "cho");
  EXPECT_TRUE(tells_of(plane, 1, "cho"));
}

// The controller may be making the grants anew: whether a key is among them nobody may look.
TEST_F(NewKeys, AreNoneOfARuleThatHasGrantsWhileTheseAreLeftAlone) {
  Plane plane({window_of(640), window_of(640)});
  plane.grant = 5;
  plane.grant_turn = 1;
  plane.new_keys = 1;
  plane.publish(1);
  const auto publish_anew = [&](std::uint64_t reserve) {
    plane.published.back()->reserves[0] = reserve;
    plane.published.back()->generation += 1;
    plane.cores[0]->quiescent();
  };
  for (const char* user : {"ann", "bob"}) EXPECT_EQ(admitted(plane, user), 1);
  EXPECT_TRUE(tells_of(plane, 1, "ann"));
  EXPECT_TRUE(tells_of(plane, 1, "bob"));
  publish_anew(0);
  for (const char* user : {"cho", "dee"}) EXPECT_EQ(admitted(plane, user), 1);
  EXPECT_TRUE(tells_of(plane, 1, "cho"));
  EXPECT_FALSE(tells_of(plane, 1, "dee"));
  publish_anew(5);
  EXPECT_EQ(admitted(plane, "eve"), 1);
  EXPECT_TRUE(tells_of(plane, 1, "eve"));
}

TEST_F(NewKeys, OfAStrictRuleAreToldOfInAnyCase) {
  Rule strict = window_of(50);
  strict.algorithm = Algorithm::strict;
  Plane plane({strict, rule_of("all", 50)});
  plane.new_keys = 0;
  plane.publish(1);
  EXPECT_EQ(admitted(plane, "ann"), 1);
  EXPECT_EQ(plane.cores[0]->admit_key(1, {}, 1, MonotonicTime(1ms)).verdict, Verdict::admit);
  EXPECT_EQ(plane.tables[1].size(), 2U);
  EXPECT_EQ(plane.cores[0]->overflowed(), 0U);
}

class IdleWorker : public ::testing::TestWithParam<const char*> {};

TEST_P(IdleWorker, TakesUpTheWindowThatRunsBeforeItDecides) {
  Plane plane({window_of(100)});
  for (std::uint64_t window = 1; window <= 4; ++window) plane.begin_window(window);
  AllowancePool& running = plane.begin_window(5);
  WorkerCore& worker = *plane.cores[0];
  const std::string_view call = GetParam();
  const Request request = get();
  const Key ann = worker.key(0, "ann");
  std::array<Verdict, 1> verdict{Verdict::block};
  std::array<Decision, 1> decision;
  if (call == "admit") verdict[0] = worker.admit(request, MonotonicTime(1ms)).verdict;
  if (call == "admit_key") verdict[0] = worker.admit_key(0, "ann", 1, MonotonicTime(1ms)).verdict;
  if (call == "admit_keys") worker.admit_keys({&ann, 1}, MonotonicTime(1ms), verdict);
  if (call == "admit_burst") {
    worker.admit_burst({&request, 1}, MonotonicTime(1ms), decision, Detail::full);
    verdict[0] = decision[0].verdict;
  }
  EXPECT_EQ(verdict[0], Verdict::admit);
  std::uint64_t drawn = 0;
  running.for_each_cell([&](AllowanceCell& cell) { drawn += cell.drawn.load(); });
  EXPECT_GT(drawn, 0U);
  plane.cores[0]->offline();
}

INSTANTIATE_TEST_SUITE_P(Calls, IdleWorker,
                         ::testing::Values("admit", "admit_key", "admit_keys", "admit_burst"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(Hierarchy, ARequestRefusedByOneLevelIsChargedToNone) {
  Plane plane({rule_of("parent", 2), rule_of("child", 100, {by_header("user")})});
  const Header user{"user", "alice"};
  Request request = get();
  request.headers = std::span(&user, 1);
  for (int i = 0; i < 5; ++i) plane.cores[0]->admit(request, MonotonicTime(1ms));
  EXPECT_EQ(plane.tables[0].find(plane.key(0, request))->admitted, 2U);
  EXPECT_EQ(plane.tables[0].find(plane.key(0, request))->offered, 5U);
  EXPECT_EQ(plane.tables[0].find(plane.key(1, request))->admitted, 2U);
  EXPECT_EQ(plane.tables[0].find(plane.key(1, request))->offered, 2U);
}

TEST(Hierarchy, WhatSeveralRulesRefuseIsDemandUnderThoseClosestToWhoSends) {
  const Header user{"user", "alice"};
  Request request = get();
  request.headers = std::span(&user, 1);
  for (const bool parent_first : {true, false}) {
    std::vector rules{rule_of("parent", 2), rule_of("child", 2, {by_header("user")}),
                      rule_of("other-child", 2, {by_header("user")}),
                      rule_of("large", 100, {by_header("user")})};
    if (!parent_first) std::swap(rules[0], rules[1]);
    for (Rule& rule : rules) rule.algorithm = Algorithm::fixed_window;
    Plane plane(rules);
    for (int i = 0; i < 5; ++i) plane.cores[0]->admit(request, MonotonicTime(1ms));
    const RuleIndex parent = parent_first ? 0 : 1;
    const RuleIndex child = parent_first ? 1 : 0;
    EXPECT_EQ(plane.tables[0].find(plane.key(parent, request))->offered, 2U) << parent_first;
    EXPECT_EQ(plane.tables[0].find(plane.key(child, request))->offered, 5U) << parent_first;
    EXPECT_EQ(plane.tables[0].find(plane.key(2, request))->offered, 5U) << "as close as the other one";
    EXPECT_EQ(plane.tables[0].find(plane.key(3, request))->offered, 2U) << "it would have admitted all";
  }
}

TEST(Hierarchy, WhatARuleObservesItCountsAsIfItRefused) {
  const Header user{"user", "alice"};
  Request request = get();
  request.headers = std::span(&user, 1);
  for (const Action action : {Action::drop, Action::observe}) {
    std::vector rules{rule_of("parent", 2), rule_of("child", 3, {by_header("user")})};
    for (Rule& rule : rules) rule.algorithm = Algorithm::fixed_window;
    rules[0].action = action;
    Plane plane(rules);
    for (int i = 0; i < 2; ++i) plane.cores[0]->admit(get(), MonotonicTime(1ms));
    // Of these the child refuses two if it is asked: those are no demand of the parent's.
    for (int i = 0; i < 5; ++i) plane.cores[0]->admit(request, MonotonicTime(1ms));
    const std::uint64_t offered = plane.tables[0].find(plane.key(0, request))->offered;
    EXPECT_EQ(offered, action == Action::observe ? 2U + 3U : 2U + 5U);
  }
  // Whom it only observes it keeps from no other rule.
  for (const Action action : {Action::drop, Action::observe}) {
    std::vector rules{rule_of("parent", 2), rule_of("child", 2, {by_header("user")})};
    for (Rule& rule : rules) rule.algorithm = Algorithm::fixed_window;
    rules[1].action = action;
    Plane plane(rules);
    for (int i = 0; i < 5; ++i) plane.cores[0]->admit(request, MonotonicTime(1ms));
    EXPECT_EQ(plane.tables[0].find(plane.key(0, request))->offered, action == Action::observe ? 5U : 2U);
    EXPECT_EQ(plane.tables[0].find(plane.key(1, request))->offered, 5U);
  }
}

TEST(Hierarchy, WhatExceedsALimitIsCountedWhoeverElseRefusesIt) {
  // Else nothing would begin the block.
  Plane plane({rule_of("parent", 2), rule_of("child", 2, {by_header("user")})});
  const Header user{"user", "alice"};
  Request request = get();
  request.headers = std::span(&user, 1);
  for (int i = 0; i < 5; ++i) plane.cores[0]->admit(request, MonotonicTime(1ms));
  EXPECT_EQ(plane.tables[0].find(plane.key(0, request))->offered, 5U);
  EXPECT_EQ(plane.tables[0].find(plane.key(1, request))->offered, 2U);
}

TEST(Hierarchy, EachRuleIsOfferedAllRequestsAndHasBlockedThoseThatItRefusedItself) {
  Rule observing = rule_of("observing", 1);
  observing.action = Action::observe;
  // Limits out of reach are admitted out of grants, others are looked at closely.
  for (const std::uint64_t parents : {std::uint64_t{10}, std::uint64_t{1'000'000}}) {
    Plane plane({rule_of("parent", parents, {by_header("user")}), rule_of("child", 2), observing});
    const Header user{"user", "alice"};
    Request request = get();
    request.headers = std::span(&user, 1);
    for (int i = 0; i < 5; ++i) plane.cores[0]->admit(request, MonotonicTime(1ms));
    const auto counters = [&](RuleIndex rule) -> const RuleCounters& {
      return plane.cores[0]->rule_counters(rule);
    };
    for (RuleIndex rule = 0; rule < 3; ++rule) EXPECT_EQ(counters(rule).offered(), 5U) << parents;
    EXPECT_EQ(counters(0).admitted.read(), 2U) << parents;
    EXPECT_EQ(counters(0).blocked.read(), 0U) << parents;
    EXPECT_EQ(counters(1).admitted.read(), 2U) << parents;
    EXPECT_EQ(counters(1).blocked.read(), 3U) << parents;
    EXPECT_EQ(counters(2).admitted.read(), 1U) << parents;
    EXPECT_EQ(counters(2).blocked.read(), 1U) << parents << ": it is not asked for the others";
  }
}

TEST(Hierarchy, AChildsRefusalLeavesTheParentsAllowanceToOthers) {
  Plane plane({rule_of("parent", 10), rule_of("child", 2, {by_header("user")})});
  const Header greedy{"user", "greedy"};
  const Header calm{"user", "calm"};
  Request request = get();
  request.headers = std::span(&greedy, 1);
  for (int i = 0; i < 100; ++i) plane.cores[0]->admit(request, MonotonicTime(1ms));
  request.headers = std::span(&calm, 1);
  EXPECT_EQ(plane.cores[0]->admit(request, MonotonicTime(2ms)).verdict, Verdict::admit);
  EXPECT_EQ(plane.tables[0].find(plane.key(0, request))->admitted, 3U);
}

TEST(Hierarchy, TheRefusingRuleDecides) {
  Rule reset = rule_of("child", 1);
  reset.action = Action::reset;
  Plane plane({rule_of("parent", 10), reset});
  plane.cores[0]->admit(get(), MonotonicTime(1ms));
  const Decision refused = plane.cores[0]->admit(get(), MonotonicTime(1ms));
  EXPECT_EQ(refused.rule, 1);
  EXPECT_EQ(refused.action, Action::reset);
}

TEST(Observe, ComputesAndReportsButLetsEverythingPass) {
  Rule observing = rule_of("shadow", 2);
  observing.action = Action::observe;
  Plane plane({observing});
  for (int i = 0; i < 5; ++i) {
    const Decision decision = plane.cores[0]->admit(get(), MonotonicTime(1ms));
    EXPECT_EQ(decision.verdict, Verdict::admit);
    EXPECT_EQ(decision.observed, i < 2 ? no_rule : 0);
  }
  EXPECT_EQ(plane.tables[0].find(plane.key(0, get()))->admitted, 2U);
  EXPECT_EQ(plane.cores[0]->rule_counters(0).blocked.read(), 3U);
}

TEST(Weights, ARequestCostsItsRulesWeightTimesItsOwn) {
  Rule heavy = rule_of("heavy", 10);
  heavy.weight = 3;
  Plane plane({heavy});
  Request request = get();
  request.weight = 2;
  EXPECT_EQ(plane.cores[0]->admit(request, MonotonicTime(1ms)).weight, 6U);
  EXPECT_EQ(plane.cores[0]->admit(request, MonotonicTime(1ms)).verdict, Verdict::block);
  EXPECT_EQ(plane.tables[0].find(plane.key(0, request))->admitted, 6U);
}

TEST(Weights, AWeightOfZeroLooksWithoutTouchingTheAllowance) {
  Rule free = rule_of("free", 1);
  free.weight = 0;
  Plane plane({free});
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(plane.cores[0]->admit(get(), MonotonicTime(1ms)).verdict, Verdict::admit);
}

TEST(Burst, DecidesAsIfOneAfterTheOther) {
  Plane one({rule_of("all", 50), rule_of("user", 7, {by_header("user")})});
  Plane burst({rule_of("all", 50), rule_of("user", 7, {by_header("user")})});
  std::vector<Header> users;
  for (int i = 0; i < 100; ++i) users.push_back({"user", i % 3 == 0 ? "a" : i % 3 == 1 ? "b" : "c"});
  std::vector<Request> requests;
  for (const Header& user : users) {
    requests.push_back(get());
    requests.back().headers = std::span(&user, 1);
  }
  std::vector<Decision> decisions(requests.size());
  burst.cores[0]->admit_burst(requests, MonotonicTime(1ms), decisions, Detail::full);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Decision expected = one.cores[0]->admit(requests[i], MonotonicTime(1ms));
    EXPECT_EQ(decisions[i].verdict, expected.verdict) << i;
    EXPECT_EQ(decisions[i].rule, expected.rule) << i;
    EXPECT_EQ(decisions[i].remaining, expected.remaining) << i;
  }
}

TEST(Burst, TellsOnlyAsMuchAsIsAskedFor) {
  Plane plane({rule_of("all", 3)});
  const std::vector<Request> requests(5, get());
  std::vector<Decision> decisions(requests.size());
  for (const Detail detail : {Detail::full, Detail::refusals, Detail::verdicts}) {
    plane.publish(static_cast<std::uint8_t>(detail == Detail::refusals));
    plane.tables[0].clear();
    plane.running.clear();
    plane.cores[0]->admit_burst(requests, MonotonicTime(1ms), decisions, detail);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Decision& decision = decisions[i];
      EXPECT_EQ(decision.verdict, i < 3 ? Verdict::admit : Verdict::block);
      EXPECT_EQ(decision.rule, 0);
      EXPECT_EQ(decision.limit, 3U);
      EXPECT_EQ(decision.weight, 1U);
      EXPECT_EQ(decision.remaining, detail == Detail::full && i < 3 ? 2 - i : 0U);
      EXPECT_EQ(decision.reset_after > Duration{},
                detail == Detail::full || (detail == Detail::refusals && i >= 3));
      EXPECT_EQ(decision.retry_after > Duration{}, detail != Detail::verdicts && i >= 3);
    }
  }
}

TEST(Keys, AreDecidedUponAsOneAfterTheOtherWhateverIsToldOfTheNext) {
  std::mt19937_64 random(11);
  Rule heavy = window_of(900);
  heavy.name = "heavy";
  heavy.weight = 3;
  for (int run = 0; run < 50; ++run) {
    Plane one({window_of(200), heavy});
    Plane burst({window_of(200), heavy});
    std::vector<std::string> names;
    for (int i = 0; i < 5; ++i) names.push_back("user" + std::to_string(i));
    std::vector<Key> keys;
    for (int i = 0; i < 2000; ++i)
      keys.push_back(burst.cores[0]->key(static_cast<RuleIndex>(random() / 7 % 2), names[random() % 5]));
    std::vector<Verdict> verdicts(keys.size());
    for (std::size_t at = 0; at < keys.size();) {
      const std::size_t size = std::min<std::size_t>(random() % 100, keys.size() - at);
      burst.cores[0]->prefetch_keys(std::span(keys).subspan(at, size));
      const std::size_t told = std::min<std::size_t>(random() % 150, keys.size() - at - size);
      burst.cores[0]->admit_keys(std::span(keys).subspan(at, size), MonotonicTime(1ms),
                                 std::span(verdicts).subspan(at, size),
                                 std::span(keys).subspan(at + size, told));
      at += size;
    }
    for (std::size_t i = 0; i < keys.size(); ++i)
      ASSERT_EQ(verdicts[i],
                one.cores[0]->admit_key(keys[i].rule(), keys[i].value, 1, MonotonicTime(1ms)).verdict)
          << run << ' ' << i;
    for (RuleIndex rule = 0; rule < 2; ++rule) {
      const RuleCounters& counted = burst.cores[0]->rule_counters(rule);
      const RuleCounters& expected = one.cores[0]->rule_counters(rule);
      EXPECT_EQ(counted.offered(), expected.offered());
      EXPECT_EQ(counted.admitted.read(), expected.admitted.read());
      EXPECT_EQ(counted.blocked.read(), expected.blocked.read());
    }
    std::uint64_t offered = 0;
    burst.tables[0].for_each([&](const CountedKey& entry) { offered += entry.offered; });
    const auto of = [&](RuleIndex rule) { return burst.cores[0]->rule_counters(rule).offered(); };
    EXPECT_EQ(offered, of(0) + 3 * of(1));
  }
}

/// A burst whose keys are one, all of weight 2 but that at `odd`.
std::vector<Key> burst_with_one_odd(const WorkerCore& worker, RuleIndex rule, std::string_view value,
                                    std::size_t odd, std::uint32_t weight, std::uint32_t others = 2) {
  std::vector<Key> keys(32, worker.key(rule, value));
  for (Key& key : keys) key.weight = others;
  keys[odd].weight = weight;
  return keys;
}

// Where all of a burst weigh the same, that is seen once; so it is seen where one does not.
TEST(Keys, WeighEachWhatItWeighs) {
  for (std::size_t odd = 0; odd < 32; ++odd) {
    for (const auto& [others, weight] : {std::pair{2U, 0U}, {2U, 2U}, {2U, 7U}, {1U, 0U}, {1U, 3U}}) {
      Plane plane({rule_of("all", 10'000), window_of(10'000)});
      std::vector<Verdict> verdicts(32);
      for (int times = 0; times < 3; ++times)
        for (const RuleIndex rule : {0, 1})
          plane.cores[0]->admit_keys(
              burst_with_one_odd(*plane.cores[0], rule, rule == 0 ? "" : "ann", odd, weight, others),
              MonotonicTime(1ms), verdicts);
      std::array<std::uint64_t, 2> admitted{};
      plane.tables[0].for_each([&](const CountedKey& entry) { admitted[entry.rule] += entry.admitted; });
      const std::uint64_t all = 3 * (31 * others + weight);
      EXPECT_EQ(admitted, (std::array{all, all})) << odd << ' ' << weight;
    }
  }
}

int clock_readings = 0;
MonotonicTime read_clock() noexcept {
  ++clock_readings;
  return MonotonicTime(1ms);
}

TEST(Keys, ThatHaveAllTheyAskForReadNoClockAndOthersReadItOnce) {
  Plane plane({window_of(64 * 2047)});
  std::vector<Key> keys;
  std::vector<std::string> names;
  for (int i = 0; i < 70; ++i) names.push_back("user" + std::to_string(i));
  for (const std::string& name : names) keys.push_back(plane.cores[0]->key(0, name));
  std::vector<Verdict> verdicts(keys.size());
  const auto readings_of = [&] {
    clock_readings = 0;
    plane.cores[0]->admit_keys(keys, read_clock, verdicts);
    EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::admit), 70);
    return clock_readings;
  };
  EXPECT_EQ(readings_of(), 1) << "met for the first time, in three bursts";
  EXPECT_EQ(readings_of(), 0);
  keys[50].weight = 3000;
  EXPECT_EQ(readings_of(), 1) << "more than a grant";
}

TEST(Keys, OfARuleWithoutDimensionsAreTheOneThatItsRequestsShare) {
  Plane plane({rule_of("all", 5), window_of(100)});
  const std::array<Key, 3> keys{plane.cores[0]->key(0, ""), plane.cores[0]->key(1, "ann"),
                                plane.cores[0]->key(0, "")};
  std::array<Verdict, 3> verdicts;
  plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
  plane.cores[0]->admit(get(), MonotonicTime(1ms));
  plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
  EXPECT_EQ(plane.tables[0].find(plane.key(0, get()))->admitted, 5U);
  plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
  EXPECT_EQ(verdicts, (std::array{Verdict::block, Verdict::admit, Verdict::block}));
}

TEST(Keys, OfARuleWithoutDimensionsAreTheOneThatItsRequestsShareAlsoWhereTheyAreMadeForOneDecision) {
  Plane plane({rule_of("all", 3)});
  WorkerCore& worker = *plane.cores[0];
  EXPECT_EQ(worker.admit(get(), MonotonicTime(1ms)).verdict, Verdict::admit);
  EXPECT_EQ(worker.admit_key(0, "", 1, MonotonicTime(1ms)).remaining, 1U);
  EXPECT_EQ(worker.admit_key(0, "", 0, MonotonicTime(1ms)).remaining, 1U);
  EXPECT_EQ(worker.admit_key(0, "", 1, MonotonicTime(1ms)).verdict, Verdict::admit);
  EXPECT_EQ(worker.admit(get(), MonotonicTime(1ms)).verdict, Verdict::block);
  EXPECT_EQ(plane.tables[0].find(plane.key(0, get()))->admitted, 3U);
  EXPECT_EQ(worker.admit_key(0, "ann", 1, MonotonicTime(1ms)).remaining, 2U) << "another key of the rule";
}

TEST(Keys, OfARuleWithoutDimensionsAreNotAdmittedBecauseTheirSumWraps) {
  Rule all = window_of(std::uint64_t{1} << 61);
  all.key.clear();
  all.weight = std::uint64_t{1} << 28;
  Plane plane({all});
  std::vector<Key> keys(32, plane.cores[0]->key(0, ""));
  for (Key& key : keys) key.weight = std::uint32_t{1} << 31;
  keys.back().weight += 2;  // together 2^36 + 2, times 2^28: 2^29 beyond 2^64
  std::vector<Verdict> verdicts(keys.size());
  const Key small = plane.cores[0]->key(0, "");
  plane.cores[0]->admit_keys({&small, 1}, MonotonicTime(1ms), std::span(verdicts).first(1));
  ASSERT_GT(plane.tables[0].ready(plane.tables[0].place_of_rule(0)), std::uint32_t{1} << 29);
  plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
  EXPECT_LE(std::count(verdicts.begin(), verdicts.end(), Verdict::admit), 4);
  keys.back().weight -= 2;  // all alike: together 2^64
  plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
  EXPECT_LE(std::count(verdicts.begin(), verdicts.end(), Verdict::admit), 4);
}

TEST(Keys, MayBeNone) {
  Plane plane({rule_of("all", 5), window_of(5)});
  const std::array<Key, 2> next{plane.cores[0]->key(0, ""), plane.cores[0]->key(1, "ann")};
  plane.cores[0]->prefetch_keys({});
  plane.cores[0]->admit_keys({}, MonotonicTime(1ms), {});
  plane.cores[0]->admit_keys({}, MonotonicTime(1ms), {}, next);
  EXPECT_EQ(plane.cores[0]->rule_counters(0).offered() + plane.cores[0]->rule_counters(1).offered(), 0U);
}

TEST(Keys, OfRulesWithoutDimensionsInTurnsTakeWhatTheyWeigh) {
  std::vector<Rule> rules;
  for (const std::uint32_t weight : {std::uint32_t{1}, std::uint32_t{7}, std::uint32_t{1} << 31}) {
    Rule& rule = rules.emplace_back(window_of(std::uint64_t{2000} * weight));
    rule.name = "of-" + std::to_string(weight);
    rule.key.clear();
    rule.weight = weight;
  }
  Plane together(rules);
  Plane alone(rules);
  for (unsigned burst = 0; burst < 300; ++burst) {
    const std::uint32_t times = std::array{1U, 1U, 0U, 2U, 3U, 1U, 1U}[burst % 7];
    std::vector<Key> keys;
    for (RuleIndex i = 0; i < 18; ++i)
      keys.emplace_back(together.cores[0]->key(static_cast<RuleIndex>(i % 3), "")).weight = times;
    std::vector<Verdict> verdicts(keys.size());
    together.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
    for (std::size_t i = 0; i < keys.size(); ++i)
      EXPECT_EQ(verdicts[i], alone.cores[0]->admit_key(keys[i].rule(), "", times, MonotonicTime(1ms)).verdict)
          << "burst " << burst << ", key " << i;
  }
  for (RuleIndex rule = 0; rule < 3; ++rule) {
    const auto counted = [&](Plane& plane) { return *plane.tables[0].find(plane.key(rule, get())); };
    EXPECT_EQ(counted(together).admitted, counted(alone).admitted);
    EXPECT_EQ(counted(together).admitted, rules[rule].limit);
    EXPECT_EQ(counted(together).offered, counted(alone).offered);
    EXPECT_EQ(together.cores[0]->rule_counters(rule).admitted.read(),
              alone.cores[0]->rule_counters(rule).admitted.read());
    EXPECT_EQ(together.cores[0]->rule_counters(rule).offered(),
              alone.cores[0]->rule_counters(rule).offered());
  }
}

TEST(Keys, OfRulesWithoutDimensionsInTurnsAreCountedInTheTableThatTheWorkerHasTakenUp) {
  Plane plane({rule_of("one", 100'000), rule_of("other", 100'000)});
  const std::array<Key, 4> keys{plane.cores[0]->key(0, ""), plane.cores[0]->key(1, ""),
                                plane.cores[0]->key(0, ""), plane.cores[0]->key(1, "")};
  std::array<Verdict, 4> verdicts;
  const auto admitted = [&](unsigned table) {
    return plane.tables[table].find(plane.key(0, get()))->admitted;
  };
  for (int i = 0; i < 3; ++i) plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
  EXPECT_EQ(admitted(0), 6U);
  plane.publish(1);
  for (int i = 0; i < 2; ++i) plane.cores[0]->admit_keys(keys, MonotonicTime(2ms), verdicts);
  EXPECT_EQ(admitted(0), 6U);
  EXPECT_EQ(admitted(1), 4U);
}

TEST(Keys, ThatAreBlockedAreRefusedAndCountedAmongOthersOfTheirBurst) {
  Plane plane({rule_of("user", 100, {by_header("user")})});
  WorkerCore& worker = *plane.cores[0];
  Key ann = worker.key(0, "ann");
  const Key bob = worker.key(0, "bob");
  const std::uint64_t hash = plane.key_of("ann");
  plane.publish(0, {{.key = hash, .terms = {100, 0}, .blocked_until = MonotonicTime(3s)}});
  ann.weight = 2;
  Key look = ann;
  look.weight = 0;
  const std::array<Key, 5> keys{ann, bob, ann, look, bob};
  std::array<Verdict, 5> verdicts;
  constexpr std::array expected{Verdict::block, Verdict::admit, Verdict::block, Verdict::block,
                                Verdict::admit};
  // At first the block is looked up; then the entry knows of it.
  for (int burst = 0; burst < 3; ++burst) {
    worker.admit_keys(keys, MonotonicTime(1s), verdicts);
    EXPECT_EQ(verdicts, expected) << "burst " << burst;
  }
  EXPECT_EQ(plane.tables[0].find(hash)->offered, 3U * 2 * 2);
  EXPECT_EQ(plane.tables[0].find(hash)->admitted, 0U);
  EXPECT_EQ(worker.rule_counters(0).offered(), 3U * 4);
  EXPECT_EQ(worker.rule_counters(0).blocked.read(), 3U * 2);
  EXPECT_EQ(worker.rule_counters(0).admitted.read(), 3U * 2);
  // When the block has ended, none is refused.
  worker.admit_keys(keys, MonotonicTime(3s), verdicts);
  EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::admit), 5);
}

/// Of one rule with spans of 100 ms, whose span has just begun; "ann" is blocked for a while.
struct BlockedKey {
  explicit BlockedKey(MonotonicTime until) { block(until); }
  void block(MonotonicTime until) {
    plane.publish(0, {{.key = hash, .terms = {100, 0}, .blocked_until = until}});
  }
  /// A burst of its key. @return whether it is refused
  bool refuses(MonotonicTime now) {
    std::array<Verdict, 8> verdicts;
    const std::vector<Key> keys(verdicts.size(), key);
    worker.admit_keys(keys, now, verdicts);
    EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), verdicts[0]), 8);
    offered += 8;
    return verdicts[0] == Verdict::block;
  }
  bool refuses_at_a_glance() { return plane.refuses_at_a_glance(hash); }

  Plane plane{{rule_of("user", 100'000, {by_header("user")})}};
  WorkerCore& worker = *plane.cores[0];
  const Key key = worker.key(0, "ann");
  const std::uint64_t hash = plane.key_of("ann");
  std::uint64_t offered = 0;
};

TEST(BlockedKey, IsRefusedByItsLineAloneWhereItIsBlockedUntilTheSpanIsLongOver) {
  BlockedKey ann(MonotonicTime(150ms));
  for (int burst = 0; burst < 4; ++burst) {
    EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
    EXPECT_TRUE(ann.refuses_at_a_glance());
  }
  EXPECT_EQ(ann.plane.tables[0].find(ann.hash)->offered, ann.offered);
  EXPECT_EQ(ann.plane.tables[0].find(ann.hash)->admitted, 0U);
  // The first look counts with the entry, all others in the line.
  const SpanTable& table = ann.plane.tables[0];
  EXPECT_LE(table.refused(table.entry(table.locate(ann.hash))), 8U);
  EXPECT_EQ(ann.worker.rule_counters(0).blocked.read(), ann.offered);
  EXPECT_EQ(ann.worker.rule_counters(0).offered(), ann.offered);
  EXPECT_EQ(ann.worker.rule_counters(0).admitted.read(), 0U);
}

TEST(BlockedKey, CountsWhatIsTooHeavyEverToPassAlikeWhoeverRefusesIt) {
  Plane plane({rule_of("user", 10, {by_header("user")})});
  plane.publish(0, {{.key = plane.key_of("ann"), .terms = {10, 0}, .blocked_until = MonotonicTime(3s)}});
  std::vector<Key> keys(8, plane.cores[0]->key(0, "ann"));
  for (Key& key : keys) key.weight = 1000;
  std::array<Verdict, 8> verdicts;
  for (int burst = 0; burst < 3; ++burst) plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
  EXPECT_TRUE(plane.refuses_at_a_glance(plane.key_of("ann")));
  EXPECT_EQ(plane.tables[0].find(plane.key_of("ann"))->offered, 24U * 11);
}

TEST(BlockedKey, IsLookedAtWhereItsBlockMayEndWithinTheSpan) {
  BlockedKey ann(MonotonicTime(150ms - 1ns));
  EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
  EXPECT_TRUE(ann.refuses(MonotonicTime(150ms - 2ns)));
  EXPECT_FALSE(ann.refuses_at_a_glance());
  EXPECT_FALSE(ann.refuses(MonotonicTime(150ms - 1ns)));
}

TEST(BlockedKey, IsLookedAtAgainWhereTheSpanEndsLate) {
  BlockedKey ann(MonotonicTime(150ms));
  BlockedKey bob(MonotonicTime(300ms));
  for (BlockedKey* key : {&ann, &bob})
    for (const auto now : {1ms, 2ms, 149ms}) EXPECT_TRUE(key->refuses(MonotonicTime(now)));
  EXPECT_FALSE(ann.refuses(MonotonicTime(150ms)));
  EXPECT_TRUE(bob.refuses(MonotonicTime(150ms)));
  EXPECT_TRUE(bob.refuses(MonotonicTime(299ms)));
  EXPECT_FALSE(bob.refuses(MonotonicTime(300ms)));
  EXPECT_EQ(bob.plane.tables[0].find(bob.hash)->offered, bob.offered);
}

TEST(BlockedKey, IsRefusedUntilItsBlockEndsWhateverIsPublishedNext) {
  BlockedKey ann(MonotonicTime(160ms));
  EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
  // As no controller does.
  ann.block(never);
  EXPECT_TRUE(ann.refuses(MonotonicTime(2ms)));
  EXPECT_TRUE(ann.refuses(MonotonicTime(149ms)));
  const SpanTable& table = ann.plane.tables[0];
  EXPECT_LE(table.refused(table.entry(table.locate(ann.hash))), 8U) << "but for the first look";
  EXPECT_FALSE(ann.refuses(MonotonicTime(150ms))) << "by its line for a span and a half";
  EXPECT_EQ(table.find(ann.hash)->offered, ann.offered);
}

// What a worker only guesses the next publication may take back.
TEST(BlockedKey, OfARefusalThatHasNotBeenJudgedIsAdmittedAsSoonAsItIsPardoned) {
  Plane plane({rule_of("user", 4, {by_header("user")})});
  WorkerCore& worker = *plane.cores[0];
  const std::vector<Key> keys(8, worker.key(0, "ann"));
  std::vector<Verdict> verdicts(keys.size());
  for (int burst = 0; burst < 3; ++burst) worker.admit_keys(keys, MonotonicTime(1ms), verdicts);
  EXPECT_EQ(verdicts[0], Verdict::block);
  plane.running.find(plane.key_of("ann"))->refused_at.store(AllowanceCell::no_refusal);
  plane.publish(0, {{.key = plane.key_of("ann"), .terms = {100, 0}}});
  worker.admit_keys(keys, MonotonicTime(2ms), verdicts);
  EXPECT_EQ(verdicts[0], Verdict::admit);
}

// Judged, it lasts as long as the judgement says, though other workers' marks say otherwise.
TEST(BlockedKey, IsSoAsPublishedWhateverItsCellSays) {
  BlockedKey ann(MonotonicTime(160ms));
  AllowanceCell* const cell = ann.plane.running.claim(ann.hash, 0).cell;
  cell->refused_at.store(Duration(50ms).count());
  EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
  ann.plane.tables[0].drain({}, MonotonicTime(160ms) + 1ns, {}, [](std::span<const CountedKey>) {});
  ann.plane.tables[0].renew();
  EXPECT_EQ(ann.plane.tables[0].size(), 0U) << "it is over by then, whatever the mark says";
}

// As above, after a block that has been published, under the same publication.
TEST(BlockedKey, OfARefusalAfterItsBlockIsAdmittedAsSoonAsItIsPardoned) {
  Plane plane({rule_of("user", 4, {by_header("user")})});
  WorkerCore& worker = *plane.cores[0];
  const std::uint64_t hash = plane.key_of("ann");
  const std::vector<Key> keys(8, worker.key(0, "ann"));
  std::vector<Verdict> verdicts(keys.size());
  plane.publish(0, {{.key = hash, .terms = {4, 0}, .blocked_until = MonotonicTime(10ms)}});
  for (const auto now : {1ms, 11ms, 12ms, 13ms}) worker.admit_keys(keys, MonotonicTime(now), verdicts);
  EXPECT_EQ(verdicts[0], Verdict::block);
  plane.running.find(hash)->refused_at.store(AllowanceCell::no_refusal);
  plane.publish(0, {{.key = hash, .terms = {100, 0}}});
  worker.admit_keys(keys, MonotonicTime(14ms), verdicts);
  EXPECT_EQ(verdicts[0], Verdict::admit);
}

TEST(BlockedKey, IsSoAnewThoughTheBlockThatWasPublishedHasEnded) {
  BlockedKey ann(MonotonicTime(10ms));
  ann.plane.running.claim(ann.hash, 0).cell->refused_at.store(Duration(15ms).count());
  EXPECT_TRUE(ann.refuses(MonotonicTime(20ms)));
}

TEST(BlockedKey, ThatIsOnlyLookedAtTakesNothingAndIsRefusedAsBefore) {
  BlockedKey ann(MonotonicTime(3s));
  for (int burst = 0; burst < 3; ++burst) EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
  Key look = ann.key;
  look.weight = 0;
  std::array<Verdict, 1> verdict;
  for (int i = 0; i < 2; ++i) {
    ann.worker.admit_keys({&look, 1}, MonotonicTime(1ms), verdict);
    EXPECT_EQ(verdict[0], Verdict::block);
    EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
  }
  EXPECT_EQ(ann.plane.tables[0].find(ann.hash)->offered, ann.offered);
  EXPECT_EQ(ann.worker.rule_counters(0).offered(), ann.offered);
}

/// Of which no more is published than that it is blocked.
struct LastingBlock : ::testing::Test {
  void publish(MonotonicTime until) {
    auto keys = std::make_shared<BlockedKeys>();
    keys->extend(BlockedKeys(), std::vector<KeyBlock>{{ann.hash, until}});
    ann.plane.lasting = std::move(keys);
    ann.plane.publish(0);
  }

  BlockedKey ann{never};
};

TEST_F(LastingBlock, RefusesByTheKeysLineAndEndsInTime) {
  publish(MonotonicTime(150ms));
  for (int burst = 0; burst < 4; ++burst) {
    EXPECT_TRUE(ann.refuses(MonotonicTime(149ms)));
    EXPECT_TRUE(ann.refuses_at_a_glance());
  }
  EXPECT_FALSE(ann.refuses(MonotonicTime(150ms)));
}

TEST_F(LastingBlock, RefusesWhoWasAdmittedInASpanBefore) {
  EXPECT_FALSE(ann.refuses(MonotonicTime(1ms)));
  ann.plane.tables[0].close();
  publish(MonotonicTime(1s));
  EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
}

TEST_F(LastingBlock, IsOneThatHasBeenPublished) {
  publish(MonotonicTime(1s));
  EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
  const SpanTable& table = ann.plane.tables[0];
  EXPECT_TRUE(table.terms(table.entry(table.locate(ann.hash))).block_is_published);
}

TEST_F(LastingBlock, RefusesWhoFindsNoCellAndHasNoEntry) {
  publish(MonotonicTime(1s));
  for (std::uint64_t i = 1; i < 5000; ++i) ann.plane.running.claim(i * 0x9e3779b97f4a7c15, 0);
  ASSERT_FALSE(ann.plane.running.claim(ann.hash, 0).own);
  EXPECT_TRUE(ann.refuses(MonotonicTime(1s - 1ns)));
  EXPECT_EQ(ann.plane.tables[0].overflows()[0].offered, 8U);
  EXPECT_FALSE(ann.refuses(MonotonicTime(1s)));
}

TEST_F(LastingBlock, IsToldOfByNameThoughNoNewKeysAre) {
  ann.plane.new_keys = 0;
  publish(MonotonicTime(1s));
  EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
  EXPECT_TRUE(ann.plane.tables[0].find(ann.hash).has_value());
}

TEST_F(LastingBlock, LeavesWhatTheWorkerWasGrantedAlone) {
  ann.plane.grant = 8;
  publish(MonotonicTime(1s));
  EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
  EXPECT_EQ(ann.plane.grants[0]->locate(ann.hash), GrantTable::nowhere);
  const SpanTable& table = ann.plane.tables[0];
  EXPECT_EQ(table.credit(table.locate(ann.hash)), 0U);
}

// Where the controller is late. Others may have drawn all of the limit in the interval before the block.
TEST_F(LastingBlock, ThatHasEndedTellsNothingOfGrants) {
  ann.plane.grant = 8;
  publish(MonotonicTime(1ms));
  EXPECT_FALSE(ann.refuses(MonotonicTime(2ms)));
  EXPECT_EQ(ann.plane.grants[0]->locate(ann.hash), GrantTable::nowhere);
}

// Others go on being blocked, so that the set is the same.
TEST_F(LastingBlock, ThatHadEndedWhenItWasPublishedIsNone) {
  ann.plane.grant = 8;
  ann.plane.lasting_at = MonotonicTime(1ms);
  publish(MonotonicTime(1ms));
  EXPECT_FALSE(ann.refuses(MonotonicTime(2ms)));
  EXPECT_NE(ann.plane.grants[0]->locate(ann.hash), GrantTable::nowhere);
}

TEST_F(LastingBlock, RefusesWhatAGrantWouldServe) {
  ann.plane.grant = 100;
  ann.plane.publish(0);
  EXPECT_FALSE(ann.refuses(MonotonicTime(1ms)));
  publish(MonotonicTime(1s));
  EXPECT_TRUE(ann.refuses(MonotonicTime(2ms)));
}

TEST(BlockedKey, IsLookedAtOnceInEachTable) {
  BlockedKey ann(MonotonicTime(3s));
  EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
  ann.plane.publish(1, {{.key = ann.hash, .terms = {100, 0}, .blocked_until = MonotonicTime(3s)}});
  EXPECT_TRUE(ann.refuses(MonotonicTime(2ms)));
  EXPECT_TRUE(ann.refuses(MonotonicTime(3ms)));
  EXPECT_EQ(ann.plane.tables[0].find(ann.hash)->offered, 8U);
  EXPECT_EQ(ann.plane.tables[1].find(ann.hash)->offered, 16U);
  ann.plane.tables[0].close();
  ann.plane.publish(0);
  EXPECT_FALSE(ann.refuses(MonotonicTime(4ms)));
}

/// The end of a span that the worker has counted in its first table: from now on it counts there again.
void end_span(BlockedKey& ann, MonotonicTime now, MonotonicTime keep_until,
              const std::vector<KeyState>& states) {
  ann.plane.publish(1, states);
  ann.offered = 0;
  ann.plane.tables[0].drain({}, keep_until, {}, [](std::span<const CountedKey>) {});
  ann.plane.tables[0].renew();
  ann.plane.began = now;
  ann.plane.publish(0, states);
}

TEST(BlockedKey, IsNotLookedAtAgainInATableThatADrainHasLeftItIn) {
  BlockedKey ann(MonotonicTime(1s));
  const KeyState state{.key = ann.hash, .terms = {100, 0}, .blocked_until = MonotonicTime(1s)};
  EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
  for (const auto now : {100ms, 200ms, 300ms}) {
    end_span(ann, MonotonicTime(now), MonotonicTime(now + 300ms), {state});
    for (int burst = 0; burst < 3; ++burst) EXPECT_TRUE(ann.refuses(MonotonicTime(now + 1ms)));
    // Another publication of the same span.
    ann.plane.publish(0, {state});
    EXPECT_TRUE(ann.refuses(MonotonicTime(now + 2ms)));
    const SpanTable& table = ann.plane.tables[0];
    EXPECT_EQ(table.refused(table.entry(table.locate(ann.hash))), 0U);
    EXPECT_EQ(table.rests(), 0U);
    EXPECT_EQ(table.find(ann.hash)->offered, ann.offered);
    EXPECT_FALSE(table.empty());
  }
}

TEST(BlockedKey, WhoseFramesNothingButItsLineRefusesMakesTheSpanCount) {
  if (best_instruction_set() == InstructionSet::portable) GTEST_SKIP() << "takes nothing as plain";
  BlockedKey ann(MonotonicTime(1s));
  const KeyState state{.key = ann.hash, .terms = {100, 0}, .blocked_until = MonotonicTime(1s)};
  const std::string text = std::string(54, '\1') + "GET / HTTP/1.1\r\nUser: ann\r\nAccept: */*\r\n\r\n";
  const PlainFrame frame{reinterpret_cast<const std::byte*>(text.data()),
                         {54, static_cast<std::uint32_t>(text.size() - 54)}};
  const SpanTable& table = ann.plane.tables[0];
  EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
  end_span(ann, MonotonicTime(100ms), MonotonicTime(400ms), {state});
  ASSERT_TRUE(table.empty());
  EXPECT_EQ(ann.worker.admit_plain({&frame, 1}), 0U);
  PlainDecisions decisions;
  ann.worker.decide_plain(MonotonicTime(101ms), decisions);
  EXPECT_EQ(decisions.refused, 1U);
  EXPECT_EQ(table.refused(table.entry(table.locate(ann.hash))), 0U);
  EXPECT_EQ(table.find(ann.hash)->offered, 1U);
  EXPECT_FALSE(table.empty());
}

TEST(BlockedKey, ThatWasLeftInATableIsLookedAtAgainWhereTheSpanEndsLate) {
  BlockedKey ann(MonotonicTime(420ms));
  const KeyState state{.key = ann.hash, .terms = {100, 0}, .blocked_until = MonotonicTime(420ms)};
  EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
  // It would be so by its line until 450 ms.
  end_span(ann, MonotonicTime(300ms), MonotonicTime(400ms), {state});
  EXPECT_TRUE(ann.refuses(MonotonicTime(399ms)));
  const SpanTable& table = ann.plane.tables[0];
  EXPECT_EQ(table.refused(table.entry(table.locate(ann.hash))), 0U);
  EXPECT_TRUE(ann.refuses(MonotonicTime(400ms)));
  EXPECT_GT(table.refused(table.entry(table.locate(ann.hash))), 0U);
  EXPECT_TRUE(ann.refuses(MonotonicTime(419ms)));
  EXPECT_FALSE(ann.refuses(MonotonicTime(420ms)));
  EXPECT_EQ(table.find(ann.hash)->offered, ann.offered);
}

TEST(BlockedKey, ThatWasLeftInATableIsRefusedByItsLineInAFloodOfItsNeighboursToo) {
  BlockedKey ann(MonotonicTime(1s));
  std::vector<KeyState> states;
  std::vector<std::string> names;
  std::vector<Key> keys;
  for (int i = 0; i < 32; ++i) names.push_back("user-" + std::to_string(i));
  // As in a burst each of them twice.
  for (int i = 0; i < 64; ++i) keys.push_back(ann.worker.key(0, names[i % 32]));
  for (const std::string& name : names)
    states.push_back({.key = ann.plane.key_of(name), .terms = {100, 0}, .blocked_until = MonotonicTime(1s)});
  ann.plane.publish(0, states);
  std::array<Verdict, 64> verdicts;
  for (int burst = 0; burst < 2; ++burst) ann.worker.admit_keys(keys, MonotonicTime(1ms), verdicts);
  end_span(ann, MonotonicTime(100ms), MonotonicTime(400ms), states);
  ann.worker.admit_keys(keys, MonotonicTime(101ms), verdicts);
  EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::block), 64);
  const SpanTable& table = ann.plane.tables[0];
  for (const KeyState& state : states) {
    EXPECT_EQ(table.refused(table.entry(table.locate(state.key))), 0U);
    EXPECT_EQ(table.find(state.key)->offered, 2U);
  }
}

TEST(BlockedKey, IsRefusedByItsLineForAsLongAsSpansHaveBecome) {
  for (const Duration more : {-1ns, 0ns}) {
    BlockedKey ann(MonotonicTime(3s));
    EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
    // The second of two spans that take 300 ms instead of 100.
    ann.plane.began = MonotonicTime(300ms);
    const KeyState state{.key = ann.hash, .terms = {100, 0}, .blocked_until = MonotonicTime(750ms + more)};
    ann.plane.publish(1, {state});
    ann.plane.tables[0].close();
    ann.plane.began = MonotonicTime(600ms);
    ann.plane.publish(0, {state});
    EXPECT_TRUE(ann.refuses(MonotonicTime(601ms)));
    EXPECT_FALSE(ann.refuses_at_a_glance()) << "it ends before such a span and a half have passed";
    const KeyState long_one{
        .key = ann.hash, .terms = {100, 0}, .blocked_until = MonotonicTime(1050ms + more)};
    ann.plane.publish(0, {long_one});
    EXPECT_TRUE(ann.refuses(MonotonicTime(1049ms)));
    EXPECT_EQ(ann.refuses_at_a_glance(), more == 0ns);
    EXPECT_TRUE(ann.refuses(MonotonicTime(1049ms)));
    EXPECT_FALSE(ann.refuses(MonotonicTime(1050ms)));
  }
}

TEST(BlockedKey, IsRefusedByItsLineThoughItsLateSpanIsPublishedAnewBeforeAnythingIsCounted) {
  BlockedKey ann(MonotonicTime(3s));
  const KeyState state{.key = ann.hash, .terms = {100, 0}, .blocked_until = MonotonicTime(3s)};
  ann.plane.publish(1, {state});
  ann.plane.began = MonotonicTime(300ms);
  for (int publication = 0; publication < 3; ++publication) ann.plane.publish(0, {state});
  for (const auto now : {301ms, 451ms, 749ms}) EXPECT_TRUE(ann.refuses(MonotonicTime(now)));
  const SpanTable& table = ann.plane.tables[0];
  EXPECT_LE(table.refused(table.entry(table.locate(ann.hash))), 8U) << "but for the first look";
  EXPECT_EQ(table.find(ann.hash)->offered, ann.offered);
}

TEST(BlockedKey, IsRefusedByItsLineThoughTheWorkerHasBeenAwayForLong) {
  BlockedKey ann(MonotonicTime(3s));
  ann.worker.offline();
  ann.plane.began = MonotonicTime(1h);
  ann.block(MonotonicTime(1h + 1200ms));
  ann.worker.online();
  EXPECT_TRUE(ann.refuses(MonotonicTime(1h + 1ms)));
  EXPECT_TRUE(ann.refuses_at_a_glance());
}

TEST(BlockedKey, IsTheOnlyReasonToReadTheClock) {
  BlockedKey ann(MonotonicTime(3s));
  const std::vector<Key> others(8, ann.worker.key(0, "bob"));
  std::array<Verdict, 8> verdicts;
  const auto readings_of = [&](std::span<const Key> keys) {
    clock_readings = 0;
    ann.worker.admit_keys(keys, read_clock, verdicts);
    return clock_readings;
  };
  EXPECT_EQ(readings_of(others), 1) << "met for the first time";
  EXPECT_EQ(readings_of(others), 0);
  EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
  EXPECT_EQ(readings_of(std::vector<Key>(8, ann.key)), 1);
  EXPECT_TRUE(ann.refuses_at_a_glance());
  for (int burst = 0; burst < 16; ++burst) EXPECT_EQ(readings_of(others), 1) << "the flood may go on";
  EXPECT_EQ(readings_of(others), 0);
}

TEST(BlockedKey, IsRefusedByItsLineBetweenBurstsOfOthers) {
  BlockedKey ann(MonotonicTime(3s));
  const std::vector<Key> others(8, ann.worker.key(0, "bob"));
  std::array<Verdict, 8> verdicts;
  for (int burst = 0; burst < 20; ++burst) {
    EXPECT_TRUE(ann.refuses(MonotonicTime(1ms)));
    for (int i = 0; i < burst % 5; ++i) ann.worker.admit_keys(others, MonotonicTime(1ms), verdicts);
  }
  const SpanTable& table = ann.plane.tables[0];
  EXPECT_LE(table.refused(table.entry(table.locate(ann.hash))), 8U) << "but for the first look";
  EXPECT_EQ(table.find(ann.hash)->offered, ann.offered);
}

TEST(BlockedKey, IsRefusedByItsLineWhereSpansLastForMinutes) {
  Rule rule = rule_of("user", 100'000, {by_header("user")});
  rule.interval = 1h;
  Plane plane({rule});
  const std::uint64_t hash = plane.key_of("ann");
  plane.publish(0, {{.key = hash, .terms = {100, 0}, .blocked_until = MonotonicTime(2s)}});
  EXPECT_EQ(plane.cores[0]->admit_key(0, "ann", 1, MonotonicTime(1ms)).verdict, Verdict::block);
  EXPECT_TRUE(plane.refuses_at_a_glance(hash));
}

TEST(BlockedKey, OfARuleThatOnlyObservesIsNotRefusedByItsLine) {
  Rule rule = rule_of("user", 100, {by_header("user")});
  rule.action = Action::observe;
  Plane plane({rule});
  const std::uint64_t hash = plane.key_of("ann");
  plane.publish(0, {{.key = hash, .terms = {100, 0}, .blocked_until = MonotonicTime(3s)}});
  const std::vector<Key> keys(8, plane.cores[0]->key(0, "ann"));
  std::vector<Verdict> verdicts(keys.size());
  for (int burst = 0; burst < 3; ++burst) {
    plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
    EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::admit), 8);
    EXPECT_FALSE(plane.refuses_at_a_glance(hash));
  }
}

TEST(Keys, ThatAreBlockedPassWhereTheRuleOnlyObserves) {
  Rule rule = rule_of("user", 1, {by_header("user")});
  rule.action = Action::observe;
  Plane plane({rule});
  const std::vector<Key> keys(8, plane.cores[0]->key(0, "ann"));
  std::vector<Verdict> verdicts(keys.size());
  for (int burst = 0; burst < 3; ++burst) {
    plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
    EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::admit), 8);
    // And who only looks.
    Key look = keys.front();
    look.weight = 0;
    verdicts.front() = Verdict::block;
    plane.cores[0]->admit_keys({&look, 1}, MonotonicTime(1ms), verdicts);
    EXPECT_EQ(verdicts.front(), Verdict::admit);
  }
  const Decision looked = plane.cores[0]->admit_key(0, "ann", 0, MonotonicTime(1ms));
  EXPECT_EQ(looked.verdict, Verdict::admit);
  EXPECT_EQ(looked.observed, 0) << "and is told of the block";
  EXPECT_EQ(looked.remaining, 0U);
  EXPECT_EQ(plane.cores[0]->rule_counters(0).blocked.read(), 3U * 8 - 1);
}

TEST(Keys, AreAllAdmittedByAWorkerThatIsOffline) {
  Plane plane({window_of(1)});
  const std::vector<Key> keys(70, plane.cores[0]->key(0, "ann"));
  std::vector<Verdict> verdicts(keys.size(), Verdict::block);
  plane.cores[0]->offline();
  plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
  EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::admit), 70);
}

TEST(Keys, WithoutWeightTakeNothing) {
  Plane plane({window_of(1)});
  Key key = plane.cores[0]->key(0, "ann");
  key.weight = 0;
  std::array<Verdict, 1> verdict;
  for (int i = 0; i < 5; ++i) plane.cores[0]->admit_keys({&key, 1}, MonotonicTime(1ms), verdict);
  key.weight = 1;
  plane.cores[0]->admit_keys({&key, 1}, MonotonicTime(1ms), verdict);
  EXPECT_EQ(verdict[0], Verdict::admit);
  plane.cores[0]->admit_keys({&key, 1}, MonotonicTime(1ms), verdict);
  EXPECT_EQ(verdict[0], Verdict::block);
  key.weight = 0;
  plane.cores[0]->admit_keys({&key, 1}, MonotonicTime(1ms), verdict);
  EXPECT_EQ(verdict[0], Verdict::block);
  EXPECT_EQ(plane.cores[0]->rule_counters(0).offered(), 2U);
}

TEST(Keys, KeptFromAnEarlierSpanAreNotBlockedForWhatOthersTookWhereNoCellIsLeftForThem) {
  Plane plane({rule_of("user", 10)}, 1, 64);
  const Key heavy = plane.cores[0]->key(0, "heavy");
  std::array<Verdict, 1> verdict;
  const auto admit = [&](const Key& key) {
    plane.cores[0]->admit_keys({&key, 1}, MonotonicTime(1ms), verdict);
    return verdict[0];
  };
  EXPECT_EQ(admit(heavy), Verdict::admit);
  plane.tables[0].close();
  plane.running.clear();
  // A flood takes all cells of the window, the shared ones too.
  for (std::uint64_t i = 1; i < 5000; ++i) {
    AllowancePool::Place place = plane.running.claim(i * 0x9e3779b97f4a7c15, 0);
    if (!place.own) place.cell->draw(10, 10, 1);
  }
  KeyBytes bytes;
  bytes.clear();
  bytes.add_text("heavy");
  ASSERT_FALSE(plane.running.claim(plane.cores[0]->key_of(0, bytes.bytes()), 0).own);
  EXPECT_EQ(admit(heavy), Verdict::block);
  EXPECT_EQ(plane.tables[0].size(), 0U);  // no entry, so nothing that could be judged
  EXPECT_EQ(plane.tables[0].overflows()[0].offered, 1U);
}

TEST(Keys, ThatADrainHasLeftRefusedAreToldOfOnlyByTheirOverflowWhereNoCellIsLeftForThem) {
  Plane plane({rule_of("user", 10, {by_header("user")})}, 1, 64);
  SpanTable& table = plane.tables[0];
  const std::uint64_t hash = plane.key_of("ann");
  const KeyState state{.key = hash, .terms = {10, 0}, .blocked_until = MonotonicTime(1s)};
  plane.publish(0, {state});
  const auto admit = [&](Duration now) {
    return plane.cores[0]->admit_key(0, "ann", 1, MonotonicTime(now)).verdict;
  };
  EXPECT_EQ(admit(1ms), Verdict::block);
  plane.publish(1, {state});
  table.drain({}, MonotonicTime(400ms), {}, [](std::span<const CountedKey>) {});
  table.renew();
  ASSERT_EQ(table.size(), 1U);
  plane.publish(0, {state});
  plane.running.clear();
  for (std::uint64_t i = 1; i < 5000; ++i) plane.running.claim(i * 0x9e3779b97f4a7c15, 0);
  ASSERT_FALSE(plane.running.claim(hash, 0).own);
  EXPECT_EQ(admit(100ms), Verdict::block);
  EXPECT_EQ(table.overflows()[0].offered, 1U);
  std::size_t told = 0;
  table.drain({}, SpanTable::keep_none, {}, [&](std::span<const CountedKey> keys) { told += keys.size(); });
  EXPECT_EQ(told, 0U);
}

// What a worker keeps ready, and when it must not be taken.

TEST(Ready, WhatWasDrawnBeforeABlockServesNobodyWhileItLasts) {
  Plane plane({rule_of("all", 1000)});
  // A chunk is drawn, and then more is asked for than there is: the first request refused begins the block.
  EXPECT_EQ(plane.cores[0]->admit_key(0, "ann", 1, MonotonicTime(1ms)).verdict, Verdict::admit);
  EXPECT_EQ(plane.cores[0]->admit_key(0, "ann", 1000, MonotonicTime(1ms)).verdict, Verdict::block);
  const Key key = plane.cores[0]->key(0, "ann");
  std::array<Verdict, 1> verdict;
  for (const MonotonicTime at : {MonotonicTime(1ms), MonotonicTime(5001ms - 1ns)}) {
    EXPECT_EQ(plane.cores[0]->admit_key(0, "ann", 1, at).verdict, Verdict::block);
    plane.cores[0]->admit_keys({&key, 1}, at, verdict);
    EXPECT_EQ(verdict[0], Verdict::block);
  }
  EXPECT_EQ(plane.cores[0]->admit_key(0, "ann", 1, MonotonicTime(5001ms)).verdict, Verdict::admit);
}

TEST(Ready, AKeyThatANewPublicationNamesIsLookedUpAgainAndTheOthersAreNot) {
  Plane plane({window_of(1000)});
  const Key ann = plane.cores[0]->key(0, "ann");
  const Key bob = plane.cores[0]->key(0, "bob");
  const auto admits = [&](const Key& key) {
    std::array<Verdict, 1> verdict;
    plane.cores[0]->admit_keys({&key, 1}, MonotonicTime(1ms), verdict);
    return verdict[0] == Verdict::admit;
  };
  EXPECT_TRUE(admits(ann));
  EXPECT_TRUE(admits(bob));
  // Both are closed, but only one of them is named.
  const std::vector<KeyState> closed{{.key = plane.key_of("ann"), .terms = {0, 0}},
                                     {.key = plane.key_of("bob"), .terms = {0, 0}}};
  plane.publish(0, closed, true, false, 1, {plane.key_of("ann")});
  EXPECT_FALSE(admits(ann));
  EXPECT_TRUE(admits(bob));
  // Beginning with this publication nothing holds any more.
  plane.publish(0, closed, true, false, 3);
  EXPECT_FALSE(admits(bob));
}

TEST(Ready, ARequestHeavierThanWhatAPlaceCanKeepIsChargedExactly) {
  const std::uint64_t limit = std::uint64_t{5} << 32;
  Rule rule = rule_of("bytes", limit);
  rule.algorithm = Algorithm::fixed_window;
  rule.weight = 1U << 20;
  Plane plane({rule});
  const std::uint64_t key = plane.key(0, get());
  std::uint64_t admitted = 0;
  for (const std::uint32_t weight : {1U, 5000U, 1U, 8000U, 3U, 4000U, 9000U, 1U, 3472U, 1U}) {
    Request request = get();
    request.weight = weight;
    const std::uint64_t units = std::uint64_t{weight} << 20;
    const bool fits = admitted + units <= limit;
    EXPECT_EQ(plane.cores[0]->admit(request, MonotonicTime(1ms)).verdict == Verdict::admit, fits) << weight;
    if (fits) admitted += units;
    EXPECT_EQ(plane.tables[0].find(key)->admitted, admitted);
  }
  EXPECT_EQ(plane.running.find(key)->drawn.load() - plane.tables[0].find(key)->credit, admitted);
}

TEST(Ready, ARuleWithoutDimensionsAndOneWithThemAreCountedApart) {
  Plane plane({rule_of("all", 50), rule_of("user", 7, {by_header("user")})});
  const Header user{"user", "ann"};
  Request request = get();
  request.headers = std::span(&user, 1);
  for (int i = 0; i < 20; ++i) plane.cores[0]->admit(request, MonotonicTime(1ms));
  plane.publish(1);
  for (int i = 0; i < 3; ++i) plane.cores[0]->admit(get(), MonotonicTime(2ms));
  EXPECT_EQ(plane.tables[0].find(plane.key(0, request))->admitted, 7U);
  EXPECT_EQ(plane.tables[0].find(plane.key(0, request))->offered, 7U);
  EXPECT_EQ(plane.tables[0].find(plane.key(1, request))->offered, 20U);
  EXPECT_EQ(plane.tables[0].find(plane.key(1, request))->admitted, 7U);
  EXPECT_EQ(plane.tables[1].find(plane.key(0, request))->admitted, 3U);
  EXPECT_FALSE(plane.tables[1].find(plane.key(1, request)));
}

TEST(FullTable, KeysWithoutRoomAreStillLimitedAndStillCounted) {
  Plane plane({rule_of("user", 5, {by_header("user")})}, 1, 64);
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back("user" + std::to_string(i));
  std::uint64_t admitted = 0;
  for (int round = 0; round < 10; ++round)
    for (const std::string& name : names) {
      const Header user{"user", name};
      Request request = get();
      request.headers = std::span(&user, 1);
      admitted += plane.cores[0]->admit(request, MonotonicTime(1ms)).verdict == Verdict::admit;
    }
  EXPECT_LE(admitted, 5000U);
  std::uint64_t counted_offered = plane.tables[0].overflows()[0].offered;
  std::uint64_t counted_admitted = plane.tables[0].overflows()[0].admitted;
  plane.tables[0].for_each([&](const CountedKey& entry) {
    counted_offered += entry.offered;
    counted_admitted += entry.admitted;
    EXPECT_LE(entry.admitted, 5U);
  });
  EXPECT_EQ(counted_offered, 10'000U);
  EXPECT_EQ(counted_admitted, admitted);
  EXPECT_GT(plane.cores[0]->overflowed(), 0U);
}

TEST(FullTable, WhatExceedsAllNumbersUnderASharedNameIsNotCountedFromZeroAgain) {
  Rule rule = rule_of("user", std::numeric_limits<std::int64_t>::max(), {by_header("user")});
  rule.weight = std::numeric_limits<std::uint32_t>::max();
  Plane plane({rule});
  plane.new_keys = 0;
  plane.publish(1);
  // Each counts as 1 more than the limit.
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(plane.cores[0]->admit_key(0, "ann", rule.weight, MonotonicTime(1ms)).verdict, Verdict::block);
  EXPECT_EQ(plane.tables[1].overflow(0).offered, std::numeric_limits<std::uint64_t>::max());
}

TEST(Worker, AdmitsEverythingThatNoRuleSpeaksOf) {
  Rule login = rule_of("login", 1);
  login.match.path = "/login";
  Plane plane({login});
  for (int i = 0; i < 10; ++i) {
    const Decision decision = plane.cores[0]->admit(get("/other"), MonotonicTime(1ms));
    EXPECT_EQ(decision.verdict, Verdict::admit);
    EXPECT_EQ(decision.rule, no_rule);
  }
}

TEST(Worker, AdmitsPlainFramesUnderManyRulesAsTheOneThatAppliesSays) {
  if (best_instruction_set() == InstructionSet::portable) GTEST_SKIP() << "finds no plain frames";
  std::vector<Rule> rules;
  for (std::size_t i = 0; i < 3 * max_rules_per_request; ++i) {
    rules.push_back(rule_of("route-" + std::to_string(i), 1'000'000 + i));
    rules.back().match.path = "/route-" + std::to_string(i);
  }
  Plane plane(rules);
  const auto text_of = [](std::string_view path) {
    return std::string(54, '\1') + "GET " + std::string(path) + " HTTP/1.1\r\nAccept: */*\r\n\r\n";
  };
  const std::array texts{text_of("/other"), text_of("/route-33"), text_of("/route-2"), text_of("/route-33")};
  std::array<PlainFrame, 4> frames;
  for (std::size_t i = 0; i < frames.size(); ++i)
    frames[i] = {reinterpret_cast<const std::byte*>(texts[i].data()),
                 {54, static_cast<std::uint32_t>(texts[i].size() - 54)}};
  for (const std::string_view path : {"/route-33", "/route-2"})
    plane.cores[0]->admit(get(path), MonotonicTime(1ms));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(plane.cores[0]->admit_plain(std::span(frames).first(1)), 1U) << "no rule speaks of it";
    EXPECT_EQ(plane.cores[0]->admit_plain(frames), 0xfU);
  }
  for (RuleIndex rule = 0; rule < rules.size(); ++rule)
    EXPECT_EQ(plane.cores[0]->rule_counters(rule).admitted.read(), rule == 33  ? 7U
                                                                   : rule == 2 ? 4U
                                                                               : 0U)
        << rule;
}

TEST(Worker, AKeyMadeByTheCallerIsLimitedLikeAnyOther) {
  Plane plane({rule_of("tenant", 2)});
  EXPECT_EQ(plane.cores[0]->admit_key(0, "acme", 1, MonotonicTime(1ms)).verdict, Verdict::admit);
  EXPECT_EQ(plane.cores[0]->admit_key(0, "acme", 1, MonotonicTime(1ms)).verdict, Verdict::admit);
  EXPECT_EQ(plane.cores[0]->admit_key(0, "acme", 1, MonotonicTime(1ms)).verdict, Verdict::block);
  EXPECT_EQ(plane.cores[0]->admit_key(0, "other", 1, MonotonicTime(1ms)).verdict, Verdict::admit);
}

// With a grant of its own a worker needs neither entry nor cell.
struct Granted : Plane {
  explicit Granted(std::vector<Rule> with, std::uint32_t of_each, unsigned workers = 1)
      : Plane(std::move(with), workers) {
    grant = of_each;
    publish(0);
  }
  bool admits(unsigned worker = 0, std::string_view user = "ann", std::uint32_t weight = 1,
              RuleIndex rule = 0) {
    return cores[worker]->admit_key(rule, user, weight, MonotonicTime(1ms)).verdict == Verdict::admit;
  }
  int admitted_of(int requests, unsigned worker = 0) {
    int admitted = 0;
    for (int i = 0; i < requests; ++i) admitted += admits(worker);
    return admitted;
  }
  /// Whether it may be admitted out of its grant is to be asked of each of the first rule's keys.
  void look_at_each_key(unsigned table = 0) {
    publish(table, {{.key = key_of("somebody"), .terms = {0, 0}, .ungranted_since = 1, .rule = 0}});
  }
  /// What was admitted out of the worker's grants in its span.
  std::uint64_t harvest(unsigned worker, unsigned of_table) {
    std::uint64_t sum = 0;
    const SpanTable& table = tables[worker * tables_per_worker + of_table];
    if (table.grant_turns.empty()) return 0;
    const std::vector<GrantWindow> windows(rules.size(), GrantWindow(table.grant_turns[0]));
    table.for_each([&](const CountedKey& entry) {
      if (entry.lent > 0) sum += grants[worker]->take_lent(entry.key, entry.lent, windows[entry.rule]);
    });
    grants[worker]->harvest(windows, [&](const GrantUse& use) { sum += use.admitted; });
    return sum;
  }
};

TEST(Grant, AdmitsWithoutEntryOrCell) {
  Granted plane({window_of(1000)}, 8);
  EXPECT_EQ(plane.admitted_of(8), 8);
  EXPECT_EQ(plane.tables[0].size(), 0U);
  EXPECT_EQ(plane.running.find(plane.key_of("ann")), nullptr);
  EXPECT_FALSE(plane.tables[0].empty());
  EXPECT_EQ(plane.harvest(0, 0), 8U);
  EXPECT_EQ(plane.cores[0]->rule_counters(0).offered(), 8U);
  EXPECT_EQ(plane.cores[0]->rule_counters(0).admitted.read(), 8U);
}

TEST(BlockedKey, ByAnotherWorkerUsesItsGrantUpFirst) {
  // So small that what a grant has left stays with it when the key is looked at.
  Granted plane({rule_of("user", 30, {by_header("user")})}, 8, 2);
  EXPECT_EQ(plane.admitted_of(4), 4);
  EXPECT_LT(plane.admitted_of(100, 1), 30);
  std::vector<Key> keys(8, plane.cores[0]->key(0, "ann"));
  std::array<Verdict, 8> verdicts;
  const auto admits = [&](std::uint32_t weight) {
    for (Key& key : keys) key.weight = weight;
    plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
    return std::count(verdicts.begin(), verdicts.end(), Verdict::admit);
  };
  for (int i = 0; i < 20; ++i) EXPECT_EQ(admits(5), 0);  // more than there is left of it
  EXPECT_EQ(admits(1), 4);
  EXPECT_EQ(admits(1), 0);
}

TEST(Grant, ABurstOfKeysUsesItWithTheirRulesWeight) {
  Rule heavy = window_of(1000);
  heavy.name = "heavy";
  heavy.weight = 3;
  Granted plane({window_of(1000), heavy}, 8);
  std::vector<Key> keys;
  for (const RuleIndex rule : {0, 0, 1, 0, 1, 1}) keys.push_back(plane.cores[0]->key(rule, "ann"));
  std::vector<Verdict> verdicts(keys.size(), Verdict::block);
  plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
  EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::admit), 6);
  // Two of the three of weight 3 fit into 8.
  EXPECT_EQ(plane.tables[0].size(), 1U);
  EXPECT_EQ(plane.tables[0].find(plane.key_of("ann", 1))->admitted, 3U);
  EXPECT_EQ(plane.harvest(0, 0), 3U + 6U);
  EXPECT_FALSE(plane.tables[0].empty());
}

TEST(Grant, EachOfABurstsKeysUsesAsMuchOfItAsItWeighs) {
  for (std::size_t odd = 0; odd < 32; ++odd) {
    for (const auto& [weight, closely] : {std::pair{0U, false}, {2U, false}, {7U, false}, {7U, true}}) {
      Granted plane({window_of(10'000)}, 1000);
      if (closely) plane.look_at_each_key();
      ASSERT_TRUE(plane.admits());  // has its place now
      std::vector<Verdict> verdicts(32);
      for (int times = 0; times < 3; ++times)
        plane.cores[0]->admit_keys(burst_with_one_odd(*plane.cores[0], 0, "ann", odd, weight),
                                   MonotonicTime(1ms), verdicts);
      EXPECT_EQ(plane.harvest(0, 0), 1 + 3 * (31 * 2 + weight)) << odd << ' ' << weight;
    }
  }
}

TEST(Grant, ABurstsKeyThatWeighsMoreThanItTakesWhatItWeighsElsewhere) {
  for (std::size_t odd = 0; odd < 32; ++odd) {
    Granted plane({window_of(10'000)}, 100);
    ASSERT_TRUE(plane.admits());  // has its place now
    std::vector<Verdict> verdicts(32);
    plane.cores[0]->admit_keys(burst_with_one_odd(*plane.cores[0], 0, "ann", odd, 2000), MonotonicTime(1ms),
                               verdicts);
    EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::admit), 32);
    const std::optional<CountedKey> counted = plane.tables[0].find(plane.key_of("ann", 0));
    ASSERT_TRUE(counted) << odd;
    EXPECT_EQ(plane.harvest(0, 0) + counted->admitted + counted->lent, 1U + 31 * 2 + 2000) << odd;
  }
}

TEST(Grant, DoesNotAnswerForWhatWeighsNothing) {
  for (const std::size_t alike : {1, 2}) {
    Granted plane({window_of(10'000)}, 100);
    ASSERT_TRUE(plane.admits());  // has its place now
    std::vector<Key> keys(2, plane.cores[0]->key(0, "ann"));
    std::array<Verdict, 2> verdicts{};
    keys[0].weight = keys[alike - 1].weight = 0;
    plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
    EXPECT_EQ(verdicts[0], Verdict::admit);
    EXPECT_EQ(plane.cores[0]->rule_counters(0).offered(), alike == 1 ? 2U : 1U);
  }
}

// 2^32 in all, where counts at hand have 32 bits.
TEST(Keys, MayWeighMoreThanWhatIsAtHandCanTell) {
  Rule large = window_of(std::uint64_t{1} << 40);
  large.weight = std::uint32_t{1} << 20;
  for (const std::uint32_t granted : {0U, 100U}) {
    for (const std::uint32_t weight_of_another : {1U, 1U << 12}) {
      Granted plane({large}, granted);
      std::vector<Key> keys(2, plane.cores[0]->key(0, "ann"));
      std::array<Verdict, 2> verdicts{};
      std::uint64_t asked = 0;
      const auto admit = [&](std::uint32_t one, std::uint32_t another) {
        keys[0].weight = one;
        keys[1].weight = another;
        plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
        EXPECT_EQ(verdicts, (std::array{Verdict::admit, Verdict::admit}));
        asked += std::uint64_t{large.weight} * (one + another);
      };
      admit(1, 1);  // has something ready now
      admit(1 << 12, weight_of_another);
      const std::optional<CountedKey> counted = plane.tables[0].find(plane.key_of("ann"));
      ASSERT_TRUE(counted);
      EXPECT_EQ(counted->admitted + plane.harvest(0, 0), asked);
    }
  }
}

TEST(Grant, OfABurstsKeysOnlyWhoHasUsedItUpIsLookedAt) {
  Granted plane({window_of(10'000)}, 8);
  std::vector<std::string> names;
  std::vector<Key> keys;
  for (int i = 0; i < 32; ++i) names.push_back("user" + std::to_string(i));
  for (const std::string& name : names) keys.push_back(plane.cores[0]->key(0, name));
  for (const std::string& name : names) ASSERT_TRUE(plane.admits(0, name));  // have their places now
  plane.tables[0].close();
  plane.begin_window(1);
  plane.cores[0]->quiescent();
  // Of a third something has been used, of another all, and of the rest nothing yet.
  for (std::size_t i = 0; i < names.size(); ++i)
    if (i % 3 != 2) {
      ASSERT_TRUE(plane.admits(0, names[i], i % 3 == 0 ? 1 : 8));
    }
  std::vector<Verdict> verdicts(keys.size(), Verdict::block);
  plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
  EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::admit), 32);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::optional<CountedKey> counted = plane.tables[0].find(plane.key_of(names[i]));
    EXPECT_EQ(counted.has_value(), i % 3 == 1) << i;
  }
}

TEST(Grant, OfAKeyThatIsToBeLookedAtIsNoMoreUsedByBursts) {
  Rule tenant = window_of(1000);
  tenant.name = "tenant";
  Granted plane({window_of(1000), tenant}, 8);
  ASSERT_TRUE(plane.admits());
  ASSERT_TRUE(plane.admits(0, "ann", 1, 1));
  plane.publish(0, {{.key = plane.key_of("ann"), .terms = {0, 0}, .ungranted_since = 1, .rule = 0}});
  const std::vector<Key> keys(4, plane.cores[0]->key(0, "ann"));
  std::array<Verdict, 4> verdicts{};
  plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
  EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::block), 4);
  const std::array<Key, 4> mixed{keys[0], plane.cores[0]->key(1, "ann"), keys[0],
                                 plane.cores[0]->key(1, "ann")};
  plane.cores[0]->admit_keys(mixed, MonotonicTime(1ms), verdicts);
  EXPECT_EQ(verdicts, (std::array{Verdict::block, Verdict::admit, Verdict::block, Verdict::admit}));
  const std::string text = std::string(54, '\1') + "GET / HTTP/1.1\r\nUser: ann\r\nAccept: */*\r\n\r\n";
  const PlainFrame frame{reinterpret_cast<const std::byte*>(text.data()),
                         {54, static_cast<std::uint32_t>(text.size() - 54)}};
  EXPECT_EQ(plane.cores[0]->admit_plain({&frame, 1}), 0U);
}

TEST(Grant, ABurstOfKeysThatUseNothingElseMakesTheSpanCount) {
  for (const auto& [weight_of_another, closely] : {std::pair{1U, false}, {2U, false}, {2U, true}}) {
    Granted plane({window_of(1000)}, 8);
    std::vector<Key> keys(2, plane.cores[0]->key(0, "ann"));
    keys[1].weight = weight_of_another;
    ASSERT_TRUE(plane.admits());  // has its place now
    closely ? plane.look_at_each_key(1) : plane.publish(1);
    ASSERT_TRUE(plane.tables[1].empty());
    std::array<Verdict, 2> verdicts{};
    plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
    EXPECT_FALSE(plane.tables[1].empty()) << weight_of_another;
  }
}

TEST(Grant, APlainBurstThatUsesNothingElseMakesTheSpanCount) {
  if (best_instruction_set() == InstructionSet::portable) GTEST_SKIP() << "takes nothing as plain";
  Rule tenant = window_of(1000);
  tenant.name = "tenant";
  for (const bool several : {false, true}) {
    Granted plane(several ? std::vector<Rule>{window_of(1000), tenant} : std::vector<Rule>{window_of(1000)},
                  8);
    const std::string text = std::string(54, '\1') + "GET / HTTP/1.1\r\nUser: ann\r\nAccept: */*\r\n\r\n";
    const PlainFrame frame{reinterpret_cast<const std::byte*>(text.data()),
                           {54, static_cast<std::uint32_t>(text.size() - 54)}};
    ASSERT_TRUE(plane.admits());  // have their places now
    ASSERT_TRUE(!several || plane.admits(0, "ann", 1, 1));
    plane.publish(1);
    ASSERT_TRUE(plane.tables[1].empty());
    ASSERT_EQ(plane.cores[0]->admit_plain({&frame, 1}), 1U) << several;
    EXPECT_FALSE(plane.tables[1].empty()) << several;
  }
}

/// A name for each of two rules, whose keys look alike in a small table: they share a line and 32 bits.
std::pair<std::string, std::string> alike_in(Granted& plane) {
  constexpr int names = 1 << 19;
  const auto look_of = [&](const std::string& name, RuleIndex rule) {
    const std::uint64_t key = plane.key_of(name, rule);
    return key << 32 | key >> 58;  // its line is told by its first bits, and these are enough
  };
  std::unordered_map<std::uint64_t, std::string> users;
  for (int i = 0; i < names; ++i) {
    std::string user = "user" + std::to_string(i);
    const std::uint64_t look = look_of(user, 0);
    users.emplace(look, std::move(user));
  }
  for (int i = 0;; ++i) {
    std::string tenant = "tenant" + std::to_string(i);
    if (const auto user = users.find(look_of(tenant, 1)); user != users.end())
      return {user->second, std::move(tenant)};
  }
}

// Also where there are no grants, and what is ready of one is found for the other, too.
TEST(Grant, TwoKeysOfARequestThatLookAlikeAreBothCounted) {
  for (const std::uint32_t of_each : {8, 0}) {
    Granted plane({window_of(1000), rule_of("tenant", 1000, {by_header("tenant")})}, of_each);
    const auto [user, tenant] = alike_in(plane);
    ASSERT_TRUE(plane.admits(0, user));  // has its place now, where the other one is found, too
    const std::array<Header, 2> headers{Header{"User", user}, Header{"Tenant", tenant}};
    std::array<Request, 5> requests;
    for (Request& request : requests) {
      request = get();
      request.headers = headers;
    }
    std::array<Decision, 5> decisions;
    plane.cores[0]->admit_burst(requests, MonotonicTime(1ms), decisions, Detail::verdicts);
    for (const Decision& decision : decisions) EXPECT_EQ(decision.verdict, Verdict::admit);
    std::map<RuleIndex, std::uint64_t> admitted;
    for (const RuleIndex rule : {0, 1}) admitted[rule] = plane.tables[0].overflow(rule).admitted;
    const std::vector<GrantWindow> windows(2, GrantWindow(plane.tables[0].grant_turns[0]));
    plane.grants[0]->harvest(windows, [&](const GrantUse& use) { admitted[use.rule] += use.admitted; });
    plane.tables[0].for_each([&](const CountedKey& key) { admitted[key.rule] += key.admitted; });
    EXPECT_EQ(admitted[0], 6U) << of_each;
    EXPECT_EQ(admitted[1], 5U) << of_each;
  }
}

// The last four that a tenant has go to those who come first, whom the worker has not met before; not to
// those behind them whose keys it finds at once.
TEST(Grant, UnderSeveralRulesIsOfWhoComesFirstInABurst) {
  const Rule tenant = rule_of("tenant", 1, {by_header("tenant")});
  for (const std::size_t newcomers : {1, 3}) {
    Granted plane({window_of(1000), tenant}, 8);  // of which nothing is set aside here
    ASSERT_TRUE(plane.admits(0, "ann"));
    for (std::uint32_t used = 0; used < 5; ++used) ASSERT_TRUE(plane.admits(0, "a", 1, 1));
    const std::array<std::string, 6> users{
        "new", newcomers == 3 ? "newer" : "ann", newcomers == 3 ? "newest" : "ann", "ann", "ann", "ann"};
    std::array<std::array<Header, 2>, 6> headers;
    std::array<Request, 6> requests;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      headers[i] = {Header{"User", users[i]}, Header{"Tenant", "a"}};
      requests[i] = get();
      requests[i].headers = headers[i];
    }
    std::array<Decision, 6> decisions;
    plane.cores[0]->admit_burst(requests, MonotonicTime(1ms), decisions, Detail::verdicts);
    for (std::size_t i = 0; i < requests.size(); ++i)
      EXPECT_EQ(decisions[i].verdict, i < 4 ? Verdict::admit : Verdict::block) << i << " of " << newcomers;
  }
}

// Bursts go by the grants first, and by the entries first where hardly any grant is left.
TEST(Grant, BurstsAdmitAllThatThereIsAndNoMoreWhicheverIsLookedAtFirst) {
  std::mt19937_64 random(12);
  Granted plane({window_of(100)}, 8);
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) names.push_back("user" + std::to_string(i));
  std::map<std::string_view, std::uint64_t> offered;
  std::map<std::string_view, std::uint64_t> admitted;
  for (int burst = 0; burst < 400; ++burst) {
    std::vector<Key> keys;
    // Who comes moves on: from those who have used up theirs to such as have not begun.
    for (std::size_t i = random() % 32; i < 32; ++i)
      keys.push_back(
          plane.cores[0]->key(0, names[(static_cast<std::size_t>(burst) / 20 + random() % 8) % 40]));
    std::vector<Verdict> verdicts(keys.size());
    plane.cores[0]->prefetch_keys(keys);
    plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ++offered[keys[i].value];
      admitted[keys[i].value] += verdicts[i] == Verdict::admit;
    }
  }
  std::uint64_t all = 0;
  for (const auto& [name, count] : offered) {
    EXPECT_EQ(admitted[name], std::min<std::uint64_t>(count, 100)) << name << " of " << count;
    all += admitted[name];
  }
  std::uint64_t counted = plane.harvest(0, 0);
  plane.tables[0].for_each([&](const CountedKey& entry) { counted += entry.admitted; });
  EXPECT_EQ(counted, all);
}

TEST(Grant, WhatIsLeftOfItBecomesCreditOnceMoreIsAsked) {
  for (const std::uint32_t weight : {1U, 3U, 5U, 9U, 100U}) {
    Granted plane({window_of(1000)}, 8);
    std::uint64_t admitted = 0;
    for (int i = 0; i < 2000; ++i) admitted += plane.admits(0, "ann", weight) ? weight : 0;
    // Alone it may have all, but for what no request of this weight fits into.
    EXPECT_GT(admitted, 1000 - weight);
    EXPECT_LE(admitted, 1000U);
    EXPECT_EQ(plane.harvest(0, 0) + plane.tables[0].find(plane.key_of("ann"))->admitted, admitted);
  }
}

TEST(Grant, IsNotUsedBesideTheCreditThatWasMadeOfIt) {
  Granted plane({window_of(1000)}, 8);
  EXPECT_TRUE(plane.admits(0, "ann", 5));
  EXPECT_TRUE(plane.admits(0, "ann", 5));  // more than is left: 3 become credit
  EXPECT_EQ(plane.admitted_of(2000), 990);
  EXPECT_EQ(plane.harvest(0, 0) + plane.tables[0].find(plane.key_of("ann"))->admitted, 1000U);
}

// A grant filled up again out of what has been drawn.
struct Lent : Granted {
  /// @param asked  so far
  explicit Lent(int asked, std::uint64_t limit = 10'000, std::uint32_t granted = 16)
      : Granted({window_of(limit)}, granted) {
    EXPECT_EQ(admitted_of(asked), asked);
  }
  /// What the entry and its lane say without each other's help.
  std::uint64_t ready() { return tables[0].find(key_of("ann"))->credit; }
  std::uint32_t used() {
    const GrantTable::Place place = grants[0]->locate(key_of("ann"));
    return grants[0]->used(place, GrantWindow(tables[0].grant_turns[0]));
  }
};

TEST(Grant, IsFilledUpOutOfPlentySoThatRequestsAreFoundThere) {
  Lent plane(16 + 1);  // the first one beyond the grant draws a chunk
  EXPECT_EQ(plane.used(), 0U);
  const std::uint64_t ready = plane.ready();
  EXPECT_EQ(plane.admitted_of(16), 16);
  EXPECT_EQ(plane.ready(), ready);
  EXPECT_EQ(plane.used(), 16U);
  EXPECT_TRUE(plane.admits());  // out of what is ready
  EXPECT_EQ(plane.ready(), ready - 1 - 16);
  EXPECT_EQ(plane.used(), 0U);
}

TEST(Grant, OfAKeyInABurstIsFilledUpToo) {
  Lent plane(16);
  std::vector<std::string> others;
  for (int i = 0; i < 28; ++i) others.push_back("user" + std::to_string(i));
  std::vector<Key> keys(4, plane.cores[0]->key(0, "ann"));
  for (const std::string& other : others) keys.push_back(plane.cores[0]->key(0, other));
  std::vector<Verdict> verdicts(keys.size());
  for (int burst = 0; burst < 12; ++burst) plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
  const std::uint64_t at_entry = plane.tables[0].find(plane.key_of("ann"))->admitted;
  EXPECT_LT(at_entry, 12U * 4 / 3);
  EXPECT_EQ(plane.harvest(0, 0) + at_entry, 16U + 12 * 32);
}

TEST(Grant, IsNotFilledUpWhereTheAllowanceGoesToItsEnd) {
  Lent plane(1000 - 4, 1000);
  EXPECT_GT(plane.used(), GrantTable::most);  // closed: what is left is for whoever draws it
  EXPECT_EQ(plane.admitted_of(100), 4);
}

TEST(Grant, FilledUpAndTooSmallForARequestGoesToItsEntryAgain) {
  Lent plane(16 + 2, 1000);
  std::uint64_t admitted = 18;
  for (int i = 0; i < 200; ++i) admitted += plane.admits(0, "ann", 7) ? 7 : 0;
  EXPECT_GT(admitted, 1000U - 7);
  admitted += static_cast<std::uint64_t>(plane.admitted_of(10));
  EXPECT_EQ(admitted, 1000U);
  EXPECT_EQ(plane.harvest(0, 0) + plane.tables[0].find(plane.key_of("ann"))->admitted, 1000U);
}

TEST(Grant, WhatIsLentIsNotLostWhileGrantsAreLeftAlone) {
  Granted plane({rule_of("user", 1024, {by_header("user")})}, 16);
  EXPECT_EQ(plane.admitted_of(500), 500);
  plane.grant_turn = 1;
  plane.publish(0);
  EXPECT_EQ(plane.admitted_of(524), 524);
}

// A node's share of the limit falls to a third within a window, so that grants end.
TEST(Grant, WhatIsLentIsNotLostWhereASmallerShareEndsGrants) {
  Granted plane({rule_of("user", 1024, {by_header("user")})}, 16);
  EXPECT_EQ(plane.admitted_of(200), 200);
  auto next = std::make_unique<Publication>(*plane.published.back());
  next->generation += 1;
  next->grants = {0};
  next->defaults[0].allowance = 1024 / 3;
  plane.slot.publish(next.get());
  plane.published.push_back(std::move(next));
  plane.cores[0]->quiescent();
  EXPECT_EQ(plane.admitted_of(1024 / 3 - 200), 1024 / 3 - 200);
}

// More than the entry has a field for.
TEST(Grant, IsFilledUpHoweverMuchASpanHasLent) {
  Lent plane(1, std::uint64_t{1} << 40, GrantTable::most);
  const std::vector<Key> keys(32, plane.cores[0]->key(0, "ann"));
  std::vector<Verdict> verdicts(keys.size());
  constexpr std::uint64_t bursts = 3 * SpanEntry::most_lent / 32;
  std::uint64_t found_elsewhere = 0;
  for (std::uint64_t i = 0; i < bursts; ++i) {
    const std::uint32_t used = plane.used();
    plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
    ASSERT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::admit), 32);
    found_elsewhere += plane.used() == used;
  }
  EXPECT_LT(found_elsewhere, bursts / 32);
  const std::optional<CountedKey> entry = plane.tables[0].find(plane.key_of("ann"));
  EXPECT_EQ(plane.harvest(0, 0) + entry->admitted, 1 + bursts * 32);
}

// Who counts takes what is lent together with what he saw used before, of which less may be left.
TEST(Grant, WhatTheSpanBeforeUsedIsNotCountedTwiceWhereASpanHasLentMoreThanItsFieldHolds) {
  Lent plane(2001, std::uint64_t{1} << 40, GrantTable::most);
  plane.publish(1);
  std::uint64_t counted = plane.harvest(0, 0);
  ASSERT_EQ(counted, 2001U);
  const std::vector<Key> keys(32, plane.cores[0]->key(0, "ann"));
  std::vector<Verdict> verdicts(keys.size());
  std::uint64_t admitted = 2001;
  for (std::uint32_t lent = 0, before = 0; lent >= before;) {
    plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
    admitted += 32;
    const std::optional<CountedKey> entry = plane.tables[1].find(plane.key_of("ann"));
    before = std::exchange(lent, entry ? entry->lent : 0);
  }
  plane.publish(0);
  counted += plane.harvest(0, 1) + plane.tables[1].find(plane.key_of("ann"))->admitted;
  EXPECT_EQ(counted, admitted);
}

TEST(Grant, TellsWhatRemainsWhereverItIsKept) {
  Lent plane(0, 10'000);
  for (std::uint64_t left = 10'000; left-- > 0;)
    ASSERT_EQ(plane.cores[0]->admit_key(0, "ann", 1, MonotonicTime(1ms)).remaining, left);
}

TEST(Grant, WhatWasLentSinceTheSpanEndedIsCountedWithTheNext) {
  Lent plane(16 + 2 + 10);
  plane.publish(1);
  // An entry of the new span lends before the old one's counts are taken: less seems to have been used.
  EXPECT_EQ(plane.admitted_of(16), 16);
  const std::uint64_t first = plane.harvest(0, 0) + plane.tables[0].find(plane.key_of("ann"))->admitted;
  EXPECT_LE(first, 28U + 16U);
  EXPECT_EQ(plane.admitted_of(16 + 5), 16 + 5);
  plane.publish(0);
  const std::uint64_t second = plane.harvest(0, 1) + plane.tables[1].find(plane.key_of("ann"))->admitted;
  EXPECT_EQ(first + second, 28U + 16 + 16 + 5);
}

TEST(Grant, AllWorkersTogetherNeverAdmitMoreThanTheLimit) {
  for (const unsigned workers : {2U, 3U, 5U}) {
    Granted plane({window_of(1000)}, 3, workers);
    int admitted = plane.admitted_of(2, 1) + plane.admitted_of(2000);
    for (unsigned worker = 1; worker < workers; ++worker) admitted += plane.admitted_of(2000, worker);
    EXPECT_LE(admitted, 1000);
    // What chunks strand, at most a 64th.
    EXPECT_GE(admitted, 1000 - 1000 / 64 - 1);
  }
}

TEST(Grant, AllWorkersTogetherNeverAdmitMoreThanTheLimitInBursts) {
  for (const unsigned workers : {2U, 3U, 5U}) {
    Granted plane({window_of(1000)}, 3, workers);
    const auto admitted_of_bursts = [&](int bursts, unsigned worker) {
      std::ptrdiff_t admitted = 0;
      const std::vector<Key> keys(32, plane.cores[worker]->key(0, "ann"));
      std::vector<Verdict> verdicts(keys.size());
      for (int burst = 0; burst < bursts; ++burst) {
        plane.cores[worker]->admit_keys(keys, MonotonicTime(1ms), verdicts);
        admitted += std::count(verdicts.begin(), verdicts.end(), Verdict::admit);
      }
      return admitted;
    };
    std::ptrdiff_t admitted = admitted_of_bursts(2, 0);
    // Its next request is the first one in a span of a key that is known.
    plane.tables[0].close();
    for (unsigned worker = 0; worker < workers; ++worker) admitted += admitted_of_bursts(60, worker);
    EXPECT_LE(admitted, 1000);
    // What chunks strand, at most a 64th, and what was at hand when nobody asked for it.
    EXPECT_GE(admitted, 1000 - 1000 / 32 - 1);
  }
}

TEST(Grant, HoldsForTheWindowAndNotForASpan) {
  Granted plane({window_of(1000)}, 8);
  EXPECT_EQ(plane.admitted_of(5), 5);
  plane.publish(1);  // the next span of the same window
  EXPECT_EQ(plane.admitted_of(3), 3);
  EXPECT_EQ(plane.tables[1].size(), 0U);
  EXPECT_TRUE(plane.admits());
  EXPECT_EQ(plane.tables[1].size(), 1U);
}

TEST(Grant, OfAWindowIsNotLostWhenTheWorkerMissesSome) {
  Granted plane({window_of(1000)}, 8);
  plane.begin_window(1);
  plane.cores[0]->quiescent();
  ASSERT_EQ(plane.admitted_of(5), 5);
  // It takes up the other table in a window further on, before what it used has been seen.
  plane.begin_window(2);
  AllowancePool& running = plane.begin_window(3);
  auto next = std::make_unique<Publication>(*plane.published.back());
  next->generation += 1;
  next->table_of_worker = {1};
  plane.slot.publish(next.get());
  plane.published.push_back(std::move(next));
  plane.cores[0]->quiescent();
  EXPECT_EQ(plane.admitted_of(7), 7);
  EXPECT_EQ(running.find(plane.key_of("ann")), nullptr);
  EXPECT_EQ(plane.harvest(0, 0), 5U);
  EXPECT_EQ(plane.harvest(0, 1), 7U);
}

TEST(Grant, OfAWindowIsWhatBurstsOfSeveralRulesUseInIt) {
  Rule tenant = window_of(1000);
  tenant.name = "tenant";
  Granted plane({window_of(1000), tenant}, 8);
  const std::array<Key, 4> keys{plane.cores[0]->key(0, "ann"), plane.cores[0]->key(1, "ann"),
                                plane.cores[0]->key(0, "ann"), plane.cores[0]->key(1, "ann")};
  const auto admit = [&] {
    std::array<Verdict, 4> verdicts;
    plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
    EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::admit), 4);
  };
  plane.begin_window(1);
  plane.cores[0]->quiescent();
  for (int i = 0; i < 2; ++i) admit();
  plane.begin_window(2);
  auto next = std::make_unique<Publication>(*plane.published.back());
  next->generation += 1;
  next->table_of_worker = {1};
  plane.slot.publish(next.get());
  plane.published.push_back(std::move(next));
  plane.cores[0]->quiescent();
  for (int i = 0; i < 3; ++i) admit();
  EXPECT_EQ(plane.harvest(0, 0), 8U);
  EXPECT_EQ(plane.harvest(0, 1), 12U);
}

TEST(Grant, IsNotUsedInAWindowThatIsOver) {
  Granted plane({window_of(1000)}, 8);
  plane.begin_window(1);
  plane.cores[0]->quiescent();
  ASSERT_TRUE(plane.admits());
  plane.begin_window(2);  // its counts are still in the table of window 1
  plane.cores[0]->quiescent();
  EXPECT_TRUE(plane.admits());
  EXPECT_EQ(plane.harvest(0, 0), 1U);
  EXPECT_EQ(plane.tables[0].find(plane.key_of("ann"))->admitted, 1U);
}

TEST(Grant, OfAWindowThatTheClockComesBackToIsNotGivenTwice) {
  Granted plane({window_of(1000)}, 8);
  plane.begin_window(5);
  plane.cores[0]->quiescent();
  plane.begin_window(6);
  plane.cores[0]->quiescent();
  plane.begin_window(5);
  plane.cores[0]->quiescent();
  EXPECT_TRUE(plane.admits());
  EXPECT_EQ(plane.tables[0].size(), 1U);
  EXPECT_EQ(plane.harvest(0, 0), 0U);
}

TEST(Grant, ItsNameGoesToTheLogOfTheTableThatTheWorkerCountsIn) {
  Granted plane({window_of(1000)}, 8);
  const auto told = [&](std::size_t table) {
    std::vector<std::uint64_t> keys;
    plane.grants[0]->names(table).read_new([&](const NewName& name) { keys.push_back(name.key); });
    return keys;
  };
  EXPECT_TRUE(plane.admits(0, "ann"));
  EXPECT_TRUE(plane.admits(0, "bob"));
  plane.publish(1);
  EXPECT_TRUE(plane.admits(0, "ann"));
  EXPECT_TRUE(plane.admits(0, "cid"));
  EXPECT_EQ(told(0), (std::vector{plane.key_of("ann"), plane.key_of("bob")}));
  EXPECT_EQ(told(1), (std::vector{plane.key_of("cid")}));
}

TEST(Grant, IsLeftAloneWhileIdleKeysAreForgottenAndGoesOnAfterwards) {
  Granted plane({window_of(1000)}, 8);
  EXPECT_TRUE(plane.admits());
  plane.grant_turn = 1;
  plane.publish(1);
  EXPECT_TRUE(plane.admits());
  EXPECT_EQ(plane.harvest(0, 0), 1U);
  EXPECT_EQ(plane.tables[1].size(), 1U);
  plane.grants[0]->forget_idle(std::array{GrantTable::RecentTurns{plane.tables[0].grant_turns[0]}},
                               [](std::uint64_t) {});
  EXPECT_EQ(plane.grants[0]->held(), 1U);
  plane.tables[1].close();
  plane.published.back()->grant_turn_of_worker = {2};
  plane.published.back()->generation += 1;
  plane.cores[0]->quiescent();
  // In the same window: what has been used of it is known.
  EXPECT_EQ(plane.admitted_of(7), 7);
  EXPECT_EQ(plane.tables[1].size(), 0U);
  EXPECT_TRUE(plane.admits());
  EXPECT_EQ(plane.tables[1].size(), 1U);
}

TEST(Grant, IsNotOfAKeyThatIsToBeLookedAt) {
  Granted plane({rule_of("user", 1000, {by_header("user")})}, 8);
  EXPECT_TRUE(plane.admits());
  KeyState blocked{.key = plane.key_of("ann"), .terms = {1000, 0}, .ungranted_since = 1, .rule = 0};
  blocked.blocked_until = MonotonicTime(1s);
  plane.publish(0, {blocked});
  EXPECT_FALSE(plane.admits());
  EXPECT_TRUE(plane.admits(0, "bob"));
}

TEST(Grant, OfAKeyThatNobodyHasOneOfAllMayBeDrawn) {
  Granted plane({window_of(1000)}, 8, 2);
  plane.publish(0, {{.key = plane.key_of("ann"), .terms = {1000, 0}, .ungranted_since = 0, .rule = 0}});
  EXPECT_EQ(plane.admitted_of(2000), 1000);
  EXPECT_EQ(plane.harvest(0, 0), 0U);
}

TEST(Grant, OfAKeyThatHadOneInThisWindowItIsStillSetAside) {
  Granted plane({window_of(1000)}, 8, 2);
  plane.publish(0, {{.key = plane.key_of("ann"), .terms = {1000, 0}, .ungranted_since = 1, .rule = 0}});
  EXPECT_EQ(plane.admitted_of(2000), 1000 - 8);
}

TEST(Grant, OfAKeyThatAWorkerHasRefusedIsNotUsedUntilThatIsJudged) {
  Granted plane({rule_of("user", 1000, {by_header("user")})}, 8, 2);
  EXPECT_TRUE(plane.admits(1));
  EXPECT_LT(plane.admitted_of(1001), 1001);
  EXPECT_TRUE(plane.grants[0]->refused.any());
  plane.grants[0]->refused.add_to(plane.refused);
  // A window begins; what happened in the one before has not been judged.
  plane.publish(1, {}, false, true);
  EXPECT_FALSE(plane.admits(0));
  const std::vector<Key> burst(8, plane.cores[1]->key(0, "ann"));
  std::array<Verdict, 8> verdicts;
  plane.cores[1]->admit_keys(burst, MonotonicTime(1ms), verdicts);
  EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::admit), 0);
  EXPECT_FALSE(plane.admits(1));
  EXPECT_TRUE(plane.admits(1, "bob"));
  plane.refused = {};
  plane.publish(1, {}, true, true);
  EXPECT_FALSE(plane.grants[0]->refused.any());
}

/// A worker that may admit 8 of each key of three rules without asking. Of the first one's many are blocked.
struct RefusingMany : Granted {
  static constexpr RuleIndex attacked = 0, calm = 1, window = 2;

  RefusingMany()
      : Granted({rule_of("attacked", 1, {by_header("user")}), rule_of("calm", 1000, {by_header("user")}),
                 window_of(1000)},
                8) {}
  /// More than it was granted, and than there is. @return whether it is refused
  bool refuse_new() { return !admits(0, "new" + std::to_string(refused_keys++), 9, attacked); }
  /// The rule's keys among so many, each with one request, that are not admitted out of grants.
  int looked_at(RuleIndex rule, int keys) {
    int looked_at = 0;
    for (int key = 0; key < keys; ++key) {
      const std::string user = "user" + std::to_string(key);
      EXPECT_TRUE(admits(0, user, 1, rule));
      for (const SpanTable& table : tables) looked_at += table.find(key_of(user, rule)).has_value();
    }
    return looked_at;
  }

  int refused_keys = 0;
};

TEST(Grant, IsNotLostToKeysOfOtherRulesBecauseManyAreRefused) {
  RefusingMany plane;
  for (int key = 0; key < 60; ++key) ASSERT_TRUE(plane.refuse_new());
  for (const RuleIndex rule : {RefusingMany::calm, RefusingMany::window})
    EXPECT_EQ(plane.looked_at(rule, 20), 0) << rule;
  // Until they are judged.
  plane.publish(1, {}, false);
  for (const RuleIndex rule : {RefusingMany::calm, RefusingMany::window})
    EXPECT_EQ(plane.looked_at(rule, 20), 0) << rule;
}

TEST(Grant, IsHardlyEverLostToKeysOfTheSameRuleBecauseManyAreRefused) {
  RefusingMany plane;
  for (int key = 0; key < 60; ++key) ASSERT_TRUE(plane.refuse_new());
  EXPECT_LE(plane.looked_at(RefusingMany::attacked, 20), 1);
}

// Which keys are named is told of all rules' together, and of others besides.
TEST(Grant, IsNotLostToKeysOfRulesThatHaveNoneToBeLookedAt) {
  RefusingMany plane;
  const std::uint64_t named = plane.key_of("user0", RefusingMany::calm);
  plane.publish(0, {{.key = named, .terms = {1, 0}, .ungranted_since = 1, .rule = RefusingMany::attacked}});
  EXPECT_EQ(plane.looked_at(RefusingMany::calm, 1), 0);
  plane.publish(0, {{.key = named, .terms = {1000, 0}, .ungranted_since = 1, .rule = RefusingMany::calm}});
  EXPECT_EQ(plane.looked_at(RefusingMany::calm, 1), 1);
}

// As whoever polls seldom, and is away in between.
TEST(Grant, IsNotLostForGoodToAWorkerThatIsNeverThereWhenASpanEnds) {
  for (const unsigned tables : {2U, 1U}) {
    RefusingMany plane;
    const auto span = [&](auto&& use) {
      plane.cores[0]->online();
      use();
      plane.cores[0]->offline();
      for (SpanTable& table : plane.tables) table.close();
      plane.publish(static_cast<std::uint8_t>(plane.published.size() % tables));
    };
    for (int i = 0; i < 100; ++i) span([&] { EXPECT_TRUE(plane.refuse_new()); });
    for (int i = 0; i < 3; ++i) span([] {});
    span([&] {
      EXPECT_EQ(plane.looked_at(RefusingMany::attacked, 20), 0) << tables;
      EXPECT_TRUE(plane.admits(0, "new0", 1, RefusingMany::attacked)) << tables;
    });
  }
}

// Where grants are so much of the allowance that what is left of them is not made credit of.
TEST(Grant, OfAKeyThatHasBeenRefusedIsNotUsedByBurstsOfSeveralRules) {
  Rule tenant = window_of(1000);
  tenant.name = "tenant";
  Granted plane({rule_of("user", 100, {by_header("user")}), tenant}, 8, 8);
  ASSERT_TRUE(plane.admits(0, "ann", 5));
  ASSERT_TRUE(plane.admits(0, "ann", 1, 1));
  ASSERT_FALSE(plane.admits(0, "ann", 60));
  const std::array<Key, 4> keys{plane.cores[0]->key(0, "ann"), plane.cores[0]->key(1, "ann"),
                                plane.cores[0]->key(0, "ann"), plane.cores[0]->key(1, "ann")};
  std::array<Verdict, 4> verdicts;
  plane.cores[0]->admit_keys(keys, MonotonicTime(1ms), verdicts);
  EXPECT_EQ(verdicts, (std::array{Verdict::block, Verdict::admit, Verdict::block, Verdict::admit}));
}

TEST(Grant, OfAKeyThatABurstHasRefusedIsNotUsedByItsNextRequest) {
  const Header user{"user", "ann"};
  std::array<Request, 2> requests{get(), get()};
  for (Request& request : requests) request.headers = std::span(&user, 1);
  requests[0].weight = 60;
  for (const Detail detail : {Detail::full, Detail::verdicts}) {
    Granted plane({rule_of("user", 100, {by_header("user")})}, 8, 8);
    ASSERT_TRUE(plane.admits(0, "ann", 5));
    std::array<Decision, 2> decisions;
    plane.cores[0]->admit_burst(requests, MonotonicTime(1ms), decisions, detail);
    EXPECT_EQ(decisions[0].verdict, Verdict::block);
    EXPECT_EQ(decisions[1].verdict, Verdict::block);
  }
}

TEST(Grant, OfNoRuleIsUsedForARequestThatAnotherRuleRefuses) {
  Granted plane({rule_of("all", 1000, {by_header("tenant")}), window_of(2)}, 8);
  auto next = std::make_unique<Publication>(*plane.published.back());
  next->generation += 1;
  next->grants[1] = 0;
  next->reserves[1] = 0;
  plane.slot.publish(next.get());
  plane.published.push_back(std::move(next));
  plane.cores[0]->quiescent();
  const std::array<Header, 2> headers{Header{"user", "ann"}, Header{"tenant", "acme"}};
  Request request = get();
  request.headers = headers;
  int admitted = 0;
  for (int i = 0; i < 5; ++i)
    admitted += plane.cores[0]->admit(request, MonotonicTime(1ms)).verdict == Verdict::admit;
  EXPECT_EQ(admitted, 2);
  EXPECT_FALSE(plane.tables[0].find(plane.key(0, request)));
  EXPECT_EQ(plane.harvest(0, 0), 2U);
}

TEST(Grant, WhereItsKeyFindsNoCellTellsWhatRemainsInTheOneThatItShares) {
  for (const bool has_drawn_there : {false, true}) {
    Granted plane({window_of(1000)}, 8);
    ASSERT_TRUE(plane.admits(0, "ann", 2));
    // A flood takes all cells of the window, and all that the shared ones hold but a little.
    const auto flood = [&](std::uint64_t but) {
      for (std::uint64_t i = 1; i < 5000; ++i) {
        const AllowancePool::Place place = plane.running.claim(i * 0x9e3779b97f4a7c15, 0);
        if (!place.own) place.cell->draw(place.cell->left_of(992 - but), 992 - but, 1);
      }
    };
    flood(20);
    std::uint64_t left = 6 + 20;
    if (has_drawn_there) {
      ASSERT_TRUE(plane.admits(0, "ann", 10));  // more than is granted
      left -= 10;
    }
    while (left-- > 0) ASSERT_EQ(plane.cores[0]->admit_key(0, "ann", 1, MonotonicTime(1ms)).remaining, left);
    EXPECT_FALSE(plane.admits());
  }
}

TEST(Grant, TellsWhatRemainsAsIfItHadBeenDrawn) {
  Granted plane({window_of(1000)}, 8);
  for (std::uint64_t left = 1000; left-- > 0;) {
    const Decision decision = plane.cores[0]->admit_key(0, "ann", 1, MonotonicTime(1ms));
    ASSERT_EQ(decision.verdict, Verdict::admit);
    ASSERT_EQ(decision.remaining, left);
    ASSERT_EQ(plane.cores[0]->admit_key(0, "ann", 0, MonotonicTime(1ms)).remaining, left);
  }
}

}  // namespace
}  // namespace weir
