// SPDX-License-Identifier: BSD-3-Clause
// What a worker has to look up again when the controller publishes: nothing where nothing has changed, and
// nobody whose block goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_bytes.h"
#include "control/controller.h"
#include "dataplane/worker_core.h"
#include "engine/engine.h"
#include "node/rule_plan.h"
#include "shared/grant_table.h"
#include "shared/publication.h"
#include "shared/quiescence.h"
#include "shared/span_table.h"
#include "store/memory/memory_store.h"
#include "weir/config.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

Config config_of(const std::string& text) {
  ConfigResult parsed = parse_config(text, "test");
  if (!parsed) throw std::runtime_error(parsed.errors.front().to_string());
  return std::move(parsed.config);
}

/// One span is 100 ms, a window ten of them, a block thirty.
const char* const rules = R"(
  [node]
  keys = 1000
  [[rule]]
  name = "r"
  key = ["header:x-user"]
  limit = 100
  interval = "1s"
  spans = 10
  cooldown = "3s"
  [[rule]]
  name = "other"
  key = ["header:x-user"]
  limit = 100
  interval = "1s"
  spans = 10
)";

/// A node with one worker whose publications can be looked at.
class Node {
 public:
  explicit Node(std::shared_ptr<MemoryCounters> counters)
      : config_(config_of(rules)),
        classifier_(config_.rules),
        plan_(config_, 1),
        tables_(make_tables()),
        engine_(config_.rules, 2 * config_.node.keys),
        store_(make_memory_store(std::move(counters))),
        controller_({.rules = config_.rules,
                     .window_of_rule = plan_.window_of_rule,
                     .bucket_of_rule = plan_.buckets,
                     .tables = tables_,
                     .corrections = corrections_,
                     .grants = grants_,
                     .quiescence = quiescence_,
                     .publication = slot_,
                     .pools = plan_.pools,
                     .engine = engine_,
                     .store = *store_,
                     .store_timeout = config_.store.timeout,
                     .log = {}}),
        core_({classifier_, plan_.terms, slot_, quiescence_, HashKey{1, 2}}, 0, tables_, corrections_,
              *grants_[0]) {
    advance();
    core_.online();
    pass(50ms);
  }
  ~Node() { core_.offline(); }

  const Publication& published() const { return *slot_.load(); }
  /// The low bits of the hash of a user's key, as publications are asked about it.
  std::uint32_t key(std::string_view user) const { return static_cast<std::uint32_t>(hash(user)); }
  const KeyState* state(std::string_view user) const { return published().find(hash(user)); }
  /// How long the user's block still lasts, by what is published.
  Duration blocked_for(std::string_view user) const {
    const MonotonicTime until = published().blocked_until(hash(user), state(user));
    return until > now().monotonic ? until - now().monotonic : Duration{};
  }
  std::uint64_t blocked_keys() const { return controller_.blocked_keys()[0]; }
  /// @return how many of so many requests are admitted
  int admit(std::string_view user, int requests) {
    int admitted = 0;
    for (; requests > 0; --requests)
      admitted += core_.admit_key(0, user, 1, now().monotonic).verdict == Verdict::admit;
    return admitted;
  }
  /// The same in bursts.
  int admit_in_bursts(std::string_view user, int bursts) {
    int admitted = 0;
    const std::vector<Key> keys(8, core_.key(0, user));
    std::array<Verdict, 8> verdicts;
    for (; bursts > 0; --bursts) {
      core_.admit_keys(keys, now().monotonic, verdicts);
      admitted += static_cast<int>(std::count(verdicts.begin(), verdicts.end(), Verdict::admit));
    }
    return admitted;
  }
  /// Of a user's requests in the table that the worker counts in.
  std::uint64_t offered(std::string_view user) const { return counting().find(hash(user))->offered; }
  /// Those of them that were refused in a look at the user's entry, not by the line alone.
  std::uint64_t refused_in_looks(std::string_view user) const {
    const SpanTable& table = counting();
    return table.refused(table.entry(table.locate(hash(user))));
  }
  void pass(Duration time) { now_ += time; }
  void advance() { controller_.advance(now()); }
  void report() { core_.quiescent(); }
  /// The flip, by which the span has ended, and has not been judged yet.
  void flip(Duration lasted = 100ms) {
    pass(lasted);
    advance();
  }
  /// Worker and controller come round once more, so that it has.
  void judge() {
    report();
    advance();
    report();
  }

