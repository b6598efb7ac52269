// SPDX-License-Identifier: BSD-3-Clause
// Counters that nodes exchange, over a store that is a few lines of C++: what the script and Redis do, and
// what can go wrong with them.
#include "store/exchange/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "store/exchange/counter_table.h"
#include "store/exchange/records.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::SizeIs;
using Progress = Exchange::Progress;
using Status = ExchangeAnswer::Status;

constexpr MonotonicTime start{1000s};
constexpr OutboxGroupId the_group{3, 1s, 170, true};
constexpr std::size_t plenty = 1'000'000;

std::uint64_t test_seed() {
  const char* text = std::getenv("WEIR_TEST_SEED");
  const std::uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 20240611;
  std::printf("WEIR_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

// ---- a store

/// A call that has been sent, and may arrive whenever it likes, and as often.
struct SentCall {
  explicit SentCall(const ExchangeCall& call)
      : seed(call.seed),
        writer(call.writer),
        generation(call.generation),
        number(call.number),
        piece(call.piece),
        covered(call.covered),
        summaries(call.summaries.begin(), call.summaries.end()) {}
  std::string seed;
  std::string writer;
  std::uint64_t generation;
  std::uint64_t number;
  std::string piece;
  std::optional<std::uint64_t> covered;
  std::vector<std::string> summaries;
};

/// One group in the store. A copy of it is a replica.
class LogStore {
 public:
  /// What the script does. The answer refers to the store: valid until it changes.
  ExchangeAnswer apply(const SentCall& call) {
    if (!seed_.empty() && seed_ != call.seed)
      return {.status = Status::other_seed, .seed = seed_, .logs = {}};
    const auto known = std::ranges::find(logs_, call.writer, &Log::writer);
    Log log = known == logs_.end() ? Log{.writer = call.writer} : *known;
    const auto field = [&](const std::string& rest) { return call.writer + ':' + rest; };
    if (call.covered && (log.generation < call.generation || known == logs_.end())) {
      if (*call.covered != call.number && (log.generation + 1 != call.generation || log.next != call.number))
        return {};
      std::erase_if(fields_, [&](const auto& one) {
        if (!one.first.starts_with(field(""))) return false;
        const std::string rest = one.first.substr(call.writer.size() + 1);
        return rest.find('.') != std::string::npos || std::stoull(rest) < *call.covered;
      });
      log = {call.writer, call.generation, call.summaries.size(), *call.covered, call.number, log.largest};
      for (std::size_t i = 0; i < call.summaries.size(); ++i)
        fields_[field(std::to_string(log.generation) + '.' + std::to_string(i))] = call.summaries[i];
    } else if (log.generation != call.generation || log.next < call.number) {
      return {};
    }
    if (log.next == call.number && !call.piece.empty()) {
      fields_[field(std::to_string(log.next++))] = call.piece;
      applied_.emplace(call.writer, call.number);
    }
    if (log.next > 0 || log.summaries > 0) {
      seed_ = call.seed;
      if (known == logs_.end())
        logs_.push_back(log);
      else
        *known = log;
    }
    ExchangeAnswer answer{.status = Status::applied, .seed = {}, .logs = {}};
    for (const Log& one : logs_)
      answer.logs.push_back({one.writer, one.generation, one.summaries, one.covered, one.next, one.largest});
    return answer;
  }

  std::vector<std::optional<std::string>> read(const std::vector<std::string>& names) const {
    std::vector<std::optional<std::string>> values;
    for (const std::string& name : names) {
      const auto found = fields_.find(name);
      values.push_back(found == fields_.end() ? std::nullopt : std::optional(found->second));
    }
    return values;
  }

  void damage(const std::string& bytes) {
    for (auto& [name, value] : fields_) value += bytes;
  }
  void put(const std::string& writer, const std::string& piece) {
    logs_.push_back({.writer = writer, .next = 1});
    fields_[writer + ":0"] = piece;
  }
  std::size_t fields() const { return fields_.size(); }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const auto& [name, value] : fields_) sum += value.size() + ExchangeGroup::piece_overhead;
    return sum;
  }
  std::size_t logs() const { return logs_.size(); }
  /// Pieces that have ever been stored here, by log and number.
  const std::set<std::pair<std::string, std::uint64_t>>& applied() const { return applied_; }

 private:
  struct Log {
    std::string writer;
    std::uint64_t generation = 0;
    std::uint64_t summaries = 0;
    std::uint64_t covered = 0;
    std::uint64_t next = 0;
    std::uint64_t largest = 100'000;
  };
  std::string seed_;
  std::vector<Log> logs_;
  std::map<std::string, std::string> fields_;
  std::set<std::pair<std::string, std::uint64_t>> applied_;
};

