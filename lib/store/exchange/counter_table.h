// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a node knows of the counters of one group: of each its own part, and the sum of the others'.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir {

struct ExchangeCounter {
  std::uint64_t id = 0;  ///< not 0
  std::uint64_t own = 0;
  std::uint64_t others = 0;
};

/// Open addressing, at most half full: 48 to 96 bytes a counter.
class CounterTable {
 public:
  /// @param scatter  odd, and nobody else's: ids that others have written are placed by it
  explicit CounterTable(std::uint64_t scatter) noexcept : scatter_(scatter | 1) {}

  std::size_t size() const noexcept { return size_; }

  /// Valid until the next insert(). @pre id != 0
  ExchangeCounter* find(std::uint64_t id) noexcept {
    if (slots_.empty()) return nullptr;
    ExchangeCounter& slot = slots_[place(id)];
    return slot.id == id ? &slot : nullptr;
  }

  /// The counter, all 0 if it is new. Valid until the next insert(). @pre id != 0
  ExchangeCounter& insert(std::uint64_t id) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    ExchangeCounter& slot = slots_[place(id)];
    if (slot.id == 0) {
      slot.id = id;
      ++size_;
    }
    return slot;
  }

  void clear() noexcept {
    slots_.clear();
    size_ = 0;
  }

  /// In no particular order.
  template <typename Visitor>
  void for_each(Visitor visit) const {
    for (const ExchangeCounter& slot : slots_)
      if (slot.id != 0) visit(slot);
  }

  /// What the others have counted is to be learnt anew.
  void forget_others() noexcept {
    for (ExchangeCounter& slot : slots_) slot.others = 0;
  }

 private:
  static constexpr std::size_t least_slots = 16;

  std::size_t place(std::uint64_t id) const noexcept {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = (id * scatter_ >> 20) & mask;
    while (slots_[at].id != 0 && slots_[at].id != id) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<ExchangeCounter> before(std::max(least_slots, slots_.size() * 2));
    before.swap(slots_);
    for (const ExchangeCounter& slot : before)
      if (slot.id != 0) slots_[place(slot.id)] = slot;
  }

  std::uint64_t scatter_;
  std::vector<ExchangeCounter> slots_;  // a power of two
  std::size_t size_ = 0;
};

}  // namespace weir
