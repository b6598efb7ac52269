// SPDX-License-Identifier: BSD-3-Clause
#include "engine/learned_names.h"

#include <algorithm>
#include <utility>

namespace weir {

LearnedNames::Learned* LearnedNames::find(std::uint64_t key) noexcept {
  if (size_ == 0) return nullptr;
  for (std::size_t i = home(key); places_[i].key != 0; i = next(i))
    if (places_[i].key == key) return &places_[i];
  return nullptr;
}

void LearnedNames::add(std::uint64_t key, NamePool::Name name) {
  if (size_ + 1 > places_.size() / 4 * 3) grow();
  std::size_t i = home(key);
  while (places_[i].key != 0) i = next(i);
  places_[i] = {key, name, 1};
  ++size_;
}

// By half: of what is there at least a third is used later on.
void LearnedNames::grow() {
  HugeArray<Learned> larger(std::max(first_places, places_.size() / 2 * 3));
  std::swap(places_, larger);
  // In the order of their homes, which is the same: so what is read and what is written lies in a row.
  for (std::size_t from = 0; from < larger.size(); ++from) {
    if (larger[from].key == 0) continue;
    std::size_t i = home(larger[from].key);
    while (places_[i].key != 0) i = next(i);
    places_[i] = larger[from];
  }
}

void LearnedNames::remove(Learned& learned) noexcept {
  auto hole = static_cast<std::size_t>(&learned - places_.data());
  // Backward shift: no tombstones, so probes stay short however many keys come and go.
  for (std::size_t i = next(hole); places_[i].key != 0; i = next(i)) {
    if (distance(home(places_[i].key), i) < distance(hole, i)) continue;
    places_[hole] = places_[i];
    hole = i;
  }
  places_[hole] = Learned();
  --size_;
}

}  // namespace weir
