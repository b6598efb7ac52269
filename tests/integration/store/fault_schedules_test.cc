// SPDX-License-Identifier: BSD-3-Clause
// Thousands of random schedules of faults between two nodes and a real redis-server, which has moods of its
// own: it forgets scripts, kills its clients, refuses for want of memory, sleeps. In each, the nodes count
// under faults; then the faults end, everything late is delivered, and the books must agree: what stands in
// the store, what the nodes have submitted, and what they have been told.
//
// WEIR_TEST_SEED begins elsewhere, WEIR_FAULT_SCHEDULES says how many: a schedule that fails tells the two
// that run it alone. Its faults are the same then; how the threads meet is not.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/sanitized.h"
#include "fault_network.h"
#include "random_faults.h"
#include "redis_server.h"
#include "seed.h"
#include "stored_counters.h"
#include "watched_store.h"

namespace weir {
namespace {

/// Time that everything takes, beside a build without sanitizers: an answer in time must remain possible.
constexpr int slowness = WEIR_SANITIZED ? 10 : 1;

using namespace std::chrono_literals;

/// Schedules at work at a time, each in a database of its own. They spend their time waiting.
constexpr std::size_t lanes = 16;
constexpr std::size_t nodes = 2;

using Random = std::mt19937_64;

// ---- what happens beside the faults of the network

enum class Story : std::uint8_t {
  ordinary,   ///< counts, quota claimed and returned, maxima, reads
  expiring,   ///< counts that expire before they have arrived
  wiped,      ///< the store is wiped while nothing is under way
  wiped_hot,  ///< the store is wiped in the middle of things
  restarted,  ///< a node dies and comes back as another
};
constexpr std::size_t stories = 5;
constexpr const char* story_names[stories] = {"ordinary", "expiring", "wiped", "wiped hot", "restarted"};

Story random_story(Random& random) {
  constexpr std::array<Story, 8> all{Story::ordinary, Story::ordinary, Story::ordinary,  Story::ordinary,
                                     Story::expiring, Story::wiped,    Story::wiped_hot, Story::restarted};
  return all[random() % all.size()];
}

/// What a counter may hold in the end.
struct Bounds {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

class Schedule {
 public:
  Schedule(StoreLayout layout, std::uint64_t seed, FaultNetwork& network, const RedisServer& server,
           RedisClient& client, std::size_t database)
      : random_(seed), story_(random_story(random_)), network_(network), client_(client) {
    config_ = quick_config();
    config_.layout = layout;
    config_.prefix = "s" + std::to_string(seed);
    config_.timeout = slowness * std::chrono::milliseconds{5 + random_() % 16};
    config_.reconnect = 1ms;
    door_ = network_.open(server.socket());
    network_.plan(door_, [seed](std::size_t connection) { return random_faults(seed, connection); });
    url_ = network_.url(door_) + "/" + std::to_string(database);
    for (auto& node : nodes_) node = std::make_unique<WatchedStore>(url_, config_);
  }
  ~Schedule() {
    for (auto& node : nodes_) node.reset();
    network_.close(door_);
  }
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  Story story() const { return story_; }
  std::uint64_t failures() const { return failures_; }

  /// Plays it, and compares the books.
  void run() {
    const std::uint64_t rounds = 3 + random_() % 8;
    const std::uint64_t event = random_() % rounds;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      for (std::size_t node = 0; node < nodes; ++node) {
        submit(node);
        nodes_[node]->wait_for_wake(std::chrono::microseconds{random_() % 4000});
        nodes_[node]->collect();
        if (random_() % 8 == 0) nodes_[node]->store().flush(std::chrono::milliseconds{random_() % 5});
      }
      if (round == event) happen();
    }
    network_.pass(door_);
    for (auto& node : nodes_)
      if (!node->wait_until_quiet()) return;
    EXPECT_TRUE(network_.settle(door_)) << "the server does not take what is late";
    compare();
  }

 private:
  static constexpr std::array<Duration, 2> intervals{1s, 60s};

  struct Books {
    std::uint64_t added = 0;
    std::uint64_t returned = 0;
    std::uint64_t raised_to = 0;
    // Lost or not, where the story leaves it open.
    std::uint64_t lost = 0;
    std::uint64_t perhaps_lost = 0;
  };

  enum class Kind : std::uint8_t { sum, quota, maximum };
  static constexpr std::size_t names_of_kind = 6;

