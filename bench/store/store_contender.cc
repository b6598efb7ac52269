// SPDX-License-Identifier: BSD-3-Clause
#include <chrono>

#include "contender.h"
#include "counter_sums.h"
#include "store_driver.h"

namespace weir::bench {
namespace {

constexpr const char* prefix = "weir-bench";

class StoreContender final : public Contender {
 public:
  StoreContender(RedisServer& server, StoreLayout layout)
      : server_(server), layout_(layout), driver_(server.address(), layout, prefix) {}

  std::string_view name() const override {
    return layout_ == StoreLayout::hash ? "weir, hash" : "weir, plain";
  }
  std::string_view description() const override {
    return layout_ == StoreLayout::hash ? "weir's store, layout \"hash\": exactly once, with TTL"
                                        : "weir's store, layout \"plain\": interoperable names, with TTL";
  }

  Pass synchronise(const KeySet& keys, Interval interval) override {
    driver_.prepare(keys, interval.ordinal);
    const auto begin = std::chrono::steady_clock::now();
    const Duration thread = thread_cpu();
    const Duration process = process_cpu();
    driver_.submit();
    driver_.collect();
    Pass pass{.keys = keys.size()};
    pass.wall = std::chrono::steady_clock::now() - begin;
    pass.caller_cpu = thread_cpu() - thread;
    pass.other_cpu = process_cpu() - process - pass.caller_cpu;
    driver_.check(keys, interval.pass);
    return pass;
  }

  void check(const KeySet& keys, Interval last) override {
    expect_sum(name(),
               layout_ == StoreLayout::hash
                   ? sum_of_hashes(server_.client(), prefix, interval_length, last.ordinal)
                   : sum_of_strings(server_.client(), keys, last.ordinal),
               keys.sum * last.pass);
  }

 private:
  RedisServer& server_;
  StoreLayout layout_;
  StoreDriver driver_;
};

}  // namespace

std::unique_ptr<Contender> make_store_contender(RedisServer& server, StoreLayout layout) {
  return std::make_unique<StoreContender>(server, layout);
}

}  // namespace weir::bench
