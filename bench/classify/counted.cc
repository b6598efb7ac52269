// SPDX-License-Identifier: BSD-3-Clause
// A fixed piece of work for an instruction counter: bench-classify-counted SET CONTENT WANTED
// (portable, sse2, avx2 or avx512; get_200, headers_800 or no_http; request_line, host or three_headers).
// Everything to be counted happens inside counted_work(), and how many items it worked on is printed:
// instructions there per item do not depend on the machine's load, only on the code, the compiler and the
// instruction set. Ends with 77 where the machine does not have the set. tests/instructions holds the counts
// against recorded bounds.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "contenders.h"
#include "workload.h"

namespace {

using namespace weir;
using namespace weir::bench;

constexpr std::size_t pool_bytes = 1 << 15;

template <typename Value, std::size_t count>
std::optional<Value> named(const std::string_view (&names)[count], std::string_view name) {
  for (std::size_t i = 0; i < count; ++i) {
    if (names[i] == name) return static_cast<Value>(i);
  }
  return std::nullopt;
}

}  // namespace

// Called by name from outside: see tests/instructions.
extern "C" [[gnu::noinline]] std::uint64_t counted_work(BurstPath& path,
                                                        std::span<const std::span<const std::byte>> frames) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < frames.size(); i += PlainKeys::most_frames)
    sum += path(frames.subspan(i, std::min(frames.size() - i, PlainKeys::most_frames)));
  return sum;
}

int main(int argc, char** argv) {
  constexpr std::string_view sets[] = {"portable", "sse2", "avx2", "avx512"};
  constexpr std::string_view contents[] = {"get_200", "headers_800", "no_http"};
  constexpr std::string_view wanteds[] = {"request_line", "host", "three_headers"};
  constexpr int not_here = 77;
  const auto set = argc == 4 ? named<InstructionSet>(sets, argv[1]) : std::nullopt;
  const auto content = argc == 4 ? named<Content>(contents, argv[2]) : std::nullopt;
  const auto wanted = argc == 4 ? named<Wanted>(wanteds, argv[3]) : std::nullopt;
  if (!set || !content || !wanted) {
    std::fprintf(
        stderr,
        "usage: %s portable|sse2|avx2|avx512 get_200|headers_800|no_http request_line|host|three_headers\n",
        argv[0]);
    return 2;
  }
  if (!has_instruction_set(*set)) return not_here;
  const FramePool pool(*content, pool_bytes);
  std::vector<std::span<const std::byte>> frames;
  for (std::size_t i = 0; i < pool.size(); ++i) frames.push_back(pool[i]);
  BurstPath path(*wanted, *set);
  // What the dynamic loader looks up in a first burst is nobody's work.
  path(std::span<const std::span<const std::byte>>(frames).first(PlainKeys::most_frames));
  const std::uint64_t sum = counted_work(path, frames);
  // Used, so that the work cannot be left out; and to be compared between instruction sets.
  std::printf("items %zu\nsum %016llx\n", frames.size(), static_cast<unsigned long long>(sum));
  return 0;
}
