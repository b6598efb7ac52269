// SPDX-License-Identifier: BSD-3-Clause
#include "contenders.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "filter/burst_filter.h"
#include "filter/worker_loop.h"
#include "frame_memory.h"
#include "weir/config.h"
#include "weir/throttle.h"

namespace weir::bench {
namespace {

using filter::Counters;
using filter::QueueSet;
using filter::Wiring;

std::string frames_complaint(const Counters& counters) {
  const std::uint64_t in = counters.received.read() + counters.crafted.read();
  const std::uint64_t out =
      counters.transmitted.read() + counters.transmit_drops.read() + counters.consumed.read();
  if (in == out) return {};
  return std::to_string(in) + " frames in, " + std::to_string(out) + " out";
}

/// Reads a word of each line that a filter has to read, after asking for those of the whole burst. So much
/// the machine takes for having the bytes at all.
/// @tparam lines  of each frame, from its first on; known here, for to count them costs as much as to read
/// them
template <std::size_t lines>
class LineReader {
 public:
  void read(std::span<rte_mbuf* const> burst) noexcept {
    for (const rte_mbuf* const mbuf : burst)
      for (std::size_t line = 0; line < lines; ++line) rte_prefetch0(line_of(mbuf, line));
    std::uint64_t sum = 0;
    for (const rte_mbuf* const mbuf : burst)
      for (std::size_t line = 0; line < lines; ++line) {
        std::uint64_t word = 0;
        std::memcpy(&word, line_of(mbuf, line), sizeof word);
        sum += word;
      }
    // Orders nothing. Whoever might read it keeps the compiler from leaving the reading out.
    sum_.store(sum, std::memory_order_relaxed);
  }

 private:
  static const std::byte* line_of(const rte_mbuf* mbuf, std::size_t line) noexcept {
    return rte_pktmbuf_mtod(mbuf, const std::byte*) + line * RTE_CACHE_LINE_SIZE;
  }
  std::atomic<std::uint64_t> sum_{0};
};

constexpr std::size_t lines_of_frame = (frame_length + RTE_CACHE_LINE_SIZE - 1) / RTE_CACHE_LINE_SIZE;

/// The shape of testpmd's io forwarding: bursts from one port to the other, untouched.
/// @tparam lines  read of each frame in between
template <std::size_t lines>
class IoLoop final : public Contender {
 public:
  explicit IoLoop(const QueueSet& set) : set_(set) {}
  void run(const std::atomic<bool>& stop) noexcept override {
    while (!stop.load(std::memory_order_relaxed)) {  // orders nothing: the main thread joins this one
      forward(set_.ports.first, set_.ports.second);
      forward(set_.ports.second, set_.ports.first);
    }
  }
  std::string complaint() override { return frames_complaint(counters()); }

