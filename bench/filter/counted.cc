// SPDX-License-Identifier: BSD-3-Clause
// A fixed piece of work for an instruction counter: bench-filter-counted RULES
// (no_http, no_match, request_line, three_headers or three_rules, as bench-filter has them).
// Bursts of frames go through weir-filter's burst filter, all of them are passed on; without ports, in
// virtual time and without a second thread. Everything to be counted happens inside counted_work(); prints
// "items N". Under valgrind a machine is one with AVX2 at best; ends with 77 where it has not even that, so
// that all counts are of one code. See tests/instructions.
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

constexpr std::size_t frames_at_all = 32 * filter::burst_size;

/// Frames in mbufs of no pool: they are passed on, and nobody frees them.
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
      all_.push_back(&own.mbuf);
    }
  }
  std::span<rte_mbuf* const> all() const noexcept { return all_; }

 private:
  struct alignas(64) Own {
    rte_mbuf mbuf{};
    std::array<std::byte, 2048> bytes{};
  };
  FramePool frames_;
  std::vector<Own> own_;
  std::vector<rte_mbuf*> all_;
};

struct Work {
  filter::BurstFilter& filter;
  std::span<rte_mbuf* const> frames;
};

Instant at(Duration since_start) { return {WallTime(1000s) + since_start, MonotonicTime(50s) + since_start}; }

std::size_t pass_on(Work& work, MonotonicTime now) {
  std::size_t passed = 0;
  for (std::size_t i = 0; i < work.frames.size(); i += filter::burst_size) {
    filter::Outgoing out;
    const auto burst = work.frames.subspan(i, filter::burst_size);
    for (rte_mbuf* const mbuf : burst) mbuf->port = 0;
    work.filter.process(burst, now, out);
    passed += out.count;
  }
  return passed;
}

}  // namespace

// Called by name from outside: see tests/instructions.
extern "C" [[gnu::noinline]] std::size_t counted_work(Work& work, MonotonicTime now) {
  return pass_on(work, now);
}

int main(int argc, char** argv) {
  constexpr int not_here = 77;
  const auto kinds = contender_kinds();
  const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const ContenderKind& each) {
    return argc == 2 && each.name == argv[1] && !each.rules.empty();
  });
  if (kind == kinds.end()) {
    std::fprintf(stderr, "usage: %s no_http|no_match|request_line|three_headers|three_rules\n", argv[0]);
    return 2;
  }
  if (!has_instruction_set(InstructionSet::avx2)) return not_here;
  const ConfigResult parsed = parse_config(kind->rules, kind->name);
  const ThrottleResult made = Throttle::create(parsed.config, {.workers = 1, .hash_seed = 1, .log = {}});
  if (!made) {
    std::fprintf(stderr, "%s\n", made.error.c_str());
    return 1;
  }
  const Mbufs mbufs(kind->content);
  filter::Counters counters;
  const auto wiring = std::make_unique<filter::Wiring>();
  Worker& worker = made.throttle->worker(0);
  filter::BurstFilter filter(*made.throttle, worker, *wiring, counters, 1);
  Work work{filter, mbufs.all()};

  made.throttle->advance(at(0ms));
  worker.online();
  // A window begins; then a span goes by, and the worker knows all keys.
  Duration now{};
  for (int span = 0; span < 3; ++span) {
    pass_on(work, at(now).monotonic);
    now += 100ms;
    for (int i = 0; i < 3; ++i) {  // flip, drain, decide
      made.throttle->advance(at(now));
      worker.quiescent();
    }
  }
  pass_on(work, at(now).monotonic);
  const std::uint64_t requests = counters.requests.read();
  const std::size_t passed = counted_work(work, at(now).monotonic);
  if (passed != frames_at_all || counters.blocked.read() != 0 ||
      counters.requests.read() - requests != (kind->content == Content::no_http ? 0 : frames_at_all)) {
    std::fprintf(stderr, "%zu frames passed on\n", passed);
    return 1;
  }
  std::printf("items %zu\n", passed);
  worker.offline();
  return 0;
}
