// SPDX-License-Identifier: BSD-3-Clause
// A fixed piece of work for an instruction counter: bench-filter-counted SET RULES [WAY] (avx2 or avx512; the
// rules as bench-filter's contenders have them, or as here; the ways are listed below). Bursts of frames go
// through weir-filter's burst filter, which passes all of them on, or drops or answers all; without ports, in
// virtual time and without a second thread. Everything to be counted happens inside counted_work();
// prints "items N". Ends with 77 where the set is not the best that the machine has: then it is not the one
// whose instructions would be counted. (Under valgrind a machine is one with AVX2 at best.) See
// tests/instructions.
#include <rte_eal.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "classify/workload.h"
#include "contenders.h"
#include "filter/burst_filter.h"
#include "weir/config.h"
#include "weir/throttle.h"

namespace {

using namespace weir;
using namespace weir::bench;
using namespace std::chrono_literals;

/// The rules of another kind, but that one of them is too small for grants: what is drawn serves few
/// requests. No limit for a run of the benchmark, which would reach it at once.
struct FewKind {
  std::string_view name;
  std::string_view of;
  std::size_t rule;
};
constexpr std::uint64_t few = 60;
constexpr FewKind few_kinds[] = {
    {"few", "request_line", 0},
    // What a gateway has as a rule: much for all and for an endpoint, little for each user.
    {"few_of_three", "three_rules", 1},
};

enum class Way { usual, closing, first, beside_odd, answered, repeated };
struct NamedWay {
  std::string_view name;
  Way way;
};
constexpr NamedWay ways[] = {
    // While the flow of a refused request is closing, under a limit of its own.
    {"closing", Way::closing},
    // Of known keys their first ones in a span.
    {"first", Way::first},
    // While every other burst is a frame of an upload, which might be a request's and is none.
    {"beside_odd", Way::beside_odd},
    // Who is refused is told so with a 429, each request on a connection of its own.
    {"answered", Way::answered},
    // As before, and then the same segments come once more: their 429 is repeated.
    {"repeated", Way::repeated},
};

/// One request of each burst is a PUT, and all of these are refused.
constexpr std::string_view one_blocked = "one_blocked";
constexpr std::string_view one_blocked_rules = R"([[rule]]
name = "line"
match = { method = "GET" }
key = ["method", "path"]
limit = 1000000000000
interval = "1s"
[[rule]]
name = "put"
match = { method = "PUT" }
limit = 64
interval = "100s"
spans = 1000
cooldown = "1h"
action = "drop"
)";

constexpr std::size_t frames_at_all = 8 * filter::burst_size;
constexpr std::size_t limit_to_close = 10'000;
constexpr std::size_t ports_at = 34;  // of a plain frame
constexpr std::size_t payload_at = 54;

/// Frames in mbufs of no pool: they are passed on, or somebody seems to hold them still when they are freed.
class Mbufs {
 public:
  explicit Mbufs(Content content) : frames_(content, frames_at_all * 256), own_(frames_at_all) {
    for (std::size_t i = 0; i < own_.size(); ++i) {
      Own& own = own_[i];
      const std::span<const std::byte> frame = frames_[i];
      std::memcpy(own.bytes.data(), frame.data(), frame.size());
      own.mbuf.buf_addr = own.bytes.data();
      own.mbuf.buf_len = static_cast<std::uint16_t>(own.bytes.size());
      own.mbuf.data_len = static_cast<std::uint16_t>(frame.size());
      own.mbuf.pkt_len = static_cast<std::uint32_t>(frame.size());
      own.mbuf.nb_segs = 1;
      rte_mbuf_refcnt_set(&own.mbuf, holders);
      all_.push_back(&own.mbuf);
    }
  }
  std::span<rte_mbuf* const> all() const noexcept { return all_; }
  void make_one_of_each_burst_a_put() noexcept {
    for (std::size_t i = 0; i < own_.size(); i += filter::burst_size)
      std::memcpy(own_[i].bytes.data() + payload_at, "PUT", 3);
  }
  /// As if the clients had made new connections, on ports that they have not had.
  void connect_anew() noexcept {
    for (Own& own : own_) {
      ++client_port_;
      std::memcpy(own.bytes.data() + ports_at, &client_port_, sizeof client_port_);
    }
  }

 private:
  struct alignas(64) Own {
    rte_mbuf mbuf{};
    std::array<std::byte, 2048> bytes{};
  };
  static constexpr std::uint16_t holders = 60'000;

  FramePool frames_;
  std::vector<Own> own_;
  std::vector<rte_mbuf*> all_;
  std::uint16_t client_port_ = 0;
};