  static std::string name_of(Kind kind, std::uint64_t number) {
    constexpr std::array<const char*, 3> kinds{"sum|", "quota|", "peak|"};
    return kinds[static_cast<std::size_t>(kind)] + std::to_string(number);
  }
  static std::vector<std::string> sums() {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < names_of_kind; ++i) names.push_back(name_of(Kind::sum, i));
    return names;
  }
  CounterId random_counter(Kind kind) {
    return {name_of(kind, random_() % (kind == Kind::sum ? names_of_kind : 2)),
            static_cast<Ordinal>(1000 + random_() % 2), intervals[random_() % intervals.size()]};
  }
  Kind random_kind() {
    if (story_ != Story::ordinary) return Kind::sum;
    constexpr std::array<Kind, 4> kinds{Kind::sum, Kind::sum, Kind::quota, Kind::maximum};
    return kinds[random_() % kinds.size()];
  }

  void submit(std::size_t node) {
    std::vector<CounterWrite> writes;
    std::vector<CounterId> ids(random_() % 5);
    for (CounterId& id : ids) {
      const Kind kind = random_kind();
      id = random_counter(kind);
      Books& books = books_[node][id];
      CounterWrite write{.name = id.name, .ordinal = id.ordinal, .interval = id.interval};
      write.undivided = kind != Kind::sum;
      if (kind == Kind::maximum) {
        write.raised_to = 1 + random_() % 100;
        books.raised_to = std::max(books.raised_to, write.raised_to);
      } else {
        write.delta = random_() % 6;
        books.added += write.delta;
        // Only what this node has been told it has.
        const std::uint64_t held =
            nodes_[node]->counter(id.name, id.ordinal, id.interval).added - books.returned;
        if (kind == Kind::quota && held > 0 && random_() % 2 == 0) {
          write.returned = 1 + random_() % held;
          books.returned += write.returned;
        }
      }
      if (story_ == Story::expiring) write.expires = now() + std::chrono::microseconds{random_() % 30'000};
      writes.push_back(write);
    }
    nodes_[node]->submit(std::move(writes));
  }

  /// What the story tells, in the middle of it.
  void happen() {
    if (story_ == Story::wiped || story_ == Story::wiped_hot) wipe();
    if (story_ != Story::restarted) return;
    const std::size_t node = random_() % nodes;
    nodes_[node]->collect();
    failures_ += nodes_[node]->figures().failures;
    for (auto& [id, books] : books_[node]) {
      const std::uint64_t told = nodes_[node]->counter(id.name, id.ordinal, id.interval).added;
      dead_[id].least += static_cast<std::int64_t>(told);
      dead_[id].most += static_cast<std::int64_t>(books.added);
      // Its successor keeps books of its own.
      books = {};
    }
    nodes_[node] = std::make_unique<WatchedStore>(url_, config_);
  }

  /// Waits for one failure more. To be down is not enough, where nothing may be under way: a connection that
  /// has just been made is not up before its first answer has been read, which may lie there. A failure after
  /// the network is severed tells that all of that is over: an attempt to connect has been turned away, or a
  /// connection has ended, whose answers are read before its end is. (The first one told may be older.)
  static bool has_failed_since(WatchedStore& node) {
    const std::uint64_t failures = node.figures().failures;
    return node.wait_until(
        [failures](const StoreFigures& figures) { return !figures.up && figures.failures > failures; });
  }

  void wipe() {
    if (story_ == Story::wiped) {
      // Nothing is under way then, in either direction: what has been acknowledged is lost, what has not is
      // pending.
      network_.sever(door_);
      EXPECT_TRUE(network_.settle(door_)) << "the server does not take what is late";
      for (auto& node : nodes_)
        if (!has_failed_since(*node) || !has_failed_since(*node)) return;
    }
    client_.command({"FLUSHDB"});
    for (std::size_t node = 0; node < nodes; ++node) {
      nodes_[node]->collect();
      for (auto& [id, books] : books_[node]) {
        // An answer that was under way in the hot case is collected later, and tells of what the wipe has
        // taken.
        if (story_ == Story::wiped)
          books.lost = nodes_[node]->counter(id.name, id.ordinal, id.interval).added;
        else
          books.perhaps_lost = books.added;
      }
    }
    network_.admit(door_);
  }

  /// Whether what a wipe has taken comes back, where its node still has something to do with it.
  bool restores() const { return config_.layout == StoreLayout::exchange; }

  std::map<CounterId, Bounds> expected() const {
    std::map<CounterId, Bounds> result = dead_;
    for (std::size_t node = 0; node < nodes; ++node) {
      for (const auto& [id, books] : books_[node]) {
        Bounds& bounds = result[id];
        if (books.raised_to > 0) {
          bounds.least = bounds.most = std::max(bounds.most, static_cast<std::int64_t>(books.raised_to));
          continue;
        }
        const auto told = nodes_[node]->counter(id.name, id.ordinal, id.interval);
        const std::uint64_t certain = story_ == Story::expiring ? told.added : books.added;
        bounds.least += static_cast<std::int64_t>(certain - books.returned - books.lost - books.perhaps_lost);
        bounds.most +=
            static_cast<std::int64_t>(books.added - books.returned - (restores() ? 0 : books.lost));
      }
    }
    return result;
  }

  void compare() {
    const StoredCounters stored({&client_}, config_.prefix, sums());
    const auto found = stored.all();
    const std::map<CounterId, Bounds> bounds = expected();
    for (const auto& [id, value] : found)
      EXPECT_TRUE(bounds.contains(id)) << ::testing::PrintToString(id) << " = " << value << ": nobody's";
    for (const auto& [id, bound] : bounds) {
      const auto value = found.find(id);
      const std::int64_t stands = value == found.end() ? 0 : value->second;
      EXPECT_GE(stands, bound.least) << ::testing::PrintToString(id) << ": counts are lost";
      EXPECT_LE(stands, bound.most) << ::testing::PrintToString(id) << ": counts are doubled";
    }
    stored.expect_that_all_expire();
    for (std::size_t node = 0; node < nodes; ++node) compare_node(node, found, bounds);
  }

  /// Asks for counters. @return whether something has been told of each since
  static bool is_told(WatchedStore& store, const std::map<CounterId, std::int64_t>& of) {
    std::vector<CounterWrite> questions;
    std::map<CounterId, std::uint64_t> before;
    for (const auto& [id, value] : of) {
      questions.push_back({.name = id.name,
                           .ordinal = id.ordinal,
                           .interval = id.interval,
                           .undivided = !id.name.starts_with("sum|")});
      before[id] = store.counter(id.name, id.ordinal, id.interval).replies;
    }
    store.submit(std::move(questions));
    return store.wait_until([&](const StoreFigures&) {
      return std::ranges::all_of(before, [&](const auto& entry) {
        const CounterId& id = entry.first;
        return store.counter(id.name, id.ordinal, id.interval).replies > entry.second;
      });
    });
  }

  /// What the node has been told, with what it has submitted and what stands in the store.
  void compare_node(std::size_t node, const std::map<CounterId, std::int64_t>& found,
                    const std::map<CounterId, Bounds>& bounds) {
    WatchedStore& store = *nodes_[node];
    const StoreFigures figures = store.figures();
    failures_ += figures.failures;
    EXPECT_EQ(figures.pending, 0u);
    EXPECT_EQ(figures.applied, store.replied());
    EXPECT_EQ(figures.applied + figures.expired, store.submitted());
    if (story_ != Story::expiring) {
      EXPECT_EQ(figures.expired, 0u);
      for (const auto& [id, books] : books_[node]) {
        const auto counter = store.counter(id.name, id.ordinal, id.interval);
        EXPECT_EQ(counter.added, books.added) << ::testing::PrintToString(id);
        EXPECT_EQ(counter.returned, books.returned) << ::testing::PrintToString(id);
      }
    }
    // And whoever asks is told what stands there. What a node asked while others still counted is not
    // pending, and may be answered only now: of a counter one question is out at a time, and all others wait
    // together for the next one. So the second answer is to what has been asked here.
    if (!is_told(store, found) || !is_told(store, found)) return;
    for (const auto& [id, value] : found) {
      const auto total = static_cast<std::int64_t>(store.counter(id.name, id.ordinal, id.interval).total);
      // What a node has given up as expired may still be on its way over a connection that is well; so may
      // what one that has ended had sent before, in the server, where nobody waits for it. And what is
      // restored comes with the questions.
      const bool wiped = story_ == Story::wiped || story_ == Story::wiped_hot;
      const bool moving = story_ == Story::expiring || story_ == Story::restarted || (restores() && wiped);
      // A late copy may have brought back what its node has forgotten with its seed; the question takes it
      // away.
      const bool forgotten = moving && wiped;
      EXPECT_GE(total, forgotten ? std::min(value, bounds.at(id).least) : value)
          << ::testing::PrintToString(id);
      EXPECT_LE(total, moving ? bounds.at(id).most : value) << ::testing::PrintToString(id);
    }
  }

  Random random_;
  const Story story_;
  FaultNetwork& network_;
  RedisClient& client_;
  StoreConfig config_;
  FaultNetwork::Door door_ = 0;
  std::string url_;
  std::array<std::unique_ptr<WatchedStore>, nodes> nodes_;
  std::array<std::map<CounterId, Books>, nodes> books_;
  std::map<CounterId, Bounds> dead_;  // what nodes that have ended have left
  std::uint64_t failures_ = 0;
};

/// Whether anything has failed yet, for threads other than gtest's own.
class FailureWatch : public ::testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    // Only a hint to stop early: nothing is published through it.
    if (result.failed()) failed_.store(true, std::memory_order_relaxed);
  }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> failed_{false};
};

