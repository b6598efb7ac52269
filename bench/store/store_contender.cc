// SPDX-License-Identifier: BSD-3-Clause
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "contender.h"
#include "counter_sums.h"
#include "store_driver.h"

namespace weir::bench {
namespace {

constexpr const char* prefix = "weir-bench";

class StoreContender final : public Contender {
 public:
  StoreContender(RedisServer& server, StoreLayout layout, std::size_t nodes)
      : server_(server), layout_(layout), name_(to_string(layout)) {
    for (std::size_t i = 0; i < nodes; ++i)
      drivers_.push_back(std::make_unique<StoreDriver>(server.address(), layout, prefix));
    if (nodes > 1) name_ += " x " + std::to_string(nodes);
    description_ = "weir's store, layout \"" + std::string(to_string(layout)) + '"';
    if (nodes > 1) description_ += ", " + std::to_string(nodes) + " nodes that all have all the keys";
  }

  std::string_view name() const override { return name_; }
  std::string_view description() const override { return description_; }

  Pass synchronise(const KeySet& keys, Interval interval) override {
    for (const auto& driver : drivers_) driver->prepare(keys, interval.ordinal);
    const auto begin = std::chrono::steady_clock::now();
    const Duration thread = thread_cpu();
    const Duration process = process_cpu();
    for (const auto& driver : drivers_) driver->submit();
    for (const auto& driver : drivers_) driver->collect();
    Pass pass{.keys = keys.size() * drivers_.size()};
    pass.wall = std::chrono::steady_clock::now() - begin;
    pass.caller_cpu = thread_cpu() - thread;
    pass.other_cpu = process_cpu() - process - pass.caller_cpu;
    // What the others have added by then is a matter of chance.
    for (const auto& driver : drivers_)
      driver->check(keys, drivers_.size() * (interval.pass - 1) + 1, drivers_.size() * interval.pass);
    return pass;
  }

  void check(const KeySet& keys, Interval last) override {
    expect_sum(name(), sum_of(layout_, server_.client(), prefix, keys, interval_length, last.ordinal),
               keys.sum * last.pass * drivers_.size());
  }

 private:
  RedisServer& server_;
  StoreLayout layout_;
  std::string name_;
  std::string description_;
  std::vector<std::unique_ptr<StoreDriver>> drivers_;
};

}  // namespace

std::unique_ptr<Contender> make_store_contender(RedisServer& server, StoreLayout layout, std::size_t nodes) {
  return std::make_unique<StoreContender>(server, layout, nodes);
}

}  // namespace weir::bench
