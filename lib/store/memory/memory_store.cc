// SPDX-License-Identifier: BSD-3-Clause
#include "store/memory/memory_store.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace weir {
namespace {

std::string counter_name(const MemoryCounters::Id& id) {
  std::string result(id.name);
  result += ':';
  result += std::to_string(id.interval.count());
  result += ':';
  result += std::to_string(id.ordinal);
  return result;
}

class MemoryStore final : public Store {
 public:
  MemoryStore(std::shared_ptr<MemoryCounters> counters, std::function<WallTime()> clock)
      : counters_(std::move(counters)), clock_(std::move(clock)) {}

  void submit(const std::vector<CounterWrite>& writes, MonotonicTime now) override {
    for (const CounterWrite& write : writes) {
      if (write.expires <= now) {
        if (!write.weightless) expired_ += write.delta;
        continue;
      }
      const MemoryCounters::Id id{write.name, write.interval, write.ordinal};
      const std::uint64_t total =
          write.raised_to > 0 ? counters_->raise(id, write.raised_to, write.time_to_live, now)
                              : counters_->add(id, write.delta, write.time_to_live, now, write.returned);
      replies_.push_back({.key = write.key,
                          .ordinal = write.ordinal,
                          .delta = write.delta,
                          .total = total,
                          .returned = write.returned,
                          .tag = write.tag});
      if (!write.weightless) applied_ += write.delta;
    }
    if (writes.empty()) return;
    ++batches_;
    if (clock_) time_ = {.asked = now, .answered = now, .wall = clock_(), .number = batches_};
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

  std::optional<StoreTime> time() const override {
    return time_.number > 0 ? std::optional(time_) : std::nullopt;
  }

  bool flush(Duration /*patience*/) override { return true; }

 private:
  std::shared_ptr<MemoryCounters> counters_;
  std::function<WallTime()> clock_;
  std::vector<CounterReply> replies_;
  std::function<void()> wake_;
  StoreTime time_;
  std::uint64_t batches_ = 0;
  std::uint64_t applied_ = 0;
  std::uint64_t expired_ = 0;
};

}  // namespace

MemoryCounters::Counter& MemoryCounters::living(const Id& id, Duration time_to_live, MonotonicTime now) {
  std::string name = counter_name(id);
  const auto [found, created] = counters_.try_emplace(name);
  if (created) {
    found->second.dies = now + time_to_live;
    deaths_.emplace(found->second.dies, std::move(name));
  }
  return found->second;
}

std::uint64_t MemoryCounters::add(const Id& id, std::uint64_t delta, Duration time_to_live, MonotonicTime now,
                                  std::uint64_t returned) {
  const std::lock_guard lock(mutex_);
  bury(now);
  if (delta == 0) {
    const auto found = counters_.find(counter_name(id));
    if (found == counters_.end()) return 0;
    found->second.value -= std::min(found->second.value, returned);
    return found->second.value;
  }
  Counter& counter = living(id, time_to_live, now);
  const std::uint64_t room = std::numeric_limits<std::uint64_t>::max() - counter.value;
  counter.value += delta < room ? delta : room;
  counter.value -= std::min(counter.value, returned);
  return counter.value;
}

std::uint64_t MemoryCounters::raise(const Id& id, std::uint64_t to, Duration time_to_live,
                                    MonotonicTime now) {
  const std::lock_guard lock(mutex_);
  bury(now);
  Counter& counter = living(id, time_to_live, now);
  counter.value = std::max(counter.value, to);
  return counter.value;
}

std::uint64_t MemoryCounters::read(const Id& id, MonotonicTime now) { return add(id, 0, {}, now); }

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

std::unique_ptr<Store> make_memory_store(std::shared_ptr<MemoryCounters> counters,
                                         std::function<WallTime()> clock) {
  return std::make_unique<MemoryStore>(std::move(counters), std::move(clock));
}

}  // namespace weir
