// SPDX-License-Identifier: BSD-3-Clause
#include "store/memory/memory_store.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <span>

namespace weir {
namespace {

HashKey random_key() {
  std::random_device entropy;
  const auto word = [&] { return std::uint64_t{entropy()} << 32 | entropy(); };
  return {word(), word()};
}

constexpr std::size_t fewest_places = 64;

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

MemoryCounters::MemoryCounters() : hash_key_(random_key()) {}

MemoryCounters::Counter& MemoryCounters::Interval::place(const Digest128& name) noexcept {
  const std::size_t mask = counters_.size() - 1;
  for (std::size_t i = name.low & mask;; i = (i + 1) & mask)
    if (counters_[i].name == name || counters_[i].name == Digest128{}) return counters_[i];
}

MemoryCounters::Counter* MemoryCounters::Interval::find(const Digest128& name) noexcept {
  Counter& found = place(name);
  return found.name == name ? &found : nullptr;
}

MemoryCounters::Counter& MemoryCounters::Interval::make(const Digest128& name) {
  if (Counter* const found = find(name); found != nullptr) return *found;
  if (2 * ++used_ > counters_.size()) {
    const std::vector<Counter> before = std::exchange(counters_, std::vector<Counter>(2 * counters_.size()));
    for (const Counter& counter : before)
      if (counter.name != Digest128{}) place(counter.name) = counter;
  }
  Counter& made = place(name);
  made.name = name;
  return made;
}

std::size_t MemoryCounters::Interval::living(MonotonicTime now) const noexcept {
  return static_cast<std::size_t>(std::count_if(
      counters_.begin(), counters_.end(),
      [&](const Counter& counter) { return counter.name != Digest128{} && counter.dies > now; }));
}

MemoryCounters::Counter* MemoryCounters::find(const Id& id, MonotonicTime now) {
  const auto interval = intervals_.find({id.interval, id.ordinal});
  if (interval == intervals_.end()) return nullptr;
  Counter* const found = interval->second.find(digest128(hash_key_, std::as_bytes(std::span(id.name))));
  return found != nullptr && found->dies > now ? found : nullptr;
}

MemoryCounters::Counter& MemoryCounters::living(const Id& id, Duration time_to_live, MonotonicTime now) {
  const IntervalId which{id.interval, id.ordinal};
  auto interval = intervals_.lower_bound(which);
  if (interval == intervals_.end() || interval->first != which) {
    // As many as in the interval before, if there is one: as a rule these are the same keys.
    std::size_t places = fewest_places;
    if (interval != intervals_.begin() && std::prev(interval)->first.first == id.interval)
      places = std::max(places, std::prev(interval)->second.fitting_places());
    interval = intervals_.emplace_hint(interval, which, Interval(places));
  }
  Counter& counter = interval->second.make(digest128(hash_key_, std::as_bytes(std::span(id.name))));
  if (counter.dies <= now) {
    counter.value = 0;
    counter.dies = now + time_to_live;
    interval->second.last_dies = std::max(interval->second.last_dies, counter.dies);
    next_burial_ = std::min(next_burial_, interval->second.last_dies);
  }
  return counter;
}

std::uint64_t MemoryCounters::add(const Id& id, std::uint64_t delta, Duration time_to_live, MonotonicTime now,
                                  std::uint64_t returned) {
  const std::lock_guard lock(mutex_);
  bury(now);
  Counter* const counter = delta == 0 ? find(id, now) : &living(id, time_to_live, now);
  if (counter == nullptr) return 0;
  const std::uint64_t room = std::numeric_limits<std::uint64_t>::max() - counter->value;
  counter->value += delta < room ? delta : room;
  counter->value -= std::min(counter->value, returned);
  return counter->value;
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
  std::size_t size = 0;
  for (const auto& [id, interval] : intervals_) size += interval.living(now);
  return size;
}

// Whole intervals, when their last counter has died. next_burial_ may be early, never late.
void MemoryCounters::bury(MonotonicTime now) {
  if (now < next_burial_) return;
  next_burial_ = MonotonicTime::max();
  std::erase_if(intervals_, [&](const auto& interval) { return interval.second.last_dies <= now; });
  for (const auto& [id, interval] : intervals_) next_burial_ = std::min(next_burial_, interval.last_dies);
}

std::unique_ptr<Store> make_memory_store(std::shared_ptr<MemoryCounters> counters,
                                         std::function<WallTime()> clock) {
  return std::make_unique<MemoryStore>(std::move(counters), std::move(clock));
}

}  // namespace weir
