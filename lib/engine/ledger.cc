// SPDX-License-Identifier: BSD-3-Clause
#include "engine/ledger.h"
#include "base/prefetch.h"

#include <cassert>
#include <cstddef>
#include <utility>

namespace weir {

static_assert(sizeof(KeySlot) + sizeof(KeyPast) + 3 * sizeof(std::uint64_t) / 2 <= 128);

Ledger::Ledger(std::uint32_t capacity)
    : capacity_(capacity),
      slots_(capacity),
      pasts_(capacity),
      index_(entries_of(capacity)),
      details_(1, capacity),
      spans_(capacity) {}

SlotIndex Ledger::find(std::uint64_t key) const noexcept {
  for (std::size_t i = home(key); !index_[i].is_free(); i = next(i))
    if (index_[i].tag == tag_of(key) && slots_[index_[i].slot()].key == key) return index_[i].slot();
  return none;
}

void Ledger::prefetch_detail(SlotIndex slot) const noexcept {
  if (slots_[slot].detail == no_index) return;
  const KeyDetail& detail = detail_at(slots_[slot].detail);
  // Every other detail begins in the middle of a line.
  const auto begin = reinterpret_cast<std::uintptr_t>(&detail);
  const auto* const end = reinterpret_cast<const std::byte*>(&detail.last_counted);
  for (const auto* line = reinterpret_cast<const std::byte*>(&detail) - begin % 64; line < end; line += 64)
    prefetch_to_write(line);
}

SlotIndex Ledger::insert(std::uint64_t key, std::string_view name, std::uint32_t nodes) {
  assert(key != 0 && find(key) == none);
  SlotIndex slot = free_;
  if (slot != none) {
    free_ = pasts_[slot].name;
  } else if (end_ < capacity_) {
    slot = end_++;
    slots_[slot] = KeySlot();
    pasts_[slot] = KeyPast();
  } else {
    return none;
  }
  std::size_t i = home(key);
  while (!index_[i].is_free()) i = next(i);
  index_[i] = {slot + 1, tag_of(key)};
  slots_[slot].key = key;
  pasts_[slot].first_nodes = nodes & most_nodes;
  const LearnedNames::Learned* const learned = learned_.find(key);
  pasts_[slot].has_learned_name = learned != nullptr;
  pasts_[slot].name = learned != nullptr ? learned->name : names_.add(name);
  ++size_;
  ++inserted_;
  return slot;
}

void Ledger::erase(SlotIndex slot) {
  std::size_t hole = home(slots_[slot].key);
  while (index_[hole].slot() != slot) hole = next(hole);
  // Backward shift: no tombstones, so probes stay short however many keys come and go.
  for (std::size_t i = next(hole); !index_[i].is_free(); i = next(i)) {
    const std::size_t wanted = home_of(index_[i].tag);
    if (distance(wanted, i) >= distance(hole, i)) {
      index_[hole] = index_[i];
      hole = i;
    }
  }
  index_[hole] = Entry();

  KeySlot& erased = slots_[slot];
  if (erased.detail != no_index) free_detail(erased.detail);
  if (!pasts_[slot].has_learned_name) erased_names_.push_back(pasts_[slot].name);
  pasts_[slot] = KeyPast();
  erased = KeySlot();
  pasts_[slot].name = free_;
  free_ = slot;
  --size_;
}

void Ledger::release_names() noexcept {
  for (const NamePool::Name name : erased_names_) names_.remove(name);
  erased_names_.clear();
}

void Ledger::learn(std::uint64_t key, std::string_view name) {
  if (LearnedNames::Learned* const known = learned_.find(key); known != nullptr) {
    ++known->holders;
    return;
  }
  const NamePool::Name added = names_.add(name);
  if (!learned_.add(key, added)) names_.remove(added);
}

void Ledger::unlearn(std::uint64_t key) {
  LearnedNames::Learned* const learned = learned_.find(key);
  if (learned == nullptr || --learned->holders > 0) return;
  // A slot that has this name keeps it, as its own.
  const SlotIndex slot = find(key);
  if (slot != none && pasts_[slot].has_learned_name)
    pasts_[slot].has_learned_name = false;
  else
    erased_names_.push_back(learned->name);
  learned_.remove(*learned);
}

KeyDetail& Ledger::make_detail(KeySlot& slot) {
  slot.detail = free_detail_ != no_index ? std::exchange(free_detail_, detail_at(free_detail_).next_free)
                                         : static_cast<std::uint32_t>(details_.add());
  KeyDetail& made = detail_at(slot.detail);
  const KeyPast& past = this->past(slot);
  made.demand.begin(past.first_nodes);
  for (std::size_t i = 0; i < 2; ++i) made.counted[i] = {past.alone[i], past.alone[i]};
  return made;
}

void Ledger::free_detail(std::uint32_t index) noexcept {
  KeyDetail& detail = detail_at(index);
  spans_.give_back(detail.spans);
  detail = KeyDetail();
  detail.next_free = std::exchange(free_detail_, index);
}

void Ledger::drop_detail(KeySlot& slot) noexcept {
  if (slot.detail == no_index) return;
  const KeyDetail& detail = detail_at(slot.detail);
  past(slot).alone = {detail.counted[0].acknowledged, detail.counted[1].acknowledged};
  slot.own_since_heard = 0;  // that is among them
  free_detail(std::exchange(slot.detail, no_index));
}

std::size_t Ledger::memory() const noexcept {
  return std::size_t{capacity_} * (sizeof(KeySlot) + sizeof(KeyPast)) + index_.size() * sizeof(Entry) +
         names_.memory() + learned_.memory() + details_.memory() + spans_.memory();
}

}  // namespace weir