// ---- a node

using Deltas = std::map<std::string, std::uint64_t>;

/// A batch with what it refers to.
class Batch {
 public:
  Batch(const Deltas& deltas, std::uint64_t sequence, OutboxGroupId group = the_group)
      : group_(group), sequence_(sequence) {
    for (const auto& [name, delta] : deltas) {
      OutboxEntry entry{.delta = delta};
      entry.name_at = static_cast<std::uint32_t>(names_.size());
      entry.name_size = static_cast<std::uint32_t>(name.size());
      names_ += name;
      entries_.push_back(entry);
    }
  }
  OutboxBatch view() const {
    return {.group = group_,
            .sequence = sequence_,
            .time_to_live = 10s,
            .expires = start + 10s,
            .entries = entries_,
            .names = names_};
  }

 private:
  OutboxGroupId group_;
  std::uint64_t sequence_;
  std::string names_;
  std::vector<OutboxEntry> entries_;
};

class Node {
 public:
  explicit Node(std::uint64_t number, std::size_t room = plenty, const std::string& seed = "s")
      : exchange_(std::string(16, static_cast<char>('a' + number % 26)), seed + std::to_string(number),
                  0x9e3779b97f4a7c15, room) {}

  /// What may go wrong on the way; each in so many of a hundred.
  struct Faults {
    std::uint64_t not_sent = 0;
    std::uint64_t not_answered = 0;
    std::uint64_t pieces_lost = 0;
  };

  /// Synchronises until it is done. @return the totals
  /// @param meanwhile  called after everything that is sent
  Deltas sync(
      LogStore& store, const Deltas& deltas, std::mt19937_64& random, Faults faults,
      std::vector<SentCall>* sent = nullptr, const std::function<void()>& meanwhile = [] {}) {
    const Batch batch(deltas, ++sequence_);
    const auto happens = [&](std::uint64_t percent) { return random() % 100 < percent; };
    for (int attempt = 0; attempt < 1000; ++attempt) {
      ++calls_;
      const ExchangeGroup& group = exchange_.begin(batch.view());
      const SentCall call(group.call());
      if (sent != nullptr) sent->push_back(call);
      const std::vector<std::string> guesses(group.question().fields.begin(), group.question().fields.end());
      const std::uint64_t turn = group.question().turn;
      if (happens(faults.not_sent)) {
        meanwhile();
        continue;
      }
      const ExchangeAnswer answer = store.apply(call);
      if (happens(faults.not_answered)) {
        meanwhile();
        continue;
      }
      Progress progress = exchange_.absorb(batch.view(), answer);
      meanwhile();
      if (!guesses.empty()) {
        const Progress then = read(batch, store, guesses, turn);
        if (progress == Progress::wait) progress = then;
      }
      while (progress == Progress::ask) {
        const ExchangeQuestion question = exchange_.find(the_group)->question();
        const std::vector<std::string> names(question.fields.begin(), question.fields.end());
        if (happens(faults.pieces_lost)) {
          progress = Progress::again;
          break;
        }
        progress = read(batch, store, names, question.turn);
      }
      EXPECT_NE(progress, Progress::wait);
      if (progress == Progress::done) return totals(deltas);
    }
    ADD_FAILURE() << "no end of it";
    return {};
  }
  Deltas sync(LogStore& store, const Deltas& deltas) {
    std::mt19937_64 random;
    return sync(store, deltas, random, {});
  }

  Exchange& exchange() { return exchange_; }
  std::uint64_t calls() const { return calls_; }