struct Work {
  filter::BurstFilter& filter;
  std::span<rte_mbuf* const> frames;
  bool answers = false;
};

struct Passed {
  std::size_t frames = 0;
  std::size_t answers = 0;
};

Instant at(Duration since_start) { return {WallTime(1000s) + since_start, MonotonicTime(50s) + since_start}; }

/// Takes the answers out, as a device would that has sent them. @return how many
std::size_t send_answers(filter::Outgoing& out) {
  std::array<rte_mbuf*, filter::max_outgoing> answers;
  unsigned count = 0;
  for (rte_mbuf* const mbuf : std::span{out.frames}.first(out.count))
    if (mbuf->pool != nullptr) answers[count++] = mbuf;
  rte_pktmbuf_free_bulk(answers.data(), count);
  return count;
}

Passed pass_on(Work& work, MonotonicTime now) {
  Passed passed;
  for (std::size_t i = 0; i < work.frames.size(); i += filter::burst_size) {
    filter::Outgoing out;
    const auto burst =
        work.frames.subspan(i, std::min<std::size_t>(filter::burst_size, work.frames.size() - i));
    for (rte_mbuf* const mbuf : burst) mbuf->port = 0;
    work.filter.process(burst, now, out);
    const std::size_t answers = work.answers ? send_answers(out) : 0;
    passed.frames += out.count - answers;
    passed.answers += answers;
  }
  return passed;
}

/// For answers there is a pool, and so DPDK's environment.
bool make_pool(filter::Wiring& wiring) {
  std::vector<std::string> arguments{"bench-filter-counted", "--no-huge", "--no-shconf", "--no-pci",
                                     "--no-telemetry",       "-m",        "16",          "--lcores=0@0"};
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  if (rte_eal_init(static_cast<int>(pointers.size()), pointers.data()) < 0) return false;
  constexpr unsigned buffers = 4 * filter::burst_size;
  constexpr unsigned kept_at_hand = filter::burst_size;
  wiring.ports[0].pool =
      rte_pktmbuf_pool_create("answers", buffers, kept_at_hand, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  return wiring.ports[0].pool != nullptr;
}

/// Sends one more request of one client until it is refused: its flow is closing from then on.
bool close_a_flow(filter::BurstFilter& filter, rte_mempool* pool, MonotonicTime now) {
  const FramePool frames(Content::get_200, 256);
  std::vector<std::byte> request(frames[0].begin(), frames[0].end());
  // A port and a path that no other has.
  request[ports_at] = std::byte{0};
  request[payload_at + 5] = std::byte{'Z'};
  std::size_t answers = 0;
  for (std::size_t i = 0; i <= limit_to_close; ++i) {
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pool);
    std::memcpy(rte_pktmbuf_append(mbuf, static_cast<std::uint16_t>(request.size())), request.data(),
                request.size());
    mbuf->port = 0;
    filter::Outgoing out;
    filter.process({&mbuf, 1}, now, out);
    answers = out.count;
    rte_pktmbuf_free_bulk(out.frames.data(), static_cast<unsigned>(out.count));
  }
  return answers == 2;  // one to each end
}

/// Like a frame of an upload: text, but no request.
void make_odd(rte_mbuf& mbuf) {
  std::memset(rte_pktmbuf_mtod_offset(&mbuf, char*, payload_at), 'a', mbuf.data_len - payload_at);
}

}  // namespace

// Called by name from outside: see tests/instructions.
extern "C" [[gnu::noinline]] void counted_work(Work& work, MonotonicTime now, Passed& passed) {
  passed = pass_on(work, now);
}

