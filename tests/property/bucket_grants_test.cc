// SPDX-License-Identifier: BSD-3-Clause
// Grants of keys that have buckets (shared/grant_table.h): whoever uses his by right, whenever workers come,
// go, report late or sleep over windows, a key gets no more in any time than its bucket would give, nothing
// that was admitted is missing in the store, and what is set aside is not lost to who asks for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "granted_node.h"
#include "limit/bucket_rule.h"
#include "limit/token_bucket.h"
#include "sanitized.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::GrantedNode;
using testing::rule_of;
using testing::sanitized;
using testing::seed;

Rule bucket_of(Algorithm algorithm, std::uint64_t limit, std::uint64_t burst) {
  Rule rule = rule_of("user", algorithm, limit);
  rule.burst = burst;
  return rule;
}

/// One key and, beside it, the bucket that the rule speaks of: it must hold whatever is admitted.
class BucketUser {
 public:
  BucketUser(std::string name, const Rule& rule)
      : name_(std::move(name)), bucket_(rule.limit, rule.interval, burst_of(rule)) {}

  const std::string& name() const { return name_; }
  /// @param weight  that has been admitted
  void expect_held(std::uint64_t weight, Instant now) {
    if (weight == 0) return;
    TokenBucket::State before = state_;
    const std::uint64_t held = bucket_.try_acquire(before, now, 0).remaining;
    EXPECT_GE(held, weight) << "of " << name_ << " at " << now.monotonic.time_since_epoch();
    bucket_.try_acquire(state_, now, std::min(held, weight));
  }

 private:
  std::string name_;
  TokenBucket bucket_;
  TokenBucket::State state_;
};

class BucketStorm : public ::testing::TestWithParam<int> {};

TEST_P(BucketStorm, AdmitsNobodyMoreThanHisBucketHoldsAndLosesNothing) {
  const std::uint64_t storm_seed = seed() + static_cast<std::uint64_t>(GetParam());
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()) + ", storm " + std::to_string(GetParam()));
  std::mt19937_64 random(storm_seed);
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  const auto one_in = [&](std::uint64_t n) { return below(n) == 0; };

  const auto workers = static_cast<unsigned>(2 + below(3));
  const std::uint64_t burst =
      std::array<std::uint64_t, 4>{256 * workers, 1000 * workers, 5000, 40'000}[below(4)];
  // Full within a window of one interval, of two, or of many.
  const std::uint64_t limit =
      std::array<std::uint64_t, 4>{3 * burst, burst, burst / 2 + 1, burst / 7}[below(4)];
  Rule rule = bucket_of(one_in(2) ? Algorithm::token_bucket : Algorithm::leaky_bucket, limit, burst);
  rule.interval = 300ms;
  if (one_in(3)) rule.weight = static_cast<std::uint32_t>(1 + below(7));
  GrantedNode node({rule}, workers);
  std::vector<BucketUser> users;
  for (int i = 0; i < 5; ++i) users.emplace_back("k" + std::to_string(i), rule);

  std::uint64_t refused = 0;
  const auto ask = [&](unsigned worker) {
    BucketUser& user = users[below(users.size())];
    const std::uint64_t wanted =
        1 + below(std::array<std::uint64_t, 4>{2, 20, burst / 50 + 1, burst + 1}[below(4)]);
    std::uint64_t admitted = 0;
    if (one_in(3)) {
      admitted = node.ask(worker, 0, user.name(), wanted);
    } else if (one_in(2)) {
      admitted = node.ask_at_once(worker, 0, user.name(), wanted);
    } else {
      admitted = node.admit(worker, 0, user.name(), static_cast<std::uint32_t>(wanted)) ? wanted : 0;
    }
    refused += wanted - admitted;
    user.expect_held(admitted * rule.weight, node.now);
  };

  std::vector<int> asleep(workers);
  for (int step = 0; step < 4000; ++step) {
    const auto worker = static_cast<unsigned>(below(workers));
    if (node.is_online(worker) && one_in(2)) ask(worker);
    if (one_in(2)) node.now = node.now + Duration(below(10'000'000));
    if (one_in(200)) node.now = node.now + Duration(below(900'000'000));
    if (one_in(2)) node.round();
    for (unsigned i = 0; i < workers; ++i) {
      if (one_in(150)) asleep[i] = static_cast<int>(below(100));
      if (asleep[i] > 0)
        --asleep[i];
      else if (one_in(2))
        node.report(i);
      if (one_in(200)) node.is_online(i) ? node.go(i) : node.come(i);
    }
  }
  EXPECT_GT(refused, 0U) << "this must not pass by nobody coming near the limit";
  node.stop();
  node.expect_all_stored();
}