 private:
  std::uint64_t hash(std::string_view user) const {
    KeyBytes bytes;
    bytes.clear();
    bytes.add_text(user);
    return core_.key_of(0, bytes.bytes());
  }
  const SpanTable& counting() const { return tables_[published().table_of_worker[0]]; }
  std::vector<SpanTable> make_tables() const {
    std::vector<SpanTable> tables;
    tables.reserve(tables_per_worker);
    for (unsigned i = 0; i < tables_per_worker; ++i)
      tables.emplace_back(config_.node.keys, config_.rules.size());
    return tables;
  }
  Instant now() const { return {WallTime(1000s) + now_, MonotonicTime(50s) + now_}; }

  Config config_;
  Classifier classifier_;
  RulePlan plan_;
  Quiescence quiescence_{1};
  PublicationSlot slot_{1};
  std::vector<SpanTable> tables_;
  std::vector<CorrectionLog> corrections_ = [] {
    std::vector<CorrectionLog> logs;
    for (unsigned i = 0; i < tables_per_worker; ++i) logs.emplace_back(0);
    return logs;
  }();
  std::vector<std::unique_ptr<GrantTable>> grants_ = [] {
    std::vector<std::unique_ptr<GrantTable>> grants;
    grants.push_back(std::make_unique<GrantTable>(1000));
    return grants;
  }();
  Engine engine_;
  std::unique_ptr<Store> store_;
  Controller controller_;
  WorkerCore core_;
  Duration now_{};
};

struct Publications : ::testing::Test {
  std::shared_ptr<MemoryCounters> counters = std::make_shared<MemoryCounters>();
  Node node{counters};
};

TEST_F(Publications, WhereAJudgementChangesNothingWorkersNeedNotNotice) {
  node.admit("ann", 5);
  node.flip();
  const std::uint64_t generation = node.published().generation;
  const std::uint32_t mark = node.published().mark();
  EXPECT_FALSE(node.published().judged);
  node.judge();
  EXPECT_TRUE(node.published().judged);
  EXPECT_GT(node.published().generation, generation);
  EXPECT_EQ(node.published().mark(), mark);
}

TEST_F(Publications, ASpanThatBeginsIsAlwaysNoticed) {
  node.admit("ann", 5);
  node.flip();
  node.judge();
  const std::uint32_t mark = node.published().mark();
  node.admit("ann", 5);
  node.flip();
  EXPECT_NE(node.published().mark(), mark);
  EXPECT_FALSE(node.published().still_holds(mark, node.key("ann")));
}

TEST_F(Publications, OfTheSpanBeforeNothingHoldsHoweverLittleHasChangedSince) {
  node.admit("bob", 200);
  node.flip();
  node.judge();
  const std::uint32_t mark = node.published().mark();
  node.admit("ann", 5);
  node.flip();
  node.judge();
  ASSERT_GT(node.published().same_for, 1U);
  EXPECT_FALSE(node.published().still_holds(mark, node.key("ann")));
}

TEST_F(Publications, AJudgementThatChangesAKeyIsNoticedAndOnlyThatKeyIsLookedUpAgain) {
  node.admit("ann", 5);
  EXPECT_EQ(node.admit("bob", 200), 100);
  node.flip();
  const std::uint32_t mark = node.published().mark();
  node.judge();
  EXPECT_NE(node.published().mark(), mark);
  EXPECT_TRUE(node.published().still_holds(mark, node.key("ann")));
  EXPECT_FALSE(node.published().still_holds(mark, node.key("bob")));
}

TEST_F(Publications, WhatHasBeenNoticedOnceNeedNotBeNoticedAgain) {
  node.admit("bob", 200);
  node.flip();
  const std::uint64_t flipped = node.published().generation;
  node.judge();
  // It has been published by itself, and once more with the store's answers.
  const std::uint32_t mark = node.published().mark();
  ASSERT_GT(node.published().generation, flipped + 1);
  EXPECT_EQ(node.published().same_for, node.published().generation - flipped - 1);
  EXPECT_TRUE(node.published().still_holds(mark, node.key("ann")));
}

TEST_F(Publications, WhoIsBlockedAndGoesOnIsLookedUpOnceInEachTableUntilHisBlockIsNearlyOver) {
  node.admit("bob", 200);
  for (int span = 0; span < 29; ++span) {
    node.flip();
    node.judge();
    EXPECT_EQ(node.admit_in_bursts("bob", 5), 0) << span;
    EXPECT_EQ(node.offered("bob"), 40U) << span;
    // He was blocked in the middle of the span before the first of these; and in the last ones his block may
    // be over before they are, as far as could be told two spans before.
    EXPECT_EQ(node.refused_in_looks("bob") > 0, span < 2 || span > 25) << span;
  }
  node.pass(100ms - 1ns);
  EXPECT_EQ(node.admit_in_bursts("bob", 1), 0);
  node.pass(1ns);
  EXPECT_EQ(node.admit_in_bursts("bob", 1), 8);
}

