// SPDX-License-Identifier: BSD-3-Clause
#include "engine/learned_names.h"

#include <algorithm>
#include <new>
#include <utility>

namespace weir {

// A successor begins half full, whichever way it goes. Before it may be left in its turn, so many keys must
// have come or gone that all are long moved: each moves 16 places, so an old table of N places is empty after
// N / 16 of them. By then what has not been moved lies no denser than N / 16 more would make it.

LearnedNames::Learned* LearnedNames::find(std::uint64_t key) noexcept {
  return size_ == 0 ? nullptr : table_of(key).find(key);
}

bool LearnedNames::add(std::uint64_t key, NamePool::Name name) noexcept {
  if (!moving() && size_ + 1 > table_.places() / 4 * 3)
    move_to(std::max(first_places, table_.places() / 2 * 3));
  // Before it is added: so whatever comes round from the last places to where the moving began fills fewer
  // places than have been looked at there, and is not met before its turn.
  if (moving()) move_some();
  // Without memory to grow there still is room for some, and the next one tries again.
  if (size_ + 1 > table_.places() / 8 * 7) return false;
  table_of(key).add({key, name, 1});
  ++size_;
  return true;
}

void LearnedNames::remove(Learned& learned) noexcept {
  table_of(learned.key).remove(learned);
  --size_;
  if (moving())
    move_some();
  else if (size_ < table_.places() / 8 && table_.places() > first_places)
    move_to(std::max(first_places, table_.places() / 4));
}

// Changes nothing where there is no memory.
void LearnedNames::move_to(std::size_t places) noexcept {
  try {
    Table successor(places);
    std::swap(left_, table_);
    std::swap(table_, successor);
  } catch (const std::bad_alloc&) {
    return;
  }
  moved_ = 0;
  begun_ = 0;
  // Not amid keys that lie in a row: the first of them have their homes before all places' end.
  while (moving() && left_[begun_].key != 0) ++begun_;
}

// In the order of their homes, which is the same in both: so what is read and what is written lies in a row.
void LearnedNames::move_some() noexcept {
  const std::size_t all = left_.places();
  const std::size_t before = begun_ + moved_;
  const std::size_t enough = std::min(moved_ + moved_at_once, all);
  std::size_t place = before < all ? before : before - all;
  // As far as keys lie in a row; where those of the last places go on before the first one, beyond all.
  for (; moved_ < enough || left_[place].key != 0; place = left_.next(place)) {
    ++moved_;
    if (left_[place].key != 0) table_.add(std::exchange(left_[place], Learned()));
  }
  if (moved_ >= all) {
    left_ = Table();
    return;
  }
  // What has been looked at a huge page at a time: all of it at once would take long.
  const std::size_t passed = (begun_ + moved_) / released_at_once * released_at_once;
  if (passed <= before || passed > all) return;
  const std::size_t first = passed - released_at_once;
  // Keys of the last places may have come round to the first ones since, in a row without a free place.
  if (first > begun_ && left_[first].key == 0) left_.release(first, passed);
}

void LearnedNames::Table::remove(Learned& learned) noexcept {
  auto hole = static_cast<std::size_t>(&learned - places_.data());
  // Backward shift: no tombstones, so probes stay short however many keys come and go.
  for (std::size_t i = next(hole); places_[i].key != 0; i = next(i)) {
    if (distance(home(places_[i].key), i) < distance(hole, i)) continue;
    places_[hole] = places_[i];
    hole = i;
  }
  places_[hole] = Learned();
}

}  // namespace weir
