// SPDX-License-Identifier: BSD-3-Clause
// Costs that are known only after a request has been admitted.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "timed_node.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

std::string rule_of(std::string_view algorithm, std::string_view more = {}, int limit = 1000) {
  return "[[rule]]\nname = \"tokens\"\nkey = [\"header:x-user\"]\nlimit = " + std::to_string(limit) +
         "\ninterval = \"1s\"\nspans = 10\nalgorithm = \"" + std::string(algorithm) + "\"\n" +
         std::string(more);
}

class CorrectedNode : public testing::TimedNode {
 public:
  using TimedNode::TimedNode;

  bool admits(std::uint32_t weight, std::string_view user = "ada") {
    return worker().admit_key(0, user, weight, now().monotonic).verdict == Verdict::admit;
  }
  Instant charged() { return worker().span_began(); }
  void correct(std::int64_t by, Instant charged_in, std::string_view user = "ada") {
    ASSERT_TRUE(worker().correct(worker().key(0, user), by, charged_in));
  }
  /// All that is admitted now.
  std::uint32_t rest(std::string_view user = "ada") { return admit(0, user, 3000); }
};

// A worker may have as much at hand of a key, whatever the others do; and where windows slide as much is kept
// for it.
constexpr std::uint32_t at_hand = 1000 / 64;

Request request_with(const Header& header, std::uint32_t weight) {
  Request request;
  request.method = "GET";
  request.target = "/";
  request.headers = {&header, 1};
  request.weight = weight;
  return request;
}

class Correction : public ::testing::TestWithParam<const char*> {
 protected:
  static void expect_rest(CorrectedNode& node, std::uint32_t expected) {
    const std::uint32_t rest = node.rest();
    EXPECT_LE(rest, expected);
    const bool slides = GetParam() == std::string_view("sliding-window");
    EXPECT_GE(rest + (slides ? at_hand : 0), expected);
  }
};

INSTANTIATE_TEST_SUITE_P(EachAlgorithm, Correction,
                         ::testing::Values("fixed-window", "sliding-window", "sliding-log", "cooldown",
                                           "token-bucket", "leaky-bucket"),
                         [](const auto& param) {
                           std::string name = param.param;
                           name.erase(name.find('-') == std::string::npos ? name.size() : name.find('-'), 1);
                           return name;
                         });

// What a bucket has gained since.
std::uint32_t gained_in(std::string_view algorithm, int spans) {
  return algorithm.ends_with("bucket") ? static_cast<std::uint32_t>(spans) * 100 : 0;
}

TEST_P(Correction, WhatARequestHasCostBeyondItsWeightIsTakenOffTheLimit) {
  CorrectedNode node(rule_of(GetParam()));
  node.end_span();
  ASSERT_TRUE(node.admits(400));
  node.correct(500, node.charged());
  node.end_span();
  expect_rest(node, 100 + gained_in(GetParam(), 1));
}

TEST_P(Correction, WhatItHasCostLessMayBeAdmittedAgain) {
  CorrectedNode node(rule_of(GetParam()));
  node.end_span();
  const Instant charged = node.charged();
  ASSERT_TRUE(node.admits(900));
  node.end_span();
  node.correct(-700, charged);
  node.end_span();
  expect_rest(node, 800 + gained_in(GetParam(), 2));
}

TEST_P(Correction, MoreThanHasBeenChargedLeavesTheLimitUnusedAndNotBetter) {
  CorrectedNode node(rule_of(GetParam()));
  node.end_span();
  ASSERT_TRUE(node.admits(900));
  node.correct(std::numeric_limits<std::int64_t>::min(), node.charged());
  node.end_span();
  expect_rest(node, 1000);
}

TEST_P(Correction, OfMoreThanHasBeenChargedTheNextSpanIsSetAgainstNoMoreThanAGrant) {
  CorrectedNode node(rule_of(GetParam()));
  node.end_span();
  ASSERT_TRUE(node.admits(100));
  node.correct(-900, node.charged());
  node.end_span();
  ASSERT_TRUE(node.admits(700));
  node.end_spans(2);
  const std::uint32_t rest = node.rest();
  EXPECT_LE(rest, 300 + at_hand + gained_in(GetParam(), 2));
}

TEST_P(Correction, OfMoreThanHasBeenChargedNothingIsSetAgainstLaterSpans) {
  CorrectedNode node(rule_of(GetParam()));
  node.end_span();
  ASSERT_TRUE(node.admits(100));
  node.correct(-110, node.charged());
  node.end_spans(2);
  ASSERT_TRUE(node.admits(100));
  node.end_span();
  if (gained_in(GetParam(), 1) == 0) {  // a bucket's counts go by the rate
    EXPECT_EQ(node.core().top(1).at(0).admitted, 100U);
  }
}

TEST_P(Correction, OfTheSpanThatRunsIsHandedBackWhenTheNodeStops) {
  CorrectedNode node(rule_of(GetParam()));
  node.end_span();
  ASSERT_TRUE(node.admits(900));
  node.correct(-700, node.charged());
  node.worker().offline();
  EXPECT_TRUE(node.core().finish(node.now(), 1s));
  if (gained_in(GetParam(), 1) == 0) {  // a bucket's counts go by the rate
    EXPECT_EQ(node.core().top(1).at(0).admitted, 200U);
  }
}

