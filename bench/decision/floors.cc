// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "base/huge_array.h"
#include "contender.h"

namespace weir::bench {
namespace {

class Lines final : public Contender {
 public:
  Lines(Workload& workload, double bytes_per_key)
      : workload_(workload),
        lines_(static_cast<std::size_t>(static_cast<double>(workload.keys()) * bytes_per_key / sizeof(Line)) +
               1) {}

  void decide(Drawn drawn, std::size_t at, std::size_t count) override {
    const Stream& stream = workload_.stream(drawn);
    each_burst(at, count, [&](std::size_t from, std::size_t some) {
      for (const PlainKey& key : stream.part(from + some, some)) __builtin_prefetch(&line_of(key), 1);
      for (const PlainKey& key : stream.part(from, some)) ++line_of(key).count;
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

std::unique_ptr<Contender> make_floor(Workload& workload, double bytes_per_key) {
  return std::make_unique<Lines>(workload, bytes_per_key);
}

std::unique_ptr<Contender> make_array(Workload&) { return std::make_unique<Array>(); }

}  // namespace weir::bench
