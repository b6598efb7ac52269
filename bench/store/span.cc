// SPDX-License-Identifier: BSD-3-Clause
#include "span.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "contender.h"
#include "counter_sums.h"
#include "key_set.h"
#include "store_driver.h"

namespace weir::bench {
namespace {

using std::chrono::steady_clock;

constexpr const char* prefix = "weir-span";

/// What a node is told to do. Travels through a pipe, like what it answers.
struct Order {
  std::int64_t begin = 0;  // on the steady clock, which all processes share
  std::int64_t span = 0;   // nanoseconds
  std::uint64_t spans = 0;
  Ordinal ordinal = 0;  // of the first span
};

struct Outcome {
  std::uint64_t syncs = 0;
  std::uint64_t late = 0;
  std::int64_t slowest = 0;
  std::int64_t end = 0;
  std::int64_t cpu = 0;
};

template <typename Message>
void send(int descriptor, const Message& message) {
  if (write(descriptor, &message, sizeof message) != sizeof message)
    throw std::system_error(errno, std::generic_category(), "a node's pipe");
}

/// @return whether there was one
template <typename Message>
bool receive(int descriptor, Message& message) {
  auto* bytes = reinterpret_cast<char*>(&message);
  for (std::size_t size = 0; size < sizeof message;) {
    const ssize_t piece = read(descriptor, bytes + size, sizeof message - size);
    if (piece <= 0) return false;
    size += static_cast<std::size_t>(piece);
  }
  return true;
}

std::int64_t nanoseconds_now() {
  return steady_clock::now().time_since_epoch() / std::chrono::nanoseconds{1};
}

void sleep_until(std::int64_t nanoseconds) {
  std::this_thread::sleep_until(steady_clock::time_point(std::chrono::nanoseconds{nanoseconds}));
}

Outcome carry_out(const Order& order, const SpanTerms& terms, const KeySet& keys, StoreDriver& driver) {
  Outcome outcome;
  const Duration cpu = process_cpu();
  sleep_until(order.begin);
  for (std::uint64_t i = 0; i < order.spans; ++i) {
    const std::int64_t tick =
        order.span == 0 ? nanoseconds_now() : order.begin + static_cast<std::int64_t>(i) * order.span;
    sleep_until(tick);
    driver.prepare(keys, order.ordinal + (terms.cold ? i : 0));
    driver.submit();
    driver.collect();
    ++outcome.syncs;
    outcome.end = nanoseconds_now();
    outcome.slowest = std::max(outcome.slowest, outcome.end - tick);
    if (order.span == 0 || outcome.end - tick <= order.span) continue;
    ++outcome.late;
    break;
  }
  outcome.cpu = (process_cpu() - cpu).count();
  return outcome;
}

/// A node, in a process of its own.
class Node {
 public:
  Node(const RedisUrl& url, const SpanTerms& terms, const KeySet& keys) {
    std::array<int, 2> orders{};
    std::array<int, 2> outcomes{};
    if (pipe(orders.data()) != 0 || pipe(outcomes.data()) != 0)
      throw std::system_error(errno, std::generic_category(), "pipe");
    id_ = fork();
    if (id_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (id_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(orders[1]);
      close(outcomes[0]);
      live(url, terms, keys, orders[0], outcomes[1]);
    }
    close(orders[0]);
    close(outcomes[1]);
    orders_ = orders[1];
    outcomes_ = outcomes[0];
  }
  ~Node() {
    close(orders_);
    close(outcomes_);
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  void begin(const Order& order) { send(orders_, order); }
  Outcome end() {
    Outcome outcome;
    if (!receive(outcomes_, outcome)) throw std::runtime_error("a node has ended early");
    return outcome;
  }

 private:
  [[noreturn]] static void live(const RedisUrl& url, const SpanTerms& terms, const KeySet& keys, int orders,
                                int outcomes) {
    try {
      StoreDriver driver(url, terms.layout, prefix);
      send(outcomes, Outcome{});  // is up
      for (Order order; receive(orders, order);) send(outcomes, carry_out(order, terms, keys, driver));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "bench-store: a node: %s\n", error.what());
    }
    // Without the destructors of what the parent still uses.
    _exit(0);
  }

  pid_t id_ = -1;
  int orders_ = -1;
  int outcomes_ = -1;
};

/// Processor time that this machine has spent on anything but waiting: the first line of /proc/stat.
Duration busy_time() {
  std::ifstream stat("/proc/stat");
  std::string word;
  stat >> word;
  std::int64_t ticks = 0;
  constexpr int idle = 3;  // user, nice, system, idle, iowait, irq, softirq, steal
  constexpr int columns = 8;
  for (int column = 0; column < columns; ++column) {
    std::int64_t value = 0;
    stat >> value;
    if (column != idle && column != idle + 1) ticks += value;
  }
  return std::chrono::seconds{1} * ticks / sysconf(_SC_CLK_TCK);
}

class Trials {
 public:
  Trials(RedisServer& server, const SpanTerms& terms)
      : server_(server), terms_(terms), keys_(make_keys(terms.keys)) {
    for (std::size_t i = 0; i < terms.nodes; ++i)
      nodes_.push_back(std::make_unique<Node>(server.address(), terms_, keys_));
    for (const auto& node : nodes_) node->end();
  }