 private:
  Progress read(const Batch& batch, const LogStore& store, const std::vector<std::string>& names,
                std::uint64_t turn) {
    const auto values = store.read(names);
    const std::vector<std::optional<std::string_view>> pieces(values.begin(), values.end());
    return exchange_.absorb(batch.view(), pieces, turn);
  }
  Deltas totals(const Deltas& deltas) const {
    Deltas result;
    const auto outcomes = exchange_.find(the_group)->outcomes();
    EXPECT_EQ(outcomes.size(), deltas.size());
    std::size_t at = 0;
    for (const auto& [name, delta] : deltas) result[name] = outcomes[at++].total;
    return result;
  }

  Exchange exchange_;
  std::uint64_t sequence_ = 0;
  std::uint64_t calls_ = 0;
};

// ---- records and the table

TEST(ExchangeRecords, ComeBackAsTheyWere) {
  std::vector<ExchangeRecord> records{{1, 0}, {~0ULL, Outbox::max_delta}};
  for (int bit = 0; bit < 63; ++bit)
    for (const std::uint64_t delta : {1ULL << bit, (1ULL << bit) - 1})
      records.push_back({0x0123456789abcdefULL << bit % 8, delta});
  std::string bytes;
  for (const ExchangeRecord& record : records) append_record(bytes, record);
  RecordReader reader(bytes);
  for (const ExchangeRecord& record : records) ASSERT_EQ(reader.next(), record);
  EXPECT_TRUE(reader.at_end());
  EXPECT_FALSE(reader.next());
}

TEST(ExchangeRecords, OfASmallCountTakeNineBytes) {
  std::string bytes;
  append_record(bytes, {7, 127});
  EXPECT_THAT(bytes, SizeIs(9));
}

TEST(ExchangeRecords, SurviveAnyBytes) {
  std::mt19937_64 random(test_seed());
  for (int run = 0; run < 100'000; ++run) {
    std::string bytes;
    for (std::size_t length = random() % 40; length > 0; --length)
      bytes += static_cast<char>(random() % 2 == 0 ? random() : 0xff);
    RecordReader reader(bytes);
    std::size_t records = 0;
    while (const auto record = reader.next()) {
      ++records;
      ASSERT_LE(record->delta, Outbox::max_delta);
    }
    ASSERT_LE(records * 9, bytes.size());
  }
}

TEST(ExchangeTable, IsAMap) {
  std::mt19937_64 random(test_seed());
  CounterTable table(random());
  std::map<std::uint64_t, std::uint64_t> model;
  for (int run = 0; run < 20'000; ++run) {
    const std::uint64_t id = 1 + random() % 5000;
    const ExchangeCounter* found = table.find(id);
    ASSERT_EQ(found != nullptr, model.contains(id));
    if (found != nullptr) {
      ASSERT_EQ(found->own, model[id]);
    }
    table.insert(id).own = model[id] = random();
    ASSERT_EQ(table.size(), model.size());
  }
  table.for_each([&](const ExchangeCounter& counter) {
    EXPECT_EQ(model[counter.id], counter.own);
    model.erase(counter.id);
  });
  EXPECT_TRUE(model.empty());
}

// ---- nodes

TEST(AnExchange, AddsUpWhatAllNodesHaveCounted) {
  LogStore store;
  Node a(0);
  Node b(1);
  EXPECT_EQ(a.sync(store, {{"x", 5}, {"y", 1}}), (Deltas{{"x", 5}, {"y", 1}}));
  EXPECT_EQ(b.sync(store, {{"x", 2}}), (Deltas{{"x", 7}})) << "a node that is new reads what is there";
  EXPECT_EQ(a.sync(store, {{"x", 0}, {"z", 3}}), (Deltas{{"x", 7}, {"z", 3}}));
  EXPECT_EQ(b.sync(store, {{"y", 0}, {"z", 0}}), (Deltas{{"y", 1}, {"z", 3}}))
      << "also what it never counted";
}

TEST(AnExchange, NeedsOneCallWhereNothingIsNew) {
  LogStore store;
  Node a(0);
  Node b(1);
  for (Node* node : {&a, &b, &a, &b}) node->sync(store, {{"x", 1}});
  const std::uint64_t before = a.calls();
  EXPECT_EQ(a.sync(store, {{"x", 1}}), (Deltas{{"x", 5}}));
  EXPECT_EQ(a.calls(), before + 1);
}