INSTANTIATE_TEST_SUITE_P(Seeds, BucketStorm, ::testing::Range(0, sanitized ? 10 : 40));

// At the worst moment, just before windows turn and just after: out of grants, what workers have drawn ahead,
// and a bucket that is full again.
TEST(BucketGrants, ComeToNoMoreThanTheBucketWhereWindowsTurn) {
  constexpr unsigned workers = 4;
  constexpr std::uint64_t burst = 100'000;
  const Rule rule = bucket_of(Algorithm::token_bucket, burst, burst);  // windows of two seconds
  constexpr std::uint64_t grant = burst / (256 * workers);
  GrantedNode node({rule}, workers);
  BucketUser ann("ann", rule);
  std::uint64_t admitted = 0;
  const auto each_asks = [&](std::uint64_t times) {
    for (unsigned worker = 0; worker < workers; ++worker) {
      const std::uint64_t more = node.ask_at_once(worker, 0, "ann", times);
      ann.expect_held(more, node.now);
      admitted += more;
    }
  };
  const auto pass_until = [&](Duration before) {
    do {
      node.now = node.now + 1ms;
      node.round();
      node.report_all();
    } while (node.now.monotonic.time_since_epoch() % 2s != 2s - before);
  };
  constexpr int windows = 5;
  for (int window = 0; window < windows; ++window) {
    pass_until(40ms);
    each_asks(grant + 1);  // from here on each has drawn ahead
    pass_until(1ms);
    each_asks(burst);
    node.pass(2ms);
    each_asks(grant);
  }
  EXPECT_GE(admitted, windows * (burst - burst / 32));
  node.stop();
  node.expect_all_stored();
}

// Who asks for little takes nothing from what the others draw from.
TEST(BucketGrants, AreEnoughForAKeyOfWhichLittleIsAsked) {
  GrantedNode node({bucket_of(Algorithm::token_bucket, 100'000, 100'000)}, 2);
  const auto told_to_the_other = [&] {
    return node.worker(1).admit_key(0, "ann", 0, node.now.monotonic).remaining;
  };
  for (int second = 0; second < 6; second += 2) {  // windows of two
    const std::uint64_t before = told_to_the_other();
    EXPECT_EQ(node.ask(0, 0, "ann", 190), 190U);
    EXPECT_EQ(told_to_the_other(), before);
    node.pass_second();
    node.pass_second();
  }
}

// What is granted is missing in the bucket that all draw from, and comes back by all workers' grants: of
// those who are not asked it is missing.
TEST(BucketGrants, AKeyInSteadyDemandHasItsRateOnWhateverWorkersItComes) {
  for (const unsigned asking : {1U, 2U, 4U}) {
    constexpr std::uint64_t limit = 50'000;
    const Rule rule = bucket_of(Algorithm::leaky_bucket, limit, limit);
    GrantedNode node({rule}, 4);
    BucketUser ann("ann", rule);
    std::uint64_t admitted = 0;
    constexpr int seconds = 24;
    for (int span = 0; span < seconds * 10; ++span) {
      if (span == 20) admitted = 0;  // it had saved something up
      for (unsigned worker = 0; worker < asking; ++worker) {
        const std::uint64_t more = node.ask_at_once(worker, 0, "ann", limit / 9);
        ann.expect_held(more, node.now);
        admitted += more;
      }
      node.pass(100ms);
    }
    EXPECT_GE(admitted, (seconds - 2) * (limit - (asking == 4 ? limit / 4096 : limit / 512)))
        << asking << " workers";
    node.stop();
    node.expect_all_stored();
  }
}

