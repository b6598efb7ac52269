// SPDX-License-Identifier: BSD-3-Clause
#include "store/memory/memory_store.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace weir {
namespace {

std::string counter_name(std::string_view name, Ordinal ordinal) {
  std::string result(name);
  result += ':';
  result += std::to_string(ordinal);
  return result;
}

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::shared_ptr<MemoryCounters> counters) : counters_(std::move(counters)) {}

  void submit(const std::vector<CounterWrite>& writes, MonotonicTime now) override {
    for (const CounterWrite& write : writes) {
      if (write.expires <= now) {
        expired_ += write.delta;
        continue;
      }
      const std::uint64_t total =
          counters_->add(write.name, write.ordinal, write.delta, write.time_to_live, now, write.returned);
      replies_.push_back({.key = write.key,
                          .ordinal = write.ordinal,
                          .delta = write.delta,
                          .total = total,
                          .returned = write.returned,
                          .tag = write.tag});
      applied_ += write.delta;
    }
    if (writes.empty()) return;
    ++batches_;
    if (wake_ && !replies_.empty()) wake_();
  }

  void collect(std::vector<CounterReply>& replies) override {
    replies.insert(replies.end(), replies_.begin(), replies_.end());
    replies_.clear();
  }

  void on_ready(std::function<void()> wake) override { wake_ = std::move(wake); }

  StoreFigures figures() const override {
    StoreFigures figures;
    figures.up = true;
    figures.batches = batches_;
    figures.applied = applied_;
    figures.expired = expired_;
    return figures;
  }

  bool flush(Duration /*patience*/) override { return true; }

 private:
  std::shared_ptr<MemoryCounters> counters_;
  std::vector<CounterReply> replies_;
  std::function<void()> wake_;
  std::uint64_t batches_ = 0;
  std::uint64_t applied_ = 0;
  std::uint64_t expired_ = 0;
};

}  // namespace

std::uint64_t MemoryCounters::add(std::string_view name, Ordinal ordinal, std::uint64_t delta,
                                  Duration time_to_live, MonotonicTime now,
                                  std::uint64_t returned) {
  const std::lock_guard lock(mutex_);
  bury(now);
  std::string full_name = counter_name(name, ordinal);
  if (delta == 0) {
    const auto found = counters_.find(full_name);
    if (found == counters_.end()) return 0;
    found->second.value -= std::min(found->second.value, returned);
    return found->second.value;
  }
  const auto [found, created] = counters_.try_emplace(full_name);
  Counter& counter = found->second;
  if (created) {
    counter.dies = now + time_to_live;
    deaths_.emplace(counter.dies, std::move(full_name));
  }
  const std::uint64_t room = std::numeric_limits<std::uint64_t>::max() - counter.value;
  counter.value += delta < room ? delta : room;
  counter.value -= std::min(counter.value, returned);
  return counter.value;
}

std::uint64_t MemoryCounters::read(std::string_view name, Ordinal ordinal, MonotonicTime now) {
  return add(name, ordinal, 0, {}, now);
}

std::size_t MemoryCounters::size(MonotonicTime now) {
  const std::lock_guard lock(mutex_);
  bury(now);
  return counters_.size();
}

void MemoryCounters::bury(MonotonicTime now) {
  while (!deaths_.empty() && deaths_.top().first <= now) {
    counters_.erase(deaths_.top().second);
    deaths_.pop();
  }
}

std::unique_ptr<Store> make_memory_store(std::shared_ptr<MemoryCounters> counters) {
  return std::make_unique<MemoryStore>(std::move(counters));
}

}  // namespace weir