TEST_P(Correction, OneKeysCostsAreNoOthers) {
  CorrectedNode node(rule_of(GetParam()));
  node.end_span();
  ASSERT_TRUE(node.admits(1, "eve"));
  node.correct(1000, node.charged(), "eve");
  node.end_span();
  expect_rest(node, 1000);
}

TEST_P(Correction, AKeyOfWhichNothingHasBeenChargedIsChargedWhatItCost) {
  CorrectedNode node(rule_of(GetParam()));
  node.end_span();
  ASSERT_TRUE(node.admits(0));
  node.correct(600, node.charged());
  node.end_span();
  expect_rest(node, 400);
}

TEST_P(Correction, MoreThanTheLimitMayBeOwed) {
  CorrectedNode node(rule_of(GetParam()));
  node.end_span();
  ASSERT_TRUE(node.admits(1));
  node.correct(std::numeric_limits<std::int64_t>::max(), node.charged());
  node.correct(std::numeric_limits<std::int64_t>::max(), node.charged());
  node.end_span();
  EXPECT_LE(node.rest(), at_hand);
  node.end_spans(3);
  EXPECT_EQ(node.rest(), 0);
}

TEST_P(Correction, WhoOnlyLooksAndIsChargedAfterwardsIsRefusedAsSoonAsNothingIsLeft) {
  CorrectedNode node(rule_of(GetParam()));
  node.end_span();
  ASSERT_TRUE(node.admits(0));
  node.correct(1900, node.charged());
  node.end_span();
  EXPECT_FALSE(node.admits(0));
  node.end_span();
  EXPECT_FALSE(node.admits(0));
}

/// Where what is submitted to it may be told of first.
class ToldStore final : public Store {
 public:
  explicit ToldStore(std::function<void()>& before_submit) : before_submit_(before_submit) {}
  void submit(const std::vector<CounterWrite>& writes, MonotonicTime now) override {
    if (before_submit_) std::exchange(before_submit_, nullptr)();
    store_->submit(writes, now);
  }
  void collect(std::vector<CounterReply>& replies) override { store_->collect(replies); }
  void on_ready(std::function<void()> wake) override { store_->on_ready(std::move(wake)); }
  StoreFigures figures() const override { return store_->figures(); }
  bool flush(Duration patience) override { return store_->flush(patience); }

 private:
  std::function<void()>& before_submit_;
  std::unique_ptr<Store> store_ = make_memory_store(std::make_shared<MemoryCounters>());
};

/// Two workers, which take up what is published when the test says so.
class TwoWorkers {
 public:
  explicit TwoWorkers(std::string_view algorithm)
      : core_(parse_config(rule_of(algorithm), "test").config, {.workers = 2, .hash_seed = 1, .log = {}},
              std::make_unique<ToldStore>(before_submit_)),
        is_bucket_(algorithm.ends_with("bucket")) {
    core_.advance(now_);
    for (unsigned i = 0; i < 2; ++i) core_.worker(i).online();
  }
  ~TwoWorkers() {
    for (unsigned i = 0; i < 2; ++i) core_.worker(i).offline();
  }

  void pass_time(Duration by) {
    now_ = now_ + by;
    core_.advance(now_);
  }
  void pass(unsigned worker) { core_.worker(worker).quiescent(); }
  /// While the controller is at work: when it next tells the store something.
  void when_it_tells(std::function<void()> act) { before_submit_ = std::move(act); }
  bool has_told() const { return before_submit_ == nullptr; }
  void end_span() {
    pass_time(100ms);
    for (int round = 0; round < 2; ++round) {
      for (unsigned i = 0; i < 2; ++i) pass(i);
      core_.advance(now_);
    }
  }
  void admit(unsigned worker, std::uint32_t weight) {
    charged_in_ = core_.worker(worker).span_began();
    EXPECT_TRUE(admits(worker, weight));
  }
  bool admits(unsigned worker, std::uint32_t weight) {
    return core_.worker(worker).admit_key(0, "ada", weight, now_.monotonic).verdict == Verdict::admit;
  }
  /// What was admitted last.
  Instant charged_in() const { return charged_in_; }
  void correct(unsigned worker, std::int64_t by) { correct(worker, by, charged_in_); }
  void correct(unsigned worker, std::int64_t by, Instant charged_in) {
    EXPECT_TRUE(core_.worker(worker).correct(core_.worker(worker).key(0, "ada"), by, charged_in));
  }
  std::uint64_t admitted() const { return core_.top(1).at(0).admitted; }
  void expect_used(std::uint64_t weight) {
    if (!is_bucket_) {  // a bucket's counts go by the rate
      EXPECT_EQ(admitted(), weight);
    }
    std::uint32_t rest = 0;
    while (rest < 2000 && admits(rest % 2, 1)) ++rest;
    EXPECT_GE(rest + 2 * at_hand, 1000 - weight);
    if (!is_bucket_) {
      EXPECT_LE(rest, 1000 - weight);
    }
  }