TEST(AnExchange, AsksForWhatItExpectsAtOnce) {
  LogStore store;
  Node a(0);
  Node b(1);
  for (Node* node : {&a, &b, &a}) node->sync(store, {{"x", 1}});
  const Batch batch({{"x", 1}}, 99);
  EXPECT_THAT(a.exchange().begin(batch.view()).question().fields,
              ElementsAre(std::string(16, 'b') + "00000001:1"));
}

TEST(AnExchange, WritesNothingWhereItOnlyReads) {
  LogStore store;
  Node a(0);
  EXPECT_EQ(a.sync(store, {{"x", 0}}), (Deltas{{"x", 0}}));
  EXPECT_EQ(store.fields(), 0u);
}

TEST(AnExchange, RefusesWhatWouldBeNoNumberAnyMore) {
  LogStore store;
  Node a(0);
  a.sync(store, {{"x", Outbox::max_delta}});
  const Batch batch({{"x", 1}, {"y", 1}}, 99);
  const SentCall call(a.exchange().begin(batch.view()).call());
  ASSERT_EQ(a.exchange().absorb(batch.view(), store.apply(call)), Progress::done);
  const auto outcomes = a.exchange().find(the_group)->outcomes();
  EXPECT_FALSE(outcomes[0].applied);
  EXPECT_TRUE(outcomes[1].applied);
}

TEST(AnExchange, RestoresItsPartOfAStoreThatWasWiped) {
  LogStore store;
  Node a(0);
  Node b(1);
  a.sync(store, {{"x", 5}, {"y", 1}});
  b.sync(store, {{"x", 2}});
  a.sync(store, {{"x", 1}});
  store = {};
  EXPECT_EQ(b.sync(store, {{"x", 1}}), (Deltas{{"x", 8}}))
      << "b has not heard of a's last, and knows the rest";
  EXPECT_EQ(a.sync(store, {{"x", 0}}), (Deltas{{"x", 9}})) << "also by a question alone";
  EXPECT_EQ(b.sync(store, {{"x", 0}, {"y", 0}}), (Deltas{{"x", 9}, {"y", 1}}));
  EXPECT_EQ(Node(2).sync(store, {{"x", 0}, {"y", 0}}), (Deltas{{"x", 9}, {"y", 1}})) << "it is in the store";
}

TEST(AnExchange, RestoresWhatAStaleReplicaLacks) {
  LogStore store;
  Node a(0);
  Node b(1);
  a.sync(store, {{"x", 5}});
  b.sync(store, {{"x", 1}});
  const LogStore replica = store;
  a.sync(store, {{"x", 10}});
  b.sync(store, {{"x", 100}});
  store = replica;
  EXPECT_EQ(a.sync(store, {{"x", 1000}}), (Deltas{{"x", 1016}})) << "without what it has not heard of";
  EXPECT_EQ(b.sync(store, {{"x", 0}}), (Deltas{{"x", 1116}}));
  EXPECT_EQ(a.sync(store, {{"x", 0}}), (Deltas{{"x", 1116}}));
  EXPECT_EQ(Node(2).sync(store, {{"x", 0}}), (Deltas{{"x", 1116}}));
}

TEST(AnExchange, UsesTheSeedThatIsThereAndProposesItFromThenOn) {
  LogStore store;
  Node a(0);
  Node b(1);
  a.sync(store, {{"x", 5}});
  EXPECT_EQ(b.sync(store, {{"x", 1}}), (Deltas{{"x", 6}})) << "b's own seed would have made another id";
  const Batch next({{"x", 1}}, 99, {3, 1s, 171, true});
  EXPECT_EQ(SentCall(b.exchange().begin(next.view()).call()).seed, "s0");
  const Batch elsewhere({{"x", 1}}, 100, {4, 1s, 171, true});
  EXPECT_EQ(SentCall(b.exchange().begin(elsewhere.view()).call()).seed, "s1");
}

TEST(AnExchange, CountsABatchOnceWhoseFirstCopyComesLateUnderItsOwnSeedToAStoreThatWasWiped) {
  LogStore store;
  Node a(0);
  Node b(1);
  a.sync(store, {{"x", 5}});
  const Batch batch({{"x", 10}}, 50);
  const SentCall early(b.exchange().begin(batch.view()).call());
  ASSERT_EQ(b.exchange().absorb(batch.view(), store.apply(early)), Progress::again) << "another seed";
  const SentCall next(b.exchange().begin(batch.view()).call());
  EXPECT_NE(early.seed, next.seed);
  store = {};
  store.apply(early);
  ASSERT_EQ(b.exchange().absorb(batch.view(), store.apply(next)), Progress::again) << "another again";
  const SentCall last(b.exchange().begin(batch.view()).call());
  ASSERT_EQ(b.exchange().absorb(batch.view(), store.apply(last)), Progress::done);
  EXPECT_EQ(Node(2).sync(store, {{"x", 0}}), (Deltas{{"x", 10}}));
}