TEST_F(Publications, WhoIsBlockedAndGoesOnIsNotLookedUpAgainThoughSpansEndLate) {
  node.admit("bob", 200);
  for (int span = 0; span < 5; ++span) {
    EXPECT_EQ(node.admit_in_bursts("bob", 3), 0);
    node.flip(300ms);
    node.judge();
    node.admit_in_bursts("bob", 3);
    node.pass(280ms);
    EXPECT_EQ(node.admit_in_bursts("bob", 3), 0);
    EXPECT_EQ(node.refused_in_looks("bob") > 0, span < 2) << span;
    node.pass(-280ms);
  }
}

TEST_F(Publications, OfABlockThatLastsNoMoreIsSaidUntilItIsAboutToEnd) {
  node.admit("bob", 200);
  for (int span = 0; span < 29; ++span) {
    node.flip();
    node.judge();
    EXPECT_EQ(node.blocked_keys(), 1U) << span;
    EXPECT_EQ(node.blocked_for("bob"), 3s - (span + 1) * 100ms) << span;
    if (span <= 12) {
      EXPECT_EQ(node.state("bob"), nullptr) << span;
    }
    if (span < 25) continue;
    // Workers may come round late: what holds after the block is known before it is over.
    ASSERT_NE(node.state("bob"), nullptr) << span;
    EXPECT_EQ(node.state("bob")->terms.allowance, 100U);
  }
  node.flip();
  node.judge();
  EXPECT_EQ(node.blocked_keys(), 0U);
  EXPECT_EQ(node.admit("bob", 200), 100);
}

TEST_F(Publications, WhoseBlockLastsAndHasBegunIsLookedUpAgainAndNobodyElse) {
  node.admit("ann", 5);
  node.admit("bob", 200);
  node.flip();
  const std::uint32_t mark = node.published().mark();
  ASSERT_EQ(node.blocked_for("bob"), 0s);
  node.judge();
  ASSERT_GT(node.blocked_for("bob"), 2s);
  ASSERT_EQ(node.state("bob"), nullptr);
  EXPECT_TRUE(node.published().still_holds(mark, node.key("ann")));
  EXPECT_FALSE(node.published().still_holds(mark, node.key("bob")));
}

TEST_F(Publications, WhoIsBlockedHasNoGrantsUntilTheIntervalAfterHisBlockHasEnded) {
  node.admit("bob", 200);
  std::uint64_t since = KeyState::granted;
  for (int span = 0; span < 29; ++span) {
    node.flip();
    node.judge();
    EXPECT_TRUE(node.published().ungranted().may_hold(node.key("bob"))) << span;
    EXPECT_EQ(node.published().some_ungranted, (std::vector<std::uint8_t>{true, false})) << span;
    if (node.state("bob") != nullptr) since = node.state("bob")->ungranted_since;
  }
  // As it was when he was blocked: in the whole interval before nobody has had a grant either.
  EXPECT_EQ(since, node.published().windows[0].interval_number - 1);
  int ungranted = 0;
  for (int span = 0; span < 40; ++span) {
    node.flip();
    node.judge();
    const bool names_bob = node.published().ungranted().may_hold(node.key("bob"));
    ungranted += names_bob;
    EXPECT_EQ(node.published().some_ungranted, (std::vector<std::uint8_t>{names_bob, false})) << span;
  }
  EXPECT_LE(ungranted, 12);
}

TEST_F(Publications, TellOfWhichRuleTheKeysAreThatHaveNoGrants) {
  node.admit("ann", 80);
  int ungranted = 0;
  for (int span = 0; span < 40; ++span) {
    node.flip();
    node.judge();
    const bool names_ann = node.published().ungranted().may_hold(node.key("ann"));
    ungranted += names_ann;
    EXPECT_EQ(node.published().some_ungranted, (std::vector<std::uint8_t>{names_ann, false})) << span;
  }
  EXPECT_GT(ungranted, 0);
}

TEST_F(Publications, ABlockHasEndedThoughTheControllerHasBeenAwayUntilLongAfter) {
  node.admit("bob", 200);
  for (int span = 0; span < 3; ++span) {
    node.flip();
    node.judge();
  }
  ASSERT_EQ(node.state("bob"), nullptr);
  node.pass(2700ms - 1ns);
  EXPECT_EQ(node.admit("bob", 1), 0);
  node.pass(10s);
  node.flip();
  node.judge();
  EXPECT_EQ(node.blocked_keys(), 0U);
  EXPECT_EQ(node.blocked_for("bob"), 0s);
  EXPECT_EQ(node.admit("bob", 200), 100);
}

}  // namespace
}  // namespace weir
