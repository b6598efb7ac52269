// SPDX-License-Identifier: BSD-3-Clause
#include "store/memory/memory_store.h"

#include <algorithm>
#include <array>
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
// Counters lie at random, so those of so many writes are fetched at once.
constexpr std::size_t applied_together = 32;
// Memory that is kept for intervals to come: of one for each length that is in use, as a rule.
constexpr std::size_t most_left = 4;

class MemoryStore final : public Store {
 public:
  MemoryStore(std::shared_ptr<MemoryCounters> counters, std::function<WallTime()> clock)
      : counters_(std::move(counters)), clock_(std::move(clock)) {}

  void submit(const std::vector<CounterWrite>& writes, MonotonicTime now) override {
    std::array<const CounterWrite*, applied_together> some;
    std::array<std::uint64_t, applied_together> totals;
    std::size_t count = 0;
    const auto apply_some = [&] {
      counters_->apply(std::span(some).first(count), totals, now);
      for (std::size_t i = 0; i < count; ++i) {
        const CounterWrite& write = *some[i];
        replies_.push_back({.key = write.key,
                            .ordinal = write.ordinal,
                            .delta = write.delta,
                            .total = totals[i],
                            .returned = write.returned,
                            .tag = write.tag});
        if (!write.weightless) applied_ += write.delta;
      }
      count = 0;
    };
    for (const CounterWrite& write : writes) {
      if (write.expires <= now) {
        if (!write.weightless) expired_ += write.delta;
        continue;
      }
      some[count++] = &write;
      if (count == some.size()) apply_some();
    }
    apply_some();
    if (writes.empty()) return;
    ++batches_;
    if (clock_) time_ = {.asked = now, .answered = now, .wall = clock_(), .number = batches_};
    if (wake_ && !replies_.empty()) wake_();
  }