TEST(AnExchange, GoesOnUnderAnotherSeedWithoutWhatWasWiped) {
  LogStore store;
  Node a(0);
  a.sync(store, {{"x", 5}});
  a.sync(store, {{"x", 5}});
  store = {};
  Node b(1);
  b.sync(store, {{"x", 100}});
  EXPECT_EQ(a.sync(store, {{"x", 1}}), (Deltas{{"x", 101}}));
  EXPECT_EQ(a.sync(store, {{"x", 1}}), (Deltas{{"x", 102}}));
  EXPECT_EQ(b.sync(store, {{"x", 0}}), (Deltas{{"x", 102}}));
  EXPECT_EQ(Node(2).sync(store, {{"x", 0}}), (Deltas{{"x", 102}}));
}

TEST(AnExchange, CountsDamageAndGoesOn) {
  LogStore store;
  Node a(0);
  Node b(1);
  a.sync(store, {{"x", 5}});
  store.damage("torn");
  EXPECT_EQ(b.sync(store, {{"x", 1}}), (Deltas{{"x", 6}})) << "what is good before the damage counts";
  EXPECT_EQ(b.exchange().damaged(), 1u);
  store.put(std::string(24, 'z'), "");
  EXPECT_EQ(b.sync(store, {{"x", 1}}), (Deltas{{"x", 7}}));
  EXPECT_EQ(b.exchange().damaged(), 2u);
}

TEST(AnExchange, BeginsANewLogAfterABatchWasGivenUp) {
  LogStore store;
  Node a(0);
  a.sync(store, {{"x", 5}});
  const Batch given_up({{"x", 10}}, 50);
  const SentCall call(a.exchange().begin(given_up.view()).call());
  const Batch next({{"x", 100}}, 51);
  const SentCall another(a.exchange().begin(next.view()).call());
  EXPECT_NE(call.writer, another.writer);
  store.apply(call);  // so late
  EXPECT_EQ(Node(1).sync(store, {{"x", 0}}), (Deltas{{"x", 15}}));
  store.apply(another);
  EXPECT_EQ(Node(2).sync(store, {{"x", 0}}), (Deltas{{"x", 115}})) << "each once";
}

TEST(AnExchange, ForgetsWhatHasExpired) {
  LogStore store;
  Node a(0);
  a.sync(store, {{"x", 5}});
  const auto none_is_out = [](const OutboxGroupId&, std::uint64_t) { return false; };
  a.exchange().expire(start + 9s, none_is_out);
  EXPECT_EQ(a.exchange().groups(), 1u);
  a.exchange().expire(start + 10s, none_is_out);
  EXPECT_EQ(a.exchange().groups(), 0u);
  EXPECT_EQ(a.exchange().counters(), 0u);
}

TEST(AnExchange, KeepsAGroupWhoseBatchIsUnderWay) {
  LogStore store;
  Node a(0);
  a.sync(store, {{"x", 5}});
  const Batch batch({{"x", 10}}, 50);
  a.exchange().begin(batch.view());
  a.exchange().expire(start + 20s,
                      [](const OutboxGroupId&, std::uint64_t sequence) { return sequence == 50; });
  EXPECT_EQ(a.exchange().groups(), 1u);
  a.exchange().expire(start + 30s, [](const OutboxGroupId&, std::uint64_t) { return false; });
  EXPECT_EQ(a.exchange().groups(), 0u);
}

Deltas numbered(std::size_t from, std::size_t to, std::uint64_t delta) {
  Deltas deltas;
  for (std::size_t i = from; i < to; ++i) deltas["key " + std::to_string(i)] = delta;
  return deltas;
}