/// Names that would live for ever, in all databases, looked for between two commands of anybody.
constexpr const char* immortals_script = R"(
local found = {}
for database = 0, tonumber(ARGV[1]) - 1 do
  redis.call('SELECT', database)
  for _, key in ipairs(redis.call('KEYS', '*')) do
    if redis.call('PTTL', key) == -1 then found[#found + 1] = key end
  end
end
return found
)";

/// What a server does to all its clients now and then.
void have_a_mood(RedisServer& server, Random& random) {
  switch (random() % 6) {
    case 0:
      server.command({"SCRIPT", "FLUSH"});
      break;
    case 1:
      server.kill_clients();
      break;
    case 2:
      // Refusals are on their way when the connections go.
      server.command({"CONFIG", "SET", "maxmemory", "1"});
      std::this_thread::sleep_for(std::chrono::microseconds{random() % 5000});
      if (random() % 2 == 0) server.kill_clients();
      server.command({"CONFIG", "SET", "maxmemory", "0"});
      break;
    case 3:
      server.command({"CLIENT", "PAUSE", std::to_string(1 + random() % 30), "WRITE"});
      break;
    case 4:
      server.command({"DEBUG", "SLEEP", "0.0" + std::to_string(random() % 4)});
      break;
    default:
      break;
  }
}