  void collect(std::vector<CounterReply>& replies) override {
    if (replies.empty()) return replies.swap(replies_);
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
  for (std::size_t i = home(name);; i = i + 1 == counters_.size() ? 0 : i + 1)
    if (is_free(counters_[i]) || counters_[i].name == name) return counters_[i];
}

MemoryCounters::Counter* MemoryCounters::Interval::find(const Digest128& name) noexcept {
  Counter& found = place(name);
  return is_free(found) ? nullptr : &found;
}

// What it gives back must be given a life at once: until then its place is free.
MemoryCounters::Counter& MemoryCounters::Interval::make(const Digest128& name) {
  if (Counter& found = place(name); !is_free(found)) return found;
  if (3 * ++used_ > 2 * counters_.size()) {
    const HugeArray<Counter> before = std::exchange(counters_, HugeArray<Counter>(2 * counters_.size()));
    for (std::size_t i = 0; i < before.size(); ++i)
      if (!is_free(before[i])) place(before[i].name) = before[i];
  }
  return place(name) = {.name = name, .value = 0, .dies = Death()};
}

std::size_t MemoryCounters::Interval::living(Death now) const noexcept {
  return static_cast<std::size_t>(
      std::count_if(counters_.data(), counters_.data() + counters_.size(),
                    [&](const Counter& counter) { return !is_free(counter) && counter.dies > now; }));
}

Digest128 MemoryCounters::digest(std::string_view name) const noexcept {
  return digest128(hash_key_, std::as_bytes(std::span(name)));
}

MemoryCounters::Interval* MemoryCounters::find(const IntervalId& id) noexcept {
  const auto found = intervals_.find(id);
  return found == intervals_.end() ? nullptr : &found->second;
}

MemoryCounters::Interval& MemoryCounters::make(const IntervalId& id) {
  auto interval = intervals_.lower_bound(id);
  if (interval == intervals_.end() || interval->first != id) {
    // As many as in the fullest of those before, if there are any: as a rule these are the same keys, but of
    // the latest interval most may still be kept back by the nodes.
    std::size_t places = fewest_places;
    for (auto before = interval; before != intervals_.begin() && (--before)->first.first == id.first;)
      places = std::max(places, before->second.fitting_places());
    const auto fits = [&](const Ground& ground) {
      return ground.counters.size() >= places && ground.counters.size() <= 2 * places;
    };
    Ground ground;
    if (const auto left = std::find_if(left_.begin(), left_.end(), fits); left != left_.end()) {
      ground = std::move(*left);
      left_.erase(left);
    } else {
      ground.counters = HugeArray<Counter>(places);
    }
    interval = intervals_.emplace_hint(interval, id, Interval(std::move(ground)));
  }
  return interval->second;
}

MemoryCounters::Counter& MemoryCounters::living(Interval& interval, const Digest128& name,
                                                Duration time_to_live, MonotonicTime now) {
  Counter& counter = interval.make(name);
  if (counter.dies <= Death(now)) {
    counter.value = 0;
    counter.dies = Death(now + time_to_live);
    interval.last_dies = std::max(interval.last_dies, counter.dies);
    next_burial_ = std::min(next_burial_, interval.last_dies);
  }
  return counter;
}

void MemoryCounters::apply(std::span<const CounterWrite* const> writes, std::span<std::uint64_t> totals,
                           MonotonicTime now) {
  const std::lock_guard lock(mutex_);
  bury(Death(now));
  struct Place {
    Interval* interval;  // nullptr: there is none, and nothing is made by reading
    Digest128 name;
  };
  std::array<Place, applied_together> places;
  while (!writes.empty()) {
    const std::size_t count = std::min(writes.size(), places.size());
    for (std::size_t i = 0; i < count; ++i) {
      const CounterWrite& write = *writes[i];
      const CounterWrite& before = *writes[i == 0 ? 0 : i - 1];
      const bool makes = write.delta > 0 || write.raised_to > 0;
      // Those of one interval come together, as a rule.
      const bool same = i > 0 && places[i - 1].interval != nullptr && write.interval == before.interval &&
                        write.ordinal == before.ordinal;
      const IntervalId id{write.interval, write.ordinal};
      places[i] = {same ? places[i - 1].interval : makes ? &make(id) : find(id), digest(write.name)};
      if (places[i].interval != nullptr) places[i].interval->prefetch(places[i].name);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const CounterWrite& write = *writes[i];
      Interval* interval = places[i].interval;
      // Made by a write before this one.
      if (interval == nullptr) interval = find({write.interval, write.ordinal});
      Counter* counter = nullptr;
      if (write.delta > 0 || write.raised_to > 0) {
        counter = &living(*interval, places[i].name, write.time_to_live, now);
      } else if (interval != nullptr) {
        counter = interval->find(places[i].name);
        if (counter != nullptr && counter->dies <= Death(now)) counter = nullptr;
      }
      totals[i] = 0;
      if (counter == nullptr) continue;
      if (write.raised_to > 0) {
        counter->value = std::max(counter->value, write.raised_to);
      } else {
        const std::uint64_t room = std::numeric_limits<std::uint64_t>::max() - counter->value;
        counter->value += std::min(write.delta, room);
        counter->value -= std::min(counter->value, write.returned);
      }
      totals[i] = counter->value;
    }
    writes = writes.subspan(count);
    totals = totals.subspan(count);
  }
}

std::uint64_t MemoryCounters::add(const Id& id, std::uint64_t delta, Duration time_to_live, MonotonicTime now,
                                  std::uint64_t returned) {
  const CounterWrite write{.name = id.name,
                           .ordinal = id.ordinal,
                           .interval = id.interval,
                           .delta = delta,
                           .time_to_live = time_to_live,
                           .returned = returned};
  return apply(write, now);
}

std::uint64_t MemoryCounters::raise(const Id& id, std::uint64_t to, Duration time_to_live,
                                    MonotonicTime now) {
  const CounterWrite write{.name = id.name,
                           .ordinal = id.ordinal,
                           .interval = id.interval,
                           .time_to_live = time_to_live,
                           .raised_to = to};
  return apply(write, now);
}

std::uint64_t MemoryCounters::apply(const CounterWrite& write, MonotonicTime now) {
  const CounterWrite* const one = &write;
  std::uint64_t total = 0;
  apply(std::span(&one, 1), std::span(&total, 1), now);
  return total;
}

std::uint64_t MemoryCounters::read(const Id& id, MonotonicTime now) { return add(id, 0, {}, now); }

std::size_t MemoryCounters::size(MonotonicTime now) {
  const std::lock_guard lock(mutex_);
  bury(Death(now));
  std::size_t size = 0;
  for (const auto& [id, interval] : intervals_) size += interval.living(Death(now));
  return size;
}

// Whole intervals, when their last counter has died. next_burial_ may be early, never late.
void MemoryCounters::bury(Death now) {
  if (now < next_burial_) return;
  next_burial_ = Death(MonotonicTime::max());
  for (auto interval = intervals_.begin(); interval != intervals_.end();) {
    if (interval->second.last_dies > now) {
      ++interval;
      continue;
    }
    if (left_.size() == most_left) left_.erase(left_.begin());
    left_.push_back(interval->second.leave());
    interval = intervals_.erase(interval);
  }
  for (const auto& [id, interval] : intervals_) next_burial_ = std::min(next_burial_, interval.last_dies);
}

std::unique_ptr<Store> make_memory_store(std::shared_ptr<MemoryCounters> counters,
                                         std::function<WallTime()> clock) {
  return std::make_unique<MemoryStore>(std::move(counters), std::move(clock));
}

}  // namespace weir