TEST(AnExchange, ShortOfRoomLeavesOutOthersKeysAndReadsThemWhenAskedFor) {
  LogStore store;
  Node a(0);
  Node b(1, 50);
  a.sync(store, numbered(0, 200, 3));
  b.sync(store, numbered(0, 10, 1));
  EXPECT_LE(b.exchange().counters(), 50u);
  EXPECT_EQ(b.sync(store, numbered(5, 10, 1)), numbered(5, 10, 5));
  EXPECT_EQ(b.sync(store, numbered(150, 160, 1)), numbered(150, 160, 4)) << "read anew for their sake";
  EXPECT_LE(b.exchange().counters(), 50u);
}

TEST(AnExchange, ShortOfRoomForItsOwnKeysBeginsANewLogAndStillKnowsTheTotals) {
  LogStore store;
  Node a(0, 50);
  for (std::size_t i = 0; i < 20; ++i) a.sync(store, numbered(i * 10, i * 10 + 10, 1));
  EXPECT_LE(a.exchange().counters(), 50u);
  EXPECT_GT(store.logs(), 1u);
  EXPECT_EQ(a.sync(store, numbered(0, 10, 1)), numbered(0, 10, 2)) << "from its own old log";
  EXPECT_EQ(Node(1).sync(store, numbered(0, 200, 0)).at("key 5"), 2u);
}

// ---- shortening

TEST(AnExchange, KeepsItsLogShortWhateverTheNumberOfBatches) {
  LogStore store;
  Node a(0);
  Node b(1);
  std::size_t most = 0;
  for (std::uint64_t i = 1; i <= 3000; ++i) {
    a.sync(store, numbered(0, 20, 1));
    ASSERT_EQ(b.sync(store, numbered(0, 20, 0)), numbered(0, 20, i));
    most = std::max(most, store.bytes());
  }
  EXPECT_LT(most, ExchangeGroup::least_log + 4096);
  EXPECT_EQ(b.exchange().find(the_group)->rereads(), 0u) << "who keeps up need not read anything twice";
}

TEST(AnExchange, BeginsAnewWhereALogWasShortenedBeyondWhatItHadRead) {
  LogStore store;
  Node a(0);
  Node b(1);
  Node c(2);
  c.sync(store, numbered(0, 20, 7));
  a.sync(store, numbered(0, 20, 1));
  b.sync(store, numbered(0, 20, 1));
  for (std::uint64_t i = 2; i <= 1000; ++i) a.sync(store, numbered(0, 20, 1));
  EXPECT_EQ(b.sync(store, numbered(0, 20, 0)), numbered(0, 20, 1008));
  EXPECT_EQ(b.exchange().find(the_group)->rereads(), 1u);
}