class FaultSchedules : public ::testing::TestWithParam<StoreLayout> {};

TEST_P(FaultSchedules, EndWithTheStoreHoldingWhatWasSubmittedAndNobodyToldOtherwise) {
  const std::uint64_t seed = test_seed();
  const std::uint64_t count =
      number_from_environment("WEIR_FAULT_SCHEDULES", GetParam() == StoreLayout::hash ? 10'000 : 3'000);
  std::printf("seed %llu, %llu schedules\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(count));
  RedisServer server({"--databases", std::to_string(lanes)});
  FaultNetwork network;
  auto* watch = new FailureWatch;  // gtest's
  ::testing::UnitTest::GetInstance()->listeners().Append(watch);
  // Counted for the summary, and to share out the work: nothing is published through them.
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> store_failures{0};
  std::atomic<std::size_t> working{lanes};
  std::array<std::atomic<std::uint64_t>, stories> told{};

  const auto work = [&](std::size_t lane) {
    RedisClient client(server.socket());
    client.log_in_as({"SELECT", std::to_string(lane)});
    while (!watch->failed()) {
      const std::uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
      if (number >= count) break;
      const std::uint64_t own = seed + number;
      const ::testing::ScopedTrace trace(
          __FILE__, __LINE__,
          "WEIR_TEST_SEED=" + std::to_string(own) + " WEIR_FAULT_SCHEDULES=1 runs this schedule alone");
      client.command({"FLUSHDB"});
      Schedule schedule(GetParam(), own, network, server, client, lane);
      schedule.run();
      told[static_cast<std::size_t>(schedule.story())].fetch_add(1, std::memory_order_relaxed);
      store_failures.fetch_add(schedule.failures(), std::memory_order_relaxed);
    }
    working.fetch_sub(1, std::memory_order_relaxed);
  };
  std::vector<std::thread> threads;
  for (std::size_t lane = 0; lane < lanes; ++lane) threads.emplace_back(work, lane);

  Random moods(seed);
  std::uint64_t looks = 0;
  for (; working.load(std::memory_order_relaxed) > 0; ++looks) {
    const Answer immortals = server.command({"EVAL", immortals_script, "0", std::to_string(lanes)});
    EXPECT_FALSE(immortals.is_error()) << immortals.text;
    for (const std::string& name : immortals.elements)
      ADD_FAILURE() << name << " was seen without a time to live";
    if (looks % 10 == 0) have_a_mood(server, moods);
    std::this_thread::sleep_for(3ms);
  }
  for (std::thread& thread : threads) thread.join();

  std::printf("%llu times the network did not pass:", static_cast<unsigned long long>(store_failures.load()));
  const auto happened = network.happened();
  for (std::size_t kind = 0; kind < fault_kinds; ++kind) {
    std::printf(" %s %llu", to_string(static_cast<FaultKind>(kind)),
                static_cast<unsigned long long>(happened[kind]));
    if (count >= 100) {
      EXPECT_GT(happened[kind], 0u) << to_string(static_cast<FaultKind>(kind));
    }
  }
  std::printf("\nstories:");
  for (std::size_t story = 0; story < stories; ++story)
    std::printf(" %s %llu", story_names[story], static_cast<unsigned long long>(told[story].load()));
  std::printf("\n%llu looks for names without a time to live\n", static_cast<unsigned long long>(looks));
  EXPECT_GT(looks, 0u);
}

INSTANTIATE_TEST_SUITE_P(Layout, FaultSchedules, ::testing::Values(StoreLayout::hash, StoreLayout::exchange),
                         [](const auto& one) { return std::string(to_string(one.param)); });

}  // namespace
}  // namespace weir
