// SPDX-License-Identifier: BSD-3-Clause
// Standing grants (shared/grant_table.h): whoever uses his part of a limit by right, whenever workers come,
// go, sleep over windows or have what they used forgotten, no key gets more of a window than its limit,
// nothing that was admitted is missing in the store, and what is set aside is not lost to who asks for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "granted_node.h"
#include "sanitized.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::Counters;
using testing::CuttableStore;
using testing::GrantedNode;
using testing::rule_of;
using testing::sanitized;
using testing::seed;

// Everything at once, at random.

struct Storm {
  std::uint32_t keys;  // that the node is made for
  std::size_t users;   // that there are
  bool crowd;          // many of them only once
};

class GrantStorm : public ::testing::TestWithParam<int> {};

TEST_P(GrantStorm, AdmitsNobodyMoreThanHisLimitAndLosesNothing) {
  const std::uint64_t storm_seed = seed() + static_cast<std::uint64_t>(GetParam());
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()) + ", storm " + std::to_string(GetParam()));
  std::mt19937_64 random(storm_seed);
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  const auto one_in = [&](std::uint64_t n) { return below(n) == 0; };

  const auto workers = static_cast<unsigned>(1 + below(4));
  const auto limit = [&]() -> std::uint64_t {
    const std::array<std::uint64_t, 8> limits{64 * workers - 1, 64 * workers, 64 * workers + 1,
                                              128 * workers,    1000,         1024 * workers,
                                              4096 * workers,   20'000};
    return limits[below(limits.size())];
  };
  std::vector<Rule> rules{
      rule_of("user", Algorithm::fixed_window, limit()), rule_of("tenant", Algorithm::cooldown, limit()),
      rule_of("part", Algorithm::shed, limit()), rule_of("all", Algorithm::fixed_window, 20'000)};
  rules[3].key.clear();  // dense
  rules[0].interval = 200ms;
  rules[0].spans = static_cast<std::uint32_t>(2 + below(10));
  rules[1].interval = one_in(2) ? 200ms : 300ms;
  rules[1].cooldown = std::chrono::milliseconds(1 + below(400));
  rules[2].interval = 400ms;
  rules[below(3)].weight = static_cast<std::uint32_t>(1 + below(7));
  rules[3].interval = 200ms;
  const bool small = one_in(2);
  GrantedNode node(rules, workers, small ? 16 : 256);

  std::vector<std::string> names;
  for (int i = 0; i < (small ? 200 : 40); ++i) names.push_back("k" + std::to_string(i));
  const auto somebody = [&]() -> const std::string& {
    // A few ask for most.
    return one_in(3) ? names[below(names.size())] : names[below(4)];
  };
  Duration set_back{};
  std::vector<int> asleep(workers);
  for (int step = 0; step < 3000; ++step) {
    const auto worker = static_cast<unsigned>(below(workers));
    if (node.is_online(worker)) {
      const auto rule = static_cast<RuleIndex>(below(3));
      switch (below(8)) {
        case 0:
          node.ask(worker, rule, somebody(), 1 + below(40));
          break;
        case 1:
          node.admit(worker, rule, somebody(), static_cast<std::uint32_t>(1 + below(one_in(10) ? 3000 : 5)));
          break;
        case 2: {
          std::vector<Key> keys(1 + below(80));
          const bool alike = one_in(2);
          const std::string& one = somebody();
          for (Key& key : keys) {
            key = node.worker(worker).key(alike ? rule : static_cast<RuleIndex>(below(3)),
                                          alike ? one : somebody());
            key.weight = one_in(20) ? 0 : one_in(5) ? static_cast<std::uint32_t>(1 + below(9)) : 1;
          }
          node.ask_for(worker, keys);
          break;
        }
        case 3:
          node.worker(worker).admit_key(rule, somebody(), 0, node.now.monotonic);
          break;
        case 4:
        case 5: {
          std::vector<std::vector<Header>> headers(1 + below(32));
          const bool alike = one_in(2);
          const std::array<std::string_view, 2> ones{somebody(), somebody()};
          for (std::vector<Header>& each : headers)
            each = {{"user", alike ? ones[0] : somebody()},
                    {"tenant", alike ? ones[1] : somebody()},
                    {"part", somebody()}};
          for (std::uint64_t times = 1 + below(one_in(5) ? 20 : 2); times > 0; --times)
            node.ask_in_frames(worker, headers);
          break;
        }
        default: {
          std::vector<std::array<Header, 3>> headers(1 + below(60));
          std::vector<Request> requests(headers.size());
          for (std::size_t i = 0; i < requests.size(); ++i) {
            headers[i] = {Header{"user", somebody()}, Header{"tenant", somebody()},
                          Header{"part", somebody()}};
            requests[i].headers = headers[i];
            requests[i].weight = one_in(8) ? static_cast<std::uint32_t>(below(6)) : 0;
          }
          node.ask_all_rules(worker, requests);
        }
      }
    }
    if (one_in(3)) node.now = node.now + Duration(below(20'000'000));
    if (one_in(100)) node.now = node.now + Duration(below(1'500'000'000));
    // Never further back than one window: what is older is forgotten, as it always was.
    if (one_in(60)) {
      const Duration by = set_back == Duration{} ? Duration(below(150'000'000)) : -set_back;
      set_back += by;
      node.now.wall -= by;
    }
    if (one_in(2)) node.round();
    for (unsigned i = 0; i < workers; ++i) {
      if (one_in(200)) asleep[i] = static_cast<int>(below(200));
      if (asleep[i] > 0) {
        --asleep[i];
      } else if (one_in(2)) {
        node.report(i);
      }
      if (one_in(150)) node.is_online(i) ? node.go(i) : node.come(i);
    }
    if (one_in(500)) node.cut = !node.cut;
  }
  node.stop();
  node.expect_sound();
  const bool plenty = std::ranges::all_of(
      rules, [&](const Rule& rule) { return rule.limit >= std::uint64_t{1024} * workers; });
  if (plenty && best_instruction_set() != InstructionSet::portable) {
    EXPECT_GT(node.taken_plain(), 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, GrantStorm, ::testing::Range(0, 24));

// Workers of a window that slides, who ask, report, and find out what is published each at a time of his own,
// but in every span: whatever they use of their grants, lend to them and draw, no key gets more in the spans
// that a window reaches than its limit, span by span as workers count. Where the node flips its workers once
// in a span, or more often: because of another rule, or because spans are long.

class SlidingStorm : public ::testing::TestWithParam<int> {};

TEST_P(SlidingStorm, AdmitsNobodyMoreThanHisLimitInAnyWindow) {
  const std::uint64_t storm_seed = seed() + static_cast<std::uint64_t>(GetParam());
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()) + ", storm " + std::to_string(GetParam()));
  std::mt19937_64 random(storm_seed);
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  const auto one_in = [&](std::uint64_t n) { return below(n) == 0; };

  const auto workers = static_cast<unsigned>(1 + below(3));
  Rule rule = rule_of("user", Algorithm::sliding_window,
                      std::array{192 * workers, 400 * workers, 2000 * workers, 20'000U}[below(4)]);
  rule.spans = static_cast<std::uint32_t>(2 + below(5));
  const bool long_spans = GetParam() % 3 == 1;
  const Duration step = long_spans ? 50ms : 1ms;
  const Duration span_length = 100 * step;
  rule.interval = rule.spans * span_length;
  const SpanClock clock(rule.interval, rule.spans);
  std::vector<Rule> rules{rule};
  if (GetParam() % 3 == 2) {
    rules.push_back(rule_of("other", Algorithm::fixed_window, 1000));
    rules[1].interval = span_length;
  }
  GrantedNode node(rules, workers);

  struct User {
    std::string name;
    std::uint64_t most = 0;                          // that is asked for at once
    std::map<std::int64_t, std::uint64_t> admitted;  // by span
  };
  std::vector<User> users(4);
  for (std::size_t i = 0; i < users.size(); ++i) users[i].name = "k" + std::to_string(i);
  std::int64_t running = 0;
  std::uint64_t refused = 0;

  const auto ask = [&](unsigned worker) {
    User& user = users[below(users.size())];
    if (one_in(6)) user.most = std::array<std::uint64_t, 4>{1, 3, rule.limit / 30 + 1, rule.limit}[below(4)];
    const std::uint64_t wanted = 1 + below(user.most + 1);
    const std::uint64_t admitted =
        one_in(2) ? node.ask(worker, 0, user.name, wanted) : node.ask_at_once(worker, 0, user.name, wanted);
    refused += wanted - admitted;
    user.admitted[running] += admitted;
    std::uint64_t sum = 0;
    for (auto span = user.admitted.upper_bound(running - rule.spans); span != user.admitted.end(); ++span)
      sum += span->second;
    ASSERT_LE(sum, rule.limit) << user.name << " in span " << running;
  };

  for (int span = 0; span < 150; ++span) {
    const Instant begun = node.now + span_length;
    node.now = begun;
    node.round();
    const SpanId id = clock.span(node.now.wall);
    running = id.ordinal * rule.spans + id.index;
    // What comes of the flip each of them finds out in his time.
    for (int event = 0; event < 40; ++event) {
      node.now = begun + event * step;
      const auto worker = static_cast<unsigned>(below(workers));
      if (one_in(3)) {
        node.round();
      } else if (one_in(3)) {
        node.report(worker);
      } else {
        ASSERT_NO_FATAL_FAILURE(ask(worker));
      }
    }
    node.report_all();
    node.round();
    for (unsigned worker = 0; worker < workers; ++worker)
      if (one_in(2)) {
        ASSERT_NO_FATAL_FAILURE(ask(worker));
      }
    node.now = begun;
  }
  EXPECT_GT(refused, 0U) << "this must not pass by nobody coming near the limit";
  node.stop();
  node.expect_sound();
}

INSTANTIATE_TEST_SUITE_P(Seeds, SlidingStorm, ::testing::Range(0, sanitized ? 10 : 40));

TEST(SlidingGrants, AKeyInSteadyDemandHasAllOfItsLimitFromTheThirdIntervalOn) {
  for (const unsigned workers : {1U, 2U, 4U}) {
    const std::uint64_t limit = 20'000;
    GrantedNode node({rule_of("user", Algorithm::sliding_window, limit)}, workers);
    for (int interval = 0; interval < 6; ++interval) {
      std::uint64_t admitted = 0;
      for (int span = 0; span < 10; ++span) {
        for (unsigned i = 0; i < workers; ++i) admitted += node.ask(i, 0, "ann", limit / 5);
        node.pass(100ms);
      }
      // Who has used it all within two spans has nearly all of it left when they leave the window.
      if (interval < 2 || workers == 4)
        EXPECT_GE(admitted, limit - limit / 64) << workers << " workers, interval " << interval;
      else
        EXPECT_EQ(admitted, limit) << workers << " workers, interval " << interval;
    }
    node.stop();
    node.expect_sound();
  }
}

// A grant that no request may use is not kept from who draws.
TEST(SlidingGrants, AreNoneWhereEachRequestWeighsMore) {
  Rule rule = rule_of("user", Algorithm::sliding_window, 19'200);
  rule.weight = 100;
  GrantedNode node({rule}, 2);
  EXPECT_EQ(node.ask(0, 0, "ann", 192), 192U);
}

TEST(SlidingGrants, ARequestThatWeighsNothingNeedsNoRoom) {
  Rule rule = rule_of("user", Algorithm::sliding_window, 1000);
  rule.weight = 0;
  GrantedNode node({rule}, 1, 16);
  for (int i = 0; i < 2000; ++i) EXPECT_TRUE(node.admit(0, 0, "k" + std::to_string(i)));
}

// Nodes that hear nothing of each other have a part of the limit each, of which grants may be as much and
// more. What is kept for them is kept of the limit, not of the part.
TEST(SlidingGrants, DoNotTakeItsPartFromAKeyWhileTheStoreIsAway) {
  constexpr std::uint64_t limit = 20'000;
  for (const unsigned nodes : {10U, 64U, 100U}) {
    Rule rule = rule_of("user", Algorithm::sliding_window, limit);
    rule.hold_back = 0.01;  // so that nodes are counted
    GrantedNode node({rule}, 1);
    for (Ordinal second = 1000; second < 1060; ++second) node.counters[{"~nodes", second}] = nodes - 1;
    for (int span = 0; span < 35; ++span) node.pass(100ms);
    node.cut = true;
    for (int span = 0; span < 6; ++span) node.pass(100ms);
    for (int span = 0; span < 30; ++span) {
      const std::uint64_t wanted = limit / nodes / 2;
      EXPECT_EQ(node.ask(0, 0, "k" + std::to_string(span), wanted), wanted)
          << nodes << " nodes, span " << span;
      node.pass(100ms);
    }
  }
}

// Of a key that the node has no room to remember it is not known what it has used before: it has as much less
// in each span.
TEST(SlidingWindowWithoutRoom, AKeyThatNobodyRemembersKeepsToItsLimit) {
  for (const std::uint64_t limit : {3U, 1000U}) {
    GrantedNode node({rule_of("user", Algorithm::sliding_window, limit)}, 1, 16);
    int sprayed = 0;
    std::vector<std::uint64_t> admitted;
    for (int span = 0; span < 30; ++span) {
      for (int i = 0; i < 12; ++i) node.ask(0, 0, "s" + std::to_string(sprayed++), 20);
      if (span >= 10) admitted.push_back(node.ask(0, 0, "ann", 2 * limit));
      node.pass(100ms);
    }
    for (std::size_t first = 0; first + 10 <= admitted.size(); ++first)
      EXPECT_LE(std::accumulate(admitted.begin() + static_cast<std::ptrdiff_t>(first),
                                admitted.begin() + static_cast<std::ptrdiff_t>(first) + 10, std::uint64_t{0}),
                limit)
          << "from span " << first << " on";
  }
}

/// Sliding windows whose clock is set: to some time within a span, when all that was before has been judged.
class SetSlidingNode {
 public:
  static constexpr std::uint64_t limit = 20'000;

  explicit SetSlidingNode(unsigned workers,
                          const Rule& rule = rule_of("user", Algorithm::sliding_window, limit))
      : node({rule}, workers) {
    node.pass_second();
    for (int i = 0; i < 25; ++i) node.pass(100ms);
    node.pass(49ms);
  }
  /// As of the next round.
  void set(Duration by) { node.now.wall += by; }
  std::uint64_t ask(unsigned worker = 0, std::uint64_t times = limit) {
    return asked += node.ask(worker, 0, "ann", times);
  }
  void wait_for_last_span() {
    while (node.now.wall.time_since_epoch() % 1s < 950ms) node.pass(10ms);
  }
  /// It is noticed, and taken up, by whoever reports.
  void begin_next_interval() {
    node.now = node.now + (1s - node.now.wall.time_since_epoch() % 1s);
    node.round();
    node.report_all();
  }

  GrantedNode node;
  std::uint64_t asked = 0;  // and admitted
};

TEST(SlidingWindowWhoseClockIsSet, HoldsWhatItHeldWhereverTheClockGoes) {
  for (const Duration by :
       std::initializer_list<Duration>{100ms, 150ms, 1s, 2s, 5s, 1h, -100ms, -110ms, -150ms, -250ms, -1s,
                                       -1200ms, -1500ms, -2700ms, -7s, -1h})
    for (const bool later : {false, true}) {
      SetSlidingNode set(1);
      set.ask();
      if (later) set.node.pass(100ms);
      set.set(by);
      set.node.pass(1ms);
      EXPECT_LE(set.ask(), set.limit) << "set by " << by / 1ms << " ms, a span later: " << later;
    }
}

TEST(SlidingWindowWhoseClockIsSet, HoldsWhatItHeldWhenTheClockGoesBackTwiceByLessThanASpan) {
  SetSlidingNode set(1);
  set.ask();
  set.node.pass(100ms);
  set.node.pass(60ms);
  for (const Duration by : {30ms, 90ms}) {
    set.set(-by);
    set.node.pass(1ms);
    EXPECT_LE(set.ask(), set.limit);
  }

  Rule rule = rule_of("user", Algorithm::sliding_window, SetSlidingNode::limit);
  rule.spans = 2;
  rule.interval = 200ms;
  SetSlidingNode two(1, rule);
  two.node.pass(55ms);
  two.ask(0, two.limit / 2);
  for (int i = 0; i < 2; ++i) {
    two.set(-90ms);
    two.node.pass(1ms);
  }
  two.ask(0, two.limit / 2);
  two.node.pass(100ms);
  EXPECT_LE(two.ask(), two.limit);
}

TEST(SlidingWindowWhoseClockIsSet, HoldsWhatALateWorkerTellsOfTheTimeBefore) {
  for (const Duration by : std::initializer_list<Duration>{5s, -5s, 1050ms}) {
    SetSlidingNode set(2);
    set.ask(0);
    set.set(by);
    for (const Duration passed : {1ms, 11ms}) {
      set.node.now = set.node.now + passed;
      set.node.round();
      set.node.report(1);
    }
    set.ask(1);
    set.node.report(0);
    set.node.round();
    set.node.report_all();
    set.node.pass(100ms);
    EXPECT_LE(set.ask(1), set.limit) << by / 1ms;
  }
}

// The window before the running one is the one that a late worker has drawn in, though it began later when
// the clock came back to it.
TEST(SlidingWindowWhoseClockIsSet, IsNotSettledBeforeALateWorkerHasToldOfAWindowThatTheClockCameBackTo) {
  SetSlidingNode set(2);
  set.node.now = set.node.now + 45ms;
  set.ask(0);
  set.node.now = set.node.now + 5ms;
  const auto pass = [&](Duration by) {
    set.node.now = set.node.now + by;
    set.node.round();
    set.node.report(1);
  };
  pass(1ms);  // the next window
  pass(10500us);
  set.set(-15ms);
  pass(0ms);      // the one before
  pass(10500us);  // and the next again
  pass(10500us);
  EXPECT_LE(set.ask(1), set.limit);
}

// Before anybody has judged what was counted by the clock as it was.
TEST(SlidingWindowWhoseClockIsSet, HoldsWhatItHeldFromTheFirstMomentOn) {
  for (const Duration by : std::initializer_list<Duration>{1s, 5s, 1h, -1s, -1h, -150ms, -30ms}) {
    SetSlidingNode set(2);
    set.ask(1);
    set.ask(0);
    for (int i = 0; i < 3; ++i) {
      set.set(by);
      for (const Duration passed : {1ms, 10ms}) {
        set.node.now = set.node.now + passed;
        set.node.round();
        set.node.report(0);
        set.ask(0, 400);
      }
      set.node.report(1);  // late, but in time
      set.ask(1, 400);
    }
    EXPECT_LE(set.asked, set.limit) << by / 1ms;
  }
}

TEST(SlidingWindowWhoseClockIsSet, ForgetsKeysThatWereCountedFarAhead) {
  Rule rule = rule_of("user", Algorithm::sliding_window, 1000);
  GrantedNode node({rule}, 1, 16);
  node.pass_second();
  for (int i = 0; i < 40; ++i) node.ask(0, 0, "s" + std::to_string(i), 20);
  node.pass(100ms);
  node.now.wall -= 1h;
  node.pass(1ms);
  for (int i = 0; i < 50; ++i) node.pass(100ms);
  EXPECT_EQ(node.node().figures().keys, 0U);
  EXPECT_GE(node.ask(0, 0, "bob", 1000), 1000U - 1000 / 32);
}

// That the controller is late is not to have set the clock: nothing is held longer for it.
TEST(SlidingWindowWhoseClockIsSet, HoldsNothingLongerWhereOnlyTheControllerIsLate) {
  SetSlidingNode set(2);
  set.ask(0);
  set.node.now = set.node.now + 100ms;
  set.node.round();
  set.node.report(0);
  set.node.now = set.node.now + 250ms;  // worker 1 has not passed
  set.node.round();
  set.node.report_all();
  for (int i = 0; i < 7; ++i) set.node.pass(100ms);
  EXPECT_GE(set.ask(0), 2 * set.limit - set.limit / 16);
}

// Where there have been no grants, all that is left may be drawn in an interval's last span, and is not known
// yet when grants come back in the next one.
TEST(SlidingGrants, ComeBackWithoutExceedingTheLimit) {
  constexpr std::uint64_t limit = SetSlidingNode::limit;
  const auto expect_sound = [](SetSlidingNode& set, const char* where) {
    set.wait_for_last_span();
    for (unsigned i = 0; i < set.node.workers(); ++i) set.ask(i);
    set.begin_next_interval();
    for (unsigned i = 0; i < set.node.workers(); ++i) set.ask(i, 400);
    EXPECT_LE(set.asked, set.limit) << where;
  };
  {
    Rule rule = rule_of("user", Algorithm::sliding_window, limit);
    rule.on_store_failure = OnStoreFailure::closed;
    SetSlidingNode set(1, rule);
    for (const int spans : {60, 25}) {  // away over the beginnings of several intervals
      set.node.pass_second();
      set.node.cut = true;
      for (int i = 0; i < spans; ++i) set.node.pass(50ms);
      set.node.cut = false;
    }
    for (int i = 0; i < 4; ++i) set.node.pass(50ms);
    expect_sound(set, "closed");
  }
  {
    SetSlidingNode set(1);
    set.node.pass_second();
    for (int i = 0; i < 2; ++i) {
      set.set(1s);
      set.node.pass(1ms);
    }
    expect_sound(set, "two intervals cut short");
  }
  {
    Rule rule = rule_of("user", Algorithm::sliding_window, limit);
    rule.hold_back = 0.01;
    SetSlidingNode set(2, rule);
    for (Ordinal second = 1000; second < 1060; ++second) set.node.counters[{"~nodes", second}] = 99;
    for (int i = 0; i < 35; ++i) set.node.pass(100ms);
    set.node.cut = true;
    for (int i = 0; i < 30; ++i) set.node.pass(100ms);
    set.node.cut = false;
    for (int i = 0; i < 2; ++i) set.node.pass(100ms);
    expect_sound(set, "one of many, alone for a while");
  }
}

// Others keep clear of what he might have drawn only until he has told.
TEST(SlidingGrants, AWorkerThatIsLateOnceKeepsNothingFromOthersForTheRestOfTheSpan) {
  for (const Duration late : {1ms, 12ms}) {
    SetSlidingNode set(2);
    set.ask(0, set.limit / 2);
    set.node.now = set.node.now + 51ms;
    set.node.round();
    set.node.report(0);
    set.node.now = set.node.now + late;
    for (int i = 0; i < 2; ++i) {
      set.node.round();
      set.node.report_all();
    }
    EXPECT_GE(set.ask(0), set.limit - set.limit / 64) << late / 1ms << " ms";
  }
}

// What is asked of it is within the grant: so no entry is made, no cell taken, and the limit is the grant's.
TEST(SlidingGrants, AreEnoughForAKeyOfWhichLittleIsAsked) {
  GrantedNode node({rule_of("user", Algorithm::sliding_window, 19'200)}, 2);
  for (int span = 0; span < 50; ++span) {
    EXPECT_EQ(node.ask(0, 0, "ann", 5), 5U);
    EXPECT_EQ(node.ask_at_once(1, 0, "ann", 5), 5U);
    node.pass(100ms);
  }
  node.stop();
  node.expect_sound();
}

// Nothing is lost to who asks for it.

class GrantedAlone : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(GrantedAlone, AWorkerGetsExactlyTheLimitOfAFixedWindowHoweverItAsks) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  const std::uint64_t limit = GetParam();
  GrantedNode node({rule_of("user", Algorithm::fixed_window, limit)}, 1);
  std::mt19937_64 random(seed() + limit);
  for (int window = 0; window < 60; ++window) {
    const std::uint64_t demand = random() % 3 == 0 ? limit + random() % limit : random() % (limit + 2);
    std::uint64_t admitted = 0;
    switch (random() % 4) {
      case 0:  // at once, after nothing for a while
        node.pass(std::chrono::seconds(random() % 4));
        admitted = node.ask_at_once(0, 0, "ann", demand);
        break;
      case 1:  // at once, in the middle
        node.pass(std::chrono::milliseconds(random() % 900));
        admitted = node.ask(0, 0, "ann", demand);
        break;
      case 2: {  // over all spans, by turns
        std::uint64_t asked = 0;
        for (int span = 0; span < 9; ++span) {
          const std::uint64_t part = std::min(demand - asked, demand / 7 + random() % 5);
          asked += part;
          admitted += random() % 2 == 0 ? node.ask(0, 0, "ann", part) : node.ask_at_once(0, 0, "ann", part);
          if (random() % 3 == 0) node.worker(0).admit_key(0, "ann", 0, node.now.monotonic);
          node.pass(100ms);
        }
        admitted += node.ask(0, 0, "ann", demand - asked);
        break;
      }
      default: {  // some, then much later the rest
        const std::uint64_t some = demand == 0 ? 0 : random() % demand;
        admitted = node.ask(0, 0, "ann", some);
        node.pass(std::chrono::milliseconds(random() % 900));
        admitted += node.ask_at_once(0, 0, "ann", demand - some);
      }
    }
    EXPECT_EQ(admitted, std::min(limit, demand)) << "window " << window << ", demand " << demand;
    node.pass_second();
  }
  node.stop();
  node.expect_sound();
}

INSTANTIATE_TEST_SUITE_P(Limits, GrantedAlone, ::testing::Values(63, 64, 65, 127, 128, 1000, 20'000, 131'073),
                         [](const auto& tested) { return std::to_string(tested.param); });

// Little is used, so that nothing but the grant is; then all is asked for in another window, when the worker
// has been given one table or the other meanwhile.
TEST(Grants, AWorkerThatWasAwayHasItsGrantAnew) {
  constexpr std::uint64_t limit = 1280;
  for (int flips = 0; flips < 6; ++flips) {
    for (const bool closed : {false, true}) {
      GrantedNode node({rule_of("user", Algorithm::fixed_window, limit)}, 1);
      EXPECT_EQ(node.ask(0, 0, "ann", 3), 3U);
      if (closed) node.ask(0, 0, "ann", limit / 8);
      node.go(0);
      for (int i = 0; i < flips; ++i) node.pass(100ms);
      node.pass_second();
      node.come(0);
      EXPECT_EQ(node.ask(0, 0, "ann", limit * 2), limit) << flips << " flips within the window";
      node.stop();
      node.expect_sound();
    }
  }
}

TEST(Grants, WorkersThatAllAskGetTheWholeLimitFromTheSecondWindowOn) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  for (const unsigned workers : {2U, 3U, 4U}) {
    for (const std::uint64_t limit : {64ULL * workers, 64ULL * workers + 63, 1000ULL, 20'000ULL}) {
      GrantedNode node({rule_of("user", Algorithm::fixed_window, limit)}, workers);
      for (int window = 0; window < 5; ++window) {
        std::uint64_t admitted = 0;
        for (int span = 0; span < 9; ++span) {
          for (unsigned i = 0; i < workers; ++i) admitted += node.ask(i, 0, "ann", limit / 4);
          node.pass(100ms);
        }
        // In the first nobody knows of the demand, but who has a grant asks for it here.
        EXPECT_EQ(admitted, limit) << workers << " workers, window " << window;
        node.pass_second();
      }
      node.stop();
      node.expect_sound();
    }
  }
}

TEST(Grants, AKeyInSteadyDemandLosesNothingToWorkersThatDoNotAsk) {
  constexpr std::uint64_t limit = 1280;
  GrantedNode node({rule_of("user", Algorithm::fixed_window, limit)}, 4);
  for (int window = 0; window < 5; ++window) {
    std::uint64_t admitted = 0;
    for (int span = 0; span < 9; ++span) {
      admitted += node.ask(0, 0, "ann", limit / 4);
      node.pass(100ms);
    }
    if (window == 0)
      EXPECT_GE(admitted, limit - limit / 64);
    else
      EXPECT_EQ(admitted, limit) << window;
    node.pass_second();
  }
  node.stop();
  node.expect_sound();
}

// Its grant is filled up again and again, in the span before as in the one whose counts are just taken.
TEST(Grants, AKeyFarAboveItsGrantIsCountedExactly) {
  constexpr std::uint64_t limit = 131'072;
  GrantedNode node({rule_of("user", Algorithm::fixed_window, limit)}, 2);
  for (int window = 0; window < 3; ++window) {
    for (int span = 0; span < 9; ++span) {
      EXPECT_EQ(node.ask(0, 0, "ann", 5000 + 100 * static_cast<std::uint64_t>(span)),
                5000U + 100 * static_cast<std::uint64_t>(span));
      EXPECT_EQ(node.ask_at_once(1, 0, "ann", 999), 999U);
      node.now = node.now + 100ms;
      node.round();
      node.report(0);
      EXPECT_EQ(node.ask(0, 0, "ann", 1500), 1500U);  // of the next span, before this one is drained
      node.report(1);
      node.pass(1ms);
    }
    node.pass_second();
  }
  node.stop();
  node.expect_sound();
}

TEST(Grants, ARequestTooHeavyForCreditIsAdmittedOutOfAllThatRemains) {
  constexpr std::uint64_t limit = (std::uint64_t{1} << 31) + 100'000;
  for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::cooldown}) {
    GrantedNode node({rule_of("user", algorithm, limit)}, 1);
    EXPECT_EQ(node.ask(0, 0, "ann", 5000), 5000U);
    EXPECT_EQ(node.worker(0).admit_key(0, "ann", 0, node.now.monotonic).remaining, limit - 5000);
    EXPECT_TRUE(node.admit(0, 0, "ann", static_cast<std::uint32_t>(limit - 5000)));
  }
}

// Grants are left alone for a span while idle keys are forgotten, and what was lent before is not to be
// had: to be refused that is not to have exceeded the limit, whenever that is.
TEST(Grants, AHotKeyIsNotBlockedBecauseIdleKeysAreForgotten) {
  constexpr std::uint64_t limit = 65'536;
  for (int begin = 60; begin < 75; ++begin) {
    Rule rule = rule_of("user", Algorithm::cooldown, limit);
    rule.cooldown = 5s;
    GrantedNode node({rule}, 1, 64);
    node.pass_second();
    int others = 0;
    std::uint64_t in_window = 0;
    for (int span = 0; span < 79; ++span) {
      if (span % 10 == 0) in_window = 0;
      for (int i = 0; i < 15 && span >= begin; ++i) node.ask(0, 0, "s" + std::to_string(others++), 1);
      in_window += node.ask(0, 0, "ann", 2500);
      node.pass(100ms);
    }
    const std::uint64_t asked = limit - in_window;
    EXPECT_GE(node.ask(0, 0, "ann", asked), asked - limit / 64) << "crowded since span " << begin;
    node.pass_second();
    EXPECT_TRUE(node.admit(0, 0, "ann")) << "blocked; crowded since span " << begin;
  }
}

/// @param other  a rule of the node beside the one that is sprayed
void expect_grants_after_a_spray_beside(const Rule& other) {
  constexpr std::uint64_t limit = 64'000;
  GrantedNode node({rule_of("user", Algorithm::fixed_window, limit), other}, 2, 64);
  // Who has a grant is told of it beside what may be drawn.
  const auto has_grant = [&](const std::string& user) {
    return node.worker(0).admit_key(0, user, 1, node.now.monotonic).remaining >= limit - limit / 128 - 1;
  };
  node.pass_second();
  EXPECT_TRUE(has_grant("ann"));
  for (int i = 0; i < 2000; ++i) {
    node.admit(0, 0, "s" + std::to_string(i));
    if (i % 100 == 0) node.pass(100ms);
  }
  EXPECT_FALSE(has_grant("bob"));
  for (int span = 0; span < 250; ++span) node.pass(100ms);
  EXPECT_TRUE(has_grant("cid"));
}

// Idle keys of all rules are forgotten together; and a bucket's windows last as long as it takes to fill
// twice.
TEST(Grants, OfNewKeysAreThereAgainAfterASprayAlsoBesideABucketThatFillsForHours) {
  Rule bucket = rule_of("tenant", Algorithm::token_bucket, 1000);
  bucket.interval = 1h;
  bucket.burst = 100'000;
  expect_grants_after_a_spray_beside(bucket);
}

TEST(Grants, OfNewKeysAreThereAgainAfterASprayAlsoBesideAQuotaOfADay) {
  Rule quota = rule_of("tenant", Algorithm::fixed_window, 64'000);
  quota.interval = 24h;
  expect_grants_after_a_spray_beside(quota);
}

TEST(Grants, AreThereAgainInTheSpanInWhichRoomIsMade) {
  constexpr std::uint64_t limit = 64'000;
  GrantedNode node({rule_of("user", Algorithm::fixed_window, limit)}, 1, 64);
  int made_up = 0;
  int spans = 0;
  int in_a_row = 0;
  node.pass_second();
  for (int span = 0; span < 200; ++span) {
    node.report_all();
    const bool has_grant =
        node.worker(0).admit_key(0, "ann", 1, node.now.monotonic).remaining >= limit - limit / 128;
    in_a_row = has_grant ? 0 : in_a_row + 1;
    EXPECT_LE(in_a_row, 1) << "span " << span;
    spans += !has_grant;
    for (int i = 0; i < 100; ++i) node.admit(0, 0, "s" + std::to_string(made_up++));
    node.pass(100ms);
  }
  EXPECT_GT(spans, 0);
}

// For a span nobody has grants while room is made, and who fills it at once shall not have that happen all
// the time.
TEST(Grants, AreLeftAloneEverMoreSeldomWhileSomebodyTakesAllTheRoomThatIsMade) {
  constexpr std::uint64_t limit = 64'000;
  GrantedNode node({rule_of("user", Algorithm::fixed_window, limit)}, 1, 64);
  const auto has_grant = [&](const std::string& user) {
    return node.worker(0).admit_key(0, user, 1, node.now.monotonic).remaining >= limit - limit / 128;
  };
  int made_up = 0;
  const auto spans_without = [&](int spans, int made_up_in_each) {
    int without = 0;
    for (int span = 0; span < spans; ++span) {
      without += !has_grant("ann");
      for (int i = 0; i < made_up_in_each; ++i) node.admit(0, 0, "s" + std::to_string(made_up++));
      node.pass(100ms);
    }
    return without;
  };
  node.pass_second();
  const int in_a_spray = spans_without(2000, 100);
  EXPECT_GT(in_a_spray, 0);
  EXPECT_LE(in_a_spray, 10);
  // Who takes his time makes it no more seldom than it was at first, once room has been made for him.
  spans_without(1100, 2);
  EXPECT_GE(spans_without(800, 2), 5);
}

// One worker gets all of a key's requests; what the others were granted of it nobody uses. To be refused that
// is not to have exceeded the limit.
TEST(Grants, AnHonestBurstOnOneWorkerBlocksNobody) {
  Rule rule = rule_of("user", Algorithm::cooldown, 1280);
  rule.cooldown = 1500ms;
  GrantedNode node({rule}, 4);
  node.pass_second();
  EXPECT_GE(node.ask(0, 0, "ann", 1270), 1280U - 1280 / 64);
  node.ask(0, 0, "ann", 5);  // the refused ones, once again
  node.pass_second();
  EXPECT_EQ(node.ask(0, 0, "ann", 10), 10U);
}

TEST(Grants, ABurstBelowTheLimitRefusesNothingInTheNextWindow) {
  GrantedNode node({rule_of("user", Algorithm::cooldown, 1280)}, 4);
  node.pass_second();
  node.pass(950ms);
  node.ask(0, 0, "ann", 1270);
  node.now = node.now + 60ms;
  node.round();
  node.report_all();
  EXPECT_EQ(node.ask(0, 0, "ann", 10), 10U);
}

// What a key may not have.

TEST(Grants, ABlockedKeyIsNotAdmittedAcrossTheEndsOfSpansAndWindows) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  constexpr std::uint64_t limit = 640;
  Rule rule = rule_of("user", Algorithm::cooldown, limit);
  rule.cooldown = 1500ms;
  for (const unsigned workers : {1U, 2U, 4U}) {
    std::mt19937_64 random(seed() + workers);
    GrantedNode node({rule}, workers);
    for (int block = 0; block < 20; ++block) {
      node.pass_second();
      node.pass(std::chrono::milliseconds(random() % 950));
      const auto exceeding = static_cast<unsigned>(random() % workers);
      if (workers > 1) node.ask((exceeding + 1) % workers, 0, "ann", random() % 4);
      node.ask_at_once(exceeding, 0, "ann", limit * 2);
      const MonotonicTime refused = node.now.monotonic;
      EXPECT_FALSE(node.admit(exceeding, 0, "ann"));
      // Until it is judged the others may use what they have; he who refused admits nothing.
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(node.ask(exceeding, 0, "ann", 2) + node.ask_at_once(exceeding, 0, "ann", 3), 0U);
        if (i == 0) node.now = node.now + Duration(random() % 120'000'000);
        node.round();
        EXPECT_EQ(node.ask(exceeding, 0, "ann", 2) + node.ask_at_once(exceeding, 0, "ann", 3), 0U);
        node.report(exceeding);
        EXPECT_EQ(node.ask(exceeding, 0, "ann", 2) + node.ask_at_once(exceeding, 0, "ann", 3), 0U);
        node.report_all();
      }
      node.pass(100ms);
      node.pass(1ms);
      while (node.now.monotonic < refused + rule.cooldown) {
        for (unsigned i = 0; i < workers; ++i)
          EXPECT_EQ(node.ask(i, 0, "ann", 2) + node.ask_at_once(i, 0, "ann", 3), 0U)
              << "worker " << i << ", " << (node.now.monotonic - refused) / 1ms << " ms after";
        node.pass(std::chrono::milliseconds(1 + random() % 90));
      }
      node.pass(110ms);
      EXPECT_TRUE(node.admit(exceeding, 0, "ann"));
    }
    node.stop();
    node.expect_sound();
  }
}

TEST(Grants, NothingIsAdmittedOutOfThemWhileARuleIsClosed) {
  constexpr std::uint64_t limit = 1000;
  std::vector<Rule> rules{rule_of("user", Algorithm::fixed_window, limit),
                          rule_of("tenant", Algorithm::cooldown, limit),
                          rule_of("part", Algorithm::shed, limit)};
  for (Rule& rule : rules) rule.on_store_failure = OnStoreFailure::closed;
  GrantedNode node(rules, 2);
  for (int window = 0; window < 4; ++window) {
    for (RuleIndex rule = 0; rule < 3; ++rule)
      for (unsigned worker = 0; worker < 2; ++worker) EXPECT_EQ(node.ask(worker, rule, "ann", 3), 3U);
    node.cut = true;
    for (int i = 0; i < 30; ++i) node.pass(50ms);
    for (int i = 0; i < 30; ++i) {
      for (RuleIndex rule = 0; rule < 3; ++rule)
        for (unsigned worker = 0; worker < 2; ++worker)
          EXPECT_EQ(
              node.ask(worker, rule, "ann", 2) + node.ask_at_once(worker, rule, "bob" + std::to_string(i), 3),
              0U)
              << rules[rule].name;
      node.pass(50ms);
    }
    node.cut = false;
    for (int i = 0; i < 30; ++i) node.pass(50ms);
  }
  node.stop();
  node.expect_sound();
}

// What a closed rule refuses, nobody has exceeded.
TEST(Grants, WhatAClosedRuleRefusesBeginsNoCooldown) {
  for (const EarlyBlock early : {EarlyBlock::sound, EarlyBlock::predictive}) {
    for (const std::uint64_t limit : {100U, 1000U}) {
      Rule rule = rule_of("tenant", Algorithm::cooldown, limit);
      rule.cooldown = 1h;
      rule.on_store_failure = OnStoreFailure::closed;
      rule.early_block = early;
      GrantedNode node({rule}, 2);
      for (int span = 0; span < 20; ++span) node.pass(50ms);
      node.cut = true;
      for (int span = 0; span < 30; ++span) node.pass(50ms);
      for (int span = 0; span < 10; ++span) {
        EXPECT_EQ(node.ask(0, 0, "ann", 20) + node.ask_at_once(1, 0, "bob", 20), 0U);
        node.pass(50ms);
      }
      node.cut = false;
      for (int span = 0; span < 30; ++span) node.pass(50ms);
      EXPECT_EQ(node.ask(0, 0, "ann", 20) + node.ask_at_once(1, 0, "bob", 20), 40U) << "limit " << limit;
      node.stop();
      node.expect_sound();
    }
  }
}

// A request that weighs nearly all of the limit needs what is set aside for grants, though it has never drawn
// anything.
TEST(Grants, ARequestOfAllTheLimitIsAdmittedFromTheSecondWindowOn) {
  for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::cooldown}) {
    for (const unsigned workers : {1U, 4U}) {
      constexpr std::uint32_t limit = 6400;
      GrantedNode node({rule_of("user", algorithm, limit)}, workers);
      for (int window = 0; window < 5; ++window) {
        EXPECT_EQ(node.admit(0, 0, "ann", limit), workers == 1 || window > 0)
            << workers << " workers, window " << window;
        node.pass(100ms);
        node.pass_second();
      }
      node.stop();
      node.expect_sound();
    }
  }
}

// Where nodes divide the limit, grants are a part of the node's part.
TEST(Grants, ARequestOfAllTheNodesPartIsAdmittedFromTheSecondWindowOn) {
  constexpr std::uint32_t limit = 6400;
  Rule rule = rule_of("user", Algorithm::fixed_window, limit);
  rule.hold_back = 0.01;  // so that nodes are counted
  GrantedNode node({rule}, 4);
  for (Ordinal second = 1000; second < 1060; ++second) node.counters[{"~nodes", second}] = 3;
  for (int span = 0; span < 35; ++span) node.pass(100ms);
  node.cut = true;
  for (int span = 0; span < 25; ++span) node.pass(100ms);
  node.pass_second();
  for (int window = 0; window < 5; ++window) {
    EXPECT_EQ(node.admit(0, 0, "ann", limit / 4), window > 0) << window;
    node.pass(100ms);
    node.pass_second();
  }
  node.stop();
  node.expect_sound();
}

// A key that had no grants when a window began, so that all of its allowance could be drawn, has none for a
// worker that comes to that window later, whatever the clock did meanwhile.
TEST(Grants, AWindowThatTheClockReturnsToGrantsNothingAnew) {
  constexpr std::uint64_t limit = 1280;
  GrantedNode node({rule_of("user", Algorithm::fixed_window, limit)}, 2);
  // Heavy, so that all of the next window's allowance can be drawn.
  for (int span = 0; span < 9; ++span) {
    node.ask(0, 0, "ann", limit / 4);
    node.pass(100ms);
  }
  node.go(1);
  node.pass_second();
  EXPECT_EQ(node.ask(0, 0, "ann", limit * 2), limit);
  node.now.wall -= 100ms;
  node.pass(1ms);
  node.now.wall += 100ms;
  node.pass(1ms);
  node.come(1);
  EXPECT_EQ(node.ask(1, 0, "ann", limit), 0U);
  node.stop();
  node.expect_sound();
}

TEST(Grants, KeysWithLongNamesFindRoomAsTheyCome) {
  constexpr std::uint32_t keys = 262'144;
  GrantedNode node({rule_of("user", Algorithm::fixed_window, 1000)}, 1, keys);
  const std::size_t at_first = node.node().memory();
  for (std::uint32_t i = 0; i < keys / 4 * 3; ++i) {
    ASSERT_TRUE(node.admit(0, 0, "a name about as long as a UUID " + std::to_string(i)));
    if (i % 40'000 == 0) node.pass(100ms);
  }
  EXPECT_EQ(node.node().figures().overflowed, 0U);
  EXPECT_GT(node.node().memory(), at_first);
}

// Workers tell of keys by their hash alone: whose it is the node remembers.

TEST(Grants, AKeyThatComesBetweenTheFlipAndItsHarvestIsCountedUnderItsName) {
  GrantedNode node({rule_of("user", Algorithm::fixed_window, 6400)}, 2);
  for (int span = 0; span < 5; ++span) {
    node.now = node.now + 100ms;
    node.round();
    for (unsigned i = 0; i < node.workers(); ++i) {
      node.report(i);
      // In the next span by now, while the one before has not been drained.
      for (int each = 0; each < 100; ++each)
        EXPECT_TRUE(node.admit(i, 0, std::to_string(span) + " " + std::to_string(each)));
    }
    node.round();
  }
  node.stop();
  node.expect_sound();
  EXPECT_EQ(node.stored("user|~"), 0U);
  EXPECT_EQ(node.stored("user|4 99"), 2U);
}

TEST(Grants, AKeyThatTheNodeHasForgottenMeanwhileIsCountedUnderItsNameWhenItComesBack) {
  GrantedNode node({rule_of("user", Algorithm::fixed_window, 6400)}, 2);
  node.pass_second();
  EXPECT_EQ(node.ask(0, 0, "ann", 3), 3U);
  EXPECT_EQ(node.ask(1, 0, "ann", 2), 2U);
  node.pass(100ms);
  EXPECT_EQ(node.node().figures().keys, 1U);
  for (int i = 0; i < 40; ++i) node.pass_second();
  EXPECT_EQ(node.node().figures().keys, 0U);
  EXPECT_EQ(node.ask(1, 0, "ann", 4), 4U);
  node.pass(100ms);
  EXPECT_EQ(node.stored("user|ann"), 4U);
  node.stop();
  node.expect_sound();
}

// Idle keys are forgotten by each worker in its time, and come back to any of them.
TEST(Grants, NamesAreKnownHoweverOftenIdleKeysAreForgotten) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  std::mt19937_64 random(seed());
  GrantedNode node({rule_of("user", Algorithm::fixed_window, 6400)}, 2, 64);
  int forgotten = 0;
  std::uint32_t before = 0;
  std::uint64_t first = 0;
  for (int window = 0; window < 400; ++window) {
    // Others than before, or the same again.
    if (window % 14 == 0) first = random() % 3 * 30;
    for (int span = 0; span < 3; ++span) {
      for (int i = 0; i < 60; ++i)
        node.ask(static_cast<unsigned>(random() % 2), 0, std::to_string(first + random() % 40), 1);
      node.pass(100ms);
    }
    forgotten += node.node().learned() < before;
    before = node.node().learned();
    node.pass_second();
  }
  EXPECT_GT(forgotten, 3);
  node.stop();
  node.expect_sound();
  EXPECT_EQ(node.node().figures().overflowed, 0U);
}

// Each request of the spray is of another key, as one worker gets it; what others are asked for is no more.
TEST(Grants, ASprayOnOneWorkerTakesNoNameFromTheKeysOfOthers) {
  GrantedNode node({rule_of("user", Algorithm::fixed_window, 6400)}, 2, 256);
  constexpr int users = 20;
  std::uint64_t asked = 0;
  int sprayed = 0;
  for (int span = 0; span < 150; ++span) {
    for (int i = 0; i < 2000 && span < 60; ++i) node.ask(0, 0, "s" + std::to_string(sprayed++), 1);
    // They come while there is a crowd, and stay.
    for (int user = 0; user < users && span >= 30; ++user)
      asked += node.ask(1, 0, "u" + std::to_string(user), 1);
    node.pass(100ms);
  }
  node.stop();
  node.expect_sound();
  std::uint64_t named = 0;
  for (const auto& [counter, count] : node.counters)
    if (counter.first.starts_with("user|u")) named += count;
  EXPECT_EQ(named, asked);
  EXPECT_EQ(asked, 120U * users);
}

}  // namespace
}  // namespace weir