  SpanTrial run(Duration span) {
    server_.clear();
    ordinal_ += terms_.spans;
    if (!terms_.cold) run({.begin = nanoseconds_now(), .span = 0, .spans = 1, .ordinal = ordinal_});
    const ServerFigures before = server_.figures();
    const Duration busy_before = busy_time();
    const std::int64_t begin =
        nanoseconds_now() + std::chrono::nanoseconds{std::chrono::milliseconds{20}}.count();
    const auto outcomes =
        run({.begin = begin, .span = span.count(), .spans = terms_.spans, .ordinal = ordinal_});
    const ServerFigures after = server_.figures();
    const Duration busy = busy_time() - busy_before;

    SpanTrial trial{.span = span, .held = true};
    Duration cpu{};
    std::uint64_t syncs = terms_.cold ? 0 : nodes_.size();
    std::int64_t end = begin;
    for (const Outcome& outcome : outcomes) {
      trial.held = trial.held && outcome.late == 0;
      trial.slowest = std::max(trial.slowest, Duration{outcome.slowest});
      end = std::max(end, outcome.end);
      cpu += Duration{outcome.cpu};
      syncs += outcome.syncs;
    }
    trial.elapsed = Duration{end - begin};
    const double seconds = std::chrono::duration<double>(trial.elapsed).count();
    trial.server_cores = std::chrono::duration<double>(after.cpu - before.cpu).count() / seconds;
    trial.nodes_cores = std::chrono::duration<double>(cpu).count() / seconds;
    trial.busy_cores = std::chrono::duration<double>(busy).count() / seconds;
    trial.bytes_in_per_second = static_cast<double>(after.bytes_in - before.bytes_in) / seconds;
    trial.bytes_out_per_second = static_cast<double>(after.bytes_out - before.bytes_out) / seconds;
    check(syncs * keys_.sum);
    return trial;
  }

 private:
  std::vector<Outcome> run(const Order& order) {
    for (const auto& node : nodes_) node->begin(order);
    std::vector<Outcome> outcomes;
    for (const auto& node : nodes_) outcomes.push_back(node->end());
    return outcomes;
  }

  void check(std::uint64_t submitted) {
    std::uint64_t stored = 0;
    for (std::size_t i = 0; i < (terms_.cold ? terms_.spans : 1); ++i)
      stored += sum_of(terms_.layout, server_.client(), prefix, keys_, interval_length,
                       ordinal_ + static_cast<Ordinal>(i));
    expect_sum("span", stored, submitted);
  }

  RedisServer& server_;
  SpanTerms terms_;
  KeySet keys_;
  std::vector<std::unique_ptr<Node>> nodes_;
  // Of no earlier run on the same server.
  Ordinal ordinal_ = static_cast<Ordinal>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                              std::chrono::system_clock::now().time_since_epoch())
                                              .count());
};

/// What the trial at the shortest span used up.
std::string what_bounds(const SpanTrial& trial, double cores) {
  constexpr double nearly_all = 0.85;
  if (trial.server_cores >= nearly_all) return "the server's processor time: Redis works on one core";
  if (trial.server_cores + trial.nodes_cores >= nearly_all * cores)
    return "this machine's processor time: server and nodes share its cores";
  if (trial.busy_cores >= nearly_all * cores)
    return "other programs: they have used what was left of the cores";
  return "no processor: waiting, for the wire or for each other";
}

}  // namespace

SpanResult find_span(RedisServer& server, const SpanTerms& terms) {
  Trials trials(server, terms);
  SpanResult result;
  result.cores = std::max(1U, std::thread::hardware_concurrency());
  const auto holds = [&](Duration span) {
    // Once is no proof that it cannot be held: the machine does other things too.
    for (int attempt = 0; attempt < 2; ++attempt) {
      result.trials.push_back(trials.run(span));
      if (!result.trials.back().held) continue;
      result.best = result.trials.back();
      return true;
    }
    return false;
  };

  // As fast as they can: an average span, about which the shortest must be.
  const SpanTrial unbound = trials.run(Duration{0});
  result.trials.push_back(unbound);
  Duration longest = unbound.elapsed / static_cast<Duration::rep>(terms.spans);
  Duration shortest = longest / 2;
  while (!holds(longest)) {
    shortest = longest;
    longest = longest * 5 / 4;
  }
  constexpr int parts = 25;
  while (longest - shortest > longest / parts) {
    const Duration middle = shortest + (longest - shortest) / 2;
    (holds(middle) ? longest : shortest) = middle;
  }
  result.bound = what_bounds(result.best, result.cores);
  return result;
}

}  // namespace weir::bench