 private:
  void forward(std::uint16_t from, std::uint16_t to) noexcept {
    std::array<rte_mbuf*, filter::burst_size> burst;
    const std::uint16_t count = rte_eth_rx_burst(from, set_.queue, burst.data(), filter::burst_size);
    if (count == 0) return;
    own_counters().received.add(count);
    if constexpr (lines != 0) reader_.read(std::span{burst}.first(count));
    const std::uint16_t sent = rte_eth_tx_burst(to, set_.queue, burst.data(), count);
    own_counters().transmitted.add(sent);
    if (sent == count) return;
    own_counters().transmit_drops.add(count - sent);
    rte_pktmbuf_free_bulk(burst.data() + sent, static_cast<unsigned>(count - sent));
  }
  const QueueSet& set_;
  LineReader<lines> reader_;
};

/// weir-filter's worker, as the program sets it up.
class FilterLoop final : public Contender {
 public:
  FilterLoop(const ContenderKind& kind, const QueueSet& set, const Wiring& wiring)
      : set_(set),
        http_(kind.content != Content::no_http),
        refuses_(kind.refuses),
        one_rule_each_(kind.one_rule_each) {
    const ConfigResult parsed = parse_config(kind.rules, kind.name);
    if (!parsed) throw std::runtime_error(parsed.errors.front().to_string());
    ThrottleResult made = Throttle::create(parsed.config, {.workers = 1, .hash_seed = 1, .log = {}});
    if (!made) throw std::runtime_error(made.error);
    throttle_ = std::move(made.throttle);
    filter_ =
        std::make_unique<filter::BurstFilter>(*throttle_, throttle_->worker(0), wiring, own_counters(), 1);
    throttle_->start();
  }
  void run(const std::atomic<bool>& stop) noexcept override {
    filter::run_to_completion({.worker = throttle_->worker(0),
                               .filter = *filter_,
                               .counters = own_counters(),
                               .sets = {&set_, 1},
                               .idle_sleep = {},
                               .stop = stop});
  }
  std::string complaint() override {
    if (!throttle_->stop(std::chrono::seconds{1})) return "the controller has counts pending";
    std::string wrong = frames_complaint(counters());
    const std::uint64_t received = counters().received.read();
    // What comes again on a connection whose request has been answered is none.
    const std::uint64_t requests = received - counters().absorbed.read();
    const auto expect = [&](const std::string& what, std::uint64_t counted, std::uint64_t expected) {
      if (counted != expected)
        wrong += (wrong.empty() ? "" : "; ") + what + ": " + std::to_string(counted) + ", should be " +
                 std::to_string(expected);
    };
    expect("requests", counters().requests.read(), http_ ? requests : 0);
    const std::uint64_t blocked = counters().blocked.read();
    expect("requests admitted or refused", counters().admitted.read() + blocked, http_ ? requests : 0);
    if (!refuses_) expect("requests refused", blocked, 0);
    const std::vector<RuleFigures> rules = throttle_->figures().rules;
    if (one_rule_each_) {
      std::uint64_t offered = 0;
      std::uint64_t admitted = 0;
      for (const RuleFigures& rule : rules) {
        offered += rule.offered;
        admitted += rule.admitted;
      }
      expect("all rules, offered", offered, received);
      expect("all rules, admitted", admitted, received);
      return wrong;
    }
    for (const RuleFigures& rule : rules) {
      const bool applies = http_ && rule.name != no_match;
      expect("rule " + rule.name + ", offered", rule.offered, applies ? requests : 0);
      if (!refuses_) expect("rule " + rule.name + ", admitted", rule.admitted, applies ? received : 0);
    }
    return wrong;
  }

  static constexpr std::string_view no_match = "none";

