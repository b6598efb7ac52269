// SPDX-License-Identifier: BSD-3-Clause
#include "shared/allowance_pool.h"

#include <algorithm>

namespace weir {

std::uint64_t AllowanceCell::draw(std::uint64_t need, std::uint64_t allowance, unsigned chunk_divisor,
                                  std::uint64_t largest_chunk) noexcept {
  std::uint64_t already = drawn.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t remains = left(allowance, static_cast<std::int64_t>(already));
    if (remains < need) return 0;
    // Half of an even part of what remains, and at most a 64th of an even part of the whole: all other
    // workers together never strand more than 1/64 of the allowance, and small limits are drawn one by one.
    const std::uint64_t chunk = std::min({remains / (2 * std::uint64_t{chunk_divisor}),
                                          allowance / (64 * std::uint64_t{chunk_divisor}), largest_chunk});
    const std::uint64_t take = std::max(need, chunk);
    if (drawn.compare_exchange_weak(already, already + take, std::memory_order_relaxed,
                                    std::memory_order_relaxed))
      return take;
  }
}

AllowancePool::AllowancePool(std::uint32_t keys)
    : homes_(std::max<std::size_t>(keys, probe_length) * 2),
      cells_(homes_ + probe_length - 1),
      sketch_(std::max<std::size_t>(keys / 4, 64)) {
  clear();
}

AllowancePool::Place AllowancePool::claim(std::uint64_t key) noexcept {
  const std::size_t first = home(key);
  for (std::size_t i = 0; i < probe_length; ++i) {
    AllowanceCell& cell = cells_[first + i];
    // Relaxed throughout: a cell holds no other memory to be ordered with, and its key changes only once,
    // from free.
    std::uint64_t owner = cell.key.load(std::memory_order_relaxed);
    if (owner == 0 && cell.key.compare_exchange_strong(owner, key, std::memory_order_relaxed))
      return {&cell, true};
    if (owner == key) return {&cell, true};
  }
  return {&shared_cell(key), false};
}

AllowanceCell* AllowancePool::find(std::uint64_t key) noexcept {
  const std::size_t first = home(key);
  for (std::size_t i = 0; i < probe_length; ++i) {
    AllowanceCell& cell = cells_[first + i];
    const std::uint64_t owner = cell.key.load(std::memory_order_relaxed);
    if (owner == key) return &cell;
    if (owner == 0) return nullptr;
  }
  return nullptr;
}

bool AllowancePool::crowded() const noexcept {
  // As many keys as the pool was made for take half of the cells at most.
  constexpr std::size_t sample = 256;
  const std::size_t step = std::max<std::size_t>(homes_ / sample, 1);
  std::size_t seen = 0;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < homes_; i += step, ++seen)
    taken += cells_[i].key.load(std::memory_order_relaxed) != 0;
  return taken * 8 > seen * 3;
}

void AllowancePool::clear() noexcept {
  // Release: who draws from a cleared cell sees the publications from before; see WorkerCore::may_admit().
  std::atomic_thread_fence(std::memory_order_release);
  for (HugeArray<AllowanceCell>* cells : {&cells_, &sketch_})
    for (std::size_t i = 0; i < cells->size(); ++i) {
      AllowanceCell& cell = (*cells)[i];
      cell.key.store(0, std::memory_order_relaxed);
      cell.drawn.store(0, std::memory_order_relaxed);
      cell.refused_at.store(AllowanceCell::no_refusal, std::memory_order_relaxed);
      cell.log.store(0, std::memory_order_relaxed);
    }
}

}  // namespace weir
