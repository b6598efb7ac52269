// SPDX-License-Identifier: BSD-3-Clause
#include "shared/blocked_keys.h"

#include <algorithm>
#include <bit>

namespace weir {
namespace {

// How many keys ahead their places are fetched.
constexpr std::size_t added_ahead = 16;

}  // namespace

void BlockedKeys::Table::empty(std::size_t keys) {
  // A third full at most, so that most keys are where they are looked for first.
  entries_.assign(std::bit_ceil(3 * keys + 1), KeyBlock());
  mask_ = entries_.size() - 1;
  size_ = 0;
}

bool BlockedKeys::Table::add(const KeyBlock& key) noexcept {
  std::size_t i = key.key & mask_;
  while (entries_[i].key != key.key && entries_[i].key != free) i = (i + 1) & mask_;
  const bool is_new = entries_[i].key == free;
  if (is_new) ++size_;
  entries_[i] = {key.key, std::max(key.until, entries_[i].until)};
  return is_new;
}

void BlockedKeys::fill(KeyFilter& filter, std::size_t more) const {
  if (most_ != nullptr)
    filter.assign(most_->filter, recent_.size() + more);
  else
    filter.empty(recent_.size() + more);
  recent_.for_each([&](const KeyBlock& key) { filter.add(key.key); },
                   [&](std::uint64_t key) { filter.prefetch(key); });
}

void BlockedKeys::assign(const BlockedKeys& other, MonotonicTime from, std::span<const KeyBlock> more) {
  std::size_t all = more.size();
  const auto for_each_lasting = [&](auto&& visit) {
    const auto visit_lasting = [&](const KeyBlock& key) {
      if (key.until >= from) visit(key);
    };
    if (other.most_ != nullptr) other.most_->keys.for_each(visit_lasting);
    other.recent_.for_each(visit_lasting);
  };
  for_each_lasting([&](const KeyBlock&) { ++all; });
  // In the memory that this set had, if no other has it: as where many come and go, and all are brought
  // together again and again.
  const auto next = most_.use_count() == 1 && most_ != other.most_ ? most_ : std::make_shared<Most>();
  Table& keys = next->keys;
  keys.empty(all);
  next->filter.empty(keys.capacity());
  const auto add = [&](const KeyBlock& key) {
    if (keys.add(key)) next->filter.add(key.key);
  };
  // Most come in the order of their places, or of some of these, side by side.
  for_each_lasting(add);
  for (std::size_t i = 0; i < more.size(); ++i) {
    if (i + added_ahead < more.size()) {
      keys.prefetch_to_add(more[i + added_ahead].key);
      next->filter.prefetch(more[i + added_ahead].key);
    }
    add(more[i]);
  }
  most_ = next;
  recent_.empty(0);
}

void BlockedKeys::extend(const BlockedKeys& other, std::span<const KeyBlock> more) {
  most_ = other.most_;
  recent_.empty(other.recent_.size() + more.size());
  other.recent_.for_each([&](const KeyBlock& key) { recent_.add(key); });
  for (std::size_t i = 0; i < more.size(); ++i) {
    if (i + added_ahead < more.size() && most_ != nullptr) most_->keys.prefetch(more[i + added_ahead].key);
    recent_.add({more[i].key, std::max(more[i].until, other.find(more[i].key))});
  }
}

}  // namespace weir
