// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "base/huge_array.h"
#include "contender.h"

namespace weir::bench {
namespace {

/// When the lines of bursts to come are asked for.
enum class Asked : std::uint8_t { in_a_row, between };

template <Asked asked, std::size_t ahead>
class Lines final : public Contender {
 public:
  explicit Lines(Workload& workload)
      : workload_(workload), lines_(workload.keys() * floor_bytes_per_key / sizeof(Line) + 1) {}

  void decide(Drawn drawn, std::size_t at, std::size_t count) override {
    const Stream& stream = workload_.stream(drawn);
    each_burst(at, count, [&](std::size_t from, std::size_t some) {
      const std::span<const PlainKey> keys = stream.part(from, some);
      const std::span<const PlainKey> next = stream.part(from + ahead * burst, some);
      if constexpr (asked == Asked::in_a_row)
        for (const PlainKey& key : next) __builtin_prefetch(&line_of(key), 1);
      for (std::size_t i = 0; i < some; ++i) {
        if constexpr (asked == Asked::between) __builtin_prefetch(&line_of(next[i]), 1);
        ++line_of(keys[i]).count;
      }
    });
    requests_ += count;
  }
  void finish(Result&) override {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < lines_.size(); ++i) sum += lines_[i].count;
    expect_counted(sum, requests_);
  }

 private:
  struct alignas(64) Line {
    std::uint64_t count = 0;
  };
  Line& line_of(const PlainKey& key) noexcept { return lines_[(key.hash >> 32) * lines_.size() >> 32]; }

  Workload& workload_;
  HugeArray<Line> lines_;
  std::uint64_t requests_ = 0;
};

template <Asked asked, std::size_t ahead>
std::unique_ptr<Contender> lines(Workload& workload) {
  static_assert(ahead <= Stream::furthest_ahead);
  return std::make_unique<Lines<asked, ahead>>(workload);
}

class Array final : public Contender {
 public:
  void decide(Drawn, std::size_t at, std::size_t count) override {
    each_burst(at, count, [&](std::size_t from, std::size_t some) {
      for (std::size_t i = 0; i < some; ++i) {
        // So that the compiler adds one after the other, as requests come.
        asm volatile("" : : "r"(counts_.data()) : "memory");
        ++counts_[(from + i) % counts_.size()];
      }
    });
    requests_ += count;
  }
  void finish(Result&) override {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : counts_) sum += count;
    expect_counted(sum, requests_);
  }

 private:
  std::array<std::uint64_t, 64> counts_{};
  std::uint64_t requests_ = 0;
};

}  // namespace

void expect_counted(std::uint64_t counted, std::uint64_t expected, const char* what) {
  if (counted != expected)
    throw Worthless(std::string(what) + " " + std::to_string(counted) + " of " + std::to_string(expected) +
                    " requests");
}

std::unique_ptr<Contender> make_floor(Workload& workload) { return lines<Asked::in_a_row, 1>(workload); }

std::vector<Kind> floor_kinds() {
  const std::vector<Drawn> drawn{Drawn::uniform, Drawn::zipf};
  return {{"floor_between", drawn, lines<Asked::between, 1>},
          {"floor_far", drawn, lines<Asked::in_a_row, Stream::furthest_ahead>},
          {"floor_far_between", drawn, lines<Asked::between, Stream::furthest_ahead>}};
}

std::unique_ptr<Contender> make_array(Workload&) { return std::make_unique<Array>(); }

}  // namespace weir::bench
