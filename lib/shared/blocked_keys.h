// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Keys whose blocks last, and until when.
///
/// The problem: in a flood a million keys are blocked, for a minute or an hour, and a publication is made two
/// or three times a span. To say of each key anew in each of them what has not changed took most of what a
/// span cost the controller. So publications share one such set for as long as nobody comes to it. And in a
/// flood somebody always does: so a set is in two parts. What most keys are in is shared by the sets that
/// follow each other; those that came since are in a small one of each set's own, until there are so many of
/// them that all are brought together anew. Nobody is taken out: an entry whose block has ended says nothing,
/// and is left behind when that is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/huge_allocator.h"
#include "base/key_filter.h"
#include "base/prefetch.h"
#include "weir/time.h"

namespace weir {

/// A key and when its block ends.
struct KeyBlock {
  std::uint64_t key = 0;  ///< keyed hash, not 0
  MonotonicTime until = never;
};

/// Written by the controller before it is published, by nobody while it is.
class BlockedKeys {
 public:
  /// When the key's block ends, if it is in the set; that may have been long ago. Else `never`.
  MonotonicTime find(std::uint64_t key) const noexcept {
    const MonotonicTime until = recent_.find(key);
    return until != never || most_ == nullptr ? until : most_->keys.find(key);
  }
  /// Has what find() reads on its way.
  void prefetch(std::uint64_t key) const noexcept {
    recent_.prefetch(key);
    if (most_ != nullptr) most_->keys.prefetch(key);
  }

  /// Keys in the set, those among them whose blocks have ended; who has come back may be counted twice.
  std::size_t size() const noexcept { return recent_.size() + (most_ != nullptr ? most_->keys.size() : 0); }
  /// Has a filter say yes of all of them, and makes room in it for more.
  void fill(KeyFilter& filter, std::size_t more) const;

  /// Holds those of another set whose blocks end at `from` or later, and more.
  void assign(const BlockedKeys& other, MonotonicTime from, std::span<const KeyBlock> more);
  /// Whether extend() may bring so many more.
  bool has_room(std::size_t more) const noexcept {
    return recent_.size() + more <=
           few + (most_ != nullptr ? most_->keys.size() / least_in_most_per_recent : 0);
  }
  /// Holds those of another set, and more: for a small part of what assign() takes. Of a key that is in it
  /// already the later end holds. @pre other.has_room(more.size())
  void extend(const BlockedKeys& other, std::span<const KeyBlock> more);

  /// Bytes.
  std::size_t memory() const noexcept { return recent_.memory() + (most_ != nullptr ? most_->memory() : 0); }
  /// Bytes, but for those that it shares with another one.
  std::size_t memory_beside(const BlockedKeys& other) const noexcept {
    return most_ == other.most_ ? recent_.memory() : memory();
  }

 private:
  // So few are brought together in no time.
  static constexpr std::size_t few = 1024;
  // To bring all together costs as much as to copy those that came since so many times.
  static constexpr std::size_t least_in_most_per_recent = 16;

  /// Open addressing, at most half full.
  class Table {
   public:
    MonotonicTime find(std::uint64_t key) const noexcept {
      std::size_t i = key & mask_;
      while (entries_[i].key != key && entries_[i].key != free) i = (i + 1) & mask_;
      return entries_[i].until;
    }
    void prefetch(std::uint64_t key) const noexcept { prefetch_to_read(&entries_[key & mask_]); }
    void prefetch_to_add(std::uint64_t key) const noexcept { prefetch_to_write(&entries_[key & mask_]); }
    std::size_t size() const noexcept { return size_; }
    std::size_t capacity() const noexcept { return entries_.size() / 2; }
    /// Empties it. @param keys  how many will be added
    void empty(std::size_t keys);
    /// @pre it was emptied for as many. @return whether it was not in it
    bool add(const KeyBlock& key) noexcept;
    /// Calls visit(const KeyBlock&) for each, in the order of their places; and before that, for each that
    /// comes some places behind, soon(key).
    template <typename Visitor, typename Soon>
    void for_each(Visitor&& visit, Soon&& soon) const {
      for (std::size_t i = 0; i < entries_.size(); ++i) {
        if (const std::size_t next = i + places_ahead; next < entries_.size() && entries_[next].key != free)
          soon(entries_[next].key);
        if (entries_[i].key != free) visit(entries_[i]);
      }
    }
    template <typename Visitor>
    void for_each(Visitor&& visit) const {
      for_each(visit, [](std::uint64_t) {});
    }
    std::size_t memory() const noexcept { return entries_.capacity() * sizeof(KeyBlock); }

   private:
    static constexpr std::uint64_t free = 0;
    static constexpr std::size_t places_ahead = 48;  // a third of them is taken

    std::vector<KeyBlock, HugeAllocator<KeyBlock>> entries_{1};
    std::size_t mask_ = 0;
    std::size_t size_ = 0;
  };
  /// As it is for as long as it is shared.
  struct Most {
    Table keys;
    KeyFilter filter;
    std::size_t memory() const noexcept { return keys.memory() + filter.memory(); }
  };

  std::shared_ptr<Most> most_;
  Table recent_;
};

}  // namespace weir
