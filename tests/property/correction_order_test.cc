// SPDX-License-Identifier: BSD-3-Clause
// Costs that are known later, of workers that pass, go and come back whenever they like, also while the
// controller is at work; and that correct what others have charged, in whichever span these are.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster.h"
#include "user_rule.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using testing::seed;
using testing::user_rule;

/// One that has something done whenever the controller turns to it.
class InterruptedStore final : public testing::CuttableStore {
 public:
  InterruptedStore(Cluster& cluster, const std::function<void()>& interrupt)
      : CuttableStore(cluster.counters, *cluster.cut), interrupt_(interrupt) {}
  void submit(const std::vector<CounterWrite>& writes, MonotonicTime now) override {
    interrupt_();
    CuttableStore::submit(writes, now);
  }
  void collect(std::vector<CounterReply>& replies) override {
    interrupt_();
    CuttableStore::collect(replies);
  }

 private:
  const std::function<void()>& interrupt_;
};

class AnyOrder {
 public:
  static constexpr std::size_t users = 3;

  /// @param dearest  that a request may turn out to be, beyond what it was charged
  AnyOrder(Algorithm algorithm, std::uint64_t limit, std::int64_t dearest, std::uint64_t seed_value)
      : limit_(limit),
        dearest_(dearest),
        cluster_(rule(algorithm, limit), 1, workers, seed_value, 256, [this](Cluster& cluster, unsigned) {
          return std::make_unique<InterruptedStore>(cluster, interrupt_);
        }) {
    interrupt_ = [this] { act(any(4)); };
  }

  void run() {
    for (int step = 0; step < 300; ++step) {
      act(any(12));
      cluster_.now = cluster_.now + std::array<Duration, 4>{Duration{}, 100us, 20ms, 60ms}[any(4)];
      node().advance(cluster_.now);
    }
    interrupt_ = [] {};
    for (unsigned i = 0; i < workers; ++i) node().worker(i).online();
    while (!under_way_.empty()) correct(node().worker(0));
    for (int span = 0; span < 10; ++span) cluster_.advance(100ms);
  }
  void expect_that_all_is_counted() const {
    std::uint64_t counted = 0;
    for (const KeyFigures& key : node().top(users)) {
      EXPECT_EQ(static_cast<std::int64_t>(key.admitted), charged_[key.name.back() - '0']) << key.name;
      counted += key.admitted;
    }
    EXPECT_GT(counted, 0U);
  }
  /// All that is left is there to be admitted. (What a late worker has charged, and is handed back in the
  /// span before it is counted, may be what others were charged, who find too little then.)
  void expect_that_next_to_nothing_is_lost() {
    for (int span = 0; span < 10; ++span) {
      for (std::size_t user = 0; user < users; ++user)
        for (unsigned worker = 0; worker < workers; ++worker)
          while (admit(node().worker(worker), user, 1)) {
          }
      cluster_.advance(100ms);
    }
    for (const std::int64_t charged : charged_)
      EXPECT_GE(charged, static_cast<std::int64_t>(limit_ - limit_ / 64));
  }
  void finish() { cluster_.finish(); }

 private:
  static constexpr unsigned workers = 3;
  struct UnderWay {
    std::size_t user;
    std::int64_t by;
    Instant charged_in;
  };

  /// All in one interval.
  static Rule rule(Algorithm algorithm, std::uint64_t limit) {
    Rule rule = user_rule(limit, algorithm);
    rule.interval = 10s;
    rule.cooldown = rule.interval;
    rule.spans = 100;
    return rule;
  }

  NodeCore& node() const { return *cluster_.nodes[0]; }
  std::size_t any(std::size_t below) { return static_cast<std::size_t>(cluster_.random() % below); }

  void act(std::size_t times) {
    for (; times > 0; --times) {
      const std::size_t index = any(workers);
      Worker& worker = node().worker(static_cast<unsigned>(index));
      const std::size_t what = any(40);
      if (what == 0 || !online_[index]) {
        online_[index] = !online_[index];
        online_[index] ? worker.online() : worker.offline();
      } else if (what < 10) {
        worker.quiescent();
      } else if (what < 25) {
        correct(worker);
      } else {
        ask(worker);
      }
    }
  }
  bool admit(Worker& worker, std::size_t user, std::uint32_t weight) {
    const std::string name = "u" + std::to_string(user);
    if (worker.admit_key(0, name, weight, cluster_.now.monotonic).verdict != Verdict::admit) return false;
    charged_[user] += weight;
    EXPECT_LE(charged_[user], static_cast<std::int64_t>(limit_)) << user;
    return true;
  }
  void ask(Worker& worker) {
    const std::size_t user = any(users);
    const std::uint32_t weight = std::array<std::uint32_t, 3>{1, 20, 200}[any(3)];
    if (!admit(worker, user, weight)) return;
    const auto by = static_cast<std::int64_t>(any(weight + static_cast<std::uint64_t>(dearest_) + 1));
    under_way_.push_back({user, by - std::int64_t{weight}, worker.span_began()});
  }
  void correct(Worker& worker) {
    if (under_way_.empty()) return;
    std::swap(under_way_[any(under_way_.size())], under_way_.back());
    const UnderWay& one = under_way_.back();
    if (!worker.correct(worker.key(0, "u" + std::to_string(one.user)), one.by, one.charged_in)) return;
    charged_[one.user] += one.by;
    under_way_.pop_back();
  }

  std::uint64_t limit_;
  std::int64_t dearest_;
  std::function<void()> interrupt_ = [] {};
  Cluster cluster_;
  std::array<bool, workers> online_{true, true, true};
  std::vector<UnderWay> under_way_;
  std::array<std::int64_t, users> charged_{};  // as far as it is known
};

constexpr std::uint64_t runs = 100;

class CostsInAnyOrder : public ::testing::TestWithParam<Algorithm> {};

INSTANTIATE_TEST_SUITE_P(Under, CostsInAnyOrder,
                         ::testing::Values(Algorithm::fixed_window, Algorithm::cooldown, Algorithm::strict));

TEST_P(CostsInAnyOrder, NoMoreIsOutThanTheLimit) {
  for (std::uint64_t run = 0; run < runs && !HasFailure(); ++run) {
    SCOPED_TRACE(seed() + run);
    AnyOrder order(GetParam(), 4000, 0, seed() + run);
    order.run();
    // Who has been blocked stays so.
    if (GetParam() != Algorithm::cooldown) order.expect_that_next_to_nothing_is_lost();
    order.finish();
  }
}

TEST_P(CostsInAnyOrder, AllThatHasBeenChargedAndCorrectedIsCounted) {
  for (std::uint64_t run = 0; run < runs && !HasFailure(); ++run) {
    SCOPED_TRACE(seed() + run);
    AnyOrder order(GetParam(), 1'000'000, 100, seed() + run);
    order.run();
    order.expect_that_all_is_counted();
    order.finish();
  }
}

}  // namespace
}  // namespace weir
