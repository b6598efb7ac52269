// SPDX-License-Identifier: BSD-3-Clause
#include "engine/ledger.h"

#include <bit>
#include <cassert>

namespace weir {

Ledger::Ledger(std::uint32_t capacity)
    : slots_(capacity), index_(std::bit_ceil(std::size_t{capacity} * 2)), mask_(index_.size() - 1) {}

Ledger::SlotIndex Ledger::find(std::uint64_t key) const noexcept {
  for (std::size_t i = home(key); index_[i].slot != none; i = (i + 1) & mask_)
    if (index_[i].tag == tag_of(key) && slots_[index_[i].slot].key == key) return index_[i].slot;
  return none;
}

Ledger::SlotIndex Ledger::insert(std::uint64_t key) noexcept {
  assert(key != 0 && find(key) == none);
  SlotIndex slot = free_;
  if (slot != none)
    free_ = slots_[slot].next_free;
  else if (used_ < slots_.size())
    slot = used_++;
  else
    return none;
  std::size_t i = home(key);
  while (index_[i].slot != none) i = (i + 1) & mask_;
  index_[i] = {slot, tag_of(key)};
  slots_[slot].key = key;
  ++size_;
  return slot;
}

void Ledger::erase(SlotIndex slot) noexcept {
  std::size_t hole = home(slots_[slot].key);
  while (index_[hole].slot != slot) hole = (hole + 1) & mask_;
  // Backward shift: no tombstones, so probes stay short however many keys come and go.
  for (std::size_t i = (hole + 1) & mask_; index_[i].slot != none; i = (i + 1) & mask_) {
    const std::size_t wanted = home(slots_[index_[i].slot].key);
    if (((i - wanted) & mask_) >= ((i - hole) & mask_)) {
      index_[hole] = index_[i];
      hole = i;
    }
  }
  index_[hole] = Entry();

  KeySlot& erased = slots_[slot];
  std::string name = std::move(erased.name);
  erased = KeySlot{};
  name.clear();
  erased.name = std::move(name);
  erased.next_free = free_;
  free_ = slot;
  --size_;
}

std::size_t Ledger::memory() const noexcept {
  return slots_.size() * sizeof(KeySlot) + index_.size() * sizeof(Entry);
}

}  // namespace weir
