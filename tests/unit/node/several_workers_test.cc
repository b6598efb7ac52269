// SPDX-License-Identifier: BSD-3-Clause
// What several workers admit of the same keys out of their grants is counted as if one had admitted it all,
// in whichever spans they count.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "node/node_core.h"
#include "store/memory/memory_store.h"
#include "weir/config.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr unsigned workers = 3;
constexpr Duration span_length = 1ms;
constexpr Duration interval = 20ms;

/// Workers and controller on one thread: every interleaving is exact.
class Node {
 public:
  explicit Node(std::uint32_t keys)
      : core_(config(keys), {.workers = workers, .hash_seed = 1, .log = {}}, make_memory_store(counters_)) {
    core_.advance(now_);
    for (unsigned i = 0; i < workers; ++i) core_.worker(i).online();
  }

  static std::string name_of(std::uint32_t key) { return "u" + std::to_string(key); }
  void admit(unsigned worker, std::uint32_t key) {
    ASSERT_EQ(core_.worker(worker).admit_key(0, name_of(key), 1, now_.monotonic).verdict, Verdict::admit);
  }
  /// @param reports  who reports where the next span begins, by worker; the others do not come round
  void end_span(const std::array<bool, workers>& reports) {
    now_ = now_ + span_length;
    core_.advance(now_);
    report(reports);
    core_.advance(now_ + span_length / 2);  // longer than the others are waited for
    report(reports);
  }
  std::uint64_t stored(std::uint32_t key, Ordinal ordinal) const {
    return counters_->read({"user|" + name_of(key), interval, ordinal}, now_.monotonic);
  }
  Ordinal ordinal() const { return now_.wall.time_since_epoch() / interval; }
  /// @return what has been told of all keys
  std::uint64_t stop() {
    for (unsigned i = 0; i < workers; ++i) core_.worker(i).offline();
    EXPECT_TRUE(core_.finish(now_, 1s));
    return core_.figures().counts_synced;
  }
  std::uint32_t learned() const { return core_.learned(); }

 private:
  static Config config(std::uint32_t keys) {
    Config config;
    config.node.keys = keys;
    Rule rule;
    rule.name = "user";
    rule.key = {{.kind = Dimension::Kind::header, .name = "user"}};
    rule.limit = 1'000'000;  // each worker is granted as much as ever
    rule.interval = interval;
    rule.spans = interval / span_length;
    rule.cooldown = interval;
    rule.hold_back = 0;  // every span tells all
    config.rules.push_back(rule);
    return config;
  }
  void report(const std::array<bool, workers>& reports) {
    for (unsigned i = 0; i < workers; ++i)
      if (reports[i]) core_.worker(i).quiescent();
  }

  std::shared_ptr<MemoryCounters> counters_ = std::make_shared<MemoryCounters>();
  Instant now_{WallTime(1000s), MonotonicTime(10s)};
  NodeCore core_;
};

TEST(SeveralWorkers, OfEachKeyAllIsCountedWhateverTheyAdmitAndWhenTheyReport) {
  constexpr std::uint32_t keys = 1000;
  constexpr int spans = 30;  // so that the store remembers all of it
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    // So few places that lines are full, and workers have keys in different ones.
    Node node(1024);
    std::vector<std::uint64_t> admitted(keys);
    const Ordinal first = node.ordinal();
    for (int span = 0; span < spans; ++span) {
      for (unsigned worker = 0; worker < workers; ++worker)
        for (int i = 0; i < 500; ++i) {
          const auto key = static_cast<std::uint32_t>(random() % keys);
          node.admit(worker, key);
          ++admitted[key];
        }
      std::array<bool, workers> reports;
      for (bool& report : reports) report = random() % 4 != 0;
      node.end_span(reports);
    }
    EXPECT_EQ(node.learned(), keys);
    EXPECT_EQ(node.stop(), workers * spans * 500U);
    for (std::uint32_t key = 0; key < keys; ++key) {
      std::uint64_t sum = 0;
      for (Ordinal ordinal = first; ordinal <= node.ordinal(); ++ordinal) sum += node.stored(key, ordinal);
      ASSERT_EQ(sum, admitted[key]) << Node::name_of(key);
    }
  }
}

TEST(SeveralWorkers, WhoComesRoundLateIsCountedWhereHeCountedNotWhereTheOthersDid) {
  Node node(1024);
  constexpr std::array<bool, workers> all{true, true, true};
  const Ordinal first = node.ordinal();
  for (int i = 0; i < 3; ++i) node.admit(0, 7);
  for (int i = 0; i < 5; ++i) node.admit(1, 7);
  // The second one misses all of the next interval.
  while (node.ordinal() < first + 2) node.end_span({true, false, true});
  EXPECT_EQ(node.stored(7, first), 3U);
  for (int i = 0; i < 11; ++i) node.admit(0, 7);
  node.end_span(all);  // in which the counts of all are taken together
  EXPECT_EQ(node.stored(7, first), 3U + 5U);
  EXPECT_EQ(node.stored(7, first + 1), 0U);
  EXPECT_EQ(node.stored(7, first + 2), 11U);
  EXPECT_EQ(node.stop(), 3U + 5U + 11U);
}

}  // namespace
}  // namespace weir
