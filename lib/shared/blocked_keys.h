// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Keys whose blocks last, and until when.
///
/// The problem: in a flood a million keys are blocked, for a minute or an hour, and a publication is made two
/// or three times a span. To say of each key anew in each of them what has not changed took most of what a
/// span cost the controller. So publications share one such set for as long as nobody comes to it; who is
/// blocked anew is added to a copy, which is made from one end to the other: that costs less than to find the
/// places of all keys again. Nobody is taken out: an entry whose block has ended says nothing, and is left
/// behind by assign().
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/huge_allocator.h"
#include "base/key_filter.h"
#include "base/prefetch.h"
#include "weir/time.h"

namespace weir {

/// Written by the controller before it is published, by nobody while it is.
class BlockedKeys {
 public:
  /// When the key's block ends, if it is in the set; that may have been long ago. Else `never`.
  /// @param key  keyed hash, not 0
  MonotonicTime find(std::uint64_t key) const noexcept {
    std::size_t i = key & mask_;
    while (entries_[i].key != key && entries_[i].key != free) i = (i + 1) & mask_;
    return entries_[i].until;
  }
  /// Has what find() reads on its way.
  void prefetch(std::uint64_t key) const noexcept { prefetch_to_read(&entries_[key & mask_]); }

  /// Keys in the set, those among them whose blocks have ended.
  std::size_t size() const noexcept { return size_; }
  /// Says yes of all of them.
  const KeyFilter& filter() const noexcept { return filter_; }
  /// Whether as many may be added.
  bool has_room(std::size_t more) const noexcept { return 2 * (size_ + more) < entries_.size(); }

  /// Holds those of another set whose blocks end at `from` or later, and has room for so many more.
  void assign(const BlockedKeys& other, MonotonicTime from, std::size_t more);
  /// Of a key that is in the set the later one holds. @pre has_room(1)
  void add(std::uint64_t key, MonotonicTime until) noexcept;
  /// For who adds many: has what add() writes on its way.
  void prefetch_to_add(std::uint64_t key) const noexcept {
    prefetch_to_write(&entries_[key & mask_]);
    filter_.prefetch(key);
  }

  /// Bytes.
  std::size_t memory() const noexcept { return entries_.capacity() * sizeof(Entry) + filter_.memory(); }

 private:
  static constexpr std::uint64_t free = 0;
  struct Entry {
    std::uint64_t key = free;
    MonotonicTime until = never;
  };
  using Entries = std::vector<Entry, HugeAllocator<Entry>>;

  Entries entries_ = Entries(1);  // open addressing, at most half full
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
  KeyFilter filter_;
};

}  // namespace weir