 private:
  Instant now_{WallTime(1000s), MonotonicTime(10s)};
  std::function<void()> before_submit_;
  NodeCore core_;
  bool is_bucket_;
  Instant charged_in_{};
};

// Each worker has a grant of its own, that it need not ask anybody for.
TEST_P(Correction, WhoOnlyLooksIsRefusedByAWorkerThatHasAGrantOfHisToo) {
  TwoWorkers node(GetParam());
  for (unsigned i = 0; i < 2; ++i) node.admit(i, 1);
  node.correct(1, 1900);
  node.end_span();
  for (unsigned i = 0; i < 2; ++i) EXPECT_FALSE(node.admits(i, 0)) << i;
}

// Whatever an embedding program says: that it was charged ages ago, or ages from now; while all workers run,
// and while one is late.
TEST_P(Correction, OfWhatWasChargedAtNoTimeThereIsChangesNothingForTheWorse) {
  for (const Instant& charged : {Instant{WallTime::min(), MonotonicTime::min()},
                                 Instant{WallTime::max(), MonotonicTime::max()}, Instant{}})
    for (const bool late : {false, true}) {
      TwoWorkers node(GetParam());
      node.admit(0, 500);
      node.correct(0, -300, charged);
      node.correct(0, 100, charged);
      node.pass_time(100ms);
      node.pass(0);
      if (!late) node.pass(1);
      node.pass_time(50ms);
      node.end_span();
      std::uint32_t admitted = 0;
      while (admitted < 3000 && node.admits(0, 1)) ++admitted;
      EXPECT_LE(admitted, 700U + gained_in(GetParam(), 3)) << late;
    }
}

TEST_P(Correction, SeveralInASpanAddUp) {
  CorrectedNode node(rule_of(GetParam()));
  node.end_span();
  const Instant charged = node.charged();
  ASSERT_TRUE(node.admits(900));
  node.end_span();
  node.correct(-400, charged);
  node.correct(100, charged);
  node.correct(-200, charged);
  node.end_span();
  expect_rest(node, 600 + gained_in(GetParam(), 2));
  node.end_span();
  expect_rest(node, gained_in(GetParam(), 1));
}

TEST_P(Correction, MayBeMadeByAnotherWorkerThanTheOneThatCharged) {
  for (const unsigned first : {0U, 1U}) {
    TwoWorkers node(GetParam());
    node.admit(0, 900);
    node.correct(1, -700);
    node.pass_time(100ms);
    for (const unsigned worker : {first, 1 - first}) {
      node.pass(worker);
      node.pass_time(1ms);
    }
    for (unsigned i = 0; i < 2; ++i) node.pass(i);
    node.expect_used(200);
  }
}

TEST_P(Correction, OfWhatAWorkerHasChargedThatIsLateWaitsForIt) {
  TwoWorkers node(GetParam());
  node.admit(0, 900);
  node.correct(1, -700);
  node.pass_time(100ms);
  node.pass(1);
  node.pass_time(50ms);
  node.pass(0);
  node.end_span();
  node.expect_used(200);
}

TEST_P(Correction, MayBeMadeByAWorkerThatIsStillInTheSpanBefore) {
  TwoWorkers node(GetParam());
  node.pass_time(100ms);
  node.pass(0);
  node.admit(0, 900);
  node.correct(1, -700);
  node.pass(1);
  node.pass_time(0ms);
  node.end_span();
  node.expect_used(200);
}

TEST_P(Correction, OfTheSpanThatRunsTakesNothingOfWhatWasChargedBefore) {
  TwoWorkers node(GetParam());
  node.admit(0, 100);
  const Instant before = node.charged_in();
  node.pass_time(100ms);
  node.pass(0);
  node.admit(0, 400);
  node.correct(1, -300);
  node.correct(1, -80, before);
  node.pass(1);
  node.pass_time(0ms);
  node.end_span();
  node.expect_used(120);
}

// Such a worker goes on in the table that it has just taken up, beyond the span's end.
TEST_P(Correction, OfWhatAWorkerChargesThatPassesJustBeforeTheNextSpanWaitsForIt) {
  TwoWorkers node(GetParam());
  node.admit(1, 100);
  const Instant before = node.charged_in();
  node.pass_time(100ms);
  node.pass(1);
  node.when_it_tells([&] {
    node.pass(0);
    node.admit(0, 400);
    node.correct(1, -300);
    node.correct(1, -80, before);
  });
  node.pass_time(100ms);
  ASSERT_TRUE(node.has_told());
  node.pass(1);
  node.pass_time(0ms);
  node.end_span();
  node.expect_used(120);
}

