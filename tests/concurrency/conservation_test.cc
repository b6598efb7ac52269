// SPDX-License-Identifier: BSD-3-Clause
// Workers hammer while spans flip and publications change; in the end every single count has reached the
// store.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "limit/bucket_rule.h"
#include "running_node.h"

namespace weir::testing {
namespace {

constexpr unsigned workers = 3;

struct Outcome {
  std::uint64_t offered = 0;
  std::uint64_t admitted = 0;
  std::uint64_t in_store = 0;
  Figures figures;
};

Outcome hammer(const Config& config, int rounds, std::size_t keys, bool with_breaks) {
  auto store = std::make_unique<RecordingStore>();
  RecordingStore& recorded = *store;
  NodeCore node(config, {.workers = workers, .hash_seed = 1, .log = {}}, std::move(store));
  const Users users(keys);
  std::atomic<std::uint64_t> admitted{0};
  std::atomic<std::uint64_t> offered{0};
  node.start();
  run_workers(node, workers, [&](Worker& worker, unsigned index) {
    std::mt19937_64 random(index + 1);
    std::vector<Decision> decisions(users.all().size());
    std::uint64_t mine = 0;
    // `rounds`, and on until spans have flipped under the load, however slow or fast the machine.
    int done = 0;
    for (; done < rounds || node.figures().spans < 20; ++done) {
      const MonotonicTime now = monotonic_now();
      worker.admit_burst(users.all(), now, decisions);
      for (const Decision& decision : decisions) mine += decision.verdict == Verdict::admit;
      worker.quiescent();
      if (with_breaks && random() % 64 == 0) {
        worker.offline();
        std::this_thread::yield();
        worker.online();
      }
    }
    admitted += mine;
    offered += static_cast<std::uint64_t>(done) * users.all().size();
  });
  EXPECT_TRUE(node.stop(1s));
  return {offered, admitted, recorded.sum(), node.figures()};
}

TEST(Conservation, EveryAdmittedRequestReachesTheStoreExactlyOnce) {
  const Outcome outcome = hammer(fast_config(1'000'000'000), 20'000, 16, false);
  EXPECT_EQ(outcome.in_store, outcome.admitted);
  EXPECT_EQ(outcome.figures.rules[0].admitted, outcome.admitted);
  EXPECT_EQ(outcome.figures.rules[0].admitted + outcome.figures.rules[0].blocked, outcome.offered);
  // Nobody comes near the limit. But a worker that the machine has left without a processor for two of these
  // intervals of 20 ms, in the middle of a burst, refuses the rest of it.
  EXPECT_GT(outcome.admitted, outcome.offered / 10 * 9);
}

TEST(Conservation, HoldsWhileKeysAreBlockedAndUnblocked) {
  const Outcome outcome = hammer(fast_config(200), 20'000, 16, false);
  EXPECT_EQ(outcome.in_store, outcome.admitted);
  EXPECT_LT(outcome.admitted, outcome.offered);
  EXPECT_EQ(outcome.figures.rules[0].offered, outcome.offered);
  EXPECT_EQ(outcome.figures.rules[0].admitted + outcome.figures.rules[0].blocked, outcome.offered);
}

TEST(Conservation, HoldsWhileWorkersGoOfflineAndComeBack) {
  const Outcome outcome = hammer(fast_config(1'000'000'000), 20'000, 16, true);
  EXPECT_EQ(outcome.in_store, outcome.admitted);
}

/// What one worker has charged and another one is to correct.
class UnderWay {
 public:
  struct Request {
    std::size_t user = 0;
    Instant charged_in{};
  };
  void put(const Request& request) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  std::optional<Request> take() {
    const std::lock_guard lock(mutex_);
    if (requests_.empty()) return std::nullopt;
    const Request request = requests_.back();
    requests_.pop_back();
    return request;
  }

 private:
  std::mutex mutex_;
  std::vector<Request> requests_;
};

// Of all requests half turn out to have cost more, and half less: in the same span or in later ones, and as
// another worker says, which may be a span behind, or ahead.
TEST(Conservation, HoldsOfCostsThatAreKnownLater) {
  // The longest interval: what is charged in one that has ended nobody hands back.
  Config config = fast_config(1'000'000'000'000, std::chrono::days{366});
  config.rules[0].algorithm = Algorithm::fixed_window;
  config.rules[0].spans = 1;
  // Of a rule that applies to no request here the spans.
  config.rules.push_back(fast_config(1).rules[0]);
  config.rules[1].name = "spans";
  auto store = std::make_unique<RecordingStore>();
  RecordingStore& recorded = *store;
  NodeCore node(config, {.workers = workers, .hash_seed = 1, .log = {}}, std::move(store));
  constexpr std::size_t users = 4;
  std::array<std::atomic<std::int64_t>, users> cost{};
  UnderWay under_way;
  node.start();
  run_workers(node, workers, [&](Worker& worker, unsigned index) {
    std::mt19937_64 random(index + 1);
    std::array<std::string, users> names;
    std::array<std::int64_t, users> mine{};
    for (std::size_t i = 0; i < users; ++i) names[i] = "u" + std::to_string(i);
    const std::uint64_t spans = node.figures().spans;
    for (int round = 0; round < 20'000 || node.figures().spans < spans + 20; ++round) {
      const std::size_t user = random() % users;
      const Instant charged_in = worker.span_began();
      if (worker.admit_key(0, names[user], 100, monotonic_now()).verdict == Verdict::admit) {
        mine[user] += 100;
        under_way.put({user, charged_in});
      }
      if (random() % 16 == 0) worker.quiescent();
      if (random() % 16 == 0) std::this_thread::yield();
      if (const auto answered = under_way.take(); answered) {
        const std::int64_t by = random() % 2 == 0 ? 50 : -90;
        if (worker.correct(worker.key(0, names[answered->user]), by, answered->charged_in))
          mine[answered->user] += by;
      }
      if (random() % 512 == 0) {
        worker.offline();
        std::this_thread::yield();
        worker.online();
      }
    }
    for (std::size_t i = 0; i < users; ++i) cost[i] += mine[i];
  });
  EXPECT_TRUE(node.stop(1s));
  std::int64_t sum = 0;
  for (const KeyFigures& key : node.top(users)) {
    EXPECT_EQ(static_cast<std::int64_t>(key.admitted), cost[key.name.back() - '0'].load()) << key.name;
    sum += static_cast<std::int64_t>(key.admitted);
  }
  EXPECT_GT(sum, 0);
  // What has been told is told for good: never less than was used.
  EXPECT_GE(static_cast<std::int64_t>(recorded.sum_of_keys()), sum);
}

// Of many keys more than their grants is asked, by workers that ask for decisions while they are away, too:
// tables grow under them.
TEST(Conservation, HoldsWhileTablesGrow) {
  Config config = fast_config(64 * workers, 1s);
  config.rules[0].algorithm = Algorithm::fixed_window;
  config.rules[0].spans = 20;
  config.node.keys = 100'000;
  auto store = std::make_unique<RecordingStore>();
  RecordingStore& recorded = *store;
  NodeCore node(config, {.workers = workers, .hash_seed = 1, .log = {}}, std::move(store));
  const Users users(30'000);
  std::atomic<std::uint64_t> admitted{0};
  node.start();
  run_workers(node, workers, [&](Worker& worker, unsigned) {
    std::array<Decision, 32> decisions;
    std::array<Verdict, 32> verdicts;
    const std::vector<Key> keys(verdicts.size(), worker.key(0, "u0"));
    const auto ask = [&](std::size_t at) {
      worker.admit_burst(users.all().subspan(at, decisions.size()), monotonic_now(), decisions);
    };
    std::uint64_t mine = 0;
    for (int round = 0; round < 6; ++round) {
      for (std::size_t at = 0; at + decisions.size() <= users.all().size(); at += decisions.size()) {
        ask(at);
        for (const Decision& decision : decisions) mine += decision.verdict == Verdict::admit;
        worker.quiescent();
      }
      // Of keys whose grants are used up, it is from now on their entries that are asked for first.
      for (int i = 0; i < 2; ++i) {
        worker.admit_keys(keys, monotonic_now(), verdicts);
        mine += static_cast<std::uint64_t>(std::ranges::count(verdicts, Verdict::admit));
        worker.quiescent();
      }
      // Asks on while the table is drained that it has left, which counts nothing.
      worker.offline();
      // (figures() waits for the controller, so that in between nothing would happen at the same time.)
      for (const std::uint64_t spans = node.figures().spans; node.figures().spans < spans + 2;)
        for (int i = 0; i < 2000; ++i) ask(0);
      worker.online();
    }
    admitted += mine;
  });
  EXPECT_TRUE(node.stop(1s));
  EXPECT_EQ(recorded.sum_of_keys(), admitted);
  EXPECT_GT(admitted, 2 * users.all().size());
}

// By algorithm: of limits that are too small for grants, what a burst's keys ask for is drawn at once.
class KeysConserved : public ::testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(Under, KeysConserved,
                         ::testing::Values(Algorithm::cooldown, Algorithm::fixed_window,
                                           Algorithm::token_bucket, Algorithm::leaky_bucket));

TEST_P(KeysConserved, AreCountedOnceAndNeverBeyondTheirLimitInAnInterval) {
  constexpr std::uint64_t limit = 60;
  Config config = fast_config(limit);
  config.rules[0].algorithm = GetParam();
  auto store = std::make_unique<RecordingStore>();
  RecordingStore& recorded = *store;
  NodeCore node(config, {.workers = workers, .hash_seed = 1, .log = {}}, std::move(store));
  std::vector<std::string> names;
  for (int i = 0; i < 400; ++i) names.push_back("u" + std::to_string(i));
  std::atomic<std::uint64_t> admitted{0};
  std::atomic<std::uint64_t> offered{0};
  node.start();
  run_workers(node, workers, [&](Worker& worker, unsigned index) {
    std::mt19937_64 random(index + 1);
    std::array<Key, 32> keys;
    std::array<Verdict, 32> verdicts;
    std::uint64_t mine = 0;
    std::uint64_t done = 0;
    // Two intervals at least, and several bursts of each span, however slow or fast the machine.
    for (; done < 20'000 || node.figures().spans < 60; ++done) {
      for (Key& key : keys) key = worker.key(0, names[random() % names.size()]);
      worker.admit_keys(keys, monotonic_now(), verdicts);
      mine += static_cast<std::uint64_t>(std::ranges::count(verdicts, Verdict::admit));
      worker.quiescent();
    }
    admitted += mine;
    offered += done * keys.size();
  });
  EXPECT_TRUE(node.stop(1s));
  const RuleFigures figures = node.figures().rules[0];
  EXPECT_EQ(recorded.sum_of_keys(), admitted);
  EXPECT_EQ(figures.admitted, admitted);
  EXPECT_EQ(figures.offered, offered);
  EXPECT_EQ(figures.admitted + figures.blocked, offered);
  EXPECT_GT(admitted, names.size());
  if (is_bucket(GetParam())) return;  // which may be full when an interval begins
  for (const auto& [counter, total] : recorded.totals)
    if (!RecordingStore::is_of_node(counter.first)) {
      EXPECT_LE(total, limit) << counter.first << " in " << counter.second;
    }
}

TEST(Conservation, HoldsWhenTheTablesOverflow) {
  Config config = fast_config(1'000'000'000);
  config.node.keys = 64;
  const Outcome outcome = hammer(config, 300, 1000, true);
  EXPECT_EQ(outcome.in_store, outcome.admitted);
  EXPECT_GT(outcome.figures.overflowed, 0U);
}

TEST(Conservation, CountsOfferedRequestsUnderPenalize) {
  Config config = fast_config(200);
  config.rules[0].penalize = true;
  const Outcome outcome = hammer(config, 20'000, 16, true);
  EXPECT_EQ(outcome.in_store, outcome.offered);
}

/// Requests as they lie in frames.
class UserFrames {
 public:
  explicit UserFrames(std::size_t count) : texts_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      texts_[i] =
          std::string(before_payload, ' ') + "GET / HTTP/1.1\r\nUser: u" + std::to_string(i) + "\r\n\r\n";
      frames_.push_back({reinterpret_cast<const std::byte*>(texts_[i].data()),
                         {before_payload, static_cast<std::uint32_t>(texts_[i].size()) - before_payload}});
    }
  }
  std::span<const PlainFrame> all() const { return frames_; }

 private:
  static constexpr std::uint32_t before_payload = 54;
  std::vector<std::string> texts_;
  std::vector<PlainFrame> frames_;
};

// By algorithm: who is refused in frames is, as a rule, by what is read of cells that all workers draw from.
class FramesConserved : public ::testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(Under, FramesConserved,
                         ::testing::Values(Algorithm::cooldown, Algorithm::fixed_window,
                                           Algorithm::sliding_window, Algorithm::token_bucket,
                                           Algorithm::shed));

/// One rule of whose keys the limits are used up soon, however slow the machine.
Config small_limit(Algorithm algorithm) {
  Config config = fast_config(100, 1s);
  config.rules[0].spans = 200;
  config.rules[0].algorithm = algorithm;
  config.rules[0].penalize = true;
  return config;
}

/// @param config  the first rule may refuse
void expect_conserved(const Config& config) {
  auto store = std::make_unique<RecordingStore>();
  RecordingStore& recorded = *store;
  NodeCore node(config, {.workers = workers, .hash_seed = 1, .log = {}}, std::move(store));
  const UserFrames frames(16);
  const Users users(16);
  std::atomic<std::uint64_t> admitted{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> refused_in_frames{0};
  node.start();
  run_workers(node, workers, [&](Worker& worker, unsigned) {
    std::uint64_t ours = 0;
    std::uint64_t theirs = 0;
    std::uint64_t in_frames = 0;
    PlainDecisions decisions;
    for (int done = 0; done < 5'000 || node.figures().spans < 20; ++done) {
      const std::uint32_t at_once = worker.admit_plain(frames.all());
      worker.decide_plain(monotonic_now(), decisions);
      EXPECT_EQ((at_once & decisions.admitted) | ((at_once | decisions.admitted) & decisions.refused), 0U);
      const std::uint32_t decided = at_once | decisions.admitted | decisions.refused;
      ours += static_cast<std::uint64_t>(std::popcount(at_once | decisions.admitted));
      in_frames += static_cast<std::uint64_t>(std::popcount(decisions.refused));
      for (std::size_t i = 0; i < frames.all().size(); ++i) {
        if ((decided >> i & 1) != 0) continue;
        ++(worker.admit(users[i], monotonic_now()).verdict == Verdict::admit ? ours : theirs);
      }
      worker.quiescent();
    }
    admitted += ours;
    refused += theirs + in_frames;
    refused_in_frames += in_frames;
  });
  EXPECT_TRUE(node.stop(1s));
  const Figures figures = node.figures();
  for (const RuleFigures& rule : figures.rules) {
    EXPECT_EQ(rule.offered, admitted + refused) << rule.name;
    EXPECT_EQ(rule.admitted, admitted) << rule.name;
    EXPECT_EQ(rule.blocked, &rule == &figures.rules[0] ? refused.load() : 0) << rule.name;
  }
  // What the one rule refuses is counted by no other.
  EXPECT_EQ(recorded.sum_of_keys(), config.rules.size() * admitted + refused);
  if (best_instruction_set() == InstructionSet::portable) return;
  EXPECT_GT(refused_in_frames, 0U);
}

TEST_P(FramesConserved, AdmittedAndRefusedAreAllThatHaveCome) { expect_conserved(small_limit(GetParam())); }

TEST_P(FramesConserved, AdmittedAndRefusedUnderSeveralRulesAreAllThatHaveCome) {
  Config config = small_limit(GetParam());
  for (const char* const name : {"plenty", "all"}) {
    config.rules.push_back(config.rules[0]);
    config.rules.back().name = name;
    config.rules.back().limit = 1'000'000'000;
    config.rules.back().algorithm = Algorithm::cooldown;
  }
  config.rules.back().key.clear();
  expect_conserved(config);
}

}  // namespace
}  // namespace weir::testing
