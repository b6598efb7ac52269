// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "contender.h"
#include "floor_lines.h"

namespace weir::bench {
namespace {

/// When the lines of bursts to come are asked for.
enum class Asked : std::uint8_t { in_a_row, between };

template <Asked asked, std::size_t ahead>
class Lines final : public Contender {
 public:
  explicit Lines(Workload& workload) : workload_(workload), lines_(workload.keys()) {}

  void decide(Drawn drawn, std::size_t at, std::size_t count) override {
    const Stream& stream = workload_.stream(drawn);
    each_burst(at, count, [&](std::size_t from, std::size_t some) {
      const std::span<const PlainKey> keys = stream.part(from, some);
      const std::span<const PlainKey> next = stream.part(from + ahead * burst, some);
      if constexpr (asked == Asked::in_a_row)
        for (const PlainKey& key : next) lines_.ask_for(key);
      for (std::size_t i = 0; i < some; ++i) {
        if constexpr (asked == Asked::between) lines_.ask_for(next[i]);
        lines_.write(keys[i]);
      }
    });
    requests_ += count;
  }
  void finish(Result&) override { expect_counted(lines_.counted(), requests_); }

 private:
  Workload& workload_;
  FloorLines lines_;
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

std::vector<std::unique_ptr<Contender>> make_floors(Workload& workload) {
  std::vector<std::unique_ptr<Contender>> ways;
  ways.push_back(lines<Asked::in_a_row, 1>(workload));
  ways.push_back(lines<Asked::between, 1>(workload));
  return ways;
}

std::vector<Kind> floor_kinds() {
  const std::vector<Drawn> drawn{Drawn::uniform, Drawn::zipf};
  return {{"floor_in_a_row", drawn, lines<Asked::in_a_row, 1>},
          {"floor_between", drawn, lines<Asked::between, 1>},
          {"floor_far", drawn, lines<Asked::in_a_row, Stream::furthest_ahead>},
          {"floor_far_between", drawn, lines<Asked::between, Stream::furthest_ahead>}};
}

std::vector<std::unique_ptr<Contender>> make_arrays(Workload&) {
  std::vector<std::unique_ptr<Contender>> ways;
  ways.push_back(std::make_unique<Array>());
  return ways;
}

}  // namespace weir::bench