TEST(AnExchange, OfManyKeysIsSummarisedInSeveralPieces) {
  LogStore store;
  Node a(0);
  for (int i = 0; i < 6; ++i)
    for (std::size_t part = 0; part < 5; ++part) a.sync(store, numbered(part * 2000, part * 2000 + 2000, 1));
  EXPECT_EQ(Node(1).sync(store, numbered(0, 10'000, 0)), numbered(0, 10'000, 6));
}

// ---- everything at once

/// What all nodes have added, and was stored: by name.
class Truth {
 public:
  void add(const SentCall& call, const Deltas& deltas) { by_piece_[{call.writer, call.number}] = deltas; }
  Deltas sum(const LogStore& store) const {
    Deltas sum;
    for (const auto& piece : store.applied()) {
      const auto found = by_piece_.find(piece);
      if (found == by_piece_.end()) continue;
      for (const auto& [name, delta] : found->second) sum[name] += delta;
    }
    return sum;
  }

 private:
  std::map<std::pair<std::string, std::uint64_t>, Deltas> by_piece_;
};

TEST(AnExchange, IsASlowModelsSumWhateverIsLostRepeatedOrLate) {
  std::mt19937_64 random(test_seed());
  for (int run = 0; run < 12; ++run) {
    LogStore store;
    Truth truth;
    std::vector<SentCall> sent;
    std::vector<std::unique_ptr<Node>> nodes;
    for (std::uint64_t i = 0; i < 3; ++i) nodes.push_back(std::make_unique<Node>(i));
    const Node::Faults faults{random() % 30, random() % 30, random() % 30};
    const std::size_t keys = 1 + random() % 60;
    for (int round = 0; round < 900; ++round) {
      // One of them comes rarely.
      const std::size_t turn = random() % 40;
      Node& node = *nodes[turn == 0 ? 2 : turn % 2];
      Deltas deltas;
      for (std::size_t i = random() % 4; i < 4; ++i)
        deltas["key " + std::to_string(random() % keys)] = random() % 5;
      const std::size_t first = sent.size();
      const Deltas totals = node.sync(store, deltas, random, faults, &sent);
      for (std::size_t i = first; i < sent.size(); ++i)
        if (!sent[i].piece.empty()) truth.add(sent[i], deltas);
      const Deltas sum = truth.sum(store);
      for (const auto& [name, total] : totals) {
        const auto found = sum.find(name);
        ASSERT_EQ(total, found == sum.end() ? 0 : found->second) << name << " in round " << round;
      }
      // Copies of what was sent long ago.
      if (random() % 4 == 0) store.apply(sent[random() % sent.size()]);
    }
  }
}

TEST(AnExchange, EndsWithAllThatWasAcknowledgedInAStoreThatIsWipedAndGoesBackInTime) {
  std::mt19937_64 random(test_seed());
  for (int run = 0; run < 20; ++run) {
    LogStore store;
    LogStore replica;
    std::vector<SentCall> sent;
    Deltas acknowledged;
    std::vector<std::unique_ptr<Node>> nodes;
    for (std::uint64_t i = 0; i < 3; ++i) nodes.push_back(std::make_unique<Node>(i));
    const Node::Faults faults{random() % 20, random() % 20, random() % 20};
    const Deltas all = numbered(0, 20, 0);
    // So that all know the seed.
    nodes[0]->sync(store, numbered(0, 20, 1));
    for (auto& node : nodes) node->sync(store, all);
    for (auto& [name, sum] : acknowledged = all) sum = 1;
    for (int round = 0; round < 300; ++round) {
      Deltas deltas;
      for (int i = 0; i < 3; ++i) deltas["key " + std::to_string(random() % 20)] = random() % 5;
      nodes[random() % 3]->sync(store, deltas, random, faults, &sent);
      for (const auto& [name, delta] : deltas) acknowledged[name] += delta;
      if (random() % 30 == 0) replica = store;
      if (random() % 60 == 0) store = replica;
      if (random() % 60 == 0) store = {};
      if (random() % 10 == 0) store.apply(sent[random() % sent.size()]);
    }
    // Twice: the first hears of what the last restores.
    for (auto& node : nodes) node->sync(store, all);
    for (auto& node : nodes) ASSERT_EQ(node->sync(store, all), acknowledged) << "run " << run;
    ASSERT_EQ(Node(3).sync(store, all), acknowledged) << "run " << run;
  }
}

/// Nodes with seeds of their own, in a store that is wiped in the middle of things and gets copies of
/// anything ever sent: what stands there in the end is of each batch nothing, or once.
TEST(AnExchange, CountsNoBatchTwiceWhateverIsWipedAndRepeatedUnderWhicheverSeed) {
  std::mt19937_64 random(test_seed());
  for (int run = 0; run < 1000; ++run) {
    LogStore store;
    std::vector<SentCall> sent;
    std::vector<std::unique_ptr<Node>> nodes;
    for (std::uint64_t i = 0; i < 3; ++i) nodes.push_back(std::make_unique<Node>(i));
    const Node::Faults faults{random() % 40, random() % 40, random() % 20};
    const int rounds = 2 + static_cast<int>(random() % 12);
    Deltas all;
    for (int round = 0; round < rounds; ++round) {
      // A counter for each batch: it holds 1 or nothing.
      const Deltas deltas{{"batch " + std::to_string(round), 1}};
      all[deltas.begin()->first] = 0;
      nodes[random() % nodes.size()]->sync(store, deltas, random, faults, &sent, [&] {
        if (random() % 8 == 0) store = {};
        if (random() % 3 == 0) store.apply(sent[random() % sent.size()]);
      });
    }
    for (const auto& [name, total] : Node(3).sync(store, all))
      ASSERT_LE(total, 1u) << name << " in run " << run;
    for (auto& node : nodes)
      for (const auto& [name, total] : node->sync(store, all))
        ASSERT_LE(total, 1u) << name << " in run " << run;
  }
}

}  // namespace
}  // namespace weir
