// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "contender.h"
#include "counter_sums.h"

namespace weir::bench {
namespace {

constexpr unsigned connections = 4;
constexpr std::size_t least_requests = 200'000;

/// The second column of redis-benchmark's last line: requests per second.
double rate_of(const std::string& csv) {
  const std::size_t line = csv.rfind("\n\"", csv.size() < 2 ? 0 : csv.size() - 2);
  // The first column is the command, in quotes, with no quote in it.
  const std::size_t at = csv.find("\",\"", line == std::string::npos ? 0 : line);
  const double rate = at == std::string::npos ? 0 : std::strtod(csv.c_str() + at + 3, nullptr);
  if (rate <= 0) throw std::runtime_error("redis-benchmark --csv printed no rate: " + csv);
  return rate;
}

class CeilingContender final : public Contender {
 public:
  explicit CeilingContender(RedisServer& server) : server_(server) { find_pipeline(); }

  std::string_view name() const override { return "ceiling"; }
  std::string_view description() const override {
    return "redis-benchmark, INCRBY pipelined: no TTL, keys drawn at random, sums not looked at";
  }

  Pass synchronise(const KeySet& keys, Interval interval) override {
    // Where counters exist it may as well go on until its own start does not matter.
    const std::size_t requests = interval.pass == 1 ? keys.size() : std::max(keys.size(), least_requests);
    return run(requests, keys.size(), interval.ordinal, pipeline_);
  }

  void check(const KeySet& keys, Interval last) override {
    const std::uint64_t stored = take_away(keys.size(), last.ordinal);
    const std::uint64_t asked = std::exchange(asked_, 0);
    // It finishes the pipelines it has begun.
    if (stored < asked || stored > asked + last.pass * connections * pipeline_)
      expect_sum(name(), stored, asked);
  }

 private:
  static std::string name_of(const std::string& digits, Ordinal ordinal) {
    return "user|" + digits + ':' + std::to_string(ordinal);
  }

  /// The longest is not the best: what does not fit the processor's caches is slow.
  void find_pipeline() {
    Duration best = Duration::max();
    for (const unsigned pipeline : {16U, 32U, 64U, 128U, 256U, 512U}) {
      const Duration wall = run(least_requests, least_requests, 0, pipeline).wall;
      if (wall >= best) continue;
      best = wall;
      pipeline_ = pipeline;
    }
    take_away(least_requests, 0);
    asked_ = 0;
  }

  /// Removes its counters: they have no TTL, and the server may be somebody's. @return their sum
  std::uint64_t take_away(std::size_t keys, Ordinal ordinal) {
    constexpr std::size_t at_once = 1000;
    std::uint64_t sum = 0;
    for (std::size_t begin = 0; begin < keys; begin += at_once) {
      std::vector<std::string> words{"MGET"};
      for (std::size_t i = begin; i < std::min(begin + at_once, keys); ++i) {
        // What it makes of "__rand_int__".
        std::array<char, 24> digits;
        std::snprintf(digits.data(), digits.size(), "%012zu", i);
        words.push_back(name_of(digits.data(), ordinal));
      }
      const Reply reply = server_.client().command(words);
      for (std::size_t i = 0; i < reply->elements; ++i)
        if (reply->element[i]->type == REDIS_REPLY_STRING)
          sum += std::strtoull(reply->element[i]->str, nullptr, 10);
      words[0] = "UNLINK";
      server_.client().command(words);
    }
    return sum;
  }

  Pass run(std::size_t requests, std::size_t keys, Ordinal ordinal, unsigned pipeline) {
    const RedisEndpoint& endpoint = server_.address().endpoints.front();
    std::vector<std::string> words{"redis-benchmark", "--csv"};
    if (endpoint.host.empty())
      words.insert(words.end(), {"-s", endpoint.path});
    else
      words.insert(words.end(), {"-h", endpoint.host, "-p", std::to_string(endpoint.port)});
    words.insert(words.end(), {"-c", std::to_string(connections), "-P", std::to_string(pipeline), "-r",
                               std::to_string(keys), "-n", std::to_string(requests), "INCRBY",
                               name_of("__rand_int__", ordinal), "1"});
    const ProgramOutput output = run_program(words);
    asked_ += requests;
    return {.wall = std::chrono::duration_cast<Duration>(
                std::chrono::duration<double>(static_cast<double>(requests) / rate_of(output.text))),
            .caller_cpu = {},
            .other_cpu = output.cpu,
            .keys = requests};
  }

  RedisServer& server_;
  unsigned pipeline_ = 0;
  std::uint64_t asked_ = 0;  // since the last check
};

}  // namespace

std::unique_ptr<Contender> make_ceiling_contender(RedisServer& server) {
  return std::make_unique<CeilingContender>(server);
}

}  // namespace weir::bench
