// SPDX-License-Identifier: BSD-3-Clause
// What it costs to get from an Ethernet frame to the hash of its key: hot (32 frames again and again) and
// cold (a pool larger than any cache, walked in random order, the next burst's lines prefetched before the
// burst is decided on). The library takes a burst at once, as the filter gives it one; as own_ahead it is
// told of the next burst as well, and but for the first lines it asks for them itself, between its work: so
// may do who receives a burst before the one before is decided on. Beside the library, in the same run, the
// floors (three cache lines touched; one vector pass over the payload; its lines by memchr), a parser written
// with memchr, and packaged ones. Contenders of one job must agree on the sum of all hashes, or the run
// fails.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "contenders.h"
#include "workload.h"

namespace {

using namespace weir;
using namespace weir::bench;

constexpr std::size_t burst = 32;
constexpr std::size_t line = 64;
constexpr std::size_t whole_frame = 64;  // lines
constexpr std::size_t head_of_frame = 4;
constexpr std::size_t cold_bytes = std::size_t{96} << 20;

enum class Cache { hot, cold };

const FramePool& pool(Content content, Cache cache) {
  static std::unique_ptr<const FramePool> pools[3][2];
  auto& slot = pools[static_cast<int>(content)][static_cast<int>(cache)];
  if (slot == nullptr) {
    const std::size_t hot_bytes = content == Content::headers_800 ? burst * 13 * line : burst * 4 * line;
    slot = std::make_unique<const FramePool>(content, cache == Cache::cold ? cold_bytes : hot_bytes);
  }
  return *slot;
}

/// All of a frame's lines, but no more than `lines`. Always inlined, for as a function that writes nothing
/// and returns nothing its calls would be left out.
[[gnu::always_inline]] inline void prefetch(std::span<const std::byte> frame, std::size_t lines) noexcept {
  for (std::size_t byte = 0; byte < std::min(frame.size(), lines * line); byte += line)
    __builtin_prefetch(frame.data() + byte);
}

/// A contender that takes one frame after the other, made to take a burst.
template <typename Contender>
class OneByOne {
 public:
  explicit OneByOne(Contender contender) : contender_(std::move(contender)) {}
  std::uint64_t operator()(std::span<const std::span<const std::byte>> frames) {
    std::uint64_t sum = 0;
    for (const std::span<const std::byte> frame : frames) sum += contender_(frame);
    return sum;
  }

 private:
  Contender contender_;
};

/// The same, each frame of the next burst asked for before one of this burst's: as who is told of it may do.
template <typename Contender>
class OneByOneAhead {
 public:
  OneByOneAhead(Contender contender, std::size_t lines) : contender_(std::move(contender)), lines_(lines) {}
  std::uint64_t operator()(std::span<const std::span<const std::byte>> frames,
                           std::span<const std::span<const std::byte>> next) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      if (i < next.size()) prefetch(next[i], lines_);
      sum += contender_(frames[i]);
    }
    return sum;
  }

 private:
  Contender contender_;
  std::size_t lines_;
};

/// A contender that is not told of the next burst.
template <typename Contender>
class OneBurst {
 public:
  explicit OneBurst(auto... arguments) : contender_(arguments...) {}
  std::uint64_t operator()(std::span<const std::span<const std::byte>> frames) { return contender_(frames); }

 private:
  Contender contender_;
};

/// @param contender  takes bursts; one that takes the next burst as well asks for its lines itself, but for
/// the first ones
template <typename Contender>
void walk(benchmark::State& state, const FramePool& frames, Cache cache, std::size_t lines,
          Contender contender) {
  const std::size_t walked = frames.size() / burst * burst;
  std::uint64_t sum = 0;
  std::size_t at = 0;
  std::int64_t done = 0;
  const bool cold = cache == Cache::cold;
  const auto later_by = [&](std::size_t i) {
    const std::size_t later = at + i;
    return frames[later < walked ? later : later - walked];
  };
  using Frames = std::array<std::span<const std::byte>, burst>;
  for (auto _ : state) {
    Frames several;
    Frames next;
    constexpr bool asks_itself = std::invocable<Contender&, Frames, Frames>;
    for (std::size_t i = 0; i < burst; ++i) {
      several[i] = frames[at + i];
      if (!cold) continue;
      if constexpr (asks_itself) {
        prefetch(later_by(i + 2 * burst), 1);
        next[i] = later_by(i + burst);
      } else {
        prefetch(later_by(i + burst), lines);
      }
    }
    if constexpr (asks_itself)
      sum += contender(several, next);
    else
      sum += contender(several);
    benchmark::DoNotOptimize(sum);
    at = at + burst == walked ? 0 : at + burst;
    done += burst;
  }
  state.SetItemsProcessed(done);
}