namespace {

/// Counts every other burst.
Passed count_beside(rte_mbuf* odd, const Work& work, MonotonicTime now) {
  Passed passed;
  for (std::size_t i = 0; i < work.frames.size(); i += filter::burst_size) {
    Work others{work.filter, {&odd, 1}};
    pass_on(others, now);
    Work part{work.filter, work.frames.subspan(i, filter::burst_size)};
    Passed more;
    counted_work(part, now, more);
    passed.frames += more.frames;
  }
  return passed;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int not_here = 77;
  std::vector<ContenderKind> kinds;
  for (const ContenderKind& each : contender_kinds()) {
    if (each.rules.empty()) continue;
    kinds.push_back(each);
    for (const FewKind& small : few_kinds)
      if (small.of == each.name) kinds.emplace_back(each).name = small.name;
    if (each.name == "blocked") {
      kinds.emplace_back(each).name = one_blocked;
      kinds.back().rules = one_blocked_rules;
    }
  }
  const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const ContenderKind& each) {
    return (argc == 3 || argc == 4) && each.name == argv[2];
  });
  const auto named = std::find_if(std::begin(ways), std::end(ways),
                                  [&](const NamedWay& each) { return argc == 4 && each.name == argv[3]; });
  const bool avx512 = argc > 1 && argv[1] == std::string_view("avx512");
  if (kind == kinds.end() || (named != std::end(ways)) != (argc == 4) ||
      (!avx512 && argv[1] != std::string_view("avx2"))) {
    std::fprintf(stderr, "usage: %s avx2|avx512 RULES [WAY]\nrules:", argv[0]);
    for (const ContenderKind& each : kinds) std::fprintf(stderr, " %s", each.name.c_str());
    std::fprintf(stderr, "\nways:");
    for (const NamedWay& each : ways) std::fprintf(stderr, " %s", std::string(each.name).c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  if (best_instruction_set() != (avx512 ? InstructionSet::avx512 : InstructionSet::avx2)) return not_here;
  const Way way = named == std::end(ways) ? Way::usual : named->way;
  const bool answers = way == Way::answered || way == Way::repeated;
  ConfigResult parsed = parse_config(kind->rules, kind->name);
  for (const FewKind& small : few_kinds)
    if (small.name == kind->name) parsed.config.rules[small.rule].limit = few;
  if (way == Way::closing) {
    parsed.config.rules.front().limit = limit_to_close;
    parsed.config.rules.front().action = Action::reply_429;
  }
  if (answers)
    for (Rule& rule : parsed.config.rules) rule.action = Action::reply_429;
  const ThrottleResult made = Throttle::create(parsed.config, {.workers = 1, .hash_seed = 1, .log = {}});
  if (!made) {
    std::fprintf(stderr, "%s\n", made.error.c_str());
    return 1;
  }
  Mbufs mbufs(kind->content);
  if (kind->name == one_blocked) mbufs.make_one_of_each_burst_a_put();
  filter::Counters counters;
  const auto wiring = std::make_unique<filter::Wiring>();
  if ((answers || way == Way::closing) && !make_pool(*wiring)) return 1;
  Worker& worker = made.throttle->worker(0);
  filter::BurstFilter filter(*made.throttle, worker, *wiring, counters, 1);
  Work work{filter, mbufs.all(), answers};

  made.throttle->advance(at(0ms));
  worker.online();
  const auto pass_on_as_before = [&](Duration now) {
    if (answers) mbufs.connect_anew();
    pass_on(work, at(now).monotonic);
  };
  // A window begins; then a span goes by, and the worker knows all keys.
  Duration now{};
  for (int span = 0; span < 3; ++span) {
    for (unsigned pass = kind->refuses && span == 0 ? kind->frames_before : 1; pass > 0; --pass)
      pass_on_as_before(now);
    now += 100ms;
    for (int i = 0; i < 3; ++i) {  // flip, drain, decide
      made.throttle->advance(at(now));
      worker.quiescent();
    }
  }
  if (way == Way::closing && !close_a_flow(filter, wiring->ports[0].pool, at(now).monotonic)) {
    std::fprintf(stderr, "no request has been refused\n");
    return 1;
  }
  // Bursts of which nothing is known yet are not all looked at in the way that is to be counted.
  for (int pass = 0; pass < 4 && way != Way::first; ++pass) pass_on_as_before(now);
  if (way == Way::answered) mbufs.connect_anew();
  const std::uint64_t requests = counters.requests.read();
  const std::uint64_t blocked = counters.blocked.read();
  const std::uint64_t absorbed = counters.absorbed.read();
  const Mbufs others(kind->content);
  make_odd(*others.all()[0]);
  Passed passed;
  if (way == Way::beside_odd)
    passed = count_beside(others.all()[0], work, at(now).monotonic);
  else
    counted_work(work, at(now).monotonic, passed);
  const std::size_t of_concern = kind->content == Content::no_http ? 0 : frames_at_all;
  const std::size_t refused = !kind->refuses              ? 0
                              : kind->name == one_blocked ? frames_at_all / filter::burst_size
                                                          : frames_at_all;
  const std::size_t repeated = way == Way::repeated ? refused : 0;
  const std::size_t made_answers = way == Way::answered ? 2 * refused : 2 * repeated;
  if (passed.frames + refused != frames_at_all || passed.answers != made_answers ||
      counters.blocked.read() - blocked != refused - repeated ||
      counters.absorbed.read() - absorbed != repeated ||
      counters.requests.read() - requests != of_concern - repeated) {
    std::fprintf(stderr, "%zu frames passed on, %zu answers\n", passed.frames, passed.answers);
    return 1;
  }
  std::printf("items %zu\n", frames_at_all);
  worker.offline();
  return 0;
}