// What a worker has drawn ahead is partly lent to its grant, and another one may take all the rest: a request
// of more than the worker has in either finds what is in both. Also where others are refused with it, so that
// who is refused is looked at no further than need be.
TEST(BucketGrants, WhoIsRefusedHasLessThanHeAskedFor) {
  constexpr std::uint32_t weight = 7;
  // Of which a chunk is three times the largest grant, and so little more that it is not lent in the end.
  constexpr std::uint64_t most = GrantTable::most;
  constexpr std::uint64_t chunk = 3 * (most + 1) + 500;
  constexpr std::uint64_t burst = chunk * 128 * 2;
  for (const bool in_a_flood : {false, true}) {
    for (std::uint64_t before = 3 * (most + 1) + 100; before < 3 * (most + 1) + 100 + 2 * weight; ++before) {
      GrantedNode node({bucket_of(Algorithm::token_bucket, burst, burst)}, 2);
      const auto key_of = [&](unsigned worker, std::string_view name, std::uint32_t of_weight) {
        Key key = node.worker(worker).key(0, name);
        key.weight = of_weight;
        return key;
      };
      const auto take_all = [&](unsigned worker, std::string_view name) {
        std::uint64_t taken = 0;
        for (const std::uint32_t of_weight : {10'000U, 1U}) {
          const std::vector<Key> keys{key_of(worker, name, of_weight)};
          while (node.ask_for(worker, keys) > 0) taken += of_weight;
        }
        return taken;
      };
      std::uint64_t admitted = node.ask_at_once(0, 0, "ann", before);
      admitted += take_all(1, "ann");
      std::vector<Key> keys{key_of(0, "ann", weight)};
      if (in_a_flood) {
        take_all(0, "bob");
        keys.push_back(key_of(0, "bob", 10'000));
      }
      while (node.ask_for(0, keys) > 0) admitted += weight;
      EXPECT_LE(admitted, burst);
      EXPECT_LT(node.worker(0).admit_key(0, "ann", 0, node.now.monotonic).remaining, weight);
    }
  }
}

// To the client it is one bucket, whatever of it his worker has by right: each request takes one token of
// what he is told, and what other workers take is missing there, too.
TEST(BucketGrants, OneOfAKeyTellsWhatRemainsAndWhenAllIsThereAgain) {
  const Rule rule = bucket_of(Algorithm::token_bucket, 20'000, 10'000);  // half a second fills it
  GrantedNode node({rule}, 2);
  const auto asked_of = [&](unsigned worker) {
    return node.worker(worker).admit_key(0, "ann", 1, node.now.monotonic);
  };
  std::uint64_t remaining = asked_of(0).remaining;
  EXPECT_LT(remaining, 10'000U);
  EXPECT_GE(remaining, 10'000U - 10'000U / 32);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(asked_of(0).remaining, --remaining);
  EXPECT_EQ(asked_of(0).reset_after, Duration{}) << "the bucket itself is full";

  EXPECT_EQ(node.ask_at_once(1, 0, "ann", 5'000), 5'000U);
  const Decision after = asked_of(0);
  EXPECT_GE(after.remaining, remaining - 1 - 5'000U - 10'000U / 64)
      << "some of it drawn ahead by the other one";
  EXPECT_LE(after.remaining, remaining - 1 - 5'000U + 10'000U / 32) << "some of it by the other one's grant";
  EXPECT_GE(after.reset_after, 240ms);
  EXPECT_LE(after.reset_after, 260ms);
  const Decision looked = node.worker(0).admit_key(0, "ann", 0, node.now.monotonic);
  EXPECT_EQ(looked.remaining, after.remaining);

  // Also where the bucket lies in the window before, as nobody has come for it in this one.
  node.pass_second();
  EXPECT_EQ(node.ask_at_once(1, 0, "ann", 5'000), 5'000U);
  while (node.now.monotonic.time_since_epoch() % 1s < 990ms) node.pass(10ms);
  EXPECT_EQ(node.ask_at_once(1, 0, "ann", 5'000), 5'000U);
  node.pass(20ms);
  const Decision moved = asked_of(0);
  EXPECT_GE(moved.reset_after, 210ms);
  EXPECT_LE(moved.reset_after, 250ms);
  EXPECT_LE(moved.remaining, 6'000U);
}

// What a node may have of a bucket that it shares shrinks with the number of nodes while the store is away:
// and with it what its workers may have by right.
TEST(BucketGrants, AreSmallerWhereTheNodeHasAPart) {
  Rule rule = bucket_of(Algorithm::token_bucket, 40'000, 40'000);
  rule.hold_back = 0.01;  // so that nodes are counted
  for (const unsigned nodes : {1U, 10U}) {
    GrantedNode node({rule}, 2);
    for (Ordinal second = 1000; second < 1060; ++second) node.counters[{"~nodes", second}] = nodes - 1;
    node.pass_second();
    node.pass_second();
    node.cut = true;
    for (int second = 0; second < 12; ++second) node.pass_second();
    const std::uint64_t admitted =
        node.ask_at_once(0, 0, "ann", 50'000) + node.ask_at_once(1, 0, "ann", 50'000);
    const std::uint64_t part = 40'000 / nodes;
    EXPECT_LE(admitted, part);
    EXPECT_GE(admitted, part - part / 32 + 2 * (part / 512) - 2) << "with the grants of two workers";
  }
}

// One that has not reported for a window and is asked all the same, just before the next one begins: what it
// draws is not forgotten with the window that it takes for the running one.
TEST(Buckets, ALateWorkerDrawsWhereTheNextWindowWillLook) {
  for (const std::uint64_t burst : {100U, 150U, 40'000U}) {
    const Rule rule = bucket_of(Algorithm::token_bucket, 2 * burst, burst);  // windows of a second
    GrantedNode node({rule}, 2);
    BucketUser ann("ann", rule);
    const auto ask = [&](unsigned worker, std::uint64_t times) {
      const std::uint64_t admitted = node.ask_at_once(worker, 0, "ann", times);
      ann.expect_held(admitted, node.now);
      return admitted;
    };
    const auto others_pass_until = [&](Duration time) {
      while (node.now.monotonic.time_since_epoch() < time) {
        node.now = node.now + 50ms;
        node.round();
        node.report(0);
        node.round();
      }
    };
    ask(1, burst / 4);
    others_pass_until(11'900ms);
    EXPECT_GT(ask(1, 2 * burst), burst / 2);
    others_pass_until(12'050ms);
    ask(0, 2 * burst);
    EXPECT_LE(ask(1, 2 * burst), burst / 2);
  }
}

// A worker whose table has been flipped draws ahead for the next one before what it held in the last one goes
// back.
TEST(Buckets, HoldNoMoreForWhatIsOnItsWayBack) {
  for (const unsigned workers : {1U, 2U}) {
    Rule rule = bucket_of(Algorithm::token_bucket, 40'000, 40'000);
    rule.weight = 100;  // more than any grant
    GrantedNode node({rule}, workers);
    BucketUser ann("ann", rule);
    const auto each_asks = [&](std::uint64_t times) {
      for (unsigned worker = 0; worker < workers; ++worker)
        ann.expect_held(node.ask(worker, 0, "ann", times) * rule.weight, node.now);
    };
    node.now = node.now + 50ms;
    each_asks(1);
    node.now = node.now + 50ms;
    node.round();
    node.report_all();
    each_asks(1);
    node.now = node.now + 49ms;
    each_asks(500);
    node.round();
    each_asks(500);
  }
}

// (A worker alone: throttle_test.cc.)
TEST(BucketGrants, OfASmallBurstThereAreNoneAndItIsThereToTheLastToken) {
  for (const std::uint64_t burst : {1U, 20U, 127U}) {
    GrantedNode node({bucket_of(Algorithm::token_bucket, burst, burst)}, 2);
    EXPECT_EQ(node.ask(0, 0, "ann", burst + 5), burst);
  }
}

}  // namespace
}  // namespace weir