// What a worker has drawn since, in the next span, looks as if it had not used so much of its grant before.
TEST_P(Correction, OfWhatWasAdmittedOutOfAGrantThatHasBeenFilledUpSinceIsMadeGoodWhenItIsKnown) {
  // (What a bucket has granted is not missing in it.)
  if (std::string_view(GetParam()).ends_with("bucket")) return;
  const ThrottleOptions options{.workers = 1, .hash_seed = 1, .log = {}};
  NodeCore core(parse_config(rule_of(GetParam(), {}, 100'000), "test").config, options,
                make_memory_store(std::make_shared<MemoryCounters>()));
  Instant now{WallTime(1000s), MonotonicTime(10s)};
  core.advance(now);
  Worker& worker = core.worker(0);
  worker.online();
  const auto admit = [&](int requests) {
    for (; requests > 0; --requests)
      EXPECT_EQ(worker.admit_key(0, "ada", 100, now.monotonic).verdict, Verdict::admit);
  };
  const auto charged = worker.span_began();
  admit(15);
  EXPECT_TRUE(worker.correct(worker.key(0, "ada"), -1400, charged));
  for (int span = 0; span < 3; ++span) {
    now = now + 100ms;
    core.advance(now);
    worker.quiescent();
    if (span == 0) admit(2);
    core.advance(now);
    worker.quiescent();
  }
  EXPECT_EQ(core.top(1).at(0).admitted, 300U);
  worker.offline();
}

TEST_P(Correction, SoLargeOnesDoNotWrapHoweverManyThereAre) {
  const ThrottleOptions options{.workers = 1, .hash_seed = 1, .corrections = 20'000, .log = {}};
  NodeCore core(parse_config(rule_of(GetParam()), "test").config, options,
                make_memory_store(std::make_shared<MemoryCounters>()));
  Instant now{WallTime(1000s), MonotonicTime(10s)};
  core.advance(now);
  Worker& worker = core.worker(0);
  worker.online();
  const Key key = worker.key(0, "ada");
  const Instant charged = worker.span_began();
  const auto end_span = [&] {
    now = now + 100ms;
    for (int round = 0; round < 2; ++round) {
      core.advance(now);
      worker.quiescent();
    }
  };
  for (int i = 0; i < 17'000; ++i)
    ASSERT_TRUE(worker.correct(key, std::numeric_limits<std::int64_t>::max(), charged));
  end_span();
  EXPECT_EQ(core.top(1).at(0).admitted, std::uint64_t{1} << 61);
  const bool forgets =
      std::string_view(GetParam()).ends_with("bucket") || GetParam() == std::string("sliding-log");
  for (int i = 0; i < (forgets ? 0 : 1000); ++i)
    ASSERT_TRUE(worker.correct(key, -(std::int64_t{1} << 50), charged));
  end_span();
  EXPECT_EQ(worker.admit_key(0, "ada", 1, now.monotonic).verdict, Verdict::block);
  EXPECT_EQ(worker.admit_key(0, "ada", 0, now.monotonic).remaining, 0U);
  worker.offline();
}

TEST(CorrectionOfALog, WhatIsChargedIsHeldAgainstWhatIsHandedBack) {
  CorrectedNode node(rule_of("sliding-log"));
  node.end_span();
  ASSERT_TRUE(node.admits(1000));
  node.correct(500, node.charged());
  node.correct(-500, node.charged());
  node.end_span();
  EXPECT_EQ(node.rest(), 0U);
}

TEST(CorrectionOfAWindow, WhatSeemsToHaveBeenChargedInTimeToComeIsNotSetAgainstWhatIsChargedThen) {
  CorrectedNode node(rule_of("fixed-window"));
  node.end_span();
  node.correct(-50, node.charged() + 450ms);
  node.end_spans(4);
  ASSERT_TRUE(node.admits(100));
  node.end_span();
  EXPECT_EQ(node.core().top(1).at(0).admitted, 100U);
}

TEST(CorrectionOfAWindow, OfMoreThanHasBeenChargedNothingIsKeptWhereAWorkerIsLateInEachSpan) {
  TwoWorkers node("fixed-window");
  const auto end_span = [&] {
    node.pass_time(50ms);
    node.pass(0);
    node.pass_time(50ms);
    node.pass(1);
    node.pass_time(0ms);
  };
  node.pass_time(50ms);
  node.admit(0, 100);
  node.correct(0, -110);
  for (int span = 0; span < 4; ++span) end_span();
  node.admit(0, 100);
  for (int span = 0; span < 2; ++span) end_span();
  node.expect_used(100);
}

TEST(CorrectionOfAWindow, WaitsForNoWorkerThatDoesNotComeRound) {
  TwoWorkers node("fixed-window");
  node.pass_time(100ms);  // from here on the other one stays behind
  for (int span = 0; span < 3; ++span) {
    node.pass(0);
    if (span == 1) {
      node.admit(0, 900);
      node.correct(0, -700);
    }
    node.pass_time(50ms);
    node.pass_time(50ms);
  }
  node.pass(0);
  node.pass_time(50ms);
  EXPECT_EQ(node.admitted(), 200U);
}

// As it is where each answer is taken for two.
TEST(CorrectionOfAWindow, OfMoreThanHasBeenChargedOftenNoMoreIsKeptThanAGrant) {
  CorrectedNode node(rule_of("fixed-window"));
  node.end_span();
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(node.admits(10));
    for (int twice = 0; twice < 2; ++twice) node.correct(-10, node.charged());
  }
  node.end_span();
  ASSERT_TRUE(node.admits(700));
  node.end_span();
  EXPECT_GE(node.core().top(1).at(0).admitted, 700U - at_hand);
}

// While a worker is late that may have charged any of it.
TEST(CorrectionOfAWindow, OfMoreThanCanBeRememberedTheLastIsGivenUp) {
  for (const int spans : {1, 6}) {
    const ThrottleOptions options{.workers = 2, .hash_seed = 1, .corrections = 1000, .log = {}};
    NodeCore core(parse_config(rule_of("fixed-window"), "test").config, options,
                  make_memory_store(std::make_shared<MemoryCounters>()));
    Instant now{WallTime(1000s), MonotonicTime(10s)};
    core.advance(now);
    for (unsigned i = 0; i < 2; ++i) core.worker(i).online();
    Worker& worker = core.worker(1);
    const Instant charged = worker.span_began();
    ASSERT_EQ(core.worker(0).admit_key(0, "ada", 900, now.monotonic).verdict, Verdict::admit);
    const auto pass_time = [&](Duration by) {
      now = now + by;
      core.advance(now);
      worker.quiescent();
    };
    for (int span = 0; span < spans; ++span) {
      const Key other = worker.key(0, "eve");
      for (int i = 0; i < 2000; ++i) ASSERT_TRUE(worker.correct(other, -1, charged));
      if (span + 1 == spans) {
        ASSERT_TRUE(worker.correct(worker.key(0, "ada"), -700, charged));
      }
      for (const Duration time : {50ms, 50ms}) pass_time(time);
    }
    pass_time(50ms);
    core.worker(0).quiescent();
    pass_time(1ms);
    EXPECT_EQ(core.top(1).at(0).admitted, spans == 1 ? 200U : 900U);
    for (unsigned i = 0; i < 2; ++i) core.worker(i).offline();
  }
}

TEST(CorrectionOfAWindow, OfOneThatHasEndedNothingIsHandedBack) {
  CorrectedNode node(rule_of("fixed-window"));
  node.end_span();
  const Instant charged = node.charged();
  ASSERT_TRUE(node.admits(900));
  node.end_spans(10);
  ASSERT_TRUE(node.admits(500));
  node.correct(-800, charged);
  node.end_span();
  EXPECT_EQ(node.rest(), 500);
}

TEST(CorrectionOfAWindow, WhatIsChargedLaterCountsInTheWindowThatRunsThen) {
  CorrectedNode node(rule_of("fixed-window"));
  node.end_span();
  const Instant charged = node.charged();
  ASSERT_TRUE(node.admits(900));
  node.end_spans(10);
  node.correct(300, charged);
  node.end_span();
  EXPECT_EQ(node.rest(), 700);
}

TEST(CorrectionOfAWindow, WhatIsChargedInItsLastSpanIsNoneOfTheNextOnes) {
  CorrectedNode node(rule_of("fixed-window"));
  node.end_spans(9);
  ASSERT_TRUE(node.admits(900));
  node.correct(300, node.charged());
  node.end_span();
  EXPECT_EQ(node.rest(), 1000);
}

TEST(CorrectionOfAWindow, OfOneThatHasEndedNothingIsTakenOffTheDebtThatItLeft) {
  CorrectedNode node(rule_of("fixed-window", "debt = true\n"));
  node.end_spans(2);
  const Instant charged = node.charged();
  ASSERT_TRUE(node.admits(900));
  node.correct(500, charged);
  node.end_spans(8);
  node.correct(-800, charged);
  node.end_spans(3);
  EXPECT_EQ(node.rest(), 600);
}

TEST(CorrectionOfAWindow, WhatIsHandedBackInItsLastSpanIsNoneOfTheNextOnes) {
  CorrectedNode node(rule_of("fixed-window"));
  node.end_spans(9);
  ASSERT_TRUE(node.admits(900));
  node.correct(-800, node.charged());
  node.end_span();
  EXPECT_EQ(node.rest(), 1000);
}

TEST(CorrectionOfASlidingWindow, IsOfTheSpanThatItWasChargedIn) {
  CorrectedNode node(rule_of("sliding-window"));
  node.end_span();
  const Instant first = node.charged();
  ASSERT_TRUE(node.admits(500));
  node.end_spans(5);
  ASSERT_TRUE(node.admits(450));
  node.correct(-300, first);
  node.end_span();
  EXPECT_NEAR(node.rest(), 350, at_hand);
  // The first span leaves with what is left of it: 200.
  node.end_spans(4);
  EXPECT_NEAR(node.rest(), 200, at_hand);
  node.end_spans(5);
  EXPECT_NEAR(node.rest(), 450, at_hand);
}

TEST(CorrectionOfASlidingWindow, WhatIsChargedInSpansThatEndLateIsHeldAsOfTheLastOfThem) {
  CorrectedNode node(rule_of("sliding-window"));
  node.end_span();
  ASSERT_TRUE(node.admits(1));
  node.correct(899, node.charged());
  node.end_span(850ms);  // the last one that has ended began 150 ms ago
  node.end_spans(8);
  EXPECT_LE(node.rest(), 100U);
  node.end_span();
  EXPECT_NEAR(node.rest(), 900, at_hand);
}

TEST(CorrectionOfASlidingWindow, OfSpansThatEndedLateHandsBackWhatTheyHold) {
  CorrectedNode node(rule_of("sliding-window"));
  node.end_span();
  const Instant charged = node.charged();
  ASSERT_TRUE(node.admits(900));
  node.end_span(850ms);
  node.correct(-700, charged);
  node.end_span();
  EXPECT_NEAR(node.rest(), 800, at_hand);
}

TEST(CorrectionOfASlidingWindow, OfALightKeyToo) {
  CorrectedNode node(rule_of("sliding-window"));
  node.end_spans(8);
  const Instant charged = node.charged();
  ASSERT_TRUE(node.admits(10));
  node.end_spans(4);  // into the next interval
  node.correct(-8, charged);
  node.end_span();
  EXPECT_NEAR(node.rest(), 998, at_hand);
}

TEST(CorrectionUnderCooldown, BlocksWhoHasCostMoreThanTheLimit) {
  CorrectedNode node(rule_of("cooldown", "cooldown = \"2s\"\n"));
  node.end_span();
  ASSERT_TRUE(node.admits(1));
  node.correct(999, node.charged());
  node.end_span();
  ASSERT_TRUE(node.core().top(1).at(0).admitted == 1000);
  EXPECT_FALSE(node.core().top(1).at(0).blocked);  // reaching the limit is not exceeding it
  node.correct(1, node.charged());
  node.end_span();
  EXPECT_TRUE(node.core().top(1).at(0).blocked);
  EXPECT_EQ(node.rest(), 0);
  node.end_spans(21);
  EXPECT_EQ(node.rest(), 1000);
}

TEST(CorrectionOfABucket, GoesDownToOneWholeBucketOfDebt) {
  CorrectedNode node(rule_of("token-bucket", "burst = 200\n"));
  node.end_span();
  ASSERT_TRUE(node.admits(200));
  node.correct(100'000, node.charged());
  node.end_spans(2);  // 100 of 200 tokens are paid back, or 200: it was charged when the first had ended
  EXPECT_EQ(node.rest(), 0);
  node.end_span();
  node.end_span();
  EXPECT_GT(node.rest(), 0);
}

TEST(CorrectionOfABucket, IsHandedBackHoweverLongAgoItWasCharged) {
  CorrectedNode node(rule_of("token-bucket", "burst = 100000\n"));
  node.end_span();
  const Instant charged = node.charged();
  ASSERT_TRUE(node.admits(90'000));
  node.end_spans(50);
  node.correct(-80'000, charged);
  node.end_span();
  EXPECT_NEAR(static_cast<double>(node.worker().admit_key(0, "ada", 0, node.now().monotonic).remaining),
              10'000 + 80'000 + 5'100, 100);
}

TEST(CorrectionOfABucket, WhatItDoesNotLackIsNotKeptForLater) {
  for (const bool stalls : {false, true}) {
    TwoWorkers node("token-bucket");
    node.admit(0, 300);
    for (int span = 0; span < 4; ++span) node.end_span();
    for (int i = 0; i < 9; ++i) node.correct(0, -30);
    node.pass_time(100ms);
    node.pass(0);
    if (!stalls) node.pass(1);
    node.pass_time(50ms);
    std::uint32_t admitted = 0;
    for (int span = 0; span < 3; ++span) {
      while (admitted < 3000 && node.admits(0, 1)) ++admitted;
      node.pass_time(100ms);
      node.pass(0);
      node.pass_time(50ms);
    }
    EXPECT_LE(admitted, 1000U + 3 * 150) << stalls;
  }
}

TEST(CorrectionOfABucket, WhatSeemsToHaveBeenChargedInTimeToComeIsTakenOnce) {
  CorrectedNode node(rule_of("token-bucket"));
  node.end_span();
  ASSERT_TRUE(node.admits(100));
  for (int i = 0; i < 10; ++i) node.correct(-1000, node.charged() + 1h);
  std::uint32_t admitted = 0;
  for (int span = 0; span < 10; ++span) {
    node.end_span();
    admitted += node.rest();
  }
  EXPECT_LE(admitted, 2000U);
}

TEST(CorrectionOfAStrictLimit, WhatIsHandedBackIsLeasedAgain) {
  CorrectedNode node(rule_of("strict"));
  node.end_spans(10);
  ASSERT_EQ(node.rest(), 0);  // nothing is leased yet
  node.end_spans(2);
  std::uint32_t admitted = 0;
  const Instant charged = node.charged();
  admitted += node.rest();
  ASSERT_GT(admitted, 100U);
  node.correct(-100, charged);
  node.end_span();
  for (int span = 0; span < 6; ++span) {
    admitted += node.rest();
    node.end_span();
  }
  EXPECT_GT(admitted, 1000U);
  EXPECT_LE(admitted, 1100U);
}

TEST(CorrectionOfAStrictLimit, WhatIsChargedLaterIsLeasedToo) {
  CorrectedNode node(rule_of("strict"));
  node.end_spans(10);
  node.rest();
  node.end_span();
  std::uint32_t admitted = node.admit(0, "ada", 100);
  ASSERT_EQ(admitted, 100U);
  node.correct(600, node.charged());
  node.end_span();
  for (int span = 0; span < 7; ++span) {
    admitted += node.rest();
    node.end_span();
  }
  EXPECT_LE(admitted, 400U);
  EXPECT_GE(admitted, 300U);
}

TEST(CorrectionOfARequest, IsOfAllRulesThatApply) {
  CorrectedNode node(R"(
[[rule]]
name = "user"
key = ["header:x-user"]
limit = 100
interval = "1s"
algorithm = "fixed-window"
[[rule]]
name = "all"
limit = 1000
interval = "1s"
weight = 3
algorithm = "fixed-window"
[[rule]]
name = "elsewhere"
match = { path = "/elsewhere" }
limit = 1000
interval = "1s"
algorithm = "fixed-window"
)");
  node.end_span();
  const Header header{"x-user", "ada"};
  const Request request = request_with(header, 10);
  const Instant charged = node.charged();
  ASSERT_EQ(node.worker().admit(request, node.now().monotonic).verdict, Verdict::admit);
  ASSERT_TRUE(node.worker().correct(request, 50, charged));
  node.end_span();
  const auto left = [&](RuleIndex rule, std::string_view value) {
    return node.worker().admit_key(rule, value, 0, node.now().monotonic).remaining;
  };
  EXPECT_EQ(left(0, "ada"), 40U);
  EXPECT_EQ(left(1, ""), 1000U - 3 * 60U);
  EXPECT_EQ(left(2, ""), 1000U);
  ASSERT_TRUE(node.worker().correct(request, -55, charged));
  node.end_span();
  EXPECT_EQ(left(0, "ada"), 95U);
  EXPECT_EQ(left(1, ""), 1000U - 3 * 5U);
}

TEST(CorrectionsOfAKey, OfOneMadeOfARequestToo) {
  CorrectedNode node(rule_of("fixed-window"));
  node.end_span();
  const Header header{"x-user", "ada"};
  const Request request = request_with(header, 1);
  KeyRoom room;
  const Key key = node.worker().key(0, request, room);
  ASSERT_TRUE(node.worker().correct(key, 600, node.charged()));
  node.end_span();
  EXPECT_EQ(node.rest(), 400);
  EXPECT_EQ(node.core().top(1).at(0).name, "tokens|ada");
}

class FewCorrections : public ::testing::Test {
 protected:
  static Config config() { return parse_config(rule_of("fixed-window"), "test").config; }
};

TEST_F(FewCorrections, WhoHasMadeTooManyInASpanIsTold) {
  NodeCore core(config(), {.workers = 1, .hash_seed = 1, .corrections = 4, .log = {}},
                make_memory_store(std::make_shared<MemoryCounters>()));
  Instant now{WallTime(1000s), MonotonicTime(10s)};
  core.advance(now);
  Worker& worker = core.worker(0);
  worker.online();
  int taken = 0;
  while (worker.correct(worker.key(0, "ada"), 1, worker.span_began())) ++taken;
  EXPECT_GE(taken, 4);
  EXPECT_LE(taken, 8);
  const auto end_span = [&] {
    now = now + 100ms;
    core.advance(now);
    worker.quiescent();
    core.advance(now);
  };
  end_span();
  EXPECT_EQ(core.top(1).at(0).admitted, static_cast<std::uint64_t>(taken));
  EXPECT_TRUE(worker.correct(worker.key(0, "ada"), 1, worker.span_began()));
  end_span();
  EXPECT_EQ(core.top(1).at(0).admitted, static_cast<std::uint64_t>(taken) + 1);
  worker.offline();
}

TEST_F(FewCorrections, WhereNoneAreProvidedForAllAreRefused) {
  NodeCore core(config(), {.workers = 1, .hash_seed = 1, .corrections = 0, .log = {}},
                make_memory_store(std::make_shared<MemoryCounters>()));
  core.advance({WallTime(1000s), MonotonicTime(10s)});
  core.worker(0).online();
  EXPECT_FALSE(core.worker(0).correct(core.worker(0).key(0, "ada"), 1, core.worker(0).span_began()));
  EXPECT_TRUE(core.worker(0).correct(core.worker(0).key(0, "ada"), 0, core.worker(0).span_began()));
  core.worker(0).offline();
}

/// A node, and the store that it tells.
class ToldNode {
 public:
  explicit ToldNode(const std::string& rules)
      : core_(parse_config(rules, "test").config, {.workers = 1, .hash_seed = 1, .log = {}},
              make_memory_store(std::make_shared<MemoryCounters>())) {
    core_.advance(now_);
    worker().online();
  }
  ~ToldNode() { worker().offline(); }

  Worker& worker() { return core_.worker(0); }
  void admit(std::uint32_t weight) {
    EXPECT_EQ(worker().admit_key(0, "ada", weight, now_.monotonic).verdict, Verdict::admit);
  }
  void correct(std::int64_t by, Instant charged_in) {
    EXPECT_TRUE(worker().correct(worker().key(0, "ada"), by, charged_in));
  }
  void end_span() {
    now_ = now_ + 100ms;
    for (int round = 0; round < 2; ++round) {
      core_.advance(now_);
      worker().quiescent();
    }
  }
  /// What the store has been told in all.
  std::uint64_t told() const { return core_.figures().counts_synced; }
  KeyFigures key() const { return core_.top(1).at(0); }

 private:
  Instant now_{WallTime(1000s), MonotonicTime(10s)};
  NodeCore core_;
};

constexpr std::string_view tells_all = "hold_back = 0.0\n";

TEST(ARefundAndTheStore, WhatHasNotBeenToldYetIsNotTold) {
  ToldNode node(rule_of("fixed-window", tells_all));
  node.admit(500);
  node.correct(-300, node.worker().span_began());
  node.end_span();
  EXPECT_EQ(node.told(), 200U);
}

TEST(ARefundAndTheStore, WhatHasBeenToldIsNotToldOfWhatComesNext) {
  ToldNode node(rule_of("fixed-window", tells_all));
  const Instant charged = node.worker().span_began();
  node.admit(500);
  node.end_span();
  ASSERT_EQ(node.told(), 500U);
  node.correct(-300, charged);
  node.end_span();
  node.admit(100);
  node.end_span();
  EXPECT_EQ(node.told(), 500U);
  EXPECT_EQ(node.key().admitted, 300U);
  node.admit(250);
  node.end_span();
  EXPECT_EQ(node.told(), 550U);
  EXPECT_EQ(node.key().admitted, 550U);
}

/// What the store has been told of 500, of which 300 were handed back, and of 200 in the next interval.
std::uint64_t told_in_two_intervals(std::string_view algorithm) {
  ToldNode node(rule_of(algorithm, tells_all));
  const Instant charged = node.worker().span_began();
  node.admit(500);
  node.end_span();
  node.correct(-300, charged);
  for (int span = 1; span < 10; ++span) node.end_span();
  node.admit(200);
  node.end_span();
  return node.told();
}

TEST(ARefundAndTheStore, WhatWasToldInAnIntervalThatIsOverIsSetAgainstNothing) {
  EXPECT_EQ(told_in_two_intervals("fixed-window"), 700U);
}

TEST(ARefundAndTheStore, OfABucketItIsSetAgainstWhatComesInTheNextIntervalToo) {
  EXPECT_EQ(told_in_two_intervals("token-bucket"), 500U);
}

TEST(ARefundAndTheStore, OfABucketThatHasFilledUpSinceNothingIsLeftOut) {
  ToldNode node(rule_of("token-bucket", tells_all));
  const Instant charged = node.worker().span_began();
  node.admit(900);
  for (int span = 0; span < 15; ++span) node.end_span();
  ASSERT_EQ(node.told(), 900U);
  node.correct(-880, charged);
  node.end_span();
  node.admit(500);
  node.end_span();
  EXPECT_EQ(node.told(), 1400U);
}

TEST(Corrections, AreRefusedToWhoIsOffline) {
  CorrectedNode node(rule_of("fixed-window"));
  const Key key = node.worker().key(0, "ada");
  const Header header{"x-user", "ada"};
  node.worker().offline();
  EXPECT_FALSE(node.worker().correct(key, 1, node.charged()));
  EXPECT_FALSE(node.worker().correct(request_with(header, 1), 1, node.charged()));
  node.end_spans(2);
  EXPECT_EQ(node.core().figures().keys, 0U);
  node.worker().online();
  EXPECT_TRUE(node.worker().correct(key, 1, node.charged()));
}

TEST(Corrections, ThatAreUnderWayWhenTheNodeStopsAreToldToo) {
  const auto counters = std::make_shared<MemoryCounters>();
  NodeCore core(parse_config(rule_of("fixed-window"), "test").config,
                {.workers = 1, .hash_seed = 1, .log = {}}, make_memory_store(counters));
  const Instant now{WallTime(1000s), MonotonicTime(10s)};
  core.advance(now);
  Worker& worker = core.worker(0);
  worker.online();
  ASSERT_EQ(worker.admit_key(0, "ada", 10, now.monotonic).verdict, Verdict::admit);
  ASSERT_TRUE(worker.correct(worker.key(0, "ada"), 7, worker.span_began()));
  ASSERT_TRUE(worker.correct(worker.key(0, "ada"), -12, worker.span_began()));
  worker.offline();
  ASSERT_TRUE(core.stop(now, 1s));
  EXPECT_EQ(core.figures().counts_synced, 5U);
}

}  // namespace
}  // namespace weir
