// SPDX-License-Identifier: BSD-3-Clause
// Nothing is written by two workers but the cells that they draw from, and, once for many new keys, how many
// of these are taken: so no cache line wanders between their cores. Found out by what happens, whatever the
// structures are: each worker works by itself, and the lines of memory that it has changed are looked up.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/rseq.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "weir/throttle.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr std::uintptr_t line_size = 64;
constexpr unsigned workers = 4;

using Lines = std::vector<std::uintptr_t>;

/// The memory a program may write, but for stacks: those of other threads, and of this one, which works for
/// all. And but for the line in which the kernel tells this thread on which processor it runs.
class WritableMemory {
 public:
  WritableMemory() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find(" rw-p ") == std::string::npos || line.find("[stack") != std::string::npos) continue;
      std::size_t end_of_begin = 0;
      const std::uintptr_t begin = std::stoull(line, &end_of_begin, 16);
      regions_.push_back({begin, std::stoull(line.substr(end_of_begin + 1), nullptr, 16)});
      size_ += regions_.back().end - regions_.back().begin;
    }
    // Apart from what is looked at, and from malloc.
    copy_ = static_cast<std::byte*>(
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
  ~WritableMemory() { ::munmap(copy_, size_); }
  WritableMemory(const WritableMemory&) = delete;
  WritableMemory& operator=(const WritableMemory&) = delete;

  /// Ordered numbers of the lines that `work` leaves other than they were.
  template <typename Work>
  Lines changed_by(Work&& work) {
    // All that is allocated here, before the copy is made.
    Lines lines;
    lines.reserve(1 << 20);
    std::byte* at = copy_;
    for (const Region& region : regions_) {
      std::memcpy(at, reinterpret_cast<const void*>(region.begin), region.end - region.begin);
      at += region.end - region.begin;
    }
    work();
    at = copy_;
    for (const Region& region : regions_)
      for (std::uintptr_t line = region.begin; line < region.end; line += line_size, at += line_size)
        if (std::memcmp(at, reinterpret_cast<const void*>(line), line_size) != 0 && !is_mine(line, lines) &&
            line != processor_line())
          lines.push_back(line / line_size);
    return lines;
  }

 private:
  struct Region {
    std::uintptr_t begin;
    std::uintptr_t end;
  };
  static std::uintptr_t processor_line() {
    const auto told = reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer()) + __rseq_offset;
    return told / line_size * line_size;
  }
  static bool is_mine(std::uintptr_t line, const Lines& lines) {
    const auto begin = reinterpret_cast<std::uintptr_t>(lines.data());
    return line + line_size > begin && line < begin + lines.capacity() * sizeof(std::uintptr_t);
  }

  std::vector<Region> regions_;
  std::size_t size_ = 0;
  std::byte* copy_ = nullptr;
};

constexpr std::string_view rules = R"(
[node]
keys = 16384
[[rule]]
name = "all"
limit = 100000000
interval = "1s"
[[rule]]
name = "user"
key = ["header:x-user"]
limit = 1000
interval = "1s"
[[rule]]
name = "narrow"
key = ["header:x-user"]
algorithm = "fixed-window"
limit = 3
interval = "10s"
)";

/// Requests of users of its own, some of them again and again, by which tables, counters, blocks and
/// publications are all used.
void use(Worker worker, unsigned index, Instant now) {
  for (int round = 0; round < 5; ++round) {
    for (int user = 0; user < 8; ++user) {
      const std::string name = "w" + std::to_string(index) + "-" + std::to_string(user);
      const Header header{"x-user", name};
      Request request;
      request.method = "GET";
      request.target = "/";
      request.headers = std::span(&header, 1);
      worker.admit(request, now.monotonic);
    }
    worker.quiescent();
  }
}

/// Lines that more than one worker has changed.
std::size_t shared_lines(std::uint64_t hash_seed) {
  const ConfigResult parsed = parse_config(rules, "layout.toml");
  EXPECT_TRUE(parsed);
  const ThrottleResult made =
      Throttle::create(parsed.config, {.workers = workers, .hash_seed = hash_seed, .log = {}});
  EXPECT_TRUE(made);
  Instant now{WallTime(1000s), MonotonicTime(10s)};
  const auto advance = [&] {
    for (int i = 0; i < 3; ++i) {
      made.throttle->advance(now);
      for (unsigned worker = 0; worker < workers; ++worker) made.throttle->worker(worker).quiescent();
    }
    now = now + 100ms;
  };
  made.throttle->advance(now);
  for (unsigned i = 0; i < workers; ++i) made.throttle->worker(i).online();
  advance();

  WritableMemory memory;
  std::vector<Lines> changed(workers);
  // Two spans, so that each worker is seen in both of its tables.
  for (int span = 0; span < 2; ++span) {
    for (unsigned i = 0; i < workers; ++i) {
      const Lines lines = memory.changed_by([&] { use(made.throttle->worker(i), i, now); });
      EXPECT_GT(lines.size(), 10U);
      changed[i].insert(changed[i].end(), lines.begin(), lines.end());
    }
    advance();
  }
  for (Lines& lines : changed) {
    std::sort(lines.begin(), lines.end());
    lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  }
  std::size_t shared = 0;
  for (unsigned a = 0; a < workers; ++a)
    for (unsigned b = a + 1; b < workers; ++b) {
      Lines both;
      std::set_intersection(changed[a].begin(), changed[a].end(), changed[b].begin(), changed[b].end(),
                            std::back_inserter(both));
      shared += both.size();
    }
  for (unsigned i = 0; i < workers; ++i) made.throttle->worker(i).offline();
  return shared;
}

TEST(Layout, ALineThatTwoWriteIsFound) {
  std::vector<std::uint32_t> near(64);
  const auto write = [&](std::size_t index) { return [&near, index] { ++near[index]; }; };
  WritableMemory memory;
  const Lines first = memory.changed_by(write(20));
  EXPECT_EQ(first.size(), 1U);
  const std::size_t in_line = reinterpret_cast<std::uintptr_t>(&near[20]) % line_size / sizeof(near[0]);
  EXPECT_EQ(memory.changed_by(write(20 - in_line)), first);
  EXPECT_NE(memory.changed_by(write(20 - in_line + line_size / sizeof(near[0]))), first);
}

TEST(Layout, NoCacheLineIsWrittenByTwoWorkersWhoseKeysHaveNoCellsInCommon) {
  // All draw from the one cell of the rule without dimensions, and take cells in the pools of both windows.
  // And eight keys' words are in a line of a pool's index, so that those of two workers' keys may be
  // neighbours by chance; but not under most of these seeds.
  constexpr std::size_t pairs = workers * (workers - 1) / 2;
  constexpr std::size_t pools = 2;
  int without_others = 0;
  for (std::uint64_t hash_seed = 1; hash_seed <= 5; ++hash_seed)
    without_others += shared_lines(hash_seed) == pairs * (1 + pools);
  EXPECT_GE(without_others, 3);
}

}  // namespace
}  // namespace weir
