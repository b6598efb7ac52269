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

void AllowanceCell::charge(std::uint64_t weight) noexcept {
  // So much that sums of it and of what is drawn remain far from what the number holds.
  constexpr std::int64_t most = std::int64_t{1} << 62;
  std::uint64_t already = drawn.load(std::memory_order_relaxed);
  const auto charged = [&] {
    const auto before = static_cast<std::int64_t>(already);
    return before >= most ? already : already + std::min(weight, static_cast<std::uint64_t>(most - before));
  };
  while (!drawn.compare_exchange_weak(already, charged(), std::memory_order_relaxed,
                                      std::memory_order_relaxed)) {
  }
}

AllowancePool::AllowancePool(std::uint32_t keys, unsigned workers, unsigned sections)
    : homes_(std::max<std::size_t>(keys, probe_length) * 2),
      keys_(keys),
      section_size_(std::max<std::size_t>(keys / 4 / sections, 64)),
      index_(homes_ + probe_length - 1),
      // What workers have at hand is no key's yet.
      cells_(std::size_t{keys} + keys / 2 + (workers + std::size_t{1}) * at_hand),
      sketch_(sections * section_size_),
      refusals_(keys / 64 + 1),
      at_hand_(workers + std::size_t{1}) {}

AllowancePool::Place AllowancePool::claim_from(std::size_t first, std::uint64_t key, unsigned by,
                                               unsigned section) noexcept {
  for (std::size_t i = first; i < first + probe_length; ++i) {
    Word found = index_[i].load(std::memory_order_relaxed);
    // The controller's comes first: its number is the one before 0.
    if (number_of(found) == free) found = enter(index_[i], found, key, at_hand_[by + 1]);
    const Word number = number_if_of(found, key);
    if (number > shared) continue;
    if (number == shared) break;
    return {&cells_[number - 1], true};
  }
  return {&shared_cell(key, section), false};
}

// @return what the word is then; never free
AllowancePool::Word AllowancePool::enter(std::atomic<Word>& word, Word found, std::uint64_t key,
                                         AtHand& mine) noexcept {
  const bool some = (mine.next < mine.end && mine.turn == found) || take_some(mine);
  // The pool has been cleared in this moment: whoever draws in vain may as well do so from the sketch.
  const Word in_vain = but_for_number(key) | shared;
  if (some && mine.turn != found) return in_vain;
  const Word entered = but_for_number(key) | (some ? mine.next + Word{1} : shared);
  if (!word.compare_exchange_strong(found, entered, std::memory_order_relaxed))
    return number_of(found) == free ? in_vain : found;
  if (some) {
    cells_[mine.next].key.store(key, std::memory_order_relaxed);
    if (++mine.next < mine.end) prefetch_to_write(&cells_[mine.next]);
  }
  return entered;
}

// Sees to it that there are some of the turn that runs. @return whether there are
bool AllowancePool::take_some(AtHand& mine) noexcept {
  Word taken = taken_.load(std::memory_order_relaxed);
  for (;;) {
    const auto used = static_cast<std::uint32_t>(number_of(taken));
    const Word turn = taken - used;
    // It is the word that is of an older turn: the pool is being cleared.
    if (mine.next < mine.end && mine.turn == turn) return true;
    const std::size_t usable = cells_.usable();
    if (used >= usable) return false;
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(at_hand, usable - used));
    if (!taken_.compare_exchange_weak(taken, taken + count, std::memory_order_relaxed)) continue;
    mine = {.turn = turn, .next = used, .end = used + count};
    return true;
  }
}

AllowanceCell* AllowancePool::find(std::uint64_t key) noexcept {
  const std::size_t first = home(key);
  for (std::size_t i = first; i < first + probe_length; ++i) {
    const Word found = index_[i].load(std::memory_order_relaxed);
    if (number_of(found) == free) return nullptr;
    const Word number = number_if_of(found, key);
    if (number <= shared) return number == shared ? nullptr : &cells_[number - 1];
  }
  return nullptr;
}

const AllowanceCell* AllowancePool::foresee(std::uint64_t key, unsigned by, unsigned section) noexcept {
  const std::size_t first = home(key);
  for (std::size_t i = first; i < first + probe_length; ++i) {
    const Word found = index_[i].load(std::memory_order_relaxed);
    if (number_of(found) == free) {
      const AtHand& mine = at_hand_[by + 1];
      const bool has_some = mine.next < mine.end && mine.turn == found;
      return has_some || used() < cells_.usable() ? nullptr : &shared_cell(key, section);
    }
    const Word number = number_if_of(found, key);
    if (names_cell(number)) return &cells_[number - 1];
    if (number == shared) break;
  }
  return &shared_cell(key, section);
}

void AllowancePool::begin() noexcept {
  index_.touch_pages();
  sketch_.touch_pages();
  refusals_.touch_pages();
  cells_.begin_surely(always_ahead);
}

void AllowancePool::provide(std::uint32_t expected) noexcept {
  const std::uint32_t used = this->used();
  const std::size_t come = used - std::min(used, used_before_);
  used_before_ = used;
  cells_.keep(used);
  // Not for more keys than the pool is for, unless they are there.
  const std::size_t to_come = std::max<std::size_t>(
      std::min<std::size_t>(2 * come, keys_ - std::min(keys_, used)), expected - std::min(expected, used));
  cells_.provide_ahead(std::max(to_come, always_ahead));
}

void AllowancePool::clear() noexcept {
  // First: from here on nobody takes a cell in the turn that is over.
  Word taken = taken_.load(std::memory_order_relaxed);
  while (!taken_.compare_exchange_weak(taken, next_turn(taken), std::memory_order_relaxed)) {
  }
  // Release: who draws from a cleared cell sees the publications from before; see WorkerCore::may_admit().
  std::atomic_thread_fence(std::memory_order_release);
  const auto clear = [](AllowanceCell& cell) {
    cell.key.store(0, std::memory_order_relaxed);
    cell.drawn.store(0, std::memory_order_relaxed);
    cell.refused_at.store(AllowanceCell::no_refusal, std::memory_order_relaxed);
    cell.log.store(0, std::memory_order_relaxed);
    cell.reserved_for = 0;
  };
  // Who has stalled may write to a cell of his once more after this. So those of all turns, however few are
  // used by now: else it would lie there until so many keys come again, and be one's of them.
  most_used_ = std::max(most_used_, static_cast<std::uint32_t>(number_of(taken)));
  for (std::size_t i = 0; i < most_used_; ++i) clear(cells_[i]);
  for (std::size_t i = 0; i < sketch_.size(); ++i) clear(sketch_[i]);
  for (std::size_t i = 0; i < refusals_.size(); ++i) refusals_[i].store(0, std::memory_order_relaxed);
  // Last, for who has stalled in here: what he enters has been cleared. (All others hear of the pool through
  // a publication that comes after this.)
  for (std::size_t i = 0; i < index_.size(); ++i)
    index_[i].store(next_turn(taken), std::memory_order_relaxed);
  used_before_ = 0;
  cells_.keep(0);
  cells_.gather();
}

}  // namespace weir