/// Whether a contender says of the first frames what the library's own path says.
template <typename Contender>
bool agrees(const FramePool& frames, Wanted wanted, Contender& contender) {
  using Burst = std::span<const std::span<const std::byte>>;
  OwnPath own(wanted);
  for (std::size_t i = 0; i < std::min<std::size_t>(frames.size(), 4096); ++i) {
    const std::span<const std::byte> frame = frames[i];
    std::uint64_t sum = 0;
    if constexpr (std::invocable<Contender&, Burst, Burst>) {
      const std::span<const std::byte> next = frames[(i + 1) % frames.size()];
      sum = contender(std::span(&frame, 1), std::span(&next, 1));
    } else {
      sum = contender(std::span(&frame, 1));
    }
    if (sum != own(frame)) return false;
  }
  return true;
}

const char* name_of(Content content) {
  constexpr const char* names[] = {"get_200", "headers_800", "no_http"};
  return names[static_cast<int>(content)];
}

const char* name_of(Wanted wanted) {
  constexpr const char* names[] = {"request_line", "host", "three_headers"};
  return names[static_cast<int>(wanted)];
}

template <typename Contender>
void add(const std::string& name, Content content, Cache cache, std::size_t lines, Contender contender) {
  const std::string whole =
      std::string(cache == Cache::hot ? "hot/" : "cold/") + name_of(content) + "/" + name;
  benchmark::RegisterBenchmark(whole.c_str(), [=](benchmark::State& state) {
    walk(state, pool(content, cache), cache, lines, OneByOne(contender));
  });
  if (cache == Cache::hot) return;
  benchmark::RegisterBenchmark((whole + "_ahead").c_str(), [=](benchmark::State& state) {
    walk(state, pool(content, cache), cache, lines, OneByOneAhead(contender, lines));
  });
}

/// @param lines  of a cold frame, to be fetched ahead: those that the contender reads
template <typename Make>
void add_checked(const std::string& name, Content content, Cache cache, Wanted wanted, Make make,
                 std::size_t lines = whole_frame) {
  const std::string whole = std::string(cache == Cache::hot ? "hot/" : "cold/") + name_of(content) + "/" +
                            name_of(wanted) + "/" + name;
  benchmark::RegisterBenchmark(whole.c_str(), [=](benchmark::State& state) {
    const FramePool& frames = pool(content, cache);
    auto contender = make();
    if (!agrees(frames, wanted, *contender))
      return state.SkipWithError("this contender's hashes differ: its figure is worthless");
    walk(state, frames, cache, lines, std::ref(*contender));
  });
}

void register_all() {
  for (const Cache cache : {Cache::hot, Cache::cold}) {
    for (const Content content : {Content::get_200, Content::headers_800, Content::no_http}) {
      add("floor_three_lines", content, cache, 3, touch_three_lines);
      add("floor_vector_pass", content, cache, whole_frame, pass_over_payload);
      add("floor_lines", content, cache, whole_frame, count_lines);
      for (const Wanted wanted : {Wanted::request_line, Wanted::host, Wanted::three_headers}) {
        add_checked("own", content, cache, wanted,
                    [=] { return std::make_unique<OneBurst<BurstPath>>(wanted); });
        if (cache == Cache::cold)
          add_checked("own_ahead", content, cache, wanted,
                      [=] { return std::make_unique<BurstPath>(wanted); });
        add_checked("own_portable", content, cache, wanted,
                    [=] { return std::make_unique<OneBurst<BurstPath>>(wanted, InstructionSet::portable); });
        if (content == Content::no_http) break;
        // Alone of all it reads no farther than to the request line's end, if no more is wanted.
        add_checked(
            "memchr", content, cache, wanted,
            [=] { return std::make_unique<OneByOne<PeerPath>>(PeerPath(wanted, parse_with_memchr)); },
            wanted == Wanted::request_line ? head_of_frame : whole_frame);
#ifdef WEIR_BENCH_HTTP_PARSER
        add_checked("http_parser", content, cache, wanted, [=] {
          return std::make_unique<OneByOne<PeerPath>>(PeerPath(wanted, parse_with_http_parser));
        });
#endif
#ifdef WEIR_BENCH_PICOHTTPPARSER
        add_checked("picohttpparser", content, cache, wanted, [=] {
          return std::make_unique<OneByOne<PeerPath>>(PeerPath(wanted, parse_with_picohttpparser));
        });
        if (cache == Cache::cold)
          add_checked("picohttpparser_ahead", content, cache, wanted, [=] {
            return std::make_unique<OneByOneAhead<PeerPath>>(PeerPath(wanted, parse_with_picohttpparser),
                                                             whole_frame);
          });
#endif
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
