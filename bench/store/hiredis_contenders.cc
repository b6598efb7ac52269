// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "contender.h"
#include "counter_sums.h"

namespace weir::bench {
namespace {

const long long life_seconds = std::chrono::duration_cast<std::chrono::seconds>(counter_life).count();

/// What both do; the counters are strings, "user|203.0.113.57:29395653".
class HiredisContender : public Contender {
 public:
  explicit HiredisContender(RedisServer& server) : server_(server), client_(server.address()) {}

  Pass synchronise(const KeySet& keys, Interval interval) final {
    const auto begin = std::chrono::steady_clock::now();
    const Duration thread = thread_cpu();
    add(keys, interval);
    return {.wall = std::chrono::steady_clock::now() - begin,
            .caller_cpu = thread_cpu() - thread,
            .other_cpu = {},
            .keys = keys.size()};
  }

  void check(const KeySet& keys, Interval last) final {
    expect_sum(name(), sum_of_strings(server_.client(), keys, last.ordinal), keys.sum * last.pass);
  }

 protected:
  virtual void add(const KeySet& keys, Interval interval) = 0;

  void append_increment(const KeySet& keys, std::size_t i, Interval interval) {
    redisAppendCommand(client_.context(), "INCRBY %b:%llu %u", keys.names[i].data(), keys.names[i].size(),
                       static_cast<unsigned long long>(interval.ordinal), keys.counts[i]);
  }
  void append_expiry(const KeySet& keys, std::size_t i, Interval interval) {
    redisAppendCommand(client_.context(), "EXPIRE %b:%llu %lld", keys.names[i].data(), keys.names[i].size(),
                       static_cast<unsigned long long>(interval.ordinal), life_seconds);
  }
  void expect_total(const KeySet& keys, std::size_t i, Interval interval) {
    if (client_.answer()->integer != static_cast<long long>(interval.pass * keys.counts[i]))
      throw std::runtime_error(keys.names[i] + " has a wrong sum");
  }
  void expect_expiry(const KeySet& keys, std::size_t i) {
    if (client_.answer()->integer != 1) throw std::runtime_error(keys.names[i] + " has got no TTL");
  }
  RedisClient& client() { return client_; }

 private:
  RedisServer& server_;
  RedisClient client_;
};

class NaiveContender final : public HiredisContender {
 public:
  using HiredisContender::HiredisContender;

  std::string_view name() const override { return "one by one"; }
  std::string_view description() const override {
    return "hiredis, INCRBY and EXPIRE each in a round trip of its own";
  }
  std::size_t most_keys() const override { return 20'000; }

 private:
  void add(const KeySet& keys, Interval interval) override {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      append_increment(keys, i, interval);
      expect_total(keys, i, interval);
      append_expiry(keys, i, interval);
      expect_expiry(keys, i);
    }
  }
};

class PipelinedContender final : public HiredisContender {
 public:
  using HiredisContender::HiredisContender;

  std::string_view name() const override { return "pipelined"; }
  std::string_view description() const override {
    return "hiredis, INCRBY and EXPIRE pipelined, two times 512 keys under way";
  }

 private:
  static constexpr std::size_t at_once = 512;

  void add(const KeySet& keys, Interval interval) override {
    append(keys, 0, interval);
    for (std::size_t begin = 0; begin < keys.size(); begin += at_once) {
      // While these are read, the server has the next ones to work on.
      append(keys, begin + at_once, interval);
      for (std::size_t i = begin; i < std::min(begin + at_once, keys.size()); ++i) {
        expect_total(keys, i, interval);
        expect_expiry(keys, i);
      }
    }
  }
  void append(const KeySet& keys, std::size_t begin, Interval interval) {
    for (std::size_t i = begin; i < std::min(begin + at_once, keys.size()); ++i) {
      append_increment(keys, i, interval);
      append_expiry(keys, i, interval);
    }
    int done = 0;
    while (done == 0)
      if (redisBufferWrite(client().context(), &done) != REDIS_OK)
        throw std::runtime_error(std::string("the connection broke: ") + client().context()->errstr);
  }
};

}  // namespace

std::unique_ptr<Contender> make_naive_contender(RedisServer& server) {
  return std::make_unique<NaiveContender>(server);
}

std::unique_ptr<Contender> make_pipelined_contender(RedisServer& server) {
  return std::make_unique<PipelinedContender>(server);
}

}  // namespace weir::bench
