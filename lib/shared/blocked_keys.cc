// SPDX-License-Identifier: BSD-3-Clause
#include "shared/blocked_keys.h"

#include <algorithm>
#include <bit>

namespace weir {

void BlockedKeys::assign(const BlockedKeys& other, MonotonicTime from, std::size_t more) {
  const auto lasting = static_cast<std::size_t>(std::ranges::count_if(
      other.entries_, [&](const Entry& entry) { return entry.key != free && entry.until >= from; }));
  // A third full at most, so that some may come before there is no room again.
  entries_.assign(std::bit_ceil(3 * (lasting + more) + 1), Entry());
  mask_ = entries_.size() - 1;
  size_ = 0;
  filter_.empty(entries_.size() / 2);
  // They come in the order of their places, or of some of these, side by side.
  for (const Entry& entry : other.entries_)
    if (entry.key != free && entry.until >= from) add(entry.key, entry.until);
}

void BlockedKeys::add(std::uint64_t key, MonotonicTime until) noexcept {
  std::size_t i = key & mask_;
  while (entries_[i].key != key && entries_[i].key != free) i = (i + 1) & mask_;
  if (entries_[i].key == free) {
    ++size_;
    filter_.add(key);
  }
  entries_[i] = {key, std::max(until, entries_[i].until)};
}

}  // namespace weir