 private:
  const QueueSet& set_;
  bool http_;
  bool refuses_;
  bool one_rule_each_;
  std::unique_ptr<Throttle> throttle_;
  std::unique_ptr<filter::BurstFilter> filter_;
};

// Limits beyond what a run can reach: every frame is forwarded, so that all contenders move the same frames.
constexpr std::string_view no_match_rule = R"([[rule]]
name = "none"
match = { method = "NONE" }
limit = 1000000000000
interval = "1s"
)";
constexpr std::string_view request_line_rule = R"([[rule]]
name = "line"
key = ["method", "path"]
limit = 1000000000000
interval = "1s"
)";
constexpr std::string_view three_headers_rule = R"([[rule]]
name = "headers"
key = ["method", "path", "host", "header:authorization", "header:x-api-key"]
limit = 1000000000000
interval = "1s"
)";
constexpr std::string_view three_rules = R"([[rule]]
name = "all"
limit = 1000000000000
interval = "1s"
[[rule]]
name = "user"
key = ["header:x-api-key"]
limit = 1000000000000
interval = "1s"
[[rule]]
name = "endpoint"
key = ["path"]
limit = 1000000000000
interval = "1s"
)";
std::string of_route(const std::string& name, const std::string& path) {
  return "[[rule]]\nname = \"" + name + "\"\nmatch = { path = \"" + path + "/**\" }\n" +
         "key = [\"header:x-api-key\"]\nlimit = 1000000000000\ninterval = \"1s\"\n";
}
/// One rule for each route that there are requests of: each request is under one of them.
std::string four_routes() {
  return of_route("items", "/api/items") + of_route("users", "/users") + of_route("orders", "/v2/orders") +
         of_route("static", "/static");
}
/// The same among 60 others that nobody asks for.
std::string many_routes() {
  std::string rules;
  for (int i = 0; i < 60; ++i) {
    const std::string service = "service-" + std::to_string(i);
    rules += of_route(service, "/" + service);
  }
  return rules + four_routes();
}
// Each token is drawn by itself, and there are enough of them.
constexpr std::string_view small_bucket_rule = R"([[rule]]
name = "line"
key = ["method", "path"]
algorithm = "token-bucket"
limit = 1000000000
burst = 1000
interval = "1s"
)";
// An attack: limits that all keys have long exceeded, and that they stay beyond. In intervals so long that
// all exceed them on a slow machine, too, and in spans of 100 ms: in the first two of them some keys have no
// entries yet.
constexpr std::string_view blocked_rule = R"([[rule]]
name = "line"
key = ["method", "path"]
limit = 64
interval = "100s"
spans = 1000
cooldown = "1h"
action = "drop"
)";
// Whose senders are told so: by a 429 on each connection, which is said once more whenever the request is.
std::string answered_rule() {
  std::string rule(blocked_rule);
  rule.erase(rule.rfind("action"));
  return rule;
}
constexpr std::string_view used_up_rule = R"([[rule]]
name = "line"
key = ["method", "path"]
algorithm = "fixed-window"
limit = 64
interval = "100s"
spans = 1000
action = "drop"
)";
// None has its first token back before a run is over: then all of them would be admitted once.
constexpr std::string_view empty_bucket_rule = R"([[rule]]
name = "line"
key = ["method", "path"]
algorithm = "token-bucket"
limit = 1
burst = 64
interval = "100s"
spans = 1000
action = "drop"
)";
constexpr std::string_view one_of_three_blocks = R"([[rule]]
name = "all"
limit = 1000000000000
interval = "1s"
[[rule]]
name = "endpoint"
key = ["path"]
limit = 64
interval = "100s"
spans = 1000
cooldown = "1h"
action = "drop"
[[rule]]
name = "user"
key = ["header:x-api-key"]
limit = 1000000000000
interval = "1s"
)";
constexpr unsigned beyond_limit = 2 * 64;  // frames

}  // namespace

std::span<const ContenderKind> contender_kinds() {
  static const std::vector<ContenderKind> kinds{
      {"io", Content::get_200, {}},
      {"first_line_read", Content::no_http, {}, 1},
      {"frame_read", Content::get_200, {}, lines_of_frame},
      {"no_http", Content::no_http, std::string(request_line_rule)},
      {"no_match", Content::get_200, std::string(no_match_rule)},
      {"request_line", Content::get_200, std::string(request_line_rule)},
      {"three_headers", Content::get_200, std::string(three_headers_rule)},
      {"three_rules", Content::get_200, std::string(three_rules)},
      {"four_routes", Content::get_200, four_routes(), 0, 8, false, true},
      {"many_routes", Content::get_200, many_routes(), 0, 8, false, true},
      {"small_bucket", Content::get_200, std::string(small_bucket_rule)},
      {"blocked", Content::get_200, std::string(blocked_rule), 0, beyond_limit, true},
      {"answered", Content::get_200, answered_rule(), 0, beyond_limit, true},
      {"used_up", Content::get_200, std::string(used_up_rule), 0, beyond_limit, true},
      {"empty_bucket", Content::get_200, std::string(empty_bucket_rule), 0, beyond_limit, true},
      {"one_of_three_blocks", Content::get_200, std::string(one_of_three_blocks), 0, beyond_limit, true},
  };
  return kinds;
}

std::unique_ptr<Contender> make_contender(const ContenderKind& kind, const QueueSet& set,
                                          const Wiring& wiring) {
  if (!kind.rules.empty()) return std::make_unique<FilterLoop>(kind, set, wiring);
  switch (kind.lines_read) {
    case 0:
      return std::make_unique<IoLoop<0>>(set);
    case 1:
      return std::make_unique<IoLoop<1>>(set);
    case lines_of_frame:
      return std::make_unique<IoLoop<lines_of_frame>>(set);
    default:
      throw std::logic_error(kind.name + ": no loop reads so many lines");
  }
}

}  // namespace weir::bench
